//! The table as a document for people.

use std::fmt::Write as _;

use super::Footprint;
use super::table::{Marker, Row, Shape, TABLE};

const HEAD: &str = "\
# Operations

What the proxy does with every operation of S3. This page is written from the table in
`src/s3/operation/table.rs`, which also decides; a test compares the two.

An operation is recognised by method, path, sub-resource query and headers, never by `x-id`. The
first row that fits is taken. Where a row is not about reading, the query may hold nothing but the
parameters shown (and those of the signature): stores differ in which of two parameters they look
at first. A write with an `x-amz-*` header whose meaning is not known is refused in a fenced scope
unless `fence.allowed_headers` names it, and so is one with a header that opens a side door in some
store (`x-minio-*`, `x-rustfs-*`, `x-goog-*`, `x-tigris-*` and others, `x-http-method-override`,
`x-amz-meta-snowball-auto-extract`). Other `x-*` headers are left out of fenced writes.

In a scope whose mode is `off`, and in an `if-fenced` one that has seen no token, every operation
passes as it came, but for the browser's form, which becomes a PutObject.

*By precondition*, *exclusive* and *lower token* are explained in [protocol.md](protocol.md) (F3,
F8, F1). What is refused is answered `501 FenceUnsupportedOperation`, and the answer says why.

| Operation | Request | In a fenced scope |
|---|---|---|
";

/// `docs/operations.md`.
#[must_use]
pub fn document() -> String {
    let mut text = HEAD.to_owned();
    for row in TABLE {
        writeln!(text, "| {} | {} | {} |", row.name, request(row), row.fencing)
            .expect("writing to a string cannot fail");
    }
    text
}

fn request(row: &Row) -> String {
    let methods: Vec<&str> = row.methods.iter().map(http::Method::as_str).collect();
    if methods.is_empty() {
        return "anything else".into();
    }
    let path = match row.shape {
        Shape::Service => "/",
        Shape::Bucket => "/{bucket}",
        Shape::Object => "/{bucket}/{key}",
    };
    let others = |marked: &[&str]| -> String {
        let others = row.own.iter().filter(|own| !marked.contains(own));
        others.map(|own| format!(" [{own}]")).collect()
    };
    let marker = match row.marker {
        Marker::Plain => others(&[]),
        Marker::Query(name) => format!("?{name}{}", others(&[name])),
        Marker::Ids(names) => format!("?{}{}", names.join("&"), others(names)),
        Marker::IdsAndHeader(names, header) => {
            format!("?{}{} + `{header}`", names.join("&"), others(names))
        }
        Marker::Header(header) => format!(" + `{header}`"),
        Marker::Form => " + `Content-Type: multipart/form-data`".into(),
        Marker::Select => "?select&select-type=2".into(),
        Marker::Rest if row.footprint == Footprint::Reads => "?… (any other sub-resource)".into(),
        Marker::Rest => "?… (any other)".into(),
    };
    format!("{} {path}{marker}", methods.join(", "))
}
