//! Peers that lie, at the doors of a real node: libp2p, WebSocket and single requests.
//!
//! Three nodes are members of one space and take writes all the time. To one of them a peer lies in one
//! way after the other, each a row. In each, the nodes must come to show exactly what was acknowledged,
//! the attacked node must take no more memory than the row allows, and its metrics must tell what the row
//! says. `TALLYMESH_HOSTILE_REPORT` names a file for the table. tests/tests/hostile.rs plays the same
//! against the sync machine alone, with many more bytes. As they flood the machine, they are played by
//! themselves: `cargo xtask test --long --part liars`.

pub(crate) mod attacker;
mod doors;
mod forged;
mod frames;
mod lies;
mod mesh;
pub(crate) mod raw;
mod report;
mod slow;

use crate::process::agent;
use attacker::{Attacker, By};
use doors::Page;
use frames::{hello, pull, space};
use libp2p::identity::Keypair;
use mesh::{Memory, Mesh, Metrics, NODES};
use raw::Said;
use serde_json::json;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};
use tallymesh_core::WriterId;
use tallymesh_core::wire::{Body, Frame};

/// By when whoever never gets on must be cut off.
const SLOW_MAX: Duration = Duration::from_secs(60);

/// How often those who take their time are looked at.
const POLL: Duration = Duration::from_millis(100);

/// What becomes of a lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The connection is closed.
    CutOff,
    /// It is refused, and the connection stays, or there never was one.
    Refused,
    /// It means nothing to the node, which goes on with the peer.
    PassedOver,
    /// It is borne, within a bound.
    Borne,
    /// It is taken: the peer is a member, and a member's word is.
    Taken,
}

/// A way to lie.
struct Row {
    lie: &'static str,
    door: &'static str,
    by: &'static str,
    fate: Fate,
    /// What tells of it: the beginning of a figure that rises, or nothing.
    figure: &'static str,
    /// By how much memory may grow, in MiB.
    grows_mib: u64,
    /// The nodes that take writes meanwhile.
    written: Range<usize>,
    attack: fn(&Stage),
}

/// What was seen of a row.
struct Seen {
    row: Row,
    /// The metrics that changed, and by how much.
    told: Metrics,
    memory: Option<(u64, Memory)>,
    writes: usize,
    agreed: Duration,
}

/// The honest ones, and who lies to them.
struct Stage {
    mesh: Mesh,
    /// A member of the space `default`.
    member: Keypair,
    /// Somebody with a ticket for another space.
    guest: Keypair,
    /// A ticket for the space `default`, as a page has it, and one for another space.
    ticket: String,
    elsewhere: String,
    agent: ureq::Agent,
}

impl Stage {
    fn set() -> Stage {
        let mesh = Mesh::start();
        let [member, guest] = [0; 2].map(|_| Keypair::generate_ed25519());
        let (ticket, elsewhere) = (mesh.invite("default"), mesh.invite("shop"));
        // The member may do all there is, as only such are gossiped with.
        let shown = [
            (&member, &elsewhere),
            (&member, &ticket),
            (&guest, &elsewhere),
        ];
        for (key, ticket) in shown {
            let attacker = Attacker::meet(&mesh.attacked().listen[0], key);
            let question = json!({ "ticket": ticket }).to_string();
            // Its rights change at once, so that it may be cut off before it has the answer.
            let _ = attacker.say(By::Join, Said::Bytes(question.into_bytes()));
            attacker.is_cut_off();
        }
        mesh.has_member(&member);
        Stage {
            mesh,
            member,
            guest,
            ticket,
            elsewhere,
            agent: agent(),
        }
    }

    fn address(&self) -> &str {
        &self.mesh.attacked().listen[0]
    }

    /// A connection of somebody without any right.
    fn stranger(&self) -> Attacker {
        Attacker::meet(self.address(), &Keypair::generate_ed25519())
    }

    /// A connection of the member, which has sent its hello as a writer of this number.
    fn peer(&self, writer: u8) -> Attacker {
        let attacker = Attacker::meet(self.address(), &self.member);
        let hello = hello(&space("default"), id(writer));
        attacker.send(&[hello]).expect("it may send a hello");
        attacker
    }

