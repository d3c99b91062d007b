//! Parses Ethernet frames that carry a UDP datagram, and turns a request frame into its reply in place.
//!
//! The parser accepts IPv4 without options and IPv6 without extension headers, unfragmented, with at most one VLAN tag.
//! A fast path passes all other frames to the host.

use crate::trace::{NoTrace, Rule, Trace};
use crate::{csum, native};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETH_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;
const PROTOCOL_UDP: u8 = 17;
/// Maximum time to live (IPv4) and hop limit (IPv6) of a reply.
const TTL: u8 = 64;

/// Returns the time to live of the reply `payload` to a request that arrived with `ttl`. If the result is 0, no reply
/// may be sent.
///
/// No server answers a native reply, because it carries the reply bit. A reply in a paper's format may look like a
/// request. An attacker could therefore send each of two servers a request whose forged source is the other server, and
/// they would answer each other for ever. To prevent this, each reply in a paper's format has one hop less than its
/// request, so a packet and its replies are exchanged at most [`TTL`] times.
pub fn reply_ttl(payload: &[u8], ttl: u8) -> u8 {
    if native::is_native(payload) {
        TTL
    } else {
        ttl.saturating_sub(1).min(TTL)
    }
}

/// A UDP datagram found in a frame. Offsets are from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Offset of the IP header: 14, or 18 after a VLAN tag.
    pub ip: usize,
    /// Offset of the UDP header.
    pub udp: usize,
    /// Number of bytes of the UDP payload, which begins at `udp + 8`.
    pub payload_bytes: usize,
    /// Source address.
    pub source: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?))
}

fn array<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..at + N)?.try_into().ok()
}

/// Finds the UDP datagram in `frame`. Returns `None` for frames outside the supported subset, which the fast path
/// passes to the host unchanged.
pub fn parse(frame: &[u8]) -> Option<Datagram> {
    parse_with(frame, &mut NoTrace)
}

/// Like [`parse`]; `trace` receives the decisions.
#[inline]
pub fn parse_with<T: Trace>(frame: &[u8], trace: &mut T) -> Option<Datagram> {
    let mut ip = ETH_BYTES;
    let outer = be16(frame, 12);
    let is_tagged = matches!(outer, Some(ETHERTYPE_VLAN | ETHERTYPE_QINQ));
    if trace.choose(Rule::VlanTag, 12..14, is_tagged) {
        ip += VLAN_BYTES;
    }
    let ethertype = be16(frame, ip - 2);
    trace
        .require(Rule::EthernetHeader, 0..ip, ethertype.is_some())
        .then_some(())?;
    let is_ipv4 = ethertype == Some(ETHERTYPE_IPV4);
    let (udp, ip_payload_bytes, source, destination) =
        if trace.choose(Rule::EtherTypeIpv4, ip - 2..ip, is_ipv4) {
            parse_ipv4(frame, ip, trace)?
        } else {
            let is_ipv6 = ethertype == Some(ETHERTYPE_IPV6);
            trace
                .require(Rule::EtherTypeIpv6, ip - 2..ip, is_ipv6)
                .then_some(())?;
            parse_ipv6(frame, ip, trace)?
        };
    let udp_bytes = be16(frame, udp + 4).map(usize::from);
    trace
        .require(Rule::UdpHeader, udp + 4..udp + 6, udp_bytes.is_some())
        .then_some(())?;
    let udp_bytes = udp_bytes?;
    let fits = udp_bytes == ip_payload_bytes && udp_bytes >= UDP_BYTES && frame.len() >= udp + udp_bytes;
    trace
        .require(Rule::UdpLength, udp + 4..udp + 6, fits)
        .then_some(())?;
    Some(Datagram {
        ip,
        udp,
        payload_bytes: udp_bytes - UDP_BYTES,
        source,
        source_port: be16(frame, udp)?,
        destination,
        destination_port: be16(frame, udp + 2)?,
    })
}

/// Offset of the UDP header, length of the IP payload in bytes, source and destination.
type IpHeader = (usize, usize, IpAddr, IpAddr);

