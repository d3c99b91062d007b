//! Measures how many transactions per second the generator makes, and how many the cache returns.
//!
//! `cargo run --release -p lineside-fabric-maker --example rate [TRANSACTIONS] [THREADS]`

use lineside_fabric_maker::{Blocks, Network, Options, Workload, cache};
use std::sync::Arc;
use std::time::Instant;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1).map_while(|arg| arg.parse().ok());
    let transactions = args.next().unwrap_or(100_000);
    let threads = args.next().unwrap_or(2) as usize;
    let workload = Workload {
        keys: 100_000,
        transactions,
        ..Workload::default()
    };
    let options = Options {
        clients: 50,
        ..Options::default()
    };
    let started = Instant::now();
    let network = Arc::new(Network::new(1, options.clone()));
    println!("network: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);

    let started = Instant::now();
    let (mut made, mut bytes) = (0, 0);
    for block in Blocks::new(network, workload.clone(), threads) {
        made += block.codes.len();
        bytes += block.bytes.len();
    }
    let rate = |seconds: f64| made as f64 / seconds;
    let per_tx = bytes / made;
    println!(
        "made, {threads} threads: {:.0} tx/s, {per_tx} bytes each",
        rate(started.elapsed().as_secs_f64())
    );

    let directory = std::env::temp_dir().join(format!("lineside-rate-{}", std::process::id()));
    drop(cache::open(&directory, 1, &options, &workload, threads)?);
    let kept = std::fs::metadata(cache::path(&directory, 1, &options, &workload))?.len();
    let started = Instant::now();
    for block in cache::open(&directory, 1, &options, &workload, threads)? {
        block?;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "read back: {:.0} tx/s, {} bytes stored per transaction",
        rate(seconds),
        kept / made as u64
    );
    std::fs::remove_dir_all(&directory)
}
