//! Where in a request the token rides.
//!
//! Two carriers: the header `X-Fence-Token`, and the session token `fence:<n>`, which every S3
//! client can send without code (`AWS_SESSION_TOKEN=fence:42`) and always signs. A presigned URL
//! carries them as the query parameters `X-Fence-Token` and `X-Amz-Security-Token`, a browser's form
//! as fields of these names, which its policy has to speak of.

use http::HeaderName;
use http::request::Parts;

use crate::auth::{Form, SessionToken, Verified};
use crate::fence::{Bearer, Lock, LockMode, Token, TokenError};
use crate::s3::{PostForm, Query, percent_decode};
use crate::upstream::FENCE_TOKEN;

/// What the session token begins with when it carries a fencing token.
const SESSION_PREFIX: &str = "fence:";

/// Whether the header that carries a token has to be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenSignature {
    /// It has to be, so that nobody on the way can change it.
    Signed,
    /// It need not be: for clients that can only add headers after signing (rclone, mc).
    Any,
}

/// Why a request's token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenProblem {
    /// It is not a token.
    Invalid {
        /// What was given.
        given: String,
        /// What is wrong with it.
        error: TokenError,
    },
    /// It is given twice in one carrier.
    Repeated,
    /// Two carriers carry different tokens.
    Conflicting(Token, Token),
    /// The header is not covered by the signature.
    Unsigned,
    /// A header that says whose token it is is not accepted.
    InvalidBearer {
        /// Which.
        header: &'static str,
        /// What is wrong with it, after its name.
        problem: &'static str,
    },
    /// The session token is a real one, which the proxy knows nothing of.
    ForeignSessionToken,
}

/// Finds the token of a request, `None` if it has none.
///
/// # Errors
///
/// [`TokenProblem`].
pub fn find(
    parts: &Parts,
    verified: &Verified,
    signature: TokenSignature,
) -> Result<Option<Token>, TokenProblem> {
    let session = verified.session_token.as_ref().map(SessionToken::as_str);
    let in_query = from_query(parts)?;
    let unsigned = verified.form == Form::Policy && (session.is_some() || in_query.is_some());
    if unsigned && signature == TokenSignature::Signed {
        return Err(TokenProblem::Unsigned);
    }
    one_of([
        from_header(parts, verified, signature)?,
        in_query,
        from_session(session, verified.form)?,
    ])
}

/// The name of the lock, and perhaps how it is held: `name`, or `name; mode=shared`.
const FENCE_LOCK: &str = "x-fence-lock";

/// The name of the holder.
const FENCE_HOLDER: &str = "x-fence-holder";

/// The longest name of a lock or a holder, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Finds whose token a request says it carries.
///
/// # Errors
///
/// [`TokenProblem::InvalidBearer`].
pub fn bearer_of(
    parts: &Parts,
    verified: &Verified,
    signature: TokenSignature,
) -> Result<Bearer, TokenProblem> {
    let named = |header: &'static str| {
        let invalid = |problem| TokenProblem::InvalidBearer { header, problem };
        let mut values = parts.headers.get_all(header).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(invalid("is given twice"));
        }
        if !is_signed(header, verified) && signature == TokenSignature::Signed {
            return Err(invalid("is not covered by the request's signature"));
        }
        match value.to_str().map(str::trim) {
            Ok(name) if !name.is_empty() && name.len() <= NAME_BYTES_MAX => Ok(Some(name)),
            Ok(_) | Err(_) => Err(invalid("has to be 1 to 256 visible ASCII characters")),
        }
    };
    let lock = named(FENCE_LOCK)?.map(|text| {
        let (name, mode) = match text.split_once(';') {
            None => (text, LockMode::Exclusive),
            Some((name, parameter)) => match parameter.trim() {
                "mode=exclusive" => (name.trim_end(), LockMode::Exclusive),
                "mode=shared" => (name.trim_end(), LockMode::Shared),
                _ => {
                    return Err("has to be a name, which may be followed by ; mode=exclusive or \
                                 ; mode=shared");
                }
            },
        };
        if name.is_empty() { Err("has no name") } else { Ok(Lock { name: name.to_owned(), mode }) }
    });
    let invalid = |problem| TokenProblem::InvalidBearer { header: FENCE_LOCK, problem };
    let lock = lock.transpose().map_err(invalid)?;
    Ok(Bearer { lock, holder: named(FENCE_HOLDER)?.map(str::to_owned) })
}

