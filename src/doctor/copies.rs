//! CopyObject: conditions on its destination, and the pin on its source.

use http::Method;

use super::bench::{Bench, Draft, Reply, Silence, State, When};
use super::judge::{Judged, Precedence, Race, Tally, must_apply, must_refuse};
use super::report::Depth;
use crate::s3::percent_encode_key;

/// Everything about Copy.
pub(super) async fn run(bench: &Bench<'_>, depth: Depth) {
    bench.note_check("copy.plain", plain(bench).await);
    bench.note_check("copy.source.stale", source_stale(bench).await);
    if depth == Depth::Quick {
        return;
    }
    bench.note_check("copy.plain.race", plain_race(bench).await);
    bench.note_check("copy.create.free", free(bench).await);
    bench.note_check("copy.create.taken", taken(bench).await);
    bench.note_check("copy.swap.right", right(bench).await);
    bench.note_check("copy.swap.stale", stale(bench).await);
    bench.note_check("copy.swap.absent", absent(bench).await);
    bench.note_check("copy.create.race", race(bench, false).await);
    bench.note_check("copy.swap.race", race(bench, true).await);
}

pub(super) fn copy_draft(bench: &Bench<'_>, source: &str, key: &str, when: &When<'_>) -> Draft {
    let source = format!("/{}/{}", bench.bucket, percent_encode_key(source.as_bytes()));
    let draft = Draft::new(Method::PUT, key).header("x-amz-copy-source", &source);
    bench.when(draft, when)
}

async fn copied(
    bench: &Bench<'_>,
    key: &str,
    body: &str,
    when: &When<'_>,
) -> Result<Reply, Silence> {
    let source = bench.key("copy/source");
    bench.given(&source, body).await?;
    bench.send(copy_draft(bench, &source, key, when)).await
}

async fn plain(bench: &Bench<'_>) -> Judged {
    let key = bench.key("copy/plain");
    let reply = copied(bench, &key, "copy", &When::Always).await?;
    must_apply(bench, &key, "copy", &reply).await
}

/// A Copy without a condition, among PUTs that expect what was there.
async fn plain_race(bench: &Bench<'_>) -> Judged {
    let source = bench.key("copy/p");
    bench.given(&source, "copied").await?;
    let mut precedence = Precedence::default();
    for round in 0..bench.rounds {
        let key = bench.key(&format!("copy/p{round}"));
        let tag = bench.given(&key, "0").await?;
        let copy = copy_draft(bench, &source, &key, &When::Always);
        precedence.run(bench, (&key, &tag), copy, Some("copied")).await?;
    }
    Ok(precedence.judged())
}

async fn source_stale(bench: &Bench<'_>) -> Judged {
    let (source, key) = (bench.key("copy/pinned"), bench.key("copy/of-pinned"));
    let stale = bench.given(&source, "1").await?;
    bench.given(&source, "2").await?;
    let draft = copy_draft(bench, &source, &key, &When::Always);
    let pin = bench.quotes().write(&stale);
    let reply = bench.send(draft.header("x-amz-copy-source-if-match", &pin)).await?;
    must_refuse(bench, &key, &State::Absent, &reply).await
}

async fn free(bench: &Bench<'_>) -> Judged {
    let key = bench.key("copy/create");
    let reply = copied(bench, &key, "1", &When::Absent).await?;
    must_apply(bench, &key, "1", &reply).await
}

async fn taken(bench: &Bench<'_>) -> Judged {
    let key = bench.key("copy/taken");
    bench.given(&key, "1").await?;
    let before = bench.state(&key).await?;
    let reply = copied(bench, &key, "2", &When::Absent).await?;
    must_refuse(bench, &key, &before, &reply).await
}

async fn right(bench: &Bench<'_>) -> Judged {
    let key = bench.key("copy/right");
    let tag = bench.given(&key, "1").await?;
    let reply = copied(bench, &key, "2", &When::Tag(&tag)).await?;
    must_apply(bench, &key, "2", &reply).await
}

async fn stale(bench: &Bench<'_>) -> Judged {
    let key = bench.key("copy/stale");
    let stale = bench.given(&key, "1").await?;
    bench.given(&key, "2").await?;
    let before = bench.state(&key).await?;
    let reply = copied(bench, &key, "3", &When::Tag(&stale)).await?;
    must_refuse(bench, &key, &before, &reply).await
}

async fn absent(bench: &Bench<'_>) -> Judged {
    let (key, other) = (bench.key("copy/absent"), bench.key("copy/absent-other"));
    let tag = bench.given(&other, "1").await?;
    let reply = copied(bench, &key, "2", &When::Tag(&tag)).await?;
    must_refuse(bench, &key, &State::Absent, &reply).await
}

async fn race(bench: &Bench<'_>, swap: bool) -> Judged {
    let bodies: Vec<String> = (1..=bench.writers).map(|writer| format!("by {writer}")).collect();
    let mut sources = Vec::with_capacity(bodies.len());
    for (body, writer) in bodies.iter().zip(1..) {
        let source = bench.key(&format!("copy/from-{writer}"));
        bench.given(&source, body).await?;
        sources.push((source, body.as_str()));
    }
    let mut tally = Tally::default();
    for round in 0..bench.rounds {
        let key = bench.key(&format!("copy/{}{round}", if swap { "s" } else { "c" }));
        let tag = if swap { Some(bench.given(&key, "0").await?) } else { None };
        let when = tag.as_deref().map_or(When::Absent, When::Tag);
        let racers = sources
            .iter()
            .map(|(source, body)| (copy_draft(bench, source, &key, &when), Some(*body)))
            .collect();
        tally.run(bench, Race { key: key.clone(), racers }).await?;
    }
    Ok(tally.judged())
}
