//! The metrics, on a registry of their own.
//!
//! | metric | labels | meaning |
//! |---|---|---|
//! | `fence_rejected_total` | bucket, reason | requests that the fence refused |
//! | `fence_admitted_total` | bucket | fenced operations that were acknowledged |
//! | `fence_contended_total` | bucket | fenced operations answered "try again" (503) |
//! | `fence_outcome_unknown_total` | bucket | fenced operations whose outcome could not be learnt |
//! | `fence_ledger_operations_total` | op, result | loads and swaps of records |
//! | `fence_ledger_seconds` | op | how long they took |
//! | `fence_token_regressed_total` | bucket | claims whose token was not the newest |
//! | `fence_lease_wait_seconds` | bucket | from the request of a lease to its acquisition |
//! | `fence_lease_held_seconds` | bucket | from a lease's acquisition to its end |
//! | `fence_lease_renewal_slack_seconds` | bucket | what was left of a lease when it was renewed |
//! | `fence_lease_renewals_total` | bucket, result | renewals, by what came of them |
//! | `fence_leases_lost_total` | bucket | leases that ended before they were released |
//! | `fence_grouped_swaps_total` | | swaps of records of scopes with many keys |
//! | `fence_grouped_operations_total` | | operations that entered a record by them |
//! | `fencepost_requests_total` | operation, status | requests answered |
//! | `fencepost_request_seconds` | operation | from request head to the head of the answer |
//! | `fencepost_upstream_seconds` | operation | how long the store took to begin its answer |
//! | `fencepost_bytes_total` | direction | body bytes, from clients and to clients |
//! | `fencepost_in_flight_requests` | | requests being worked on |
//! | `fencepost_connections` | | clients connected |
//! | `fencepost_backend_examined_timestamp_seconds` | | when the store was examined, by its own clock |
//! | `fencepost_unsafe_trust` | what | 1: it is taken for granted, whatever was found |
//! | `fencepost_build_info` | version | always 1 |
//!
//! No label is an object key. The first 256 buckets have labels of their own, the others share
//! `other`. The `fence_…_total` counters of a bucket exist, at 0, from its
//! first request on, so that a rate over the first refusal is not lost.

use std::time::Duration;

use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, TextEncoder,
};

use super::buckets::{BUCKET_LABELS_MAX, BucketCounters};
use super::labels::{Direction, LeaseRenewal, LedgerOperation, LedgerResult, Reason};

/// Bounds of the latency histograms, in seconds. From a loopback store to a large upload.
const BUCKETS_SECONDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// All metrics of one proxy.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    buckets: BucketCounters,
    ledger_operations: IntCounterVec,
    ledger_seconds: HistogramVec,
    grouped_swaps: IntCounter,
    grouped_operations: IntCounter,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    upstream_seconds: HistogramVec,
    examined: IntGauge,
    unsafe_trust: IntGaugeVec,
    traffic: Traffic,
}

/// What a listener counts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Clients connected.
    pub connections: IntGauge,
    /// Requests being worked on.
    pub in_flight_requests: IntGauge,
    /// Bytes of request bodies.
    pub received_bytes: IntCounter,
    /// Bytes of response bodies.
    pub sent_bytes: IntCounter,
}

