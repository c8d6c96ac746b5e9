//! Turns of a node and of a process on a copy of its data folder. Both have one key, so a peer has one link with
//! the two.
//!
//! A process that takes the link from another one closes its connections. If both went on so, each would have the
//! link for seconds. A copy says in its hello what it is. So the original has the link, and the copy gets it for
//! [`TURN`] at most in each [`AGAIN`], to receive and send what is new. The original may end a turn early, by a
//! connection of its own. Then the copy has the next one sooner, and the original waits until that is over. While the
//! original is away for longer, the copy has the link.

use libp2p::PeerId;
use libp2p::swarm::ConnectionId;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a copy has the link that it took from its original. A longer time keeps the original away; a shorter
/// one is too short for large transfers.
const TURN: Duration = Duration::from_secs(2);

/// The time between two turns of a copy. A shorter time disturbs the original more often.
const AGAIN: Duration = Duration::from_secs(60);

/// The time between two turns of a copy if the original ended the first one early, by a connection of its own. Such
/// a turn can be too short to receive and send anything.
const AGAIN_SOON: Duration = Duration::from_secs(20);

/// The time from the last sign of an original until it counts as away. It covers a turn of the copy, and the
/// longest wait until a node connects again.
const AWAY: Duration = Duration::from_secs(15);

/// The turns at the keys of peers that were copied.
#[derive(Default)]
pub(super) struct SameKey(HashMap<PeerId, Turns>);

struct Turns {
    /// The last sign of the original.
    original: Option<Instant>,
    /// The connections of the original, as far as they are known. The other ones are of copies, which may have
    /// several at once.
    originals: Vec<ConnectionId>,
    /// The connection of the copy that had the last turn, and when that began.
    copy: (ConnectionId, Instant),
    /// Whether the copy took the link from its original.
    is_short: bool,
    /// Whether the original may not end that turn early, because it ended the one before it.
    is_whole: bool,
    /// The time from the begin of that turn to the next one.
    again: Duration,
}

impl SameKey {
    /// Judges a hello on a connection. `others` are the other connections with the same key. Returns false if the
    /// connection is to be closed, because it is not the turn of the copy, or a turn that the original must not end.
    ///
    /// A sign of the original is its hello, or a connection on which it sent one. Other connections may be the
    /// copy's own. If they counted, a copy that dials two addresses of a node would never have a turn.
    pub(super) fn admits(
        &mut self,
        peer: PeerId,
        (connection, is_copy): (ConnectionId, bool),
        others: &[ConnectionId],
        now: Instant,
    ) -> bool {
        let known = self.0.get_mut(&peer);
        if !is_copy {
            if let Some(turns) = known {
                turns.keep_open(others);
                turns.original = Some(now);
                let since = now.saturating_duration_since(turns.copy.1);
                let is_turn = turns.is_short && since < TURN;
                if is_turn && turns.is_whole && others.contains(&turns.copy.0) {
                    return false;
                }
                turns.originals.push(connection);
                if is_turn {
                    turns.again = AGAIN_SOON;
                }
            }
            return true;
        }
        let Some(turns) = known else {
            let original = (!others.is_empty()).then_some(now);
            let turns = Turns {
                original,
                originals: others.to_vec(),
                copy: (connection, now),
                is_short: original.is_some(),
                is_whole: false,
                again: AGAIN,
            };
            self.0.insert(peer, turns);
            return true;
        };
        if turns.copy.0 == connection {
            return true;
        }
        turns.keep_open(others);
        if !turns.originals.is_empty() {
            turns.original = Some(now);
        }
        let is_there = turns.is_original_there(now);
        if is_there && now.saturating_duration_since(turns.copy.1) < turns.again {
            return false;
        }
        turns.is_whole = turns.again == AGAIN_SOON;
        (turns.copy, turns.is_short, turns.again) = ((connection, now), is_there, AGAIN);
        true
    }

