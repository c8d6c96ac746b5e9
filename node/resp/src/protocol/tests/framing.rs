//! Bytes of every kind, in pieces of every size.

use super::*;
use crate::protocol::limits::*;

/// Commands of all sorts, as one pipeline.
fn pipeline() -> Vec<u8> {
    let mut bytes = Vec::new();
    for sent in [
        "HELLO 3",
        "INCR a",
        "foo bar",
        "SET b 5 EX 10",
        "MGET a b c",
        "MULTI",
        "INCR a",
        "DEL b",
        "EXEC",
        "SUBSCRIBE x y",
        "UNSUBSCRIBE",
        "SCAN 0 COUNT 1",
        "HELLO 2",
        "CLIENT SETINFO LIB-NAME ''",
        "GET a",
    ] {
        bytes.extend(request(sent));
    }
    bytes.extend(b"*0\r\n*-1\r\n\r\n  \nINCR a\r\nset 'b' \"7\"\nGET \"\\x62\"\r\n");
    bytes.extend(request("KEYS *"));
    bytes.extend(b"*1\r\n:5\r\n");
    bytes
}

/// Sends `bytes` in two pieces, cut at each place, and in many pieces. Returns the answer, which is
/// the same in each case.
fn in_pieces(config: &RespConfig, bytes: &[u8]) -> String {
    let (whole, flow) = Client::new(config.clone()).feed(bytes);
    assert_eq!(flow, Flow::Close);
    for cut in 0..=bytes.len() {
        let mut client = Client::new(config.clone());
        let (mut out, _) = client.feed(&bytes[..cut]);
        out.extend(client.feed(&bytes[cut..]).0);
        assert_eq!(show(&out), show(&whole), "cut at {cut}");
    }
    for size in [1, 2, 3, 7, 64] {
        let mut client = Client::new(config.clone());
        let pieces = bytes.chunks(size);
        let out: Vec<u8> = pieces.flat_map(|piece| client.feed(piece).0).collect();
        assert_eq!(show(&out), show(&whole), "pieces of {size}");
    }
    show(&whole)
}

#[test]
fn pieces_of_any_size_are_answered_as_the_whole() {
    let answer = in_pieces(&RespConfig::default(), &pipeline());
    let end = "*2|$1|a|$1|b|-ERR Protocol error: expected '$', got ':'|";
    assert!(answer.ends_with(end), "{answer}");
    let secret = RespConfig {
        password: Some("secret".to_owned()),
        ..RespConfig::default()
    };
    let mut bytes = request("AUTH secret");
    bytes.extend(request("EXISTS a b c d e f g h i j k l"));
    bytes.extend(request("RESET"));
    bytes.extend(request("INCR a"));
    bytes.extend(request("EXISTS a b c d e f g h i j k l"));
    assert_eq!(
        in_pieces(&secret, &bytes),
        "+OK|:0|+RESET|-NOAUTH Authentication required.|-ERR Protocol error: unauthenticated multibulk length|"
    );
}

#[test]
fn lines_are_split_as_in_redis() {
    for (line, answer) in [
        ("PING\r\n", "+PONG|"),
        ("PING\n", "+PONG|"),
        ("\tPING \x0b hello\r\n", "$5|hello|"),
        ("ECHO \"a b\"\r\n", "$3|a b|"),
        ("ECHO 'a b'\r\n", "$3|a b|"),
        ("ECHO 'it\\'s'\r\n", "$4|it's|"),
        ("ECHO '\\n'\r\n", "$2|\\n|"),
        ("ECHO \"\\x41\\t\\\"\\q\\xzz\"\r\n", "$7|A\t\"qxzz|"),
        ("ECHO a\"b c\"\r\n", "$4|ab c|"),
        ("ECHO ''\r\n", "$0||"),
        (
            "ECHO 'a'b\r\n",
            "-ERR Protocol error: unbalanced quotes in request|",
        ),
        (
            "ECHO \"a\r\n",
            "-ERR Protocol error: unbalanced quotes in request|",
        ),
        (
            "ECHO 'a\r\n",
            "-ERR Protocol error: unbalanced quotes in request|",
        ),
    ] {
        let (out, flow) = Client::new(RespConfig::default()).feed(line.as_bytes());
        assert_eq!(show(&out), answer, "{line:?}");
        assert_eq!(flow == Flow::Close, answer.contains("Protocol"), "{line:?}");
    }
}

