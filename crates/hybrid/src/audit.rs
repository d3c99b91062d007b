//! Audit of a ledger: verifies every signature, executes every request again, and reports the first place where the
//! stored ledger differs from the result.

mod beginning;
mod compare;

use crate::execute::{Chain, SignatureCheck};
use crate::ledger::{LedgerError, LedgerItem, RECORD_GENESIS, StoredBlock, read_record};
use crate::membership::Membership;
use crate::signatures::CheckedMessage;
use beginning::Beginning;
use compare::{compare, first_difference};
use crossbeam_channel::{Receiver, Sender, bounded};
use lineside_journal::{Disk, Lsn, RECORD_HEADER_BYTES, Reader, Records, VerifyReport, verify};
use lineside_messages::hybrid::block::{HASHED_AT_ONCE, Hash, Message, transactions_hashes};
use lineside_messages::hybrid::request::DatabaseId;
use lineside_verify::{Options as VerifyOptions, Verifier};
use std::collections::BTreeMap;
use std::iter::once;
use std::sync::{Arc, PoisonError, RwLock};

/// Number of records read ahead for each thread.
const READ_AHEAD_RECORDS: usize = 2 * HASHED_AT_ONCE;

/// Options of an audit.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads that verify signatures; one more thread executes.
    pub threads: usize,
    /// Options of the verifier. The audit always refuses a signature whose s is above half the curve's order.
    pub verify: VerifyOptions,
    /// The genesis that the ledger must have; `None` accepts any genesis.
    pub genesis: Option<Vec<u8>>,
    /// A block that the ledger must have, by number and hash. Without a block hash that is known from elsewhere, an
    /// audit cannot detect two changes: the removal of the last blocks (the rest is still a valid ledger), and changed
    /// positions of messages in the log (only the block's hash covers them).
    pub tip: Option<(u64, Hash)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            verify: VerifyOptions::default(),
            genesis: None,
            tip: None,
        }
    }
}

/// Progress of an audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of blocks that were found correct so far.
    pub blocks: u64,
    /// Number of bytes of records read so far.
    pub bytes: u64,
    /// Number of bytes of all records.
    pub of_bytes: u64,
}

/// Result of an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Number of correct blocks, without the genesis.
    pub blocks: u64,
    /// Number of requests in the correct blocks.
    pub transactions: u64,
    /// The snapshot that the ledger begins with; `None`: it begins with the genesis.
    pub base: Option<SnapshotBase>,
    /// Number of bytes of records read.
    pub bytes: u64,
    /// Number and hash of the last correct block.
    pub tip: (u64, Hash),
    /// Number of bytes after the last valid record, up to the last byte that is not zero; the next start of the node
    /// cuts these bytes off. They are a group of records that was never finished, or a last record that was changed, so
    /// the audit also reports them as a finding.
    pub unfinished_bytes: u64,
    /// The first error in the ledger, if there is one.
    pub finding: Option<Finding>,
}

/// The snapshot that a ledger begins with. The ledger does not contain the blocks before it, so the audit cannot check
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotBase {
    /// Number of the block whose state the snapshot contains.
    pub number: u64,
    /// Hash of that block.
    pub hash: Hash,
    /// True if a quorum of the genesis' admins has attested the block, and the ledger has their attestations: the
    /// audit has then verified them. False: an operator has vouched for the block.
    pub by_attestations: bool,
}

/// Position and description of an error in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the file.
    pub file: String,
    /// Offset in the file, in bytes, of the first byte that is known to be wrong, or of the wrong item.
    pub offset: u64,
    /// Number of the block, if the wrong item is a block.
    pub block: Option<u64>,
    /// Description of the error.
    pub what: String,
}

