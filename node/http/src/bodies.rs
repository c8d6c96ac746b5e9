//! Bounds on the bytes of unfinished bodies and socket messages.
//!
//! The node counts them as they arrive: for a request until its answer, and for a message until it
//! is passed on. The first bytes of each are free, so that a small one is never refused. Beyond
//! these, each ticket, each address, all clients below the role member, and all clients together
//! have a share. The node refuses a body beyond its share at once. If it waited instead, bodies
//! that never end could make all others wait.

use super::problem::Problem;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use futures::StreamExt;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tallymesh_core::Party;
use tallymesh_node_engine::access::Client;
use tallymesh_node_engine::metrics::Metrics;
use tallymesh_node_ground::problems;

/// Free bytes of each body and of each message.
const FREE_BYTES: usize = 16 << 10;

/// Most bytes of unfinished bodies and messages, beyond the free ones.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The bound of all together.
    all: usize,
    /// The bound of all clients below the role member.
    guests: usize,
    /// The bound of the clients of one address.
    address: usize,
    /// The bound of the holders of one ticket.
    ticket: usize,
}

/// A quarter is reserved for members. A ticket has room for four of the largest bodies at once, an
/// address for eight.
const BOUNDS: Bounds = Bounds {
    all: 128 << 20,
    guests: 96 << 20,
    address: 64 << 20,
    ticket: 32 << 20,
};

/// The share that was used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Ticket,
    Address,
    Guests,
    All,
}

/// The reason why a body or a message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full {
    share: Share,
    held: usize,
    more: usize,
    max: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.share {
            Share::Ticket => "this ticket's clients have",
            Share::Address => "the clients of this address have",
            Share::Guests => "all clients that may do less than a member have",
            Share::All => "all clients together have",
        };
        let Full {
            held, more, max, ..
        } = self;
        write!(
            f,
            "{who} {held} bytes of requests under way at this node, and {more} more are over the limit of \
             {max}; send less at a time, one request after the other"
        )
    }
}

impl From<Full> for Problem {
    fn from(full: Full) -> Problem {
        Problem::new(&problems::BODIES_FULL, full.to_string())
    }
}

/// The counted bytes.
#[derive(Default)]
struct BodyBytes {
    all: usize,
    guests: usize,
    tickets: HashMap<u128, usize>,
    addresses: HashMap<u128, usize>,
}

/// The counts of all unfinished bodies and messages.
pub struct Bodies {
    bounds: Bounds,
    held: Mutex<BodyBytes>,
    metrics: Metrics,
}

impl Bodies {
    /// Room of which nothing is taken.
    pub fn new(metrics: Metrics) -> Arc<Bodies> {
        Bodies::with(BOUNDS, metrics)
    }

    fn with(bounds: Bounds, metrics: Metrics) -> Arc<Bodies> {
        let held = Mutex::default();
        Arc::new(Bodies {
            bounds,
            held,
            metrics,
        })
    }

    /// Counts the bytes of a request's body from now on, until the charge is dropped.
    pub(super) fn count(self: &Arc<Bodies>, client: Client, request: &mut Request) -> Arc<Charge> {
        let charge = self.charge(client);
        let body = std::mem::take(request.body_mut());
        let charged = charge.clone();
        let counted = body.into_data_stream().map(move |came| {
            let came = came?;
            let room = charged.add(came.len());
            room.map_err(|full| axum::Error::new(full.to_string()))?;
            Ok::<Bytes, axum::Error>(came)
        });
        *request.body_mut() = Body::from_stream(counted);
        charge
    }

    /// Counts for a client the bytes that are [added](Charge::add).
    pub(super) fn charge(self: &Arc<Bodies>, client: Client) -> Arc<Charge> {
        Arc::new(Charge {
            bodies: self.clone(),
            client,
            came: Mutex::default(),
        })
    }

    fn held(&self) -> MutexGuard<'_, BodyBytes> {
        // No code panics while it has the lock.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, client: Client, more: usize) -> Result<(), Full> {
        let (bounds, Party { ticket, address }) = (&self.bounds, client.party);
        let mut held = self.held();
        let of = |shares: &HashMap<u128, usize>, number: Option<u128>| {
            let number = number?;
            Some(shares.get(&number).copied().unwrap_or(0))
        };
        let shares = [
            (Share::Ticket, of(&held.tickets, ticket), bounds.ticket),
            (Share::Address, of(&held.addresses, address), bounds.address),
            (
                Share::Guests,
                client.is_limited().then_some(held.guests),
                bounds.guests,
            ),
            (Share::All, Some(held.all), bounds.all),
        ];
        for (share, held, max) in shares {
            if let Some(held) = held
                && held + more > max
            {
                return Err(Full {
                    share,
                    held,
                    more,
                    max,
                });
            }
        }
        held.all += more;
        if client.is_limited() {
            held.guests += more;
        }
        if let Some(ticket) = ticket {
            *held.tickets.entry(ticket).or_default() += more;
        }
        if let Some(address) = address {
            *held.addresses.entry(address).or_default() += more;
        }
        self.metrics.http_bodies(held.all);
        Ok(())
    }

    fn give_back(&self, client: Client, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut held = self.held();
        held.all -= bytes;
        if client.is_limited() {
            held.guests -= bytes;
        }
        let less = |of: &mut HashMap<u128, usize>, number: Option<u128>| {
            if let Some(number) = number
                && let Some(held) = of.get_mut(&number)
            {
                *held -= bytes;
                if *held == 0 {
                    of.remove(&number);
                }
            }
        };
        less(&mut held.tickets, client.party.ticket);
        less(&mut held.addresses, client.party.address);
        self.metrics.http_bodies(held.all);
    }
}

