//! Random histories of a closed space: members and tabs, admissions, leaves, fences, restarts, retirement,
//! acknowledgement and collection, with messages lost, repeated and late.
//!
//! There is no sync machine here. The test makes and merges the messages itself, so it reaches every order of
//! events that a network could make. After every step, every read at the replica that changed is compared
//! with the [oracle](crate::oracle).

mod budgets;
mod deliveries;
mod end;
mod log;
mod metrics;
mod reduce;
mod returns;
mod tending;

pub use budgets::Metrics as BudgetFigures;
pub use deliveries::{Delivery, deliveries};
pub use metrics::Metrics;
pub use reduce::reduce;

use crate::oracle::{Call, Dot, Key, Kind, Oracle, Takeovers, View};
use crate::random::Random;
use crate::store::{self, Store};
use crate::trace::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tallymesh_core::{
    AdmissionError, Encode, Error, Journal, MemberError, MergeError, Message, Owner, Replica,
    Space, VersionVector, WriterId,
};

/// A replica and what it sees.
struct Actor {
    replica: Replica,
    view: View,
    log: log::Log,
    /// The owner and the nonce of a member.
    member: Option<(Owner, [u8; 16])>,
    alive: bool,
    left: bool,
    /// Whether an error has reported that it cannot go on and has to rejoin.
    stale: bool,
    /// Whether it cannot go on, reported or not: it contains something that does not count.
    doomed: bool,
    /// How far its clock is off, in milliseconds.
    skew: i64,
    /// The journal of a member that began again. The member replays it once the outcome of its old writer is
    /// certain.
    aside: Option<Journal>,
    /// An earlier state, as a backup.
    saved: Option<(Vec<u8>, View)>,
    /// Its store, in runs that are about stores.
    store: Option<Store>,
}

/// A message on its way. It stays in the list, so that it can be delivered again and late.
struct Sent {
    from: usize,
    to: usize,
    writer: WriterId,
    bytes: Vec<u8>,
    /// The sender's view when it made the message.
    view: View,
}

struct World {
    random: Random,
    oracle: Oracle,
    actors: Vec<Actor>,
    sent: Vec<Sent>,
    taken: Takeovers,
    metrics: Metrics,
    trace: bool,
    now: u64,
    /// The deliveries, if the caller asked for them.
    delivered: Option<Vec<Delivery>>,
    /// The operations of each idempotency key that was used.
    keyed: Vec<Vec<(Key, Kind)>>,
    /// The keyed transactions whose key another replica has too. The key of any other transaction may be lost
    /// with its maker, if a page passed the transaction on.
    shared: BTreeSet<Dot>,
    /// The owner of each writer. A later start of one owner is not another replica.
    owners: BTreeMap<WriterId, Owner>,
    /// The source of the seeds of stores, in runs with stores.
    stores: Option<Random>,
    /// All operations on budgets, in runs with budgets.
    ledger: Option<budgets::BudgetState>,
    /// The hash of all messages, stored records and reads.
    hash: Trace,
}

/// Plays one seed.
///
/// # Errors
/// The failure and the seed, as text.
pub fn run(seed: u64, trace: bool) -> Result<Metrics, String> {
    let mut world = World::new(seed, trace);
    match guarded(|| world.play()) {
        Ok(()) => Ok(world.metrics),
        Err(failure) => Err(format!("TALLYMESH_SEED={seed}: {failure}")),
    }
}

/// Plays one seed. If the seed is odd, there are budgets beside the counters. Returns the hash of all
/// messages, stored records and reads.
///
/// # Errors
/// The failure and the seed, as text.
pub fn trace(seed: u64) -> Result<u64, String> {
    let mut world = World::new(seed, false);
    if seed % 2 == 1 {
        let random = Random::new(seed ^ 0xb0d6_e700);
        world.ledger = Some(budgets::BudgetState::new(random));
    }
    let failed = |failure| format!("TALLYMESH_SEED={seed}: {failure}");
    guarded(|| world.play()).map_err(failed)?;
    for actor in &world.actors {
        world.hash.bytes(&actor.replica.snapshot().encode_stored());
    }
    Ok(world.hash.hash())
}

