//! Paths, hosts and queries.

use fencepost::auth::canonical::canonical_path;
use fencepost::pipeline::token::strip_from_query;
use fencepost::s3::{Footprint, HostSuffixes, Operation, Query, Target, Write};
use http::{HeaderMap, Method};

use super::inputs::{bytes, one_of, text};
use super::support::Generator;
use super::{CASES, hold};

const PATHS: [&str; 16] = [
    "/",
    "/bucket",
    "/bucket/",
    "/bucket/key",
    "/bucket//key",
    "/bucket/a/../b/./c",
    "/bucket/%2e%2e/%2F",
    "/bucket/a%2Fb+c%2Bd%20e",
    "/bucket/%C3%A9/e%CC%81",
    "/bucket/%00%01%FF",
    "/bucket/100%25/%252F",
    "/%62ucket/key",
    "/my.bucket-1/key",
    "/minio/admin",
    "//key",
    "/bucket/\u{e9}\u{1f512}",
];

const HOSTS: [&str; 10] = [
    "h",
    "127.0.0.1:9000",
    "[::1]:9000",
    "s3.example.com",
    "bucket.s3.example.com",
    "my.bucket.s3.example.com:443",
    "BUCKET.localhost:9000",
    "bucket.localhost",
    ".localhost",
    "bucket/x?y.localhost",
];

const QUERIES: [&str; 14] = [
    "",
    "uploads",
    "uploads=",
    "partNumber=1&uploadId=a%2Fb",
    "list-type=2&prefix=a%2F&delimiter=%2F",
    "versionId=abc&x-id=GetObject",
    "X-Fence-Token=7",
    "a=1&x-fence-token=7&b=2",
    "x%2Dfence%2dtoken=7&x-fence-token=8",
    "X-Amz-Signature=ab&X-Amz-Date=20261129T000000Z&tagging",
    "select&select-type=2",
    "delete&&=&==&a=b=c",
    "response-content-type=text/plain;%20charset=utf-8",
    "x-amz-copy-source=/b/k&renameObject",
];

fn suffixes() -> HostSuffixes {
    HostSuffixes::new(["s3.example.com".to_owned()])
}

/// Decodes once; written down once more so that it can disagree.
fn decoded(raw: &str) -> Vec<u8> {
    let bytes = raw.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap());
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[test]
fn a_path_names_the_same_bytes_in_every_form() {
    let input = |random: &mut Generator| (text(random, &PATHS), text(random, &HOSTS));
    hold(CASES, input, |(path, host)| {
        let Ok(target) = Target::parse(path, host, &suffixes()) else { return };
        let style = target.path_style(path, host, &suffixes());
        assert_eq!(Target::parse(&style, "h", &suffixes()), Ok(target.clone()), "{}", style);
        // Broken percent-encoding is refused when a signature is verified, before this.
        let canonical = canonical_path(&style);
        assert_eq!(Target::parse(&canonical, "h", &suffixes()), Ok(target.clone()));
        assert_eq!(canonical_path(&canonical), &*canonical, "it is canonical once for all");
        let Some(bucket) = target.bucket() else { return };
        let name = bucket.as_str();
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b"0123456789.-".contains(&b)));
        assert!((3..=63).contains(&name.len()));
        let raw_key = style.get(name.len() + 2..).unwrap_or_default();
        let key = match &target {
            Target::Object(_, key) => key.as_bytes(),
            Target::Service | Target::Bucket(_) => b"",
        };
        assert_eq!(decoded(raw_key), key, "decoded once, and nothing else");
    });
}

/// A key's bytes, each spelt in one of its ways.
fn spelt(key: &[u8], ways: &[u8]) -> String {
    let spell = |(at, byte): (usize, &u8)| {
        let plain = byte.is_ascii_alphanumeric() || b"/.-_~+=:".contains(byte);
        match ways[at % ways.len()] % 3 {
            0 if plain => char::from(*byte).to_string(),
            1 => format!("%{byte:02x}"),
            _ => format!("%{byte:02X}"),
        }
    };
    key.iter().enumerate().map(spell).collect()
}

#[test]
fn one_key_has_one_name_however_it_is_spelt() {
    let input = |random: &mut Generator| {
        let key = [bytes(random, 40), vec![b'k']].concat();
        (key, [bytes(random, 16), vec![0]].concat(), [bytes(random, 16), vec![1]].concat())
    };
    hold(CASES, input, |(key, one, other)| {
        let named = |ways: &[u8], before: &str, host: &str| {
            Target::parse(&format!("{before}/{}", spelt(key, ways)), host, &suffixes()).unwrap()
        };
        let first = named(one, "/bucket", "h");
        assert_eq!(&first, &named(other, "/bucket", "h"));
        assert_eq!(&first, &named(other, "/%62uc%6Bet", "h"));
        assert_eq!(&first, &named(other, "", "bucket.localhost:9000"));
        assert!(matches!(first, Target::Object(_, found) if found.as_bytes() == *key));
    });
}

#[test]
fn a_query_is_read_the_same_by_all_who_ask() {
    hold(
        CASES,
        |random| text(random, &QUERIES),
        |raw| {
            let query = Query::new(raw);
            let pairs: Vec<_> = query.pairs().collect();
            for (name, _) in &pairs {
                let Ok(name) = std::str::from_utf8(name) else { continue };
                assert!(query.has(name));
                let first = pairs.iter().find(|(found, _)| found == name.as_bytes()).unwrap();
                assert_eq!(query.value(name), Some(decoded(first.1)));
            }
            let is_token = |name: &[u8]| name.eq_ignore_ascii_case(b"x-fence-token");
            let left = strip_from_query(raw).unwrap_or_default();
            let kept: Vec<_> = pairs.iter().filter(|(name, _)| !is_token(name)).cloned().collect();
            assert_eq!(Query::new(&left).pairs().collect::<Vec<_>>(), kept.clone());
            if kept.len() == pairs.len() {
                assert_eq!(left, *raw, "without a token, every byte stays");
            }
        },
    );
}

#[test]
fn no_write_is_taken_for_a_read() {
    let methods = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "MOVE", "get"];
    let input = |random: &mut Generator| {
        (one_of(random, &methods), text(random, &PATHS), text(random, &QUERIES))
    };
    hold(CASES, input, |(method, path, query)| {
        let Ok(target) = Target::parse(path, "h", &suffixes()) else { return };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let shown = Query::new(query);
        let operation = Operation::of(&method, &target, shown, &HeaderMap::new());
        if operation.footprint() == Footprint::Reads {
            let select = operation == Operation::SelectObjectContent;
            assert!(method == Method::GET || method == Method::HEAD || select);
            assert!(!select || method == Method::POST && shown.has("select-type"));
        }
        // What is put or deleted as a whole has no sub-resource, which is another operation to
        // the store.
        let whole = [Footprint::Object(Write::Put), Footprint::Object(Write::Delete)];
        if whole.contains(&operation.footprint()) {
            assert!(matches!(target, Target::Object(..)));
            for name in ["uploadId", "partNumber", "tagging", "versionId", "x-amz-copy-source"] {
                assert!(!shown.has(name), "{operation:?} with {name}");
            }
        }
    });
}
