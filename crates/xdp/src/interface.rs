//! A network interface: its index, its addresses, and offloads of its driver that change frames before XDP sees them.

use super::error::{XdpError, system};
use lineside_wire::endpoint::Endpoint;
use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An interface of this network namespace.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// Index of the interface.
    pub index: u32,
    /// Addresses of the interface.
    pub endpoint: Endpoint,
}

impl Interface {
    /// Finds the interface with this name, and reads its current addresses.
    ///
    /// # Errors
    /// [`XdpError::NoInterface`], [`XdpError::TooManyAddresses`], or the system's error.
    pub fn find(name: &str) -> Result<Self, XdpError> {
        let none = || XdpError::NoInterface(name.into());
        let c_name = CString::new(name).map_err(|_| none())?;
        let index = Self::index_of(name).map_err(|_| none())?;
        let found = addresses(&c_name).map_err(system(format!("cannot read the addresses of {name}")))?;
        let too_many = || XdpError::TooManyAddresses(name.into());
        let mut endpoint = Endpoint::new(found.mac, found.loopback, &found.own).ok_or_else(too_many)?;
        for (own, broadcast) in found.broadcasts {
            endpoint.set_broadcast(own, broadcast);
        }
        Ok(Self {
            name: name.into(),
            index,
            endpoint,
        })
    }

    /// Returns the index of the interface with this name.
    fn index_of(name: &str) -> io::Result<u32> {
        let name = CString::new(name).map_err(io::Error::other)?;
        // SAFETY: `name` is a C string that outlives the call.
        match unsafe { libc::if_nametoindex(name.as_ptr()) } {
            0 => Err(io::Error::last_os_error()),
            index => Ok(index),
        }
    }
}

/// Returns index and name of each interface of this network namespace. A name that is not UTF-8 is left out.
pub(super) fn interfaces() -> io::Result<Vec<(u32, String)>> {
    // SAFETY: the call has no preconditions.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    loop {
        // SAFETY: an entry with a null name ends the list, and the loop ends there. The list is freed after the loop.
        let entry = unsafe { &*next };
        if entry.if_name.is_null() {
            break;
        }
        // SAFETY: the name of every other entry is a C string in the list.
        if let Ok(name) = unsafe { CStr::from_ptr(entry.if_name) }.to_str() {
            found.push((entry.if_index, name.to_owned()));
        }
        // SAFETY: the list continues after an entry with a name.
        next = unsafe { next.add(1) };
    }
    // SAFETY: if_nameindex returned the list, and it is freed only here.
    unsafe { libc::if_freenameindex(list) };
    Ok(found)
}

#[derive(Default)]
struct Addresses {
    mac: [u8; 6],
    loopback: bool,
    own: Vec<IpAddr>,
    broadcasts: Vec<(Ipv4Addr, Ipv4Addr)>,
}

fn addresses(name: &CStr) -> io::Result<Addresses> {
    let mut list = std::ptr::null_mut();
    // SAFETY: getifaddrs writes one pointer to `list`. The list is freed below.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Addresses::default();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is an entry of the list, which is freed only after the loop.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: the name of every entry is a C string in the list, which is freed only after the loop.
        let entry_name = unsafe { CStr::from_ptr(entry.ifa_name) };
        if entry.ifa_addr.is_null() || !is_entry_of(entry_name.to_bytes(), name.to_bytes()) {
            continue;
        }
        found.loopback |= entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0;
        // SAFETY: `ifa_addr` is not null, and every socket address begins with its family.
        match i32::from(unsafe { (*entry.ifa_addr).sa_family }) {
            libc::AF_PACKET => {
                // SAFETY: the family AF_PACKET says that this is a sockaddr_ll.
                let link = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_ll>() };
                found.mac.copy_from_slice(&link.sll_addr[..6]);
            }
            libc::AF_INET => {
                let own = v4(entry.ifa_addr);
                found.own.push(own.into());
                // A missing mask is treated as the mask of a single address, which has no broadcast address.
                let mask = match entry.ifa_netmask.is_null() {
                    true => Ipv4Addr::BROADCAST,
                    false => v4(entry.ifa_netmask),
                };
                if let Some(broadcast) = subnet_broadcast(own, mask) {
                    found.broadcasts.push((own, broadcast));
                }
            }
            libc::AF_INET6 => {
                // SAFETY: the family AF_INET6 says that this is a sockaddr_in6.
                let v6 = unsafe { &*entry.ifa_addr.cast::<libc::sockaddr_in6>() };
                found.own.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
            }
            _ => {}
        }
    }
    // SAFETY: getifaddrs returned the list, and it is freed only here.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Returns true if an entry with the name `entry` belongs to `interface`. For an address with a label, the entry has
/// the label in place of the interface's name; ifconfig requires labels to have the form `<interface>:...`.
fn is_entry_of(entry: &[u8], interface: &[u8]) -> bool {
    match entry.strip_prefix(interface) {
        Some(rest) => rest.is_empty() || rest[0] == b':',
        None => false,
    }
}

