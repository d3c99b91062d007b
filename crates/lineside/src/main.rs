//! The `lineside` command: wiring, no logic.

#[macro_use]
mod out;

mod bench;
mod check_config;
mod column;
mod daemon;
mod demo;
mod descriptors;
mod diff;
mod fabric;
mod fabric_asks;
mod fabric_follow;
mod fabric_ledger;
mod fabric_make;
mod fabric_orderer;
mod fabric_send;
mod fabric_serve;
mod fabric_udp;
mod fabric_watch;
mod hybrid;
mod journal;
mod key_file;
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
mod wrong;
mod xdp;

use clap::{Parser, Subcommand};
use lineside::{config, hex};
use out::Unwritten;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use wrong::Wrong;

/// Exit code: the arguments, or a configuration, are wrong.
const WRONG: u8 = 2;
/// Exit code: whoever read standard output has ended; as a shell says of a program that SIGPIPE has ended.
const CLOSED: u8 = 141;

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
    /// Rows and ranges of a wide table.
    Column {
        #[command(subcommand)]
        verb: column::Verb,
    },
    /// What a journal's files hold, and its repair.
    Journal {
        #[command(subcommand)]
        verb: journal::Verb,
    },
    /// Blocks of Hyperledger Fabric, validated as a peer does.
    Fabric {
        #[command(subcommand)]
        verb: fabric::Verb,
    },
    /// A ledger database whose every request is signed.
    Hybrid {
        #[command(subcommand)]
        verb: hybrid::Verb,
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
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .log_internal_errors(false)
        .init();
    match Cli::try_parse() {
        Ok(cli) => ended(run(cli)),
        // What `--help` asks for, or what is wrong with the arguments: then nobody minds if it cannot be said.
        Err(told) => match told.print() {
            Err(error) if !told.use_stderr() => ended(Err(Unwritten::from(error).into())),
            _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(WRONG)),
        },
    }
}

fn ended(ended: anyhow::Result<()>) -> ExitCode {
    let Err(error) = ended else {
        return ExitCode::SUCCESS;
    };
    if error.downcast_ref().is_some_and(Unwritten::is_closed) {
        return ExitCode::from(CLOSED);
    }
    tell!("lineside: {}", words(&error));
    match error.is::<config::ConfigError>() || error.is::<Wrong>() {
        true => ExitCode::from(WRONG),
        false => ExitCode::FAILURE,
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
        Command::Column { verb } => column::run(verb, as_json),
        Command::Journal { verb } => journal::run(&verb, as_json),
        Command::Fabric { verb } => fabric::run(verb, as_json),
        Command::Hybrid { verb } => hybrid::run(verb, as_json),
        Command::Xdp { verb } => xdp::run(&verb, as_json),
        Command::Diff(arguments) => diff::run(&arguments, as_json),
        Command::Bench { scenario } => bench::run(&scenario, as_json),
        Command::Replay(arguments) => replay::run(&arguments, as_json),
        Command::Soak(arguments) => soak::run(&arguments, as_json),
        Command::Status(arguments) => status::run(&arguments, as_json),
        Command::CheckConfig(arguments) => check_config::run(&arguments, as_json),
    }
}
