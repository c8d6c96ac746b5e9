//! What an operator does with a node: lets a service manager start and stop it, asks whether it is
//! ready, reads its log, and has it looked at.

use crate::durability::add_until_refused;
use crate::process::{DEADLINE, Node, agent, eventually};
use crate::redis::Redis;
use redis_protocol::resp2::types::OwnedFrame;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a node may take to stop: what it gives to open requests, and some more.
const STOP_MAX: Duration = Duration::from_secs(10);

#[cfg(target_os = "linux")]
#[test]
fn the_service_starts_a_node_and_hears_that_it_is_ready_and_that_it_stops() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    use std::process::{Command, Stdio};
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/tallymesh.service");
    let unit = std::fs::read_to_string(unit).expect("the unit");
    let setting = |name: &str| {
        let mut lines = unit.lines().filter_map(|line| line.strip_prefix(name));
        let value = lines.next().unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(lines.next(), None, "{name} stands twice");
        value.to_owned()
    };
    assert_eq!(setting("Type="), "notify");
    let patience: u64 = setting("TimeoutStopSec=").parse().expect("seconds");
    assert!(
        patience > STOP_MAX.as_secs(),
        "it would be killed while it stops"
    );
    let variable = setting("Environment=");
    let start = setting("ExecStart=");

    let folder = tempfile::tempdir().expect("temporary folder");
    let (path, name) = (
        folder.path().join("notify"),
        folder.path().display().to_string(),
    );
    let named = SocketAddr::from_abstract_name(&name).expect("a name");
    let sockets = [
        (
            SocketAddr::from_pathname(&path).expect("a path"),
            path.display().to_string(),
        ),
        (named, format!("@{name}")),
    ];
    std::fs::write(
        folder.path().join("tallymesh.toml"),
        "http = \"127.0.0.1:0\"\n",
    )
    .expect("write");
    for (address, shown) in sockets {
        let manager = UnixDatagram::bind_addr(&address).expect("bind");
        manager.set_read_timeout(Some(DEADLINE)).expect("a limit");
        let hear = || {
            let mut said = [0; 64];
            let bytes = manager.recv(&mut said).expect("the node says something");
            String::from_utf8_lossy(&said[..bytes]).into_owned()
        };
        // As the manager would, with its folders in place of its words for them.
        let words = start.replace("%d", &name).replace("%S", &name);
        let mut words = words.split(' ').skip(1);
        let variable = variable.replace("%S", &name);
        let (key, value) = variable.split_once('=').expect("a variable");
        let mut node = Command::new(env!("CARGO_BIN_EXE_tallymesh"))
            .args(words.by_ref())
            .env(key, value)
            .env("NOTIFY_SOCKET", &shown)
            .stdout(Stdio::null())
            .spawn()
            .expect("start the node");
        assert_eq!(hear(), "READY=1", "by {shown}");
        let sent = Command::new("kill").arg(node.id().to_string()).status();
        assert!(sent.expect("kill").success());
        assert_eq!(hear(), "STOPPING=1", "by {shown}");
        assert!(node.wait().expect("wait for the node").success());
        assert!(
            folder.path().join("tallymesh/identity").exists(),
            "its data is where the unit says"
        );
    }
}

/// Opens a stream of events, which tells how it ended.
fn stream(url: &str) -> thread::JoinHandle<bool> {
    let url = format!("{url}/v1/spaces/default/events");
    let answer = agent().get(url).call().expect("a stream");
    let lines = BufReader::new(answer.into_body().into_reader()).lines();
    thread::spawn(move || lines.into_iter().all(|line| line.is_ok()))
}

#[cfg(unix)]
#[test]
fn a_stop_under_load_is_bounded_and_loses_no_acknowledged_add() {
    // With an interval most of what was acknowledged is durable only by the stop itself.
    for durability in ["always", "interval:60s"] {
        let mut node = Node::start(&["--durability", durability]);
        let url = node.url.clone();
        let sums: Vec<[AtomicI64; 2]> = (0..4).map(|_| Default::default()).collect();
        let streams = [stream(&url), stream(&url)];
        // A request that never gets to its end.
        let mut stuck = TcpStream::connect(url.trim_start_matches("http://")).expect("connect");
        let head =
            "POST /v1/spaces/default/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n";
        stuck.write_all(head.as_bytes()).expect("write");
        thread::scope(|scope| {
            for (client, sums) in sums.iter().enumerate() {
                let url = &url;
                scope.spawn(move || add_until_refused(url, client, sums));
            }
            eventually("each client adds", || {
                let adds = |sums: &[AtomicI64; 2]| sums[0].load(Ordering::SeqCst) > 100;
                sums.iter().all(adds).then_some(())
            });
            let begun = Instant::now();
            assert!(node.terminate().success(), "{}", node.log());
            let took = begun.elapsed();
            assert!(took < STOP_MAX, "it took {took:?} with {durability}");
        });
        for stream in streams {
            assert!(stream.join().expect("it ends"), "a stream was torn off");
        }
        node.start_again();
        for (client, [done, tried]) in sums.iter().enumerate() {
            let value = node.value(&format!("client-{client}")).unwrap_or(0);
            let (done, tried) = (done.load(Ordering::SeqCst), tried.load(Ordering::SeqCst));
            assert!(
                (i128::from(done)..=i128::from(tried)).contains(&value),
                "{durability}, client {client}: {done} acknowledged, {value} kept, {tried} tried"
            );
        }
    }
}

