//! Replicas that sync over single requests, with the core's own machine at their end.

use crate::process::{DEADLINE, Node, agent, eventually, read};
use serde_json::Value;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tallymesh_core::{Input, Link, Output, Replica, Space, SyncConfig, SyncMachine, WriterId};
use tallymesh_node::config::{Config, UpArgs};
use tallymesh_node::settings::HttpRules;
use tallymesh_node::store::Memory;

const LINK: Link = Link(0);

/// A replica at the other end of requests.
struct Client {
    url: String,
    replica: Replica,
    sync: SyncMachine,
    session: Option<String>,
    /// In how many milliseconds it says that it comes again.
    again_ms: Option<u64>,
    started: Instant,
}

impl Client {
    fn new(url: &str, writer: u8) -> Client {
        let space = Space::default();
        let writer = WriterId::mint(&space, &[9; 32], &[writer; 16]);
        let mut client = Client {
            url: url.to_owned(),
            replica: Replica::new(space, writer),
            sync: SyncMachine::new(SyncConfig::default(), 9),
            session: None,
            again_ms: None,
            started: Instant::now(),
        };
        client.begin();
        client
    }

    /// Begins another link.
    fn begin(&mut self) {
        self.session = None;
        self.input(Input::Disconnected { link: LINK });
        self.input(Input::Connected {
            link: LINK,
            broadcast: false,
        });
    }

    fn input(&mut self, input: Input<'_>) {
        let now = u64::try_from(self.started.elapsed().as_millis()).expect("short");
        self.sync.handle(now, &mut self.replica, input);
    }

    /// Sends what there is to send and takes what comes: the code of the refusal, if it is refused.
    fn exchange(&mut self, wait_ms: u64) -> Result<usize, String> {
        self.input(Input::Tick);
        let mut frames = Vec::new();
        while let Some(output) = self.sync.poll() {
            if let Output::Send { bytes, .. } = output {
                frames.push(bytes.to_vec());
            }
        }
        let answer = self.send(wait_ms, &body(&frames))?;
        let count = answer.len();
        for frame in answer {
            self.input(Input::Frame {
                link: LINK,
                bytes: &frame,
            });
        }
        Ok(count)
    }

    fn send(&mut self, wait_ms: u64, body: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut url = format!("{}/v1/spaces/default/sync?wait_ms={wait_ms}", self.url);
        if let Some(again_ms) = self.again_ms {
            url += &format!("&again_ms={again_ms}");
        }
        let mut request = agent().post(url);
        if let Some(session) = &self.session {
            request = request.header("tallymesh-session", session);
        }
        let mut response = request.send(body).expect("an answer");
        let bytes = response.body_mut().read_to_vec().expect("a body");
        if response.status() != 200 {
            let problem: Value = serde_json::from_slice(&bytes).expect("a problem");
            return Err(problem["code"].as_str().expect("a code").to_owned());
        }
        let session = response.headers().get("tallymesh-session").expect("a name");
        self.session = Some(session.to_str().expect("text").to_owned());
        Ok(frames(&bytes))
    }

    /// Exchanges frames until `done`.
    fn run_until(&mut self, done: impl Fn(&Replica) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !done(&self.replica) {
            assert!(Instant::now() < until, "the replica never got there");
            self.exchange(20).expect("an exchange");
        }
    }
}

fn body(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut body = Vec::new();
    for frame in frames {
        let length = u32::try_from(frame.len()).expect("short");
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(frame);
    }
    body
}

fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        frames.push(frame.to_vec());
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a length");
    frames
}

#[test]
fn a_client_without_a_socket_and_a_node_converge_both_ways() {
    let node = Node::start(&[]);
    // So many that they come in several frames and answers.
    let lines: String = (0..50_000).map(|n| format!("counter-{n} {n}\n")).collect();
    assert_eq!(node.post("/v1/spaces/default/add", &lines).0, 200);
    node.add("likes", 5);
    let mut client = Client::new(&node.url, 1);
    client.run_until(|replica| {
        replica.value("likes") == Some(5) && replica.value("counter-49999") == Some(49_999)
    });
    assert_eq!(client.replica.len(), 50_001);
    client.replica.add("likes", 2).expect("add");
    client.input(Input::Changed);
    node.add("views", 1);
    client.run_until(|replica| replica.value("views") == Some(1));
    client.run_until(|_| node.value("likes") == Some(7));
    let mut other = Client::new(&node.url, 2);
    other.run_until(|replica| replica.value("likes") == Some(7));
    let peers = node.peers();
    assert_eq!(peers.len(), 2, "{peers:?}");
    assert!(peers.iter().all(|row| row["kind"] == "post"), "{peers:?}");
    // All that each holds is the same.
    client.run_until(|replica| {
        let digest: String = replica
            .digest()
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect();
        node.space()["digest"] == digest.as_str()
    });
}

