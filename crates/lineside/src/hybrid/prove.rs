//! Proofs: asked for, and checked without a node.

use super::ask::{Given, given, read_head};
use super::asker::Asker;
use super::key;
use super::member::{Member, hash, read_genesis, refused};
use super::paper;
use crate::column::text;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_hybrid::Code;
use lineside_hybrid::block::SignedHead;
use lineside_hybrid::genesis::database_id;
use lineside_hybrid::paper::cell;
use lineside_hybrid::proof::StateProof;
use lineside_hybrid_grpc::client::Coded;
use lineside_util::hex::to_hex;
use lineside_verify::Verifier;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// How often a proof is asked for again, where a block came between it and the head.
const TRIES: usize = 10;

/// Ask for a proof of what a key holds, or that it holds nothing, and for the node's word for its block.
#[derive(Args)]
pub struct Prove {
    #[command(flatten)]
    member: Member,
    /// The key; \xNN is any byte.
    #[arg(value_parser = given)]
    name: Given,
    /// The proof's file; the node's word goes into the same name with .head behind it.
    #[arg(long, default_value = "proof.bin")]
    out: PathBuf,
}

/// The file for a proof's head.
fn head_file(proof: &Path) -> PathBuf {
    let mut name = proof.as_os_str().to_owned();
    name.push(".head");
    name.into()
}

impl Prove {
    /// What the key holds; of a database of the paper's mode, its cell.
    async fn value(&self, asker: &Asker) -> anyhow::Result<Option<Vec<u8>>> {
        let key = &self.name.0;
        let cells = asker.get(Default::default(), &[key]).await?;
        if cells.known_code()? == Code::WrongMode {
            let client = self.member.paper_client().await?;
            let held = paper::get(&client, std::str::from_utf8(key)?).await?;
            return Ok(held.map(|(version, value)| cell(version, value.as_bytes())));
        }
        refused(&cells, &[Code::Done])?;
        let cell = cells.cells.into_iter().next().unwrap_or_default();
        Ok(cell.version.map(|_| cell.value.into()))
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let key = &self.name.0;
        let (bytes, value, head) = self.member.ask(async |asker: &Asker| {
            for _ in 0..TRIES {
                let value = self.value(asker).await?;
                let answer = asker.prove(key).await?;
                refused(&answer, &[Code::Done])?;
                let (header, head) = read_head(&asker.head().await?)?;
                // All three of one block, or again.
                let proof = StateProof::decode(&answer.proof, value.as_deref());
                if let Ok(proof) = proof
                    && proof.header == header
                    && proof.check(&head.hash, key, value.as_deref()).is_ok()
                {
                    return Ok((answer.proof, value, head));
                }
            }
            bail!("a block came in between, {TRIES} times: ask again when less is written")
        })?;
        let head_out = head_file(&self.out);
        fs::write(&self.out, &bytes).with_context(|| self.out.display().to_string())?;
        fs::write(&head_out, head.to_bytes()).with_context(|| head_out.display().to_string())?;
        let (hash, shown) = (to_hex(&head.hash), value.map(|value| text::show(&value)));
        if as_json {
            let line = json!({
                "key": text::show(key), "value": shown, "block": head.number, "hash": hash, "bytes": bytes.len(),
                "proof": self.out.display().to_string(), "head": head_out.display().to_string(),
            });
            return Ok(say!("{line}")?);
        }
        let holds = shown.map_or("nothing".into(), |value| format!("\"{value}\""));
        let (count, out) = (bytes.len(), self.out.display());
        say!(
            "{} holds {holds} in block {}, {hash}: {count} bytes in {out}",
            text::show(key),
            head.number
        )?;
        Ok(())
    }
}

/// Check a proof without a node: against a block's hash that is known to be right, or against a node's word.
#[derive(Args)]
pub struct VerifyProof {
    /// The proof's file.
    #[arg(default_value = "proof.bin")]
    proof: PathBuf,
    /// The key; \xNN is any byte.
    #[arg(long, value_parser = given)]
    name: Given,
    /// What it shall have held; without it, nothing.
    #[arg(long, value_parser = given)]
    value: Option<Given>,
    /// The block's hash, 64 hex digits; or else --head.
    #[arg(long, value_parser = hash, required_unless_present = "head")]
    block_hash: Option<[u8; 32]>,
    /// A node's word for the block, as `prove` and `head` keep it.
    #[arg(long, conflicts_with = "block_hash")]
    head: Option<PathBuf>,
    /// The public key of the node that gave its word, CURVE:HEX; without it, that of the genesis.
    #[arg(long, requires = "head")]
    node_key: Option<String>,
    /// The database's genesis, for the node's key.
    #[arg(long, default_value = "genesis.bin")]
    genesis: PathBuf,
}

impl VerifyProof {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (key, value) = (&self.name.0, self.value.as_ref().map(|value| value.0.as_slice()));
        let file = self.proof.display();
        let bytes = fs::read(&self.proof).map_err(|error| Wrong(format!("{file}: {error}")))?;
        let proof = StateProof::decode(&bytes, value).with_context(|| file.to_string())?;
        let hash = match (&self.block_hash, &self.head) {
            (Some(hash), _) => *hash,
            (None, Some(file)) => self.word(file, &proof)?,
            (None, None) => bail!(Wrong("--block-hash HEX or --head FILE is wanted".into())),
        };
        proof.check(&hash, key, value).with_context(|| file.to_string())?;
        let database = to_hex(&proof.header.database);
        let (block, hash, shown) = (proof.header.number, to_hex(&hash), value.map(text::show));
        match as_json {
            true => say!(
                "{}",
                json!({
                    "proven": true, "database": database, "key": text::show(key), "value": shown, "block": block,
                    "hash": hash,
                })
            )?,
            false => {
                let held = shown.map_or("held nothing".into(), |value| format!("held \"{value}\""));
                say!(
                    "proven: {} {held} in block {block}, {hash}, of database {database}",
                    text::show(key)
                )?;
            }
        }
        Ok(())
    }

    /// The block's hash that a node has signed.
    fn word(&self, file: &Path, proof: &StateProof) -> anyhow::Result<[u8; 32]> {
        let shown = file.display();
        let bytes = fs::read(file).map_err(|error| Wrong(format!("{shown}: {error}")))?;
        let bytes = bytes[..]
            .try_into()
            .map_err(|_| Wrong(format!("{shown}: no signed head")))?;
        let head = SignedHead::read(bytes).map_err(|error| Wrong(format!("{shown}: {error}")))?;
        let key = match &self.node_key {
            Some(text) => key::public(text)?,
            None => {
                let (genesis, bytes) = read_genesis(&self.genesis)?;
                // Its node may be one of other databases, too.
                if proof.header.database != database_id(&bytes) {
                    let (database, genesis) = (to_hex(&proof.header.database), self.genesis.display());
                    bail!("the proof is of database {database}, not that of {genesis}");
                }
                let found = genesis.nodes.iter().find(|(node, _)| *node == head.node);
                let none = || Wrong(format!("node {} is not of the genesis: --node-key", head.node));
                found.ok_or_else(none)?.1
            }
        };
        let key = key.key().context("the node's key is no point of its curve")?;
        if !head.is_signed_by(&proof.header.database, &key, &Verifier::default()) {
            bail!(
                "{shown}: not signed by this key of node {}, for this database",
                head.node
            );
        }
        Ok(head.hash)
    }
}