/// Plays one seed with a store at each replica. The stores write snapshots in parts.
///
/// # Errors
/// The failure and the seed, as text.
pub fn run_stores(seed: u64, trace: bool) -> Result<store::Metrics, String> {
    let mut world = World::new(seed, trace);
    let mut random = Random::new(seed ^ 0x5704_e500);
    if random.chance(200) {
        // More keys than fit on a page.
        let keys = (0..80).map(|at| format!("k{at:02}")).collect();
        world.oracle = Oracle::new(keys);
    }
    world.stores = Some(random);
    let failed = |failure| format!("TALLYMESH_SEED={seed}: {failure}");
    guarded(|| world.play()).map_err(failed)?;
    let mut metrics = store::Metrics::default();
    for store in world.actors.iter().filter_map(|actor| actor.store.as_ref()) {
        metrics.add(&store.metrics);
    }
    Ok(metrics)
}

/// Plays one seed with budgets beside the counters.
///
/// # Errors
/// The failure and the seed, as text.
pub fn run_budgets(seed: u64, trace: bool) -> Result<budgets::Metrics, String> {
    let mut world = World::new(seed, trace);
    let mut random = Random::new(seed ^ 0xb0d6_e700);
    if random.chance(200) {
        world.stores = Some(random.clone());
    }
    world.ledger = Some(budgets::BudgetState::new(random));
    let failed = |failure| format!("TALLYMESH_SEED={seed}: {failure}");
    guarded(|| world.play()).map_err(failed)?;
    let books = world.ledger.take().unwrap_or_else(|| unreachable!());
    Ok(books.metrics)
}

/// Calls `play`, and turns a panic of the core into a failure.
fn guarded(play: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        Err(match panic.downcast_ref::<String>() {
            Some(text) => format!("panicked: {text}"),
            None => format!("panicked: {:?}", panic.downcast_ref::<&str>()),
        })
    })
}

impl World {
    fn new(seed: u64, trace: bool) -> World {
        let mut random = Random::new(seed ^ 0xc105_ed00);
        let keys = (0..random.range(1, 3)).map(|at| format!("k{at}")).collect();
        World {
            oracle: Oracle::new(keys),
            random,
            actors: Vec::new(),
            sent: Vec::new(),
            taken: Takeovers::default(),
            metrics: Metrics::default(),
            trace,
            now: 10_000_000,
            delivered: None,
            keyed: Vec::new(),
            shared: BTreeSet::new(),
            owners: BTreeMap::new(),
            stores: None,
            ledger: None,
            hash: Trace::default(),
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let steps = self.random.range(20, 250);
        self.begin()?;
        for _ in 0..steps {
            self.turn()?;
        }
        self.finish()
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{}", text());
        }
    }

    /// Founds the space, and lets its members join.
    fn begin(&mut self) -> Result<(), String> {
        let members = self.random.range(1, 3) as usize;
        let owners: Vec<Owner> = (0..members as u8).map(|at| [at + 1; 32]).collect();
        self.start(Some(owners[0]));
        let nonce = self.actors[0].member.map_or([0; 16], |it| it.1);
        let now = self.now;
        let done = self.actors[0]
            .replica
            .members_mut()
            .found(&owners[0], &nonce, now);
        done.map_err(|error| error.to_string())?;
        let done = self.actors[0].replica.members_mut().force(&owners);
        done.map_err(|error| error.to_string())?;
        self.settle(0)?;
        for owner in &owners[1..] {
            self.join(Some(*owner))?;
        }
        Ok(())
    }

    /// Makes one step, after some time has passed.
    fn turn(&mut self) -> Result<(), String> {
        self.metrics.steps += 1;
        self.now += self.random.below(3);
        self.step()?;
        self.store()
    }

    /// The stores do their work.
    fn store(&mut self) -> Result<(), String> {
        for (at, actor) in self.actors.iter_mut().enumerate() {
            if let Some(store) = actor.store.as_mut().filter(|_| actor.alive) {
                let now = self.now.saturating_add_signed(actor.skew);
                let done = store.turn(&mut actor.replica, now);
                done.map_err(|error| format!("the store of {at}: {error}"))?;
            }
        }
        Ok(())
    }

