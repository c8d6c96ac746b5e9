//! The amount of some rights that a member gives to a requesting member. It is pure arithmetic: docs/budgets.md
//! has the rules in words.

use crate::writer_id::WriterId;

/// A gift beyond the need raises the receiver to at most this multiple of its recent use.
pub(super) const AHEAD: u128 = 16;

/// A requester that waits gets at least this part of the remaining rest, because its later use is unknown at
/// first.
const START_PART: u64 = 32;

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// The giving writer and the requesting writer.
    pub(super) writers: (WriterId, WriterId),
    /// The amount that may be used here.
    pub(super) here: u64,
    /// The amount that callers wait for here.
    pub(super) needed: u64,
    /// The amount that was used here recently.
    pub(super) recent: u64,
    /// The amount that the requester holds, according to this replica. Recent gifts count.
    pub(super) theirs: u64,
    /// The amount that callers wait for at the requester and that it lacks.
    pub(super) need: u64,
    /// The amount that was used at the requester recently.
    pub(super) their_recent: u64,
}

impl Case {
    /// The amount that is given.
    pub(super) fn share(&self) -> u64 {
        let short = self.needed.saturating_sub(self.here);
        if short > 0 {
            // Callers wait at both. The member that lacks less gets all that it lacks first. It never gives
            // any back for the same wait, so rights do not move to and fro.
            let (own, other) = self.writers;
            let before = self.need > 0 && (self.need, other) < (short, own);
            return if before { self.need.min(self.here) } else { 0 };
        }
        let spare = self.here - self.needed;
        let served = self.need.min(spare);
        served + self.ahead(spare - served)
    }

    /// The part of the rest that is given ahead of use at the requester. It brings both near to their recent
    /// use, and is at most half of the rest.
    fn ahead(&self, rest: u64) -> u64 {
        let (own, other) = (u128::from(self.recent), u128::from(self.their_recent));
        if other == 0 {
            return 0;
        }
        let both = u128::from(rest) + u128::from(self.theirs);
        // Each of the factors is below 2^64.
        let fair = both.min(u128::from(u64::MAX)) * other / (own + other);
        let target = fair.min(AHEAD * other);
        let more = target.saturating_sub(u128::from(self.theirs));
        if self.need == 0 && more * 4 < target {
            return 0; // not worth a transaction
        }
        let more = more.min(u128::from(rest / 2)) as u64;
        match self.need {
            0 => more,
            _ => more.max(rest / START_PART),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> WriterId {
        WriterId::from_bytes([byte; 16])
    }

    /// The first one gives, the second one asks.
    fn case(here: u64, need: u64) -> Case {
        Case {
            writers: (id(1), id(2)),
            here,
            needed: 0,
            recent: 0,
            theirs: 0,
            need,
            their_recent: need,
        }
    }

    #[test]
    fn a_need_is_met_from_what_nobody_waits_for_and_the_last_unit_is_given_for_one_only() {
        let none_ahead = |it: Case| Case {
            their_recent: 0,
            ..it
        };
        assert_eq!(none_ahead(case(10, 4)).share(), 4);
        assert_eq!(none_ahead(case(3, 4)).share(), 3);
        let waited = |needed, here, need| Case {
            needed,
            ..none_ahead(case(here, need))
        };
        assert_eq!(waited(8, 10, 4).share(), 2);
        assert_eq!(waited(10, 10, 4).share(), 0);
        assert_eq!(case(1, 1).share(), 1);
        assert_eq!(
            Case {
                their_recent: 100,
                ..case(1, 0)
            }
            .share(),
            0
        );
    }

    #[test]
    fn of_two_who_wait_the_one_that_lacks_less_is_served_and_none_gives_back() {
        // Two units, one at each writer, and both writers want two: one gets both, whichever asks first.
        let two = |own, other| Case {
            writers: (id(own), id(other)),
            needed: 2,
            ..case(1, 1)
        };
        assert_eq!((two(1, 2).share(), two(2, 1).share()), (0, 1));
        let more = |needed| Case {
            needed,
            ..case(5, 3)
        };
        assert_eq!(
            (more(8).share(), more(9).share(), more(7).share()),
            (0, 3, 0)
        );
        assert_eq!(Case { need: 0, ..more(9) }.share(), 0);
    }

    #[test]
    fn what_is_given_ahead_follows_what_is_used_and_leaves_half() {
        let of = |recent, their_recent, theirs, need| Case {
            recent,
            their_recent,
            theirs,
            ..case(1_000, need)
        };
        // Nobody uses anything here: sixteen times what is used there, but no more than half.
        assert_eq!(of(0, 10, 0, 1).share(), 1 + 160);
        assert_eq!(of(0, 1_000, 0, 0).share(), 500);
        // A fourth is used there.
        assert_eq!(of(300, 100, 0, 0).share(), 250);
        assert_eq!(of(300, 100, 200, 0).share(), 100);
        // A requester that begins to use rights gets some to begin with, even if much is used here.
        assert_eq!(of(900, 1, 0, 1).share(), 1 + 31);
        assert_eq!(of(900, 1, 0, 0).share(), 1);
        // The requester holds nearly its part, or more.
        assert_eq!(of(300, 100, 250, 0).share(), 0);
        assert_eq!(of(300, 100, 900, 0).share(), 0);
        let most = u64::MAX / 2;
        let all = Case {
            here: most,
            recent: most,
            theirs: most,
            need: most,
            ..case(most, most)
        };
        assert_eq!(all.share(), most);
    }

    /// Two members that request from each other, without waiting callers, stop moving rights.
    #[test]
    fn rights_do_not_wander_between_two_who_use_as_much_as_ever() {
        for total in 0..200u64 {
            for recents in [(7, 5), (1, 100), (50, 50), (0, 3)] {
                let (mut held, recents) = ([total, 0], [recents.0, recents.1]);
                let mut moves = 0;
                for round in 0..40 {
                    let (from, to) = (round % 2, 1 - round % 2);
                    let given = Case {
                        here: held[from],
                        recent: recents[from],
                        theirs: held[to],
                        need: 0,
                        their_recent: recents[to],
                        ..case(0, 0)
                    };
                    let given = given.share();
                    held[from] -= given;
                    held[to] += given;
                    moves = if given > 0 { round } else { moves };
                }
                assert!(
                    moves < 16,
                    "{total} of {recents:?} moved still in round {moves}"
                );
            }
        }
    }
}