#[test]
fn broken_framing_is_named_and_ends_the_session() {
    let secret = || RespConfig {
        password: Some("secret".to_owned()),
        ..RespConfig::default()
    };
    let open = RespConfig::default;
    let long_line = |first: &str| format!("{first}{}", "1".repeat(40));
    let rows: Vec<(RespConfig, String, &str)> = vec![
        (open(), "*x\r\n".into(), "invalid multibulk length"),
        (open(), "*20004\r\n".into(), "invalid multibulk length"),
        (
            open(),
            "*99999999999999999999\r\n".into(),
            "invalid multibulk length",
        ),
        (open(), long_line("*"), "too big mbulk count string"),
        (open(), "*1\r\n+PING\r\n".into(), "expected '$', got '+'"),
        (
            open(),
            "*1\r\n*1\r\n$4\r\nPING\r\n".into(),
            "expected '$', got '*'",
        ),
        (open(), "*1\r\n\r\n".into(), "expected '$', got ' '"),
        (open(), "*1\r\n$x\r\n".into(), "invalid bulk length"),
        (open(), "*1\r\n$-1\r\n".into(), "invalid bulk length"),
        (open(), "*1\r\n$1048577\r\n".into(), "invalid bulk length"),
        (
            open(),
            "*1\r\n$9223372036854775807\r\n".into(),
            "invalid bulk length",
        ),
        (
            open(),
            "*1\r\n$18446744073709551615\r\n".into(),
            "invalid bulk length",
        ),
        (
            open(),
            format!("*1\r\n{}", long_line("$")),
            "too big bulk count string",
        ),
        (
            open(),
            format!("*1\r\n{}\r\n", long_line("$")),
            "too big bulk count string",
        ),
        (
            open(),
            format!("*1\r\n${}4\r\nPING\r\n", "0".repeat(40)),
            "too big bulk count string",
        ),
        (
            open(),
            "*1\r\n$+4\r\nPING\r\n".into(),
            "invalid bulk length",
        ),
        (
            open(),
            "*1\r\n$04\r\nPING\r\n".into(),
            "invalid bulk length",
        ),
        (open(), "*1\r\n$-0\r\n\r\n".into(), "invalid bulk length"),
        (open(), "*1\r\n$4\rPING\r\n".into(), "invalid bulk length"),
        (
            open(),
            "a".repeat(INLINE_BYTES_MAX + 1),
            "too big inline request",
        ),
        (
            open(),
            "*1\r\n$04\r\nPING\r\n".into(),
            "invalid bulk length",
        ),
        (open(), "*1\r\n$-0\r\n\r\n".into(), "invalid bulk length"),
        (open(), "*1\r\n$4\rP".into(), "invalid bulk length"),
        (
            open(),
            "a".repeat(INLINE_BYTES_MAX + 1),
            "too big inline request",
        ),
        (
            open(),
            format!("{}\n", "a".repeat(INLINE_BYTES_MAX + 1)),
            "too big inline request",
        ),
        (
            secret(),
            "*11\r\n".into(),
            "unauthenticated multibulk length",
        ),
        (
            secret(),
            "*1\r\n$16385\r\n".into(),
            "unauthenticated bulk length",
        ),
        (
            secret(),
            format!("*1\r\n$16385\r\n{}\r\n", "a".repeat(16_385)),
            "unauthenticated bulk length",
        ),
    ];
    for (config, bytes, text) in rows {
        for size in [1, bytes.len()] {
            let mut client = Client::new(config.clone());
            let mut flow = Flow::Open;
            let mut out = Vec::new();
            for piece in bytes.as_bytes().chunks(size) {
                let (more, next) = client.feed(piece);
                out.extend(more);
                flow = next;
            }
            assert_eq!(
                show(&out),
                format!("-ERR Protocol error: {text}|"),
                "{bytes:.60}"
            );
            assert_eq!(flow, Flow::Close);
            assert!(client.session.heap_bytes() <= 2 * INLINE_BYTES_MAX);
        }
    }
}

