//! Measures the cost of validation: CPU time per transaction of a recorded set, in milliseconds, with the blocks in
//! memory. DIR is a folder of recorded blocks; see `lineside_fabric::replay`.
//!
//!     cargo run --release -p lineside-fabric --example cost -- DIR [ROUNDS]

use lineside_fabric::replay::read;
use lineside_fabric::{Options, StageTimes, Validator};
use std::path::PathBuf;

/// Returns the CPU time of the main thread, in milliseconds.
fn cpu_ms() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/schedstat")?;
    let ns: f64 = text
        .split_whitespace()
        .next()
        .ok_or("/proc/self/schedstat has no CPU time")?
        .parse()?;
    Ok(ns / 1e6)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("usage: cost DIR [ROUNDS]")?);
    let rounds: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let mut blocks = Vec::new();
    while let Some(block) = read(&directory, blocks.len() as u64, "orderer")? {
        blocks.push(block);
    }
    let options = Options::default();
    println!(
        "{} blocks, one thread, {}",
        blocks.len(),
        options.verifier.backend()
    );
    let [genesis, blocks @ ..] = blocks.as_slice() else {
        return Err("the folder has no 00000.orderer.pb.gz".into());
    };
    for round in 1..=rounds {
        let mut validator = Validator::new(genesis, options.clone())?;
        let (mut transactions, mut times) = (0, StageTimes::default());
        let started = cpu_ms()?;
        for block in blocks {
            let validated = validator.validate(block)?;
            transactions += validated.codes.len();
            times.parse += validated.times.parse;
            times.verify += validated.times.verify;
            times.policy += validated.times.policy;
            times.mvcc += validated.times.mvcc;
            validator.commit(validated);
        }
        let spent = cpu_ms()? - started;
        let share = |time: std::time::Duration| time.as_secs_f64() * 1e6 / transactions as f64;
        println!(
            "round {round}: {:.4} CPU ms a transaction ({transactions} transactions, {spent:.0} ms); wall us of each: \
             parse {:.1}, verify {:.1}, policy {:.1}, mvcc {:.1}",
            spent / transactions as f64,
            share(times.parse),
            share(times.verify),
            share(times.policy),
            share(times.mvcc),
        );
    }
    Ok(())
}
