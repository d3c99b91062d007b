//! Tests of the fast path of `spv` against a plain map, with dropped blocks, collisions and a concurrent writer.

use lineside_fastpath::{DropReason, FastPath, Reply, Source, Verdict, lease};
use lineside_spv::chain::Tip;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::{Geometry, Hash, Store, words};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_wire::{NATIVE_REPLY_BIT, SPV_OP_ROOT, SpvCounter, native};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::IntoBytes;

const FROM: Source = Source {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
    port: 40000,
};

struct Rig {
    store: Arc<Store>,
    fastpath: SpvFastPath,
    writer: StoreWriter,
}

fn rig(geometry: Geometry) -> Rig {
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    Rig {
        fastpath: SpvFastPath::new(Arc::clone(&store)),
        writer: StoreWriter::new(Arc::clone(&store)),
        store,
    }
}

fn small() -> Geometry {
    Geometry {
        line_bits: 6,
        ways: 4,
        block_bits: 3,
        ..Geometry::default()
    }
}

fn hash(kind: u8, number: u32) -> Hash {
    let mut hash = [kind; 32];
    hash[..4].copy_from_slice(&number.to_le_bytes());
    hash[20..24].copy_from_slice(&number.to_be_bytes());
    hash
}

fn block(number: u32) -> BlockRef {
    BlockRef {
        hash: hash(1, number),
        root: hash(2, number),
        height: number,
    }
}

fn ask(fastpath: &SpvFastPath, request: &[u8]) -> Result<Vec<u8>, Verdict> {
    let mut reply = Reply::default();
    match fastpath.answer(FROM, lease::now_ns(), request, &mut reply) {
        Verdict::Reply => Ok(reply.as_bytes().to_vec()),
        other => Err(other),
    }
}

#[test]
fn a_lookup_hits_misses_and_ends_with_the_lease() {
    let mut rig = rig(small());
    let ticket = rig.writer.admit(&block(1));
    assert!(rig.writer.fill(&hash(9, 1), ticket, 0));
    assert_eq!(ask(&rig.fastpath, &hash(9, 1)), Ok(hash(2, 1).to_vec()));
    assert_eq!(ask(&rig.fastpath, &hash(9, 2)), Err(Verdict::Forward));
    lease::end(&rig.store.control().lease_until_ns);
    assert_eq!(ask(&rig.fastpath, &hash(9, 1)), Err(Verdict::Forward));
    let counted = rig.fastpath.counters();
    let of = |counter: SpvCounter| counted[counter as usize];
    assert_eq!(
        (
            of(SpvCounter::Hits),
            of(SpvCounter::Misses),
            of(SpvCounter::NotLeased)
        ),
        (1, 1, 1)
    );
}

#[test]
fn packets_that_are_not_requests_are_dropped_with_a_reason() {
    let rig = rig(Geometry {
        paper_format: false,
        ..small()
    });
    assert_eq!(
        ask(&rig.fastpath, &[0; 31]),
        Err(Verdict::Drop(DropReason::NotARequest))
    );
    assert_eq!(
        ask(&rig.fastpath, &[]),
        Err(Verdict::Drop(DropReason::NotARequest))
    );
    assert_eq!(
        ask(&rig.fastpath, &[0; 32]),
        Err(Verdict::Drop(DropReason::NotARequest)),
        "the paper's reply `unknown` is not a request"
    );
    assert_eq!(
        ask(&rig.fastpath, &[1; 32]),
        Err(Verdict::Drop(DropReason::PaperRefused))
    );
    let mut header = native::request_header(SPV_OP_ROOT, 7, 0);
    assert_eq!(ask(&rig.fastpath, header.as_bytes()), Err(Verdict::Forward));
    header.op |= NATIVE_REPLY_BIT;
    assert_eq!(
        ask(&rig.fastpath, header.as_bytes()),
        Err(Verdict::Drop(DropReason::ReplyBit))
    );
}

