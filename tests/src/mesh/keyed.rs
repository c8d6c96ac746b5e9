//! Keyed operations in a mesh: members are asked for each several times, while what they tell each
//! other goes over guests, who keep no keys, and while links between members are down.

use super::{Event, KEYS, MEMBERS, Made, World};
use crate::sim::Cut;
use tallymesh_core::{Asked as Known, Error, Once, Op, WriterId};

/// How long two members are parted, in milliseconds.
const PARTED_MS: (u64, u64) = (500, 5_000);
/// The last so many keys are asked for again.
const RETRIED: usize = 6;

/// What is asked for under a key.
struct Request {
    once: Once,
    /// What it adds to the key's own counter, and to one that others add to. Nobody else adds that.
    by: i64,
    shared: &'static str,
    /// How often it was made.
    made: i64,
    /// Whether nobody may know any more whether it counts.
    open: bool,
    /// Whether whoever knew that a transaction was made under the key came back, and took over what
    /// others have, who do not know it: if a guest passed it on, it counts besides what is made under
    /// the key elsewhere.
    lost: bool,
}

/// A transaction that was made under a key, and that not all members have heard of with its key yet.
struct Young {
    number: usize,
    made: (WriterId, u64),
    /// Whether a member knew it when that was looked at last.
    known: bool,
}

/// The keyed operations of a run.
#[derive(Default)]
pub(super) struct Keyed {
    requests: Vec<Request>,
    young: Vec<Young>,
}

/// What was asked for under a key, of this number, was made.
pub struct Asked {
    number: usize,
    made: Made,
}

/// The counter that only the key of this number adds to.
fn counter(number: usize) -> String {
    format!("key:{number}")
}

impl World {
    /// What else happens in runs with keys.
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

    /// A member is asked for something new, or for what was asked for before.
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
        self.own.figures.lacking += u64::from(replica.lacks_keys());
        match replica.asked(&once) {
            Known::New => {}
            Known::Before(_) => {
                self.own.figures.retries += 1;
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
        self.own.figures.keyed += u64::from(first);
        self.own.figures.doubled += u64::from(!first);
        self.own.begun += i128::from(by);
        self.when_written(at, Event::Once(at, Asked { number, made }));
        self.changed(at)
    }

    /// A client is told that what it asked for under a key was made.
    pub(super) fn note_once(&mut self, at: usize, Asked { number, made }: Asked) {
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
        // What is made once more counts until that is heard of.
        self.own.expected += if request.made == 1 { made.2 } else { 0 };
    }

    /// A guest has a link to another member besides.
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

    /// Nobody knows any more whether transactions that added these amounts count.
    pub(super) fn doubt_keyed(&mut self, amounts: &[i128]) {
        let Some(keyed) = &mut self.own.keyed else {
            return;
        };
        for request in &mut keyed.requests {
            request.open |= amounts.contains(&i128::from(request.by));
        }
    }

    /// Looks which of the transactions that were made under keys are known by that to no member any
    /// more.
    pub(super) fn look_for_lost(&mut self) {
        let Some(keyed) = &mut self.own.keyed else {
            return;
        };
        let members = &self.nodes[..MEMBERS];
        for young in &mut keyed.young {
            let request = &mut keyed.requests[young.number];
            let knows = |made: &Vec<(WriterId, u64)>| made.contains(&young.made);
            let makers = members.iter().map(|it| it.replica.makers(&request.once));
            let count = makers.filter(knows).count();
            if count == 0 {
                self.own.figures.lost += u64::from(!request.lost);
                request.lost = true;
            }
            young.known = (1..MEMBERS).contains(&count);
        }
        keyed.young.retain(|young| young.known);
    }

    /// What may count besides, of the keys that were lost.
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
