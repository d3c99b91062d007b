//! Addresses at which a fast path answers, and sources that it must not answer. These checks prevent replies on behalf
//! of other machines, and endless reply loops between servers.

use crate::{DropReason, SERVICE_PORTS};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of addresses of each family (IPv4, IPv6) of one interface.
pub const ADDRESSES_MAX: usize = 8;

/// Addresses of the interface at which a fast path answers. "Own" addresses are the addresses of this interface.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// Own MAC address; all zeros on `lo`.
    pub mac: [u8; 6],
    /// True on `lo`, where own and loopback source addresses are allowed.
    pub loopback: bool,
    v4: [Option<Ipv4Addr>; ADDRESSES_MAX],
    v4_broadcast: [Option<Ipv4Addr>; ADDRESSES_MAX],
    v6: [Option<Ipv6Addr>; ADDRESSES_MAX],
    only: Option<IpAddr>,
}

impl Endpoint {
    /// Returns an interface with these own addresses, or `None` if there are more than [`ADDRESSES_MAX`] of one family.
    pub fn new(mac: [u8; 6], loopback: bool, addresses: &[IpAddr]) -> Option<Self> {
        let mut endpoint = Self {
            mac,
            loopback,
            ..Self::default()
        };
        for address in addresses {
            match *address {
                IpAddr::V4(v4) => *endpoint.v4.iter_mut().find(|slot| slot.is_none())? = Some(v4),
                IpAddr::V6(v6) => *endpoint.v6.iter_mut().find(|slot| slot.is_none())? = Some(v6),
            }
        }
        Some(endpoint)
    }

    /// Restricts answers to `address`, like a socket bound to it. Returns false and changes nothing if the interface
    /// does not have `address`.
    pub fn keep_only(&mut self, address: IpAddr) -> bool {
        let owned = self.owns(address);
        if owned {
            self.only = Some(address);
        }
        owned
    }

    /// Returns true if the fast path answers requests sent to `address`.
    pub fn answers(&self, address: IpAddr) -> bool {
        self.owns(address) && self.only.is_none_or(|only| only == address)
    }

    /// Sets the broadcast address of the subnet of `own`. Does nothing if the interface does not have the address
    /// `own`.
    pub fn set_broadcast(&mut self, own: Ipv4Addr, broadcast: Ipv4Addr) {
        for (address, place) in self.v4.iter().zip(&mut self.v4_broadcast) {
            if *address == Some(own) {
                *place = Some(broadcast);
            }
        }
    }

    /// Returns the IPv4 addresses, each with the broadcast address of its subnet, or 255.255.255.255 if the subnet has
    /// none.
    pub fn v4_with_broadcasts(&self) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> + '_ {
        let both = self.v4.iter().zip(&self.v4_broadcast);
        both.filter_map(|(own, broadcast)| Some(((*own)?, broadcast.unwrap_or(Ipv4Addr::BROADCAST))))
    }

    /// Returns the IPv4 addresses of the interface.
    pub fn v4(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.v4.iter().filter_map(|slot| *slot)
    }

    /// Returns the IPv6 addresses of the interface.
    pub fn v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.v6.iter().filter_map(|slot| *slot)
    }

    /// Returns true if `address` is an own address of the interface.
    pub fn owns(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.contains(&Some(v4)),
            IpAddr::V6(v6) => self.v6.contains(&Some(v6)),
        }
    }

    /// Returns the reason why a request from this source must not be answered, or `None` if it may be answered.
    pub fn refuses_source(&self, address: IpAddr, port: u16) -> Option<DropReason> {
        if port_is_refused(port) {
            return Some(DropReason::SourcePort);
        }
        let bad = match address {
            IpAddr::V4(v4) => {
                v4.is_unspecified()
                    || v4.is_multicast()
                    || v4.is_broadcast()
                    || self.v4_broadcast.contains(&Some(v4))
                    || (v4.is_loopback() && !self.loopback)
            }
            IpAddr::V6(v6) => {
                v6.is_unspecified() || v6.is_multicast() || (v6.is_loopback() && !self.loopback)
            }
        };
        (bad || (!self.loopback && self.owns(address))).then_some(DropReason::SourceAddress)
    }
}

/// Returns true for source ports that must not be answered: 0, which is not a valid destination, and the ports of
/// Lineside services, because two servers could answer each other for ever.
pub fn port_is_refused(port: u16) -> bool {
    port == 0 || SERVICE_PORTS.contains(&port)
}
