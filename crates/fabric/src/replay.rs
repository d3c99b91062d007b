//! Validates a folder of recorded blocks again and compares the results with the recorded ones.
//!
//! `NNNNN.orderer.pb.gz` is a block as the orderer delivered it, `NNNNN.committed.pb.gz` as a peer committed it.
//! `manifest.json` has the codes and commit hashes, and `state/NNNNN.json` a peer's state after a block. Only the
//! blocks are required, from 00000 on.

use crate::block::Block;
use crate::limits::BLOCK_BYTES_MAX;
use crate::listing::Listing;
use crate::proto::Arena;
use crate::{Error, Options, StageTimes, TxCode, Validator};
use flate2::read::GzDecoder;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Reason why a folder cannot be replayed to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The folder does not begin with a genesis block.
    #[error(
        "{}: this folder has no 00000.orderer.pb.gz or 00000.committed.pb.gz; give a folder of recorded blocks",
        path.display()
    )]
    NoGenesis {
        /// The folder.
        path: PathBuf,
    },
    /// The manifest is invalid.
    #[error("{}: {what}", path.display())]
    Manifest {
        /// Path of the file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A block is not accepted.
    #[error("block {number}: {source}")]
    Block {
        /// Block number.
        number: u64,
        /// The reason.
        source: Error,
    },
}

/// Result of replaying a block.
#[derive(Clone, Debug)]
pub struct ReplayedBlock {
    /// Block number.
    pub number: u64,
    /// Validation codes.
    pub codes: Vec<TxCode>,
    /// Commit hash; the genesis block has none.
    pub commit_hash: Option<[u8; 32]>,
    /// Differences from the records.
    pub differences: Vec<String>,
    /// True if there was a manifest or a committed block to compare with.
    pub compared: bool,
    /// True if the block is recorded but was not replayed, because its file or the file of an earlier block is missing.
    /// A missing block counts as a difference.
    pub missing: bool,
    /// Time that each stage took.
    pub times: StageTimes,
}

#[derive(Deserialize)]
struct Manifest {
    blocks: Vec<RecordedBlock>,
}

#[derive(Deserialize)]
struct RecordedBlock {
    number: u64,
    commit_hash: Option<String>,
    /// Codes of the transactions; optional, because the commit hash covers them.
    txs: Option<Vec<RecordedTx>>,
    tx_count: Option<usize>,
    /// Number of transactions with each code, by the code's name.
    codes: Option<BTreeMap<String, usize>>,
}

#[derive(Deserialize)]
struct RecordedTx {
    code_num: u8,
    code: Option<String>,
    label: Option<String>,
}

/// Reads a recorded block; `None` if there is no such file.
pub fn read(directory: &Path, number: u64, form: &str) -> Result<Option<Vec<u8>>, ReplayError> {
    let path = directory.join(format!("{number:05}.{form}.pb.gz"));
    let failed = |source| ReplayError::Io {
        path: path.clone(),
        source,
    };
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    let mut gz = GzDecoder::new(file).take(BLOCK_BYTES_MAX as u64 + 1);
    gz.read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(bytes))
}

fn manifest(directory: &Path) -> Result<Option<Manifest>, ReplayError> {
    let path = directory.join("manifest.json");
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(ReplayError::Io { path, source }),
    };
    let wrong = |what| ReplayError::Manifest {
        path: path.clone(),
        what,
    };
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let mut numbers = BTreeSet::new();
    let repeated = manifest.blocks.iter().find(|block| !numbers.insert(block.number));
    match repeated {
        Some(block) => Err(wrong(format!("block {} occurs twice", block.number))),
        None => Ok(Some(manifest)),
    }
}

/// Replays a folder and calls `each` for every block, until there are no more or `each` returns `false`.
///
/// # Errors
/// The reason why the replay cannot continue; `each` was called for the blocks before.
pub fn replay(
    directory: &Path,
    options: Options,
    each: &mut dyn FnMut(&ReplayedBlock) -> bool,
) -> Result<Option<Validator>, ReplayError> {
    let mut start = |genesis: &[u8]| Validator::new(genesis, options.clone());
    replay_with(directory, &mut start, each)
}

/// Replays a folder as [`replay`] does, with the function `start` for the genesis block.
pub(crate) fn replay_with(
    directory: &Path,
    start: &mut dyn FnMut(&[u8]) -> Result<Validator, Error>,
    each: &mut dyn FnMut(&ReplayedBlock) -> bool,
) -> Result<Option<Validator>, ReplayError> {
    let manifest = manifest(directory)?;
    let mut validator: Option<Validator> = None;
    for number in 0.. {
        let delivered = read(directory, number, "orderer")?;
        let committed = read(directory, number, "committed")?;
        let Some(bytes) = delivered.as_ref().or(committed.as_ref()) else {
            if number > 0 {
                tell_missing(directory, number, manifest.as_ref(), each)?;
            }
            break;
        };
        let failed = |source| ReplayError::Block { number, source };
        let mut replayed = match &mut validator {
            None => {
                validator = Some(start(bytes).map_err(failed)?);
                ReplayedBlock {
                    number,
                    codes: vec![TxCode::Valid],
                    commit_hash: None,
                    differences: Vec::new(),
                    compared: false,
                    missing: false,
                    times: StageTimes::default(),
                }
            }
            Some(validator) => {
                let validated = validator.validate(bytes).map_err(failed)?;
                let replayed = ReplayedBlock {
                    number,
                    codes: validated.codes.clone(),
                    commit_hash: validated.commit_hash,
                    differences: Vec::new(),
                    compared: false,
                    missing: false,
                    times: validated.times,
                };
                validator.commit(validated);
                replayed
            }
        };
        let recorded = manifest.as_ref().map(|manifest| &manifest.blocks);
        let recorded = recorded.and_then(|blocks| blocks.iter().find(|block| block.number == number));
        if let Some(recorded) = recorded {
            compare_manifest(&mut replayed, recorded);
        }
        if let Some(committed) = &committed {
            compare_committed(&mut replayed, committed);
        }
        if let Some(listing) = Listing::read(directory, number)?
            && let Some(validator) = &validator
        {
            replayed
                .differences
                .extend(listing.differences(validator.state()));
        }
        if !each(&replayed) {
            break;
        }
    }
    if validator.is_none() {
        return Err(ReplayError::NoGenesis {
            path: directory.to_owned(),
        });
    }
    Ok(validator)
}

