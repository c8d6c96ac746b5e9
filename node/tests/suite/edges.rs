//! Files that a node leaves alone, and others on its machine that must not hold it up.

use crate::process::{DEADLINE, Node, eventually, up};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Makes a pipe with a name.
fn pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo").success());
}

#[test]
fn a_ready_file_takes_the_place_of_a_file_and_of_nothing_else() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("kept"), "kept").expect("written");
    symlink(at("kept"), at("link")).expect("linked");
    symlink(at("nowhere"), at("dangling")).expect("linked");
    pipe(&at("pipe"));
    fs::create_dir(at("folder")).expect("made");
    let _socket = UnixDatagram::bind(at("socket")).expect("a socket");
    pipe(&at("other.part"));
    for name in ["link", "dangling", "pipe", "folder", "socket", "other"] {
        let mut up = up(&at("data"));
        up.args(["--http", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"]);
        let told = up.arg("--ready-file").arg(at(name)).output().expect("run");
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert_eq!(told.status.code(), Some(1), "{name}: {text}");
        assert!(
            text.contains(name) && text.contains("is left alone"),
            "{text}"
        );
    }
    assert_eq!(fs::read_to_string(at("kept")).expect("there"), "kept");
    let kind = |name: &str| fs::symlink_metadata(at(name)).expect("there").file_type();
    assert!(kind("link").is_symlink() && kind("dangling").is_symlink());
    assert!(kind("pipe").is_fifo() && kind("other.part").is_fifo());
    assert!(kind("socket").is_socket() && kind("folder").is_dir());
}

#[test]
fn a_manager_that_reads_nothing_does_not_keep_a_node_from_stopping() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("notify");
    let _manager = UnixDatagram::bind(&path).expect("a socket");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("set");
    while filler.send_to(b"x", &path).is_ok() {}
    let ready = folder.path().join("ready");
    let mut node = up(&folder.path().join("data"))
        .args(["--http", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"])
        .arg("--ready-file")
        .arg(&ready)
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start the node");
    eventually("the node listens", || ready.exists().then_some(()));
    let sent = Command::new("kill").arg(node.id().to_string()).status();
    assert!(sent.expect("kill").success());
    let began = Instant::now();
    let ended = loop {
        if let Some(ended) = node.try_wait().expect("wait") {
            break Some(ended);
        }
        if began.elapsed() > DEADLINE {
            break None;
        }
        std::thread::yield_now();
    };
    let _ = node.kill();
    assert!(ended.expect("it stops").success());
}

/// The address of a TCP port in a multiaddress.
fn tcp(address: &str) -> Option<SocketAddr> {
    let mut parts = address.split('/').skip(2);
    let (ip, kind, port) = (parts.next()?, parts.next()?, parts.next()?);
    (kind == "tcp").then(|| format!("{ip}:{port}").parse().ok())?
}

#[test]
fn each_listener_takes_in_a_pool_while_the_node_does_not_accept() {
    let node = Node::start(&["--resp", "127.0.0.1:0"]);
    let http = node.url.trim_start_matches("http://").parse();
    let mut listeners = vec![http.expect("HTTP"), node.resp.parse().expect("Redis")];
    listeners.extend(node.listen.iter().filter_map(|it| tcp(it)));
    assert_eq!(listeners.len(), 3);
    let signal = |name: &str| {
        let pid = node.pid().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.expect("kill").success());
    };
    signal("-STOP");
    // Beyond the queue a connection is not made until somebody accepts. A timeout is the failure.
    let limit = Duration::from_secs(3);
    let mut full = Vec::new();
    let mut pool = Vec::new();
    for address in &listeners {
        for number in 0..300 {
            match TcpStream::connect_timeout(address, limit) {
                Ok(socket) => pool.push(socket),
                Err(error) => {
                    full.push((*address, number, error));
                    break;
                }
            }
        }
    }
    signal("-CONT");
    assert!(full.is_empty(), "{full:?}");
}

#[test]
fn a_pipe_in_place_of_a_file_of_addresses_holds_up_no_start() {
    let node = Node::start_on(&["--address-book=on"], |data| {
        fs::create_dir_all(data).expect("made");
        pipe(&data.join("addresses.json"));
    });
    node.add("one", 1);
    assert_eq!(node.value("one"), Some(1));
}

#[test]
fn a_folder_with_state_and_no_key_is_told_of() {
    let mut node = Node::start(&[]);
    node.add("one", 1);
    node.terminate();
    assert!(!node.log().contains("takes a new key"));
    fs::remove_file(node.data().join("identity")).expect("removed");
    node.start_again();
    node.has_logged(&["takes a new key"]);
}

/// A list looks at each counter of its space. One is made in each turn of the driver, and what takes
/// microseconds goes before.
#[test]
fn many_lists_hold_up_no_write() {
    let node = Node::start(&[]);
    let keys: String = (0..20_000).map(|at| format!("key{at}\n")).collect();
    assert!(node.run(&["add", "-"], &keys).status.success());
    let address = node.url.trim_start_matches("http://").to_owned();
    let lists: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).expect("connect");
            let path = "/v1/spaces/default/counters?limit=1";
            let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("asked");
            stream.set_nonblocking(true).expect("set");
            stream
        })
        .collect();
    let answered = || {
        let has = |stream: &&TcpStream| stream.peek(&mut [0]).is_ok();
        lists.iter().filter(has).count()
    };
    eventually("a list is answered", || (answered() > 0).then_some(()));
    node.add("one", 1);
    let before = answered();
    assert!(before < lists.len(), "it waited for all lists");
    eventually("all are answered", || {
        (answered() == lists.len()).then_some(())
    });
}
