//! A real `tallymesh up` in a folder of its own, and what tests ask it.

use serde_json::Value;
use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_node::clock::TEST_CLOCK;
use tempfile::TempDir;

/// The program that is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tallymesh");

/// How long anything that a test waits for may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A port that a node can have again after a restart, another one for each call.
///
/// The system gives out ports of a range above these by itself, to sockets that ask for any and to connections. One
/// of those could belong to another program by the time that the node is back.
fn kept_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 16_000;
    // Two runs of the suite at one time begin at different ports.
    let begin = (process::id() % 160) as u16 * 100;
    loop {
        let next = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = FIRST + next % COUNT;
        let is_free = TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free && UdpSocket::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// An address to listen at that a node can have again after a restart.
pub(crate) fn kept_address() -> String {
    format!("/ip4/127.0.0.1/tcp/{}", kept_port())
}

/// How many lines of a node's log are printed when its test fails.
const LAST_LINES: usize = 40;

/// A node in a process of its own. Dropped, it is killed.
pub(crate) struct Node {
    folder: TempDir,
    child: Option<Child>,
    program: PathBuf,
    arguments: Vec<String>,
    pub(crate) url: String,
    /// The address of the Redis protocol; empty if it is not served.
    pub(crate) resp: String,
    pub(crate) peer_id: String,
    /// TCP and QUIC, in this order, if nothing else was said.
    pub(crate) listen: Vec<String>,
}

impl Node {
    /// Starts a node with further arguments and waits until it listens.
    pub(crate) fn start(arguments: &[&str]) -> Node {
        Node::start_on(arguments, |_| ())
    }

    /// Starts a node of another program.
    pub(crate) fn start_of(program: &Path, arguments: &[&str]) -> Node {
        let mut node = Node::prepared(program, arguments);
        node.start_again();
        node
    }

    /// Starts a node on a data folder that was prepared.
    pub(crate) fn start_on(arguments: &[&str], prepare: impl FnOnce(&Path)) -> Node {
        let mut node = Node::prepared(Path::new(PROGRAM), arguments);
        prepare(&node.data());
        node.start_again();
        node
    }

    fn prepared(program: &Path, arguments: &[&str]) -> Node {
        Node {
            folder: tempfile::tempdir().expect("temporary folder"),
            child: None,
            program: program.to_owned(),
            arguments: arguments.iter().map(|&text| text.to_owned()).collect(),
            url: String::new(),
            resp: String::new(),
            peer_id: String::new(),
            listen: Vec::new(),
        }
    }

    /// Starts a node that stopped, on the same folder, by the program of now.
    pub(crate) fn start_again_now(&mut self) {
        self.program = PROGRAM.into();
        self.start_again();
    }

    /// Starts a node that stopped, on the same folder.
    pub(crate) fn start_again(&mut self) {
        let ready = self.folder.path().join("ready.json");
        // The file of the last start must not be taken for the new one's.
        let _ = fs::remove_file(&ready);
        let log = File::create(self.folder.path().join("log")).expect("log file");
        let clock = Some(self.clock()).filter(|file| file.exists());
        let child = up_of(&self.program, &self.data())
            .envs(clock.map(|file| (TEST_CLOCK, file)))
            .args(["--http", "127.0.0.1:0", "--ready-file"])
            .arg(&ready)
            .args(&self.arguments)
            .stdout(log.try_clone().expect("log file"))
            .stderr(log)
            .spawn()
            .expect("start the node");
        self.child = Some(child);
        let facts = eventually("the node listens", || {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok());
            assert!(ended.flatten().is_none(), "the node ended:\n{}", self.log());
            serde_json::from_slice::<Value>(&fs::read(&ready).ok()?).ok()
        });
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        self.url = text(&facts["http"]);
        self.resp = facts["resp"].as_str().unwrap_or_default().to_owned();
        self.peer_id = text(&facts["peer_id"]);
        let listen = facts["listen"].as_array().expect("a list");
        self.listen = listen.iter().map(text).collect();
    }

    /// Sets the arguments of the next start.
    pub(crate) fn arguments_are(&mut self, arguments: Vec<String>) {
        self.arguments = arguments;
    }

    /// Starts a node that stopped, on the same folder and with other arguments.
    pub(crate) fn start_again_with(&mut self, arguments: Vec<String>) {
        self.arguments_are(arguments);
        self.start_again();
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("the node runs").id()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The file with what its clock is ahead, if it was there when the node started.
    fn clock(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// Starts a node whose clock can be put forward.
    pub(crate) fn start_with_clock(arguments: &[&str]) -> Node {
        let mut node = Node::prepared(Path::new(PROGRAM), arguments);
        node.put_forward(Duration::ZERO);
        node.start_again();
        node
    }

    /// Has its clock be ahead by so much.
    pub(crate) fn put_forward(&mut self, ahead: Duration) {
        fs::write(self.clock(), ahead.as_millis().to_string()).expect("write");
    }

    /// Has its clock be behind by so much.
    #[cfg(unix)]
    pub(crate) fn put_back(&mut self, behind: Duration) {
        fs::write(self.clock(), format!("-{}", behind.as_millis())).expect("write");
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Waits until its log has all of these texts. A thread of its own writes the log, so it can be behind.
    pub(crate) fn has_logged(&self, texts: &[&str]) {
        eventually(&format!("{texts:?} in the log"), || {
            let log = self.log();
            texts.iter().all(|text| log.contains(text)).then_some(())
        });
    }

    /// Waits until its log has so many lines with this text.
    pub(crate) fn has_logged_often(&self, text: &str, times: usize) {
        eventually(&format!("{text:?} {times} times in the log"), || {
            (self.log().matches(text).count() >= times).then_some(())
        });
        let log = self.log();
        assert_eq!(log.matches(text).count(), times, "{log}");
    }

    /// Asks the node to stop, as a service manager does, and waits for it.
    #[cfg(unix)]
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("the node runs");
        let sent = Command::new("kill").arg(child.id().to_string()).status();
        assert!(sent.expect("kill").success());
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = child.try_wait().expect("wait for the node") {
                return status;
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                panic!("the node did not stop:\n{}", self.log());
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends the node without any warning, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill the node");
            child.wait().expect("wait for the node");
        }
    }

    /// Asks for a path: the status and the JSON that came.
    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        let request = agent().get(format!("{}{path}", self.url));
        read(self.showing(path, request).call().expect("an answer"))
    }

    /// Posts to a path: the status and the JSON that came.
    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let request = agent().post(format!("{}{path}", self.url));
        read(self.showing(path, request).send(body).expect("an answer"))
    }

    /// The operator's token.
    pub(crate) fn token(&self) -> String {
        let text = fs::read_to_string(self.data().join("token"));
        text.expect("the token").trim().to_owned()
    }

    /// A request that shows the operator's token where that is asked for, unless the node has
    /// none, as those of earlier versions.
    fn showing<B>(&self, path: &str, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        let operators = ["/v1/tickets", "/v1/adopt", "/members/", "/retire"];
        let asked = operators.iter().any(|part| path.contains(part));
        match asked && self.data().join("token").exists() {
            true => request.header("authorization", format!("Bearer {}", self.token())),
            false => request,
        }
    }

    /// Puts to a path: the status and the JSON that came.
    pub(crate) fn put(&self, path: &str, body: &str) -> (u16, Value) {
        let response = agent().put(format!("{}{path}", self.url)).send(body);
        read(response.expect("an answer"))
    }

    /// Deletes a path: the status and the JSON that came.
    pub(crate) fn delete(&self, path: &str) -> (u16, Value) {
        let request = agent().delete(format!("{}{path}", self.url));
        read(self.showing(path, request).call().expect("an answer"))
    }

    /// Adds to a counter of the default space.
    #[track_caller]
    pub(crate) fn add(&self, key: &str, by: i64) {
        let path = format!("/v1/spaces/default/counters/{key}/add");
        let (status, answer) = self.post(&path, &format!("{{\"by\":{by}}}"));
        assert_eq!(status, 200, "{answer}");
    }

    /// A counter of the default space, if it exists.
    pub(crate) fn value(&self, key: &str) -> Option<i128> {
        let (_, answer) = self.get(&format!("/v1/spaces/default/counters/{key}"));
        answer["value"]
            .as_str()
            .map(|text| text.parse().expect("a number"))
    }

    /// The status of the default space.
    pub(crate) fn space(&self) -> Value {
        self.get("/v1/status").1["spaces"][0].clone()
    }

    /// The rows of `/v1/peers`.
    pub(crate) fn peers(&self) -> Vec<Value> {
        self.get("/v1/peers").1["peers"]
            .as_array()
            .expect("a list")
            .clone()
    }

    /// Runs the command line against this node, with `input` as standard input.
    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Output {
        let file = self.folder.path().join("input");
        fs::write(&file, input).expect("write the input");
        // A ticket that is given is what is tried.
        let token = self.data().join("token");
        let token = Some(token).filter(|it| it.exists() && !arguments.contains(&"--ticket"));
        Command::new(PROGRAM)
            .args(arguments)
            .env("TALLYMESH_NODE", &self.url)
            .envs(token.map(|token| ("TALLYMESH_TOKEN_FILE", token)))
            .stdin(File::open(file).expect("open the input"))
            .output()
            .expect("run the command")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let last = log.lines().rev().take(LAST_LINES).collect::<Vec<_>>();
            let last: String = last.iter().rev().map(|line| format!("{line}\n")).collect();
            eprintln!("the last lines of the log of {}:\n{last}", self.peer_id);
        }
    }
}

/// The command `tallymesh up` on a data folder. Nodes have the links that a test gives them, and find
/// no others by themselves, unless it says so.
pub(crate) fn up(data: &Path) -> Command {
    up_of(Path::new(PROGRAM), data)
}

fn up_of(program: &Path, data: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["up", "--data"])
        .arg(data)
        .env("TALLYMESH_ADDRESS_BOOK", "off")
        .stdin(Stdio::null());
    command
}

/// An HTTP client that takes refusals for answers.
pub(crate) fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(DEADLINE));
    config.build().new_agent()
}

pub(crate) fn read(mut response: ureq::http::Response<ureq::Body>) -> (u16, Value) {
    let body = response.body_mut().read_to_string().expect("a body");
    let value = serde_json::from_str(&body).unwrap_or(Value::String(body));
    (response.status().as_u16(), value)
}

/// Waits until `probe` finds something, and fails if it takes too long.
pub(crate) fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    eventually_within(DEADLINE, what, probe)
}

/// The same, where it may take so long.
pub(crate) fn eventually_within<T>(
    most: Duration,
    what: &str,
    mut probe: impl FnMut() -> Option<T>,
) -> T {
    let deadline = Instant::now() + most;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
