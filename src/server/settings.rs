//! The configuration's words, as the modules understand them.

use http::StatusCode;
use http::uri::Scheme;

use crate::config::{self, Config};
use crate::fence::{Compare, Enforcement, Keys, Mode, Protocol, Rules, Tags};
use crate::pipeline::{Authentication, Settings, TokenSignature};
use crate::policy::{BucketOperations, BucketRule, Fencing, Per, Policy, Rule};
use crate::s3::{Bucket, HostSuffixes};

use super::examiner::Found;
use super::store::Lifetimes;

/// How often an object is read back after an unknown outcome, with a growing pause between.
const READ_BACKS_MAX: u32 = 4;

/// What the pipeline is told.
pub(super) fn settings(
    config: &Config,
    authentication: Authentication,
    found: &Found,
    rules: Rules,
) -> Settings {
    let fence = &config.fence;
    let lifetimes = Lifetimes::of(&config.backend, fence);
    Settings {
        authentication,
        token_signature: match config.auth.token_signature {
            config::TokenSignature::Signed => TokenSignature::Signed,
            config::TokenSignature::Any => TokenSignature::Any,
        },
        scheme: match config.tls.certificate_file {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        },
        host_suffixes: HostSuffixes::new(
            config.host_suffixes.iter().map(|suffix| suffix.as_str().to_owned()),
        ),
        policy: policy(config),
        ledger_bucket: Bucket::new(config.ledger.bucket.as_str()),
        protocol: Protocol {
            tags: Tags::Repeat,
            keys: Keys::One,
            // Set by plan, for each bucket.
            delete: Enforcement::Exclusive,
            complete: Enforcement::Exclusive,
            one_part: false,
            compare: compare(fence.compare),
            intents_max: fence.intents_max.as_usize(),
            rounds_max: u32::try_from(fence.attempts_max.get()).unwrap_or(u32::MAX),
            read_backs_max: READ_BACKS_MAX,
            signature_seconds: lifetimes.signature,
            bodiless_life_seconds: lifetimes.bodiless,
            body_stall_seconds: fence.body_stall_seconds.duration().as_secs(),
            assembly_seconds: fence.assembly_seconds_max.duration().as_secs(),
            rules,
        },
        plan: found.plan.clone(),
        scope_intents_max: fence.scope_intents_max.as_usize(),
        aliases: found.aliases,
        allowed_headers: fence
            .allowed_headers
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect(),
        stale_status: match fence.stale_status {
            config::StaleStatus::Conflict => StatusCode::CONFLICT,
            config::StaleStatus::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        },
        contention_wait_max: fence.contention_wait_seconds_max.duration(),
        settle_delay: fence.settle_delay_milliseconds.duration(),
        hint_entries_max: config.ledger.hint_entries_max.as_usize(),
        body_buffer_bytes_max: config.limits.body_buffer_bytes_max.as_usize(),
        request_body_max: config.limits.request_timeout_seconds.duration(),
    }
}

/// A scope's entry wins over its bucket's, and that over the defaults.
#[must_use]
pub fn policy(config: &Config) -> Policy {
    let default = Fencing { mode: mode(config.fence.mode), compare: compare(config.fence.compare) };
    let of_bucket = |name: &str| {
        let entry = config.buckets.iter().find(|rule| rule.name.as_str() == name);
        Fencing {
            mode: entry.and_then(|rule| rule.mode).map_or(default.mode, mode),
            compare: entry.and_then(|rule| rule.compare).map_or(default.compare, compare),
        }
    };
    let buckets = config.buckets.iter().map(|rule| Rule {
        bucket: Bucket::new(rule.name.as_str()),
        prefix: Vec::new(),
        per: Per::Object,
        fencing: of_bucket(rule.name.as_str()),
    });
    let scopes = config.scopes.iter().map(|rule| {
        let outer = of_bucket(rule.bucket.as_str());
        Rule {
            bucket: Bucket::new(rule.bucket.as_str()),
            prefix: rule.prefix.clone().into_bytes(),
            per: rule.per.map_or(Per::Object, |per| per.0),
            fencing: Fencing {
                mode: rule.mode.map_or(outer.mode, mode),
                compare: rule.compare.map_or(outer.compare, compare),
            },
        }
    });
    // Of two rules with the same prefix the last one wins: the scope's.
    let rules = buckets.chain(scopes).collect();
    let default_operations = bucket_operations(config.fence.bucket_operations);
    let tags = config.buckets.iter().map(|rule| BucketRule {
        bucket: Bucket::new(rule.name.as_str()),
        tags: match rule.tags {
            config::Tags::Repeat => Tags::Repeat,
            config::Tags::Unique => Tags::Unique,
        },
        bucket_operations: rule.bucket_operations.map_or(default_operations, bucket_operations),
    });
    let policy = Policy::new(default, default_operations, rules, tags.collect());
    match config.backend.dialect {
        config::Dialect::S3 => policy,
        // A generation comes once, whatever the bucket's entry says.
        config::Dialect::Gcs => policy.with_unique_tags(),
    }
}

fn bucket_operations(operations: config::BucketOperations) -> BucketOperations {
    match operations {
        config::BucketOperations::Allow => BucketOperations::Allow,
        config::BucketOperations::Deny => BucketOperations::Deny,
    }
}

fn mode(mode: config::FenceMode) -> Mode {
    match mode {
        config::FenceMode::IfFenced => Mode::IfFenced,
        config::FenceMode::Require => Mode::Require,
        config::FenceMode::Off => Mode::Off,
    }
}

fn compare(compare: config::Compare) -> Compare {
    match compare {
        config::Compare::AtLeast => Compare::AtLeast,
        config::Compare::StrictlyGreater => Compare::StrictlyGreater,
    }
}
