//! Admission rules: which messages a replica accepts, and from whom.
//!
//! Collection makes these rules necessary: a record that is absent here may be new, or collected. Each rule
//! has an [error](crate::Error) of its own, and a refused message changes nothing.
//!
//! | sender, or writer of the message | answer |
//! |---|---|
//! | builds on something that is missing here | `not_covered`: the receiver pulls that first |
//! | a writer that no member has admitted | `stranger` |
//! | a writer that left, was fenced or retired, beyond what counts of it | `gone`, `behind` |
//! | a start that had not seen what may have been collected | `behind` |
//! | a start that may be such a one, and the message does not tell | `unsure`: a complete message is needed |
//! | has collected what this replica had not seen at its own begin | `outdated`: this replica rejoins |
//! | a writer that was forgotten here, at a clock that counted | accepted; its part is covered, and skipped |
//!
//! [`Standing`] is the judgement of one writer of a message.

use super::Membership;
use crate::error::{Error, detail};
use crate::layers::{GUESTS, GuestPart, State};
use crate::membership::room::Bringer;
use crate::message::Message;
use crate::message::records::{Card, Fact, HEARD, Owner, Says, of};
use crate::state::delta::Entry;
use crate::state::page::OWN;
use crate::state::slot::Stamp;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// Longest chain of admissions that is followed.
pub(crate) const ADMISSIONS_MAX: usize = 8;

/// The places of a message's writers that were known here, and everything of which is covered.
pub(crate) type Forgotten = GuestPart<Vec<usize>>;

/// What a writer of a message is here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is known, or new.
    Known,
    /// It was known, and everything of it is covered.
    Forgotten,
    /// Nobody has taken it in.
    Stranger,
}

/// The entries of a chunk whose writers are forgotten here, as `forgotten` says of the entries of the last
/// chunk of the same transfer.
#[inline(always)]
pub(crate) fn forgotten_in(chunk: &Message, last: &Message, forgotten: &Forgotten) -> Forgotten {
    let mut gone = Forgotten::default();
    if GUESTS {
        let last = &last.delta.writers;
        let is_gone = |writer: &WriterId| {
            let at = last.binary_search_by_key(writer, |entry| entry.writer);
            at.is_ok_and(|at| forgotten.contains(&at))
        };
        let writers = chunk.delta.writers.iter().enumerate();
        let writers = writers.filter(|(_, entry)| is_gone(&entry.writer));
        *gone = writers.map(|(at, _)| at).collect();
    }
    gone
}

/// What a writer of a message had seen at its first transaction, by the message's numbers.
fn base_in(message: &Message, at: u32) -> Option<&[(u32, u64)]> {
    message.facts_of(at).find_map(|fact| match &fact.says {
        Says::Base(seen, _) => Some(&seen[..]),
        _ => None,
    })
}

impl Membership {
    /// Whether the message holds anything that is not held here.
    pub(crate) fn news(&self, state: &State, message: &Message) -> bool {
        let forgotten = self.forgotten(state, message, None);
        let mut writers = message.delta.writers.iter().enumerate();
        writers.any(|(at, entry)| {
            !(GUESTS && forgotten.contains(&at)) && entry.hi > state.clock_of(entry)
        })
    }

    /// Whether a message is to take the place of what is held here: nobody has waited for this
    /// replica, so things may have been collected that it still holds.
    ///
    /// # Errors
    /// [`Error::Outdated`] if that would lose transactions of its own.
    pub(crate) fn is_replaced_by(&self, state: &State, message: &Message) -> Result<bool, Error> {
        let whole =
            message.is_complete() && message.delta.writers.iter().all(|entry| entry.lo == 0);
        let alone = state.numbers.len() == 1;
        if !whole || alone || self.is_counted() {
            return Ok(false);
        }
        let left = self.table.cards[OWN as usize].bye.is_some();
        match state.clock() == 0 || left {
            true => Ok(true),
            false => Err(Error::Outdated),
        }
    }

    /// Takes the sender in if it is new, and notes what it has seen.
    pub(crate) fn greet(
        &mut self,
        state: &mut State,
        message: &Message,
        live: Option<WriterId>,
        newcomer: Option<WriterId>,
    ) -> Result<(), Error> {
        if !GUESTS {
            return Ok(());
        }
        if let Some(writer) = newcomer {
            self.take_in(state, writer, true)?;
        }
        if let Some(writer) = live {
            self.vouch(state, message, writer);
            if self.is_member() {
                self.heard(state, &writer, message);
            }
        }
        Ok(())
    }