/// The received bytes of one body or message.
#[derive(Default)]
struct Came {
    bytes: usize,
    counted: usize,
    refused: Option<Full>,
}

/// The count of one unfinished body or message.
pub(super) struct Charge {
    bodies: Arc<Bodies>,
    client: Client,
    came: Mutex<Came>,
}

impl Charge {
    fn came(&self) -> MutexGuard<'_, Came> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds received bytes.
    pub(super) fn add(&self, bytes: usize) -> Result<(), Full> {
        let mut came = self.came();
        came.bytes += bytes;
        let more = came.bytes.saturating_sub(FREE_BYTES) - came.counted;
        if more == 0 {
            return Ok(());
        }
        if let Err(full) = self.bodies.take(self.client, more) {
            came.refused = Some(full);
            return Err(full);
        }
        came.counted += more;
        Ok(())
    }

    /// Records that the message is complete, and the next one begins.
    pub(super) fn again(&self) {
        let mut came = self.came();
        self.bodies.give_back(self.client, came.counted);
        (came.bytes, came.counted) = (0, 0);
    }

    /// The refusal, if it was refused.
    pub(super) fn refused(&self) -> Option<Full> {
        self.came().refused
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.again();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::net::IpAddr;
    use tallymesh_node_ground::model::Role;

    const SMALL: Bounds = Bounds {
        all: 128 << 10,
        guests: 96 << 10,
        address: 64 << 10,
        ticket: 32 << 10,
    };
    const KIB: usize = 1 << 10;

    fn client(ticket: Option<u128>, address: u8, role: Role) -> Client {
        let address = Client::new(Some(IpAddr::from([192, 0, 2, address])), role, None);
        let party = Party {
            ticket,
            ..address.party
        };
        Client { party, ..address }
    }

    fn small() -> Arc<Bodies> {
        Bodies::with(SMALL, Metrics::new())
    }

    /// Begins `count` bodies of `bytes` each, and returns those that are accepted.
    fn begin(bodies: &Arc<Bodies>, client: Client, bytes: usize, count: usize) -> Vec<Arc<Charge>> {
        let begun = (0..count).map(|_| bodies.charge(client));
        begun
            .filter(|charge| charge.add(FREE_BYTES + bytes).is_ok())
            .collect()
    }

    #[test]
    fn a_ticket_an_address_and_guests_have_a_share_and_members_a_reserve() {
        let bodies = small();
        let reader = client(Some(1), 1, Role::Reader);
        let held = begin(&bodies, reader, 8 * KIB, 40);
        assert_eq!(held.len(), 4, "of one ticket");
        let full = bodies
            .charge(reader)
            .add(FREE_BYTES + 1)
            .map_err(|it| (it.share, it.held, it.max));
        assert_eq!(full, Err((Share::Ticket, 32 * KIB, 32 * KIB)));
        // Small ones are never refused.
        assert_eq!(begin(&bodies, reader, 0, 40).len(), 40);
        let other = begin(&bodies, client(Some(2), 1, Role::Writer), 8 * KIB, 40);
        assert_eq!(other.len(), 4, "another ticket's");
        let third = client(Some(3), 1, Role::Member);
        let full = bodies
            .charge(third)
            .add(FREE_BYTES + 1)
            .map_err(|it| it.share);
        assert_eq!(full, Err(Share::Address));
        let elsewhere = begin(&bodies, client(None, 2, Role::Editor), 8 * KIB, 40);
        assert_eq!(elsewhere.len(), 4, "what is left for guests");
        let full = bodies
            .charge(client(None, 3, Role::Editor))
            .add(FREE_BYTES + 1);
        assert_eq!(full.map_err(|it| it.share), Err(Share::Guests));
        let member = begin(&bodies, client(None, 3, Role::Member), 8 * KIB, 40);
        assert_eq!(member.len(), 4, "the reserve of members");
        let full = bodies
            .charge(client(None, 4, Role::Member))
            .add(FREE_BYTES + 1);
        assert_eq!(full.map_err(|it| it.share), Err(Share::All));
        drop((held, other, elsewhere, member));
        let left = bodies.held();
        assert_eq!((left.all, left.guests), (0, 0));
        assert_eq!((left.tickets.len(), left.addresses.len()), (0, 0));
    }

    #[test]
    fn what_is_whole_is_let_go_of() {
        let bodies = small();
        let socket = bodies.charge(client(Some(1), 1, Role::Reader));
        for _ in 0..9 {
            assert_eq!(socket.add(FREE_BYTES), Ok(()));
            assert_eq!(socket.add(20 * KIB), Ok(()));
            socket.again();
        }
        assert_eq!(socket.add(FREE_BYTES + 32 * KIB), Ok(()));
        assert!(socket.add(1).is_err());
        assert!(socket.refused().is_some());
    }

    #[test]
    fn a_body_is_counted_as_it_comes_and_cut_off_where_its_share_ends() {
        let bodies = small();
        let read = |bytes: usize| {
            let body = Body::from(vec![7; bytes]);
            let mut request = Request::new(body);
            let charge = bodies.count(client(None, 1, Role::Reader), &mut request);
            let read = axum::body::to_bytes(request.into_body(), usize::MAX);
            let read = read.now_or_never().expect("it is all there");
            (read.is_ok(), charge)
        };
        let (whole, charge) = read(FREE_BYTES + 40 * KIB);
        assert!(whole && charge.refused().is_none());
        assert_eq!(bodies.held().all, 40 * KIB);
        let (whole, refused) = read(FREE_BYTES + 40 * KIB);
        assert!(!whole && refused.refused().is_some());
        assert_eq!(bodies.held().all, 40 * KIB);
        drop(charge);
        assert!(read(FREE_BYTES + 40 * KIB).0);
    }
}
