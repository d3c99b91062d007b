//! `lineside transfer prove`, `verify-proof` and `audit`: what can be shown to who does not trust the server.

use anyhow::{Context, bail};
use clap::Args;
use k256::ecdsa::VerifyingKey;
use lineside_journal::FsDisk;
use lineside_transfer::AccountId;
use lineside_transfer::host;
use lineside_transfer::server::{KIND, PUBLIC_KEY_FILE};
use lineside_transfer::settlement::{BLOCK_BYTES, Block, LEAF_BYTES, Proof};
use lineside_util::hex::{from_hex, to_hex};
use lineside_wire::{Operation, TransferCode as Code};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use zerocopy::FromBytes;

/// Prove that an operation is in a sealed block: prints the proof, for `verify-proof`.
#[derive(Args)]
pub struct Prove {
    /// The server's directory; a running server may go on.
    #[arg(long)]
    data: PathBuf,
    /// The operation's number, as its reply told it.
    operation: u64,
}

/// Check a proof offline: against a block's hash that is known to be right, or against the server's key.
#[derive(Args)]
pub struct VerifyProof {
    /// The proof; `-`: the standard input.
    file: PathBuf,
    /// The block's hash, 64 hex digits.
    #[arg(long)]
    block_hash: Option<String>,
    /// The server's public key, 66 hex digits as in `settlement.pub`.
    #[arg(long)]
    key: Option<String>,
}

/// Replay a whole journal: every answer, every block, every sum.
#[derive(Args)]
pub struct Audit {
    /// The server's directory; a running server may go on.
    #[arg(long)]
    data: PathBuf,
    /// The server's public key; `settlement.pub` in the directory when it is not given.
    #[arg(long)]
    key: Option<String>,
}

/// A proof as it is printed.
#[derive(Serialize, Deserialize)]
struct Printed {
    /// The operation: the request with code and number, then what its source held after it.
    operation: String,
    /// Its place in the block, from 0.
    index: u64,
    /// From the operation up.
    path: Vec<String>,
    /// The block's head with its signature.
    block: String,
    /// The block's hash.
    block_hash: String,
}

impl Prove {
    pub fn run(&self, _as_json: bool) -> anyhow::Result<()> {
        let disk = FsDisk::look_at(&self.data, &KIND)?;
        let Some(proof) = host::prove(&disk, self.operation)? else {
            bail!("operation {} is in no sealed block, or not yet", self.operation);
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
            _ => std::fs::read_to_string(&self.file).with_context(|| self.file.display().to_string())?,
        };
        let printed: Printed = serde_json::from_str(&text).context("this is no proof")?;
        let proof = printed.parse().context("this is no proof")?;
        if let Some(fault) = proof.fault() {
            bail!("the proof is wrong: {fault}");
        }
        let hash = to_hex(&proof.block.hash());
        if !printed.block_hash.eq_ignore_ascii_case(&hash) {
            bail!(
                "the proof is wrong: it says that its block's hash is {}, and that is {hash}",
                printed.block_hash
            );
        }
        if let Some(known) = &self.block_hash
            && !known.eq_ignore_ascii_case(&hash)
        {
            bail!("the proof is of block {hash}, not of {known}");
        }
        if let Some(key) = &self.key
            && !proof.block.is_signed_by(&parse_key(key)?)
        {
            bail!("the block is not signed by this key");
        }
        if self.block_hash.is_none() && self.key.is_none() {
            bail!("the proof is whole, but anybody can make one: give --block-hash or --key");
        }
        let (operation, balance) =
            Operation::ref_from_prefix(&proof.leaf).map_err(|_| anyhow::anyhow!("this is no proof"))?;
        let code = Code::from_code(operation.code.get()).context("the operation has an unknown code")?;
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
                "operation {number} of block {block}: command {} of {} from {source} to {destination}: {}",
                operation.command,
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
                    "held": audit.held.to_string(), "pending": audit.pending.0.to_string()})
            )?;
        } else {
            say!(
                "{} operations in {} records replayed, {} signatures and {} blocks checked; {} accounts hold {}, \
                 as issued; {} set aside",
                audit.operations,
                audit.records - audit.from,
                audit.signed,
                audit.blocks,
                audit.accounts,
                audit.held,
                audit.pending.0
            )?;
            if audit.from > 0 {
                say!(
                    "the records up to {} were pruned; a snapshot stands for them",
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

/// Reads the server's public key from a ledger's directory.
///
/// # Errors
/// What the system says of the file, or that it holds no key.
pub(super) fn read_key(data: &Path) -> anyhow::Result<VerifyingKey> {
    let file = data.join(PUBLIC_KEY_FILE);
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    parse_key(text.trim())
}

fn parse_key(text: &str) -> anyhow::Result<VerifyingKey> {
    let bytes = from_hex(text).context("a key is 66 hex digits")?;
    VerifyingKey::from_sec1_bytes(&bytes).context("this is no point of secp256k1")
}
