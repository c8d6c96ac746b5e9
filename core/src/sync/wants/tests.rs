//! Members that ask each other for rights, by their machines and links without loss.

use super::*;
use crate::error::ScopeError;
use crate::message::records::Owner;
use crate::quota::budget::Flow;
use crate::replica::Mark;
use crate::sync::{Input, Output, Role, SyncConfig};
use crate::wire::{Frame, GIVES, Hello, REMEMBERS, VERSION};
use crate::writer_id::Space;
use crate::{Error, PeerScope};
use std::vec;

const OWNERS: [Owner; 3] = [[1; 32], [2; 32], [3; 32]];
const GIFT: &str = "gift";

fn id(byte: u8) -> WriterId {
    WriterId::from_bytes([byte; 16])
}

/// Three members, each linked to both others.
struct Mesh {
    ends: Vec<(Replica, SyncMachine)>,
    now: Millis,
    /// The requests that were sent: from whom, to whom.
    requests: Vec<(usize, usize, Want)>,
    /// Whether requests arrive.
    deaf: [bool; 3],
}

/// The link from one member to another.
fn link(from: usize, to: usize) -> Link {
    Link((10 * from + to) as u32)
}

impl Mesh {
    fn new() -> Mesh {
        let replica = |byte: u8| Replica::new(Space::default(), id(byte));
        let mut all = [1, 2, 3].map(replica);
        all[0].members_mut().found(&OWNERS[0], &[0; 16], 1).unwrap();
        all[0].members_mut().force(&OWNERS).unwrap();
        let exchange = |all: &mut [Replica; 3]| {
            for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
                let message = all[from].delta(&all[to].vector());
                all[to].merge(&message).unwrap();
            }
        };
        for at in [1, 2] {
            exchange(&mut all);
            all[at]
                .members_mut()
                .announce(&OWNERS[at], &[0; 16], 1)
                .unwrap();
        }
        for _ in 0..6 {
            exchange(&mut all);
            for replica in &mut all {
                replica.members_mut().acknowledge().unwrap();
                replica.members_mut().collect(&Mark::default());
            }
        }
        exchange(&mut all);
        let end = |(at, replica)| {
            let config = SyncConfig {
                owner: Some(OWNERS[at]),
                ..SyncConfig::default()
            };
            (replica, SyncMachine::new(config, at as u64))
        };
        let ends = all.into_iter().enumerate().map(end).collect();
        let mut mesh = Mesh {
            ends,
            now: 1_000,
            requests: Vec::new(),
            deaf: [false; 3],
        };
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let link = link(from, to);
            let broadcast = false;
            mesh.input(from, Input::Connected { link, broadcast });
        }
        mesh.run(100);
        mesh
    }

    fn input(&mut self, at: usize, input: Input<'_>) {
        let (replica, sync) = &mut self.ends[at];
        sync.handle(self.now, replica, input);
    }

    /// Delivers what is sent, and lets time pass.
    fn run(&mut self, time: Millis) {
        let end = self.now + time;
        loop {
            while self.deliver() {}
            let due = self.ends.iter().filter_map(|it| it.1.next_deadline());
            let due = due.min().unwrap_or(end).max(self.now);
            if due > end {
                break;
            }
            self.now = due;
            for at in 0..3 {
                self.input(at, Input::Tick);
            }
        }
        self.now = end;
    }

    fn deliver(&mut self) -> bool {
        let mut any = false;
        for from in 0..3 {
            while let Some(output) = self.ends[from].1.poll() {
                let Output::Send {
                    link: Link(on),
                    bytes,
                } = output
                else {
                    assert!(!matches!(output, Output::Refused { .. }), "{output:?}");
                    continue;
                };
                any = true;
                let to = on as usize % 10;
                if let Body::Want(want) = Frame::decode(&bytes).unwrap().body {
                    self.requests.push((from, to, want));
                    if self.deaf[to] {
                        continue;
                    }
                }
                let link = link(to, from);
                self.input(
                    to,
                    Input::Frame {
                        link,
                        bytes: &bytes,
                    },
                );
            }
        }
        any
    }

    fn flow(&mut self, at: usize, flow: Flow) -> Result<(), Error> {
        let done = self.ends[at].0.quota_mut().flow(GIFT, flow);
        self.input(at, Input::Changed);
        done
    }

    fn want(&mut self, at: usize, amount: u64) -> RequestId {
        let (now, until) = (self.now, self.now + 30_000);
        let sync = &mut self.ends[at].1;
        sync.request_rights(now, GIFT, RightKind::Rights, amount, until)
    }

    fn progress(&self, at: usize, want: RequestId) -> RightsProgress {
        let (replica, sync) = &self.ends[at];
        sync.rights_progress(replica, want).unwrap()
    }

    fn here(&self, at: usize) -> i128 {
        self.ends[at].0.quota().budget(GIFT).unwrap().rights.here
    }

    fn all(&self) -> [i128; 3] {
        [0, 1, 2].map(|at| self.here(at))
    }

    /// How many grants were made since the mesh began to play.
    fn clocks(&self) -> u64 {
        self.ends.iter().map(|it| it.0.clock()).sum()
    }
}