/// Audits a ledger that no process has open: reads every byte, verifies every signature, executes every request
/// again, and compares the results. Calls `progress` from time to time.
///
/// # Errors
/// I/O errors of the disk. An error in the ledger is not an `Err`: [`Audit::finding`] describes it.
pub fn audit<D: Disk>(
    disk: D,
    options: Options,
    mut progress: impl FnMut(Progress),
) -> Result<Audit, LedgerError> {
    let report = verify(&disk)?;
    let verifier = Verifier::new(VerifyOptions {
        low_s: true,
        ..options.verify.clone()
    });
    let verifier = verifier.unwrap_or_default();
    let reader = Reader::open_before_damage(disk, &report);
    let mut audit = Audit {
        blocks: 0,
        transactions: 0,
        base: None,
        bytes: 0,
        tip: (0, [0; 32]),
        unfinished_bytes: report.unfinished_bytes,
        finding: None,
    };
    let mut records = reader.records(1)?;
    let (mut chain, beginning) = match begin(&mut records, options.genesis.as_deref())? {
        Ok((chain, beginning, bytes)) => {
            audit.bytes = bytes;
            (chain, beginning)
        }
        Err(finding) => {
            // If the journal's own check found damage of the disk, its description is more precise.
            audit.finding = first_of(&report).or(Some(finding));
            return Ok(audit);
        }
    };
    audit.tip = (0, *chain.tip_hash());
    if let Some((0, hash)) = options.tip
        && hash != audit.tip.1
    {
        audit.finding = Some(Finding {
            file: file_name(1),
            offset: 0,
            block: Some(0),
            what: "the genesis does not have the hash that was given".into(),
        });
        return Ok(audit);
    }
    let membership = RwLock::new(Arc::new(chain.state().membership().clone()));
    let threads = options.threads.max(1);
    let result = std::thread::scope(|scope| {
        let (read, to_check) = bounded(threads * READ_AHEAD_RECORDS);
        let (checked, to_execute) = bounded(threads * READ_AHEAD_RECORDS);
        scope.spawn(move || read_all(records, &read));
        for _ in 0..threads {
            let (to_check, checked) = (to_check.clone(), checked.clone());
            let (verifier, membership, database) = (&verifier, &membership, *chain.database());
            scope.spawn(move || check_all(&to_check, &checked, &database, membership, verifier));
        }
        drop((to_check, checked));
        let work = AuditWork {
            chain: &mut chain,
            beginning,
            base: 0,
            hashes: vec![audit.tip.1],
            verifier: &verifier,
            membership: &membership,
            of_bytes: report.payload_bytes,
            tip: options.tip,
        };
        work.execute_all(to_execute, &mut audit, &mut progress)
    });
    let at_end = result?;
    // If the records end before the snapshot is complete, the journal's own check knows the reason best.
    audit.finding = audit.finding.or_else(|| first_of(&report)).or(at_end);
    let after_the_end = |what| Finding {
        file: report
            .segments
            .last()
            .map_or_else(String::new, |segment| segment.file.clone()),
        offset: report.segments.last().map_or(0, |segment| segment.used_bytes),
        block: Some(audit.tip.0 + 1),
        what,
    };
    if audit.finding.is_none() {
        audit.finding = match options.tip {
            Some((number, _)) if audit.tip.0 < number => Some(format!("the ledger ends before block {number}")),
            _ if audit.unfinished_bytes > 0 => Some(format!(
                "{} bytes after the last record are not a record: a group that a power cut left unfinished, or \
                 a record that was changed; the next start of the node cuts them off",
                audit.unfinished_bytes
            )),
            _ => None,
        }
        .map(after_the_end);
    }
    Ok(audit)
}

/// Returns the first finding of the journal.
fn first_of(report: &VerifyReport) -> Option<Finding> {
    let finding = report.findings.first()?;
    Some(Finding {
        file: finding.file.clone(),
        offset: finding.offset,
        block: None,
        what: finding.what.clone(),
    })
}