#[test]
fn a_command_is_as_long_as_it_may_be_and_no_longer() {
    let arg = "v".repeat(ARG_BYTES_MAX);
    let (out, flow) = Client::new(RespConfig::default()).feed(&request(&format!("SET a {arg}")));
    assert!(show(&out).starts_with("-ERR counters hold integers") && flow == Flow::Open);
    let many = format!("EXISTS{}", " k".repeat(ARGS_MAX - 1));
    let (out, _) = Client::new(RespConfig::default()).feed(&request(&many));
    assert_eq!(show(&out), ":0|");
    // The whole request, and pieces that end before the request does.
    let long = request(&format!("EXISTS{}", format!(" {arg}").repeat(9)));
    for size in [long.len(), 100_000] {
        let mut client = Client::new(RespConfig::default());
        let mut most = 0;
        let mut last = (Vec::new(), Flow::Open);
        for piece in long.chunks(size) {
            last = client.feed(piece);
            most = most.max(client.session.heap_bytes());
            if last.1 == Flow::Close {
                break;
            }
        }
        assert_eq!(
            show(&last.0),
            "-ERR Protocol error: a command has at most 8 MiB|"
        );
        assert!(most <= 2 * HELD_BYTES_MAX, "{most}");
        assert!(client.session.heap_bytes() <= 4 * IDLE_BYTES_MAX);
    }
}

#[test]
fn a_long_command_leaves_no_memory_behind() {
    let mut client = Client::new(RespConfig::default());
    let keys: String = (0..10_000).map(|at| format!(" key{at} 1")).collect();
    for piece in request(&format!("MSET{keys}")).chunks(1000) {
        client.feed(piece);
    }
    assert_eq!(client.send("DBSIZE"), ":10000|");
    assert!(
        client.session.heap_bytes() <= 4 * IDLE_BYTES_MAX,
        "{}",
        client.session.heap_bytes()
    );
    assert_eq!(
        client.send(&format!("MSET{keys} more 1")),
        "-ERR a transaction has at most 10000 operations, this one 10001|"
    );
    let mut client = Client::new(RespConfig::default());
    let keys: String = (0..10_001).map(|at| format!(" key{at}")).collect();
    for at in 0..10_001 {
        client.node.replicas[0]
            .add(&format!("key{at}"), 1)
            .expect("room");
    }
    assert_eq!(
        client.send(&format!("DEL{keys}")),
        "-ERR a transaction has at most 10000 operations, this one 10001|"
    );
    assert_eq!(client.send("DBSIZE"), ":10001|");
}

#[test]
fn a_stream_whose_pieces_never_end_with_a_command_leaves_no_memory_behind() {
    let mut client = Client::new(RespConfig::default());
    let one = request("INCR a");
    // The length of a piece and that of a command have no common divisor.
    let count = 2_000;
    let size = count * one.len() + 1;
    let stream = one.repeat(size);
    for piece in stream.chunks(size) {
        client.feed(piece);
        assert!(client.session.heap_bytes() < 4 * size);
    }
    assert_eq!(client.node.replicas[0].value("a"), Some(size as i128));
}

