//! Forms as browsers and scripts send them, and bodies that are none.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::task::{Context, Poll};

use http_body::Frame;

use super::*;

/// A body in pieces of `size` bytes.
struct Cut(VecDeque<Bytes>);

impl Body for Cut {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

fn cut(body: &[u8], size: usize) -> Cut {
    Cut(body.chunks(size).map(Bytes::copy_from_slice).collect())
}

const TYPE: &str = "multipart/form-data; boundary=XyZ";

async fn read_cut(
    content_type: &str,
    body: &[u8],
    size: usize,
    bytes_max: u64,
) -> Result<(PostForm, Bytes), FormError> {
    let (form, file) = read_form(content_type, cut(body, size)).await?;
    Ok((form, file.read(bytes_max).await?))
}

/// Reads a body in pieces of every interesting size, which must make no difference.
async fn read(body: &[u8]) -> Result<(PostForm, Bytes), FormError> {
    let whole = read_cut(TYPE, body, body.len().max(1), 1000).await;
    for size in 1..20 {
        assert_eq!(read_cut(TYPE, body, size, 1000).await, whole, "in pieces of {size}");
    }
    whole
}

fn field(name: &str, value: &str) -> String {
    format!("--XyZ\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn file(name: &str, content: &str) -> String {
    format!(
        "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         Content-Type: text/plain\r\n\r\n{content}\r\n--XyZ--\r\n"
    )
}

fn form(fields: &[(&str, &str)]) -> PostForm {
    PostForm(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
}

#[tokio::test]
async fn fields_and_file_are_read_however_they_arrive() {
    let content = "\r\n--Xy\r\n-\r\n--\r\r\n\0--XyZ \u{e9}\r\n";
    let body =
        field("Key", "a/b") + &field("EMPTY", "") + &field("x", "1\r\n2") + &file("f", content);
    let (fields, bytes) = read(body.as_bytes()).await.unwrap();
    assert_eq!(fields, form(&[("key", "a/b"), ("empty", ""), ("x", "1\r\n2")]));
    assert_eq!(fields.get("key"), Some("a/b"));
    assert_eq!(fields.get("none"), None);
    assert_eq!(bytes, content);
    let (fields, bytes) = read(file("f", "").as_bytes()).await.unwrap();
    assert_eq!((fields, bytes.len()), (form(&[]), 0));
}

#[tokio::test]
async fn heads_are_read_in_every_spelling() {
    for (head, name) in [
        ("content-disposition:form-data;name=key", "key"),
        ("X-Other: 1\r\nCONTENT-DISPOSITION:  Form-Data ;  NAME = \"key\" ", "key"),
        ("Content-Disposition: form-data; name=\"a;b=\\\"c\\\"\"; x=y", "a;b=\"c\""),
        ("Content-Disposition: form-data; filename=\"x\"; name=\"key\"", "key"),
    ] {
        let body = format!("before\r\n--XyZ \t\r\n{head}\r\n\r\nv\r\n{}", file("f", "x"));
        let (fields, _) = read(body.as_bytes()).await.unwrap();
        assert_eq!(fields, form(&[(name, "v")]), "{head}");
    }
    for content_type in [
        "multipart/form-data; boundary=\"XyZ\"",
        "Multipart/Form-Data; charset=utf-8; Boundary=XyZ",
    ] {
        let read = read_cut(content_type, file("f", "x").as_bytes(), 9, 9).await;
        assert_eq!(read.unwrap().1, "x", "{content_type}");
    }
}

#[tokio::test]
async fn the_name_of_the_file_goes_where_it_is_asked_for() {
    for (given, name) in [
        ("a b.txt", "a b.txt"),
        ("C:\\Program Files\\d\\a.txt", "a.txt"),
        ("d/e/a.txt", "a.txt"),
        ("", ""),
        ("${filename}", "${filename}"),
    ] {
        let fields = field("key", "u/${filename}/${filename}") + &field("policy", "${filename}");
        let body = fields + &field("X-Amz-Meta-Name", "${filename}") + &file(given, "x");
        let (fields, _) = read(body.as_bytes()).await.unwrap();
        assert_eq!(fields.get("key"), Some(&*format!("u/{name}/{name}")));
        assert_eq!(fields.get("x-amz-meta-name"), Some(name));
        assert_eq!(fields.get("policy"), Some("${filename}"));
    }
    let unnamed = file("", "x").replace("; filename=\"\"", "");
    let (fields, _) = read((field("key", "u/${filename}") + &unnamed).as_bytes()).await.unwrap();
    assert_eq!(fields.get("key"), Some("u/"));
}

#[tokio::test]
async fn a_field_has_one_value() {
    let body = field("key", "a") + &field("Key", "b") + &file("f", "x");
    assert_eq!(read(body.as_bytes()).await, Err(FormError::Repeated("key".into())));
    let body = field("x-amz-meta-a", "1") + &field("X-Amz-Meta-A", "2") + &file("f", "x");
    let (fields, _) = read(body.as_bytes()).await.unwrap();
    assert_eq!(fields.get("x-amz-meta-a"), Some("1,2"));
}

#[tokio::test]
async fn what_follows_the_file_is_ignored_within_bounds() {
    let body = file("f", "x").replace("--XyZ--", &(field("key", "late") + "--XyZ--"));
    let (fields, bytes) = read(body.as_bytes()).await.unwrap();
    assert_eq!((fields, &bytes[..]), (form(&[]), &b"x"[..]));
    let long = file("f", "x") + &" ".repeat(100_000);
    let read = read_cut(TYPE, long.as_bytes(), 1000, 10).await;
    assert!(matches!(read, Err(FormError::Malformed(_))), "{read:?}");
}

#[tokio::test]
async fn what_is_not_a_form_is_refused() {
    let whole = field("key", "a") + &file("f", "x");
    let cut_off = whole.find("x\r\n--XyZ--").unwrap();
    for end in [0, 5, 20, 60, 75, cut_off, cut_off + 1, cut_off + 8, cut_off + 9] {
        let read = read(&whole.as_bytes()[..end]).await;
        assert!(matches!(read, Err(FormError::Incomplete(_))), "cut at {end}: {read:?}");
    }
    for body in [
        whole.replace("form-data", "attachment"),
        whole.replace("name=\"key\"", "name=\"\""),
        whole.replace("name=\"key\"", "name=\"key\"; name=\"key\""),
        whole.replace("name=\"key\"", "name=\"key\" x"),
        whole.replace("name=\"key\"", "name=\"key"),
        whole.replace("name=\"key\"", "key"),
        whole.replace("Content-Disposition", "Content-Description"),
        whole.replacen("--XyZ\r\n", "--XyZabc\r\n", 1),
        whole.replace("--XyZ--", "--XyZabc--"),
    ] {
        let read = read(body.as_bytes()).await;
        assert!(matches!(read, Err(FormError::Malformed(_))), "{body}: {read:?}");
    }
    let latin = [field("key", "?").as_bytes(), file("f", "x").as_bytes()].concat();
    let latin: Vec<u8> = latin.into_iter().map(|b| if b == b'?' { 0xe9 } else { b }).collect();
    assert!(matches!(read(&latin).await, Err(FormError::Malformed(_))));
    let none = field("key", "a") + "--XyZ--\r\n";
    assert_eq!(read(none.as_bytes()).await, Err(FormError::NoFile));
    let long = format!("multipart/form-data; boundary={}", "b".repeat(71));
    for content_type in [
        "",
        "text/plain; boundary=XyZ",
        "multipart/mixed; boundary=XyZ",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\"XyZ",
        &long,
    ] {
        let read = read_cut(content_type, whole.as_bytes(), 9, 9).await;
        assert_eq!(read, Err(FormError::NotAForm), "{content_type}");
    }
}

#[tokio::test]
async fn fields_have_limits_and_so_has_the_file() {
    let fits = field("a", &"v".repeat(20 * 1024 - 1)) + &file("f", "x");
    assert!(read_cut(TYPE, fits.as_bytes(), 1000, 10).await.is_ok());
    let too_large = Err(FormError::FieldsTooLarge);
    for fields in [
        field("a", &"v".repeat(20 * 1024)),
        field("a", &"v".repeat(15 * 1024)) + &field("b", &"v".repeat(15 * 1024)),
        field(&"n".repeat(100_000), "v"),
        (0..300).map(|number| field(&number.to_string(), "")).collect(),
        "preamble ".repeat(20_000),
        format!(
            "--XyZ\r\nContent-Disposition: form-data; name=key\r\n{}",
            "X: y\r\n".repeat(20_000)
        ),
    ] {
        let read = read_cut(TYPE, (fields + &file("f", "x")).as_bytes(), 1000, 10).await;
        assert_eq!(read, too_large);
    }
    for size in 1..20 {
        let body = file("f", "0123456789");
        let read = |bytes_max| read_cut(TYPE, body.as_bytes(), size, bytes_max);
        assert_eq!(read(10).await.unwrap().1, "0123456789");
        assert_eq!(read(9).await, Err(FormError::FileTooLarge { max: 9 }));
    }
}

/// A body means the same however it is cut into pieces, damaged ones included.
#[tokio::test]
async fn what_is_read_from_a_damaged_form_does_not_depend_on_its_pieces() {
    let whole = field("key", "a--XyZ\r\n") + &field("x", "\r\n--Xy") + &file("f", "\r\n-\r\n--Xyz");
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        // A linear congruential generator: the same damage in every run.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut taken = 0;
    for _ in 0..2000 {
        let mut body = whole.clone().into_bytes();
        for _ in 0..=below(2) {
            let (at, from) = (below(body.len()), below(body.len()));
            match below(3) {
                0 => body[at] = u8::try_from(below(256)).unwrap(),
                1 => body[at] = body[from],
                _ => drop(body.remove(at)),
            }
        }
        taken += usize::from(read(&body).await.is_ok());
    }
    assert!(taken > 100, "only {taken} forms were taken");
}