/// Finds the token of a browser's form, which is `head` if its head has one; `verified` is that of
/// the head.
///
/// # Errors
///
/// [`TokenProblem`].
pub fn find_in_form(
    form: &PostForm,
    verified: &Verified,
    head: Option<Token>,
) -> Result<Option<Token>, TokenProblem> {
    // An empty field is one that was not filled in.
    let get = |name| form.get(name).filter(|value| !value.is_empty());
    let field = get("x-fence-token").map(parse).transpose()?;
    one_of([head, field, from_session(get("x-amz-security-token"), verified.form)?])
}

fn one_of(carried: impl IntoIterator<Item = Option<Token>>) -> Result<Option<Token>, TokenProblem> {
    let mut found: Option<Token> = None;
    for token in carried.into_iter().flatten() {
        match found {
            Some(other) if other != token => return Err(TokenProblem::Conflicting(other, token)),
            Some(_) | None => found = Some(token),
        }
    }
    Ok(found)
}

fn from_header(
    parts: &Parts,
    verified: &Verified,
    signature: TokenSignature,
) -> Result<Option<Token>, TokenProblem> {
    let mut values = parts.headers.get_all(&FENCE_TOKEN).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(TokenProblem::Repeated);
    }
    if !is_signed(FENCE_TOKEN.as_str(), verified) && signature == TokenSignature::Signed {
        return Err(TokenProblem::Unsigned);
    }
    parse(&String::from_utf8_lossy(value.as_bytes())).map(Some)
}

/// Whether nobody on the way could have changed a header.
pub(super) fn is_signed(header: &str, verified: &Verified) -> bool {
    match verified.form {
        Form::Header | Form::Query => {
            header.parse().is_ok_and(|name: HeaderName| verified.signed_headers.contains(&name))
        }
        Form::Policy => false,
        Form::None => true,
    }
}

fn from_query(parts: &Parts) -> Result<Option<Token>, TokenProblem> {
    let mut values = Query::of(&parts.uri).pairs().filter(|(name, _)| is_token_parameter(name));
    let Some((_, value)) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(TokenProblem::Repeated);
    }
    parse(&String::from_utf8_lossy(&percent_decode(value.as_bytes()))).map(Some)
}

fn from_session(session: Option<&str>, form: Form) -> Result<Option<Token>, TokenProblem> {
    let Some(session) = session else { return Ok(None) };
    match session.strip_prefix(SESSION_PREFIX) {
        Some(token) => parse(token).map(Some),
        // Where nothing is verified, whatever credentials the client has are not looked at.
        None if form == Form::None => Ok(None),
        None => Err(TokenProblem::ForeignSessionToken),
    }
}

/// Whether a decoded query parameter's name is the token's.
fn is_token_parameter(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(FENCE_TOKEN.as_str().as_bytes())
}

/// A raw query without the token.
#[must_use]
pub fn strip_from_query(query: &str) -> Option<String> {
    let is_token = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        is_token_parameter(&percent_decode(name.as_bytes()))
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_token(pair)).collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// What of an invalid token is repeated in the answer.
const GIVEN_CHARS_MAX: usize = 32;

