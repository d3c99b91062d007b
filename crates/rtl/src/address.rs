//! Addresses of interfaces: their text, their networks, and those that the kernel has.

use crate::error::{RtlError, system};
use lineside_netlink::Netlink;
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Maximum time until the kernel lets the addresses of a device be used.
const ADDRESS_WAIT: Duration = Duration::from_secs(5);

/// Address of an interface with the length of its network's prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Address.
    pub address: IpAddr,
    /// Length of the prefix, at most 32 or 128.
    pub prefix_bits: u8,
}

impl InterfaceAddress {
    /// Parses `ADDRESS/BITS`. Returns `None` for another text.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        // `u8::from_str` accepts a sign and zeros at the beginning.
        if !bits.starts_with(|first| ('1'..='9').contains(&first)) {
            return None;
        }
        let (address, prefix_bits) = (address.parse().ok()?, bits.parse().ok()?);
        let bits_max = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        (prefix_bits <= bits_max).then_some(Self { address, prefix_bits })
    }

    /// Returns the reason why an interface on a wire cannot have this address and network; `None` if it can.
    pub fn fault(&self) -> Option<&'static str> {
        let bits = self.prefix_bits;
        Some(match self.address {
            ip if ip.is_unspecified() => "is the unspecified address",
            ip if ip.is_loopback() => "is a loopback address",
            ip if ip.is_multicast() => "is a multicast address",
            IpAddr::V4(_) if self.contains(Ipv4Addr::LOCALHOST.into()) => {
                "has a network with loopback addresses"
            }
            IpAddr::V6(_) if self.contains(Ipv6Addr::LOCALHOST.into()) => {
                "has a network with the loopback address"
            }
            IpAddr::V4(v4) if v4.is_broadcast() || self.broadcast() == Some(v4) => "is a broadcast address",
            IpAddr::V4(v4) if bits < 31 && u32::from(v4) << bits == 0 => "is the address of a network",
            IpAddr::V6(v6) if bits < 127 && u128::from(v6) << bits == 0 => "is the address of a network",
            IpAddr::V6(v6) if v6.is_unicast_link_local() => {
                "is a link-local address, which clients can only use with a zone"
            }
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => "is an IPv4 address in the form of IPv6",
            _ => return None,
        })
    }

    /// Returns true if `other` is in the network of this address.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                u32::from(own).checked_shr(shift) == u32::from(other).checked_shr(shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                u128::from(own).checked_shr(shift) == u128::from(other).checked_shr(shift)
            }
            _ => false,
        }
    }

    /// Returns the broadcast address of the network; `None` for IPv6, and for a network of at most two addresses.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(own) if self.prefix_bits < 31 => {
                Some(Ipv4Addr::from(u32::from(own) | u32::MAX >> self.prefix_bits))
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for InterfaceAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.address, self.prefix_bits)
    }
}

/// Address that the kernel has in the network namespace of the calling thread.
struct KernelAddress {
    /// Number of the interface.
    interface: u32,
    /// Address.
    address: InterfaceAddress,
    /// True if no socket can be bound to the address yet.
    is_tentative: bool,
}

impl KernelAddress {
    fn all(netlink: &Netlink) -> io::Result<Vec<Self>> {
        let found = netlink.list(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
        Ok(found.iter().filter_map(Self::of_message).collect())
    }

    fn of_message(message: &RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewAddress(entry) = message else {
            return None;
        };
        // An IPv4 address on a point-to-point link has its own address in `Local` and that of its peer in `Address`.
        let mut all = entry.attributes.iter();
        let local = all.find_map(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        });
        let mut all = entry.attributes.iter();
        let address = local.or_else(|| {
            all.find_map(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            })
        })?;
        Some(Self {
            interface: entry.header.index,
            address: InterfaceAddress {
                address,
                prefix_bits: entry.header.prefix_len,
            },
            is_tentative: entry.header.flags.contains(AddressHeaderFlags::Tentative),
        })
    }
}

