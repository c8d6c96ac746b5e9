//! Two members, or the nodes of an open space, and Eve, on links without losses.

use std::collections::{BTreeMap, VecDeque};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{
    Input, Link, Mark, Message, Millis, Op, Output, Owner, Replica, Role, Space, SyncConfig,
    SyncMachine, VersionVector, WriterId,
};

pub(crate) const MEMBER: usize = 0;
pub(crate) const OTHER: usize = 1;
pub(crate) const EVE: usize = 2;

const INTERVAL_MS: u32 = 500;
const LEASE_MS: u32 = 5_000;
/// The type of a frame that requests missing changes.
const PULL: u8 = 3;

pub(crate) struct Peer {
    pub(crate) replica: Replica,
    pub(crate) sync: SyncMachine,
    pub(crate) owner: Owner,
    /// Its first writer. `nonce` is the nonce of this writer.
    pub(crate) first: WriterId,
    pub(crate) nonce: [u8; 16],
    mark: Mark,
}

struct Wire {
    ends: [usize; 2],
    /// The role that the first end gives the second.
    role: Option<Role>,
}

pub(crate) struct World {
    pub(crate) peers: Vec<Peer>,
    /// All rejections: the replica, the link that was closed, and the code.
    pub(crate) refused: Vec<(usize, Option<Link>, &'static str)>,
    /// Number of frames of each type on each link.
    pub(crate) sent: BTreeMap<(Link, u8), usize>,
    /// Whether Eve's machine ignores what others accept, from the next link on.
    pub(crate) careless: bool,
    now: Millis,
    wires: BTreeMap<Link, Wire>,
    flights: VecDeque<(usize, Link, Vec<u8>)>,
    nonces: u8,
    links: u32,
}

impl World {
    /// Two linked nodes, which are members if the space is `closed`, and Eve without a link.
    pub(crate) fn new(closed: bool) -> World {
        let mut world = World {
            peers: Vec::new(),
            refused: Vec::new(),
            sent: BTreeMap::new(),
            careless: false,
            now: 1,
            wires: BTreeMap::new(),
            flights: VecDeque::new(),
            nonces: 0,
            links: 0,
        };
        let owners: [Owner; 2] = [[1; 32], [2; 32]];
        for owner in [owners[0], owners[1], [0xee; 32]] {
            world.start(owner);
        }
        world.link(MEMBER, OTHER, None);
        world.runs(100);
        if closed {
            let nonce = world.peers[MEMBER].nonce;
            let first = &mut world.peers[MEMBER].replica;
            first.members_mut().found(&owners[0], &nonce, 1).unwrap();
            first.members_mut().propose(&owners).unwrap();
            world.changed(MEMBER);
            world.runs(1_000);
            let nonce = world.peers[OTHER].nonce;
            let other = &mut world.peers[OTHER].replica;
            other.members_mut().announce(&owners[1], &nonce, 2).unwrap();
            world.changed(OTHER);
        }
        world.add(MEMBER, "a", 10);
        world.runs(10_000);
        assert_eq!(world.value(OTHER, "a"), Some(10));
        if closed {
            assert!(
                world.peers[..2]
                    .iter()
                    .all(|it| it.replica.members().is_established())
            );
        }
        world
    }

    pub(crate) fn start(&mut self, owner: Owner) -> usize {
        let nonce = self.nonce();
        let first = WriterId::mint(&Space::default(), &owner, &nonce);
        let at = self.peers.len();
        let config = SyncConfig {
            interval_ms: INTERVAL_MS,
            pull_timeout_ms: 400,
            guest_timeout_ms: LEASE_MS,
            owner: (at < 2).then_some(owner),
            ..SyncConfig::default()
        };
        self.peers.push(Peer {
            replica: Replica::new(Space::default(), first),
            sync: SyncMachine::new(config, at as u64 + 7),
            owner,
            first,
            nonce,
            mark: Mark::default(),
        });
        let writer = first;
        self.input(at, Input::Own { writer, nonce });
        at
    }

    fn nonce(&mut self) -> [u8; 16] {
        self.nonces += 1;
        [self.nonces; 16]
    }

    /// Links two replicas. The first one gives the second this role.
    pub(crate) fn link(&mut self, one: usize, two: usize, role: Option<Role>) -> Link {
        self.links += 1;
        let (link, broadcast) = (Link(self.links), false);
        let ends = [one, two];
        self.wires.insert(link, Wire { ends, role });
        let connected = Input::Connected { link, broadcast };
        let owner = self.peers[two].owner;
        let limited = role.map(|role| Input::Limited { link, owner, role });
        self.input(one, limited.unwrap_or(connected));
        self.input(two, connected);
        link
    }

