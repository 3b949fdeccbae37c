//! What the commands that talk to a running proxy have in common: where it is, who asks, and the
//! values of their arguments.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::provider::ProvideCredentials as _;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use fencepost::client::{
    AdminClient, AdminToken, ClientError, DataClient, KeyPair, Location, NotALocation, Server,
};
use fencepost::clock;
use fencepost::config::{BackendUrl, Environment};
use fencepost::fence::Token;
use fencepost::server::store;
use serde_json::Value;

use super::exit::Usage;
use super::{Failure, print, with_sources};

const DEFAULT_PROXY: &str = "http://127.0.0.1:9000";
const DEFAULT_ADMIN: &str = "http://127.0.0.1:9001";

/// The region that requests are signed for. The proxy takes any; asking the AWS SDK for the user's
/// would ask the instance's metadata, too, and take its time where there are none.
const REGION: &str = "us-east-1";

/// For how long small requests are repeated.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Flags of commands that talk to the data port.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProxyFlags {
    /// URL of the proxy [default: FENCEPOST_PROXY, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else
    /// http://127.0.0.1:9000]
    #[arg(long, value_name = "URL")]
    proxy: Option<String>,
    /// PEM file of certificate authorities to trust besides the system's [default:
    /// FENCEPOST_CA_FILE]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Do not sign; for a proxy that runs with --auth none
    #[arg(long)]
    no_sign_request: bool,
}

/// A client of the data port, and what the command of a lease has to know of it.
pub(super) struct Proxy {
    pub(super) client: DataClient,
    /// The key pair, where it is not in the environment already.
    pub(super) key_pair_from_elsewhere: Option<KeyPair>,
}

impl ProxyFlags {
    /// The client. Credentials come by the AWS SDK's usual chain.
    pub(super) async fn connect(&self) -> Result<Proxy, Failure> {
        let environment = Environment::of_process();
        let named = [
            ("--proxy", self.proxy.as_deref()),
            ("FENCEPOST_PROXY", environment.get("FENCEPOST_PROXY")),
            ("AWS_ENDPOINT_URL", environment.aws_endpoint()),
        ];
        let url = url(&named, DEFAULT_PROXY)?;
        let server = server(url, self.ca_file.as_deref(), &environment)?;
        if self.no_sign_request {
            let client = DataClient::new(server, None);
            return Ok(Proxy { client, key_pair_from_elsewhere: None });
        }
        let keys = key_pair().await?;
        let elsewhere = (!environment.has_aws_key_pair()).then(|| keys.clone());
        let client = DataClient::new(server, Some(keys));
        Ok(Proxy { client, key_pair_from_elsewhere: elsewhere })
    }
}

/// Flags of commands that talk to the admin port.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminFlags {
    /// URL of the proxy's admin port [default: FENCEPOST_ADMIN_URL, else http://127.0.0.1:9001]
    #[arg(long, value_name = "URL")]
    admin_url: Option<String>,
    /// File with a line NAME:TOKEN, as the proxy's admin.token_file [default:
    /// FENCEPOST_ADMIN_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    /// Whose token to use, where the file has several [default: FENCEPOST_ADMIN_NAME]
    #[arg(long, value_name = "NAME")]
    admin_name: Option<String>,
    /// PEM file of certificate authorities to trust besides the system's [default:
    /// FENCEPOST_CA_FILE]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

impl AdminFlags {
    /// The client.
    pub(super) fn connect(&self) -> Result<AdminClient, Failure> {
        let environment = Environment::of_process();
        let named = [
            ("--admin-url", self.admin_url.as_deref()),
            ("FENCEPOST_ADMIN_URL", environment.get("FENCEPOST_ADMIN_URL")),
        ];
        let url = url(&named, DEFAULT_ADMIN)?;
        let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
        let file = self.admin_token_file.clone();
        let file = file.or_else(|| set("FENCEPOST_ADMIN_TOKEN_FILE").map(PathBuf::from));
        let Some(file) = file else {
            let text = "the admin port wants a token; --admin-token-file names a file with a line \
                        NAME:TOKEN, one of those in the proxy's admin.token_file";
            return Err(Usage(text.to_owned()).into());
        };
        let wrong = |why: &dyn std::fmt::Display| Usage(format!("{}: {why}", file.display()));
        let text = std::fs::read_to_string(&file).map_err(|error| wrong(&error))?;
        let name = self.admin_name.as_deref().or_else(|| set("FENCEPOST_ADMIN_NAME"));
        let token = AdminToken::find(&text, name).map_err(|error| wrong(&error))?;
        Ok(AdminClient::new(server(url, self.ca_file.as_deref(), &environment)?, token))
    }
}

