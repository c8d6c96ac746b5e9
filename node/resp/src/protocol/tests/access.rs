//! Tickets: the role that each command needs, and the end of a session whose ticket is not enough.

use super::*;
use crate::protocol::command::{Needs, TABLE, find};
use tallymesh_node_ground::model::Role;

const PREFIX: &str = "-NOPERM forbidden: ";

fn asking() -> Client {
    Client::new(RespConfig {
        tickets: true,
        ..RespConfig::default()
    })
}

/// A session with a ticket.
fn with(ticket: &str) -> Client {
    let mut client = asking();
    assert_eq!(client.send(&format!("AUTH {ticket}")), "+OK|");
    client
}

/// A command of the table with arguments that it takes.
fn sample(name: &str) -> &'static str {
    let samples = [
        "AUTH reader",
        "BUDGET.CAP b RAISE 1",
        "BUDGET.ENDLEASE b 00000000000000000000000000000000",
        "BUDGET.FLOOR b LOWER 1",
        "BUDGET.GET b",
        "BUDGET.GRANT b 00000000000000000000000000000000 1",
        "BUDGET.HOLDERS b",
        "BUDGET.LEASE b 00000000000000000000000000000000 1 1000",
        "BUDGET.LEASES b",
        "BUDGET.LIST",
        "BUDGET.MINT b 1",
        "BUDGET.SPEND b 1",
        "BUDGET.TRANSFER b c 1",
        "CLIENT ID",
        "COMMAND COUNT",
        "CONFIG GET save",
        "DBSIZE",
        "DECR a",
        "DECRBY a 2",
        "DEL a",
        "DISCARD",
        "ECHO x",
        "EXEC",
        "EXISTS a",
        "EXPIRE a 9",
        "EXPIREAT a 9999",
        "EXPIRETIME a",
        "FLUSHALL",
        "FLUSHDB",
        "GET a",
        "GETDEL a",
        "GETEX a",
        "GETSET a 1",
        "HELLO 2",
        "INCR a",
        "INCRBY a 2",
        "INCREX a",
        "INFO",
        "KEYS *",
        "MGET a b",
        "MSET a 1",
        "MULTI",
        "OBJECT encoding a",
        "ONCE k INCR a",
        "PERSIST a",
        "PEXPIRE a 9000",
        "PEXPIREAT a 9999999",
        "PEXPIRETIME a",
        "PING",
        "PSETEX a 9000 1",
        "PSUBSCRIBE x",
        "PTTL a",
        "PUNSUBSCRIBE x",
        "QUIT",
        "RANDOMKEY",
        "RESET",
        "SCAN 0",
        "SELECT 0",
        "SEQUENCE.BEGIN s",
        "SEQUENCE.GET s",
        "SEQUENCE.LIST",
        "SEQUENCE.NEXT s",
        "SEQUENCE.UNWATCH s 1",
        "SEQUENCE.WATCH s 1",
        "SET a 1",
        "SETEX a 9 1",
        "SETNX a 1",
        "SUBSCRIBE x",
        "TIME",
        "TOUCH a",
        "TTL a",
        "TYPE a",
        "UNLINK a",
        "UNSUBSCRIBE x",
        "UNWATCH",
        "WAIT 0 0",
        "WATCH a",
    ];
    let is_it =
        |sample: &&&str| sample.split(' ').next().map(str::to_lowercase).as_deref() == Some(name);
    let found = samples.iter().find(is_it);
    found.unwrap_or_else(|| panic!("no sample of {name}"))
}

#[test]
fn each_command_takes_its_role_and_no_less() {
    for spec in TABLE {
        let sent = sample(spec.name);
        let command = request(sent);
        let alone = show(&asking().feed(&command).0);
        let is_refused = alone.starts_with("-NOAUTH ");
        // HELLO says so itself.
        let open = spec.is_open() && spec.name != "hello";
        assert_eq!(is_refused, !open, "{sent} without a ticket: {alone}");
        let needed = match spec.needs(&Args::new(b"", &[])) {
            Needs::Nothing | Needs::Ticket => Role::Reader,
            Needs::Here(role) | Needs::Everywhere(role) => role,
        };
        for role in Role::ALL {
            let mut client = with(role.name());
            let before = client.node.replicas[0].canonical_bytes();
            let answer = client.send(sent);
            match role >= needed {
                true => assert!(
                    !answer.starts_with("-NOPERM") && !answer.starts_with("-NOAUTH"),
                    "{sent} by a {role}: {answer}"
                ),
                false => {
                    let text = format!(
                        "{PREFIX}'{}' takes the role {needed}, and the ticket gives {role}; ask a \
                         member for another|",
                        spec.name
                    );
                    assert_eq!(answer, text, "{sent}");
                    assert_eq!(client.node.replicas[0].canonical_bytes(), before, "{sent}");
                }
            }
        }
    }
}

