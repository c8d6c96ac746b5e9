//! To whom a member tells the time, when, and how long it holds.

use super::super::pull::tests::{full, id, replica};
use super::super::{Input, Output, Role, SyncConfig};
use super::*;
use crate::wire::Frame;
use alloc::vec::Vec;

const LINK: Link = Link(1);
/// The member's time at the start, in milliseconds since 1970.
const BEGINS: u64 = 1_800_000_000_000;

struct End {
    replica: Replica,
    sync: SyncMachine,
}

impl End {
    fn new(replica: Replica, takes_time: bool) -> End {
        let config = SyncConfig {
            takes_time,
            ..SyncConfig::default()
        };
        let sync = SyncMachine::new(config, 1);
        End { replica, sync }
    }

    /// The only member of a space.
    fn member() -> End {
        let mut replica = replica(100);
        replica.members_mut().found(&[1; 32], &[0; 16], 1).unwrap();
        End::new(replica, false)
    }

    fn input(&mut self, now: Millis, input: Input<'_>) {
        self.sync.handle(now, &mut self.replica, input);
    }

    fn connect(&mut self, now: Millis) {
        let broadcast = false;
        let link = LINK;
        self.input(now, Input::Connected { link, broadcast });
    }

    fn frames(&mut self) -> Vec<Vec<u8>> {
        let outputs = core::iter::from_fn(|| self.sync.poll());
        let sent = outputs.filter_map(|it| match it {
            Output::Send { bytes, .. } => Some(bytes.to_vec()),
            _ => None,
        });
        sent.collect()
    }

    fn time(&self, now: Millis) -> Option<u64> {
        self.sync.member_time(now, &self.replica)
    }
}

/// Hands over all frames in both directions. Returns the times that the first one told.
fn talk(now: Millis, one: &mut End, two: &mut End) -> Vec<u64> {
    let mut told = Vec::new();
    loop {
        let [from_one, from_two] = [one.frames(), two.frames()];
        if from_one.is_empty() && from_two.is_empty() {
            return told;
        }
        for bytes in &from_one {
            if let Body::Time(unix_ms) = Frame::decode(bytes).unwrap().body {
                told.push(unix_ms);
            }
            two.input(now, Input::Frame { link: LINK, bytes });
        }
        for bytes in &from_two {
            let it = Frame::decode(bytes).unwrap().body;
            assert!(!matches!(it, Body::Time(_)), "a guest tells no time");
            one.input(now, Input::Frame { link: LINK, bytes });
        }
    }
}

fn tick(now: Millis, one: &mut End, two: &mut End) -> Vec<u64> {
    one.replica.set_time(BEGINS + now);
    one.input(now, Input::Tick);
    two.input(now, Input::Tick);
    talk(now, one, two)
}

#[test]
fn a_guest_goes_on_by_the_time_of_its_member() {
    let (mut member, mut guest) = (End::member(), End::new(replica(200), true));
    assert_eq!(guest.time(0), None);
    member.connect(0);
    guest.connect(0);
    // The time comes before the guest knows that it is a member's.
    assert_eq!(tick(0, &mut member, &mut guest), [BEGINS]);
    assert!(guest.replica.members().configuration().is_some());
    assert_eq!(guest.time(0), Some(BEGINS));
    assert_eq!(guest.time(1_234), Some(BEGINS + 1_234));
    // The member tells it again with digests, though not with each.
    let mut told = Vec::new();
    for now in (0..100_000).step_by(500) {
        told.extend(tick(now, &mut member, &mut guest));
    }
    let gaps: Vec<u64> = told.windows(2).map(|it| it[1] - it[0]).collect();
    assert!(!gaps.is_empty());
    assert!(
        gaps.iter().all(|it| (AGAIN_MS..40_000).contains(it)),
        "{gaps:?}"
    );
    // The member's clock was set.
    member.replica.set_time(7);
    guest.input(100_000, Input::Disconnected { link: LINK });
    member.input(100_000, Input::Disconnected { link: LINK });
    let last = told.last().unwrap() - BEGINS;
    assert_eq!(
        guest.time(last + HOLDS_MS - 1),
        Some(BEGINS + last + HOLDS_MS - 1)
    );
    assert_eq!(guest.time(last + HOLDS_MS), None);
}

#[test]
fn a_member_that_is_unsure_tells_no_time() {
    let (mut member, mut guest) = (End::member(), End::new(replica(200), true));
    member.replica.members_mut().set_time_unsure(true);
    member.connect(0);
    guest.connect(0);
    let told = |ends: (&mut End, &mut End), from: Millis| {
        let (member, guest) = ends;
        let times = (from..from + 40_000).step_by(500);
        times.flat_map(|now| tick(now, member, guest)).count()
    };
    assert_eq!(told((&mut member, &mut guest), 0), 0);
    member.replica.members_mut().set_time_unsure(false);
    assert!(told((&mut member, &mut guest), 40_000) > 0);
}

#[test]
fn a_time_counts_only_from_a_member() {
    let mut guest = End::new(replica(200), true);
    guest.replica.merge(&full(&End::member().replica)).unwrap();
    guest.connect(0);
    let mut other = End::new(replica(150), false);
    other.connect(0);
    talk(0, &mut other, &mut guest);
    guest.sync.time_came(0, LINK, BEGINS);
    assert_eq!(guest.time(0), None);
    guest.sync.set_writer(LINK, id(100));
    guest.sync.time_came(0, LINK, BEGINS);
    assert_eq!(guest.time(0), Some(BEGINS));
    // A program that did not ask for it passes it over.
    guest.sync.config.takes_time = false;
    guest.sync.time_came(9, LINK, 1);
    assert_eq!(guest.time(9), Some(BEGINS + 9));
}

#[test]
fn nobody_else_is_told_a_time() {
    // It did not ask.
    let (mut member, mut guest) = (End::member(), End::new(replica(200), false));
    member.connect(0);
    guest.connect(0);
    assert_eq!(tick(0, &mut member, &mut guest), []);
    // A guest, or a replica in an open space, has none to tell.
    for mut open in [guest, End::new(replica(220), false)] {
        let mut guest = End::new(replica(210), true);
        open.input(1, Input::Disconnected { link: LINK });
        open.frames();
        open.connect(1);
        guest.connect(1);
        assert_eq!(tick(1, &mut open, &mut guest), []);
    }
    // A program that sets no time has none either.
    let (mut member, mut guest) = (End::member(), End::new(replica(200), true));
    member.connect(0);
    guest.connect(0);
    assert_eq!(talk(0, &mut member, &mut guest), []);
    assert_eq!(guest.time(0), None);
    // A digest makes up for that.
    assert_eq!(tick(20_000, &mut member, &mut guest), [BEGINS + 20_000]);
}

#[test]
fn a_guest_of_limited_rights_is_told_the_time() {
    let (mut member, mut guest) = (End::member(), End::new(replica(200), true));
    let (link, owner, role) = (LINK, [7; 32], Role::Reader);
    member.input(0, Input::Limited { link, owner, role });
    guest.connect(0);
    assert_eq!(tick(0, &mut member, &mut guest), [BEGINS]);
    assert_eq!(guest.time(0), Some(BEGINS));
}
