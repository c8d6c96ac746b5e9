//! Sequences: a member that has few numbers of a sequence left asks the one that gives them for more, and
//! finds out when most members hold what it was given.
//!
//! One member gives numbers of a sequence: the one whose writer has the rest. Who is asked gives by a
//! transaction of its own, which arrives as any other. Whoever was given something asks the members
//! whether they hold that, as for a write at the level `quorum`, and uses it then; who got the rest reads
//! at the level `quorum` after that, so of two who began a sequence of one name at the same time one at
//! least hears of the other before it gives anything.
//!
//! Before a number that is watched, ranges get shorter, and the number itself is kept back until all below
//! it are handed out: what nobody waits for is given back, and passed on to who asks. Who can't be reached
//! holds that up for [`PATIENCE_MS`].

use super::recent::Recent;
use super::{ASK_AGAIN_MS, ASK_AGAIN_MS_MAX, UNWAITED_MS, WantId};
use crate::ledger::Stock;
use crate::quota::sequence::{Given, Watching};
use crate::replica::Replica;
use crate::sync::{Level, Link, Millis, Peer, Question, SyncMachine};
use crate::wire::{Body, DEALS, Digests, Draw};
use crate::writer_id::WriterId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// Who asks is given so many times what it handed out of late, beyond what is missing.
const AHEAD: u64 = 4;
/// How long a rest of which there are two is left as it is.
const REST_AGAIN_MS: Millis = 1_000;
/// How long a watched number is kept back at most, from when somebody asks who could have it.
const PATIENCE_MS: Millis = 1_000;
/// How soon is looked again for a link to the one that gives numbers.
const UNREACHED_AGAIN_MS: Millis = 50;
/// How soon is asked again while a watched number is kept back.
const WATCHED_AGAIN_MS: Millis = 100;
/// Who hands numbers out before a watched one keeps this share of what it used of late for itself, some
/// 0.25 to 0.5 s of it.
const KEPT_SHARE: u64 = 8;
/// Who handed nothing out for so long keeps none.
const IDLE_MS: Millis = 300;
/// How long numbers that somebody was refused, who did not wait, are not given back.
const KEPT_MS: Millis = 1_000;
/// Of so many sequences it is known what was given and may not have been seen; of more, of none.
const GIVEN_MAX: usize = 4_096;
/// So many sequences are looked at for others' sake at a time.
const ASKED_FOR_MAX: usize = 1_024;

/// What is wanted here of sequences, and what was given to others.
#[derive(Clone, Default)]
pub(super) struct Sequences {
    open: Vec<Open>,
    ids: u32,
    /// When whoever gives is asked again, and how often it was.
    rounds: BTreeMap<String, (Millis, u32)>,
    proofs: Vec<Proof>,
    /// What others asked this member for, which may not give yet, and until when that is seen to.
    asked_for: BTreeMap<String, Millis>,
    recent: Recent,
    /// When a number of a sequence was handed out last.
    drawn: BTreeMap<String, Millis>,
    /// Under which writer something was given.
    by: Option<WriterId>,
    /// The own clock when something of a sequence was last given to a writer.
    given: BTreeMap<(WriterId, String), u64>,
    /// The numbers that are kept back.
    kept_back: BTreeMap<String, KeptBack>,
    /// When numbers that are kept before a watched one are to be given back.
    idle_at: Option<Millis>,
    /// When something is to be looked at with nothing else happening.
    soon: Option<Millis>,
}

/// A number that is not given yet, as others have some that come before it.
#[derive(Clone, Copy)]
struct KeptBack {
    number: u64,
    until: Millis,
    /// Whether that time is over.
    passed: bool,
}

/// Why numbers are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// Somebody waits for them.
    Waited,
    /// Somebody was refused them.
    Lacked,
    /// They may be asked for soon.
    Ahead,
}

#[derive(Clone)]
struct Open {
    id: WantId,
    name: String,
    /// None once they are here, of what is only lacked.
    count: u64,
    until: Millis,
    why: Why,
}

/// Something that was given, of which it is being found out whether most members hold that.
#[derive(Clone)]
struct Proof {
    name: String,
    given: Given,
    /// None once it has come to nothing, until `again`.
    question: Option<Question>,
    /// Whether it is asked what else members hold by now.
    reads: bool,
    again: Millis,
}

impl Sequences {
    pub(super) fn due(&self) -> Option<Millis> {
        let open = self.open.iter().map(|it| it.until);
        let rounds = self.rounds.values().map(|it| it.0);
        let again = self.proofs.iter().filter(|it| it.question.is_none());
        let again = again.map(|it| it.again);
        let kept_back = self.kept_back.values().filter(|it| !it.passed);
        let kept_back = kept_back.map(|it| it.until);
        let others = open.chain(rounds).chain(again).chain(kept_back);
        others.chain(self.idle_at).chain(self.soon).min()
    }

