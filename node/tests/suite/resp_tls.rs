//! Redis clients by TLS.

use crate::process::{Node, eventually};
use crate::redis::{Redis, command};
use crate::tickets::{certificate, ticket};
use redis_protocol::resp2::types::OwnedFrame;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A node whose Redis clients come by TLS, with further arguments; the folder with its certificate, and
/// the certificate.
fn secured(more: &[&str]) -> (Node, TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let pem = certificate(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (at("cert.pem"), at("key.pem"));
    let tls = [
        "--resp",
        "127.0.0.1:0",
        "--resp-tls-cert",
        &cert,
        "--resp-tls-key",
        &key,
    ];
    (Node::start(&[&tls[..], more].concat()), folder, pem)
}

#[test]
fn clients_count_by_tls_with_tickets() {
    let (node, _folder, pem) = secured(&["--resp-tickets"]);
    let writer = ticket(&node.run(&["invite", "--role", "writer"], ""));
    let mut redis = Redis::secured(&node, &pem).expect("keys");
    let refused = redis.text(&["INCR", "likes"]).expect("an error");
    assert_eq!(refused, "NOAUTH Authentication required.");
    assert_eq!(redis.text(&["AUTH", &writer]), Some("OK".into()));
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
    let refused = redis.text(&["SET", "likes", "5"]).expect("an error");
    assert!(refused.starts_with("NOPERM forbidden: "), "{refused}");
    assert_eq!(node.value("likes"), Some(1));
}

/// More clients than may agree on keys at once connect and say nothing.
#[test]
fn silent_clients_keep_nobody_from_agreeing_on_keys() {
    let (node, _folder, pem) = secured(&[]);
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(&node.resp).expect("connected"))
        .collect();
    let began = Instant::now();
    let mut redis = Redis::secured(&node, &pem).expect("keys");
    assert_eq!(redis.integer(&["INCR", "likes"]), 1);
    // Before the first of them is closed for its silence.
    assert!(began.elapsed() < Duration::from_secs(8), "{began:?}");
    drop(silent);
}

#[test]
fn a_long_pipeline_goes_both_ways() {
    let (node, _folder, pem) = secured(&[]);
    let mut redis = Redis::secured(&node, &pem).expect("keys");
    let long = "x".repeat(100_000);
    for round in 0..20_i64 {
        let mut bytes = Vec::new();
        for _ in 0..1000 {
            bytes.extend(command(&["INCR", "likes"]));
        }
        // Each answer is longer than a record, and than what waits for the socket.
        for _ in 0..10 {
            bytes.extend(command(&["ECHO", &long]));
        }
        redis.send(&bytes);
        for count in 1..=1000 {
            assert_eq!(redis.reply(), OwnedFrame::Integer(round * 1000 + count));
        }
        for _ in 0..10 {
            let echoed = redis.reply();
            assert!(echoed == OwnedFrame::BulkString(long.clone().into_bytes()));
        }
    }
    assert_eq!(node.value("likes"), Some(20_000));
    // More than all buffers on the way hold, and the end right behind it.
    let mut bytes = command(&["COMMAND"]).repeat(2000);
    bytes.extend(command(&["QUIT"]));
    redis.send(&bytes);
    for _ in 0..2000 {
        assert!(matches!(redis.reply(), OwnedFrame::Array(_)));
    }
    assert_eq!(redis.reply(), OwnedFrame::SimpleString(b"OK".to_vec()));
    // The end is said, so that nobody takes what came for a part.
    let end = redis.try_reply().expect_err("it ends");
    assert!(
        end.to_string().to_lowercase().contains("end of file"),
        "{end}"
    );
    assert!(!end.to_string().contains("close_notify"), "{end}");
}

#[test]
fn what_comes_with_the_keys_is_answered_and_so_is_the_end() {
    let (node, _folder, pem) = secured(&[]);
    for count in 1..=50 {
        let first = command(&["INCR", "likes"]);
        let mut redis = Redis::secured_and_send(&node, &pem, &first).expect("keys");
        assert_eq!(redis.reply(), OwnedFrame::Integer(2 * count - 1));
        redis.send(&first);
        // The socket stays open: the end is said by TLS alone.
        redis.end();
        assert_eq!(redis.reply(), OwnedFrame::Integer(2 * count));
        let end = redis.try_reply().expect_err("it ends");
        assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof, "{end}");
    }
}

#[test]
fn nobody_is_served_in_the_clear_or_without_the_right_certificate() {
    let (node, folder, pem) = secured(&[]);
    for sent in ["PING\r\n", "*1\r\n$4\r\nPING\r\n", "\u{16}\u{3}\u{1}\u{2}"] {
        let mut socket = TcpStream::connect(&node.resp).expect("connect");
        socket.write_all(sent.as_bytes()).expect("sent");
        let ended = socket.shutdown(std::net::Shutdown::Write);
        ended.expect("ended");
        let mut told = Vec::new();
        // Whether it ends in order or is broken off does not matter.
        let _ = socket.read_to_end(&mut told);
        let text = String::from_utf8_lossy(&told);
        assert!(!text.contains("PONG"), "{sent:?}: {text}");
    }
    let other = certificate(&folder.path().join("other"));
    assert!(Redis::secured(&node, &other).is_err());
    let mut redis = Redis::secured(&node, &pem).expect("keys");
    assert_eq!(redis.text(&["PING"]), Some("PONG".into()));
}

#[test]
fn a_certificate_may_change_while_clients_are_connected() {
    let (node, folder, first) = secured(&[]);
    let mut before = Redis::secured(&node, &first).expect("keys");
    let second = certificate(folder.path());
    let mut after = eventually("the new certificate is taken", || {
        Redis::secured(&node, &second).ok()
    });
    assert!(Redis::secured(&node, &first).is_err());
    assert_eq!(before.integer(&["INCR", "likes"]), 1);
    assert_eq!(after.integer(&["INCR", "likes"]), 2);
    fs::write(folder.path().join("cert.pem"), "nonsense").expect("written");
    eventually("it is told", || {
        let told = node.log().contains("goes on with the certificate before");
        told.then_some(())
    });
    let mut redis = Redis::secured(&node, &second).expect("keys");
    assert_eq!(redis.integer(&["INCR", "likes"]), 3);
}

#[test]
fn clients_that_are_too_many_are_told_so_by_tls() {
    let (node, _folder, pem) = secured(&["--resp-clients", "1"]);
    let mut redis = Redis::secured(&node, &pem).expect("keys");
    assert_eq!(redis.text(&["PING"]), Some("PONG".into()));
    let mut other = Redis::secured(&node, &pem).expect("keys");
    let OwnedFrame::Error(text) = other.reply() else {
        panic!("it is served");
    };
    assert_eq!(text, "ERR max number of clients reached");
    drop(redis);
    eventually("there is room", || {
        let mut redis = Redis::secured(&node, &pem).ok()?;
        (redis.try_send(&command(&["PING"])).is_ok()
            && matches!(redis.try_reply(), Ok(OwnedFrame::SimpleString(_))))
        .then_some(())
    });
}

#[test]
fn a_certificate_that_is_none_is_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    certificate(folder.path());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let node = Node::start(&[]);
    let (data, cert, key) = (at("data"), at("none.pem"), at("key.pem"));
    let arguments = [
        "up",
        "--data",
        &data,
        "--http",
        "127.0.0.1:0",
        "--resp",
        "127.0.0.1:0",
        "--resp-tls-cert",
        &cert,
        "--resp-tls-key",
        &key,
    ];
    let output = node.run(&arguments, "");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("none.pem"), "{error}");
}
