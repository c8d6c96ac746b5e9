//! What a peer over libp2p says that is not so, or too much of it.

use super::attacker::{By, request};
use super::frames::{
    Chunks, PULL, PUSH, Row as Entry, hello, huge, message, pull, pull_id, push, refusals, space,
    varint, with_body,
};
use super::mesh::NODES;
use super::raw::Said;
use super::{Fate, Row, Stage, id, is_heard_out};
use crate::process::eventually;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};
use tallymesh_core::bounds::{AUDIT_QUESTION_BYTES_MAX, FRAME_BYTES_MAX};
use tallymesh_core::wire::{AuditQuestion, Body, Frame};
use tallymesh_core::{Encode, Space, WriterId};
use tokio::net::TcpSocket;

const PROTOCOL: &str = "libp2p";
const GOSSIP: &str = "gossip";
const STRANGER: &str = "stranger";
const MEMBER: &str = "member";
const ELSEWHERE: &str = "with a ticket for another space";

const REFUSED: &str = "tallymesh_network_refused_total";
const SYNC: &str = "tallymesh_refusals_total{protocol=\"sync\"";

/// What a few frames may take.
const LITTLE_MIB: u64 = 32;

/// Most bytes of a request of several frames.
const BATCH: usize = 60_000;

/// A lie after which the attacked node is not as before.
pub(super) fn last() -> Row {
    Row {
        lie: "it writes under the node's own writer",
        door: PROTOCOL,
        by: MEMBER,
        fate: Fate::Taken,
        figure: "tallymesh_renewals_total",
        grows_mib: LITTLE_MIB,
        // A member's word is taken: what the node acknowledges at the very moment is lost by it.
        written: 1..NODES,
        attack: own_writer,
    }
}

pub(super) fn rows() -> Vec<Row> {
    let row = |lie, door, by, fate, figure, grows_mib, attack: fn(&Stage)| Row {
        lie,
        door,
        by,
        fate,
        figure,
        grows_mib,
        written: 0..NODES,
        attack,
    };
    let little =
        |lie, by, fate, figure, attack| row(lie, PROTOCOL, by, fate, figure, LITTLE_MIB, attack);
    use Fate::{Borne, CutOff, PassedOver, Refused, Taken};
    vec![
        little(
            "frames of somebody who has shown nothing",
            STRANGER,
            Refused,
            "tallymesh_network_refused_total{reason=\"stranger\"",
            frames_of_a_stranger,
        ),
        little(
            "50 tickets that are none",
            STRANGER,
            Refused,
            "tallymesh_network_refused_total{reason=\"ticket\"",
            tickets_that_are_none,
        ),
        little(
            "audits, and questions about the node",
            STRANGER,
            Refused,
            "",
            questions_of_a_stranger,
        ),
        little(
            "300 connections at once from one address",
            STRANGER,
            Refused,
            REFUSED,
            connections,
        ),
        little(
            "frames of a space in which it has no right",
            ELSEWHERE,
            Refused,
            "tallymesh_network_refused_total{reason=\"space\"",
            wrong_space,
        ),
        row(
            "100,000 counters in the address book",
            PROTOCOL,
            ELSEWHERE,
            Borne,
            "",
            64,
            address_book,
        ),
        little(
            "frames of a space that is not open",
            MEMBER,
            PassedOver,
            "",
            space_not_open,
        ),
        little(
            "a shard of a writer that nobody took in",
            MEMBER,
            PassedOver,
            "",
            writer_unknown,
        ),
        little(
            "another's shard: other content at the same clock",
            MEMBER,
            PassedOver,
            "",
            same_clock,
        ),
        little(
            "its own clock jumps to 2^64 - 2",
            MEMBER,
            Taken,
            "",
            clock_jumps,
        ),
        little(
            "a frame of each type that breaks a rule",
            MEMBER,
            CutOff,
            SYNC,
            malformed,
        ),
        little("2^60 of what is counted", MEMBER, CutOff, SYNC, huge_counts),
        little(
            "a frame of 4 GiB is announced",
            MEMBER,
            CutOff,
            SYNC,
            huge_frame,
        ),
        little(
            "8 requests of 64 MiB at once",
            MEMBER,
            Refused,
            "",
            huge_requests,
        ),
        little("a second greeting", MEMBER, CutOff, SYNC, second_hello),
        little(
            "small frames without end, 8 requests at once",
            MEMBER,
            CutOff,
            "tallymesh_network_refused_total{reason=\"flood\"",
            flood,
        ),
        row(
            "2,000 pulls whose answers it does not take",
            PROTOCOL,
            MEMBER,
            Borne,
            "",
            96,
            pulls,
        ),
        little(
            "2,000 pushes that lack what they build on",
            MEMBER,
            Borne,
            "",
            gaps,
        ),
        little("300 audits at once", MEMBER, Refused, "", audits),
        little("2,000 questions about the node", MEMBER, Borne, "", abouts),
        little(
            "all that it heard, 5 times more",
            MEMBER,
            PassedOver,
            "",
            replayed,
        ),
        row(
            "48 messages of 1 MiB that are no pushes",
            GOSSIP,
            MEMBER,
            Refused,
            SYNC,
            256,
            gossip,
        ),
        row(
            "pushes on the topic of another space",
            GOSSIP,
            MEMBER,
            Refused,
            "tallymesh_network_refused_total{reason=\"topic\"",
            LITTLE_MIB,
            other_topic,
        ),
        row(
            "an answer that breaks off after 64 MiB",
            PROTOCOL,
            MEMBER,
            Borne,
            "",
            160,
            broken_answer,
        ),
    ]
}

