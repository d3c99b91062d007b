//! Audit of a peer's data. Its blocks are validated again or compared with a ledger, by codes and commit hashes; its
//! snapshot is compared key by key.

use crate::block::Block;
use crate::code::TxCode;
use crate::error::Error;
use crate::peer_ledger::{PeerBlock, PeerLedger, PeerLedgerError};
use crate::proto::Arena;
use crate::replay::hex;
use crate::snapshot::{Contents, Files, ReadMore, SnapshotError, SnapshotHead, read};
use crate::state::{Entry, Height, State, TxId};
use crate::validate::{Options, Validator};
use std::collections::HashSet;

/// Maximum number of differences of a block or a snapshot that are described; further differences are only counted.
const DIFFERENCES_MAX: usize = 20;

/// Reason why an audit cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The block files cannot be read.
    #[error(transparent)]
    Files(#[from] PeerLedgerError),
    /// This program cannot decide the block, or does not accept it.
    #[error("block {number} ({place}): {source}")]
    Block {
        /// Block number.
        number: u64,
        /// File and byte offset.
        place: String,
        /// The reason.
        source: Error,
    },
    /// The first block in the files does not follow the block before the audit's first one.
    #[error("the peer's first block is {found}, but the audit begins with {wanted}: {hint}")]
    Start {
        /// Number of the peer's first block.
        found: u64,
        /// Number of the expected block.
        wanted: u64,
        /// Advice to the operator.
        hint: &'static str,
    },
    /// A block in the files does not have the next number.
    #[error("{place}: found block {found}, expected block {wanted}; copy the peer's block files again")]
    Order {
        /// File and byte offset.
        place: String,
        /// Number of the block that was found.
        found: u64,
        /// Number of the expected block.
        wanted: u64,
    },
    /// The snapshot is invalid.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The ledger of this replica cannot be read, so its result for a block cannot be compared with the peer's result.
    #[error("{0}")]
    Ours(String),
}

/// The first block of a peer that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Block number.
    pub number: u64,
    /// File and byte offset.
    pub location: String,
    /// Description of each difference.
    pub what: Vec<String>,
}

/// Result of an audit of block files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Number of blocks that were compared and in which the peer and this program agree.
    pub blocks: u64,
    /// Number of transactions in the blocks that agree.
    pub transactions: u64,
    /// Number of the compared blocks in which the peer stored no commit hash. The genesis block, which never has one,
    /// is not counted.
    pub without_commit_hash: u64,
    /// The first block that differs.
    pub difference: Option<Difference>,
    /// Number of bytes at the end of the files that are not a complete block.
    pub unfinished_bytes: u64,
}

/// Header hash, codes and commit hash that this program computed for a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnResults {
    /// Header hash.
    pub hash: [u8; 32],
    /// Validation codes, one byte for each transaction, as in the metadata entry TRANSACTIONS_FILTER.
    pub codes: Vec<u8>,
    /// Commit hash.
    pub commit_hash: Option<[u8; 32]>,
}

/// Results with which an audit compares a peer's blocks.
pub enum AuditReference<'a> {
    /// The validation rules: each block is validated again. The validator has committed the block before the first
    /// block in the files; `None` if the files begin with the genesis block.
    Rules(Option<Box<Validator>>, Options),
    /// A ledger. The number is that of its first block; earlier blocks in the files are skipped. The function returns
    /// the ledger's results for the block with a number, or `None` if the ledger does not have that block.
    Ledger(u64, &'a mut dyn FnMut(u64) -> Result<Option<OwnResults>, String>),
}

/// Compares a peer's block files with `against`, oldest block first, up to the first difference. Calls `each` with the
/// number of each block that agrees.
///
/// # Errors
/// The reason why the audit cannot continue. Differences are in the result.
pub fn audit(
    peer: &mut PeerLedger,
    mut against: AuditReference<'_>,
    each: &mut dyn FnMut(u64),
) -> Result<AuditReport, AuditError> {
    let mut audited = AuditReport::default();
    let mut next: Option<u64> = None;
    while let Some(block) = peer.next()? {
        let location = format!("{}, byte {}", block.file.display(), block.offset);
        if let Some(expected) = next.filter(|wanted| *wanted != block.number) {
            let actual = block.number;
            return Err(AuditError::Order {
                place: location,
                found: actual,
                wanted: expected,
            });
        }
        next = Some(block.number + 1);
        let Some(ours) = against.own_results(&block, &location)? else {
            continue;
        };
        let what = match ours {
            Ok(ours) => compare(&block, &ours, &mut audited),
            Err(refused) => vec![refused],
        };
        if !what.is_empty() {
            let number = block.number;
            audited.difference = Some(Difference {
                number,
                location,
                what,
            });
            break;
        }
        each(block.number);
    }
    audited.unfinished_bytes = peer.unfinished_bytes();
    Ok(audited)
}

