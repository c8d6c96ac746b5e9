//! Requests for numbers of a sequence. A member that runs short of numbers requests more from the member that
//! gives them. It uses a gift once most members have stored it.
//!
//! One member gives the numbers of a sequence: the one whose writer has the rest. It gives by a transaction
//! of its own, which arrives like any other. The member that gets a range asks the members whether they have
//! it, as for a write at the level `quorum`. It uses the range once they do.
//!
//! The member that gets the rest then also reads at the level `quorum`. Two members may begin sequences of
//! one name at the same time. After this read, at least one of them has received the other's transaction
//! before it gives any number.
//!
//! Before a watched number, ranges get shorter. The giving member keeps the watched number back until all
//! numbers below it are handed out. Members give unneeded numbers back, and it passes them on. A member that
//! can't be reached delays the watched number by at most [`PATIENCE_MS`].

use super::recent::Recent;
use super::{ASK_AGAIN_MS, ASK_AGAIN_MS_MAX, RequestId, UNWAITED_MS};
use crate::ledger::RightKind;
use crate::quota::sequence::{ReceivedPart, Watching};
use crate::replica::Replica;
use crate::sync::{Level, Link, Millis, Question, Session, SyncMachine};
use crate::wire::{Body, DEALS, Digests, Draw};
use crate::writer_id::WriterId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// A requesting member gets the missing numbers and this multiple of its recent use.
const AHEAD: u64 = 4;
/// Time in milliseconds until a member checks again whether there are two rests.
const REST_AGAIN_MS: Millis = 1_000;
/// Maximum time in milliseconds that a watched number is withheld, from the first request that could get it.
const PATIENCE_MS: Millis = 1_000;
/// Time in milliseconds until a member looks again for a link to the giving member.
const UNREACHED_AGAIN_MS: Millis = 50;
/// Time in milliseconds until the next request while a watched number is withheld.
const WATCHED_AGAIN_MS: Millis = 100;
/// Before a watched number, a member keeps its recent use divided by this: about 0.25 to 0.5 s of use.
const KEPT_SHARE: u64 = 8;
/// A member that handed out no number for this time, in milliseconds, keeps none.
const IDLE_MS: Millis = 300;
/// Time in milliseconds for which numbers are not given back after they arrived for a rejected caller.
const KEPT_MS: Millis = 1_000;
/// Maximum number of remembered gifts that may not have arrived yet. Beyond it, all are forgotten.
const GIVEN_MAX: usize = 4_096;
/// Maximum number of sequences that a member serves later because it could not give at once.
const ASKED_FOR_MAX: usize = 1_024;

/// Requests for numbers here, and gifts to others.
#[derive(Clone, Default)]
pub(super) struct Sequences {
    open: Vec<Open>,
    ids: u32,
    /// The time of the next request to the giving member, and how many were made.
    rounds: BTreeMap<String, (Millis, u32)>,
    proofs: Vec<Proof>,
    /// Sequences of which other members requested numbers that this member may not give yet, and the time
    /// until which it tries.
    asked_for: BTreeMap<String, Millis>,
    recent: Recent,
    /// When a number of a sequence was handed out last.
    drawn: BTreeMap<String, Millis>,
    /// The own writer that made the gifts in `given`.
    by: Option<WriterId>,
    /// The own clock of the last gift to a writer, by writer and sequence.
    given: BTreeMap<(WriterId, String), u64>,
    /// The numbers that are withheld.
    withheld: BTreeMap<String, Withheld>,
    /// When this member gives back numbers that it keeps before a watched one.
    idle_at: Option<Millis>,
    /// The next look, if no event comes earlier.
    soon: Option<Millis>,
}

/// A number that is not given yet, because other members have numbers that come before it.
#[derive(Clone, Copy)]
struct Withheld {
    number: u64,
    until: Millis,
    /// Whether `until` has passed.
    passed: bool,
}

/// The reason for a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// A caller waits for them.
    Waited,
    /// A caller that does not wait was rejected for lack of them.
    Lacked,
    /// They may be needed soon.
    Ahead,
}

