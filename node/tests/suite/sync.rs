//! A client that syncs over WebSocket, with the core's own machine at its end.

use crate::network::figure;
use crate::process::{DEADLINE, Node, eventually};
use futures::{SinkExt, StreamExt};
use tallymesh_core::wire::{Body, Frame, Pull};
use tallymesh_core::{
    Input, Link, Output, Replica, Space, SyncConfig, SyncMachine, VersionVector, WriterId,
};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async, connect_async_with_config,
};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

const LINK: Link = Link(0);

fn url(node: &Node) -> String {
    format!(
        "{}/v1/spaces/default/sync",
        node.url.replace("http:", "ws:")
    )
}

/// A replica at the other end of a socket.
struct Client {
    replica: Replica,
    sync: SyncMachine,
    socket: Socket,
    started: Instant,
}

impl Client {
    async fn connect(node: &Node) -> Client {
        Client::connect_as(node, 9).await
    }

    /// Connects as the writer of this number.
    async fn connect_as(node: &Node, writer: u8) -> Client {
        let (socket, _) = connect_async(url(node)).await.expect("connect");
        Client::on(socket, writer)
    }

    fn on(socket: Socket, writer: u8) -> Client {
        let space = Space::default();
        let writer = WriterId::mint(&space, &[9; 32], &[writer; 16]);
        let mut client = Client {
            replica: Replica::new(space, writer),
            sync: SyncMachine::new(SyncConfig::default(), 9),
            socket,
            started: Instant::now(),
        };
        client.input(Input::Connected {
            link: LINK,
            broadcast: false,
        });
        client
    }

    fn input(&mut self, input: Input<'_>) {
        let now = u64::try_from(self.started.elapsed().as_millis()).expect("short");
        self.sync.handle(now, &mut self.replica, input);
    }

