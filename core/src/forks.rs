//! Forks: one writer id in the hands of two processes, with two contents under one clock.
//!
//! # What it adds
//! A process that was copied, or a disk that was put back while its process ran on, can write two histories
//! under one writer id. No version vector shows that: both sides claim the same clock. This layer finds it,
//! keeps the evidence, and lets all replicas converge.
//!
//! - **Late shards.** A shard at or below a clock that was held, with new content, is the other history's.
//! - **Equal clocks, different totals.** Two shards of one clock differ.
//! - **Digests of contents.** A correct writer's shards follow from its id and clock alone. So two replicas
//!   with equal vectors have equal contents, and a digest of these shows where they have not.
//! - **A clock of its own that a replica has not made** shows that another process writes under its id.
//!
//! # What it guarantees
//! - Every replica ends with the same shard: the greater clock stands, and at equal clocks the greater total.
//! - A fault has evidence: the writer, the clock, and what was seen ([`Fault`], [`Evidence`]).
//! - A replica that finds its own id in other hands goes on under a fresh one. Its shards stay as they are.
//!
//! In a space with members the machine compares no digests of contents. There a replica that finds its id in
//! other hands [rejoins](crate::rejoin).
//!
//! A fork of which only one side is left leaves no trace. The evidence is testimony and no proof, because
//! shards are not signed.
//!
//! # What it follows, and where it departs
//! The digest is a sum of hashes, as in AdHash (Bellare, Micciancio 1997). So a change of one page redoes the
//! hash of that page only. It departs in size: 64 bits, modulo 2^64, because it is for accidents and peers
//! are trusted for contents. It is no fork consistency (SUNDR: Li, Krohn, Mazières, Shasha 2004). There,
//! signed versions keep forked histories apart for ever; here both histories are merged.
//!
//! The state's half is here. The sync machine's half, which tells and heals, is `sync/forks.rs`.
//! `replica/fork.rs` leaves an id behind. A program without the feature `members` looks for no forks.

use crate::bounds::FAULTS_KEPT_MAX;
use crate::hash::{fold, hash_bytes};
use crate::indexed_state::State;
#[cfg(feature = "members")]
use crate::message::Message;
use crate::optional::{Empty, MEMBERS, MemberPart, Optional};
use crate::state::join::Fork;
use crate::state::keys::KeyId;
#[cfg(feature = "members")]
use crate::state::page::Column;
use crate::state::page::{PAGE, bits};
use crate::state::slot::{Assignment, Extra};
use crate::writer_id::WriterId;
use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "members")]
use core::cmp::Ordering;

/// A writer id under which two processes wrote, or whose stored shards have rotted.
///
/// No correct writer makes two different histories. Every replica comes to have both. For each counter the
/// greater clock stands, and at equal clocks the greater total. The fault is the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The writer.
    pub writer: WriterId,
    /// The clock to which the evidence belongs.
    pub clock: u64,
    /// The observation.
    pub evidence: Evidence,
}

impl Fault {
    /// Whether another fault is of the same kind and writer.
    pub(crate) fn repeats(&self, other: &Fault) -> bool {
        let kind = |fault: &Fault| core::mem::discriminant(&fault.evidence);
        self.writer == other.writer && kind(self) == kind(other)
    }
}

/// The observation that a writer has two histories, or made something that it must not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Two shards of this clock differ.
    Totals {
        /// The counter.
        key: Box<str>,
        /// The total here.
        ours: i128,
        /// The total that arrived.
        theirs: i128,
    },
    /// A record of this clock arrived, although this replica had everything up to the clock without it.
    Late {
        /// The counter.
        key: Box<str>,
    },
    /// The writer's contents up to this clock have two digests.
    Contents {
        /// The digest here.
        ours: u64,
        /// The peer's.
        theirs: u64,
    },
    /// Another replica has this clock of the writer, and the writer's own replica had not reached it.
    Ahead {
        /// The clock that the writer's replica had reached, by its own report.
        own: u64,
    },
    /// The writer spent more of a budget than it ever had.
    #[cfg(feature = "budgets")]
    Overdrawn {
        /// The budget's name.
        name: Box<str>,
        /// The amount that the writer has: less than 0.
        held: i128,
    },
}

/// One writer's history, as two digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The writer.
    pub writer: WriterId,
    /// Its clock.
    pub clock: u64,
    /// The digest of its shards. It follows from the writer and the clock alone.
    pub shards: u64,
    /// The digest of its cancels of others' shards that still matter. It follows from the version vector.
    pub cancels: u64,
}

