//! A test of many tabs that come, count and go. Only their total may be left of them.
//!
//! Members admit the tabs. Most tabs leave, and some are fenced. Meanwhile the members exchange deltas,
//! acknowledge, retire and collect. In the end the state must equal that of a space in which the members had
//! counted themselves.
//!
//! It is not a scenario of the simulated mesh (`sim`). It has a million tabs, and measures how large the
//! state is after them, not how they stand faults. Guests that come and go in a mesh are in `mesh`.

use crate::random::Random;
use std::fmt;
use tallymesh_core::{Error, Mark, Message, Owner, Replica, Space, VersionVector, WriterId};

/// How many members there are.
const MEMBERS: usize = 3;
/// How many counters there are.
const COUNTERS: usize = 4;
/// Number of tabs at the same time.
const CROWD: usize = 48;
/// One tab in this many goes without a leave.
const SILENT_EACH: u64 = 20;
/// Rounds after which everything must be in order.
const ROUNDS: usize = 30;

/// Metrics of a test.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Tabs that came.
    pub visitors: u64,
    /// Tabs that were fenced.
    pub silent: u64,
    /// Most writers in a member's table at one time.
    pub writers_max: usize,
    /// Bytes of a member's canonical state before any tab came.
    pub bytes_before: usize,
    /// The same, after the last tab is gone.
    pub bytes_after: usize,
    /// The same, in a space in which the members counted everything themselves.
    pub bytes_alone: usize,
    /// Heap bytes of a member's shards and keys: at the end, and in the space without tabs.
    pub heap: [usize; 2],
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            visitors,
            silent,
            writers_max,
            bytes_before,
            bytes_after,
            bytes_alone,
            heap: [heap, heap_alone],
        } = self;
        write!(
            f,
            "{visitors} tabs, {silent} of them declared dead, at most {writers_max} writers known; \
             state {bytes_before} bytes before, {bytes_after} after, {bytes_alone} without tabs; \
             heap of shards and keys {heap} bytes, {heap_alone} without tabs"
        )
    }
}

/// Members of a space, and the log of each of them.
pub struct Members {
    replicas: Vec<Replica>,
    marks: Vec<Mark>,
}

impl Members {
    /// Members that have each other's configuration.
    ///
    /// # Errors
    /// The failure, as text.
    pub fn new() -> Result<Members, String> {
        let owners: Vec<Owner> = (1..=MEMBERS as u8).map(|number| [number; 32]).collect();
        let replica = |owner: &Owner| {
            let writer = WriterId::mint(&Space::default(), owner, &[1; 16]);
            Replica::new(Space::default(), writer)
        };
        let mut members = Members {
            replicas: owners.iter().map(replica).collect(),
            marks: vec![Mark::default(); MEMBERS],
        };
        let first = &mut members.replicas[0];
        first
            .members_mut()
            .found(&owners[0], &[1; 16], 1)
            .map_err(tell)?;
        first.members_mut().force(&owners).map_err(tell)?;
        for (at, owner) in owners.iter().enumerate().skip(1) {
            members.send(0, at)?;
            let announced = members.replicas[at]
                .members_mut()
                .announce(owner, &[1; 16], 1);
            announced.map_err(tell)?;
        }
        members.in_order()?;
        Ok(members)
    }

    fn send(&mut self, from: usize, to: usize) -> Result<(), String> {
        let since = self.replicas[to].vector();
        let message = self.replicas[from].delta(&since);
        let writer = self.replicas[from].writer();
        pass(&message, writer, &mut self.replicas[to])
    }

    /// All members exchange deltas, acknowledge, retire and collect.
    fn round(&mut self) -> Result<(), String> {
        for from in 0..MEMBERS {
            for to in (0..MEMBERS).filter(|to| *to != from) {
                self.send(from, to)?;
            }
        }
        for (replica, mark) in self.replicas.iter_mut().zip(&mut self.marks) {
            replica.members_mut().acknowledge().map_err(tell)?;
            replica.members_mut().retire().map_err(tell)?;
            replica.since(mark);
            replica.members_mut().collect(mark);
        }
        Ok(())
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        self.replicas.iter().map(Replica::canonical_bytes).collect()
    }

    /// Makes rounds until nothing changes any more.
    ///
    /// # Errors
    /// The failure, as text.
    pub fn in_order(&mut self) -> Result<(), String> {
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            let before = self.bytes();
            self.round()?;
            quiet = if before == self.bytes() { quiet + 1 } else { 0 };
            if quiet == 2 {
                return match before.iter().all(|bytes| *bytes == before[0]) {
                    true => Ok(()),
                    false => Err("the members' bytes differ in the end".into()),
                };
            }
        }
        Err(format!("no order after {ROUNDS} rounds"))
    }
}

