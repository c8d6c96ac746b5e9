//! The place of a process: which start the next one there may follow, by the same rules as in a node
//! (`node/engine/src/driver/places.rs` and `node/engine/src/driver/space/place.rs`).

use tallymesh_core::{Predecessor, Replica, WriterId};

/// A start that the next one may follow, and the clock that the disk must have of it. `None` for a start that may
/// still write.
type Followed = (WriterId, Option<u64>);

/// The place of a process.
#[derive(Clone, Default)]
pub(super) struct Place {
    /// The start that the present one may follow.
    follows: Option<Predecessor>,
    /// The starts that the next one may follow.
    followed: Vec<Followed>,
}

impl Place {
    /// The start that the present one may follow.
    pub(super) fn follows(&self) -> Option<Predecessor> {
        self.follows
    }

    /// A start begins here. `before` is the only start of its owner that the disk has.
    pub(super) fn begin(&mut self, writer: WriterId, before: Option<Predecessor>) {
        let is_it = |it: &Predecessor| {
            let mut followed = self.followed.iter();
            followed.any(|(of, clock)| *of == it.writer && clock.is_none_or(|at| at == it.clock))
        };
        let before = before.filter(is_it);
        self.go_on(writer, before);
    }

    /// The process goes on as `writer` after a start that it may follow.
    pub(super) fn go_on(&mut self, writer: WriterId, before: Option<Predecessor>) {
        self.follows = before;
        self.followed = match before {
            Some(before) => vec![(before.writer, Some(before.clock)), (writer, None)],
            None => Vec::new(),
        };
    }

    /// No start may be followed here any more. Returns whether one could be.
    pub(super) fn lose(&mut self) -> bool {
        let led = !self.followed.is_empty();
        *self = Place::default();
        led
    }

    /// Judges whether the next start may follow this one. It may from the write on that stores what gave this one
    /// its vote, unless it follows the one before. It may not any more as soon as this one has lost both.
    pub(super) fn judge(&mut self, replica: &Replica, is_written: bool) {
        let members = replica.members();
        if !members.is_announced() {
            let generation = replica.generation();
            if self.follows.is_some_and(|it| it.generation != generation) {
                // The state is not that of the disk any more, and may lack what this member answered for.
                self.lose();
            }
        } else if members.follows() {
            // The next start may follow it since it began.
        } else if !members.has_vote() {
            self.lose();
        } else if is_written {
            self.go_on_alone(replica.writer());
        } else if self.follows.is_some() {
            // Statements of others since then are not on the disk yet.
            self.lose();
        }
    }

    fn go_on_alone(&mut self, writer: WriterId) {
        self.follows = None;
        self.followed = vec![(writer, None)];
    }
}
