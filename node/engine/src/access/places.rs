//! Places that clients occupy for as long as they want. These are streams of events and sockets,
//! links over POST, and connections of Redis clients that have shown a ticket.
//!
//! Each group leaves some places to the next. The clients of one ticket leave some to other
//! readers, readers to writers, and all clients below the role member to members.

use crate::access::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tallymesh_node_ground::model::Role;

/// A group of clients, and the places that it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// The clients with one ticket.
    Ticket,
    /// The clients of one address that have shown no ticket.
    Address,
    Readers,
    /// All clients below the role member.
    Guests,
    All,
}

impl Share {
    /// The twelfths of all places that this share may take.
    const fn twelfths(self) -> u64 {
        match self {
            Share::Ticket => 8,
            Share::Address | Share::Readers => 10,
            Share::Guests => 11,
            Share::All => 12,
        }
    }
}

/// The reason for which a client was refused a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    pub(crate) share: Share,
    max: u64,
}

impl Full {
    /// The text for `places` that are taken, such as `links over POST`.
    pub fn told(self, places: &str) -> String {
        let who = match self.share {
            Share::Ticket => "this ticket's clients have",
            Share::Address => "the clients of this address have",
            Share::Readers => "all readers together have",
            Share::Guests => "all clients that may do less than a member have",
            Share::All => "all clients together have",
        };
        let max = self.max;
        format!(
            "{who} {max} {places} open at this node, which is the most; try again later, or ask another \
             node"
        )
    }
}

/// The number of taken places, by share.
#[derive(Default)]
pub struct Places {
    places: u64,
    all: u64,
    guests: u64,
    readers: u64,
    tickets: HashMap<u128, u64>,
    addresses: HashMap<u128, u64>,
}

impl Places {
    /// This number of places.
    pub fn new(places: usize) -> Places {
        Places {
            places: places as u64,
            ..Places::default()
        }
    }

    fn max(&self, share: Share) -> u64 {
        let places = u128::from(self.places) * u128::from(share.twelfths());
        places.div_ceil(12) as u64
    }

    /// Takes a place for a client, if one is free.
    pub fn begin(&mut self, client: Client) -> Result<(), Full> {
        let of = |shares: &HashMap<u128, u64>, number: Option<u128>| {
            let number = number?;
            Some(shares.get(&number).copied().unwrap_or(0))
        };
        let address = client
            .party
            .address
            .filter(|_| client.party.ticket.is_none());
        let shares = [
            (Share::Ticket, of(&self.tickets, client.party.ticket)),
            (Share::Address, of(&self.addresses, address)),
            (
                Share::Readers,
                (client.role == Role::Reader).then_some(self.readers),
            ),
            (Share::Guests, client.is_limited().then_some(self.guests)),
            (Share::All, Some(self.all)),
        ];
        for (share, open) in shares {
            let max = self.max(share);
            if open.is_some_and(|open| open >= max) {
                return Err(Full { share, max });
            }
        }
        self.change(client, |open| *open += 1);
        Ok(())
    }

    /// Frees the place of a client.
    pub fn end(&mut self, client: Client) {
        self.change(client, |open| *open -= 1);
    }

    fn change(&mut self, client: Client, change: impl Fn(&mut u64)) {
        change(&mut self.all);
        if client.is_limited() {
            change(&mut self.guests);
        }
        if client.role == Role::Reader {
            change(&mut self.readers);
        }
        let of = |shares: &mut HashMap<u128, u64>, number: Option<u128>| {
            if let Some(number) = number {
                let open = shares.entry(number).or_default();
                change(open);
                if *open == 0 {
                    shares.remove(&number);
                }
            }
        };
        of(&mut self.tickets, client.party.ticket);
        let without = client.party.ticket.is_none();
        of(
            &mut self.addresses,
            client.party.address.filter(|_| without),
        );
    }
}

/// Places that are given back when they are dropped. Clones share them.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Places>>);

/// A place that a client has.
pub struct PlaceGuard {
    client: Client,
    of: Shared,
}

impl Shared {
    /// This number of places.
    pub fn new(places: usize) -> Shared {
        Shared(Arc::new(Mutex::new(Places::new(places))))
    }

    /// Takes a place for a client, if one is free.
    pub fn begin(&self, client: Client) -> Result<PlaceGuard, Full> {
        self.with(|places| places.begin(client))?;
        let of = self.clone();
        Ok(PlaceGuard { client, of })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Places) -> T) -> T {
        // The code under the lock does not panic.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PlaceGuard {
    /// The client that occupies the place.
    pub fn client(&self) -> Client {
        self.client
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        self.of.with(|places| places.end(self.client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallymesh_core::Party;

    fn client(ticket: Option<u128>, address: u128, role: Role) -> Client {
        let party = Party {
            ticket,
            address: Some(address),
        };
        Client { party, role }
    }

    /// Fills all places of a client. Returns how many there were, and the share that refused the
    /// next one.
    fn fill(places: &mut Places, client: Client) -> (usize, Share) {
        let mut begun = 0;
        loop {
            match places.begin(client) {
                Ok(()) => begun += 1,
                Err(full) => return (begun, full.share),
            }
        }
    }

    #[test]
    fn who_may_do_more_finds_places_that_others_do_not_take() {
        let mut places = Places::new(120);
        let reader = client(Some(1), 1, Role::Reader);
        assert_eq!(fill(&mut places, reader), (80, Share::Ticket));
        let other = client(Some(2), 1, Role::Reader);
        assert_eq!(fill(&mut places, other), (20, Share::Readers));
        let writer = client(Some(3), 1, Role::Writer);
        assert_eq!(fill(&mut places, writer), (10, Share::Guests));
        let member = client(Some(4), 1, Role::Member);
        assert_eq!(fill(&mut places, member), (10, Share::All));
        for of in [reader, other, writer, member] {
            places.end(of);
        }
        assert_eq!(places.begin(reader), Ok(()));
        let full = places.begin(reader).map_err(|full| full.told("links"));
        assert!(full.is_err_and(|text| text.contains("have 80 links")));
    }

    #[test]
    fn one_address_without_a_ticket_leaves_places_to_others() {
        let mut places = Places::new(120);
        let one = client(None, 1, Role::Member);
        assert_eq!(fill(&mut places, one), (100, Share::Address));
        assert_eq!(
            fill(&mut places, client(None, 2, Role::Member)),
            (20, Share::All)
        );
        for _ in 0..100 {
            places.end(one);
        }
        assert_eq!(places.addresses.len(), 1);
        let shared = Shared::new(1);
        let held = shared.begin(one).map_err(|full| full.share);
        assert_eq!(
            shared.begin(one).err().map(|full| full.share),
            Some(Share::Address)
        );
        drop(held);
        assert!(shared.begin(one).is_ok());
        // With few places each share has one.
        assert_eq!(fill(&mut Places::new(1), one), (1, Share::Address));
    }
}
