//! A guest of a member that was given up while it was away comes back, and each of its adds counts
//! once; what nobody can know is told.

use std::collections::VecDeque;
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{
    AdmissionError, Encode, Error, Input, Link, Mark, Message, Millis, Output, Owner, Replica,
    Returned, Space, SyncConfig, SyncMachine, VersionVector, WriterId,
};
#[cfg(target_family = "wasm")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const MEMBER: usize = 0;
const GUEST: usize = 1;
const OWNERS: [Owner; 2] = [[1; 32], [2; 32]];
const LEASE_MS: u32 = 2_000;

struct Peer {
    replica: Replica,
    sync: SyncMachine,
    mark: Mark,
    /// What a store would have kept.
    log: Vec<Vec<u8>>,
    returned: Vec<Returned>,
}

impl Peer {
    fn new(at: usize, nonce: u8, owner: Option<Owner>) -> Peer {
        Peer {
            replica: Replica::new(Space::default(), mint(&OWNERS[at], nonce)),
            sync: machine(owner, u64::from(nonce)),
            mark: Mark::default(),
            log: Vec::new(),
            returned: Vec::new(),
        }
    }
}

/// A member and a guest, and a link between them that may be down.
struct Pair {
    peers: [Peer; 2],
    now: Millis,
    nonce: u8,
    link: u32,
    linked: bool,
    /// Frames under way, and to whom.
    frames: VecDeque<(usize, Link, Vec<u8>)>,
    /// Whether what the member sends is lost.
    deaf: bool,
}

/// What a member begins from.
#[derive(Clone, Copy)]
enum From {
    /// What its store kept, record by record.
    Log,
    /// The snapshot in its store.
    Snapshot,
    /// The state that others were sent.
    State,
}

impl Pair {
    fn new() -> Pair {
        let mut pair = Pair::open();
        pair.found();
        pair
    }

    fn open() -> Pair {
        let peer = |at: usize| Peer::new(at, at as u8, Some(OWNERS[at]));
        Pair {
            peers: [peer(MEMBER), peer(GUEST)],
            now: 0,
            nonce: 10,
            link: 0,
            linked: false,
            frames: VecDeque::new(),
            deaf: false,
        }
    }

    fn found(&mut self) {
        let nonce = [MEMBER as u8; 16];
        let member = &mut self.peers[MEMBER].replica;
        member
            .members_mut()
            .found(&OWNERS[MEMBER], &nonce, 1)
            .unwrap();
        self.handle(MEMBER, Input::Changed);
    }

    fn connect(&mut self) {
        self.link += 1;
        self.linked = true;
        let (link, broadcast) = (Link(self.link), false);
        for at in [MEMBER, GUEST] {
            self.handle(at, Input::Connected { link, broadcast });
        }
    }

    fn cut(&mut self) {
        self.linked = false;
        let link = Link(self.link);
        for at in [MEMBER, GUEST] {
            self.handle(at, Input::Disconnected { link });
        }
    }