/// The first URL that is given, or the default.
fn url(named: &[(&str, Option<&str>)], default: &str) -> Result<BackendUrl, Usage> {
    let mut given = named.iter().filter_map(|(origin, text)| Some((*origin, (*text)?)));
    let (origin, text) = given.find(|(_, text)| !text.is_empty()).unwrap_or(("", default));
    // The text is not repeated: there could be a password in it.
    text.parse().map_err(|_| {
        Usage(format!("{origin}: expected http:// or https://, a host and perhaps a port"))
    })
}

fn server(
    url: BackendUrl,
    ca_file: Option<&Path>,
    environment: &Environment,
) -> Result<Server, ClientError> {
    let named = environment.get("FENCEPOST_CA_FILE").filter(|name| !name.is_empty());
    Server::new(url, ca_file.or_else(|| named.map(Path::new)))
}

/// The pair alone. A session token beside it is left out: one of the form `fence:<n>` is that of a
/// lease around this command, and the proxy has no use for any other.
async fn key_pair() -> Result<KeyPair, Failure> {
    let aws = aws_config::defaults(BehaviorVersion::latest())
        .http_client(store::sdk_http_client(None)?)
        .region(Region::new(REGION))
        .load()
        .await;
    let provider = aws.credentials_provider().ok_or("the AWS SDK has no credentials provider")?;
    let credentials = provider.provide_credentials().await.map_err(|error| {
        Usage(format!(
            "there are no credentials for the proxy: {}\nThey come from the environment \
             (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), a profile, web identity or instance \
             metadata; --no-sign-request does without.",
            with_sources(&error)
        ))
    })?;
    Ok(KeyPair {
        id: credentials.access_key_id().to_owned(),
        secret: credentials.secret_access_key().to_owned(),
        region: REGION.to_owned(),
    })
}

/// Reads an argument `s3://…`, whatever bytes it has.
pub(super) fn location() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().try_map(|text| {
        Location::parse(text.as_encoded_bytes()).map_err(|error: NotALocation| error)
    })
}

/// Reads a fencing token.
pub(super) fn token(text: &str) -> Result<Token, String> {
    text.parse().map_err(|_| format!("a token is a whole number from 1 to {}", u64::MAX))
}

/// Reads `30s`, `2m`, `1h`, `1d`, or `30` for seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => Some(1),
        "m" | "min" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let seconds = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    /// Far more than anybody waits, and little enough to be added to any clock.
    const SECONDS_MAX: u64 = 366 * 86_400;
    match seconds {
        Some(seconds @ 0..=SECONDS_MAX) => Ok(Duration::from_secs(seconds)),
        Some(_) | None => Err("expected a time such as 30s, 2m or 1h, a year at most".to_owned()),
    }
}

/// Reads how long a lease lasts: a second at least.
pub(super) fn ttl(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a lease lasts a second at least".to_owned()),
        ttl => Ok(ttl),
    }
}

/// The end of a time that begins now.
pub(super) fn after(time: Duration) -> Instant {
    clock::monotonic() + time
}

/// Prints a document on several lines.
pub(super) fn print_json(document: &Value) {
    // Alternate form is pretty.
    print(&format!("{document:#}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let cases = [("30", 30), ("30s", 30), ("2m", 120), ("2min", 120), ("1h", 3600), ("0", 0)];
        for (text, seconds) in cases {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "s", "-1", "1.5s", "5 s", "1w", "99999999999999999999", "20000000000d"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_first_url_that_is_given_counts() {
        let found =
            |named: &[(&str, Option<&str>)]| url(named, DEFAULT_PROXY).map(|u| u.to_string());
        let flag = ("--proxy", Some("https://flag.test"));
        let variable = ("FENCEPOST_PROXY", Some("http://variable.test:1"));
        assert_eq!(found(&[flag, variable]).unwrap(), "https://flag.test");
        assert_eq!(found(&[("--proxy", None), variable]).unwrap(), "http://variable.test:1");
        assert_eq!(
            found(&[("--proxy", None), ("FENCEPOST_PROXY", Some(""))]).unwrap(),
            DEFAULT_PROXY
        );
        let error = found(&[("--proxy", Some("http://me:secret@host"))]).unwrap_err().to_string();
        assert!(error.starts_with("--proxy: ") && !error.contains("secret"), "{error}");
    }
}
