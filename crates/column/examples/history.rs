//! Checks so many reads, 10^8 if not told otherwise:
//! `cargo run --release -p lineside-column --example history 1000000`.

use lineside_column::history::{Options, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let reads = words.next().map_or(Ok(100_000_000), |word| word.parse());
    let seed = words.next().map_or(Ok(1), |word| word.parse());
    let (Ok(reads), Ok(seed)) = (reads, seed) else {
        eprintln!("history: number of reads, and a seed");
        return ExitCode::from(2);
    };
    let options = Options {
        reads,
        seed,
        stop_at_fault: false,
        sabotage: None,
    };
    match run(&options, &mut |_| {}) {
        Ok(report) => {
            println!("{report:#?}");
            ExitCode::from(u8::from(report.stale + report.wrong > 0))
        }
        Err(error) => {
            eprintln!("history: {error}");
            ExitCode::FAILURE
        }
    }
}
