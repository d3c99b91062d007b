//! `lineside hybrid paper …`: sends the requests of the paper's clients to a database in the paper's mode.

use super::member::Member;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_client::hybrid::grpc::paper;
use lineside_client::hybrid::{AskError, Code};
use serde_json::json;

/// Subcommands of `lineside hybrid paper`.
#[derive(Subcommand)]
pub enum PaperVerb {
    /// Print the value and version of a key.
    ///
    /// Exit code 1 if the key is not found.
    Get(Key),
    /// Set the value of a key if its version is not higher than --version; the new version is --version plus 1.
    Set {
        #[command(flatten)]
        member: Member,
        /// Version that was read before [default: read the key's current version first]
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// Key.
        name: String,
        /// New value.
        value: String,
    },
    /// Print the block of a key's last write, with the paper's hashes of it: BH (block) and TH (transactions).
    Verify(Key),
}

/// Member who asks, and the key.
#[derive(Args)]
pub struct Key {
    #[command(flatten)]
    member: Member,
    /// Key.
    name: String,
}

impl PaperVerb {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        match self {
            Self::Get(Key { member, name }) => {
                let stored = member.ask_as_paper(async |client: &paper::Client| get(client, &name).await)?;
                let is_absent = stored.is_none();
                match (as_json, stored) {
                    (true, stored) => {
                        let (version, value) = stored.unzip();
                        say!("{}", json!({"key": name, "version": version, "value": value}))?;
                    }
                    (false, Some((version, value))) => say!("{name}\t{version}\t{value}")?,
                    (false, None) => say!("{name}\tabsent\t-")?,
                }
                if is_absent {
                    bail!("the key {name:?} was not found");
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
                    let hint =
                        || "outcome unknown, it may be executed: get the key, or send the same request again";
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
                    false => say!("block {block}\tblock hash {block_hash}\ttransactions hash {hash}")?,
                }
            }
        }
        Ok(())
    }
}

/// Returns the version and value of a key; `None` if the key is absent.
///
/// # Errors
/// The node refused, or did not answer.
pub async fn get(client: &paper::Client, key: &str) -> anyhow::Result<Option<(u64, String)>> {
    match client.get(client.sign_get(key)).await {
        Ok(answer) => Ok(Some((u64::try_from(answer.version)?, answer.value))),
        Err(AskError::Refused(Code::Unknown)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
