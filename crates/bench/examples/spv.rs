//! Runs the scenario `spv` by itself: `cargo run --release -p lineside-bench --example spv -- [--quick] [--json]`.

use lineside_bench::spv::{Options, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let options = if has("--quick") {
        Options::quick()
    } else {
        Options::default()
    };
    let progress = |done, of| eprint!("\r{done} of {of} runs ");
    match run(&Options { progress, ..options }) {
        Ok(report) if has("--json") => println!("{:#}", report.to_json()),
        Ok(report) => print!("\n{report}"),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
