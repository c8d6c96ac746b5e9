//! Merge: the only way in which another replica's shards get in.

use super::{Fault, Replica, place};
use crate::counter;
use crate::delta::{Entry, KeySide, Message};
use crate::error::{Error, Missing, Rule};
use crate::keys::Handle;
use crate::limits::{FAULTS_KEPT_MAX, WRITERS_MAX};
use crate::roster::{Configuration, Fact, Says};
use crate::shard::{Column, Joined, OWN, PAGE, Row, Shard, bits};
use crate::slot::{Slot, Stamp};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// How many shards and cuts were installed: those newer than what was held.
    pub shards: usize,
    /// Whether the version vector grew.
    pub new: bool,
}

/// A fork found while merging: the counter, the writer's local number, the clock and both totals.
type Fork = (Handle, u32, u64, [i128; 2]);

/// Collects what a merge finds while pages are borrowed.
struct Found<'a> {
    installed: usize,
    forks: Vec<Fork>,
    /// Counters with more than rows that changed; they are normalized when all is installed.
    odd: Vec<Handle>,
    /// Whether nothing of others was here before.
    fresh: bool,
    changed: &'a mut dyn FnMut(Handle),
}

impl<'a> Found<'a> {
    fn new(fresh: bool, changed: &'a mut dyn FnMut(Handle)) -> Found<'a> {
        Found {
            fresh,
            installed: 0,
            forks: Vec::new(),
            odd: Vec::new(),
            changed,
        }
    }
}

/// Longest chain of admissions that is followed.
const ADMISSIONS_MAX: usize = 8;

/// What a writer of a message is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is known, or new.
    Known,
    /// It was known, and everything of it is covered.
    Forgotten,
    /// Nobody has taken it in.
    Stranger,
}

/// The local number of a writer that was forgotten.
const FORGOTTEN: u32 = u32::MAX;

/// A writer of a message, here.
#[derive(Clone, Copy)]
struct Known {
    number: u32,
    /// In a closed space its clock before the message: what is not newer was seen before, and if it
    /// is not here it was collected. Of a writer that was forgotten everything is covered. In an
    /// open space, where nothing is collected, only a forked writer's is covered and absent.
    covered: u64,
    /// Where its column stood in the page before.
    hint: usize,
}

impl Replica {
    /// Merges a message: for each counter and writer the shard with the greater clock stays.
    ///
    /// Merging is commutative, associative and idempotent, and the whole message becomes visible
    /// at once. Shards of equal clock and different content, which no correct writer makes, are
    /// reported as a [`Fault`] and the greater total stays.
    ///
    /// # Errors
    /// [`Error::NotCovered`] if something that the message builds on is missing here,
    /// [`Error::OwnClockAhead`], [`Error::WritersFull`], [`Error::CountersFull`]. Nothing is
    /// changed then.
    pub fn merge(&mut self, message: &Message) -> Result<Merged, Error> {
        self.merge_with(message, &mut |_| ())
    }

