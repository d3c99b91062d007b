//! The `lineside` command as a library: the daemon, its configuration, and the commands of operators and clients.
//!
//! The binary calls [`main`]. The laboratory (`lab/`) uses the parts that are public: it starts daemons, reads
//! configurations and prints in the same way.
//!
//! ```
//! use lineside::config::Config;
//! use lineside::services::SERVICES;
//!
//! let config = Config::parse("[column]\nenabled = true\n", SERVICES).expect("`column` is a service");
//! assert!(config.check().is_ok());
//! assert!(Config::parse("[colum]\nenabled = true\n", SERVICES).is_err());
//! ```

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

/// Exit code for wrong arguments or a wrong configuration.
const EXIT_WRONG_ARGUMENTS: u8 = 2;
/// Exit code after the reader of standard output closed the pipe; a shell shows the same code for a process that
/// SIGPIPE ended (128 + 13).
const EXIT_CLOSED_PIPE: u8 = 141;

/// Groups of commands, and exit codes; printed after the list of commands.
const HELP_END: &str = "\
Operation: run, check-config, status, xdp, journal
Services:  spv, transfer, column, fabric, hybrid (each has `serve`, and commands for its clients and operators)

Exit codes: 0 done; 1 failed, refused or not found; 2 wrong arguments or configuration; 141 standard output was closed";

#[derive(Parser)]
#[command(version, about, after_help = HELP_END)]
struct Cli {
    /// Print results as JSON, one object a line; errors stay text on standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    CheckConfig(check_config::CheckConfig),
    Status(status::Status),
    /// Show or remove the XDP fast paths on this machine.
    Xdp {
        #[command(subcommand)]
        verb: xdp::Verb,
    },
    /// Verify, repair or print a journal (the log files in a data directory).
    Journal {
        #[command(subcommand)]
        verb: journal::Verb,
    },
    /// Serve and verify Bitcoin transaction proofs: the Merkle root, block and proof of a TXID.
    #[command(after_help = "\
Server:       init, import, serve
Client:       get, sync, verify
Store itself: locate")]
    Spv {
        #[command(subcommand)]
        verb: spv::Verb,
    },
    /// Serve and use a ledger of accounts that hold and transfer an asset.
    #[command(after_help = "\
Server:   serve, top
Accounts: create, issue, transfer, freeze, unfreeze, refer, batch
Sessions: session, sessions
Keys:     key
Audit:    prove, verify-proof, audit")]
    Transfer {
        #[command(subcommand)]
        verb: transfer::Verb,
    },
    /// Serve and use a table of rows and columns, kept here or in HBase.
    #[command(after_help = "\
Server: serve, switch, repair
Client: get, put, delete, scan, increment, append, check-and-put")]
    Column {
        #[command(subcommand)]
        verb: column::Verb,
    },
    /// Validate, keep and serve the blocks of a Hyperledger Fabric channel, as a peer does.
    #[command(after_help = "\
Replica:      serve, import, join, snapshot
Ledger:       status, block, tx, state, history
Verification: replay, verify-ledger, verify-peer
Transport:    send, send-paper, follow")]
    Fabric {
        #[command(subcommand)]
        verb: fabric::Verb,
    },
    /// Serve and use a database that keeps every write in a signed, verifiable ledger.
    #[command(after_help = "\
Node:       init, key, serve
Data:       get, set, delete, range, history, watch, outcome, paper
Proofs:     head, prove, verify-proof, audit
Membership: change
New nodes:  snapshot, vouch, join

Exit codes: 0 done; 1 refused or failed; 2 wrong arguments")]
    Hybrid {
        #[command(subcommand)]
        verb: hybrid::Verb,
    },
    /// Print that `lineside-lab bench` runs the benchmarks.
    #[command(hide = true, disable_help_flag = true)]
    Bench {
        /// Arguments for `lineside-lab bench`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Runs the command given by the arguments of the process.
pub fn main() -> ExitCode {
    init_logging();
    match Cli::try_parse() {
        Ok(cli) => ended(run(cli)),
        Err(told) => usage(&told),
    }
}

/// Sends log messages to standard error: warnings and errors, or those that the variable `RUST_LOG` selects.
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

/// Prints the help that was requested, or clap's error, and returns the exit code.
pub fn usage(told: &clap::Error) -> ExitCode {
    match told.print() {
        Err(error) if !told.use_stderr() => ended(Err(Unwritten::from(error).into())),
        _ => ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(EXIT_WRONG_ARGUMENTS)),
    }
}

/// Prints the error of a command that failed, and returns the exit code of the process.
pub fn ended(ended: anyhow::Result<()>) -> ExitCode {
    let Err(error) = ended else {
        return ExitCode::SUCCESS;
    };
    if error.downcast_ref().is_some_and(Unwritten::is_closed) {
        return ExitCode::from(EXIT_CLOSED_PIPE);
    }
    tell!("lineside: {}", words(&error));
    match error.is::<config::ConfigError>() || error.is::<Wrong>() {
        true => ExitCode::from(EXIT_WRONG_ARGUMENTS),
        false => ExitCode::FAILURE,
    }
}

/// Returns the text of an error and its causes, without causes whose text the message already contains.
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
            "benchmarks are in another program: run `lineside-lab bench {}`",
            arguments.join(" ")
        ))
        .into()),
        Command::Status(arguments) => status::run(&arguments, as_json),
        Command::CheckConfig(arguments) => check_config::run(&arguments, as_json),
    }
}
