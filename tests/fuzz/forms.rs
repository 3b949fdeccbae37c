//! Browser forms: damaged ones are refused or read, and the same however they arrive.

use std::convert::Infallible;

use bytes::Bytes;
use fencepost::s3::{FormError, PostForm, read_form};
use futures_util::FutureExt as _;
use http_body::Frame;
use http_body_util::StreamBody;

use super::inputs::{any_bytes, text};
use super::support::Generator;
use super::{CASES, hold};

const TYPES: [&str; 4] = [
    "multipart/form-data; boundary=XyZ",
    "multipart/form-data; boundary=\"XyZ\"; charset=utf-8",
    "Multipart/Form-Data;boundary=XyZ",
    "multipart/mixed; boundary=XyZ",
];

const FORMS: [&str; 3] = [
    "--XyZ\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na/${filename}\r\n--XyZ\r\n\
     Content-Disposition: form-data; name=\"file\"; filename=\"C:\\f.txt\"\r\n\
     Content-Type: text/plain\r\n\r\nfirst\r\n--Xy\r\nlast\r\n--XyZ--\r\n",
    "preamble\r\n--XyZ \r\nContent-Disposition: form-data; name=key\r\n\r\nk\r\n--XyZ\r\n\
     content-disposition: form-data; name=\"x-amz-meta-a\"\r\n\r\n1\r\n--XyZ\r\n\
     Content-Disposition: form-data; name=\"file\"\r\n\r\n\r\n--XyZ\r\n\
     Content-Disposition: form-data; name=\"submit\"\r\n\r\nafter\r\n--XyZ--",
    "--XyZ\r\nContent-Disposition: form-data; name=\"Key\"\r\n\r\na\r\n--XyZ\r\n\
     Content-Disposition: form-data; name=\"key\"\r\n\r\nb\r\n--XyZ--\r\n",
];

/// The largest file that is taken.
const FILE_BYTES_MAX: u64 = 40;

/// Reads a form that arrives in pieces of this size.
fn read(kind: &str, body: &[u8], size: usize) -> Result<(PostForm, Bytes), FormError> {
    let pieces: Vec<Result<_, Infallible>> =
        body.chunks(size).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    let body = StreamBody::new(futures_util::stream::iter(pieces));
    let reading = async {
        let (form, file) = read_form(kind, body).await?;
        Ok((form, file.read(FILE_BYTES_MAX).await?))
    };
    reading.now_or_never().expect("everything is there")
}

#[test]
fn a_damaged_form_is_the_same_however_it_arrives() {
    assert!(read(TYPES[0], FORMS[0].as_bytes(), 7).is_ok(), "what is damaged is right");
    let input = |random: &mut Generator| {
        let kind = if random.one_in(4) { text(random, &TYPES) } else { TYPES[0].to_owned() };
        (kind, any_bytes(random, &FORMS), 1 + random.below(30))
    };
    hold(CASES, input, |(kind, body, size)| {
        let whole = read(kind, body, body.len().max(1));
        assert_eq!(read(kind, body, *size), whole, "in pieces of {size}");
        let Ok((form, file)) = whole else { return };
        assert!(file.len() as u64 <= FILE_BYTES_MAX);
        let names: Vec<&str> = form.iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| !name.bytes().any(|byte| byte.is_ascii_uppercase())));
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name} is there twice");
        }
    });
}
