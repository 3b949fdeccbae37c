//! Browser forms: the signed policy that stands for a signature of the request.
//!
//! Who holds a key writes a policy, a list of conditions on the fields of a form, and signs it;
//! whoever is given the two may send any form that meets them, until the policy expires. So the
//! signature is verified first and the document is read afterwards, and a field that no condition
//! speaks of is refused: the signer has not allowed it.
//!
//! (See "Creating a POST policy" in the S3 API reference.) The document is read as JSON, without
//! the escape `\$` that the reference mentions and JSON does not have.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::SystemTime;

use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use subtle::ConstantTimeEq as _;

use super::amz_date::AmzDate;
use super::canonical::ALGORITHM;
use super::error::AuthError;
use super::keyring::{AccessKeyId, KeyRing};
use super::presented::Scope;
use super::verify::SKEW_MAX;
use crate::s3::PostForm;

/// A form whose policy is signed, not over, and met by every field.
#[derive(Debug)]
pub struct VerifiedPost {
    /// Who signed the policy.
    pub access_key_id: AccessKeyId,
    /// How many bytes the file may have.
    pub file_bytes: RangeInclusive<u64>,
}

/// Why a form was not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostPolicyError {
    /// The signature is not one, or not the right one.
    #[error(transparent)]
    Signature(#[from] AuthError),
    /// A field of the signature is not there.
    #[error(
        "Bucket POST must contain a field named '{0}'. If it is specified, please check the order \
         of the fields."
    )]
    Missing(&'static str),
    /// A field of the signature cannot be read.
    #[error("The form field {name} is not valid: {problem}")]
    Invalid {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The policy cannot be read.
    #[error("Invalid Policy: {0}")]
    Document(String),
    /// The policy has expired.
    #[error("Invalid according to Policy: Policy expired.")]
    Expired,
    /// A condition does not hold.
    #[error("Invalid according to Policy: Policy Condition failed: {0}")]
    Condition(String),
    /// No condition speaks of a field.
    #[error("Invalid according to Policy: Extra input fields: {0}")]
    ExtraField(String),
}

impl PostPolicyError {
    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Signature(error) => error.status(),
            Self::Missing(_) | Self::Invalid { .. } | Self::Document(_) => StatusCode::BAD_REQUEST,
            Self::Expired | Self::Condition(_) | Self::ExtraField(_) => StatusCode::FORBIDDEN,
        }
    }

    /// The S3 error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Signature(error) => error.code(),
            Self::Missing(_) | Self::Invalid { .. } => "InvalidArgument",
            Self::Document(_) => "InvalidPolicyDocument",
            Self::Expired | Self::Condition(_) | Self::ExtraField(_) => "AccessDenied",
        }
    }

    /// Further elements of the error document, as AWS names them.
    #[must_use]
    pub fn elements(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Signature(error) => error.elements(),
            Self::Missing(name) | Self::Invalid { name, .. } => {
                vec![("ArgumentName", (*name).to_owned())]
            }
            Self::Document(_) | Self::Expired | Self::Condition(_) | Self::ExtraField(_) => {
                Vec::new()
            }
        }
    }
}

/// Verifies a form that was sent to `bucket`, at the time `now`.
///
/// # Errors
///
/// [`PostPolicyError`].
pub fn verify_post(
    form: &PostForm,
    bucket: &str,
    ring: &KeyRing,
    now: SystemTime,
) -> Result<VerifiedPost, PostPolicyError> {
    let (access_key_id, policy) = verify_signature(form, ring, now)?;
    let policy = Policy::parse(policy)?;
    if now >= policy.expiration {
        return Err(PostPolicyError::Expired);
    }
    let value_of = |name: &str| match name {
        "bucket" => bucket,
        // A field that is not there counts as empty: it has no effect either.
        name => form.get(name).unwrap_or_default(),
    };
    let failed = policy.conditions.iter().find(|condition| !condition.holds(value_of));
    if let Some(condition) = failed {
        return Err(PostPolicyError::Condition(condition.to_string()));
    }
    let names = form.iter().map(|(name, _)| name).filter(|name| !needs_no_condition(name));
    // A policy that does not name its bucket would be good for every one of the signer's.
    for name in std::iter::once("bucket").chain(names) {
        if !policy.conditions.iter().any(|condition| condition.speaks_of(name)) {
            return Err(PostPolicyError::ExtraField(name.to_owned()));
        }
    }
    Ok(VerifiedPost { access_key_id, file_bytes: policy.file_bytes() })
}