#[cfg(unix)]
#[test]
fn a_member_is_ready_once_it_has_caught_up() {
    let mut node = Node::start(&["--resp", "127.0.0.1:0"]);
    let mut other = Node::start(&["--peer", &node.listen[0]]);
    assert_eq!(
        node.get("/readyz"),
        (200, json!("ready\n")),
        "an open space waits for nobody"
    );
    assert_eq!(node.post("/v1/spaces/default/members/init", "").0, 200);
    let owner = other.get("/v1/status").1["owner"].clone();
    let body = json!({ "owner": owner, "wait_ms": 10_000 }).to_string();
    assert_eq!(node.post("/v1/spaces/default/members/add", &body).0, 200);
    let is_ready = |node: &Node| (node.get("/readyz").0 == 200).then_some(());
    eventually("both are ready", || is_ready(&node).and(is_ready(&other)));
    assert!(other.terminate().success() && node.terminate().success());
    // Alone it waits some seconds for the other one before it goes on without it.
    node.start_again();
    let (status, problem) = node.get("/readyz");
    assert_eq!((status, &problem["code"]), (503, &json!("catching_up")));
    assert_eq!(node.space()["membership"]["announced"], false);
    // Only members may do this, and it will be one: nobody is told to make a mesh.
    let add = json!({ "owner": owner, "wait_ms": 0 });
    let remove = add.to_string();
    for (path, body) in [
        ("members/remove", &*remove),
        ("budgets/gift/mint", r#"{"amount":1}"#),
        ("sequences/visits", ""),
        ("limits/login:a/allow", ""),
        (
            "transactions",
            r#"{"ops":[{"op":"add","key":"x"},{"op":"mint","key":"gift","amount":1}]}"#,
        ),
    ] {
        let (status, problem) = node.post(&format!("/v1/spaces/default/{path}"), body);
        let told = (status, problem["code"].as_str());
        assert_eq!(told, (503, Some("catching_up")), "{path}: {problem}");
    }
    let mut redis = Redis::connect(&node);
    for words in [
        ["BUDGET.MINT", "gift", "1"].as_slice(),
        &["SEQUENCE.BEGIN", "visits"],
    ] {
        let told = redis.text(words).unwrap_or_default();
        assert!(told.starts_with("TRYAGAIN "), "{words:?}: {told}");
    }
    let period = node.get("/v1/spaces/default/limits/login:a");
    assert_eq!((period.0, &period.1["code"]), (503, &json!("catching_up")));
    // Within a transaction of a Redis client, with an idempotency key and without one.
    for (execute, begins) in [
        (["EXEC"].as_slice(), "TRYAGAIN "),
        (&["ONCE", "a", "EXEC"], "EXECABORT "),
    ] {
        assert_eq!(redis.text(&["MULTI"]), Some("OK".into()));
        assert_eq!(
            redis.text(&["BUDGET.MINT", "gift", "1"]),
            Some("QUEUED".into())
        );
        let told = match redis.ask(execute) {
            OwnedFrame::Array(mut told) => told.pop(),
            told => Some(told),
        };
        let Some(OwnedFrame::Error(told)) = told else {
            panic!("{execute:?}: {told:?}");
        };
        let why = told.starts_with(begins) && told.contains("catches up");
        assert!(why, "{execute:?}: {told}");
    }
    node.add("likes", 1);
    assert_eq!(node.get("/healthz").0, 200);
    // Who waits for rights waits for that, too, and is answered as soon as it is over.
    assert_eq!(
        redis.text(&["CLIENT", "RIGHTS-WAIT", "20000"]),
        Some("OK".into())
    );
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mint = ["budget", "mint", "gift", "3", "--rights-wait", "20s"];
            let minted = node.run(&mint, "");
            assert!(minted.status.success(), "{minted:?}");
            assert!(is_ready(&node).is_some());
        });
        assert_eq!(
            redis.ask(&["BUDGET.MINT", "seats", "2"]),
            OwnedFrame::Integer(2)
        );
        waits.join().expect("it was minted");
    });
    eventually("it goes on alone", || is_ready(&node));
    assert_eq!(node.space()["membership"]["announced"], true);
}

