//! Faults as text, for the command line: `lose-answer,method=PUT,key=state/,times=2`.

use std::str::FromStr;
use std::time::Duration;

use http::Method;

use super::{Effect, Rule};

/// What a fault has to look like.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not a fault: {problem}. A fault is one of lose-answer, cut-before, cut-body, \
     status=CODE, execute-then-status=CODE and delay=MILLISECONDS, and after commas which requests \
     it strikes: method=, bucket=, key= (a prefix), query= (a part), times=N or times=always"
)]
pub struct InvalidFault {
    given: String,
    problem: String,
}

impl FromStr for Rule {
    type Err = InvalidFault;

    fn from_str(text: &str) -> Result<Self, InvalidFault> {
        let wrong = |problem: String| InvalidFault { given: text.to_owned(), problem };
        let mut parts = text.split(',');
        let effect = effect(parts.next().unwrap_or_default()).map_err(wrong)?;
        parts.try_fold(Self::new(effect), |rule, part| {
            let (name, value) =
                part.split_once('=').ok_or_else(|| wrong(format!("{part:?} has no value")))?;
            match name {
                "method" => Method::from_bytes(value.as_bytes())
                    .map(|method| rule.method(method))
                    .map_err(|_| wrong(format!("{value:?} is no method"))),
                "bucket" => Ok(rule.bucket(value)),
                "key" => Ok(rule.key_prefix(value)),
                "query" => Ok(rule.query(value)),
                "times" if value == "always" => Ok(rule.always()),
                "times" => number(value).map(|times| rule.times(times)).map_err(wrong),
                _ => Err(wrong(format!("{name:?} is not known"))),
            }
        })
    }
}

fn effect(text: &str) -> Result<Effect, String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let status = || {
        let code = number::<u16>(value)?;
        if (400..=599).contains(&code) {
            Ok((code, s3_code(code)))
        } else {
            Err(format!("{code} is not the status of an error"))
        }
    };
    match (name, value) {
        ("lose-answer", "") => Ok(Effect::LoseAnswer),
        ("cut-before", "") => Ok(Effect::CutBefore),
        ("cut-body", "") => Ok(Effect::CutBody),
        ("status", _) => status().map(|(code, name)| Effect::Status(code, name)),
        ("execute-then-status", _) => {
            status().map(|(code, name)| Effect::ExecuteThenStatus(code, name))
        }
        ("delay", _) => number(value).map(Duration::from_millis).map(Effect::Delay),
        (_, _) => Err(format!("{text:?} is not known")),
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number that fits"))
}

/// The S3 code that goes with a status.
fn s3_code(status: u16) -> &'static str {
    match status {
        403 => "AccessDenied",
        409 => "OperationAborted",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "SlowDown",
        _ => "InjectedFault",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        let same = |text: &str, rule: Rule| {
            let read: Rule = text.parse().unwrap();
            assert_eq!(format!("{read:?}"), format!("{rule:?}"), "{text}");
        };
        same("lose-answer", Rule::new(Effect::LoseAnswer));
        same(
            "delay=1500,method=PUT,bucket=demo,key=state/,query=partNumber,times=3",
            Rule::new(Effect::Delay(Duration::from_millis(1500)))
                .method(Method::PUT)
                .bucket("demo")
                .key_prefix("state/")
                .query("partNumber")
                .times(3),
        );
        same("status=503,times=always", Rule::new(Effect::Status(503, "SlowDown")).always());
        same("execute-then-status=500", Rule::new(Effect::ExecuteThenStatus(500, "InternalError")));
        same("cut-body,method=GET", Rule::new(Effect::CutBody).method(Method::GET));
    }

    #[test]
    fn what_is_no_fault_is_refused_with_what_one_is() {
        let bad = [
            "",
            "lose",
            "lose-answer=1",
            "status",
            "status=200",
            "status=x",
            "delay=-1",
            "lose-answer,times",
            "lose-answer,times=0x1",
            "lose-answer,keys=a",
            "lose-answer,method=G T",
        ];
        for text in bad {
            let error = text.parse::<Rule>().map(drop).unwrap_err().to_string();
            assert!(error.contains("lose-answer, cut-before"), "{text}: {error}");
        }
    }
}
