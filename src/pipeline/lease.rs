//! `/_fence/lease/{bucket}/{key}`: a lock whose record is the fence's own.
//!
//! Acquiring is the claim: the token is in the record when the lease is, and the answer waits until
//! no lower token can take effect any more. What a lease *is* is in [`fence::lease`](crate::fence::lease);
//! this file waits, answers and counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use serde::{Deserialize, Serialize};

use super::amend::NotAmended;
use super::body::ClientBody;
use super::claim::{Patience, WAIT_MAX};
use super::driver::jittered;
use super::fenced_write::Holder;
use super::own::{self, Own, OwnRequest};
use super::plan::BucketPlan;
use super::scopes::Slot;
use super::{Proxy, ResponseBody, respond};
use crate::clock;
use crate::fence::lease::{self, Acquire, Acquired, Lease, LeaseId, NoLease};
use crate::fence::{Bearer, Compare, Record, Snapshot, StoreTime, Verdict};
use crate::listener::ClientPresence;
use crate::policy::Place;
use crate::s3::S3Error;
use crate::telemetry::LeaseRenewal;

/// The longest time to live.
const TTL_SECONDS_MAX: u64 = 86_400;

/// The longest name of a holder, in bytes.
const HOLDER_BYTES_MAX: usize = 256;

/// A claim that takes no longer leaves the holder all of its time, to the second.
const CLAIM_AT_ONCE: Duration = Duration::from_millis(200);

/// How often the record is looked at while somebody waits for its lease: at first, and at most.
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(1);

/// What a client asks for.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
enum Ask {
    Acquire {
        ttl_seconds: u64,
        holder: String,
        #[serde(default)]
        wait_seconds: u64,
        #[serde(default)]
        id: Option<String>,
    },
    Renew {
        id: String,
        #[serde(default)]
        ttl_seconds: Option<u64>,
    },
    Release {
        id: String,
    },
}

#[derive(Serialize)]
struct Granted {
    scope: String,
    token: String,
    id: String,
    holder: String,
    ttl_seconds: u64,
    expires_at: u64,
    store_time: u64,
}

#[derive(Serialize)]
struct Released {
    scope: String,
    token: String,
    released: bool,
}

#[derive(Serialize)]
struct Shown {
    scope: String,
    token: Option<String>,
    lease: Option<ShownLease>,
    store_time: Option<u64>,
}

/// A lease, without its id: who knows that may release it.
#[derive(Serialize)]
pub(super) struct ShownLease {
    token: String,
    holder: String,
    ttl_seconds: u64,
    acquired_at: u64,
    expires_at: u64,
    expired: bool,
}

impl ShownLease {
    /// The record's lease at this time, which is over when a newer token has come.
    pub(super) fn of(record: &Record, now: Option<StoreTime>) -> Option<Self> {
        let lease = record.leasing.lease.as_ref()?;
        let stands = now.is_none_or(|now| lease::standing(record, now).is_some());
        Some(Self {
            token: lease.token.to_string(),
            holder: lease.holder.clone(),
            ttl_seconds: lease.ttl_seconds,
            acquired_at: lease.acquired_at.0,
            expires_at: lease.expires_at.0,
            expired: !stands,
        })
    }
}

/// A lease that is in the record, by this request or by one before it with the same id.
struct Taken {
    lease: Lease,
    /// The lease that it took the place of.
    before: Option<Lease>,
    /// The store's time when it was taken, or found.
    at: StoreTime,
    /// When this proxy had not yet begun to take it.
    since: Instant,
    is_new: bool,
}

/// A scope whose lease is asked for.
struct Leased<'a> {
    request: &'a OwnRequest,
    place: Place,
    slot: Arc<Slot>,
}

impl Leased<'_> {
    fn presence(&self) -> Option<ClientPresence> {
        self.request.parts.extensions.get().cloned()
    }
}

impl Proxy {
    /// Answers `POST` and `GET /_fence/lease/{bucket}/{key-or-prefix}`.
    pub(super) async fn lease(
        &self,
        request: &OwnRequest,
        body: ClientBody,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let place = self.place_named(&request.bucket, &request.name)?;
        let slot = self.0.scopes.slot(&place.scope);
        let leased = Leased { request, place, slot };
        let message = self.message(request, body).await?;
        if request.own == Own::ShowLease {
            return self.show_lease(&leased).await;
        }
        let ask = serde_json::from_slice(&message).map_err(|error| {
            respond::invalid_request(format!("The body is not a request for a lease: {error}."))
        })?;
        match ask {
            Ask::Acquire { ttl_seconds, holder, wait_seconds, id } => {
                let id =
                    id.map_or_else(|| Ok(LeaseId(clock::random_u128())), |id| lease_id(&id))?;
                let acquire = Acquire { id, holder: holder_name(holder)?, ttl_seconds };
                refuse_ttl(ttl_seconds)?;
                let wait = Duration::from_secs(wait_seconds);
                if wait > WAIT_MAX {
                    let message = format!("wait_seconds is at most {}.", WAIT_MAX.as_secs());
                    return Err(respond::invalid_request(message));
                }
                self.acquire(&leased, &acquire, wait).await
            }
            Ask::Renew { id, ttl_seconds } => {
                ttl_seconds.map_or(Ok(()), refuse_ttl)?;
                self.renew(&leased, lease_id(&id)?, ttl_seconds).await
            }
            Ask::Release { id } => self.release(&leased, lease_id(&id)?).await,
        }
    }

