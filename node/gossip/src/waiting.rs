//! Spaces that this node waits to join, was removed from, or has no valid ticket for. They are
//! logged at growing intervals, and shown in `/readyz` at once.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tallymesh_core::Space;
use tallymesh_node_engine::access::{Flaw, Participation};
use tallymesh_node_engine::network::Outside;

/// How long a node may wait before it is logged. A lower value logs joins that just take a moment.
const TELL_AFTER: Duration = Duration::from_secs(5);

/// The wait before it is logged again. It doubles up to its limit.
const TELL_WAIT_MIN: Duration = Duration::from_secs(10);
const TELL_WAIT_MAX: Duration = Duration::from_secs(3600);

struct Row {
    place: Participation,
    since: Instant,
    tell_next: Instant,
    tell_wait: Duration,
}

/// All such spaces.
#[derive(Default)]
pub(super) struct Waiting(BTreeMap<Space, Row>);

impl Waiting {
    /// Updates the place of this node in each of its spaces. Returns the spaces in which it does
    /// not take part as it should.
    pub(super) fn look(
        &mut self,
        places: impl Iterator<Item = (Space, Participation)>,
        now: Instant,
    ) -> Vec<Outside> {
        let mut outside = Vec::new();
        for (space, place) in places {
            if matches!(place, Participation::In | Participation::Alone) {
                if self.0.remove(&space).is_some() && place == Participation::In {
                    tracing::info!(%space, "the node has joined the space");
                }
                continue;
            }
            let new = Row {
                place,
                since: now,
                tell_next: now + TELL_AFTER,
                tell_wait: TELL_WAIT_MIN,
            };
            let row = self.0.entry(space.clone()).or_insert(new);
            // A new state is logged soon, however long ago the last one was.
            if row.place != place {
                row.place = place;
                row.tell_next = row.tell_next.min(now + TELL_AFTER);
                row.tell_wait = TELL_WAIT_MIN;
            }
            let detail = detail(&space, place, now.duration_since(row.since));
            if now >= row.tell_next {
                row.tell_next = now + row.tell_wait;
                row.tell_wait = (row.tell_wait * 2).min(TELL_WAIT_MAX);
                tracing::warn!(%space, "{detail}");
            }
            outside.push(Outside { place, detail });
        }
        outside
    }
}

fn detail(space: &Space, place: Participation, waits: Duration) -> String {
    let seconds = waits.as_secs();
    match place {
        Participation::Removed => format!(
            "this node was removed from the members of the space `{space}`. To let it in again, run \
             `tallymesh members add` with its key at a member, or start it with `--join` and a new ticket"
        ),
        Participation::Admitted => format!(
            "this node waits for {seconds} s until the members of the space `{space}` make it one, which \
             takes a majority of them; `tallymesh members` there tells who has not answered"
        ),
        Participation::Without(flaw) => {
            let (why, advice) = flawed(flaw);
            format!("no ticket lets this node into the space `{space}`: {why}. {advice}")
        }
        Participation::Waits | Participation::In | Participation::Alone => format!(
            "this node waits for {seconds} s to join the space `{space}`, and no node of its ticket has let \
             it in; `tallymesh peers` tells which it tries to reach. Start one of them, or name another \
             with `--peer`"
        ),
    }
}

/// The flaw of a ticket, and the advice.
fn flawed(flaw: Flaw) -> (&'static str, &'static str) {
    let another = "Ask a member for another (`tallymesh invite` there), and start this node with `--join` \
                   and that";
    match flaw {
        Flaw::Ended => ("the last one has ended", another),
        Flaw::Early => (
            "the last one was signed in the future",
            "The clock of this machine or of the member is wrong: set it (NTP)",
        ),
        Flaw::Revoked => ("the last one was revoked", another),
        Flaw::Issuer => ("who signed the last one is no member of it", another),
        Flaw::Removed => (
            "the last one was signed before this node was removed from the members",
            another,
        ),
        Flaw::Holder => ("the last one is for another node", another),
        Flaw::Space => (
            "the node that was shown the last one does not have the space open",
            "Open it there (`--space`), or name another member with `--peer`",
        ),
        Flaw::Unread => ("the last one is damaged, or of another version", another),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_waits_says_so_until_it_is_in() {
        let space = Space::new("shop").expect("a name");
        let start = Instant::now();
        let mut waiting = Waiting::default();
        let mut look = |place, after| {
            let places = [(space.clone(), place)].into_iter();
            waiting.look(places, start + Duration::from_secs(after))
        };
        let first = look(Participation::Waits, 0);
        assert_eq!(first[0].place, Participation::Waits);
        assert!(first[0].detail.contains("to join the space `shop`"));
        assert!(
            look(Participation::Admitted, 3)[0]
                .detail
                .contains("for 3 s")
        );
        assert!(look(Participation::In, 4).is_empty());
        assert_eq!(
            look(Participation::Removed, 9)[0].place,
            Participation::Removed
        );
        let ended = &look(Participation::Without(Flaw::Ended), 10)[0];
        assert!(ended.detail.contains("has ended") && ended.detail.contains("invite"));
        assert!(look(Participation::Alone, 11).is_empty());
    }
}