#[inline]
fn parse_ipv4<T: Trace>(frame: &[u8], ip: usize, trace: &mut T) -> Option<IpHeader> {
    let header: Option<[u8; IPV4_BYTES]> = array(frame, ip);
    trace
        .require(Rule::IpHeader, ip..ip + IPV4_BYTES, header.is_some())
        .then_some(())?;
    let header = header?;
    let is_whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
    let is_supported = trace.require(Rule::Ipv4Start, ip..ip + 1, header[0] == 0x45)
        && trace.require(Rule::Unfragmented, ip + 6..ip + 8, is_whole)
        && trace.require(Rule::ProtocolUdp, ip + 9..ip + 10, header[9] == PROTOCOL_UDP);
    is_supported.then_some(())?;
    let total = usize::from(be16(&header, 2)?);
    trace
        .require(Rule::IpLength, ip + 2..ip + 4, total >= IPV4_BYTES)
        .then_some(())?;
    Some((
        ip + IPV4_BYTES,
        total.checked_sub(IPV4_BYTES)?,
        Ipv4Addr::from(array::<4>(&header, 12)?).into(),
        Ipv4Addr::from(array::<4>(&header, 16)?).into(),
    ))
}

#[inline]
fn parse_ipv6<T: Trace>(frame: &[u8], ip: usize, trace: &mut T) -> Option<IpHeader> {
    let header: Option<[u8; IPV6_BYTES]> = array(frame, ip);
    trace
        .require(Rule::IpHeader, ip..ip + IPV6_BYTES, header.is_some())
        .then_some(())?;
    let header = header?;
    let is_supported = trace.require(Rule::Ipv6Version, ip..ip + 1, header[0] >> 4 == 6)
        && trace.require(Rule::ProtocolUdp, ip + 6..ip + 7, header[6] == PROTOCOL_UDP);
    is_supported.then_some(())?;
    Some((
        ip + IPV6_BYTES,
        usize::from(be16(&header, 4)?),
        Ipv6Addr::from(array::<16>(&header, 8)?).into(),
        Ipv6Addr::from(array::<16>(&header, 24)?).into(),
    ))
}

impl Datagram {
    /// Returns the byte range of the UDP payload in the frame.
    pub fn payload(&self) -> core::ops::Range<usize> {
        let start = self.udp + UDP_BYTES;
        start..start + self.payload_bytes
    }

    /// Returns the time to live (IPv4) or hop limit (IPv6) of the frame.
    pub fn ttl(&self, frame: &[u8]) -> u8 {
        frame[self.ttl_place()]
    }

    fn ttl_place(&self) -> usize {
        self.ip + if self.source.is_ipv4() { 8 } else { 7 }
    }

    /// Returns the place of the time to live (IPv4) or hop limit (IPv6) in the frame.
    pub fn ttl_range(&self) -> core::ops::Range<usize> {
        self.ttl_place()..self.ttl_place() + 1
    }

    /// Returns the places of the source address and of the destination address in the frame.
    pub fn address_ranges(&self) -> [core::ops::Range<usize>; 2] {
        let (first, bytes) = if self.source.is_ipv4() { (12, 4) } else { (8, 16) };
        let begin = self.ip + first;
        [begin..begin + bytes, begin + bytes..begin + 2 * bytes]
    }

    /// Turns the request in `frame` into its reply. The caller has already replaced the payload by one of the same
    /// length. Source and destination are swapped (MAC, IP, port), the time to live is set to the result of
    /// [`reply_ttl`], and the UDP checksum is computed from scratch. The IPv4 header checksum is updated incrementally,
    /// so that a header that arrived with a wrong checksum leaves with a wrong one.
    pub fn make_reply(&self, frame: &mut [u8]) {
        let ttl = reply_ttl(&frame[self.payload()], self.ttl(frame));
        swap(frame, 0, 6, 6);
        swap(frame, self.udp, self.udp + 2, 2);
        let addresses = if self.source.is_ipv4() {
            let old = u16::from_be_bytes([frame[self.ip + 8], PROTOCOL_UDP]);
            let new = u16::from_be_bytes([ttl, PROTOCOL_UDP]);
            let check = u16::from_be_bytes([frame[self.ip + 10], frame[self.ip + 11]]);
            // If the time to live does not change, the checksum stays exactly as it arrived.
            if old != new {
                let check = csum::update(check, old, new);
                frame[self.ttl_place()] = ttl;
                frame[self.ip + 10..self.ip + 12].copy_from_slice(&check.to_be_bytes());
            }
            swap(frame, self.ip + 12, self.ip + 16, 4);
            self.ip + 12..self.ip + IPV4_BYTES
        } else {
            frame[self.ttl_place()] = ttl;
            swap(frame, self.ip + 8, self.ip + 24, 16);
            self.ip + 8..self.ip + IPV6_BYTES
        };
        let end = self.payload().end;
        frame[self.udp + 6..self.udp + 8].fill(0);
        let pseudo = csum::sum(&frame[addresses]) + u64::from(PROTOCOL_UDP) + (end - self.udp) as u64;
        let check = csum::udp(pseudo + csum::sum(&frame[self.udp..end]));
        frame[self.udp + 6..self.udp + 8].copy_from_slice(&check.to_be_bytes());
    }