    /// Hands something in, and everything that comes of it.
    fn handle(&mut self, at: usize, input: Input<'_>) {
        let now = self.now;
        let peer = &mut self.peers[at];
        peer.sync.handle(now, &mut peer.replica, input);
        self.keep(at);
        while let Some(output) = self.peers[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => {
                    let lost = !self.linked || self.deaf && at == MEMBER;
                    if !lost {
                        self.frames.push_back((1 - at, link, bytes.to_vec()));
                    }
                }
                Output::Renew => {
                    self.nonce += 1;
                    let writer = mint(&OWNERS[at], self.nonce);
                    self.handle(at, Input::Renew { writer });
                    self.take_part();
                }
                Output::Returned(returned) => self.peers[at].returned.push(*returned),
                Output::Refused { error, .. } => panic!("{at} refused: {error}"),
                _ => {}
            }
        }
    }

    fn calm(&mut self) {
        for count in 0.. {
            let Some((to, link, bytes)) = self.frames.pop_front() else {
                return;
            };
            assert!(
                count < 1_000,
                "they talk without end: {:?}",
                Frame::decode(&bytes)
            );
            let bytes = &bytes;
            self.handle(to, Input::Frame { link, bytes });
        }
    }

    fn keep(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        if let Some(message) = peer.replica.since(&mut peer.mark) {
            if message.is_whole() {
                peer.log.clear();
            }
            peer.log.push(message.encode_stored());
        }
    }

    fn add(&mut self, by: i64) {
        self.peers[GUEST].replica.add("key", by).unwrap();
        self.handle(GUEST, Input::Changed);
    }

    fn wait(&mut self, millis: Millis) {
        for step in 0..millis / 100 {
            self.now += 100;
            self.handle(MEMBER, Input::Tick);
            self.handle(GUEST, Input::Tick);
            self.calm();
            self.take_part();
            if step % 5 == 0 {
                self.tend(MEMBER);
                self.tend(GUEST);
            }
        }
    }

    fn tend(&mut self, at: usize) {
        let Peer {
            replica,
            sync,
            mark,
            ..
        } = &mut self.peers[at];
        sync.tend(self.now, replica, mark).unwrap();
        self.handle(at, Input::Changed);
    }

    /// Announces the guest if it was made a member, knows, and has caught up.
    fn take_part(&mut self) {
        let guest = &mut self.peers[GUEST].replica;
        let named = guest
            .members()
            .configuration()
            .is_some_and(|it| it.has(&OWNERS[GUEST]));
        let level = self.peers[GUEST].sync.has_caught_up(guest);
        if named && level && !guest.members().is_announced() {
            let nonce = [self.nonce; 16];
            guest
                .members_mut()
                .announce(&OWNERS[GUEST], &nonce, self.now)
                .unwrap();
            self.handle(GUEST, Input::Changed);
        }
    }

    /// A process ends, and another begins.
    fn restart(&mut self, at: usize, from: From) {
        self.keep(at);
        self.nonce += 1;
        let Peer {
            replica,
            sync,
            mark,
            log,
            ..
        } = &mut self.peers[at];
        match from {
            From::Log => {}
            From::Snapshot => *log = vec![replica.snapshot().encode_stored()],
            From::State => *log = vec![replica.delta(&VersionVector::default()).encode()],
        }
        *replica = Replica::new(Space::default(), mint(&OWNERS[at], self.nonce));
        for record in log {
            let message = Message::decode_stored(record).unwrap();
            replica.restore(&message).unwrap();
        }
        *mark = Mark::default();
        replica.since(mark);
        *sync = machine(Some(OWNERS[at]), u64::from(self.nonce));
        if at == MEMBER {
            let nonce = [self.nonce; 16];
            replica
                .members_mut()
                .announce(&OWNERS[at], &nonce, self.now)
                .unwrap();
        }
    }

    fn values(&self) -> [Option<i128>; 2] {
        [MEMBER, GUEST].map(|at| self.peers[at].replica.value("key"))
    }
}

fn mint(owner: &Owner, nonce: u8) -> WriterId {
    WriterId::mint(&Space::default(), owner, &[nonce; 16])
}

fn machine(owner: Option<Owner>, seed: u64) -> SyncMachine {
    let config = SyncConfig {
        guest_timeout_ms: LEASE_MS,
        interval_ms: 500,
        owner,
        ..SyncConfig::default()
    };
    SyncMachine::new(config, seed)
}

/// A guest that has added 5, which the member holds, and as the case has it 3 of which it does not
/// know whether they arrived; it is away, adds 7, and is forgotten.
fn forgotten(pair: &mut Pair, unheard: bool) {
    pair.connect();
    pair.wait(1_000);
    pair.add(5);
    pair.wait(3_000);
    if unheard {
        pair.deaf = true;
        pair.add(3);
        pair.wait(100);
    }
    pair.cut();
    pair.deaf = false;
    pair.add(7);
    let guest = pair.peers[GUEST].replica.writer();
    pair.wait(10_000);
    let known = |(writer, _)| writer == guest;
    assert!(!pair.peers[MEMBER].replica.writers().any(known));
}

