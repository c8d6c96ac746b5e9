//! Scenario: processes that write under one writer id, in a [mesh](crate::sim). Memory images are resumed
//! twice or late, and ids are minted twice.
//!
//! Processes write, are copied while they run, return to an earlier image, begin under an id in use, and come
//! and go. After all is healed, they must converge. For each writer and counter, the shard of the greatest
//! clock wins, then the one of the greatest total. If one clock has two contents, a replica must have
//! reported it.

mod check;
mod metrics;

pub use metrics::Metrics;

use crate::random::Random;
use crate::sim::{self, Cause, Mesh, Node, Scenario, Settings, Trouble, text};
use crate::store::{self, Store};
use check::Place;
use std::collections::{BTreeMap, BTreeSet};
use tallymesh_core::wire::{Body, Frame};
use tallymesh_core::{Op, Replica, Space};

/// Most processes at a time.
const PROCESSES_MAX: usize = 7;
/// Longest virtual time until all processes have the same state, in milliseconds: some tens of digest
/// intervals.
const HEAL_MS: u64 = 60_000;
/// Number of digest intervals after which no process has anything left to send.
const REST_INTERVALS: u64 = 5;

/// The state of this scenario: the shards that processes wrote, and the images of their machines.
pub struct Clones {
    images: Vec<(usize, Node<()>, Option<Store>)>,
    keys: Vec<String>,
    /// Each shard that processes made by plain adds.
    made: BTreeSet<(Place, (u64, i128))>,
    /// Whether all operations are adds, so that the expected result can be computed.
    plain: bool,
    /// Number of faults that a replica had reported before it handled its present input.
    faults: u64,
    metrics: Metrics,
    /// Whether the scenario has stopped making changes.
    over: bool,
    /// Whether only digests may be sent.
    idle: bool,
    /// The stores of the processes, in runs with stores: their source of seeds, the stores, and their
    /// metrics.
    stores: Option<(Random, Vec<Store>, store::Metrics)>,
}

type World = Mesh<Clones>;

/// Runs a seed.
///
/// # Errors
/// The failure, as text.
pub fn run(seed: u64, traced: bool) -> Result<Metrics, String> {
    play(seed, traced, false).map(|it| it.0)
}

/// Runs a seed with a store at each process. The stores write snapshots in parts.
///
/// # Errors
/// The failure, as text.
pub fn run_stores(seed: u64, traced: bool) -> Result<store::Metrics, String> {
    play(seed, traced, true).map(|it| it.1)
}

fn play(seed: u64, traced: bool, stores: bool) -> Result<(Metrics, store::Metrics), String> {
    let mut random = Random::new(seed ^ 0xc10e);
    let lost = *random.pick(&[0, 10, 100]);
    let trouble = Trouble {
        ms: random.range(500, 4_000),
        lost,
        twice: 5 * lost,
        flush_ms: *random.pick(&[0, 0, 20]),
        ..Trouble::ALL
    };
    let mut settings = Settings::under(trouble);
    settings.sync.push_delay_ms = 5;
    settings.sync.pull_timeout_ms = 300;
    settings.delay_ms = (0, *random.pick(&[5, 40, 200]));
    settings.tend_ms = 0;
    settings.fault_ms = (100, 1_500);
    let clones = Clones {
        images: Vec::new(),
        keys: (0..random.range(1, 6)).map(|at| format!("k{at}")).collect(),
        made: BTreeSet::new(),
        plain: random.chance(600),
        faults: 0,
        metrics: Metrics::default(),
        over: false,
        idle: false,
        stores: stores.then(|| (Random::new(!seed), Vec::new(), store::Metrics::default())),
    };
    let mesh = Mesh::new(seed, traced, settings, clones);
    sim::run(seed, mesh, |mesh| {
        mesh.play_clones()?;
        mesh.own.metrics.mesh = mesh.counts();
        let stores = mesh.own.stores.take();
        Ok((
            mesh.own.metrics,
            stores.map_or(store::Metrics::default(), |it| it.2),
        ))
    })
}

impl Scenario for Clones {
    /// One action of the scenario is due.
    type Event = ();
    type Seen = ();
    const ANY_DISK: bool = true;

    fn event(mesh: &mut World, (): ()) -> Result<(), String> {
        if mesh.own.over {
            return Ok(());
        }
        mesh.after((0, 20), ());
        mesh.act()?;
        mesh.store_all()
    }

    fn before(mesh: &mut World, at: usize, _: Cause) {
        mesh.own.faults = mesh.nodes[at].replica.forks().fault_count();
    }

    fn handled(mesh: &mut World, at: usize, _: Cause) -> Result<(), String> {
        let found = mesh.nodes[at].replica.forks().fault_count();
        mesh.own.metrics.faults += found - mesh.own.faults;
        Ok(())
    }

    fn begins(mesh: &mut World, at: usize) {
        let plain = mesh.own.plain;
        if let Some((random, stores, _)) = &mut mesh.own.stores {
            let store = Store::new(random.next_u64(), plain);
            stores.truncate(mesh.nodes.len());
            match stores.get_mut(at) {
                Some(old) => *old = store,
                None => stores.push(store),
            }
        }
    }

    fn may_put_back(_: &mut World, _: usize) -> bool {
        true
    }

    fn sends(mesh: &mut World, from: usize, bytes: &[u8]) -> Result<bool, String> {
        if mesh.own.idle {
            let frame = Frame::decode(bytes).map_err(text)?;
            if !matches!(frame.body, Body::Digest(_) | Body::Position(_)) {
                return Err(format!("{from} is idle and sent {:?}", frame.body));
            }
        }
        Ok(true)
    }
}