    async fn show_lease(&self, leased: &Leased<'_>) -> Result<Response<ResponseBody>, S3Error> {
        let Snapshot { record, time, .. } = self.learn(&leased.place.scope, &leased.slot).await?;
        Ok(own::json(&Shown {
            scope: leased.place.scope.to_string(),
            token: record.as_ref().map(|record| record.token.to_string()),
            lease: record.as_ref().and_then(|record| ShownLease::of(record, time)),
            store_time: time.map(|time| time.0),
        }))
    }

    /// Acquires the lease as soon as nobody has it, within the time to wait; then claims the scope.
    async fn acquire(
        &self,
        leased: &Leased<'_>,
        ask: &Acquire,
        wait: Duration,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let began = clock::monotonic();
        let deadline = began + wait;
        let (place, bucket) = (&leased.place, leased.place.scope.bucket.as_str());
        let plan = self.plan_in(&place.scope.bucket).await?;
        self.refuse_claim(place, &plan)?;
        if place.fencing.compare == Compare::StrictlyGreater {
            return Err(respond::lease_for_one_write());
        }
        loop {
            let taken = self.wait_for_lease(leased, ask, deadline).await?;
            if let Some(before) = &taken.before {
                self.count_end(bucket, before, before.expires_at, true);
            }
            let Some((lease, now)) = self.claim_leased(leased, &plan, taken, deadline).await?
            else {
                // It ran out meanwhile, or was given up under the same id elsewhere.
                if clock::monotonic() >= deadline {
                    return Err(respond::lease_contended());
                }
                continue;
            };
            let waited = clock::monotonic().duration_since(began);
            self.0.metrics.lease_acquired(bucket, waited);
            tracing::info!(
                request_id = %leased.request.id, scope = %place.scope, token = %lease.token,
                ttl_seconds = lease.ttl_seconds, "lease acquired"
            );
            return Ok(own::json(&granted(place, &lease, now)));
        }
    }

    /// Waits until whoever had the lease before is shut out. `None`: the lease is lost by then.
    async fn claim_leased(
        &self,
        leased: &Leased<'_>,
        plan: &BucketPlan,
        taken: Taken,
        deadline: Instant,
    ) -> Result<Option<(Lease, StoreTime)>, S3Error> {
        let (place, lease) = (&leased.place, &taken.lease);
        let began = clock::monotonic();
        let holder = Holder { token: lease.token, bearer: Bearer::default(), stamp: None };
        // Whoever waited for the lease in vain until now has to be given the time to be shut out.
        let wait = deadline.saturating_duration_since(began);
        let wait = wait.max(self.0.settings.contention_wait_max);
        let patience = Patience { wait, presence: leased.presence() };
        let (verdict, findings) =
            self.enter(place, &holder, plan, leased.request.origin(), &patience).await;
        match verdict {
            Verdict::Claimed | Verdict::Applied { .. } if patience.is_over() => {
                self.give_up(leased, &taken).await;
                return Err(respond::unavailable());
            }
            Verdict::Claimed | Verdict::Applied { .. } => {}
            Verdict::Stale { .. } | Verdict::Mismatched(_) => return Ok(None),
            refused @ (Verdict::Done
            | Verdict::AlreadyAbsent
            | Verdict::Barred(_)
            | Verdict::ConditionFailed(_)
            | Verdict::Rejected
            | Verdict::BodyFailed
            | Verdict::Contended(_)
            | Verdict::Unavailable
            | Verdict::OutcomeUnknown
            | Verdict::Broken) => {
                self.give_up(leased, &taken).await;
                let status = self.0.settings.stale_status;
                return Err(respond::refusal(refused, findings, holder.token, place, status));
            }
        }
        if taken.is_new && taken.since.elapsed() < CLAIM_AT_ONCE {
            return Ok(Some((taken.lease, taken.at)));
        }
        // The holder is to have all of its time; and another request under the same id may have
        // given the lease up.
        let change = |snapshot: &Snapshot| {
            let now = snapshot.time.ok_or(NoLease::TimeUnknown)?;
            let (next, renewed) = lease::renew(snapshot, lease.id, Some(lease.ttl_seconds))?;
            let same = renewed.token == lease.token;
            if same { Ok((Some(next), (renewed, now))) } else { Err(NoLease::Lost) }
        };
        match self.amend(&place.scope, &leased.slot, change).await {
            Ok(renewed) => Ok(Some(renewed)),
            Err(NotAmended::No(NoLease::Lost)) => Ok(None),
            Err(NotAmended::No(why)) => Err(no_lease(&why)),
            Err(NotAmended::Unavailable | NotAmended::LostRaces) => Err(respond::unavailable()),
        }
    }