    /// Returns true if the UDP checksum is correct, or is the pseudo-header sum that a local sender leaves for its
    /// network interface (lo, veth, tap, virtio) to complete. Returns false for the checksum 0 ("no checksum").
    pub fn is_intact(&self, frame: &[u8]) -> bool {
        let addresses = if self.source.is_ipv4() {
            self.ip + 12..self.ip + IPV4_BYTES
        } else {
            self.ip + 8..self.ip + IPV6_BYTES
        };
        let end = self.payload().end;
        let pseudo = csum::sum(&frame[addresses]) + u64::from(PROTOCOL_UDP) + (end - self.udp) as u64;
        let check = u16::from_be_bytes([frame[self.udp + 6], frame[self.udp + 7]]);
        let total = csum::fold(pseudo + csum::sum(&frame[self.udp..end]));
        check != 0 && (total == 0xffff || check == csum::fold(pseudo))
    }
}

fn swap(frame: &mut [u8], a: usize, b: usize, bytes: usize) {
    for at in 0..bytes {
        frame.swap(a + at, b + at);
    }
}

/// Builds a request frame, for clients that send below the socket layer and for tests. Returns the number of bytes
/// used, or `None` if the frame does not fit or the addresses are of different families.
pub fn build(out: &mut [u8], datagram: &Addressing, payload: &[u8]) -> Option<usize> {
    let ip = if datagram.vlan.is_some() {
        ETH_BYTES + VLAN_BYTES
    } else {
        ETH_BYTES
    };
    let udp_bytes = UDP_BYTES + payload.len();
    let (ethertype, udp) = match datagram.source {
        IpAddr::V4(_) => (ETHERTYPE_IPV4, ip + IPV4_BYTES),
        IpAddr::V6(_) => (ETHERTYPE_IPV6, ip + IPV6_BYTES),
    };
    let end = udp + udp_bytes;
    let frame = out.get_mut(..end)?;
    frame[..udp].fill(0);
    frame[..6].copy_from_slice(&datagram.destination_mac);
    frame[6..12].copy_from_slice(&datagram.source_mac);
    if let Some(tag) = datagram.vlan {
        frame[12..14].copy_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
        frame[14..16].copy_from_slice(&tag.to_be_bytes());
    }
    frame[ip - 2..ip].copy_from_slice(&ethertype.to_be_bytes());
    let addresses = match (datagram.source, datagram.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame[ip] = 0x45;
            frame[ip + 2..ip + 4].copy_from_slice(&u16::try_from(IPV4_BYTES + udp_bytes).ok()?.to_be_bytes());
            frame[ip + 6] = 0x40;
            frame[ip + 8] = TTL;
            frame[ip + 9] = PROTOCOL_UDP;
            frame[ip + 12..ip + 16].copy_from_slice(&source.octets());
            frame[ip + 16..ip + 20].copy_from_slice(&destination.octets());
            let check = !csum::fold(csum::sum(&frame[ip..udp]));
            frame[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());
            ip + 12..udp
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame[ip] = 0x60;
            frame[ip + 4..ip + 6].copy_from_slice(&u16::try_from(udp_bytes).ok()?.to_be_bytes());
            frame[ip + 6] = PROTOCOL_UDP;
            frame[ip + 7] = TTL;
            frame[ip + 8..ip + 24].copy_from_slice(&source.octets());
            frame[ip + 24..ip + 40].copy_from_slice(&destination.octets());
            ip + 8..udp
        }
        _ => return None,
    };
    frame[udp..udp + 2].copy_from_slice(&datagram.source_port.to_be_bytes());
    frame[udp + 2..udp + 4].copy_from_slice(&datagram.destination_port.to_be_bytes());
    frame[udp + 4..udp + 6].copy_from_slice(&u16::try_from(udp_bytes).ok()?.to_be_bytes());
    frame[udp + 6..udp + 8].fill(0);
    frame[udp + 8..].copy_from_slice(payload);
    let pseudo = csum::sum(&frame[addresses]) + u64::from(PROTOCOL_UDP) + udp_bytes as u64;
    let check = csum::udp(pseudo + csum::sum(&frame[udp..]));
    frame[udp + 6..udp + 8].copy_from_slice(&check.to_be_bytes());
    Some(end)
}

