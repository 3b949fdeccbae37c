//! Before and after: whether a bucket keeps versions, a bucket for the time of an examination, and
//! the removal of everything that was written.

use http::Method;
use quick_xml::Reader;
use quick_xml::events::Event;

use super::bench::{Bench, Draft, Reply, Silence};
use super::report::Versioning;
use crate::upstream::query_value;

/// How many pages of versions are removed. Every page has a thousand.
const PAGES_MAX: usize = 20;

/// Whether the bucket is there.
pub(super) async fn look(bench: &Bench<'_>) -> Result<Reply, Silence> {
    bench.send(Draft::to_bucket(Method::HEAD, "")).await
}

/// Whether the bucket keeps versions, as it says itself.
pub(super) async fn versioning(bench: &Bench<'_>) -> Versioning {
    asked(bench).await.unwrap_or(Versioning::Unknown)
}

/// The same. `None`: there is no such bucket.
pub(super) async fn asked(bench: &Bench<'_>) -> Option<Versioning> {
    let Ok(reply) = bench.send(Draft::to_bucket(Method::GET, "versioning")).await else {
        return Some(Versioning::Unknown);
    };
    if reply.answer.code().as_deref() == Some("NoSuchBucket") {
        return None;
    }
    // A success with an error inside says nothing, as no answer does.
    if reply.answer.status.is_success() && !reply.done() {
        return Some(Versioning::Unknown);
    }
    Some(match (reply.status(), reply.answer.element("Status").as_deref()) {
        (200, Some("Enabled")) => Versioning::Enabled,
        (200, Some("Suspended")) => Versioning::Suspended,
        // Google says it so where it was never switched on, Amazon says nothing.
        (200, _) => Versioning::Off,
        // Who does not know the question keeps no versions.
        (501 | 405, _) => Versioning::Off,
        (_, _) => Versioning::Unknown,
    })
}

/// Makes the bucket, with versioning on.
pub(super) async fn create_versioned(bench: &Bench<'_>) -> Result<(), Silence> {
    let created = bench.send(Draft::to_bucket(Method::PUT, "")).await?;
    if !created.done() {
        return Err(Silence(format!("no scratch bucket could be created: {}", created.said())));
    }
    let xml = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
               <Status>Enabled</Status></VersioningConfiguration>";
    let on = bench.send(Draft::to_bucket(Method::PUT, "versioning").body(xml)).await?;
    match on.done() && versioning(bench).await == Versioning::Enabled {
        true => Ok(()),
        false => Err(Silence(format!("versioning could not be switched on: {}", on.said()))),
    }
}

/// Removes the bucket that [`create_versioned`] made.
pub(super) async fn remove_bucket(bench: &Bench<'_>) -> Result<(), Silence> {
    let removed = bench.send(Draft::to_bucket(Method::DELETE, "")).await?;
    match removed.done() {
        true => Ok(()),
        false => Err(Silence(format!("the scratch bucket stays: {}", removed.said()))),
    }
}

/// Removes what was written. Answers how many keys could not be removed.
pub(super) async fn clean_up(bench: &Bench<'_>, versioning: Versioning) -> usize {
    for (key, id) in bench.uploads() {
        let draft = Draft::new(Method::DELETE, key);
        // Those that are complete are gone.
        let _gone = bench.send(draft.query(format!("uploadId={}", query_value(&id)))).await;
    }
    let mut left = 0;
    if versioning.keeps_versions() {
        left += remove_versions(bench).await;
    } else {
        for key in bench.written() {
            let removed = bench.send(Draft::new(Method::DELETE, key)).await;
            // 400: a key that the store does not take, and has not taken.
            let gone = |reply: &Reply| reply.done() || matches!(reply.status(), 400 | 404);
            left += usize::from(!removed.is_ok_and(|reply| gone(&reply)));
        }
    }
    left
}

async fn remove_versions(bench: &Bench<'_>) -> usize {
    let query = format!("versions&prefix={}", query_value(&bench.prefix));
    for _ in 0..PAGES_MAX {
        let Ok(page) = bench.send(Draft::to_bucket(Method::GET, query.clone())).await else {
            return 1;
        };
        let versions = versions_in(&page.answer.body);
        if versions.is_empty() {
            return 0;
        }
        let mut stuck = 0;
        for (key, id) in &versions {
            let draft = Draft::new(Method::DELETE, key.clone());
            let removed = bench.send(draft.query(format!("versionId={}", query_value(id)))).await;
            stuck += usize::from(!removed.is_ok_and(|reply| reply.done()));
        }
        if stuck == versions.len() {
            return stuck;
        }
    }
    1
}

/// Keys and ids of the versions and markers that a listing shows.
fn versions_in(xml: &[u8]) -> Vec<(String, String)> {
    let mut reader = Reader::from_reader(xml);
    let mut found = Vec::new();
    let (mut name, mut key, mut id) = (Vec::new(), String::new(), String::new());
    loop {
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                name = start.local_name().as_ref().to_vec();
                match name.as_slice() {
                    b"Key" => key.clear(),
                    b"VersionId" => id.clear(),
                    _ => {}
                }
            }
            Ok(Event::Text(text)) => {
                let text = text.decode().unwrap_or_default();
                match name.as_slice() {
                    b"Key" => key.push_str(&text),
                    b"VersionId" => id.push_str(&text),
                    _ => {}
                }
            }
            Ok(Event::End(end)) => {
                name.clear();
                if matches!(end.local_name().as_ref(), b"Version" | b"DeleteMarker") {
                    found.push((std::mem::take(&mut key), std::mem::take(&mut id)));
                }
            }
            Ok(Event::Eof) | Err(_) => return found,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_markers_are_read() {
        let xml = b"<R xmlns=\"x\"><Prefix>p</Prefix><Version><Key>a/\xc3\xa9</Key>\
                    <VersionId>1</VersionId><Size>3</Size></Version><DeleteMarker>\
                    <Key>b</Key><VersionId>2</VersionId></DeleteMarker></R>";
        let expected = [("a/\u{e9}", "1"), ("b", "2")];
        let expected = expected.map(|(key, id)| (key.to_owned(), id.to_owned())).to_vec();
        assert_eq!(versions_in(xml), expected);
        assert!(versions_in(b"<R></R>").is_empty());
    }
}
