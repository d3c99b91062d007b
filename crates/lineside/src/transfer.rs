//! `lineside transfer …`: serves a ledger of accounts, sends operations to one, and checks its journal.

mod accounts;
mod ask;
mod batch;
pub mod key;
mod prove;
mod serve;
mod server_key;
mod session;
mod sessions;
mod unknown;

pub use server_key::read_key;

use clap::Subcommand;

/// Subcommands of `lineside transfer`.
#[derive(Subcommand)]
pub enum Verb {
    Serve(serve::Serve),
    /// Create an account, with an opening balance of the asset.
    Create(ask::Create),
    /// Issue new units of the asset to an account.
    Issue(ask::Issue),
    /// Move an amount from one account to another.
    Transfer(ask::Transfer),
    /// Freeze an account: it can neither send nor receive.
    Freeze(ask::Freeze),
    /// Unfreeze an account: it can send and receive again.
    Unfreeze(ask::Freeze),
    /// Print the balances of accounts.
    Refer(ask::Refer),
    /// Open, show or close a client session, which is kept in a file.
    Session {
        #[command(subcommand)]
        verb: session::SessionVerb,
    },
    /// List or close the open sessions of a ledger, as its operator.
    Sessions {
        #[command(subcommand)]
        verb: sessions::SessionsVerb,
    },
    /// Create or show a key that signs operations.
    Key {
        #[command(subcommand)]
        verb: key::KeyVerb,
    },
    Batch(batch::Batch),
    Accounts(accounts::Accounts),
    History(accounts::History),
    Prove(prove::Prove),
    VerifyProof(prove::VerifyProof),
    Audit(prove::Audit),
    /// Show the rates of a running server in the terminal, like `lineside top`.
    Top(crate::top::Top),
}

/// Runs the given subcommand.
///
/// # Errors
/// The subcommand failed, or the server refused the operation.
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
        Verb::Accounts(arguments) => arguments.run(as_json),
        Verb::History(arguments) => arguments.run(as_json),
        Verb::Prove(arguments) => arguments.run(as_json),
        Verb::VerifyProof(arguments) => arguments.run(as_json),
        Verb::Audit(arguments) => arguments.run(as_json),
        Verb::Top(arguments) => crate::top::run(&arguments, as_json),
    }
}