    /// Whether a process with this key said lately that it is a copy.
    pub(super) fn is_copied(&self, peer: &PeerId) -> bool {
        self.0.contains_key(peer)
    }

    /// The peers whose link a copy has had for its turn. They have another turn later.
    pub(super) fn take_over(
        &mut self,
        now: Instant,
        is_open: impl Fn(&PeerId, ConnectionId) -> bool,
    ) -> Vec<PeerId> {
        let mut over = Vec::new();
        self.0.retain(|peer, turns| {
            let since = now.saturating_duration_since(turns.copy.1);
            if turns.is_short && since >= TURN {
                turns.is_short = false;
                if is_open(peer, turns.copy.0) {
                    over.push(*peer);
                }
            }
            since < 2 * AGAIN || is_open(peer, turns.copy.0)
        });
        over
    }
}

impl Turns {
    /// Drops the connections of the original that are not open any more.
    fn keep_open(&mut self, open: &[ConnectionId]) {
        self.originals.retain(|it| open.contains(it));
    }

    fn is_original_there(&self, now: Instant) -> bool {
        let last = self.original;
        last.is_some_and(|last| now.saturating_duration_since(last) < AWAY)
    }
}

/// When a node that stands aside loses its links from before. Their hellos say that it is a member's start.
#[derive(Default)]
pub(super) enum Aside {
    /// It has stood aside since its start, or its links have ended.
    #[default]
    Over,
    /// It takes part.
    Not,
    /// It keeps its links until then, to hand over what it has.
    Until(Instant),
}

