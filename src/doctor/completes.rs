//! CompleteMultipartUpload.

use http::Method;

use super::bench::{Bench, Draft, Reply, Silence, State, When};
use super::judge::{Judged, Precedence, Race, Tally, failed, must_apply, must_refuse, noted};
use super::report::Depth;
use crate::upstream::query_value;

/// An upload with its one part in.
pub(super) struct Upload {
    key: String,
    id: String,
    part: String,
}

impl Upload {
    /// Creates it.
    pub(super) async fn begin(bench: &Bench<'_>, key: &str, body: &str) -> Result<Self, Silence> {
        let draft = Draft::new(Method::POST, key).query("uploads");
        let created = bench.send(draft).await?;
        let id = created.answer.element("UploadId").filter(|_| created.done());
        let id = id.ok_or_else(|| Silence(format!("no upload was created: {}", created.said())))?;
        bench.note_upload(key, &id);
        let query = format!("partNumber=1&uploadId={}", query_value(&id));
        let part = Draft::new(Method::PUT, key).query(query).body(body.to_owned());
        let put = bench.send(part).await?;
        // Of the answer itself: a part has an ETag, and no generation.
        let etag = put.answer.headers.get(http::header::ETAG).and_then(|etag| etag.to_str().ok());
        let part = etag.filter(|_| put.done()).map(str::to_owned);
        let part = part.ok_or_else(|| Silence(format!("no part was taken: {}", put.said())))?;
        Ok(Self { key: key.to_owned(), id, part })
    }

    pub(super) fn complete_draft(&self, bench: &Bench<'_>, when: &When<'_>) -> Draft {
        let xml = format!(
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part>\
             <PartNumber>1</PartNumber><ETag>{}</ETag></Part></CompleteMultipartUpload>",
            quick_xml::escape::escape(&self.part)
        );
        let query = format!("uploadId={}", query_value(&self.id));
        bench.when(Draft::new(Method::POST, self.key.clone()).query(query).body(xml), when)
    }

    pub(super) async fn complete(
        &self,
        bench: &Bench<'_>,
        when: &When<'_>,
    ) -> Result<Reply, Silence> {
        bench.send(self.complete_draft(bench, when)).await
    }
}

/// Everything about Complete. A start-up looks at none of it: whether a condition holds in a race
/// takes more rounds than it has time for.
pub(super) async fn run(bench: &Bench<'_>, depth: Depth) {
    bench.note_check("complete.plain", plain(bench).await);
    if depth == Depth::Quick {
        return;
    }
    bench.note_check("complete.plain.race", plain_race(bench).await);
    bench.note_check("complete.create.free", free(bench).await);
    bench.note_check("complete.create.taken", taken(bench).await);
    bench.note_check("complete.swap.right", right(bench).await);
    bench.note_check("complete.swap.stale", stale(bench).await);
    bench.note_check("complete.swap.absent", absent(bench).await);
    bench.note_check("complete.swap.overwritten", overwritten(bench).await);
    bench.note_check("complete.twice", twice(bench).await);
    bench.note_check("complete.create.race", race(bench, false).await);
    bench.note_check("complete.swap.race", race(bench, true).await);
}

async fn plain(bench: &Bench<'_>) -> Judged {
    let key = bench.key("complete/plain");
    let reply = Upload::begin(bench, &key, "1").await?.complete(bench, &When::Always).await?;
    must_apply(bench, &key, "1", &reply).await
}

/// A Complete without a condition, among PUTs that expect what was there.
async fn plain_race(bench: &Bench<'_>) -> Judged {
    let mut precedence = Precedence::default();
    for round in 0..bench.rounds {
        let key = bench.key(&format!("complete/p{round}"));
        let tag = bench.given(&key, "0").await?;
        let upload = Upload::begin(bench, &key, "completed").await?;
        let complete = upload.complete_draft(bench, &When::Always);
        precedence.run(bench, (&key, &tag), complete, Some("completed")).await?;
    }
    Ok(precedence.judged())
}

async fn free(bench: &Bench<'_>) -> Judged {
    let key = bench.key("complete/create");
    let reply = Upload::begin(bench, &key, "1").await?.complete(bench, &When::Absent).await?;
    must_apply(bench, &key, "1", &reply).await
}

async fn taken(bench: &Bench<'_>) -> Judged {
    let key = bench.key("complete/taken");
    bench.given(&key, "1").await?;
    let before = bench.state(&key).await?;
    let reply = Upload::begin(bench, &key, "2").await?.complete(bench, &When::Absent).await?;
    must_refuse(bench, &key, &before, &reply).await
}

async fn right(bench: &Bench<'_>) -> Judged {
    let key = bench.key("complete/right");
    let tag = bench.given(&key, "1").await?;
    let reply = Upload::begin(bench, &key, "2").await?.complete(bench, &When::Tag(&tag)).await?;
    must_apply(bench, &key, "2", &reply).await
}

async fn stale(bench: &Bench<'_>) -> Judged {
    let key = bench.key("complete/stale");
    let stale = bench.given(&key, "1").await?;
    bench.given(&key, "2").await?;
    let before = bench.state(&key).await?;
    let reply = Upload::begin(bench, &key, "3").await?.complete(bench, &When::Tag(&stale)).await?;
    must_refuse(bench, &key, &before, &reply).await
}

async fn absent(bench: &Bench<'_>) -> Judged {
    let (key, other) = (bench.key("complete/absent"), bench.key("complete/absent-other"));
    let tag = bench.given(&other, "1").await?;
    let reply = Upload::begin(bench, &key, "2").await?.complete(bench, &When::Tag(&tag)).await?;
    must_refuse(bench, &key, &State::Absent, &reply).await
}

/// AWS answers 409 when the object has been written since the upload was created, whatever the tag.
async fn overwritten(bench: &Bench<'_>) -> Judged {
    let key = bench.key("complete/overwritten");
    bench.given(&key, "1").await?;
    let upload = Upload::begin(bench, &key, "3").await?;
    let tag = bench.given(&key, "2").await?;
    let reply = upload.complete(bench, &When::Tag(&tag)).await?;
    Ok(noted(format!("{}, with the tag of a write after the upload was created", reply.said())))
}

async fn twice(bench: &Bench<'_>) -> Judged {
    let key = bench.key("complete/twice");
    let upload = Upload::begin(bench, &key, "1").await?;
    let first = upload.complete(bench, &When::Always).await?;
    if !first.done() {
        return Ok(failed(first.said()));
    }
    let second = upload.complete(bench, &When::Always).await?;
    Ok(noted(format!("the second time {}", second.said())))
}

async fn race(bench: &Bench<'_>, swap: bool) -> Judged {
    let bodies: Vec<String> = (1..=bench.writers).map(|writer| format!("by {writer}")).collect();
    let mut tally = Tally::default();
    for round in 0..bench.rounds {
        let key = bench.key(&format!("complete/{}{round}", if swap { "s" } else { "c" }));
        let tag = if swap { Some(bench.given(&key, "0").await?) } else { None };
        let when = tag.as_deref().map_or(When::Absent, When::Tag);
        let mut racers = Vec::with_capacity(bodies.len());
        for body in &bodies {
            let upload = Upload::begin(bench, &key, body).await?;
            racers.push((upload.complete_draft(bench, &when), Some(body.as_str())));
        }
        tally.run(bench, Race { key, racers }).await?;
    }
    Ok(tally.judged())
}