    /// Whether the sender of a complete message, which does not name a writer, has forgotten it.
    pub(crate) fn is_gone_from(&self, state: &State, message: &Message, writer: &WriterId) -> bool {
        let hi = |writer: &WriterId| message.hi(writer);
        hi(writer).is_none() && self.is_gone_in(state, message, writer, &hi)
    }

    /// Whether the sender of a complete message has forgotten a writer that was not absorbed as far as
    /// is known here: it would not have, had it waited for this replica.
    pub(crate) fn is_passed_over_in(&self, state: &State, message: &Message) -> bool {
        let cards = self.table.cards.iter().zip(&state.writers).skip(1);
        let mut open = cards.filter(|(card, _)| card.retired.is_none());
        open.any(|(_, writer)| self.is_gone_from(state, message, writer))
    }

    /// Whether the sender of a complete message, which does not name a writer, has forgotten it.
    pub(crate) fn is_gone_in(
        &self,
        state: &State,
        message: &Message,
        writer: &WriterId,
        hi: &dyn Fn(&WriterId) -> Option<u64>,
    ) -> bool {
        let gone = |owner: Owner, generation: u64| {
            message.facts().iter().any(|fact| match &fact.says {
                Says::Gone(_, gone) => gone.0 == owner && gone.1 >= generation,
                _ => false,
            })
        };
        // Two writers may have taken in each other, so the way back may have no end.
        let mut at = *writer;
        for _ in 0..ADMISSIONS_MAX {
            if let Some((owner, generation)) = self.incarnation(state, &at)
                && gone(owner, generation)
            {
                return true;
            }
            let Some((by, clock)) = self.introduced_by(state, &at) else {
                return false;
            };
            if let Some(hi) = hi(&by) {
                return hi >= clock;
            }
            at = by;
        }
        false
    }

    /// The sender of a message, if it is to be taken in along with it.
    pub(crate) fn newcomer(
        &self,
        state: &State,
        message: &Message,
        live: Option<WriterId>,
    ) -> Result<Option<WriterId>, Error> {
        let Some(live) = live.filter(|_| self.configuration().is_some()) else {
            return Ok(None);
        };
        let gone = Error::Gone {
            writer: detail(live),
        };
        if !self.takes_from(state, &live) {
            return Err(gone);
        }
        let entry = |writer: &WriterId| {
            let at = message
                .delta
                .writers
                .binary_search_by_key(writer, |e| e.writer);
            at.ok().map(|at| (at as u32, message.delta.writers[at].hi))
        };
        let Some((at, hi)) = entry(&live) else {
            return Ok(None);
        };
        let number = state.numbers.get(&live);
        let brought = |it: &Says| matches!(it, Says::Admit(_) | Says::Announce(_));
        let known = number.is_some() || message.tells(at, brought);
        if self.standing(state, message, at as usize, Some(live), 0) == Standing::Forgotten {
            return Err(gone);
        }
        let base = base_in(message, at);
        // Who took it in may not have heard of it, nor know what it had seen.
        let unheard = number.is_none_or(|it| state.clocks[it as usize] == 0);
        // An incarnation of a member, or one that a member took in.
        let early = unheard && base.is_some();
        let early = early && !message.tells(at, |it| matches!(it, Says::Announce(_)));
        if hi == 0 || known && !early {
            return Ok(None);
        }
        // Nobody takes in who says that others ended it.
        if message.says_ended(&live) {
            return Err(gone);
        }
        let seen = |writer: &WriterId| {
            let entry = entry(writer);
            entry.map_or(0, |(at, _)| of(base.unwrap_or_default(), at))
        };
        if !self.is_member() {
            return Err(Error::Stranger {
                writer: detail(live),
            });
        }
        self.may_admit(state, &live, base.is_some_and(<[_]>::is_empty), &seen)?;
        self.next_clock(state)?;
        Ok(Some(live))
    }

    /// Whether a message's sender is unknown here, and no incarnation of a member.
    pub(crate) fn is_unknown(&self, state: &State, message: &Message, live: &WriterId) -> bool {
        let announces = |fact: &Fact| {
            let writer = &message.delta.writers[fact.writer as usize].writer;
            writer == live && matches!(fact.says, Says::Announce(_))
        };
        state.numbers.get(live).is_none() && !message.facts().iter().any(announces)
    }

    /// Whether this replica is a member, and a message's sender is no incarnation of one: neither as far
    /// as is known here, nor as the message says. A start of another member's brings what it had before
    /// it was heard of here, and nobody speaks for it but itself.
    pub(crate) fn is_from_guest(&self, state: &State, message: &Message, live: &WriterId) -> bool {
        self.is_member() && !self.is_from_member(state, message, live)
    }

