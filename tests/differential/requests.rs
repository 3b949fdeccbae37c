//! Requests made up from a seed: every verb, on few keys, so that they meet.

use std::fmt::Write as _;

use bytes::Bytes;
use http::Method;
use sha2::{Digest as _, Sha256};

use super::support::Generator;

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// As it is, its hash signed.
    Whole,
    /// aws-chunked, with a checksum in the trailer.
    Unsigned,
    /// aws-chunked, each chunk signed.
    Signed,
}

/// A request, with places to be filled in (`Side::filled`) in target, headers and text.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    /// The body, where it is text with places in it.
    pub(super) text: Option<String>,
    /// The body, where it is not.
    pub(super) bytes: Bytes,
    pub(super) framing: Framing,
}

impl Step {
    fn new(method: Method, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            headers: Vec::new(),
            text: None,
            bytes: Bytes::new(),
            framing: Framing::Whole,
        }
    }

    fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    fn bytes(mut self, bytes: Bytes) -> Self {
        self.bytes = bytes;
        self
    }

    /// For a person to read.
    pub(super) fn what(&self) -> String {
        let mut text = format!("{} {} {:?}", self.method, self.target, self.framing);
        for (name, value) in &self.headers {
            write!(text, "\n    {name}: {value}").unwrap();
        }
        match &self.text {
            Some(body) => write!(text, "\n    {body}").unwrap(),
            None => write!(text, "\n    {} bytes", self.bytes.len()).unwrap(),
        }
        text
    }
}

/// Raw paths of keys. Each is often asked for, so that there is something under it.
const KEYS: [&str; 28] = [
    "k",
    "a/b",
    "a%2Fb",
    "a//b",
    "/lead",
    "a/./b",
    "a/../b",
    "..",
    "dir/",
    "dir/a",
    "dir/b/c",
    "a+b",
    "a%2Bb",
    "a%20b",
    "dt=1",
    "caf%C3%A9",
    "cafe%CC%81",
    "%E6%97%A5%E6%9C%AC/%F0%9F%94%92",
    "%01%02%1F%7F",
    "x%0D%0Ay%09z",
    "%25",
    "%252F",
    "x%3Fy%23z",
    "q%22%27%3C%26%3E",
    "%5Cback%5C",
    "~tilde-_.",
    "{long}",
    "none",
];

/// The pieces of requests that are being made.
pub(super) struct Maker {
    random: Generator,
    versioned: bool,
    /// Uploads created, by the number of the request, and their keys.
    uploads: Vec<(usize, String)>,
    /// Parts uploaded: upload, part number, request.
    parts: Vec<(usize, usize, usize)>,
    /// Objects written.
    puts: Vec<(usize, String)>,
}

impl Maker {
    pub(super) fn new(seed: u64, versioned: bool) -> Self {
        let random = Generator(seed);
        Self { random, versioned, uploads: Vec::new(), parts: Vec::new(), puts: Vec::new() }
    }

    /// The next request.
    pub(super) fn step(&mut self, number: usize) -> Step {
        if number == 0 && self.versioned {
            return versioning("Enabled");
        }
        match self.random.below(100) {
            0..22 => self.put(number),
            22..37 => self.read(),
            37..42 => self.delete(),
            42..52 => self.list(),
            52..58 => self.copy(number),
            58..76 => self.multipart(number),
            76..80 => self.delete_many(),
            80..87 => self.tagging(),
            87..95 => self.sub_resource(),
            _ => self.odd(),
        }
    }

    fn key(&mut self) -> String {
        // A few keys are asked for more often than the rest.
        let among = if self.random.one_in(2) { 4 } else { KEYS.len() };
        KEYS[self.random.below(among)].replace("{long}", &"k".repeat(1024))
    }

    fn object(&mut self) -> String {
        format!("/{{B}}/{}", self.key())
    }

    fn body(&mut self) -> Bytes {
        let length = *self.random.pick(&[&0, &1, &5, &100, &4096, &70_000, &200_000]);
        let byte = b'a' + self.random.next() as u8 % 4;
        Bytes::from(vec![byte; length])
    }

