//! Whom a fast path answers for, and whom it answers to (DESIGN section 4, rule 8).

use crate::{DropReason, SERVICE_PORTS};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Own addresses of each family that one interface can have.
pub const ADDRESSES_MAX: usize = 8;

/// The interface a fast path stands at.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// Own MAC address; all zeros on `lo`.
    pub mac: [u8; 6],
    /// Whether this is `lo`: own and loopback sources are allowed there.
    pub loopback: bool,
    v4: [Option<Ipv4Addr>; ADDRESSES_MAX],
    v4_broadcast: [Option<Ipv4Addr>; ADDRESSES_MAX],
    v6: [Option<Ipv6Addr>; ADDRESSES_MAX],
    only: Option<IpAddr>,
}

impl Endpoint {
    /// An interface with these own addresses; `None` when it has more than [`ADDRESSES_MAX`] of a family.
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

    /// Answers for `address` alone, as a socket bound to it does; `false`, and nothing changed, when it is not an own
    /// one.
    pub fn keep_only(&mut self, address: IpAddr) -> bool {
        let owned = self.owns(address);
        if owned {
            self.only = Some(address);
        }
        owned
    }

    /// Whether the fast path answers what was sent to `address`.
    pub fn answers(&self, address: IpAddr) -> bool {
        self.owns(address) && self.only.is_none_or(|only| only == address)
    }

    /// The broadcast address of the subnet of `own`, which must be an own address.
    pub fn set_broadcast(&mut self, own: Ipv4Addr, broadcast: Ipv4Addr) {
        for (address, place) in self.v4.iter().zip(&mut self.v4_broadcast) {
            if *address == Some(own) {
                *place = Some(broadcast);
            }
        }
    }

    /// Own IPv4 addresses, each with its subnet's broadcast address, or 255.255.255.255 where there is none.
    pub fn v4_with_broadcasts(&self) -> impl Iterator<Item = (Ipv4Addr, Ipv4Addr)> + '_ {
        let both = self.v4.iter().zip(&self.v4_broadcast);
        both.filter_map(|(own, broadcast)| Some(((*own)?, broadcast.unwrap_or(Ipv4Addr::BROADCAST))))
    }

    /// Own IPv4 addresses.
    pub fn v4(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.v4.iter().filter_map(|slot| *slot)
    }

    /// Own IPv6 addresses.
    pub fn v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.v6.iter().filter_map(|slot| *slot)
    }

    /// Whether `address` is one of ours.
    pub fn owns(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => self.v4.contains(&Some(v4)),
            IpAddr::V6(v6) => self.v6.contains(&Some(v6)),
        }
    }

    /// Why a request from this source must not be answered, if so.
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

/// Port 0 cannot be answered; a service's port could answer back for ever.
pub fn port_is_refused(port: u16) -> bool {
    port == 0 || SERVICE_PORTS.contains(&port)
}
