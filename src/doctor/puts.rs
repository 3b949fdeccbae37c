//! PutObject: what the ledger and every fenced write rest on.

use std::time::Duration;

use http::header;
use tokio::sync::oneshot;

use super::bench::{Bench, Reply, Silence, State, When};
use super::judge::{Judged, Race, Tally, failed, must_apply, must_refuse, noted, passed, unclear};
use super::report::{Depth, Dialect};
use crate::s3::EtagQuotes;

/// How long the first half of an overtaken body is given to arrive.
const HALF_BODY_PAUSE: Duration = Duration::from_millis(150);

/// How long the overtaking request is waited for before the rest of the overtaken body is sent: a
/// store may keep a key locked while a body arrives (MinIO).
const OVERTAKING_MAX: Duration = Duration::from_secs(2);

/// Everything about PUT.
pub(super) async fn run(
    bench: &Bench<'_>,
    dialect: Dialect,
    depth: Depth,
    quotes: Option<EtagQuotes>,
) {
    create(bench).await;
    let right = swap_right(bench, quotes).await;
    bench.note_check("put.swap.right", right);
    bench.note_check("put.swap.stale", swap_stale(bench).await);
    bench.note_check("put.swap.absent", swap_absent(bench).await);
    if depth == Depth::Full && dialect == Dialect::S3 {
        oddities(bench).await;
    }
    let (created, swapped) =
        tokio::join!(overtaken(bench, "put/o1", false), overtaken(bench, "put/o2", true));
    bench.note_check("put.create.overtaken", created);
    bench.note_check("put.swap.overtaken", swapped);
    if depth == Depth::Full {
        bench.note_check("put.swap.deleted-under", deleted_under(bench).await);
    }
    bench.note_check("put.create.race", race(bench, false).await);
    bench.note_check("put.swap.race", race(bench, true).await);
}

async fn create(bench: &Bench<'_>) {
    let key = bench.key("put/create");
    let free = async {
        let reply = bench.put(&key, "1", &When::Absent).await?;
        if reply.done() && reply.tag.is_none() {
            return Ok(failed(format!("{}, without an ETag", reply.said())));
        }
        must_apply(bench, &key, "1", &reply).await
    };
    bench.note_check("put.create.free", free.await);
    let taken = async {
        let before = bench.state(&key).await?;
        let reply = bench.put(&key, "2", &When::Absent).await?;
        must_refuse(bench, &key, &before, &reply).await
    };
    bench.note_check("put.create.taken", taken.await);
    let deleted = async {
        bench.delete(&key, &When::Always).await?;
        let reply = bench.put(&key, "3", &When::Absent).await?;
        must_apply(bench, &key, "3", &reply).await
    };
    bench.note_check("put.create.deleted", deleted.await);
}

/// Also finds out how ETags are to be written.
async fn swap_right(bench: &Bench<'_>, quotes: Option<EtagQuotes>) -> Judged {
    let key = bench.key("put/swap");
    let tag = bench.given(&key, "1").await?;
    let mut said = Vec::new();
    let either = [EtagQuotes::Quoted, EtagQuotes::Bare];
    for quotes in either.into_iter().filter(|one| quotes.is_none_or(|quotes| quotes == *one)) {
        let value = quotes.write(&tag);
        let reply = bench.put(&key, "2", &When::Raw(header::IF_MATCH, &value)).await?;
        if reply.done() {
            bench.learn_quotes(quotes);
            return must_apply(bench, &key, "2", &reply).await;
        }
        said.push(reply.said());
    }
    Ok(failed(format!("{}, with the object's own ETag", said.join(" and "))))
}

/// With the tag of the version before, in both spellings.
async fn swap_stale(bench: &Bench<'_>) -> Judged {
    let key = bench.key("put/stale");
    let stale = bench.given(&key, "1").await?;
    bench.given(&key, "2").await?;
    let before = bench.state(&key).await?;
    let mut last = unclear("not tried");
    for quotes in [EtagQuotes::Bare, EtagQuotes::Quoted] {
        let value = quotes.write(&stale);
        let reply = bench.put(&key, "3", &When::Raw(header::IF_MATCH, &value)).await?;
        last = must_refuse(bench, &key, &before, &reply).await?;
        if last.0 != super::report::Outcome::Passed {
            return Ok(last);
        }
    }
    Ok(last)
}

async fn swap_absent(bench: &Bench<'_>) -> Judged {
    let (key, other) = (bench.key("put/absent"), bench.key("put/absent-other"));
    let tag = bench.given(&other, "1").await?;
    let reply = bench.put(&key, "2", &When::Tag(&tag)).await?;
    must_refuse(bench, &key, &State::Absent, &reply).await
}

