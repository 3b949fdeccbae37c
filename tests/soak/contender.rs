//! A worker process that contends for one lease: it acquires it, writes while it holds it, now and
//! then renews it, and gives it back; whatever happens to it and to the proxies meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencepost::clock;
use http::Method;
use serde_json::{Value, json};

use crate::client;
use crate::moment;
use crate::support::Answer;
use crate::talk::{self, Acquired, Keeping, Kept, Read, Report, Site, Told, report};
use crate::writes::Hand;

/// The object that every holder writes.
pub(crate) const STATE: &str = "state";

/// How long an acquisition may wait in a proxy.
const WAIT_SECONDS: u64 = 5;

/// How often a write is tried that is not refused because of a newer token.
const TRIES_MAX: usize = 6;

const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn run(site: Site) {
    let mut hand = Hand::new(site);
    let over = Arc::new(AtomicBool::new(false));
    let contending = tokio::spawn({
        let (over, mut hand) = (Arc::clone(&over), hand.another());
        async move {
            while let Some(acquired) = acquire(&mut hand, &over).await {
                report(&Report::Acquired(acquired.clone()));
                hold(&mut hand, &acquired).await;
            }
        }
    });
    // Whatever it is told, it is to end.
    let mut orders = talk::orders();
    let _ = orders.recv().await;
    over.store(true, Ordering::SeqCst);
    contending.await.unwrap();
    report(&Report::Ended);
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

async fn act(hand: &mut Hand, body: Value, within: Duration) -> Option<Answer> {
    let client = hand.any_proxy();
    let target = format!("/_fence/lease/{}/{}", hand.site.bucket, hand.site.prefix);
    hand.http.send(&client, Method::POST, &target, body.to_string(), within).await
}

/// Asks until it has the lease, by one id: an answer that is lost must not be a lease that is lost.
async fn acquire(hand: &mut Hand, over: &AtomicBool) -> Option<Acquired> {
    let id = format!("{:032x}", clock::random_u128());
    let worker = hand.site.worker;
    let ttl_seconds = 1 + hand.dice.below(2) as u64;
    let ask = json!({
        "action": "acquire", "id": id, "holder": format!("worker {worker}"),
        "ttl_seconds": ttl_seconds, "wait_seconds": WAIT_SECONDS,
    });
    let (invoked, mut repeated, mut barred) = (moment(), 0, 0);
    while !over.load(Ordering::SeqCst) {
        // Some have gone away by the time that they get it.
        let patience = if hand.dice.one_in(8) { Duration::from_millis(700) } else { PATIENCE };
        let answer = act(hand, ask.clone(), patience).await;
        let returned = moment();
        let Some(answer) = answer else {
            repeated += 1;
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (short, value) = client::json(&answer);
        match &*short {
            "200" => {
                let token = value["token"].as_str().and_then(|token| token.parse().ok());
                assert_eq!(value["id"], *id, "{value}");
                return Some(Acquired {
                    worker,
                    id,
                    token: token.unwrap_or_else(|| panic!("no token in {value}")),
                    ttl_seconds,
                    invoked,
                    returned,
                    store_time: number(&value, "store_time"),
                    expires_at: number(&value, "expires_at"),
                    repeated,
                    barred,
                });
            }
            "409 FenceLeaseHeld" => {}
            "503 FenceBarrier" => barred += 1,
            "503 FenceContended" | "503 FenceUnavailable" => repeated += 1,
            _ => {
                report(&Report::Odd(format!("an acquisition: {short} {value}")));
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
    None
}

/// Works as one that believes to hold the lock does.
async fn hold(hand: &mut Hand, acquired: &Acquired) {
    let prefix = hand.site.prefix.clone();
    let token = acquired.token;
    let state = format!("{prefix}{STATE}");
    if write(hand, &state, token).await {
        read(hand, &state, token).await;
    }
    if hand.dice.one_in(4) {
        let action = json!({"action": "renew", "id": acquired.id});
        keep(hand, token, false, action).await;
        write(hand, &state, token).await;
    }
    if hand.dice.one_in(2) {
        let key = hand.dice.below(hand.site.keys);
        let key = hand.site.key(key);
        write(hand, &key, token).await;
    }
    let action = json!({"action": "release", "id": acquired.id});
    keep(hand, token, true, action).await;
}

/// Whether the write was done.
async fn write(hand: &mut Hand, key: &str, token: u64) -> bool {
    for _ in 0..TRIES_MAX {
        match hand.write(key, token, false).await {
            Told::Done => return true,
            Told::Stale => return false,
            Told::Busy | Told::Unknown => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    false
}

/// Reads what is there after a write of its own.
async fn read(hand: &mut Hand, key: &str, own: u64) {
    let client = hand.any_proxy();
    let invoked = moment();
    let target = client.path(key);
    let Some(answer) = hand.http.send(&client, Method::GET, &target, "", PATIENCE).await else {
        return;
    };
    let stamp = answer.header("x-amz-meta-fencepost-token").parse::<u64>();
    match stamp {
        Ok(token) if answer.status == 200 => {
            report(&Report::Read(Read { key: key.to_owned(), invoked, token }));
        }
        Ok(_) | Err(_) => {
            report(&Report::Odd(format!("a read after a write of {own}: {answer:?}")));
        }
    }
}

/// Renews or releases.
async fn keep(hand: &mut Hand, token: u64, releases: bool, action: Value) {
    let mut kept = Kept::Unknown;
    let invoked = moment();
    // An answer that was lost may have been its own success, so that the next one proves nothing.
    let mut lost_one = false;
    for _ in 0..TRIES_MAX {
        let patience = talk::patience(&mut hand.dice);
        let Some(answer) = act(hand, action.clone(), patience).await else {
            lost_one = true;
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (short, value) = client::json(&answer);
        kept = match &*short {
            "200" if value["token"] != *token.to_string() => {
                report(&Report::Odd(format!("the lease of {token} was kept as {value}")));
                Kept::Unknown
            }
            "200" if releases => Kept::Released,
            "200" => Kept::Renewed(number(&value, "expires_at")),
            "409 FenceLeaseLost" if lost_one && releases => Kept::Unknown,
            "409 FenceLeaseLost" => Kept::Lost,
            "503 FenceContended" | "503 FenceUnavailable" | "503 FenceOutcomeUnknown" => {
                lost_one |= short.ends_with("Unknown") || short.ends_with("Unavailable");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
            _ => {
                report(&Report::Odd(format!("keeping {token}: {short} {value}")));
                Kept::Unknown
            }
        };
        break;
    }
    let answered = moment();
    report(&Report::Kept(Keeping { token, releases, invoked, answered, kept }));
}