    /// A page's socket, on which its hello was sent.
    fn page(&self, writer: u8) -> Page {
        let mut page = Page::open(&self.mesh, &self.ticket);
        assert!(page.send(&hello(&space("default"), id(writer))));
        page
    }

    fn play(&self, row: Row) -> Seen {
        println!("{}, {}, {}", row.lie, row.door, row.by);
        let metrics = self.mesh.metrics();
        let before = self.mesh.memory();
        let writes = self.mesh.during(row.written.clone(), || (row.attack)(self));
        let agreed = self.mesh.agree();
        let memory = before.zip(self.mesh.memory());
        let memory = memory.map(|(before, after)| (before.now, after));
        self.mesh.all_live();
        if let Some((before, after)) = memory {
            let most = before + (row.grows_mib << 10);
            assert!(
                after.most <= most,
                "{}: {before} KiB, then {after:?}",
                row.lie
            );
        }
        let mut told = self.mesh.metrics();
        for (name, value) in &mut told {
            *value -= metrics.get(name).unwrap_or(&0.0);
        }
        told.retain(|_, value| *value != 0.0);
        println!("    {told:?} {memory:?} {writes} {agreed:?}");
        let tells = told.keys().any(|name| name.starts_with(row.figure));
        assert!(tells || row.figure.is_empty(), "{}: {told:?}", row.lie);
        Seen {
            row,
            told,
            memory,
            writes,
            agreed,
        }
    }
}

/// A writer that nobody minted.
fn id(number: u8) -> WriterId {
    WriterId::from_bytes([number; 16])
}

/// Waits until the node has read all that a peer sent: it answers a pull of this number.
fn is_heard_out(attacker: &Attacker, number: u32) {
    attacker
        .send(&[pull(&space("default"), number)])
        .expect("it may ask");
    attacker.hear(|frame| match Frame::decode(frame).ok()?.body {
        Body::Delta(delta) if delta.id == number => Some(()),
        _ => None,
    });
}

/// The file for the report, if one is asked for.
fn report_file() -> Option<OsString> {
    std::env::var_os("TALLYMESH_HOSTILE_REPORT")
}

#[test]
#[ignore = "it floods the machine, and other tests with it"]
fn honest_nodes_agree_whatever_a_peer_says() {
    let stage = Stage::set();
    let (mut seen, mut failed) = (Vec::new(), Vec::new());
    let rows = lies::rows().into_iter().chain(doors::rows());
    for row in rows.chain([lies::last()]) {
        let name = format!("{}, {}", row.lie, row.door);
        // One lie that works does not keep the others from being told.
        match catch_unwind(AssertUnwindSafe(|| stage.play(row))) {
            Ok(it) => seen.push(it),
            Err(_) => failed.push(name),
        }
    }
    let text = report::lies(&seen);
    println!("{text}");
    assert!(failed.is_empty(), "{failed:#?}");
    if let Some(file) = report_file() {
        let before = fs::read_to_string(&file).unwrap_or_default();
        let text = report::head() + &text + report::parts(&before).1;
        fs::write(file, text).expect("write the report");
    }
}

#[test]
#[ignore = "it floods the machine, and other tests with it"]
fn whoever_never_gets_on_is_cut_off() {
    let stage = Stage::set();
    let (mut open, mut ended) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    let writes = stage.mesh.during(0..NODES, || {
        open = slow::begin(&stage);
        while !open.is_empty() {
            let after = begun.elapsed();
            assert!(after < SLOW_MAX, "not cut off: {}", open[0].lie);
            open.retain_mut(|slow| {
                let is_over = (slow.is_over)();
                if is_over {
                    let (lie, door, by) = (slow.lie, slow.door, slow.by);
                    ended.push(slow::Ended {
                        lie,
                        door,
                        by,
                        after,
                    });
                }
                !is_over
            });
            thread::sleep(POLL);
        }
    });
    stage.mesh.agree();
    let text = report::slow(&ended, writes);
    println!("{text}");
    if let Some(file) = report_file() {
        // The other test has written the first part.
        let before = fs::read_to_string(&file).unwrap_or_default();
        let (first, others) = report::parts(&before);
        fs::write(file, [first, &text, others].concat()).expect("write the report");
    }
}
