//! The judgement of *ends*: which of them are in force, and which a refresh made void.
//!
//! An *expiry* is a time that a user set. An *end* is the operation that carries it out. In a space with members
//! it is a record of its own (`Expired` in `state/slot.rs`), which names what its issuer saw of the counter.
//! Beyond [`EXPIRED_MAX`](crate::bounds::EXPIRED_MAX), and in a transaction that changed the counter before, an
//! end is a plain delete. A *refresh* is an expire or a persist.
//!
//! **The rule.** Each end has a time, which is greater than the time of each undecided end in force that its
//! issuer saw. (An end that was [decided](crate::replica::expiries) is watermarks, and judged no more.) The ends
//! of one counter are judged from the greatest time down. One of them is void in either case:
//! 1. It is spared: somebody saw it void, and then refreshed the counter, ended it, began a lifetime, or decided.
//! 2. A refresh that still stands is later than its time. Neither issuer had seen the other operation. And no
//!    end that was found to be in force had seen the refresh.
//!
//! Every other end is in force, and cancels what its issuer saw, as a delete does.
//!
//! A refresh notes its *floor*: the greatest time of an undecided end in force that its issuer saw. So a refresh
//! saves nothing from an end of an earlier lifetime, also where the issuer of that one did not know better. The
//! floor also tells whether the refresh had seen an end: had it seen one in force, its floor would be no less
//! than the end's time; had it seen one void, the end would be spared.
//!
//! The rule names no replica's clock. So clocks that are wrong by hours cost no more than a late end. The rule
//! and its counter-examples are checked by brute force, in `tests/src/retirement/configs/refreshes.rs`.

use crate::sort::sort_by;
use crate::writer_id::WriterId;
use alloc::vec::Vec;

/// An end, as far as the judgement needs it. Two of them are ordered by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ended {
    /// Milliseconds since 1970, and more than the time of each undecided end in force that the issuer saw.
    pub(crate) time: u64,
    /// The issuer's clock.
    pub(crate) clock: u64,
    pub(crate) issuer: WriterId,
    /// Whether it was spared.
    pub(crate) spared: bool,
}

/// A refresh that still stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refresh {
    /// Milliseconds since 1970, and the greatest number for a persist.
    pub(crate) until: u64,
    /// The greatest time of an undecided end in force that its issuer saw, 0 for none.
    pub(crate) floor: u64,
}

/// Returns which of the ends are in force, in their order. `saw` tells whether the issuer of an end had
/// seen a refresh, both given by their places.
pub(crate) fn in_force(
    ended: &[Ended],
    refreshes: &[Refresh],
    saw: &dyn Fn(usize, usize) -> bool,
) -> Vec<bool> {
    let mut order: Vec<u32> = (0..ended.len() as u32).collect();
    sort_by(&mut order, &|a, b| {
        ended[b as usize].cmp(&ended[a as usize])
    });
    let mut in_force = alloc::vec![false; ended.len()];
    for at in order {
        let at = at as usize;
        let Ended { time, spared, .. } = ended[at];
        let saves = |(nth, it): (usize, &Refresh)| {
            it.floor < time
                && time < it.until
                && !saw(at, nth)
                && !(0..ended.len()).any(|other| in_force[other] && saw(other, nth))
        };
        in_force[at] = !spared && !refreshes.iter().enumerate().any(saves);
    }
    in_force
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(time: u64, issuer: u8) -> Ended {
        Ended {
            time,
            clock: 1,
            issuer: WriterId::from_bytes([issuer; 16]),
            spared: false,
        }
    }

    fn refresh(until: u64, floor: u64) -> Refresh {
        Refresh { until, floor }
    }

    #[test]
    fn a_later_refresh_that_was_not_seen_makes_an_expiry_void() {
        let judge =
            |it: Ended, refresh: Refresh, saw: bool| in_force(&[it], &[refresh], &|_, _| saw)[0];
        for (until, floor, saw, holds) in [
            (20, 0, false, false),
            (20, 0, true, true),
            // An equal time is no later one.
            (10, 0, false, true),
            (11, 0, false, false),
            // A refresh of a later lifetime saves nothing of this one.
            (20, 10, false, true),
            (20, 9, false, false),
            (u64::MAX, 0, false, false),
        ] {
            let it = judge(ended(10, 1), refresh(until, floor), saw);
            assert_eq!(it, holds, "{until} {floor} {saw}");
        }
        let spared = Ended {
            spared: true,
            ..ended(10, 1)
        };
        assert!(!in_force(&[spared], &[], &|_, _| false)[0]);
    }

    #[test]
    fn a_refresh_that_an_expiry_in_force_had_seen_saves_none() {
        // The second one had seen the refresh. It is judged first, because its time is the greater one.
        let both = [ended(10, 1), ended(20, 2)];
        let saw = |at: usize, _: usize| at == 1;
        assert_eq!(in_force(&both, &[refresh(50, 0)], &saw), [true, true]);
        // Another refresh makes the second one void, and then the first refresh counts.
        let refreshes = [refresh(50, 0), refresh(60, 0)];
        let saw = |at: usize, nth: usize| (at, nth) == (1, 0);
        assert_eq!(in_force(&both, &refreshes, &saw), [false, false]);
    }

    #[test]
    fn equal_times_are_judged_by_the_clock_and_the_writer() {
        // Only the one that is judged later is touched by what the other one had seen.
        let both = [ended(10, 1), ended(10, 2)];
        let saw = |at: usize, _: usize| at == 0;
        assert_eq!(in_force(&both, &[refresh(50, 0)], &saw), [true, false]);
        let saw = |at: usize, _: usize| at == 1;
        assert_eq!(in_force(&both, &[refresh(50, 0)], &saw), [true, true]);
    }
}
