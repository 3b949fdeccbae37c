//! What errors say: the place, the setting, the value and what is allowed.

use fencepost::config::{Purpose, Sources};

use crate::{file, in_file, problems, set, variables};

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
fn the_admin_api_is_on_loopback_unless_somebody_insists() {
    let open = "admin_listen = \"0.0.0.0:9001\"\n[admin]\n";
    assert_eq!(in_file(open), [""; 0], "it is off");
    let on = format!("{open}token_file = \"tokens\"\n");
    let found = in_file(&on);
    assert!(
        found.len() == 1 && found[0].starts_with("test.toml:3: admin.token_file: "),
        "{found:?}"
    );
    assert_eq!(in_file(&format!("{on}allow_beyond_loopback = true\n")), [""; 0]);
    assert_eq!(in_file("[admin]\ntoken_file = \"tokens\"\n"), [""; 0]);
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
        (
            "[backend]\ngoogle_credentials = \"oauth\"\n[auth]\ncredentials_file = \"keys\"\n",
            "test.toml:2: backend.google_credentials: \"oauth\" is for dialect = \"gcs\"",
        ),
        (
            "[backend]\ndialect = \"gcs\"\ngoogle_credentials = \"oauth\"\n",
            "configuration: auth.credentials_file: has to be given with",
        ),
        (
            "[backend]\ndialect = \"gcs\"\ngoogle_service_account_file = \"key.json\"\n",
            "test.toml:3: backend.google_service_account_file: has no effect without",
        ),
        (
            "[backend]\ndialect = \"gcs\"\nconditional_complete = \"conditional\"\n",
            "test.toml:3: backend.conditional_complete: cannot be \"conditional\"",
        ),
        (
            "[tls]\ncertificate_file = \"cert.pem\"\n",
            "configuration: tls.key_file: is not set, and tls.certificate_file is",
        ),
        (
            "[tls]\nkey_file = \"key.pem\"\n",
            "configuration: tls.certificate_file: is not set, and tls.key_file is",
        ),
        (
            "[tls]\nclient_ca_file = \"ca.pem\"\n",
            "test.toml:2: tls.client_ca_file: has no effect without tls.certificate_file",
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