fn parse(text: &str) -> Result<Token, TokenProblem> {
    text.parse().map_err(|error| TokenProblem::Invalid {
        given: text.chars().take(GIVEN_CHARS_MAX).collect(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn find_in(headers: &[(&str, &str)], uri: &str) -> Result<Option<Token>, TokenProblem> {
        let mut request = Request::builder().uri(uri).header("host", "h");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let verified = Verified::unauthenticated(&parts).unwrap();
        find(&parts, &verified, TokenSignature::Signed)
    }

    fn token(value: u64) -> Option<Token> {
        Some(Token::new(value).unwrap())
    }

    #[test]
    fn every_carrier_is_read() {
        assert_eq!(find_in(&[], "/b/k"), Ok(None));
        assert_eq!(find_in(&[("x-fence-token", "0042")], "/b/k"), Ok(token(42)));
        assert_eq!(find_in(&[("x-amz-security-token", "fence:42")], "/b/k"), Ok(token(42)));
        assert_eq!(find_in(&[], "/b/k?x=1&X-Fence-Token=42"), Ok(token(42)));
        assert_eq!(find_in(&[("x-amz-security-token", "FwoGZX")], "/b/k"), Ok(None));
        let both = [("x-fence-token", "7"), ("x-amz-security-token", "fence:07")];
        assert_eq!(find_in(&both, "/b/k"), Ok(token(7)), "the same token twice is one token");
    }

    #[test]
    fn what_is_not_one_token_is_an_error() {
        let invalid = |result| matches!(result, Err(TokenProblem::Invalid { .. }));
        assert!(invalid(find_in(&[("x-fence-token", "")], "/b/k")));
        assert!(invalid(find_in(&[("x-fence-token", "7, 8")], "/b/k")));
        assert!(invalid(find_in(&[("x-amz-security-token", "fence:")], "/b/k")));
        assert!(invalid(find_in(&[("x-amz-security-token", "fence: 7")], "/b/k")));
        assert!(invalid(find_in(&[], "/b/k?x-fence-token")));
        let twice = [("x-fence-token", "7"), ("x-fence-token", "7")];
        assert_eq!(find_in(&twice, "/b/k"), Err(TokenProblem::Repeated));
        let two = [("x-fence-token", "7"), ("x-amz-security-token", "fence:8")];
        assert_eq!(
            find_in(&two, "/b/k"),
            Err(TokenProblem::Conflicting(Token::new(7).unwrap(), Token::new(8).unwrap()))
        );
    }

    #[test]
    fn a_form_carries_its_token_in_its_fields() {
        let find = |fields: &[(&str, &str)], head: [&str; 3], signature| {
            let [uri, name, value] = head;
            let request = Request::builder().method("POST").uri(uri).header("host", "h");
            let (parts, ()) = request.header(name, value).body(()).unwrap().into_parts();
            let verified = Verified::head_of_form(&parts).unwrap();
            let mut form = PostForm::default();
            for (name, value) in fields {
                form.add(name, (*value).to_owned()).unwrap();
            }
            find_in_form(&form, &verified, super::find(&parts, &verified, signature)?)
        };
        let plain = ["/b", "x-other", "1"];
        let signed = |fields: &[(&str, &str)]| find(fields, plain, TokenSignature::Signed);
        assert_eq!(signed(&[]), Ok(None));
        assert_eq!(signed(&[("X-Fence-Token", "7")]), Ok(token(7)));
        assert_eq!(signed(&[("x-amz-security-token", "fence:7")]), Ok(token(7)));
        assert_eq!(signed(&[("x-fence-token", ""), ("x-amz-security-token", "")]), Ok(None));
        let two = [("x-fence-token", "7"), ("x-amz-security-token", "fence:8")];
        assert!(matches!(signed(&two), Err(TokenProblem::Conflicting(..))));
        assert!(matches!(signed(&[("x-fence-token", "x")]), Err(TokenProblem::Invalid { .. })));
        let foreign = signed(&[("x-amz-security-token", "FwoGZX")]);
        assert_eq!(foreign, Err(TokenProblem::ForeignSessionToken));
        // Nothing of a form's head is signed.
        for head in [
            ["/b?X-Fence-Token=7", "x-other", "1"],
            ["/b?X-Amz-Security-Token=fence:7", "x-other", "1"],
            ["/b", "x-fence-token", "7"],
            ["/b", "x-amz-security-token", "fence:7"],
        ] {
            let fields = [("x-fence-token", "7")];
            let signed = find(&fields, head, TokenSignature::Signed);
            assert_eq!(signed, Err(TokenProblem::Unsigned), "{head:?}");
            assert_eq!(find(&[], head, TokenSignature::Any), Ok(token(7)), "{head:?}");
            let other = find(&[("x-fence-token", "8")], head, TokenSignature::Any);
            assert!(matches!(other, Err(TokenProblem::Conflicting(..))), "{head:?}");
        }
    }

    #[test]
    fn the_token_leaves_the_query_and_nothing_else_does() {
        assert_eq!(strip_from_query("a=%2F&x-fence-token=7&b"), Some("a=%2F&b".into()));
        assert_eq!(strip_from_query("X-Fence-Token=7"), None);
        assert_eq!(strip_from_query("a+b=1"), Some("a+b=1".into()));
    }
}
