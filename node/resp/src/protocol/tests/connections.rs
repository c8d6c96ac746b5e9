//! Each command about connections and the node, and its answer.

use super::*;

#[test]
fn connections_answer_about_themselves() {
    play(
        &RespConfig::default(),
        &[
            ("PING", "+PONG|", ""),
            ("PING hello", "$5|hello|", ""),
            (
                "PING a b",
                "-ERR wrong number of arguments for 'ping' command|",
                "",
            ),
            ("ECHO hello", "$5|hello|", ""),
            (
                "ECHO",
                "-ERR wrong number of arguments for 'echo' command|",
                "",
            ),
            ("CLIENT ID", ":7|", ""),
            ("CLIENT GETNAME", "$-1|", "_|"),
            ("CLIENT SETNAME app", "+OK|", ""),
            ("CLIENT GETNAME", "$3|app|", ""),
            ("CLIENT SETNAME ''", "+OK|", ""),
            ("CLIENT GETNAME", "$-1|", "_|"),
            (
                "CLIENT SETNAME é",
                "-ERR Client names cannot contain spaces, newlines or special characters.|",
                "",
            ),
            ("CLIENT SETINFO LIB-NAME redis-py", "+OK|", ""),
            ("CLIENT SETINFO lib-ver 5.0", "+OK|", ""),
            (
                "CLIENT SETINFO lib-ver é",
                "-ERR lib-ver cannot contain spaces, newlines or special characters.|",
                "",
            ),
            (
                "CLIENT SETINFO foo x",
                "-ERR Unrecognized option 'foo'|",
                "",
            ),
            ("CLIENT NO-EVICT ON", "+OK|", ""),
            ("CLIENT NO-EVICT maybe", "-ERR syntax error|", ""),
            (
                "CLIENT",
                "-ERR wrong number of arguments for 'client' command|",
                "",
            ),
            (
                "CLIENT SETNAME",
                "-ERR wrong number of arguments for 'client|setname' command|",
                "",
            ),
            (
                "CLIENT MAINT_NOTIFICATIONS handshake on",
                "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.|",
                "",
            ),
            (
                "CLIENT LIST TYPE foo",
                "-ERR Unknown client type 'foo'|",
                "",
            ),
            ("CLIENT LIST ID x", "-ERR Invalid client ID|", ""),
            ("CLIENT LIST TYPE", "-ERR syntax error|", ""),
            (
                "CLIENT LIST ID 3",
                "$30|id=3 addr=127.0.0.1:3 flags=P\n|",
                "=34|txt:id=3 addr=127.0.0.1:3 flags=P\n|",
            ),
            (
                "CLIENT LIST TYPE pubsub",
                "$30|id=3 addr=127.0.0.1:3 flags=P\n|",
                "=34|txt:id=3 addr=127.0.0.1:3 flags=P\n|",
            ),
            ("CLIENT LIST TYPE master", "$0||", "=4|txt:|"),
            ("SET a 5", "+OK|", ""),
            ("SELECT 1", "+OK|", ""),
            ("RESET", "+RESET|", ""),
            ("GET a", "$1|5|", ""),
            // RESP2 from here on.
            ("GET nothing", "$-1|", ""),
        ],
    );
}

#[test]
fn a_connection_is_described_in_one_line() {
    let mut client = Client::new(RespConfig::default());
    client.send("CLIENT SETNAME app");
    client.send("CLIENT SETINFO LIB-NAME lib");
    client.send("INCR a");
    client.send("WATCH a b");
    let line = client.send("CLIENT INFO");
    for part in [
        "id=7 addr=127.0.0.1:7 laddr=127.0.0.1:6379 fd=-1 name=app age=3 idle=0 flags=N db=0 sub=0",
        " multi=-1 watch=2 ",
        " cmd=client user=default ",
        " resp=2 lib-name=lib lib-ver=\n",
    ] {
        assert!(line.contains(part), "{line}");
    }
    let list = client.send("CLIENT LIST");
    assert!(list.contains("id=3 ") && list.contains("id=7 "), "{list}");
    assert!(!client.send("CLIENT LIST TYPE normal").contains("id=3"));
}

