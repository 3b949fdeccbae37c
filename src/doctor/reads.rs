//! What is written is seen, and who asks for what is not there is told so.

use super::bench::{Bench, Draft, State, When};
use super::judge::{Judged, failed, noted, passed, unclear};
use super::report::Depth;
use http::Method;

/// How often what was written is read at once: at a start, and in full.
const ROUNDS: (usize, usize) = (2, 5);

/// Everything about reads.
pub(super) async fn run(bench: &Bench<'_>, depth: Depth) {
    bench.note_check("read.absent", absent(bench).await);
    bench.note_check("read.after-write", after_write(bench, depth).await);
    if depth == Depth::Full {
        bench.note_check("read.list", list(bench).await);
    }
}

/// On AWS, who may not list a bucket is told 403 of a key that is not there, and the fence could
/// never see that an object is absent.
async fn absent(bench: &Bench<'_>) -> Judged {
    let reply = bench.head(&bench.key("read/nothing")).await?;
    Ok(match reply.status() {
        404 => passed("404"),
        403 => failed(
            "403 for a key that is not there; the proxy needs s3:GetObject and s3:ListBucket on \
             the ledger bucket and on every fenced one",
        ),
        200..=399 => failed(format!("{}, though nobody has written it", reply.said())),
        _ => unclear(reply.said()),
    })
}

async fn after_write(bench: &Bench<'_>, depth: Depth) -> Judged {
    let rounds = match depth {
        Depth::Quick => ROUNDS.0,
        Depth::Full => ROUNDS.1,
    };
    let key = bench.key("read/written");
    for round in 0..rounds {
        let body = format!("{round}");
        let tag = bench.given(&key, &body).await?;
        let head = bench.head(&key).await?.tag;
        if head.as_ref() != Some(&tag) {
            return Ok(failed(format!("HEAD shows {head:?} after a PUT that left {tag:?}")));
        }
        match bench.state(&key).await? {
            State::Present { body: found, .. } if found == body.as_bytes() => {}
            State::Present { .. } | State::Absent => {
                return Ok(failed("GET shows something else than was just written"));
            }
        }
    }
    bench.delete(&key, &When::Always).await?;
    Ok(match bench.state(&key).await? {
        State::Absent => passed(format!("{rounds} of {rounds} writes, and a DELETE, seen at once")),
        State::Present { .. } => failed("GET shows an object that was just deleted"),
    })
}

async fn list(bench: &Bench<'_>) -> Judged {
    let key = bench.key("read/listed");
    bench.given(&key, "1").await?;
    let query = format!("list-type=2&prefix={}", crate::upstream::query_value(&key));
    let listed = bench.send(Draft::to_bucket(Method::GET, query.clone())).await?;
    if !listed.answer.status.is_success() {
        return Ok(unclear(listed.said()));
    }
    let shown = listed.answer.element("Key").is_some();
    bench.delete(&key, &When::Always).await?;
    let listed = bench.send(Draft::to_bucket(Method::GET, query)).await?;
    let gone = listed.answer.element("Key").is_none();
    // The fence rests on no listing.
    Ok(match (shown, gone) {
        (true, true) => noted("a listing shows writes and deletes at once"),
        (_, _) => noted("a listing lags behind"),
    })
}
