//! A cache of tickets that were valid, so that their signature is not checked at each request.

use super::Grant;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most cached tickets, of at most 8 KiB each. When it is full, all are dropped and read again.
const TICKETS_MAX: usize = 1_024;

/// The content of tickets that were valid once. Whether a ticket still is valid must be judged each
/// time.
#[derive(Default)]
pub struct KnownTickets(Mutex<HashMap<String, Arc<Grant>>>);

impl KnownTickets {
    fn tickets(&self) -> MutexGuard<'_, HashMap<String, Arc<Grant>>> {
        // No code panics while it has the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The grant of a ticket that was verified before, by its text.
    pub fn get(&self, ticket: &str) -> Option<Arc<Grant>> {
        self.tickets().get(ticket).cloned()
    }

    /// Caches the content of a ticket. The ticket must be valid in some space, because anyone can
    /// sign tickets of their own.
    pub fn keep(&self, ticket: &str, grant: &Arc<Grant>) {
        let mut tickets = self.tickets();
        if tickets.contains_key(ticket) {
            return;
        }
        if tickets.len() >= TICKETS_MAX {
            tickets.clear();
        }
        tickets.insert(ticket.to_owned(), grant.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::samples;
    use tallymesh_node_ground::identity::OwnerKey;
    use tallymesh_node_ground::model::Role;

    #[test]
    fn so_many_tickets_are_remembered_and_no_more() {
        let known = KnownTickets::default();
        let grant = Arc::new(samples::ticket(1, OwnerKey([7; 32]), Role::Reader));
        assert_eq!(known.get("0"), None);
        for number in 0..TICKETS_MAX {
            known.keep(&number.to_string(), &grant);
            known.keep("0", &grant);
        }
        assert_eq!(known.get("0"), Some(grant.clone()));
        assert_eq!(known.tickets().len(), TICKETS_MAX);
        known.keep("more", &grant);
        assert_eq!((known.get("0"), known.tickets().len()), (None, 1));
    }
}