    /// How many numbers are wanted: for those who ask, and ahead.
    fn wants(&self, name: &str) -> [u64; 2] {
        let mut sums = [0u64; 2];
        for open in self.open.iter().filter(|it| it.name == name) {
            let sum = &mut sums[usize::from(open.why == Why::Ahead)];
            *sum = sum.saturating_add(open.count);
        }
        sums
    }

    /// Whether anybody asks for numbers, or did a moment ago.
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
    /// Begins to wait for so many numbers of a sequence: the member that gives them is asked with the next
    /// [`Input::Tick`](crate::sync::Input), which is due at once, and again until as many are
    /// [here](crate::QuotaRef::numbers_here), or it is `until`. Whoever waits tries to hand one out when there is one, and
    /// then [ends](SyncMachine::end_numbers) it.
    pub fn want_numbers(&mut self, now: Millis, name: &str, count: u64, until: Millis) -> WantId {
        self.open_draws(now, name, count, until, Why::Waited)
    }

    /// Somebody was refused so many numbers and does not wait: they are asked for for a few seconds, so that
    /// they are there when it is tried again.
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
    ) -> WantId {
        let numbers = &mut self.wants.sequences;
        let id = WantId(numbers.ids);
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

    /// Waits for these numbers no longer.
    pub fn end_numbers(&mut self, now: Millis, want: WantId) {
        self.wants.sequences.open.retain(|it| it.id != want);
        self.wants.sequences.soon = Some(now);
    }

    /// Asks for what is lacking, sees whether what was given may be used, and notes what was handed out.
    pub(super) fn look_at_sequences(&mut self, now: Millis, replica: &mut Replica) {
        for (name, count) in replica.quota_mut().take_numbers_used() {
            let numbers = &mut self.wants.sequences;
            numbers.recent.note(now, &name, Stock::Rights, count);
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
        for kept_back in numbers.kept_back.values_mut() {
            kept_back.passed |= kept_back.until <= now;
        }
        // Who could have it by now, and has not asked again, has gone.
        let is_asked_for = |it: &KeptBack| it.until + UNWAITED_MS > now;
        numbers.kept_back.retain(|_, it| is_asked_for(it));
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
            self.give_back(now, replica, &name);
        }
    }

    /// Gives numbers back that nobody asks for here, and that are to be handed out before a watched one.
    fn give_back(&mut self, now: Millis, replica: &mut Replica, name: &str) {
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
                // What is kept now is looked at again then.
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
            // At the end of its clocks this writer goes on as another one.
            let given = replica
                .quota_mut()
                .give_back(name, holder, keep, &mut self.changed);
            if given.is_ok_and(|it| it > 0) {
                self.local_change(now);
            }
        }
    }

    fn recent_numbers(&self, now: Millis, name: &str) -> u64 {
        let id = (name.into(), Stock::Rights);
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
        // Before a watched number no more is taken than would be kept.
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
            // Before a watched number each moment counts.
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

    /// The link to a member that gives numbers.
    fn dealer(&self, writer: WriterId) -> Option<Link> {
        let deals = |it: &&Peer| {
            let greeting = it.greeting.as_ref().filter(|it| it.gives & DEALS > 0);
            greeting.is_some_and(|it| it.writer == writer)
        };
        self.peers.iter().find(deals).map(|it| it.link)
    }

    /// Finds out what of that which was given may be used.
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
                match given == Given::Rest && !proof.reads {
                    true => {
                        let question = self.ask_for_read(now, replica, Level::Quorum);
                        (proof.question, proof.reads) = (Some(question), true);
                    }
                    false => {
                        // At the end of its clocks this writer goes on as another one.
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

    /// Gives numbers to a member, or to this one, which needs so many now and handed out so many of late;
    /// tells whether it did.
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
        // If it is refused, as this writer is at the end of its clocks, it is asked again under another.
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
                    Ok(0) if others_have && self.keeps_back(now, replica, name) => Ok(0),
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

    /// Whether the next number is kept back still, as others have some that come before it.
    fn keeps_back(&mut self, now: Millis, replica: &Replica, name: &str) -> bool {
        let next = replica.quota().sequence(name).map_or(0, |it| it.next);
        let fresh = KeptBack {
            number: next,
            until: now + PATIENCE_MS,
            passed: false,
        };
        let kept_back = self.wants.sequences.kept_back.entry(name.into());
        let kept_back = kept_back.or_insert(fresh);
        if kept_back.number != next {
            *kept_back = fresh;
        }
        kept_back.until > now
    }

    /// A peer asks for numbers. Who is no member is not heard.
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
            // That is on its way, or was lost: then the peer finds out, and pulls.
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
