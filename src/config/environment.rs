//! The variables of the environment that are meant for this program.

use std::collections::BTreeMap;

use super::schema::VARIABLE_PREFIX;

/// The variable by which a user wants no colour from any program, whatever its value but empty:
/// <https://no-color.org>.
const NO_COLOR: &str = "NO_COLOR";

/// The variables that are no settings but tell the commands that talk to a proxy where it is:
/// the data port, the admin port, the file of authorities to trust, and which of the tokens in the
/// admin's token file is theirs.
pub const CLIENT_VARIABLES: [&str; 4] =
    ["FENCEPOST_PROXY", "FENCEPOST_ADMIN_URL", "FENCEPOST_CA_FILE", "FENCEPOST_ADMIN_NAME"];

/// The AWS SDKs' variables for an endpoint, the one for S3 alone first: what S3 clients are sent to
/// is where the proxy is.
const AWS_ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];

/// The AWS SDKs' variable for a key pair's public half.
const AWS_ACCESS_KEY_ID: &str = "AWS_ACCESS_KEY_ID";

/// Google's variable for the key file of a service account:
/// <https://cloud.google.com/docs/authentication/application-default-credentials>.
const GOOGLE_CREDENTIALS: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// The `FENCEPOST_…` variables, by name, and what else the commands need to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    ours: BTreeMap<String, String>,
    no_color: bool,
    aws_endpoints: BTreeMap<String, String>,
    has_aws_key_pair: bool,
    google_credentials: Option<String>,
}

impl Environment {
    /// The variables of this process. A value that is not UTF-8 keeps a replacement character and
    /// is refused, if it is refused, by the setting's own rules.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one caller")]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .map(|(name, value)| {
                (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
            })
            .collect()
    }

    /// The value of one variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.ours.get(name).map(String::as_str)
    }

    /// Whether the user wants no colour.
    #[must_use]
    pub fn no_color(&self) -> bool {
        self.no_color
    }

    /// The endpoint that S3 clients are sent to, by the AWS SDKs' own variables.
    #[must_use]
    pub fn aws_endpoint(&self) -> Option<&str> {
        let mut set = AWS_ENDPOINTS.iter().filter_map(|name| self.aws_endpoints.get(*name));
        set.next().map(String::as_str)
    }

    /// Whether the AWS SDKs find a key pair in the environment, and so take a session token from it.
    #[must_use]
    pub fn has_aws_key_pair(&self) -> bool {
        self.has_aws_key_pair
    }

    /// The key file of a Google service account, by Google's own variable.
    #[must_use]
    pub fn google_credentials(&self) -> Option<&str> {
        self.google_credentials.as_deref()
    }

    /// Those that are meant as settings.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.ours.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| !name.starts_with(TEST_PREFIX) && !CLIENT_VARIABLES.contains(name))
    }
}

/// Begins the names of what the project's own tests hand on (where the store to test on is). They
/// start this program, so it meets them; no setting is named so.
const TEST_PREFIX: &str = "FENCEPOST_TEST_";

/// Keeps what begins with `FENCEPOST_` and was not put there by Kubernetes, whether there is a
/// `NO_COLOR`, of the AWS SDKs' variables the endpoint and whether there is a key pair, and Google's
/// for a key file. Empty ones of these count as not set, as they do for the SDKs.
impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let ours = |name: &str| name.starts_with(VARIABLE_PREFIX) && !is_service_link(name);
        let mut environment = Self::default();
        for (name, value) in variables {
            if name == NO_COLOR {
                environment.no_color = !value.is_empty();
            } else if name == AWS_ACCESS_KEY_ID {
                environment.has_aws_key_pair = !value.is_empty();
            } else if name == GOOGLE_CREDENTIALS {
                environment.google_credentials = (!value.is_empty()).then_some(value);
            } else if AWS_ENDPOINTS.contains(&name.as_str()) {
                if !value.is_empty() {
                    environment.aws_endpoints.insert(name, value);
                }
            } else if ours(&name) {
                environment.ours.insert(name, value);
            }
        }
        environment
    }
}

