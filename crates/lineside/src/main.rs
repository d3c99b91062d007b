//! The `lineside` command: wiring, no logic.

mod bench;
mod check_config;
mod daemon;
mod demo;
mod diff;
mod line;
mod notify;
mod privileges;
mod progress;
mod replay;
mod run;
mod soak;
mod spv;
mod status;
mod transfer;
mod xdp;

use clap::{Parser, Subcommand};
use lineside::{config, hex};
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

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
    Run(run::Run),
    /// Which Merkle root holds this transaction?
    Spv {
        #[command(subcommand)]
        verb: spv::Verb,
    },
    /// Digital assets, moved from account to account.
    Transfer {
        #[command(subcommand)]
        verb: transfer::Verb,
    },
    /// What XDP has attached, and how to take it away.
    Xdp {
        #[command(subcommand)]
        verb: xdp::Verb,
    },
    Diff(diff::Diff),
    Bench {
        #[command(subcommand)]
        scenario: bench::Scenario,
    },
    Replay(replay::Replay),
    Soak(soak::Soak),
    Status(status::Status),
    CheckConfig(check_config::CheckConfig),
}

fn main() -> ExitCode {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_writer(std::io::stderr)
        .without_time()
        .init();
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lineside: {}", words(&error));
            match error.is::<config::ConfigError>() {
                true => ExitCode::from(2),
                false => ExitCode::FAILURE,
            }
        }
    }
}

/// The error and its causes; a cause that the words before it have told already is not told again.
fn words(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |told, cause| {
        let cause = cause.to_string();
        if told.contains(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let as_json = cli.json;
    match cli.command {
        Command::Run(arguments) => run::run(arguments, as_json),
        Command::Spv { verb } => spv::run(verb, as_json),
        Command::Transfer { verb } => transfer::run(verb, as_json),
        Command::Xdp { verb } => xdp::run(&verb, as_json),
        Command::Diff(arguments) => diff::run(&arguments, as_json),
        Command::Bench { scenario } => bench::run(&scenario, as_json),
        Command::Replay(arguments) => replay::run(&arguments, as_json),
        Command::Soak(arguments) => soak::run(&arguments, as_json),
        Command::Status(arguments) => status::run(&arguments, as_json),
        Command::CheckConfig(arguments) => Ok(check_config::run(&arguments, as_json)?),
    }
}
