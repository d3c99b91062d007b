//! `lineside transfer …`

mod ask;
mod batch;
mod key;
mod prove;
mod serve;
mod session;
mod sessions;

use clap::Subcommand;

/// What can be done with the service.
#[derive(Subcommand)]
pub enum Verb {
    Serve(serve::Serve),
    /// Make an account.
    Create(ask::Create),
    /// Bring money in.
    Issue(ask::Issue),
    /// Move money.
    Transfer(ask::Transfer),
    /// Let an account neither give nor get.
    Freeze(ask::Freeze),
    /// Let a frozen account give and get again.
    Unfreeze(ask::Freeze),
    /// Ask what accounts hold.
    Refer(ask::Refer),
    /// Open, close or ask for a session, kept in a file.
    Session {
        #[command(subcommand)]
        verb: session::SessionVerb,
    },
    /// List or close the sessions of a ledger, for its operator.
    Sessions {
        #[command(subcommand)]
        verb: sessions::SessionsVerb,
    },
    /// Make or show a key that signs operations.
    Key {
        #[command(subcommand)]
        verb: key::KeyVerb,
    },
    Batch(batch::Batch),
    Prove(prove::Prove),
    VerifyProof(prove::VerifyProof),
    Audit(prove::Audit),
    /// Ask a server's console how it does.
    Top(crate::status::Status),
}

/// Does one verb.
///
/// # Errors
/// What stands in its way.
pub fn run(verb: Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Serve(arguments) => serve::run(arguments, as_json),
        Verb::Create(arguments) => arguments.run(as_json),
        Verb::Issue(arguments) => arguments.run(as_json),
        Verb::Transfer(arguments) => arguments.run(as_json),
        Verb::Freeze(arguments) => arguments.run(true, as_json),
        Verb::Unfreeze(arguments) => arguments.run(false, as_json),
        Verb::Refer(arguments) => arguments.run(as_json),
        Verb::Session { verb } => verb.run(as_json),
        Verb::Sessions { verb } => verb.run(as_json),
        Verb::Key { verb } => verb.run(as_json),
        Verb::Batch(arguments) => arguments.run(as_json),
        Verb::Prove(arguments) => arguments.run(as_json),
        Verb::VerifyProof(arguments) => arguments.run(as_json),
        Verb::Audit(arguments) => arguments.run(as_json),
        Verb::Top(arguments) => crate::status::run(&arguments, as_json),
    }
}
