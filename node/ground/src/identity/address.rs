//! The addresses at which nodes listen and are dialled.

use super::peer::is_weak;
use libp2p_identity::PeerId;
use multiaddr::Multiaddr;
use multiaddr::Protocol;
use std::fmt;
use std::str::FromStr;

/// A libp2p address, such as `/ip4/127.0.0.1/tcp/4001`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(pub Multiaddr);

impl Address {
    /// Checks that the address can be dialled: it names a machine and a port.
    ///
    /// # Errors
    /// The fault.
    pub fn check_dialled(&self) -> Result<(), &'static str> {
        let mut parts = self.0.iter();
        match parts.next() {
            Some(Protocol::Ip4(ip)) if ip.is_unspecified() => {
                return Err(
                    "a node listens at 0.0.0.0, and is dialled at an address of its machine",
                );
            }
            Some(Protocol::Ip6(ip)) if ip.is_unspecified() => {
                return Err("a node listens at ::, and is dialled at an address of its machine");
            }
            Some(
                Protocol::Ip4(_)
                | Protocol::Ip6(_)
                | Protocol::Dns(_)
                | Protocol::Dns4(_)
                | Protocol::Dns6(_)
                | Protocol::Dnsaddr(_),
            ) => {}
            _ => return Err("it names no machine: begin it with /ip4/, /ip6/ or /dns4/"),
        }
        let is_named = matches!(self.0.iter().next(), Some(Protocol::Dnsaddr(_)));
        match (parts.next(), parts.next()) {
            (Some(Protocol::Tcp(0) | Protocol::Udp(0)), _) => Err("port 0 is for `--listen` only"),
            (Some(Protocol::Tcp(_)), _) | (Some(Protocol::Udp(_)), Some(Protocol::QuicV1)) => {
                Ok(())
            }
            (Some(Protocol::Udp(_)), _) => Err("UDP takes /quic-v1 behind the port"),
            _ if is_named => Ok(()),
            _ => Err("it names no port: go on with /tcp/PORT, or /udp/PORT/quic-v1"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let parsed: Result<Multiaddr, _> = text.parse();
        let address = parsed.map_err(|error| {
            format!("{error}; an address looks like /ip4/127.0.0.1/tcp/4001, /ip4/127.0.0.1/udp/4001/quic-v1 or /ip4/127.0.0.1/tcp/4001/ws")
        })?;
        for part in &address {
            if let Protocol::P2p(peer) = part
                && is_weak(&peer)
            {
                return Err(format!(
                    "{peer} has a weak key, in whose name anybody can sign; take what the node prints"
                ));
            }
        }
        Ok(Address(address))
    }
}

impl Address {
    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        match self.0.iter().next() {
            Some(Protocol::Ip4(ip)) => ip.is_loopback(),
            Some(Protocol::Ip6(ip)) => ip.is_loopback(),
            _ => false,
        }
    }

    /// Whether it is an address at a relay.
    pub fn is_at_relay(&self) -> bool {
        relay_of(&self.0).is_some()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The relay in the address of a listener at a relay.
pub fn relay_of(address: &Multiaddr) -> Option<PeerId> {
    let parts: Vec<Protocol<'_>> = address.iter().collect();
    parts.windows(2).find_map(|pair| match pair {
        [Protocol::P2p(relay), Protocol::P2pCircuit] => Some(*relay),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_dial_names_a_machine_and_a_port() {
        let id = "12D3KooWSyMw9nkNKwAh4bUFSbxnjek3zPuLB72XeeELx366iwL7";
        let check = |text: &str| {
            let address: Address = text.parse().expect("an address");
            address.check_dialled()
        };
        for text in [
            "/ip4/127.0.0.1/tcp/4001",
            "/ip6/::1/udp/4001/quic-v1",
            "/dns4/node.example/tcp/443/ws",
            "/dnsaddr/node.example",
            &format!("/ip4/10.0.0.1/tcp/4001/p2p/{id}/p2p-circuit/p2p/{id}"),
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for (text, said) in [
            ("/ip4/127.0.0.1", "names no port"),
            ("/ip4/127.0.0.1/udp/4001", "quic-v1"),
            ("/ip4/127.0.0.1/tcp/0", "port 0"),
            ("/ip4/0.0.0.0/tcp/4001", "listens at 0.0.0.0"),
            ("/ip6/::/tcp/4001", "listens at ::"),
            (&format!("/p2p/{id}"), "names no machine"),
        ] {
            let problem = check(text).expect_err(text);
            assert!(problem.contains(said), "{text}: {problem}");
        }
    }
}