#[derive(Clone)]
struct Open {
    id: RequestId,
    name: String,
    /// 0 once the numbers of a `Lacked` request are here.
    count: u64,
    until: Millis,
    why: Why,
}

/// A gift to this writer. The member asks whether most members have stored it.
#[derive(Clone)]
struct Proof {
    name: String,
    given: ReceivedPart,
    /// None after it had no result, until `again`.
    question: Option<Question>,
    /// Whether the question is the read, which comes after the write.
    reads: bool,
    again: Millis,
}

impl Sequences {
    pub(super) fn due(&self) -> Option<Millis> {
        let open = self.open.iter().map(|it| it.until);
        let rounds = self.rounds.values().map(|it| it.0);
        let again = self.proofs.iter().filter(|it| it.question.is_none());
        let again = again.map(|it| it.again);
        let withheld = self.withheld.values().filter(|it| !it.passed);
        let withheld = withheld.map(|it| it.until);
        let others = open.chain(rounds).chain(again).chain(withheld);
        others.chain(self.idle_at).chain(self.soon).min()
    }

    /// How many numbers are requested: for callers, and ahead of use.
    fn wants(&self, name: &str) -> [u64; 2] {
        let mut sums = [0u64; 2];
        for open in self.open.iter().filter(|it| it.name == name) {
            let sum = &mut sums[usize::from(open.why == Why::Ahead)];
            *sum = sum.saturating_add(open.count);
        }
        sums
    }

    /// Whether a caller requests numbers, or did so a moment ago.
    fn is_asked(&self, name: &str) -> bool {
        let mut open = self.open.iter();
        open.any(|it| it.name == name && it.why != Why::Ahead)
    }

    fn note_given(&mut self, by: WriterId, to: WriterId, name: String, clock: u64) {
        if self.by != Some(by) || self.given.len() >= GIVEN_MAX {
            self.given.clear();
            self.by = Some(by);
        }
        self.given.insert((to, name), clock);
    }
}

impl SyncMachine {
    /// Requests numbers of a sequence for a caller that waits until `until`.
    ///
    /// The next [`Input::Tick`](crate::sync::Input), which is due at once, sends the request to the member
    /// that gives them. Further ticks repeat it until `count` numbers are
    /// [here](crate::QuotaRef::numbers_here), or until `until`. The caller tries to draw a number when there
    /// is one. Then it [ends](SyncMachine::end_numbers) the request.
    pub fn request_numbers(
        &mut self,
        now: Millis,
        name: &str,
        count: u64,
        until: Millis,
    ) -> RequestId {
        self.open_draws(now, name, count, until, Why::Waited)
    }

    /// Requests numbers for a caller that was rejected and does not wait. The request lasts for a few
    /// seconds, so that a retry finds the numbers here.
    pub fn lack_numbers(&mut self, now: Millis, name: &str, count: u64) {
        self.want_unwaited(now, name, count, Why::Lacked);
    }

    fn want_unwaited(&mut self, now: Millis, name: &str, count: u64, why: Why) {
        let until = now + UNWAITED_MS;
        let mut unwaited = self.wants.sequences.open.iter_mut();
        match unwaited.find(|it| it.why == why && it.name == name) {
            Some(same) => {
                (same.until, same.count) = (until, same.count.max(count));
                self.wants.sequences.soon = Some(now);
            }
            None => _ = self.open_draws(now, name, count, until, why),
        }
    }

    fn open_draws(
        &mut self,
        now: Millis,
        name: &str,
        count: u64,
        until: Millis,
        why: Why,
    ) -> RequestId {
        let numbers = &mut self.wants.sequences;
        let id = RequestId(numbers.ids);
        numbers.ids = numbers.ids.wrapping_add(1);
        numbers.open.push(Open {
            id,
            name: name.into(),
            count,
            until,
            why,
        });
        numbers.soon = Some(now);
        id
    }

