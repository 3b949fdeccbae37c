//! Tokens in all their carriers, and ETags in conditions.

use fencepost::auth::Verified;
use fencepost::fence::Token;
use fencepost::pipeline::TokenSignature;
use fencepost::pipeline::token::find;
use fencepost::s3::{EtagQuotes, parse_if_match, parse_if_none_match};
use http::{HeaderValue, Request};

use super::inputs::text;
use super::support::Generator;
use super::{CASES, hold};

const TOKENS: [&str; 12] = [
    "1",
    "7",
    "0",
    "007",
    "18446744073709551615",
    "18446744073709551616",
    "+7",
    "-7",
    "7.0",
    "0x7",
    "7,8",
    " 7 ",
];

const ETAGS: [&str; 12] = [
    "*",
    "\"*\"",
    "\"0123456789abcdef0123456789abcdef\"",
    "\"0123456789abcdef0123456789abcdef-2\"",
    "bare",
    "W/\"weak\"",
    "\"a\", \"b\"",
    "\"a",
    "a\"",
    "",
    "\"\"",
    " \"a\" ",
];

/// What a token is, written down once more: digits, from 1 to the largest of 64 bits.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit());
    let value = digits.then(|| text.trim_start_matches('0').to_owned())?;
    if value.is_empty() || value.len() > 20 {
        return None;
    }
    let wide: u128 = value.parse().unwrap();
    u64::try_from(wide).ok()
}

#[test]
fn a_token_is_a_number_and_nothing_else() {
    hold(
        CASES,
        |random| text(random, &TOKENS),
        |text| {
            let token = text.parse::<Token>().ok();
            assert_eq!(token.map(Token::get), number(text), "{:?}", text);
            if let Some(token) = token {
                assert_eq!(token.to_string().parse(), Ok(token));
            }
        },
    );
}

/// As a header has it: the white space around it is not of the value.
fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.trim_matches([' ', '\t']).as_bytes()).ok()
}

/// A text as a value in a query.
fn in_query(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Whatever is carried, and by however many: there is one token that all of them are, or none of
/// them is there, or it is an error.
#[test]
fn a_token_is_found_when_every_carrier_carries_it() {
    let carried = |random: &mut Generator| {
        random.one_in(2).then(|| if random.one_in(2) { "7".into() } else { text(random, &TOKENS) })
    };
    let input = |random: &mut Generator| (carried(random), carried(random), carried(random));
    hold(CASES, input, |(header, query, session)| {
        let mut request = Request::builder().header("host", "h");
        let target = query.as_ref().map(|text| format!("?X-Fence-Token={}", in_query(text)));
        request = request.uri(format!("/b/k{}", target.unwrap_or_default()));
        let mut all = Vec::from_iter(query.clone());
        let session = session.as_ref().map(|text| format!("fence:{text}"));
        for (name, text) in [("x-fence-token", header), ("x-amz-security-token", &session)] {
            let Some(value) = text.as_deref().and_then(value) else { continue };
            let shown = std::str::from_utf8(value.as_bytes()).unwrap();
            all.push(shown.strip_prefix("fence:").unwrap_or(shown).to_owned());
            request = request.header(name, value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        // A session token that is no text is refused here.
        let Ok(verified) = Verified::unauthenticated(&parts) else { return };
        let found = find(&parts, &verified, TokenSignature::Signed);
        let numbers: Vec<Option<u64>> = all.iter().map(|text| number(text)).collect();
        let expected = match numbers.first() {
            None => Ok(None),
            Some(first) if numbers.iter().all(|other| other == first) => first.map(Some).ok_or(()),
            Some(_) => Err(()),
        };
        let found = found.map(|token| token.map(Token::get)).map_err(drop);
        assert_eq!(found, expected, "{:?}", all);
    });
}

#[test]
fn what_is_taken_for_an_etag_is_one() {
    hold(
        CASES,
        |random| text(random, &ETAGS),
        |text| {
            assert_eq!(parse_if_none_match(text).is_ok(), text.trim() == "*");
            match parse_if_match(text) {
                Ok(None) => assert_eq!(text.trim(), "*"),
                Ok(Some(etag)) => {
                    assert!(!etag.is_empty() && etag != "*");
                    assert!(etag.bytes().all(|b| b.is_ascii_graphic() && !b"\",".contains(&b)));
                    for quotes in [EtagQuotes::Quoted, EtagQuotes::Bare] {
                        assert_eq!(parse_if_match(&quotes.write(&etag)), Ok(Some(etag.clone())));
                    }
                }
                Err(_) => {}
            }
        },
    );
}