    /// Gives a lease back that this request has taken and nobody will be told of. If that fails, too,
    /// it runs out by itself.
    async fn give_up(&self, leased: &Leased<'_>, taken: &Taken) {
        if !taken.is_new {
            return;
        }
        let change = |snapshot: &Snapshot| {
            let (next, lease) = lease::release(snapshot, taken.lease.id)?;
            // It may have been granted, and renewed, by another proxy under the same id.
            let same = lease == taken.lease;
            if same { Ok((Some(next), ())) } else { Err(NoLease::Lost) }
        };
        let _released = self.amend(&leased.place.scope, &leased.slot, change).await;
        leased.slot.announce_release();
    }

    /// Takes the lease as soon as it is free.
    async fn wait_for_lease(
        &self,
        leased: &Leased<'_>,
        ask: &Acquire,
        deadline: Instant,
    ) -> Result<Taken, S3Error> {
        let mut pause = POLL_MIN;
        loop {
            let released = leased.slot.lease_released.notified();
            let refused = match self.try_lease(leased, ask, deadline).await {
                Ok(taken) => return Ok(taken),
                Err(NotAmended::No(NoLease::Held(lease, now))) => respond::lease_held(&lease, now),
                Err(NotAmended::No(other)) => return Err(no_lease(&other)),
                Err(NotAmended::Unavailable) => return Err(respond::unavailable()),
                Err(NotAmended::LostRaces) => respond::lease_contended(),
            };
            let left = deadline.saturating_duration_since(clock::monotonic());
            if left.is_zero() {
                return Err(refused);
            }
            // A release through this proxy is noticed at once, everything else by looking again.
            let pausing = tokio::time::timeout(jittered(pause).min(left), released);
            match leased.presence() {
                None => drop(pausing.await),
                Some(presence) => tokio::select! {
                    _ = pausing => {}
                    () = presence.gone() => return Err(respond::unavailable()),
                },
            }
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    /// Takes the lease if it is free. Of all that wait at this proxy one looks at a time, at what
    /// another has just seen if there is that, so that a crowd costs the holder nothing.
    async fn try_lease(
        &self,
        leased: &Leased<'_>,
        ask: &Acquire,
        deadline: Instant,
    ) -> Result<Taken, NotAmended<NoLease>> {
        let (scope, slot) = (&leased.place.scope, &leased.slot);
        let patience = deadline.saturating_duration_since(clock::monotonic());
        let patience = patience.max(self.0.settings.contention_wait_max);
        let asked_at = clock::monotonic();
        let look = tokio::time::timeout(patience, slot.lease_look.lock()).await;
        let Ok(mut look) = look else { return Err(NotAmended::LostRaces) };
        // What was looked at before it was asked for may have changed since.
        let young = look.take().filter(|(seen_at, _)| *seen_at >= asked_at);
        let (seen_at, snapshot) = match young {
            Some(seen) => seen,
            None => {
                let now = clock::monotonic();
                (now, self.load(scope).await.map_err(|_| NotAmended::Unavailable)?)
            }
        };
        let free = lease::acquire(&snapshot, ask);
        *look = Some((seen_at, snapshot));
        if let Err(why) = free {
            return Err(NotAmended::No(why));
        }
        // What is going to be there is no more what was seen.
        *look = None;
        let since = clock::monotonic();
        let change = |snapshot: &Snapshot| {
            let at = snapshot.time.ok_or(NoLease::TimeUnknown)?;
            Ok(match lease::acquire(snapshot, ask)? {
                Acquired::Already(lease) => {
                    (None, Taken { lease, before: None, at, since, is_new: false })
                }
                Acquired::Next(next, lease) => {
                    let record = snapshot.record.as_ref();
                    let before = record.and_then(|record| record.leasing.lease.as_deref().cloned());
                    (Some(next), Taken { lease, before, at, since, is_new: true })
                }
            })
        };
        self.amend(scope, slot, change).await
    }

    async fn renew(
        &self,
        leased: &Leased<'_>,
        id: LeaseId,
        ttl_seconds: Option<u64>,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let (place, bucket) = (&leased.place, leased.place.scope.bucket.as_str());
        let change = |snapshot: &Snapshot| {
            let now = snapshot.time.ok_or(NoLease::TimeUnknown)?;
            let before =
                snapshot.record.as_ref().and_then(|record| record.leasing.lease.as_deref());
            let slack = before.map_or(0, |lease| lease.expires_at.0.saturating_sub(now.0));
            let (next, lease) = lease::renew(snapshot, id, ttl_seconds)?;
            Ok((Some(next), (lease, now, slack)))
        };
        match self.amend(&place.scope, &leased.slot, change).await {
            Ok((lease, now, slack)) => {
                let slack = Some(Duration::from_secs(slack));
                self.0.metrics.lease_renewed(bucket, LeaseRenewal::Renewed, slack);
                Ok(own::json(&granted(place, &lease, now)))
            }
            Err(NotAmended::No(why)) => {
                self.0.metrics.lease_renewed(bucket, LeaseRenewal::Lost, None);
                tracing::warn!(
                    request_id = %leased.request.id, scope = %place.scope, "a lease is lost"
                );
                Err(no_lease(&why))
            }
            Err(NotAmended::Unavailable | NotAmended::LostRaces) => {
                self.0.metrics.lease_renewed(bucket, LeaseRenewal::Failed, None);
                Err(respond::unavailable())
            }
        }
    }

    async fn release(
        &self,
        leased: &Leased<'_>,
        id: LeaseId,
    ) -> Result<Response<ResponseBody>, S3Error> {
        let (place, bucket) = (&leased.place, leased.place.scope.bucket.as_str());
        let change = |snapshot: &Snapshot| {
            let (next, lease) = lease::release(snapshot, id)?;
            let now = snapshot.time.unwrap_or(lease.expires_at);
            let record = snapshot.record.as_ref();
            let stood = record.is_some_and(|record| lease::standing(record, now).is_some());
            Ok((Some(next), (lease, now, !stood)))
        };
        match self.amend(&place.scope, &leased.slot, change).await {
            Ok((lease, now, lost)) => {
                self.count_end(bucket, &lease, now.min(lease.expires_at), lost);
                leased.slot.announce_release();
                tracing::info!(
                    request_id = %leased.request.id, scope = %place.scope, token = %lease.token,
                    "lease released"
                );
                Ok(own::json(&Released {
                    scope: place.scope.to_string(),
                    token: lease.token.to_string(),
                    released: true,
                }))
            }
            Err(NotAmended::No(why)) => Err(no_lease(&why)),
            Err(NotAmended::Unavailable | NotAmended::LostRaces) => Err(respond::unavailable()),
        }
    }

    fn count_end(&self, bucket: &str, lease: &Lease, end: StoreTime, lost: bool) {
        let held = end.0.saturating_sub(lease.acquired_at.0);
        self.0.metrics.lease_ended(bucket, Duration::from_secs(held), lost);
    }
}

fn granted(place: &Place, lease: &Lease, now: StoreTime) -> Granted {
    Granted {
        scope: place.scope.to_string(),
        token: lease.token.to_string(),
        id: format!("{:032x}", lease.id.0),
        holder: lease.holder.clone(),
        ttl_seconds: lease.ttl_seconds,
        expires_at: lease.expires_at.0,
        store_time: now.0,
    }
}

fn no_lease(why: &NoLease) -> S3Error {
    match why {
        NoLease::Held(lease, now) => respond::lease_held(lease, *now),
        NoLease::Lost => respond::lease_lost(),
        NoLease::Exhausted => respond::tokens_exhausted(),
        NoLease::TimeUnknown => respond::unavailable(),
    }
}

fn lease_id(text: &str) -> Result<LeaseId, S3Error> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = u128::from_str_radix(text, 16).ok().filter(|_| digits);
    id.map(LeaseId).ok_or_else(|| {
        respond::invalid_request("The id of a lease is 32 hexadecimal digits.".to_owned())
    })
}

fn holder_name(name: String) -> Result<String, S3Error> {
    let printable = !name.chars().any(char::is_control);
    if name.is_empty() || name.len() > HOLDER_BYTES_MAX || !printable {
        let message = format!("The holder's name has to be 1 to {HOLDER_BYTES_MAX} bytes of text.");
        return Err(respond::invalid_request(message));
    }
    Ok(name)
}

fn refuse_ttl(ttl_seconds: u64) -> Result<(), S3Error> {
    if (1..=TTL_SECONDS_MAX).contains(&ttl_seconds) {
        return Ok(());
    }
    Err(respond::invalid_request(format!("ttl_seconds has to be 1 to {TTL_SECONDS_MAX}.")))
}
