//! Budgets at two members and a guest.

mod retirement;

use super::*;
use crate::error::Rule;
use crate::error::{DecodeError, MemberError, QuotaError, WriteError};
use crate::message::Message;
use crate::once::Once;
use crate::replica::Replica;
pub(super) use crate::replica::collect::tests::space;
use crate::state::vector::VersionVector;
use crate::wire::Encode;
use crate::{Evidence, Space, WriterId};
use alloc::string::{String, ToString};
use alloc::vec;

/// Tells one all that another has.
pub(crate) fn pass(from: &Replica, to: &mut Replica) {
    let message = from.delta(&to.keyed().vector());
    let message = Message::decode(&message.encode()).unwrap();
    to.merge_with(&message, Some(from.writer()), &mut |_| ())
        .unwrap();
    to.idempotency
        .withdraw(&mut to.state, &mut to.membership, &mut |_, _| ())
        .unwrap();
}

/// Two members that know of each other's all.
pub(crate) fn members() -> [Replica; 2] {
    let [mut one, two, mut tab] = space();
    pass(&one, &mut tab);
    tab.members_mut().leave().unwrap();
    pass(&tab, &mut one);
    let mut both = [one, two];
    settle(&mut both);
    both
}

/// The amount here, the pending amount, and the amount elsewhere.
pub(in crate::quota) fn rights(replica: &Replica, name: &str) -> (i128, i128, i128) {
    let held = replica.quota().budget(name).unwrap().rights;
    (held.here, held.pending, held.elsewhere)
}

pub(in crate::quota) fn value(replica: &Replica, name: &str) -> i128 {
    replica.quota().budget(name).unwrap().value
}

fn short(asked: u64, here: i128, elsewhere: i128) -> Box<Short> {
    let held = Holding {
        here,
        pending: 0,
        elsewhere,
    };
    Box::new(Short { asked, held })
}

/// The rights add up to the value less the floor, and the room to the cap less the value.
pub(in crate::quota) fn check_sums(replica: &Replica) {
    let mut names: Vec<String> = Vec::new();
    replica
        .quota()
        .each_budget(&mut |name| names.push(name.into()));
    for name in names {
        let budget = replica.quota().budget(&name).unwrap();
        let holders = replica.quota().holders_of(&name);
        let rights: i128 = holders.iter().map(|it| it.rights + it.leased).sum();
        let room: i128 = holders.iter().map(|it| it.room).sum();
        assert_eq!(rights, budget.value - budget.floor, "{name}");
        assert_eq!(room, budget.cap.map_or(0, |cap| cap - budget.value));
        let least = |it: &Holder| it.rights.min(it.leased).min(it.room);
        assert!(holders.iter().all(|it| least(it) >= 0));
    }
}

#[test]
fn what_is_held_here_can_be_spent_and_no_more() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.quota_mut().flow("gift", Flow::Spend(4)).unwrap();
    pass(&one, &mut two);
    for replica in [&one, &two] {
        assert_eq!(value(replica, "gift"), 6);
        check_sums(replica);
    }
    assert_eq!(rights(&one, "gift"), (6, 0, 0));
    assert_eq!(rights(&two, "gift"), (0, 0, 6));
    let refused = two.quota_mut().flow("gift", Flow::Spend(1));
    assert_eq!(refused, Err(QuotaError::RightsShort(short(1, 0, 6)).into()));
    let refused = one.quota_mut().flow("gift", Flow::Spend(7)).unwrap_err();
    assert_eq!(
        refused,
        Error::Quota(QuotaError::RightsShort(short(7, 6, 0)))
    );
    assert_eq!(
        (refused.code(), refused.to_string()),
        (
            "rights_short",
            "7 are asked for, and 6 are held here, 0 elsewhere as far as is known here".into()
        )
    );
    let to = two.writer();
    one.quota_mut()
        .flow("gift", Flow::Grant { to, amount: 5 })
        .unwrap();
    assert_eq!(rights(&one, "gift"), (1, 0, 5));
    pass(&one, &mut two);
    assert_eq!(rights(&two, "gift"), (5, 0, 1));
    two.quota_mut().flow("gift", Flow::Spend(5)).unwrap();
    one.quota_mut().flow("gift", Flow::Spend(1)).unwrap();
    pass(&two, &mut one);
    assert_eq!((value(&one, "gift"), rights(&one, "gift")), (0, (0, 0, 0)));
    let holders = one.quota().holders_of("gift");
    let writers: Vec<WriterId> = holders.iter().map(|it| it.writer).collect();
    let mut both = vec![one.writer(), two.writer()];
    both.sort_unstable();
    assert_eq!(writers, both);
    check_sums(&one);
}