#[test]
fn each_call_has_its_commands() {
    use crate::protocol::command::{KeysAt, Kind};
    use tallymesh_node_ground::api::{Call, Field, Form, TABLE as CALLS};
    for call in CALLS {
        for name in call.commands {
            let spec = find(name.as_bytes()).unwrap_or_else(|| panic!("no command {name}"));
            assert_eq!(
                spec.needs(&Args::new(b"", &[])),
                Needs::Here(call.role),
                "{name}"
            );
            assert_eq!(spec.kind == Kind::Write, call.role > Role::Reader, "{name}");
        }
    }
    for spec in TABLE {
        let calls: Vec<&&Call> = CALLS
            .iter()
            .filter(|it| it.commands.contains(&spec.name))
            .collect();
        let makes = matches!(spec.kind, Kind::Read | Kind::Write | Kind::Keyspace);
        assert_eq!(!calls.is_empty(), makes, "{}", spec.name);
        // The commands that Redis does not have take the fields of their call.
        let is_own = spec.name.contains('.');
        let Some(call) = calls.first().filter(|_| is_own) else {
            continue;
        };
        let needed = |it: &&Field| it.required;
        let pairs = |it: &Field| if it.form == Form::Shares { 2 } else { 1 };
        let needed: i8 = 1 + call.fields.iter().filter(needed).map(pairs).sum::<i8>();
        let more = call
            .fields
            .iter()
            .any(|it| !it.required || it.form == Form::Shares);
        // A word tells two calls apart.
        let expected = match (spec.name, more) {
            ("budget.cap" | "budget.floor", _) => needed + 1,
            ("budget.grant", _) | (_, true) => -needed,
            _ => needed,
        };
        assert_eq!(spec.arity, expected, "{}", spec.name);
        let keys = match call.fields.first().map(|it| it.name) {
            Some("key") => KeysAt::First,
            _ => KeysAt::None,
        };
        assert_eq!(spec.keys, keys, "{}", spec.name);
    }
}

#[test]
fn roles_are_those_that_operations_tell() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let text = std::fs::read_to_string(file).expect("docs/operations.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.strip_suffix('`')?.to_lowercase();
        let told = TABLE.iter().find(|spec| spec.name == name)?;
        Some((told, cells.next()?.to_owned(), cells.next()?.to_owned()))
    });
    // Another table lists the answers to retries, and has two columns only.
    let rows: Vec<_> = rows.collect();
    for spec in TABLE {
        let role = match spec.needs(&Args::new(b"", &[])) {
            Needs::Nothing => "none".to_owned(),
            Needs::Ticket => "any".to_owned(),
            Needs::Here(role) => role.to_string(),
            Needs::Everywhere(role) => format!("{role} of every space"),
        };
        let told = rows.iter().filter(|row| row.0.name == spec.name);
        let told: Vec<_> = told.map(|row| (row.1.as_str(), row.2.as_str())).collect();
        let summary = format!("{} |", spec.summary);
        assert_eq!(told, [(role.as_str(), summary.as_str())], "{}", spec.name);
    }
}

#[test]
fn a_command_within_another_takes_its_own_role() {
    let mut client = with("writer");
    assert_eq!(client.send("ONCE k INCR a"), ":1|");
    for (sent, name) in [("ONCE l SET a 5", "set"), ("ONCE l DEL a", "del")] {
        let answer = client.send(sent);
        let text = format!("{PREFIX}'{name}' takes the role editor");
        assert!(answer.starts_with(&text), "{answer}");
    }
    assert_eq!(client.send("GET a"), "$1|1|");
    let mut member = with("member@0");
    let list = member.send("CLIENT LIST");
    assert_eq!(list, format!("{PREFIX}it does not speak of that|"));
    assert!(with("member").send("CLIENT LIST").contains("id=3"));
    let list = with("editor").send("client list");
    assert!(list.starts_with(&format!("{PREFIX}'client' takes the role member")));
    assert!(with("reader").send("CLIENT INFO").contains("id=7"));
}