#[test]
fn a_forgotten_guest_makes_again_what_did_not_arrive() {
    for unheard in [false, true] {
        let mut pair = Pair::new();
        forgotten(&mut pair, unheard);
        pair.connect();
        pair.wait(5_000);
        let total = Some(if unheard { 15 } else { 12 });
        assert_eq!(pair.values(), [total; 2]);
        let returned = &pair.peers[GUEST].returned;
        assert_eq!((returned.len(), returned[0].unknown), (1, None));
    }
}

#[test]
fn a_member_knows_after_a_restart_what_it_took_over() {
    for from in [From::Log, From::Snapshot] {
        let mut pair = Pair::new();
        forgotten(&mut pair, true);
        pair.restart(MEMBER, from);
        pair.connect();
        pair.wait(5_000);
        assert_eq!(pair.values(), [Some(15); 2]);
        assert_eq!(pair.peers[GUEST].returned[0].unknown, None);
    }
}

/// Its link breaks after so many frames, of which some told it that others are members, or that it was
/// taken in, or carried what it had counted.
#[test]
fn a_guest_whose_first_contact_broke_counts_once() {
    for (frames, away) in (0..30).flat_map(|frames| [(frames, 0), (frames, 10_000)]) {
        let mut pair = Pair::new();
        pair.add(7);
        pair.connect();
        for _ in 0..frames {
            if let Some((to, link, bytes)) = pair.frames.pop_front() {
                let bytes = &bytes;
                pair.handle(to, Input::Frame { link, bytes });
            }
        }
        pair.frames.clear();
        pair.cut();
        pair.wait(away);
        pair.add(1);
        pair.connect();
        pair.wait(8_000);
        assert_eq!(pair.values(), [Some(8); 2], "{frames} frames, {away} ms");
        let mut returned = pair.peers[GUEST].returned.iter();
        assert!(
            returned.all(|it| it.unknown.is_none()),
            "{frames} frames, {away} ms"
        );
    }
}

/// It may become a member, and would take such a one in as if nobody had before. A page has no use
/// for that.
#[test]
fn who_begins_from_a_members_state_knows_who_was_forgotten() {
    for owner in [Some(OWNERS[GUEST]), None] {
        let mut pair = Pair::new();
        forgotten(&mut pair, false);
        let gone = pair.peers[GUEST].replica.writer();
        pair.peers[GUEST] = Peer::new(GUEST, 99, owner);
        pair.connect();
        pair.wait(1_000);
        assert_eq!(pair.values(), [Some(5); 2]);
        let known = pair.peers[GUEST].replica.members().retired_clock(&gone);
        assert_eq!(known, owner.map(|_| 1));
    }
}

/// Nobody remembers up to which clock the guest was taken over: what was acknowledged to it counts,
/// what it never sent is added, and of the rest it is told.
#[test]
fn what_nobody_can_know_is_told_and_not_added_again() {
    for unheard in [false, true] {
        let mut pair = Pair::new();
        forgotten(&mut pair, unheard);
        pair.restart(MEMBER, From::State);
        pair.connect();
        pair.wait(5_000);
        let total = Some(if unheard { 15 } else { 12 });
        assert_eq!(pair.values(), [total; 2]);
        let unknown = unheard.then_some((2, 2));
        assert_eq!(pair.peers[GUEST].returned[0].unknown, unknown);
    }
}