    /// A new, empty replica.
    fn start(&mut self, owner: Option<Owner>) -> usize {
        let nonce = self.random.bytes();
        let key = owner.unwrap_or([99; 32]);
        let writer = WriterId::mint(&Space::default(), &key, &nonce);
        let skew = self.skew();
        self.actors.push(Actor {
            replica: Replica::new(Space::default(), writer),
            view: View::default(),
            log: log::Log::default(),
            member: owner.map(|owner| (owner, nonce)),
            alive: true,
            left: false,
            stale: false,
            doomed: false,
            skew,
            aside: None,
            saved: None,
            store: self
                .stores
                .as_mut()
                .map(|it| Store::new(it.next_u64(), true)),
        });
        self.actors.len() - 1
    }

    /// How far the clock of a new replica is off, perhaps by hours. In runs with budgets, leases need right ones.
    fn skew(&mut self) -> i64 {
        const HOURS: i64 = 2 * 60 * 60 * 1_000;
        match self.random.below(6) {
            _ if self.ledger.is_some() => 0,
            0 => HOURS,
            1 => -HOURS,
            _ => 0,
        }
    }

    /// The time by the clock of a replica.
    fn clock(&self, at: usize) -> u64 {
        self.now.saturating_add_signed(self.actors[at].skew)
    }

    /// A new replica that begins from a member's state.
    fn join(&mut self, owner: Option<Owner>) -> Result<(), String> {
        let Some(member) = self.pick(|actor| actor.replica.members().is_member()) else {
            return Ok(());
        };
        let at = self.start(owner);
        self.note(|| format!("{at} joins at {member}"));
        if owner.is_none() && self.random.chance(700) {
            let writer = self.actors[at].replica.writer();
            let done = self.actors[member].replica.members_mut().admit(&writer);
            done.map_err(|error| error.to_string())?;
            self.settle(member)?;
        }
        self.exchange(member, at)?;
        if let Some((owner, nonce)) = self.actors[at].member {
            let now = self.now;
            return self.announce(at, owner, nonce, now, None);
        }
        Ok(())
    }

    /// Sends what `to` lacks, and delivers it at once.
    fn exchange(&mut self, from: usize, to: usize) -> Result<(), String> {
        let vector = self.actors[to].replica.keyed().vector();
        self.send(from, to, &vector);
        let last = self.sent.len() - 1;
        self.deliver(last)
    }

    fn pick(&mut self, of: impl Fn(&Actor) -> bool) -> Option<usize> {
        let those = |at: &usize| self.actors[*at].alive && of(&self.actors[*at]);
        let those: Vec<usize> = (0..self.actors.len()).filter(those).collect();
        match those.len() {
            0 => None,
            count => Some(those[self.random.index(count)]),
        }
    }

    fn send(&mut self, from: usize, to: usize, since: &VersionVector) {
        let Actor {
            replica, member, ..
        } = &self.actors[from];
        let mut message = replica.delta(since);
        if member.is_none() {
            message = message.without_keys(); // it is a page
        }
        let bytes = message.encode();
        self.hash.bytes(&bytes);
        self.sent.push(Sent {
            from,
            to,
            writer: replica.writer(),
            bytes,
            view: self.actors[from].view.clone(),
        });
    }

