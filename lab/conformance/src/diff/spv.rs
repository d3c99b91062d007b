//! Comparison for `spv`, with every geometry and state of the store that changes the answers of the fast path.

use super::{DiffCounts, DiffError, Frames, ListedRequests, compare_with_list};
use crate::spv::{DatapathKind, FrameDatapath};
use lineside_fastpath::{FrameHandler, lease};
use lineside_spv::chain::Tip;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::{Geometry, Hash, Store};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_spv_proof::Tree;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{
    HeadersHead, NATIVE_REPLY_BIT, ProofReply, RootItem, RootReply, RootsHead, SPV_FAST_PATH,
    SPV_HEADER_BYTES, SPV_OP_HEADERS, SPV_OP_PROOF, SPV_OP_ROOT, SPV_OP_ROOTS, SPV_OP_WITNESS_PROOF,
    SPV_OP_WTXID_PROOF, SPV_PORT, SPV_PROOF_DEPTH_MAX, SPV_ROOTS_MAX, SPV_WITNESS_ROOM_MAX, SpvCounter,
    WitnessReply, native,
};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::IntoBytes;

/// Odd multiplier whose bits are well spread (2^64 divided by the golden ratio).
const HASH_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// State of the store while the frames are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The lease is valid, and no change is in progress.
    Answering,
    /// The lease has ended.
    LeaseEnded,
    /// A change is in progress: the writer has begun it and not committed it.
    ChainChanging,
    /// A block was dropped, and every third line is half written.
    HalfWritten,
}

/// Case of the comparison.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Geometry of the store.
    pub geometry: Geometry,
    /// True if the interface of the fast path is `lo`.
    pub loopback: bool,
    /// True if the fast path answers for only one of its addresses.
    pub one_address: bool,
    /// State of the store.
    pub state: State,
}

/// Returns all cases: each number of ways with both kinds of index, each state of the store, a server that refuses the
/// paper's format, and the interface `lo`.
pub fn cases() -> Vec<Case> {
    let small = Geometry {
        line_bits: 10,
        ways: 4,
        block_bits: 4,
        tree_bits: 8,
        ..Geometry::default()
    };
    let case = |geometry, loopback, state| Case {
        geometry,
        loopback,
        one_address: state == State::HalfWritten,
        state,
    };
    let mut cases = Vec::new();
    for ways in [1, 2, 4] {
        for paper_index in [false, true] {
            let geometry = Geometry {
                ways,
                paper_index,
                ..small
            };
            cases.push(case(geometry, ways == 2, State::Answering));
        }
    }
    let paper_format = false;
    cases.push(case(
        Geometry {
            paper_format,
            ..small
        },
        false,
        State::Answering,
    ));
    // In this case the table stores no Merkle trees.
    let tree_bits = 0;
    cases.push(case(Geometry { tree_bits, ..small }, false, State::Answering));
    for state in [State::LeaseEnded, State::ChainChanging, State::HalfWritten] {
        cases.push(case(small, false, state));
    }
    cases
}

/// Compares one case with the model over `count` frames.
///
/// # Errors
/// The first difference in verdict, bytes, counters or store, or an error of the operating system.
pub fn run(
    case: &Case,
    against: DatapathKind,
    count: u64,
    seed: u64,
) -> Result<(DiffCounts, [u64; SpvCounter::ALL.len()]), DiffError> {
    let endpoint = endpoint(case);
    let (mut datapath, store) = FrameDatapath::open(against, &case.geometry, &endpoint, SPV_PORT)?;
    let (_writer, payloads) = prepare(case, &store, seed)?;
    let before = words(&store);
    let fastpath = SpvFastPath::new(Arc::clone(&store));
    let line = FrameHandler {
        endpoint: &endpoint,
        port: SPV_PORT,
        fastpath: &fastpath,
    };
    let mut frames = Frames::new(seed, &endpoint, SPV_PORT, payloads);
    let listed = ListedRequests {
        list: &SPV_FAST_PATH,
        datapaths: &["socket", against.listed_name()],
    };
    let seen = compare_with_list(&mut frames, count, Some(&listed), &line, &mut datapath)?;
    let (model, datapath) = (fastpath.counters(), datapath.counters()?);
    let fault = match () {
        _ if datapath != model => Some(format!(
            "counters: the model has {model:?}, the datapath {datapath:?}"
        )),
        _ if words(&store) != before => {
            Some("the datapath has changed the store, which it may only read".into())
        }
        _ => None,
    };
    match fault {
        None => Ok((seen, model)),
        Some(what) => Err(DiffError::Differs {
            number: count,
            what,
            request: Vec::new(),
            model: Vec::new(),
            datapath: Vec::new(),
        }),
    }
}