/// Fields that a policy cannot speak of, or need not.
fn needs_no_condition(name: &str) -> bool {
    matches!(name, "policy" | "x-amz-signature") || name.starts_with("x-ignore-")
}

/// Gives who signed, and the policy as it was signed: in base64.
fn verify_signature<'f>(
    form: &'f PostForm,
    ring: &KeyRing,
    now: SystemTime,
) -> Result<(AccessKeyId, &'f str), PostPolicyError> {
    // An empty field is one that was not filled in.
    let get = |name| form.get(name).filter(|value| !value.is_empty());
    let field = |name| get(name).ok_or(PostPolicyError::Missing(name));
    if get("awsaccesskeyid").is_some() || get("signature").is_some() {
        return Err(AuthError::SignatureV2.into());
    }
    if get("policy").is_none() && get("x-amz-signature").is_none() {
        return Err(AuthError::Anonymous.into());
    }
    let policy = field("policy")?;
    match field("x-amz-algorithm")? {
        ALGORITHM => {}
        "AWS4-ECDSA-P256-SHA256" => return Err(AuthError::SignatureV4a.into()),
        _ => return Err(invalid("x-amz-algorithm", "it has to be AWS4-HMAC-SHA256")),
    }
    let date = AmzDate::parse(field("x-amz-date")?)
        .ok_or_else(|| invalid("x-amz-date", "it is not of the form 20130524T000000Z"))?;
    let scope = Scope::parse(field("x-amz-credential")?, &date)
        .map_err(|problem| invalid("x-amz-credential", problem))?;
    let signature = field("x-amz-signature")?;
    let signed_at = date.time();
    if now + SKEW_MAX < signed_at {
        return Err(AuthError::NotYetValid { signed_at, now }.into());
    }
    let access_key_id = scope.access_key_id;
    let Some((known_id, secret)) = ring.get(&access_key_id) else {
        return Err(AuthError::UnknownAccessKey { access_key_id }.into());
    };
    let key = generate_signing_key(secret.expose(), signed_at, &scope.region, "s3");
    let expected = calculate_signature(key, policy.as_bytes());
    if bool::from(expected.as_bytes().ct_eq(signature.as_bytes())) {
        return Ok((known_id.clone(), policy));
    }
    Err(AuthError::SignatureMismatch {
        access_key_id,
        string_to_sign: policy.to_owned(),
        signature_provided: signature.to_owned(),
    }
    .into())
}

fn invalid(name: &'static str, problem: &'static str) -> PostPolicyError {
    PostPolicyError::Invalid { name, problem }
}

fn document(what: impl Into<String>) -> PostPolicyError {
    PostPolicyError::Document(what.into())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    expiration: String,
    conditions: Vec<Value>,
}

struct Policy {
    expiration: SystemTime,
    conditions: Vec<Condition>,
}

/// What a policy asks of a form. Names are in lower case.
enum Condition {
    Equals { name: String, value: String },
    StartsWith { name: String, prefix: String },
    FileBytes(RangeInclusive<u64>),
}

