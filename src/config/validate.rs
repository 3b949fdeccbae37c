//! Rules between settings. What a single value may be is part of its type.

use std::collections::BTreeSet;

use super::problem::{Origin, Problem};
use super::{Addressing, AuthMode, ConditionalComplete, Config, Dialect, GoogleCredentials};

/// A rule that is broken: the setting to change, and why.
pub(super) struct Broken {
    pub(super) key: &'static str,
    pub(super) message: String,
}

/// All rules that `config` breaks.
pub(super) fn broken_rules(config: &Config) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut rule = |key, holds: bool, message: &dyn Fn() -> String| {
        if !holds {
            broken.push(Broken { key, message: message() });
        }
    };
    listeners(config, &mut rule);
    tls(config, &mut rule);
    backend(config, &mut rule);
    buckets_and_scopes(config, &mut rule);
    broken
}

type Rule<'a> = &'a mut dyn FnMut(&'static str, bool, &dyn Fn() -> String);

fn listeners(config: &Config, rule: Rule<'_>) {
    let (data, admin) = (config.listen, config.admin_listen);
    let open = config.auth.mode == AuthMode::None && !data.ip().is_loopback();
    rule("auth.mode", !open || config.auth.allow_none_beyond_loopback, &|| {
        format!(
            "\"none\" would let anyone who reaches {data} write with the proxy's rights; listen \
             on a loopback address, or say so with --allow-unauthenticated \
             (auth.allow_none_beyond_loopback = true)"
        )
    });
    let closed = config.admin.token_file.is_none() || admin.ip().is_loopback();
    rule("admin.token_file", closed || config.admin.allow_beyond_loopback, &|| {
        format!(
            "would let whoever reaches {admin} and has a token reset the fence, and tokens travel \
             unencrypted; have admin_listen on a loopback address, or say so with \
             admin.allow_beyond_loopback = true"
        )
    });
    let overlap = data.port() == admin.port()
        && data.port() != 0
        && (data.ip() == admin.ip() || data.ip().is_unspecified() || admin.ip().is_unspecified());
    rule("admin_listen", !overlap, &|| format!("{admin} is taken by listen = \"{data}\""));
}

fn tls(config: &Config, rule: Rule<'_>) {
    let tls = &config.tls;
    rule("tls.certificate_file", tls.certificate_file.is_some() || tls.key_file.is_none(), &|| {
        "is not set, and tls.key_file is; TLS needs both".to_owned()
    });
    rule("tls.key_file", tls.key_file.is_some() || tls.certificate_file.is_none(), &|| {
        "is not set, and tls.certificate_file is; TLS needs both".to_owned()
    });
    let has_tls = tls.certificate_file.is_some() || tls.key_file.is_some();
    rule("tls.client_ca_file", tls.client_ca_file.is_none() || has_tls, &|| {
        "has no effect without tls.certificate_file and tls.key_file".to_owned()
    });
}

fn backend(config: &Config, rule: Rule<'_>) {
    let backend = &config.backend;
    rule("backend.region", !backend.region.trim().is_empty(), &|| {
        "must not be empty; stores without regions take us-east-1".to_owned()
    });
    google(config, rule);
    let Some(url) = &backend.url else { return };
    let virtual_ip = backend.addressing == Addressing::Virtual && url.is_ip_address();
    rule("backend.addressing", !virtual_ip, &|| {
        format!("\"virtual\" puts the bucket in front of the host, but {url} is an IP address")
    });
    rule("backend.ca_file", backend.ca_file.is_none() || url.is_https(), &|| {
        format!("has no effect, because {url} is not https")
    });
    let own = [config.listen, config.admin_listen];
    let is_own = url.ip_address().is_some_and(|address| own.contains(&address));
    rule("backend.url", !is_own, &|| format!("{url} is this proxy's own address"));
}

fn google(config: &Config, rule: Rule<'_>) {
    let backend = &config.backend;
    let is_gcs = backend.dialect == Dialect::Gcs;
    let oauth = backend.google_credentials == GoogleCredentials::Oauth;
    rule("backend.google_credentials", is_gcs || !oauth, &|| {
        "\"oauth\" is for dialect = \"gcs\"".to_owned()
    });
    let file = &backend.google_service_account_file;
    rule("backend.google_service_account_file", oauth || file.is_none(), &|| {
        "has no effect without google_credentials = \"oauth\"".to_owned()
    });
    let takes = config.auth.mode == AuthMode::None || config.auth.credentials_file.is_some();
    rule("auth.credentials_file", !oauth || takes, &|| {
        "has to be given with backend.google_credentials = \"oauth\": there is no pair of the \
         store's that clients could sign with"
            .to_owned()
    });
    let complete = backend.conditional_complete == ConditionalComplete::Conditional;
    rule("backend.conditional_complete", !(is_gcs && complete), &|| {
        "cannot be \"conditional\" with dialect = \"gcs\": Google ignores the precondition of \
         CompleteMultipartUpload"
            .to_owned()
    });
}

fn buckets_and_scopes(config: &Config, rule: Rule<'_>) {
    let ledger = &config.ledger.bucket;
    let mut buckets = BTreeSet::new();
    for entry in &config.buckets {
        rule("bucket", buckets.insert(&entry.name), &|| {
            format!("{} is there twice", entry.name.as_str())
        });
        rule("bucket", entry.name != *ledger, &|| is_the_ledger(ledger.as_str()));
    }
    let mut scopes = BTreeSet::new();
    for entry in &config.scopes {
        rule("scope", scopes.insert((&entry.bucket, &entry.prefix)), &|| {
            format!("prefix {:?} of {} is there twice", entry.prefix, entry.bucket.as_str())
        });
        rule("scope", entry.bucket != *ledger, &|| is_the_ledger(ledger.as_str()));
    }
}

fn is_the_ledger(bucket: &str) -> String {
    format!("{bucket} is the ledger's bucket, which holds no data and cannot be reached by clients")
}

/// `backend.url` is not set where it is needed.
pub(super) fn backend_url_missing() -> Problem {
    Problem {
        origin: Origin::Nowhere,
        key: Some("backend.url".to_owned()),
        message: "is not set; give the store's URL with --backend, FENCEPOST_BACKEND_URL or \
                  url = \"…\" under [backend]"
            .to_owned(),
    }
}