fn default() -> Space {
    Space::default()
}

fn shard(writer: WriterId, (lo, hi): (u64, u64), key: &str) -> Vec<u8> {
    push(&default(), &message(&[Entry { writer, lo, hi }], key, 1))
}

/// Frames in as few requests as they fit.
fn batches(frames: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut batches: Vec<Vec<u8>> = vec![Vec::new()];
    for frame in frames {
        let frame = request(&[frame]);
        if batches
            .last()
            .is_some_and(|last| last.len() + frame.len() > BATCH)
        {
            batches.push(Vec::new());
        }
        if let Some(last) = batches.last_mut() {
            last.extend(frame);
        }
    }
    batches
}

fn frames_of_a_stranger(stage: &Stage) {
    let stranger = stage.stranger();
    let frames = [
        hello(&default(), id(1)),
        pull(&default(), 1),
        shard(id(1), (0, 1), "lie/stranger"),
    ];
    stranger.send(&frames).expect("they are read");
    stage.mesh.nobody_shows("lie/stranger");
    assert_eq!(stranger.heard(), 0, "it is told nothing");
}

fn tickets_that_are_none(stage: &Stage) {
    let stranger = stage.stranger();
    for _ in 0..50 {
        let question = b"{\"ticket\":\"eyJhbGciOiJub25lIn0.e30.\"}".to_vec();
        match stranger.say(By::Join, Said::Bytes(question)) {
            Ok(answer) => {
                let answer = String::from_utf8_lossy(&answer);
                assert!(answer.contains("\"code\""), "{answer}");
            }
            // On a busy machine they take longer than a stranger may stay.
            Err(_) => return stranger.is_cut_off(),
        }
    }
}

fn questions_of_a_stranger(stage: &Stage) {
    let stranger = stage.stranger();
    let answer = stranger.say(By::Audit, Said::Bytes(question()));
    let answer = answer.expect("a refusal");
    assert!(answer.ends_with(b"handshake"), "{answer:?}");
    let answer = stranger.say(By::About, Said::Bytes(Vec::new()));
    assert!(!answer.is_ok_and(|it| !it.is_empty()), "it is told nothing");
}

fn question() -> Vec<u8> {
    let question = AuditQuestion {
        space: default(),
        prefix: String::new(),
        after: String::new(),
    };
    question.encode()
}