    fn deliver(&mut self, at: usize) -> Result<(), String> {
        let Sent {
            from,
            to,
            writer,
            ref bytes,
            ref view,
        } = self.sent[at];
        let message = Message::decode(bytes).map_err(|error| format!("message {at}: {error}"))?;
        if message.encode() != *bytes {
            return Err(format!("message {at} has two encodings"));
        }
        let replica = &mut self.actors[to].replica;
        if let Some(delivered) = &mut self.delivered {
            delivered.push(Delivery {
                replica: replica.clone(),
                live: writer,
                bytes: bytes.clone(),
            });
        }
        let before = self.trace.then(|| replica.delta(&VersionVector::default()));
        let result = replica.merge_with(&message, Some(writer), &mut |_| ());
        self.note(|| format!("{to} gets {at} of {from}: {:?}", result.as_ref().err()));
        match result {
            Ok(merged) => {
                if merged.replaced {
                    self.actors[to].view = view.clone();
                }
                self.metrics.merges += 1;
                self.settle(to).map_err(|error| match before {
                    Some(before) => format!("{error}\nhad {before:?}\ngot {message:?}"),
                    None => error,
                })
            }
            Err(
                Error::Merge(MergeError::NotCovered(_))
                | Error::Admission(AdmissionError::Stranger { .. } | AdmissionError::Unsure { .. }),
            ) => {
                self.metrics.refusals += 1;
                Ok(())
            }
            Err(Error::Admission(AdmissionError::Gone { .. } | AdmissionError::Behind)) => {
                self.metrics.refusals += 1;
                let knows = self.actors[from].replica.writer() == writer;
                self.actors[from].doomed |= knows;
                let tells = knows && self.random.chance(500);
                self.gives_up(from, tells);
                Ok(())
            }
            Err(Error::Admission(why @ (AdmissionError::Outdated | AdmissionError::Retired))) => {
                self.metrics.refusals += 1;
                self.actors[to].doomed = true;
                let chance = if why == AdmissionError::Retired {
                    500
                } else {
                    300
                };
                let tells = self.random.chance(chance);
                self.gives_up(to, tells);
                Ok(())
            }
            Err(error) => Err(format!("message {at} from {from} to {to}: {error}")),
        }
    }

    /// Ends a replica that cannot go on, or marks it to rejoin.
    fn gives_up(&mut self, at: usize, told: bool) {
        if !told || self.actors[at].stale || !self.actors[at].alive {
            return;
        }
        let ends = self.actors[at].left || self.random.chance(400);
        self.note(|| format!("{at} can't go on, ends: {ends}"));
        let actor = &mut self.actors[at];
        actor.alive = !ends;
        actor.stale = !ends;
    }

    /// Whether some replica has fenced or retired a writer.
    fn is_given_up(&self, writer: WriterId) -> bool {
        let members = self.actors.iter().filter(|it| it.member.is_some());
        let mut replicas = members.map(|it| &it.replica);
        self.taken.has(&writer) || replicas.any(|it| !it.members().accepts_from(&writer))
    }

    /// A replica withdraws its duplicates of transactions that other replicas made under the same keys.
    fn withdraw(&mut self, at: usize) -> Result<(), String> {
        let Actor { replica, view, .. } = &mut self.actors[at];
        let mut withdrawn = Vec::new();
        let done = replica
            .keyed_mut()
            .withdraw(&mut |handle, dot| withdrawn.push((handle, dot)));
        if done.map_err(|error| error.to_string())? {
            self.metrics.withdrawn += withdrawn.len() as u64;
            let name = |handle| replica.key(handle).unwrap_or_default().to_owned();
            let withdrawn = withdrawn.iter().map(|&(handle, dot)| (name(handle), dot));
            let mut withdrawn: Vec<(String, Dot)> = withdrawn.collect();
            let stamp = (replica.writer(), replica.clock());
            if let Some(books) = &mut self.ledger {
                books.withdraw(&mut withdrawn, stamp)?;
            }
            let done = self.oracle.withdraw(view, stamp, &withdrawn);
            done.map_err(|error| format!("replica {at}: {error}"))?;
            self.note(|| format!("{at} withdraws {withdrawn:?}"));
            self.check(at)?;
        }
        Ok(())
    }

    /// Compares a replica that may have changed with the oracle.
    fn settle(&mut self, at: usize) -> Result<(), String> {
        let actor = &mut self.actors[at];
        let stamp = (actor.replica.writer(), actor.replica.clock());
        self.oracle.note(&mut actor.view, stamp);
        self.hash.reads(&actor.replica);
        self.check(at)?;
        let Actor {
            replica, member, ..
        } = &self.actors[at];
        if let Some((owner, _)) = member {
            self.owners.insert(replica.writer(), *owner);
            let of_others = |dot: &Dot| self.owners.get(&dot.0) != Some(owner);
            let makers = 0..self.keyed.len();
            let makers = makers.flat_map(|number| self.oracle.makers(replica, number));
            self.shared.extend(makers.filter(of_others));
        }
        self.withdraw(at)
    }

