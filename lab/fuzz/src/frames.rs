//! Fuzz targets for whole frames. They compare the parser with another parser, and the XDP programs with the model.

use crate::input::Input;
use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use lineside_conformance::frames::native;
use lineside_conformance::native::NativeDatapath;
use lineside_conformance::spv::Spv;
use lineside_conformance::vectors::File;
use lineside_conformance::vectors::spv::fill;
use lineside_fastpath::{DropReason, FrameHandler, FrameVerdict, lease};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::{Geometry, Store};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing, Datagram};
use lineside_wire::{SPV_PORT, csum};
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};

/// Returns the vector files, whose frames are the seeds.
pub(crate) fn vectors() -> Vec<File> {
    lineside_conformance::vectors::load("spv").unwrap_or_else(|fault| panic!("{fault}"))
}

fn vector_frames() -> Vec<Vec<u8>> {
    let files = vectors();
    let vectors = files.iter().flat_map(|file| &file.vectors);
    vectors.map(|vector| vector.frame()).collect()
}

pub fn frame_seeds() -> Vec<Vec<u8>> {
    vector_frames()
}

/// Checks that the parser agrees with etherparse, that a reply is its request with swapped addresses and right
/// checksums, and that a frame that is built from the parsed fields is parsed to the same fields.
pub fn frame(data: &[u8]) {
    let found = frame::parse(data);
    assert_eq!(found.map(essence), by_etherparse(data), "{data:02x?}");
    let Some(found) = found else { return };
    let payload = data[found.payload()].to_vec();

    let mut reply = data.to_vec();
    found.make_reply(&mut reply);
    let turned = frame::parse(&reply).expect("a reply is a frame");
    assert_eq!(
        (turned.source, turned.source_port),
        (found.destination, found.destination_port)
    );
    assert_eq!(
        (turned.destination, turned.destination_port),
        (found.source, found.source_port)
    );
    assert_eq!((&reply[..6], &reply[6..12]), (&data[6..12], &data[..6]));
    assert_eq!(&reply[12..found.ip], &data[12..found.ip], "the VLAN tag stays");
    assert_eq!(
        &reply[found.payload().start..],
        &data[found.payload().start..],
        "payload and padding stay"
    );
    assert!(udp_checksum_holds(&reply, &turned));
    if found.source.is_ipv4() {
        let broken = |frame: &[u8]| csum::fold(csum::sum(&frame[found.ip..found.udp])) % 0xffff;
        assert_eq!(
            broken(&reply),
            broken(data),
            "the header's checksum is as right as it was"
        );
    }

    let mut built = vec![0; data.len() + 40];
    let addressing = Addressing {
        source_mac: [2; 6],
        destination_mac: [4; 6],
        vlan: (found.ip == 18).then_some(7),
        source: found.source,
        destination: found.destination,
        source_port: found.source_port,
        destination_port: found.destination_port,
    };
    let bytes = frame::build(&mut built, &addressing, &payload).expect("it fits");
    let again = frame::parse(&built[..bytes]).expect("a built frame is a frame");
    assert_eq!(again, found);
    assert!(udp_checksum_holds(&built[..bytes], &again));
    assert_eq!(&built[again.payload()], &payload);
}

type Essence = (IpAddr, u16, IpAddr, u16, usize, usize);

fn essence(found: Datagram) -> Essence {
    let Datagram {
        source,
        source_port,
        destination,
        destination_port,
        ..
    } = found;
    let payload = found.payload();
    (
        source,
        source_port,
        destination,
        destination_port,
        payload.start,
        payload.end,
    )
}

/// Returns the fields that etherparse finds, if the fast path answers this kind of frame.
fn by_etherparse(data: &[u8]) -> Option<Essence> {
    let packet = SlicedPacket::from_ethernet(data).ok()?;
    let plain_tag = |tag: &LinkExtSlice<'_>| {
        // etherparse also accepts 0x9100 as a VLAN tag; the fast path does not.
        matches!(tag, LinkExtSlice::Vlan(_)) && matches!(data[12..14], [0x81, 0] | [0x88, 0xa8])
    };
    if packet.link_exts.len() > 1 || !packet.link_exts.iter().all(plain_tag) {
        return None;
    }
    let (source, destination, said): (IpAddr, IpAddr, usize) = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let plain = header.ihl() == 5 && !ip.is_payload_fragmented() && header.protocol().0 == 17;
            let said = usize::from(header.total_len()) - 20;
            plain.then_some((
                header.source_addr().into(),
                header.destination_addr().into(),
                said,
            ))?
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let said = usize::from(header.payload_length());
            let plain = header.next_header().0 == 17;
            plain.then_some((
                header.source_addr().into(),
                header.destination_addr().into(),
                said,
            ))?
        }
        NetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Udp(udp)) = packet.transport else {
        return None;
    };
    // etherparse treats a length of 0 as a jumbogram (RFC 2675); the fast path passes such frames to the host.
    if usize::from(udp.length()) != said || said < 8 {
        return None;
    }
    let start = udp.payload().as_ptr() as usize - data.as_ptr() as usize;
    let end = start + udp.payload().len();
    Some((
        source,
        udp.source_port(),
        destination,
        udp.destination_port(),
        start,
        end,
    ))
}

/// Checks the UDP checksum: the sum of all bytes, including pseudo-header and checksum, must fold to ones.
fn udp_checksum_holds(frame: &[u8], found: &Datagram) -> bool {
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => csum::sum(&v4.octets()),
        IpAddr::V6(v6) => csum::sum(&v6.octets()),
    };
    let pseudo = octets(found.source) + octets(found.destination) + 17 + 8 + found.payload_bytes as u64;
    let udp = &frame[found.udp..found.payload().end];
    udp[6..8] != [0, 0] && csum::fold(pseudo + csum::sum(udp)) == 0xffff
}

