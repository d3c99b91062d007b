//! Tap device whose remote side is the test: frames that the test writes arrive at the interface, and the test reads
//! the frames that leave the interface.

pub mod far;

use lineside_testkit::skipped;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

pub const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const NAME: &str = "t0";
/// Time-out for a frame that must arrive. It is long, because it is not used for measurements.
const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of struct virtio_net_hdr in bytes.
const VIRTIO_BYTES: usize = 10;
const VIRTIO_NEEDS_CHECKSUM: u8 = 1;
const FRAME_ROOM: usize = 4096;

/// Remote side of the tap device.
pub struct Tap {
    file: File,
    virtio: bool,
    needs_checksum: bool,
}

impl Tap {
    /// Creates `t0` in the calling thread's network namespace. If `virtio` is true, each frame has a header that may
    /// leave its checksum to the receiver, as in virtual machines. If there is no tap device, prints one line and
    /// returns `None`.
    pub fn new(virtio: bool) -> Option<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
        let file = match options.open("/dev/net/tun") {
            Ok(file) => file,
            Err(error) => {
                skipped(format_args!(
                    "tap devices are not available (/dev/net/tun: {error})"
                ));
                return None;
            }
        };
        let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
        if virtio {
            flags |= libc::IFF_VNET_HDR;
        }
        // SAFETY: zeros in all bytes are a valid ifreq.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(NAME.bytes()) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: the descriptor is open, and `request` outlives the call.
        let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
        assert_eq!(made, 0, "TUNSETIFF: {}", std::io::Error::last_os_error());
        Some(Self {
            file,
            virtio,
            needs_checksum: false,
        })
    }

    /// Sends a frame to the interface.
    pub fn send(&mut self, frame: &[u8]) {
        self.send_behind([0; VIRTIO_BYTES], frame);
    }

    /// Sends a frame whose UDP header, at offset `udp`, contains the sum of the pseudo-header instead of the checksum.
    pub fn send_partial(&mut self, frame: &[u8], udp: u8) {
        assert!(self.virtio);
        // Fields of the header: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset, in the byte order of this
        // machine.
        let header = [VIRTIO_NEEDS_CHECKSUM, 0, 0, 0, 0, 0, udp, 0, 6, 0];
        self.send_behind(header, frame);
    }

    /// Returns whether the last received frame leaves its checksum to the receiver.
    pub fn needs_checksum(&self) -> bool {
        self.needs_checksum
    }

    fn send_behind(&mut self, header: [u8; VIRTIO_BYTES], frame: &[u8]) {
        let mut whole = if self.virtio { header.to_vec() } else { Vec::new() };
        whole.extend_from_slice(frame);
        let written = self.file.write(&whole).expect("writing to the tap");
        assert_eq!(written, whole.len());
    }

    /// Returns the next frame that leaves the interface and for which `wanted` is true. Other frames are ignored,
    /// because the kernel sends some frames of its own.
    pub fn receive(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let until = Instant::now() + FRAME_TIMEOUT;
        while Instant::now() < until {
            match self.poll() {
                Some(frame) if wanted(&frame) => return frame,
                Some(_) => (),
                None => wait_readable(&self.file),
            }
        }
        panic!("no frame left the interface within {FRAME_TIMEOUT:?}");
    }

    /// Returns a frame that has already left the interface, if there is one.
    pub fn poll(&mut self) -> Option<Vec<u8>> {
        let mut frame = vec![0; FRAME_ROOM];
        let bytes = match self.file.read(&mut frame) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
            Err(error) => panic!("reading from the tap: {error}"),
        };
        let start = if self.virtio { VIRTIO_BYTES } else { 0 };
        self.needs_checksum = self.virtio && frame[0] & VIRTIO_NEEDS_CHECKSUM != 0;
        Some(frame[start..bytes].to_vec())
    }
}

fn wait_readable(file: &impl AsRawFd) {
    let mut wait = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: the array has one entry, to which the call may write.
    unsafe { libc::poll(&mut wait, 1, 100) };
}

/// Packet socket that receives the frames that XDP passes to the kernel's stack.
pub struct Observer(OwnedFd);

impl Observer {
    pub fn new() -> Self {
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(all)) };
        assert!(fd >= 0, "AF_PACKET: {}", std::io::Error::last_os_error());
        // SAFETY: the call above has just returned this descriptor, and no other code owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: zeros in all bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let name = std::ffi::CString::new(NAME).expect("a name");
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        // SAFETY: `name` is a C string that outlives the call.
        address.sll_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) } as i32;
        let bytes = size_of_val(&address) as u32;
        // SAFETY: the address has the length `bytes` and outlives the call.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), bytes) };
        assert_eq!(bound, 0, "bind: {}", std::io::Error::last_os_error());
        Self(socket)
    }

    /// Discards the frames that were received so far.
    pub fn clear(&mut self) {
        while self.next(libc::MSG_DONTWAIT).is_some() {}
    }

    /// Returns the next frame that arrives at the interface.
    pub fn receive(&mut self) -> Vec<u8> {
        let until = Instant::now() + FRAME_TIMEOUT;
        while Instant::now() < until {
            match self.next(libc::MSG_DONTWAIT) {
                Some((frame, libc::PACKET_OUTGOING)) => drop(frame),
                Some((frame, _)) => return frame,
                None => wait_readable(&self.0),
            }
        }
        panic!("no frame reached the stack within {FRAME_TIMEOUT:?}");
    }

    /// Returns a frame and its packet type, which says whether the frame was incoming or outgoing.
    fn next(&mut self, flags: libc::c_int) -> Option<(Vec<u8>, libc::c_uchar)> {
        let mut frame = vec![0u8; FRAME_ROOM];
        // SAFETY: zeros in all bytes are a valid sockaddr_ll.
        let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut from_bytes = size_of_val(&from) as u32;
        // SAFETY: the call may write to both buffers, which have the given lengths.
        let bytes = unsafe {
            libc::recvfrom(
                self.0.as_raw_fd(),
                frame.as_mut_ptr().cast(),
                frame.len(),
                flags,
                std::ptr::from_mut(&mut from).cast(),
                &mut from_bytes,
            )
        };
        if bytes < 0 {
            let error = std::io::Error::last_os_error();
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "recvfrom: {error}");
            return None;
        }
        frame.truncate(bytes as usize);
        Some((frame, from.sll_pkttype))
    }
}