impl AuditReference<'_> {
    /// Returns this program's results for a block, or the reason why no peer accepts the block; `None` if the block is
    /// skipped.
    fn own_results(
        &mut self,
        block: &PeerBlock,
        location: &str,
    ) -> Result<Option<Result<OwnResults, String>>, AuditError> {
        let number = block.number;
        match self {
            Self::Ledger(first, _) if number < *first => Ok(None),
            Self::Ledger(_, ledger) => Ok(ledger(number).map_err(AuditError::Ours)?.map(Ok)),
            Self::Rules(validator, options) => validate(validator, options, block, location).map(Some),
        }
    }
}

fn validate(
    validator: &mut Option<Box<Validator>>,
    options: &Options,
    block: &PeerBlock,
    location: &str,
) -> Result<Result<OwnResults, String>, AuditError> {
    let number = block.number;
    let failed = |source| AuditError::Block {
        number,
        place: location.to_owned(),
        source,
    };
    let Some(validator) = validator else {
        if number != 0 {
            return Err(AuditError::Start {
                found: number,
                wanted: 0,
                hint: "give --snapshot DIR, the snapshot that the peer was joined from",
            });
        }
        let started = Validator::new(&block.bytes, options.clone()).map_err(failed)?;
        let hash = started.last_hash();
        *validator = Some(Box::new(started));
        return Ok(Ok(OwnResults {
            hash,
            codes: vec![TxCode::Valid as u8],
            commit_hash: None,
        }));
    };
    if number != validator.last() + 1 {
        return Err(AuditError::Start {
            found: number,
            wanted: validator.last() + 1,
            hint: "these files do not follow this snapshot; give the snapshot that the peer was joined from",
        });
    }
    match validator.validate(&block.bytes) {
        Ok(validated) => {
            let ours = OwnResults {
                hash: validated.hash,
                codes: validated.filter(),
                commit_hash: validated.commit_hash,
            };
            validator.commit(validated);
            Ok(Ok(ours))
        }
        Err(Error::Refused(refused)) => Ok(Err(format!("no peer accepts this block: {refused}"))),
        Err(stop) => Err(failed(stop)),
    }
}

/// Returns the differences between a peer's block and the results of this program. A block without differences is
/// counted in `audited`.
fn compare(block: &PeerBlock, ours: &OwnResults, audited: &mut AuditReport) -> Vec<String> {
    let arena = Arena::new();
    let Ok(theirs) = Block::read(&block.bytes, &arena) else {
        return vec!["the peer's bytes are not a block".to_owned()];
    };
    let mut what = Vec::new();
    if theirs.hash() != ours.hash {
        what.push(format!(
            "the peer's header hash is {}, ours is {}",
            hex(&theirs.hash()),
            hex(&ours.hash)
        ));
    } else if theirs.check_data().is_err() {
        what.push("the peer's transactions do not match the data hash in the block's header".to_owned());
    }
    what.extend(differing_codes(theirs.filter(), &ours.codes));
    let theirs_hash = theirs.commit_hash();
    match (&theirs_hash, &ours.commit_hash) {
        (None, Some(_)) => audited.without_commit_hash += 1,
        (Some(theirs), Some(ours)) if theirs.as_slice() == ours => {}
        (None, None) => {}
        (Some(theirs), ours) => {
            let ours = ours.as_ref().map_or_else(|| "none".to_owned(), |ours| hex(ours));
            what.push(format!(
                "the peer's commit hash is {}, ours is {ours}",
                hex(theirs)
            ));
        }
    }
    if what.is_empty() {
        audited.blocks += 1;
        audited.transactions += ours.codes.len() as u64;
    }
    what
}

fn differing_codes(theirs: &[u8], ours: &[u8]) -> Vec<String> {
    if theirs.len() != ours.len() {
        return vec![format!(
            "the peer's block has {} validation codes, ours has {}",
            theirs.len(),
            ours.len()
        )];
    }
    let name = |code: u8| TxCode::from_number(code).map_or_else(|| code.to_string(), |code| code.to_string());
    let both = theirs
        .iter()
        .zip(ours)
        .enumerate()
        .filter(|(_, (theirs, ours))| theirs != ours);
    let mut what: Vec<String> = both
        .clone()
        .take(DIFFERENCES_MAX)
        .map(|(index, (theirs, ours))| {
            format!(
                "transaction {index}: the peer's code is {}, ours is {}",
                name(*theirs),
                name(*ours)
            )
        })
        .collect();
    let count = both.count();
    if count > what.len() {
        what.push(format!("and {} more transactions", count - what.len()));
    }
    what
}

/// Result of comparing a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotComparison {
    /// Number of keys whose value, version and endorsement policy are the same in the snapshot and in the channel.
    pub keys: u64,
    /// Number of the snapshot's transaction ids that the channel also has.
    pub ids: u64,
    /// Descriptions of the first differences; see `count`.
    pub differences: Vec<String>,
    /// Number of all differences, including those that are not described.
    pub count: u64,
    /// The oldest block that wrote a differing key, by the peer's version or ours: the first block that can be wrong.
    pub first_block: Option<u64>,
}