impl Contents {
    /// A writer's clock alone, without digests.
    #[cfg(feature = "members")]
    pub(crate) fn only_clock(writer: WriterId, clock: u64) -> Contents {
        Contents {
            writer,
            clock,
            shards: 0,
            cancels: 0,
        }
    }

    /// Whether they have no digests. Then nothing is left of the writer, or the program makes no digests.
    pub(crate) fn is_unknown(&self) -> bool {
        self.shards == 0 && self.cancels == 0
    }
}

/// The digest of each page's contents at the last request for the digest of all.
#[derive(Clone)]
struct Sums {
    /// Pages that were touched from this epoch on have to be hashed again.
    epoch: u64,
    /// Whether the space had members then. With members other parts of a page count.
    closed: bool,
    pages: Vec<u64>,
    sum: u64,
}

impl Empty for Sums {
    const EMPTY: Sums = Sums {
        epoch: 0,
        closed: false,
        pages: Vec::new(),
        sum: 0,
    };
    const NOTHING: &'static Sums = &Sums::EMPTY;
}

impl Sums {
    fn heap_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<u64>()
    }
}

/// Forks and other faults that were found, and the digests that are compared to find forks.
#[derive(Clone)]
pub(crate) struct ForkLog {
    sums: MemberPart<Sums>,
    /// Writers that were found forked since the sync machine's last request.
    forked: MemberPart<Vec<WriterId>>,
    faults: MemberPart<Vec<Fault>>,
    /// The faults that the sync machine has not yet taken, to assign them to links.
    #[cfg(feature = "members")]
    fresh_faults: Vec<Fault>,
    fault_count: u64,
}

/// Evidence of forks: see [`Replica::forks`].
///
/// A view: it borrows the replica, reads, and changes nothing.
///
/// [`Replica::forks`]: crate::Replica::forks
#[derive(Clone, Copy)]
pub struct Forks<'a> {
    log: &'a ForkLog,
    state: &'a State,
    /// Whether the space has members. With members other parts of a counter count.
    closed: bool,
}

impl<'a> Forks<'a> {
    #[inline(always)]
    pub(crate) fn new(log: &'a ForkLog, state: &'a State, closed: bool) -> Forks<'a> {
        Forks { log, state, closed }
    }

    /// The evidence of detected faults, up to [`FAULTS_KEPT_MAX`]. If faults repeat one kind and writer, it
    /// has the first ones.
    #[inline]
    pub fn faults(self) -> &'a [Fault] {
        &self.log.faults
    }

    /// How many faults were detected.
    #[inline]
    pub fn fault_count(self) -> u64 {
        self.log.fault_count
    }

    /// The contents of each writer, ascending by writer. It reads everything in the replica.
    #[inline]
    pub fn contents(self) -> Vec<Contents> {
        self.log.contents(self.state, self.closed)
    }
}

impl ForkLog {
    /// A log without faults.
    pub(crate) fn new() -> ForkLog {
        ForkLog {
            sums: MemberPart::default(),
            forked: MemberPart::default(),
            faults: MemberPart::default(),
            #[cfg(feature = "members")]
            fresh_faults: Vec::new(),
            fault_count: 0,
        }
    }