#[test]
fn what_is_refused_changes_nothing() {
    let [mut one, two, mut tab] = space();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.quota_mut().flow("capped", Flow::RaiseCap(10)).unwrap();
    one.add("counter", 1).unwrap();
    let (own, to) = (one.writer(), two.writer());
    let before = (one.canonical_bytes(), one.clock());
    let over = 1 << 63;
    let long = "x".repeat(478);
    let kind = |kind| Error::Quota(QuotaError::WrongKind { kind });
    for (name, flow, error) in [
        (
            "gift",
            Flow::Mint(over),
            Error::Quota(QuotaError::AmountRange { amount: over }),
        ),
        (
            "gift",
            Flow::Mint((1 << 63) - 1),
            Error::Write(WriteError::Overflow {
                total: 10,
                by: i64::MAX,
            }),
        ),
        ("none", Flow::Spend(0), Error::Quota(QuotaError::NoBudget)),
        (
            "none",
            Flow::Grant { to, amount: 0 },
            Error::Quota(QuotaError::NoBudget),
        ),
        (
            "gift",
            Flow::Grant { to: own, amount: 1 },
            Error::Member(MemberError::UnknownWriter { writer: own }),
        ),
        (
            "gift",
            Flow::Grant {
                to: tab.writer(),
                amount: 1,
            },
            Error::Member(MemberError::UnknownWriter {
                writer: tab.writer(),
            }),
        ),
        (
            "gift",
            Flow::RaiseFloor(11),
            Error::Quota(QuotaError::RightsShort(short(11, 10, 0))),
        ),
        ("gift", Flow::RaiseCap(1), kind(Kind::Budget)),
        ("gift", Flow::LowerCap(0), kind(Kind::Budget)),
        (
            "gift",
            Flow::GrantRoom { to, amount: 0 },
            kind(Kind::Budget),
        ),
        (
            "capped",
            Flow::Mint(11),
            Error::Quota(QuotaError::RoomShort(short(11, 10, 0))),
        ),
        (
            "capped",
            Flow::LowerCap(11),
            Error::Quota(QuotaError::RoomShort(short(11, 10, 0))),
        ),
        ("counter", Flow::Mint(1), kind(Kind::Counter)),
        ("counter", Flow::Spend(1), kind(Kind::Counter)),
        (
            "",
            Flow::Mint(1),
            Error::Write(WriteError::KeyLength { bytes: 0 }),
        ),
        (
            "\0bvx",
            Flow::Mint(1),
            Error::Quota(QuotaError::ReservedKey),
        ),
    ] {
        assert_eq!(
            one.quota_mut().flow(name, flow),
            Err(error),
            "{name} {flow:?}"
        );
        assert_eq!((one.canonical_bytes(), one.clock()), before);
    }
    let refused = one.quota_mut().flow(&long, Flow::Mint(1));
    assert_eq!(refused.unwrap_err().code(), "too_large");
    one.quota_mut().flow(&long[..477], Flow::Mint(1)).unwrap();
    // Only members hold anything.
    pass(&one, &mut tab);
    assert_eq!(
        tab.quota_mut().flow("gift", Flow::Mint(1)),
        Err(MemberError::NotAMember.into())
    );
    assert_eq!(value(&tab, "gift"), 10);
    let mut open = Replica::new(Space::default(), own);
    assert_eq!(
        open.quota_mut().flow("gift", Flow::Mint(1)),
        Err(MemberError::NotAMember.into())
    );
}

