//! Requests of an examination (`doctor`): to scratch objects, with conditions that no fence asked
//! for and signatures that the store has to refuse.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, Method, header};

use super::{Answer, OutBody, Route, SendError, Upstream};
use crate::auth::PayloadHash;
use crate::fence::UnfencedPermit;

/// How a request is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// In the header, at this time.
    Header(SystemTime),
    /// In the query, at this time, good for so many seconds.
    Query(SystemTime, u32),
    /// In the header, and wrong by one digit.
    Wrong(SystemTime),
}

/// One request.
#[derive(Debug)]
pub struct Trial {
    /// Its method.
    pub method: Method,
    /// Where to.
    pub route: Route,
    /// Its headers, in S3 form, with the length of its body.
    pub headers: HeaderMap,
    /// Its body.
    pub body: OutBody,
    /// What the signature says about it.
    pub payload: PayloadHash,
    /// How it is signed.
    pub signing: Signing,
    /// How long the whole may take.
    pub timeout: Duration,
}

impl Upstream {
    /// Sends one request of an examination, and reads its answer whole.
    ///
    /// # Errors
    ///
    /// [`SendError`], also when it takes longer than it may.
    pub async fn examine(&self, permit: UnfencedPermit, trial: Trial) -> Result<Answer, SendError> {
        let UnfencedPermit { .. } = permit;
        let Trial { method, route, headers, body, payload, signing, timeout } = trial;
        let (at, expires) = match signing {
            Signing::Header(at) | Signing::Wrong(at) => (at, None),
            Signing::Query(at, seconds) => (at, Some(seconds)),
        };
        let mut signed = self.sign(method, &route, headers, payload, at, expires).await?;
        if matches!(signing, Signing::Wrong(_)) {
            spoil(signed.headers_mut());
        }
        let call = self.call_within(signed.map(|()| body), timeout);
        let late = |_| SendError::Lost(format!("no answer within {} s", timeout.as_secs()));
        tokio::time::timeout(timeout, call).await.map_err(late)?
    }
}

/// Changes the last digit of the signature.
fn spoil(headers: &mut HeaderMap) {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return };
    let mut bytes = value.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last = if *last == b'0' { b'1' } else { b'0' };
    }
    if let Ok(spoilt) = HeaderValue::from_bytes(&bytes) {
        headers.insert(header::AUTHORIZATION, spoilt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spoilt_signature_is_another_one_of_the_same_length() {
        for (whole, spoilt) in [("Signature=ab1", "Signature=ab0"), ("=a0", "=a1")] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, whole.parse().unwrap());
            spoil(&mut headers);
            assert_eq!(headers[header::AUTHORIZATION], spoilt);
        }
    }
}
