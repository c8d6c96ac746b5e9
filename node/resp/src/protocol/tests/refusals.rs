//! The refusals of commands, and their texts.

use super::*;
use crate::protocol::command::TABLE;
use std::collections::BTreeSet;
use tallymesh_node_ground::model::Turned;
use tallymesh_node_ground::problems;

#[test]
fn unknown_commands_are_answered_in_redis_words() {
    play_same(&[
        (
            "foo",
            "-ERR unknown command 'foo', with args beginning with: |",
        ),
        (
            "foo a b",
            "-ERR unknown command 'foo', with args beginning with: 'a' 'b' |",
        ),
        (
            "CLUSTER INFO",
            "-ERR unknown command 'CLUSTER', with args beginning with: 'INFO' |",
        ),
        (
            "foo a\r\nb",
            "-ERR unknown command 'foo', with args beginning with: 'a  b' |",
        ),
    ]);
    let mut client = Client::new(RespConfig::default());
    let long = "x".repeat(300);
    let answer = client.send(&format!("{long} {long} {long}"));
    let (name, args) = (&long[..128], &long[..128]);
    assert_eq!(
        answer,
        format!("-ERR unknown command '{name}', with args beginning with: '{args}' |")
    );
}

#[test]
fn each_command_has_its_number_of_arguments() {
    for spec in TABLE {
        let mut client = Client::new(RespConfig::default());
        let least = usize::from(spec.arity.unsigned_abs());
        let mut wrong = vec![least - 1];
        if spec.arity > 0 {
            wrong.push(least + 1);
        }
        for len in wrong.into_iter().filter(|len| *len > 0) {
            let words = [&[spec.name][..], &vec!["x"; len - 1]].concat();
            let refusal = match spec.name {
                "exec" => "-EXECABORT Transaction discarded because of:",
                _ => "-ERR",
            };
            let text = format!(
                "{refusal} wrong number of arguments for '{}' command|",
                spec.name
            );
            assert_eq!(client.send(&words.join(" ")), text);
        }
    }
}

#[test]
fn what_a_mesh_does_not_have_says_why() {
    for (sent, part) in [
        (
            "LPUSH a 1",
            "'LPUSH' is not supported: counters are the only type here",
        ),
        (
            "hset a b 1",
            "'hset' is not supported: counters are the only type here",
        ),
        ("XADD a", "counters are the only type"),
        ("INCRBYFLOAT a 1.5", "a counter holds an integer"),
        ("APPEND a 1", "a counter holds an integer"),
        (
            "EVAL x 0",
            "a script would decide by what this replica happens to have seen",
        ),
        ("FUNCTION LOAD x", "a script"),
        ("MSETNX a 1", "known to no replica"),
        ("PUBLISH a b", "channels here tell of changed counters only"),
    ] {
        let answer = Client::new(RespConfig::default()).send(sent);
        assert!(
            (answer.starts_with("-ERR ") || answer.starts_with("-NEEDSCENTRE 'MSETNX'"))
                && answer.contains(part),
            "{answer}"
        );
    }
}