#[test]
fn a_floor_and_a_cap_are_held_from_both_sides() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("debt", Flow::LowerFloor(5)).unwrap();
    one.quota_mut().flow("debt", Flow::Spend(5)).unwrap();
    assert_eq!(value(&one, "debt"), -5);
    assert!(one.quota_mut().flow("debt", Flow::Spend(1)).is_err());
    one.quota_mut().flow("debt", Flow::Mint(3)).unwrap();
    one.quota_mut().flow("debt", Flow::RaiseFloor(2)).unwrap();
    let debt = one.quota().budget("debt").unwrap();
    assert_eq!((debt.value, debt.floor, debt.cap), (-2, -3, None));
    assert_eq!(rights(&one, "debt"), (1, 0, 0));

    one.quota_mut().flow("seats", Flow::RaiseCap(10)).unwrap();
    one.quota_mut().flow("seats", Flow::Mint(8)).unwrap();
    one.quota_mut().flow("seats", Flow::LowerCap(1)).unwrap();
    let to = two.writer();
    one.quota_mut()
        .flow("seats", Flow::Grant { to, amount: 6 })
        .unwrap();
    pass(&one, &mut two);
    assert_eq!(
        two.quota_mut().flow("seats", Flow::Mint(1)),
        Err(QuotaError::RoomShort(short(1, 0, 1)).into())
    );
    two.quota_mut().flow("seats", Flow::Spend(6)).unwrap();
    two.quota_mut().flow("seats", Flow::Mint(1)).unwrap();
    let to = one.writer();
    two.quota_mut()
        .flow("seats", Flow::GrantRoom { to, amount: 4 })
        .unwrap();
    pass(&two, &mut one);
    let seats = one.quota().budget("seats").unwrap();
    assert_eq!((seats.value, seats.floor, seats.cap), (3, 0, Some(9)));
    let room = seats.room.unwrap();
    assert_eq!((room.here, room.elsewhere), (5, 1));
    one.quota_mut().flow("seats", Flow::Mint(5)).unwrap();
    assert!(one.quota_mut().flow("seats", Flow::Mint(1)).is_err());
    check_sums(&one);
    check_sums(&two);
}

#[test]
fn a_transfer_is_made_as_a_whole_or_not_at_all() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("till", Flow::Mint(100)).unwrap();
    one.quota_mut().flow("bonus", Flow::Mint(0)).unwrap();
    let mut transaction = one.begin().unwrap();
    transaction.apply("sales", Op::Add(1)).unwrap();
    transaction
        .quota_mut()
        .transfer("till", &[("bonus", 7), ("tax", 3)])
        .unwrap();
    transaction.commit(&mut Vec::new());
    pass(&one, &mut two);
    let values = ["till", "bonus", "tax"].map(|name| value(&two, name));
    assert_eq!((values, two.value("sales")), ([90, 7, 3], Some(1)));
    check_sums(&two);
    // The last share is too much, and what came before it is taken back.
    let before = one.canonical_bytes();
    let mut transaction = one.begin().unwrap();
    let max = i64::MAX as u64;
    for shares in [
        vec![("new", 5), ("", 1)],
        vec![("new", 91)],
        vec![("new", max), ("tax", max)],
        vec![("tax", 1), ("sales", 1)],
    ] {
        assert!(
            transaction.quota_mut().transfer("till", &shares).is_err(),
            "{shares:?}"
        );
        assert_eq!(
            transaction.value(
                &Account {
                    capped: false,
                    part: Part::Value,
                    name: "till"
                }
                .key()
            ),
            Some(90)
        );
    }
    transaction.commit(&mut Vec::new());
    assert_eq!(one.canonical_bytes(), before);
    assert_eq!(one.quota().kind_of("new"), None);
    // A later operation may spend what an earlier one brought.
    let mut transaction = one.begin().unwrap();
    transaction
        .quota_mut()
        .transfer("till", &[("new", 90)])
        .unwrap();
    transaction
        .quota_mut()
        .flow("new", Flow::Spend(90))
        .unwrap();
    assert!(transaction.quota_mut().flow("new", Flow::Spend(1)).is_err());
    transaction.commit(&mut Vec::new());
    assert_eq!((value(&one, "till"), value(&one, "new")), (0, 0));
    check_sums(&one);
}