#[test]
fn commands_wait_while_the_output_is_long() {
    let mut client = Client::new(RespConfig::default());
    let big = request(&format!("ECHO {}", "e".repeat(100_000)));
    let mut bytes = big.repeat(30);
    bytes.extend(request("INCR a"));
    let (mut out, mut flow) = client.feed(&bytes);
    let mut most = out.len();
    let mut total = out.len();
    while flow == Flow::Full {
        assert_eq!(client.node.replicas[0].value("a"), None);
        (out, flow) = client.feed(b"");
        most = most.max(out.len());
        total += out.len();
    }
    assert_eq!(
        (flow, show(&out[out.len() - 4..])),
        (Flow::Open, ":1|".to_owned())
    );
    assert!(most <= OUT_BYTES_PAUSE + 100_100, "{most}");
    assert_eq!(total, 30 * 100_011 + 4);
    assert!(client.session.heap_bytes() <= 4 * IDLE_BYTES_MAX);
    // A client that does not stop is disconnected.
    let mut client = Client::new(RespConfig::default());
    client.node.holders = 0;
    client.feed(&request("WAIT 1 0"));
    let mut flow = Flow::Waits;
    let mut fed = 0;
    while flow == Flow::Waits {
        (out, flow) = client.feed(&big);
        fed += big.len();
    }
    assert_eq!(
        show(&out),
        "-ERR Protocol error: more came while replies wait than is kept; read replies first|"
    );
    assert!(fed <= HELD_BYTES_MAX + 2 * big.len(), "{fed}");
}

#[test]
fn requests_that_a_page_made_a_browser_send_end_at_once() {
    for sent in [
        "POST / HTTP/1.1\r\nHost: a\r\n\r\nINCR a\r\n",
        "Host: a\r\nINCR a\r\n",
    ] {
        let mut client = Client::new(RespConfig::default());
        assert_eq!(
            client.feed(sent.as_bytes()),
            (Vec::new(), Flow::Close),
            "{sent}"
        );
        assert_eq!(client.node.replicas[0].len(), 0);
    }
}

/// Random bytes, among which bytes with a meaning are more frequent than by chance.
fn noise(state: &mut SplitMix64) -> Vec<u8> {
    const PARTS: [&[u8]; 38] = [
        b"*1\r\n",
        b"*2\r\n",
        b"*3\r\n",
        b"*-1\r\n",
        b"*20003\r\n",
        b"$0\r\n",
        b"$1\r\n",
        b"$4\r\n",
        b"$-1\r\n",
        b"$1048576\r\n",
        b"$99999999999\r\n",
        b"\r\n",
        b"\n",
        b"INCR",
        b"GET",
        b"SET",
        b"MULTI\r\n",
        b"EXEC\r\n",
        b"WATCH a\r\n",
        b"SUBSCRIBE a\r\n",
        b"HELLO 3\r\n",
        b"SCAN 0\r\n",
        b"a",
        b" ",
        b"\"",
        b"'",
        b"\\x",
        b"\xff",
        b"\0",
        b"1",
        b"-",
        b"INCR a\r\n",
        b"GET a\r\n",
        b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        b"$+1\r\n",
        b"$01\r\n",
        b"$-0\r\n",
        b"$1\r",
    ];
    let mut bytes = Vec::new();
    for _ in 0..state.next_u64() % 40 {
        match state.next_u64() % 8 {
            0 => bytes.push(state.next_u64() as u8),
            _ => bytes.extend_from_slice(PARTS[state.next_u64() as usize % PARTS.len()]),
        }
    }
    bytes
}

#[test]
fn random_bytes_neither_crash_nor_pile_up() {
    for seed in 0..seeds(20_000) {
        let mut state = SplitMix64::new(seed);
        let mut client = Client::new(RespConfig::default());
        let mut whole = Vec::new();
        let mut out = Vec::new();
        for _ in 0..4 {
            let bytes = noise(&mut state);
            whole.extend_from_slice(&bytes);
            out.extend(client.feed(&bytes).0);
        }
        assert!(client.session.heap_bytes() < 1 << 20, "seed {seed}");
        // The pieces made no difference.
        let mut other = Client::new(RespConfig::default());
        assert_eq!(show(&other.feed(&whole).0), show(&out), "seed {seed}");
    }
}

