//! Roles: which operations the role of this replica's owner allows.
//!
//! Peers reject operations beyond a role. So a replica with a role must not make such an operation. It would
//! be sent again and again, together with everything that was made after it.

use super::{MembersMut, Op, Replica};
use crate::error::{Error, ScopeError};
use crate::state::counter::Sum;

impl MembersMut<'_> {
    /// Lets this replica only add, as the role of a writer requires. An operation that cancels is rejected
    /// with [`ScopeError::BeyondRole`]. An add to an expired counter, which would have to be deleted first,
    /// is rejected with [`ScopeError::Expired`]. Earlier operations stay.
    pub fn set_adds_only(&mut self, adds_only: bool) {
        self.replica.adds_only = adds_only;
    }

    /// Says whether the [time](Replica::set_time) is only the own clock, which does not count: at a guest to which no
    /// member has told its time, and at a member that awaits the clock of another one. While it is, in a space with
    /// members, this replica ends no counter, period or lease: an operation on a counter that has
    /// expired by that clock is rejected with [`ScopeError::Expired`]. Reads go by that clock all the same. An open
    /// space is not affected.
    pub fn set_time_unsure(&mut self, unsure: bool) {
        self.replica.time_unsure = unsure;
    }
}

impl Replica {
    /// Rejects an operation that cancels, and an add that first has to cancel the counter's sum. This sum is
    /// the whole value, or an expiry that would end the new lifetime. Rejects any operation that would end a counter
    /// by a clock that does not count.
    pub(super) fn check_role(&self, op: Op, sum: &Sum) -> Result<(), Error> {
        let left = !sum.exists() && sum.until.is_some();
        let past = self.is_past(sum.expiry());
        match op {
            _ if past && self.is_time_unsure() => Err(ScopeError::Expired.into()),
            _ if !self.adds_only => Ok(()),
            Op::Add(_) if left || past => Err(ScopeError::Expired.into()),
            Op::Add(_) => Ok(()),
            _ => Err(ScopeError::BeyondRole.into()),
        }
    }

    /// Whether the time may end nothing here.
    pub(crate) fn is_time_unsure(&self) -> bool {
        self.time_unsure && self.membership.configuration().is_some()
    }

    /// Does something that may not fail for the time. Where the time may end nothing, nothing has expired meanwhile.
    pub(super) fn at_sure_time<T>(&mut self, act: impl FnOnce(&mut Replica) -> T) -> T {
        let time = self.state.time();
        if self.is_time_unsure() {
            self.state.set_time(0);
        }
        let done = act(self);
        self.state.set_time(time);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Space, WriterId};

    fn replica(byte: u8) -> Replica {
        Replica::new(Space::default(), WriterId::from_bytes([byte; 16]))
    }

    #[test]
    fn whoever_only_adds_cancels_nothing() {
        let mut one = replica(1);
        one.add("k", 1).unwrap();
        one.members_mut().set_adds_only(true);
        let before = one.canonical_bytes();
        for op in [
            Op::Reset,
            Op::Delete,
            Op::Set(5),
            Op::Expire(9),
            Op::Persist,
        ] {
            for key in ["k", "new"] {
                assert_eq!(
                    one.apply(key, op),
                    Err(ScopeError::BeyondRole.into()),
                    "{op:?}"
                );
                let both = [("k", Op::Add(1)), (key, op)];
                assert_eq!(
                    one.transact(&both),
                    Err(ScopeError::BeyondRole.into()),
                    "{op:?}"
                );
                let mut transaction = one.begin().unwrap();
                assert_eq!(
                    transaction.apply(key, op),
                    Err(ScopeError::BeyondRole.into())
                );
            }
            let key_id = one.key_id("k").unwrap();
            assert_eq!(
                one.apply_at(key_id, op),
                Err(ScopeError::BeyondRole.into()),
                "{op:?}"
            );
        }
        assert_eq!(one.canonical_bytes(), before);
        one.add("k", 1).unwrap();
        one.members_mut().set_adds_only(false);
        assert_eq!(one.apply("k", Op::Delete), Ok(true));
    }

    #[test]
    fn whoever_only_adds_deletes_nothing_that_has_expired() {
        let (mut one, mut two) = (replica(1), replica(2));
        two.add("k", 1).unwrap();
        two.apply("k", Op::Expire(1_000)).unwrap();
        one.merge(&two.snapshot()).unwrap();
        one.members_mut().set_adds_only(true);
        one.add("k", 1).unwrap();
        one.set_time(1_000);
        assert_eq!(one.value("k"), None);
        assert_eq!(
            one.add("k", 1).err(),
            Some(Error::Scope(ScopeError::Expired))
        );
        let key_id = one.key_id("k").unwrap();
        assert_eq!(one.materialize_expiry(key_id), Ok(false));
        one.members_mut().set_adds_only(false);
        assert_eq!(one.materialize_expiry(key_id), Ok(true));
        one.members_mut().set_adds_only(true);
        one.add("k", 7).unwrap();
        assert_eq!(one.value("k"), Some(7));
    }

    /// The expiry was made by a replica that had not seen the delete.
    #[test]
    fn whoever_only_adds_takes_no_expiry_away() {
        let (mut one, mut two) = (replica(1), replica(2));
        two.add("k", 1).unwrap();
        one.merge(&two.snapshot()).unwrap();
        two.apply("k", Op::Expire(1_000)).unwrap();
        one.apply("k", Op::Delete).unwrap();
        one.merge(&two.snapshot()).unwrap();
        let mut other = one.clone();
        one.members_mut().set_adds_only(true);
        let added = one.add("k", 7);
        other.add("k", 7).unwrap();
        let text = alloc::format!("{:?}", other.snapshot());
        match text.contains("lift: Some") {
            true => assert_eq!(added.err(), Some(Error::Scope(ScopeError::Expired))),
            false => assert!(added.is_ok(), "{text}"),
        }
    }
}
