//! The admin API: scopes, listed, inspected and reset.
//!
//! Who may ask is the admin listener's business. A name is that of a key or of a prefix, as for a
//! claim; but a scope that is not fenced any more can be looked at and reset as well.

use serde_json::{Map, Value, json};

use super::amend::NotAmended;
use super::lease::ShownLease;
use super::scopes::HINT_LIFE;
use super::{Proxy, respond};
use crate::admin::{AdminApi, AdminError, Page, ResetDone, ResetOrder};
use crate::fence::reset::{self, NoReset, Order};
use crate::fence::{
    Action, Compare, Intent, LockMode, Mode, Record, Reset, Snapshot, StoreTime, Tag, Token,
};
use crate::policy::{Per, Place};
use crate::s3::{Bucket, S3Error, percent_encode_key};
use crate::scope::{Extent, Scope};

#[async_trait::async_trait]
impl AdminApi for Proxy {
    async fn list(&self, page: &Page) -> Result<Value, AdminError> {
        let max = usize::try_from(page.max).unwrap_or(usize::MAX);
        let listed = self.0.ledger.scopes(page.bucket.as_ref(), page.after.as_deref(), max).await;
        let listed = listed.map_err(|error| {
            tracing::warn!(%error, "the scopes cannot be listed");
            told(respond::unavailable(), None)
        })?;
        let scopes: Vec<Value> =
            listed.scopes.iter().map(|(scope, snapshot)| summary(scope, snapshot)).collect();
        Ok(json!({ "scopes": scopes, "next": listed.next }))
    }

    async fn inspect(&self, bucket: &Bucket, path: &[u8]) -> Result<Value, AdminError> {
        let place = self.administered(bucket, path)?;
        let slot = self.0.scopes.slot(&place.scope);
        let learnt = self.learn(&place.scope, &slot).await;
        let Snapshot { record, time, .. } = learnt.map_err(|error| told(error, None))?;
        let rule = self.0.settings.policy.rule_of(bucket, &place.key);
        Ok(json!({
            "scope": place.scope.to_string(),
            "mode": mode(place.fencing.mode),
            "compare": compare(place.fencing.compare),
            "per": rule.map_or(Per::Object, |rule| rule.per).to_string(),
            "record": record.as_ref().map(|record| shown(record, time)),
            "store_time": time.map(|time| time.0),
        }))
    }

    async fn reset(
        &self,
        bucket: &Bucket,
        path: &[u8],
        order: &ResetOrder,
    ) -> Result<ResetDone, AdminError> {
        let place = self.administered(bucket, path)?;
        let slot = self.0.scopes.slot(&place.scope);
        let order = Order {
            to: order.to,
            force: order.force,
            by: order.by.clone(),
            reason: order.reason.clone(),
        };
        let change = |snapshot: &Snapshot| {
            let next = reset::reset(snapshot, &order)?;
            let done = ResetDone {
                scope: place.scope.to_string(),
                from: snapshot.highest().map(Token::get),
                to: next.token.get(),
                resets: next.resets.count,
            };
            Ok((Some(next), done))
        };
        match self.amend(&place.scope, &slot, change).await {
            Ok(done) => {
                // Whoever waits for a lease that is nobody's any more.
                slot.announce_release();
                if done.from.is_some_and(|from| done.to < from) {
                    // So long other proxies may go by what they have seen before; the new holder
                    // is not sent to them too early.
                    tokio::time::sleep(HINT_LIFE).await;
                }
                Ok(done)
            }
            Err(NotAmended::No(why)) => Err(refused(&place.scope, why)),
            Err(NotAmended::Unavailable) => Err(told(respond::reset_unknown(), None)),
            Err(NotAmended::LostRaces) => Err(told(respond::lease_contended(), None)),
        }
    }
}

impl Proxy {
    /// The scope that a name is in, fenced or not.
    fn administered(&self, bucket: &Bucket, path: &[u8]) -> Result<Place, AdminError> {
        if *bucket == self.0.settings.ledger_bucket {
            return Err(told(respond::ledger_bucket(bucket), None));
        }
        self.any_place_named(bucket, path).map_err(|error| told(error, None))
    }
}

fn refused(scope: &Scope, why: NoReset) -> AdminError {
    match why {
        NoReset::WouldLower(highest) => {
            told(respond::reset_lowers(scope, highest), Some(highest.get()))
        }
        NoReset::NoRecord => told(respond::nothing_to_reset(scope), None),
        NoReset::OperationsOpen => told(respond::reset_below_open(scope), None),
        NoReset::TimeUnknown => told(respond::unavailable(), None),
    }
}

/// An error of the data port's, told on the admin port.
fn told(error: S3Error, highest: Option<u64>) -> AdminError {
    let S3Error { status, code, message, .. } = error;
    AdminError { status, code, message, highest }
}

fn summary(scope: &Scope, snapshot: &Snapshot) -> Value {
    let mut document = Map::new();
    let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
    put("scope", scope.to_string().into());
    put("bucket", scope.bucket.as_str().into());
    let name = match scope.extent {
        Extent::Object(_) => "key",
        Extent::Prefix(_) => "prefix",
    };
    put(name, percent_encode_key(scope.bytes()).into());
    put("token", snapshot.highest().map(|token| token.to_string()).into());
    put("intents", snapshot.intents().len().into());
    let lease = snapshot.record.as_ref().and_then(|record| ShownLease::of(record, snapshot.time));
    put("lease", json!(lease));
    document.into()
}

fn shown(record: &Record, now: Option<StoreTime>) -> Value {
    let lock = record.bearer.lock.as_ref().map(|lock| {
        let mode = match lock.mode {
            LockMode::Exclusive => "exclusive",
            LockMode::Shared => "shared",
        };
        json!({ "name": lock.name, "mode": mode })
    });
    json!({
        "token": record.token.to_string(),
        "issued": record.leasing.issued.map(|token| token.to_string()),
        "lock": lock,
        "holder": record.bearer.holder,
        "resets": record.resets.count,
        "last_reset": record.resets.last.as_deref().map(shown_reset),
        "intents": record.intents.iter().map(shown_intent).collect::<Vec<_>>(),
        "lease": ShownLease::of(record, now),
    })
}

fn shown_reset(reset: &Reset) -> Value {
    json!({
        "by": reset.by,
        "reason": reset.reason,
        "from": reset.from.to_string(),
        "to": reset.to.to_string(),
        "at": reset.at.0,
    })
}

fn shown_intent(intent: &Intent) -> Value {
    let (action, expects) = match &intent.action {
        Action::Conditional { expects: Tag::Absent } => ("conditional", Some("absent")),
        Action::Conditional { expects: Tag::Version(etag) } => ("conditional", Some(&**etag)),
        Action::Exclusive => ("exclusive", None),
    };
    json!({
        "operation": intent.id.operation.to_string(),
        "copy": intent.id.copy,
        "token": intent.token.to_string(),
        "key": percent_encode_key(intent.key.as_bytes()),
        "action": action,
        "expects": expects,
        "registered_at": intent.registered_at.map(|at| at.0),
        "expires_at": intent.expires_at.0,
    })
}

/// As the configuration has it.
fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Off => "off",
        Mode::IfFenced => "if-fenced",
        Mode::Require => "require",
    }
}

/// As the configuration has it.
fn compare(compare: Compare) -> &'static str {
    match compare {
        Compare::AtLeast => "at-least",
        Compare::StrictlyGreater => "strictly-greater",
    }
}
