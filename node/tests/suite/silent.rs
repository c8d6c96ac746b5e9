//! Settings that have no effect are told of, and nodes that are not where they should be are not ready.

use crate::join::CLOSED;
use crate::members::close;
use crate::process::{DEADLINE, Node, eventually, up};
use futures::StreamExt;
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, SwarmBuilder, identify, noise, tcp, yamux};
use serde_json::{Value, json};
use std::net::TcpListener;

fn free_port() -> u16 {
    let bound = TcpListener::bind("127.0.0.1:0").expect("a port");
    bound.local_addr().expect("its address").port()
}

fn unreached(node: &Node) -> Vec<Value> {
    let rows = node.get("/v1/peers").1["unreached"].clone();
    rows.as_array().cloned().unwrap_or_default()
}

#[test]
fn peers_that_are_not_reached_are_named_with_the_reason() {
    let mut other = Node::start(&[]);
    let own = format!("/ip4/127.0.0.1/tcp/{}", free_port());
    let (place, _) = other.listen[0].split_once("/p2p/").expect("an id");
    let foreign = format!("{place}/p2p/{}", PeerId::random());
    let refused = format!("/ip4/127.0.0.1/tcp/{}", free_port());
    let good = other.listen[0].clone();
    let peers = [&*own, &foreign, &refused, &good];
    let node = Node::start(&[&["--listen", &own, "--peer"], &peers[..]].concat());
    let expected = [
        (&own, "own_address"),
        (&foreign, "other_identity"),
        (&refused, "refused"),
    ];
    eventually("each has its reason", || {
        let rows = unreached(&node);
        let is_told = |(address, code): &(&String, &str)| {
            let mut rows = rows.iter();
            rows.any(|row| row["address"] == json!(address) && row["code"] == json!(code))
        };
        (rows.len() == 3 && expected.iter().all(is_told)).then_some(())
    });
    let output = node.run(&["peers"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let has = |text: &str, words: &[&str]| words.iter().all(|word| text.contains(word));
    assert!(
        has(&text, &["not reached for", "(refused)", &other.peer_id]),
        "{text}"
    );
    assert!(!text.contains("no peers"), "{text}");
    other.terminate();
    eventually("the one that is gone is told of, too", || {
        let mut rows = unreached(&node).into_iter();
        rows.any(|row| row["address"] == json!(good)).then_some(())
    });
}

#[test]
fn a_second_node_does_not_listen_on_the_tcp_port_of_another() {
    let one = Node::start(&[]);
    let (place, _) = one.listen[0].split_once("/p2p/").expect("an id");
    let folder = tempfile::tempdir().expect("a folder");
    let output = up(&folder.path().join("data"))
        .args(["--http", "127.0.0.1:0", "--listen", place])
        .output()
        .expect("run");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains(&format!("can't listen on {place}")) && error.contains("in use"),
        "{error}"
    );
}

/// A ticket leads to a node that is not there.
#[test]
fn a_node_that_waits_to_join_is_not_ready() {
    let listen = format!("/ip4/127.0.0.1/tcp/{}", free_port());
    let mut one = Node::start(&[CLOSED, "--listen", &listen]);
    close(&[&one]);
    let output = one.run(&["invite", "--role", "member"], "");
    let ticket = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    one.terminate();
    let two = Node::start(&[CLOSED, "--join", &ticket]);
    let ready = || {
        let (status, answer) = two.get("/readyz");
        (
            status,
            answer["code"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(ready(), (503, "joining".into()));
    let output = two.run(&["doctor"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("to join the space `default`"), "{text}");
    one.start_again();
    eventually("it is a member, and ready", || {
        (ready().0 == 200).then_some(())
    });
}

/// The answers of identify to a peer that has shown no right, by node.
#[tokio::test]
async fn strangers_learn_no_version_and_no_address() {
    let node = tokio::task::spawn_blocking(|| Node::start(&[CLOSED])).await;
    let node = node.expect("started");
    let mut swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(
            tcp::Config::default(),
            noise::Config::new,
            yamux::Config::default,
        )
        .expect("TCP")
        .with_behaviour(|key| {
            identify::Behaviour::new(identify::Config::new("x".into(), key.public()))
        })
        .expect("a behaviour")
        .build();
    let address: Multiaddr = node.listen[0].parse().expect("an address");
    swarm.dial(address).expect("dialled");
    let told = async {
        loop {
            let event = swarm.select_next_some().await;
            if let SwarmEvent::Behaviour(identify::Event::Received { info, .. }) = event {
                return info;
            }
        }
    };
    let told = tokio::time::timeout(DEADLINE, told)
        .await
        .expect("it tells");
    assert_eq!(told.agent_version, "tallymesh");
    assert!(told.listen_addrs.is_empty(), "{:?}", told.listen_addrs);
    tokio::task::spawn_blocking(|| drop(node))
        .await
        .expect("ended");
}