    /// Exchanges frames until `done`.
    async fn run_until(&mut self, done: impl Fn(&Replica) -> bool) {
        let until = Instant::now() + DEADLINE;
        while !done(&self.replica) {
            assert!(Instant::now() < until, "the replica never got there");
            self.input(Input::Tick);
            while let Some(output) = self.sync.poll() {
                if let Output::Send { bytes, .. } = output {
                    let sent = self
                        .socket
                        .send(Message::Binary(bytes.to_vec().into()))
                        .await;
                    sent.expect("send");
                }
            }
            let wait = std::time::Duration::from_millis(5);
            if let Ok(message) = timeout(wait, self.socket.next()).await {
                let message = message.expect("open").expect("a message");
                if let Message::Binary(bytes) = message {
                    self.input(Input::Frame {
                        link: LINK,
                        bytes: &bytes,
                    });
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_and_a_node_converge_both_ways() {
    let node = Node::start(&[]);
    node.add("likes", 5);
    let mut client = Client::connect(&node).await;
    client
        .run_until(|replica| replica.value("likes") == Some(5))
        .await;
    client.replica.add("likes", 2).expect("add");
    client.input(Input::Changed);
    client.input(Input::Tick);
    node.add("views", 1);
    client
        .run_until(|replica| replica.value("views") == Some(1))
        .await;
    client.run_until(|_| node.value("likes") == Some(7)).await;
    let peers = node.peers();
    assert_eq!(peers.len(), 1);
    assert_eq!(peers[0]["kind"], "websocket");
    assert_eq!(peers[0]["state"], "ready");
    client.socket.close(None).await.expect("close");
    eventually("the link ends", || node.peers().is_empty().then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_frame_closes_the_socket_and_nothing_else() {
    let node = Node::start(&[]);
    let mut good = Client::connect(&node).await;
    for message in [
        Message::Binary(vec![1, 2, 3].into()),
        Message::Text("hello".into()),
    ] {
        let (mut socket, _) = connect_async(url(&node)).await.expect("connect");
        socket.send(message).await.expect("send");
        let closed = timeout(DEADLINE, async {
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Close(frame) = message {
                    return frame.map(|frame| u16::from(frame.code));
                }
            }
            None
        });
        let code = closed.await.expect("in time").expect("a close code");
        assert!([4000, 1003].contains(&code), "{code}");
    }
    node.add("likes", 3);
    good.run_until(|replica| replica.value("likes") == Some(3))
        .await;
}

/// A socket that is dropped with bytes unread is reset, and a client whose next write fails never reads
/// why: the node reads on until the client has closed its side.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_on_sending_is_told_why_its_socket_was_closed() {
    let node = Node::start(&[]);
    for _ in 0..20 {
        let (socket, _) = connect_async(url(&node)).await.expect("connect");
        let (mut write, mut read) = socket.split();
        let sent = write.send(Message::Binary(vec![1, 2, 3].into())).await;
        sent.expect("send");
        // Until the node has closed its side; each of these is written, whatever has been read.
        let sending = async {
            while write
                .send(Message::Binary(vec![0; 64].into()))
                .await
                .is_ok()
            {
                tokio::task::yield_now().await;
            }
        };
        let reading = async {
            while let Some(Ok(message)) = read.next().await {
                if let Message::Close(frame) = message {
                    return frame.map(|frame| u16::from(frame.code));
                }
            }
            None
        };
        let (_, code) = timeout(DEADLINE, async { tokio::join!(sending, reading) })
            .await
            .expect("in time");
        assert_eq!(code, Some(4000));
    }
}

/// A socket keeps as much memory as its largest write took.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_message_comes_in_small_fragments() {
    let node = Node::start(&[]);
    let adds: String = (0..2_000).map(|key| format!("likes-{key}\n")).collect();
    assert_eq!(node.post("/v1/spaces/default/add", &adds).0, 200);
    let small = WebSocketConfig::default().max_frame_size(Some(4 << 10));
    let connected = connect_async_with_config(url(&node), Some(small), false).await;
    let mut client = Client::on(connected.expect("connect").0, 9);
    client
        .run_until(|replica| replica.value("likes-1999") == Some(1))
        .await;
}

/// Frames that find no room are dropped. Before, 64 of the largest ones waited for each client.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_ask_and_do_not_read_take_a_bounded_part_of_memory() {
    const CLIENTS: u8 = 8;
    let node = Node::start(&[]);
    let name = "long".repeat(50);
    for part in 0..4 {
        let adds: String = (0..5_000)
            .map(|key| format!("{part}-{key}-{name}\n"))
            .collect();
        assert_eq!(node.post("/v1/spaces/default/add", &adds).0, 200);
    }
    let pull = |id| Frame {
        space: Space::default(),
        body: Body::Pull(Pull {
            id,
            chunk: 0,
            vector: VersionVector::default(),
        }),
    };
    let (mut late, mut deaf) = (Client::connect_as(&node, 101).await, Vec::new());
    for writer in 0..CLIENTS {
        let mut client = Client::connect_as(&node, writer).await;
        let mut frames = Vec::new();
        while let Some(output) = client.sync.poll() {
            if let Output::Send { bytes, .. } = output {
                frames.push(bytes.to_vec());
            }
        }
        for bytes in frames {
            let sent = client.socket.send(Message::Binary(bytes.into())).await;
            sent.expect("send");
        }
        deaf.push(client);
    }
    let figure = |name| figure(&node.url, name);
    let most = f64::from(CLIENTS) * f64::from(1 << 20);
    let (mut id, until) = (0, Instant::now() + DEADLINE);
    // The system takes some megabytes for each socket.
    while figure("tallymesh_frames_dropped_total ") == 0.0 {
        assert!(Instant::now() < until, "all of them have room");
        for _ in 0..16 {
            id += 1;
            for client in &mut deaf {
                let sent = Message::Binary(pull(id).encode().into());
                client.socket.send(sent).await.expect("send");
            }
        }
        let bytes = figure("tallymesh_bytes_in_flight ");
        assert!(bytes <= most, "{bytes}");
    }
    // Others go on, also one that has not read so far.
    node.add("likes", 5);
    let mut client = Client::connect_as(&node, 100).await;
    for client in [&mut client, &mut late] {
        client
            .run_until(|replica| replica.value("likes") == Some(5))
            .await;
    }
    drop((deaf, client, late));
    eventually("nothing is in flight", || {
        (figure("tallymesh_bytes_in_flight ") == 0.0).then_some(())
    });
}

/// What a node says that refuses a socket: it accepts it, and closes it with a reason.
async fn refused(request: Request) -> String {
    let (mut socket, _) = connect_async(request).await.expect("a socket");
    let first = timeout(DEADLINE, socket.next()).await.expect("in time");
    match first {
        Some(Ok(Message::Close(Some(frame)))) => {
            assert_eq!(u16::from(frame.code), 4000);
            frame.reason.to_string()
        }
        other => panic!("no close: {other:?}"),
    }
}

/// A browser shows a page no status of a refused socket, but the reason of a close.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_socket_says_why() {
    let node = Node::start(&["--demo"]);
    let at = |path: &str| {
        let url = format!("{}{path}", node.url.replace("http:", "ws:"));
        url.into_client_request().expect("request")
    };
    let reason = refused(at("/v1/spaces/shop/sync")).await;
    assert!(
        reason.starts_with("space_not_open: ") && reason.contains("shop"),
        "{reason}"
    );
    // The whole sentence has more bytes than a reason may have.
    let long = "x".repeat(64);
    let reason = refused(at(&format!("/v1/spaces/{long}/sync"))).await;
    let short =
        "space_not_open: The space is not open at this node. Start the node with `--space`.";
    assert_eq!(reason, short);
    let mut other = at("/v1/spaces/default/sync");
    let host = "stranger.example".parse().expect("header");
    other.headers_mut().insert("host", host);
    match connect_async(other).await {
        Err(Error::Http(response)) => assert_eq!(response.status(), 403),
        other => panic!("let in: {other:?}"),
    }
    let metrics = node.get("/metrics").1;
    let counted = "tallymesh_refusals_total{protocol=\"http\",code=\"space_not_open\"} 2";
    let metrics = metrics.as_str().expect("text");
    assert!(metrics.lines().any(|it| it == counted), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_stranger_cannot_open_a_socket() {
    let node = Node::start(&[]);
    let mut request = url(&node).into_client_request().expect("request");
    let stranger = "https://stranger.example".parse().expect("header");
    request.headers_mut().insert("origin", stranger);
    let reason = refused(request).await;
    assert!(reason.starts_with("origin: "), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_node_closes_sockets_and_takes_none() {
    let node = Node::start(&["--demo"]);
    let mut client = Client::connect(&node).await;
    client.run_until(|_| node.peers().len() == 1).await;
    assert_eq!(node.post("/v1/demo/cut", r#"{"cut":true}"#).0, 200);
    assert!(node.peers().is_empty());
    let reason = refused(url(&node).into_client_request().expect("request")).await;
    assert!(reason.starts_with("cut: "), "{reason}");
    node.add("likes", 1);
    assert_eq!(node.post("/v1/demo/cut", r#"{"cut":false}"#).0, 200);
    let mut client = Client::connect(&node).await;
    client
        .run_until(|replica| replica.value("likes") == Some(1))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_shows_in_status_log_figures_and_events() {
    use std::io::{BufRead, BufReader};
    let node = Node::start(&[]);
    node.add("likes", 1);
    let url = format!("{}/v1/spaces/default/events", node.url);
    let stream = crate::process::agent().get(url).call().expect("a stream");
    // Two that write under one id, as clones of one disk do.
    let mut one = Client::connect_as(&node, 7).await;
    let mut two = Client::connect_as(&node, 7).await;
    let all = |replica: &Replica| replica.value("likes") == Some(1);
    one.run_until(all).await;
    two.run_until(all).await;
    for (clone, by) in [(&mut one, 10), (&mut two, 20)] {
        clone.replica.add("likes", by).expect("add");
        clone.input(Input::Changed);
    }
    one.run_until(|_| node.value("likes") == Some(11)).await;
    // One clock ahead, so that what it has is news to the node.
    two.replica.add("views", 1).expect("add");
    two.input(Input::Changed);
    two.run_until(|_| node.space()["faults"] != 0).await;

    let lines = BufReader::new(stream.into_body().into_reader()).lines();
    let mut lines = lines.map(|line| line.expect("a line"));
    assert!(lines.any(|line| line == "event: fault"));
    let data = lines.next().expect("the evidence");
    let data = data.strip_prefix("data: ").expect("data");
    let mut evidence: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let fields = evidence.as_object_mut().expect("fields");
    assert!(fields.remove("at").is_some_and(|at| at.is_string()));
    // The first one's shard is taken, the second one's contradicts it.
    let links = ["brought_by", "denied_by"].map(|name| fields.remove(name).expect("a link"));
    assert!(links.iter().all(|link| link["kind"] == "websocket"));
    assert_ne!(links[0]["link"], links[1]["link"]);
    let writer = one.replica.writer().to_string();
    let expected = serde_json::json!({
        "kind": "totals", "key": "likes", "writer": writer, "clock": "1", "ours": "10",
        "theirs": "20", "times": "1",
    });
    assert_eq!(evidence, expected);
    let metrics = node.get("/metrics").1.as_str().expect("text").to_owned();
    assert!(
        metrics.contains("tallymesh_faults{space=\"default\"} 1\n"),
        "{metrics}"
    );
    node.has_logged(&["two wrote under one writer id", &writer]);
    let status = String::from_utf8(node.run(&["status"], "").stdout).expect("text");
    assert!(status.contains("faults 1"), "{status}");
}

/// Somebody else writes under the node's own id, as a machine does that was resumed from an image a
/// second time: the node leaves the id to it, both go on, and all that both did counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_id_is_in_use_takes_another() {
    let node = Node::start(&[]);
    node.add("likes", 1);
    let was = node.space()["writer"].as_str().expect("an id").to_owned();
    let mut twin = Client::connect(&node).await;
    let writer = WriterId::parse(&was).expect("an id");
    twin.replica = Replica::new(Space::default(), writer);
    for _ in 0..5 {
        twin.replica.add("views", 10).expect("add");
    }
    twin.input(Input::Changed);
    let both = |replica: &Replica| {
        let values = ["likes", "views"].map(|key| replica.value(key));
        values == [Some(1), Some(50)]
    };
    twin.run_until(both).await;
    twin.run_until(|_| node.value("views") == Some(50)).await;
    twin.run_until(|_| node.space()["renewals"] == 1).await;
    assert_eq!(node.value("likes"), Some(1));
    assert_ne!(node.space()["writer"], was.as_str());
    node.add("likes", 1);
    twin.run_until(|replica| replica.value("likes") == Some(2))
        .await;
    assert_ne!(node.space()["faults"], 0);
    let metrics = node.get("/metrics").1.as_str().expect("text").to_owned();
    assert!(
        metrics.contains("tallymesh_renewals_total 1\n"),
        "{metrics}"
    );
    node.has_logged(&["it takes a new one", &was]);
    let status = String::from_utf8(node.run(&["status"], "").stdout).expect("text");
    assert!(status.contains("renewals 1"), "{status}");
}
