//! `lineside hybrid prove` and `verify-proof`: get a proof from a node, and check one without a node.

use super::ask::{BytesArg, parse_bytes, read_head};
use super::asker::Asker;
use super::key;
use super::member::{Member, hash, read_genesis, refused};
use super::paper;
use crate::column::text;
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::hybrid::Code;
use lineside_client::hybrid::block::SignedHead;
use lineside_client::hybrid::genesis::database_id;
use lineside_client::hybrid::grpc::Coded;
use lineside_client::hybrid::paper::cell;
use lineside_client::hybrid::proof::StateProof;
use lineside_util::hex::to_hex;
use lineside_verify::Verifier;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of requests for a proof, which is repeated when a new block came between value, proof and head.
const PROOF_ATTEMPTS_MAX: usize = 10;

/// Get a proof of a key's value, or of its absence, and the node's signed statement about the block.
#[derive(Args)]
pub struct Prove {
    #[command(flatten)]
    member: Member,
    /// Key; \xNN is the byte with the hex value NN.
    #[arg(value_parser = parse_bytes)]
    name: BytesArg,
    /// File for the proof; the node's signed statement is written to the same name with .head appended.
    #[arg(long, value_name = "FILE", default_value = "proof.bin")]
    out: PathBuf,
}

/// Returns the file name for the signed head that belongs to a proof.
fn head_file(proof: &Path) -> PathBuf {
    let mut name = proof.as_os_str().to_owned();
    name.push(".head");
    name.into()
}

impl Prove {
    /// Returns the value of the key; of a database in the paper's mode, its cell (version and value).
    async fn value(&self, asker: &Asker) -> anyhow::Result<Option<Vec<u8>>> {
        let key = &self.name.0;
        let cells = asker.get(Default::default(), &[key]).await?;
        if cells.known_code()? == Code::WrongMode {
            let client = self.member.paper_client().await?;
            let stored = paper::get(&client, std::str::from_utf8(key)?).await?;
            return Ok(stored.map(|(version, value)| cell(version, value.as_bytes())));
        }
        refused(&cells, &[Code::Done])?;
        let cell = cells.cells.into_iter().next().unwrap_or_default();
        Ok(cell.version.map(|_| cell.value.into()))
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let key = &self.name.0;
        let (bytes, value, head) = self.member.ask(async |asker: &Asker| {
            for _ in 0..PROOF_ATTEMPTS_MAX {
                let value = self.value(asker).await?;
                let answer = asker.prove(key).await?;
                refused(&answer, &[Code::Done])?;
                let (header, head) = read_head(&asker.head().await?)?;
                // Repeated until value, proof and head are of the same block.
                let proof = StateProof::decode(&answer.proof, value.as_deref());
                if let Ok(proof) = proof
                    && proof.header == header
                    && proof.check(&head.hash, key, value.as_deref()).is_ok()
                {
                    return Ok((answer.proof, value, head));
                }
            }
            bail!("a new block interrupted the proof {PROOF_ATTEMPTS_MAX} times: try again when there are fewer writes")
        })?;
        let head_out = head_file(&self.out);
        fs::write(&self.out, &bytes)
            .with_context(|| format!("cannot write the proof to {}", self.out.display()))?;
        fs::write(&head_out, head.to_bytes()).with_context(|| {
            format!(
                "cannot write the signed head of the proof to {}",
                head_out.display()
            )
        })?;
        let (hash, value_text) = (to_hex(&head.hash), value.map(|value| text::show(&value)));
        if as_json {
            let line = json!({
                "key": text::show(key), "value": value_text, "block": head.number, "hash": hash, "bytes": bytes.len(),
                "proof": self.out.display().to_string(), "head": head_out.display().to_string(),
            });
            return Ok(say!("{line}")?);
        }
        let content = value_text.map_or("nothing".into(), |value| format!("\"{value}\""));
        let (bytes, out) = (counted(bytes.len(), "byte"), self.out.display());
        say!(
            "{} holds {content} in block {}, {hash}: {bytes} in {out}",
            text::show(key),
            head.number
        )?;
        Ok(())
    }
}

