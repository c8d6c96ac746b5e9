//! When a member requests acknowledgements that nobody waits for.
//!
//! Members acknowledge each other's transactions when a member waits for that: to collect something, or for
//! a level. After a split was healed, each of them may have asked before it had everything of the others.
//! Then what came later stays unacknowledged until the next request. In a mesh in which nobody writes, a
//! member requests that by itself, so that an operator sees when the members have caught up.

use tallymesh_core::Member;

/// The shortest wait between two requests, in milliseconds. It doubles up to its limit while a request
/// changes nothing.
const WAIT_MIN_MS: u64 = 1_000;
const WAIT_MAX_MS: u64 = 60_000;

/// What was seen at the last look at the members.
#[derive(Default)]
pub(super) struct Quiet {
    /// The sum of the members' clocks.
    written: u64,
    wait: u64,
    next: u64,
}

impl Quiet {
    /// Looks at the members. Returns whether to request acknowledgements: nobody has written since the
    /// last look, and more is unacknowledged than acknowledgements themselves leave.
    pub(super) fn look(&mut self, members: &[Member], now: u64) -> bool {
        let clocks = members.iter().map(|member| member.clock);
        let written = clocks.fold(0, u64::wrapping_add);
        let is_quiet = std::mem::replace(&mut self.written, written) == written;
        let behind = members.iter().map(|member| member.behind).max();
        // A round of acknowledgements is a transaction or two of each member.
        if behind.unwrap_or(0) <= 4 * (members.len() as u64 + 1) {
            self.wait = 0;
            return false;
        }
        if !is_quiet || now < self.next {
            return false;
        }
        self.wait = (self.wait * 2).clamp(WAIT_MIN_MS, WAIT_MAX_MS);
        self.next = now + self.wait;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(clock: u64, behind: u64) -> Member {
        Member {
            owner: [1; 32],
            writer: None,
            clock,
            behind,
            unsure: false,
            own: false,
        }
    }

    #[test]
    fn who_is_behind_in_a_quiet_mesh_is_asked() {
        let mut quiet = Quiet::default();
        assert!(!quiet.look(&[member(1_000, 900)], 0), "it has just written");
        assert!(!quiet.look(&[member(1_900, 900)], 1_000));
        assert!(quiet.look(&[member(1_900, 900)], 2_000));
        assert!(!quiet.look(&[member(1_900, 8)], 3_000), "these are few");
        assert!(quiet.look(&[member(1_900, 9)], 4_000));
    }

    #[test]
    fn who_can_t_acknowledge_is_asked_ever_less() {
        let mut quiet = Quiet::default();
        let asked = (0..600).filter(|second| quiet.look(&[member(9, 900)], second * 1_000));
        let asked: Vec<u64> = asked.collect();
        assert_eq!(asked[..6], [1, 2, 4, 8, 16, 32]);
        assert_eq!(asked[6..8], [64, 124]);
        assert!(quiet.look(&[member(9, 0), member(0, 900)], 700_000));
    }
}