/// A mesh in which the first member has minted so much.
fn minted(amount: u64) -> Mesh {
    let mut mesh = Mesh::new();
    mesh.flow(0, Flow::Mint(amount)).unwrap();
    mesh.run(100);
    mesh
}

#[test]
fn whoever_is_short_gets_what_it_waits_for_and_some_ahead_at_once() {
    let mut mesh = minted(1_000);
    let want = mesh.want(1, 10);
    assert!(!mesh.progress(1, want).is_met());
    mesh.run(30);
    let progress = mesh.progress(1, want);
    assert!(progress.is_met(), "{progress:?}");
    // As it waits for 10, it used 10: sixteen times as much comes beside it.
    assert_eq!(mesh.all(), [830, 170, 0]);
    assert_eq!(mesh.requests.len(), 1);
    mesh.flow(1, Flow::Spend(10)).unwrap();
    let now = mesh.now;
    mesh.ends[1].1.end_rights_request(now, want);
    mesh.run(20_000);
    assert_eq!((mesh.all(), mesh.requests.len()), ([830, 160, 0], 1));
    assert_eq!(mesh.ends[1].1.rights_progress(&mesh.ends[1].0, want), None);
}

#[test]
fn several_are_asked_when_one_has_not_enough_the_richest_first() {
    let mut mesh = minted(100);
    mesh.flow(
        0,
        Flow::Grant {
            to: id(2),
            amount: 40,
        },
    )
    .unwrap();
    mesh.run(100);
    let want = mesh.want(2, 90);
    mesh.run(30);
    assert!(mesh.progress(2, want).is_met());
    let asked: Vec<_> = mesh.requests.iter().map(|it| (it.1, it.2.need)).collect();
    assert_eq!(asked, [(0, 60), (1, 30)]);
    // Only the first one was asked for more than that, and has no more.
    assert_eq!(mesh.all(), [0, 10, 90]);
}

#[test]
fn what_all_together_have_not_is_not_asked_for() {
    let mut mesh = minted(100);
    let want = mesh.want(1, 101);
    mesh.run(20_000);
    assert_eq!(mesh.requests, []);
    let progress = mesh.progress(1, want);
    assert_eq!(
        (progress.reachable, progress.asked, progress.is_met()),
        (100, 0, false)
    );
    let (replica, sync) = &mesh.ends[1];
    assert_eq!(
        sync.rights_progress_of(replica, GIFT, RightKind::Rights, 101),
        Some(progress)
    );
    assert_eq!(
        sync.rights_progress_of(replica, "none", RightKind::Rights, 1),
        None
    );
    // Until somebody mints.
    mesh.flow(2, Flow::Mint(1)).unwrap();
    mesh.run(100);
    assert!(mesh.progress(1, want).is_met());
}

