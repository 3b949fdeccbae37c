//! XML in bodies: what is read of a damaged document is all that is in it, or nothing is.

use fencepost::s3::{
    CopySource, DeleteOutcome, DeletedObject, assembled_etag, parse_complete_upload,
    parse_delete_objects, parse_delete_result, write_delete_objects, write_delete_result,
};
use http::HeaderValue;

use super::inputs::any_bytes;
use super::{CASES, hold};

const DELETES: [&str; 6] = [
    "<Delete><Object><Key>a/b</Key></Object><Quiet>true</Quiet></Delete>",
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Delete xmlns=\"http://s3.amazonaws.com/doc/\
     2006-03-01/\">\n  <Object>\n    <Key>caf\u{e9} &amp; &lt;x&gt; &#x41;&#10;</Key>\n\
     <VersionId>v1</VersionId></Object>\n</Delete>",
    "<Delete><Object><Key><![CDATA[<k>]]></Key><ETag>\"e\"</ETag></Object>\
     <Object><Key>b</Key></Object></Delete>",
    "<s3:Delete xmlns:s3=\"x\"><s3:Object><s3:Key>k</s3:Key></s3:Object></s3:Delete>",
    "<Delete><Object><Key>k</Key><Size>1</Size><LastModifiedTime>x</LastModifiedTime></Object>\
     <!-- comment --></Delete>",
    "<!DOCTYPE d [<!ENTITY e \"k\">]><Delete><Object><Key>&e;</Key></Object></Delete>",
];

const COMPLETES: [&str; 4] = [
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>\
     <ETag>\"0123456789abcdef0123456789abcdef\"</ETag></Part><Part>\
     <ETag>fedcba9876543210fedcba9876543210</ETag><PartNumber>10000</PartNumber>\
     <ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>",
    "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part>\
     <PartNumber> 2 </PartNumber><ETag>&quot;a&quot;</ETag></Part></CompleteMultipartUpload>",
    "<CompleteMultipartUpload></CompleteMultipartUpload>",
    "<CompleteMultipartUpload/>",
];

const RESULTS: [&str; 3] = [
    "<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key><Code>AccessDenied</Code>\
     <Message>no</Message></Error></DeleteResult>",
    "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Deleted><Key>a</Key>\
     <VersionId>v</VersionId><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>m\
     </DeleteMarkerVersionId></Deleted></DeleteResult>",
    "<DeleteResult/>",
];

const SOURCES: [&str; 8] = [
    "bucket/key?versionId=\u{e9}",
    "/bucket/key",
    "bucket/key",
    "bucket/a%2Fb?versionId=v",
    "/bucket//caf%C3%A9?versionId=null",
    "bucket/k%3FversionId=x",
    "arn:aws:s3:us-east-1:1:accesspoint/ap/object/k",
    "bucket",
];

/// How often a text that begins an element is in a document, comments and the like taken out.
fn count(text: &str, name: &str) -> usize {
    let begins = |rest: &str| rest.trim_start().starts_with(['>', '/']) || rest.starts_with(' ');
    let prefixed = format!(":{name}");
    text.split('<')
        .skip(1)
        .filter(|tag| !tag.starts_with('/'))
        .filter(|tag| {
            let whole = tag.strip_prefix(name).is_some_and(begins);
            whole || tag.find(&prefixed).is_some_and(|at| begins(&tag[at + prefixed.len()..]))
        })
        .count()
}

#[test]
fn the_objects_of_a_damaged_list_are_all_of_them() {
    hold(
        CASES,
        |random| any_bytes(random, &DELETES),
        |body| {
            let Ok(request) = parse_delete_objects(body) else { return };
            let text = std::str::from_utf8(body).expect("a document is UTF-8");
            let named = request.objects.len();
            assert!((1..=1000).contains(&named));
            if !["<!--", "<![CDATA[", "<?", "xmlns"].iter().any(|other| text.contains(other)) {
                assert_eq!(named, count(text, "Object"), "an object has been overlooked");
            }
            assert!(request.objects.iter().all(|object| object.version_id.as_deref() != Some("")));
            // What goes on to the store says the same.
            if let Some(written) = write_delete_objects(&request) {
                assert_eq!(parse_delete_objects(written.as_bytes()).as_ref(), Ok(&request));
            }
        },
    );
}

#[test]
fn the_results_of_a_damaged_list_say_the_same_when_they_are_written_again() {
    hold(
        CASES,
        |random| any_bytes(random, &RESULTS),
        |body| {
            let Ok(results) = parse_delete_result(body) else { return };
            let written = write_delete_result(&results, false);
            assert_eq!(parse_delete_result(written.as_bytes()), Ok(results.clone()));
            let failed = |object: &&DeletedObject| match object.outcome {
                DeleteOutcome::Failed { .. } => true,
                DeleteOutcome::Deleted { .. } => false,
            };
            let quiet =
                parse_delete_result(write_delete_result(&results, true).as_bytes()).unwrap();
            assert_eq!(quiet, results.iter().filter(failed).cloned().collect::<Vec<_>>());
        },
    );
}

#[test]
fn the_parts_of_a_damaged_list_are_in_order() {
    hold(
        CASES,
        |random| any_bytes(random, &COMPLETES),
        |body| {
            let Ok(parts) = parse_complete_upload(body) else { return };
            let numbers: Vec<u32> = parts.iter().map(|part| u32::from(part.number)).collect();
            assert!(numbers.iter().all(|number| (1..=10_000).contains(number)));
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
            if let Some(etag) = assembled_etag(&parts) {
                let (digest, count) = etag.split_once('-').unwrap();
                assert_eq!(count, parts.len().to_string());
                assert_eq!(hex::decode(digest).unwrap().len(), 16);
            }
        },
    );
}

#[test]
fn a_source_of_a_copy_is_the_same_when_it_is_written_again() {
    hold(
        CASES,
        |random| any_bytes(random, &SOURCES),
        |value| {
            let Ok(value) = HeaderValue::from_bytes(value) else { return };
            let Ok(source) = CopySource::parse(&value) else { return };
            assert_eq!(CopySource::parse(&source.to_header()), Ok(source));
        },
    );
}
