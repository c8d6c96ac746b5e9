//! The configurations that result from settings, and the errors of invalid ones.

use super::*;
use std::path::Path;

fn args() -> UpArgs {
    UpArgs {
        data: Some("data".into()),
        http: Some("127.0.0.1:0".into()),
        ..UpArgs::default()
    }
}

#[test]
fn what_is_not_named_has_a_default() {
    let config = args().config().expect("valid");
    assert_eq!(config.spaces, None);
    assert_eq!(config.gossip.listen.len(), 2);
    assert!(config.gossip.peers.is_empty() && !config.demo && !config.gossip.mdns);
    assert_eq!(config.guest_timeout_ms, 600_000);
    assert_eq!(config.key_window, Duration::from_secs(86_400));
    assert_eq!(config.durability, Durability::Always);
    assert!(config.resp.is_none());
}

#[test]
fn a_lease_and_a_window_are_durations() {
    for (text, millis) in [("1s", 1_000), ("1h 30m", 5_400_000), ("30d", 2_592_000_000)] {
        let mut args = args();
        (args.lease, args.key_window) = (Some(text.into()), Some(text.into()));
        let config = args.config().expect(text);
        assert_eq!(config.guest_timeout_ms, millis);
        assert_eq!(config.key_window, Duration::from_millis(millis.into()));
    }
}

#[test]
fn requests_are_limited_where_other_machines_send_them() {
    let rate = |http: &str, rate: Option<&str>, burst| {
        let mut args = args();
        (args.http, args.http_open) = (Some(http.into()), Some(true));
        (args.http_rate, args.http_burst) = (rate.map(str::to_owned), burst);
        let rate = args.config().expect(http).http_rules.rate;
        rate.map(|it| (it.per_second.get(), it.burst.get()))
    };
    assert_eq!(rate("127.0.0.1:0", None, None), None);
    assert_eq!(rate("0.0.0.0:0", None, None), Some((1000, 1000)));
    assert_eq!(rate("0.0.0.0:0", Some("off"), None), None);
    assert_eq!(rate("[::1]:0", Some("5/s"), None), Some((5, 5)));
    let burst = NonZeroU32::new(20);
    assert_eq!(rate("[::1]:0", Some("5/s"), burst), Some((5, 20)));
    let mut args = args();
    (args.http, args.http_burst) = (Some("127.0.0.1:0".into()), burst);
    let errors = args.config().expect_err("it holds for nobody").to_string();
    assert!(errors.contains("--http-rate"), "{errors}");
}

#[test]
fn origins_are_written_as_browsers_write_them() {
    let mut args = args();
    args.cors_origin = Some(vec![
        "https://Shop.example/".into(),
        "http://b.example:81".into(),
    ]);
    let origins = args.config().expect("valid").http_rules.pages.origins;
    assert_eq!(origins, ["https://shop.example", "http://b.example:81"]);
}

#[test]
fn a_space_named_twice_is_opened_once() {
    let mut args = args();
    args.space = Some(vec!["a".into(), "b".into(), "a".into()]);
    assert_eq!(
        args.config()
            .expect("valid")
            .spaces
            .map_or(0, |it| it.len()),
        2
    );
}

