//! Remote machine on the tap device. Another library builds and checks its frames.

use super::{FAR_MAC, NEAR_MAC, Tap};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanId};
use lineside_testkit::netns::Namespace;

pub const FAR_PORT: u16 = 40_000;
const REQUEST_TTL: u8 = 17;
pub const NEAR_V4: [u8; 4] = [10, 0, 0, 2];
pub const FAR_V4: [u8; 4] = [10, 0, 0, 1];
pub const NEAR_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
pub const FAR_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
/// Offset of the UDP header in an IPv4 frame without a VLAN tag.
pub const UDP: usize = 34;
pub const CHECK: usize = UDP + 6;

/// Encapsulation of a request: address family and VLAN tag.
#[derive(Clone, Copy, Debug)]
pub struct Encapsulation {
    pub v6: bool,
    pub vlan: bool,
}

pub const PLAIN: Encapsulation = Encapsulation {
    v6: false,
    vlan: false,
};

/// Returns a namespace with `t0`, its addresses and neighbours, and the remote side of the device. If they cannot be
/// created, prints one line and returns `None`.
pub fn behind_a_tap(virtio: bool) -> Option<(Namespace, Tap)> {
    let alone = Namespace::new()?;
    let tap = alone.run(move || Tap::new(virtio))?;
    alone.ip("link set t0 address 02:00:00:00:00:02");
    alone.ip("address add 10.0.0.2/24 broadcast 10.0.0.255 dev t0");
    alone.ip("address add fd00::2/64 dev t0 nodad");
    alone.ip("link set t0 up");
    alone.ip("neighbour replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev t0 nud permanent");
    alone.ip("neighbour replace fd00::1 lladdr 02:00:00:00:00:01 dev t0 nud permanent");
    Some((alone, tap))
}

pub fn datagram(
    macs: [[u8; 6]; 2],
    way: Encapsulation,
    to_fastpath: bool,
    ttl: u8,
    ports: [u16; 2],
    payload: &[u8],
) -> Vec<u8> {
    let (v4, v6) = match to_fastpath {
        true => ([FAR_V4, NEAR_V4], [FAR_V6, NEAR_V6]),
        false => ([NEAR_V4, FAR_V4], [NEAR_V6, FAR_V6]),
    };
    let link = PacketBuilder::ethernet2(macs[0], macs[1]);
    let tag = VlanId::try_new(7).expect("a VLAN");
    let packet = match way {
        Encapsulation {
            v6: false,
            vlan: false,
        } => link.ipv4(v4[0], v4[1], ttl),
        Encapsulation {
            v6: false,
            vlan: true,
        } => link.single_vlan(tag).ipv4(v4[0], v4[1], ttl),
        Encapsulation {
            v6: true,
            vlan: false,
        } => link.ipv6(v6[0], v6[1], ttl),
        Encapsulation { v6: true, vlan: true } => link.single_vlan(tag).ipv6(v6[0], v6[1], ttl),
    };
    let packet = packet.udp(ports[0], ports[1]);
    let mut frame = Vec::with_capacity(packet.size(payload.len()));
    packet.write(&mut frame, payload).expect("building a frame");
    frame
}

pub fn request(port: u16, way: Encapsulation, payload: &[u8]) -> Vec<u8> {
    datagram(
        [FAR_MAC, NEAR_MAC],
        way,
        true,
        REQUEST_TTL,
        [FAR_PORT, port],
        payload,
    )
}

/// Returns the reply that the fast path must give to [`request`] with this payload.
pub fn reply(port: u16, way: Encapsulation, payload: &[u8]) -> Vec<u8> {
    let is_native = payload.len() >= 16 && payload.starts_with(b"LS");
    let ttl = if is_native { 64 } else { REQUEST_TTL - 1 };
    datagram([NEAR_MAC, FAR_MAC], way, false, ttl, [port, FAR_PORT], payload)
}

/// Returns the payload of a UDP reply to the remote machine. All checksums of the reply must be present and right.
pub fn checked_payload(port: u16, frame: &[u8]) -> Vec<u8> {
    let sliced = SlicedPacket::from_ethernet(frame).expect("a frame");
    let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
        panic!("no UDP: {frame:02x?}");
    };
    let header = udp.to_header();
    assert_eq!((header.source_port, header.destination_port), (port, FAR_PORT));
    assert_eq!((&frame[..6], &frame[6..12]), (&FAR_MAC[..], &NEAR_MAC[..]));
    let due = match sliced.net.expect("IP") {
        NetSlice::Ipv4(v4) => {
            let ip = v4.header().to_header();
            assert_eq!((ip.source, ip.destination), (NEAR_V4, FAR_V4));
            assert_eq!(ip.header_checksum, ip.calc_header_checksum());
            header.calc_checksum_ipv4(&ip, udp.payload())
        }
        NetSlice::Ipv6(v6) => {
            let ip = v6.header().to_header();
            assert_eq!((ip.source, ip.destination), (NEAR_V6, FAR_V6));
            header.calc_checksum_ipv6(&ip, udp.payload())
        }
        other => panic!("not IP: {other:?}"),
    };
    assert_ne!(header.checksum, 0);
    assert_eq!(header.checksum, due.expect("a checksum"));
    udp.payload().to_vec()
}

pub fn is_udp(frame: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ethernet(frame);
    sliced.is_ok_and(|sliced| matches!(sliced.transport, Some(TransportSlice::Udp(_))))
}

/// Returns the sum of the pseudo-header of an IPv4 frame without a VLAN tag by RFC 1071, word by word.
pub fn pseudo_sum(frame: &[u8]) -> u16 {
    let word = |at: usize| u32::from(frame[at]) << 8 | u32::from(frame[at + 1]);
    let mut sum = word(26) + word(28) + word(30) + word(32) + 17 + word(UDP + 4);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