/// Whether the variable is one that Kubernetes sets in every pod for a Service whose name begins
/// with `fencepost` (`FENCEPOST_SERVICE_HOST`, `FENCEPOST_PORT_9000_TCP_ADDR`, …), see
/// <https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables>.
/// Without this exception the proxy would not start beside a Service of its own name.
fn is_service_link(name: &str) -> bool {
    if name.ends_with("_SERVICE_HOST") || name.ends_with("_PORT") {
        return true;
    }
    if name.contains("_SERVICE_PORT_") {
        return true;
    }
    let Some((_, after)) = name.split_once("_PORT_") else { return false };
    let mut parts = after.split('_');
    let number = parts.next().is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    number && matches!(parts.next(), Some("TCP" | "UDP" | "SCTP"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;

    fn from(names: &[&str]) -> Environment {
        names.iter().map(|name| ((*name).to_owned(), String::new())).collect()
    }

    #[test]
    fn only_our_variables_are_kept() {
        let kept = from(&["PATH", "AWS_REGION", "FENCEPOST_LISTEN", "fencepost_listen"]);
        assert_eq!(kept, from(&["FENCEPOST_LISTEN"]));
        assert_eq!(kept.settings().count(), 1);
    }

    #[test]
    fn no_color_counts_unless_it_is_empty() {
        let with = |value: &str| Environment::from_iter([("NO_COLOR".into(), value.to_owned())]);
        assert!(with("0").no_color());
        assert!(!with("").no_color() && !Environment::default().no_color());
        assert_eq!(with("1").settings().count(), 0, "it is no setting");
    }

    #[test]
    fn what_clients_are_told_is_not_a_setting() {
        let told = from(&CLIENT_VARIABLES);
        assert_eq!(told.settings().count(), 0);
        assert!(told.get("FENCEPOST_PROXY").is_some());
        assert_eq!(from(&["FENCEPOST_PROXIES"]).settings().count(), 1, "a mistyped setting");
    }

    #[test]
    fn the_endpoint_for_s3_alone_comes_first() {
        let with = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Environment::from_iter(pairs)
        };
        let both = [("AWS_ENDPOINT_URL", "http://all"), ("AWS_ENDPOINT_URL_S3", "http://s3")];
        assert_eq!(with(&both).aws_endpoint(), Some("http://s3"));
        let empty = [("AWS_ENDPOINT_URL", "http://all"), ("AWS_ENDPOINT_URL_S3", "")];
        assert_eq!(with(&empty).aws_endpoint(), Some("http://all"));
        assert_eq!(with(&[]).aws_endpoint(), None);
        assert!(with(&[("AWS_ACCESS_KEY_ID", "AKID")]).has_aws_key_pair());
        assert!(!with(&[("AWS_ACCESS_KEY_ID", "")]).has_aws_key_pair());
    }

    #[test]
    fn a_kubernetes_service_of_our_name_is_not_a_setting() {
        let links = from(&[
            "FENCEPOST_SERVICE_HOST",
            "FENCEPOST_SERVICE_PORT",
            "FENCEPOST_SERVICE_PORT_DATA",
            "FENCEPOST_PORT",
            "FENCEPOST_PORT_9000_TCP",
            "FENCEPOST_PORT_9000_TCP_PROTO",
            "FENCEPOST_PORT_9000_TCP_PORT",
            "FENCEPOST_PORT_9000_TCP_ADDR",
            "FENCEPOST_ADMIN_SERVICE_HOST",
            "FENCEPOST_ADMIN_PORT_9001_TCP_ADDR",
        ]);
        assert_eq!(links, Environment::default());
    }

    #[test]
    fn what_the_tests_hand_over_is_not_a_setting() {
        let handed = from(&["FENCEPOST_TEST_SEAWEEDFS", "FENCEPOST_TEST_SEAWEEDFS_ACCESS_KEY"]);
        assert_eq!(handed.settings().count(), 0);
        assert!(handed.get("FENCEPOST_TEST_SEAWEEDFS").is_some(), "the tests themselves read it");
        assert_eq!(from(&["FENCEPOST_TEST"]).settings().count(), 1, "a mistyped setting");
    }

    #[test]
    fn no_setting_is_taken_for_something_else() {
        for setting in settings() {
            let variable = setting.variable();
            assert_eq!(from(&[&variable]).settings().count(), 1, "{}", setting.key);
        }
    }
}