/// Returns the last address of the subnet of `own`, or `None` for subnets of one or two addresses (RFC 3021). The
/// address is computed, as the kernel does for its routes, and not read from getifaddrs: `ip address add` without `brd`
/// sets no broadcast address, and getifaddrs then returns the address itself or its peer's, which the fast path must
/// answer.
fn subnet_broadcast(own: Ipv4Addr, mask: Ipv4Addr) -> Option<Ipv4Addr> {
    let host = !u32::from(mask);
    (host > 1).then(|| Ipv4Addr::from(u32::from(own) | host))
}

fn v4(address: *const libc::sockaddr) -> Ipv4Addr {
    // SAFETY: the caller passes only addresses and masks of AF_INET entries, which are sockaddr_in.
    let v4 = unsafe { &*address.cast::<libc::sockaddr_in>() };
    Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr))
}

/// Offloads that change frames before XDP sees them: kernel feature, name for `ethtool -K`, and effect.
const HARMFUL: [(&str, &str, &str); 3] = [
    ("rx-lro", "lro", "merges frames before XDP sees them"),
    ("rx-gro-hw", "rx-gro-hw", "merges frames before XDP sees them"),
    (
        "rx-vlan-hw-parse",
        "rxvlan",
        "strips VLAN tags, so a tagged request is answered untagged",
    ),
];
/// Size in bytes of a name: ETH_GSTRING_LEN of linux/ethtool.h, which is also the size of a driver's name.
const NAME_BYTES: usize = 32;
/// Size in bytes of struct ethtool_drvinfo: a number, five names of 32 bytes, twelve reserved bytes, and five numbers.
const DRVINFO_BYTES: usize = 4 + 5 * NAME_BYTES + 12 + 5 * 4;
const ETHTOOL_GDRVINFO: u32 = 0x3;
const SIOCETHTOOL: u64 = 0x8946;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETH_SS_STATS: u32 = 1;
const ETH_SS_FEATURES: u32 = 4;

/// Returns one line for each offload that should be switched off on `interface`; the line contains the command that
/// does so. Returns no lines if all these offloads are off or the driver does not report them.
pub fn harmful_offloads(interface: &str) -> Vec<String> {
    let active = active_features(interface).unwrap_or_default();
    HARMFUL
        .iter()
        .filter(|(feature, ..)| active.iter().any(|name| name == feature))
        .map(|(_, option, why)| format!("{interface} {why}: ethtool -K {interface} {option} off"))
        .collect()
}

/// Returns further requirements of `interface` for replies that the driver sends, one line each. Returns no lines for
/// a veth whose other end was found and takes such replies.
pub fn native_needs(interface: &str) -> Vec<String> {
    match may_lose_native_answers(interface) {
        true => vec![format!(
            "{interface} is a veth, whose other end (PEER) takes native answers only with GRO or an XDP program: \
             ethtool -K PEER gro on, or set xdp_mode = \"generic\" in [datapath]"
        )],
        false => Vec::new(),
    }
}

/// Returns true if replies that the driver of `interface` sends may be lost. A veth delivers frames that XDP sends only
/// if its other end uses NAPI, which GRO or a native XDP program there switches on. The other end cannot be checked if
/// it is in another network namespace, and the function then returns true.
pub fn may_lose_native_answers(interface: &str) -> bool {
    driver(interface).is_ok_and(|driver| driver == "veth") && !peer_takes_answers(interface).unwrap_or(false)
}

/// Returns true if the other end of a veth is in this network namespace and uses NAPI.
fn peer_takes_answers(interface: &str) -> io::Result<bool> {
    let own = Interface::index_of(interface)?;
    let peer_index = veth_peer(interface)?;
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: `name` has the length that the call requires.
    if unsafe { libc::if_indextoname(peer_index, name.as_mut_ptr()) }.is_null() {
        return Ok(false);
    }
    // SAFETY: the call has ended the name with a zero byte.
    let peer = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy();
    // An interface of this namespace may have the index that the other end has in another namespace.
    if driver(&peer)? != "veth" || veth_peer(&peer)? != own {
        return Ok(false);
    }
    let has_gro = active_features(&peer)?.iter().any(|name| name == "rx-gro");
    Ok(has_gro || super::link::has_native_program(peer_index)?)
}

/// Returns the index of the other end of a veth in its network namespace: the first of the interface's statistics.
fn veth_peer(interface: &str) -> io::Result<u32> {
    let socket = control_socket()?;
    // struct ethtool_sset_info: cmd, reserved, mask (u64), count.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS, 0, 0];
    ethtool(&socket, interface, &mut info)?;
    let count = info[4] as usize;
    if count == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // struct ethtool_stats: cmd, number of values, then the values (u64).
    let mut values = vec![0u32; 2 + 2 * count];
    values[..2].copy_from_slice(&[ETHTOOL_GSTATS, count as u32]);
    ethtool(&socket, interface, &mut values)?;
    let first = u64::from(values[2]) | u64::from(values[3]) << 32;
    // The two halves are in the order of the processor.
    let first = if cfg!(target_endian = "big") {
        first.rotate_left(32)
    } else {
        first
    };
    Ok(first as u32)
}