    /// The heap bytes of the digests.
    #[inline]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.sums.heap_bytes()
    }

    /// Discards all digests, so that the next request computes them again.
    #[inline]
    pub(crate) fn forget_sums(&mut self) {
        self.sums.take();
    }

    /// Returns a digest of all contents. It is equal at replicas with equal version vectors, unless a writer
    /// was forked.
    ///
    /// It reads only pages that changed since the last call. It is 0 in a program built without digests.
    pub(crate) fn content_digest(&mut self, state: &mut State, closed: bool) -> u64 {
        let Some(sums) = self.sums.get_mut() else {
            return 0;
        };
        if sums.closed != closed {
            *sums = Sums {
                closed,
                ..Sums::EMPTY
            };
        }
        sums.pages.resize(state.pages().len(), 0);
        let mut from = 0;
        while let Some(at) = state.next_changed(from, sums.epoch) {
            let mut sum = 0u64;
            digest_page(state, (at, closed), &mut |_, _, hash| {
                sum = sum.wrapping_add(hash)
            });
            let before = core::mem::replace(&mut sums.pages[at], sum);
            sums.sum = sums.sum.wrapping_add(sum.wrapping_sub(before));
            from = at + 1;
        }
        sums.epoch = state.begin_epoch();
        sums.sum
    }

    /// The contents of each writer, ascending by writer. It reads everything in the replica.
    pub(crate) fn contents(&self, state: &State, closed: bool) -> Vec<Contents> {
        let mut digests = alloc::vec![[0u64; 2]; state.ids().len()];
        let pages = if MEMBERS { state.pages().len() } else { 0 };
        for at in 0..pages {
            digest_page(state, (at, closed), &mut |writer, part, hash| {
                let digest = &mut digests[writer as usize][part];
                *digest = digest.wrapping_add(hash);
            });
        }
        let contents = |(writer, number)| {
            let number = number as usize;
            let [shards, cancels] = digests[number];
            Contents {
                writer,
                clock: state.clocks()[number],
                shards,
                cancels,
            }
        };
        let all = state.numbered().map(contents);
        all.filter(|it| it.clock > 0).collect()
    }

    /// Returns the writers that were found forked since the last call. A record of each arrived at a clock
    /// that this replica had covered.
    pub(crate) fn take_forked(&mut self) -> Vec<WriterId> {
        self.forked.take()
    }

    /// Notes that two processes write under the own id, because a peer has this clock of it.
    pub(crate) fn doubt_self(&mut self, state: &State, clock: u64) {
        let writer = state.writer();
        let own = state.clock();
        self.note_fault(|| Fault {
            writer,
            clock,
            evidence: Evidence::Ahead { own },
        });
    }

    /// Notes a fault where a writer's rows in a message differ from the rows here. All clocks of the
    /// message's rows must be covered here. A row that is absent here may have been collected.
    #[cfg(feature = "members")]
    pub(crate) fn compare_rows(&mut self, state: &State, message: &Message, writer: &WriterId) {
        let Some(number) = state.number_of(writer) else {
            return;
        };
        let mut found = Vec::new();
        for (at, columns) in message.delta.pages.iter().enumerate() {
            let its = |it: &&Column| message.delta.writers[it.writer as usize].writer == *writer;
            for (slot, theirs) in columns.iter().filter(its).flat_map(Column::iter) {
                let key = message.delta.keys.get(at * PAGE + slot as usize);
                let Some(key_id) = state.keys().find(key) else {
                    continue;
                };
                let Some(ours) = state.row(key_id, number) else {
                    continue;
                };
                let evidence = match ours.clock.cmp(&theirs.clock) {
                    Ordering::Equal if ours.total != theirs.total => Evidence::Totals {
                        key: key.into(),
                        ours: ours.total.into(),
                        theirs: theirs.total.into(),
                    },
                    Ordering::Less => Evidence::Late { key: key.into() },
                    _ => continue,
                };
                found.push((theirs.clock, evidence));
            }
        }
        for (clock, evidence) in found {
            let writer = *writer;
            self.note_fault(|| Fault {
                writer,
                clock,
                evidence,
            });
        }
    }

    /// Notes a fault. A fault that may show again and again is noted once for each writer.
    pub(crate) fn note_fault(&mut self, fault: impl FnOnce() -> Fault) {
        if MEMBERS && !self.keep_fault(fault()) {
            return;
        }
        self.fault_count += 1;
    }

    /// Stores a fault, while there is room. Returns false if the fault is not even counted.
    pub(crate) fn keep_fault(&mut self, fault: Fault) -> bool {
        let known = |old: &Fault| fault.repeats(old);
        #[cfg(feature = "members")]
        if self.fresh_faults.len() < FAULTS_KEPT_MAX && !self.fresh_faults.iter().any(known) {
            self.fresh_faults.push(fault.clone());
        }
        let Some(faults) = self.faults.get_mut() else {
            return true;
        };
        let is_known = faults.iter().any(known);
        let repeats = !matches!(fault.evidence, Evidence::Totals { .. });
        if repeats && is_known {
            return false;
        }
        if faults.len() >= FAULTS_KEPT_MAX && !is_known {
            // The log has another fault of the same kind and writer, so the newer fault is worth more.
            let is_double = |(at, old): (usize, &Fault)| {
                let mut later = faults.iter().skip(at + 1);
                later.any(|it| it.repeats(old)).then_some(at)
            };
            let double = faults.iter().enumerate().find_map(is_double);
            if let Some(double) = double {
                faults.remove(double);
            }
        }
        if faults.len() < FAULTS_KEPT_MAX {
            faults.push(fault);
        }
        true
    }

    /// Returns the faults that were noted since the last call, each kind once for each writer. It includes
    /// faults that the log does not keep for ever.
    #[cfg(feature = "members")]
    pub(crate) fn take_fresh_faults(&mut self) -> Vec<Fault> {
        core::mem::take(&mut self.fresh_faults)
    }

    /// Keeps the evidence of the forks that a merge found, `count` of them.
    #[inline(always)]
    pub(crate) fn report_all(&mut self, state: &mut State, forks: &[Fork], count: u64) {
        self.fault_count += count;
        for fork in forks {
            self.report(state, *fork);
        }
    }

    /// Keeps the evidence of one fork. The merge installed its record at a covered clock. The record has to be
    /// stored and sent, as a new one is.
    #[cold]
    fn report(&mut self, state: &mut State, (key_id, number, clock, totals): Fork) {
        let writer = state.id(number);
        state.rework(&[writer]);
        if !self.forked.contains(&writer) {
            self.forked.update(|it| it.push(writer));
        }
        let key = state.keys().get(key_id).unwrap_or_default().into();
        let fault = |evidence| Fault {
            writer,
            clock,
            evidence,
        };
        match totals {
            // Counted when it was found.
            Some([ours, theirs]) => {
                self.keep_fault(fault(Evidence::Totals { key, ours, theirs }));
            }
            None => self.note_fault(|| fault(Evidence::Late { key })),
        }
    }
}