    fn check(&mut self, at: usize) -> Result<(), String> {
        let now = self.clock(at);
        let actor = &mut self.actors[at];
        let writers = actor.replica.writers().count() as u64;
        self.metrics.writers_max = self.metrics.writers_max.max(writers);
        let claimed = self.taken.claimed(&actor.replica);
        let named = |error| format!("replica {at}: {error}");
        self.oracle
            .learn(&mut actor.view, claimed.into_iter())
            .map_err(named)?;
        actor.replica.set_time(now);
        self.oracle
            .check(&actor.view, &actor.replica, now)
            .map_err(named)?;
        if actor.replica.forks().fault_count() > 0 {
            return Err(named(format!(
                "a fault: {:?}",
                actor.replica.forks().faults()[0]
            )));
        }
        match self.ledger.as_ref().filter(|_| !actor.doomed) {
            Some(books) => books
                .check(&actor.view, &actor.replica, &self.taken)
                .map_err(named),
            None => Ok(()),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..30 => self.write(),
            30..52 => self.post(),
            52..75 => match self.sent.len() {
                0 => Ok(()),
                count => {
                    let at = match self.random.chance(600) {
                        true => count - 1 - self.random.index(count.min(6)),
                        false => self.random.index(count),
                    };
                    match self.actors[self.sent[at].to].alive {
                        true => self.deliver(at),
                        false => Ok(()),
                    }
                }
            },
            75..78 if self.actors.len() < 14 => self.join(None),
            78 => match self.pick(|actor| actor.stale || actor.aside.is_some()) {
                Some(at) => self.come_back(at),
                None => Ok(()),
            },
            79..83 => self.leave(),
            83..85 => self.fence(),
            85..87 => self.restart(),
            87..91 => self.tend(|replica| replica.members_mut().acknowledge().map(|_| ())),
            91..95 => self.absorb(),
            _ => self.collect(),
        }
    }

    fn write(&mut self) -> Result<(), String> {
        let Some(at) = self.pick(|actor| !actor.left && actor.aside.is_none()) else {
            return Ok(());
        };
        if self.ledger.is_some() && self.random.chance(700) {
            return self.flow(at);
        }
        let count = match self.random.chance(700) {
            true => 1,
            false => self.random.range(2, 3),
        };
        let mut ops: Vec<(Key, Kind)> = (0..count).map(|_| self.op()).collect();
        let mut call = Call::Transact;
        if self.actors[at].member.is_some() && self.random.chance(350) {
            // One of the last keys, or a new one.
            let number = self.keyed.len().saturating_sub(self.random.index(4));
            match self.keyed.get(number) {
                Some(same) => ops.clone_from(same),
                None => self.keyed.push(ops.clone()),
            }
            let Actor { replica, view, .. } = &self.actors[at];
            let new = self.oracle.ask(view, replica, number);
            if !new.map_err(|error| format!("replica {at}: {error}"))? {
                self.metrics.retries += 1;
                return Ok(());
            }
            call = Call::Once(number);
        }
        let now = self.clock(at);
        let Actor { replica, view, .. } = &mut self.actors[at];
        let made = self
            .oracle
            .transact(view, replica, now, &ops, call)
            .map_err(|error| format!("replica {at}: {error}"))?;
        self.metrics.transactions += u64::from(made);
        self.note(|| format!("{at} makes {ops:?} by {call:?}"));
        Ok(())
    }

    fn op(&mut self) -> (Key, Kind) {
        let key = self.random.index(self.oracle.keys().len());
        let amount = (self.random.next_u64() as i64) >> self.random.range(20, 40);
        let kind = match self.random.below(20) {
            0..9 => Kind::Add(amount),
            9..11 => Kind::Delete,
            11..12 => Kind::Reset,
            12..14 => Kind::Set(amount),
            14..19 => Kind::Expire(self.now + self.random.below(60)),
            _ => Kind::Persist,
        };
        (key, kind)
    }