fn begin<D: Disk>(
    records: &mut Records<D>,
    expected_genesis: Option<&[u8]>,
) -> Result<Result<(Chain, Beginning, u64), Finding>, LedgerError> {
    let record = records.next()?;
    let Some(record) = record else {
        return Ok(Err(Finding {
            file: String::new(),
            offset: 0,
            block: Some(0),
            what: "the ledger has no genesis".into(),
        }));
    };
    let finding = |offset: usize, what: String| Finding {
        file: file_name(record.segment),
        offset: record.offset + RECORD_HEADER_BYTES + offset as u64,
        block: Some(0),
        what,
    };
    if record.kind != RECORD_GENESIS {
        return Ok(Err(finding(0, "the ledger does not begin with a genesis".into())));
    }
    if let Some(expected_genesis) = expected_genesis
        && let Some(offset) = first_difference(expected_genesis, record.payload)
    {
        return Ok(Err(finding(
            offset,
            "the genesis is not the one that was given".into(),
        )));
    }
    let chain = Chain::begin(record.payload);
    let begun = chain.and_then(|chain| Ok((chain, Beginning::new(record.payload)?)));
    match begun {
        Ok((chain, beginning)) => Ok(Ok((chain, beginning, record.payload.len() as u64))),
        Err(error) => Ok(Err(finding(0, error.to_string()))),
    }
}

/// A record as it was read from the journal, with its place in the file.
struct Raw {
    lsn: Lsn,
    kind: u8,
    payload: Vec<u8>,
    segment: Lsn,
    /// Offset of the payload in its file.
    offset: u64,
}

struct Item {
    raw: Result<Raw, LedgerError>,
    checked: Option<CheckedMessage>,
}

fn read_all<D: Disk>(mut records: Records<D>, to: &Sender<(u64, Result<Raw, LedgerError>)>) {
    for number in 0.. {
        let raw = match records.next() {
            Ok(None) => return,
            Ok(Some(record)) => Ok(Raw {
                lsn: record.lsn,
                kind: record.kind,
                payload: record.payload.to_vec(),
                segment: record.segment,
                offset: record.offset + RECORD_HEADER_BYTES,
            }),
            Err(error) => Err(error.into()),
        };
        let failed = raw.is_err();
        if to.send((number, raw)).is_err() || failed {
            return;
        }
    }
}

fn check_all(
    read: &Receiver<(u64, Result<Raw, LedgerError>)>,
    checked: &Sender<(u64, Item)>,
    database: &DatabaseId,
    membership: &RwLock<Arc<Membership>>,
    verifier: &Verifier,
) {
    while let Ok(first) = read.recv() {
        let some: Vec<_> = once(first)
            .chain(read.try_iter().take(HASHED_AT_ONCE - 1))
            .collect();
        let messages = some
            .iter()
            .map(|(_, raw)| raw.as_ref().map_or(&[][..], Raw::message));
        let hashes = transactions_hashes(messages);
        for ((number, raw), hash) in some.into_iter().zip(hashes) {
            let membership_now = membership.read().unwrap_or_else(PoisonError::into_inner).clone();
            let check_result = raw
                .as_ref()
                .ok()
                .and_then(|raw| raw.check(hash, database, &membership_now, verifier));
            let item = Item {
                raw,
                checked: check_result,
            };
            if checked.send((number, item)).is_err() {
                return;
            }
        }
    }
}

impl Raw {
    /// Returns the message of the block; empty if the record is not a block.
    fn message(&self) -> &[u8] {
        match self.item() {
            Ok(LedgerItem::Block(stored)) => stored.message,
            _ => &[],
        }
    }

    fn item(&self) -> Result<LedgerItem<'_>, LedgerError> {
        read_record(&lineside_journal::Record {
            lsn: self.lsn,
            kind: self.kind,
            payload: &self.payload,
            segment: self.segment,
            offset: self.offset,
        })
    }

    fn check(
        &self,
        hash: Hash,
        database: &DatabaseId,
        membership: &Membership,
        verifier: &Verifier,
    ) -> Option<CheckedMessage> {
        let Ok(LedgerItem::Block(stored)) = self.item() else {
            return None;
        };
        let message = Message::decode(stored.message).ok()?;
        Some(CheckedMessage::of(&message, hash, database, membership, verifier))
    }

    fn finding(&self, offset: usize, block: Option<u64>, what: impl Into<String>) -> Finding {
        Finding {
            file: file_name(self.segment),
            offset: self.offset + offset as u64,
            block,
            what: what.into(),
        }
    }
}