    /// Whether a message's sender is a member's incarnation, as far as is known here or as the message
    /// says.
    pub(crate) fn is_from_member(&self, state: &State, message: &Message, live: &WriterId) -> bool {
        let members = self.configuration();
        let announces = message.facts().iter().any(|fact| match &fact.says {
            Says::Announce(it) => {
                let writer = &message.delta.writers[fact.writer as usize].writer;
                writer == live && members.is_some_and(|members| members.has(&it.owner))
            }
            _ => false,
        });
        announces || self.is_counted_member(state, live)
    }

    /// Which writers of a message were forgotten here, by their index.
    pub(crate) fn forgotten(
        &self,
        state: &State,
        message: &Message,
        live: Option<WriterId>,
    ) -> Forgotten {
        let mut forgotten = Forgotten::default();
        if self.configuration().is_some() {
            let writers = 0..message.delta.writers.len();
            let is_one =
                |at: &usize| self.standing(state, message, *at, live, 0) == Standing::Forgotten;
            *forgotten = writers.filter(is_one).collect();
        }
        forgotten
    }

    /// Whether this replica is attached to a member that is dead, or no member any more, for the
    /// sender of a message, who does not know this replica.
    pub(crate) fn is_orphaned_by(&self, state: &State, message: &Message) -> bool {
        let Some(home) = self.home_number() else {
            return false;
        };
        let id = state.writers[home as usize];
        let dead = message.facts().iter().any(|fact| {
            let writer = message.delta.writers[fact.writer as usize].writer;
            writer == id && matches!(fact.says, Says::Fence(_) | Says::Retired(_))
        });
        let theirs = message.facts().iter().find_map(|fact| match &fact.says {
            Says::Configuration(_, it) => Some(&**it),
            _ => None,
        });
        let members = theirs.max(self.configuration());
        let owner = self.incarnation(state, &id).map(|it| it.0);
        let member = owner.is_some_and(|owner| members.is_some_and(|it| it.has(&owner)));
        dead || !self.takes_from(state, &id) || !member
    }

    /// Whether this member's owner, or else the one given, is no member where a message comes from.
    pub(crate) fn is_dropped_in(&self, message: &Message, owner: Option<Owner>) -> bool {
        let owner = self.owner_of(OWN).or(owner);
        message.facts().iter().any(|fact| match &fact.says {
            Says::Configuration(_, it) => owner.is_none_or(|owner| !it.has(&owner)),
            _ => false,
        })
    }

    /// Whether a whole state is of a configuration that was replaced, as is known here. Who began again
    /// from it would forget what it agreed to.
    pub(crate) fn knows_newer_members(&self, state: &Message) -> bool {
        let numbers = state.facts().iter().filter_map(|fact| match &fact.says {
            Says::Configuration(_, it) => Some((it.era, it.number)),
            _ => None,
        });
        self.configuration().map(|it| (it.era, it.number)) > numbers.max()
    }

    /// Whether a writer of a message is an incarnation of an owner that is no member here.
    pub(crate) fn is_no_member(&self, message: &Message, at: usize) -> bool {
        message.facts().iter().any(|fact| match &fact.says {
            Says::Announce(it) if fact.writer as usize == at => !self
                .configuration()
                .is_some_and(|members| members.has(&it.owner)),
            _ => false,
        })
    }

