//! `lineside hybrid snapshot`, `vouch` and `join`: start a new node from a snapshot instead of the whole ledger.

use super::key;
use super::member::{block, member_of, read_genesis};
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::hybrid::attestation::{ATTESTATION_BYTES, Attestation};
use lineside_client::hybrid::change::Role;
use lineside_client::hybrid::genesis::database_id;
use lineside_client::hybrid::request::MemberId;
use lineside_hybrid::join::{SnapshotSummary, Trust, join, take};
use lineside_hybrid::ledger::journal_options;
use lineside_hybrid_node::service::KIND;
use lineside_journal::FsDisk;
use lineside_util::data_dir::check_kind;
use lineside_util::hex::to_hex;
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Write a snapshot after the newest block of a ledger, from which another node can join.
///
/// The node of the ledger must be stopped.
#[derive(Args)]
pub struct Snapshot {
    /// Data directory of the node.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// File with the genesis of the database.
    #[arg(long, value_name = "FILE", default_value = "genesis.bin")]
    genesis: PathBuf,
    /// File for the snapshot, which must not exist.
    #[arg(long, value_name = "FILE", default_value = "snapshot.bin")]
    out: PathBuf,
}

impl Snapshot {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let path = self.data.display();
        if !self.data.is_dir() {
            bail!("{path}: there is no such directory");
        }
        let (_, genesis) = read_genesis(&self.genesis)?;
        check_kind(&self.data, &KIND)?;
        let has_ledger = fs::read_dir(&self.data)?.flatten().any(|entry| {
            let name = entry.file_name();
            Path::new(&name).extension().is_some_and(|found| found == "log")
        });
        if !has_ledger {
            bail!("{path}: this directory holds no ledger; give the data directory of a node");
        }
        let disk = FsDisk::claim_existing(&self.data, &KIND)
            .with_context(|| format!("cannot open the ledger in {path} (stop a node that uses it first)"))?;
        let mut out = BufWriter::new(new_file(&self.out, SECRET)?);
        let summary = take(disk, &genesis, &mut out);
        let summary = match summary.and_then(|made| {
            out.get_ref().sync_all()?;
            Ok(made)
        }) {
            Ok(summary) => summary,
            Err(error) => {
                // The file holds an incomplete snapshot.
                let _ = fs::remove_file(&self.out);
                return Err(error).with_context(|| format!("cannot write a snapshot of {path}"));
            }
        };
        say_made(&summary, "snapshot", &self.out, as_json)
    }
}

/// Sign an attestation that a block is right, as an admin of the database.
///
/// Take NUMBER:HASH from your own node (`lineside hybrid head`). A node that joins from a snapshot needs attestations
/// from a quorum of the genesis' admins.
#[derive(Args)]
pub struct Vouch {
    /// Key file of the admin; the key must be the one in the genesis.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File with the genesis of the database.
    #[arg(long, value_name = "FILE", default_value = "genesis.bin")]
    genesis: PathBuf,
    /// Number and hash of the block, from `lineside hybrid head` of your own node.
    #[arg(long, value_name = "NUMBER:HASH", value_parser = block)]
    block: (u64, [u8; 32]),
    /// File for the attestation, for `join --word`. The file must not exist.
    #[arg(long, value_name = "FILE", default_value = "word.bin")]
    out: PathBuf,
}

impl Vouch {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (genesis, bytes) = read_genesis(&self.genesis)?;
        let secret = key::read(&self.key)?;
        let member: MemberId = member_of(&genesis, &secret.public()).ok_or_else(|| {
            let (key, genesis) = (self.key.display(), self.genesis.display());
            Wrong(format!(
                "{key}: no member of {genesis} has this key; give the key file of an admin of the genesis"
            ))
        })?;
        let mut first = genesis.members.iter().filter(|first| first.member == member);
        if !first.any(|first| first.role == Role::Admin) {
            let (key, genesis) = (self.key.display(), self.genesis.display());
            bail!(Wrong(format!(
                "{key}: member {member} is not an admin in {genesis}; give the key of an admin, because only \
                 attestations of admins count"
            )));
        }
        let (number, hash) = self.block;
        let attestation = Attestation::sign(&database_id(&bytes), member, number, hash, &secret);
        let written = new_file(&self.out, PUBLIC)?.write_all(&attestation.to_bytes());
        written.with_context(|| format!("cannot write the attestation to {}", self.out.display()))?;
        let (hash, out) = (to_hex(&hash), self.out.display());
        match as_json {
            true => say!(
                "{}",
                json!({"member": member, "block": number, "hash": hash, "word": out.to_string()})
            )?,
            false => say!("attestation of member {member} for block {number}, {hash}: {out}")?,
        }
        Ok(())
    }
}

