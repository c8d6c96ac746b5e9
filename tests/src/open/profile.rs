//! The settings of a seed: the number of replicas, the shape of the mesh, and its faults.

use crate::random::Random;
use crate::sim::{Carrier, Settings, Trouble};
use tallymesh_core::{Millis, SyncConfig};

/// One seed in this many has a long run.
pub const LONG_EVERY: u64 = 50;

/// The settings of one run.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Replicas with a disk.
    pub durable: usize,
    /// Replicas without one, each linked to one or two of the former.
    pub tabs: usize,
    /// The pairs of replicas that have a link.
    pub edges: Vec<(usize, usize)>,
    /// The name of that shape.
    pub shape: &'static str,
    /// How links treat frames.
    pub carrier: Carrier,
    /// Whether fresh changes go by broadcast between durable replicas.
    pub broadcast: bool,
    /// The keys.
    pub keys: Vec<String>,
    /// How many of the writes come at the very start, from one replica.
    pub initial_writes: usize,
    /// Mean time between writes in the whole mesh.
    pub write_every: Millis,
    /// Writes that may be of any kind and of several operations, of 1000; the others are plain
    /// adds.
    pub rich: u64,
    /// Largest distance of a wall clock from the true time, in milliseconds.
    pub skew_max: u64,
    /// Mean time between two checks for expiries that have passed.
    pub materialize_every: Millis,
    /// Mean time between faults.
    pub fault_every: Millis,
    /// Whether crashes of replicas with a disk may lose changes that the disk had made durable.
    pub rot: bool,
    /// Frames lost, of 1000.
    pub drop: u64,
    /// Frames repeated, of 1000.
    pub repeat: u64,
    /// Longest time of a frame on its way while there is trouble.
    pub delay_max: Millis,
    /// Longest time between handling an input and flushing; 0 flushes at once.
    pub flush_delay_max: Millis,
    /// When the trouble ends.
    pub trouble: Millis,
    /// The sync machine's settings.
    pub sync: SyncConfig,
}

impl Profile {
    /// The settings of this seed.
    pub fn of(seed: u64, random: &mut Random) -> Profile {
        let long = seed % LONG_EVERY == LONG_EVERY - 1;
        let durable = match long {
            true => *random.pick(&[2, 4, 6, 9, 14, 22, 35]),
            false => random.range(1, 4) as usize,
        };
        let tabs = match long {
            true => random.index(durable.min(14) + 2),
            false => random.index(4),
        }
        .max(usize::from(durable == 1));
        let (shape, mut edges) = topology(durable, random);
        for tab in durable..durable + tabs {
            let home = random.index(durable);
            edges.push((home, tab));
            if durable > 1 && random.chance(300) {
                edges.push(((home + 1) % durable, tab));
            }
        }
        let large = random.chance(if long { 150 } else { 50 });
        let keys = keys(large, random);
        let sync = match random.below(3) {
            0 => SyncConfig::default(),
            _ => SyncConfig {
                push_delay_ms: random.below(20) as u32,
                interval_ms: random.range(200, 2000) as u32,
                pull_timeout_ms: random.range(300, 3000) as u32,
                ..SyncConfig::default()
            },
        };
        let calm = random.chance(100);
        Profile {
            durable,
            tabs,
            edges,
            shape,
            carrier: *random.pick(&[Carrier::Stream, Carrier::Datagrams]),
            broadcast: random.chance(350),
            initial_writes: if large { keys.len() } else { 0 },
            keys,
            rich: *random.pick(&[0, 0, 50, 400, 1000, 1000]),
            skew_max: *random.pick(&[0, 2_000, 60_000, 6 * 3_600_000]),
            materialize_every: random.range(50, 3_000),
            write_every: random.range(20, if long { 150 } else { 400 }),
            fault_every: if calm {
                1 << 40
            } else {
                random.range(100, 3000)
            },
            rot: random.chance(400),
            drop: if calm { 0 } else { random.below(200) },
            repeat: if calm { 0 } else { random.below(200) },
            delay_max: *random.pick(&[5, 50, 300, 1500]),
            flush_delay_max: *random.pick(&[0, 0, 3, 40, 250]),
            trouble: match long {
                true => random.range(15_000, 60_000),
                false => random.range(2_000, 10_000),
            },
            sync,
        }
    }

    /// How many replicas there are.
    pub fn replicas(&self) -> usize {
        self.durable + self.tabs
    }

    /// The settings of the mesh.
    pub(super) fn settings(&self) -> Settings {
        let trouble = Trouble {
            ms: self.trouble,
            // A stream ends with the first frame that it loses.
            lost: match self.carrier {
                Carrier::Stream => self.drop / 10,
                Carrier::Datagrams => self.drop,
            },
            twice: self.repeat,
            old: if self.rot { 500 } else { 0 },
            skew_ms: 2 * self.skew_max,
            flush_ms: self.flush_delay_max,
            notice_ms: 2_000,
        };
        Settings {
            sync: self.sync.clone(),
            carrier: self.carrier,
            delay_ms: (1, self.delay_max),
            tend_ms: 0,
            fault_ms: (0, 2 * self.fault_every),
            ..Settings::under(trouble)
        }
    }

    /// The most links that one replica has.
    pub fn degree(&self) -> usize {
        let mut degrees = vec![0; self.replicas()];
        for &(a, b) in &self.edges {
            degrees[a] += 1;
            degrees[b] += 1;
        }
        degrees.into_iter().max().unwrap_or(0)
    }

    /// The most links on the shortest way between two replicas.
    pub fn diameter(&self) -> usize {
        let far = |start: usize| {
            let mut hops = vec![usize::MAX; self.replicas()];
            hops[start] = 0;
            let mut reached = vec![start];
            let mut at = 0;
            while let Some(&node) = reached.get(at) {
                at += 1;
                for &(a, b) in &self.edges {
                    for (from, to) in [(a, b), (b, a)] {
                        if from == node && hops[to] == usize::MAX {
                            hops[to] = hops[node] + 1;
                            reached.push(to);
                        }
                    }
                }
            }
            hops.into_iter().max().unwrap_or(0)
        };
        (0..self.replicas()).map(far).max().unwrap_or(0)
    }
}

fn topology(count: usize, random: &mut Random) -> (&'static str, Vec<(usize, usize)>) {
    let line = || (1..count).map(|at| (at - 1, at)).collect::<Vec<_>>();
    let star = || (1..count).map(|at| (0, at)).collect::<Vec<_>>();
    match random.below(5) {
        0 if count <= 14 => {
            let all = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b)));
            ("full", all.collect())
        }
        1 => ("line", line()),
        2 => ("star", star()),
        3 if count > 2 => {
            let mut ring = line();
            ring.push((0, count - 1));
            ("ring", ring)
        }
        _ => {
            // A random tree, and some more links.
            let mut edges: Vec<_> = (1..count).map(|at| (random.index(at), at)).collect();
            for _ in 0..random.index(count + 1) {
                let (a, b) = (random.index(count), random.index(count));
                let edge = (a.min(b), a.max(b));
                if a != b && !edges.contains(&edge) {
                    edges.push(edge);
                }
            }
            ("random", edges)
        }
    }
}

/// A handful of keys, or enough long ones that a state takes several chunks.
fn keys(large: bool, random: &mut Random) -> Vec<String> {
    if large {
        let name = |at| format!("{}:{at:05}", "long".repeat(75));
        return (0..random.range(450, 900)).map(name).collect();
    }
    (0..random.range(1, 12))
        .map(|at| format!("k{at}"))
        .collect()
}