    /// What a writer of a message is here.
    pub(crate) fn standing(
        &self,
        state: &State,
        message: &Message,
        at: usize,
        live: Option<WriterId>,
        depth: usize,
    ) -> Standing {
        let writer = message.delta.writers[at].writer;
        if self.configuration().is_none() || state.numbers.get(&writer).is_some() {
            return Standing::Known;
        }
        // Whoever is to be taken in now says what it had seen. One that knows who took it in, which is
        // held here, was forgotten.
        let base = message.tells(at as u32, |says| matches!(says, Says::Base(_, false)));
        let held = |upto| message.delta.writers[at].hi <= upto;
        let mut standing = match base && live == Some(writer) && self.is_member() {
            true => Standing::Known,
            // All of it is held, as its heir's.
            false if self.taken_over(&writer).is_some_and(held) => Standing::Forgotten,
            // What the message builds on is missing, and so is said below.
            false if message.delta.writers[at].lo > 0 => Standing::Known,
            // Whoever sent this holds the writer's admission, and knows that it is known here.
            false => Standing::Forgotten,
        };
        for fact in message
            .facts()
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
                    let covered = admit.by.clock <= state.held(&message.delta.writers[by].writer)
                        || depth < ADMISSIONS_MAX
                            && self.standing(state, message, by, live, depth + 1)
                                == Standing::Forgotten;
                    if covered {
                        return Standing::Forgotten;
                    }
                    standing = Standing::Known;
                }
                // It was not taken in yet.
                Says::Base(_, false) if standing == Standing::Forgotten => {
                    standing = Standing::Stranger
                }
                _ => {}
            }
        }
        standing
    }

    /// Refuses what must not be merged, before anything is changed.
    pub(crate) fn check(
        &self,
        state: &State,
        message: &Message,
        live: Option<WriterId>,
    ) -> Result<(), Error> {
        let from_guest =
            GUESTS && live.is_some_and(|live| self.is_from_guest(state, message, &live));
        let tells = |entry: &Entry| entry.hi > state.clock_of(entry);
        let tells = || match live {
            Some(_) => message.delta.writers.iter().any(tells),
            None => self.news(state, message),
        };
        if self.configuration().is_some() && !message.is_closed() && tells() {
            // The sender keeps no journal yet: first it has to learn that there are members. Until
            // then it does not say either what would tell a newcomer from one that was forgotten.
            let writer = live.unwrap_or(message.delta.writers[0].writer);
            return Err(Error::Stranger {
                writer: detail(writer),
            });
        }
        let from_unknown =
            GUESTS && live.is_some_and(|live| self.is_unknown(state, message, &live));
        if GUESTS && self.table.cards[OWN as usize].bye.is_some() {
            return Err(Error::Retired); // nobody waits for it any more
        }
        let mut strangers = 0;
        for (at, entry) in message.delta.writers.iter().enumerate() {
            match self.standing(state, message, at, live, 0) {
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
                    return Err(Error::Stranger {
                        writer: detail(writer),
                    });
                }
            }
            let held = state.clock_of(entry);
            if entry.lo > held {
                return Err(Error::not_covered(entry.writer, entry.lo, held));
            }
            match state.numbers.get(&entry.writer) {
                Some(OWN) if entry.hi > held => {
                    return Err(Error::OwnClockAhead {
                        heard: detail(entry.hi),
                        own: detail(held),
                    });
                }
                Some(number) if GUESTS => {
                    let Card { retired, fence, .. } = self.table.cards[number as usize];
                    if held == 0 && entry.hi > 0 {
                        self.check_base(state, message, at as u32)?;
                        let first = self.check_first(state, message, at as u32, live);
                        // Nobody hears one any more that was declared dead: it is not to be waited for.
                        first.map_err(|error| match fence {
                            Some(_) => Error::Behind,
                            None => error,
                        })?;
                    }
                    if retired.is_some_and(|retired| entry.hi > retired.upto) {
                        return Err(Error::Behind); // the sender stands on what was given up
                    }
                    // Nobody waited for the sender before the last of a dead writer was agreed on.
                    let unheard = from_unknown && fence.is_some();
                    if entry.hi > held && (unheard || from_guest && self.has_buried(number)) {
                        return Err(Error::Behind);
                    }
                }
                Some(_) => {}
                None if from_guest && self.is_no_member(message, at) => {
                    return Err(Error::Behind); // what it took in there counts for nothing here
                }
                None => {
                    if GUESTS {
                        self.check_base(state, message, at as u32)?;
                    }
                    strangers += 1;
                }
            }
        }
        if let Some(live) = live.filter(|_| GUESTS) {
            self.check_unsure(state, message, &live)?;
        }
        for fact in message.facts() {
            let writer = message.delta.writers[fact.writer as usize].writer;
            if let Says::Retired(retired) = &fact.says
                && state.held(&writer) > retired.upto
            {
                return Err(Error::Outdated); // it holds what was given up
            }
            let own = writer == state.writer();
            if own && matches!(fact.says, Says::Fence(_) | Says::Retired(_)) {
                return Err(Error::Retired); // this replica was given up
            }
        }
        let own = state.writer();
        let named = message
            .delta
            .writers
            .iter()
            .any(|entry| entry.writer == own);
        if message.is_complete() && self.is_gone_from(state, message, &own) {
            return Err(Error::Retired); // it was given up, and forgotten
        }
        if message.is_complete() && !named && self.is_orphaned_by(state, message) {
            return Err(Error::Outdated); // nobody there knows of it, or waits for it
        }
        if message.is_complete() && self.began_before(state, message) {
            return Err(Error::Outdated); // and nobody has taken it in
        }
        let held = || self.members_part(|number| state.clocks[number as usize]);
        if message.is_complete() && self.is_replaced_by(state, message) != Ok(true) {
            if self.is_passed_over_in(state, message) {
                return Err(Error::Outdated); // nobody waited for it
            }
            if self.is_counted() && !self.has_seen_floor(state, message, &held()) {
                return Err(Error::Outdated); // it holds what was collected there
            }
        }
        self.room_for_writers(state, strangers, Bringer::Peer)?;
        state.room_for_keys(&message.delta, false)
    }

    /// Refuses a member's incarnation that began from too old a state: it may cancel what was
    /// collected meanwhile.
    pub(crate) fn check_base(
        &self,
        state: &State,
        message: &Message,
        at: u32,
    ) -> Result<(), Error> {
        if !message.is_closed() {
            return Ok(());
        }
        let announces = message.tells(at, |it| matches!(it, Says::Announce(_)));
        let Some(base) = base_in(message, at).filter(|_| announces) else {
            return Ok(());
        };
        let seen = |number: u32| {
            let writer = &state.writers[number as usize];
            let at = message
                .delta
                .writers
                .binary_search_by_key(writer, |e| e.writer);
            at.map_or(0, |at| of(base, at as u32))
        };
        for (writer, clock) in self.horizons() {
            if self.covers(seen, Stamp { writer, clock }) {
                continue;
            }
            if !message.is_complete() {
                let writer = message.delta.writers[at as usize].writer;
                return Err(Error::Unsure {
                    writer: detail(writer),
                });
            }
            if !self.is_gone_from(state, message, &state.writers[writer as usize]) {
                return Err(Error::Behind);
            }
        }
        Ok(())
    }

    /// Refuses, for now, what a guest passes on of another one whom no member is known to have heard: what
    /// that one had seen when it began is not told.
    pub(crate) fn check_first(
        &self,
        state: &State,
        message: &Message,
        at: u32,
        live: Option<WriterId>,
    ) -> Result<(), Error> {
        let entry = &message.delta.writers[at as usize];
        let passes_on =
            |live: WriterId| live != entry.writer && self.is_from_guest(state, message, &live);
        let heard = message.tells(at, |it| match it {
            Says::Admit(admit) => admit.turn >= HEARD,
            says => matches!(says, Says::Announce(_)),
        });
        if !live.is_some_and(passes_on) || heard {
            return Ok(());
        }
        Err(Error::not_covered(entry.writer, entry.hi, 0))
    }

    /// Refuses what a sender says who may have collected what an incarnation had not seen that was
    /// taken in here, and whose place is not certain.
    pub(crate) fn check_unsure(
        &self,
        state: &State,
        message: &Message,
        live: &WriterId,
    ) -> Result<(), Error> {
        for number in self.starts() {
            let (card, writer) = (
                &self.table.cards[number as usize],
                &state.writers[number as usize],
            );
            if !card.is_unsure() {
                continue;
            }
            let knows = message.hi(writer) > Some(0);
            let vouched = |it: &(WriterId, u32)| it.0 == *live && it.1 == number;
            if writer == live || knows || self.table.vouched.iter().any(vouched) {
                continue;
            }
            if message.is_closed() && !message.is_complete() {
                return Err(Error::Unsure {
                    writer: detail(*writer),
                });
            }
            if !self.has_seen_floor(state, message, card.base.as_deref().unwrap_or_default()) {
                return Err(Error::Outdated);
            }
        }
        Ok(())
    }

    /// Whether this replica, which nobody has judged yet, made its first transaction without having seen
    /// what may have been collected where a complete message comes from.
    pub(crate) fn began_before(&self, state: &State, message: &Message) -> bool {
        let card = &self.table.cards[OWN as usize];
        let base = card.base.as_deref().filter(|base| !base.is_empty());
        let judged = card.announce.is_some() || self.is_counted();
        !judged && base.is_some_and(|base| !self.has_seen_floor(state, message, base))
    }

    /// Whether a writer that had seen so much at its first transaction had seen all that may have been
    /// collected where a message comes from.
    pub(crate) fn has_seen_floor(
        &self,
        state: &State,
        message: &Message,
        base: &[(u32, u64)],
    ) -> bool {
        message.facts().iter().all(|fact| {
            let Says::Floor(clock) = fact.says else {
                return true;
            };
            let at = fact.writer as usize;
            match state.numbers.get(&message.delta.writers[at].writer) {
                Some(writer) => self.covers(|number| of(base, number), Stamp { writer, clock }),
                None => self.standing(state, message, at, None, 0) == Standing::Forgotten,
            }
        })
    }
}
