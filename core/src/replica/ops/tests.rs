//! Which operations are refused, and which come to nothing.

use super::*;
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
        assert_eq!((replica.handle("k"), replica.clock()), (None, 0), "{op:?}");
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
        Err(Error::TransactionTooLarge { ops })
    );
    assert_eq!((replica.clock(), replica.value("k")), (0, None));
    assert!(replica.transact(&many[1..]).is_ok());
    let max = TRANSACTION_OPS_MAX as i128;
    assert_eq!((replica.clock(), replica.value("k")), (1, Some(max)));
}

#[test]
fn an_expiry_is_within_its_range() {
    let mut replica = replica();
    let handle = replica.add("k", 1).unwrap();
    for (key, exists) in [("k", true), ("absent", false)] {
        let refused = Err(Error::ExpiryRange { at: EXPIRY_MAX + 1 });
        assert_eq!(replica.apply(key, Op::Expire(EXPIRY_MAX + 1)), refused);
        assert_eq!(replica.apply(key, Op::Expire(EXPIRY_MAX)), Ok(exists));
    }
    assert_eq!(replica.expiry_at(handle), Some(EXPIRY_MAX));
}
