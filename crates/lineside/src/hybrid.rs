//! `lineside hybrid …`

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

/// What can be done with the service. Ends with 0 where it was done, 1 where it was refused or cannot be, 2 where the
/// arguments are wrong.
#[derive(Subcommand)]
pub enum Verb {
    Init(init::Init),
    /// Make or show a key.
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
    /// Ask as the paper's clients do, of a database whose mode is the paper's.
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

/// Does one verb.
///
/// # Errors
/// What stands in its way.
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
