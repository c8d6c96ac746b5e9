//! The role of this node itself in each of its spaces: by its tickets, where it is no member.

use super::Driver;
use crate::access::OwnRoles;
use tallymesh_node_ground::identity::OwnerKey;

/// How often the driver checks whether the roles have changed, in milliseconds. Tickets end, and
/// are revoked.
const LOOK_MS: u64 = 1_000;

impl Driver {
    /// Updates the roles of this node if that is due. It is due at once after a change of the
    /// members.
    pub(super) fn update_roles(&mut self) {
        let now = self.now();
        if now < self.roles_due {
            return;
        }
        self.roles_due = now + LOOK_MS;
        let own_roles = OwnRoles::of(OwnerKey(self.owner), &self.ledger);
        if own_roles.is_free() && !self.limited {
            return;
        }
        self.limited = false;
        let wall = self.clock.now();
        for place in 0..self.spaces.count() {
            let space = &self.spaces[place];
            let role = own_roles.role(space.name().as_str(), space.member_list().as_deref(), wall);
            self.limited |= role.limit().is_some();
            if role != space.role() {
                self.spaces[place].set_role(role);
            }
        }
    }
}