impl World {
    fn play_clones(&mut self) -> Result<(), String> {
        for _ in 0..self.random.range(2, 4) {
            self.add_node(None, [1; 32])?;
        }
        self.after((0, 20), ());
        self.trouble();
        self.pass(self.settings.trouble.ms)?;
        self.own.over = true;
        let expected = self.join();
        self.own.metrics.forks = u64::from(self.is_forked(&expected));
        self.link_all();
        self.heal_all()?;
        self.check(&expected)?;
        // Some replicas may still send the faults that they found. After that, all must be silent.
        let rest = REST_INTERVALS * u64::from(self.settings.sync.interval_ms);
        self.pass(rest)?;
        self.own.idle = true;
        self.pass(rest)?;
        self.own.idle = false;
        self.go_on()
    }

    fn act(&mut self) -> Result<(), String> {
        let living: Vec<usize> = self.living().map(|it| it.0).collect();
        if living.is_empty() {
            return Ok(());
        }
        let at = *self.random.pick(&living);
        let full = living.len() >= PROCESSES_MAX;
        match self.random.below(60) {
            0..30 => self.write(at)?,
            30..42 => {
                let other = *self.random.pick(&living);
                if at != other {
                    self.link(at, other);
                }
            }
            42..45 => self.unlink_all(at),
            45 | 46 => {
                let store = self.own.stores.as_ref().map(|it| it.1[at].clone());
                self.own.images.push((at, self.nodes[at].clone(), store));
            }
            // A machine's image is resumed a second time.
            47 | 48 if !full => {
                self.own.metrics.copies += 1;
                let second = self.copy(at)?;
                if let Some((_, stores, _)) = &mut self.own.stores {
                    let store = stores[at].clone();
                    stores.insert(second, store);
                }
            }
            // A machine returns to an earlier image.
            49 | 50 if !self.own.images.is_empty() => {
                let index = self.random.index(self.own.images.len());
                let (at, image, store) = self.own.images[index].clone();
                if !self.nodes[at].is_gone() {
                    self.own.metrics.returns += 1;
                    if let (Some((_, stores, _)), Some(store)) = (&mut self.own.stores, store) {
                        stores[at] = store;
                    }
                    self.resume(at, image)?;
                }
            }
            51 if !full => {
                let writer = self.nodes[at].replica.writer();
                let second = self.add_node(None, [1; 32])?;
                self.nodes[second].replica = Replica::new(Space::default(), writer);
                self.own.metrics.reuses += 1;
            }
            52 if !full => {
                self.add_node(None, [1; 32])?;
            }
            53 if living.len() > 2 => self.remove(at),
            _ => {}
        }
        Ok(())
    }

    fn write(&mut self, at: usize) -> Result<(), String> {
        let key = self.random.pick(&self.own.keys).clone();
        // Random bits, enough that two sets of adds do not have one sum by chance.
        let by = (self.random.next_u64() >> 24) as i64;
        let plain = self.own.plain;
        let op = match self.random.below(10) {
            _ if plain => Op::Add(by),
            0 => Op::Reset,
            1 | 2 => Op::Delete,
            3 => Op::Set(by),
            4 => Op::Expire(by as u64),
            5 => Op::Persist,
            _ => Op::Add(by),
        };
        self.set_time(at);
        let replica = &mut self.nodes[at].replica;
        replica.apply(&key, op).map_err(text)?;
        let handle = replica.key_id(&key).filter(|_| plain);
        let own = |shard: &tallymesh_core::Shard| shard.writer == replica.writer();
        let shard = handle.and_then(|handle| replica.shards(handle).find(own));
        let made = shard.map(|it| ((it.writer, key), (it.clock, it.total)));
        self.own.made.extend(made);
        self.changed(at)
    }

    /// The stores do their work.
    fn store_all(&mut self) -> Result<(), String> {
        let Some((_, stores, metrics)) = &mut self.own.stores else {
            return Ok(());
        };
        for (node, store) in self.nodes.iter_mut().zip(stores) {
            if node.alive {
                store.turn(&mut node.replica, 0)?;
                metrics.add(&std::mem::take(&mut store.metrics));
            }
        }
        Ok(())
    }

    /// Links all remaining nodes, each with some of those before it.
    fn link_all(&mut self) {
        let all = (0..self.nodes.len()).filter(|at| !self.nodes[*at].is_gone());
        let all: Vec<usize> = all.collect();
        for at in 1..all.len() {
            let other = all[self.random.index(at)];
            self.link(all[at], other);
        }
    }

    fn heal_all(&mut self) -> Result<(), String> {
        let begun = self.now;
        if !self.until(HEAL_MS, World::is_healed)? {
            return Err(format!(
                "not equal after {HEAL_MS} ms: {}",
                self.differences()
            ));
        }
        self.own.metrics.healed_ms = self.own.metrics.healed_ms.max(self.now - begun);
        Ok(())
    }

    /// After healing, no two processes with different writes share an id. So every new write of each process
    /// counts.
    fn go_on(&mut self) -> Result<(), String> {
        let mut expected: i128 = 0;
        let mut by_writer = BTreeMap::new();
        for (at, node) in self.living() {
            // Copies without a write of their own cannot be told apart, and need not be.
            by_writer.entry(node.replica.writer()).or_insert(at);
        }
        for at in by_writer.into_values() {
            let by = (self.random.next_u64() >> 24) as i64;
            expected += i128::from(by);
            self.nodes[at].replica.add("last", by).map_err(text)?;
            self.changed(at)?;
        }
        self.heal_all()?;
        let first = self.living().next().map(|it| it.1.replica.value("last"));
        match first.flatten() {
            sum if sum == Some(expected) => Ok(()),
            sum => Err(format!(
                "what was written last makes {expected}, not {sum:?}"
            )),
        }
    }
}
