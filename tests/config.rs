//! The configuration as a user meets it: the sample file, precedence, and what errors say.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use fencepost::config::flags::{CommonFlags, FlagSetting, ServeFlags};
use fencepost::config::{
    AuthMode, Compare, Config, ConfigFile, Environment, FenceMode, Kind, Origin, Purpose, Sources,
    StaleStatus, Tags, settings,
};

const SAMPLE: &str = include_str!("../config/fencepost.toml");

/// What is wrong with these sources, one line a problem, in order.
fn problems(sources: &Sources, purpose: Purpose) -> Vec<String> {
    match Config::load(sources, purpose) {
        Ok(_) => Vec::new(),
        Err(error) => error.problems().iter().map(ToString::to_string).collect(),
    }
}

fn file(text: &str) -> Sources {
    let file = ConfigFile { name: "test.toml".to_owned(), text: text.to_owned() };
    Sources { file: Some(file), ..Sources::default() }
}

fn in_file(text: &str) -> Vec<String> {
    problems(&file(text), Purpose::Other)
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn variables(variables: &[(&str, &str)]) -> Sources {
    Sources { environment: environment(variables), ..Sources::default() }
}

fn set(key: &str, text: &str) -> FlagSetting {
    FlagSetting { flag: "--set".to_owned(), key: key.to_owned(), text: text.to_owned() }
}

/// The sample with every setting's line in force.
fn uncommented() -> String {
    let is_setting = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let line = |line: &'static str| match line.strip_prefix('#') {
        Some(rest) if is_setting(rest) => rest,
        Some(_) | None => line,
    };
    SAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sample_shows_the_defaults() {
    let as_it_is = Config::load(&file(SAMPLE), Purpose::Other).unwrap();
    assert_eq!(as_it_is, Config::default());
    let all_lines = Config::load(&file(&uncommented()), Purpose::Other).unwrap();
    assert_eq!(all_lines, Config::default());
}

#[test]
fn the_sample_shows_every_setting_once() {
    let table: toml::Table = uncommented().parse().unwrap();
    let mut shown = BTreeSet::new();
    for (name, value) in &table {
        match value.as_table() {
            Some(section) => shown.extend(section.keys().map(|key| format!("{name}.{key}"))),
            None => {
                shown.insert(name.clone());
            }
        }
    }
    let known: BTreeSet<_> = settings()
        .iter()
        .filter(|setting| setting.kind != Kind::Rules)
        .map(|setting| setting.key.clone())
        .collect();
    assert_eq!(shown, known);
}

#[test]
fn the_examples_in_the_sample_show_every_key_of_a_rule() {
    let examples: String = SAMPLE
        .lines()
        .filter_map(|line| line.strip_prefix("#     "))
        .flat_map(|line| [line, "\n"])
        .collect();
    let config = Config::load(&file(&examples), Purpose::Other).unwrap();
    let [bucket] = &config.buckets[..] else { panic!("one bucket: {config:?}") };
    assert_eq!(bucket.tags, Tags::Unique);
    assert_eq!(bucket.mode, Some(FenceMode::Require));
    assert_eq!(bucket.compare, Some(Compare::StrictlyGreater));
    let [scope] = &config.scopes[..] else { panic!("one scope: {config:?}") };
    assert_eq!((scope.prefix.as_str(), scope.mode), ("scratch/", Some(FenceMode::Off)));
}

#[test]
fn the_default_is_safe_without_any_configuration() {
    let config = Config::load(&Sources::default(), Purpose::Other).unwrap();
    assert_eq!(config, Config::default());
    assert!(config.listen.ip().is_loopback() && config.admin_listen.ip().is_loopback());
    assert_eq!(config.auth.mode, AuthMode::Sigv4);
    assert_eq!(config.fence.mode, FenceMode::IfFenced);
    assert_eq!(config.fence.stale_status, StaleStatus::Conflict);
    assert!(!config.ledger.create);
}

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
        let free_text =
            ["backend.url", "backend.ca_file", "auth.credentials_file", "ledger.prefix"];
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
fn an_unknown_key_is_named_with_its_line_and_what_was_meant() {
    let text = "lisen = \"127.0.0.1:1\"\nurl = \"http://a\"\n\n[backend]\nadressing = \"path\"\n\
                colour = 1\n[bakend]\n[[bucket]]\nname = \"photos\"\ntag = \"unique\"\n";
    assert_eq!(
        in_file(text),
        [
            "test.toml:1: lisen: is not a setting; did you mean listen?",
            "test.toml:2: url: is not a setting here; did you mean backend.url?",
            "test.toml:5: backend.adressing: is not a setting; did you mean addressing?",
            "test.toml:6: backend.colour: is not a setting of [backend]",
            "test.toml:7: bakend: is not a setting; did you mean backend?",
            "test.toml:10: bucket.tag: is not a setting; did you mean tags?",
        ]
    );
}

#[test]
fn an_unknown_variable_or_flag_is_an_error_and_its_value_is_not_shown() {
    let mut sources = variables(&[("FENCEPOST_LISTN", "hidden"), ("FENCEPOST_SECRET", "hidden")]);
    sources.flags = vec![set("fence.mod", "off"), set("region", "x")];
    let found = problems(&sources, Purpose::Other);
    assert_eq!(
        found,
        [
            "FENCEPOST_LISTN: is not the variable of a setting; did you mean FENCEPOST_LISTEN?",
            "FENCEPOST_SECRET: is not the variable of a setting",
            "--set: fence.mod: is not a setting; did you mean fence.mode?",
            "--set: region: is not a setting here; did you mean backend.region?",
        ]
    );
}

#[test]
fn a_wrong_value_is_named_with_what_is_allowed() {
    let text = "listen = \"localhost\"\n[backend]\nconnect_timeout_seconds = 0\n\
                pool_idle_connections_max = \"many\"\naddressing = \"dns\"\n[fence]\n\
                stale_status = 404\nsettle_delay_milliseconds = -1\n[auth]\n\
                allow_none_beyond_loopback = \"yes\"\n[ledger]\nbucket = \"a/b\"\n";
    let seconds = "expected a whole number from 1 to 600 seconds";
    assert_eq!(
        in_file(text),
        [
            "test.toml:1: listen: invalid value: string \"localhost\", expected an IP address and \
             port, such as 127.0.0.1:9000 or [::1]:9000"
                .to_owned(),
            format!(
                "test.toml:3: backend.connect_timeout_seconds: invalid value: integer `0`, {seconds}"
            ),
            "test.toml:4: backend.pool_idle_connections_max: invalid type: string \"many\", \
             expected a whole number from 0 to 65536"
                .to_owned(),
            "test.toml:5: backend.addressing: unknown variant `dns`, expected `path` or `virtual`"
                .to_owned(),
            "test.toml:7: fence.stale_status: invalid value: integer `404`, expected 409 or 412"
                .to_owned(),
            "test.toml:8: fence.settle_delay_milliseconds: invalid value: integer `-1`, expected a \
             whole number from 0 to 60000 milliseconds"
                .to_owned(),
            "test.toml:10: auth.allow_none_beyond_loopback: invalid type: string \"yes\", expected \
             a boolean"
                .to_owned(),
            "test.toml:12: ledger.bucket: invalid value: string \"a/b\", expected the name of a \
             bucket: 3 to 255 letters, digits, dots, hyphens and underscores"
                .to_owned(),
        ]
    );
}

#[test]
fn a_wrong_value_is_an_error_even_where_another_source_overrides_it() {
    let mut sources = file("[fence]\nmode = \"on\"\n");
    sources.flags = vec![set("fence.mode", "off")];
    assert_eq!(
        problems(&sources, Purpose::Other),
        ["test.toml:2: fence.mode: unknown variant `on`, expected one of `if-fenced`, `require`, \
          `off`"]
    );
}

#[test]
fn what_is_not_toml_or_not_of_the_right_shape_is_named_with_its_line() {
    assert_eq!(in_file("\nlisten 5\n").len(), 1);
    assert!(in_file("\nlisten 5\n")[0].starts_with("test.toml:2: not TOML: "));
    assert_eq!(
        in_file("backend = \"http://store\"\nbucket = \"photos\"\n"),
        [
            "test.toml:1: backend: is a section: write [backend], and its settings below",
            "test.toml:2: bucket: is a list: write [[bucket]] for every entry",
        ]
    );
    assert_eq!(
        in_file("[[scope]]\nbucket = \"photos\"\nmode = 1\n[[bucket]]\ntags = \"repeat\"\n"),
        [
            "test.toml:3: scope.mode: wanted string or table",
            "test.toml:4: bucket: missing field `name`",
        ]
    );
}

#[test]
fn a_url_with_a_password_in_it_is_refused_and_not_shown() {
    let found = in_file("[backend]\nurl = \"https://user:hunter2@store.test\"\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("test.toml:2: backend.url: "), "{found:?}");
    assert!(!found[0].contains("hunter2"), "{found:?}");
    for url in ["store.test", "ftp://a", "http://a/b", "http://a?b", "http://a/#c", "http://"] {
        assert_eq!(in_file(&format!("[backend]\nurl = \"{url}\"\n")).len(), 1, "{url}");
    }
    for url in ["http://store.test", "https://[::1]:9000", "http://127.0.0.1:8333/"] {
        assert_eq!(in_file(&format!("[backend]\nurl = \"{url}\"\n")), [""; 0], "{url}");
    }
}

#[test]
fn without_authentication_only_loopback_may_be_listened_on() {
    let open = "listen = \"0.0.0.0:9000\"\n[auth]\nmode = \"none\"\n";
    let found = in_file(open);
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("test.toml:3: auth.mode: \"none\" would let anyone"), "{found:?}");
    assert!(found[0].contains("--allow-unauthenticated"), "{found:?}");
    assert_eq!(in_file(&format!("{open}allow_none_beyond_loopback = true\n")), [""; 0]);
    for loopback in ["127.0.0.1:9000", "[::1]:9000", "127.8.8.8:9000"] {
        let text = format!("listen = \"{loopback}\"\n[auth]\nmode = \"none\"\n");
        assert_eq!(in_file(&text), [""; 0], "{loopback}");
    }
}

#[test]
fn settings_that_do_not_go_together_are_named() {
    let twice = "[[bucket]]\nname = \"photos\"\n";
    let cases = [
        ("admin_listen = \"127.0.0.1:9000\"\n", "test.toml:1: admin_listen: 127.0.0.1:9000 is"),
        ("listen = \"0.0.0.0:9001\"\n", "configuration: admin_listen: 127.0.0.1:9001 is taken by"),
        ("[backend]\nregion = \" \"\n", "test.toml:2: backend.region: must not be empty"),
        (
            "[backend]\nurl = \"http://127.0.0.1:8333\"\naddressing = \"virtual\"\n",
            "test.toml:3: backend.addressing: \"virtual\" puts the bucket in front of the host",
        ),
        (
            "[backend]\nurl = \"http://store.test\"\nca_file = \"ca.pem\"\n",
            "test.toml:3: backend.ca_file: has no effect",
        ),
        (
            "[backend]\nurl = \"http://127.0.0.1:9000\"\n",
            "test.toml:2: backend.url: http://127.0.0.1:9000 is this proxy's own address",
        ),
        ("[[bucket]]\nname = \"fencepost-ledger\"\n", "test.toml:1: bucket: fencepost-ledger is"),
        ("[[scope]]\nbucket = \"fencepost-ledger\"\n", "test.toml:1: scope: fencepost-ledger is"),
        (
            "[[scope]]\nbucket = \"abc\"\nprefix = \"a\"\n[[scope]]\nbucket = \"abc\"\n\
             prefix = \"a\"\n",
            "test.toml:1: scope: prefix \"a\" of abc is there twice",
        ),
        (&format!("{twice}{twice}"), "test.toml:1: bucket: photos is there twice"),
    ];
    for (text, start) in cases {
        let found = in_file(text);
        assert!(found.len() == 1 && found[0].starts_with(start), "{text}\n{found:?}");
    }
}

#[test]
fn a_log_level_that_would_log_nothing_is_refused() {
    for right in ["info", "off", "warn,fencepost::fence=debug", "DEBUG"] {
        assert_eq!(in_file(&format!("log_level = \"{right}\"\n")), [""; 0], "{right}");
    }
    for wrong in ["", "verbose", "fencepost=loud"] {
        assert_eq!(in_file(&format!("log_level = \"{wrong}\"\n")).len(), 1, "{wrong}");
    }
}

#[test]
fn serve_wants_a_backend_and_says_so_once() {
    let found = problems(&Sources::default(), Purpose::Serve);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("--backend") && found[0].contains("FENCEPOST_BACKEND_URL"));
    let wrong = problems(&variables(&[("FENCEPOST_BACKEND_URL", "store")]), Purpose::Serve);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
}

