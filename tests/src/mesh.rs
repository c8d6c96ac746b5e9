//! A space with members over the sync machine: three members, guests that come, write, fall silent,
//! and come back, over links that lose, repeat and reorder frames. Only adds, so that the sum at the
//! end tells whether each counted once.

mod figures;
mod keyed;
mod limited;
mod stores;

pub use figures::Figures;

use crate::random::Random;
use std::collections::BTreeMap;
use tallymesh_core::{
    Input, Link, Mark, Op, Output, Owner, Replica, Returned, Role, Space, Sync, SyncConfig,
    WriterId,
};

struct Peer {
    replica: Replica,
    sync: Sync,
    mark: Mark,
    /// What its store keeps.
    log: Vec<Vec<u8>>,
    /// What it added, under which writer and clock.
    made: Vec<(WriterId, u64, i128)>,
    owner: Option<Owner>,
    /// Under whose key its writers are minted, and of a guest with limited rights what that may do.
    key: Owner,
    role: Option<Role>,
    /// All its writers and what they were minted with, where rights are limited.
    own: Vec<(WriterId, [u8; 16])>,
    /// Whether its links are up.
    linked: bool,
    gone: bool,
    started: u64,
    /// What a backup has of a member.
    saved: Option<Vec<u8>>,
}

/// A frame under way: when it arrives, to whom, on which link.
type Flight = (u64, usize, Link, Vec<u8>);

struct Mesh {
    random: Random,
    now: u64,
    peers: Vec<Peer>,
    links: BTreeMap<Link, [usize; 2]>,
    flights: Vec<Flight>,
    next_link: u32,
    restored_at: u64,
    figures: Figures,
    expected: i128,
    /// How much of it may not count, as nobody knows.
    unknown: i128,
    /// What was made more than once under one key, and may be seen until that is heard of.
    doubled: i128,
    loss: u64,
    keyed: Option<keyed::Keyed>,
    limited: Option<Random>,
    /// Draws when a start takes over what two guests had stored, if any does.
    tabs: Option<Random>,
    /// The first time that somebody with limited rights was refused for them.
    wronged: Option<String>,
}

const LEASE_MS: u32 = 3_000;
const STEP_MS: u64 = 20;
const MEMBERS: usize = 3;

/// Plays one seed.
///
/// # Errors
/// Says what went wrong.
pub fn run(seed: u64) -> Result<Figures, String> {
    play(seed, None, None, None)
}

/// Plays one seed, in which starts of guests take over what two of them had stored, as the tabs of a
/// browser do; every other seed with limited rights.
///
/// # Errors
/// Says what went wrong.
pub fn run_tabs(seed: u64) -> Result<Figures, String> {
    let limited = (seed % 2 == 1).then(|| Random::new(seed ^ 0x4164));
    play(seed, None, limited, Some(Random::new(seed ^ 0x7ab5)))
}

/// Plays one seed, in which members take keyed operations as well, are asked for them again, and are
/// parted.
///
/// # Errors
/// Says what went wrong.
pub fn run_keyed(seed: u64) -> Result<Figures, String> {
    play(seed, Some(keyed::Keyed::new(seed)), None, None)
}

/// Plays one seed, in which most guests have limited rights.
///
/// # Errors
/// Says what went wrong.
pub fn run_limited(seed: u64) -> Result<Figures, String> {
    play(seed, None, Some(Random::new(seed ^ 0x4164)), None)
}

fn play(
    seed: u64,
    keyed: Option<keyed::Keyed>,
    limited: Option<Random>,
    tabs: Option<Random>,
) -> Result<Figures, String> {
    let mut random = Random::new(seed ^ 0x3e5b);
    let loss = *random.pick(&[0, 50, 200]);
    let mut mesh = Mesh {
        random,
        now: 0,
        peers: Vec::new(),
        links: BTreeMap::new(),
        flights: Vec::new(),
        next_link: 0,
        restored_at: 0,
        figures: Figures::default(),
        expected: 0,
        unknown: 0,
        doubled: 0,
        loss,
        keyed,
        limited,
        tabs,
        wronged: None,
    };
    mesh.play()
        .map_err(|error| format!("seed {seed}: {error}"))?;
    Ok(mesh.figures)
}