    /// Ends a request for numbers.
    pub fn end_numbers(&mut self, now: Millis, request: RequestId) {
        self.wants.sequences.open.retain(|it| it.id != request);
        self.wants.sequences.soon = Some(now);
    }

    /// Requests missing numbers, checks which gifts may be used, and records which numbers were handed out.
    pub(super) fn look_at_sequences(&mut self, now: Millis, replica: &mut Replica) {
        for (name, count) in replica.quota_mut().take_numbers_used() {
            let numbers = &mut self.wants.sequences;
            numbers.recent.note(now, &name, RightKind::Rights, count);
            numbers.drawn.insert(name.clone(), now);
            let recent = self.recent_numbers(now, &name);
            if replica.quota().numbers_here(&name) + replica.quota().numbers_coming(&name) < recent
            {
                self.want_unwaited(now, &name, recent, Why::Ahead);
            }
        }
        let numbers = &mut self.wants.sequences;
        numbers.soon = None;
        numbers.open.retain(|it| it.until > now);
        numbers.asked_for.retain(|_, until| *until > now);
        for withheld in numbers.withheld.values_mut() {
            withheld.passed |= withheld.until <= now;
        }
        // A requester that has not repeated its request by now is gone.
        let is_asked_for = |it: &Withheld| it.until + UNWAITED_MS > now;
        numbers.withheld.retain(|_, it| is_asked_for(it));
        let mut names: BTreeSet<String> = numbers.asked_for.keys().cloned().collect();
        names.extend(numbers.open.iter().map(|it| it.name.clone()));
        names.extend(numbers.proofs.iter().map(|it| it.name.clone()));
        numbers.rounds.retain(|name, _| names.contains(name));
        for name in names {
            self.look_at_sequence(now, replica, &name);
        }
        self.wants.sequences.idle_at = None;
        self.wants
            .sequences
            .drawn
            .retain(|_, at| *at + IDLE_MS > now);
        for name in replica.quota().watched_sequences() {
            self.return_numbers(now, replica, &name);
        }
    }

    /// Gives back numbers that no caller requests here and that come before a watched one.
    fn return_numbers(&mut self, now: Millis, replica: &mut Replica, name: &str) {
        let here = replica.quota().numbers_here(name);
        if here == 0 || self.wants.sequences.is_asked(name) {
            return;
        }
        if !matches!(replica.quota().watching(name), Watching::At(_)) {
            return;
        }
        let idle_at = self.wants.sequences.drawn.get(name).map(|at| at + IDLE_MS);
        let keep = match idle_at.filter(|at| *at > now) {
            Some(idle_at) => {
                // Numbers that are kept now are checked again at that time.
                self.wants.sequences.idle_at = Some(idle_at);
                self.recent_numbers(now, name) / KEPT_SHARE
            }
            None => 0,
        };
        if here <= keep {
            return;
        }
        let own = replica.writer();
        let holder = replica.quota().rest_holder(name).filter(|it| *it != own);
        if let Some(holder) = holder.filter(|it| self.dealer(*it).is_some()) {
            // A writer at its last clock fails here, and this replica goes on as another writer.
            let given = replica
                .quota_mut()
                .return_numbers(name, holder, keep, &mut self.changed);
            if given.is_ok_and(|it| it > 0) {
                self.local_change(now);
            }
        }
    }

    fn recent_numbers(&self, now: Millis, name: &str) -> u64 {
        let id = (name.into(), RightKind::Rights);
        self.wants
            .sequences
            .recent
            .amount(now, &id)
            .min(i64::MAX as u64)
    }