#[test]
fn flags_are_settings() {
    let text = |text: &str| Some(text.to_owned());
    let flags = ServeFlags {
        backend: text("http://store.test"),
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

#[test]
fn the_printed_configuration_reads_back_to_itself() {
    let mut sources = file(&uncommented());
    sources.environment = environment(&[
        ("FENCEPOST_BACKEND_URL", "https://store.test"),
        ("FENCEPOST_BUCKET", "[{ name = \"photos\", mode = \"off\" }]"),
        ("FENCEPOST_SCOPE", "[{ bucket = \"photos\", prefix = \"a\\\"b\" }]"),
        ("FENCEPOST_HOST_SUFFIXES", "a.test,b.test"),
    ]);
    let config = Config::load(&sources, Purpose::Serve).unwrap();
    let printed = config.to_toml();
    let again = Config::load(&file(&printed), Purpose::Serve).unwrap();
    assert_eq!(again, config, "{printed}");
}

/// The binary with a clean environment.
fn fencepost(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(arguments)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn config_check_says_everything_that_is_wrong_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wrong.toml");
    let path = path.to_str().unwrap();
    std::fs::write(path, "lisen = 1\n[fence]\nmode = \"on\"\n").unwrap();
    let output = fencepost(&["config", "check", path], &[("FENCEPOST_NONSENSE", "ignored here")]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains(&format!("{path}:1: lisen: ")), "{text}");
    assert!(text.contains(&format!("{path}:3: fence.mode: ")), "{text}");

    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/config/fencepost.toml");
    let output = fencepost(&["config", "check", sample], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("backend.url is not set here"));

    let output = fencepost(&["config", "check", "/nowhere/at-all.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nowhere/at-all.toml: there is no such file"));
}

#[test]
fn print_config_prints_what_is_in_force_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fencepost.toml");
    std::fs::write(&path, "[backend]\nregion = \"file\"\nurl = \"http://file.test\"\n").unwrap();
    let secret = "wJalrXUtnFEMI";
    let output = fencepost(
        &["serve", "--backend", "http://flag.test", "--print-config"],
        &[
            ("FENCEPOST_CONFIG", path.to_str().unwrap()),
            ("FENCEPOST_LEDGER_BUCKET", "records"),
            ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("url = \"http://flag.test\""), "{text}");
    assert!(text.contains("region = \"file\"") && text.contains("bucket = \"records\""), "{text}");
    assert!(!text.contains(secret) && !text.contains("AKIDEXAMPLE"), "{text}");
}

#[test]
fn a_wrong_configuration_ends_serve_with_code_2_before_anything_is_bound() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = fencepost(
        &["serve", "--listen", &address, "--set", "fence.intents_max=0"],
        &[("FENCEPOST_LISTN", "x")],
    );
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.contains("FENCEPOST_LISTN") && text.contains("--set: fence.intents_max"));
    assert!(text.contains("backend.url"), "{text}");
    assert!(!text.contains("in use"), "{text}");
}

#[test]
fn a_health_check_of_nobody_fails() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let output = fencepost(&["healthcheck", "--admin", &address], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&address));
}
