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
mod doctor;
mod explain;
mod fabric;
mod failure;
mod hybrid;
mod journal;
mod key_file;
pub mod logging;
mod manual;
pub mod notify;
mod paths;
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
mod tcp_port;
mod top;
mod transfer;
pub mod version;
pub mod wrong;
mod xdp;

pub use lineside_service::address;

use clap::{CommandFactory, Parser, Subcommand};
use logging::{LogFormat, LogLevel};
use out::Unwritten;
use std::process::ExitCode;

/// Exit code for wrong arguments or a wrong configuration.
const EXIT_WRONG_ARGUMENTS: u8 = 2;
/// Exit code after the reader of standard output closed the pipe; a shell shows the same code for a process that
/// SIGPIPE ended (128 + 13).
const EXIT_CLOSED_PIPE: u8 = 141;

/// Groups of commands, and exit codes; printed after the list of commands.
const HELP_END: &str = "\
Operation: run, check-config, doctor, explain, status, top, xdp, journal
Services:  spv, transfer, column, fabric, hybrid (each has `serve`, and commands for its clients and operators)
Program:   completions, man

Exit codes: 0 done; 1 failed, refused or not found; 2 wrong arguments or configuration, or damaged data of a server;
141 standard output was closed";

#[derive(Parser)]
#[command(version, long_version = version::long(), about, after_help = HELP_END)]
struct Cli {
    /// Print results as JSON, one object a line; an error is one object on standard error.
    #[arg(long, global = true)]
    json: bool,
    /// Lowest level of the log on standard error [default: what the variable RUST_LOG selects, otherwise info for
    /// servers, warn for all other commands]
    #[arg(long, global = true, value_enum, value_name = "LEVEL", help_heading = "Log")]
    log_level: Option<LogLevel>,
    /// Form of the log: lines for people, or one JSON object a line [default: text]
    #[arg(long, global = true, value_enum, value_name = "FORMAT", help_heading = "Log")]
    log_format: Option<LogFormat>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    CheckConfig(check_config::CheckConfig),
    Doctor(doctor::Doctor),
    Explain(explain::Explain),
    Status(status::Status),
    Top(top::Top),
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

Exit codes: 0 done; 1 failed, refused or not found; 2 wrong arguments")]
    Hybrid {
        #[command(subcommand)]
        verb: hybrid::Verb,
    },
    Completions(manual::Completions),
    Man(manual::Man),
}

/// Returns the whole command line, with every verb and option, for tests and documents.
pub fn command() -> clap::Command {
    Cli::command()
}

impl Command {
    /// Returns true for a command that serves until a signal ends it.
    fn is_server(&self) -> bool {
        match self {
            Self::Run(_) => true,
            Self::Spv { verb } => matches!(verb, spv::Verb::Serve(_)),
            Self::Transfer { verb } => matches!(verb, transfer::Verb::Serve(_)),
            Self::Column { verb } => matches!(verb, column::Verb::Serve(_)),
            Self::Fabric { verb } => matches!(verb, fabric::Verb::Serve(_)),
            Self::Hybrid { verb } => matches!(verb, hybrid::Verb::Serve(_)),
            _ => false,
        }
    }
}

/// Runs the command given by the arguments of the process.
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => {
            let as_json = cli.json;
            let is_server = cli.command.is_server();
            let default = if is_server { LogLevel::Info } else { LogLevel::Warn };
            logging::start(cli.log_level, cli.log_format.unwrap_or_default(), default);
            let code = if is_server {
                failure::code_of_server
            } else {
                failure::code
            };
            ended_as(run(cli), as_json, code)
        }
        Err(error) => usage(&error),
    }
}

/// Prints the help that was requested, or clap's error, and returns the exit code.
pub fn usage(usage_error: &clap::Error) -> ExitCode {
    if !usage_error.use_stderr() {
        return match usage_error.print() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => ended(Err(Unwritten::from(error).into()), false),
        };
    }
    let as_json = failure::asks_for_json(std::env::args_os());
    if let Some(error) = failure::unresolved(usage_error) {
        return ended(Err(error), as_json);
    }
    if as_json {
        tell!("{}", failure::usage_object(&usage_error.render().to_string()));
    } else {
        // A failed write to standard error is ignored, because there is no other stream on which to report it.
        let _ = usage_error.print();
    }
    ExitCode::from(u8::try_from(usage_error.exit_code()).unwrap_or(EXIT_WRONG_ARGUMENTS))
}

/// Prints the error of a command that failed, and returns the exit code of the process.
pub fn ended(ended: anyhow::Result<()>, as_json: bool) -> ExitCode {
    ended_as(ended, as_json, failure::code)
}

/// Prints the error of a command that failed, and returns the exit code of the process. `code` returns the kind of the
/// error.
fn ended_as(ended: anyhow::Result<()>, as_json: bool, code: fn(&anyhow::Error) -> failure::Code) -> ExitCode {
    let Err(error) = ended else {
        return ExitCode::SUCCESS;
    };
    if error.downcast_ref().is_some_and(Unwritten::is_closed) {
        return ExitCode::from(EXIT_CLOSED_PIPE);
    }
    let code = code(&error);
    if as_json {
        let (message, hint) = failure::message_and_hint(&error);
        let mut object = failure::object(code, &message, hint.as_deref());
        if let Some(name) = failure::refusal(&error) {
            object["error"]["result"] = name.into();
        }
        tell!("{object}");
    } else {
        tell!("lineside: {}", failure::words(&error));
    }
    match code {
        failure::Code::Failed => ExitCode::FAILURE,
        failure::Code::Usage | failure::Code::Configuration | failure::Code::Damaged => {
            ExitCode::from(EXIT_WRONG_ARGUMENTS)
        }
    }
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
        Command::Status(arguments) => status::run(&arguments, as_json),
        Command::Top(arguments) => top::run(&arguments, as_json),
        Command::CheckConfig(arguments) => check_config::run(&arguments, as_json),
        Command::Doctor(arguments) => doctor::run(arguments, as_json),
        Command::Explain(arguments) => explain::run(&arguments, as_json),
        Command::Completions(arguments) => manual::completions(&arguments, command(), as_json),
        Command::Man(arguments) => manual::man(&arguments, command(), as_json),
    }
}