impl Mesh {
    fn play(&mut self) -> Result<(), String> {
        let owners: Vec<Owner> = (1..=MEMBERS as u8).map(|at| [at; 32]).collect();
        for owner in &owners {
            self.start(Some(*owner), *owner);
        }
        let nonce = self.random.bytes();
        let writer = WriterId::mint(&Space::default(), &owners[0], &nonce);
        self.peers[0].replica = Replica::new(Space::default(), writer);
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            self.connect(a, b);
        }
        // They may count before there are members, and while the news of that is under way.
        for _ in 0..self.random.below(40) {
            if self.random.chance(300) {
                self.write()?;
            }
            if self.random.chance(500) {
                self.step()?;
            }
        }
        let first = &mut self.peers[0].replica;
        let founded = first.found(&owners[0], &nonce, 1);
        founded.map_err(|error| error.to_string())?;
        let proposed = first.propose_members(&owners);
        proposed.map_err(|error| error.to_string())?;
        self.handle(0, Input::Changed);
        for _ in 0..3_000 {
            if self.peers.iter().all(|peer| peer.replica.is_established()) {
                break;
            }
            self.step()?;
        }
        if !self.peers.iter().all(|peer| peer.replica.is_established()) {
            return Err(format!("they don't all become members: {}", self.tell()));
        }
        let steps = self.random.range(200, 1_500);
        for _ in 0..steps {
            self.event()?;
            self.keyed_event()?;
            self.limited_event();
            self.take_over();
            self.step()?;
        }
        self.finish()
    }

    fn start(&mut self, owner: Option<Owner>, key: Owner) -> usize {
        let nonce = self.random.bytes();
        let writer = WriterId::mint(&Space::default(), &key, &nonce);
        let config = SyncConfig {
            interval_ms: 500,
            pull_timeout_ms: 400,
            lease_ms: LEASE_MS,
            owner,
            ..SyncConfig::default()
        };
        self.peers.push(Peer {
            replica: Replica::new(Space::default(), writer),
            sync: Sync::new(config, self.random.next_u64()),
            mark: Mark::default(),
            log: Vec::new(),
            made: Vec::new(),
            owner,
            key,
            role: None,
            own: Vec::from([(writer, nonce)]),
            linked: true,
            gone: false,
            started: self.now,
            saved: None,
        });
        self.peers.len() - 1
    }

    fn connect(&mut self, a: usize, b: usize) {
        let link = Link(self.next_link);
        self.next_link += 1;
        self.links.insert(link, [a, b]);
        for (at, other) in [(a, b), (b, a)] {
            let input = self.connected(link, at, other);
            self.handle(at, input);
        }
    }

    fn handle(&mut self, at: usize, input: Input<'_>) {
        self.take_part(at);
        let peer = &mut self.peers[at];
        peer.sync.handle(self.now, &mut peer.replica, input);
        while let Some(output) = self.peers[at].sync.poll() {
            match output {
                Output::Send { link, bytes } => self.send(at, link, bytes),
                Output::Renew => {
                    let nonce: [u8; 16] = self.random.bytes();
                    let writer = WriterId::mint(&Space::default(), &self.peers[at].key, &nonce);
                    self.proves(at, writer, nonce);
                    self.figures.returns += 1;
                    let old = self.peers[at].replica.writer();
                    let clock = self.peers[at].replica.clock();
                    let last: Vec<Option<u64>> = self
                        .peers
                        .iter()
                        .map(|it| it.replica.last_of(&old))
                        .collect();
                    self.note(|| {
                        format!(
                            "{} {at} returns: {old} at {clock} as {writer}, counted {last:?}, held {:?}",
                            self.now, self.peers.iter().map(|it| it.replica.vector().get(&old)).collect::<Vec<_>>()
                        )
                    });
                    let peer = &mut self.peers[at];
                    peer.sync
                        .handle(self.now, &mut peer.replica, Input::Renew { writer });
                    let clock = self.peers[at].replica.clock();
                    self.note(|| format!("   made again: {clock}"));
                }
                Output::Returned(it) => {
                    self.note(|| format!("{} {at} returned {it:?}", self.now));
                    self.returned(at, &it);
                }
                Output::Refused { close, error } => {
                    self.note(|| format!("{} {at} refuses, closes {close:?}: {error}", self.now));
                    if matches!(error.code(), "not_yours" | "beyond_role") {
                        self.wronged.get_or_insert(format!("{at} refuses: {error}"));
                    }
                }
                _ => {}
            }
        }
    }

    /// A peer made again what did not count, and says of what it is not known.
    fn returned(&mut self, at: usize, it: &Returned) {
        let peer = &self.peers[at];
        let writer = peer.replica.writer();
        if let Some((first, last)) = it.unknown {
            self.figures.unknown += 1;
            // Under which former writer is not said.
            let open = |made: &&(WriterId, u64, i128)| {
                made.0 != writer && (first..=last).contains(&made.1)
            };
            let open = peer.made.iter().filter(open);
            let open: Vec<i128> = open.map(|made| made.2).collect();
            self.unknown += open.iter().sum::<i128>();
            self.doubt_keyed(&open);
        }
        for again in &it.again {
            let adds = again.ops.iter().map(|it| match it.op {
                Op::Add(by) => i128::from(by),
                _ => 0,
            });
            let clock = again.clock.unwrap_or(0);
            self.peers[at].made.push((writer, clock, adds.sum()));
        }
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if std::env::var("TALLYMESH_SEED").is_ok() {
            eprintln!("{}", text());
        }
    }

    fn send(&mut self, from: usize, link: Link, bytes: Vec<u8>) {
        let Some(ends) = self.links.get(&link) else {
            return;
        };
        self.figures.frames += 1;
        let to = ends[usize::from(ends[0] == from)];
        if bytes[3] >= 9 {
            self.note(|| {
                format!(
                    "{} {from} to {to}: frame {} {:?}",
                    self.now,
                    bytes[3],
                    &bytes[11..13]
                )
            });
        }
        let copies = 1 + u64::from(self.random.chance(self.loss / 4));
        for _ in 0..copies {
            // The first frames of a link are not lost: a connection is made or it is not.
            if bytes[3] == 1 || !self.random.chance(self.loss) {
                let late = match bytes[3] {
                    1 => 0,
                    _ => 1 + self.random.below(2 + self.loss / 2),
                };
                self.flights
                    .push((self.now + late, to, link, bytes.clone()));
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += STEP_MS;
        let mut due: Vec<Flight> = self.flights.extract_if(.., |it| it.0 <= self.now).collect();
        due.sort_by_key(|it| it.0);
        for (_, to, link, bytes) in due {
            if self.links.contains_key(&link) {
                self.handle(
                    to,
                    Input::Frame {
                        link,
                        bytes: &bytes,
                    },
                );
            }
        }
        if let Some(wronged) = &self.wronged {
            return Err(format!("{} {wronged}: {}", self.now, self.tell()));
        }
        self.look_for_lost();
        for at in 0..self.peers.len() {
            if self.peers[at].gone {
                continue;
            }
            self.handle(at, Input::Tick);
            // All amounts are positive: nobody may ever see more.
            let sum = self.sum(at);
            if sum > self.expected + self.doubled {
                let expected = self.expected + self.doubled;
                return Err(format!(
                    "{} {at} sees {sum} of {expected}: {}",
                    self.now,
                    self.tell()
                ));
            }
            if self.now % 500 < STEP_MS {
                self.tend(at)?;
            }
        }
        Ok(())
    }

    fn tend(&mut self, at: usize) -> Result<(), String> {
        self.keep(at);
        let peer = &mut self.peers[at];
        let tended = peer.sync.tend(self.now, &mut peer.replica, &peer.mark);
        tended.map_err(|error| format!("{at} tends: {error}"))?;
        self.handle(at, Input::Changed);
        Ok(())
    }

    /// Announces a member's start, as soon as it is known to be one.
    fn take_part(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        let Some(owner) = peer.owner.filter(|_| !peer.replica.is_announced()) else {
            return;
        };
        // Whatever a start begins from may be old.
        let late = peer.started + 5_000 <= self.now;
        if !late && !peer.sync.has_caught_up(&peer.replica) {
            return;
        }
        let members = peer.replica.configuration();
        if members.is_some_and(|members| members.has(&owner)) {
            let announced = peer.replica.announce(&owner, &[0; 16], self.now);
            announced.expect("it is a member");
            peer.sync
                .handle(self.now, &mut peer.replica, Input::Changed);
        }
    }

    fn event(&mut self) -> Result<(), String> {
        match self.random.below(40) {
            0 if self.peers.len() < 12 => {
                let key = self.key_of_guest();
                let at = self.start(None, key);
                self.limit(at);
                self.figures.guests += 1;
                // Some write before they meet anybody.
                self.peers[at].linked = self.random.chance(700);
                if self.peers[at].linked {
                    let member = self.random.index(MEMBERS);
                    self.connect(at, member);
                }
            }
            1 => self.cut(),
            2 => self.mend(),
            3 if self.random.chance(200) => self.vanish(),
            14 if self.random.chance(100) => self.back_up(),
            15 if self.random.chance(100) => self.restore(),
            16 if self.random.chance(100) => self.restart(),
            4..14 => self.write()?,
            _ => {}
        }
        Ok(())
    }

    /// Somebody adds to a counter.
    fn write(&mut self) -> Result<(), String> {
        let at = self.random.index(self.peers.len());
        if self.peers[at].gone || self.peers[at].role == Some(Role::Reader) {
            return Ok(());
        }
        let by = self.random.below(1_000) as i64;
        let key = ["a", "b", "c"][self.random.index(3)];
        let added = self.peers[at].replica.add(key, by);
        added.map_err(|error| format!("{at} adds: {error}"))?;
        self.expected += i128::from(by);
        let peer = &mut self.peers[at];
        let made = (peer.replica.writer(), peer.replica.clock(), by.into());
        peer.made.push(made);
        self.note(|| {
            let clock = self.peers[at].replica.clock();
            format!("{} {at} adds {by} at {clock}", self.now)
        });
        self.figures.adds += 1;
        self.handle(at, Input::Changed);
        Ok(())
    }

    /// A guest's links go down.
    fn cut(&mut self) {
        let at = self.random.index(self.peers.len());
        if at >= MEMBERS {
            self.unlink(at);
        }
    }

    fn unlink(&mut self, at: usize) {
        let of = |ends: &[usize; 2]| ends.contains(&at);
        let links = self.links.iter().filter(|it| of(it.1));
        let links: Vec<(Link, [usize; 2])> = links.map(|it| (*it.0, *it.1)).collect();
        for (link, _) in links {
            self.drop_link(link);
        }
        self.peers[at].linked = false;
    }

    fn drop_link(&mut self, link: Link) {
        for at in self.links.remove(&link).into_iter().flatten() {
            self.handle(at, Input::Disconnected { link });
        }
    }

    fn mend(&mut self) {
        let at = self.random.index(self.peers.len());
        if !self.peers[at].linked && !self.peers[at].gone {
            self.peers[at].linked = true;
            let member = self.random.index(MEMBERS);
            self.connect(at, member);
        }
    }

    /// A guest of whom all is known goes for good.
    fn vanish(&mut self) {
        let at = self.random.index(self.peers.len());
        if at < MEMBERS || self.peers[at].gone {
            return;
        }
        let guest = &self.peers[at].replica;
        let holds = |it: &Peer| {
            let held = it.replica.vector().get(&guest.writer());
            held == guest.clock() && guest.configuration().is_some() && guest.unheld() == 0
        };
        if self.peers[..MEMBERS].iter().all(holds) {
            self.unlink(at);
            self.peers[at].gone = true;
        }
    }

    fn back_up(&mut self) {
        let at = self.random.index(MEMBERS);
        let replica = &self.peers[at].replica;
        self.peers[at].saved = Some(replica.snapshot().encode_stored());
    }

    /// Stores what is new.
    fn keep(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        if let Some(message) = peer.replica.since(&mut peer.mark) {
            if message.is_whole() {
                peer.log.clear();
            }
            peer.log.push(message.encode_stored());
        }
    }

    /// A process ends in order, and starts again.
    fn restart(&mut self) {
        let at = self.random.index(self.peers.len());
        if self.peers[at].gone {
            return;
        }
        self.keep(at);
        self.figures.restarts += 1;
        let log = self.peers[at].log.clone();
        self.begin(at, log, None);
    }

    /// A member starts again from its backup. The others have all that it had.
    fn restore(&mut self) {
        let at = self.random.index(MEMBERS);
        let replica = &self.peers[at].replica;
        let (vector, unheld) = (replica.vector(), replica.unheld());
        let mut others = (0..MEMBERS).filter(|other| *other != at);
        // With their keys: those that nobody else knows are gone with a disk.
        let held = others.all(|other| {
            let other = &self.peers[other].replica;
            other.vector_with_keys().covers(&vector)
        });
        let held = held && unheld == 0 && self.restored_at + 8_000 < self.now;
        let Some(saved) = self.peers[at].saved.clone().filter(|_| held) else {
            return;
        };
        self.figures.restored += 1;
        self.restored_at = self.now;
        self.begin(at, vec![saved], None);
    }

    /// A peer's process ends, and another begins from what it had stored, and from what `other` had.
    fn begin(&mut self, at: usize, log: Vec<Vec<u8>>, other: Option<usize>) {
        let linked = self.peers[at].linked;
        let of = |ends: &[usize; 2]| ends.contains(&at);
        let links = self.links.values().filter(|ends| of(ends));
        let others: Vec<usize> = links.map(|ends| ends[usize::from(ends[0] == at)]).collect();
        self.unlink(at);
        let fresh = self.start(self.peers[at].owner, self.peers[at].key);
        let mut fresh = self.peers.swap_remove(fresh);
        stores::restore(&mut fresh.replica, &log);
        fresh.log = log;
        if let Some(other) = other {
            let mut left = Replica::new(Space::default(), fresh.replica.writer());
            stores::restore(&mut left, &self.peers[other].log);
            if fresh.replica.take_over(&mut left, &mut |_| ()).is_err() {
                core::mem::swap(&mut fresh.replica, &mut left);
                let taken = fresh.replica.take_over(&mut left, &mut |_| ());
                taken.expect("one knows the members");
            }
            fresh.log = vec![fresh.replica.snapshot().encode_stored()];
        }
        fresh.mark = fresh.replica.mark();
        fresh.linked = linked;
        fresh.saved = self.peers[at].saved.take();
        fresh.made = core::mem::take(&mut self.peers[at].made);
        self.note(|| {
            format!(
                "{} {at} begins again as {}",
                self.now,
                fresh.replica.writer()
            )
        });
        fresh.role = self.peers[at].role;
        let own = core::mem::replace(&mut self.peers[at], fresh).own;
        self.goes_on(at, own);
        for other in others {
            self.connect(at, other);
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.loss = 0;
        if self.keyed.is_some() {
            self.rejoin()?;
        }
        for at in MEMBERS..self.peers.len() {
            if !self.peers[at].linked && !self.peers[at].gone {
                self.peers[at].linked = true;
                self.connect(at, self.random_member());
            }
        }
        for _ in 0..3_000 {
            self.step()?;
            if self.now % 2_000 < STEP_MS && self.settled().is_ok() {
                break;
            }
        }
        let settled = self.settled();
        settled.map_err(|error| format!("{error}: {}", self.tell()))?;
        self.figures.writers = self.peers[0].replica.writers().count() as u64;
        Ok(())
    }

    fn random_member(&self) -> usize {
        self.now as usize / 20 % MEMBERS
    }

    fn sum(&self, at: usize) -> i128 {
        let replica = &self.peers[at].replica;
        let values = ["a", "b", "c"].map(|key| replica.value(key).unwrap_or(0));
        values.iter().sum()
    }

    /// Whether all agree on the right sum, and nobody is known who is gone.
    fn settled(&self) -> Result<(), String> {
        let living: Vec<usize> = (0..self.peers.len())
            .filter(|at| !self.peers[*at].gone)
            .collect();
        for &at in &living {
            let replica = &self.peers[at].replica;
            let sum = self.sum(at);
            // What nobody knows may count or not, but no more than once.
            let least = self.expected - self.unknown;
            let most = self.expected + self.lost();
            if sum > most || sum < least {
                return Err(format!("{at} has {sum}, not {least} to {most}"));
            }
            self.check_once(at)?;
            let known = replica.writers().count();
            if known > living.len() {
                return Err(format!("{at} knows {known} writers"));
            }
        }
        Ok(())
    }

    fn tell(&self) -> String {
        let mut text = String::new();
        for (at, peer) in self.peers.iter().enumerate() {
            let writers = peer.replica.writers();
            let writers = writers.map(|(w, c)| format!("{}@{c}", &w.to_string()[..4]));
            let writers: Vec<String> = writers.collect();
            text += &format!(
                "\n{at} {} gone {} linked {}: {} {writers:?}",
                &peer.replica.writer().to_string()[..4],
                peer.gone,
                peer.linked,
                peer.replica.is_member(),
            );
        }
        for (to, peer) in self.peers.iter().enumerate() {
            for from in self.peers.iter().filter(|from| !from.gone && !peer.gone) {
                let replica = &from.replica;
                let message = replica.delta(&peer.replica.vector());
                let live = Some(replica.writer());
                let taken = peer.replica.clone().merge_live(&message, live, &mut |_| ());
                if let Err(error) = taken {
                    let from = &replica.writer().to_string()[..4];
                    text += &format!("\n{to} does not take what {from} has: {error}");
                }
            }
        }
        text
    }
}
