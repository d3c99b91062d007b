//! `lineside column …`: serves a table, and reads and changes one over UDP.

mod ask;
mod paper;
mod repair;
mod serve;
pub mod text;

use clap::Subcommand;

/// Subcommands of `lineside column`.
#[derive(Subcommand)]
pub enum Verb {
    Serve(serve::Serve),
    Get(ask::Get),
    Put(ask::Put),
    Delete(ask::Delete),
    Scan(ask::Scan),
    Increment(ask::Increment),
    Append(ask::Append),
    CheckAndPut(ask::CheckAndPut),
    Switch(ask::Switch),
    Repair(repair::Repair),
}

/// Runs the given subcommand.
///
/// # Errors
/// The subcommand failed, or the server refused the request.
pub fn run(verb: Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Serve(arguments) => serve::run(arguments, as_json),
        Verb::Get(arguments) => arguments.run(as_json),
        Verb::Put(arguments) => arguments.run(as_json),
        Verb::Delete(arguments) => arguments.run(as_json),
        Verb::Scan(arguments) => arguments.run(as_json),
        Verb::Increment(arguments) => arguments.run(as_json),
        Verb::Append(arguments) => arguments.run(as_json),
        Verb::CheckAndPut(arguments) => arguments.run(as_json),
        Verb::Switch(arguments) => arguments.run(as_json),
        Verb::Repair(arguments) => arguments.run(as_json),
    }
}