/// Reports the blocks from number `next` on that the manifest or the folder contains as missing.
fn tell_missing(
    directory: &Path,
    next: u64,
    manifest: Option<&Manifest>,
    each: &mut dyn FnMut(&ReplayedBlock) -> bool,
) -> Result<(), ReplayError> {
    let failed = |source| ReplayError::Io {
        path: directory.to_owned(),
        source,
    };
    let mut recorded: BTreeSet<u64> = BTreeSet::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_str().unwrap_or_default();
        let block = [".orderer.pb.gz", ".committed.pb.gz"]
            .iter()
            .find_map(|form| name.strip_suffix(form));
        recorded.extend(block.and_then(|number| number.parse::<u64>().ok()));
    }
    recorded.extend(
        manifest
            .iter()
            .flat_map(|manifest| &manifest.blocks)
            .map(|block| block.number),
    );
    for number in recorded.range(next..) {
        let missing = ReplayedBlock {
            number: *number,
            codes: Vec::new(),
            commit_hash: None,
            differences: vec![format!(
                "the block is recorded but was not replayed, because block {next} is missing"
            )],
            compared: false,
            missing: true,
            times: StageTimes::default(),
        };
        if !each(&missing) {
            break;
        }
    }
    Ok(())
}

fn compare_manifest(replayed: &mut ReplayedBlock, recorded: &RecordedBlock) {
    // An entry with neither hash nor codes cannot be compared.
    replayed.compared = recorded.commit_hash.is_some() || recorded.txs.is_some() || recorded.codes.is_some();
    let counts = [recorded.tx_count, recorded.txs.as_ref().map(Vec::len)];
    for count in counts.into_iter().flatten() {
        if replayed.codes.len() != count {
            let differs = format!(
                "the block has {} transactions, but {count} are recorded",
                replayed.codes.len()
            );
            replayed.differences.push(differs);
        }
    }
    if let Some(recorded) = &recorded.codes {
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        for code in &replayed.codes {
            *codes.entry(code.name().to_owned()).or_default() += 1;
        }
        if codes != *recorded {
            replayed.differences.push(format!(
                "validation gives the codes {codes:?}, but the record has {recorded:?}"
            ));
        }
    }
    if let Some(txs) = &recorded.txs {
        for (index, (code, tx)) in replayed.codes.iter().zip(txs).enumerate() {
            if let Some(other) = tx.code.as_ref().filter(|code| **code != name(tx.code_num)) {
                let differs = format!(
                    "transaction {index}: the record contradicts itself, it has the codes {} and {other}",
                    name(tx.code_num)
                );
                replayed.differences.push(differs);
            }
            if *code as u8 != tx.code_num {
                let label = tx.label.as_deref().unwrap_or("no label");
                let recorded = name(tx.code_num);
                let differs = format!(
                    "transaction {index}: validation gives {code}, but the record has {recorded} ({label})"
                );
                replayed.differences.push(differs);
            }
        }
    }
    if let (Some(ours), Some(theirs)) = (&replayed.commit_hash, &recorded.commit_hash)
        && !hex(ours).eq_ignore_ascii_case(theirs)
    {
        replayed.differences.push(format!(
            "validation gives the commit hash {}, but the record has {theirs}",
            hex(ours)
        ));
    }
}

fn compare_committed(replayed: &mut ReplayedBlock, committed: &[u8]) {
    let arena = Arena::new();
    let Ok(block) = Block::read(committed, &arena) else {
        replayed
            .differences
            .push("the committed block is malformed".to_owned());
        return;
    };
    replayed.compared = true;
    let filter: Vec<u8> = replayed.codes.iter().map(|&code| code as u8).collect();
    if block.filter() != filter {
        let both = filter.iter().zip(block.filter()).enumerate();
        let differing: Vec<String> = both
            .filter(|(_, (ours, theirs))| ours != theirs)
            .map(|(index, (&ours, &theirs))| {
                format!("transaction {index}: {} instead of {}", name(ours), name(theirs))
            })
            .collect();
        let differs = format!(
            "validation gives other codes than TRANSACTIONS_FILTER of the committed block: {}",
            differing.join(", ")
        );
        replayed.differences.push(differs);
    }
    if let (Some(ours), Some(theirs)) = (&replayed.commit_hash, block.commit_hash())
        && ours.as_slice() != theirs
    {
        let differs = format!(
            "validation gives the commit hash {}, but the committed block has {}",
            hex(ours),
            hex(&theirs)
        );
        replayed.differences.push(differs);
    }
}

fn name(code: u8) -> String {
    TxCode::from_number(code).map_or_else(|| code.to_string(), |code| code.name().to_owned())
}

/// Returns lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