/// Returns the name of the interface's driver.
fn driver(interface: &str) -> io::Result<String> {
    // struct ethtool_drvinfo: cmd, then the driver's name and more (linux/ethtool.h).
    let mut info = [0; DRVINFO_BYTES / 4];
    info[0] = ETHTOOL_GDRVINFO;
    ethtool(&control_socket()?, interface, &mut info)?;
    Ok(text(&info[1..1 + NAME_BYTES / 4]))
}

/// Returns the text of a field, which ends at a zero byte or at the end of the field.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Returns a socket for ethtool requests, which accept a socket of any kind.
fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: the call takes only numbers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Returns the names of the active features. Three requests read them: number, names, bits (linux/ethtool.h).
fn active_features(interface: &str) -> io::Result<Vec<String>> {
    let socket = control_socket()?;
    // struct ethtool_sset_info: cmd, reserved, mask (u64), count.
    let mut info = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0];
    ethtool(&socket, interface, &mut info)?;
    let count = info[4] as usize;
    // struct ethtool_gstrings: cmd, set, length, then the names.
    let mut names = vec![0u32; 3 + count * NAME_BYTES / 4];
    names[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    ethtool(&socket, interface, &mut names)?;
    // struct ethtool_gfeatures: cmd, blocks, then per 32 features: available, requested, active, never changed.
    let blocks = count.div_ceil(32);
    let mut bits = vec![0u32; 2 + 4 * blocks];
    bits[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    ethtool(&socket, interface, &mut bits)?;
    let is_active = |index: usize| bits[2 + 4 * (index / 32) + 2] >> (index % 32) & 1 != 0;
    let name = |index: usize| text(&names[3 + index * NAME_BYTES / 4..3 + (index + 1) * NAME_BYTES / 4]);
    Ok((0..count).filter(|index| is_active(*index)).map(name).collect())
}

fn ethtool(socket: &OwnedFd, interface: &str, request: &mut [u32]) -> io::Result<()> {
    let mut name = [0; libc::IFNAMSIZ];
    for (place, byte) in name.iter_mut().zip(interface.bytes().take(libc::IFNAMSIZ - 1)) {
        *place = byte as libc::c_char;
    }
    let data = libc::__c_anonymous_ifr_ifru {
        ifru_data: request.as_mut_ptr().cast(),
    };
    let mut packet = libc::ifreq {
        ifr_name: name,
        ifr_ifru: data,
    };
    // SAFETY: `packet` has one of the structures above, and it is as long as the count in it says.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut packet) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lo_is_found_with_its_addresses() {
        let lo = Interface::find("lo").expect("lo");
        assert!(lo.endpoint.loopback);
        assert_eq!(lo.endpoint.mac, [0; 6]);
        // In a new network namespace, lo has no addresses. If lo has addresses, 127.0.0.1 is one of them.
        let addresses: Vec<_> = lo.endpoint.v4().collect();
        assert!(addresses.is_empty() || addresses.contains(&Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn the_broadcast_address_is_the_last_one_of_a_subnet_of_more_than_two_addresses() {
        let broadcast = |own: [u8; 4], prefix: u32| {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            subnet_broadcast(own.into(), mask.into()).map(|address| address.octets())
        };
        assert_eq!(broadcast([10, 9, 0, 2], 24), Some([10, 9, 0, 255]));
        assert_eq!(broadcast([127, 0, 0, 1], 8), Some([127, 255, 255, 255]));
        assert_eq!(broadcast([192, 0, 2, 5], 30), Some([192, 0, 2, 7]));
        assert_eq!(broadcast([192, 0, 2, 5], 0), Some([255; 4]));
        assert_eq!(broadcast([192, 0, 2, 5], 31), None);
        assert_eq!(broadcast([192, 0, 2, 5], 32), None);
    }

    #[test]
    fn an_entry_with_a_label_belongs_to_its_interface() {
        assert!(is_entry_of(b"lo", b"lo"));
        assert!(is_entry_of(b"lo:5", b"lo"));
        assert!(!is_entry_of(b"lo1", b"lo"));
        assert!(!is_entry_of(b"l", b"lo"));
        assert!(!is_entry_of(b"eth0:1", b"lo"));
    }

    #[test]
    fn an_interface_that_does_not_exist_is_reported_with_its_name() {
        let error = Interface::find("no-such-if0").expect_err("no such interface");
        assert!(matches!(error, XdpError::NoInterface(name) if name == "no-such-if0"));
    }

    #[test]
    fn the_active_features_of_lo_are_read_with_their_names() {
        // lo has generic receive offload on every Linux.
        let active = active_features("lo").expect("ethtool on lo");
        assert!(active.iter().any(|name| name.starts_with("rx-")), "{active:?}");
        assert!(
            harmful_offloads("lo")
                .iter()
                .all(|line| line.contains("ethtool -K lo "))
        );
    }
}
