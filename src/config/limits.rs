//! `[limits]`: how much one client, and all of them together, may take.

use serde::{Deserialize, Serialize};

use super::values::{Count, Seconds};

/// Settings of the limits on the data listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Bodies up to this size are kept in memory while they are written, so that they can be sent
    /// again after a lost race. Larger ones stream; files in browser forms may not be larger. Times `requests_in_flight_max` this is the
    /// most memory that bodies can take.
    pub body_buffer_bytes_max: Count<0, 1_073_741_824>,
    /// The largest request head: request line and headers. S3 allows 8 KiB of headers.
    pub header_bytes_max: Count<8192, 1_048_576>,
    /// How many clients may be connected; more wait in the listen queue.
    pub connections_max: Count<1, 1_000_000>,
    /// How many requests may be worked on; more are answered 503.
    pub requests_in_flight_max: Count<1, 1_000_000>,
    /// How many requests one HTTP/2 connection may have open.
    pub http2_streams_max: Count<1, 10_000>,
    /// How much of a body an HTTP/2 client may send before it is taken. Times
    /// `requests_in_flight_max` this is the most memory that such bodies can take.
    pub http2_window_bytes: Count<65_535, 16_777_216>,
    /// The longest wait for a complete request head, idle time on a kept connection included.
    pub header_timeout_seconds: Seconds<1, 3600>,
    /// The longest pause of a client, in sending a request body or in taking an answer.
    pub body_idle_timeout_seconds: Seconds<1, 3600>,
    /// The longest time that the body of a request may take to arrive.
    pub request_timeout_seconds: Seconds<1, 86_400>,
    /// How much of a body is read and thrown away after an early answer, so that the client gets
    /// to see the answer instead of a reset connection.
    pub refusal_drain_bytes_max: Count<0, 1_099_511_627_776>,
    /// How long such a body is read.
    pub refusal_drain_seconds_max: Seconds<0, 600>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            body_buffer_bytes_max: Count::new(8 * 1024 * 1024),
            header_bytes_max: Count::new(64 * 1024),
            connections_max: Count::new(1024),
            requests_in_flight_max: Count::new(1024),
            http2_streams_max: Count::new(100),
            http2_window_bytes: Count::new(1024 * 1024),
            header_timeout_seconds: Seconds::new(30),
            body_idle_timeout_seconds: Seconds::new(60),
            request_timeout_seconds: Seconds::new(3600),
            refusal_drain_bytes_max: Count::new(64 * 1024 * 1024),
            refusal_drain_seconds_max: Seconds::new(10),
        }
    }
}
