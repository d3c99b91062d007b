//! The `lineside` command as a library: the daemon, its configuration, and the commands of operators and clients.
//!
//! The binary calls [`main`]. The laboratory (`lab/`) uses the parts that are public: it starts daemons, reads
//! configurations and prints in the same way.

#[macro_use]
pub mod out;

pub mod check_config;
mod column;
pub mod config;
pub mod daemon;
mod fabric;

mod hybrid;
mod journal;
mod key_file;
pub mod notify;
mod privileges;
pub mod process;
pub mod progress;
#[cfg(test)]
mod reference;
pub mod run;
mod sandbox;
pub mod services;
pub mod session;
mod spv;
mod status;
mod transfer;
pub mod wrong;
mod xdp;

use clap::{Parser, Subcommand};
use out::Unwritten;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use wrong::Wrong;

/// Exit code: the arguments, or a configuration, are wrong.
const WRONG: u8 = 2;
/// Exit code: the reader of standard output has ended. A shell gives it to a program that SIGPIPE has ended.
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
    /// Removed: `lineside-lab bench` measures.
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        /// Arguments that `lineside-lab bench` takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    Status(status::Status),
    CheckConfig(check_config::CheckConfig),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    init_logging();
    match Cli::try_parse() {
        Ok(cli) => ended(run(cli)),
        Err(told) => usage(&told),
    }
}

/// Sends logs to standard error: warnings, or what `RUST_LOG` asks for.
pub fn init_logging() {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into());
    tracing_subscriber::fmt()
        .with_env_filter(filter.from_env_lossy())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .log_internal_errors(false)
        .init();
}

/// Prints what `--help` asks for, or what is wrong with the arguments, and returns the exit code.
pub fn usage(told: &clap::Error) -> ExitCode {
    match told.print() {
        Err(error) if !told.use_stderr() => ended(Err(Unwritten::from(error).into())),
        _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(WRONG)),
    }
}

/// Prints the error that ended a command, if one did, and returns its exit code.
pub fn ended(ended: anyhow::Result<()>) -> ExitCode {
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
        Command::Bench { arguments } => Err(Wrong(format!(
            "benches are in another program: run `lineside-lab bench {}`",
            arguments.join(" ")
        ))
        .into()),
        Command::Status(arguments) => status::run(&arguments, as_json),
        Command::CheckConfig(arguments) => check_config::run(&arguments, as_json),
    }
}