/// Nothing becomes certain before the new member has announced itself, and it does not know that it
/// is one before it has come back.
#[test]
fn a_guest_comes_back_that_was_made_a_member_meanwhile() {
    let mut pair = Pair::new();
    pair.connect();
    pair.wait(1_000);
    pair.add(5);
    pair.wait(3_000);
    pair.cut();
    pair.add(7);
    let guest = pair.peers[GUEST].replica.writer();
    let member = &mut pair.peers[MEMBER].replica;
    member.members_mut().propose(&OWNERS).unwrap();
    member.members_mut().fence(&guest).unwrap();
    pair.wait(1_000);
    pair.connect();
    pair.wait(10_000);
    assert_eq!(pair.values(), [Some(12); 2]);
    assert!(pair.peers[GUEST].replica.members().is_member());
    assert_eq!(pair.peers[GUEST].returned[0].unknown, None);
}

/// Somebody pushes what the writer never made. All that it made counts once, under another writer.
#[test]
fn who_hears_of_own_clocks_that_it_never_came_to_goes_on_under_another_writer() {
    for (member, linked) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut pair = Pair::new();
        pair.connect();
        if member {
            let founder = &mut pair.peers[MEMBER].replica;
            founder.members_mut().propose(&OWNERS).unwrap();
        }
        pair.wait(1_000);
        pair.add(5);
        pair.wait(3_000);
        if !linked {
            pair.cut();
            pair.add(7);
        }
        let guest = &pair.peers[GUEST].replica;
        let (writer, since) = (guest.writer(), guest.vector());
        assert_eq!(guest.members().is_member(), member);
        let mut twin = guest.clone();
        for _ in 0..50 {
            twin.add("forged", 1).unwrap();
        }
        let space = Space::default();
        let body = Body::Push(twin.delta(&since));
        let bytes = &Frame { space, body }.encode();
        for _ in 0..2 {
            let from = linked.then_some(Link(pair.link));
            pair.handle(GUEST, Input::Broadcast { from, bytes });
        }
        if linked {
            pair.add(7);
        } else {
            // Alone it goes on, and comes back once it meets a member.
            pair.wait(500);
            assert_eq!(pair.peers[GUEST].replica.writer(), writer);
            pair.connect();
        }
        pair.wait(10_000);
        let guest = &pair.peers[GUEST].replica;
        assert_ne!(guest.writer(), writer, "member {member}, linked {linked}");
        assert_eq!(guest.members().is_member(), member);
        pair.add(1);
        pair.wait(3_000);
        assert_eq!(
            pair.values(),
            [Some(13); 2],
            "member {member}, linked {linked}"
        );
        assert_eq!(pair.peers[GUEST].replica.value("forged"), None);
        let again = pair.peers[GUEST].replica.writer();
        pair.wait(10_000);
        assert_eq!(pair.peers[GUEST].replica.writer(), again);
    }
}

/// What was counted before there were members counts, also where it meets the news of them halfway.
#[test]
fn a_writer_goes_on_that_wrote_while_the_space_got_members() {
    for member in [false, true] {
        let mut pair = Pair::open();
        pair.connect();
        pair.wait(100);
        pair.add(5);
        pair.handle(GUEST, Input::Tick);
        pair.found();
        if member {
            let founder = &mut pair.peers[MEMBER].replica;
            founder.members_mut().propose(&OWNERS).unwrap();
            founder.members_mut().vote().unwrap();
        }
        pair.wait(10_000);
        assert_eq!(pair.values(), [Some(5); 2]);
        assert!(pair.peers[GUEST].returned.is_empty());
        assert_eq!(pair.peers[GUEST].replica.members().is_member(), member);
    }
}

#[test]
fn a_sole_member_keeps_no_list_of_what_it_did() {
    let mut pair = Pair::new();
    let kept = |pair: &Pair| {
        let mut member = pair.peers[MEMBER].replica.clone();
        let state = member.delta(&VersionVector::default());
        let fresh = mint(&OWNERS[MEMBER], 99);
        let journal = member
            .rejoin_mut()
            .begin_again(fresh, &state, &mut |_| ())
            .unwrap();
        journal.len()
    };
    pair.peers[MEMBER].replica.add("key", 5).unwrap();
    assert_eq!(kept(&pair), 1);
    pair.tend(MEMBER);
    assert_eq!(kept(&pair), 0);
    let member = &mut pair.peers[MEMBER].replica;
    member.members_mut().force(&OWNERS[..1]).unwrap();
    member.add("key", 5).unwrap();
    pair.tend(MEMBER);
    assert_eq!(kept(&pair), 1);
}

