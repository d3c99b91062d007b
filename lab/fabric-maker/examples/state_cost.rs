//! Measures the cost of the state on the disk: CPU time of a replica with the state in memory and with the state in the
//! database fjall, in alternate rounds.
//!
//! `cargo run --release -p lineside-fabric-maker --example state_cost -- FOLDER [TRANSACTIONS] [ROUNDS] [KEYS]`
//!
//! FOLDER must be on a disk; the program removes ledgers in it. The blocks are those that the acceptance test of
//! `lineside-lab bench fabric` uses: the chaincode smallbank, 500 transactions per block, two endorsements per
//! transaction, 100 creators. The blocks that create the keys are not measured.

use lineside_fabric::ledger::{Replica, Setup, StateStore};
use lineside_fabric_maker::{Blocks, Network, Options, Workload};
use lineside_journal::FsDisk;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

type Failed = Box<dyn std::error::Error>;

/// Returns the CPU time of all threads in nanoseconds, counted in the system's ticks of 10 ms.
fn cpu_ns() -> Result<u64, Failed> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text.rsplit_once(')').ok_or("no fields")?.1.split_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? * 10_000_000)
}

/// Returns the CPU time per transaction in microseconds, and the number of transactions per second.
fn run(
    blocks: &[Vec<u8>],
    first: usize,
    transactions: u64,
    folder: &Path,
    on_disk: bool,
) -> Result<(f64, f64), Failed> {
    std::fs::create_dir_all(folder)?;
    let mut setup = Setup::default();
    setup.validation.threads = 2;
    if on_disk {
        setup.state = StateStore::Disk(folder.join("state"));
    }
    let (mut replica, _) = Replica::open(FsDisk::open(folder)?, setup, None)?;
    for block in &blocks[..first] {
        replica.add(block.clone())?;
    }
    replica.flush()?;
    let (cpu, started) = (cpu_ns()?, Instant::now());
    for block in &blocks[first..] {
        replica.finish_after(block.clone())?;
    }
    while replica.finish()?.is_some() {}
    replica.flush()?;
    let (cpu, took) = (cpu_ns()? - cpu, started.elapsed());
    replica.stop()?;
    std::fs::remove_dir_all(folder)?;
    let count = transactions as f64;
    Ok((cpu as f64 / 1e3 / count, count / took.as_secs_f64()))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let folder = std::path::PathBuf::from(arguments.next().ok_or("which folder?")?).join("state-cost");
    let mut numbers = arguments.map_while(|text| text.parse::<u64>().ok());
    let transactions = numbers.next().unwrap_or(100_000);
    let rounds = numbers.next().unwrap_or(5);
    let keys = numbers.next().unwrap_or(100_000) as usize;
    let workload = Workload {
        keys,
        transactions,
        endorsements: 2,
        creators: 100,
        block: 500,
        ranges: 10,
        faulty: 30,
        ..Workload::default()
    };
    let options = Options {
        clients: 50,
        ..Options::default()
    };
    let blocks = Blocks::new(Arc::new(Network::new(1, options)), workload, 2);
    let blocks: Vec<Vec<u8>> = blocks.map(|made| made.bytes).collect();
    let first = 4 + keys.div_ceil(100).div_ceil(500);
    let (mut memory, mut fjall) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for on_disk in if round % 2 == 0 {
            [false, true]
        } else {
            [true, false]
        } {
            let (cpu_us, tps) = run(&blocks, first, transactions, &folder, on_disk)?;
            println!(
                "{:6} {cpu_us:6.2} us CPU a transaction, {tps:7.0} tps",
                ["memory", "fjall"][usize::from(on_disk)]
            );
            if on_disk { &mut fjall } else { &mut memory }.push(cpu_us);
        }
    }
    let (memory, fjall) = (median(memory), median(fjall));
    println!(
        "medians: memory {memory:.2}, fjall {fjall:.2}, ratio {:.3}",
        fjall / memory
    );
    Ok(())
}
