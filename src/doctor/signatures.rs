//! Whether the store refuses a request whose signature is too old: F9's first assumption.

use std::time::{Duration, SystemTime};

use http::Method;

use super::bench::{Bench, Draft, Silence, State, When};
use super::judge::{Judged, failed, must_refuse, noted, passed, unclear};
use super::report::Depth;
use crate::clock;
use crate::upstream::Signing;

/// Older than the 15 minutes that a signature in the header is good for.
const TOO_OLD: Duration = Duration::from_secs(20 * 60);

/// The life of a signature in the query, and how long it is over.
const EXPIRED: (u32, Duration) = (60, Duration::from_secs(180));

/// Everything about signatures. Answers the store's clock less this machine's, in seconds.
pub(super) async fn run(bench: &Bench<'_>, depth: Depth, signs: bool) -> Option<i64> {
    let now = store_now(bench).await;
    let skew = now.as_ref().ok().map(|now| seconds_between(clock::now(), *now));
    if !signs {
        let by_themselves = "OAuth's tokens run out by themselves";
        bench.note_check("signature.too-old", Ok(passed(by_themselves)));
        bench.note_check("signature.expired", Ok(passed(by_themselves)));
        bench.note_check("clock", clock_skew(skew));
        return skew;
    }
    let tried = |name: &'static str, signing: Result<Signing, Silence>| async move {
        let key = bench.key(&format!("signatures/{name}"));
        let draft = Draft::new(Method::PUT, key.clone()).body("1").signed(signing?);
        let reply = bench.send(draft).await?;
        must_refuse(bench, &key, &State::Absent, &reply).await
    };
    let old = now.clone().map(|now| Signing::Header(now - TOO_OLD));
    bench.note_check("signature.too-old", tried("old", old).await);
    let expired = now.clone().map(|now| Signing::Query(now - EXPIRED.1, EXPIRED.0));
    bench.note_check("signature.expired", tried("expired", expired).await);
    if depth == Depth::Full {
        let wrong = now.clone().map(Signing::Wrong);
        let judged = tried("wrong", wrong).await;
        // Not the fence's business, but a store that takes anybody has other writers.
        bench.note_check("signature.wrong", judged.map(|(_, evidence)| noted(evidence)));
    }
    bench.note_check("clock", clock_skew(skew));
    skew
}

async fn store_now(bench: &Bench<'_>) -> Result<SystemTime, Silence> {
    let reply = bench.put(&bench.key("signatures/now"), "1", &When::Always).await?;
    Bench::time_of(&reply).ok_or_else(|| Silence("its answers carry no Date".to_owned()))
}

fn clock_skew(skew: Option<i64>) -> Judged {
    Ok(match skew {
        None => unclear("its answers carry no Date"),
        Some(skew) if skew.abs() > 60 => failed(format!(
            "{skew} s ahead of this machine: signatures that last for a minute are refused"
        )),
        Some(skew) => noted(format!("{skew} s ahead of this machine")),
    })
}

fn seconds_between(earlier: SystemTime, later: SystemTime) -> i64 {
    let whole = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match later.duration_since(earlier) {
        Ok(ahead) => whole(ahead),
        Err(behind) => -whole(behind.duration()),
    }
}