#[test]
fn what_may_not_be_made_is_not_queued_and_discards_the_rest() {
    let mut client = with("writer");
    for (sent, answer) in [
        ("MULTI", "+OK|"),
        ("INCR a", "+QUEUED|"),
        ("SET a 5", ""),
        ("INCR b", "+QUEUED|"),
        (
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.|",
        ),
        ("MGET a b", "*2|$-1|$-1|"),
        ("MULTI", "+OK|"),
        ("INCR a", "+QUEUED|"),
        ("EXEC", "*1|:1|"),
    ] {
        let told = client.send(sent);
        match answer {
            "" => assert!(told.starts_with(PREFIX), "{told}"),
            answer => assert_eq!(told, answer, "{sent}"),
        }
    }
}

#[test]
fn a_ticket_speaks_of_its_spaces_only() {
    let mut client = with("editor@1<2000000");
    let elsewhere = format!("{PREFIX}it does not speak of that|");
    for (sent, answer) in [
        ("INCR a", elsewhere.as_str()),
        ("GET a", &elsewhere),
        ("SUBSCRIBE x", &elsewhere),
        ("PING", "+PONG|"),
        ("SELECT 0", &elsewhere),
        ("SELECT 2", "-ERR DB index is out of range|"),
        ("SELECT 1", "+OK|"),
        ("SET a 5", "+OK|"),
        ("SELECT 0", &elsewhere),
        ("GET a", "$1|5|"),
        ("FLUSHALL", &elsewhere),
        ("FLUSHDB", "-ERR flushing is off"),
    ] {
        let told = client.send(sent);
        assert!(told.starts_with(answer), "{sent}: {told}");
    }
    // `INFO` lists only the spaces of the ticket.
    client.node.replicas[0].add("b", 1).expect("added");
    let info = client.send("INFO keyspace");
    assert!(info.contains("db1:") && !info.contains("db0:"), "{info}");
    // Another valid ticket replaces the first, and an invalid one does not.
    for (sent, answer) in [
        ("AUTH nonsense", "-WRONGPASS ticket: this is none|"),
        ("GET a", "$1|5|"),
        ("AUTH anybody reader", "+OK|"),
        ("SELECT 0", "+OK|"),
        ("GET b", "$1|1|"),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
    assert!(client.send("INCR b").starts_with(PREFIX));
    assert_eq!(client.node.failed, ["ticket"]);
}

#[test]
fn a_ticket_that_ends_or_loses_its_issuer_lets_nothing_more_be_done() {
    let ended = "-NOAUTH ticket_expired: it ended|";
    let mut client = with("editor<1000500");
    assert_eq!(client.send("MULTI"), "+OK|");
    assert_eq!(client.send("INCR a"), "+QUEUED|");
    client.node.set_time(1_000_500);
    let aborted = "-EXECABORT Transaction discarded because of: ticket_expired: it ended|";
    for (sent, answer) in [
        ("EXEC", aborted),
        ("INCR a", ended),
        ("PING", ended),
        ("SELECT 1", ended),
        ("MULTI", ended),
        (
            "HELLO 2 AUTH me editor<1000500",
            "-WRONGPASS ticket_expired: it ended|",
        ),
        ("AUTH editor<1000501", "+OK|"),
        ("GET a", "$-1|"),
        ("EXEC", "-ERR EXEC without MULTI|"),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
    client.node.trusts = false;
    let lost = "-NOAUTH ticket_issuer: who signed it is no member|";
    assert_eq!(client.send("GET a"), lost);
    assert_eq!(client.send("PING"), "+PONG|");
    client.node.trusts = true;
    assert_eq!(client.send("GET a"), "$-1|");
    assert_eq!(client.send("RESET"), "+RESET|");
    assert_eq!(client.send("GET a"), "-NOAUTH Authentication required.|");
    assert!(client.send("HELLO 3 AUTH x reader").starts_with("%7|"));
}

#[test]
fn a_read_that_is_refused_while_it_waits_leaves_nothing_to_the_next() {
    let mut client = with("reader");
    let replica = &mut client.node.replicas[0];
    replica
        .members_mut()
        .found(&[7; 32], &[0; 16], NOW)
        .expect("a member");
    assert_eq!(client.send("CLIENT LEVEL quorum"), "+OK|");
    assert_eq!(client.feed(&request("GET a")).1, Flow::Waits);
    client.node.trusts = false;
    client.session.answer_level(Ok(()), &mut Vec::new());
    let (out, flow) = client.feed(b"");
    let lost = "-NOAUTH ticket_issuer: who signed it is no member|";
    assert_eq!((show(&out).as_str(), flow), (lost, Flow::Open));
    client.node.trusts = true;
    // It waits for itself.
    assert_eq!(client.feed(&request("GET a")).1, Flow::Waits);
}

#[test]
fn a_ticket_is_judged_once_for_a_piece_and_its_space() {
    let mut client = with("writer");
    client.node.judged.set(0);
    client.feed(&request("INCR a").repeat(100));
    assert_eq!(client.node.judged.get(), 1);
    client.feed(&request("INCR a"));
    assert_eq!(client.node.judged.get(), 2);
    let mut bytes = request("INCR a");
    bytes.extend(request("SELECT 1"));
    bytes.extend(request("INCR a"));
    client.node.trusts = false;
    let (out, _) = client.feed(&bytes);
    assert_eq!(show(&out).matches("-NOAUTH ticket_issuer").count(), 3);
}

#[test]
fn who_guesses_passwords_too_often_has_to_wait() {
    let mut client = Client::new(RespConfig {
        password: Some("writer".into()),
        ..RespConfig::default()
    });
    client.node.tries = 2;
    for _ in 0..2 {
        assert!(client.send("AUTH x").starts_with("-WRONGPASS "));
    }
    let wait = "-ERR rate_limited: too many tickets or passwords that let nobody in came from \
                this address; wait 2 s, and find out which client sends them|";
    assert_eq!(client.send("AUTH writer"), wait);
    assert_eq!(client.send("HELLO 3 AUTH default writer"), wait);
    client.node.failed.clear();
    assert_eq!(client.send("AUTH writer"), "+OK|");
    assert_eq!(client.send("INCR a"), ":1|");
}

#[test]
fn a_good_ticket_passes_whatever_was_shown_before_and_bad_ones_are_slowed() {
    for login in ["AUTH writer", "HELLO 3 AUTH me writer"] {
        let mut client = Client::new(asking().session.config.as_ref().clone());
        client.node.tries = 2;
        for _ in 0..2 {
            let (out, flow) = client.feed(&request("AUTH x"));
            assert!(show(&out).starts_with("-WRONGPASS ") && flow == Flow::Open);
        }
        // From here on, each further try is answered at once and pauses this connection.
        for _ in 0..10 {
            let (out, flow) = client.feed(&[request("AUTH x"), request("PING")].concat());
            assert!(
                show(&out).starts_with("-WRONGPASS ticket: "),
                "{}",
                show(&out)
            );
            assert_eq!(flow, Flow::Waits);
            assert_eq!(
                client.session.wait(),
                Some(Wait::Pause { timeout_ms: 1500 })
            );
            client.session.answer_pause();
            let (out, flow) = client.feed(b"");
            assert!(show(&out).starts_with("-NOAUTH ") && flow == Flow::Open);
        }
        // From the same address, and even on the same connection, a valid ticket is accepted at
        // once.
        let (out, flow) = client.feed(&request(login));
        assert!(
            !show(&out).starts_with('-') && flow == Flow::Open,
            "{}",
            show(&out)
        );
        assert_eq!(client.send("INCR a"), ":1|");
    }
}

#[test]
fn who_is_turned_out_is_told_why() {
    let mut client = with("reader");
    let mut out = Vec::new();
    let turned = Turned {
        code: "ticket_expired",
        text: "it ended".to_owned(),
    };
    client.session.turn_out(turned, &mut out);
    assert_eq!(show(&out), "-NOAUTH ticket_expired: it ended|");
    assert_eq!(client.feed(&request("GET a")).1, Flow::Close);
}
