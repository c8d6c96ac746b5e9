//! Processes that write under one id: memory images resumed twice or late, ids minted twice.
//!
//! A small world with the core's own sync machines. Processes write, are copied while they run, are
//! put back to an earlier image of their memory, begin anew under an id that is in use, and come and
//! go, over links that lose, repeat and reorder. Then everything is linked and calm, and all must
//! come to hold the same: for each writer and counter the shard of the greatest clock, then of the
//! greatest total, that any of them held. Where one clock has two contents, somebody reported it.
//!
//! A run follows from its seed alone.

use crate::random::Random;
use crate::store::{self, Store};
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Input, Link, Millis, Op, Output, Replica, Space, Sync, SyncConfig, WriterId};

/// Most processes at a time.
const PROCESSES_MAX: usize = 7;
/// More virtual time than healing may take: some tens of digest intervals.
const HEAL_MS: Millis = 60_000;
const INTERVAL_MS: u32 = 500;

/// What happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Processes copied while they ran.
    pub copies: u64,
    /// Processes put back to an earlier image.
    pub returns: u64,
    /// Processes that began under an id in use.
    pub reuses: u64,
    /// Runs in which some clock had two contents.
    pub forks: u64,
    /// Ids that were taken because somebody else wrote under the one before.
    pub renewals: u64,
    /// Faults that were reported.
    pub faults: u64,
    /// Longest virtual time until all held the same.
    pub healed_ms: u64,
}

impl Figures {
    /// Adds another run's figures; of the times the longest stays.
    pub fn add(&mut self, other: &Figures) {
        self.copies += other.copies;
        self.returns += other.returns;
        self.reuses += other.reuses;
        self.forks += other.forks;
        self.renewals += other.renewals;
        self.faults += other.faults;
        self.healed_ms = self.healed_ms.max(other.healed_ms);
    }
}

/// A process, or the image of its memory.
#[derive(Clone)]
struct Process {
    replica: Replica,
    sync: Sync,
    links: BTreeSet<u32>,
    /// Its store, in runs that are about stores.
    store: Option<Store>,
}

/// A writer and a key.
type Place = (WriterId, String);

struct World {
    random: Random,
    processes: Vec<Option<Process>>,
    images: Vec<(usize, Process)>,
    /// The two ends of each link.
    links: BTreeMap<u32, [usize; 2]>,
    frames: Vec<(usize, u32, Vec<u8>)>,
    keys: Vec<String>,
    /// Each shard that was made, of plain adds.
    made: BTreeSet<(Place, (u64, i128))>,
    /// Whether all operations are adds, so that it can be told what must come out.
    plain: bool,
    next: u64,
    now: Millis,
    figures: Figures,
    /// Only digests may be sent.
    idle: bool,
    /// What the seeds of stores follow from, in runs that are about them, and what happened to those.
    stores: Option<(Random, store::Figures)>,
}

/// Runs a seed.
///
/// # Errors
/// What went wrong.
pub fn run(seed: u64) -> Result<Figures, String> {
    played(seed, false).map(|world| world.figures)
}

/// Runs a seed with a store at each process, which writes snapshots in parts.
///
/// # Errors
/// What went wrong.
pub fn run_stores(seed: u64) -> Result<store::Figures, String> {
    let stores = played(seed, true)?.stores;
    Ok(stores.map_or(store::Figures::default(), |it| it.1))
}

fn played(seed: u64, stores: bool) -> Result<World, String> {
    let mut random = Random::new(seed);
    let keys = (0..random.range(1, 6)).map(|at| format!("k{at}")).collect();
    let mut world = World {
        plain: random.chance(600),
        random,
        processes: Vec::new(),
        images: Vec::new(),
        links: BTreeMap::new(),
        frames: Vec::new(),
        keys,
        made: BTreeSet::new(),
        next: 0,
        now: 1,
        figures: Figures::default(),
        idle: false,
        stores: stores.then(|| (Random::new(!seed), store::Figures::default())),
    };
    let named = |error| format!("TALLYMESH_SEED={seed}\n  {error}\n");
    world.run().map_err(named)?;
    Ok(world)
}