    fn look_at_sequence(&mut self, now: Millis, replica: &mut Replica, name: &str) {
        self.look_at_proofs(now, replica, name);
        let here = replica.quota().numbers_here(name);
        let open = &mut self.wants.sequences.open;
        let is_here = |it: &Open| it.name == name && it.count <= here;
        open.retain(|it| it.why != Why::Ahead || !is_here(it));
        for lacked in open
            .iter_mut()
            .filter(|it| it.why == Why::Lacked && it.count > 0)
        {
            if is_here(lacked) {
                (lacked.count, lacked.until) = (0, lacked.until.min(now + KEPT_MS));
            }
        }
        let have = here.saturating_add(replica.quota().numbers_coming(name));
        let [asked, ahead] = self.wants.sequences.wants(name);
        let recent = self.recent_numbers(now, name);
        let watching = match ahead {
            0 => Watching::Nothing,
            _ => replica.quota().watching(name),
        };
        // Before a watched number, no more is requested ahead than this member would keep.
        let ahead = match watching {
            Watching::Nothing => ahead,
            _ => ahead.min(recent / KEPT_SHARE),
        };
        let need = asked.saturating_sub(have);
        let missing = asked.saturating_add(ahead).saturating_sub(have);
        let holder = replica.quota().rest_holder(name).filter(|_| missing > 0);
        let Some(holder) = holder else {
            self.wants.sequences.rounds.remove(name);
            return;
        };
        if holder == replica.writer() {
            if self.give(now, replica, holder, name, [need, recent]) {
                self.look_at_proofs(now, replica, name);
            }
            return;
        }
        let link = self.dealer(holder);
        let round = self.wants.sequences.rounds.entry(name.into());
        let (due, tries) = round.or_insert((now, 0));
        if *due > now {
            return;
        }
        let Some(link) = link else {
            // Before a watched number, each millisecond counts.
            *due = match replica.quota().watching(name) {
                Watching::Nothing => now + UNREACHED_AGAIN_MS,
                _ => now + 1,
            };
            return;
        };
        let wait = match replica.quota().watching(name) {
            Watching::At(_) => WATCHED_AGAIN_MS,
            _ => (ASK_AGAIN_MS << (*tries).min(8)).min(ASK_AGAIN_MS_MAX),
        };
        (*due, *tries) = (now + wait, *tries + 1);
        let draw = Draw {
            name: name.into(),
            seen: replica.state.held(&holder),
            need: need.min(i64::MAX as u64),
            recent,
        };
        self.send(replica, link, Body::Draw(draw));
    }

    /// The link to the member that gives numbers under this writer.
    fn dealer(&self, writer: WriterId) -> Option<Link> {
        let deals = |it: &&Session| {
            let hello = it.hello.as_ref().filter(|it| it.gives & DEALS > 0);
            hello.is_some_and(|it| it.writer == writer)
        };
        self.peers.iter().find(deals).map(|it| it.link)
    }

    /// Finds out which gifts may be used.
    fn look_at_proofs(&mut self, now: Millis, replica: &mut Replica, name: &str) {
        let unsure = replica.quota_mut().look_at_sequence(name);
        let (proofs, others): (Vec<Proof>, Vec<Proof>) =
            core::mem::take(&mut self.wants.sequences.proofs)
                .into_iter()
                .partition(|it| it.name == name);
        self.wants.sequences.proofs = others;
        for proof in &proofs {
            if let Some(question) = proof.question
                && unsure.iter().all(|it| it.0 != proof.given)
            {
                self.end_question(question);
            }
        }
        for (given, upto) in unsure {
            let known = proofs.iter().find(|it| it.given == given).cloned();
            let mut proof = known.unwrap_or(Proof {
                name: name.into(),
                given,
                question: None,
                reads: false,
                again: now,
            });
            let Some(question) = proof.question else {
                if proof.again <= now {
                    let question = self.ask_for_write(now, replica, Level::Quorum, upto);
                    proof.question = Some(question);
                }
                self.wants.sequences.proofs.push(proof);
                continue;
            };
            let reached = self
                .reach(replica, question)
                .is_some_and(|it| it.is_reached());
            if reached {
                self.end_question(question);
                match given == ReceivedPart::Rest && !proof.reads {
                    true => {
                        let question = self.ask_for_read(now, replica, Level::Quorum);
                        (proof.question, proof.reads) = (Some(question), true);
                    }
                    false => {
                        // A writer at its last clock fails here, and this replica goes on as another writer.
                        _ = replica
                            .quota_mut()
                            .numbers_are_sure(name, given, &mut self.changed);
                        self.local_change(now);
                        (proof.question, proof.reads) = (None, false);
                        proof.again = now + REST_AGAIN_MS;
                    }
                }
            }
            self.wants.sequences.proofs.push(proof);
        }
    }