#[cfg(unix)]
#[test]
fn a_node_that_stops_is_not_ready() {
    let mut node = Node::start(&[]);
    let address = node.url.trim_start_matches("http://").to_owned();
    let open = |head: &str| {
        let mut socket = TcpStream::connect(&address).expect("connect");
        socket.write_all(head.as_bytes()).expect("write");
        socket
    };
    // It holds the node up, and the other one is a question that is asked half.
    let stuck = open(
        "POST /v1/spaces/default/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n",
    );
    let mut half = open("GET /readyz HTTP/1.1\r\nhost: localhost\r\n");
    half.set_read_timeout(Some(DEADLINE)).expect("a limit");
    // Connections are served in the order in which they came, so both are by now.
    assert_eq!(node.get("/readyz").0, 200);
    thread::scope(|scope| {
        let ends = scope.spawn(|| node.terminate());
        eventually("nobody is let in", || TcpStream::connect(&address).err());
        half.write_all(b"\r\n").expect("write");
        let mut answer = String::new();
        let read = BufReader::new(half).read_to_string(&mut answer);
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"stopped\""),
            "{read:?}: {answer}"
        );
        drop(stuck);
        assert!(ends.join().expect("it ends").success());
    });
}

#[test]
fn a_log_is_text_or_json_in_utc() {
    let log_of = |format: &str| {
        let node = Node::start(&["--log-format", format]);
        assert_eq!(node.post("/v1/spaces/default/members/init", "").0, 200);
        let line = eventually("it is logged", || {
            let log = node.log();
            let line = log
                .lines()
                .find(|line| line.contains("the space has new members"));
            line.map(str::to_owned)
        });
        assert!(!node.log().contains('\x1b'), "a file has no colours");
        line
    };
    let text = log_of("text");
    let time = text.split_whitespace().next().expect("a time");
    assert!(
        time.ends_with('Z') && text.contains("INFO") && text.contains("space=\"default\""),
        "{text}"
    );
    let json: Value = serde_json::from_str(&log_of("json")).expect("JSON");
    assert_eq!(
        (&json["level"], &json["space"]),
        (&"INFO".into(), &"default".into())
    );
    assert!(
        json["timestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z')),
        "{json}"
    );
}

/// What the doctor says of a node: its exit code, and the severity of each code.
pub(crate) fn examined(node: &Node) -> (Option<i32>, Vec<(String, String)>) {
    let output = node.run(&["doctor", "--json"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = |line: &str| {
        let finding: Value = serde_json::from_str(line).expect("JSON");
        let text = |field: &str| finding[field].as_str().expect("text").to_owned();
        assert!(!text("detail").is_empty());
        (text("code"), text("severity"))
    };
    (output.status.code(), text.lines().map(told).collect())
}

#[test]
fn the_rules_of_upgrades_name_the_formats_that_there_are() {
    use tallymesh_core::wire::VERSION;
    use tallymesh_node::store::{FORMAT, FORMAT_MIN};
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
    let text = std::fs::read_to_string(file).expect("docs/operations.md");
    for part in [
        format!("This version reads {FORMAT_MIN} to {FORMAT} and writes {FORMAT}."),
        format!("(now {VERSION} to {VERSION})"),
    ] {
        assert!(text.contains(&part), "{part}");
    }
}

#[test]
fn the_doctor_looks_at_a_node() {
    // Of these, what this machine is decides, and not the node.
    const MACHINE: [&str; 4] = ["commits_slow", "disk", "files", "frames_dropped"];
    let is_bad = |finding: &&(String, String)| finding.1 == "warning" || finding.1 == "problem";
    let node = Node::start(&[]);
    let other = Node::start(&["--peer", &node.listen[0]]);
    node.add("likes", 1);
    let (code, findings) = examined(&node);
    assert_eq!(
        code,
        Some(findings.iter().any(|it| is_bad(&it)).into()),
        "{findings:?}"
    );
    assert!(findings.len() > 20, "{findings:?}");
    let bad = findings.iter().filter(is_bad);
    let bad: Vec<_> = bad.filter(|it| !MACHINE.contains(&it.0.as_str())).collect();
    assert!(bad.is_empty(), "{bad:?}");
    let words = node.run(&["doctor"], "");
    let words = String::from_utf8_lossy(&words.stdout).into_owned();
    assert!(
        words.contains("ok       ready            the node answers and is ready"),
        "{words}"
    );

    assert_eq!(node.post("/v1/spaces/default/members/init", "").0, 200);
    let owner = other.get("/v1/status").1["owner"].clone();
    let body = json!({ "owner": owner, "wait_ms": 10_000 }).to_string();
    assert_eq!(node.post("/v1/spaces/default/members/add", &body).0, 200);
    let url = node.url.clone();
    drop(other);
    eventually("the link is down", || node.peers().is_empty().then_some(()));
    let (code, findings) = examined(&node);
    assert_eq!(code, Some(1));
    assert!(
        findings.contains(&("links".into(), "problem".into())),
        "{findings:?}"
    );
    let words = node.run(&["doctor"], "");
    let (out, err) = (words.stdout, words.stderr);
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    assert!(
        out.contains("space default: no link is up, and there are 1 other members"),
        "{out}"
    );
    assert!(
        err.starts_with("error: ") && err.contains("problem"),
        "{err}"
    );

    drop(node);
    let gone = std::process::Command::new(env!("CARGO_BIN_EXE_tallymesh"))
        .args(["doctor", "--node", &url])
        .output()
        .expect("run");
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
}