#[test]
fn a_request_may_wait_for_a_frame() {
    let node = Node::start(&[]);
    let mut client = Client::new(&node.url, 1);
    client.run_until(|_| node.peers().iter().any(|row| row["state"] == "ready"));
    while client.exchange(50).expect("an exchange") > 0 {}
    // Without a frame the answer comes at the end of the wait.
    for _ in 0..3 {
        let begun = Instant::now();
        if client.exchange(100).expect("an exchange") == 0 {
            assert!(begun.elapsed() >= Duration::from_millis(100));
        }
    }
    // With one it comes at once, whether the counter is added to before the request or while it waits.
    let begun = Instant::now();
    for value in 1..=20 {
        let asks = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                asks.wait();
                node.add("likes", 1);
            });
            asks.wait();
            while client.replica.value("likes") != Some(value) {
                client.exchange(20_000).expect("an exchange");
            }
        });
    }
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "it waited to the end"
    );
}

#[test]
fn what_is_wrong_on_such_a_link_is_refused() {
    let node = Node::start(&["--space", "default", "other"]);
    let mut client = Client::new(&node.url, 1);
    client.exchange(0).expect("an exchange");
    let mut wrong = Client::new(&node.url, 2);
    assert_eq!(wrong.send(0, &[0, 0, 0]), Err("sync_frames".into()));
    // A frame that is none ends its link and no other.
    wrong.send(0, &[]).expect("an exchange");
    let refused = eventually("the refusal", || {
        wrong.send(1_000, &body(&[vec![1; 9]])).err()
    });
    assert_eq!(refused, "not_a_frame");
    assert_eq!(wrong.send(0, &[]), Err("sync_session".into()));
    wrong.session = Some("0".repeat(32));
    assert_eq!(wrong.send(0, &[]), Err("sync_session".into()));
    let elsewhere = agent()
        .post(format!("{}/v1/spaces/other/sync", node.url))
        .header(
            "tallymesh-session",
            client.session.as_deref().expect("a name"),
        )
        .send(&[])
        .expect("an answer");
    assert_eq!(elsewhere.status(), 404, "a link is one space's");
    client.exchange(0).expect("the other link goes on");
    assert_eq!(node.get("/v1/spaces/default/sync").1["code"], "websocket");
}

#[test]
fn a_cut_node_ends_such_links_and_takes_none() {
    let node = Node::start(&["--demo"]);
    let mut client = Client::new(&node.url, 1);
    client.run_until(|_| node.peers().len() == 1);
    assert_eq!(node.post("/v1/demo/cut", r#"{"cut":true}"#).0, 200);
    assert!(node.peers().is_empty());
    assert_eq!(client.exchange(0), Err("cut".into()));
    node.add("likes", 1);
    assert_eq!(node.post("/v1/demo/cut", r#"{"cut":false}"#).0, 200);
    assert_eq!(client.exchange(0), Err("sync_session".into()));
    client.begin();
    client.run_until(|replica| replica.value("likes") == Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_ends_when_nothing_is_heard_of_it() {
    let args = UpArgs {
        data: Some("unused".into()),
        http: Some("127.0.0.1:0".into()),
        ..UpArgs::default()
    };
    let config = Config {
        http_rules: HttpRules {
            sync_idle: Duration::from_millis(100),
            ..HttpRules::default()
        },
        ..args.config().expect("a valid configuration")
    };
    let node = tallymesh_node::node::Node::start_on(Box::new(Memory::default()), config).await;
    let node = node.expect("start");
    let url = format!("http://{}", node.http());
    let ended = tokio::task::spawn_blocking(move || {
        let mut client = Client::new(&url, 1);
        client.exchange(0).expect("an exchange");
        assert!(client.session.is_some());
        eventually("the link ends", || {
            let peers = agent().get(format!("{url}/v1/peers")).call();
            let (_, answer) = read(peers.expect("an answer"));
            (answer["peers"].as_array()?.is_empty()).then_some(())
        });
        assert_eq!(client.exchange(0), Err("sync_session".into()));
    });
    ended.await.expect("the client");
    let stop = async {};
    node.run(stop).await.expect("stop");
}

#[test]
fn a_link_ends_soon_if_its_client_does_not_come_when_it_said() {
    let node = Node::start(&[]);
    let [mut gone, mut patient] = [1, 2].map(|writer| Client::new(&node.url, writer));
    gone.again_ms = Some(0);
    patient.again_ms = Some(u64::MAX);
    for client in [&mut gone, &mut patient] {
        client.exchange(0).expect("an exchange");
    }
    eventually("one link ends", || (node.peers().len() == 1).then_some(()));
    assert_eq!(gone.exchange(0), Err("sync_session".into()));
    patient.exchange(0).expect("its link");
}
