//! The address by which the rates of a client are counted.

use std::net::{IpAddr, Ipv6Addr};

/// The address by which a client is counted. A holder of one IPv6 address has all of its network of
/// 64 bits.
pub fn client(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let of = |text: &str| client(text.parse().expect(text));
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3:4"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
