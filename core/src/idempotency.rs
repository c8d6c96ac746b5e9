//! The idempotency log: an operation under a key counts once, however often and wherever it is requested.
//!
//! # What it adds
//! A client that got no answer repeats its request under the same *idempotency key* ([`Once`](crate::Once): a
//! digest of the key, and one of the request). A member remembers the keys of the transactions that it made
//! or merged. A keyed transaction is an ordinary one, and its key travels in the same message. So a member
//! that has a transaction has its key, unless the transaction came through a guest (a *key gap*).
//!
//! If two members accept one request before they hear of each other, both transactions count for a while.
//! Then one of the two is withdrawn.
//!
//! | file | holds |
//! |---|---|
//! | `log` | the remembered transactions ([`Instance`]), by key and in their order |
//! | `keyed` | what is remembered, sent, received, stable, and dropped |
//! | `withdrawal` | the search for duplicates, and their withdrawal |
//! | `lifetimes` | since when slots have their present lifetimes |
//! | `gaps` | keys that are missing here, and when a member gives them up |
//! | `shares` | which caller loses its oldest key when room runs out |
//! | `view` | the log as a caller reads and bounds it |
//! | `none` | the null object of a program that is never a member: it remembers no key |
//!
//! # What it guarantees
//! - Where a key is known, the log says so ([`KeyStatus`]), and the caller makes nothing.
//! - Two transactions for one request count once as soon as a replica with a log knows both, and wherever its
//!   withdrawal has arrived. The duplicate leaves no amount behind.
//! - In a space with members, age drops a key only when its transaction is stable. So no duplicate turns up
//!   unseen. Lack of room drops one earlier: the oldest key of the caller that has the most.
//! - A transaction that its replica made again with less effect is marked ([`Keyed::is_weaker`]). The mark
//!   travels with the key, among the transaction's adds.
//!
//! There is one gap: a guest passes transactions on without keys. Let a member alone know a key, and let its
//! disk be lost, or let it rejoin after others took the transaction over. Then nobody can tell a retry.
//!
//! # What it follows, and where it departs
//! RIFL (Lee, Park, Kejriwal, Matsushita, Ousterhout 2015) gives each request an id. It keeps a completion
//! record with the data until the client needs it no more. This log departs from it in three points:
//! - Any member executes a request without asking another one. So a duplicate is found afterwards, and
//!   undone.
//! - A key is dropped by age and stability, because clients have no leases.
//! - Callers share the room for keys by longest queue drop (Suter, Lakshman, Stiliadis, Choudhury 1998).
//!
//! # Withdrawal
//! **The rule.** Let several transactions with one [`Once`](crate::Once) be known. The one that counts is the
//! least by writer id and clock, of those that are not *doubtful* if there is any. One is doubtful if its replica
//! lacked keys when it made it, and a mark among its adds says so. For every other one, the replica writes a
//! [`Withdrawal`](crate::state::slot::Withdrawal) for each counter that it added to. The record goes into the
//! slot of *that transaction's writer*. It has the transaction's clock, the amount that it added there, and
//! the clock of the add before it. There, and nowhere else, a duplicate add is withdrawn.
//!
//! Its cancels stay, because a cancel that is made twice is one, and of two equal assignments one counts
//! anyway.
//!
//! **When.** An insertion into the log that meets another transaction of the same request marks the key as
//! due. [`SyncMachine`](crate::SyncMachine) calls `IdempotencyLog::withdraw` after each merge. A member's
//! duties, `acknowledge` and `retire`, call it first.
//!
//! **Why that is exact.**
//! 1. *The amount is the right one.* A member works it out when it makes the transaction (`keyed_add`). It is
//!    the difference of the slot's total before and after, within one lifetime. It travels with the key.
//! 2. *All replicas choose the same one.* Writer ids, clocks and marks never change, so the least is the least
//!    everywhere. There is one exception. A forgotten writer's transaction counts for certain if no
//!    duplicate and no key gap was known when it was forgotten (`Instance::sole`). All who count had
//!    acknowledged it by then, so every other one came later and is withdrawn.
//! 3. *Several replicas may withdraw the same.* A withdrawal is named by slot and clock. The join keeps one
//!    of two alike, so the amount is subtracted once.
//! 4. *Cancels and withdrawals do not disturb each other.* A withdrawal leaves totals alone. A watermark that
//!    reaches the transaction's clock has removed its amount already, and makes the withdrawal void. A
//!    watermark before it leaves both alone. So the order in which they arrive does not matter.
//! 5. *Whether the counter exists is right, too.* The clock of the add before says whether an add of the slot
//!    survives (`Slot::last_add`).
//! 6. *The right lifetime is meant.* If the slot began a new lifetime after the transaction, the withdrawal
//!    is void. The begin of a lifetime may have been collected. Then the log knows it (`new_lifetimes`,
//!    `Instance::watched`), or withdraws nothing.
//! 7. *No retirement hides the slot.* A slot that was retired is not touched, since its amount lies in the
//!    successor's total. So a member retires a writer only when the writer's keyed transactions are stable
//!    (`is_keyed_stable`), and every member withdraws what is due before it acknowledges. A start that began from
//!    a guest's state, without keys, may make such an operation again later. It is doubtful then, and so it is
//!    withdrawn.
//! 8. *A joined withdrawal hides none that comes later.* Withdrawals in a slot are joined once all have seen
//!    them, with the slot's transactions up to there and their keys. The log notes which transactions these
//!    were. Any other one that it watched is withdrawn apart from them.
//!
//! **The code.** `State::withdraw` in `core/src/state/operation.rs`, `core/src/idempotency/withdrawal.rs` (`withdraw`, `duplicates_of`, `withdraw_add`),
//! `Side::withdraw`, `Slot::withdrawn` and `Slot::last_add` in `core/src/state/slot.rs`, `alone` in
//! `core/src/state/counter.rs`, `retire_ready` in `core/src/replica/absorb.rs`.
//!
//! **The tests.**
//! - `core/src/replica/keyed/tests.rs`: `of_two_that_were_taken_apart_one_counts`,
//!   `of_a_transaction_its_surviving_adds_are_withdrawn`,
//!   `a_cancel_covers_what_is_withdrawn_and_what_was_not_seen_stays`.
//! - `core/src/replica/keyed/tests/withdrawals.rs`: lifetimes that are forgotten, stores, and certain ones.
//! - `tests/src/retirement/configs.rs`, `keyed`: every order of events with keyed operations.
//! - `tests/tests/mesh.rs`, `members_take_keyed_operations_and_each_counts_once`: members that are cut off.
//! - `tests/tests/retries`: real processes, over kills and cuts.

