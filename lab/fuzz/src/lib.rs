//! Fuzz targets. Each target is a plain function that panics if one of its assertions fails.
//!
//! `make fuzz` runs them under libFuzzer; `cargo test` runs each target over its seeds and a fixed number of mutations.
//!
//! ```
//! let target = lineside_fuzz::find("request");
//! for seed in (target.seeds)() {
//!     (target.run)(&seed);
//! }
//! ```

mod bitcoin_node;
mod blocks;
mod deliver;
mod electrum;
mod encodings;
mod fabric;
mod frames;
mod hbase;
mod hybrid;
mod input;
mod journal;
mod mutate;
mod packets;
mod proofs;
// This is the driver of the differential test of lineside-verify. That crate cannot depend on this one, so the shared
// file is in its folder.
#[path = "../../../crates/verify/tests/driver/mod.rs"]
mod signatures;
mod snapshots;
mod stores;
mod texts;
mod transfers;

pub use mutate::Mutator;
use std::path::PathBuf;

/// Fuzz target, with its name, its function and its seeds.
pub struct Target {
    /// Name of the target, which is also the name of its file in `lab/fuzz/libfuzzer/fuzz_targets`.
    pub name: &'static str,
    /// Function that runs the target on one input.
    pub run: fn(&[u8]),
    /// Function that returns the inputs with which fuzzing starts.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Number of mutations in the short run, which takes about a quarter of a second.
    pub short: u64,
}

/// Verifies batches of signatures; each verdict must equal RustCrypto's.
fn ecdsa(bytes: &[u8]) {
    signatures::check(bytes);
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>, short: u64) -> Target {
    Target {
        name,
        run,
        seeds,
        short,
    }
}

/// All targets; `lab/fuzz/libfuzzer/README.md` lists their assertions.
pub const TARGETS: &[Target] = &[
    target("frame", frames::frame, frames::frame_seeds, 30_000),
    target("xdp", frames::xdp, frames::xdp_seeds, 20_000),
    target("request", packets::request, packets::request_seeds, 20_000),
    target("reply", packets::reply, packets::reply_seeds, 50_000),
    target("block", blocks::block, blocks::block_seeds, 3_000),
    target("block_file", blocks::block_file, blocks::block_file_seeds, 500),
    target("store_files", stores::store_files, stores::store_files_seeds, 500),
    target("txid_index", stores::txid_index, stores::txid_index_seeds, 20),
    target("adopt", stores::adopt, stores::adopt_seeds, 2_000),
    target("config", texts::config, texts::config_seeds, 3_000),
    target(
        "node_answer",
        bitcoin_node::answer,
        bitcoin_node::answer_seeds,
        30_000,
    ),
    target("node_zmq", bitcoin_node::zmq, bitcoin_node::zmq_seeds, 30_000),
    target("node_url", bitcoin_node::url, bitcoin_node::url_seeds, 50_000),
    target(
        "node_block_files",
        bitcoin_node::block_files,
        blocks::block_file_seeds,
        500,
    ),
    target("hex", texts::hex, texts::hex_seeds, 20_000),
    target(
        "console_answer",
        texts::console_answer,
        texts::console_answer_seeds,
        20_000,
    ),
    target(
        "console_request",
        texts::console_request,
        texts::console_request_seeds,
        150,
    ),
    target(
        "electrum_request",
        electrum::request,
        electrum::request_seeds,
        30_000,
    ),
    target("ecdsa", ecdsa, signatures::ecdsa_seeds, 40),
    target("der", encodings::der, encodings::der_seeds, 30_000),
    target("sec1", encodings::sec1, encodings::sec1_seeds, 600),
    target("hash", encodings::hash, encodings::hash_seeds, 2_000),
    target("journal", journal::journal, journal::journal_seeds, 500),
    target("merkle", journal::merkle, journal::merkle_seeds, 500),
    target(
        "transfer_request",
        transfers::request,
        transfers::request_seeds,
        300,
    ),
    target(
        "transfer_entry",
        transfers::entry,
        transfers::entry_seeds,
        100_000,
    ),
    target(
        "transfer_ledger",
        transfers::ledger,
        transfers::ledger_seeds,
        30_000,
    ),
    target("fabric_walk", fabric::walk, fabric::walk_seeds, 8_000),
    target(
        "fabric_certificate",
        fabric::certificate,
        fabric::certificate_seeds,
        30_000,
    ),
    target("fabric_block", fabric::block, fabric::block_seeds, 4_000),
    target(
        "fabric_snapshot",
        snapshots::snapshot,
        snapshots::snapshot_seeds,
        1_000,
    ),
    target("fabric_packets", fabric::packets, fabric::packet_seeds, 500),
    target("fabric_deliver", deliver::deliver, deliver::deliver_seeds, 3_000),
    target("hbase_response", hbase::response, hbase::response_seeds, 50_000),
    target("hybrid_request", hybrid::request, hybrid::request_seeds, 30_000),
    target(
        "hybrid_datagram",
        hybrid::datagram,
        hybrid::datagram_seeds,
        20_000,
    ),
    target("hybrid_ledger", hybrid::ledger, hybrid::ledger_seeds, 600),
    target("hybrid_proof", hybrid::proof, hybrid::proof_seeds, 3_000),
    target("hybrid_snapshot", hybrid::snapshot, hybrid::snapshot_seeds, 300),
    target("spv_proof", proofs::proof, proofs::proof_seeds, 40_000),
    target("spv_headers", proofs::headers, proofs::header_seeds, 400),
    target(
        "spv_header_file",
        proofs::header_file,
        proofs::header_file_seeds,
        500,
    ),
];

/// Returns the target with this name.
///
/// # Panics
/// Panics if there is no such target.
pub fn find(name: &str) -> &'static Target {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no fuzz target {name}"))
}

/// Writes missing seeds of `name` into the corpus folder that libFuzzer uses.
pub fn plant(name: &str) {
    let Some(corpus) = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'))
    else {
        return;
    };
    let corpus = PathBuf::from(corpus);
    if !corpus.is_dir() {
        return;
    }
    for (number, seed) in (find(name).seeds)().iter().enumerate() {
        let path = corpus.join(format!("seed-{number:03}"));
        if let Err(error) = std::fs::write(&path, seed) {
            eprintln!("{}: {error}", path.display());
        }
    }
}