/// What the proxy never sends, because stores take it for all kinds of things.
async fn oddities(bench: &Bench<'_>) {
    let odd = [
        ("put.swap.star", header::IF_MATCH, "*"),
        ("put.swap.empty", header::IF_MATCH, ""),
        ("put.create.quoted-star", header::IF_NONE_MATCH, "\"*\""),
    ];
    for (id, name, value) in odd {
        let key = bench.key(id);
        let tried = async {
            bench.given(&key, "1").await?;
            let reply = bench.put(&key, "2", &When::Raw(name, value)).await?;
            Ok(noted(described(bench, &key, "2", &reply).await?))
        };
        bench.note_check(id, tried.await);
    }
    let tried = async {
        let key = bench.key("put.swap.star-absent");
        let reply = bench.put(&key, "2", &When::Raw(header::IF_MATCH, "*")).await?;
        Ok(noted(described(bench, &key, "2", &reply).await?))
    };
    bench.note_check("put.swap.star-absent", tried.await);
}

async fn described(
    bench: &Bench<'_>,
    key: &str,
    body: &str,
    reply: &Reply,
) -> Result<String, Silence> {
    let written = match bench.state(key).await? {
        State::Present { body: found, .. } => found == body.as_bytes(),
        State::Absent => false,
    };
    Ok(format!("{}, {}", reply.said(), if written { "written" } else { "not written" }))
}

/// A body that another write overtakes half-way must not replace what that one wrote.
async fn overtaken(bench: &Bench<'_>, name: &str, swap: bool) -> Judged {
    let key = bench.key(name);
    let tag = if swap { Some(bench.given(&key, "0").await?) } else { None };
    let when = tag.as_deref().map_or(When::Absent, When::Tag);
    let (slow, fast) = overtake(bench, &key, &when, bench.put(&key, "fast", &when)).await;
    let (slow, fast) = (slow?, fast?);
    let evidence = format!("overtaken: {}, overtaking: {}", slow.said(), fast.said());
    let found = match bench.state(&key).await? {
        State::Present { body, .. } => body,
        State::Absent => return Ok(failed(format!("{evidence}; there is no object"))),
    };
    Ok(match (slow.done(), fast.done(), found.as_ref()) {
        (true, true, _) => failed(evidence),
        (true, false, b"12") | (false, true, b"fast") => passed(evidence),
        (false, false, _) => unclear(evidence),
        (true, false, _) | (false, true, _) => failed(format!("{evidence}; other bytes are there")),
    })
}

async fn deleted_under(bench: &Bench<'_>) -> Judged {
    let key = bench.key("put/o3");
    let tag = bench.given(&key, "0").await?;
    let when = When::Tag(&tag);
    let delete = bench.delete(&key, &When::Always);
    let (slow, fast) = overtake(bench, &key, &when, delete).await;
    let (slow, fast) = (slow?, fast?);
    let evidence = format!("overtaken: {}, DELETE: {}", slow.said(), fast.said());
    // A store that makes one wait for the other has the DELETE come last.
    Ok(match (slow.done(), bench.state(&key).await?) {
        (_, State::Absent) => passed(format!("{evidence}; there is no object")),
        (true, State::Present { .. }) => failed(format!("{evidence}; the object is back")),
        (false, State::Present { .. }) => unclear(evidence),
    })
}

async fn overtake(
    bench: &Bench<'_>,
    key: &str,
    when: &When<'_>,
    fast: impl Future<Output = Result<Reply, Silence>>,
) -> (Result<Reply, Silence>, Result<Reply, Silence>) {
    let (rest, wait) = oneshot::channel();
    let overtaking = async {
        tokio::time::sleep(HALF_BODY_PAUSE).await;
        let mut fast = std::pin::pin!(fast);
        let early = tokio::time::timeout(OVERTAKING_MAX, fast.as_mut()).await;
        // If the slow request has ended already there is nobody to take the rest.
        let _ = rest.send(());
        match early {
            Ok(reply) => reply,
            Err(_) => fast.await,
        }
    };
    tokio::join!(bench.put_slowly(key, when, wait), overtaking)
}

async fn race(bench: &Bench<'_>, swap: bool) -> Judged {
    let bodies: Vec<String> = (1..=bench.writers).map(|writer| format!("by {writer}")).collect();
    let mut tally = Tally::default();
    for round in 0..bench.rounds {
        let key = bench.key(&format!("put/{}{round}", if swap { "s" } else { "c" }));
        let tag = if swap { Some(bench.given(&key, "0").await?) } else { None };
        let when = tag.as_deref().map_or(When::Absent, When::Tag);
        let racer = |body| (bench.put_draft(&key, body, &when), Some(body));
        let racers = bodies.iter().map(String::as_str).map(racer).collect();
        tally.run(bench, Race { key: key.clone(), racers }).await?;
    }
    Ok(tally.judged())
}