    pub(crate) fn unlink(&mut self, link: Link) {
        for at in self.wires.remove(&link).into_iter().flat_map(|it| it.ends) {
            self.input(at, Input::Disconnected { link });
        }
    }

    pub(crate) fn unlink_all(&mut self, at: usize) {
        let of = self.wires.iter().filter(|it| it.1.ends.contains(&at));
        let of: Vec<Link> = of.map(|it| *it.0).collect();
        of.into_iter().for_each(|link| self.unlink(link));
    }

    pub(crate) fn input(&mut self, at: usize, input: Input<'_>) {
        let peer = &mut self.peers[at];
        peer.sync.handle(self.now, &mut peer.replica, input);
        while let Some(output) = self.peers[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(at, link, bytes.to_vec()),
                Output::Refused { close, error } => {
                    self.refused.push((at, close, error.code()));
                    if let Some(link) = close {
                        self.unlink(link);
                    }
                }
                Output::Renew => {
                    let nonce = self.nonce();
                    let writer = WriterId::mint(&Space::default(), &self.peers[at].owner, &nonce);
                    self.input(at, Input::Own { writer, nonce });
                    self.input(at, Input::Renew { writer });
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, from: usize, link: Link, bytes: Vec<u8>) {
        let Some(Wire { ends, .. }) = self.wires.get(&link) else {
            return;
        };
        let to = ends[usize::from(ends[0] == from)];
        *self.sent.entry((link, bytes[3])).or_default() += 1;
        self.flights.push_back((to, link, bytes));
    }

    /// Number of pulls on all links since `before`.
    pub(crate) fn pulls_since(&self, before: &BTreeMap<(Link, u8), usize>) -> usize {
        let pulls = self.sent.iter().filter(|it| it.0.1 == PULL);
        pulls
            .map(|it| it.1 - before.get(it.0).copied().unwrap_or(0))
            .sum()
    }

    /// Delivers all frames.
    pub(crate) fn settle(&mut self) {
        while let Some((to, link, bytes)) = self.flights.pop_front() {
            if self.wires.contains_key(&link) {
                let bytes = self.heard(to, &bytes);
                let bytes = &bytes;
                self.input(to, Input::Frame { link, bytes });
            }
        }
    }

    /// A frame at its receiver. Eve may ignore what others accept.
    fn heard(&self, to: usize, bytes: &[u8]) -> Vec<u8> {
        let mut frame = Frame::decode(bytes).expect("a frame of ours decodes");
        if let Body::Hello(hello) = &mut frame.body
            && to == EVE
            && self.careless
        {
            hello.capabilities = 0;
        }
        frame.encode()
    }

    /// Lets this time pass.
    pub(crate) fn runs(&mut self, millis: Millis) {
        let until = self.now + millis;
        self.settle();
        while self.now < until {
            self.now += 10;
            for at in 0..self.peers.len() {
                self.input(at, Input::Tick);
                self.settle();
                if self.now % 500 < 10 {
                    self.tend(at);
                }
            }
        }
    }

    fn tend(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        let _ = peer.replica.since(&mut peer.mark);
        let tended = peer
            .sync
            .tend(self.now, &mut peer.replica, &peer.mark)
            .unwrap();
        if tended {
            self.changed(at);
        }
    }

    pub(crate) fn changed(&mut self, at: usize) {
        self.input(at, Input::Changed);
    }

    pub(crate) fn add(&mut self, at: usize, key: &str, by: i64) {
        self.apply(at, key, Op::Add(by));
    }

    /// A replica makes an operation.
    pub(crate) fn apply(&mut self, at: usize, key: &str, op: Op) {
        self.peers[at].replica.apply(key, op).unwrap();
        self.changed(at);
    }

    /// A peer sends this on its link to the member.
    pub(crate) fn say(&mut self, at: usize, bytes: &[u8]) {
        let link = self.link_of(at);
        self.send(at, link, bytes.to_vec());
        self.settle();
    }

    fn link_of(&self, at: usize) -> Link {
        let mut links = self.wires.iter();
        let of = links.find(|it| it.1.ends == [MEMBER, at] && it.1.role.is_some());
        *of.expect("it has a link").0
    }

    /// A peer passes this on by broadcast.
    pub(crate) fn broadcast(&mut self, to: usize, from: usize, bytes: &[u8]) {
        let from = Some(self.link_of(from));
        self.input(to, Input::Broadcast { from, bytes });
    }

    pub(crate) fn bytes(&self, at: usize) -> Vec<u8> {
        self.peers[at].replica.canonical_bytes()
    }

    pub(crate) fn state(&self, at: usize) -> Message {
        self.peers[at].replica.delta(&VersionVector::default())
    }

    pub(crate) fn value(&self, at: usize, key: &str) -> Option<i128> {
        self.peers[at].replica.value(key)
    }
}
