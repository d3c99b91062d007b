//! TAP devices: network interfaces whose frames this process sends and receives. The kernel removes a device when its
//! descriptor is closed, so also when the process is killed.

use crate::address::{self, InterfaceAddress};
use crate::error::{RtlError, system};
use crate::gso::{COMPLETE, VirtioHeader};
use crate::nic::FRAME_ROOM;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Request of `ioctl` that makes a descriptor of /dev/net/tun a device (linux/if_tun.h).
const TUNSETIFF: u32 = 0x4004_54ca;
/// Request of `ioctl` for frames that the kernel has not completed (linux/if_tun.h).
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
/// `TUN_F_CSUM | TUN_F_USO4 | TUN_F_USO6`: frames without a checksum, and frames of several UDP datagrams over IPv4 and
/// IPv6 (linux/if_tun.h).
const TUN_F_CSUM_USO: libc::c_ulong = 0x01 | 0x20 | 0x40;
/// Number of frames that wait for this process at most; further ones are lost. A burst of clients fits.
const QUEUE_FRAMES: libc::c_int = 8192;

/// TAP device in the network namespace of the thread that created it. Dropping it removes the device. If another thread
/// starts a program at that moment, the device exists until the new process has closed its copy of the descriptor.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    mac: [u8; 6],
    takes_gso: bool,
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
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        let creating = format!("create the TAP device {name}");
        ioctl(file.as_fd(), TUNSETIFF, &mut request).map_err(system(creating))?;
        let mut tap = Self {
            takes_gso: takes_gso(&file),
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

    /// Gives the device these addresses, and switches it on. Returns the number of the interface. The calling thread
    /// must be in the namespace of the device.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(&self, addresses: &[InterfaceAddress]) -> Result<u32, RtlError> {
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
        set_up(&control, &self.name)?;
        self.configure(
            &control,
            libc::SIOCGIFINDEX as u32,
            &mut request,
            "find the index",
        )?;
        // SAFETY: the kernel has filled in the index, a number above 0.
        let index = unsafe { request.ifr_ifru.ifru_ifindex } as u32;
        address::add_all(index, &self.name, addresses)?;
        Ok(index)
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
        let mut buffer = [0; COMPLETE.len() + FRAME_ROOM];
        let bytes = (&self.file)
            .read(&mut buffer)?
            .saturating_sub(COMPLETE.len())
            .min(frame.len());
        frame[..bytes].copy_from_slice(&buffer[COMPLETE.len()..][..bytes]);
        Ok(bytes)
    }

    /// Gives a frame to the kernel, which receives it on the device.
    ///
    /// # Errors
    /// The system's error, such as EIO while the device is down.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        self.write_with(&COMPLETE, frame)
    }

    /// Gives a frame to the kernel with a header that may say how to split it.
    ///
    /// # Errors
    /// The system's error, such as EIO while the device is down.
    pub(crate) fn write_with(&self, header: &VirtioHeader, frame: &[u8]) -> io::Result<()> {
        (&self.file)
            .write_vectored(&[IoSlice::new(header), IoSlice::new(frame)])
            .map(drop)
    }

    /// Returns true if the kernel splits frames of several UDP datagrams.
    pub(crate) const fn takes_gso(&self) -> bool {
        self.takes_gso
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns true if the kernel splits frames of several UDP datagrams, as Linux does since 6.2. Such a kernel can also
/// send them, which is what this function asks for.
fn takes_gso(file: &File) -> bool {
    let offload = |flags: libc::c_ulong| {
        // SAFETY: the argument is a number.
        unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD as _, flags) == 0 }
    };
    // The second call takes the request back, so all frames from the kernel are complete.
    offload(TUN_F_CSUM_USO) && offload(0)
}

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

    #[test]
    fn a_name_that_is_taken_is_refused() {
        let error = Tap::create("lo").expect_err("it exists");
        assert!(matches!(error, RtlError::NameTaken(name) if name == "lo"));
    }
}