#[test]
fn an_operation_of_another_kind_is_refused() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.add("counter", 1).unwrap();
    let before = one.canonical_bytes();
    let refused = Err(Error::Quota(QuotaError::WrongKind { kind: Kind::Budget }));
    let key_id = one.intern("gift").unwrap();
    for op in [
        Op::Add(1),
        Op::Reset,
        Op::Set(1),
        Op::Delete,
        Op::Expire(9),
        Op::Persist,
    ] {
        assert_eq!(one.apply("gift", op), refused, "{op:?}");
        assert_eq!(one.apply_at(key_id, op), refused, "{op:?}");
        let reserved = Err(Error::Quota(QuotaError::ReservedKey));
        assert_eq!(one.apply("\0bvgift", op), reserved);
        let part = one.key_id("\0bvgift").unwrap();
        assert_eq!(one.apply_at(part, op), reserved);
    }
    assert_eq!(one.add("gift", 1).err(), refused.err());
    assert_eq!(
        one.add_at(key_id, 1),
        Err(QuotaError::WrongKind { kind: Kind::Budget }.into())
    );
    assert_eq!(
        one.add("\0new", 1).err(),
        Some(Error::Quota(QuotaError::ReservedKey))
    );
    assert_eq!(
        one.add("\0bvgift", 1).err(),
        Some(Error::Quota(QuotaError::ReservedKey))
    );
    let part = one.key_id("\0bvgift").unwrap();
    assert_eq!(one.add_at(part, 1), Err(QuotaError::ReservedKey.into()));
    assert_eq!(one.canonical_bytes(), before);
    let kinds = ["gift", "counter", "none"].map(|name| one.quota().kind_of(name));
    assert_eq!(kinds, [Some(Kind::Budget), Some(Kind::Counter), None]);
    // Two who had not heard of each other: each keeps what it is.
    two.add("gift", 3).unwrap();
    two.quota_mut().flow("counter", Flow::RaiseCap(1)).unwrap();
    pass(&two, &mut one);
    assert_eq!((one.value("gift"), value(&one, "gift")), (Some(3), 10));
    one.add("gift", 1).unwrap();
    one.quota_mut().flow("gift", Flow::Spend(1)).unwrap();
    assert_eq!((one.value("gift"), value(&one, "gift")), (Some(4), 9));
    assert_eq!(one.quota().kind_of("counter"), Some(Kind::CappedBudget));
}

#[test]
fn of_two_budgets_of_a_name_the_one_with_a_cap_goes_first() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    two.quota_mut().flow("gift", Flow::RaiseCap(3)).unwrap();
    pass(&two, &mut one);
    assert_eq!(one.quota().budget("gift").unwrap().cap, Some(3));
    let mut names = 0;
    one.quota()
        .each_budget(&mut |name| names += usize::from(name == "gift"));
    assert_eq!(names, 2);
}

