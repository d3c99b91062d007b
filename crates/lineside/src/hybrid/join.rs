//! Snapshots: made of a ledger, vouched for, and begun with.

use super::key;
use super::member::{block, member_of, read_genesis};
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_hybrid::attestation::{ATTESTATION_BYTES, Attestation};
use lineside_hybrid::change::Role;
use lineside_hybrid::genesis::database_id;
use lineside_hybrid::join::{SnapshotSummary, Trust, join, take};
use lineside_hybrid::ledger::journal_options;
use lineside_hybrid::request::MemberId;
use lineside_hybrid_node::service::KIND;
use lineside_journal::FsDisk;
use lineside_util::hex::to_hex;
use serde_json::json;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Make a snapshot of the newest block of a ledger, whose node is stopped: with it another node joins.
#[derive(Args)]
pub struct Snapshot {
    /// The node's data directory.
    #[arg(long)]
    data: PathBuf,
    /// The database's genesis.
    #[arg(long, default_value = "genesis.bin")]
    genesis: PathBuf,
    /// The snapshot's file.
    #[arg(long, default_value = "snapshot.bin")]
    out: PathBuf,
}

impl Snapshot {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let shown = self.data.display();
        if !self.data.is_dir() {
            bail!(Wrong(format!("{shown}: no directory")));
        }
        let (_, genesis) = read_genesis(&self.genesis)?;
        let has_ledger = fs::read_dir(&self.data)?.flatten().any(|entry| {
            let name = entry.file_name();
            Path::new(&name).extension().is_some_and(|found| found == "log")
        });
        if !has_ledger {
            bail!(Wrong(format!("{shown}: no ledger")));
        }
        let disk = FsDisk::claim_existing(&self.data, &KIND).with_context(|| {
            format!("opening the ledger in {shown}: a node that runs there must be stopped first")
        })?;
        let mut out = BufWriter::new(new_file(&self.out)?);
        let made = take(disk, &genesis, &mut out);
        let made = match made.and_then(|made| {
            out.get_ref().sync_all()?;
            Ok(made)
        }) {
            Ok(made) => made,
            Err(error) => {
                // What is there is none.
                let _ = fs::remove_file(&self.out);
                return Err(error).with_context(|| format!("a snapshot of {shown}"));
            }
        };
        say_made(&made, "snapshot", &self.out, as_json)
    }
}

/// Give a member's word for a block, which the member's own node says: who joins from a snapshot believes a quorum of
/// the genesis' admins.
#[derive(Args)]
pub struct Vouch {
    /// The member's key, the first that the genesis has of it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The database's genesis.
    #[arg(long, default_value = "genesis.bin")]
    genesis: PathBuf,
    /// The block, NUMBER:HASH, as `lineside hybrid head` says it.
    #[arg(long, value_parser = block)]
    block: (u64, [u8; 32]),
    /// The word's file.
    #[arg(long, default_value = "word.bin")]
    out: PathBuf,
}

impl Vouch {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (genesis, bytes) = read_genesis(&self.genesis)?;
        let secret = key::read(&self.key)?;
        let member: MemberId = member_of(&genesis, &secret.public()).ok_or_else(|| {
            let (key, genesis) = (self.key.display(), self.genesis.display());
            Wrong(format!("{key}: no member of {genesis} has this key"))
        })?;
        let mut first = genesis.members.iter().filter(|first| first.member == member);
        if !first.any(|first| first.role == Role::Admin) {
            let (key, genesis) = (self.key.display(), self.genesis.display());
            bail!(Wrong(format!(
                "{key}: member {member} is not an admin of {genesis}, whose words alone are believed"
            )));
        }
        let (number, hash) = self.block;
        let attestation = Attestation::sign(&database_id(&bytes), member, number, hash, &secret);
        let written = new_file(&self.out)?.write_all(&attestation.to_bytes());
        written.with_context(|| self.out.display().to_string())?;
        let (hash, out) = (to_hex(&hash), self.out.display());
        match as_json {
            true => say!(
                "{}",
                json!({"member": member, "block": number, "hash": hash, "word": out.to_string()})
            )?,
            false => say!("member {member}'s word for block {number}, {hash}: {out}")?,
        }
        Ok(())
    }
}

/// Begin a ledger with a snapshot, in an empty directory: the node is served from it as from any.
#[derive(Args)]
pub struct Join {
    /// The new node's data directory; made where it is not there.
    #[arg(long)]
    data: PathBuf,
    /// The database's genesis.
    #[arg(long, default_value = "genesis.bin")]
    genesis: PathBuf,
    /// The snapshot's file.
    #[arg(long, default_value = "snapshot.bin")]
    snapshot: PathBuf,
    /// The block that the snapshot must be of, NUMBER:HASH, by somebody who is trusted.
    #[arg(long, value_parser = block, required_unless_present = "word")]
    block: Option<(u64, [u8; 32])>,
    /// A member's word for the block, as `vouch` makes it; a quorum of the genesis' admins must have given theirs.
    #[arg(long, conflicts_with = "block")]
    word: Vec<PathBuf>,
}

impl Join {
    fn trust(&self) -> anyhow::Result<Trust> {
        if let Some((number, hash)) = self.block {
            return Ok(Trust::Block(number, hash));
        }
        let words = self.word.iter().map(|file| {
            let shown = file.display();
            let mut bytes = Vec::new();
            let read = File::open(file)
                .and_then(|file| file.take(ATTESTATION_BYTES as u64 + 1).read_to_end(&mut bytes));
            read.map_err(|error| Wrong(format!("{shown}: {error}")))?;
            let bytes: &[u8; ATTESTATION_BYTES] = bytes[..]
                .try_into()
                .map_err(|_| Wrong(format!("{shown}: no member's word")))?;
            anyhow::Ok(Attestation::from_bytes(bytes))
        });
        Ok(Trust::Attestations(words.collect::<anyhow::Result<_>>()?))
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (_, genesis) = read_genesis(&self.genesis)?;
        let trust = self.trust()?;
        let shown = self.snapshot.display();
        let mut snapshot = File::open(&self.snapshot).map_err(|error| Wrong(format!("{shown}: {error}")))?;
        let data = self.data.display();
        let disk = FsDisk::claim(&self.data, &KIND).with_context(|| format!("the new ledger in {data}"))?;
        let mut new_directory = disk.new_directory();
        let made = join(disk, &genesis, &mut snapshot, &trust, journal_options());
        let made = made.with_context(|| format!("joining from {shown} in {data}"))?;
        if let Some(new) = &mut new_directory {
            new.keep();
        }
        say_made(&made, "data", &self.data, as_json)
    }
}

/// A file that was not there: a snapshot or a word never takes the place of a key, a ledger or another one.
fn new_file(path: &Path) -> anyhow::Result<File> {
    Ok(File::create_new(path).map_err(|error| Wrong(format!("{}: {error}", path.display())))?)
}

fn say_made(made: &SnapshotSummary, what: &str, place: &Path, as_json: bool) -> anyhow::Result<()> {
    let (hash, place) = (to_hex(&made.hash), place.display().to_string());
    match as_json {
        true => {
            let mut line = json!({"block": made.number, "hash": hash, "keys": made.keys});
            line[what] = place.into();
            say!("{line}")?;
        }
        false => say!("block {}, {hash}, {} keys: {place}", made.number, made.keys)?,
    }
    Ok(())
}