fn file_name(segment: Lsn) -> String {
    format!("{segment:020}.log")
}

struct AuditWork<'a> {
    chain: &'a mut Chain,
    beginning: Beginning,
    /// Number of the block that the ledger begins with, and the hashes of that block and all blocks after it.
    base: u64,
    hashes: Vec<Hash>,
    verifier: &'a Verifier,
    membership: &'a RwLock<Arc<Membership>>,
    of_bytes: u64,
    tip: Option<(u64, Hash)>,
}

impl AuditWork<'_> {
    /// Executes the items in the order of the ledger, although the checking threads deliver them in any order. Stops at
    /// the first wrong item. Returns a finding if the ledger ends before its snapshot and attestations are complete.
    fn execute_all(
        mut self,
        items: Receiver<(u64, Item)>,
        audit: &mut Audit,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Option<Finding>, LedgerError> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        let mut last = None;
        for (number, item) in items {
            early.insert(number, item);
            while let Some(item) = early.remove(&next) {
                next += 1;
                let raw = item.raw?;
                audit.bytes += raw.payload.len() as u64;
                if let Err(finding) = self.one(&raw, item.checked, audit) {
                    audit.finding = Some(finding);
                    return Ok(None);
                }
                progress(Progress {
                    blocks: audit.blocks,
                    bytes: audit.bytes,
                    of_bytes: self.of_bytes,
                });
                last = Some(raw);
            }
        }
        Ok(last.and_then(|raw| self.end_beginning(&raw, audit).err()))
    }

    /// Completes the part of the ledger before its first block: checks the snapshot and its attestations. Runs at the
    /// first block or at the end of the ledger, and does nothing in later calls.
    fn end_beginning(&mut self, raw: &Raw, audit: &mut Audit) -> Result<(), Finding> {
        let base = self.beginning.end(self.chain, self.verifier);
        let base = base.map_err(|what| raw.finding(0, None, what))?;
        audit.base = audit.base.or(base);
        Ok(())
    }

    fn snapshot(&mut self, raw: &Raw, piece: &[u8], audit: &mut Audit) -> Result<(), Finding> {
        let begun = self.beginning.snapshot(self.chain, piece);
        let begun = begun.map_err(|error| raw.finding(0, None, error.to_string()))?;
        let Some(chain) = begun else { return Ok(()) };
        let (number, hash) = (chain.tip().number, *chain.tip_hash());
        match self.tip {
            Some((tip, expected_hash)) if tip == number && expected_hash != hash => {
                return Err(raw.finding(
                    0,
                    None,
                    "the snapshot's block does not have the hash that was given",
                ));
            }
            // A known tip of block 0 was compared when the genesis was read.
            Some((tip, _)) if (1..number).contains(&tip) => {
                let what = format!(
                    "the ledger begins with a snapshot of block {number}, so it does not contain the given block {tip}"
                );
                return Err(raw.finding(0, None, what));
            }
            _ => {}
        }
        *self.membership.write().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(chain.state().membership().clone());
        *self.chain = chain;
        audit.tip = (number, hash);
        (self.base, self.hashes) = (number, vec![hash]);
        Ok(())
    }

    fn one(&mut self, raw: &Raw, checked: Option<CheckedMessage>, audit: &mut Audit) -> Result<(), Finding> {
        let number = self.chain.tip().number + 1;
        let record = raw
            .item()
            .map_err(|error| raw.finding(0, Some(number), error.to_string()))?;
        let stored = match record {
            LedgerItem::Block(stored) => {
                self.end_beginning(raw, audit)?;
                stored
            }
            LedgerItem::Snapshot(piece) => return self.snapshot(raw, piece, audit),
            LedgerItem::Attestation(attestation) => {
                let accepted = self.beginning.attestation(attestation);
                return accepted.map_err(|what| raw.finding(0, None, what));
            }
            LedgerItem::Head(head) => {
                let key = self.chain.state().membership().any_node(head.node);
                let signed =
                    key.is_some_and(|key| head.is_signed_by(self.chain.database(), key, self.verifier));
                if !signed {
                    return Err(raw.finding(
                        0,
                        None,
                        "the signature of a signed head is not by the head's node",
                    ));
                }
                let own = head
                    .number
                    .checked_sub(self.base)
                    .and_then(|place| self.hashes.get(place as usize));
                return match own {
                    Some(own) if *own != head.hash => {
                        let what = format!(
                            "node {} has signed another hash for block {}",
                            head.node, head.number
                        );
                        Err(raw.finding(0, None, what))
                    }
                    None if head.number >= self.base => {
                        let what = format!(
                            "node {} has signed block {}, which is not in the ledger",
                            head.node, head.number
                        );
                        Err(raw.finding(0, None, what))
                    }
                    _ => Ok(()),
                };
            }
        };
        let message = Message::decode(stored.message).map_err(|error| {
            raw.finding(
                stored.message_offset(),
                Some(number),
                format!("the block's message: {error}"),
            )
        })?;
        let Some(mut checked) = checked else {
            return Err(raw.finding(0, Some(number), "the block's message is malformed"));
        };
        let membership = self.chain.state().membership();
        checked.complete(&message, self.chain.database(), membership, self.verifier);
        if checked.by_node != Some(true) {
            return Err(self.in_message(raw, &stored, &message, &checked));
        }
        let position = stored.header.position;
        let executed = self
            .chain
            .execute(position, &message, &checked.signatures, &checked.digests)
            .map_err(|skipped| {
                raw.finding(
                    stored.message_offset(),
                    Some(number),
                    format!("the block's message should have been skipped: {skipped}"),
                )
            })?;
        compare(raw, &stored, &executed)?;
        if self
            .tip
            .is_some_and(|(tip, hash)| tip == number && hash != executed.hash)
        {
            return Err(raw.finding(0, Some(number), "this block's hash is not the one that was given"));
        }
        if let Some(changed) = executed.membership {
            *self.membership.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(changed);
        }
        audit.blocks += 1;
        audit.transactions += u64::from(executed.header.transactions);
        audit.tip = (executed.header.number, executed.hash);
        self.hashes.push(executed.hash);
        Ok(())
    }

    /// Returns the finding for a message that the node has not signed. It names the first request whose signature check
    /// differs from the stored code, or, if there is none, the part of the message before the requests.
    fn in_message(
        &self,
        raw: &Raw,
        stored: &StoredBlock<'_>,
        message: &Message<'_>,
        checked: &CheckedMessage,
    ) -> Finding {
        use lineside_wire::HybridCode as Code;
        let number = stored.header.number;
        for ((request, signed), code) in message
            .requests()
            .iter()
            .zip(&checked.signatures)
            .zip(stored.codes)
        {
            let said_bad = [
                Code::BadSignature,
                Code::HighS,
                Code::Malformed,
                Code::UnknownMember,
                Code::WrongMode,
            ]
            .iter()
            .any(|bad| *bad as u8 == *code);
            if *signed != SignatureCheck::Valid && !said_bad {
                let offset = request.as_ptr() as usize - raw.payload.as_ptr() as usize;
                return raw.finding(
                    offset,
                    Some(number),
                    "the member that a request names has not signed the request",
                );
            }
        }
        let what = format!("the message is not signed by node {}", message.node);
        raw.finding(stored.message_offset(), Some(number), what)
    }
}