// ---- the XDP programs, natively ----

struct Rig {
    kind: u8,
    endpoint: Endpoint,
    store: Arc<Store>,
    fastpath: SpvFastPath,
    datapath: NativeDatapath,
}

/// Blocks that the table contains. They are the same in every vector file.
static HELD: LazyLock<File> = LazyLock::new(|| vectors().swap_remove(0));

/// Bits of the first byte of an input. The two lowest bits select the kind of interface, the others the state of the
/// fast path.
const LEASE_OVER: u8 = 4;
const CHANGING: u8 = 8;
const HALF_WRITTEN: u8 = 16;
const PAPER_REFUSED: u8 = 32;

const GEOMETRY: Geometry = Geometry {
    line_bits: 6,
    ways: 4,
    block_bits: 4,
    tree_bits: 8,
    paper_index: false,
    paper_format: true,
};

fn endpoint(kind: u8) -> Endpoint {
    let own: Vec<IpAddr> = ["10.0.0.2", "192.168.7.2", "fd00::2", "fe80::2"]
        .iter()
        .filter_map(|text| text.parse().ok())
        .collect();
    let on_lo = kind == 1;
    let mac = if on_lo { [0; 6] } else { [2, 0, 0, 0, 0, 2] };
    let mut endpoint = Endpoint::new(mac, on_lo, &own).expect("few enough");
    endpoint.set_broadcast([10, 0, 0, 2].into(), [10, 0, 0, 255].into());
    if kind == 2 {
        endpoint.keep_only(own[0]);
    }
    endpoint
}

impl Rig {
    fn new(kind: u8) -> Self {
        let store = Arc::new(Store::anonymous(&GEOMETRY).expect("memory"));
        // `set` writes the lease and the epoch.
        let _writer = fill(&HELD, &store);
        let endpoint = endpoint(kind);
        let datapath = native::<Spv>(&store, &GEOMETRY, &endpoint, SPV_PORT).expect("memory");
        Self {
            kind,
            endpoint,
            fastpath: SpvFastPath::new(Arc::clone(&store)),
            store,
            datapath,
        }
    }

    fn set(&self, state: u8) {
        let control = self.store.control();
        let until_ns = if state & LEASE_OVER != 0 { 0 } else { u64::MAX };
        control.lease_until_ns.store(until_ns, Relaxed);
        let epoch = control.epoch.load(Relaxed) & !1;
        control
            .epoch
            .store(epoch | u64::from(state & CHANGING != 0), Relaxed);
        control
            .paper_format
            .store((state & PAPER_REFUSED == 0).into(), Relaxed);
        for line in self.store.lines.as_slice().iter().step_by(3) {
            let seq = line.seq.load(Relaxed) & !1;
            line.seq
                .store(seq | u64::from(state & HALF_WRITTEN != 0), Relaxed);
        }
    }
}

thread_local! {
    static RIG: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

pub fn xdp_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for file in vectors() {
        let kind = match file.name.as_str() {
            "loopback" => 1,
            "lease-over" => LEASE_OVER,
            "chain-changing" => CHANGING,
            "paper-refused" => PAPER_REFUSED,
            _ => 0,
        };
        seeds.extend(
            file.vectors
                .iter()
                .map(|vector| [&[kind][..], &vector.frame()].concat()),
        );
    }
    seeds
}

/// Checks that the programs and the model give the same verdict, bytes, drop reason and counters.
pub fn xdp(data: &[u8]) {
    let mut input = Input(data);
    let state = input.byte();
    let frame = input.take(2048);
    RIG.with_borrow_mut(|rig| {
        let kind = state & 3;
        if rig.as_ref().is_none_or(|rig| rig.kind != kind) {
            // Only one native datapath can exist at a time, so the old one must be dropped first.
            *rig = None;
            *rig = Some(Rig::new(kind));
        }
        rig.as_mut().into_iter().for_each(|rig| agree(rig, state, frame));
    });
}

fn agree(rig: &mut Rig, state: u8, frame: &[u8]) {
    rig.set(state);
    let before = (
        rig.datapath.drops(),
        rig.datapath.counts("spv_counts"),
        rig.fastpath.counters(),
    );
    let mut model = frame.to_vec();
    let line = FrameHandler {
        endpoint: &rig.endpoint,
        port: SPV_PORT,
        fastpath: &rig.fastpath,
    };
    let said = line.answer(lease::now_ns(), &mut model);
    let (verdict, left) = rig.datapath.run(frame);
    let (drops, counters, by_model) = (
        rig.datapath.drops(),
        rig.datapath.counts("spv_counts"),
        rig.fastpath.counters(),
    );
    let mut expected = before.0;
    match said {
        FrameVerdict::Drop(reason) => {
            assert!(
                matches!(verdict, FrameVerdict::Drop(_)),
                "the model dropped the frame, and the program returned {verdict:?}"
            );
            expected[reason as usize] += 1;
        }
        said => {
            assert_eq!(verdict, said);
            assert_eq!(left, model, "{said:?}");
        }
    }
    if said == FrameVerdict::Pass {
        assert_eq!(model, frame, "forwarded unchanged");
    }
    assert_eq!(drops, expected, "{:?}", DropReason::ALL);
    let rose =
        |after: &[u64], before: &[u64]| after.iter().zip(before).map(|(a, b)| a - b).collect::<Vec<_>>();
    assert_eq!(rose(&counters, &before.1), rose(&by_model, &before.2), "{said:?}");
}