/// From another address than the honest ones have, as an attacker's machine has.
fn connections(stage: &Stage) {
    let port = stage.address().split('/').nth(4).expect("a port");
    let port: u16 = port.parse().expect("a number");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut open = Vec::new();
        for _ in 0..300 {
            let socket = TcpSocket::new_v4().expect("a socket");
            // Elsewhere than on Linux there is one loopback address only.
            let _ = socket.bind(([127, 0, 0, 2], 0).into());
            open.push(socket.connect(([127, 0, 0, 1], port).into()).await);
        }
    });
    eventually("they are too many", || {
        let told = stage.mesh.metrics();
        let reasons = ["arrivals", "pending"].map(|it| format!("{REFUSED}{{reason=\"{it}\"}}"));
        let refused: f64 = reasons.iter().filter_map(|it| told.get(it)).sum();
        (refused >= 100.0).then_some(())
    });
}

fn wrong_space(stage: &Stage) {
    let guest = super::Attacker::meet(stage.address(), &stage.guest);
    let frames = [
        hello(&default(), id(2)),
        pull(&default(), 1),
        shard(id(2), (0, 1), "lie/space"),
    ];
    guest.send(&frames).expect("they are read");
    stage.mesh.nobody_shows("lie/space");
    let hears = guest.heard();
    let told = hears.to_string();
    assert!(
        guest.is_connected(),
        "it may stay for its own space; it heard {told}"
    );
}

/// Whoever may sync any space syncs the book, too.
fn address_book(stage: &Stage) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let day = since.expect("after 1970").as_secs() / (24 * 60 * 60);
    let book = space(&format!("_mesh.{day}"));
    let guest = super::Attacker::meet(stage.address(), &stage.guest);
    guest
        .send(&[hello(&book, id(3))])
        .expect("it may send a hello");
    let mut replica = tallymesh_core::Replica::new(book.clone(), id(3));
    let mut seen = tallymesh_core::VersionVector::default();
    for batch in 0..20 {
        for number in 0..5_000 {
            let key = format!("addr/nobody/ip4/192.0.2.1/tcp/{batch}/{number}");
            replica.add(&key, 1).expect("a small add");
        }
        let message = replica.delta(&seen);
        seen = replica.vector();
        let body = Body::Push(message);
        let space = book.clone();
        let sent = guest.send(&[Frame { space, body }.encode()]);
        sent.expect("it is read");
    }
}

fn space_not_open(stage: &Stage) {
    let peer = stage.peer(4);
    let nowhere = space("nowhere");
    let frames = [
        hello(&nowhere, id(4)),
        pull(&nowhere, 1),
        push(
            &nowhere,
            &message(
                &[Entry {
                    writer: id(4),
                    lo: 0,
                    hi: 1,
                }],
                "lie/nowhere",
                1,
            ),
        ),
    ];
    peer.send(&frames).expect("they are read");
    is_heard_out(&peer, 1);
}

fn writer_unknown(stage: &Stage) {
    let peer = stage.peer(5);
    peer.send(&[shard(id(0x77), (0, 1), "lie/unknown")])
        .expect("it is read");
    is_heard_out(&peer, 1);
    stage.mesh.nobody_shows("lie/unknown");
}

fn same_clock(stage: &Stage) {
    let peer = stage.peer(6);
    let (writer, clock) = eventually("the other has written", || {
        let (writer, clock) = stage.mesh.writer(1);
        (clock > 1).then_some((writer, clock))
    });
    peer.send(&[shard(writer, (clock - 1, clock), "lie/same")])
        .expect("it is read");
    is_heard_out(&peer, 1);
    stage.mesh.nobody_shows("lie/same");
}

fn clock_jumps(stage: &Stage) {
    let peer = stage.peer(7);
    peer.send(&[shard(id(7), (0, u64::MAX - 1), "lie/jump")])
        .expect("it is read");
    is_heard_out(&peer, 1);
    for node in 0..3 {
        eventually("a member's word is taken", || {
            stage.mesh.value(node, "lie/jump")
        });
        let (_, clock) = stage.mesh.writer(node);
        assert!(clock < 1 << 32, "the clock of node {node} is at {clock}");
    }
}

