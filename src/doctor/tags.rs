//! Whether tags repeat, and whether they can be foretold (F4).

use super::bench::{Bench, When};
use super::completes::Upload;
use super::copies::copy_draft;
use super::judge::{Judged, failed, noted, passed, unclear};
use super::report::{Depth, TagsFound};
use crate::fence::Tag;
use crate::upstream::forms_of;

/// Everything about tags.
pub(super) async fn run(bench: &Bench<'_>, depth: Depth) -> Option<TagsFound> {
    let (judged, mut tags) = match same_bytes(bench).await {
        Ok((evidence, tags)) => (Ok(evidence), Some(tags)),
        Err(silence) => (Err(silence), None),
    };
    bench.note_check("tags.same-bytes", judged);
    let one_part = one_part(bench, tags).await;
    bench.note_check("tags.one-part", one_part);
    if depth == Depth::Full {
        let rewritten = rewritten(bench).await;
        if let Ok((_, true)) = rewritten {
            tags = Some(TagsFound::Repeat);
        }
        bench.note_check("tags.rewrite", rewritten.map(|(evidence, _)| evidence));
    }
    tags
}

type Evidence = (super::report::Outcome, String);

/// The same bytes, under two keys and twice under one.
async fn same_bytes(bench: &Bench<'_>) -> Result<(Evidence, TagsFound), super::bench::Silence> {
    let (one, other) = (bench.key("tags/one"), bench.key("tags/other"));
    let first = bench.given(&one, "tag").await?;
    let second = bench.given(&one, "tag").await?;
    let elsewhere = bench.given(&other, "tag").await?;
    if first != second && first != elsewhere && second != elsewhere {
        return Ok((passed("another tag each time"), TagsFound::Unique));
    }
    let foretold = forms_of(b"tag").plain == Tag::Version(first);
    let judged = match foretold {
        true => passed("the same tag each time, the MD5 of the bytes"),
        false => failed("tags repeat and are not the MD5 of the bytes: nobody can foretell them"),
    };
    Ok((judged, TagsFound::Repeat))
}

/// The other form of the same bytes has to leave another tag, and the one that was foretold.
async fn one_part(bench: &Bench<'_>, tags: Option<TagsFound>) -> Judged {
    let key = bench.key("tags/one-part");
    let reply = Upload::begin(bench, &key, "tag").await?.complete(bench, &When::Always).await?;
    if !reply.done() {
        return Ok(unclear(reply.said()));
    }
    let tag = bench.head(&key).await?.tag;
    let forms = forms_of(b"tag");
    let (foretold, plain) = (tag.clone().map(Tag::Version), Tag::Version("".into()));
    let foretold = foretold.unwrap_or(plain);
    Ok(match tags {
        Some(TagsFound::Unique) => noted("not needed: no tag repeats"),
        _ if foretold == forms.one_part => passed("the MD5 of the MD5, with -1"),
        _ => failed(format!("{} is not what was foretold", tag.unwrap_or_default())),
    })
}

/// Whether other metadata, by a copy onto itself, leave the tag.
async fn rewritten(bench: &Bench<'_>) -> Result<(Evidence, bool), super::bench::Silence> {
    let key = bench.key("tags/rewritten");
    let tag = bench.given(&key, "tag").await?;
    let draft = copy_draft(bench, &key, &key, &When::Always)
        .header("x-amz-metadata-directive", "REPLACE")
        .header("x-amz-meta-doctor", "2");
    let reply = bench.send(draft).await?;
    if !reply.done() {
        return Ok((unclear(reply.said()), false));
    }
    let same = bench.head(&key).await?.tag.as_ref() == Some(&tag);
    let text = if same { "the tag stays" } else { "another tag" };
    Ok((noted(format!("{}, {text}", reply.said())), same))
}