    fn put(&mut self, number: usize) -> Step {
        let target = self.object();
        self.puts.push((number, target.clone()));
        let body = self.body();
        let length = body.len().to_string();
        let mut step = Step::new(Method::PUT, target).bytes(body);
        match self.random.below(8) {
            0 => {
                step.framing = Framing::Unsigned;
                step = step.header("x-amz-trailer", "x-amz-checksum-crc32");
            }
            1 => step.framing = Framing::Signed,
            2 => {
                let sum = base64_of(&Sha256::digest(&step.bytes));
                step = step.header("x-amz-checksum-sha256", sum);
            }
            _ => {}
        }
        if step.framing != Framing::Whole {
            step = step.header("x-amz-decoded-content-length", length);
            step = step.header("content-encoding", "aws-chunked");
        }
        for _ in 0..self.random.below(4) {
            let (name, value) = *self.random.pick(&[
                &("content-type", "text/plain; charset=utf-8"),
                &("cache-control", "no-cache, max-age=7"),
                &("content-disposition", "attachment; filename=\"a b\""),
                &("content-language", "de"),
                &("x-amz-meta-a", "1"),
                &("x-amz-meta-long", "a long  value, with = and ; in it"),
                &("x-amz-tagging", "colour=red&size=1"),
                &("x-amz-storage-class", "STANDARD"),
                &("x-amz-storage-class", "NONSENSE"),
                &("if-none-match", "*"),
                &("if-match", "\"0123456789abcdef0123456789abcdef\""),
                &("if-match", "*"),
                &("x-amz-website-redirect-location", "/other"),
                &("expires", "Thu, 01 Dec 2033 16:00:00 GMT"),
            ]);
            if !step.headers.iter().any(|(earlier, _)| earlier == name) {
                step = step.header(name, value);
            }
        }
        step
    }

    fn read(&mut self) -> Step {
        let method = if self.random.one_in(3) { Method::HEAD } else { Method::GET };
        let mut target = self.object();
        let mut step = if self.versioned && !self.puts.is_empty() && self.random.one_in(3) {
            let at = self.random.below(self.puts.len());
            let (number, path) = self.puts[at].clone();
            Step::new(method, format!("{path}?versionId={{V{number}}}"))
        } else {
            target.push_str(self.random.pick(&[
                "",
                "",
                "",
                "",
                "?partNumber=1",
                "?partNumber=2",
                "?versionId=null",
                "?versionId=nonsense",
                "?response-content-type=text%2Fodd&response-cache-control=no-store",
                "?response-content-disposition=attachment%3B%20filename%3D%22a%2Bb%22",
                "?x-id=GetObject",
                "?unknown=1&b",
            ]));
            Step::new(method, target)
        };
        if self.random.one_in(2) {
            let (name, value) = *self.random.pick(&[
                &("range", "bytes=0-0"),
                &("range", "bytes=2-"),
                &("range", "bytes=-3"),
                &("range", "bytes=0-99999999"),
                &("range", "bytes=99999999-"),
                &("range", "bytes=5-2"),
                &("range", "bytes=0-1,3-4"),
                &("range", "lines=1-2"),
                &("if-match", "\"0123456789abcdef0123456789abcdef\""),
                &("if-match", "*"),
                &("if-none-match", "*"),
                &("if-none-match", "\"d41d8cd98f00b204e9800998ecf8427e\""),
                &("if-modified-since", "Thu, 01 Jan 2015 00:00:00 GMT"),
                &("if-modified-since", "Thu, 01 Dec 2033 16:00:00 GMT"),
                &("if-unmodified-since", "Thu, 01 Jan 2015 00:00:00 GMT"),
                &("if-unmodified-since", "Thu, 01 Dec 2033 16:00:00 GMT"),
                &("x-amz-checksum-mode", "ENABLED"),
                &("accept-encoding", "gzip, br"),
            ]);
            step = step.header(name, value);
        }
        if !self.puts.is_empty() && self.random.one_in(6) {
            let (number, _) = self.puts[self.random.below(self.puts.len())];
            let name = *self.random.pick(&[&"if-match", &"if-none-match", &"if-range"]);
            if !step.headers.iter().any(|(earlier, _)| earlier == name) {
                step = step.header(name, format!("{{E{number}}}"));
            }
        }
        step
    }