/// Lets this many tabs come and go. Their actions follow from `seed`.
///
/// # Errors
/// The violation at the end, as text.
pub fn visit(visitors: u64, seed: u64, progress: &dyn Fn(u64)) -> Result<Outcome, String> {
    let mut members = Members::new()?;
    let bytes_before = members.bytes()[0].len();
    let mut random = Random::new(seed);
    let mut totals = [0i128; COUNTERS];
    let mut parts = [[0i64; COUNTERS]; MEMBERS];
    let (mut came, mut silent, mut writers_max) = (0, 0, 0);
    while came < visitors {
        let crowd = CROWD.min((visitors - came) as usize);
        let mut dead = Vec::new();
        for _ in 0..crowd {
            came += 1;
            let sponsor = random.index(MEMBERS);
            let goes = !came.is_multiple_of(SILENT_EACH);
            let tab = tab(
                &mut members.replicas[sponsor],
                &mut random,
                goes,
                &mut |counter, by| {
                    totals[counter] += i128::from(by);
                    parts[sponsor][counter] += by;
                },
            )?;
            if !goes {
                silent += 1;
                dead.push((random.index(MEMBERS), tab));
            }
        }
        let known = members.replicas.iter().map(|it| it.writers().count());
        writers_max = known.max().unwrap_or(0).max(writers_max);
        members.round()?;
        for (member, tab) in dead {
            members.replicas[member]
                .members_mut()
                .fence(&tab)
                .map_err(tell)?;
        }
        members.round()?;
        progress(came);
    }
    members.in_order()?;
    for (at, replica) in members.replicas.iter().enumerate() {
        for (counter, total) in totals.iter().enumerate() {
            let value = replica.value(&key(counter));
            if value != Some(*total) {
                return Err(format!("member {at} reads {value:?}, expected {total}"));
            }
        }
        let writers = replica.writers().count();
        if writers != MEMBERS || replica.shard_count() > MEMBERS * COUNTERS {
            let shards = replica.shard_count();
            return Err(format!(
                "member {at} knows {writers} writers, {shards} shards"
            ));
        }
    }
    let alone = alone(&parts)?;
    for replica in members.replicas.iter_mut() {
        replica.shrink();
    }
    Ok(Outcome {
        visitors,
        silent,
        writers_max,
        bytes_before,
        bytes_after: members.bytes()[0].len(),
        bytes_alone: alone.canonical_bytes().len(),
        heap: [members.replicas[0].heap_bytes(), alone.heap_bytes()],
    })
}

/// A member of a space in which the members counted everything themselves.
fn alone(parts: &[[i64; COUNTERS]; MEMBERS]) -> Result<Replica, String> {
    let mut members = Members::new()?;
    for (replica, parts) in members.replicas.iter_mut().zip(parts) {
        for (counter, part) in parts.iter().enumerate() {
            replica.add(&key(counter), *part).map_err(tell)?;
        }
    }
    members.in_order()?;
    let mut replica = members.replicas.swap_remove(0);
    replica.shrink();
    Ok(replica)
}

/// A tab starts from a member's state, is admitted by it, counts, and goes, with a leave or without one.
fn tab(
    sponsor: &mut Replica,
    random: &mut Random,
    goes: bool,
    counted: &mut dyn FnMut(usize, i64),
) -> Result<WriterId, String> {
    let writer = WriterId::mint(&Space::default(), &[99; 32], &random.bytes());
    let mut tab = Replica::new(Space::default(), writer);
    let sponsor_writer = sponsor.writer();
    pass(
        &sponsor.delta(&VersionVector::default()),
        sponsor_writer,
        &mut tab,
    )?;
    let mut count = |tab: &mut Replica| {
        let (counter, by) = (
            random.index(COUNTERS),
            random.below(1 << 20) as i64 - (1 << 18),
        );
        counted(counter, by);
        tab.add(&key(counter), by).map(|_| ()).map_err(tell)
    };
    count(&mut tab)?;
    pass(&tab.delta(&sponsor.vector()), writer, sponsor)?;
    pass(&sponsor.delta(&tab.vector()), sponsor_writer, &mut tab)?;
    count(&mut tab)?;
    count(&mut tab)?;
    if goes {
        tab.members_mut().leave().map_err(tell)?;
    }
    pass(&tab.delta(&sponsor.vector()), writer, sponsor)?;
    Ok(writer)
}

fn pass(message: &Message, from: WriterId, to: &mut Replica) -> Result<(), String> {
    let merged = to.merge_with(message, Some(from), &mut |_| ());
    merged.map(|_| ()).map_err(tell)
}

fn key(counter: usize) -> String {
    format!("counter {counter}")
}

fn tell(error: Error) -> String {
    error.to_string()
}