impl Aside {
    /// Whether the links are to end now. They last for one turn more.
    pub(super) fn is_due(&mut self, stands_aside: bool, now: Instant) -> bool {
        match (&*self, stands_aside) {
            (_, false) => *self = Aside::Not,
            (Aside::Not, true) => *self = Aside::Until(now + TURN),
            (Aside::Until(until), true) if *until <= now => {
                *self = Aside::Over;
                return true;
            }
            (Aside::Over | Aside::Until(_), true) => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_stands_aside_later_loses_its_links_once() {
        let (begun, mut aside) = (Instant::now(), Aside::default());
        let mut is_due =
            |stands_aside, at| aside.is_due(stands_aside, begun + Duration::from_secs(at));
        assert!(!is_due(true, 0) && !is_due(true, 9), "it began so");
        assert!(!is_due(false, 10) && !is_due(true, 11) && !is_due(true, 12));
        assert!(is_due(true, 13) && !is_due(true, 20));
        assert!(!is_due(false, 30) && !is_due(true, 31) && is_due(true, 33));
    }

    fn connection(number: usize) -> ConnectionId {
        ConnectionId::new_unchecked(number)
    }

    struct Keys {
        keys: SameKey,
        peer: PeerId,
        begun: Instant,
    }

    impl Keys {
        fn new() -> Keys {
            Keys {
                keys: SameKey::default(),
                peer: PeerId::random(),
                begun: Instant::now(),
            }
        }

        fn hello(&mut self, at: u64, (number, is_copy): (usize, bool), others: &[usize]) -> bool {
            let others: Vec<ConnectionId> = others.iter().copied().map(connection).collect();
            let now = self.begun + Duration::from_secs(at);
            let hello = (connection(number), is_copy);
            self.keys.admits(self.peer, hello, &others, now)
        }

        fn is_over(&mut self, at: u64, open: usize) -> bool {
            let now = self.begun + Duration::from_secs(at);
            let over = self
                .keys
                .take_over(now, |_, number| number == connection(open));
            over == [self.peer]
        }
    }

    #[test]
    fn a_copy_takes_the_link_of_its_original_for_a_short_turn_each_minute() {
        let mut keys = Keys::new();
        assert!(keys.hello(0, (1, false), &[]));
        assert!(keys.hello(10, (2, true), &[1]), "its first turn");
        assert!(keys.hello(10, (2, true), &[1]), "in another space");
        assert!(!keys.is_over(11, 2) && keys.is_over(12, 2));
        assert!(!keys.is_over(16, 2), "it is told once");
        assert!(keys.hello(16, (3, false), &[]), "the original");
        for at in [17, 40, 69] {
            assert!(!keys.hello(at, (4, true), &[3]), "{at}");
        }
        assert!(keys.hello(70, (5, true), &[3]));
    }

    #[test]
    fn a_copy_keeps_the_link_while_its_original_is_away() {
        let mut keys = Keys::new();
        assert!(keys.hello(0, (1, true), &[]));
        assert!(!keys.is_over(1_000, 1));
        // And takes it again after its original did not reconnect.
        let mut keys = Keys::new();
        assert!(keys.hello(0, (2, true), &[1]));
        assert!(keys.is_over(5, 2));
        assert!(!keys.hello(14, (3, true), &[]));
        assert!(keys.hello(15, (4, true), &[]));
        assert!(!keys.is_over(1_000, 4));
    }

    #[test]
    fn a_second_connection_of_a_copy_is_no_original() {
        let mut keys = Keys::new();
        assert!(keys.hello(0, (1, true), &[]));
        assert!(keys.hello(1, (2, true), &[1]));
        assert!(!keys.is_over(10, 2));
    }

    /// A copy that dials two addresses of a node has two connections each time.
    #[test]
    fn connections_of_a_copy_are_no_signs_of_its_original() {
        let mut keys = Keys::new();
        assert!(keys.hello(0, (1, true), &[9]), "its first turn");
        assert!(keys.hello(1, (2, false), &[1]), "the original");
        // It is gone, and the copy tries again with two connections.
        for at in [4, 8, 12] {
            let number = 10 + at as usize;
            assert!(!keys.hello(at, (number, true), &[number + 1]), "{at}");
            assert!(!keys.hello(at, (number + 1, true), &[number]), "{at}");
        }
        assert!(keys.hello(16, (30, true), &[31]));
        assert!(!keys.is_over(1_000, 30));
    }

    #[test]
    fn a_connection_of_the_original_is_a_sign_of_it() {
        let mut keys = Keys::new();
        assert!(keys.hello(0, (1, true), &[9]));
        assert!(keys.hello(1, (2, false), &[1]));
        for at in [15, 19] {
            assert!(!keys.hello(at, (at as usize, true), &[2]), "{at}");
        }
        assert!(keys.hello(20, (20, true), &[2]), "the next turn");
        assert!(keys.is_over(22, 20));
        // It has closed since.
        assert!(!keys.hello(34, (34, true), &[33]));
        assert!(keys.hello(35, (35, true), &[33]));
        assert!(!keys.is_over(1_000, 35));
    }

    #[test]
    fn a_copy_whose_turn_the_original_ended_early_has_a_whole_one_sooner() {
        let mut keys = Keys::new();
        assert!(keys.hello(0, (1, true), &[9]));
        assert!(keys.hello(1, (2, false), &[1]), "the original");
        assert!(!keys.hello(19, (3, true), &[2]));
        assert!(keys.hello(20, (4, true), &[2]));
        // This turn is a whole one.
        assert!(!keys.hello(21, (5, false), &[4]), "the original");
        assert!(keys.hello(22, (5, false), &[4]), "the original");
        assert!(!keys.hello(79, (6, true), &[5]));
        assert!(keys.hello(80, (7, true), &[5]));
        assert!(
            keys.hello(81, (8, false), &[7]),
            "the original, early again"
        );
        assert!(keys.hello(100, (9, true), &[8]));
        // The copy is gone before its turn is over.
        assert!(keys.hello(101, (10, false), &[]), "the original");
    }

    #[test]
    fn what_is_long_over_is_forgotten() {
        let mut keys = Keys::new();
        assert!(keys.hello(0, (1, true), &[]));
        keys.is_over(119, 9);
        assert_eq!(keys.keys.0.len(), 1);
        keys.is_over(120, 9);
        assert_eq!(keys.keys.0.len(), 0);
    }
}