/// Check a proof without a node, against a trusted block hash or a node's signed statement.
#[derive(Args)]
pub struct VerifyProof {
    /// File with the proof.
    #[arg(default_value = "proof.bin")]
    proof: PathBuf,
    /// Key; \xNN is the byte with the hex value NN.
    #[arg(long, value_parser = parse_bytes)]
    name: BytesArg,
    /// Value that the key must have had; without this option, the key must have been absent.
    #[arg(long, value_name = "VALUE", value_parser = parse_bytes)]
    value: Option<BytesArg>,
    /// Trusted hash of the block, 64 hex digits; needed without --head.
    #[arg(long, value_name = "HEX", value_parser = hash, required_unless_present = "head")]
    block_hash: Option<[u8; 32]>,
    /// File with a node's signed statement about the block, from `prove` or `head --out`.
    #[arg(long, value_name = "FILE", conflicts_with = "block_hash")]
    head: Option<PathBuf>,
    /// Public key of the node that signed the statement, as CURVE:HEX [default: its key in the genesis]
    #[arg(long, value_name = "CURVE:HEX", requires = "head")]
    node_key: Option<String>,
    /// File with the genesis of the database, for the node's key.
    #[arg(long, value_name = "FILE", default_value = "genesis.bin")]
    genesis: PathBuf,
}

impl VerifyProof {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (key, value) = (&self.name.0, self.value.as_ref().map(|value| value.0.as_slice()));
        let file = self.proof.display();
        let bytes = fs::read(&self.proof).with_context(|| file.to_string())?;
        let proof = StateProof::decode(&bytes, value).with_context(|| file.to_string())?;
        let hash = match (&self.block_hash, &self.head) {
            (Some(hash), _) => *hash,
            (None, Some(file)) => self.hash_of_head(file, &proof)?,
            (None, None) => bail!(Wrong("give --block-hash HEX or --head FILE".into())),
        };
        proof.check(&hash, key, value).with_context(|| file.to_string())?;
        let database = to_hex(&proof.header.database);
        let (block, hash, value_text) = (proof.header.number, to_hex(&hash), value.map(text::show));
        match as_json {
            true => say!(
                "{}",
                json!({
                    "proven": true, "database": database, "key": text::show(key), "value": value_text, "block": block,
                    "hash": hash,
                })
            )?,
            false => {
                let content = value_text.map_or("held nothing".into(), |value| format!("held \"{value}\""));
                say!(
                    "proven: {} {content} in block {block}, {hash}, of database {database}",
                    text::show(key)
                )?;
            }
        }
        Ok(())
    }

    /// Returns the block hash in a node's signed statement, after checking the signature.
    fn hash_of_head(&self, file: &Path, proof: &StateProof) -> anyhow::Result<[u8; 32]> {
        let path = file.display();
        let bytes = fs::read(file).with_context(|| path.to_string())?;
        let bytes = bytes[..]
            .try_into()
            .map_err(|_| Wrong(format!("{path}: this file holds no signed head")))?;
        let head = SignedHead::read(bytes).map_err(|error| Wrong(format!("{path}: {error}")))?;
        let key = match &self.node_key {
            Some(text) => key::public(text)?,
            None => {
                let (genesis, bytes) = read_genesis(&self.genesis)?;
                // A node may sign for several databases with one key.
                if proof.header.database != database_id(&bytes) {
                    let (database, genesis) = (to_hex(&proof.header.database), self.genesis.display());
                    bail!(
                        "the proof is of database {database}, not of the database of {genesis}; give the genesis of \
                         the proof's database with --genesis"
                    );
                }
                let node_key = genesis.nodes.iter().find(|(node, _)| *node == head.node);
                let none = || {
                    Wrong(format!(
                        "node {} is not in the genesis: give its key with --node-key",
                        head.node
                    ))
                };
                node_key.ok_or_else(none)?.1
            }
        };
        let key = key
            .key()
            .context("the node's public key is not a point on its curve")?;
        if !head.is_signed_by(&proof.header.database, &key, &Verifier::default()) {
            bail!(
                "{path}: the signature was not made with the key of node {} for this database",
                head.node
            );
        }
        Ok(head.hash)
    }
}