fn malformed(stage: &Stage) {
    const TYPE_AT: usize = 3;
    let mut types = BTreeSet::new();
    for (_, frame, _) in refusals() {
        if types.insert(frame[TYPE_AT]) {
            let peer = stage.peer(8);
            let _ = peer.send(&[frame]);
            peer.is_cut_off();
        }
    }
    assert!(types.len() >= 6, "{types:?}");
}

fn huge_counts(stage: &Stage) {
    for (_, frame) in huge(&default()).into_iter().step_by(4) {
        let peer = stage.peer(9);
        let _ = peer.send(&[frame]);
        peer.is_cut_off();
    }
}

fn huge_frame(stage: &Stage) {
    let peer = stage.peer(9);
    let said = [&[0xff; 4][..], &hello(&default(), id(9))].concat();
    let _ = peer.say(By::Sync, Said::Bytes(said));
    peer.is_cut_off();
}

fn huge_requests(stage: &Stage) {
    let peer = stage.peer(9);
    let requests: Vec<_> = (0..8)
        .map(|_| peer.begin(By::Sync, Said::Zeros(64 << 20)))
        .collect();
    for request in requests {
        let answer = request.recv_timeout(crate::process::DEADLINE);
        assert!(answer.expect("it ends").is_err(), "it is read");
    }
    is_heard_out(&peer, 1);
}

fn second_hello(stage: &Stage) {
    let peer = stage.peer(10);
    let _ = peer.send(&[hello(&default(), id(10))]);
    peer.is_cut_off();
}

/// More at once than honest nodes ever have under way, and on when the node is slow to acknowledge.
fn flood(stage: &Stage) {
    const AT_ONCE: usize = 8;
    let peer = stage.peer(11);
    // The smallest frames there are, so that their number is what counts.
    let frames = (0..6_000).map(|_| with_body(&space("x"), PULL, &[]));
    let batch = batches(frames).swap_remove(0);
    eventually("it is cut off", || {
        let said = (0..AT_ONCE).map(|_| peer.begin(By::Sync, Said::Bytes(batch.clone())));
        let said: Vec<_> = said.collect();
        for answer in said {
            // It fails for those that the node has no place for.
            let _ = answer.recv_timeout(crate::process::DEADLINE);
        }
        (!peer.is_connected()).then_some(())
    });
}

fn pulls(stage: &Stage) {
    let peer = stage.peer(12);
    peer.take(false);
    for batch in batches((1..=2_000).map(|number| pull(&default(), number))) {
        peer.say(By::Sync, Said::Bytes(batch))
            .expect("they are read");
    }
}

fn gaps(stage: &Stage) {
    let peer = stage.peer(13);
    let key = format!("lie/gap{}", "x".repeat(400));
    let base = 1_000_000_000u64;
    let gap = |number: u64| shard(id(13), (base + 2 * number, base + 2 * number + 1), &key);
    for batch in batches((0..2_000).map(gap)) {
        peer.say(By::Sync, Said::Bytes(batch))
            .expect("they are read");
    }
    is_heard_out(&peer, 1);
    stage.mesh.nobody_shows(&key);
}

fn audits(stage: &Stage) {
    let peer = stage.peer(14);
    is_heard_out(&peer, 1);
    let asked: Vec<_> = (0..300)
        .map(|_| peer.begin(By::Audit, Said::Bytes(question())))
        .collect();
    let mut refused = 0;
    for answer in asked {
        let answer = answer
            .recv_timeout(crate::process::DEADLINE)
            .expect("it ends");
        let is_told = answer.is_ok_and(|it| !it.is_empty() && !it.ends_with(b"busy"));
        refused += usize::from(!is_told);
    }
    assert!(refused > 0, "all were answered");
    let long = vec![0; AUDIT_QUESTION_BYTES_MAX + 1];
    let answer = peer.say(By::Audit, Said::Bytes(long));
    assert!(!answer.is_ok_and(|it| !it.is_empty()), "it is too long");
}

