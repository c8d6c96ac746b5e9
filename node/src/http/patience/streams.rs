//! Places for streams: events, and sockets.
//!
//! A stream keeps its connection for as long as its client wants, so streams leave a quarter of all places
//! to requests. Of the rest, those that may do more have places that those that may do less never take: the
//! holders of one ticket leave some to other readers, readers to writers, and these to members.

use crate::party::Client;
use crate::problems;
use crate::trust::Role;
use std::collections::HashMap;
use std::fmt;

/// Whose places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Share {
    /// Those of the clients with one ticket.
    Ticket,
    /// Those of the clients of one address that have shown none.
    Address,
    Readers,
    /// Those of all that may do less than a member.
    Guests,
    All,
}

impl Share {
    /// How many sixteenths of all places it has.
    const fn sixteenths(self) -> u64 {
        match self {
            Share::Ticket => 8,
            Share::Address | Share::Readers => 10,
            Share::Guests => 11,
            Share::All => 12,
        }
    }
}

/// Why a stream was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Full {
    share: Share,
    max: u64,
}

impl Full {
    /// Who has how many, as the begin of a sentence.
    pub(in crate::http) fn told(self) -> String {
        let who = match self.share {
            Share::Ticket => "this ticket's clients have",
            Share::Address => "the clients of this address have",
            Share::Readers => "all readers together have",
            Share::Guests => "all clients that may do less than a member have",
            Share::All => "all clients together have",
        };
        format!("{who} {}", self.max)
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} streams of events and sockets open at this node, which is the most; try again later, or \
             ask another node",
            self.told()
        )
    }
}

impl From<Full> for super::Problem {
    fn from(full: Full) -> super::Problem {
        super::Problem::new(&problems::STREAMS_FULL, full.to_string())
    }
}

/// The streams that there are.
#[derive(Default)]
pub(in crate::http) struct Streams {
    places: u64,
    all: u64,
    guests: u64,
    readers: u64,
    tickets: HashMap<u128, u64>,
    addresses: HashMap<u128, u64>,
}

impl Streams {
    /// Of so many connections.
    pub(in crate::http) fn new(places: usize) -> Streams {
        Streams {
            places: places as u64,
            ..Streams::default()
        }
    }

    fn max(&self, share: Share) -> u64 {
        let places = u128::from(self.places) * u128::from(share.sixteenths());
        places.div_ceil(16) as u64
    }

    /// One more, if there is a place for it.
    pub(in crate::http) fn begin(&mut self, client: Client) -> Result<(), Full> {
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

    /// One is over.
    pub(in crate::http) fn end(&mut self, client: Client) {
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

    /// How many begin, of which client, and what the next one is refused for.
    fn fill(streams: &mut Streams, client: Client) -> (usize, Share) {
        let mut begun = 0;
        loop {
            match streams.begin(client) {
                Ok(()) => begun += 1,
                Err(full) => return (begun, full.share),
            }
        }
    }

    #[test]
    fn who_may_do_more_finds_places_that_others_do_not_take() {
        let mut streams = Streams::new(160);
        let reader = client(Some(1), 1, Role::Reader);
        assert_eq!(fill(&mut streams, reader), (80, Share::Ticket));
        let other = client(Some(2), 1, Role::Reader);
        assert_eq!(fill(&mut streams, other), (20, Share::Readers));
        let writer = client(Some(3), 1, Role::Writer);
        assert_eq!(fill(&mut streams, writer), (10, Share::Guests));
        let member = client(Some(4), 1, Role::Member);
        assert_eq!(fill(&mut streams, member), (10, Share::All));
        for of in [reader, other, writer, member] {
            streams.end(of);
        }
        assert_eq!(streams.begin(reader), Ok(()));
        let full = streams.begin(reader).map_err(|full| full.to_string());
        assert!(full.is_err_and(|text| text.contains("have 80 streams")));
    }

    #[test]
    fn one_address_without_a_ticket_leaves_places_to_others() {
        let mut streams = Streams::new(160);
        let one = client(None, 1, Role::Member);
        assert_eq!(fill(&mut streams, one), (100, Share::Address));
        assert_eq!(
            fill(&mut streams, client(None, 2, Role::Member)),
            (20, Share::All)
        );
        for _ in 0..100 {
            streams.end(one);
        }
        assert_eq!(streams.addresses.len(), 1);
        // Of few places each share has one.
        assert_eq!(fill(&mut Streams::new(1), one), (1, Share::Address));
    }
}
