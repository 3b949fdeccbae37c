//! How many fenced writes a second a scope of many keys takes as more clients write at the same
//! time, beside the same load where every key has a fence of its own, and where nothing is fenced.
//!
//! Ratios are held to, not figures: those are the machine's.

use std::time::Duration;

use fencepost::clock;
use fencepost::devstore::Profile;
use http::Method;
use tokio::task::JoinSet;

use crate::client::{self, Http};
use crate::process::{Program, Setup};
use crate::support::{Backend, S3};
use crate::talk::Told;
use crate::{ALONE, LOG, is_full};

const CLIENTS: [usize; 4] = [1, 4, 16, 64];

/// Where the writes go, and how that is fenced.
const SCOPES: [(&str, &str, &str); 3] = [
    ("prefix", "many/", "mode = \"require\"\nper = \"prefix\"\n"),
    ("object", "each/", "mode = \"require\"\nper = \"object\"\n"),
    ("off", "free/", "mode = \"off\"\n"),
];

/// One measurement.
struct Figures {
    writes_a_second: f64,
    /// Operations for each swap of a shared record.
    group: f64,
}

fn settings(bucket: &str) -> String {
    let scopes = SCOPES.map(|(_, prefix, rule)| {
        format!("[[scope]]\nbucket = \"{bucket}\"\nprefix = \"{prefix}\"\n{rule}")
    });
    format!("{LOG}{}", scopes.concat())
}

/// Writes one key after the other until the time is over; counts from `from` on.
async fn write(http: Http, client: S3, prefix: String, number: usize, length: Duration) -> usize {
    let warm = clock::monotonic() + Duration::from_millis(400);
    let (end, mut done) = (warm + length, 0);
    for turn in 0.. {
        if clock::monotonic() >= end {
            break;
        }
        let target = client.path(&format!("{prefix}{number}"));
        let body = format!("{number} {turn}");
        let patience = Duration::from_secs(30);
        let answer = http.send(&client, Method::PUT, &target, body, patience).await;
        assert_eq!(client::told(answer.as_ref()), Ok(Told::Done), "{target}");
        done += usize::from((warm..end).contains(&clock::monotonic()));
    }
    done
}

async fn measure(
    program: &Program,
    client: &S3,
    prefix: &str,
    clients: usize,
    length: Duration,
) -> Figures {
    const OPERATIONS: &str = "fence_grouped_operations_total";
    const SWAPS: &str = "fence_grouped_swaps_total";
    let counters = async || (program.counter(OPERATIONS).await, program.counter(SWAPS).await);
    let before = counters().await;
    let http = Http::new();
    let mut writers = JoinSet::new();
    for number in 0..clients {
        writers.spawn(write(http.clone(), client.clone(), prefix.to_owned(), number, length));
    }
    let mut done = 0;
    while let Some(written) = writers.join_next().await {
        done += written.unwrap();
    }
    let after = counters().await;
    let (operations, swaps) = (after.0 - before.0, after.1 - before.1);
    Figures {
        writes_a_second: done as f64 / length.as_secs_f64(),
        group: operations as f64 / swaps as f64,
    }
}

/// The figures of the prefix scope, in the order of [`CLIENTS`]; all of them are printed.
async fn table(backend: &Backend, name: &str, latency: Duration) -> Vec<Figures> {
    let setup = Setup::new(backend, &settings(&backend.bucket));
    let program = Program::start(&setup).await;
    if !latency.is_zero() {
        backend.faults().set_latency(latency);
    }
    let (id, secret) = backend.key_pair();
    let plain = S3::new(program.data, id, secret, &backend.bucket);
    let length = Duration::from_millis(if is_full() { 10_000 } else { 1_000 });
    println!("{name}: writes a second of 10-byte objects, one proxy");
    println!("| clients | one prefix scope | operations a swap | object scopes | not fenced |");
    println!("|---|---|---|---|---|");
    let mut grouped = Vec::new();
    for clients in CLIENTS {
        let mut rates = Vec::new();
        for (scope, prefix, _) in SCOPES {
            let fenced = scope != "off";
            let client = if fenced { plain.clone().session("fence:7") } else { plain.clone() };
            rates.push(measure(&program, &client, prefix, clients, length).await);
        }
        let [many, each, free] = <[Figures; 3]>::try_from(rates).ok().unwrap();
        println!(
            "| {clients} | {:.0} | {:.1} | {:.0} | {:.0} |",
            many.writes_a_second, many.group, each.writes_a_second, free.writes_a_second
        );
        grouped.push(many);
    }
    grouped
}

/// `gain`: how many times as much 64 clients have to write as one.
fn assert_they_share_swaps(figures: &[Figures], gain: f64) {
    let (alone, crowd) = (&figures[0], figures.last().unwrap());
    assert!(crowd.group >= 4.0, "64 clients share a swap by {:.1} only", crowd.group);
    let ratio = crowd.writes_a_second / alone.writes_a_second;
    assert!(ratio >= gain, "64 clients write {ratio:.1} times as much as one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_share_swaps_over_the_embedded_store() {
    let _alone = ALONE.write().await;
    let backend = Backend::embedded(Profile::Aws).await;
    let latency = Duration::from_millis(10);
    let figures = table(&backend, "embedded store, 10 ms a request", latency).await;
    assert_they_share_swaps(&figures, 5.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_share_swaps_over_seaweedfs() {
    let _alone = ALONE.write().await;
    let Some(backend) = Backend::seaweedfs().await else { return };
    let figures = table(&backend, "SeaweedFS", Duration::ZERO).await;
    // Without latency it is the machine's cores that are short.
    assert_they_share_swaps(&figures, 1.2);
}