#[test]
fn after_a_block_is_dropped_its_lines_and_late_fills_are_invalid() {
    let mut rig = rig(small());
    let ticket = rig.writer.admit(&block(1));
    assert!(rig.writer.fill(&hash(9, 1), ticket, 0));
    rig.writer.begin();
    assert_eq!(
        ask(&rig.fastpath, &hash(9, 1)),
        Err(Verdict::Forward),
        "the fast path forwards requests while the chain changes"
    );
    assert!(rig.writer.drop_block(&hash(1, 1)));
    rig.writer.commit(
        &Tip {
            hash: hash(1, 0),
            height: 0,
        },
        1,
    );
    assert_eq!(ask(&rig.fastpath, &hash(9, 1)), Err(Verdict::Forward));
    assert!(
        !rig.writer.fill(&hash(9, 1), ticket, 0),
        "a fill after its block was dropped is refused"
    );
    assert_eq!(ask(&rig.fastpath, &hash(9, 1)), Err(Verdict::Forward));
    let again = rig.writer.admit(&block(1));
    assert_ne!(again, ticket);
    assert!(rig.writer.fill(&hash(9, 1), again, 0));
    assert_eq!(ask(&rig.fastpath, &hash(9, 1)), Ok(hash(2, 1).to_vec()));
    assert_eq!(rig.writer.counts().late_fills, 1);
}

#[test]
fn two_txids_in_the_same_set_are_not_confused() {
    let mut rig = rig(Geometry {
        line_bits: 3,
        ways: 1,
        paper_index: true,
        ..small()
    });
    let ticket = rig.writer.admit(&block(1));
    let (first, second) = (hash(9, 8), hash(9, 16));
    assert!(rig.writer.fill(&first, ticket, 0));
    assert_eq!(ask(&rig.fastpath, &second), Err(Verdict::Forward));
    assert!(rig.writer.fill(&second, ticket, 0));
    assert_eq!(ask(&rig.fastpath, &first), Err(Verdict::Forward));
    assert_eq!(rig.writer.counts().conflicts, 1);
}

#[test]
fn the_index_of_the_paper_uses_the_low_22_bits_of_the_first_wire_bytes() {
    let geometry = Geometry {
        line_bits: 22,
        ways: 1,
        block_bits: 1,
        paper_index: true,
        ..Geometry::default()
    };
    let rig = rig(geometry);
    let mut txid = [0xff; 32];
    txid[..4].copy_from_slice(&[0x39, 0x30, 0xc0, 0xff]);
    assert!(std::ptr::eq(
        &rig.store.set(&words(&txid))[0],
        &rig.store.lines.as_slice()[0x3039]
    ));
}

#[test]
fn a_new_writer_clears_a_table_that_was_left_during_a_change() {
    let mut rig = rig(small());
    let ticket = rig.writer.admit(&block(1));
    assert!(rig.writer.fill(&hash(9, 1), ticket, 0));
    rig.store.lines.as_slice()[3].seq.fetch_or(1, Ordering::Relaxed);
    rig.store.control().epoch.fetch_or(1, Ordering::Relaxed);
    let _writer = StoreWriter::new(Arc::clone(&rig.store));
    assert!(
        rig.store
            .lines
            .as_slice()
            .iter()
            .all(|line| line.seq.load(Ordering::Relaxed) & 1 == 0)
    );
    assert_eq!(rig.store.control().epoch.load(Ordering::Relaxed) & 1, 0);
    assert_eq!(ask(&rig.fastpath, &hash(9, 1)), Err(Verdict::Forward));
}

