//! Keyed operations in a mesh. Clients repeat each request at several members. Meanwhile the members' changes
//! travel through guests, which store no keys, and links between members are down.

use super::{Event, KEYS, MEMBERS, Made, World};
use crate::sim::Cut;
use tallymesh_core::{Error, KeyStatus as Known, Once, Op, WriterId};

/// How long the link of two members is cut, in milliseconds.
const PARTED_MS: (u64, u64) = (500, 5_000);
/// Clients repeat only this many of the last keys.
const RETRIED: usize = 6;

/// The operation of a key.
struct Request {
    once: Once,
    /// The amount that it adds to the key's own counter and to a shared counter. No other operation adds this
    /// amount.
    by: i64,
    shared: &'static str,
    /// How often it was acknowledged.
    made: i64,
    /// Whether it is unknown whether the operation counts.
    open: bool,
    /// Whether the key of a transaction is lost. The member that had the key rejoined, and took over the
    /// state of members without it. If a guest passed the transaction on, it counts in addition to the one
    /// that another member makes under the key.
    lost: bool,
}

/// A keyed transaction whose key has not reached all members yet.
struct Young {
    number: usize,
    made: (WriterId, u64),
    /// Whether a member had its key at the last check.
    known: bool,
}

/// The keyed operations of a run.
#[derive(Default)]
pub(super) struct Keyed {
    requests: Vec<Request>,
    young: Vec<Young>,
}

/// The acknowledgement of a keyed operation.
pub struct KeyedAnswer {
    number: usize,
    made: Made,
}

/// The counter that only the key of this number adds to.
fn counter(number: usize) -> String {
    format!("key:{number}")
}

impl World {
    /// An additional action in runs with keys.
    pub(super) fn act_keyed(&mut self) -> Result<(), String> {
        if self.own.keyed.is_none() {
            return Ok(());
        }
        match self.random.below(40) {
            0..6 => self.ask_once()?,
            6 if self.random.chance(400) => {
                let one = self.random.index(MEMBERS);
                let ms = self.random.range(PARTED_MS.0, PARTED_MS.1);
                self.cut(one, (one + 1) % MEMBERS, Cut::Closed, ms);
            }
            8 => self.link_twice(),
            _ => {}
        }
        Ok(())
    }

    /// Requests a new operation at a member, or repeats an earlier one.
    fn ask_once(&mut self) -> Result<(), String> {
        let at = self.random.index(MEMBERS);
        let (back, shared) = (self.random.index(RETRIED), self.random.index(KEYS.len()));
        let Some(keyed) = self.own.keyed.as_mut().filter(|_| self.nodes[at].alive) else {
            return Ok(());
        };
        let count = keyed.requests.len();
        let number = count.saturating_sub(back);
        let first = number == count;
        if first {
            keyed.requests.push(Request {
                once: Once::new(&count.to_le_bytes(), b"the same"),
                by: 1_000 + count as i64,
                shared: KEYS[shared],
                made: 0,
                open: false,
                lost: false,
            });
        }
        let Request {
            once, by, shared, ..
        } = keyed.requests[number];
        let replica = &mut self.nodes[at].replica;
        self.own.metrics.key_gaps += u64::from(replica.keyed().has_gaps());
        match replica.keyed().lookup(&once) {
            Known::New => {}
            Known::Before(_) => {
                self.own.metrics.retries += 1;
                return Ok(());
            }
            Known::Reused => return Err(format!("{at} takes key {number} for another")),
        }
        let mut make = || -> Result<(), Error> {
            let mut transaction = replica.begin()?;
            for counter in [counter(number).as_str(), shared] {
                transaction.apply(counter, Op::Add(by))?;
            }
            transaction.commit_once(once, &mut Vec::new())
        };
        make().map_err(|error| format!("{at} adds under key {number}: {error}"))?;
        let made = (replica.writer(), replica.clock(), i128::from(by));
        self.note(|| format!("{at} makes key {number} at {}: {by}", made.1));
        self.own.metrics.keyed += u64::from(first);
        self.own.metrics.doubled += u64::from(!first);
        self.own.begun += i128::from(by);
        self.when_written(at, Event::Once(at, KeyedAnswer { number, made }));
        self.changed(at)
    }

    /// A client receives the acknowledgement of a keyed operation.
    pub(super) fn note_once(&mut self, at: usize, KeyedAnswer { number, made }: KeyedAnswer) {
        self.own.peers[at].made.push(made);
        let Some(keyed) = &mut self.own.keyed else {
            return;
        };
        let request = &mut keyed.requests[number];
        request.made += 1;
        keyed.young.push(Young {
            number,
            made: (made.0, made.1),
            known: true,
        });
        // A duplicate counts only until a member withdraws it.
        self.own.expected += if request.made == 1 { made.2 } else { 0 };
    }

    /// A guest opens a link to another member in addition.
    fn link_twice(&mut self) {
        let (at, member) = (
            self.random.index(self.nodes.len()),
            self.random.index(MEMBERS),
        );
        let linked = !self.linked_with(at).is_empty();
        if at >= MEMBERS && linked && !self.nodes[at].is_gone() {
            self.link(at, member);
        }
    }

    /// Marks the operations with these amounts: it is unknown whether they count.
    pub(super) fn doubt_keyed(&mut self, amounts: &[i128]) {
        let Some(keyed) = &mut self.own.keyed else {
            return;
        };
        for request in &mut keyed.requests {
            request.open |= amounts.contains(&i128::from(request.by));
        }
    }

    /// Finds the keyed transactions whose key no member has any more.
    pub(super) fn look_for_lost(&mut self) {
        let Some(keyed) = &mut self.own.keyed else {
            return;
        };
        let members = &self.nodes[..MEMBERS];
        for young in &mut keyed.young {
            let request = &mut keyed.requests[young.number];
            let knows = |made: &Vec<(WriterId, u64)>| made.contains(&young.made);
            let makers = members
                .iter()
                .map(|it| it.replica.keyed().makers(&request.once));
            let count = makers.filter(knows).count();
            if count == 0 {
                self.own.metrics.lost += u64::from(!request.lost);
                request.lost = true;
            }
            young.known = (1..MEMBERS).contains(&count);
        }
        keyed.young.retain(|young| young.known);
    }

    /// The sum that may count in addition, because of lost keys.
    pub(super) fn lost(&self) -> i128 {
        let requests = self.own.keyed.iter().flat_map(|keyed| &keyed.requests);
        let lost = requests.filter(|request| request.lost);
        lost.map(|it| i128::from(it.by * (it.made - 1))).sum()
    }

    /// Whether each key's operation counts once here.
    pub(super) fn check_once(&self, at: usize) -> Result<(), String> {
        let Some(keyed) = &self.own.keyed else {
            return Ok(());
        };
        let replica = &self.nodes[at].replica;
        for (number, request) in keyed.requests.iter().enumerate() {
            let (by, value) = (i128::from(request.by), replica.value(&counter(number)));
            let most = if request.lost { request.made } else { 1 };
            let counts = value.is_some_and(|value| {
                value % by == 0 && (1..=i128::from(most)).contains(&(value / by))
            });
            let may_lack = request.open || request.made == 0;
            if !(counts || may_lack && value.is_none()) {
                let error = format!("{at} has {value:?} of key {number}, which adds {by} once");
                return Err(error);
            }
        }
        Ok(())
    }
}
