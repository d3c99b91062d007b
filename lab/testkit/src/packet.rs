//! Socket that sends whole Ethernet frames, for example frames with a forged source address.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Packet socket (AF_PACKET) bound to one interface.
pub struct PacketSocket {
    socket: OwnedFd,
    address: libc::sockaddr_ll,
}

impl PacketSocket {
    /// Opens a socket at `interface` in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Error of the operating system, for example if the interface does not exist or the process lacks CAP_NET_RAW.
    pub fn open(interface: &str) -> io::Result<Self> {
        // SAFETY: socket takes no pointers. With protocol 0 the socket receives nothing.
        let descriptor = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, and no other code owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let name = CString::new(interface)?;
        // SAFETY: the string ends with a zero byte and outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: zeros in all bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        Ok(Self { socket, address })
    }

    /// Sends one frame, which begins with the Ethernet header.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the descriptor is open, and buffer and address outlive the call.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                std::ptr::from_ref(&self.address).cast(),
                size_of_val(&self.address) as libc::socklen_t,
            )
        };
        if sent == frame.len() as isize {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