    /// Gives numbers to a member, or to this one. `need` is how many it needs now, and `recent` how many it
    /// handed out recently. Returns whether any were given.
    fn give(
        &mut self,
        now: Millis,
        replica: &mut Replica,
        to: WriterId,
        name: &str,
        [need, recent]: [u64; 2],
    ) -> bool {
        let all = need.saturating_add(recent.saturating_mul(AHEAD)).max(1);
        let members = replica
            .members()
            .configuration()
            .map_or(1, |it| it.members.len());
        let members = members.max(1) as u64;
        let watching = replica.quota().watching(name);
        // A writer at its last clock can't give. The requests are repeated under another writer.
        let given = match watching {
            Watching::Nothing => replica
                .quota_mut()
                .give_numbers(name, to, all, &mut self.changed),
            Watching::Before(left) => {
                let share = left / (2 * members);
                let count = all.min(need.saturating_add(share)).clamp(1, left);
                replica
                    .quota_mut()
                    .give_numbers(name, to, count, &mut self.changed)
            }
            Watching::At(_) if need == 0 => Ok(0),
            Watching::At(others_have) => {
                let share = replica.quota().numbers_here(name) / (2 * members);
                let count = need.saturating_add(share.min(recent / KEPT_SHARE));
                match replica
                    .quota_mut()
                    .pass_on(name, to, count, &mut self.changed)
                {
                    Ok(0) if others_have && self.withholds(now, replica, name) => Ok(0),
                    Ok(0) => replica
                        .quota_mut()
                        .give_numbers(name, to, 1, &mut self.changed),
                    passed => passed,
                }
            }
        };
        let given = given.is_ok_and(|it| it > 0);
        if given {
            self.local_change(now);
        }
        given
    }

    /// Whether the next number is still withheld, because other members have numbers that come before it.
    fn withholds(&mut self, now: Millis, replica: &Replica, name: &str) -> bool {
        let next = replica.quota().sequence(name).map_or(0, |it| it.next);
        let fresh = Withheld {
            number: next,
            until: now + PATIENCE_MS,
            passed: false,
        };
        let withheld = self.wants.sequences.withheld.entry(name.into());
        let withheld = withheld.or_insert(fresh);
        if withheld.number != next {
            *withheld = fresh;
        }
        withheld.until > now
    }

    /// Handles a request for numbers. A request from a peer that is no member is ignored.
    pub(super) fn drawn(&mut self, now: Millis, replica: &mut Replica, link: Link, draw: Draw) {
        let own = replica.writer();
        let to = self.writer_of(link);
        let to = to.filter(|it| *it != own && replica.members().is_counted_member(it));
        let Some(to) = to.filter(|_| replica.members().is_member() && !self.is_coming_back())
        else {
            return;
        };
        if !self.wants.given.may_ask(now, link) {
            return;
        }
        let Draw {
            name,
            seen,
            need,
            recent,
        } = draw;
        let last = self.wants.sequences.given.get(&(to, name.clone()));
        let last = last.filter(|_| self.wants.sequences.by == Some(own));
        if last.is_some_and(|it| *it > seen) {
            // The last gift is still on its way, or it was lost. The digest shows this to the peer, which
            // then pulls.
            let digests = Digests {
                vector: replica.digest(),
                contents: 0,
            };
            return self.send(replica, link, Body::Digest(digests));
        }
        if self.give(now, replica, to, &name, [need, recent]) {
            let clock = replica.clock();
            self.wants.sequences.note_given(own, to, name, clock);
        } else if replica.quota().rest_holder(&name) == Some(own)
            && self.wants.sequences.asked_for.len() < ASKED_FOR_MAX
        {
            self.wants
                .sequences
                .asked_for
                .insert(name, now + UNWAITED_MS);
        }
    }
}
