//! Clients that take all they can get of what all share, beside others.

use crate::process::{DEADLINE, Node, eventually};
use crate::tickets::{ask, ticket};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;

const BODY_BYTES: usize = 8 << 20;
const FRAME_BYTES: usize = 2 << 20;

/// A node that asks for tickets, and tickets of these roles.
fn asking<const N: usize>(roles: [&str; N], arguments: &[&str]) -> (Node, [String; N]) {
    let mut node = Node::start(&[]);
    let made = roles.map(|role| {
        let invite = ["invite", "--role", role, "--every-space"];
        ticket(&node.run(&invite, ""))
    });
    node.terminate();
    let asks = ["--http-tickets"].iter().chain(arguments);
    node.start_again_with(asks.map(ToString::to_string).collect());
    (node, made)
}

fn connect(node: &Node) -> TcpStream {
    let address = node.url.strip_prefix("http://").expect("HTTP");
    let socket = TcpStream::connect(address).expect("connect");
    socket.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    socket
}

/// Sends a head, and what comes after it; a node that refuses may close meanwhile.
fn send(node: &Node, ticket: &str, head: &str, after: &[u8]) -> TcpStream {
    let mut socket = connect(node);
    let host = node.url.strip_prefix("http://").expect("HTTP");
    let head = format!("{head}\r\nhost: {host}\r\nauthorization: Bearer {ticket}\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("send");
    // It may be refused before its end.
    let _ = socket.write_all(after);
    socket
}

/// The head and a part of what was answered, or `None` if nothing was within this time.
fn answer(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = vec![0; 2048];
    match socket.read(&mut bytes) {
        Ok(count) => Some(String::from_utf8_lossy(&bytes[..count]).into_owned()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            None
        }
    }
}

fn figure(node: &Node, ticket: &str, name: &str) -> f64 {
    let mut socket = send(node, ticket, "GET /metrics HTTP/1.0", b"");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("the figures");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0.0, |line| line.trim().parse().expect("a number"))
}

const BODIES_BYTES: &str = "tallymesh_http_body_bytes ";

#[test]
fn bodies_that_do_not_end_take_no_more_than_their_tickets_share() {
    let (node, [reader, member]) = asking(["reader", "member"], &[]);
    let head = format!("POST /v1/spaces/default/read HTTP/1.1\r\ncontent-length: {BODY_BYTES}");
    let body = vec![b' '; BODY_BYTES - 1];
    let under_way = |count: usize| {
        eventually("so many bytes have come", || {
            let bytes = figure(&node, &member, BODIES_BYTES);
            (bytes >= (count * (BODY_BYTES - (16 << 10) - 1)) as f64).then_some(())
        });
    };
    let mut held = Vec::new();
    for count in 1..=4 {
        held.push(send(&node, &reader, &head, &body));
        under_way(count);
    }
    let mut more = send(&node, &reader, &head, &body);
    let refused = answer(&mut more).expect("an answer");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for part in ["bodies_full", "retry-after: ", "33554432"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    // Small ones, and others' large ones, are answered.
    let (status, read) = ask(
        &node,
        &reader,
        "POST",
        "/v1/spaces/default/read",
        "{\"keys\":[]}",
    );
    assert_eq!(status, 200, "{read}");
    let lines = "k 1\n".repeat(50_000);
    let (status, added) = ask(&node, &member, "POST", "/v1/spaces/default/add", &lines);
    assert_eq!(status, 200, "{added}");
    // One that ends gives its part back.
    let mut first = held.remove(0);
    first.write_all(b" ").expect("send");
    let refused = answer(&mut first).expect("an answer");
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    let mut last = send(&node, &reader, &head, &body);
    under_way(4);
    last.write_all(b" ").expect("send");
    let refused = answer(&mut last).expect("an answer");
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    drop(held);
    eventually("all is given back", || {
        (figure(&node, &member, BODIES_BYTES) == 0.0).then_some(())
    });
}

#[test]
fn messages_of_sockets_that_do_not_end_count_as_bodies_do() {
    let (node, [reader, member]) = asking(["reader", "member"], &[]);
    let head = "GET /v1/spaces/default/sync HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    let mut message = vec![0x82, 0xff];
    message.extend_from_slice(&(FRAME_BYTES as u64).to_be_bytes());
    message.resize(14 + FRAME_BYTES - 1, 0); // a mask of zeros, and a byte is missing
    let begin = || {
        let mut socket = send(&node, &reader, head, b"");
        let begun = answer(&mut socket).expect("an answer");
        assert!(begun.starts_with("HTTP/1.1 101 "), "{begun}");
        // It may be refused before its end.
        let _ = socket.write_all(&message);
        socket
    };
    let mut held = Vec::new();
    for count in 1..=16 {
        held.push(begin());
        let most = (count * (FRAME_BYTES - (16 << 10))) as f64;
        eventually("so many bytes have come", || {
            (figure(&node, &member, BODIES_BYTES) >= most).then_some(())
        });
    }
    let mut more = begin();
    let mut told = Vec::new();
    // The end may be a reset.
    let _ = more.read_to_end(&mut told);
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("bodies_full: this ticket"), "{told}");
    let refusals = "tallymesh_refusals_total{protocol=\"http\",code=\"bodies_full\"} ";
    assert_eq!(figure(&node, &member, refusals), 1.0);
    drop(held);
    eventually("all is given back", || {
        (figure(&node, &member, BODIES_BYTES) == 0.0).then_some(())
    });
}

