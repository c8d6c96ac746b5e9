//! The party to which a client's use of resources is charged: its ticket, and its address.

use crate::access::Grant;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use tallymesh_core::{Once, Party};
use tallymesh_node_ground::model::{Keyed, Role, Sender};

/// A client of HTTP or of the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its ticket and its address.
    pub party: Party,
    /// Its role.
    pub role: Role,
}

impl Default for Client {
    /// A client without a known ticket or address.
    fn default() -> Client {
        Client::new(None, Role::Reader, None)
    }
}

impl Client {
    /// A client at an address, with a role, and with the ticket that gives it, if one does.
    pub fn new(address: Option<IpAddr>, role: Role, grant: Option<&Grant>) -> Client {
        Client {
            party: Party {
                ticket: grant.map(|grant| grant.id.number()),
                address: address.map(network),
            },
            role,
        }
    }

    /// Whether its role is below member.
    pub fn is_limited(self) -> bool {
        self.role < Role::Member
    }

    /// An operation under an idempotency key that is charged to this client.
    pub fn keyed(self, once: Once) -> Keyed {
        Keyed {
            once,
            party: self.party,
            limited: self.is_limited(),
        }
    }
}

/// The party to which the writers of a link's peer are charged.
pub fn of_sender(from: &Sender) -> Party {
    let ticket = from.ticket.as_deref();
    let address = from.address.as_deref().and_then(ip);
    Party {
        ticket: ticket.and_then(|id| u128::from_str_radix(id, 16).ok()),
        address: address.map(network),
    }
}

/// The number of an address. An IPv6 network of 64 bits has one number, because a host with one of
/// its addresses has all.
pub fn network(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => u128::from(Ipv6Addr::from(u128::from(ip) >> 64 << 64)),
    }
}

/// The address in `address:port`, or in a multiaddress.
fn ip(address: &str) -> Option<IpAddr> {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return Some(address.ip());
    }
    let mut parts = address.split('/');
    parts.find(|part| matches!(*part, "ip4" | "ip6"))?;
    parts.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_count_for_a_ticket_and_for_an_address() {
        let of = |address: &str, ticket: Option<&str>| {
            of_sender(&Sender {
                owner: None,
                address: Some(address.to_owned()),
                ticket: ticket.map(str::to_owned),
            })
        };
        let one = of("192.0.2.1:5000", Some("00ff00000000000000000000000000ff"));
        assert_eq!(one.ticket, Some(0x00ff_0000_0000_0000_0000_0000_0000_00ff));
        assert_eq!(one.address, of("/ip4/192.0.2.1/tcp/4001", None).address);
        assert_ne!(one.address, of("192.0.2.2:5000", None).address);
        let network = of("[2001:db8::1]:80", None);
        assert_eq!(network, of("/ip6/2001:db8::9/udp/1/quic-v1", None));
        assert_ne!(network, of("[2001:db8:0:1::1]:80", None));
        assert_eq!(of("/dns/example/tcp/1", None), Party::default());
    }
}
