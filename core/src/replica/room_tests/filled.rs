//! Every bound of `bounds.rs` that a replica's state can reach, filled, stored and read back by the next
//! start; and of each other one why its state can't.

use super::*;
use crate::bounds::*;
use crate::error::{MemberError, QuotaError, WriteError};
use crate::ledger::account::LeaseId;
use crate::ledger::sequence::{Piece, SequenceKey};
use crate::message::KeyedAdd;
use crate::once::Once;
use crate::optional::Optional;
use crate::quota::budget::Flow;
use crate::sync::Party;
use crate::wire::Encode;
use crate::wire::encode_adds;
use crate::{Asker, KeyedBounds};
use crate::{Limit, Message};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const BEGIN: u64 = 1_800_000_000_000;
const OWNER: [u8; 32] = [9; 32];

/// How a bound is tried.
enum Tried {
    /// A replica fills it, and is refused any more; what it shows then is the same at the next start.
    Filled(fn(&mut Replica), fn(&Replica) -> String),
    /// It is filled with the bound of this name.
    With(&'static str),
    /// Another test, with this name, covers the state after its restart.
    By(&'static str),
    /// No state reaches it, for this reason.
    No(&'static str),
}

use Tried::{By, Filled, No, With};

const AT_LINKS: &str = "links have shares, and no store keeps them";
const ON_ITS_WAY: &str = "it bounds what is on its way, and decoders or the sync machine judge it";
const AT_A_MOMENT: &str =
    "it bounds an argument of one call, and what is kept is within other bounds";

const TABLE: [(&str, Tried); 54] = [
    (
        "KEY_BYTES_MAX",
        Filled(longest_key, |it| {
            format!("{:?}", it.value(&long(KEY_BYTES_MAX)))
        }),
    ),
    (
        "BUDGET_NAME_BYTES_MAX",
        Filled(longest_budget, |it| {
            format!(
                "{:?}",
                it.quota()
                    .budget(&long(BUDGET_NAME_BYTES_MAX))
                    .map(|it| it.value)
            )
        }),
    ),
    (
        "LEASED_NAME_BYTES_MAX",
        Filled(leases, |it| {
            format!("{:?}", it.quota().leases_of(&long(LEASED_NAME_BYTES_MAX)))
        }),
    ),
    ("LEASE_MS_MIN", With("LEASED_NAME_BYTES_MAX")),
    ("LEASE_MS_MAX", With("LEASED_NAME_BYTES_MAX")),
    ("LEASE_DRIFT_PART", No(AT_A_MOMENT)),
    (
        "SEQUENCE_NAME_BYTES_MAX",
        Filled(longest_sequence, |it| {
            format!(
                "{:?}",
                it.quota()
                    .sequence(&long(SEQUENCE_NAME_BYTES_MAX))
                    .map(|it| (it.next, it.held))
            )
        }),
    ),
    (
        "SEQUENCE_NUMBER_MAX",
        Filled(last_number, |it| {
            format!(
                "{:?}",
                it.quota().sequence("last").map(|it| (it.next, it.held))
            )
        }),
    ),
    (
        "NUMBERS_AT_ONCE_MAX",
        Filled(many_numbers, |it| {
            format!(
                "{:?}",
                it.quota().sequence("many").map(|it| (it.next, it.held))
            )
        }),
    ),
    (
        "WATCHES_MAX",
        Filled(watches, |it| {
            format!(
                "{:?}",
                it.quota().sequence("watched").map(|it| it.watched.len())
            )
        }),
    ),
    (
        "LIMITS_MAX",
        Filled(rate_limits, |it| {
            format!("{:?}", it.members().configuration())
        }),
    ),
    ("LIMIT_NAME_BYTES_MAX", With("LIMITS_MAX")),
    (
        "PERIOD_KEY_BYTES_MAX",
        Filled(longest_period, |it| {
            format!("{:?}", it.quota().period_counters())
        }),
    ),
    ("PERIOD_MS_MIN", With("LIMITS_MAX")),
    ("PERIOD_MS_MAX", With("LIMITS_MAX")),
    ("SKEW_MS_MAX", No(AT_A_MOMENT)),
    (
        "SPACE_BYTES_MAX",
        By("a_space_of_the_longest_name_is_stored"),
    ),
    ("MEMBERS_MAX", By("as_many_members_as_may_be_are_stored")),
    (
        "TRANSACTION_OPS_MAX",
        Filled(largest_transaction, |it| {
            format!("{:?}", it.value("op9999"))
        }),
    ),
    (
        "EXPIRED_MAX",
        By("with_too_many_ends_that_are_not_decided_a_delete_ends_the_counter"),
    ),
    (
        "EXPIRED_SLOTS_MAX",
        By("with_too_many_ends_that_are_not_decided_a_delete_ends_the_counter"),
    ),
    (
        "EXPIRY_MAX",
        Filled(latest_expiry, |it| {
            format!("{:?}", it.key_id("late").map(|at| it.expiry_at(at)))
        }),
    ),
    ("FRAME_BYTES_MAX", No(ON_ITS_WAY)),
    (
        "WRITERS_MAX",
        By("two_nodes_that_guests_filled_take_each_others_starts"),
    ),
    ("TICKET_WRITERS_MAX", No(AT_LINKS)),
    ("ADDRESS_WRITERS_MAX", No(AT_LINKS)),
    (
        "WRITERS_MERGED_MAX",
        By("a_full_space_opens_at_every_start"),
    ),
    (
        "WRITERS_TOLD_MAX",
        By("a_start_that_finds_no_place_opens_reads_and_refuses_to_write"),
    ),
    (
        "KEY_TABLE_BYTES_MAX",
        By("a_full_key_table_refuses_new_keys_and_nothing_else"),
    ),
    ("MESSAGE_KEY_BYTES_MAX", No(ON_ITS_WAY)),
    ("CHUNK_BYTES_TARGET", No(ON_ITS_WAY)),
    ("CHUNK_DOUBLINGS_MAX", No(ON_ITS_WAY)),
    ("STAGE_BYTES_MAX", No(ON_ITS_WAY)),
    ("PUSH_BYTES_MAX", No(ON_ITS_WAY)),
    ("WAITING_PUSHES_MAX", No(ON_ITS_WAY)),
    ("WAITING_BYTES_MAX", No(ON_ITS_WAY)),
    ("AGENT_BYTES_MAX", No(ON_ITS_WAY)),
    ("PROOF_BYTES_MAX", No(ON_ITS_WAY)),
    (
        "FAULTS_KEPT_MAX",
        No("no store keeps the evidence of faults"),
    ),
    (
        "RETURNS_MAX",
        Filled(forgotten, |it| {
            format!(
                "{:?}",
                [0, 2, RETURNS_MAX + 1].map(|at| it.members().retired_clock(&gone(at)))
            )
        }),
    ),
    ("RETURNS_SENT_MAX", No(ON_ITS_WAY)),
    (
        "KEYED_MAX",
        Filled(keys, |it| {
            let known = |at: usize| it.keyed().lookup(&key(at));
            format!("{:?} {:?}", it.keyed().count(), [0, 5, 24].map(known))
        }),
    ),
    ("GUESTS_KEYED_MAX", With("KEYED_MAX")),
    ("TICKET_KEYED_MAX", With("KEYED_MAX")),
    ("ADDRESS_KEYED_MAX", With("KEYED_MAX")),
    (
        "KEYED_BYTES_MAX",
        Filled(largest_keyed, |it| {
            format!("{:?}", it.keyed().lookup(&once()))
        }),
    ),
    ("TOKEN_WRITERS_MAX", No(ON_ITS_WAY)),
    ("ASK_WRITERS_MAX", No(ON_ITS_WAY)),
    ("AUDIT_COUNTERS_MAX", No(ON_ITS_WAY)),
    ("AUDIT_SHARDS_MIN", No(ON_ITS_WAY)),
    ("AUDIT_QUESTION_BYTES_MAX", No(ON_ITS_WAY)),
    ("AUDIT_REFUSAL_BYTES_MAX", No(ON_ITS_WAY)),
    ("ASKS_WAITING_MAX", No(ON_ITS_WAY)),
    ("OWN_WRITERS_MAX", No(ON_ITS_WAY)),
];

/// The names of the tests of bounds.
const TESTS: [&str; 3] = [
    include_str!("../room_tests.rs"),
    include_str!("filled.rs"),
    include_str!("../expiries/tests.rs"),
];

#[test]
fn every_bound_is_in_the_table() {
    let source = include_str!("../../bounds.rs");
    let lines = source
        .lines()
        .filter_map(|line| line.strip_prefix("pub const "));
    let mut declared: Vec<&str> = lines.filter_map(|line| line.split(':').next()).collect();
    let mut listed: Vec<&str> = TABLE.iter().map(|it| it.0).collect();
    declared.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, declared, "bounds.rs, and the table of this test");
    for (name, tried) in &TABLE {
        match tried {
            By(test) => {
                let is_there = |text: &&str| text.contains(&format!("fn {test}()"));
                assert!(TESTS.iter().any(is_there), "{name}: {test}");
            }
            No(reason) => assert!(!reason.is_empty(), "{name}"),
            With(other) => {
                let with = TABLE.iter().find(|it| it.0 == *other);
                assert!(
                    with.is_some_and(|it| matches!(it.1, Filled(..))),
                    "{name}: {other}"
                );
            }
            Filled(..) => {}
        }
    }
}

#[test]
fn every_bound_is_filled_stored_and_read_back() {
    let mut one = replica(1);
    one.members_mut()
        .found(&OWNER, &[1; 16], BEGIN)
        .expect("founded");
    one.set_time(BEGIN);
    for (_, tried) in &TABLE {
        if let Filled(fill, _) = tried {
            fill(&mut one);
        }
    }
    let mut again = restarted(&one, 2);
    again.set_time(BEGIN);
    for (name, tried) in &TABLE {
        if let Filled(_, shows) = tried {
            assert_eq!(shows(&again), shows(&one), "{name}");
        }
    }
    // The next start writes on.
    again
        .members_mut()
        .announce(&OWNER, &[2; 16], BEGIN + 1)
        .expect("a start");
    let name = long(BUDGET_NAME_BYTES_MAX);
    assert_eq!(again.add("k", 1).map(|_| ()), Ok(()));
    assert_eq!(again.quota_mut().flow(&name, Flow::Mint(1)), Ok(()));
    let third = restarted(&again, 3);
    assert_eq!(third.value("k"), Some(1));
    let value = |one: &Replica| one.quota().budget(&name).map(|it| it.value);
    assert_eq!((value(&third), value(&again)), (Some(11), Some(11)));
}

#[test]
fn as_many_members_as_may_be_are_stored() {
    let mut one = replica(1);
    one.members_mut()
        .found(&OWNER, &[1; 16], BEGIN)
        .expect("founded");
    let owner = |at: usize| {
        let mut owner = OWNER;
        owner[..2].copy_from_slice(&(at as u16).to_be_bytes());
        owner
    };
    let mut owners: Vec<[u8; 32]> = (0..MEMBERS_MAX - 1).map(owner).collect();
    owners.push(OWNER);
    let more = [&owners[..], &[[8; 32]]].concat();
    let members = MEMBERS_MAX + 1;
    assert_eq!(
        one.members_mut().force(&more),
        Err(MemberError::MembersFull { members }.into())
    );
    one.members_mut().force(&owners).expect("as many as may be");
    assert_eq!(one.add("k", 1).map(|_| ()), Ok(()));
    let again = restarted(&one, 2);
    assert_eq!(
        again.members().configuration(),
        one.members().configuration()
    );
    assert_eq!(
        again.members().configuration().map(|it| it.members.len()),
        Some(MEMBERS_MAX)
    );
}

#[test]
fn a_space_of_the_longest_name_is_stored() {
    let name = Space::new(&long(SPACE_BYTES_MAX)).expect("a name");
    assert!(Space::new(&long(SPACE_BYTES_MAX + 1)).is_err());
    let mut one = Replica::new(name.clone(), own(1));
    one.add("k", 1).expect("room");
    let stored = Message::decode_stored(&one.snapshot().encode_stored()).expect("stored");
    let again = Restoring::new(name, own(2)).finish(&stored).expect("taken");
    assert_eq!(again.value("k"), Some(1));
}

#[test]
fn what_a_peer_tells_under_one_idempotency_key_is_bounded() {
    let mut adds: Vec<KeyedAdd> = keyed_adds(KEYED_BYTES_MAX);
    let message = |adds: &[KeyedAdd]| {
        let mut message = made(0..1);
        message.closed = true;
        let by = crate::state::slot::Stamp {
            writer: 0,
            clock: 1,
        };
        let op = crate::message::KeyedOp {
            once: once(),
            by: Some(by),
            adds: adds.to_vec(),
        };
        message.keyed.stored().push(op);
        message.encode()
    };
    assert!(Message::decode(&message(&adds)).is_ok());
    adds.push(KeyedAdd {
        key: "~".into(),
        amount: 1,
        before: 0,
    });
    let bytes = message(&adds);
    let refused = Message::decode(&bytes).map_err(|error| error.code());
    assert_eq!(refused, Err("too_large"));
    // An earlier version took it, and stored it.
    assert!(Message::decode_stored(&bytes).is_ok());
}

fn long(bytes: usize) -> String {
    "n".repeat(bytes)
}

fn once() -> Once {
    Once::new(b"key", b"content")
}

fn gone(at: usize) -> WriterId {
    WriterId::from_bytes((at as u128).to_be_bytes())
}

fn longest_key(one: &mut Replica) {
    assert!(one.add(&long(KEY_BYTES_MAX + 1), 1).is_err());
    one.add(&long(KEY_BYTES_MAX), 1).expect("the longest key");
}

fn longest_budget(one: &mut Replica) {
    assert!(
        one.quota_mut()
            .flow(&long(BUDGET_NAME_BYTES_MAX + 1), Flow::Mint(1))
            .is_err()
    );
    one.quota_mut()
        .flow(&long(BUDGET_NAME_BYTES_MAX), Flow::Mint(10))
        .expect("the longest name");
}

fn leases(one: &mut Replica) {
    let name = long(LEASED_NAME_BYTES_MAX);
    one.quota_mut().flow(&name, Flow::Mint(10)).expect("minted");
    let mut transaction = one.begin().expect("begun");
    let mut lease = |byte: u8, ms: u64| {
        let id = LeaseId::from_bytes([byte; 16]);
        transaction.quota_mut().lease(&name, id, ms, 3).map(|_| ())
    };
    assert!(lease(1, LEASE_MS_MIN - 1).is_err() && lease(1, LEASE_MS_MAX + 1).is_err());
    assert_eq!(
        (lease(1, LEASE_MS_MIN), lease(2, LEASE_MS_MAX)),
        (Ok(()), Ok(()))
    );
    transaction.commit(&mut Vec::new());
    assert_eq!(one.quota().leases_of(&name).len(), 2);
}

/// Numbers may be given of what this replica has begun.
fn all_is_sure(one: &mut Replica, name: &str) {
    for (given, _) in one.quota_mut().look_at_sequence(name) {
        let sure = one
            .quota_mut()
            .numbers_are_sure(name, given, &mut Vec::new());
        sure.expect("held by all");
    }
}

fn begun(one: &mut Replica, name: &str) {
    one.quota_mut()
        .begin_sequence(name, &mut Vec::new())
        .expect("begun");
    all_is_sure(one, name);
}

/// How many numbers were given of those that are asked for.
fn given(one: &mut Replica, name: &str, count: u64) -> u64 {
    let own = one.writer();
    let given = one
        .quota_mut()
        .give_numbers(name, own, count, &mut Vec::new());
    all_is_sure(one, name);
    given.expect("a member gives")
}

fn longest_sequence(one: &mut Replica) {
    let longer = one
        .quota_mut()
        .begin_sequence(&long(SEQUENCE_NAME_BYTES_MAX + 1), &mut Vec::new());
    assert!(longer.is_err());
    begun(one, &long(SEQUENCE_NAME_BYTES_MAX));
}

fn last_number(one: &mut Replica) {
    begun(one, "last");
    let rest = SequenceKey {
        piece: Piece::Rest(one.writer()),
        name: "last",
    };
    let by = Op::Add(SEQUENCE_NUMBER_MAX.cast_signed() - 3);
    one.quota_mut()
        .make(&[(rest.key(), by)], &mut Vec::new())
        .expect("made");
    assert_eq!((given(one, "last", 100), given(one, "last", 1)), (3, 0));
}

fn many_numbers(one: &mut Replica) {
    begun(one, "many");
    let most = NUMBERS_AT_ONCE_MAX;
    assert_eq!(given(one, "many", most + 1), most);
}

fn watches(one: &mut Replica) {
    begun(one, "watched");
    for number in 1..=WATCHES_MAX as u64 {
        one.quota_mut()
            .watch_number("watched", number, &mut Vec::new())
            .expect("room");
    }
    let more = one
        .quota_mut()
        .watch_number("watched", SEQUENCE_NUMBER_MAX, &mut Vec::new());
    assert_eq!(more, Err(QuotaError::WatchesFull.into()));
}

fn rate_limits(one: &mut Replica) {
    let limit = |at: usize| Limit {
        name: match at {
            0 => "limited".to_string(),
            at => format!("{at:0width$}", width = LIMIT_NAME_BYTES_MAX),
        },
        limit: 10,
        period_ms: [PERIOD_MS_MAX, PERIOD_MS_MIN][at % 2],
        since: 0,
    };
    let limits: Vec<Limit> = (0..=LIMITS_MAX).map(limit).collect();
    assert!(one.quota_mut().propose_limits(&limits).is_err());
    one.quota_mut()
        .propose_limits(&limits[..LIMITS_MAX])
        .expect("as many as may be");
    let known = one.members().configuration().map(|it| it.limits.len());
    assert_eq!(known, Some(LIMITS_MAX));
}

fn longest_period(one: &mut Replica) {
    let key = |bytes: usize| format!("limited:{}", long(bytes - "limited:".len()));
    let longer = one
        .quota_mut()
        .allow(&key(PERIOD_KEY_BYTES_MAX + 1), 1, &mut Vec::new());
    assert!(longer.is_err());
    let longest = one
        .quota_mut()
        .allow(&key(PERIOD_KEY_BYTES_MAX), 1, &mut Vec::new());
    assert!(longest.is_ok() && one.quota().period_counters() > 0);
}

fn largest_transaction(one: &mut Replica) {
    let op = |at: usize| (format!("op{at}"), Op::Add(1));
    let ops: Vec<(String, Op)> = (0..=TRANSACTION_OPS_MAX).map(op).collect();
    let more = TRANSACTION_OPS_MAX + 1;
    let refused = Err(WriteError::TransactionTooLarge { ops: more }.into());
    assert_eq!(one.transact(&ops), refused);
    one.transact(&ops[..TRANSACTION_OPS_MAX])
        .expect("as many as may be");
}

fn latest_expiry(one: &mut Replica) {
    one.add("late", 1).expect("room");
    let at = EXPIRY_MAX + 1;
    assert_eq!(
        one.apply("late", Op::Expire(at)),
        Err(WriteError::ExpiryRange { at }.into())
    );
    one.apply("late", Op::Expire(EXPIRY_MAX))
        .expect("the last date");
}

fn forgotten(one: &mut Replica) {
    for at in 0..RETURNS_MAX + 2 {
        one.membership.remember(gone(at), at as u64);
    }
    assert_eq!(
        (
            one.members().retired_clock(&gone(1)),
            one.members().retired_clock(&gone(2))
        ),
        (None, Some(2))
    );
}

/// Adds that take so many bytes.
fn keyed_adds(bytes: usize) -> Vec<KeyedAdd> {
    let add = |key: String| KeyedAdd {
        key: key.into(),
        amount: 1,
        before: 0,
    };
    let mut adds: Vec<KeyedAdd> = (0..324).map(|at| add(format!("{at:0400}"))).collect();
    let taken = encode_adds(&adds).len();
    // A key of over 127 bytes has a length of two, as the others have.
    adds.push(add(format!("z{}", long(bytes - taken - 5))));
    assert_eq!(encode_adds(&adds).len(), bytes);
    adds
}

fn key(at: usize) -> Once {
    Once::new(&at.to_le_bytes(), b"content")
}

/// Fills bounds of the same kind that are smaller. An entry above them is refused, or pushes out another.
fn keys(one: &mut Replica) {
    one.keyed_mut().set_bounds(KeyedBounds {
        all: 20,
        guests: 15,
        ticket: 5,
        address: 10,
    });
    let made = core::cell::Cell::new(0);
    let ask = |one: &mut Replica, (ticket, address): (Option<u128>, u128), limited: bool| {
        let party = Party {
            ticket,
            address: Some(address),
        };
        let asker = Asker {
            party,
            limited,
            settled: 0,
        };
        let mut transaction = one.begin().expect("begun");
        transaction.apply("keyed", Op::Add(1)).expect("room");
        let done = transaction.commit_once_for(key(made.get()), Some(&asker), &mut Vec::new());
        made.set(made.get() + usize::from(done.is_ok()));
        done.map_err(|error| error.code())
    };
    for (who, limited, most) in [
        ((Some(1), 1), true, 5),
        ((None, 1), true, 10),
        ((None, 2), false, 5),
    ] {
        for _ in 0..most {
            assert_eq!(ask(one, who, limited), Ok(()));
        }
        let full = (who.1 == 1).then_some("keyed_full");
        assert_eq!(full.map(|_| ask(one, who, limited)), full.map(Err));
    }
    assert_eq!((one.keyed().count(), made.get()), (20, 20));
    // All places are taken, and those who hold most lose for others.
    for member in 3..8 {
        assert_eq!(ask(one, (None, member), false), Ok(()));
    }
    assert_eq!((one.keyed().count(), made.get()), (20, 25));
}

fn largest_keyed(one: &mut Replica) {
    let adds = keyed_adds(KEYED_BYTES_MAX);
    for more in [true, false] {
        let mut transaction = one.begin().expect("begun");
        for add in &adds {
            transaction.apply(&add.key, Op::Add(1)).expect("room");
        }
        if more {
            transaction.apply("~", Op::Add(1)).expect("room");
        }
        let done = transaction.commit_once(once(), &mut Vec::new());
        assert_eq!(done.is_err(), more);
    }
}