/// A member that lost its memory finds in the guest's own words that it was taken in, and forgotten.
#[test]
fn a_guest_that_was_taken_in_is_not_taken_for_a_new_one() {
    let space = Space::default;
    let mut member = Replica::new(space(), mint(&OWNERS[MEMBER], 0));
    member
        .members_mut()
        .found(&OWNERS[MEMBER], &[0; 16], 1)
        .unwrap();
    let mut guest = Replica::new(space(), mint(&OWNERS[GUEST], 1));
    let live = Some(guest.writer());
    guest.add("key", 5).unwrap();
    member.members_mut().admit(&guest.writer()).unwrap();
    guest
        .merge(&member.delta(&VersionVector::default()))
        .unwrap();
    let told = guest.delta(&member.vector());
    member.merge_with(&told, live, &mut |_| ()).unwrap();
    member.members_mut().fence(&guest.writer()).unwrap();
    while member.writers().count() > 1 {
        member.members_mut().retire().unwrap();
        member.members_mut().acknowledge().unwrap();
        let kept = member.mark();
        member.members_mut().collect(&kept);
    }
    let state = member.delta(&VersionVector::default());
    let mut without_memory = Replica::new(space(), mint(&OWNERS[MEMBER], 2));
    without_memory.merge(&state).unwrap();
    without_memory
        .members_mut()
        .announce(&OWNERS[MEMBER], &[2; 16], 2)
        .unwrap();
    let told = guest.delta(&without_memory.vector());
    let refused = without_memory.merge_with(&told, live, &mut |_| ());
    let writer = guest.writer();
    assert_eq!(
        refused,
        Err(Error::Admission(AdmissionError::Gone { writer }))
    );
    assert_eq!(without_memory.value("key"), Some(5));
}

/// What a guest had written before its process ended counts, though it was given up meanwhile.
#[test]
fn a_guest_that_starts_again_brings_what_did_not_arrive() {
    for from in [From::Log, From::Snapshot] {
        for unheard in [false, true] {
            let mut pair = Pair::new();
            forgotten(&mut pair, unheard);
            pair.restart(GUEST, from);
            pair.connect();
            pair.wait(5_000);
            let total = Some(if unheard { 15 } else { 12 });
            assert_eq!(pair.values(), [total; 2], "{unheard}");
            assert!(
                pair.peers[GUEST]
                    .returned
                    .iter()
                    .all(|it| it.unknown.is_none())
            );
        }
    }
}

/// What was counted alone, before the space had members and before the process began, is not lost
/// when it meets them.
#[test]
fn what_was_counted_alone_counts_when_the_space_has_members() {
    for from in [From::Log, From::Snapshot] {
        for (member, late) in [(false, 0), (true, 0), (false, 3), (true, 3)] {
            let mut pair = Pair::open();
            pair.add(5);
            pair.restart(GUEST, from);
            pair.found();
            if member {
                let founder = &mut pair.peers[MEMBER].replica;
                founder.members_mut().propose(&OWNERS).unwrap();
                founder.members_mut().vote().unwrap();
            }
            if late > 0 {
                pair.add(late);
            }
            pair.connect();
            pair.wait(20_000);
            let total = Some(i128::from(5 + late));
            assert_eq!(pair.values(), [total; 2], "{member} {late}");
            let returned = &pair.peers[GUEST].returned;
            assert!(returned.iter().all(|it| it.unknown.is_none()));
            assert_eq!(pair.peers[GUEST].replica.members().is_member(), member);
        }
    }
}
