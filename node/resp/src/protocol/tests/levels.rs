//! `CLIENT LEVEL`: the commands that wait, their answers after the wait, and the commands that are
//! refused before.

use super::*;
use tallymesh_core::Level;

const OPEN: &str = "-NOMEMBERS the space has no members that could reach a level above local, so nothing was done; CLIENT LEVEL local, or make a node the first member with `tallymesh members init`|";

/// A client at a node that is the only member of its first space.
fn client() -> Client {
    let mut client = Client::new(RespConfig {
        flush: true,
        ..RespConfig::default()
    });
    client.node.replicas[0]
        .members_mut()
        .found(&[7; 32], &[0; 16], NOW)
        .expect("a member");
    client
}

fn unmet() -> Unmet {
    Unmet {
        code: "level_not_reached",
        text: "only 1 of 2".to_owned(),
    }
}

impl Client {
    /// Sends a command that waits, ends its wait, and returns the reply.
    fn wait(&mut self, command: &str, ends: &[Result<(), Unmet>]) -> String {
        let (mut out, mut flow) = self.feed(&request(command));
        for end in ends {
            assert_eq!(
                (show(&out), flow),
                (String::new(), Flow::Waits),
                "{command}"
            );
            self.session.answer_level(end.clone(), &mut out);
            let (more, after) = self.feed(b"");
            out.extend(more);
            flow = after;
        }
        assert_eq!(flow, Flow::Open, "{command}");
        show(&out)
    }
}

#[test]
fn a_level_is_told_and_set() {
    play_same(&[
        ("CLIENT LEVEL", "$5|local|"),
        ("CLIENT LEVEL quorum", "+OK|"),
        ("client level", "$6|quorum|"),
        ("CLIENT LEVEL ALL 100", "+OK|"),
        ("CLIENT LEVEL", "$3|all|"),
        (
            "CLIENT LEVEL most",
            "-ERR 'most' is no level: there are local, quorum and all|",
        ),
        (
            "CLIENT LEVEL all x",
            "-ERR timeout is not an integer or out of range|",
        ),
        ("CLIENT LEVEL all -1", "-ERR timeout is negative|"),
        ("CLIENT LEVEL all 1 2", "-ERR syntax error|"),
        ("CLIENT LEVEL", "$3|all|"),
        ("PING", "+PONG|"),
        ("RESET", "+RESET|"),
        ("CLIENT LEVEL", "$5|local|"),
        ("INCR a", ":1|"),
    ]);
}

#[test]
fn a_write_is_answered_when_it_has_reached_the_level() {
    let mut client = client();
    client.send("CLIENT LEVEL quorum 700");
    let mut bytes = request("INCR a");
    bytes.extend(request("GET a"));
    let (mut out, flow) = client.feed(&bytes);
    assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
    let replica = &client.node.replicas[0];
    let written = LastWrite {
        space: 0,
        writer: replica.writer(),
        clock: replica.clock(),
    };
    let level = Level::Quorum;
    let wait = Wait::Write {
        written,
        level,
        timeout_ms: 700,
    };
    assert_eq!(client.session.wait(), Some(wait));
    assert_eq!(client.node.replicas[0].value("a"), Some(1), "it is made");
    // No command is executed meanwhile, and this does not end another wait.
    assert_eq!(client.feed(&request("INCR a")), (Vec::new(), Flow::Waits));
    client.session.answer_wait(9, &mut out);
    assert_eq!(out, b"");
    client.session.answer_level(Ok(()), &mut out);
    assert_eq!(show(&out), ":1|");
    let (out, flow) = client.feed(b"");
    assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
    let wait = Wait::Read {
        space: 0,
        level,
        timeout_ms: 700,
    };
    assert_eq!(client.session.wait(), Some(wait));
    // A read sees the writes that were made meanwhile.
    client.node.replicas[0].add("a", 10).expect("room");
    let mut out = Vec::new();
    client.session.answer_level(Ok(()), &mut out);
    let (more, flow) = client.feed(b"");
    out.extend(more);
    assert_eq!((show(&out), flow), ("$2|11|".to_owned(), Flow::Waits));
    let mut out = Vec::new();
    client.session.answer_level(Err(unmet()), &mut out);
    assert_eq!(show(&out), "-LEVELNOTREACHED only 1 of 2|");
    assert_eq!(client.node.replicas[0].value("a"), Some(12), "it is made");
    assert_eq!(client.feed(b"").1, Flow::Open);
    assert_eq!(client.session.commands(), 4);
}

