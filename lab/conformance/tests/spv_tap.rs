//! Tests of `spv` with a tap device: whole frames in, whole frames out, compared byte for byte. Another library builds
//! the frames and the expected replies.

// Only other tests use the pair of interfaces in this module.
#[allow(dead_code)]
mod tap;

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use lineside_fastpath::{DropReason, Readers, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::chain::{BlockId, ChainStore, ImportOptions, Network, Tip};
use lineside_spv::datapath as spv;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::StoreWriter;
use lineside_testkit::DemoChain;
use lineside_testkit::skipped;
use lineside_wire::{SPV_PORT, SpvCounter};
use lineside_xdp::{AttachedMode, Interface, XdpDatapath, XdpError, XdpMode};
use std::path::Path;
use std::sync::Arc;
use tap::far::{
    self, CHECK, Encapsulation, FAR_PORT, FAR_V4, NEAR_V4, PLAIN, UDP, datagram, is_udp, pseudo_sum,
};
use tap::{FAR_MAC, NEAR_MAC, Observer, Tap};

const MODES: [(XdpMode, AttachedMode); 2] = [
    (XdpMode::Native, AttachedMode::Native),
    (XdpMode::Generic, AttachedMode::Generic),
];

/// Transaction, with the answer that a client must get.
#[derive(Clone, Copy)]
struct ExpectedAnswer {
    txid: Hash,
    root: Hash,
    block: Hash,
    height: u32,
}

fn request(way: Encapsulation, payload: &[u8]) -> Vec<u8> {
    far::request(SPV_PORT, way, payload)
}

fn reply(way: Encapsulation, payload: &[u8]) -> Vec<u8> {
    far::reply(SPV_PORT, way, payload)
}

fn checked_payload(frame: &[u8]) -> Vec<u8> {
    far::checked_payload(SPV_PORT, frame)
}

/// Returns the native header as docs/wire-formats.md describes it.
fn native_header(op: u8, body_bytes: usize, id: u64) -> Vec<u8> {
    let mut header = vec![0x4c, 0x53, 1, op, 0, 0];
    header.extend((body_bytes as u16).to_be_bytes());
    header.extend(id.to_be_bytes());
    header
}

fn root_request(txid: &Hash, id: u64) -> Vec<u8> {
    let mut request = native_header(1, 104, id);
    request.extend(txid);
    request.resize(16 + 104, 0);
    request
}

fn root_reply(known: &ExpectedAnswer, tip: Tip, id: u64) -> Vec<u8> {
    let mut reply = native_header(0x81, 104, id);
    reply.extend([known.root, known.block, tip.hash].concat());
    reply.extend(known.height.to_be_bytes());
    reply.extend(tip.height.to_be_bytes());
    reply
}

fn roots_request(all: &[ExpectedAnswer], id: u64) -> Vec<u8> {
    let mut request = native_header(2, 40 + 72 * all.len(), id);
    request.extend([0; 36]);
    request.extend((all.len() as u32).to_be_bytes());
    for known in all {
        request.extend(known.txid);
        request.extend([0; 40]);
    }
    request
}

fn roots_reply(all: &[ExpectedAnswer], tip: Tip, id: u64) -> Vec<u8> {
    let mut reply = native_header(0x82, 40 + 72 * all.len(), id);
    reply.extend(tip.hash);
    reply.extend(tip.height.to_be_bytes());
    reply.extend((all.len() as u32).to_be_bytes());
    for known in all {
        reply.extend([known.root, known.block].concat());
        reply.extend(known.height.to_be_bytes());
        reply.extend([0; 4]);
    }
    reply
}

/// Complete `spv` service at the tap interface `t0`.
struct Server {
    datapath: XdpDatapath,
    _socket: SocketDatapath,
    tip: Tip,
}

impl Server {
    fn start(mode: (XdpMode, AttachedMode), chain: ChainStore) -> Self {
        let geometry = geometry();
        let mut datapath = XdpDatapath::load(vec![spv::program(&geometry, SPV_PORT)], None).expect("load");
        let store: Arc<Store> = Arc::new(spv::store(&mut datapath, &geometry).expect("store"));
        store.format(&geometry).expect("geometry");
        lease::renew(&store.control().lease_until_ns, 60_000_000_000);
        let readers = Readers::new(true);
        // Without a connected block the fast path has zeros here.
        let tip = chain.tip().unwrap_or(Tip {
            hash: [0; 32],
            height: 0,
        });
        let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
        let host = SpvHost::new(chain, writer, readers.clone(), true);
        let options = SocketOptions {
            listen: "[::]:7701".parse().expect("address"),
            threads: 1,
            queue: 64,
        };
        let fastpath = Arc::new(SpvFastPath::new(store));
        let socket =
            SocketDatapath::start(options, fastpath, Arc::new(host), &readers).expect("socket datapath");
        let interface = Interface::find(tap::NAME).expect("the tap");
        assert_eq!(datapath.attach(&interface, mode.0).expect("attach"), mode.1);
        Self {
            datapath,
            _socket: socket,
            tip,
        }
    }

    fn hits(&mut self) -> u64 {
        let counts: [u64; SpvCounter::ALL.len()] = self.datapath.counts("spv_counts").expect("spv_counts");
        counts[SpvCounter::Hits as usize]
    }

    fn drops(&mut self, reason: DropReason) -> u64 {
        let counts: [u64; DropReason::ALL.len()] = self.datapath.drop_counts(None).expect("drops");
        counts[reason as usize]
    }
}

fn geometry() -> Geometry {
    Geometry {
        line_bits: 12,
        block_bits: 6,
        ..Geometry::default()
    }
}

fn demo() -> (ChainStore, Vec<ExpectedAnswer>) {
    let mut chain = ChainStore::open(None, Network::Regtest).expect("chain");
    let mut known = Vec::new();
    for (height, block) in DemoChain::new(7, 12).take(3).enumerate() {
        chain.submit(&block.raw, false).expect("block");
        known.extend(block.txids.iter().map(|txid| ExpectedAnswer {
            txid: *txid,
            root: block.root,
            block: block.hash,
            height: height as u32,
        }));
    }
    chain.catch_up().expect("connecting");
    (chain, known)
}

/// Returns transactions of real blocks. If the blocks are not available, prints one line and returns `None`.
fn real() -> Option<(ChainStore, Vec<ExpectedAnswer>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bitcoin-blocks");
    let Ok(entries) = std::fs::read_dir(&dir) else {
        skipped(format_args!("no real blocks at {}", dir.display()));
        return None;
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "raw" || end == "dat"))
        .collect();
    let mut chain = ChainStore::open(None, Network::Mainnet).expect("chain");
    // Blocks of other networks and altered blocks are refused. The test uses the others.
    let options = ImportOptions { detached: true };
    chain.import(&paths, options, &mut |_| {}).expect("import");
    let mut known = Vec::new();
    for id in (0..chain.blocks() as u32).map(BlockId) {
        let block = chain.block(id).expect("a block");
        let txids = chain.txids(id);
        let (root, _) = lineside_spv::chain::merkle_root(txids);
        let step = txids.len().div_ceil(7);
        known.extend(txids.iter().step_by(step).map(|txid| ExpectedAnswer {
            txid: *txid,
            root,
            block: block.hash,
            height: block.height,
        }));
    }
    assert!(known.len() > 20, "{} of {} files", known.len(), paths.len());
    Some((chain, known))
}