#[test]
fn two_who_wait_for_the_last_do_not_take_it_from_each_other() {
    let mut mesh = minted(2);
    mesh.flow(
        0,
        Flow::Grant {
            to: id(2),
            amount: 1,
        },
    )
    .unwrap();
    mesh.run(100);
    let wants = [mesh.want(0, 2), mesh.want(1, 2)];
    let before = mesh.clocks();
    mesh.run(20_000);
    assert_eq!(mesh.all(), [2, 0, 0]);
    assert!(mesh.progress(0, wants[0]).is_met());
    assert_eq!(mesh.clocks() - before, 1);
    // The other one is served once the first has no use for it.
    let now = mesh.now;
    mesh.ends[0].1.end_rights_request(now, wants[0]);
    mesh.run(9_000);
    assert_eq!((mesh.all(), mesh.clocks() - before), ([0, 2, 0], 2));
}

/// All three use and want the last unit again and again, and nobody spends it.
#[test]
fn the_last_unit_moves_only_to_who_waits_for_it() {
    let mut mesh = minted(1);
    for round in 0..30 {
        let at = round % 3;
        let (moved, now) = (mesh.clocks(), mesh.now);
        let want = mesh.want(at, 1);
        mesh.run(100);
        assert!(mesh.progress(at, want).is_met());
        mesh.ends[at].1.end_rights_request(now, want);
        mesh.run(5_000);
        assert_eq!(mesh.here(at), 1, "it left who had it");
        assert!(mesh.clocks() - moved <= 1);
    }
}

#[test]
fn a_request_that_is_repeated_before_its_grant_is_seen_moves_nothing_more() {
    let mut mesh = minted(1_000);
    mesh.want(1, 10);
    mesh.run(100);
    let (_, _, want) = mesh.requests[0].clone();
    let (before, held) = (mesh.clocks(), mesh.all());
    let space = Space::default();
    let bytes = &Frame {
        space,
        body: Body::Want(want),
    }
    .encode();
    for _ in 0..20 {
        let link = link(0, 1);
        mesh.input(0, Input::Frame { link, bytes });
    }
    mesh.run(100);
    assert_eq!((mesh.clocks(), mesh.all()), (before, held));
}

#[test]
fn whoever_asks_without_end_is_heard_so_often_and_gets_at_most_what_is_left_of_halves() {
    let mut mesh = minted(1 << 40);
    let before = mesh.ends[0].0.clock();
    for at in 0..1_000u64 {
        let want = Want {
            kind: RightKind::Rights,
            name: GIFT.into(),
            seen: u64::MAX,
            need: 1,
            recent: 0,
        };
        let space = Space::default();
        let bytes = &Frame {
            space,
            body: Body::Want(want),
        }
        .encode();
        mesh.now += at % 2;
        let link = link(0, 1);
        mesh.input(0, Input::Frame { link, bytes });
    }
    // 64 at once, and one each 10 ms of the half second that it took.
    assert_eq!(mesh.ends[0].0.clock() - before, 64 + 50);
    assert_eq!(mesh.here(0), (1 << 40) - 114);
}

#[test]
fn requests_that_get_lost_are_repeated_ever_later_and_others_are_asked_meanwhile() {
    let mut mesh = minted(100);
    mesh.deaf = [true; 3];
    mesh.want(1, 10);
    mesh.run(20_000);
    let count = mesh.requests.len();
    assert!((6..10).contains(&count), "{count}");
    mesh.deaf = [false; 3];
    mesh.run(6_000);
    assert!(mesh.here(1) >= 10);
}

#[test]
fn whoever_gives_nothing_is_asked_last() {
    let mut mesh = minted(100);
    let to = id(3);
    mesh.flow(0, Flow::Grant { to, amount: 40 }).unwrap();
    mesh.run(100);
    // The richest one waits for all it has.
    mesh.want(0, 60);
    mesh.want(1, 20);
    mesh.run(20_000);
    assert!(mesh.here(1) >= 20);
    let asked: Vec<usize> = mesh.requests.iter().map(|it| it.1).collect();
    assert_eq!(asked, [0, 2]);
}