    /// One replica sends a message to another.
    fn post(&mut self) -> Result<(), String> {
        let Some(from) = self.pick(|_| true) else {
            return Ok(());
        };
        // A replica that no member has admitted yet sends to members only.
        let actor = &self.actors[from];
        let speaks =
            actor.replica.members().is_member() || actor.replica.members().sponsor().is_some();
        let Some(to) = self.pick(|actor| speaks || actor.replica.members().is_member()) else {
            return Ok(());
        };
        if from == to {
            return Ok(());
        }
        let since = match self.random.below(4) {
            0 => VersionVector::default(),
            1 => {
                let other = self.random.index(self.actors.len());
                self.actors[other].replica.vector()
            }
            _ => self.actors[to].replica.keyed().vector(),
        };
        self.send(from, to, &since);
        let number = self.sent.len() - 1;
        self.note(|| format!("{from} sends {number} to {to}"));
        Ok(())
    }

    fn leave(&mut self) -> Result<(), String> {
        let Some(at) =
            self.pick(|actor| !actor.left && actor.replica.members().sponsor().is_some())
        else {
            return Ok(());
        };
        let done = self.actors[at].replica.members_mut().leave();
        done.map_err(|error| error.to_string())?;
        self.note(|| format!("{at} leaves"));
        self.actors[at].left = true;
        self.metrics.leaves += 1;
        self.settle(at)
    }

    fn fence(&mut self) -> Result<(), String> {
        let Some(by) = self.pick(|actor| actor.replica.members().is_member()) else {
            return Ok(());
        };
        let other = self.random.index(self.actors.len());
        let writer = self.actors[other].replica.writer();
        // Members are seldom given up, and the last one never is.
        let members = self
            .actors
            .iter()
            .filter(|it| it.alive && it.replica.members().is_member());
        let member = self.actors[other].member.is_some();
        if other == by || member && (members.count() < 3 || self.random.chance(700)) {
            return Ok(());
        }
        let before = self.actors[by].replica.clock();
        let same =
            self.actors[other].member.map(|it| it.0) == self.actors[by].member.map(|it| it.0);
        if same {
            return Ok(());
        }
        if let Some((owner, _)) = self.actors[other].member {
            let replica = &mut self.actors[by].replica;
            let members = replica
                .members()
                .configuration()
                .map(|it| it.members.clone());
            let mut members = members.unwrap_or_default();
            members.retain(|it| *it != owner);
            let done = replica.members_mut().force(&members);
            done.map_err(|error| error.to_string())?;
        }
        match self.actors[by].replica.members_mut().fence(&writer) {
            Ok(()) | Err(Error::Member(MemberError::UnknownWriter { .. })) => {}
            Err(error) => return Err(error.to_string()),
        }
        if self.actors[by].replica.clock() > before {
            self.note(|| format!("{by} declares {other} dead"));
            self.metrics.fences += 1;
        }
        self.settle(by)
    }

    /// A member stops, and starts again as a new incarnation from its stored state.
    fn restart(&mut self) -> Result<(), String> {
        let Some(at) = self.pick(|actor| actor.replica.members().is_member()) else {
            return Ok(());
        };
        let Some((owner, _)) = self.actors[at].member else {
            return Ok(());
        };
        let (state, view) = self.restored(at);
        let before = self.predecessor(at, owner, &state);
        self.actors[at].alive = false;
        let new = self.start(Some(owner));
        self.note(|| format!("{at} starts again as {new}"));
        self.metrics.restarts += 1;
        let message = Message::decode_stored(&state).map_err(|error| error.to_string())?;
        let restored = self.actors[new].replica.restore(&message);
        restored.map_err(|error| error.to_string())?;
        self.actors[new].view = view;
        self.check(new)?;
        let nonce = self.actors[new].member.map_or([0; 16], |it| it.1);
        let now = self.now;
        self.announce(new, owner, nonce, now, before)
    }
}