impl Traffic {
    /// Counts that nobody scrapes: for the admin listener, whose traffic is not the clients'.
    #[must_use]
    pub fn unregistered() -> Self {
        Self {
            connections: gauge("fencepost_connections", "Clients connected."),
            in_flight_requests: gauge("fencepost_in_flight_requests", "Requests being worked on."),
            received_bytes: unlabelled("received_bytes"),
            sent_bytes: unlabelled("sent_bytes"),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A registry of its own with all metrics in it, so that two proxies in one process (as in
    /// tests) do not count together.
    #[must_use]
    pub fn new() -> Self {
        Self::with_bucket_labels_max(BUCKET_LABELS_MAX)
    }

    fn with_bucket_labels_max(bucket_labels_max: usize) -> Self {
        let registry = Registry::new();
        let bytes = counters(
            &registry,
            "fencepost_bytes_total",
            "Body bytes received from clients and sent to clients.",
            &["direction"],
        );
        let traffic = Traffic {
            received_bytes: bytes.with_label_values(&[Direction::Received.as_str()]),
            sent_bytes: bytes.with_label_values(&[Direction::Sent.as_str()]),
            ..Traffic::unregistered()
        };
        register(&registry, traffic.connections.clone());
        register(&registry, traffic.in_flight_requests.clone());
        build_info(&registry);
        let examined = examined_gauge();
        register(&registry, examined.clone());
        let metrics = Self {
            examined,
            unsafe_trust: trust_gauges(&registry),
            buckets: BucketCounters::new(&registry, bucket_labels_max),
            ledger_operations: counters(
                &registry,
                "fence_ledger_operations_total",
                "Loads and swaps of the fence's records.",
                &["op", "result"],
            ),
            ledger_seconds: histograms(
                &registry,
                "fence_ledger_seconds",
                "Time for a load or a swap of a record.",
                &["op"],
            ),
            grouped_swaps: counter(
                &registry,
                "fence_grouped_swaps_total",
                "Swaps of the records of scopes with many keys, each for all that waited.",
            ),
            grouped_operations: counter(
                &registry,
                "fence_grouped_operations_total",
                "Operations that have entered a record together with others or alone.",
            ),
            requests: counters(
                &registry,
                "fencepost_requests_total",
                "Requests answered.",
                &["operation", "status"],
            ),
            request_seconds: histograms(
                &registry,
                "fencepost_request_seconds",
                "Time from a request's head to the head of its answer.",
                &["operation"],
            ),
            upstream_seconds: histograms(
                &registry,
                "fencepost_upstream_seconds",
                "Time until the store began its answer.",
                &["operation"],
            ),
            traffic,
            registry,
        };
        metrics.create_ledger_counters();
        metrics
    }

    fn create_ledger_counters(&self) {
        for op in LedgerOperation::ALL {
            for result in LedgerResult::ALL {
                self.ledger_operations.with_label_values(&[op.as_str(), result.as_str()]);
            }
        }
    }

    /// The text that Prometheus scrapes, and its media type.
    ///
    /// # Errors
    ///
    /// When a metric cannot be written as text.
    pub fn scrape(&self) -> Result<(Vec<u8>, &'static str), prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok((text, prometheus::TEXT_FORMAT))
    }

    /// A request for this bucket has come, or the bucket is configured: makes its counters
    /// visible at 0. Call it for requests that are authenticated only, since whoever else could
    /// use up the labels.
    pub fn bucket_seen(&self, bucket: &str) {
        self.buckets.label(bucket);
    }

    /// The fence refused a request.
    pub fn rejected(&self, bucket: &str, reason: Reason) {
        self.buckets.rejected(bucket, reason);
    }

    /// A fenced operation was acknowledged.
    pub fn admitted(&self, bucket: &str) {
        self.buckets.admitted(bucket);
    }

    /// A fenced operation was answered with "try again".
    pub fn contended(&self, bucket: &str) {
        self.buckets.contended(bucket);
    }

    /// The outcome of a fenced operation could not be learnt.
    pub fn outcome_unknown(&self, bucket: &str) {
        self.buckets.outcome_unknown(bucket);
    }

    /// A claim's token was not the newest.
    pub fn token_regressed(&self, bucket: &str) {
        self.buckets.token_regressed(bucket);
    }

    /// A lease was acquired after this wait.
    pub fn lease_acquired(&self, bucket: &str, wait: Duration) {
        self.buckets.leases.acquired(self.buckets.label(bucket), wait);
    }

    /// A lease was held for so long; `lost`: it was not released while it lasted.
    pub fn lease_ended(&self, bucket: &str, held: Duration, lost: bool) {
        self.buckets.leases.ended(self.buckets.label(bucket), held, lost);
    }

    /// A renewal was answered, and so much was left of the lease.
    pub fn lease_renewed(&self, bucket: &str, result: LeaseRenewal, slack: Option<Duration>) {
        self.buckets.leases.renewed(self.buckets.label(bucket), result, slack);
    }

    /// One swap has entered so many operations.
    pub fn group_committed(&self, operations: usize) {
        self.grouped_swaps.inc();
        self.grouped_operations.inc_by(operations as u64);
    }

    /// The ledger has answered, or has failed to.
    pub fn ledger(&self, op: LedgerOperation, result: LedgerResult, took: Duration) {
        self.ledger_operations.with_label_values(&[op.as_str(), result.as_str()]).inc();
        self.ledger_seconds.with_label_values(&[op.as_str()]).observe(took.as_secs_f64());
    }

    /// A request was answered. `operation` is S3's name for it, from a fixed set.
    pub fn request(&self, operation: &'static str, status: http::StatusCode, took: Duration) {
        self.requests.with_label_values(&[operation, status.as_str()]).inc();
        self.request_seconds.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    /// The store has begun its answer. `operation` is S3's name for it, from a fixed set.
    pub fn upstream(&self, operation: &'static str, took: Duration) {
        self.upstream_seconds.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    /// The store was examined at this time of its clock, and this is taken for granted.
    pub fn examined(&self, at_seconds: u64, trusted: &[&str]) {
        self.examined.set(i64::try_from(at_seconds).unwrap_or(i64::MAX));
        for what in trusted {
            self.unsafe_trust.with_label_values(&[*what]).set(1);
        }
    }

    /// What the data listener counts.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }
}

/// Registered counters with these labels.
pub(super) fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> IntCounterVec {
    let counters = IntCounterVec::new(Opts::new(name, help), labels)
        .expect("names and labels of metrics are constants in the right form");
    register(registry, counters.clone());
    counters
}

fn histograms(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> HistogramVec {
    let opts = HistogramOpts::new(name, help).buckets(BUCKETS_SECONDS.to_vec());
    let histograms = HistogramVec::new(opts, labels)
        .expect("names and labels of metrics are constants in the right form");
    register(registry, histograms.clone());
    histograms
}

fn gauge(name: &str, help: &str) -> IntGauge {
    IntGauge::new(name, help).expect("names of metrics are constants in the right form")
}

fn unlabelled(name: &str) -> IntCounter {
    IntCounter::new(name, "Bytes.").expect("names of metrics are constants in the right form")
}

fn counter(registry: &Registry, name: &str, help: &str) -> IntCounter {
    let counter = IntCounter::new(name, help).expect("names and help texts are valid");
    register(registry, counter.clone());
    counter
}

fn gauges(registry: &Registry, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    let gauges = IntGaugeVec::new(Opts::new(name, help), labels)
        .expect("names and labels of metrics are constants in the right form");
    register(registry, gauges.clone());
    gauges
}

fn trust_gauges(registry: &Registry) -> IntGaugeVec {
    gauges(
        registry,
        "fencepost_unsafe_trust",
        "1: what the store does is taken for granted, whatever was found.",
        &["what"],
    )
}

fn examined_gauge() -> IntGauge {
    gauge(
        "fencepost_backend_examined_timestamp_seconds",
        "When the store was examined, in seconds since the Unix epoch by its own clock.",
    )
}

fn build_info(registry: &Registry) {
    let info = IntGaugeVec::new(
        Opts::new("fencepost_build_info", "Always 1; the label is the running version."),
        &["version"],
    )
    .expect("names and labels of metrics are constants in the right form");
    info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    register(registry, info);
}

pub(super) fn register(registry: &Registry, metric: impl prometheus::core::Collector + 'static) {
    registry.register(Box::new(metric)).expect("every metric is registered once");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &Metrics) -> String {
        String::from_utf8(metrics.scrape().unwrap().0).unwrap()
    }

    #[test]
    fn a_bucket_shows_its_refusals_at_zero_before_the_first_one() {
        let metrics = Metrics::new();
        assert!(!text(&metrics).contains("photos"));
        metrics.bucket_seen("photos");
        let before = text(&metrics);
        assert!(before.contains("fence_rejected_total{bucket=\"photos\",reason=\"stale\"} 0\n"));
        assert!(before.contains("fence_admitted_total{bucket=\"photos\"} 0\n"));
        metrics.rejected("photos", Reason::Stale);
        let after = text(&metrics);
        assert!(after.contains("fence_rejected_total{bucket=\"photos\",reason=\"stale\"} 1\n"));
    }

    #[test]
    fn made_up_buckets_do_not_make_labels_without_end() {
        let metrics = Metrics::with_bucket_labels_max(1);
        metrics.admitted("real");
        metrics.admitted("made-up");
        metrics.admitted("made-up-too");
        let text = text(&metrics);
        assert!(text.contains("fence_admitted_total{bucket=\"other\"} 2\n"), "{text}");
        assert!(!text.contains("made-up"));
    }

    #[test]
    fn every_metric_of_the_table_is_exported_once_used() {
        let metrics = Metrics::new();
        metrics.admitted("b");
        metrics.lease_acquired("b", Duration::from_secs(1));
        metrics.lease_renewed("b", LeaseRenewal::Renewed, Some(Duration::from_secs(20)));
        metrics.lease_ended("b", Duration::from_secs(40), false);
        metrics.ledger(LedgerOperation::Swap, LedgerResult::Ok, Duration::from_millis(3));
        metrics.request("PutObject", http::StatusCode::OK, Duration::from_millis(9));
        metrics.upstream("PutObject", Duration::from_millis(5));
        metrics.traffic().received_bytes.inc_by(7);
        metrics.examined(1_700_000_000, &["expiry"]);
        let text = text(&metrics);
        let names = include_str!("metrics.rs").lines().filter_map(|line| {
            line.strip_prefix("//! | `").and_then(|rest| rest.split('`').next())
        });
        let mut count = 0;
        for name in names {
            assert!(text.contains(&format!("# HELP {name} ")), "{name} is missing in\n{text}");
            count += 1;
        }
        let exported = text.lines().filter(|line| line.starts_with("# HELP ")).count();
        assert_eq!(count, exported, "the table and the registry differ:\n{text}");
        assert!(text.contains("fencepost_bytes_total{direction=\"received\"} 7\n"));
    }
}