#[test]
fn more_is_asked_for_before_it_runs_out_where_it_is_used() {
    let mut mesh = minted(10_000);
    let mut refused = 0;
    for _ in 0..2_000 {
        while mesh.flow(1, Flow::Spend(1)).is_err() {
            refused += 1;
            let now = mesh.now;
            mesh.ends[1].1.lack_rights(now, GIFT, RightKind::Rights, 1);
            mesh.run(10);
        }
        mesh.run(10);
    }
    assert_eq!(refused, 1);
    let moved = mesh.requests.len();
    assert!(moved < 100, "{moved}");
    assert_eq!(mesh.all().iter().sum::<i128>(), 8_000);
}

#[test]
fn room_under_a_cap_is_asked_for_in_the_same_way() {
    let mut mesh = Mesh::new();
    mesh.flow(0, Flow::RaiseCap(50)).unwrap();
    mesh.run(100);
    let (now, until) = (mesh.now, mesh.now + 1_000);
    let sync = &mut mesh.ends[2].1;
    let want = sync.request_rights(now, GIFT, RightKind::Room, 20, until);
    assert!(mesh.flow(2, Flow::Mint(20)).is_err());
    mesh.run(50);
    assert!(mesh.progress(2, want).is_met());
    mesh.flow(2, Flow::Mint(20)).unwrap();
    let rest = mesh.ends[2].0.quota().budget(GIFT).unwrap();
    assert_eq!((rest.value, rest.cap), (20, Some(50)));
}

#[test]
fn only_members_that_know_of_it_are_asked_and_only_members_are_heard() {
    let mut mesh = minted(100);
    let guest = |capabilities, writer: u8| Hello {
        version_min: VERSION,
        version_max: VERSION,
        capabilities,
        session: 1,
        agent: "".into(),
        nonce: [0; 16],
        proof: Vec::new(),
        digests: SyncMachine::digests(&mut Replica::new(Space::default(), id(9))),
        writer: id(writer),
        clock: 1,
    };
    let frame = |body| {
        let space = Space::default();
        Frame { space, body }.encode()
    };
    let want = Want {
        kind: RightKind::Rights,
        name: GIFT.into(),
        seen: u64::MAX,
        need: 5,
        recent: 5,
    };
    let before = mesh.all();
    // A peer with the rights of a member that is none is passed over.
    let link = Link(7);
    let broadcast = false;
    mesh.input(0, Input::Connected { link, broadcast });
    let hello = frame(Body::Hello(guest(REMEMBERS | GIVES, 9)));
    mesh.input(
        0,
        Input::Frame {
            link,
            bytes: &hello,
        },
    );
    let request = frame(Body::Want(want));
    mesh.input(
        0,
        Input::Frame {
            link,
            bytes: &request,
        },
    );
    // One that is held to less is refused, also if it says that it is a member.
    let link = Link(8);
    let (owner, role) = ([7; 32], Role::Editor);
    mesh.input(0, Input::Limited { link, owner, role });
    let hello = frame(Body::Hello(guest(REMEMBERS | GIVES, 2)));
    mesh.input(
        0,
        Input::Frame {
            link,
            bytes: &hello,
        },
    );
    assert_eq!(
        mesh.ends[0].1.rights(link),
        Some(PeerScope::Limited { owner, role })
    );
    mesh.input(
        0,
        Input::Frame {
            link,
            bytes: &request,
        },
    );
    let outputs = core::iter::from_fn(|| mesh.ends[0].1.poll());
    let refused = outputs.filter(|it| {
        let error = Error::Scope(ScopeError::NotYours { writer: id(2) });
        *it == Output::Refused {
            close: Some(link),
            error,
        }
    });
    assert_eq!(refused.count(), 1);
    assert_eq!(mesh.all(), before);
    // A member whose program does not know of it is not asked.
    for it in &mut mesh.ends[1].1.peers {
        it.hello.as_mut().unwrap().gives = 0;
    }
    let want = mesh.want(1, 5);
    assert_eq!(mesh.progress(1, want).reachable, 0);
    mesh.input(1, Input::Tick);
    let sent: Vec<Output> = core::iter::from_fn(|| mesh.ends[1].1.poll()).collect();
    assert_eq!(sent, vec![]);
}
