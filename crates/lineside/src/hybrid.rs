//! `lineside hybrid …`: makes, serves and uses a ledger database, and verifies its proofs.

mod ask;
mod asker;
mod audit;
mod change;
mod init;
mod join;
pub mod key;
pub mod member;
pub mod paper;
mod prove;
mod serve;

use clap::Subcommand;

/// Subcommands of `lineside hybrid`.
#[derive(Subcommand)]
pub enum Verb {
    Init(init::Init),
    /// Create a key of a member or node, or print its public half.
    Key {
        #[command(subcommand)]
        verb: key::KeyVerb,
    },
    Serve(Box<serve::Serve>),
    Get(ask::Get),
    Set(ask::Set),
    Delete(ask::Delete),
    Range(ask::Range),
    History(ask::History),
    Watch(ask::Watch),
    Head(ask::Head),
    Outcome(ask::Outcome),
    /// Send the requests of the paper's clients, to a database in the paper's mode.
    Paper {
        #[command(subcommand)]
        verb: paper::PaperVerb,
    },
    Prove(prove::Prove),
    VerifyProof(prove::VerifyProof),
    Change(change::Change),
    Audit(audit::Audit),
    Snapshot(join::Snapshot),
    Vouch(join::Vouch),
    Join(join::Join),
}

/// Runs the given subcommand.
///
/// # Errors
/// The subcommand failed, or the node refused the request.
pub fn run(verb: Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Init(arguments) => arguments.run(as_json),
        Verb::Key { verb } => verb.run(as_json),
        Verb::Serve(arguments) => arguments.run(as_json),
        Verb::Get(arguments) => arguments.run(as_json),
        Verb::Set(arguments) => arguments.run(as_json),
        Verb::Delete(arguments) => arguments.run(as_json),
        Verb::Range(arguments) => arguments.run(as_json),
        Verb::History(arguments) => arguments.run(as_json),
        Verb::Watch(arguments) => arguments.run(as_json),
        Verb::Head(arguments) => arguments.run(as_json),
        Verb::Outcome(arguments) => arguments.run(as_json),
        Verb::Paper { verb } => verb.run(as_json),
        Verb::Prove(arguments) => arguments.run(as_json),
        Verb::VerifyProof(arguments) => arguments.run(as_json),
        Verb::Change(arguments) => arguments.run(as_json),
        Verb::Audit(arguments) => arguments.run(as_json),
        Verb::Snapshot(arguments) => arguments.run(as_json),
        Verb::Vouch(arguments) => arguments.run(as_json),
        Verb::Join(arguments) => arguments.run(as_json),
    }
}