    fn delete(&mut self) -> Step {
        if self.versioned && !self.puts.is_empty() && self.random.one_in(2) {
            let (number, path) = self.puts[self.random.below(self.puts.len())].clone();
            return Step::new(Method::DELETE, format!("{path}?versionId={{V{number}}}"));
        }
        Step::new(Method::DELETE, self.object())
    }

    fn list(&mut self) -> Step {
        let mut query = (*self.random.pick(&["list-type=2", "", "versions", "uploads"])).to_owned();
        for _ in 0..self.random.below(4) {
            query.push('&');
            query.push_str(self.random.pick(&[
                "encoding-type=url",
                "prefix=a",
                "prefix=a%2F",
                "prefix=caf%C3%A9",
                "prefix=%2F",
                "delimiter=%2F",
                "delimiter=b",
                "max-keys=2",
                "max-keys=0",
                "max-keys=-1",
                "max-keys=x",
                "start-after=a%2Fb",
                "marker=a+b",
                "key-marker=a%2Bb",
                "continuation-token=nonsense",
                "fetch-owner=true",
            ]));
        }
        let query = query.trim_start_matches('&');
        let slash = if self.random.one_in(2) { "/" } else { "" };
        Step::new(Method::GET, format!("/{{B}}{slash}?{query}"))
    }

    fn copy(&mut self, number: usize) -> Step {
        let target = self.object();
        self.puts.push((number, target.clone()));
        let source = self.object();
        let source = if self.random.one_in(4) { source[1..].to_owned() } else { source };
        let mut step = Step::new(Method::PUT, target).header("x-amz-copy-source", source);
        let (name, value) = *self.random.pick(&[
            &("x-amz-metadata-directive", "REPLACE"),
            &("x-amz-metadata-directive", "COPY"),
            &("x-amz-copy-source-if-match", "\"0123456789abcdef0123456789abcdef\""),
            &("x-amz-copy-source-if-none-match", "*"),
            &("x-amz-tagging-directive", "REPLACE"),
            &("x-amz-meta-b", "2"),
            &("if-none-match", "*"),
        ]);
        step = step.header(name, value);
        step
    }

    fn multipart(&mut self, number: usize) -> Step {
        let choice = self.random.below(10);
        if self.uploads.is_empty() || choice < 2 {
            let key = self.object();
            self.uploads.push((number, key.clone()));
            let step = Step::new(Method::POST, format!("{key}?uploads"));
            return if choice == 0 { step.header("content-type", "a/b") } else { step };
        }
        // Mostly the newest, so that it comes to an end.
        let newest = self.uploads.len() - 1;
        let at = if self.random.one_in(4) { self.random.below(newest + 1) } else { newest };
        let (upload, key) = self.uploads[at].clone();
        let target = format!("{key}?uploadId={{U{upload}}}");
        match choice {
            2..5 => {
                let mut part = *self.random.pick(&[&1, &2, &3, &10_000, &10_001, &0]);
                // SeaweedFS keeps both of two parts with one number, in no order.
                if self.parts.iter().any(|(of, taken, _)| (*of, *taken) == (upload, part)) {
                    part = 4 + self.parts.len();
                }
                self.parts.push((upload, part, number));
                let target = format!("{key}?partNumber={part}&uploadId={{U{upload}}}");
                if self.random.one_in(4) {
                    let step = Step::new(Method::PUT, target);
                    return step.header("x-amz-copy-source", self.object());
                }
                Step::new(Method::PUT, target).bytes(self.body())
            }
            5 => Step::new(Method::GET, target + "&max-parts=2"),
            6 => Step::new(Method::DELETE, target),
            _ => {
                self.puts.push((number, key));
                let mut parts: Vec<_> =
                    self.parts.iter().filter(|(of, ..)| *of == upload).collect();
                // The last one of each number counts; sometimes only the first goes in.
                parts.reverse();
                parts.sort_by_key(|(_, part, _)| *part);
                parts.dedup_by_key(|(_, part, _)| *part);
                if self.random.one_in(2) {
                    parts.truncate(1);
                }
                let parts = parts.iter().fold(String::new(), |mut text, (_, part, request)| {
                    let tag = format!("<ETag>{{E{request}}}</ETag>");
                    write!(text, "<Part><PartNumber>{part}</PartNumber>{tag}</Part>").unwrap();
                    text
                });
                let list = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
                Step::new(Method::POST, target).text(list)
            }
        }
    }

