//! Groups addresses into networks that limits count as one client.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the network for which limits count `address`. For IPv4, also if it is mapped into IPv6, this is the address
/// itself. For IPv6 it is the /64, because one host may have all addresses of a /64.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Returns the /48 of an IPv6 address, because one site may have a whole /48, or an IPv4 address itself.
pub fn site_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 80 << 80).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_one_site_are_one_site() {
        let of = |text: &str| site_of(text.parse().expect("an address"));
        assert_eq!(of("fd00::1"), of("fd00:0:0:ffff:1::"));
        assert_ne!(of("fd00::1"), of("fd00:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }

    #[test]
    fn addresses_of_one_host_are_one_network() {
        let of = |text: &str| network_of(text.parse().expect("an address"));
        assert_eq!(of("fd00::1"), of("fd00::ffff:0:0:2"));
        assert_ne!(of("fd00::1"), of("fd00:0:0:1::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