#[cfg(feature = "members")]
mod gaps;
#[cfg(feature = "members")]
pub(crate) mod keyed;
#[cfg(feature = "members")]
pub(crate) mod lifetimes;
#[cfg(feature = "members")]
pub(crate) mod log;
#[cfg(not(feature = "members"))]
mod none;
#[cfg(feature = "members")]
pub(crate) mod shares;
mod view;
#[cfg(feature = "members")]
mod withdrawal;

#[cfg(feature = "members")]
pub use keyed::KeyStatus;
#[cfg(feature = "members")]
pub(crate) use log::Instance;
#[cfg(feature = "members")]
pub use shares::{Asker, KeyedBounds, Party};
pub use view::{Keyed, KeyedMut};

/// The log of idempotency keys, and what marks and scans of it remember.
#[cfg(feature = "members")]
pub(crate) use self::{
    keyed::{KeyedMark, KeyedOps, KeyedScan, Known, Made},
    log::IdempotencyLog,
};
/// The null objects in a program that is never a member: it remembers no keys.
#[cfg(not(feature = "members"))]
pub(crate) use none::{IdempotencyLog, KeyedMark, KeyedOps, KeyedScan, Known, Made};

/// Functions of both logs, with their signatures, so that the two stay alike. A log that differs does not
/// compile.
const _: () = {
    use crate::error::Error;
    use crate::indexed_state::State;
    use crate::membership::{Membership, admission::Forgotten, stability::Quorum};
    use crate::message::Message;
    use crate::once::Once;
    use crate::state::{keys::KeyId, slot::Slot};
    use crate::writer_id::WriterId;

    type Log = IdempotencyLog;
    type Withdrawn<'a> = &'a mut dyn FnMut(KeyId, (WriterId, u64));
    type Step = (KeyedOps, bool);

    // Sending and receiving.
    let _: fn(&Log, &Membership) -> KeyedMark = Log::keyed_mark;
    let _: fn(&Log, &State, &KeyedMark, &alloc::vec::Vec<u64>, usize) -> Step = Log::keyed_since;
    let _: fn(&mut Log, &mut State, &mut Membership, &Message, &Forgotten) = Log::merge_keyed;
    let _: fn(&KeyedMark, &Membership, &State, u32) -> u64 = KeyedMark::low;
    let _: fn(&[u64], bool) -> KeyedScan = KeyedScan::new;
    let _: fn(&KeyedScan) -> bool = KeyedScan::is_wanted;
    let _: fn(&mut KeyedScan, (&Log, &State), &mut [u64], usize) -> Step = KeyedScan::step;

    // Reads.
    let _: fn(&Log) -> bool = Log::has_keyed;
    let _: fn(&Log, &Once) -> bool = Log::is_made;
    let _: fn(&Log, &Membership, &Quorum, u32) -> bool = Log::is_keyed_stable;
    let _: fn(&Log, &Membership, &Quorum, u32) -> bool = Log::waits_for_keyed;
    let _: fn(&Log, &State, &Membership) -> Known = Log::known_keyed;
    let _: fn(&mut Log, &State, &mut Membership, WriterId, u64, Made) = Log::claim_keyed;

    // Withdrawals, and forgetting.
    let _: fn(&mut Log, &mut State, &mut Membership, Withdrawn<'_>) -> Result<bool, Error> =
        Log::withdraw;
    let _: fn(&mut Log, &str, &[Slot], &[Slot]) = Log::note_new_lifetimes;
    let _: fn(&mut Log, &Membership) = Log::note_unwatched;
    let _: fn(&mut Log, &State) = Log::note_withdrawn;
    let _: fn(&mut Log, &State) = Log::drop_due;
    let _: fn(&mut Log, &mut Membership, &[u32]) = Log::forget_keyed;
    let _: fn(&mut Log, &mut Membership) = Log::doubt_keyed;

    // Key gaps, and asking members about them.
    let _: fn(&Log, &State, &Membership) -> bool = Log::asks_for_keys;
    let _: fn(&mut Log, &State, &Membership, u64) = Log::ask_for_keys;
    let _: fn(&Log) -> u64 = Log::asked_for_keys;
    let _: fn(&mut Log, &State, &mut Membership) = Log::give_up_keys;
};