    fn delete_many(&mut self) -> Step {
        let names = ["a/b", "k", "none", "caf\u{e9}", "q\"&apos;&lt;&amp;>", "dir/", ""];
        let mut objects = String::new();
        for _ in 0..self.random.below(4) {
            let name = self.random.pick(&names);
            write!(objects, "<Object><Key>{name}</Key></Object>").unwrap();
        }
        let quiet = *self.random.pick(&[&"", &"<Quiet>true</Quiet>", &"<Quiet>false</Quiet>"]);
        let body = match self.random.below(6) {
            0 => "<Delete><Object>".to_owned(),
            _ => format!("<Delete>{quiet}{objects}</Delete>"),
        };
        let sum = base64_of(&Sha256::digest(&body));
        Step::new(Method::POST, "/{B}?delete").header("x-amz-checksum-sha256", sum).text(body)
    }

    fn tagging(&mut self) -> Step {
        let target = format!("{}?tagging", self.object());
        match self.random.below(4) {
            0 | 1 => Step::new(Method::GET, target),
            2 => Step::new(Method::DELETE, target),
            _ => {
                let tag = *self.random.pick(&[
                    &"<Tag><Key>a</Key><Value>b c</Value></Tag>",
                    &"",
                    &"<Tag><Key>a</Key></Tag>",
                    &"<Tag>",
                ]);
                let body = format!("<Tagging><TagSet>{tag}</TagSet></Tagging>");
                Step::new(Method::PUT, target).text(body)
            }
        }
    }

    fn sub_resource(&mut self) -> Step {
        let method = self.random.pick(&[&Method::GET, &Method::GET, &Method::GET, &Method::HEAD]);
        let name = *self.random.pick(&[
            &"versioning",
            &"location",
            &"acl",
            &"policy",
            &"cors",
            &"lifecycle",
            &"encryption",
            &"tagging",
            &"object-lock",
            &"website",
            &"notification",
            &"replication",
            &"unknown-sub-resource",
            &"attributes",
            &"retention",
            &"legal-hold",
            &"torrent",
        ]);
        let at = if self.random.one_in(2) { "/{B}".to_owned() } else { self.object() };
        let step = Step::new(method.clone(), format!("{at}?{name}"));
        if name == "attributes" {
            return step.header("x-amz-object-attributes", "ETag,ObjectSize");
        }
        step
    }

    /// What hardly anybody asks for.
    fn odd(&mut self) -> Step {
        let key = self.object();
        match self.random.below(12) {
            0 => Step::new(Method::GET, "/{B}-none/k"),
            1 => Step::new(Method::PUT, "/{B}-none/k").text("body"),
            2 => Step::new(Method::GET, "/{B}-none?list-type=2"),
            3 => Step::new(Method::HEAD, "/{B}"),
            4 => Step::new(Method::HEAD, "/{B}-none"),
            5 => Step::new(Method::PUT, "/{B}x"),
            6 => Step::new(Method::DELETE, "/{B}x"),
            7 => Step::new(Method::PATCH, key),
            8 => Step::new(Method::POST, key).text("?"),
            9 => Step::new(Method::PUT, "/{B}").text(""),
            10 => Step::new(Method::PUT, format!("{key}?unknown-sub-resource")).text("<X/>"),
            _ if self.versioned => versioning(self.random.pick(&["Suspended", "Enabled"])),
            _ => Step::new(Method::OPTIONS, key),
        }
    }
}

fn versioning(status: &str) -> Step {
    let status = format!("<Status>{status}</Status>");
    let body = format!("<VersioningConfiguration>{status}</VersioningConfiguration>");
    Step::new(Method::PUT, "/{B}?versioning").text(body)
}

fn base64_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