/// Begin the ledger of a new node from a snapshot.
///
/// The snapshot's block must be trusted: give its number and hash (--block), or attestations of a quorum of admins
/// (--word), each of which an admin has signed with `lineside hybrid vouch`. `lineside hybrid serve` then serves the
/// directory as any other.
#[derive(Args)]
pub struct Join {
    /// Data directory of the new node, empty or missing; it is created if missing.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// File with the genesis of the database.
    #[arg(long, value_name = "FILE", default_value = "genesis.bin")]
    genesis: PathBuf,
    /// File with the snapshot.
    #[arg(long, value_name = "FILE", default_value = "snapshot.bin")]
    snapshot: PathBuf,
    /// Number and hash of the snapshot's block, from a source that you trust.
    #[arg(long, value_name = "NUMBER:HASH", value_parser = block, required_unless_present = "word")]
    block: Option<(u64, [u8; 32])>,
    /// File with an admin's attestation of the block, from `lineside hybrid vouch`; may be given more than once. A
    /// quorum of the genesis' admins is needed.
    #[arg(long, value_name = "FILE", conflicts_with = "block")]
    word: Vec<PathBuf>,
}

impl Join {
    fn trust(&self) -> anyhow::Result<Trust> {
        if let Some((number, hash)) = self.block {
            return Ok(Trust::Block(number, hash));
        }
        let words = self.word.iter().map(|file| {
            let path = file.display();
            let mut bytes = Vec::new();
            let read = File::open(file)
                .and_then(|file| file.take(ATTESTATION_BYTES as u64 + 1).read_to_end(&mut bytes));
            read.map_err(|error| Wrong(format!("{path}: {error}")))?;
            let bytes: &[u8; ATTESTATION_BYTES] = bytes[..].try_into().map_err(|_| {
                Wrong(format!(
                    "{path}: this file holds no attestation; give a file that `lineside hybrid vouch` has written"
                ))
            })?;
            anyhow::Ok(Attestation::from_bytes(bytes))
        });
        Ok(Trust::Attestations(words.collect::<anyhow::Result<_>>()?))
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (_, genesis) = read_genesis(&self.genesis)?;
        let trust = self.trust()?;
        let path = self.snapshot.display();
        let mut snapshot = File::open(&self.snapshot).map_err(|error| Wrong(format!("{path}: {error}")))?;
        let data = self.data.display();
        let disk = FsDisk::claim(&self.data, &KIND)
            .with_context(|| format!("cannot create the new ledger in {data}"))?;
        let mut new_directory = disk.new_directory();
        let summary = join(disk, &genesis, &mut snapshot, &trust, journal_options());
        let summary = summary.with_context(|| format!("cannot join from {path} in {data}"))?;
        if let Some(new) = &mut new_directory {
            new.keep();
        }
        say_made(&summary, "data", &self.data, as_json)
    }
}

/// Mode of a file with data that only members may read.
const SECRET: u32 = 0o600;
/// Mode, before the umask, of a file that everybody may read.
const PUBLIC: u32 = 0o666;

/// Creates a file that must not exist, so that a snapshot or an attestation never overwrites a key or another file.
fn new_file(path: &Path, mode: u32) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    Ok(opened.map_err(|error| Wrong(format!("{}: {error}", path.display())))?)
}

fn say_made(summary: &SnapshotSummary, what: &str, path: &Path, as_json: bool) -> anyhow::Result<()> {
    let (hash, path) = (to_hex(&summary.hash), path.display().to_string());
    match as_json {
        true => {
            let mut line = json!({"block": summary.number, "hash": hash, "keys": summary.keys});
            line[what] = path.into();
            say!("{line}")?;
        }
        false => say!(
            "block {}, {hash}, {}: {path}",
            summary.number,
            counted(summary.keys, "key")
        )?,
    }
    Ok(())
}
