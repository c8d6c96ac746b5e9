//! The first bytes that common clients send.

use super::*;

const HELLO_3: &str = "%7|$6|server|$5|redis|$7|version|$5|7.4.0|$5|proto|:3|$2|id|:7|$4|mode|$10|standalone|$4|role|$6|master|$7|modules|*0|";

fn opens(sent: &[u8], answer: &str) {
    let mut client = Client::new(RespConfig::default());
    let (out, flow) = client.feed(sent);
    assert_eq!((show(&out).as_str(), flow), (answer, Flow::Open));
}

/// A session that waits for each answer before it sends more.
fn talks(config: RespConfig, talk: &[(&[u8], &str)]) {
    let mut client = Client::new(config);
    for (sent, answer) in talk {
        let (out, flow) = client.feed(sent);
        let told = String::from_utf8_lossy(sent);
        assert_eq!((show(&out).as_str(), flow), (*answer, Flow::Open), "{told}");
    }
}

/// From the sources of 9.22.0, with all that it can send first. After the two refusals it continues
/// with plain RESP3, unless it was configured to require the refused commands.
#[test]
fn go_redis() {
    let config = RespConfig {
        password: Some("secret".to_owned()),
        ..RespConfig::default()
    };
    talks(
        config,
        &[
            (
                b"*7\r\n$5\r\nhello\r\n$1\r\n3\r\n\
                  $4\r\nauth\r\n$7\r\ndefault\r\n$6\r\nsecret\r\n$7\r\nsetname\r\n$3\r\napp\r\n",
                HELLO_3,
            ),
            (
                b"*2\r\n$6\r\nselect\r\n$1\r\n1\r\n\
                  *3\r\n$6\r\nclient\r\n$7\r\nsetname\r\n$3\r\napp\r\n\
                  *3\r\n$6\r\nclient\r\n$8\r\ntracking\r\n$2\r\non\r\n",
                "+OK|+OK|-ERR unknown subcommand 'tracking'. Try CLIENT HELP.|",
            ),
            (GO_REDIS_MAINTENANCE, GO_REDIS_NO_MAINTENANCE),
            (
                b"*4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$8\r\nLIB-NAME\r\n$19\r\ngo-redis(,go1.24.1)\r\n\
                  *4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$7\r\nLIB-VER\r\n$6\r\n9.22.0\r\n",
                "+OK|+OK|",
            ),
            (b"*2\r\n$4\r\nincr\r\n$4\r\nhits\r\n", ":1|"),
        ],
    );
    // 9.17.0 by default: no password, no name, the first space.
    talks(
        RespConfig::default(),
        &[
            (b"*2\r\n$5\r\nhello\r\n$1\r\n3\r\n", HELLO_3),
            (GO_REDIS_MAINTENANCE, GO_REDIS_NO_MAINTENANCE),
            (
                b"*4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$8\r\nLIB-NAME\r\n$19\r\ngo-redis(,go1.24.1)\r\n\
                  *4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$7\r\nLIB-VER\r\n$6\r\n9.17.0\r\n",
                "+OK|+OK|",
            ),
            (
                b"*3\r\n$6\r\nincrby\r\n$4\r\nhits\r\n$1\r\n5\r\n*2\r\n$3\r\nget\r\n$4\r\nhits\r\n",
                ":5|$1|5|",
            ),
        ],
    );
}

/// For an address of the same machine or network, without TLS. All versions since 9.16 send it.
const GO_REDIS_MAINTENANCE: &[u8] = b"*5\r\n$6\r\nclient\r\n$19\r\nmaint_notifications\r\n\
    $2\r\non\r\n$20\r\nmoving-endpoint-type\r\n$11\r\ninternal-ip\r\n";
const GO_REDIS_NO_MAINTENANCE: &str =
    "-ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP.|";