#[test]
fn what_waits_and_what_does_not() {
    let mut client = client();
    client.send("CLIENT LEVEL all");
    for (sent, waits, answer) in [
        ("SET a 5", 1, "+OK|"),
        ("MSET b 1 c 2", 1, "+OK|"),
        ("GET a", 1, "$1|5|"),
        ("MGET a b", 1, "*2|$1|5|$1|1|"),
        ("TTL a", 1, ":-1|"),
        ("DBSIZE", 1, ":3|"),
        ("DEL nothing", 0, ":0|"),
        ("PERSIST a", 0, ":0|"),
        (
            "SET a x",
            0,
            "-ERR counters hold integers from -9223372036854775808 to 9223372036854775807, and the value that was sent is no such number|",
        ),
        ("ECHO a", 0, "$1|a|"),
        ("WATCH a", 0, "+OK|"),
        ("UNWATCH", 0, "+OK|"),
        ("ONCE k INCR a", 1, ":6|"),
        // For a retry, the first write has to reach the level.
        ("ONCE k INCR a", 1, ":6|"),
        ("ONCE n DEL nothing", 1, ":0|"),
        ("MULTI", 0, "+OK|"),
        ("INCR a", 0, "+QUEUED|"),
        ("EXEC", 1, "*1|:7|"),
        ("MULTI", 0, "+OK|"),
        ("GET a", 0, "+QUEUED|"),
        ("PING", 0, "+QUEUED|"),
        ("EXEC", 1, "*2|$1|7|+PONG|"),
        ("MULTI", 0, "+OK|"),
        ("GET a", 0, "+QUEUED|"),
        ("INCR a", 0, "+QUEUED|"),
        ("ONCE e EXEC", 2, "*2|$1|7|:8|"),
        ("EXEC", 0, "-ERR EXEC without MULTI|"),
        ("FLUSHDB", 1, "+OK|"),
        ("GET a", 1, "$-1|"),
    ] {
        assert_eq!(client.wait(sent, &vec![Ok(()); waits]), answer, "{sent}");
    }
}

#[test]
fn what_was_not_seen_is_not_shown() {
    let mut client = client();
    client.send("INCR a");
    client.send("CLIENT LEVEL quorum");
    assert_eq!(
        client.wait("GET a", &[Err(unmet())]),
        "-LEVELNOTREACHED only 1 of 2|"
    );
    assert_eq!(client.wait("GET a", &[Ok(())]), "$1|1|");
    for sent in ["MULTI", "GET a", "INCR a"] {
        client.send(sent);
    }
    assert_eq!(
        client.wait("EXEC", &[Err(unmet())]),
        "-EXECABORT Transaction discarded because of: only 1 of 2|"
    );
    assert_eq!(client.send("EXEC"), "-ERR EXEC without MULTI|");
    assert_eq!(client.node.replicas[0].value("a"), Some(1));
}

#[test]
fn a_space_without_members_reaches_nothing() {
    let mut client = client();
    client.send("CLIENT LEVEL quorum");
    // A flush has to reach the level in each space in which it deletes.
    assert_eq!(client.send("FLUSHALL"), OPEN);
    client.send("SELECT 1");
    for sent in ["INCR a", "GET a", "DBSIZE", "FLUSHDB", "ONCE k INCR a"] {
        assert_eq!(client.send(sent), OPEN, "{sent}");
    }
    client.send("MULTI");
    assert_eq!(client.send("PING"), "+QUEUED|");
    assert_eq!(client.send("INCR a"), OPEN);
    assert!(client.send("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.node.replicas[1].clock(), 0);
    client.node.replicas[1]
        .members_mut()
        .found(&[7; 32], &[1; 16], NOW)
        .expect("a member");
    assert_eq!(client.wait("INCR a", &[Ok(())]), ":1|");
    client.send("SELECT 0");
    assert_eq!(client.wait("INCR a", &[Ok(())]), ":1|");
    assert_eq!(client.wait("FLUSHALL", &[Ok(()), Ok(())]), "+OK|");
    assert_eq!(client.wait("INCR a", &[Ok(())]), ":1|");
    client.send("CLIENT LEVEL local");
    assert_eq!(client.send("INCR a"), ":2|");
}
