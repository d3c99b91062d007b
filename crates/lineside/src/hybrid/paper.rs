//! `lineside hybrid paper …`: the paper's requests, to a database whose mode is the paper's.

use super::member::Member;
use anyhow::Context;
use clap::{Args, Subcommand};
use lineside_hybrid::Code;
use lineside_hybrid_grpc::{AskError, paper};
use serde_json::json;

/// What the paper's service can do.
#[derive(Subcommand)]
pub enum PaperVerb {
    /// Ask what a key holds, and its version.
    Get(Key),
    /// Set a key, unless its version is above the one that is named; it is one above that then.
    Set {
        #[command(flatten)]
        member: Member,
        /// The version that was read; without it, it is asked for before.
        #[arg(long)]
        version: Option<u64>,
        /// The key.
        name: String,
        /// What it holds from then on.
        value: String,
    },
    /// Ask for the block of a key's last write, and the paper's hashes of it: BH and TH.
    Verify(Key),
}

/// Of whom, and what.
#[derive(Args)]
pub struct Key {
    #[command(flatten)]
    member: Member,
    /// The key.
    name: String,
}

impl PaperVerb {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        match self {
            Self::Get(Key { member, name }) => {
                let held = member.ask_as_paper(async |client: &paper::Client| get(client, &name).await)?;
                match (as_json, held) {
                    (true, held) => {
                        let (version, value) = held.unzip();
                        say!("{}", json!({"key": name, "version": version, "value": value}))?;
                    }
                    (false, Some((version, value))) => say!("{name}\t{version}\t{value}")?,
                    (false, None) => say!("{name}\tabsent\t-")?,
                }
            }
            Self::Set {
                member,
                version,
                name,
                value,
            } => {
                let ask = async |client: &paper::Client| {
                    let version = match version {
                        Some(version) => version,
                        None => get(client, &name).await?.map_or(0, |(version, _)| version),
                    };
                    let answer = client.set(client.sign_set(&name, &value, version)?).await;
                    let hint = || "whether it was done is not known: get it, or send the same again";
                    let answer = match answer {
                        Err(error @ AskError::Broken(_)) => return Err(error).with_context(hint),
                        answer => answer?,
                    };
                    Ok((answer.txid, version + 1))
                };
                let (txid, version) = member.ask_as_paper(ask)?;
                match as_json {
                    true => say!("{}", json!({"txid": txid, "version": version}))?,
                    false => say!("done\tversion {version}\t{txid}")?,
                }
            }
            Self::Verify(Key { member, name }) => {
                let ask = async |client: &paper::Client| Ok(client.verify(&name).await?);
                let answer = member.ask_as_paper(ask)?;
                let (block, block_hash, hash) = (answer.block_id, answer.block_hash, answer.txn_hash);
                match as_json {
                    true => say!(
                        "{}",
                        json!({"block": block, "block_hash": block_hash, "transactions_hash": hash})
                    )?,
                    false => say!("block {block}\tBH {block_hash}\tTH {hash}")?,
                }
            }
        }
        Ok(())
    }
}

/// A key's version and value, where it has one.
///
/// # Errors
/// The refusal; no answer.
pub async fn get(client: &paper::Client, key: &str) -> anyhow::Result<Option<(u64, String)>> {
    match client.get(client.sign_get(key)).await {
        Ok(answer) => Ok(Some((u64::try_from(answer.version)?, answer.value))),
        Err(AskError::Refused(Code::Unknown)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