impl SnapshotComparison {
    fn add_difference(&mut self, what: String, blocks: [Option<u64>; 2]) {
        self.count += 1;
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
        for block in blocks.into_iter().flatten() {
            self.first_block = Some(self.first_block.map_or(block, |first| first.min(block)));
        }
    }
}

/// Compares a peer's snapshot with a channel at the same block.
///
/// # Errors
/// The error names the damaged file of the snapshot.
pub fn compare_snapshot(
    files: &mut impl Files,
    head: &SnapshotHead,
    ours: &Validator,
) -> Result<SnapshotComparison, AuditError> {
    let mut comparing = SnapshotComparer {
        state: ours.state(),
        ours,
        compared_keys: HashSet::new(),
        compared: SnapshotComparison::default(),
    };
    let compared = &mut comparing.compared;
    for (what, same) in [
        ("the channel's name", head.channel == ours.channel()),
        ("the last block's number", head.last == ours.last()),
        ("the last block's header hash", head.last_hash == ours.last_hash()),
        (
            "the last block's commit hash",
            head.commit_hash == ours.commit_hash(),
        ),
    ] {
        if !same {
            compared.add_difference(format!("{what} differs"), [None, None]);
        }
    }
    read(files, head, &mut comparing)?;
    let SnapshotComparer {
        compared_keys: seen,
        mut compared,
        ..
    } = comparing;
    for (namespace, collection, key, entry) in ours.state().all_in_memory() {
        if !seen.contains(&key_location(namespace, collection, key)) {
            let block = entry.version.block;
            let key = name(namespace, collection, key);
            compared.add_difference(
                format!(
                    "{key}: the peer does not have this key; this program's state has it from block {block}"
                ),
                [Some(block), None],
            );
        }
    }
    let ids = ours.ids().len() as u64;
    if compared.ids < ids {
        let missing = ids - compared.ids;
        compared.add_difference(
            format!("the peer does not have {missing} of this program's transaction ids"),
            [None, None],
        );
    }
    Ok(compared)
}

struct SnapshotComparer<'a> {
    state: &'a State,
    ours: &'a Validator,
    compared_keys: HashSet<Vec<u8>>,
    compared: SnapshotComparison,
}

fn key_location(namespace: &str, collection: &str, key: &[u8]) -> Vec<u8> {
    [namespace.as_bytes(), &[0], collection.as_bytes(), &[0], key].concat()
}

fn name(namespace: &str, collection: &str, key: &[u8]) -> String {
    match collection {
        "" => format!("{namespace} {}", key.escape_ascii()),
        collection => format!("{namespace} {collection} {}", hex(key)),
    }
}

impl Contents for SnapshotComparer<'_> {
    fn config(&mut self, envelope: &[u8], version: Height) -> Result<ReadMore, String> {
        if !self.ours.config().is_of(envelope) {
            let what = "the channel's configuration differs".to_owned();
            self.compared.add_difference(what, [Some(version.block), None]);
        }
        Ok(ReadMore::More)
    }

    fn key(&mut self, namespace: &str, collection: &str, key: &[u8], entry: Entry) -> Result<(), String> {
        self.compared_keys
            .insert(key_location(namespace, collection, key));
        let own_entry = self.state.get(namespace, collection, key);
        let of = || name(namespace, collection, key);
        let theirs = entry.version.block;
        match own_entry {
            None => {
                let what = format!(
                    "{}: the peer's key was written by block {theirs}; this program's state does not have the key",
                    of()
                );
                self.compared.add_difference(what, [Some(theirs), None]);
            }
            Some(own_entry) if *own_entry == entry => self.compared.keys += 1,
            Some(own_entry) => {
                let ours = own_entry.version;
                let what = if ours != entry.version {
                    let theirs = entry.version;
                    format!(
                        "{}: the peer's version is block {}, transaction {}; ours is block {}, transaction {}",
                        of(),
                        theirs.block,
                        theirs.tx,
                        ours.block,
                        ours.tx
                    )
                } else if own_entry.value != entry.value {
                    format!("{}: the peer has another value, written by block {theirs}", of())
                } else {
                    format!(
                        "{}: the peer has another endorsement policy, written by block {theirs}",
                        of()
                    )
                };
                self.compared
                    .add_difference(what, [Some(theirs), Some(ours.block)]);
            }
        }
        Ok(())
    }

    fn id(&mut self, id: TxId) -> Result<(), String> {
        match self.ours.ids().contains(&id) {
            true => self.compared.ids += 1,
            false => {
                let text = match id {
                    TxId::Hash(digest) => hex(&digest),
                    TxId::Other(text) => text.escape_ascii().to_string(),
                };
                self.compared.add_difference(
                    format!("the peer has the transaction id {text}, which this program does not have"),
                    [None, None],
                );
            }
        }
        Ok(())
    }
}
