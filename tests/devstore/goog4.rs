//! Requests in Cloud Storage's own dialect, made by hand: signed with an arithmetic of the tests'
//! own, or carrying a token.

use crate::BUCKET;
use crate::raw::Open;
use fencepost::devstore::RunningStore;
use sha2::{Digest as _, Sha256};
use std::time::{Duration, SystemTime};

/// How a request shows who it is from.
#[derive(Clone, Copy, Debug)]
enum Auth {
    Header,
    /// Seconds that it is good for.
    Query(u64),
    Bearer(&'static str),
}

/// A request before it is signed.
#[derive(Clone, Debug)]
pub(crate) struct Goog {
    method: &'static str,
    key: String,
    /// Sorted, with values.
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    unsigned: Vec<(String, String)>,
    secret: Option<&'static str>,
    payload: Option<String>,
    auth: Auth,
    age: Duration,
}

impl Goog {
    pub(crate) fn new(method: &'static str, key: &str) -> Self {
        Self {
            method,
            key: key.to_owned(),
            query: Vec::new(),
            headers: Vec::new(),
            unsigned: Vec::new(),
            secret: None,
            payload: None,
            auth: Auth::Header,
            age: Duration::ZERO,
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.query.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn generation(self, wanted: u64) -> Self {
        self.header("x-goog-if-generation-match", &wanted.to_string())
    }

    /// Sent, but not signed.
    pub(crate) fn unsigned(mut self, name: &str, value: &str) -> Self {
        self.unsigned.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn secret(mut self, secret: &'static str) -> Self {
        self.secret = Some(secret);
        self
    }

    /// What is said of the body, where it is not the truth.
    pub(crate) fn payload(mut self, said: &str) -> Self {
        self.payload = Some(said.to_owned());
        self
    }

    /// Signed in the query, good for so many seconds.
    pub(crate) fn signed_url(mut self, seconds: u64) -> Self {
        self.auth = Auth::Query(seconds);
        self
    }

    pub(crate) fn bearer(mut self, token: &'static str) -> Self {
        self.auth = Auth::Bearer(token);
        self
    }

    pub(crate) fn age(mut self, age: Duration) -> Self {
        self.age = age;
        self
    }

    /// Sends the head of a request with a body of this length; of none at all with `None`.
    pub(crate) async fn open(
        mut self,
        running: &RunningStore,
        length: Option<usize>,
        sha256: &str,
    ) -> Open {
        let store = running.store();
        let date = amz_date(fencepost::clock::now() - self.age);
        let scope = format!("{}/auto/storage/goog4_request", &date[..8]);
        let credential = format!("{}/{scope}", store.access_key_id());
        let mut payload = "UNSIGNED-PAYLOAD".to_owned();
        let mut headers = std::mem::take(&mut self.headers);
        headers.push(("host".to_owned(), running.addr().to_string()));
        if let Auth::Header = self.auth {
            payload = self.payload.take().unwrap_or(sha256.to_owned());
            headers.push(("x-goog-date".to_owned(), date.clone()));
            headers.push(("x-goog-content-sha256".to_owned(), payload.clone()));
        }
        headers.sort();
        let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let mut query = self.query(&credential, &date, &names);
        let path = format!("/{BUCKET}/{}", self.key);
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let canonical = format!("{}\n{path}\n{query}\n{lines}\n{names}\n{payload}", self.method);
        let secret = self.secret.unwrap_or(store.secret_access_key());
        let signature = sign(&canonical, secret, &date, &scope);
        match self.auth {
            Auth::Header => headers.push((
                "authorization".to_owned(),
                format!(
                    "GOOG4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, \
                     Signature={signature}"
                ),
            )),
            Auth::Query(_) => query.push_str(&format!("&X-Goog-Signature={signature}")),
            Auth::Bearer(token) => {
                headers.push(("authorization".to_owned(), format!("Bearer {token}")));
            }
        }
        headers.extend(self.unsigned);
        headers.push(("connection".to_owned(), "close".to_owned()));
        headers.extend(length.map(|length| ("content-length".to_owned(), length.to_string())));
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let lines: String = lines.collect();
        Open::sent(running, &format!("{} {target} HTTP/1.1\r\n{lines}\r\n", self.method)).await
    }

    /// The canonical query, with what a signed URL says of its signature.
    fn query(&self, credential: &str, date: &str, signed_headers: &str) -> String {
        let mut query = self.query.clone();
        if let Auth::Query(seconds) = self.auth {
            let fields = [
                ("X-Goog-Algorithm", "GOOG4-HMAC-SHA256"),
                ("X-Goog-Credential", credential),
                ("X-Goog-Date", date),
                ("X-Goog-Expires", &seconds.to_string()),
                ("X-Goog-SignedHeaders", signed_headers),
            ];
            query.extend(fields.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        query.sort();
        let pairs = query.iter().map(|(name, value)| format!("{name}={}", encode(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    /// Sends everything; `ok`, or status and code.
    pub(crate) async fn send(self, running: &RunningStore, body: &str) -> String {
        self.sent(running, body).await.answer().await
    }

    /// Sends everything; the head and the body of the answer.
    pub(crate) async fn text(self, running: &RunningStore, body: &str) -> String {
        self.sent(running, body).await.answer_text().await
    }

    async fn sent(self, running: &RunningStore, body: &str) -> Open {
        let sha256 = hex::encode(Sha256::digest(body));
        let mut open = self.open(running, Some(body.len()), &sha256).await;
        open.write(body).await;
        open
    }
}

/// The value of a header of an answer.
pub(crate) fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The generation that an answer shows.
pub(crate) fn generation(answer: &str) -> u64 {
    header(answer, "x-goog-generation").unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}

fn sign(canonical: &str, secret: &str, date: &str, scope: &str) -> String {
    let hash = hex::encode(Sha256::digest(canonical));
    let mut key = format!("GOOG4{secret}").into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part);
    }
    hex::encode(hmac(&key, &format!("GOOG4-HMAC-SHA256\n{date}\n{scope}\n{hash}")))
}

fn encode(text: &str) -> String {
    const UNRESERVED: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    percent_encoding::utf8_percent_encode(text, UNRESERVED).to_string()
}

fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    assert!(key.len() <= 64, "the tests' keys are short");
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let inner: Vec<u8> = block.iter().map(|byte| byte ^ 0x36).chain(message.bytes()).collect();
    let outer = block.iter().map(|byte| byte ^ 0x5c);
    let outer: Vec<u8> = outer.chain(Sha256::digest(inner)).collect();
    Sha256::digest(outer).to_vec()
}

/// `20261129T101112Z`.
fn amz_date(time: SystemTime) -> String {
    // `Sun, 29 Nov 2026 10:11:12 GMT`
    let text = httpdate::fmt_http_date(time);
    let words: Vec<_> = text.split([' ', ':']).collect();
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|month| *month == words[2]).unwrap() + 1;
    format!("{}{month:02}{}T{}{}{}Z", words[3], words[1], words[4], words[5], words[6])
}
