//! Keyed operations in a mesh: members are asked for each several times, while what they tell each
//! other goes over guests, who keep no keys, and while links between members are down.

use super::{MEMBERS, Mesh};
use crate::random::Random;
use tallymesh_core::{Asked, Link, Once, WriterId};

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
pub(super) struct Keyed {
    random: Random,
    requests: Vec<Request>,
    young: Vec<Young>,
}

impl Keyed {
    pub(super) fn new(seed: u64) -> Keyed {
        Keyed {
            random: Random::new(seed ^ 0x0ce),
            requests: Vec::new(),
            young: Vec::new(),
        }
    }
}

/// The counter that only the key of this number adds to.
fn counter(number: usize) -> String {
    format!("key:{number}")
}

impl Mesh {
    /// What else happens in runs with keys.
    pub(super) fn keyed_event(&mut self) -> Result<(), String> {
        let Some(keyed) = &mut self.keyed else {
            return Ok(());
        };
        match keyed.random.below(40) {
            0..6 => self.ask_once(),
            6 if keyed.random.chance(400) => self.part(),
            7 if keyed.random.chance(400) => self.rejoin(),
            8 => self.link_twice(),
            _ => Ok(()),
        }
    }

    /// A member is asked for something new, or for what was asked for before.
    fn ask_once(&mut self) -> Result<(), String> {
        let Some(keyed) = &mut self.keyed else {
            return Ok(());
        };
        let at = keyed.random.index(MEMBERS);
        let count = keyed.requests.len();
        let number = count.saturating_sub(keyed.random.index(RETRIED));
        let first = number == count;
        if first {
            keyed.requests.push(Request {
                once: Once::new(&count.to_le_bytes(), b"the same"),
                by: 1_000 + count as i64,
                shared: ["a", "b", "c"][keyed.random.index(3)],
                made: 0,
                open: false,
                lost: false,
            });
        }
        let Request {
            once, by, shared, ..
        } = keyed.requests[number];
        let replica = &mut self.peers[at].replica;
        self.figures.lacking += u64::from(replica.lacks_keys());
        match replica.asked(&once) {
            Asked::New => {}
            Asked::Before(_) => {
                self.figures.retries += 1;
                return Ok(());
            }
            Asked::Reused => return Err(format!("{at} takes key {number} for another")),
        }
        let failed = |error| format!("{at} adds under key {number}: {error}");
        let mut transaction = replica.begin().map_err(failed)?;
        for counter in [counter(number).as_str(), shared] {
            let added = transaction.apply(counter, tallymesh_core::Op::Add(by));
            added.map_err(failed)?;
        }
        let done = transaction.commit_once(once, &mut Vec::new());
        done.map_err(failed)?;
        let made = (replica.writer(), replica.clock(), i128::from(by));
        self.note(|| format!("{} {at} makes key {number} at {}: {by}", self.now, made.1));
        self.peers[at].made.push(made);
        if let Some(keyed) = &mut self.keyed {
            keyed.requests[number].made += 1;
            keyed.young.push(Young {
                number,
                made: (made.0, made.1),
                known: true,
            });
        }
        self.figures.keyed += u64::from(first);
        self.figures.doubled += u64::from(!first);
        match first {
            true => self.expected += i128::from(by),
            // Until that is heard of.
            false => self.doubled += i128::from(by),
        }
        self.handle(at, tallymesh_core::Input::Changed);
        Ok(())
    }

    /// The links between two members go down.
    fn part(&mut self) -> Result<(), String> {
        let Some(keyed) = &mut self.keyed else {
            return Ok(());
        };
        let one = keyed.random.index(MEMBERS);
        let pair = [one, (one + 1) % MEMBERS];
        let of = |ends: &[usize; 2]| pair.iter().all(|at| ends.contains(at));
        let links = self.links.iter().filter(|it| of(it.1));
        let links: Vec<Link> = links.map(|it| *it.0).collect();
        for link in links {
            self.drop_link(link);
        }
        Ok(())
    }

    /// All links between members are up again.
    pub(super) fn rejoin(&mut self) -> Result<(), String> {
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let of = |ends: &[usize; 2]| ends.contains(&a) && ends.contains(&b);
            if !self.links.values().any(of) {
                self.connect(a, b);
            }
        }
        Ok(())
    }

    /// A guest has a link to another member besides.
    fn link_twice(&mut self) -> Result<(), String> {
        let Some(keyed) = &mut self.keyed else {
            return Ok(());
        };
        let (at, member) = (
            keyed.random.index(self.peers.len()),
            keyed.random.index(MEMBERS),
        );
        let known = self
            .links
            .values()
            .any(|ends| ends.contains(&at) && ends.contains(&member));
        let peer = &self.peers[at];
        if at >= MEMBERS && peer.linked && !peer.gone && !known {
            self.connect(at, member);
        }
        Ok(())
    }

    /// Nobody knows any more whether transactions that added these amounts count.
    pub(super) fn doubt_keyed(&mut self, amounts: &[i128]) {
        let Some(keyed) = &mut self.keyed else {
            return;
        };
        for request in &mut keyed.requests {
            request.open |= amounts.contains(&i128::from(request.by));
        }
    }

    /// Looks which of the transactions that were made under keys are known by that to no member any
    /// more.
    pub(super) fn look_for_lost(&mut self) {
        let Some(keyed) = &mut self.keyed else {
            return;
        };
        let members = &self.peers[..MEMBERS];
        for young in &mut keyed.young {
            let request = &mut keyed.requests[young.number];
            let knows = |made: &Vec<(WriterId, u64)>| made.contains(&young.made);
            let makers = members.iter().map(|it| it.replica.makers(&request.once));
            let count = makers.filter(knows).count();
            if count == 0 {
                self.figures.lost += u64::from(!request.lost);
                request.lost = true;
            }
            young.known = (1..MEMBERS).contains(&count);
        }
        keyed.young.retain(|young| young.known);
    }

    /// What may count besides, of the keys that were lost.
    pub(super) fn lost(&self) -> i128 {
        let requests = self.keyed.iter().flat_map(|keyed| &keyed.requests);
        let lost = requests.filter(|request| request.lost);
        lost.map(|it| i128::from(it.by * (it.made - 1))).sum()
    }

    /// Whether each key's operation counts once here.
    pub(super) fn check_once(&self, at: usize) -> Result<(), String> {
        let Some(keyed) = &self.keyed else {
            return Ok(());
        };
        let replica = &self.peers[at].replica;
        for (number, request) in keyed.requests.iter().enumerate() {
            let (by, value) = (i128::from(request.by), replica.value(&counter(number)));
            let most = if request.lost { request.made } else { 1 };
            let counts = value.is_some_and(|value| {
                value % by == 0 && (1..=i128::from(most)).contains(&(value / by))
            });
            if !(counts || request.open && value.is_none()) {
                let error = format!("{at} has {value:?} of key {number}, which adds {by} once");
                return Err(error);
            }
        }
        Ok(())
    }
}