/// From the sources of 9.5.0, whose connection fails if any of its second message is refused.
#[test]
fn older_go_redis() {
    talks(
        RespConfig::default(),
        &[
            (b"*2\r\n$5\r\nhello\r\n$1\r\n3\r\n", HELLO_3),
            (
                b"*2\r\n$6\r\nselect\r\n$1\r\n1\r\n\
                  *3\r\n$6\r\nclient\r\n$7\r\nsetname\r\n$3\r\napp\r\n\
                  *4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$8\r\nLIB-NAME\r\n$19\r\ngo-redis(,go1.22.1)\r\n\
                  *4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$7\r\nLIB-VER\r\n$5\r\n9.5.0\r\n",
                "+OK|+OK|+OK|+OK|",
            ),
            (b"*2\r\n$4\r\nincr\r\n$4\r\nhits\r\n", ":1|"),
        ],
    );
}

#[test]
fn node_redis() {
    opens(
        b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
          *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n5.8.0\r\n\
          *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$10\r\nnode-redis\r\n\
          *3\r\n$6\r\nINCRBY\r\n$4\r\nhits\r\n$1\r\n5\r\n",
        &format!("{HELLO_3}+OK|+OK|:5|"),
    );
}

#[test]
fn ioredis() {
    let mut client = Client::new(RespConfig::default());
    let (out, _) = client.feed(
        b"*4\r\n$6\r\nclient\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$7\r\nioredis\r\n\
          *4\r\n$6\r\nclient\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n5.8.2\r\n\
          *1\r\n$4\r\ninfo\r\n\
          *2\r\n$4\r\nincr\r\n$4\r\nhits\r\n",
    );
    let out = show(&out);
    assert!(
        out.starts_with("+OK|+OK|$") && out.ends_with("|:1|"),
        "{out}"
    );
    // It waits until a loading server has loaded, and reads the version.
    assert!(
        out.contains("|loading:0|") && out.contains("|redis_version:7.4.0|"),
        "{out}"
    );
}

#[test]
fn redis_py() {
    opens(
        b"*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$8\r\nredis-py\r\n\
          *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n6.4.0\r\n\
          *1\r\n$5\r\nMULTI\r\n*3\r\n$6\r\nINCRBY\r\n$4\r\nhits\r\n$1\r\n1\r\n\
          *3\r\n$6\r\nEXPIRE\r\n$4\r\nhits\r\n$2\r\n60\r\n*1\r\n$4\r\nEXEC\r\n",
        "+OK|+OK|+OK|+QUEUED|+QUEUED|*2|:1|:1|",
    );
}

#[test]
fn redis_cli_and_benchmark() {
    let mut client = Client::new(RespConfig::default());
    assert!(client.send("COMMAND DOCS").starts_with("*154|"));
    assert_eq!(client.send("CONFIG GET save"), "*2|$4|save|$0||");
    assert_eq!(
        client.send("CONFIG GET appendonly"),
        "*2|$10|appendonly|$2|no|"
    );
    assert_eq!(client.feed(b"PING\r\n").0, b"+PONG\r\n");
    assert_eq!(client.send("INCR counter:000000000042"), ":1|");
}

/// Captured from a connection.
#[test]
fn newer_ones_that_begin_with_resp3() {
    let unknown = "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.|";
    // node-redis 6.3.1
    opens(
        b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
          *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n6.3.1\r\n\
          *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$10\r\nnode-redis\r\n\
          *5\r\n$6\r\nCLIENT\r\n$19\r\nMAINT_NOTIFICATIONS\r\n$2\r\nON\r\n$20\r\nmoving-endpoint-type\r\n$11\r\nexternal-ip\r\n",
        &format!("{HELLO_3}+OK|+OK|{unknown}"),
    );
    // ioredis 6.0.0
    opens(
        b"*2\r\n$5\r\nhello\r\n$1\r\n3\r\n\
          *4\r\n$6\r\nclient\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n6.0.0\r\n\
          *4\r\n$6\r\nclient\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$7\r\nioredis\r\n",
        &format!("{HELLO_3}+OK|+OK|"),
    );
    // redis-py 8.1.0
    opens(
        b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
          *5\r\n$6\r\nCLIENT\r\n$19\r\nMAINT_NOTIFICATIONS\r\n$2\r\nON\r\n$20\r\nmoving-endpoint-type\r\n$13\r\ninternal-fqdn\r\n\
          *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$8\r\nredis-py\r\n\
          *4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$5\r\n8.1.0\r\n",
        &format!("{HELLO_3}{unknown}+OK|+OK|"),
    );
}
