//! `lineside transfer prove`, `verify-proof` and `audit`: evidence for people who do not trust the server.

use super::accounts::operation_name;
use super::server_key::{parse_key, read_key};
use crate::out::counted;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::transfer::AccountId;
use lineside_journal::FsDisk;
use lineside_transfer::host;
use lineside_transfer::server::KIND;
use lineside_transfer::settlement::{BLOCK_BYTES, Block, LEAF_BYTES, Proof};
use lineside_util::hex::{from_hex, to_hex};
use lineside_wire::{Operation, TransferCode as Code};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use zerocopy::FromBytes;

/// Print the proof that an operation is in a sealed block, as JSON for `verify-proof`.
#[derive(Args)]
pub struct Prove {
    /// Data directory of the ledger; its server may be running.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Number of the operation, from its reply.
    operation: u64,
}

/// Check a proof without the server, against a trusted block hash or the server's public key.
#[derive(Args)]
pub struct VerifyProof {
    /// File with the proof, as `prove` prints it; `-` reads standard input.
    file: PathBuf,
    /// Trusted hash of the block, 64 hex digits.
    #[arg(long, value_name = "HEX")]
    block_hash: Option<String>,
    /// Public key of the server, 66 hex digits, as in `settlement.pub` of the data directory.
    #[arg(long, value_name = "HEX")]
    key: Option<String>,
}

/// Replay the whole journal, and check every result, signature, block and sum.
#[derive(Args)]
pub struct Audit {
    /// Data directory of the ledger; its server may be running.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Public key of the server, 66 hex digits [default: settlement.pub in the data directory]
    #[arg(long, value_name = "HEX")]
    key: Option<String>,
}

/// Proof in the JSON form that is printed.
#[derive(Serialize, Deserialize)]
struct Printed {
    /// Operation with its result code and number, then the balance of its source account after it, in hex.
    operation: String,
    /// Index of the operation in the block, from 0.
    index: u64,
    /// Hashes of the Merkle path, from the operation to the root, in hex.
    path: Vec<String>,
    /// Signed header of the block, in hex.
    block: String,
    /// Hash of the block, in hex.
    block_hash: String,
}

impl Prove {
    pub fn run(&self, _as_json: bool) -> anyhow::Result<()> {
        let disk = FsDisk::look_at(&self.data, &KIND)?;
        let Some(proof) = host::prove(&disk, self.operation)? else {
            bail!(
                "operation {} is in no sealed block: its block is not sealed yet, or the number is wrong",
                self.operation
            );
        };
        let printed = Printed {
            operation: to_hex(&proof.leaf),
            index: proof.index,
            path: proof.path.iter().map(|hash| to_hex(hash)).collect(),
            block: to_hex(&proof.block.to_bytes()),
            block_hash: to_hex(&proof.block.hash()),
        };
        say!("{}", serde_json::to_string_pretty(&printed)?)?;
        Ok(())
    }
}

impl VerifyProof {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let text = match self.file.to_str() {
            Some("-") => std::io::read_to_string(std::io::stdin())?,
            _ => std::fs::read_to_string(&self.file)
                .with_context(|| format!("cannot read the proof in {}", self.file.display()))?,
        };
        let printed: Printed = serde_json::from_str(&text)
            .context("this is not a proof; give a file with the output of `lineside transfer prove`")?;
        let proof = printed
            .parse()
            .context("this is not a proof; give a file with the output of `lineside transfer prove`")?;
        if let Some(fault) = proof.fault() {
            bail!("the proof is wrong: {fault}");
        }
        let hash = to_hex(&proof.block.hash());
        if !printed.block_hash.eq_ignore_ascii_case(&hash) {
            bail!(
                "the proof is wrong: it says that its block's hash is {}, but the hash is {hash}",
                printed.block_hash
            );
        }
        if let Some(expected_hash) = &self.block_hash
            && !expected_hash.eq_ignore_ascii_case(&hash)
        {
            bail!("the proof is of block {hash}, not of block {expected_hash}");
        }
        if let Some(key) = &self.key
            && !proof.block.is_signed_by(&parse_key(key)?)
        {
            bail!("the block is not signed by the key that --key gives");
        }
        if self.block_hash.is_none() && self.key.is_none() {
            bail!(
                "the proof is consistent, but it shows nothing without a trusted value: give --block-hash or --key"
            );
        }
        let (operation, balance) = Operation::ref_from_prefix(&proof.leaf).map_err(|_| {
            anyhow::anyhow!("this is not a proof; give a file with the output of `lineside transfer prove`")
        })?;
        let code = Code::from_code(operation.code.get()).with_context(|| {
            format!(
                "the proof is right, but this version of Lineside does not know the result code {} of its operation; \
                 use the version that printed the proof",
                operation.code.get()
            )
        })?;
        let balance = u64::from_be_bytes(balance.try_into()?);
        let (source, destination) = (AccountId(operation.source), AccountId(operation.destination));
        let (number, block) = (operation.number.get(), proof.block.number);
        if as_json {
            say!(
                "{}",
                json!({"number": number, "command": operation.command, "source": source.to_string(),
                    "destination": destination.to_string(), "amount": operation.amount.get(), "code": code as u16,
                    "balance": balance, "block": block, "block_hash": hash})
            )?;
        } else {
            say!(
                "operation {number} of block {block}: {} with the amount {} from {source} to {destination}: {}",
                operation_name(operation),
                operation.amount.get(),
                code.meaning()
            )?;
        }
        Ok(())
    }
}

impl Audit {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let disk = FsDisk::look_at(&self.data, &KIND)?;
        let key = match &self.key {
            Some(key) => parse_key(key)?,
            None => read_key(&self.data)?,
        };
        let audit = host::audit(&disk, key)?;
        if as_json {
            say!(
                "{}",
                json!({"from": audit.from, "records": audit.records,
                    "operations": audit.operations, "signed": audit.signed,
                    "blocks": audit.blocks, "accounts": audit.accounts, "issued": audit.issued.to_string(),
                    "held": audit.balances.to_string(), "pending": audit.pending.0.to_string()})
            )?;
        } else {
            say!(
                "{} in {} replayed, {} and {} checked; the balances of {} add up to {}, as issued; {} reserved for \
                 pending transfers",
                counted(audit.operations, "operation"),
                counted(audit.records - audit.from, "record"),
                counted(audit.signed, "signature"),
                counted(audit.blocks, "block"),
                counted(audit.accounts, "account"),
                audit.balances,
                audit.pending.0
            )?;
            if audit.from > 0 {
                say!(
                    "the records up to {} were removed from the journal; a snapshot replaces them",
                    audit.from
                )?;
            }
        }
        Ok(())
    }
}

impl Printed {
    fn parse(&self) -> Option<Proof> {
        let leaf: [u8; LEAF_BYTES] = from_hex(&self.operation)?.try_into().ok()?;
        let block: [u8; BLOCK_BYTES] = from_hex(&self.block)?.try_into().ok()?;
        let hash = |text: &String| from_hex(text)?.try_into().ok();
        Some(Proof {
            leaf,
            index: self.index,
            path: self.path.iter().map(hash).collect::<Option<_>>()?,
            block: Block::from_bytes(&block)?,
        })
    }
}
