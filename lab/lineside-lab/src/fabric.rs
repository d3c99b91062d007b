//! `lineside-lab fabric …`: generates channels, and delivers recorded blocks as an orderer.

pub mod make;
pub mod mock_orderer;

use clap::Subcommand;

/// Verbs of `lineside-lab fabric`.
#[derive(Subcommand)]
pub enum Verb {
    Make(make::Make),
    MockOrderer(mock_orderer::MockOrderer),
}

/// Runs one verb.
///
/// # Errors
/// Fails if the verb fails.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Make(arguments) => make::make(arguments, as_json),
        Verb::MockOrderer(arguments) => mock_orderer::run(arguments, as_json),
    }
}
