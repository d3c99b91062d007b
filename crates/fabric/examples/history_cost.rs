//! Measures the cost of the history index: CPU time of a replica in memory with the index and without it, in alternate
//! rounds. DIR is a folder of recorded blocks; see `lineside_fabric::replay`.
//!
//!     cargo run --release -p lineside-fabric --example history_cost -- DIR [ROUNDS]

use lineside_fabric::ledger::{Replica, Setup};
use lineside_fabric::replay::read;
use lineside_journal::SimDisk;
use std::path::{Path, PathBuf};

type Failed = Box<dyn std::error::Error>;

/// Returns the CPU time of all threads, in clock ticks of the system.
fn cpu_ticks() -> Result<u64, Failed> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let fields = text
        .rsplit_once(')')
        .ok_or("/proc/self/stat has an unknown form")?
        .1
        .split_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()?)
}

fn run(blocks: &[Vec<u8>], history: Option<&Path>) -> Result<u64, Failed> {
    let setup = Setup {
        history: history.map(Path::to_owned),
        ..Setup::default()
    };
    let (mut replica, _) = Replica::open(SimDisk::new(1), setup, None)?;
    let started = cpu_ticks()?;
    for block in blocks {
        replica.add(block.clone())?;
    }
    replica.flush()?;
    let spent = cpu_ticks()? - started;
    replica.stop()?;
    Ok(spent)
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("usage: history_cost DIR [ROUNDS]")?);
    let rounds: u32 = arguments.next().map_or(Ok(50), |text| text.parse())?;
    let mut blocks = Vec::new();
    while let Some(block) = read(&directory, blocks.len() as u64, "orderer")? {
        blocks.push(block);
    }
    let file = std::env::temp_dir().join(format!("history-{}", std::process::id()));
    let (mut with, mut without) = (0, 0);
    for _ in 0..rounds {
        without += run(&blocks, None)?;
        with += run(&blocks, Some(&file))?;
        std::fs::remove_file(&file)?;
    }
    let share = (with as f64 / without as f64 - 1.0) * 100.0;
    println!(
        "{rounds} rounds of {} blocks: {without} clock ticks without the index, {with} with it: {share:+.2} %",
        blocks.len()
    );
    Ok(())
}