#[test]
fn hello_agrees_on_a_version() {
    let two = "*14|$6|server|$5|redis|$7|version|$5|7.4.0|$5|proto|:2|$2|id|:7|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|";
    let three = "%7|$6|server|$5|redis|$7|version|$5|7.4.0|$5|proto|:3|$2|id|:7|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|";
    let mut client = Client::new(RespConfig::default());
    for (sent, answer) in [
        ("HELLO", two),
        ("HELLO 3", three),
        ("GET nothing", "_|"),
        ("HELLO", three),
        ("HELLO 4", "-NOPROTO unsupported protocol version|"),
        (
            "HELLO x",
            "-ERR Protocol version is not an integer or out of range|",
        ),
        ("HELLO 3 FOO", "-ERR Syntax error in HELLO option 'FOO'|"),
        (
            "HELLO 3 AUTH default",
            "-ERR Syntax error in HELLO option 'AUTH'|",
        ),
        (
            "HELLO 3 SETNAME é",
            "-ERR Client names cannot contain spaces, newlines or special characters.|",
        ),
        ("HELLO 2 SETNAME app AUTH default any", two),
        ("CLIENT GETNAME", "$3|app|"),
        (
            "HELLO 2 AUTH somebody any",
            "-WRONGPASS invalid username-password pair or user is disabled.|",
        ),
        ("GET nothing", "$-1|"),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
}

#[test]
fn a_password_is_asked_for() {
    let config = RespConfig {
        password: Some("secret".to_owned()),
        ..RespConfig::default()
    };
    let no_auth = "-NOAUTH Authentication required.|";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.|";
    let mut client = Client::new(config);
    for (sent, answer) in [
        ("GET a", no_auth),
        ("INCR a", no_auth),
        ("MULTI", no_auth),
        ("PING", no_auth),
        ("GET", "-ERR wrong number of arguments for 'get' command|"),
        (
            "HELLO 3",
            "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time|",
        ),
        ("AUTH wrong", wrong),
        ("AUTH secre", wrong),
        ("AUTH default wrong", wrong),
        ("AUTH somebody secret", wrong),
        ("AUTH a b c", "-ERR syntax error|"),
        ("GET a", no_auth),
        ("AUTH secret", "+OK|"),
        ("INCR a", ":1|"),
        ("RESET", "+RESET|"),
        ("INCR a", no_auth),
        ("AUTH default secret", "+OK|"),
        ("INCR a", ":2|"),
        ("RESET", "+RESET|"),
        ("HELLO 3 AUTH default wrong", wrong),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
    assert!(
        client
            .send("HELLO 3 AUTH default secret")
            .starts_with("%7|")
    );
    assert_eq!(client.send("GET a"), "$1|2|");
    play_same(&[(
        "AUTH secret",
        "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?|",
    )]);
}

#[test]
fn the_node_answers_about_itself() {
    let mut client = Client::new(RespConfig {
        parameters: vec![("appendonly".to_owned(), "yes".to_owned())],
        ..RespConfig::default()
    });
    client.send("SET a 1 EX 10");
    let info = client.send("INFO");
    for part in [
        "# Server|redis_version:7.4.0|",
        "|tallymesh_version:0.1.0|",
        "|tcp_port:6379|",
        "||# Clients|connected_clients:2|",
        "||# Tallymesh|db0_space:first|db1_space:second|",
        "||# Keyspace|db0:keys=1,expires=1,avg_ttl=0|",
    ] {
        assert!(info.contains(part), "{info}");
    }
    let keyspace = client.send("INFO keyspace");
    assert_eq!(keyspace, "$44|# Keyspace|db0:keys=1,expires=1,avg_ttl=0||");
    for (sent, answer) in [
        ("CONFIG GET save", "*2|$4|save|$0||"),
        ("CONFIG GET appendonly", "*2|$10|appendonly|$3|yes|"),
        ("CONFIG GET nothing", "*0|"),
        (
            "CONFIG GET maxmemory* SAVE",
            "*6|$9|maxmemory|$1|0|$16|maxmemory-policy|$10|noeviction|$4|save|$0||",
        ),
        (
            "CONFIG GET",
            "-ERR wrong number of arguments for 'config|get' command|",
        ),
        ("CONFIG SET notify-keyspace-events KEA", "+OK|"),
        (
            "CONFIG SET notify-keyspace-events KQ",
            "-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - can't set immutable config|",
        ),
        (
            "CONFIG SET notify-keyspace-events ''",
            "-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - can't set immutable config|",
        ),
        ("CONFIG SET appendonly yes", "+OK|"),
        (
            "CONFIG SET appendonly no",
            "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - can't set immutable config|",
        ),
        (
            "CONFIG SET foo 1",
            "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'|",
        ),
        ("CONFIG SET save '' timeout", "-ERR syntax error|"),
        (
            "CONFIG REWRITE",
            "-ERR unknown subcommand 'REWRITE'. Try CONFIG HELP.|",
        ),
        ("COMMAND COUNT", ":77|"),
        ("TIME", "*2|$4|1000|$1|0|"),
        (
            "CONFIG HELP",
            "*4|+CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:|+GET|+HELP|+SET|",
        ),
        (
            "COMMAND FOO",
            "-ERR unknown subcommand 'FOO'. Try COMMAND HELP.|",
        ),
        ("COMMAND INFO foo", "*1|$-1|"),
        (
            "COMMAND INFO get",
            "*1|*10|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*1|+@string|*0|*0|*0|",
        ),
        ("COMMAND DOCS foo", "*0|"),
        (
            "COMMAND DOCS get foo",
            "*2|$3|get|*4|$7|summary|$38|Reads a counter, as this node sees it.|$5|group|$6|string|",
        ),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
    assert!(client.send("COMMAND").starts_with("*77|*10|$4|auth|:-2|"));
    assert!(
        client
            .send("COMMAND DOCS")
            .starts_with("*154|$4|auth|*4|$7|summary|")
    );
    client.send("HELLO 3");
    assert_eq!(
        client.send("COMMAND INFO get foo"),
        "*2|*10|$3|get|:2|~2|+readonly|+fast|:1|:1|:1|~1|+@string|*0|*0|*0|_|"
    );
    assert_eq!(client.send("CONFIG GET save"), "%1|$4|save|$0||");
    assert!(client.send("INFO").starts_with("="));
}

#[test]
fn waiting_counts_members_that_hold_what_was_written() {
    let mut client = Client::new(RespConfig::default());
    assert_eq!(client.send("WAIT 0 0"), ":0|");
    assert!(client.node.asked.is_empty());
    client.send("INCR a");
    client.send("MSET a 1 b 2");
    client.send("SELECT 1");
    client.send("INCR a");
    client.node.holders = 1;
    assert_eq!(client.send("WAIT 1 0"), ":1|");
    let asked: Vec<(usize, u64)> = client
        .node
        .asked
        .iter()
        .map(|it| (it.space, it.clock))
        .collect();
    assert_eq!(asked, [(0, 2), (1, 1)]);
    assert_eq!(
        client.node.asked[0].writer,
        client.node.replicas[0].writer()
    );
    for (sent, answer) in [
        ("WAIT -1 0", ":1|"),
        ("WAIT x 0", "-ERR value is not an integer or out of range|"),
        (
            "WAIT 1 x",
            "-ERR timeout is not an integer or out of range|",
        ),
        ("WAIT 1 -1", "-ERR timeout is negative|"),
        (
            "WAIT 1 9223372036854775807",
            "-ERR timeout is out of range|",
        ),
    ] {
        assert_eq!(client.send(sent), answer, "{sent}");
    }
    let mut bytes = request("WAIT 2 500");
    bytes.extend(request("INCR a"));
    let (out, flow) = client.feed(&bytes);
    assert_eq!((show(&out), flow), (String::new(), Flow::Waits));
    let wait = Wait::Holders {
        members: 2,
        timeout_ms: Some(500),
    };
    assert_eq!(client.session.wait(), Some(wait));
    // No command is executed meanwhile.
    assert_eq!(client.feed(&request("INCR a")), (Vec::new(), Flow::Waits));
    let mut out = Vec::new();
    client.session.answer_wait(1, &mut out);
    assert_eq!(show(&out), ":1|");
    let (out, flow) = client.feed(b"");
    assert_eq!((show(&out), flow), (":2|:3|".to_owned(), Flow::Open));
    // A protocol error is reported in its turn, after the earlier replies.
    let (out, flow) = client.feed(b"PING\r\nWAIT 2 0\r\n*x\r\n");
    assert_eq!((show(&out), flow), ("+PONG|".to_owned(), Flow::Waits));
    let wait = Wait::Holders {
        members: 2,
        timeout_ms: None,
    };
    assert_eq!(client.session.wait(), Some(wait));
    client.session.answer_wait(2, &mut Vec::new());
    let (out, flow) = client.feed(b"");
    let broken = "-ERR Protocol error: invalid multibulk length|";
    assert_eq!((show(&out).as_str(), flow), (broken, Flow::Close));
}

#[test]
fn a_connection_ends_when_asked() {
    let mut client = Client::new(RespConfig::default());
    let mut bytes = request("QUIT");
    bytes.extend(request("INCR a"));
    let (out, flow) = client.feed(&bytes);
    assert_eq!((show(&out), flow), ("+OK|".to_owned(), Flow::Close));
    assert_eq!(client.feed(&request("INCR a")), (Vec::new(), Flow::Close));
    assert_eq!(client.node.replicas[0].value("a"), None);
}