#[test]
fn budgets_are_no_counters() {
    let [mut one, mut two, _] = space();
    let before: Vec<String> = one.counters().map(|it| it.1.into()).collect();
    let len = one.len();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    one.quota_mut().flow("seats", Flow::RaiseCap(10)).unwrap();
    let mut changed = Vec::new();
    let message = one.delta(&two.vector());
    two.merge_with(&message, Some(one.writer()), &mut |key_id| {
        changed.push(key_id)
    })
    .unwrap();
    let mut named: Vec<&str> = changed
        .iter()
        .filter_map(|it| two.quota().budget_at(*it))
        .collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named, ["gift", "seats"]);
    for replica in [&one, &two] {
        let mut counters = replica.counters().map(|it| it.1);
        assert!(counters.all(|key| before.iter().any(|it| it == key)));
        assert_eq!((replica.len(), replica.is_empty()), (len, len == 0));
        let mut key_ids = 0;
        replica.each_counter(&mut |_| key_ids += 1);
        assert_eq!(key_ids, len);
        let mut names = Vec::new();
        replica
            .quota()
            .each_budget(&mut |name| names.push(String::from(name)));
        names.sort_unstable();
        assert_eq!(names, ["gift", "seats"]);
    }
    assert_eq!(one.quota().budget_at(one.key_id("k").unwrap()), None);
}

/// Nobody brings rights along into a space that gets members later.
#[test]
fn a_space_without_members_takes_no_budgets() {
    let [mut one, _] = members();
    one.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    let mut message = one.delta(&VersionVector::default());
    let told = Message::decode(&message.encode());
    assert_eq!(told.as_ref(), Ok(&message));
    (message.closed, message.complete) = (false, false);
    (message.records, message.without_keys) = Default::default();
    let refused = Message::decode(&message.encode());
    let rule = Rule::OpenBudget;
    assert_eq!(refused, Err(DecodeError::Malformed { rule }.into()));
}

fn once(key: &str) -> Once {
    Once::new(key.as_bytes(), b"")
}

pub(in crate::quota) fn flow_once(replica: &mut Replica, key: &str, flows: &[(&str, Flow)]) {
    let mut transaction = replica.begin().unwrap();
    for (name, flow) in flows {
        transaction.quota_mut().flow(name, *flow).unwrap();
    }
    transaction.commit_once(once(key), &mut Vec::new()).unwrap();
}

/// All acknowledge all.
pub(in crate::quota) fn settle(replicas: &mut [Replica]) {
    for _ in 0..6 {
        for from in 0..replicas.len() {
            replicas[from].members_mut().retire().unwrap();
            replicas[from]
                .quota_mut()
                .end_leases(&mut Vec::new())
                .unwrap();
            replicas[from].members_mut().acknowledge().unwrap();
            let mark = replicas[from].mark();
            replicas[from].members_mut().collect(&mark);
            for to in (0..replicas.len()).filter(|to| *to != from) {
                let told = replicas[from].clone();
                pass(&told, &mut replicas[to]);
            }
        }
    }
}

#[test]
fn a_spend_that_two_made_under_one_key_gives_its_rights_back_once() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("gift", Flow::Mint(20)).unwrap();
    let to = two.writer();
    one.quota_mut()
        .flow("gift", Flow::Grant { to, amount: 10 })
        .unwrap();
    pass(&one, &mut two);
    flow_once(&mut one, "order", &[("gift", Flow::Spend(6))]);
    flow_once(&mut two, "order", &[("gift", Flow::Spend(6))]);
    assert_eq!((value(&one, "gift"), value(&two, "gift")), (14, 14));
    let mut both = [one, two];
    settle(&mut both);
    let mut here: Vec<i128> = both.iter().map(|it| rights(it, "gift").0).collect();
    here.sort_unstable();
    assert_eq!((value(&both[0], "gift"), here), (14, vec![4, 10]));
    check_sums(&both[0]);
    assert_eq!(both[0].canonical_bytes(), both[1].canonical_bytes());
}

