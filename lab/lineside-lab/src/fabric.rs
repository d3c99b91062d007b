//! `lineside-lab fabric …`: channels that are generated, and an orderer that delivers recorded blocks.

pub mod make;
pub mod mock_orderer;

use clap::Subcommand;

/// Verbs of the `fabric` laboratory.
#[derive(Subcommand)]
pub enum Verb {
    Make(make::Make),
    MockOrderer(mock_orderer::MockOrderer),
}

/// Runs one verb.
///
/// # Errors
/// The reason why the verb cannot be carried out.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Make(arguments) => make::make(arguments, as_json),
        Verb::MockOrderer(arguments) => mock_orderer::run(arguments, as_json),
    }
}
