//! The rule for browsers: what a page is let in to, what it may do, and what is the operator's alone.

use crate::process::{Node, agent, eventually};
use crate::tickets::ticket;
use futures::StreamExt;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

/// The headers of a page that the node itself serves.
const PAGE: (&str, &str) = ("origin", "http://localhost:5173");

const INIT: &str = "/v1/spaces/default/members/init";

/// Asks with headers: the status, the code of a refusal, and a header of the answer.
fn ask(node: &Node, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = ureq::http::Request::builder()
        .method(method)
        .uri(format!("{}{path}", node.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut answer = agent()
        .run(request.body(body.to_owned()).expect("a request"))
        .expect("an answer");
    let headers = answer.headers().clone();
    let body: Value = answer.body_mut().read_json().unwrap_or_default();
    Answer {
        status: answer.status().as_u16(),
        code: body["code"].as_str().unwrap_or_default().to_owned(),
        body,
        headers,
    }
}

struct Answer {
    status: u16,
    code: String,
    body: Value,
    headers: ureq::http::HeaderMap,
}

#[test]
fn tickets_and_membership_take_the_operators_token_on_loopback_too() {
    let node = Node::start(&["--space", "default", "other"]);
    let token = node.token();
    let shown = format!("Bearer {token}");
    let wrong = format!("Bearer tmo_{}", "0".repeat(64));
    let ticket = r#"{"role":"member","spaces":["default"],"expires_in_ms":"0"}"#;
    let owner = format!(r#"{{"owner":"{}","wait_ms":0}}"#, "11".repeat(32));
    let force = format!(r#"{{"members":["{}"]}}"#, "11".repeat(32));
    let operators = [
        ("GET", "/v1/tickets", ""),
        ("POST", "/v1/tickets", ticket),
        ("DELETE", "/v1/tickets/00112233445566778899aabbccddeeff", ""),
        ("POST", "/v1/spaces/default/members/add", owner.as_str()),
        ("POST", "/v1/spaces/default/members/remove", &owner),
        ("POST", "/v1/spaces/default/members/force", &force),
        ("POST", "/v1/spaces/default/retire", &owner),
        ("POST", INIT, ""),
    ];
    for (method, path, body) in operators {
        for (headers, code) in [
            (&[][..], "token_needed"),
            (&[PAGE][..], "token_needed"),
            (&[("authorization", wrong.as_str())][..], "token_wrong"),
            (&[("authorization", "Bearer nonsense")][..], "ticket"),
            (&[("authorization", "Basic abc")][..], "ticket_needed"),
        ] {
            let answer = ask(&node, method, path, headers, body);
            assert_eq!((answer.status, answer.code.as_str()), (401, code), "{path}");
            assert!(answer.headers.contains_key("www-authenticate"));
        }
    }
    assert_eq!(
        node.get("/v1/spaces/default/members").1["members"],
        json!([])
    );
    // Requests that anybody may send need no token, whatever they show.
    let basic = [("authorization", "Basic abc")];
    assert_eq!(ask(&node, "GET", "/v1/status", &basic, "").status, 200);
    // With it a page of the node may do so, too.
    for headers in [
        &[("authorization", shown.as_str())][..],
        &[PAGE, ("authorization", &shown)],
    ] {
        let answer = ask(&node, "POST", "/v1/tickets", headers, ticket);
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    // A member's ticket will do for a program, and not for a page.
    let every = json!({"role": "member", "spaces": ["*"]}).to_string();
    let every = node.post("/v1/tickets", &every).1["ticket"].clone();
    let every = format!("Bearer {}", every.as_str().expect("a ticket"));
    let made = [("authorization", every.as_str())];
    let answer = ask(&node, "POST", INIT, &[PAGE, made[0]], "");
    assert_eq!(answer.code, "token_needed");
    assert_eq!(ask(&node, "POST", INIT, &made, "").status, 200);
    assert!(node.post(INIT, "").1["code"] == "closed");
}

#[test]
fn commands_read_the_token_where_they_are_told() {
    let node = Node::start(&[]);
    let (data, token) = (node.data(), node.data().join("token"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(&token).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let home = tempfile::tempdir().expect("a folder");
    let run = |arguments: &[&str], variables: &[(&str, &std::path::Path)]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
            .args(arguments)
            .args(["--json", "--node", &node.url])
            .env_remove("TALLYMESH_TOKEN_FILE")
            .env_remove("TALLYMESH_DATA")
            .env("XDG_DATA_HOME", home.path())
            .envs(variables.iter().copied())
            .output()
            .expect("run");
        let problem: Value = serde_json::from_slice(&output.stderr).unwrap_or_default();
        let code = problem["code"].as_str().unwrap_or_default().to_owned();
        (output.status.success(), code)
    };
    let refused = |code: &str| (false, code.to_owned());
    let done = (true, String::new());
    assert_eq!(run(&["tickets"], &[]), refused("token_needed"));
    let none = home.path().join("none");
    assert_eq!(
        run(&["tickets"], &[("TALLYMESH_TOKEN_FILE", &none)]),
        refused("usage")
    );
    assert_eq!(run(&["tickets"], &[("TALLYMESH_TOKEN_FILE", &token)]), done);
    assert_eq!(run(&["tickets"], &[("TALLYMESH_DATA", &data)]), done);
    let data = data.display().to_string();
    assert_eq!(run(&["tickets", "--data", &data], &[]), done);
    let token = token.display().to_string();
    assert_eq!(
        run(&["invite", "--role", "reader", "--token-file", &token], &[]),
        done
    );
    // The token of another node is refused as such.
    let usual = home.path().join("tallymesh");
    fs::create_dir(&usual).expect("a folder");
    fs::write(usual.join("token"), format!("tmo_{}\n", "0".repeat(64))).expect("write");
    assert_eq!(run(&["tickets"], &[]), refused("token_wrong"));
    fs::copy(node.data().join("token"), usual.join("token")).expect("copy");
    for line in [
        &["tickets"][..],
        &["members", "init"],
        &["revoke", "00112233445566778899aabbccddeeff"],
    ] {
        assert_eq!(run(line, &[]), done, "{line:?}");
    }
    assert_eq!(run(&["retire", &"11".repeat(32)], &[]).1, "unknown_owner");
    assert_eq!(
        run(&["members", "force", &"11".repeat(32), "--yes"], &[]),
        done
    );
}

#[test]
fn a_page_without_a_ticket_is_an_editor() {
    let node = Node::start(&[]);
    let likes = "/v1/spaces/default/counters/likes";
    let page = |method: &str, path: &str, body: &str| ask(&node, method, path, &[PAGE], body);
    assert_eq!(page("POST", &format!("{likes}/add"), "").status, 200);
    assert_eq!(page("PUT", likes, r#"{"value":"5"}"#).status, 200);
    let limit = r#"{"limit":"9","period_ms":60000}"#;
    let refused = page("PUT", "/v1/spaces/default/limits/login", limit);
    assert_eq!((refused.status, refused.code.as_str()), (403, "forbidden"));
    // A link over requests asks for a proof, and a program's does not.
    let path = "/v1/spaces/default/sync";
    for (headers, challenged) in [
        (&[PAGE][..], true),
        (&[("sec-fetch-site", "same-origin")][..], true),
        (&[][..], false),
    ] {
        let answer = ask(&node, "POST", path, headers, "");
        assert_eq!(answer.status, 200);
        let challenge = answer.headers.contains_key("tallymesh-challenge");
        assert_eq!(challenge, challenged, "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_of_a_page_proves_its_key_whatever_its_ticket_is() {
    let node = Node::start(&[]);
    let member = ticket(&node.run(&["invite", "--role", "member"], ""));
    let offered = format!("tallymesh, tallymesh.ticket.{member}");
    let closed = Node::start(&["--http-tickets"]);
    let foreign = ticket(&closed.run(&["invite", "--role", "member"], ""));
    let there = format!("tallymesh, tallymesh.ticket.{foreign}");
    for (node, offered) in [
        (&node, None),
        (&node, Some(&offered)),
        (&closed, Some(&there)),
    ] {
        let url = format!("{}/v1/spaces/default/sync", node.url.replace("http", "ws"));
        let mut request = url.into_client_request().expect("a request");
        let headers = request.headers_mut();
        headers.insert("origin", PAGE.1.parse().expect("a value"));
        if let Some(offered) = offered {
            headers.insert("sec-websocket-protocol", offered.parse().expect("a value"));
        }
        let (mut socket, _) = connect_async(request).await.expect("let in");
        let Some(Ok(Message::Text(asked))) = socket.next().await else {
            panic!("no challenge came");
        };
        let asked: Value = serde_json::from_str(&asked).expect("JSON");
        assert_eq!(asked["role"], "editor");
    }
}

#[test]
fn no_host_but_those_that_are_served_is_answered_with_http_open_either() {
    let node = Node::start(&["--http-open", "--http-host", "counts.example"]);
    let status = |host: &str| {
        let origin = format!("http://{host}");
        let headers = [("host", host), ("origin", &origin)];
        ask(&node, "GET", "/v1/status", &headers, "")
    };
    assert_eq!(status("evil.example").code, "host");
    assert_eq!(status("counts.example").status, 200);
    assert_eq!(status("localhost").status, 200);
}

#[test]
fn refusals_tell_browsers_no_more_than_answers_do() {
    let node = Node::start(&[]);
    let image = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image"),
    ];
    let refused = ask(&node, "GET", "/v1/spaces/default/events", &image, "");
    assert_eq!((refused.status, refused.code.as_str()), (403, "origin"));
    let foreign = ask(&node, "GET", "/v1/status", &[("host", "evil.example")], "");
    let answer = ask(&node, "GET", "/v1/status", &[], "");
    for answer in [refused, foreign, answer] {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(
            answer.headers["cross-origin-resource-policy"],
            "same-origin"
        );
    }
}

/// The beginning of the answer to a request that is sent as it is.
fn raw(node: &Node, request: &str) -> String {
    let address = node.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[test]
fn what_is_said_twice_and_not_the_same_is_refused() {
    let node = Node::start(&[]);
    let add = "/v1/spaces/default/counters/likes/add";
    for (name, one, two) in [
        ("idempotency-key", "a", "b"),
        ("cookie", "a=1", "a=2"),
        ("authorization", "Bearer a", "Bearer b"),
        ("tallymesh-level", "local", "all"),
        ("origin", "http://localhost", "https://evil.example"),
    ] {
        let twice = ask(&node, "POST", add, &[(name, one), (name, two)], "");
        assert_eq!(
            (twice.status, twice.code.as_str()),
            (400, "header_twice"),
            "{name}"
        );
    }
    for hosts in [["localhost", "evil.example"], ["localhost", "localhost"]] {
        let [one, two] = hosts;
        let request = format!("GET /v1/status HTTP/1.1\r\nhost: {one}\r\nhost: {two}\r\n\r\n");
        let answer = raw(&node, &request);
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains("header_twice"),
            "{answer}"
        );
    }
    for (head, code) in [
        (
            "POST http://evil.example/PATH HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0",
            "header_twice",
        ),
        (
            "POST http://localhost/PATH HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0",
            "header_twice",
        ),
        (
            "POST http://localhost:1/PATH HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0",
            "header_twice",
        ),
        (
            "POST http://evil.example/PATH HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0",
            "host",
        ),
        (
            "POST /PATH HTTP/1.1\r\nhost: evil/.localhost\r\ncontent-length: 0",
            "host",
        ),
        (
            "POST /PATH HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example#.localhost\r\ncontent-length: 0",
            "origin",
        ),
        (
            "POST /PATH HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked",
            "transfer_encoding",
        ),
        (
            "POST /PATH HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "transfer_encoding",
        ),
    ] {
        let head = head.replace("/PATH", add);
        let answer = raw(&node, &format!("{head}\r\n\r\n0\r\n\r\n"));
        assert!(
            answer.contains(&format!("\"code\":\"{code}\"")),
            "{head}: {answer}"
        );
    }
    assert_eq!(node.value("likes"), None);
    // Told in two ways, the length would end the request at two places.
    let body = "a\r\n{\"by\":\"5\"}\r\n0\r\n\r\n";
    for lengths in [
        "content-length: 3\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 3",
    ] {
        let request = format!("POST {add} HTTP/1.1\r\nhost: localhost\r\n{lengths}\r\n\r\n{body}");
        let answer = raw(&node, &request);
        assert!(answer.starts_with("HTTP/1.1 400"), "{lengths}: {answer}");
    }
    assert_eq!(node.value("likes"), None);
    for head in [
        "http://localhost/healthz HTTP/1.1\r\nhost: LOCALHOST",
        "/healthz HTTP/1.1\r\nhost: localhost.",
    ] {
        let answer = raw(&node, &format!("GET {head}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{head}: {answer}");
    }
    let same = [("idempotency-key", "a"), ("idempotency-key", "a")];
    assert_eq!(ask(&node, "POST", add, &same, "").status, 200);
    let closed = Node::start(&["--http-tickets"]);
    let twice = [
        ("authorization", "Bearer a.b.c"),
        (
            "sec-websocket-protocol",
            "tallymesh, tallymesh.ticket.d.e.f",
        ),
    ];
    let answer = ask(&closed, "GET", "/v1/spaces/default/counters", &twice, "");
    assert_eq!((answer.status, answer.code.as_str()), (400, "header_twice"));
}

/// Opens libp2p's WebSocket with headers: the status of the answer.
async fn socket(node: &Node, headers: &[(&'static str, &str)]) -> u16 {
    let port = port(&node.listen[0]);
    let mut request = format!("ws://127.0.0.1:{port}/")
        .into_client_request()
        .expect("a request");
    for (name, value) in headers {
        let value = value.parse().expect("a value");
        request.headers_mut().insert(*name, value);
    }
    match connect_async(request).await {
        Ok((_, response)) => response.status().as_u16(),
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("no answer: {error}"),
    }
}

fn port(address: &str) -> u16 {
    let port = address.split('/').nth(4).expect("a port");
    port.parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn libp2ps_websocket_lets_in_whom_http_lets_in() {
    let by_default = Node::start(&[]);
    assert!(by_default.listen.iter().all(|it| !it.contains("/ws")));
    let node = Node::start(&[
        "--listen",
        "/ip4/127.0.0.1/tcp/0/ws",
        "--cors-origin",
        "https://shop.example",
    ]);
    for (headers, status) in [
        (&[][..], 101),
        (&[("origin", "http://localhost:5173")][..], 101),
        (&[("origin", "https://shop.example")][..], 101),
        (&[("origin", "https://evil.example")][..], 403),
        (&[("origin", "null")][..], 403),
        (&[("host", "evil.example")][..], 403),
        (
            &[("host", "evil.example"), ("origin", "http://evil.example")][..],
            403,
        ),
        (&[("sec-fetch-site", "cross-site")][..], 403),
    ] {
        assert_eq!(socket(&node, headers).await, status, "{headers:?}");
    }
    // A header that is given twice is refused here as there.
    let key = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
               sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    for (target, more, status) in [
        ("/", "", 101),
        (
            "/",
            "sec-fetch-site: same-origin\r\nsec-fetch-site: cross-site\r\n",
            403,
        ),
        (
            "/",
            "origin: http://localhost\r\norigin: http://localhost:1\r\n",
            403,
        ),
        ("/", "host: localhost\r\n", 403),
        (
            "/",
            "transfer-encoding: chunked\r\ncontent-length: 1\r\n",
            403,
        ),
        ("http://evil.example/", "", 403),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n{more}{key}\r\n\r\n");
        let mut stream =
            TcpStream::connect(("127.0.0.1", port(&node.listen[0]))).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer);
        assert_eq!(answer, format!("HTTP/1.1 {status}"), "{target} {more}");
    }
}

/// A proxy to a port that adds a header to the first request, as a browser sends it.
fn as_browser(port: u16) -> u16 {
    use std::io::copy;
    use std::net::{Shutdown, TcpListener};
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let own = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(mut client), Ok(mut node)) = (client, TcpStream::connect(("127.0.0.1", port)))
            else {
                return;
            };
            std::thread::spawn(move || {
                let mut first = Vec::new();
                let mut byte = [0];
                while !first.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
                    first.push(byte[0]);
                }
                let end = first.len().saturating_sub(2);
                first.splice(end..end, *b"origin: http://localhost:5173\r\n");
                node.write_all(&first).expect("send");
                let mut back = (
                    node.try_clone().expect("a clone"),
                    client.try_clone().expect("a clone"),
                );
                std::thread::spawn(move || {
                    let _ = copy(&mut back.0, &mut back.1);
                    let _ = back.1.shutdown(Shutdown::Both);
                });
                let _ = copy(&mut client, &mut node);
                let _ = node.shutdown(Shutdown::Both);
            });
        }
    });
    own
}

#[test]
fn a_page_is_no_member_over_libp2ps_websocket() {
    let node = Node::start(&["--listen", "/ip4/127.0.0.1/tcp/0/ws"]);
    node.add("likes", 5);
    let through = as_browser(port(&node.listen[0]));
    let page = Node::start(&["--peer", &format!("/ip4/127.0.0.1/tcp/{through}/ws")]);
    page.add("likes", 100);
    eventually("it is a stranger", || {
        let told = node.log().contains("connected with a stranger");
        told.then_some(())
    });
    // A program on the same listener is one.
    let program = Node::start(&["--peer", &node.listen[0]]);
    program.add("likes", 10);
    eventually("the program's count arrives", || {
        (node.value("likes") == Some(15)).then_some(())
    });
    assert_eq!(page.value("likes"), Some(100));
}

#[test]
fn weak_keys_are_members_and_holders_nowhere() {
    let node = Node::start(&[]);
    assert_eq!(node.post(INIT, "").0, 200);
    for weak in [
        format!("01{}", "00".repeat(31)),
        "00".repeat(32),
        format!("ec{}7f", "ff".repeat(30)),
        format!("02{}", "00".repeat(31)),
    ] {
        let owner = json!({ "owner": weak, "wait_ms": 0 }).to_string();
        let members = json!({ "members": [weak] }).to_string();
        let holder = json!({ "role": "writer", "spaces": ["*"], "holder": weak }).to_string();
        for (path, body) in [
            ("/v1/spaces/default/members/add", &owner),
            ("/v1/spaces/default/members/force", &members),
            ("/v1/tickets", &holder),
        ] {
            let (status, answer) = node.post(path, body);
            assert_eq!(
                (status, &answer["code"]),
                (400, &json!("owner")),
                "{path} {weak}"
            );
        }
        // One that became a member before keys were looked at can be taken out.
        let removed = node.post("/v1/spaces/default/members/remove", &owner).1;
        assert_ne!(removed["code"], "owner");
    }
}