#[test]
fn streams_of_one_ticket_leave_places_to_others() {
    let (node, [reader, other, writer, member]) = asking(
        ["reader", "reader", "writer", "member"],
        &["--http-clients", "32"],
    );
    let open = |ticket: &str| {
        let head = "GET /v1/spaces/default/events HTTP/1.1";
        let socket = send(&node, ticket, head, b"");
        let mut status = String::new();
        let mut lines = BufReader::new(socket);
        lines.read_line(&mut status).expect("an answer");
        (lines, status.contains(" 200 "))
    };
    let mut streams = Vec::new();
    for (ticket, most) in [(&reader, 16), (&other, 4), (&writer, 2), (&member, 2)] {
        for _ in 0..most {
            let (stream, open) = open(ticket);
            assert!(open);
            streams.push(stream);
        }
        assert!(!open(ticket).1, "no more than {most}");
    }
    let (status, _) = ask(&node, &reader, "GET", "/v1/spaces/default/counters", "");
    assert_eq!(status, 200, "requests have places");
}

#[test]
fn one_ticket_leaves_redis_connections_to_others() {
    use crate::redis::Redis;
    let arguments = [
        "--resp",
        "127.0.0.1:0",
        "--resp-tickets",
        "--resp-clients",
        "24",
    ];
    let node = Node::start(&arguments);
    let invite = |role: &str| crate::tickets::ticket(&node.run(&["invite", "--role", role], ""));
    let [reader, other, writer, member] = ["reader", "reader", "writer", "member"].map(invite);
    let mut kept = Vec::new();
    let mut fill = |ticket: &str| {
        let before = kept.len();
        loop {
            let mut redis = Redis::connect(&node);
            match redis.ask(&["AUTH", ticket]) {
                redis_protocol::resp2::types::OwnedFrame::Error(text) => {
                    return (kept.len() - before, text.starts_with("ERR clients_full: "));
                }
                _ => kept.push(redis),
            }
        }
    };
    assert_eq!(fill(&reader), (16, true));
    assert_eq!(fill(&other), (4, true));
    assert_eq!(fill(&writer), (2, true));
    let mut redis = Redis::connect(&node);
    assert_eq!(redis.text(&["AUTH", &member]), Some("OK".into()));
    // A client that shows the same ticket again keeps its place; one that goes leaves it to others.
    assert_eq!(kept[0].text(&["AUTH", &reader]), Some("OK".into()));
    assert_eq!(kept[0].text(&["AUTH", &member]), Some("OK".into()));
    crate::process::eventually("a place is free", || {
        let mut redis = Redis::connect(&node);
        (redis.text(&["AUTH", &reader])? == "OK").then_some(())
    });
}