#[test]
fn what_came_in_under_a_key_is_spent_once_all_know_of_it() {
    let [mut one, mut two] = members();
    let mint = [("gift", Flow::Mint(10))];
    flow_once(&mut one, "pay", &mint);
    flow_once(&mut two, "pay", &mint);
    for replica in [&mut one, &mut two] {
        assert_eq!(
            (value(replica, "gift"), rights(replica, "gift")),
            (10, (0, 10, 0))
        );
        let refused = replica
            .quota_mut()
            .flow("gift", Flow::Spend(1))
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "1 are asked for, and 0 are held here, 10 more once all members know of them, 0 elsewhere as far as is known here"
        );
        // An amount that arrives without a key can be spent.
        replica.quota_mut().flow("gift", Flow::Mint(2)).unwrap();
        replica.quota_mut().flow("gift", Flow::Spend(1)).unwrap();
    }
    let mut both = [one, two];
    settle(&mut both);
    let mut here: Vec<(i128, i128)> = both
        .iter()
        .map(|it| (rights(it, "gift").0, rights(it, "gift").1))
        .collect();
    here.sort_unstable();
    assert_eq!((value(&both[0], "gift"), here), (12, vec![(1, 0), (11, 0)]));
    check_sums(&both[0]);
    assert!(both.iter().all(|it| it.quota.pending.is_empty()));
}

#[test]
fn what_a_transfer_under_a_key_brings_is_pending_and_what_it_spends_is_gone() {
    let [mut one, mut two] = members();
    one.quota_mut().flow("till", Flow::Mint(10)).unwrap();
    let cashback = [("till", Flow::Spend(4)), ("bonus", Flow::Mint(4))];
    flow_once(&mut one, "order", &cashback);
    assert_eq!(rights(&one, "till"), (6, 0, 0));
    assert_eq!(rights(&one, "bonus"), (0, 4, 0));
    // An amount that a transaction itself brings and spends is not pending.
    flow_once(
        &mut one,
        "net",
        &[("net", Flow::Mint(5)), ("net", Flow::Spend(5))],
    );
    assert_eq!(rights(&one, "net"), (0, 0, 0));
    pass(&one, &mut two);
    let mut both = [one, two];
    settle(&mut both);
    assert_eq!(rights(&both[0], "bonus"), (4, 0, 0));
}

/// Two processes that write under one id: each spends what the writer held.
#[test]
fn an_overdrawn_account_is_a_fault() {
    let [mut one, mut two] = members();
    two.quota_mut().flow("gift", Flow::Mint(10)).unwrap();
    let to = one.writer();
    two.quota_mut()
        .flow("gift", Flow::Grant { to, amount: 10 })
        .unwrap();
    pass(&two, &mut one);
    // A member that lies.
    let key = Account {
        capped: false,
        part: Part::Rights(one.writer()),
        name: "gift",
    }
    .key();
    let key_id = one.key_id(&key).unwrap();
    let clock = one.membership.next_clock(&one.state).unwrap();
    let mut drafts = Vec::new();
    one.state.draft_of(&mut drafts, key_id);
    one.step(&mut drafts[0], clock, Op::Add(-11), &mut Default::default())
        .unwrap();
    one.commit(clock, &mut drafts[0]);
    pass(&one, &mut two);
    let fault = &two.forks().faults()[0];
    assert_eq!((two.forks().fault_count(), fault.writer), (1, one.writer()));
    let name = "gift".into();
    assert_eq!(fault.evidence, Evidence::Overdrawn { name, held: -1 });
    assert_eq!(
        one.quota_mut().flow("gift", Flow::Spend(1)),
        Err(QuotaError::RightsShort(short(1, -1, 11)).into())
    );
}

/// Steps of an operation are not counted, and the operation is.
#[test]
fn a_transaction_has_so_many_operations_on_budgets_and_no_more() {
    use crate::bounds::TRANSACTION_OPS_MAX;
    let mut one = Replica::new(Space::default(), WriterId::from_bytes([1; 16]));
    let mut transaction = one.begin().unwrap();
    for _ in 0..TRANSACTION_OPS_MAX {
        transaction.count_op().unwrap();
    }
    let ops = TRANSACTION_OPS_MAX + 1;
    let full = Err(WriteError::TransactionTooLarge { ops }.into());
    assert_eq!(transaction.count_op(), full);
}