fn abouts(stage: &Stage) {
    let peer = stage.peer(15);
    let asked: Vec<_> = (0..2_000)
        .map(|_| peer.begin(By::About, Said::Bytes(Vec::new())))
        .collect();
    for answer in asked {
        let answer = answer
            .recv_timeout(crate::process::DEADLINE)
            .expect("it ends");
        assert!(answer.is_err() || answer.is_ok_and(|it| it.len() <= 1024));
    }
}

fn replayed(stage: &Stage) {
    let peer = stage.peer(16);
    peer.send(&[pull(&default(), 1)]).expect("it may ask");
    let mut heard = Vec::new();
    loop {
        let (chunk, last, message) = peer.hear(|frame| {
            heard.push(frame.to_vec());
            match Frame::decode(frame).ok()?.body {
                Body::Delta(delta) => Some((delta.chunk, delta.last, delta.message)),
                _ => None,
            }
        });
        heard.push(push(&default(), &message.encode()));
        if last {
            break;
        }
        let more = [varint(1), varint(u64::from(chunk) + 1)].concat();
        peer.send(&[with_body(&default(), 5, &more)])
            .expect("it may ask");
    }
    // A second hello, which is another lie.
    let is_hello = |frame: &Vec<u8>| frame[3] == 1;
    heard.retain(|frame| !is_hello(frame));
    for batch in batches((0..5).flat_map(|_| heard.clone())) {
        peer.say(By::Sync, Said::Bytes(batch)).expect("it is read");
    }
    is_heard_out(&peer, 1 << 30);
    assert_eq!(stage.mesh.value(0, "other/000000"), Some(1));
}

fn gossip(stage: &Stage) {
    let peer = stage.peer(17);
    for number in 0..48 {
        let noise = vec![number; 1 << 20];
        peer.publish(
            "/tallymesh/space/1/default",
            &with_body(&default(), PUSH, &noise),
        );
    }
    eventually("they are refused", || {
        let told = stage.mesh.metrics();
        let refused = told.iter().filter(|(name, _)| name.starts_with(SYNC));
        (refused.map(|(_, count)| count).sum::<f64>() >= 48.0).then_some(())
    });
}

fn other_topic(stage: &Stage) {
    let peer = stage.peer(18);
    let entry = Entry {
        writer: id(18),
        lo: 0,
        hi: 1,
    };
    for number in 0..200 {
        let key = format!("lie/topic{number}");
        let frame = push(&space("shop"), &message(&[entry], &key, 1));
        peer.publish("/tallymesh/space/1/default", &frame);
    }
    let name = format!("{REFUSED}{{reason=\"topic\"}}");
    eventually("they are refused", || {
        (stage
            .mesh
            .metrics()
            .get(&name)
            .is_some_and(|it| *it >= 200.0))
        .then_some(())
    });
}

/// Answers a pull of the node's, and goes away in the middle.
fn broken_answer(stage: &Stage) {
    const CHUNKS: u32 = 32;
    let peer = stage.peer(20);
    let number = peer.hear(pull_id);
    let mut bytes = Chunks::new(id(20));
    for chunk in 0..CHUNKS {
        let chunk = bytes.chunk(&default(), (number, chunk));
        assert!(chunk.len() <= FRAME_BYTES_MAX);
        peer.send(&[chunk]).expect("it is read");
    }
}

/// The node begins to rejoin under another writer. It is to ask a member that knows what that writer did,
/// and this one says nothing.
fn own_writer(stage: &Stage) {
    let peer = stage.peer(21);
    let (writer, clock) = stage.mesh.writer(0);
    let ahead = clock + (1 << 40);
    peer.send(&[shard(writer, (clock, ahead), "lie/own")])
        .expect("it is read");
    is_heard_out(&peer, 1);
}