/// Calls `take` with each record of a page: its writer, whether it is a shard (0) or a cancel (1), and its
/// hash.
fn digest_page(state: &State, (at, closed): (usize, bool), take: &mut dyn FnMut(u32, usize, u64)) {
    let page = &state.pages()[at];
    let odd = page.odd();
    let id = |writer: u32| hash_bytes(0, state.id(writer).as_bytes());
    let key = |slot| {
        let key_id = KeyId((at * PAGE) as u32 + slot);
        (
            key_id,
            hash_bytes(0, state.keys().get(key_id).unwrap_or_default().as_bytes()),
        )
    };
    let mut keys = [0; PAGE];
    for slot in bits(page.present()) {
        let (key_id, hash) = key(slot);
        keys[slot as usize] = hash;
        if closed && odd >> slot & 1 == 1 {
            digest_survivors(state, key_id, hash, take);
        }
    }
    for column in page.columns() {
        let id = id(column.writer);
        for (slot, row) in column.iter() {
            if !closed || odd >> slot & 1 == 0 {
                let base = fold(keys[slot as usize], id);
                take(
                    column.writer,
                    0,
                    fold(fold(base, row.clock), row.total as u64),
                );
            }
        }
    }
    if closed {
        return;
    }
    for (slot, side) in page.odd.iter().flat_map(|odd| odd.iter()) {
        let base = fold(keys[slot as usize], id(side.writer));
        if let Some(extra) = &side.extra {
            take(side.writer, 0, hash_extra(base, extra));
        }
        // Each record has a tag of its own, which no row has: a row's second word is a clock.
        let watermark = side.watermark.map(|it| (it.by, it.clock, it.total, 1));
        let lift = side.lift.as_ref().map(|it| (it.by, it.clock, 0, 2));
        for (by, clock, total, tag) in [watermark, lift].into_iter().flatten() {
            let words = [
                id(by.writer),
                by.clock,
                clock,
                total as u64,
                (total >> 64) as u64,
            ];
            take(by.writer, 1, words.into_iter().fold(base ^ tag, fold));
        }
    }
}

/// Calls `take` with the sum of each shard of a counter, and the counter's expiry with the first of them.
///
/// In a space with members the digest is made of these. A replica may have dropped records that no longer
/// count, while another one still has them.
fn digest_survivors(state: &State, key_id: KeyId, key: u64, take: &mut dyn FnMut(u32, usize, u64)) {
    let mut expiry = state.effective_expiry(key_id).unwrap_or_default();
    for shard in state.shards(key_id) {
        let Some(number) = state.number_of(&shard.writer) else {
            continue;
        };
        let base = fold(key, hash_bytes(0, shard.writer.as_bytes()));
        let mut hash = fold(fold(base, shard.clock), shard.total as u64);
        if i64::try_from(shard.total).is_err() {
            hash = fold(hash, (shard.total >> 64) as u64);
        }
        let once = core::mem::take(&mut expiry);
        if once != 0 {
            hash = fold(hash, once);
        }
        take(number, 0, hash);
    }
}

fn hash_extra(base: u64, extra: &Extra) -> u64 {
    let (kind, value) = match extra.assignment {
        None => (3, 0),
        Some(Assignment::Reset) => (4, 0),
        Some(Assignment::Set(value)) => (5, value),
    };
    let expiry = extra.expiry.map_or([0; 2], |it| [it.clock, it.until]);
    [extra.began, extra.added, extra.high as u64, value as u64]
        .into_iter()
        .chain(expiry)
        .fold(base ^ kind, fold)
}

#[cfg(all(test, feature = "members"))]
mod tests;