/// Formats and fills the store of a case. Returns the writer, which must live as long as the comparison, and the
/// payloads of the frames.
///
/// # Errors
/// The kernel's random numbers are not available.
pub(super) fn prepare(
    case: &Case,
    store: &Arc<Store>,
    seed: u64,
) -> std::io::Result<(StoreWriter, Vec<Vec<u8>>)> {
    store.format(&case.geometry)?;
    // The seed also determines the hash key, and therefore which TXIDs share a set, so that a run can be repeated.
    for (place, word) in store.control().key.iter().enumerate() {
        word.store(
            seed.wrapping_add(place as u64).wrapping_mul(HASH_STEP) | 1,
            Relaxed,
        );
    }
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    Ok((fill(store, case.state), payloads()))
}

/// Ends the change of a case, if one is in progress, and renews the lease, so that the fast path answers from the
/// table.
#[cfg(feature = "rtl")]
pub(super) fn settle(case: &Case, writer: &mut StoreWriter, store: &Store) {
    if case.state == State::ChainChanging {
        writer.commit(&tip(), 1);
    }
    lease::renew(&store.control().lease_until_ns, 1 << 40);
}

/// Returns the whole content of the store.
fn words(store: &Store) -> Vec<u64> {
    let hash = |words: &[std::sync::atomic::AtomicU64; 4]| words.each_ref().map(|word| word.load(Relaxed));
    let mut all = Vec::new();
    for line in store.lines.as_slice() {
        all.push(line.seq.load(Relaxed));
        all.extend(hash(&line.txid));
        all.extend([&line.block, &line.generation, &line.index].map(|word| u64::from(word.load(Relaxed))));
    }
    for block in store.blocks.as_slice() {
        all.extend([&block.generation, &block.height].map(|word| u64::from(word.load(Relaxed))));
        all.extend(hash(&block.root));
        all.extend(hash(&block.hash));
        all.push(block.tree.load(Relaxed));
        all.extend([&block.transactions, &block.depth].map(|word| u64::from(word.load(Relaxed))));
    }
    for node in store.trees.as_slice() {
        all.extend(hash(&node.hash));
    }
    let control = store.control();
    all.extend([&control.lease_until_ns, &control.epoch].map(|word| word.load(Relaxed)));
    all.extend(hash(&control.tip_hash));
    all
}

/// Returns the interface of a case.
pub(super) fn endpoint(case: &Case) -> Endpoint {
    let mut endpoint = super::endpoint(case.loopback);
    if case.one_address {
        endpoint.keep_only(Ipv4Addr::new(10, 0, 0, 2).into());
    }
    endpoint
}