/// Addresses and ports of a frame, for [`build`].
#[derive(Clone, Copy, Debug)]
pub struct Addressing {
    /// Source MAC address.
    pub source_mac: [u8; 6],
    /// Destination MAC address.
    pub destination_mac: [u8; 6],
    /// VLAN tag, if any: priority and id, as on the wire.
    pub vlan: Option<u16>,
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family as the source.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addressing(v6: bool, vlan: bool) -> Addressing {
        let (source, destination) = if v6 {
            ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
        } else {
            ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
        };
        Addressing {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan: vlan.then_some(0x2007),
            source,
            destination,
            source_port: 40000,
            destination_port: 7701,
        }
    }

    /// Verifies a frame's UDP checksum by a method that the code under test does not use: the sum over all bytes must
    /// fold to 0xffff.
    fn checksum_holds(frame: &[u8], datagram: &Datagram) -> bool {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => csum::sum(&v4.octets()),
            IpAddr::V6(v6) => csum::sum(&v6.octets()),
        };
        let pseudo =
            octets(datagram.source) + octets(datagram.destination) + 17 + 8 + datagram.payload_bytes as u64;
        csum::fold(pseudo + csum::sum(&frame[datagram.udp..datagram.payload().end])) == 0xffff
    }

    proptest! {
        #[test]
        fn reply_is_the_request_turned_round(
            v6: bool,
            vlan: bool,
            payload in proptest::collection::vec(any::<u8>(), 0..200),
            padding in 0usize..20,
        ) {
            let mut frame = vec![0u8; 600];
            let to = addressing(v6, vlan);
            let bytes = build(&mut frame, &to, &payload).unwrap() + padding;
            frame.truncate(bytes);
            let request = parse(&frame).unwrap();
            prop_assert!(checksum_holds(&frame, &request));
            prop_assert_eq!(&frame[request.payload()], &payload[..]);
            request.make_reply(&mut frame);
            let reply = parse(&frame).unwrap();
            prop_assert!(checksum_holds(&frame, &reply));
            prop_assert_eq!((reply.source, reply.source_port), (to.destination, to.destination_port));
            prop_assert_eq!((reply.destination, reply.destination_port), (to.source, to.source_port));
            prop_assert_eq!(&frame[..6], &to.source_mac);
            if !v6 {
                prop_assert_eq!(csum::fold(csum::sum(&frame[reply.ip..reply.udp])), 0xffff);
            }
        }

        #[test]
        fn no_frame_makes_it_panic(
            mut frame in proptest::collection::vec(any::<u8>(), 0..120),
            keep_type: bool,
            v6: bool,
        ) {
            if keep_type && frame.len() > 14 {
                let kind = if v6 { ETHERTYPE_IPV6 } else { ETHERTYPE_IPV4 };
                frame[12..14].copy_from_slice(&kind.to_be_bytes());
                frame[14] = if v6 { 0x60 } else { 0x45 };
            }
            if let Some(datagram) = parse(&frame) {
                prop_assert!(datagram.payload().end <= frame.len());
                datagram.make_reply(&mut frame);
            }
        }
    }

    #[test]
    fn frames_other_than_plain_udp_are_left_to_the_host() {
        let mut good = vec![0u8; 100];
        let bytes = build(&mut good, &addressing(false, false), &[7; 32]).unwrap();
        good.truncate(bytes);
        let refused = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = good.clone();
            change(&mut frame);
            parse(&frame).is_none()
        };
        assert!(parse(&good).is_some());
        assert!(refused(&|frame| frame[14] = 0x46), "options");
        assert!(refused(&|frame| frame[20] = 0x20), "more fragments");
        assert!(refused(&|frame| frame[21] = 1), "fragment offset");
        assert!(refused(&|frame| frame[23] = 6), "TCP");
        assert!(
            refused(&|frame| frame[39] -= 1),
            "UDP length smaller than the IP payload"
        );
        assert!(refused(&|frame| frame.truncate(73)), "truncated");
        assert!(
            refused(&|frame| frame[12..14].copy_from_slice(&[0x08, 0x06])),
            "ARP"
        );
    }
}
