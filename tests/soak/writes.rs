//! Writes of a worker process: through any proxy, with a token, reported as they were answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Method;

use crate::client::{self, Http};
use crate::moment;
use crate::support::{Generator, S3};
use crate::talk::{self, Report, Site, Told, Write, report};

/// A body is as long as this and its token: so that a listing shows whose an object is.
pub(crate) const BODY_BYTES_MIN: usize = 40;

/// The body that this operation writes, unlike every other.
pub(crate) fn body(token: u64, id: u64) -> String {
    let length = BODY_BYTES_MIN + usize::try_from(token).unwrap();
    format!("{:length$}", format!("{token} {id:x}"))
}

/// One of a worker's hands.
#[derive(Clone)]
pub(crate) struct Hand {
    pub(crate) site: Site,
    pub(crate) http: Http,
    pub(crate) dice: Generator,
    sequence: Arc<AtomicU64>,
}

impl Hand {
    pub(crate) fn new(site: Site) -> Self {
        let dice = Generator(site.seed);
        let sequence = Arc::new(AtomicU64::new(site.worker << 40));
        Self { site, http: Http::new(), dice, sequence }
    }

    /// Another one, with luck of its own.
    pub(crate) fn another(&mut self) -> Self {
        Self { dice: Generator(self.dice.next()), ..self.clone() }
    }

    /// A client of any proxy.
    pub(crate) fn any_proxy(&mut self) -> S3 {
        let proxy = self.dice.below(self.site.proxies.len());
        self.site.client(proxy)
    }

    /// Writes or deletes an object.
    pub(crate) async fn write(&mut self, key: &str, token: u64, deletes: bool) -> Told {
        let patience = talk::patience(&mut self.dice);
        let id = self.sequence.fetch_add(1, Ordering::SeqCst);
        let client = self.any_proxy().session(&format!("fence:{token}"));
        let client = client.with("x-amz-meta-op", &id.to_string());
        let (method, body) = match deletes {
            true => (Method::DELETE, String::new()),
            false => (Method::PUT, body(token, id)),
        };
        let invoked = moment();
        let answer = self.http.send(&client, method, &client.path(key), body, patience).await;
        let answered = moment();
        let told = client::told(answer.as_ref()).unwrap_or_else(|odd| {
            report(&Report::Odd(format!("a write of {key} with {token}: {odd}")));
            Told::Unknown
        });
        let key = key.to_owned();
        report(&Report::Wrote(Write { key, token, id, deletes, invoked, answered, told }));
        told
    }
}