impl Policy {
    fn parse(base64: &str) -> Result<Self, PostPolicyError> {
        // Old tools break base64 into lines.
        let base64: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let json = STANDARD.decode(base64).map_err(|_| document("it is not base64"))?;
        let read: Document = serde_json::from_slice(&json)
            .map_err(|error| document(format!("Invalid JSON: {error}")))?;
        let expiration = DateTime::from_str(&read.expiration, Format::DateTime)
            .ok()
            .and_then(|time| SystemTime::try_from(time).ok())
            .ok_or_else(|| document("Invalid 'expiration' value"))?;
        let conditions: Result<Vec<Condition>, _> =
            read.conditions.iter().map(Condition::parse).collect();
        Ok(Self { expiration, conditions: conditions? })
    }

    /// What every `content-length-range` allows.
    fn file_bytes(&self) -> RangeInclusive<u64> {
        self.conditions.iter().fold(0..=u64::MAX, |all, condition| match condition {
            Condition::FileBytes(range) => {
                *all.start().max(range.start())..=*all.end().min(range.end())
            }
            Condition::Equals { .. } | Condition::StartsWith { .. } => all,
        })
    }
}

impl Condition {
    /// `{"name": "value"}` or `["operator", …]`.
    fn parse(value: &Value) -> Result<Self, PostPolicyError> {
        if let Value::Object(object) = value {
            let mut properties = object.iter();
            return match (properties.next(), properties.next()) {
                (Some((name, Value::String(value))), None) => {
                    Ok(Self::Equals { name: name.to_ascii_lowercase(), value: value.clone() })
                }
                _ => Err(document("a simple condition must have exactly one property, a string")),
            };
        }
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        let [Value::String(operator), first, second] = items else {
            return Err(document("a condition must have an operator and two arguments"));
        };
        match operator.to_ascii_lowercase().as_str() {
            "eq" => {
                let (name, value) = name_and_text(first, second)?;
                Ok(Self::Equals { name, value })
            }
            "starts-with" => {
                let (name, prefix) = name_and_text(first, second)?;
                Ok(Self::StartsWith { name, prefix })
            }
            "content-length-range" => Ok(Self::FileBytes(bytes(first)?..=bytes(second)?)),
            _ => Err(document(format!("unknown operator {operator}"))),
        }
    }

    fn holds<'v>(&self, value_of: impl Fn(&str) -> &'v str) -> bool {
        match self {
            Self::Equals { name, value } => value_of(name) == value,
            // A list of types has to be allowed whole.
            Self::StartsWith { name, prefix } if name == "content-type" => {
                value_of(name).split(',').all(|kind| kind.trim().starts_with(prefix))
            }
            Self::StartsWith { name, prefix } => value_of(name).starts_with(prefix),
            // Judged when the file has been read.
            Self::FileBytes(_) => true,
        }
    }

    fn speaks_of(&self, field: &str) -> bool {
        match self {
            Self::Equals { name, .. } | Self::StartsWith { name, .. } => name == field,
            Self::FileBytes(_) => false,
        }
    }
}

impl fmt::Display for Condition {
    /// As it stands in a policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals { name, value } => write!(f, "[\"eq\", \"${name}\", \"{value}\"]"),
            Self::StartsWith { name, prefix } => {
                write!(f, "[\"starts-with\", \"${name}\", \"{prefix}\"]")
            }
            Self::FileBytes(range) => {
                write!(f, "[\"content-length-range\", {}, {}]", range.start(), range.end())
            }
        }
    }
}

fn name_and_text(name: &Value, text: &Value) -> Result<(String, String), PostPolicyError> {
    match (name.as_str().and_then(|name| name.strip_prefix('$')), text) {
        (Some(name), Value::String(text)) => Ok((name.to_ascii_lowercase(), text.clone())),
        _ => Err(document("a condition must have a name that begins with $, and a string")),
    }
}

/// A number of bytes; some tools write it in quotes.
fn bytes(value: &Value) -> Result<u64, PostPolicyError> {
    let number = value.as_u64().or_else(|| value.as_str().and_then(super::payload::parse_decimal));
    number.ok_or_else(|| document("content-length-range must have two numbers of bytes"))
}

#[cfg(test)]
#[path = "post_policy_tests.rs"]
mod tests;