#[test]
fn strict_sessions_refuse_what_depends_on_this_nodes_view() {
    let strict = RespConfig {
        strict: true,
        ..RespConfig::default()
    };
    let mut client = Client::new(strict);
    client.send("SET a 5");
    for sent in [
        "SET a 1 NX",
        "SET a 1 XX",
        "SET a 1 GET",
        "SETNX b 1",
        "GETSET a 1",
        "GETDEL a",
        "WATCH a",
    ] {
        let answer = client.send(sent);
        assert!(
            answer.starts_with("-NEEDSCENTRE ")
                && answer.contains("refused in strict mode: it depends on what this node has seen")
                && answer.contains(". Use "),
            "{answer}"
        );
    }
    for (sent, answer) in [
        ("GET a", "$1|5|"),
        ("SET a 6 EX 5 ", "-ERR syntax error|"),
        ("SET a 6 EX 5", "+OK|"),
        ("INCR a", ":7|"),
        ("GETEX a PERSIST", "$1|7|"),
        ("MULTI", "+OK|"),
        ("GETDEL a", "+QUEUED|"),
        ("INCR a", "+QUEUED|"),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
    let answer = client.send("EXEC");
    assert!(
        answer.starts_with("*2|-NEEDSCENTRE 'getdel' takes a centre") && answer.ends_with("|:8|"),
        "{answer}"
    );
}

#[test]
fn keys_are_text_of_1_to_512_bytes() {
    let mut client = Client::new(RespConfig::default());
    let fits = "k".repeat(512);
    let long = "k".repeat(513);
    assert_eq!(client.send(&format!("INCR {fits}")), ":1|");
    assert_eq!(client.send(&format!("GET {fits}")), "$1|1|");
    for (key, text) in [
        (
            long.as_str(),
            "-ERR a key has 1 to 512 bytes, this one has 513|",
        ),
        ("''", "-ERR a key has 1 to 512 bytes, this one has 0|"),
    ] {
        for command in [
            "GET k",
            "MGET a k",
            "INCR k",
            "SET k 1",
            "DEL a k",
            "EXPIRE k 1",
            "TTL k",
            "MSET a 1 k 1",
            "WATCH k",
            "OBJECT encoding k",
        ] {
            let sent = command.replace(" k", &format!(" {key}"));
            assert_eq!(client.send(&sent), text, "{command}");
        }
    }
    let (out, _) = client.feed(b"*2\r\n$4\r\nINCR\r\n$2\r\n\xff\xfe\r\n");
    assert_eq!(
        show(&out),
        "-ERR a key is UTF-8 text of 1 to 512 bytes, and this one is not UTF-8|"
    );
    assert_eq!(client.node.replicas[0].len(), 1);
}

/// At least one refusal of each sort, and each code at least once.
fn all() -> Vec<ReplyError<'static>> {
    let name: &[u8] = b"name";
    let broken = [
        Broken::ArgCount,
        Broken::UnauthenticatedArgCount,
        Broken::ArgCountLine,
        Broken::Expected(b'x'),
        Broken::ArgLength,
        Broken::UnauthenticatedArgLength,
        Broken::ArgLengthLine,
        Broken::InlineLength,
        Broken::Quotes,
        Broken::CommandLength,
        Broken::Held,
    ];
    let whys = [
        Why::OtherType,
        Why::NotInteger,
        Why::Script,
        Why::Conditional,
        Why::Publish,
    ];
    let turned = |code| Turned {
        code,
        text: "it is worth nothing".to_owned(),
    };
    let mut all = vec![
        ReplyError::UnknownSubcommand {
            command: "client",
            name,
        },
        ReplyError::Arity("get"),
        ReplyError::SubcommandArity {
            command: "client",
            name: "id",
        },
        ReplyError::NeedsCentre {
            what: "watch",
            instead: "Use MULTI.",
        },
        ReplyError::BoundNeedsCentre("Set a limit".into()),
        ReplyError::BoundsCrossed,
        ReplyError::EnxAlone,
        ReplyError::NotIntegerOption("UBOUND"),
        ReplyError::NotInteger,
        ReplyError::NotCounterValue,
        ReplyError::Overflow,
        ReplyError::DecrementOverflow,
        ReplyError::Syntax,
        ReplyError::KeyText,
        ReplyError::ExpireTime("set"),
        ReplyError::ExpireOption(name),
        ReplyError::ExpireNx,
        ReplyError::ExpireGtLt,
        ReplyError::Core(tallymesh_core::Error::Write(
            tallymesh_core::WriteError::ClockExhausted,
        )),
        ReplyError::Operation(tallymesh_node_ground::model::OperationError::BudgetName(
            478,
        )),
        ReplyError::Quantity,
        ReplyError::Recipient(b"x"),
        ReplyError::NoAuth,
        ReplyError::HelloNoAuth,
        ReplyError::WrongPass,
        ReplyError::NoPassword,
        ReplyError::WrongTicket(turned("ticket_expired")),
        ReplyError::WrongTicket(Turned::full("it has them all".into())),
        ReplyError::TicketOver(turned("ticket_issuer")),
        ReplyError::NoPerm(Turned::forbidden("it is too little for this")),
        ReplyError::TooManyTries { wait_s: 3 },
        ReplyError::NoProto,
        ReplyError::ProtoNotInteger,
        ReplyError::HelloOption(name),
        ReplyError::ExecAbort,
        ReplyError::ExecAbortBecause(Box::new(ReplyError::Syntax)),
        ReplyError::UnknownCommand(Args::new(b"", &[])),
        ReplyError::NoMembers,
        ReplyError::LevelName(name),
        ReplyError::Unmet(Unmet {
            code: "level_not_reached",
            text: "too few members are known to hold it".to_owned(),
        }),
        ReplyError::OnceKey(256),
        ReplyError::NotOnce("get"),
        ReplyError::OnceInMulti,
        ReplyError::KeyReused,
        ReplyError::MadeWeaker,
        ReplyError::OnceTooLarge { bytes: 200_000 },
        ReplyError::Replayed("getdel"),
        ReplyError::MultiNested,
        ReplyError::ExecWithoutMulti,
        ReplyError::DiscardWithoutMulti,
        ReplyError::WatchInMulti,
        ReplyError::NotInMulti,
        ReplyError::QueueFull,
        ReplyError::WatchedFull,
        ReplyError::SubscriptionsFull,
        ReplyError::PatternLength(2000),
        ReplyError::Subscribed("get"),
        ReplyError::DbIndex,
        ReplyError::Cursor,
        ReplyError::TypeName(name),
        ReplyError::KeysTooMany,
        ReplyError::ClientName,
        ReplyError::ClientAttribute(name),
        ReplyError::NameLength(200),
        ReplyError::ClientInfoOption(name),
        ReplyError::ClientId,
        ReplyError::ClientType(name),
        ReplyError::ConfigUnknown(name),
        ReplyError::ConfigImmutable(name),
        ReplyError::FlushOff,
        ReplyError::TimeoutNotInteger,
        ReplyError::TimeoutNegative,
        ReplyError::TimeoutRange,
        ReplyError::Frequency,
        ReplyError::IdleTime,
        ReplyError::Internal("incr"),
        ReplyError::AuthTime,
        ReplyError::HeldFull {
            bytes: 7,
            sum: 9,
            who: "connections",
            limit: 8,
        },
    ];
    all.extend(broken.map(ReplyError::Protocol));
    all.extend(whys.map(|why| ReplyError::Unsupported { name, why }));
    all
}

#[test]
fn each_refusal_has_a_text_and_a_code() {
    let (mut texts, mut codes) = (Vec::new(), BTreeSet::new());
    for error in all() {
        let mut out = Vec::new();
        error.write(&mut out);
        let text = String::from_utf8(out).expect("text");
        let (prefix, rest) = text.split_once(' ').expect("a prefix");
        assert_eq!(prefix, error.prefix());
        assert!(rest.len() > 5 && !rest.contains("  "), "{text}");
        let code = error.code();
        assert!(
            code.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{code}"
        );
        texts.push(text);
        codes.insert(code);
    }
    // The table has no other code that only these clients get.
    for kind in problems::TABLE {
        let is_for_redis = kind.status.is_none() && kind.resp.is_some();
        let met = !is_for_redis || codes.contains(kind.code);
        assert!(met, "{} is met nowhere", kind.code);
    }
    let count = texts.len();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), count);
}