fn may_load_bpf() -> bool {
    match XdpDatapath::load(vec![spv::program(&geometry(), SPV_PORT)], None) {
        Ok(_) => true,
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs `test` with a server on its own tap device. If that is not possible, prints one line and skips the test.
fn behind_a_tap(
    mode: (XdpMode, AttachedMode),
    virtio: bool,
    chain: ChainStore,
    test: impl FnOnce(&mut Tap, &mut Server) + Send + 'static,
) {
    if !may_load_bpf() {
        return;
    }
    let Some((alone, mut tap)) = far::behind_a_tap(virtio) else {
        return;
    };
    alone.run(move || {
        let mut server = Server::start(mode, chain);
        test(&mut tap, &mut server);
    });
}

/// Checks that the first answer for each transaction comes from the host, which then fills the fast-path table, and
/// that all later answers come from the fast path with the same bytes.
fn miss_then_hit(tap: &mut Tap, server: &mut Server, known: &[ExpectedAnswer]) {
    for (number, known) in known.iter().enumerate() {
        let (before, id) = (server.hits(), number as u64 + 1);
        let v6 = number % 2 == 1;
        let way = Encapsulation { v6, vlan: false };
        // The host answers a miss in either format with the same content.
        let (asked, said) = match number % 3 {
            0 => (root_request(&known.txid, id), root_reply(known, server.tip, id)),
            _ => (known.txid.to_vec(), known.root.to_vec()),
        };
        tap.send(&request(way, &asked));
        assert_eq!(checked_payload(&tap.receive(is_udp)), said);
        assert_eq!(server.hits(), before, "the fast path answered a miss");
        tap.send(&request(way, &asked));
        assert_eq!(tap.receive(is_udp), reply(way, &said), "{way:?}");
        assert_eq!(server.hits(), before + 1);
    }
}

#[test]
fn a_miss_fills_the_fast_path_which_answers_the_next_request() {
    for mode in MODES {
        let (chain, known) = demo();
        behind_a_tap(mode, false, chain, move |tap, server| {
            miss_then_hit(tap, server, &known)
        });
    }
}

#[test]
fn transactions_of_a_real_block_are_answered() {
    for mode in MODES {
        let Some((chain, known)) = real() else { return };
        behind_a_tap(mode, false, chain, move |tap, server| {
            miss_then_hit(tap, server, &known);
            let all: Vec<_> = known.chunks(16).collect();
            for (id, some) in (1..).zip(all) {
                tap.send(&request(PLAIN, &roots_request(some, id)));
                assert_eq!(
                    tap.receive(is_udp),
                    reply(PLAIN, &roots_reply(some, server.tip, id))
                );
            }
        });
    }
}

/// Requests every transaction once, so that the fast-path table contains it.
fn warm(tap: &mut Tap, known: &[ExpectedAnswer]) {
    for known in known {
        tap.send(&request(PLAIN, &known.txid));
        assert_eq!(checked_payload(&tap.receive(is_udp)), known.root);
    }
}

#[test]
fn requests_in_every_encapsulation_are_answered() {
    for (mode, virtio) in MODES.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
        let (chain, known) = demo();
        behind_a_tap(mode, virtio, chain, move |tap, server| {
            warm(tap, &known);
            let before = server.hits();
            let mut asked = 0;
            let some = &known[3..19];
            for (v6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
                let way = Encapsulation { v6, vlan };
                let (one, tip) = (&known[9], server.tip);
                for (payload, said) in [
                    (one.txid.to_vec(), one.root.to_vec()),
                    (root_request(&one.txid, 5), root_reply(one, tip, 5)),
                    (roots_request(&some[..1], 6), roots_reply(&some[..1], tip, 6)),
                    (roots_request(some, 7), roots_reply(some, tip, 7)),
                ] {
                    tap.send(&request(way, &payload));
                    assert_eq!(tap.receive(is_udp), reply(way, &said), "{mode:?} {way:?}");
                    // The padding of an Ethernet frame must be returned unchanged.
                    let padded = |mut frame: Vec<u8>| {
                        frame.extend([0xee; 9]);
                        frame
                    };
                    tap.send(&padded(request(way, &payload)));
                    assert_eq!(
                        tap.receive(is_udp),
                        padded(reply(way, &said)),
                        "{mode:?} {way:?} padded"
                    );
                    asked += 2;
                }
            }
            assert_eq!(server.hits(), before + asked);
        });
    }
}

#[test]
fn requests_with_absent_partial_or_wrong_checksums_get_replies_with_right_ones() {
    for mode in MODES {
        let (chain, known) = demo();
        behind_a_tap(mode, true, chain, move |tap, server| {
            let (cached, missed) = known.split_at(20);
            warm(tap, cached);
            let (one, before) = (&cached[4], server.hits());
            let good = request(PLAIN, &one.txid);
            let with_check = |frame: &[u8], check: u16| {
                let mut frame = frame.to_vec();
                frame[CHECK..CHECK + 2].copy_from_slice(&check.to_be_bytes());
                frame
            };
            // A read needs no checksum: a request with a wrong checksum is answered, and the reply has a right one.
            for check in [0, 0x1234, 0xffff] {
                tap.send(&with_check(&good, check));
                assert_eq!(tap.receive(is_udp), reply(PLAIN, &one.root), "{check:#x}");
                assert!(!tap.needs_checksum());
            }
            tap.send_partial(&with_check(&good, pseudo_sum(&good)), UDP as u8);
            assert_eq!(tap.receive(is_udp), reply(PLAIN, &one.root), "partial");
            // In generic mode, the program cannot clear the kernel's mark that the packet has only a partial checksum.
            // The checksum of the reply is complete nevertheless.
            assert_eq!(tap.needs_checksum(), mode.1 == AttachedMode::Generic);
            assert_eq!(server.hits(), before + 4);
            // A miss goes to the kernel, which accepts a missing or partial checksum, but no wrong one.
            let (absent, partial, wrong, last) = (&missed[0], &missed[1], &missed[2], &missed[3]);
            tap.send(&with_check(&request(PLAIN, &absent.txid), 0));
            assert_eq!(checked_payload(&tap.receive(is_udp)), absent.root);
            let frame = request(PLAIN, &partial.txid);
            tap.send_partial(&with_check(&frame, pseudo_sum(&frame)), UDP as u8);
            assert_eq!(checked_payload(&tap.receive(is_udp)), partial.root);
            let frame = request(PLAIN, &wrong.txid);
            tap.send(&with_check(&frame, pseudo_sum(&frame) ^ 0x5555));
            tap.send(&request(PLAIN, &last.txid));
            assert_eq!(
                checked_payload(&tap.receive(is_udp)),
                last.root,
                "a request with a wrong checksum was answered"
            );
            assert_eq!(server.hits(), before + 4);
        });
    }
}

/// Returns frames that the fast path must ignore, each with a name.
fn foreign_frames(txid: &Hash) -> Vec<(&'static str, Vec<u8>)> {
    let good = request(PLAIN, txid);
    let changed = |changes: &[(usize, u8)]| {
        let mut frame = good.clone();
        changes.iter().for_each(|(at, byte)| frame[*at] = *byte);
        frame
    };
    let mut options = good.clone();
    options[14] = 0x46;
    options[17] += 4;
    options.splice(34..34, [1, 1, 1, 0]);
    let macs = [FAR_MAC, NEAR_MAC];
    let mut fragment_v6 = request(
        Encapsulation {
            v6: true,
            vlan: false,
        },
        txid,
    );
    fragment_v6[20] = 44;
    let mut double_tag = request(
        Encapsulation {
            v6: false,
            vlan: true,
        },
        txid,
    );
    double_tag.splice(12..12, [0x88, 0xa8, 0, 9]);
    let tcp = PacketBuilder::ethernet2(FAR_MAC, NEAR_MAC)
        .ipv4(FAR_V4, NEAR_V4, 64)
        .tcp(FAR_PORT, SPV_PORT, 1, 1000)
        .syn();
    let mut syn = Vec::new();
    tcp.write(&mut syn, &[]).expect("a SYN");
    let echo = PacketBuilder::ethernet2(FAR_MAC, NEAR_MAC)
        .ipv4(FAR_V4, NEAR_V4, 64)
        .icmpv4_echo_request(3, 4);
    let mut ping = Vec::new();
    echo.write(&mut ping, b"lineside").expect("an echo request");
    let mut arp = [&[0xff; 6][..], &FAR_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    arp.extend([&FAR_MAC[..], &FAR_V4, &[0; 6], &NEAR_V4].concat());
    vec![
        (
            "another port",
            datagram(macs, PLAIN, true, 17, [FAR_PORT, 53], txid),
        ),
        ("another machine's MAC", changed(&[(5, 0x99)])),
        (
            "the broadcast MAC address",
            changed(&[(0, 0xff), (1, 0xff), (2, 0xff), (3, 0xff), (4, 0xff), (5, 0xff)]),
        ),
        ("another address", changed(&[(33, 3)])),
        ("IP options", options),
        ("a first fragment", changed(&[(20, 0x20)])),
        ("a later fragment", changed(&[(20, 0), (21, 4)])),
        ("an IPv6 fragment", fragment_v6),
        ("a UDP length that is not IP's", changed(&[(39, 39)])),
        ("an IP length beyond the frame", changed(&[(17, 61), (39, 41)])),
        ("TCP", syn),
        ("an echo request", ping),
        ("ARP", arp),
        ("two tags", double_tag),
        ("an unknown type", changed(&[(12, 0x88), (13, 0xb5)])),
        ("an Ethernet header alone", good[..14].to_vec()),
    ]
}

/// Returns `frame` as a packet socket receives it: without its outermost VLAN tag.
fn untagged(frame: &[u8]) -> Vec<u8> {
    match frame[12..14] {
        [0x81, 0] | [0x88, 0xa8] => [&frame[..12], &frame[16..]].concat(),
        _ => frame.to_vec(),
    }
}

#[test]
fn foreign_frames_reach_the_kernel_stack_unchanged() {
    for mode in MODES {
        let (chain, known) = demo();
        behind_a_tap(mode, false, chain, move |tap, server| {
            warm(tap, &known);
            let mut stack = Observer::new();
            let before = server.hits();
            for (name, frame) in foreign_frames(&known[2].txid) {
                stack.clear();
                tap.send(&frame);
                assert_eq!(stack.receive(), untagged(&frame), "{mode:?}: {name}");
            }
            // The kernel accepts frames to the broadcast MAC address, so the host answers this request.
            let known = &known[2];
            assert_eq!(checked_payload(&tap.receive(is_udp)), known.root);
            // Frames that were dropped must neither reach the kernel's stack nor be answered.
            stack.clear();
            let txid = &known.txid;
            let own_port = datagram([FAR_MAC, NEAR_MAC], PLAIN, true, 17, [SPV_PORT, SPV_PORT], txid);
            let mut own_address = request(PLAIN, txid);
            own_address[26..30].copy_from_slice(&NEAR_V4);
            let mut reply_bit = root_request(txid, 1);
            reply_bit[3] |= 0x80;
            for (reason, frame) in [
                (DropReason::SourcePort, own_port),
                (DropReason::SourceAddress, own_address),
                (DropReason::ReplyBit, request(PLAIN, &reply_bit)),
                (DropReason::NotARequest, request(PLAIN, &txid[1..])),
                (DropReason::NotARequest, request(PLAIN, &[0; 32])),
            ] {
                let dropped = server.drops(reason);
                tap.send(&frame);
                assert_eq!(server.drops(reason), dropped + 1, "{reason:?}");
            }
            assert_eq!(server.hits(), before);
            while let Some(frame) = tap.poll() {
                let sliced = SlicedPacket::from_ethernet(&frame).expect("a frame");
                let udp = matches!(&sliced.transport, Some(TransportSlice::Udp(udp)) if udp.source_port() == SPV_PORT);
                assert!(!udp, "a foreign frame was answered: {frame:02x?}");
            }
            let last = datagram([FAR_MAC, NEAR_MAC], PLAIN, true, 17, [FAR_PORT, 53], txid);
            tap.send(&last);
            assert_eq!(stack.receive(), last, "the stack received a dropped frame");
        });
    }
}
