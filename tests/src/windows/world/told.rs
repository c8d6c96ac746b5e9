//! What members know of the configurations, for who has to find out why nothing is decided.

use super::{World, owner};
use std::fmt::Write;

impl World {
    pub(super) fn told(&self) -> String {
        let mut told = format!("{} links", self.links.len());
        for (at, member) in self.members.iter().enumerate() {
            let replica = &member.replica;
            let number = replica.configuration().map_or(0, |it| it.number);
            let has = (0..self.members.len()).filter(|other| {
                let members = replica.configuration();
                members.is_some_and(|it| it.has(&owner(*other)))
            });
            let _ = write!(
                told,
                "; {at}: {number} of {:?}, member {}, announced {}, established {}, proposes {:?}",
                has.collect::<Vec<_>>(),
                replica.is_member(),
                replica.is_announced(),
                replica.is_established(),
                replica.proposed_limits().map(<[_]>::len)
            );
        }
        told
    }
}