#[test]
fn what_means_nothing_is_named() {
    type Spoil = fn(&mut UpArgs);
    let table: [(&str, &str, Spoil); 28] = [
        ("log", "`=x=`", |args| args.log = Some("=x=".into())),
        ("cors-origin", "`*`", |args| {
            args.cors_origin = Some(vec!["*".into()])
        }),
        ("cors-origin", "`nobody`", |args| {
            args.cors_origin = Some(vec!["https://a.example".into(), "nobody".into()]);
        }),
        ("http-host", "`a.example:80`", |args| {
            args.http_host = Some(vec!["b.example".into(), "a.example:80".into()]);
        }),
        ("cors-origin", "`https://a.example/b`", |args| {
            args.cors_origin = Some(vec!["https://a.example/b".into()]);
        }),
        ("http-rate", "`100`", |args| {
            args.http_rate = Some("100".into())
        }),
        ("http-rate", "`0/s`", |args| {
            args.http_rate = Some("0/s".into())
        }),
        ("durability", "`often`", |args| {
            args.durability = Some("often".into());
        }),
        ("durability", "`interval:`", |args| {
            args.durability = Some("interval:".into());
        }),
        ("resp", "`6379`", |args| args.resp = Some("6379".into())),
        ("resp", "--resp-open", |args| {
            args.resp = Some("0.0.0.0:0".into());
        }),
        ("resp", "--resp-open", |args| {
            args.resp = Some("0.0.0.0:0".into());
            args.resp_password = Some("secret".into());
        }),
        ("resp-password", "--resp-open", |args| {
            args.resp_password = Some("secret".into());
            args.resp_tickets = Some(true);
        }),
        ("resp-tls-cert", "--resp-tls-key", |args| {
            args.resp_tls_cert = Some("c".into());
        }),
        ("resp-open", "--resp-tickets", |args| {
            (args.resp_open, args.resp_tickets) = (Some(true), Some(true));
        }),
        ("lease", "`soon`", |args| args.lease = Some("soon".into())),
        ("lease", "1s to 30d", |args| {
            args.lease = Some("999ms".into())
        }),
        ("lease", "1s to 30d", |args| args.lease = Some("31d".into())),
        ("key-window", "`always`", |args| {
            args.key_window = Some("always".into());
        }),
        ("key-window", "1s to 30d", |args| {
            args.key_window = Some("0s".into());
        }),
        ("http", "localhost", |args| {
            args.http = Some("localhost".into())
        }),
        ("http", "--http-open", |args| {
            args.http = Some("0.0.0.0:80".into())
        }),
        ("listen", "`/ip4/x`", |args| {
            args.listen = Some(vec!["/ip4/x".into()])
        }),
        ("peer", "`here`", |args| {
            args.peer = Some(vec!["here".into()])
        }),
        ("space", "`a b`", |args| {
            args.space = Some(vec!["a b".into()])
        }),
        ("space", "`_mesh`", |args| {
            args.space = Some(vec!["_mesh".into()])
        }),
        ("announce", "`here`", |args| {
            args.network.announce = Some(vec!["here".into()]);
        }),
        ("space", "limit of 10000", |args| {
            args.space = Some((0..10_001).map(|n| format!("s{n}")).collect());
        }),
    ];
    for (argument, part, spoil) in table {
        let mut args = args();
        spoil(&mut args);
        let errors = args.config().expect_err(part).0;
        let [error] = &errors[..] else {
            panic!("{part}: {errors:?}");
        };
        assert_eq!((error.key.as_str(), error.code), (argument, "config_value"));
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn beyond_loopback_tickets_are_asked_for_and_kept_from_the_network() {
    let rules = |http: &str, change: &dyn Fn(&mut UpArgs)| {
        let mut args = args();
        args.http = Some(http.into());
        change(&mut args);
        let rules = args.config().map(|config| config.http_rules);
        rules.map(|it| (it.tickets, it.pages.any_host)).ok()
    };
    let tls = |args: &mut UpArgs| {
        (args.http_tls_cert, args.http_tls_key) = (Some("c".into()), Some("k".into()));
    };
    let tickets = |args: &mut UpArgs| args.http_tickets = Some(true);
    let open = |args: &mut UpArgs| args.http_open = Some(true);
    let key = |args: &mut UpArgs| args.http_tls_key = Some("k".into());
    assert_eq!(rules("127.0.0.1:0", &|_| ()), Some((false, false)));
    assert_eq!(rules("127.0.0.1:0", &tls), Some((false, false)));
    assert_eq!(rules("[::1]:0", &tickets), Some((true, true)));
    assert_eq!(rules("0.0.0.0:0", &|_| ()), None);
    assert_eq!(rules("0.0.0.0:0", &tls), Some((true, true)));
    assert_eq!(rules("0.0.0.0:0", &tickets), Some((true, true)));
    assert_eq!(rules("0.0.0.0:0", &open), Some((false, false)));
    let hosts = |args: &mut UpArgs| args.http_host = Some(vec!["a.example".into()]);
    let named = |it: &mut UpArgs| (tickets(it), hosts(it)).1;
    assert_eq!(rules("127.0.0.1:0", &named), Some((true, false)));
    assert_eq!(rules("127.0.0.1:0", &key), None);
    assert_eq!(rules("127.0.0.1:0", &|it| (open(it), tickets(it)).1), None);
}

#[test]
fn redis_clients_beyond_loopback_are_asked_for_tickets_or_for_nothing_on_purpose() {
    let rules = |resp: &str, change: &dyn Fn(&mut UpArgs)| {
        let mut args = args();
        args.resp = Some(resp.into());
        change(&mut args);
        let resp = args.config().map(|config| config.resp.expect("served"));
        let rules = resp.map(|it| {
            (
                it.rules.tickets,
                it.rules.password.is_some(),
                it.tls.is_some(),
            )
        });
        rules.ok()
    };
    let tls = |args: &mut UpArgs| {
        (args.resp_tls_cert, args.resp_tls_key) = (Some("c".into()), Some("k".into()));
    };
    let tickets = |args: &mut UpArgs| args.resp_tickets = Some(true);
    let open = |args: &mut UpArgs| args.resp_open = Some(true);
    let password = |args: &mut UpArgs| args.resp_password = Some("secret".into());
    let (here, all) = ("127.0.0.1:0", "0.0.0.0:0");
    assert_eq!(rules(here, &|_| ()), Some((false, false, false)));
    assert_eq!(rules(here, &tls), Some((false, false, true)));
    assert_eq!(rules(here, &password), Some((false, true, false)));
    assert_eq!(rules("[::1]:0", &tickets), Some((true, false, false)));
    assert_eq!(rules(all, &|_| ()), None);
    assert_eq!(rules(all, &password), None);
    assert_eq!(rules(all, &tls), Some((true, false, true)));
    assert_eq!(rules(all, &|it| (tls(it), password(it)).1), None);
    assert_eq!(rules(all, &tickets), Some((true, false, false)));
    assert_eq!(rules(all, &open), Some((false, false, false)));
    let open_with = |it: &mut UpArgs| (open(it), tls(it), password(it)).2;
    assert_eq!(rules(all, &open_with), Some((false, true, true)));
}

#[test]
fn what_is_for_redis_clients_alone_needs_their_address() {
    type Give = fn(&mut UpArgs);
    let table: [(&str, Give); 7] = [
        ("resp-clients", |it| it.resp_clients = Some(5)),
        ("resp-flush", |it| it.resp_flush = Some(true)),
        ("resp-open", |it| it.resp_open = Some(true)),
        ("resp-password", |it| it.resp_password = Some("a".into())),
        ("resp-strict", |it| it.resp_strict = Some(true)),
        ("resp-tickets", |it| it.resp_tickets = Some(true)),
        ("resp-tls-cert", |it| {
            (it.resp_tls_cert, it.resp_tls_key) = (Some("c".into()), Some("k".into()));
        }),
    ];
    for (key, give) in table {
        let mut args = args();
        give(&mut args);
        let errors = args.clone().config().expect_err("refused").0;
        let keys: Vec<&str> = errors.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, [key]);
        assert!(errors[0].problem.contains("--resp,"), "{}", errors[0]);
        args.resp = Some("127.0.0.1:0".into());
        assert!(args.config().is_ok(), "{key}");
    }
    let mut nothing = args();
    (nothing.resp_strict, nothing.resp_clients) = (Some(false), UpArgs::defaults().resp_clients);
    assert!(nothing.config().is_ok(), "what holds anyway is no mistake");
}

/// The errors of a file's text, one a line, without the file's name.
fn said(text: &str) -> Vec<(&'static str, String)> {
    let file = Path::new("f.toml");
    let Err(errors) = file::parse(file, text) else {
        return Vec::new();
    };
    let told = |error: ConfigError| (error.code, error.to_string().replace("f.toml, ", ""));
    errors.0.into_iter().map(told).collect()
}

#[test]
fn a_file_says_what_flags_say() {
    let text = "space = [\"a\", \"b\"]\nhttp-open = true\nresp-clients = 5 # few\nlease = '5m'\n";
    let read = file::parse(Path::new("f.toml"), text).expect("valid");
    let args = read.args;
    assert_eq!(args.space, Some(vec!["a".into(), "b".into()]));
    assert_eq!((args.http_open, args.resp_clients), (Some(true), Some(5)));
    assert_eq!(args.lease.as_deref(), Some("5m"));
    assert_eq!((read.lines["space"], read.lines["lease"]), (1, 4));
    assert!(args.http.is_none(), "what is not said stays open");
}

#[test]
fn all_that_is_wrong_in_a_file_is_told_with_line_and_advice() {
    let text = "http_open = true\n\nspcae = [\"a\"]\nzzz = 1\nresp-clients = \"many\"\nmdns = 1\n\
                peer = \"one\"\nresp-clients2 = 2\nhttp-burst = 0\nlog-format = \"xml\"\n[http]\na = 1\n";
    let wanted = [
        (
            "config_unknown_key",
            "line 1: http_open",
            "`http-open` is meant",
        ),
        ("config_unknown_key", "line 3: spcae", "`space` is meant"),
        ("config_unknown_key", "line 4: zzz", "config example"),
        ("config_type", "line 5: resp-clients", "a whole number"),
        ("config_type", "line 6: mdns", "true or false"),
        ("config_type", "line 7: peer", "a list of texts"),
        (
            "config_unknown_key",
            "line 8: resp-clients2",
            "`resp-clients`",
        ),
        ("config_type", "line 9: http-burst", "`0`"),
        ("config_type", "line 10: log-format", "`text` or `json`"),
        ("config_type", "line 11: http", "a text in quotes"),
    ];
    let told = said(text);
    assert_eq!(told.len(), wanted.len(), "{told:#?}");
    for (told, wanted) in told.iter().zip(wanted) {
        let meant = wanted.2.replace("` is meant", "");
        let found = told.1.starts_with(wanted.1) && told.1.contains(&meant);
        assert!(told.0 == wanted.0 && found, "{told:?} is not {wanted:?}");
    }
    let broken = said("a = \nhttp = \"x\"\nb c\n");
    assert!(broken.len() >= 2, "{broken:?}");
    assert!(
        broken[0].0 == "config_syntax" && broken[0].1.contains("line 1"),
        "{broken:?}"
    );
    assert!(
        said("resp-password = \"secret\nlog = 1")
            .iter()
            .all(|told| !told.1.contains("secret"))
    );
}

#[test]
fn the_example_names_every_setting_with_the_default_that_it_has() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/tallymesh.toml");
    let text = std::fs::read_to_string(&path).expect("the example");
    assert!(file::parse(&path, &text).expect("valid").lines.is_empty());
    let is_setting = |line: &str| line.starts_with(|first: char| first.is_ascii_lowercase());
    let bare: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if is_setting(setting) => format!("{setting}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let read = file::parse(&path, &bare).expect("valid without the signs too");
    let named: Vec<String> = read.lines.keys().cloned().collect();
    let mut names = args::names();
    names.sort();
    assert_eq!(named, names);
    let values = |args: UpArgs| serde_json::to_value(args).expect("JSON");
    let (shown, defaults) = (values(read.args.clone()), values(UpArgs::defaults()));
    for name in names.iter().filter(|name| !defaults[name].is_null()) {
        assert_eq!(shown[name], defaults[name], "{name}");
    }
    assert!(read.args.config().is_ok(), "its examples mean something");
}

#[cfg(unix)]
#[test]
fn a_password_stands_in_no_file_that_others_can_open() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.toml");
    std::fs::write(&path, "resp-password = \"secret\"\n").expect("write");
    for (mode, code) in [
        (0o644, Some("config_secret")),
        (0o604, Some("config_secret")),
        (0o640, None),
    ] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("set");
        let told = file::read(&path).err().map(|errors| errors.0[0].code);
        assert_eq!(told, code);
    }
}

#[test]
fn a_switch_is_on_or_off_and_nothing_else() {
    let on = ["1", "true", "YES", "on"];
    assert!(on.iter().all(|text| switch(text) == Ok(true)));
    let off = ["", "0", "false", "No", "off"];
    assert!(off.iter().all(|text| switch(text) == Ok(false)));
    assert!(["2", "nope", " "].iter().all(|text| switch(text).is_err()));
}
