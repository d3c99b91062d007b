//! The XDP program of `spv` against its model, in the kernel, on one shared store.

use lineside_near::{Line, lease};
use lineside_plane::diff::{Frames, compare};
use lineside_plane::xdp::{MapSize, XdpError, XdpPlane};
use lineside_spv::near::SpvNear;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{DropReason, NATIVE_REPLY_BIT, SPV_OP_ROOT, SPV_PORT, SpvCounter, native};
use std::sync::Arc;
use zerocopy::IntoBytes;

const COUNT: u64 = 20_000;

/// A loaded plane with its store, or `None`, said in one line, where BPF may not be loaded.
fn plane(geometry: &Geometry) -> Option<(XdpPlane, Arc<Store>)> {
    let sizes = [
        MapSize {
            name: "spv_lines",
            entries: geometry.lines() as u32,
        },
        MapSize {
            name: "spv_blocks",
            entries: geometry.blocks() as u32,
        },
    ];
    let mut plane = match XdpPlane::load(&sizes) {
        Err(XdpError::NotAllowed(why)) => {
            eprintln!("skipped: BPF is not allowed here ({why})");
            return None;
        }
        other => other.expect("loading the XDP programs"),
    };
    let store = Store {
        lines: plane.table("spv_lines").expect("spv_lines"),
        blocks: plane.table("spv_blocks").expect("spv_blocks"),
        control: plane.table("spv_control").expect("spv_control"),
    };
    store.format(geometry).expect("a geometry that can be");
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    Some((plane, Arc::new(store)))
}

fn hash(number: u64) -> Hash {
    let mut hash = [0x5a; 32];
    for (index, place) in hash.chunks_exact_mut(8).enumerate() {
        place.copy_from_slice(
            &number
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(index as u32 * 9)
                .to_le_bytes(),
        );
    }
    hash
}

fn endpoint(loopback: bool) -> Endpoint {
    let addresses = ["10.0.0.2", "192.168.7.2", "fd00::2", "fe80::2"].map(|text| text.parse().unwrap());
    Endpoint::new(
        if loopback { [0; 6] } else { [2, 0, 0, 0, 0, 2] },
        loopback,
        &addresses,
    )
    .unwrap()
}

/// TXIDs of which two in three are cached, and native headers.
fn payloads() -> Vec<Vec<u8>> {
    let mut payloads: Vec<_> = (0..90).map(|number| hash(number).to_vec()).collect();
    for (op, id) in [(SPV_OP_ROOT, 1), (SPV_OP_ROOT | NATIVE_REPLY_BIT, 2), (99, 3)] {
        payloads.push(native::request_header(op, id, 0).as_bytes().to_vec());
    }
    payloads
}

fn fill(store: &Arc<Store>) -> StoreWriter {
    let mut writer = StoreWriter::new(Arc::clone(store));
    for number in 0..60 {
        let block = number / 10;
        let ticket = writer.admit(&BlockRef {
            hash: hash(1000 + block),
            root: hash(2000 + block),
            height: block as u32,
        });
        assert!(writer.fill(&hash(number), ticket));
    }
    writer.commit(&hash(1005), 5);
    writer
}

fn run(geometry: Geometry, loopback: bool, seed: u64, change: impl Fn(&Store, &mut StoreWriter)) -> bool {
    let Some((mut xdp, store)) = plane(&geometry) else {
        return false;
    };
    let mut writer = fill(&store);
    change(&store, &mut writer);
    let endpoint = endpoint(loopback);
    xdp.set_endpoint(&endpoint, SPV_PORT).expect("endpoint");
    let near = SpvNear::new(store);
    let line = Line {
        endpoint: &endpoint,
        port: SPV_PORT,
        near: &near,
    };
    let seen = compare(
        &mut Frames::new(seed, &endpoint, SPV_PORT, payloads()),
        COUNT,
        &line,
        &mut xdp,
    )
    .unwrap_or_else(|difference| panic!("{geometry:?} loopback {loopback} seed {seed}: {difference}"));
    let counts: [u64; SpvCounter::ALL.len()] = xdp.counts("spv_counts").expect("spv_counts");
    assert_eq!(counts, near.counters(), "counters of the two planes");
    assert_eq!(seen.frames, COUNT);
    assert!(seen.passed > COUNT / 10, "{seen:?}");
    let answered = geometry.paper_format && counts[SpvCounter::NotLeased as usize] == 0;
    assert_eq!(seen.transmitted > COUNT / 20, answered, "{seen:?}");
    assert_eq!(seen.transmitted, counts[SpvCounter::Hits as usize]);
    let refused = seen.dropped[DropReason::PaperRefused as usize] > 0;
    assert_eq!(refused, !geometry.paper_format, "{seen:?}");
    for reason in [
        DropReason::SourcePort,
        DropReason::SourceAddress,
        DropReason::NotARequest,
        DropReason::ReplyBit,
    ] {
        assert!(
            seen.dropped[reason as usize] > 0,
            "{} never happened: {seen:?}",
            reason.name()
        );
    }
    true
}

fn small() -> Geometry {
    Geometry {
        line_bits: 10,
        ways: 4,
        block_bits: 4,
        ..Geometry::default()
    }
}

#[test]
fn every_number_of_ways_and_both_indexes() {
    for (seed, ways) in [1, 2, 4].into_iter().enumerate() {
        for paper_index in [false, true] {
            let geometry = Geometry {
                ways,
                paper_index,
                ..small()
            };
            if !run(geometry, seed == 1, seed as u64, |_, _| ()) {
                return;
            }
        }
    }
}

#[test]
fn paper_format_refused() {
    run(
        Geometry {
            paper_format: false,
            ..small()
        },
        false,
        11,
        |_, _| (),
    );
}

#[test]
fn after_the_lease() {
    run(small(), false, 12, |store, _| {
        lease::end(&store.control().lease_until_ns)
    });
}

#[test]
fn while_the_chain_changes() {
    run(small(), false, 13, |_, writer| writer.begin());
}

#[test]
fn dropped_blocks_and_half_written_lines() {
    run(small(), false, 14, |store, writer| {
        writer.begin();
        assert!(writer.drop_block(&hash(1002)));
        writer.commit(&hash(1005), 5);
        let halves = store.lines.as_slice().iter().step_by(3);
        halves.for_each(|line| _ = line.seq.fetch_or(1, std::sync::atomic::Ordering::Relaxed));
    });
}
