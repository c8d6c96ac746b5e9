//! Which operations are refused, and which come to nothing.

use super::*;
use crate::bounds::EXPIRY_MAX;
use crate::error::WriteError;
use crate::{Space, WriterId};
use alloc::vec;

fn replica() -> Replica {
    Replica::new(Space::default(), WriterId::from_bytes([1; 16]))
}

#[test]
fn what_does_nothing_leaves_no_key() {
    let mut replica = replica();
    for op in [Op::Delete, Op::Expire(5), Op::Persist] {
        assert_eq!(replica.apply("k", op), Ok(false), "{op:?}");
        assert_eq!((replica.key_id("k"), replica.clock()), (None, 0), "{op:?}");
    }
    for (op, key) in [(Op::Add(0), "a"), (Op::Reset, "b"), (Op::Set(0), "c")] {
        assert_eq!(replica.apply(key, op), Ok(false), "{op:?}");
        assert_eq!(replica.value(key), Some(0), "{op:?}");
    }
}

#[test]
fn a_transaction_has_so_many_operations() {
    let mut replica = replica();
    let ops = TRANSACTION_OPS_MAX + 1;
    let many = vec![("k", Op::Add(1)); ops];
    assert_eq!(
        replica.transact(&many),
        Err(WriteError::TransactionTooLarge { ops }.into())
    );
    assert_eq!((replica.clock(), replica.value("k")), (0, None));
    assert!(replica.transact(&many[1..]).is_ok());
    let max = TRANSACTION_OPS_MAX as i128;
    assert_eq!((replica.clock(), replica.value("k")), (1, Some(max)));
}

#[test]
fn an_expiry_is_within_its_range() {
    let mut replica = replica();
    let key_id = replica.add("k", 1).unwrap();
    for (key, exists) in [("k", true), ("absent", false)] {
        let refused = Err(Error::Write(WriteError::ExpiryRange { at: EXPIRY_MAX + 1 }));
        assert_eq!(replica.apply(key, Op::Expire(EXPIRY_MAX + 1)), refused);
        assert_eq!(replica.apply(key, Op::Expire(EXPIRY_MAX)), Ok(exists));
    }
    assert_eq!(replica.expiry_at(key_id), Some(EXPIRY_MAX));
}

/// It does what a transaction does, or nothing.
#[cfg(feature = "members")]
#[test]
fn adds_together_are_a_transaction() {
    let other = {
        let mut other = Replica::new(Space::default(), WriterId::from_bytes([2; 16]));
        for key in ["a", "b", "theirs"] {
            other.add(key, 10).unwrap();
        }
        match other.push(&mut Default::default()) {
            crate::replica::Push::Message(message) => message,
            _ => panic!("there is something"),
        }
    };
    let fresh = |is_closed: bool| {
        let mut replica = replica();
        if is_closed {
            replica.members_mut().found(&[1; 32], &[0; 16], 1).unwrap();
        }
        for key in ["a", "b", "odd", "large"] {
            replica.add(key, 1).unwrap();
        }
        if !is_closed {
            replica.merge(&other).unwrap();
        }
        replica.apply("odd", Op::Set(5)).unwrap();
        replica.add("large", i64::MAX / 2).unwrap();
        replica
    };
    for is_closed in [false, true] {
        let (mut one, mut two) = (fresh(is_closed), fresh(is_closed));
        let adds = [("a", 3), ("b", -4), ("a", 5)];
        let mut transaction = two.begin().unwrap();
        for (key, by) in adds {
            transaction.apply(key, Op::Add(by)).unwrap();
        }
        transaction.commit(&mut Vec::new());
        let by_key_ids = adds.map(|(key, by)| (one.key_id(key).unwrap(), by));
        assert!(one.add_together(&by_key_ids));
        assert_eq!(one.canonical_bytes(), two.canonical_bytes());
        assert_eq!(one.clock(), two.clock());
        assert_eq!(
            one.snapshot(),
            two.snapshot(),
            "and so it is for its keeper"
        );
        let before = one.snapshot();
        for (key, by) in [("odd", 1), ("large", 1), ("a", i64::MAX), ("theirs", 1)] {
            let Some(key_id) = one.key_id(key) else {
                continue;
            };
            assert!(!one.add_together(&[by_key_ids[0], (key_id, by)]), "{key}");
        }
        let too_many = vec![by_key_ids[0]; TRANSACTION_OPS_MAX + 1];
        assert!(!one.add_together(&too_many));
        assert!(one.add_together(&[]));
        assert_eq!(one.snapshot(), before, "nothing is changed then");
    }
}