    /// Merges a message, and names each counter that changed.
    ///
    /// # Errors
    /// As [`merge`](Replica::merge).
    pub fn merge_with(
        &mut self,
        message: &Message,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<Merged, Error> {
        self.merge_live(message, None, changed)
    }

    /// Merges a message that came in a session of the writer `live` itself, which may be new.
    ///
    /// # Errors
    /// As [`merge`](Replica::merge).
    pub fn merge_live(
        &mut self,
        message: &Message,
        live: Option<WriterId>,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<Merged, Error> {
        self.check(message, live)?;
        let newcomer = self.newcomer(message, live)?;
        let new = self.news(message);
        self.make_way(message, new, changed)?;
        let mut found = Found::new(self.numbers.len() == 1, changed);
        let forgotten = self.forgotten(message, live);
        self.install(message, &forgotten, &mut found)?;
        let shards = self.conclude(message, &forgotten, found);
        self.greet(message, live, newcomer)?;
        Ok(Merged { shards, new })
    }

    /// Takes the sender in if it is new, and notes what it has seen.
    fn greet(
        &mut self,
        message: &Message,
        live: Option<WriterId>,
        newcomer: Option<WriterId>,
    ) -> Result<(), Error> {
        if let Some(writer) = newcomer {
            self.take_in(writer)?;
        }
        if let Some(writer) = live.filter(|_| self.is_member()) {
            self.heard(&writer, message);
        }
        Ok(())
    }

    /// Drops what a message takes the place of.
    fn make_way(
        &mut self,
        message: &Message,
        new: bool,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<(), Error> {
        if !new || !self.is_replaced_by(message)? {
            return Ok(());
        }
        // It must not take anything back: whom it does not name, its sender has forgotten.
        let hi = |writer: &WriterId| {
            let at = message.writers.binary_search_by_key(writer, |e| e.writer);
            at.ok().map(|at| message.writers[at].hi)
        };
        for (writer, held) in self.writers() {
            let told = hi(&writer).unwrap_or(match self.is_gone_in(message, &writer, &hi) {
                true => held,
                false => 0,
            });
            if told < held {
                let missing = Missing {
                    writer,
                    needed: held,
                    held: told,
                };
                return Err(Error::NotCovered(Box::new(missing)));
            }
        }
        self.clear().into_iter().for_each(changed);
        Ok(())
    }

    /// Whether the sender of a whole state, which does not name a writer, has forgotten it.
    fn is_gone_in(
        &self,
        message: &Message,
        writer: &WriterId,
        hi: &dyn Fn(&WriterId) -> Option<u64>,
    ) -> bool {
        if let Some((by, clock)) = self.introduced_by(writer) {
            return match hi(&by) {
                Some(hi) => hi >= clock,
                None => by != *writer && self.is_gone_in(message, &by, hi),
            };
        }
        let Some((owner, generation)) = self.incarnation(writer) else {
            return false;
        };
        message.facts.iter().any(|fact| match &fact.says {
            Says::Gone(_, gone) => gone.0 == owner && gone.1 >= generation,
            _ => false,
        })
    }

    /// The sender of a message, if it is to be taken in along with it.
    fn newcomer(
        &self,
        message: &Message,
        live: Option<WriterId>,
    ) -> Result<Option<WriterId>, Error> {
        let Some(live) = live.filter(|_| self.configuration().is_some()) else {
            return Ok(None);
        };
        if !self.takes_from(&live) {
            return Err(Error::Retired);
        }
        let entry = |writer: &WriterId| {
            let at = message.writers.binary_search_by_key(writer, |e| e.writer);
            at.ok().map(|at| (at as u32, message.writers[at].hi))
        };
        let Some((at, hi)) = entry(&live) else {
            return Ok(None);
        };
        let introduced = |fact: &Fact| {
            fact.writer == at && matches!(fact.says, Says::Admit(_) | Says::Announce(_))
        };
        let known = self.numbers.get(&live).is_some() || message.facts.iter().any(introduced);
        if known && self.standing(message, at as usize, None, 0) == Standing::Forgotten {
            return Err(Error::Retired);
        }
        if self.numbers.get(&live).is_some() || hi == 0 {
            return Ok(None);
        }
        // What it had seen at its first transaction.
        let base = message.facts.iter().find_map(|fact| match &fact.says {
            Says::Base(seen) if fact.writer == at => Some(&seen[..]),
            _ => None,
        });
        let base_of = |writer: &WriterId| {
            let (at, _) = entry(writer)?;
            let seen = base.unwrap_or_default();
            let at = seen.binary_search_by_key(&at, |entry| entry.0).ok()?;
            Some(seen[at].1)
        };
        let seen = |writer: &WriterId| base_of(writer).unwrap_or(0);
        if known {
            // An incarnation of a member, or one that another member took in.
            return match base.is_some() && self.is_member() && self.is_behind(&seen) {
                true => Err(Error::Behind),
                false => Ok(None),
            };
        }
        if !self.is_member() {
            return Err(Error::Stranger { writer: live });
        }
        // An open replica tells no base, and can only be taken in if it has seen nothing.
        let lonely = match base {
            Some(base) => base.is_empty(),
            None => message.writers.len() == 1,
        };
        self.may_admit(&live, lonely, &seen)?;
        self.next_clock()?;
        Ok(Some(live))
    }

    /// Merges a transfer that came in encoded chunks, all of them at once.
    pub(crate) fn merge_staged(
        &mut self,
        staged: &[Vec<u8>],
        last: &Message,
        live: Option<WriterId>,
        changed: &mut dyn FnMut(Handle),
    ) -> Result<usize, Error> {
        self.check(last, live)?;
        // What the last chunk's table does not cover must not become visible.
        let covered = |entry: &Entry| {
            let at = last
                .writers
                .binary_search_by_key(&entry.writer, |e| e.writer);
            at.is_ok_and(|at| entry.hi <= last.writers[at].hi)
        };
        let mut key_bytes = 0;
        for bytes in staged {
            let chunk = Message::decode(bytes)?;
            key_bytes += chunk.keys.bytes();
            if !chunk.writers.iter().all(covered) {
                let rule = Rule::ChunkCovered;
                return Err(Error::Malformed { rule });
            }
        }
        self.keys.room_for(key_bytes)?;
        let newcomer = self.newcomer(last, live)?;
        let new = self.news(last);
        self.make_way(last, new, changed)?;
        let mut found = Found::new(self.numbers.len() == 1, changed);
        let forgotten = self.forgotten(last, live);
        let ids = |at: &usize| last.writers[*at].writer;
        let ids: Vec<WriterId> = forgotten.iter().map(ids).collect();
        for bytes in staged {
            let chunk = Message::decode(bytes)?;
            let writers = chunk.writers.iter().enumerate();
            let gone = writers.filter(|(_, entry)| ids.contains(&entry.writer));
            let gone: Vec<usize> = gone.map(|(at, _)| at).collect();
            self.install(&chunk, &gone, &mut found)?;
        }
        self.install(last, &forgotten, &mut found)?;
        let shards = self.conclude(last, &forgotten, found);
        self.greet(last, live, newcomer)?;
        Ok(shards)
    }

    /// Whether the message holds anything that is not held here.
    pub(crate) fn news(&self, message: &Message) -> bool {
        let forgotten = self.forgotten(message, None);
        let writers = message.writers.iter().enumerate();
        let mut known = writers.filter(|(at, _)| !forgotten.contains(at));
        known.any(|(_, entry)| entry.hi > self.clock_of(entry))
    }

    /// Which writers of a message were forgotten here, by their index.
    fn forgotten(&self, message: &Message, live: Option<WriterId>) -> Vec<usize> {
        if self.configuration().is_none() {
            return Vec::new();
        }
        let writers = 0..message.writers.len();
        writers
            .filter(|at| self.standing(message, *at, live, 0) == Standing::Forgotten)
            .collect()
    }

    /// Whether this replica is attached to a member that is dead, or no member any more, for the
    /// sender of a message, who does not know this replica.
    fn is_orphaned_by(&self, message: &Message) -> bool {
        let Some(home) = self.home_number() else {
            return false;
        };
        let id = self.writers[home as usize];
        let dead = message.facts.iter().any(|fact| {
            let writer = message.writers[fact.writer as usize].writer;
            writer == id && matches!(fact.says, Says::Fence(_) | Says::Retired(_))
        });
        let theirs = message.facts.iter().find_map(|fact| match &fact.says {
            Says::Configuration(_, it) => Some(&**it),
            _ => None,
        });
        let members = theirs.max(self.configuration());
        let owner = self.incarnation(&id).map(|it| it.0);
        let member = owner.is_some_and(|owner| members.is_some_and(|it| it.has(&owner)));
        dead || !self.takes_from(&id) || !member
    }

    /// Whether a writer of a message is an incarnation of an owner that is no member here.
    fn is_no_member(&self, message: &Message, at: usize) -> bool {
        message.facts.iter().any(|fact| match &fact.says {
            Says::Announce(it) if fact.writer as usize == at => !self
                .configuration()
                .is_some_and(|members| members.has(&it.owner)),
            _ => false,
        })
    }

    /// What a writer of a message is here.
    fn standing(
        &self,
        message: &Message,
        at: usize,
        live: Option<WriterId>,
        depth: usize,
    ) -> Standing {
        let writer = message.writers[at].writer;
        if self.configuration().is_none() || self.numbers.get(&writer).is_some() {
            return Standing::Known;
        }
        let mut standing = match live == Some(writer) && self.is_member() {
            true => Standing::Known,
            // What the message builds on is missing, and so is said below.
            false if message.writers[at].lo > 0 => Standing::Known,
            // Whoever sent this holds the writer's admission, and knows that it is known here.
            false if message.closed => Standing::Forgotten,
            false => Standing::Stranger,
        };
        for fact in message
            .facts
            .iter()
            .filter(|fact| fact.writer as usize == at)
        {
            match &fact.says {
                Says::Announce(it) => {
                    return match self.gone(&it.owner) >= Some(it.generation) {
                        true => Standing::Forgotten,
                        false => Standing::Known,
                    };
                }
                Says::Admit(admit) => {
                    let by = admit.by.writer as usize;
                    let covered = admit.by.clock <= self.held(&message.writers[by].writer)
                        || depth < ADMISSIONS_MAX
                            && self.standing(message, by, live, depth + 1) == Standing::Forgotten;
                    if covered {
                        return Standing::Forgotten;
                    }
                    standing = Standing::Known;
                }
                // It was not taken in yet.
                Says::Base(_) if standing == Standing::Forgotten => standing = Standing::Stranger,
                _ => {}
            }
        }
        standing
    }

    fn clock_of(&self, entry: &Entry) -> u64 {
        match self.numbers.get(&entry.writer) {
            Some(number) => self.clocks[number as usize],
            None => 0,
        }
    }

    /// Refuses what must not be merged, before anything is changed.
    pub(crate) fn check(&self, message: &Message, live: Option<WriterId>) -> Result<(), Error> {
        let guest = |live: WriterId| self.is_member() && !self.is_counted_member(&live);
        let from_guest = live.is_some_and(guest);
        let mut strangers = 0;
        for (at, entry) in message.writers.iter().enumerate() {
            match self.standing(message, at, live, 0) {
                Standing::Known => {}
                Standing::Forgotten => {
                    if self
                        .taken_over(&entry.writer)
                        .is_some_and(|upto| entry.hi > upto)
                    {
                        return Err(Error::Behind);
                    }
                    continue;
                }
                Standing::Stranger => {
                    let writer = entry.writer;
                    return Err(Error::Stranger { writer });
                }
            }
            let held = self.clock_of(entry);
            if entry.lo > held {
                let missing = Missing {
                    writer: entry.writer,
                    needed: entry.lo,
                    held,
                };
                return Err(Error::NotCovered(Box::new(missing)));
            }
            match self.numbers.get(&entry.writer) {
                Some(OWN) if entry.hi > held => {
                    return Err(Error::OwnClockAhead {
                        heard: entry.hi,
                        own: held,
                    });
                }
                Some(number) => {
                    let retired = self.roster.cards[number as usize].retired;
                    if retired.is_some_and(|retired| entry.hi > retired.upto) {
                        return Err(Error::Retired); // the sender stands on what was given up
                    }
                    if from_guest && entry.hi > held && self.has_buried(number) {
                        return Err(Error::Behind);
                    }
                }
                None if from_guest && self.is_no_member(message, at) => {
                    return Err(Error::Behind); // what it took in there counts for nothing here
                }
                None => strangers += 1,
            }
        }
        for fact in &message.facts {
            let writer = message.writers[fact.writer as usize].writer;
            if let Says::Retired(retired) = &fact.says
                && self.held(&writer) > retired.upto
            {
                return Err(Error::Outdated); // it holds what was given up
            }
            let own = writer == self.writer();
            if own && matches!(fact.says, Says::Fence(_) | Says::Retired(_)) {
                return Err(Error::Retired); // this replica was given up
            }
        }
        let hi = |writer: &WriterId| {
            let at = message.writers.binary_search_by_key(writer, |e| e.writer);
            at.ok().map(|at| message.writers[at].hi)
        };
        if message.complete
            && hi(&self.writer()).is_none()
            && self.is_gone_in(message, &self.writer(), &hi)
        {
            return Err(Error::Retired); // it was given up, and forgotten
        }
        if message.complete && hi(&self.writer()).is_none() && self.is_orphaned_by(message) {
            return Err(Error::Outdated); // nobody there knows of it, or waits for it
        }
        let writers = self.numbers.len() + strangers;
        if writers > WRITERS_MAX {
            return Err(Error::WritersFull { writers });
        }
        self.keys.room_for(message.keys.bytes())
    }

    /// Joins the message's shards without moving the version vector: visible to nobody who reads
    /// only after [`advance`](Replica::advance), which must follow before anything else.
    fn install(
        &mut self,
        message: &Message,
        forgotten: &[usize],
        found: &mut Found<'_>,
    ) -> Result<(), Error> {
        let closed = self.configuration().is_some();
        let mut writers = Vec::with_capacity(message.writers.len());
        for (at, entry) in message.writers.iter().enumerate() {
            if forgotten.contains(&at) {
                writers.push(Known {
                    number: FORGOTTEN,
                    covered: u64::MAX,
                    hint: 0,
                });
                continue;
            }
            let covered = match closed {
                true => self.clock_of(entry),
                false => 0,
            };
            writers.push(Known {
                number: self.number(entry.writer),
                covered,
                hint: 0,
            });
        }
        let mut handles = [Handle(0); PAGE];
        let mut expected = Handle(0);
        let mut sides = message.sides.iter().peekable();
        for (at, columns) in message.pages.iter().enumerate() {
            let (text, ends, base) = message.keys.page_text(at);
            let first_key = (at * PAGE) as u32;
            // Which of the page's keys have shards with more than a row.
            let mut odd = 0u64;
            while let Some(next) = sides.next_if(|s| s.key < first_key + PAGE as u32) {
                odd |= u64::from(next.side.extra.is_some()) << (next.key - first_key);
            }
            let (page_at, first) = place(expected);
            let plain = self.pages.get(page_at).is_none_or(|page| page.odd() == 0);
            if first == 0 && odd == 0 && plain && self.keys.is_run(expected, text, ends, base) {
                self.join_aligned(expected, columns, &mut writers, found);
                expected = Handle(expected.0 + ends.len() as u32);
                continue;
            }
            let keys = message.keys.page(at);
            let count = keys.len();
            for (handle, key) in handles.iter_mut().zip(keys) {
                *handle = self.keys.find_or_insert(key)?;
                expected = Handle(handle.0 + 1);
            }
            let mut lanes: Vec<Lane<'_>> = columns.iter().map(Lane::new).collect();
            for (bit, &handle) in handles[..count].iter().enumerate() {
                let (page_at, slot) = place(handle);
                if odd >> bit & 1 == 1 || self.page_mut(page_at).is_odd(slot) {
                    let key = first_key + bit as u32;
                    self.join_odd(message, key, handle, &mut lanes, bit, &writers, found);
                } else {
                    self.join_scattered(handle, &mut lanes, bit, &mut writers, found);
                }
                if self.page_mut(page_at).rows(slot).next().is_none() {
                    self.forget_unused(handle); // it was collected
                }
            }
        }
        for side in &message.sides {
            self.join_side(message, side, &writers, found);
        }
        Ok(())
    }

    /// Ends what [`install`](Replica::install) began: takes in what is said of writers, moves the
    /// version vector up to the message's `hi`, and tells how much was installed.
    fn conclude(&mut self, message: &Message, forgotten: &[usize], found: Found<'_>) -> usize {
        let Found {
            installed,
            forks,
            mut odd,
            fresh,
            changed,
        } = found;
        let retired = self.take_facts(message, forgotten);
        self.drop_unmoved(&retired);
        self.establish();
        odd.sort_unstable();
        odd.dedup();
        for handle in odd {
            let mut slots = self.slots(handle);
            counter::normalize(&mut slots);
            self.put_slots(handle, slots);
            changed(handle);
        }
        for fork in forks {
            self.report(fork);
        }
        for (at, entry) in message.writers.iter().enumerate() {
            if forgotten.contains(&at) {
                continue;
            }
            let number = self.number(entry.writer) as usize;
            if entry.hi > self.clocks[number] {
                self.clocks[number] = entry.hi;
                self.merged_at[number] = self.clock();
            }
        }
        if fresh {
            self.take_floor(message, forgotten);
        }
        installed
    }

    /// Takes in what is said of writers; who was absorbed, as is new.
    fn take_facts(&mut self, message: &Message, forgotten: &[usize]) -> Vec<u32> {
        let mut retired = Vec::new();
        for fact in &message.facts {
            let mut fact = fact.clone();
            let by = fact.stamp();
            let covered = |at: u32| match forgotten.contains(&(at as usize)) {
                true => u64::MAX,
                false => self.held(&message.writers[at as usize].writer),
            };
            if by.clock <= covered(by.writer) || covered(fact.writer) == u64::MAX {
                continue;
            }
            if let Says::Ack(ack) = &mut fact.says {
                ack.seen.retain(|(at, _)| covered(*at) != u64::MAX);
            }
            let numbers = |at: u32| {
                let number = self.numbers.get(&message.writers[at as usize].writer);
                number.unwrap_or(OWN) // all that are left have one
            };
            fact.renumber(numbers);
            if let Says::Configuration(clock, it) = &fact.says {
                let by = Stamp {
                    writer: fact.writer,
                    clock: *clock,
                };
                self.take_configuration(by, it);
                continue;
            }
            if fact.is_local() {
                continue;
            }
            if let Says::Gone(_, it) = &fact.says {
                let by = Stamp {
                    writer: fact.writer,
                    clock: by.clock,
                };
                self.take_gone(by, it.0, it.1);
                continue;
            }
            let card = &mut self.roster.cards[fact.writer as usize];
            if card.take(&fact.says, &self.writers) && matches!(fact.says, Says::Retired(_)) {
                retired.push(fact.writer);
            }
        }
        retired
    }

    /// Takes over what was collected before the state came here.
    fn take_floor(&mut self, message: &Message, forgotten: &[usize]) {
        self.roster.floor.resize(self.writers.len(), 0);
        for fact in &message.facts {
            if let Says::Floor(clock) = fact.says
                && !forgotten.contains(&(fact.writer as usize))
            {
                let number = self.number(message.writers[fact.writer as usize].writer);
                let floor = &mut self.roster.floor[number as usize];
                *floor = clock.max(*floor);
            }
        }
    }

    /// The later configuration stands; of the same one, the least stamp.
    fn take_configuration(&mut self, by: Stamp, theirs: &Configuration) {
        let rank = |by: Stamp| (self.writers[by.writer as usize], by.clock);
        let newer = self
            .roster
            .configuration
            .as_ref()
            .is_none_or(|(old, ours)| theirs > ours || theirs == ours && rank(by) < rank(*old));
        if newer {
            self.roster.configuration = Some((by, theirs.clone()));
        }
    }

    /// The writer's local number, given to it if it has none.
    pub(super) fn number(&mut self, writer: crate::WriterId) -> u32 {
        if let Some(number) = self.numbers.get(&writer) {
            return number;
        }
        let number = self.assign(writer);
        self.numbers.insert(writer, number);
        number
    }

    /// Joins a page whose keys are the first ones of one page here, in the same order, all plain.
    fn join_aligned(
        &mut self,
        first: Handle,
        columns: &[Column],
        writers: &mut [Known],
        found: &mut Found<'_>,
    ) {
        let page_at = place(first).0;
        let page = self.page_mut(page_at);
        let mut changed = 0;
        for theirs in columns {
            let known = &mut writers[theirs.writer as usize];
            if known.number == FORGOTTEN {
                continue;
            }
            let ours = page.column_mut(known.number, &mut known.hint);
            changed |= join_columns(ours, theirs, first, known.covered, found);
        }
        if changed != 0 {
            self.touch(page_at);
        }
        for slot in bits(changed) {
            (found.changed)(Handle(first.0 + slot));
        }
    }

    /// Joins one plain counter, whose key stands anywhere here.
    fn join_scattered(
        &mut self,
        handle: Handle,
        lanes: &mut [Lane<'_>],
        bit: usize,
        writers: &mut [Known],
        found: &mut Found<'_>,
    ) {
        let (page_at, slot) = place(handle);
        let page = self.page_mut(page_at);
        let mut changed = 0;
        for lane in lanes {
            if let Some(theirs) = lane.next(bit) {
                let known = &mut writers[lane.writer as usize];
                if known.number == FORGOTTEN {
                    continue;
                }
                let column = page.column_mut(known.number, &mut known.hint);
                changed |= join_row(column, handle, slot, theirs, known.covered, found);
            }
        }
        if changed != 0 {
            self.touch(page_at);
            (found.changed)(handle);
        }
    }

    /// Joins the shards of one counter that has more than rows, here or there.
    #[cold]
    #[allow(clippy::too_many_arguments)] // a page's worth of state, passed once a counter
    fn join_odd(
        &mut self,
        message: &Message,
        key: u32,
        handle: Handle,
        lanes: &mut [Lane<'_>],
        bit: usize,
        writers: &[Known],
        found: &mut Found<'_>,
    ) {
        let (page_at, slot) = place(handle);
        let mut slots = self.page_mut(page_at).slots(slot);
        let closed = self.configuration().is_some();
        let mut changed = false;
        for lane in lanes {
            let Some(row) = lane.next(bit) else { continue };
            let Known {
                number, covered, ..
            } = writers[lane.writer as usize];
            let theirs = Slot::new(number, row, message.extra(key, lane.writer));
            match counter::find(&slots, number) {
                _ if number == FORGOTTEN => continue,
                Err(_) if row.clock <= covered => continue,
                Err(at) => slots.insert(at, theirs),
                Ok(at) => {
                    let ours = &mut slots[at];
                    let rank = |slot: &Slot| (slot.row.clock, slot.total(), slot.extra());
                    // Parts of an extra may have been collected, here or there.
                    let same =
                        closed && (row.clock, theirs.total()) == (ours.row.clock, ours.total());
                    if same || rank(&theirs) == rank(ours) || row.clock < ours.row.clock {
                        continue;
                    }
                    if row.clock == ours.row.clock {
                        let totals = [ours.total(), theirs.total()];
                        found.forks.push((handle, number, row.clock, totals));
                    }
                    if rank(&theirs) > rank(ours) {
                        ours.set_shard(row.clock, theirs.total(), theirs.extra());
                    }
                }
            }
            changed = true;
            found.installed += 1;
        }
        if changed {
            self.put_slots(handle, slots);
            found.odd.push(handle);
        }
    }

    /// Joins what a slot has beside its shard. What it speaks of is here, or was collected.
    #[cold]
    fn join_side(
        &mut self,
        message: &Message,
        KeySide { key, side }: &KeySide,
        writers: &[Known],
        found: &mut Found<'_>,
    ) {
        let Known {
            number, covered, ..
        } = writers[side.writer as usize];
        let Some(handle) = self.keys.find(message.keys.get(*key as usize)) else {
            return;
        };
        let (page_at, at) = place(handle);
        let Some(page) = self.pages.get(page_at) else {
            return;
        };
        let mut slots = page.slots(at);
        let Ok(at) = counter::find(&slots, number) else {
            return;
        };
        let fresh = |by: Stamp| by.clock > writers[by.writer as usize].covered;
        let here = |by: Stamp| Stamp {
            writer: writers[by.writer as usize].number,
            ..by
        };
        // Of equal clocks, which see the same, any fixed one will do.
        let rank = |by: Stamp| (self.writers[by.writer as usize], by.clock);
        let slot = &mut slots[at];
        let before = slot.side.clone();
        if let Some(mut cut) = side.cut.filter(|cut| fresh(cut.by)) {
            cut.by = here(cut.by);
            let longer = |old: &crate::slot::Cut| {
                (cut.clock, rank(cut.by), cut.total) > (old.clock, rank(old.by), old.total)
            };
            if slot.side.cut.as_ref().is_none_or(longer) {
                slot.side.cut = Some(cut);
            }
        }
        if let Some(lift) = side.lift.as_ref().filter(|lift| fresh(lift.by)) {
            let mut lift = lift.clone();
            lift.by = here(lift.by);
            let longer =
                |old: &crate::slot::Lift| (lift.clock, rank(lift.by)) > (old.clock, rank(old.by));
            if slot.side.lift.as_deref().is_none_or(longer) {
                slot.side.lift = Some(lift);
            }
        }
        if let Some(moved) = side.moved.as_ref().filter(|moved| fresh(moved.to)) {
            let mut moved = moved.clone();
            moved.to = here(moved.to);
            slot.side.moved = Some(moved);
        }
        if side.fold.as_ref().is_some_and(|fold| fold.clock > covered) {
            slot.side.fold.clone_from(&side.fold);
        }
        if slot.side != before {
            self.put_slots(handle, slots);
            found.installed += 1;
            found.odd.push(handle);
        }
    }

    #[cold]
    fn report(&mut self, (handle, writer, clock, totals): Fork) {
        self.fault_count += 1;
        if self.faults.len() >= FAULTS_KEPT_MAX {
            return;
        }
        let writer = self.writers[writer as usize];
        let [ours, theirs] = totals.map(|total| Shard {
            writer,
            clock,
            total,
        });
        if let Some(key) = self.keys.get(handle) {
            let key = key.into();
            self.faults.push(Fault { key, ours, theirs });
        }
    }
}

/// A column of a message on its way into pages of other counters.
struct Lane<'a> {
    present: u64,
    rows: core::slice::Iter<'a, Row>,
    /// The writer's index in the message.
    writer: u32,
}

impl<'a> Lane<'a> {
    fn new(column: &'a Column) -> Lane<'a> {
        Lane {
            present: column.present,
            rows: column.rows.iter(),
            writer: column.writer,
        }
    }

    /// The row of the page's next key, if there is one. To be called for each key in order.
    #[inline]
    fn next(&mut self, bit: usize) -> Option<Row> {
        match self.present >> bit & 1 {
            1 => self.rows.next().copied(),
            _ => None,
        }
    }
}

/// Joins one row of one counter; 1 if that changed the counter, else 0.
#[inline]
fn join_row(
    column: &mut Column,
    handle: Handle,
    slot: u32,
    theirs: Row,
    covered: u64,
    found: &mut Found<'_>,
) -> u64 {
    match column.join(slot, theirs, covered) {
        Joined::Known => return 0,
        Joined::Installed => found.installed += 1,
        Joined::Forked { ours } => {
            let totals = [ours, theirs].map(|row| i128::from(row.total));
            let fork = (handle, column.writer, theirs.clock, totals);
            found.forks.push(fork);
        }
    }
    1
}

/// Joins two columns of the same 64 counters in one pass; which counters that changed.
fn join_columns(
    ours: &mut Column,
    theirs: &Column,
    first: Handle,
    covered: u64,
    found: &mut Found<'_>,
) -> u64 {
    let count = ours.rows.len();
    if ours.present != theirs.present || theirs.rows.len() != count {
        return join_unlike(ours, theirs, first, covered, found);
    }
    let mut newer = 0;
    let mut bit = 1u64;
    let mut forked = 0;
    for (row, new) in ours.rows.iter_mut().zip(&theirs.rows) {
        forked |= u64::from(row.forks(*new));
        // Leaves a fork as it is: what comes below needs both sides of it.
        newer |= bit & row.take_newer(*new);
        bit = bit.rotate_left(1);
    }
    ours.newest = ours.newest.max(theirs.newest);
    found.installed += newer.count_ones() as usize;
    let changed = match forked {
        0 => 0,
        _ => join_unlike(ours, theirs, first, covered, found),
    };
    if ours.present == u64::MAX {
        return changed | newer;
    }
    let of_rank = |(rank, slot)| (newer >> rank & 1) << slot;
    bits(ours.present)
        .enumerate()
        .map(of_rank)
        .fold(changed, |a, b| a | b)
}

/// Joins two columns of the same 64 counters, row by row.
fn join_unlike(
    ours: &mut Column,
    theirs: &Column,
    first: Handle,
    covered: u64,
    found: &mut Found<'_>,
) -> u64 {
    let mut changed = 0;
    for (slot, row) in theirs.iter() {
        let handle = Handle(first.0 + slot);
        changed |= join_row(ours, handle, slot, *row, covered, found) << slot;
    }
    changed
}
