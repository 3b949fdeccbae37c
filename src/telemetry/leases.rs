//! How Fencepost's own leases do, by bucket.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Registry};

use super::labels::LeaseRenewal;
use super::metrics::{counters, register};

/// Bounds of the histograms, in seconds. From a lock that is free to one that is held for a day.
const BUCKETS_SECONDS: [f64; 14] =
    [0.01, 0.05, 0.25, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0];

#[derive(Debug)]
pub(super) struct LeaseMetrics {
    wait: HistogramVec,
    held: HistogramVec,
    slack: HistogramVec,
    renewals: IntCounterVec,
    lost: IntCounterVec,
}

impl LeaseMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let histogram = |name: &str, help: &str| {
            let opts = HistogramOpts::new(name, help).buckets(BUCKETS_SECONDS.to_vec());
            let histogram = HistogramVec::new(opts, &["bucket"])
                .expect("names and labels of metrics are constants in the right form");
            register(registry, histogram.clone());
            histogram
        };
        Self {
            wait: histogram(
                "fence_lease_wait_seconds",
                "Time from the request of a lease to its acquisition, the claim included.",
            ),
            held: histogram(
                "fence_lease_held_seconds",
                "Time from the acquisition of a lease to its release or its end.",
            ),
            slack: histogram(
                "fence_lease_renewal_slack_seconds",
                "Time that was left of a lease when it was renewed.",
            ),
            renewals: counters(
                registry,
                "fence_lease_renewals_total",
                "Renewals of leases, by what came of them.",
                &["bucket", "result"],
            ),
            lost: counters(
                registry,
                "fence_leases_lost_total",
                "Leases that ran out, or were overtaken by a newer token, before their release.",
                &["bucket"],
            ),
        }
    }

    /// Makes the counters of a bucket visible at 0.
    pub(super) fn show(&self, bucket: &str) {
        for result in LeaseRenewal::ALL {
            self.renewals.with_label_values(&[bucket, result.as_str()]);
        }
        self.lost.with_label_values(&[bucket]);
    }

    pub(super) fn acquired(&self, bucket: &str, wait: Duration) {
        self.wait.with_label_values(&[bucket]).observe(wait.as_secs_f64());
    }

    pub(super) fn ended(&self, bucket: &str, held: Duration, lost: bool) {
        self.held.with_label_values(&[bucket]).observe(held.as_secs_f64());
        self.lost.with_label_values(&[bucket]).inc_by(u64::from(lost));
    }

    pub(super) fn renewed(&self, bucket: &str, result: LeaseRenewal, slack: Option<Duration>) {
        self.renewals.with_label_values(&[bucket, result.as_str()]).inc();
        if let Some(slack) = slack {
            self.slack.with_label_values(&[bucket]).observe(slack.as_secs_f64());
        }
    }
}
