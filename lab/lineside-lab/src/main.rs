//! The `lineside-lab` command measures and checks Lineside. Its code is not linked into the daemon.

mod bench;
mod chaos;
mod claims;
mod demo;
mod demo_chain;
mod diff;
mod fabric;
mod load;
mod papers;
mod replay;
mod replay_transfer;
mod signals;
mod soak;
mod vectors;

use clap::{Parser, Subcommand};
use lineside::logging::{self, LogFormat, LogLevel};
use std::fmt::Display;
use std::process::ExitCode;

/// Error of commands that need the simulated NIC, in a build without it.
#[cfg(not(feature = "rtl"))]
const NO_SIMULATED_NIC: &str = "this program has no simulated NIC; run `make rtl-setup`, then \
                                `cargo build --release -p lineside-lab --features rtl`";

/// Returns a number of replies for a message.
fn replies(number: impl Display) -> String {
    match number.to_string().as_str() {
        "1" => "1 reply".into(),
        number => format!("{number} replies"),
    }
}

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    /// Print JSON objects instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Bench {
        #[command(subcommand)]
        scenario: bench::Scenario,
    },
    Chaos(chaos::Chaos),
    /// Load a running server, at a fixed rate or with a fixed number of requests in flight, and check every answer.
    ///
    /// Prints the numbers of requests and the latencies. The server must not run in production: the loads of transfer,
    /// column and hybrid write into it.
    Load {
        #[command(subcommand)]
        service: load::Verb,
    },
    Claims(claims::Claims),
    Diff(diff::Diff),
    Soak(soak::Soak),
    Replay(replay::Replay),
    /// Write the recorded cases of vectors/ in other forms.
    Vectors {
        #[command(subcommand)]
        verb: vectors::Verb,
    },
    Papers {
        #[command(subcommand)]
        verb: papers::Verb,
    },
    /// Generate channels of Hyperledger Fabric, or deliver recorded blocks as an orderer.
    Fabric {
        #[command(subcommand)]
        verb: fabric::Verb,
    },
}

fn main() -> ExitCode {
    logging::start(None, LogFormat::Text, LogLevel::Warn);
    match Cli::try_parse() {
        Ok(cli) => {
            let as_json = cli.json;
            lineside::ended(run(cli), as_json)
        }
        Err(told) => lineside::usage(&told),
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let as_json = cli.json;
    match cli.command {
        Command::Demo(arguments) => demo::run(arguments, as_json),
        Command::Bench { scenario } => bench::run(&scenario, as_json),
        Command::Chaos(arguments) => chaos::run(arguments, as_json),
        Command::Load { service } => load::run(&service, as_json),
        Command::Claims(arguments) => claims::run(&arguments, as_json),
        Command::Diff(arguments) => diff::run(&arguments, as_json),
        Command::Soak(arguments) => soak::run(&arguments, as_json),
        Command::Replay(arguments) => replay::run(&arguments, as_json),
        Command::Vectors { verb } => vectors::run(&verb, as_json),
        Command::Papers { verb } => papers::run(&verb, as_json),
        Command::Fabric { verb } => fabric::run(&verb, as_json),
    }
}

#[cfg(test)]
mod tests {
    use super::replies;

    #[test]
    fn one_reply_is_singular() {
        assert_eq!([0, 1, 21].map(replies), ["0 replies", "1 reply", "21 replies"]);
    }
}