#[derive(Clone, Debug)]
enum Step {
    Fill(u32, u32),
    Invalidate(u32),
    DropBlock(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u32..60, 0u32..14).prop_map(|(txid, block)| Step::Fill(txid, block)),
        1 => (0u32..60).prop_map(Step::Invalidate),
        1 => (0u32..14).prop_map(Step::DropBlock),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// Checks that after any sequence of steps an answer equals that of a plain map. The cache may lose entries, but a
    /// wrong answer is a fault.
    #[test]
    fn an_answer_equals_the_model_or_is_missing(ways in 0u32..3, steps in steps()) {
        let mut rig = rig(Geometry { line_bits: 5, ways: 1 << ways, ..small() });
        let mut truth: HashMap<u32, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Fill(txid, number) => {
                    let ticket = rig.writer.admit(&block(number));
                    prop_assert!(rig.writer.fill(&hash(9, txid), ticket, 0));
                    prop_assert_eq!(ask(&rig.fastpath, &hash(9, txid)), Ok(hash(2, number).to_vec()));
                    truth.insert(txid, number);
                }
                Step::Invalidate(txid) => {
                    rig.writer.invalidate(&hash(9, txid));
                    truth.remove(&txid);
                }
                Step::DropBlock(number) => {
                    rig.writer.drop_block(&hash(1, number));
                    truth.retain(|_, held| *held != number);
                }
            }
            for txid in 0..60 {
                match (ask(&rig.fastpath, &hash(9, txid)), truth.get(&txid)) {
                    (Ok(root), Some(number)) => prop_assert_eq!(root, hash(2, *number).to_vec()),
                    (Ok(_), None) => prop_assert!(false, "the fast path answers for a TXID that was removed"),
                    (Err(verdict), _) => prop_assert_eq!(verdict, Verdict::Forward),
                }
            }
        }
    }
}

/// Checks that every answer is a root that its TXID had at some time, while two threads read and one writes without
/// pause. The table has eight lines, for eight TXIDs.
#[test]
fn a_concurrent_writer_causes_no_torn_answer() {
    let mut rig = rig(Geometry {
        line_bits: 3,
        ways: 4,
        block_bits: 1,
        ..small()
    });
    let done = AtomicBool::new(false);
    let (fastpath, writer, done) = (&rig.fastpath, &mut rig.writer, &done);
    let read = move || {
        let mut hits = 0u64;
        while !done.load(Ordering::Relaxed) {
            for txid in 0..8 {
                if let Ok(root) = ask(fastpath, &hash(9, txid)) {
                    let right = [0, 1, 2].map(|number| hash(2, 8 * number + txid).to_vec());
                    assert!(
                        right.contains(&root),
                        "the answer mixes two states: {root:02x?} for {txid}"
                    );
                    hits += 1;
                }
            }
        }
        hits
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        for round in 0..400_000u32 {
            let txid = round % 8;
            let ticket = writer.admit(&block(8 * (round / 8 % 3) + txid));
            assert!(writer.fill(&hash(9, txid), ticket, 0));
        }
        done.store(true, Ordering::Relaxed);
        assert!(readers.map(|reader| reader.join().unwrap()).iter().sum::<u64>() > 0);
    });
}

#[test]
fn adoption_clears_lines_without_a_block() {
    let adopted = |slot: u32, generation: u32, of_block: u32| {
        let store = Arc::new(Store::anonymous(&small()).unwrap());
        drop(StoreWriter::new(Arc::clone(&store)));
        let first = &store.blocks.as_slice()[0];
        first.generation.store(of_block, Ordering::Relaxed);
        for line in store.lines.as_slice() {
            line.block.store(slot, Ordering::Relaxed);
            line.generation.store(generation, Ordering::Relaxed);
        }
        let state = store.control().chain_state.load(Ordering::Relaxed);
        let (mut writer, kept) = StoreWriter::adopt(Arc::clone(&store), state);
        assert!(kept);
        let lines = store.lines.as_slice().iter();
        let left = lines
            .filter(|line| line.generation.load(Ordering::Relaxed) != 0)
            .count();
        let ticket = writer.admit(&block(7));
        assert!(writer.fill(&[4; 32], ticket, 0));
        left
    };
    assert_eq!(adopted(0, 2, 2), 64);
    assert_eq!(adopted(u32::MAX, 2, 2), 0, "no such block");
    assert_eq!(adopted(8, 2, 2), 0, "no such block");
    assert_eq!(
        adopted(0, 4, 2),
        0,
        "the line has a later generation than the block"
    );
    assert_eq!(adopted(0, 4, 3), 0, "that of a block left half-written");
    assert_eq!(adopted(0, 3, 3), 0, "that of a block left half-written");
}
