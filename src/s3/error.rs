//! S3 error answers.
//!
//! `<Error><Code/><Message/>…<Resource/><RequestId/><HostId/></Error>`. SDKs show every child
//! element to their users, so what a refusal has to say goes into elements of its own.

use std::fmt::{self, Write as _};

use http::{HeaderName, HeaderValue, StatusCode};
use quick_xml::escape::escape;
use serde_json::{Map, Value};

/// An answer that the proxy itself gives.
#[derive(Clone, Debug)]
pub struct S3Error {
    /// The HTTP status.
    pub status: StatusCode,
    /// The S3 error code.
    pub code: &'static str,
    /// What to tell the client: what was wrong, and what to do about it.
    pub message: String,
    /// Further elements of the body.
    pub elements: Vec<(&'static str, String)>,
    /// What only an answer in JSON says beside that.
    pub details: Vec<(&'static str, Value)>,
    /// Further headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl S3Error {
    /// An error with a code and a message.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            elements: Vec::new(),
            details: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// Adds a member to the body in JSON.
    #[must_use]
    pub fn detail(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    /// The body in JSON, of an answer that is no S3 client's.
    #[must_use]
    pub fn to_json(&self, request_id: &str) -> Value {
        let text = |value: &str| Value::String(value.to_owned());
        let own = [("code", text(self.code)), ("message", text(&self.message))];
        let elements = self.elements.iter().map(|(name, value)| (snake_case(name), text(value)));
        let details = self.details.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        own.into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .chain(elements)
            .chain(details)
            .chain([("request_id".to_owned(), text(request_id))])
            .collect::<Map<String, Value>>()
            .into()
    }

    /// Adds an element to the body.
    #[must_use]
    pub fn element(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.elements.push((name, value.to_string()));
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The body.
    #[must_use]
    pub fn to_xml(&self, resource: &str, request_id: &str) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
        let mut element = |name: &str, value: &str| {
            write!(xml, "<{name}>{}</{name}>", escape(printable(value)))
                .expect("writing to a string cannot fail");
        };
        element("Code", self.code);
        element("Message", &self.message);
        for (name, value) in &self.elements {
            element(name, value);
        }
        element("Resource", resource);
        element("RequestId", request_id);
        element("HostId", "fencepost");
        xml.push_str("</Error>");
        xml
    }
}

/// `FenceToken` as `fence_token`.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (at, character) in name.char_indices() {
        if character.is_ascii_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

/// XML 1.0 has no way to write most control characters.
fn printable(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\t' | '\n' | '\r' => character,
            control if control.is_control() => '\u{fffd}',
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            plain => plain,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_well_formed_whatever_is_in_it() {
        let error = S3Error::new(StatusCode::CONFLICT, "StaleFenceToken", "a < b & \u{1} \"c\"")
            .element("FenceToken", 33);
        let xml = error.to_xml("/b/%00&<", "0123");
        assert!(xml.contains("<Code>StaleFenceToken</Code>"));
        assert!(xml.contains("<Message>a &lt; b &amp; \u{fffd} &quot;c&quot;</Message>"));
        assert!(xml.contains("<FenceToken>33</FenceToken>"));
        assert!(xml.contains("<Resource>/b/%00&amp;&lt;</Resource>"));
        assert!(xml.contains("<RequestId>0123</RequestId>"));
    }
}