/// Returns the number of the interface to which the kernel sends packets for `ip` of processes in the namespace of the
/// calling thread.
pub(crate) fn interface_towards(ip: IpAddr) -> Result<u32, RtlError> {
    let finding = || format!("find the interface for packets to {ip}");
    let mut request = RouteMessage::default();
    (
        request.header.address_family,
        request.header.destination_prefix_length,
    ) = match ip {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    request.attributes = vec![RouteAttribute::Destination(ip.into())];
    let found = Netlink::open().and_then(|netlink| netlink.get(RouteNetlinkMessage::GetRoute(request)));
    let interface = match found.map_err(system(finding()))? {
        RouteNetlinkMessage::NewRoute(route) => {
            route
                .attributes
                .into_iter()
                .find_map(|attribute| match attribute {
                    RouteAttribute::Oif(interface) => Some(interface),
                    _ => None,
                })
        }
        _ => None,
    };
    interface.ok_or_else(|| system(finding())(io::ErrorKind::NotFound.into()))
}

/// Returns the name of an interface, or its number if it has just been removed.
pub(crate) fn name_of(interface: u32) -> String {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the size that the call requires, and the call ends the name with a zero byte.
    if unsafe { libc::if_indextoname(interface, name.as_mut_ptr()) }.is_null() {
        return interface.to_string();
    }
    let bytes = name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
}

/// Gives addresses to the interface with number `interface` and name `name`, and waits until they can be used.
pub(crate) fn add_all(interface: u32, name: &str, addresses: &[InterfaceAddress]) -> Result<(), RtlError> {
    let netlink = Netlink::open().map_err(system("open a netlink socket"))?;
    for address in addresses {
        let adding = format!("give {name} the address {address}");
        netlink
            .create(RouteNetlinkMessage::NewAddress(creation(interface, address)))
            .map_err(system(adding))?;
    }
    // The kernel makes an IPv6 address usable in a thread of its own. Before that, no socket can be bound to it, and
    // clients get another source address.
    let begin = Instant::now();
    let wait = || format!("use the addresses of {name}");
    loop {
        let all = KernelAddress::all(&netlink).map_err(system(wait()))?;
        let is_waiting = |one: &KernelAddress| {
            one.interface == interface && one.is_tentative && addresses.contains(&one.address)
        };
        if !all.iter().any(is_waiting) {
            return Ok(());
        }
        if begin.elapsed() > ADDRESS_WAIT {
            return Err(system(wait())(io::ErrorKind::TimedOut.into()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the message by which the kernel adds an address.
fn creation(interface: u32, address: &InterfaceAddress) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.index = interface;
    message.header.prefix_len = address.prefix_bits;
    message.header.scope = AddressScope::Universe;
    message.header.family = match address.address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    let ip = address.address;
    message.attributes = vec![AddressAttribute::Local(ip), AddressAttribute::Address(ip)];
    if let Some(broadcast) = address.broadcast() {
        message.attributes.push(AddressAttribute::Broadcast(broadcast));
    }
    if ip.is_ipv6() {
        // Detection of duplicates would delay the address by a second or two, and there is no other station on the
        // wire of a TAP device.
        message
            .attributes
            .push(AddressAttribute::Flags(AddressFlags::Nodad));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> InterfaceAddress {
        InterfaceAddress::parse(text).expect("an address")
    }

    #[test]
    fn addresses_have_a_network_and_a_broadcast_address() {
        let wire = parsed("10.77.0.1/24");
        assert_eq!(wire.to_string(), "10.77.0.1/24");
        assert!(wire.contains([10, 77, 0, 200].into()));
        assert!(!wire.contains([10, 77, 1, 1].into()));
        assert!(!wire.contains(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(wire.broadcast(), Some([10, 77, 0, 255].into()));
        assert_eq!(parsed("10.0.0.1/31").broadcast(), None);
        assert_eq!(parsed("10.0.0.1/32").broadcast(), None);
        assert!(!parsed("10.0.0.1/32").contains([10, 0, 0, 2].into()));
        assert!(parsed("fd77::1/64").contains("fd77::2".parse().unwrap()));
        assert!(!parsed("fd77::1/128").contains("fd77::2".parse().unwrap()));
        for wrong in [
            "10.0.0.1",
            "10.0.0.1/33",
            "10.0.0.1/0",
            "10.0.0.1/024",
            "10.0.0.1/+24",
            "::1/129",
            "/24",
            "a/1",
            "10.0.0.1/-1",
            "10.0.0.1/",
            "",
        ] {
            assert_eq!(InterfaceAddress::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_address_that_no_machine_has_gets_a_reason() {
        for (text, fault) in [
            ("10.77.0.1/24", None),
            ("10.77.0.0/31", None),
            ("10.77.0.255/23", None),
            ("10.77.0.0/23", Some("is the address of a network")),
            ("10.77.0.255/24", Some("is a broadcast address")),
            ("255.255.255.255/32", Some("is a broadcast address")),
            ("0.0.0.0/8", Some("is the unspecified address")),
            ("127.0.0.5/8", Some("is a loopback address")),
            ("224.0.0.1/4", Some("is a multicast address")),
            ("126.0.0.1/7", Some("has a network with loopback addresses")),
            ("fd77::1/64", None),
            ("fd77::/64", Some("is the address of a network")),
            ("::77/64", Some("has a network with the loopback address")),
            ("::1/128", Some("is a loopback address")),
            ("ff02::1/16", Some("is a multicast address")),
            (
                "fe80::1/64",
                Some("is a link-local address, which clients can only use with a zone"),
            ),
            (
                "::ffff:10.77.0.1/120",
                Some("is an IPv4 address in the form of IPv6"),
            ),
        ] {
            assert_eq!(parsed(text).fault(), fault, "{text}");
        }
    }
}
