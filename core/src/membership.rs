//! Members of a space: who counts, who admitted whom, who has seen what, who left, and who took over.
//!
//! A space is open until a [configuration](crate::message::records::Configuration) names its members. What members say of
//! writers are records, which are stamped like shards and travel with them.

pub(crate) mod admission;
pub(crate) mod forget;
pub(crate) mod gaps;
pub(crate) mod index;
pub(crate) mod listing;
pub(crate) mod members;
pub(crate) mod none;
pub(crate) mod retire;
pub(crate) mod room;
pub(crate) mod sponsors;
pub(crate) mod stability;
pub(crate) mod table;
pub(crate) mod votes;

use crate::MEMBERS;
use crate::closed::Closed;
use crate::message::records::Card;
use table::Roster;

/// The membership of a space, as one replica knows it.
#[derive(Clone)]
pub(crate) struct Membership {
    pub(crate) table: Closed<Roster>,
}

impl Membership {
    /// That of an open space of one writer.
    pub(crate) fn new() -> Membership {
        let mut table = Closed::default();
        if MEMBERS {
            *table = Roster::new();
        }
        Membership { table }
    }

    /// Has a card for each of so many local numbers.
    pub(crate) fn fit(&mut self, writers: usize) {
        if MEMBERS && self.table.cards.len() < writers {
            self.table.cards.resize_with(writers, Card::default);
        }
    }
}
