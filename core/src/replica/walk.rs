//! A walk over the shard map in parts, while local writes and merges go on.
//!
//! A walk goes over the pages. What is overwritten behind it gets a newer clock and is told again
//! by another walk over what is newer than the walk's begin, until a walk fits one part. That part
//! is taken at one moment and carries the version vector of that moment: everything that the vector
//! covers is in the parts by then, and nothing that it does not.

use super::Replica;
use super::build::Cursor;
use super::keyed::KeyedWalk;
use crate::delta::Message;
use crate::vector::VersionVector;
use alloc::vec::Vec;

/// A place in the walks over the shard map.
///
/// It counts on local numbers, and on clocks that only grow: see `Replica::voided`.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// This walk tells what is newer than this, by the writers' local numbers.
    lows: Vec<u64>,
    /// The version vector when this walk began: the next walk's `lows`.
    begin: Vec<u64>,
    cursor: Cursor,
    keyed: KeyedWalk,
    /// How many walks were before this one.
    number: u32,
}

impl Walk {
    /// The first walk, over what is held and not in `since`, and over keyed operations if they are
    /// wanted.
    pub(crate) fn new(replica: &Replica, since: &VersionVector, keyed: bool) -> Walk {
        let lows = replica.lows(since);
        Walk {
            keyed: KeyedWalk::new(&lows, keyed),
            lows,
            begin: replica.clocks().to_vec(),
            cursor: Cursor::default(),
            number: 0,
        }
    }

    /// How many walks were before this one. Later walks may use larger parts, so that a stream of
    /// writes has to be fast to keep ahead.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The part at which the walk stands, of about `budget` bytes, and where the next one begins;
    /// `None` after the last one, which is complete. `since` is what the first walk began with.
    pub(crate) fn step(
        mut self,
        replica: &Replica,
        since: &VersionVector,
        budget: usize,
    ) -> (Message, Option<Walk>) {
        // Writers that came since. They start from nothing even if the peer told of them: a part
        // that is made again must not reach further than before, or what lies between is left out.
        let writers = replica.clocks().len();
        self.lows.resize(writers, 0);
        self.begin.resize(writers, 0);
        let keyed = &mut self.keyed;
        let (message, cursor) = replica.chunk(since, &self.lows, self.cursor, keyed, budget);
        let fresh = self.cursor == Cursor::default();
        let next = match cursor {
            Some(cursor) => Some(Walk { cursor, ..self }),
            // This walk fits one part, so all of it is of this moment.
            None if fresh => None,
            None => Some(Walk {
                lows: self.begin,
                begin: replica.clocks().to_vec(),
                cursor: Cursor::default(),
                keyed: self.keyed,
                number: self.number.saturating_add(1),
            }),
        };
        (message, next)
    }
}
