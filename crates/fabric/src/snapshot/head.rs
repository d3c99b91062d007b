//! The two JSON files of a snapshot: they name the snapshot's last block, and the SHA-256 of each other file.

use super::SnapshotError;
use super::files::{FILES, Files};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;

/// Name of the file whose SHA-256 is the snapshot's hash.
pub const SIGNABLE: &str = "_snapshot_signable_metadata.json";
/// Name of the file with the snapshot's hash and the commit hash of its last block.
pub const ADDITIONAL: &str = "_snapshot_additional_metadata.json";
/// Maximum size of each JSON file of a snapshot, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// Name by which a peer's snapshot files refer to LevelDB as the state database.
const LEVELDB: &str = "SimpleKeyValueDB";

/// Content of the JSON files of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    /// Name of the channel.
    pub channel: String,
    /// Number of the last block.
    pub last: u64,
    /// Header hash of the last block.
    pub last_hash: [u8; 32],
    /// Header hash of the block before the last block; `None` if the last block is the genesis block.
    pub previous_hash: Option<[u8; 32]>,
    /// Commit hash of the last block; `None` for the genesis block. No hash of the snapshot covers this value.
    pub commit_hash: Option<[u8; 32]>,
    /// Hash of the snapshot, which identifies its content.
    pub hash: [u8; 32],
    /// SHA-256 of each file, by name.
    pub files: BTreeMap<String, [u8; 32]>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signable {
    channel_name: String,
    last_block_number: u64,
    last_block_hash: String,
    previous_block_hash: String,
    snapshot_files_raw_hashes: BTreeMap<String, String>,
    state_db_type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Additional {
    snapshot_hash: String,
    last_block_commit_hash: String,
}

impl SnapshotHead {
    /// Reads and checks the two files.
    ///
    /// # Errors
    /// The error names the file that is missing, damaged, or in another form than a peer writes.
    pub fn read(files: &mut impl Files) -> Result<Self, SnapshotError> {
        let signable = read_file(files, SIGNABLE)?;
        let additional = read_file(files, ADDITIONAL)?;
        Self::from_bytes(&signable, &additional)
    }

    fn from_bytes(signable: &[u8], additional: &[u8]) -> Result<Self, SnapshotError> {
        let wrong = |what: String| SnapshotError::new(ADDITIONAL, what);
        let of: Additional = serde_json::from_slice(additional).map_err(|error| wrong(error.to_string()))?;
        // No hash covers this file. A peer writes this file in exactly one form, so all damage is found except in the
        // digits of the commit hash.
        if additional != additional_text(&of.snapshot_hash, &of.last_block_commit_hash).as_bytes() {
            return Err(wrong(
                "the file is not in the form that a peer writes; copy it again from the peer".into(),
            ));
        }
        let hash: [u8; 32] = Sha256::digest(signable).into();
        if digest(&of.snapshot_hash) != Some(hash) {
            return Err(SnapshotError::new(
                SIGNABLE,
                format!(
                    "its SHA-256 is {}, but {ADDITIONAL} says {}; copy the snapshot again",
                    hex(&hash),
                    of.snapshot_hash
                ),
            ));
        }
        let wrong = |what: String| SnapshotError::new(SIGNABLE, what);
        let by: Signable = serde_json::from_slice(signable).map_err(|error| wrong(error.to_string()))?;
        if by.state_db_type != LEVELDB {
            let what = format!(
                "the peer's state database is {}; only LevelDB ({LEVELDB}) is supported",
                by.state_db_type
            );
            return Err(wrong(what));
        }
        let mut files = BTreeMap::new();
        for (name, text) in by.snapshot_files_raw_hashes {
            if !FILES.contains(&name.as_str()) {
                return Err(wrong(format!("the file names an unknown file {name}")));
            }
            let digest = digest(&text).ok_or_else(|| wrong(format!("the file has no SHA-256 of {name}")))?;
            files.insert(name, digest);
        }
        let last_hash = digest(&by.last_block_hash)
            .ok_or_else(|| wrong("the file has no valid hash of the last block".into()))?;
        let is_genesis = by.last_block_number == 0;
        let optional = |text: &str, file, what: &str| match (digest(text), text) {
            (None, "") if is_genesis => Ok(None),
            (Some(digest), _) => Ok(Some(digest)),
            _ => Err(SnapshotError::new(file, what)),
        };
        Ok(Self {
            channel: by.channel_name,
            last: by.last_block_number,
            last_hash,
            previous_hash: optional(
                &by.previous_block_hash,
                SIGNABLE,
                "the file has no valid hash of the previous block",
            )?,
            commit_hash: optional(
                &of.last_block_commit_hash,
                ADDITIONAL,
                "the file has no commit hash",
            )?,
            hash,
            files,
        })
    }

    /// Returns the two files in the form that a peer writes. The SHA-256 of the first file is the snapshot's hash.
    pub(crate) fn to_json_files(&self) -> (String, String) {
        let hashes = self.files.iter();
        let hashes = hashes.map(|(name, digest)| format!("        \"{name}\": \"{}\"", hex(digest)));
        let text = |digest: Option<[u8; 32]>| digest.map(|digest| hex(&digest)).unwrap_or_default();
        let signable = format!(
            "{{\n    \"channel_name\": \"{}\",\n    \"last_block_number\": {},\n    \"last_block_hash\": \"{}\",\n    \
             \"previous_block_hash\": \"{}\",\n    \"snapshot_files_raw_hashes\": {{\n{}\n    }},\n    \
             \"state_db_type\": \"{LEVELDB}\"\n}}",
            self.channel,
            self.last,
            hex(&self.last_hash),
            text(self.previous_hash),
            hashes.collect::<Vec<_>>().join(",\n"),
        );
        let hash = hex(&Sha256::digest(&signable));
        (signable, additional_text(&hash, &text(self.commit_hash)))
    }
}

/// Returns the file of additional metadata in the form that a peer writes.
fn additional_text(snapshot_hash: &str, commit_hash: &str) -> String {
    format!(
        "{{\n    \"snapshot_hash\": \"{snapshot_hash}\",\n    \"last_block_commit_hash\": \"{commit_hash}\"\n}}"
    )
}

fn read_file(files: &mut impl Files, name: &str) -> Result<Vec<u8>, SnapshotError> {
    let failed = |error| SnapshotError::io(name, &error);
    let mut bytes = Vec::new();
    let from = files.open(name).map_err(failed)?;
    from.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > BYTES_MAX {
        true => Err(SnapshotError::new(
            name,
            format!("the file has more than {BYTES_MAX} bytes"),
        )),
        false => Ok(bytes),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    crate::replay::hex(bytes)
}

/// Parses 64 lower-case hex digits.
fn digest(text: &str) -> Option<[u8; 32]> {
    match crate::state::TxId::new(text) {
        crate::state::TxId::Hash(digest) => Some(digest),
        crate::state::TxId::Other(_) => None,
    }
}
