//! A worker process that holds tokens: it claims the prefix, and writes its keys until it is told
//! that the lock is lost, whatever it is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use tokio::task::JoinSet;

use crate::client;
use crate::moment;
use crate::talk::{self, Begun, Order, Report, Site, Told, report};
use crate::writes::Hand;

/// How many writes a worker has in flight.
const WRITES_IN_FLIGHT: usize = 8;

/// How long a claim may wait in a proxy: one of these.
const WAIT_SECONDS: [u64; 3] = [0, 0, 2];

pub(crate) async fn run(site: Site) {
    let mut hand = Hand::new(site);
    let mut orders = talk::orders();
    let mut term: Option<(Arc<AtomicBool>, tokio::task::JoinHandle<()>)> = None;
    while let Some(order) = orders.recv().await {
        match order {
            Order::Hold { token, claim } => {
                let lost = Arc::new(AtomicBool::new(false));
                let holding = hold(hand.another(), token, claim, Arc::clone(&lost));
                term = Some((lost, tokio::spawn(holding)));
            }
            Order::Lost | Order::End => {
                if let Some((lost, holding)) = term.take() {
                    lost.store(true, Ordering::SeqCst);
                    holding.await.unwrap();
                }
                report(&Report::Ended);
            }
        }
    }
}

async fn hold(mut hand: Hand, token: u64, claim: bool, lost: Arc<AtomicBool>) {
    let begun =
        if claim { claimed(&mut hand, token).await } else { written(&mut hand, token).await };
    report(&Report::Begun(begun));
    let mut writers = JoinSet::new();
    for _ in 0..WRITES_IN_FLIGHT {
        let (mut hand, lost) = (hand.another(), Arc::clone(&lost));
        writers.spawn(async move {
            while !lost.load(Ordering::SeqCst) {
                let key = hand.dice.below(hand.site.keys);
                let (key, deletes) = (hand.site.key(key), hand.dice.one_in(8));
                hand.write(&key, token, deletes).await;
                let rest = 2 + hand.dice.below(15) as u64;
                tokio::time::sleep(Duration::from_millis(rest)).await;
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
}

/// Claims the prefix, again and again until the claim returns.
async fn claimed(hand: &mut Hand, token: u64) -> Begun {
    let mut begun = Begun { token, invoked: moment(), returned: 0, barred: 0, repeated: 0 };
    let target = format!("/_fence/claim/{}/{}", hand.site.bucket, hand.site.prefix);
    loop {
        let wait = WAIT_SECONDS[hand.dice.below(WAIT_SECONDS.len())];
        let client = hand.any_proxy().with("x-fence-token", &token.to_string());
        let client = client.with("x-fence-wait", &wait.to_string());
        let patience = Duration::from_secs(wait + 2);
        let answer = hand.http.send(&client, Method::PUT, &target, "", patience).await;
        begun.returned = moment();
        let Some(answer) = answer else {
            begun.repeated += 1;
            continue;
        };
        let (short, value) = client::json(&answer);
        match &*short {
            "200" if value["token"] == *token.to_string() => return begun,
            "503 FenceBarrier"
                if value["waiting_for"].as_array().is_some_and(|w| !w.is_empty()) =>
            {
                begun.barred += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            "503 FenceContended" | "503 FenceUnavailable" => begun.repeated += 1,
            _ => {
                report(&Report::Odd(format!("a claim of {token}: {short} {value}")));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// Where there is nothing to be claimed, the first write has to do.
async fn written(hand: &mut Hand, token: u64) -> Begun {
    let mut begun = Begun { token, invoked: moment(), returned: 0, barred: 0, repeated: 0 };
    loop {
        let key = hand.dice.below(hand.site.keys);
        let key = hand.site.key(key);
        if hand.write(&key, token, false).await == Told::Done {
            begun.returned = moment();
            return begun;
        }
        begun.repeated += 1;
    }
}