/// The scripts of the fuzz target, by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/resp");
    let files = std::fs::read_dir(folder).expect("a corpus");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), std::fs::read(&path).expect("a script"))
    };
    files.into_iter().map(read).collect()
}

#[test]
fn hostile_clients_break_nothing_and_nobody_elses_count() {
    let corpus = corpus();
    assert!(!corpus.is_empty());
    for (name, script) in &corpus {
        eprintln!("{name}");
        hostile::client(script);
    }
    for seed in 0..seeds(400) {
        let mut state = SplitMix64::new(seed);
        let mut script = corpus[state.next_u64() as usize % corpus.len()].1.clone();
        for _ in 0..1 + state.next_u64() % 6 {
            let at = state.next_u64() as usize % (script.len() + 1);
            let byte = state.next_u64() as u8;
            match state.next_u64() % 4 {
                0 => script.insert(at, byte),
                1 => script.truncate(script.len() - usize::from(byte) % 4 % (script.len() + 1)),
                2 => {
                    let other = &corpus[state.next_u64() as usize % corpus.len()].1;
                    let from = state.next_u64() as usize % (other.len() + 1);
                    script.splice(at..at, other[from..].iter().copied());
                }
                _ => script.get_mut(at).into_iter().for_each(|it| *it = byte),
            }
        }
        eprintln!("seed {seed}");
        hostile::client(&script);
    }
}

#[test]
fn pipelines_of_all_commands_are_answered_as_one_command_after_the_other() {
    for seed in 0..seeds(1_000) {
        let mut state = SplitMix64::new(seed);
        let bytes = |state: &mut SplitMix64| state.next_u64().to_le_bytes();
        let size = 1 + state.next_u64() as usize % 40;
        let script: Vec<u8> = (0..size).flat_map(|_| bytes(&mut state)).collect();
        let played = std::panic::catch_unwind(|| pipelines::pipelines(&script));
        assert!(played.is_ok(), "seed {seed}");
    }
}

/// Each command and subcommand runs from a buffer of which an earlier part, a small one, was
/// executed. It runs after two waits, and after two writes that had to reach a level.
#[test]
fn each_command_runs_from_a_buffer_that_is_partly_executed() {
    let args = |least: i8| " 1".repeat(usize::from(least.unsigned_abs()).saturating_sub(1));
    let whole = command::TABLE
        .iter()
        .map(|it| format!("{}{}", it.name, args(it.arity)));
    let subs = command::SUBS.iter().map(|sub| {
        let of = command::TABLE
            .iter()
            .find(|it| it.command == sub.of)
            .expect("a command");
        let args = args(sub.arity);
        format!(
            "{} {}{}",
            of.name,
            sub.name,
            args.get(2..).unwrap_or_default()
        )
    });
    for command in whole.chain(subs) {
        for first in ["WAIT 1 50", "INCR q"] {
            let mut client = Client::new(RespConfig::default());
            client.node.replicas[0]
                .members_mut()
                .found(&[7; 32], &[0; 16], NOW)
                .expect("a member");
            if first == "INCR q" {
                assert_eq!(client.send("CLIENT LEVEL quorum"), "+OK|");
            }
            let mut bytes = request(first).repeat(2);
            bytes.extend(request(&command));
            bytes.extend(request(&format!("ECHO {}", "behind".repeat(100))));
            let mut flow = client.feed(&bytes).1;
            let mut out = Vec::new();
            let mut ends = 0;
            while flow == Flow::Waits && ends < 10 {
                ends += 1;
                client.session.answer_wait(0, &mut out);
                client.session.answer_level(Ok(()), &mut out);
                client.session.answer_rights(0);
                let (more, then) = client.feed(b"");
                out.extend(more);
                flow = then;
            }
            assert_ne!(flow, Flow::Waits, "{command}");
            let ends = |text: &str| show(&out).ends_with(text);
            let well = flow == Flow::Close || ends("behind|") || ends("+QUEUED|");
            assert!(
                well || command.contains("subscribe"),
                "{command}: {}",
                show(&out)
            );
        }
    }
}
