//! Flags, variables and the file: who wins, and how values are written.

use std::collections::BTreeSet;

use fencepost::config::flags::{CommonFlags, ServeFlags};
use fencepost::config::{
    AuthMode, Config, Dialect, Environment, FenceMode, Kind, Origin, Purpose, StaleStatus, Tags,
    settings,
};

use crate::{environment, file, problems, set, variables};

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let mut sources = file("[backend]\nregion = \"file\"\n[ledger]\nprefix = \"file\"\n");
    sources.file.as_mut().unwrap().text += "timeout_seconds = 7\n";
    sources.environment = environment(&[
        ("FENCEPOST_BACKEND_REGION", "variable"),
        ("FENCEPOST_LEDGER_PREFIX", "variable"),
    ]);
    sources.flags = vec![set("backend.region", "flag")];
    let config = Config::load(&sources, Purpose::Other).unwrap();
    assert_eq!(config.backend.region, "flag");
    assert_eq!(config.ledger.prefix, "variable");
    assert_eq!(config.ledger.timeout_seconds.duration().as_secs(), 7);
    assert_eq!(config.ledger.bucket.as_str(), "fencepost-ledger");
}

#[test]
fn every_setting_has_a_variable_of_its_own_that_sets_it() {
    let names: BTreeSet<_> = settings().iter().map(|setting| setting.variable()).collect();
    assert_eq!(names.len(), settings().len(), "two settings share a variable");
    assert!(names.contains("FENCEPOST_BACKEND_URL") && names.contains("FENCEPOST_LISTEN"));
    for setting in settings() {
        // A value that no setting takes is refused in the name of this very setting, which
        // shows that the variable arrives there.
        let wrong = match setting.kind {
            Kind::Number | Kind::Flag | Kind::Rules => "no",
            Kind::Names => "*.wild.test",
            Kind::Text => "",
        };
        let found = problems(&variables(&[(&setting.variable(), wrong)]), Purpose::Other);
        let is_optional = setting.kind == Kind::Text && found.is_empty();
        let free_text = [
            "tls.certificate_file",
            "tls.key_file",
            "tls.client_ca_file",
            "backend.url",
            "backend.ca_file",
            "backend.google_service_account_file",
            "auth.credentials_file",
            "admin.token_file",
            "ledger.prefix",
        ];
        assert_eq!(is_optional, free_text.contains(&setting.key.as_str()), "{setting:?} {found:?}");
        if !is_optional {
            let start = format!("{}: {}: ", setting.variable(), setting.key);
            assert!(found.len() == 1 && found[0].starts_with(&start), "{found:?}");
        }
    }
}

#[test]
fn values_of_all_kinds_can_be_written_as_text() {
    let config = Config::load(
        &variables(&[
            ("FENCEPOST_HOST_SUFFIXES", "s3.example.com, S3.Other.Example"),
            ("FENCEPOST_FENCE_STALE_STATUS", "412"),
            ("FENCEPOST_LEDGER_CREATE", "true"),
            ("FENCEPOST_BACKEND_URL", "https://store.test:9443/"),
            ("FENCEPOST_BUCKET", "[{ name = \"photos\", tags = \"unique\" }]"),
            ("FENCEPOST_SCOPE", "[{ bucket = \"photos\", prefix = \"a/\", mode = \"off\" }]"),
        ]),
        Purpose::Serve,
    )
    .unwrap();
    let suffixes: Vec<_> = config.host_suffixes.iter().map(|suffix| suffix.as_str()).collect();
    assert_eq!(suffixes, ["s3.example.com", "s3.other.example"]);
    assert_eq!(config.fence.stale_status, StaleStatus::PreconditionFailed);
    assert!(config.ledger.create);
    assert_eq!(config.required_backend_url().unwrap().to_string(), "https://store.test:9443");
    assert_eq!(config.buckets[0].tags, Tags::Unique);
    assert_eq!(config.scopes[0].mode, Some(FenceMode::Off));
}

#[test]
fn an_empty_variable_clears_what_the_file_sets() {
    let mut sources = file("[auth]\ncredentials_file = \"keys.toml\"\n");
    assert!(Config::load(&sources, Purpose::Other).unwrap().auth.credentials_file.is_some());
    sources.environment = environment(&[("FENCEPOST_AUTH_CREDENTIALS_FILE", "")]);
    assert_eq!(Config::load(&sources, Purpose::Other).unwrap().auth.credentials_file, None);
}

#[test]
fn flags_are_settings() {
    let text = |text: &str| Some(text.to_owned());
    let flags = ServeFlags {
        backend: text("http://store.test"),
        dialect: text("gcs"),
        region: text("eu-west-1"),
        create_ledger: true,
        common: CommonFlags {
            listen: text("0.0.0.0:1"),
            admin: text("127.0.0.1:2"),
            mode: text("require"),
            auth: text("none"),
            allow_unauthenticated: true,
            credentials_file: text("keys"),
            ledger_bucket: text("records"),
            log_format: text("json"),
            log_level: text("debug"),
            set: vec![
                ("fence.mode".into(), "off".into()),
                ("fence.intents_max".into(), "3".into()),
            ],
            ..CommonFlags::default()
        },
    };
    let sources = flags.sources(Environment::default()).unwrap();
    let config = Config::load(&sources, Purpose::Serve).unwrap();
    let mut expected = Config::default();
    expected.backend = fencepost::config::BackendConfig {
        url: config.backend.url.clone(),
        dialect: Dialect::Gcs,
        region: "eu-west-1".to_owned(),
        ..expected.backend
    };
    assert_eq!(config.backend, expected.backend);
    assert_eq!((config.listen.port(), config.admin_listen.port()), (1, 2));
    assert_eq!(config.fence.mode, FenceMode::Require, "a named flag wins over --set");
    assert_eq!(config.fence.intents_max.get(), 3);
    assert_eq!(config.auth.mode, AuthMode::None);
    assert_eq!(config.ledger.bucket.as_str(), "records");
    assert!(config.ledger.create);
    // The origin of a wrong value is the flag that gave it.
    let flags = ServeFlags { backend: text("store"), ..ServeFlags::default() };
    let sources = flags.sources(Environment::default()).unwrap();
    let error = Config::load(&sources, Purpose::Serve).unwrap_err();
    assert_eq!(error.problems()[0].origin, Origin::Flag("--backend".to_owned()));
}

/// Google's own variable names the key file, where one is asked for.
#[test]
fn googles_variable_names_the_key_file() {
    let given = [
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/key.json"),
        ("FENCEPOST_BACKEND_DIALECT", "gcs"),
        ("FENCEPOST_AUTH_CREDENTIALS_FILE", "/etc/clients"),
    ];
    let load = |more: &[(&str, &str)]| {
        let sources = variables(&[&given[..], more].concat());
        Config::load(&sources, Purpose::Other).unwrap().backend.google_service_account_file
    };
    assert_eq!(load(&[]), None, "with an HMAC key nobody asks for it");
    let oauth = ("FENCEPOST_BACKEND_GOOGLE_CREDENTIALS", "oauth");
    assert_eq!(load(&[oauth]), Some("/etc/key.json".into()));
    let own = ("FENCEPOST_BACKEND_GOOGLE_SERVICE_ACCOUNT_FILE", "/etc/own.json");
    assert_eq!(load(&[oauth, own]), Some("/etc/own.json".into()));
}