impl World {
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.random.range(2, 4) {
            self.begin();
        }
        for _ in 0..self.random.range(50, 400) {
            self.step()?;
            self.store()?;
        }
        self.cut_all()?;
        let expected = self.join();
        self.figures.forks += u64::from(self.is_forked(&expected));
        self.link_all()?;
        self.heal()?;
        self.check(&expected)?;
        // Some may still tell of what they found; then there is nothing more to say.
        self.rest()?;
        self.idle = true;
        self.rest()?;
        self.idle = false;
        self.go_on()
    }

    fn rest(&mut self) -> Result<(), String> {
        let until = self.now + 5 * Millis::from(INTERVAL_MS);
        while self.now < until {
            self.calm()?;
        }
        Ok(())
    }

    /// After healing no two processes that wrote differently share an id: whatever each writes now
    /// counts.
    fn go_on(&mut self) -> Result<(), String> {
        let before = self.sum("last");
        let mut expected = before;
        let mut ids = BTreeSet::new();
        for at in self.alive() {
            let process = self.processes[at].as_mut().expect("alive");
            // Copies that never wrote since cannot be told apart, nor need they be.
            if ids.insert(process.replica.writer()) {
                let by = (self.random.next_u64() >> 24) as i64;
                expected += i128::from(by);
                process.replica.add("last", by).map_err(|e| e.to_string())?;
                self.input(at, Input::Changed)?;
            }
        }
        self.heal()?;
        match self.sum("last") {
            sum if sum == expected => Ok(()),
            sum => Err(format!("{before} and more make {expected}, not {sum}")),
        }
    }

    fn sum(&self, key: &str) -> i128 {
        let alive = self.processes.iter().flatten();
        let mut values = alive.map(|process| process.replica.value(key).unwrap_or(0));
        values.next().unwrap_or(0)
    }

    fn alive(&self) -> Vec<usize> {
        let places = 0..self.processes.len();
        places.filter(|at| self.processes[*at].is_some()).collect()
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn mint(&mut self) -> WriterId {
        WriterId::mint(&Space::default(), &[1; 32], &self.random.bytes())
    }

    fn config() -> SyncConfig {
        SyncConfig {
            push_delay_ms: 5,
            interval_ms: INTERVAL_MS,
            pull_timeout_ms: 300,
            ..SyncConfig::default()
        }
    }

    fn put(&mut self, process: Process) -> usize {
        let free = self.processes.iter().position(Option::is_none);
        let at = free.unwrap_or(self.processes.len());
        if at == self.processes.len() {
            self.processes.push(None);
        }
        self.processes[at] = Some(process);
        at
    }

    fn begin_as(&mut self, writer: WriterId) {
        let process = Process {
            replica: Replica::new(Space::default(), writer),
            sync: Sync::new(World::config(), self.random.next_u64()),
            links: BTreeSet::new(),
            store: self
                .stores
                .as_mut()
                .map(|it| Store::new(it.0.next_u64(), self.plain)),
        };
        self.put(process);
    }

    /// The stores do their work.
    fn store(&mut self) -> Result<(), String> {
        let Some((_, figures)) = &mut self.stores else {
            return Ok(());
        };
        for process in self.processes.iter_mut().flatten() {
            if let Some(store) = &mut process.store {
                store.turn(&mut process.replica, 0)?;
                figures.add(&std::mem::take(&mut store.figures));
            }
        }
        Ok(())
    }

    fn begin(&mut self) {
        let writer = self.mint();
        self.begin_as(writer);
    }

    fn step(&mut self) -> Result<(), String> {
        let alive = self.alive();
        let at = *self.random.pick(&alive);
        let full = alive.len() >= PROCESSES_MAX;
        self.now += self.random.below(20);
        match self.random.below(100) {
            0..=29 => self.write(at),
            30..=69 => self.deliver(),
            70..=79 => self.input(at, Input::Tick),
            80..=87 => {
                let other = *self.random.pick(&alive);
                self.link(at, other)
            }
            88..=90 => self.cut(at),
            91 | 92 => {
                let image = self.processes[at].clone().expect("alive");
                self.images.push((at, image));
                Ok(())
            }
            // A machine's image is resumed a second time.
            93 | 94 if !full => {
                let copy = self.processes[at].clone().expect("alive");
                let at = self.put(copy);
                self.figures.copies += 1;
                self.resume(at)
            }
            // A machine goes back to an image of it.
            95 | 96 if !self.images.is_empty() => {
                let index = self.random.index(self.images.len());
                let (at, image) = self.images[index].clone();
                self.cut(at)?;
                self.processes[at] = Some(image);
                self.figures.returns += 1;
                self.resume(at)
            }
            97 if !full => {
                let writer = self.processes[at].as_ref().expect("alive").replica.writer();
                self.begin_as(writer);
                self.figures.reuses += 1;
                Ok(())
            }
            98 if !full => {
                self.begin();
                Ok(())
            }
            99 if alive.len() > 2 => {
                self.cut(at)?;
                self.processes[at] = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whoever wakes from an image finds its links closed.
    fn resume(&mut self, at: usize) -> Result<(), String> {
        let links = &mut self.processes[at].as_mut().expect("alive").links;
        for link in std::mem::take(links) {
            let link = Link(link);
            self.input(at, Input::Disconnected { link })?;
        }
        Ok(())
    }

    fn write(&mut self, at: usize) -> Result<(), String> {
        let key = self.random.pick(&self.keys).clone();
        // So many bits that no two sets of adds have one sum by chance.
        let by = (self.random.next_u64() >> 24) as i64;
        let op = match self.random.below(10) {
            _ if self.plain => Op::Add(by),
            0 => Op::Reset,
            1 | 2 => Op::Delete,
            3 => Op::Set(by),
            4 => Op::Expire(by as u64),
            5 => Op::Persist,
            _ => Op::Add(by),
        };
        let replica = &mut self.processes[at].as_mut().expect("alive").replica;
        replica.apply(&key, op).map_err(|error| error.to_string())?;
        let handle = replica.handle(&key).filter(|_| self.plain);
        let own = |shard: &tallymesh_core::Shard| shard.writer == replica.writer();
        let shard = handle.and_then(|handle| replica.shards(handle).find(own));
        self.made
            .extend(shard.map(|it| ((it.writer, key), (it.clock, it.total))));
        self.input(at, Input::Changed)
    }

    fn link(&mut self, a: usize, b: usize) -> Result<(), String> {
        if a == b {
            return Ok(());
        }
        let number = self.fresh() as u32;
        self.links.insert(number, [a, b]);
        for at in [a, b] {
            let links = &mut self.processes[at].as_mut().expect("alive").links;
            links.insert(number);
            let (link, broadcast) = (Link(number), false);
            self.input(at, Input::Connected { link, broadcast })?;
        }
        Ok(())
    }

    /// Closes all links of a process.
    fn cut(&mut self, at: usize) -> Result<(), String> {
        let of = |(number, ends): (&u32, &[usize; 2])| ends.contains(&at).then_some(*number);
        let numbers: Vec<u32> = self.links.iter().filter_map(of).collect();
        for number in numbers {
            let ends = self.links.remove(&number).unwrap_or_default();
            self.frames.retain(|(_, link, _)| *link != number);
            for end in ends {
                let process = self.processes[end].as_mut().expect("alive");
                if process.links.remove(&number) {
                    let link = Link(number);
                    self.input(end, Input::Disconnected { link })?;
                }
            }
        }
        Ok(())
    }

    fn cut_all(&mut self) -> Result<(), String> {
        self.alive().into_iter().try_for_each(|at| self.cut(at))
    }

    fn link_all(&mut self) -> Result<(), String> {
        let alive = self.alive();
        for at in 1..alive.len() {
            let other = alive[self.random.index(at)];
            self.link(alive[at], other)?;
        }
        Ok(())
    }

    /// Any frame that is under way arrives, is lost, or arrives and will again.
    fn deliver(&mut self) -> Result<(), String> {
        if self.frames.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.frames.len());
        let frame = match self.random.chance(100) {
            true => self.frames[index].clone(),
            false => self.frames.swap_remove(index),
        };
        match self.random.chance(100) {
            true => Ok(()),
            false => self.hand_in(frame),
        }
    }

    fn hand_in(&mut self, (at, link, bytes): (usize, u32, Vec<u8>)) -> Result<(), String> {
        let (link, bytes) = (Link(link), &bytes);
        self.input(at, Input::Frame { link, bytes })
    }

    fn input(&mut self, at: usize, input: Input<'_>) -> Result<(), String> {
        let mint = self.mint();
        let process = self.processes[at].as_mut().expect("alive");
        let before = process.replica.fault_count();
        process.sync.handle(self.now, &mut process.replica, input);
        while let Some(output) = process.sync.poll() {
            match output {
                Output::Send { link, bytes } => {
                    let frame = Frame::decode(&bytes).map_err(|error| error.to_string())?;
                    if self.idle && !matches!(frame.body, Body::Digest(_)) {
                        return Err(format!("{at} is idle and sent {:?}", frame.body));
                    }
                    // Whoever wakes from an image has links that are another's.
                    let ends = self.links.get(&link.0);
                    let ends = ends.filter(|_| process.links.contains(&link.0));
                    let other = ends.and_then(|ends| ends.iter().find(|end| **end != at));
                    self.frames.extend(other.map(|to| (*to, link.0, bytes)));
                }
                Output::Renew => {
                    let renew = Input::Renew { writer: mint };
                    process.sync.handle(self.now, &mut process.replica, renew);
                    if process.replica.writer() != mint {
                        return Err(format!("{at} did not take another id"));
                    }
                    self.figures.renewals += 1;
                }
                // Links that reorder bring frames before the hello, or the hello twice.
                Output::Refused { error, .. } if error.code() == "handshake" => {}
                Output::Refused { error, .. } => return Err(format!("{at} refused: {error}")),
                Output::Broadcast { .. }
                | Output::Changed { .. }
                | Output::Merged { .. }
                | Output::Returned(_) => {}
            }
        }
        self.figures.faults += process.replica.fault_count() - before;
        Ok(())
    }

    /// Everything under way arrives, in order; then time goes on to the next deadline.
    fn calm(&mut self) -> Result<(), String> {
        while !self.frames.is_empty() {
            let frame = self.frames.remove(0);
            self.hand_in(frame)?;
        }
        let alive = self.processes.iter().flatten();
        let deadlines = alive.filter_map(|process| process.sync.next_deadline());
        self.now = deadlines.min().unwrap_or(self.now).max(self.now + 1);
        for at in self.alive() {
            self.input(at, Input::Tick)?;
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<(), String> {
        let begun = self.now;
        while !self.is_healed() {
            if self.now > begun + HEAL_MS {
                return Err(self.differences());
            }
            self.calm()?;
        }
        self.figures.healed_ms = self.figures.healed_ms.max(self.now - begun);
        Ok(())
    }

    fn differences(&self) -> String {
        let mut text = format!("not equal after {HEAL_MS} ms:");
        for at in self.alive() {
            let process = self.processes[at].as_ref().expect("alive");
            let writer = process.replica.writer().to_string();
            text += &format!("\n    {at} writes as {}:", &writer[..4]);
            for it in process.replica.contents() {
                let (writer, clock) = (it.writer.to_string(), it.clock);
                let [shards, cancels] = [it.shards, it.cancels].map(|digest| digest as u16);
                text += &format!(" {}@{clock} {shards:04x} {cancels:04x},", &writer[..4]);
            }
            for status in process.sync.links() {
                let pulls = if status.pulling { " pulls" } else { "" };
                text += &format!(" link {}{pulls}", status.link.0);
            }
        }
        text
    }

    fn is_healed(&self) -> bool {
        let alive = self.processes.iter().flatten();
        let mut bytes = alive.map(|process| process.replica.canonical_bytes());
        let first = bytes.next();
        bytes.all(|bytes| Some(bytes) == first)
    }

    fn shards(&self) -> impl Iterator<Item = (Place, (u64, i128))> {
        let alive = self.processes.iter().flatten();
        alive.flat_map(|process| {
            let replica = &process.replica;
            replica.counters().flat_map(move |(handle, key)| {
                let of = move |shard: tallymesh_core::Shard| {
                    let place = (shard.writer, key.to_owned());
                    (place, (shard.clock, shard.total))
                };
                replica.shards(handle).map(of)
            })
        })
    }

    /// What all together hold.
    fn join(&self) -> BTreeMap<Place, (u64, i128)> {
        let mut join = BTreeMap::new();
        for (place, shard) in self.shards() {
            let held = join.entry(place).or_insert(shard);
            *held = shard.max(*held);
        }
        join
    }

    /// Whether some clock of a writer has two contents, each plain transaction being of one counter,
    /// and both survive the other's later shards. What left no trace cannot be told.
    fn is_forked(&self, join: &BTreeMap<Place, (u64, i128)>) -> bool {
        let mut clocks: BTreeMap<(WriterId, u64), (String, i128)> = BTreeMap::new();
        let survives = |place: &Place, clock| join[place].0 == clock;
        self.plain
            && self.shards().any(|(place, (clock, total))| {
                survives(&place, clock) && {
                    let (writer, key) = place;
                    let one = clocks.entry((writer, clock));
                    *one.or_insert((key.clone(), total)) != (key, total)
                }
            })
    }

    fn check(&self, expected: &BTreeMap<Place, (u64, i128)>) -> Result<(), String> {
        if self.plain {
            let held = self.join();
            // Pushes that waited for something may bring more than was visible.
            let mut shards = held.clone().into_iter();
            if let Some(shard) = shards.find(|shard| !self.made.contains(shard)) {
                return Err(format!("{shard:?} was never made"));
            }
            let lost = |(place, shard): &(&Place, &_)| held.get(*place) < Some(*shard);
            if let Some(shard) = expected.iter().find(lost) {
                return Err(format!("{shard:?} was lost: {:?}", held.get(shard.0)));
            }
        }
        if self.figures.forks > 0 && self.figures.faults == 0 {
            return Err("a clock had two contents, and nobody told".into());
        }
        for process in self.processes.iter().flatten() {
            let mut other = process.replica.clone();
            let fresh = process
                .replica
                .contents()
                .into_iter()
                .fold(0u64, |sum, it| {
                    sum.wrapping_add(it.shards).wrapping_add(it.cancels)
                });
            if other.content_digest() != fresh {
                return Err("the digest of the contents is stale".into());
            }
        }
        Ok(())
    }
}
