//! The requests that the rule accepts, and that the options in its advice are valid.

use super::*;
use axum::http::HeaderValue;

fn judge(pages: &Pages, headers: &[(&'static str, &str)]) -> Result<Comer, Refused> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).expect("a value"));
    }
    pages.judge(&map, None)
}

#[test]
fn loopback_is_told_from_names_that_look_like_it() {
    for host in [
        "localhost",
        "LOCALHOST:80",
        "a.localhost:1",
        "127.0.0.1",
        "127.9.9.9:4280",
        "[::1]",
        "[::1]:4280",
        "localhost.",
        "a.localhost.:80",
        "localhost:",
    ] {
        assert!(is_loopback(host), "{host}");
    }
    for host in [
        "",
        "example.com",
        "localhost.example.com",
        "127.0.0.1.example.com",
        "10.0.0.1",
        "0.0.0.0",
        "0",
        "localhost..",
        ".localhost",
        "..localhost",
        "127.0.0.1.",
        "::1",
        "[127.0.0.1]",
        "[localhost]",
        "localhost:99999",
        "localhost:+1",
        "localhost:80:80",
        "evil/.localhost",
        "evil\\.localhost",
        "evil.example#.localhost",
        "evil.example?.localhost",
        "evil@.localhost",
        "evil.example%00.localhost",
        "evil.example, a.localhost",
        " localhost",
        "localhost\t",
        "[::2]",
        "[::ffff:127.0.0.1]",
        "[::1]x",
        "[::1",
        "localhost:x",
        "user@localhost:80",
        "notlocalhost",
    ] {
        assert!(!is_loopback(host), "{host}");
    }
}

#[test]
fn only_names_that_are_served_are_answered() {
    let here = Pages::default();
    let named = Pages {
        hosts: vec!["counts.example".into(), "10.0.0.1".into()],
        ..Pages::default()
    };
    let beyond = Pages {
        ip_hosts: true,
        ..Pages::default()
    };
    let any = Pages {
        any_host: true,
        ..Pages::default()
    };
    for (host, served) in [
        ("localhost:4280", [true, true, true, true]),
        ("counts.example", [false, true, false, true]),
        ("Counts.Example:4280", [false, true, false, true]),
        ("a.counts.example", [false, false, false, true]),
        ("counts.example.", [false, true, false, true]),
        ("counts.example.:80", [false, true, false, true]),
        ("10.0.0.1.", [false, false, false, false]),
        ("evil/.counts.example", [false, false, false, false]),
        ("evil example", [false, false, false, false]),
        ("counts.example:x", [false, false, false, false]),
        ("counts.example.evil.example", [false, false, false, true]),
        ("evil.example:4280", [false, false, false, true]),
        ("10.0.0.1:4280", [false, true, true, true]),
        ("10.0.0.2", [false, false, true, true]),
        ("[2001:db8::1]:4280", [false, false, true, true]),
        ("", [false, false, false, true]),
    ] {
        let answered =
            [&here, &named, &beyond, &any].map(|it| judge(it, &[("host", host)]).is_ok());
        assert_eq!(answered, served, "{host}");
    }
}

#[test]
fn an_origin_is_loopback_or_the_nodes_own_or_allowed() {
    let pages = Pages {
        hosts: vec!["tally.example".into()],
        origins: ["https://shop.example", "tauri://localhost", "null"]
            .map(str::to_owned)
            .to_vec(),
        ..Pages::default()
    };
    let none = Pages {
        origins: Vec::new(),
        ..pages.clone()
    };
    for (origin, host, with, without) in [
        ("https://shop.example", "127.0.0.1:4280", true, false),
        ("https://shop.example:443", "127.0.0.1:4280", true, false),
        ("tauri://localhost", "127.0.0.1:4280", true, false),
        ("null", "127.0.0.1:4280", true, false),
        ("http://localhost:5173", "127.0.0.1:4280", true, true),
        ("https://tally.example", "tally.example", true, true),
        ("http://localhost:1", "tally.example", true, true),
        ("https://evil.example", "127.0.0.1:4280", false, false),
        ("http://shop.example", "127.0.0.1:4280", false, false),
        (
            "http://evil.example#.localhost",
            "127.0.0.1:4280",
            false,
            false,
        ),
        (
            "http://evil.example/.localhost",
            "127.0.0.1:4280",
            false,
            false,
        ),
        (
            "http://evil.example?.localhost",
            "127.0.0.1:4280",
            false,
            false,
        ),
        ("http://localhost.:80", "127.0.0.1:4280", true, true),
        ("https://shop.example:444", "127.0.0.1:4280", false, false),
        ("https://a.shop.example", "127.0.0.1:4280", false, false),
        ("capacitor://localhost", "127.0.0.1:4280", false, false),
        ("file://", "127.0.0.1:4280", false, false),
        ("", "127.0.0.1:4280", false, false),
        ("https://evil.example", "tally.example", false, false),
    ] {
        for (pages, lets_in) in [(&pages, with), (&none, without)] {
            let judged = judge(pages, &[("host", host), ("origin", origin)]);
            assert_eq!(judged.is_ok(), lets_in, "{origin} at {host}");
            match judged {
                Ok(comer) => {
                    let own = origin.ends_with(&format!("//{host}"));
                    let browser = if own { Comer::OwnPage } else { Comer::Browser };
                    assert_eq!(comer, browser);
                }
                Err(refused) => assert_eq!(refused.kind.code, "origin"),
            }
        }
    }
    let rebound = [("host", "evil.example"), ("origin", "http://evil.example")];
    assert_eq!(
        judge(&none, &rebound).expect_err("refused").kind.code,
        "host"
    );
}

#[test]
fn what_a_page_of_another_site_loads_without_asking_is_refused() {
    let pages = Pages::default();
    let load = |site, mode, dest| {
        let headers = [
            ("host", "127.0.0.1"),
            ("sec-fetch-site", site),
            ("sec-fetch-mode", mode),
            ("sec-fetch-dest", dest),
        ];
        judge(&pages, &headers).map_err(|refused| refused.kind.code)
    };
    assert_eq!(load("cross-site", "no-cors", "image"), Err("origin"));
    assert_eq!(load("cross-site", "navigate", "iframe"), Err("origin"));
    assert_eq!(
        load("cross-site", "navigate", "document"),
        Ok(Comer::Browser)
    );
    assert_eq!(load("same-origin", "cors", "empty"), Ok(Comer::OwnPage));
    assert_eq!(load("none", "navigate", "document"), Ok(Comer::Browser));
    assert_eq!(
        judge(&pages, &[("host", "127.0.0.1")]).expect("let in"),
        Comer::Program
    );
    // Programs that use `fetch` as pages do send the mode, and no site.
    let program = [("host", "127.0.0.1"), ("sec-fetch-mode", "cors")];
    assert_eq!(judge(&pages, &program).expect("let in"), Comer::Program);
}

#[test]
fn origins_and_hosts_are_read_in_one_spelling() {
    for (text, read) in [
        ("https://Shop.example/", Some("https://shop.example")),
        ("https://shop.example:443", Some("https://shop.example")),
        ("http://shop.example:443", Some("http://shop.example:443")),
        ("http://[::1]:80", Some("http://[::1]")),
        ("http://[2001:DB8:0::1]:81", Some("http://[2001:db8::1]:81")),
        ("tauri://localhost", Some("tauri://localhost")),
        ("capacitor://localhost", Some("capacitor://localhost")),
        ("ionic://localhost", Some("ionic://localhost")),
        ("chrome-extension://abc", Some("chrome-extension://abc")),
        ("moz-extension://0a-1b", Some("moz-extension://0a-1b")),
        ("file://", Some("file://")),
        ("file:///", Some("file://")),
        ("null", Some("null")),
        ("shop.example", None),
        ("https://", None),
        ("://shop.example", None),
        ("9p://shop.example", None),
        ("https://*.example", None),
        ("https://a@shop.example", None),
        ("https://shop.example/path", None),
        ("https://shop.example:port", None),
        ("https://shop.example:65536", None),
        ("https://bücher.example", None),
        ("https://a, https://b", None),
        ("*", None),
    ] {
        assert_eq!(origin(text).as_deref(), read, "{text}");
    }
    for (text, read) in [
        ("Counts.Example", Some("counts.example")),
        ("my_host", Some("my_host")),
        ("10.0.0.1", Some("10.0.0.1")),
        ("[::1]", Some("::1")),
        ("::1", Some("::1")),
        ("counts.example.", Some("counts.example")),
        ("counts.example..", None),
        ("10.0.0.1.", None),
        (".", None),
        ("a.example:80", None),
        ("http://a.example", None),
        ("*.example", None),
        ("a..b", None),
        ("", None),
    ] {
        assert_eq!(host_name(text).as_deref(), read, "{text}");
    }
}

#[test]
fn what_a_refusal_advises_is_taken_and_lets_in() {
    for host in [
        "counts.example:4280",
        "counts.example.",
        "10.0.0.1",
        "[2001:db8::1]:80",
    ] {
        let refused = judge(&Pages::default(), &[("host", host)]).expect_err("refused");
        let advised = advised(&refused.detail, "--http-host");
        let pages = Pages {
            hosts: vec![host_name(&advised).expect("a host name")],
            ..Pages::default()
        };
        assert!(
            judge(&pages, &[("host", host)]).is_ok(),
            "{}",
            refused.detail
        );
        assert!(
            !refused.detail.contains("--http-open"),
            "{}",
            refused.detail
        );
    }
    for text in [
        "https://shop.example",
        "http://10.0.0.1:8080",
        "tauri://localhost",
        "capacitor://localhost",
        "ionic://localhost",
        "chrome-extension://abcdefghijklmnop",
        "moz-extension://6e5c6a1f-0000-4000-8000-000000000000",
        "file://",
        "null",
    ] {
        let headers = [("host", "127.0.0.1"), ("origin", text)];
        let refused = judge(&Pages::default(), &headers).expect_err("refused");
        let advised = advised(&refused.detail, "--cors-origin");
        let pages = Pages {
            origins: vec![origin(&advised).expect("an origin")],
            ..Pages::default()
        };
        assert!(judge(&pages, &headers).is_ok(), "{}", refused.detail);
    }
    let no_origin = [("host", "127.0.0.1"), ("origin", "https://a@b")];
    let refused = judge(&Pages::default(), &no_origin).expect_err("refused");
    assert!(!refused.detail.contains("--"), "{}", refused.detail);
}

/// The word after an option in an advice.
fn advised(detail: &str, option: &str) -> String {
    let mut words = detail.split([' ', ',']).filter(|word| !word.is_empty());
    words.find(|word| *word == option).expect(detail);
    words.next().expect(detail).to_owned()
}
