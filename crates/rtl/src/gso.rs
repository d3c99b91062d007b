//! Generic segmentation offload: datagrams of one flow in one frame, which the kernel splits for their receiver.
//!
//! The kernel takes longer to receive a frame than to split off one more datagram, so the drivers of NICs join the
//! datagrams of a flow that arrive together. The kernel does not check the checksums of the joined datagrams. Therefore
//! [`GsoFrame`] takes only datagrams with correct checksums.

use crate::tap::Tap;
use lineside_wire::csum;
use lineside_wire::frame::{Datagram, parse};
use std::io;

/// Offset of the IP header. Frames with a VLAN tag are not joined.
const IP_AT: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const PROTOCOL_UDP: u64 = 17;
/// Maximum number of datagrams in a frame. It is the maximum for senders on Linux before 6.9 (`UDP_MAX_SEGMENTS`).
const DATAGRAMS_MAX: usize = 64;
/// Maximum number of bytes after the Ethernet header: the lengths in the headers of IPv4 and UDP have 16 bits.
const IP_BYTES_MAX: usize = 65_535;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum field has only the sum of the pseudo-header (linux/virtio_net.h).
const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_UDP_L4`: the payload is that of several datagrams (linux/virtio_net.h, since Linux 6.2).
const GSO_UDP_L4: u8 = 5;

/// `struct virtio_net_hdr` (linux/virtio_net.h), which goes before each frame to and from a TAP device. The numbers
/// have the byte order of the machine.
pub(crate) type VirtioHeader = [u8; 10];
/// Header of a frame that is complete.
pub(crate) const COMPLETE: VirtioHeader = [0; 10];

/// Frame for datagrams that have the same headers and the same length.
#[derive(Debug, Default)]
pub(crate) struct GsoFrame {
    /// Frame of the first datagram, followed by the payloads of the others.
    bytes: Vec<u8>,
    /// Offset of the UDP header.
    udp_at: usize,
    /// Length of each payload in bytes.
    payload_bytes: usize,
    /// Number of datagrams; 0 for an empty frame.
    datagrams: usize,
}

impl GsoFrame {
    /// Replaces the content by the datagram in `frame`. Returns false, with nothing left in it, if that datagram cannot
    /// be joined with others.
    fn begin(&mut self, frame: &[u8]) -> bool {
        self.clear();
        let Some(datagram) = parse(frame) else {
            return false;
        };
        let Datagram {
            udp, payload_bytes, ..
        } = datagram;
        let is_joinable = datagram.ip == IP_AT
            && payload_bytes > 0
            && frame.len() == datagram.payload().end
            && has_right_checksums(frame, udp);
        if is_joinable {
            self.bytes.extend_from_slice(frame);
            self.udp_at = udp;
            self.payload_bytes = payload_bytes;
            self.datagrams = 1;
        }
        is_joinable
    }

    /// Adds the datagram in `frame`. Returns false, and changes nothing, if its headers or its length differ, a
    /// checksum is wrong, or there is no room.
    fn join(&mut self, frame: &[u8]) -> bool {
        let has_room = (1..DATAGRAMS_MAX).contains(&self.datagrams)
            && self.bytes.len() + self.payload_bytes - IP_AT <= IP_BYTES_MAX;
        let joins = has_room && self.has_headers_of(frame) && has_right_checksums(frame, self.udp_at);
        if joins {
            self.bytes.extend_from_slice(&frame[self.udp_at + UDP_BYTES..]);
            self.datagrams += 1;
        }
        joins
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.datagrams = 0;
    }

    /// Returns true if `frame` has the length and the headers of the first datagram, apart from the checksums and the
    /// identification of IPv4.
    fn has_headers_of(&self, frame: &[u8]) -> bool {
        let checksum_at = self.udp_at + 6;
        let is_same = |from: usize, to: usize| frame[from..to] == self.bytes[from..to];
        if frame.len() != self.udp_at + UDP_BYTES + self.payload_bytes {
            false
        } else if is_ipv4(self.udp_at) {
            is_same(0, IP_AT + 4) && is_same(IP_AT + 6, IP_AT + 10) && is_same(IP_AT + 12, checksum_at)
        } else {
            is_same(0, checksum_at)
        }
    }

    /// Writes the lengths and checksums of the whole frame into its headers. Returns the header for the kernel. Nothing
    /// can be added afterwards.
    fn complete(&mut self) -> VirtioHeader {
        let (udp_at, ip_bytes) = (self.udp_at, (self.bytes.len() - IP_AT) as u16);
        let udp_bytes = (self.bytes.len() - udp_at) as u16;
        if is_ipv4(udp_at) {
            let at = |place: usize| IP_AT + place..IP_AT + place + 2;
            self.bytes[at(2)].copy_from_slice(&ip_bytes.to_be_bytes());
            self.bytes[at(10)].fill(0);
            let check = !csum::fold(csum::sum(&self.bytes[IP_AT..udp_at]));
            self.bytes[at(10)].copy_from_slice(&check.to_be_bytes());
        } else {
            self.bytes[IP_AT + 4..IP_AT + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        }
        self.bytes[udp_at + 4..udp_at + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        let pseudo = csum::fold(pseudo_sum(&self.bytes, udp_at));
        self.bytes[udp_at + 6..udp_at + 8].copy_from_slice(&pseudo.to_be_bytes());
        let mut header = COMPLETE;
        header[..2].copy_from_slice(&[NEEDS_CSUM, GSO_UDP_L4]);
        for (place, number) in [
            (2, udp_at + UDP_BYTES),
            (4, self.payload_bytes),
            (6, udp_at),
            (8, 6),
        ] {
            header[place..place + 2].copy_from_slice(&(number as u16).to_ne_bytes());
        }
        header
    }
}

const fn is_ipv4(udp_at: usize) -> bool {
    udp_at == IP_AT + IPV4_BYTES
}

/// Returns the sum of the pseudo-header of a datagram that ends with its frame.
fn pseudo_sum(frame: &[u8], udp_at: usize) -> u64 {
    let addresses_at = IP_AT + if is_ipv4(udp_at) { 12 } else { 8 };
    csum::sum(&frame[addresses_at..udp_at]) + PROTOCOL_UDP + (frame.len() - udp_at) as u64
}

/// Returns true if the checksums of IPv4 and UDP are there and correct. The datagram ends with its frame.
fn has_right_checksums(frame: &[u8], udp_at: usize) -> bool {
    let is_right = |sum| csum::fold(sum) == 0xffff;
    frame[udp_at + 6..udp_at + 8] != [0; 2]
        && is_right(pseudo_sum(frame, udp_at) + csum::sum(&frame[udp_at..]))
        && (!is_ipv4(udp_at) || is_right(csum::sum(&frame[IP_AT..udp_at])))
}

/// Sends frames to a TAP device in their order, and joins datagrams of one flow that follow each other.
pub(crate) struct Sender<'a> {
    tap: &'a Tap,
    joined: &'a mut GsoFrame,
    outcome: Sent,
}

/// Numbers of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Frames that the kernel took.
    pub(crate) taken: u64,
    /// Frames that it did not take.
    pub(crate) refused: u64,
    /// Frames that it took in one frame with others.
    pub(crate) joined: u64,
}

impl<'a> Sender<'a> {
    /// `joined` is memory for the frame in which datagrams wait.
    pub(crate) fn new(tap: &'a Tap, joined: &'a mut GsoFrame) -> Self {
        joined.clear();
        Self {
            tap,
            joined,
            outcome: Sent::default(),
        }
    }

    /// Sends `frame`, now or with the next frames.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        if self.joined.join(frame) {
            return;
        }
        self.flush();
        if !(self.tap.takes_gso() && self.joined.begin(frame)) {
            self.outcome.add(1, self.tap.write(frame));
        }
    }

    /// Sends the datagrams that wait, and returns what became of all frames.
    pub(crate) fn finish(mut self) -> Sent {
        self.flush();
        self.outcome
    }

    fn flush(&mut self) {
        let datagrams = self.joined.datagrams as u64;
        let written = match datagrams {
            0 => return,
            1 => self.tap.write(&self.joined.bytes),
            _ => {
                let header = self.joined.complete();
                self.tap.write_with(&header, &self.joined.bytes)
            }
        };
        self.outcome.add(datagrams, written);
        self.joined.clear();
    }
}

impl Sent {
    fn add(&mut self, frames: u64, written: io::Result<()>) {
        match written {
            Ok(()) => {
                self.taken += frames;
                self.joined += if frames > 1 { frames } else { 0 };
            }
            Err(_) => self.refused += frames,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::InterfaceAddress;
    use lineside_testkit::can_create_tap;
    use lineside_testkit::netns::alone;
    use lineside_wire::frame::{Addressing, build};
    use std::net::{IpAddr, UdpSocket};
    use std::time::Duration;

    const PAYLOAD_AT: [usize; 2] = [42, 62];

    fn addressing(is_v6: bool) -> Addressing {
        let address = |v4: &str, v6: &str| -> IpAddr { if is_v6 { v6 } else { v4 }.parse().unwrap() };
        Addressing {
            source_mac: [2; 6],
            destination_mac: [4; 6],
            vlan: None,
            source: address("10.79.0.2", "fd79::2"),
            destination: address("10.79.0.1", "fd79::1"),
            source_port: 7701,
            destination_port: 40_000,
        }
    }

    fn frame(addressing: &Addressing, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 2048];
        let length = build(&mut bytes, addressing, payload).unwrap();
        bytes.truncate(length);
        bytes
    }

    /// Splits a frame as the rules of `struct virtio_net_hdr` say: sizes and places come from the header alone.
    fn split(header: VirtioHeader, bytes: &[u8]) -> Vec<Vec<u8>> {
        let number = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
        let (headers_bytes, size, udp_at) = (number(2), number(4), number(6));
        assert_eq!((header[0], header[1], number(8)), (NEEDS_CSUM, GSO_UDP_L4, 6));
        let datagram = parse(bytes).expect("the lengths of the headers are those of the whole frame");
        assert_eq!(
            (datagram.udp, datagram.payload()),
            (udp_at, headers_bytes..bytes.len())
        );
        assert_eq!(datagram.payload_bytes % size, 0);
        let payloads = bytes[headers_bytes..].chunks(size);
        payloads
            .map(|payload| {
                let mut one = vec![0; 2048];
                let addressing = Addressing {
                    source_mac: bytes[6..12].try_into().unwrap(),
                    destination_mac: bytes[..6].try_into().unwrap(),
                    vlan: None,
                    source: datagram.source,
                    destination: datagram.destination,
                    source_port: datagram.source_port,
                    destination_port: datagram.destination_port,
                };
                let length = build(&mut one, &addressing, payload).unwrap();
                one.truncate(length);
                one
            })
            .collect()
    }

    #[test]
    fn the_joined_frame_splits_into_the_frames_that_it_took() {
        for is_v6 in [false, true] {
            let frames: Vec<_> = (0..DATAGRAMS_MAX as u8)
                .map(|number| frame(&addressing(is_v6), &[number; 33]))
                .collect();
            let mut joined = GsoFrame::default();
            assert!(!joined.join(&frames[0]), "there is nothing to join with");
            assert!(joined.begin(&frames[0]));
            assert!(frames[1..].iter().all(|frame| joined.join(frame)));
            assert!(!joined.join(&frames[0]), "it is full");
            let header = joined.complete();
            assert_eq!(split(header, &joined.bytes), frames);
            if !is_v6 {
                assert_eq!(csum::fold(csum::sum(&joined.bytes[IP_AT..34])), 0xffff);
            }
        }
    }

    #[test]
    fn no_frame_is_longer_than_the_headers_can_say() {
        let frame = frame(&addressing(false), &[1; 1472]);
        let mut joined = GsoFrame::default();
        assert!(joined.begin(&frame));
        let more = (0..DATAGRAMS_MAX).take_while(|_| joined.join(&frame)).count();
        // 44 payloads of 1,472 bytes and 28 bytes of headers are 64,796 bytes.
        assert_eq!(more, 43);
        assert_eq!(split(joined.complete(), &joined.bytes).len(), 44);
    }

    #[test]
    fn only_whole_datagrams_of_one_flow_with_right_checksums_join() {
        for is_v6 in [false, true] {
            let first = frame(&addressing(is_v6), b"first");
            let payload_at = PAYLOAD_AT[usize::from(is_v6)];
            let mut joined = GsoFrame::default();
            assert!(joined.begin(&first));
            let before = joined.bytes.clone();
            // Each byte of the headers and the payload changed: only the identification of IPv4 may differ, and then
            // its checksum is wrong.
            for place in 0..first.len() {
                let mut other = first.clone();
                other[place] ^= 0x10;
                assert!(!joined.join(&other), "byte {place}");
                let begins = GsoFrame::default().begin(&other);
                // Of Ethernet, the MAC addresses, and of IPv6, class, flow and hop limit have no checksum.
                let is_unprotected = place < 12 || is_v6 && matches!(place, 15..=17 | 21);
                assert_eq!(begins, is_unprotected, "byte {place}");
            }
            for other in [
                frame(&addressing(is_v6), b"longer"),
                frame(
                    &Addressing {
                        vlan: Some(7),
                        ..addressing(is_v6)
                    },
                    b"first",
                ),
                frame(
                    &Addressing {
                        destination_port: 40_001,
                        ..addressing(is_v6)
                    },
                    b"first",
                ),
                frame(&addressing(!is_v6), b"first"),
                [&first[..], &[0]].concat(),
                first[..first.len() - 1].to_vec(),
                Vec::new(),
            ] {
                assert!(!joined.join(&other));
            }
            let mut unchecked = first.clone();
            unchecked[payload_at - 2..payload_at].fill(0);
            for alone in [
                unchecked,
                frame(&addressing(is_v6), b""),
                frame(
                    &Addressing {
                        vlan: Some(7),
                        ..addressing(is_v6)
                    },
                    b"first",
                ),
                [&first[..], &[0]].concat(),
            ] {
                assert!(!joined.join(&alone));
                assert!(!GsoFrame::default().begin(&alone));
            }
            assert_eq!(joined.bytes, before);
            assert!(joined.join(&frame(&addressing(is_v6), b"other")));
        }
    }

    /// Sends the frames to the device, and returns what became of them and the number of frames that the device got.
    fn send(tap: &Tap, frames: &[Vec<u8>]) -> (Sent, u64) {
        let received = || -> u64 {
            let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let line = all.lines().find_map(|line| line.trim().strip_prefix("lsgso0:"));
            line.and_then(|line| line.split_whitespace().nth(1))
                .unwrap()
                .parse()
                .unwrap()
        };
        let (mut joined, before) = (GsoFrame::default(), received());
        let mut sender = Sender::new(tap, &mut joined);
        frames.iter().for_each(|frame| sender.send(frame));
        (sender.finish(), received() - before)
    }

    /// Sends `frame` until the kernel gives it to `socket`: the route of a new IPv6 address comes a moment later.
    fn wait_for_address(tap: &Tap, socket: &UdpSocket, frame: &[u8]) {
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let arrives = || {
            tap.write(frame).unwrap();
            socket.recv(&mut [0; 64]).is_ok()
        };
        assert!(
            (0..1000).any(|_| arrives()),
            "the address is not there after 10 s"
        );
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }

    #[test]
    fn the_kernel_gives_each_datagram_to_its_socket_in_order() {
        if !can_create_tap() {
            return;
        }
        alone(|| {
            let tap = Tap::create("lsgso0").unwrap();
            let addresses = ["10.79.0.1/24", "fd79::1/64"].map(|text| InterfaceAddress::parse(text).unwrap());
            tap.start(&addresses).unwrap();
            if !tap.takes_gso() {
                println!(
                    "skipped: this kernel does not split frames of several UDP datagrams (Linux 6.2 does)"
                );
                return;
            }
            for is_v6 in [false, true] {
                let to = Addressing {
                    destination_mac: tap.mac(),
                    ..addressing(is_v6)
                };
                let sockets = [40_000, 40_001].map(|port| {
                    let socket = UdpSocket::bind((to.destination, port)).unwrap();
                    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    socket
                });
                let other = Addressing {
                    destination_port: 40_001,
                    ..to
                };
                let mut frames: Vec<_> = (0..130).map(|number| frame(&to, &[number; 32])).collect();
                // The kernel drops this one, and the frames around it stay in their order.
                frames[100][PAYLOAD_AT[usize::from(is_v6)]] ^= 1;
                frames.push(frame(&other, &[200; 32]));
                frames.push(frame(&to, &[130; 31]));
                wait_for_address(&tap, &sockets[0], &frame(&to, b"first"));
                // 64, 36 and 29 datagrams of 32 bytes are joined; the other three frames go alone.
                let expected = Sent {
                    taken: 132,
                    refused: 0,
                    joined: 129,
                };
                assert_eq!(send(&tap, &frames), (expected, 6));
                for number in (0..=130).filter(|number| *number != 100) {
                    let mut payload = [0; 64];
                    let bytes = sockets[0].recv(&mut payload).unwrap();
                    let expected = vec![number; if number == 130 { 31 } else { 32 }];
                    assert_eq!(payload[..bytes], expected);
                }
                let mut payload = [0; 64];
                assert_eq!(sockets[1].recv(&mut payload).unwrap(), 32);
                assert_eq!(payload[0], 200);
            }
        });
    }
}
