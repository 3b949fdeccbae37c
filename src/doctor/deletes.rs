//! DeleteObject and DeleteObjects.

use http::{Method, header};

use super::bench::{Bench, Draft, State, When};
use super::judge::{Judged, Precedence, Race, Tally, failed, must_refuse, noted, passed, unclear};
use super::report::{Depth, Dialect, Outcome};
use crate::upstream::content_md5;

/// Everything about DELETE.
pub(super) async fn run(bench: &Bench<'_>, dialect: Dialect, depth: Depth) {
    bench.note_check("delete.plain", plain(bench).await);
    let judged = [
        ("delete.swap.stale", stale(bench).await),
        ("delete.swap.right", right(bench).await),
        ("delete.swap.race", race(bench).await),
    ];
    let passes = |judged: &Judged| matches!(judged, Ok((Outcome::Passed, _)));
    let conditional = judged.iter().all(|(_, judged)| passes(judged));
    for (id, judged) in judged {
        bench.note_check(id, judged);
    }
    // Ceph RGW 16 ignores conditions on DELETE, and lets a PUT undo it in most races.
    if depth == Depth::Full || !conditional {
        bench.note_check("delete.plain.race", plain_race(bench).await);
    }
    if depth == Depth::Full && dialect == Dialect::S3 {
        bench.note_check("delete.swap.absent", absent(bench).await);
        bench.note_check("delete.swap.star", star(bench).await);
        bench.note_check("delete-objects.tags", batch(bench).await);
    }
}

async fn plain(bench: &Bench<'_>) -> Judged {
    let key = bench.key("delete/plain");
    bench.given(&key, "1").await?;
    gone(bench, &key, &When::Always).await
}

async fn gone(bench: &Bench<'_>, key: &str, when: &When<'_>) -> Judged {
    let reply = bench.delete(key, when).await?;
    Ok(match (reply.done(), bench.state(key).await?) {
        (true, State::Absent) => passed(reply.said()),
        (true, State::Present { .. }) => failed(format!("{}, still there", reply.said())),
        (false, _) => failed(reply.said()),
    })
}

async fn stale(bench: &Bench<'_>) -> Judged {
    let key = bench.key("delete/stale");
    let stale = bench.given(&key, "1").await?;
    bench.given(&key, "2").await?;
    let before = bench.state(&key).await?;
    let reply = bench.delete(&key, &When::Tag(&stale)).await?;
    must_refuse(bench, &key, &before, &reply).await
}

async fn right(bench: &Bench<'_>) -> Judged {
    let key = bench.key("delete/right");
    let tag = bench.given(&key, "1").await?;
    gone(bench, &key, &When::Tag(&tag)).await
}

/// A PUT and a DELETE of the same version: one of them.
async fn race(bench: &Bench<'_>) -> Judged {
    let mut tally = Tally::default();
    for round in 0..bench.rounds {
        let key = bench.key(&format!("delete/r{round}"));
        let tag = bench.given(&key, "0").await?;
        let when = When::Tag(&tag);
        let racers = (0..bench.writers.max(2)).map(|writer| match writer % 2 {
            0 => (bench.when(Draft::new(Method::DELETE, key.clone()), &when), None),
            _ => (bench.put_draft(&key, "swapped", &when), Some("swapped")),
        });
        let racers = racers.collect();
        tally.run(bench, Race { key: key.clone(), racers }).await?;
    }
    Ok(tally.judged())
}

/// A DELETE without a condition, among PUTs that expect what was there.
async fn plain_race(bench: &Bench<'_>) -> Judged {
    let mut precedence = Precedence::default();
    for round in 0..bench.rounds {
        let key = bench.key(&format!("delete/p{round}"));
        let tag = bench.given(&key, "0").await?;
        let delete = Draft::new(Method::DELETE, key.clone());
        precedence.run(bench, (&key, &tag), delete, None).await?;
    }
    Ok(precedence.judged())
}

async fn absent(bench: &Bench<'_>) -> Judged {
    let (key, other) = (bench.key("delete/absent"), bench.key("delete/absent-other"));
    let tag = bench.given(&other, "1").await?;
    Ok(noted(bench.delete(&key, &When::Tag(&tag)).await?.said()))
}

async fn star(bench: &Bench<'_>) -> Judged {
    let key = bench.key("delete/star");
    bench.given(&key, "1").await?;
    let reply = bench.delete(&key, &When::Raw(header::IF_MATCH, "*")).await?;
    let kept = bench.state(&key).await? != State::Absent;
    Ok(noted(format!("{}, {}", reply.said(), if kept { "kept" } else { "gone" })))
}

/// One key with its own ETag, one with that of another version.
async fn batch(bench: &Bench<'_>) -> Judged {
    let (right, wrong) = (bench.key("delete/b-right"), bench.key("delete/b-wrong"));
    let own = bench.given(&right, "1").await?;
    let stale = bench.given(&wrong, "1").await?;
    bench.given(&wrong, "2").await?;
    let object = |key: &str, tag: &str| {
        let tag = quick_xml::escape::escape(bench.quotes().write(tag)).into_owned();
        format!("<Object><Key>{key}</Key><ETag>{tag}</ETag></Object>")
    };
    let xml = format!(
        "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{}{}</Delete>",
        object(&right, &own),
        object(&wrong, &stale)
    );
    let md5 = content_md5(xml.as_bytes());
    let md5 = md5.to_str().unwrap_or_default().to_owned();
    let draft = Draft::to_bucket(Method::POST, "delete").header("content-md5", &md5).body(xml);
    let reply = bench.send(draft).await?;
    let gone = bench.state(&right).await? == State::Absent;
    let kept = bench.state(&wrong).await? != State::Absent;
    let said =
        format!("{}; right: {}, stale: {}", reply.answer.status.as_u16(), word(gone), word(!kept));
    Ok(match (reply.answer.status.is_success(), gone, kept) {
        (false, _, _) => unclear(reply.said()),
        (true, true, true) => passed(said),
        (true, _, _) => failed(said),
    })
}

fn word(gone: bool) -> &'static str {
    if gone { "gone" } else { "kept" }
}
