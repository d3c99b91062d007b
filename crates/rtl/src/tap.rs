//! TAP devices: network interfaces whose frames this process sends and receives. The kernel removes a device when its
//! descriptor is closed, so also when the process is killed.

use crate::error::{RtlError, system};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

/// Request of `ioctl` that makes a descriptor of /dev/net/tun a device (linux/if_tun.h).
const TUNSETIFF: u32 = 0x4004_54ca;
/// Number of frames that wait for this process at most; further ones are lost. A burst of clients fits.
const QUEUE_FRAMES: libc::c_int = 8192;

/// Flag of an IPv6 address that cannot be used yet: IFA_F_TENTATIVE of linux/if_addr.h.
const TENTATIVE: u32 = 0x40;
/// Maximum time until the kernel lets the addresses of a device be used. Detection of duplicates takes about 2 s.
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
        let (address, prefix_bits) = (address.parse().ok()?, bits.parse().ok()?);
        let bits_max = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        (1..=bits_max)
            .contains(&prefix_bits)
            .then_some(Self { address, prefix_bits })
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

/// TAP device in the network namespace of the thread that created it. Dropping it removes the device.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    mac: [u8; 6],
}

impl Tap {
    /// Creates the device `name`, which is down and has no address.
    ///
    /// # Errors
    /// [`RtlError::NameTaken`], [`RtlError::NoTun`], [`RtlError::NotAllowed`], or the system's error.
    pub fn create(name: &str) -> Result<Self, RtlError> {
        let control = control_socket(libc::AF_INET)?;
        let mut request = request(name);
        if ioctl(control.as_fd(), libc::SIOCGIFINDEX as u32, &mut request).is_ok() {
            return Err(RtlError::NameTaken(name.into()));
        }
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun");
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => RtlError::NotAllowed {
                what: "open /dev/net/tun".into(),
                source: error,
            },
            _ => RtlError::NoTun(error),
        })?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        let creating = format!("create the TAP device {name}");
        ioctl(file.as_fd(), TUNSETIFF, &mut request).map_err(system(creating))?;
        let mut tap = Self {
            file,
            name: name.into(),
            mac: [0; 6],
        };
        let mut request = tap.request();
        tap.configure(
            &control,
            libc::SIOCGIFHWADDR as u32,
            &mut request,
            "read the MAC address",
        )?;
        // SAFETY: the kernel has filled in the hardware address, and every bit pattern is a valid number.
        let address = unsafe { request.ifr_ifru.ifru_hwaddr };
        tap.mac = std::array::from_fn(|index| address.sa_data[index] as u8);
        Ok(tap)
    }

    /// Returns the name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the MAC address of the device.
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// Gives the device these addresses, and switches it on. The calling thread must be in the namespace of the device.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(&self, addresses: &[InterfaceAddress]) -> Result<(), RtlError> {
        let control = control_socket(libc::AF_INET)?;
        let mut request = self.request();
        // The field of the queue's length is a number like that of the metric.
        request.ifr_ifru.ifru_metric = QUEUE_FRAMES;
        self.configure(
            &control,
            libc::SIOCSIFTXQLEN as u32,
            &mut request,
            "set the queue",
        )?;
        // Detection of duplicate addresses delays an IPv6 address, and there is no other station on this wire. If it
        // cannot be switched off, the addresses are usable a second or two later.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{}/accept_dad", self.name), "0");
        set_up(&control, &self.name)?;
        for address in addresses {
            self.add(&control, address)?;
        }
        // The kernel makes an IPv6 address usable in a thread of its own. Before that, no socket can be bound to it,
        // and clients get another source address.
        let begin = Instant::now();
        while addresses.iter().any(|address| is_tentative(address.address)) {
            if begin.elapsed() > ADDRESS_WAIT {
                let what = format!("use the addresses of {}", self.name);
                return Err(system(what)(io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn add(&self, control: &OwnedFd, address: &InterfaceAddress) -> Result<(), RtlError> {
        let adding = format!("give {} the address {address}", self.name);
        match address.address {
            IpAddr::V4(v4) => {
                let mut request = self.request();
                let mask = u32::MAX << (32 - u32::from(address.prefix_bits));
                let steps = [
                    (libc::SIOCSIFADDR, v4),
                    (libc::SIOCSIFNETMASK, Ipv4Addr::from(mask)),
                    (
                        libc::SIOCSIFBRDADDR,
                        address.broadcast().unwrap_or(Ipv4Addr::BROADCAST),
                    ),
                ];
                for (step, value) in steps {
                    request.ifr_ifru.ifru_addr = socket_address(value);
                    ioctl(control.as_fd(), step as u32, &mut request).map_err(system(adding.clone()))?;
                }
                Ok(())
            }
            IpAddr::V6(v6) => {
                let mut request = self.request();
                self.configure(control, libc::SIOCGIFINDEX as u32, &mut request, "find the index")?;
                let socket = control_socket(libc::AF_INET6)?;
                let mut request = V6Request {
                    address: v6,
                    prefix_bits: u32::from(address.prefix_bits),
                    // SAFETY: the kernel has filled in the index.
                    index: unsafe { request.ifr_ifru.ifru_ifindex },
                };
                ioctl(socket.as_fd(), libc::SIOCSIFADDR as u32, &mut request).map_err(system(adding))
            }
        }
    }

    fn request(&self) -> libc::ifreq {
        request(&self.name)
    }

    fn configure(
        &self,
        control: &OwnedFd,
        step: u32,
        request: &mut libc::ifreq,
        what: &str,
    ) -> Result<(), RtlError> {
        ioctl(control.as_fd(), step, request).map_err(system(format!("{what} of {}", self.name)))
    }

    /// Reads the next frame that the kernel sends on the device. Bytes that do not fit into `frame` are lost.
    ///
    /// # Errors
    /// `WouldBlock` if no frame waits; the system's error.
    pub fn read(&self, frame: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(frame)
    }

    /// Gives a frame to the kernel, which receives it on the device.
    ///
    /// # Errors
    /// The system's error, such as EIO while the device is down.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(drop)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns true if the kernel does not let this address of the thread's namespace be used yet.
fn is_tentative(address: IpAddr) -> bool {
    let IpAddr::V6(address) = address else {
        return false;
    };
    let Ok(all) = std::fs::read_to_string("/proc/thread-self/net/if_inet6") else {
        return false;
    };
    // Columns: address, index, length of the prefix, scope, flags, name; all numbers are hexadecimal.
    let address = format!("{:032x}", u128::from(address));
    let mut lines = all.lines().map(|line| line.split_ascii_whitespace());
    let found = lines.find_map(|mut columns| (columns.next()? == address).then(|| columns.nth(3))?);
    let flags = found.and_then(|flags| u32::from_str_radix(flags, 16).ok());
    flags.is_some_and(|flags| flags & TENTATIVE != 0)
}

/// struct in6_ifreq of linux/ipv6.h.
#[repr(C)]
struct V6Request {
    address: Ipv6Addr,
    prefix_bits: u32,
    index: libc::c_int,
}

const _: () = assert!(size_of::<V6Request>() == 24 && size_of::<Ipv6Addr>() == 16);

/// Switches the interface `name` on.
pub(crate) fn set_up(control: &OwnedFd, name: &str) -> Result<(), RtlError> {
    let mut request = request(name);
    let switching = || system(format!("switch {name} on"));
    ioctl(control.as_fd(), libc::SIOCGIFFLAGS as u32, &mut request).map_err(switching())?;
    // SAFETY: the kernel has filled in the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    ioctl(control.as_fd(), libc::SIOCSIFFLAGS as u32, &mut request).map_err(switching())
}

/// Returns a socket for requests about interfaces.
pub(crate) fn control_socket(family: libc::c_int) -> Result<OwnedFd, RtlError> {
    datagram_socket(family).map_err(system("open a socket"))
}

/// Returns a UDP socket of this family that is not bound.
pub(crate) fn datagram_socket(family: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes only numbers.
    let socket = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Returns a request about the interface `name`, which is cut after 15 bytes.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: the structure has only numbers, and 0 is valid for all of them.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request
        .ifr_name
        .iter_mut()
        .zip(name.bytes().take(libc::IFNAMSIZ - 1))
    {
        *place = byte as libc::c_char;
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut bytes = [0; 14];
    for (place, byte) in bytes[2..].iter_mut().zip(address.octets()) {
        *place = byte as libc::c_char;
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: bytes,
    }
}

fn ioctl<T>(descriptor: BorrowedFd<'_>, step: u32, request: &mut T) -> io::Result<()> {
    // SAFETY: each caller passes the structure that `step` takes, which is valid for reading and writing.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), step as _, std::ptr::from_mut(request)) };
    match result {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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
            "::1/129",
            "/24",
            "a/1",
            "10.0.0.1/-1",
            "",
        ] {
            assert_eq!(InterfaceAddress::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let error = Tap::create("lo").expect_err("it exists");
        assert!(matches!(error, RtlError::NameTaken(name) if name == "lo"));
    }
}