/// Returns a hash that differs for each number.
fn hash(number: u64) -> Hash {
    let mut hash = [0x5a; 32];
    for (index, place) in hash.chunks_exact_mut(8).enumerate() {
        let word = number.wrapping_mul(HASH_STEP).rotate_left(index as u32 * 9);
        place.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

fn tip() -> Tip {
    Tip {
        hash: hash(1005),
        height: 5,
    }
}

/// TXIDs with numbers below this one are in the table, unless another TXID has replaced them.
const CACHED: u64 = 60;
/// Number of transactions in each block; together they are the [`CACHED`] ones. The block of 5 has no tree.
const SIZES: [u64; 6] = [1, 2, 3, 5, 17, 32];
const TREELESS: u64 = 5;
const ASKED: u64 = 90;

fn fill(store: &Arc<Store>, state: State) -> StoreWriter {
    let mut writer = StoreWriter::new(Arc::clone(store));
    writer.begin();
    writer.commit(&tip(), 1);
    let mut first = 0;
    for (block, size) in (0..).zip(SIZES) {
        let ticket = writer.admit(&BlockRef {
            hash: hash(1000 + block),
            root: hash(2000 + block),
            height: block as u32,
        });
        let txids: Vec<_> = (first..first + size).map(hash).collect();
        for (index, txid) in (0..).zip(&txids) {
            writer.fill(txid, ticket, index);
        }
        let mut header = [block as u8; SPV_HEADER_BYTES];
        header[..32].copy_from_slice(&hash(3000 + block));
        if let Some(tree) = Tree::new(&txids).ok().filter(|_| size != TREELESS) {
            writer.fill_tree(ticket, &header, &tree);
        }
        first += size;
    }
    match state {
        State::Answering => {}
        State::LeaseEnded => lease::end(&store.control().lease_until_ns),
        State::ChainChanging => writer.begin(),
        State::HalfWritten => {
            writer.begin();
            writer.drop_block(&hash(1002));
            writer.commit(&tip(), 1);
            let halves = store.lines.as_slice().iter().step_by(3);
            halves.for_each(|line| _ = line.seq.fetch_or(1, Relaxed));
        }
    }
    writer
}

/// Returns requests for the roots of all transactions of the cases, in the paper's format and native.
pub(super) fn table_questions() -> Vec<Vec<u8>> {
    let paper = (0..ASKED).map(|number| hash(number).to_vec());
    paper.chain((0..ASKED).map(root_request)).collect()
}

/// Returns requests in the paper's format, native requests of every kind, and almost valid requests.
fn payloads() -> Vec<Vec<u8>> {
    let mut payloads = table_questions();
    for count in 0..=SPV_ROOTS_MAX as u64 + 1 {
        payloads.push(roots_request(0..count, count as u32));
        payloads.push(roots_request(2..2 + count, count as u32));
        payloads.push(roots_request(
            CACHED - count / 2..CACHED + count.div_ceil(2),
            count as u32,
        ));
    }
    for number in 0..ASKED {
        let depth = 5;
        for room in [0, depth - 1, depth, depth + 1, SPV_PROOF_DEPTH_MAX] {
            payloads.push(proof_request(number, room * 32));
        }
    }
    for bytes in [1, 16, 31, 33, 15 * 32] {
        payloads.push(proof_request(50, bytes));
    }
    payloads.push(proof_request(50, 0)[..16 + 32].to_vec());
    for room in [0, 1, 14, 15] {
        payloads.push(headers_request(room as u32, room));
    }
    for number in [1, CACHED + 1] {
        for room in [0, 1, 32, 500, SPV_WITNESS_ROOM_MAX, SPV_WITNESS_ROOM_MAX + 1] {
            payloads.push(witness_request(SPV_OP_WITNESS_PROOF, number, room));
            payloads.push(witness_request(SPV_OP_WTXID_PROOF, number, room));
        }
        for op in [SPV_OP_WITNESS_PROOF, SPV_OP_WTXID_PROOF] {
            payloads.push(witness_request(op, number, 0)[..16 + 199].to_vec());
        }
    }
    payloads.push(roots_request(0..3, 4));
    payloads.push(roots_request(0..3, 2));
    for (op, id) in [(SPV_OP_ROOT, 1), (SPV_OP_ROOT | NATIVE_REPLY_BIT, 2), (99, 3)] {
        payloads.push(native::request_header(op, id, 0).as_bytes().to_vec());
    }
    payloads.push(vec![0; 32]);
    let mut reply = root_request(1);
    reply[3] |= NATIVE_REPLY_BIT;
    payloads.push(reply);
    payloads
}

fn root_request(number: u64) -> Vec<u8> {
    let body = size_of::<RootReply>();
    let mut request = native::request_header(SPV_OP_ROOT, number, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(&hash(number));
    request.resize(request.len() + body - 32, 0);
    request
}

/// Returns a request for a proof that is as long as a reply with `path_bytes` bytes of path. Its padding consists of
/// bytes that no code reads.
fn proof_request(number: u64, path_bytes: usize) -> Vec<u8> {
    let body = size_of::<ProofReply>() + path_bytes;
    let mut request = native::request_header(SPV_OP_PROOF, number, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(&hash(number));
    request.resize(request.len() + body - 32, 0xa5);
    request
}

fn witness_request(op: u8, number: u64, room: usize) -> Vec<u8> {
    let body = size_of::<WitnessReply>() + room;
    let mut request = native::request_header(op, number, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(&hash(number));
    request.resize(request.len() + body - 32, 0x5a);
    request
}

fn headers_request(count: u32, room: usize) -> Vec<u8> {
    let body = size_of::<HeadersHead>() + room * SPV_HEADER_BYTES;
    let mut request = native::request_header(SPV_OP_HEADERS, 8, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(&3u32.to_be_bytes());
    request.extend_from_slice(&count.to_be_bytes());
    request.resize(request.len() + body - 8, 0);
    request
}

fn roots_request(numbers: std::ops::Range<u64>, said: u32) -> Vec<u8> {
    let bytes = size_of::<RootsHead>() + size_of::<RootItem>() * (numbers.end - numbers.start) as usize;
    let mut request = native::request_header(SPV_OP_ROOTS, u64::from(said), bytes as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(&[0; 36]);
    request.extend_from_slice(&said.to_be_bytes());
    for number in numbers {
        request.extend_from_slice(&hash(number));
        request.extend_from_slice(&[0; size_of::<RootItem>() - 32]);
    }
    request
}
