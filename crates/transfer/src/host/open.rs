//! Opening a ledger: restores the newest snapshot, then replays the journal after it. Each entry is executed again,
//! and the result is compared with the recorded reply.

use super::archive;
use super::commits::Commits;
use super::express::Express;
use super::limiter::Budgets;
use super::replay::Replay;
use super::retain::put_leaves;
use super::{Counts, Host, SealPolicy, SessionPolicy, Sessions};
use crate::claims::Claims;
use crate::entry::Entry;
use crate::ledger::{Ledger, Limits};
use crate::settlement::{BLOCK_BYTES, Block, Chain, Proof};
use crate::store::{Mode, Store};
use crate::writer::{TransferFill, show_ledger};
use k256::ecdsa::{SigningKey, VerifyingKey};
use lineside_fastpath::{Readers, lease};
use lineside_journal::{
    Disk, Error as JournalError, Journal, Lsn, Options, Reader, Recovery, Snapshot, Snapshots, dump,
    dump_over_gaps, first_unbroken,
};
use lineside_messages::transfer::KeyId;
use std::io::{Read, Write};
use std::sync::Arc;

/// Reason why a data directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The journal reported an error.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Executing an entry again gives another result.
    #[error(
        "record {lsn} of the journal does not match its replay: {what}; restore the directory from a copy"
    )]
    Replay {
        /// Number of the record.
        lsn: Lsn,
        /// Description of the difference.
        what: String,
    },
    /// The data directory has the other mode.
    #[error(
        "this data directory has mode `{}`, which cannot be changed; give this mode, or another directory",
        name(*.0)
    )]
    OtherMode(Mode),
    /// The records of a fast path that was ahead of its host do not match the journal.
    #[error("the operations that the fast path executed cannot be added to the journal: {0}")]
    Ahead(String),
    /// Error of the system.
    #[error("replaying the journal: {0}")]
    System(#[from] std::io::Error),
}

const fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Durable => "durable",
        Mode::Express => "express",
    }
}

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Maximum size of the ledger.
    pub limits: Limits,
    /// Conditions for sealing a block.
    pub seal: SealPolicy,
    /// Limits on sessions.
    pub sessions: SessionPolicy,
    /// Keys that may sign CREATE, ISSUE, FREEZE and UNFREEZE from any address.
    pub issuer_keys: Vec<KeyId>,
    /// Maximum memory for precomputed tables for the public keys that sign packets, in bytes.
    pub key_table_bytes: usize,
    /// The fast path that executes operations; `None`: mode `durable`.
    pub express: Option<Executing>,
}

/// Fast path that executes operations. Only the host renews its lease.
#[derive(Clone, Debug)]
pub struct Executing {
    /// Threads of the fast path, and whether XDP programs are among them.
    pub readers: Readers,
    /// Length of the lease in nanoseconds.
    pub lease_ns: u64,
    /// Claims, by which the host takes accounts and sessions from the fast path while it runs.
    pub claims: Arc<dyn Claims + Send + Sync>,
}

const fn mode_of(is_express: bool) -> Mode {
    if is_express { Mode::Express } else { Mode::Durable }
}

/// Result of opening a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedLedger {
    /// Result of the journal's recovery.
    pub recovery: Recovery,
    /// Last record that the snapshot includes; 0 if there was no snapshot.
    pub snapshot: Lsn,
    /// Number of records replayed after it.
    pub replayed: u64,
    /// Number of operations replayed after it.
    pub operations: u64,
}

impl<D: Disk> Host<D> {
    /// Opens the journal on `disk`, or creates one with a random id, and fills the fast-path table from it. `store` is
    /// formatted, and `fill` writes to it. In `durable` the table is empty; in `express` the records in its rings are
    /// applied first.
    ///
    /// # Errors
    /// Returns the reason why this ledger cannot be served.
    pub fn open(
        disk: D,
        options: Options,
        setup: Setup,
        key: SigningKey,
        mut random: Box<dyn FnMut() -> u64 + Send>,
        store: Arc<Store>,
        fill: Box<dyn TransferFill>,
    ) -> Result<(Self, OpenedLedger), OpenError> {
        let Setup {
            limits,
            seal,
            sessions,
            issuer_keys,
            key_table_bytes,
            express,
        } = setup;
        let (mut journal, recovery) = Journal::open_or_create(disk, random(), options)?;
        let newest = journal.latest_snapshot()?.snapshot;
        let (snapshot, mut replay) = restore(newest, *key.verifying_key())?;
        let before = replay.ledger.number();
        let (replayed, so_far) = match replay.run(&journal, snapshot + 1) {
            Ok(replayed) => (replayed, Ok(())),
            Err(fault) => (0, Err(fault)),
        };
        let (mut ledger, own, chain) = replay.finish(so_far)?;
        let mode = mode_of(express.is_some());
        match own {
            Some(own) if own != mode => return Err(OpenError::OtherMode(own)),
            Some(_) if ledger.limits() == limits => {}
            _ => {
                let entry = Entry::Limits { limits, mode };
                journal.append(entry.kind(), &entry.to_bytes())?;
                journal.commit()?;
                ledger.set_limits(limits);
            }
        }
        // If the fast path was ahead of a host that was killed, it may still be answering requests.
        if let Some(executing) = &express {
            lease::end(&store.control().lease_until_ns);
            executing.readers.wait();
            store.free();
        }
        let express = express.map(|executing| Express::new(&store, executing, sessions.refusals_per_s));
        let opened = OpenedLedger {
            recovery,
            snapshot,
            replayed,
            operations: ledger.number() - before,
        };
        let mut host = Self {
            journal,
            commits: Commits::default(),
            ledger,
            store,
            fill,
            chain,
            key,
            seal,
            filling_since_s: 0,
            budgets: Budgets::new(sessions.refusals_per_s),
            sessions: Sessions::new(sessions, random),
            express,
            issuer_keys,
            checker: None,
            key_table_bytes,
            record_bytes_max: options.record_bytes_max as usize,
            is_dirty: false,
            failed: None,
            missing_space: None,
            written_bytes: 0,
            counts: Counts::default(),
        };
        host.drain();
        if let Some(what) = &host.failed {
            return Err(OpenError::Ahead(what.clone()));
        }
        if host.express.is_some() && host.unjournaled() > 0 {
            let waiting = host.unjournaled();
            let what = format!("{waiting} operations: the disk is full, or earlier operations are missing");
            return Err(OpenError::Ahead(what));
        }
        host.ledger.nothing_is_missing(None);
        host.counts.homeless += show_ledger(&host.ledger, &host.store, host.fill.as_mut()) as u64;
        Ok((host, opened))
    }

    /// Writes a snapshot of the durable state, so that the next start replays only the records after it.
    ///
    /// # Errors
    /// Errors of the disk; the journal continues. `Poisoned` once writing has ended: the state in memory is then ahead
    /// of the snapshot's record.
    pub fn snapshot(&mut self) -> Result<(), JournalError> {
        self.settle();
        if let Some(cause) = &self.failed {
            let cause = cause.as_str().into();
            return Err(JournalError::Poisoned { cause });
        }
        let lsn = self.journal.durable_lsn();
        let (last, waiting) = self.chain.to_parts();
        let ledger = self.ledger.to_bytes();
        let mode = mode_of(self.express.is_some());
        self.journal.write_snapshot(lsn, |out| {
            out.write_all(&mode.durability().to_le_bytes())?;
            out.write_all(&last.map_or([0; BLOCK_BYTES], |block| block.to_bytes()))?;
            out.write_all(&(waiting.len() as u64).to_le_bytes())?;
            for hash in waiting {
                out.write_all(hash)?;
            }
            out.write_all(&ledger)
        })
    }
}

/// Returns a replay that starts from a snapshot, and the snapshot's record.
fn restore<D: Disk>(snapshot: Option<Snapshot<D>>, key: VerifyingKey) -> Result<(Lsn, Replay), OpenError> {
    let Some(mut snapshot) = snapshot else {
        return Ok((0, from_nothing(key)?));
    };
    let lsn = snapshot.lsn;
    let wrong = |what: &str| OpenError::Replay {
        lsn,
        what: format!("the snapshot after it {what}"),
    };
    let mut mode = [0; 2];
    snapshot.read_exact(&mut mode)?;
    let mode = Mode::from_durability(u16::from_le_bytes(mode)).ok_or_else(|| wrong("has no mode"))?;
    let mut block = [0; BLOCK_BYTES];
    snapshot.read_exact(&mut block)?;
    let block = Block::from_bytes(&block).filter(|block| block.number != 0);
    let mut count = [0; 8];
    snapshot.read_exact(&mut count)?;
    let mut waiting = Vec::new();
    for _ in 0..u64::from_le_bytes(count) {
        let mut hash = [0; 32];
        snapshot.read_exact(&mut hash)?;
        waiting.push(hash);
    }
    let mut bytes = Vec::new();
    snapshot.read_to_end(&mut bytes)?;
    let ledger = Ledger::from_bytes(&bytes).ok_or_else(|| wrong("does not contain a valid ledger"))?;
    let mut chain = Chain::new(key);
    chain.restore(block, waiting);
    Ok((lsn, Replay::new(ledger, Some(mode), chain)?))
}

/// Returns a replay that starts with the first record.
fn from_nothing(key: VerifyingKey) -> Result<Replay, OpenError> {
    let none = Limits {
        accounts: 0,
        sessions: 0,
        pendings: 0,
        keys: 0,
        key_window_s: 0,
    };
    Ok(Replay::new(Ledger::new(none), None, Chain::new(key))?)
}

/// Result of [`audit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Record of the snapshot that it began with; 0 if it began with the first record.
    pub from: Lsn,
    /// Number of the last record.
    pub records: u64,
    /// Number of executed operations.
    pub operations: u64,
    /// Number of signed packets; each signature was verified.
    pub signed: u64,
    /// Number of blocks; the root, the chain and the signature of each were verified.
    pub blocks: u64,
    /// Number of accounts.
    pub accounts: u64,
    /// Sum of all issued amounts.
    pub issued: u128,
    /// Sum of all balances.
    pub balances: u128,
    /// Two sums that pending transfers reserve: in their source accounts, and in their destination accounts.
    pub pending: (u128, u128),
}

/// Executes the whole journal again from its first record, and verifies every reply, block and sum. If the journal was
/// pruned, or records are lost up to a point, begins with the oldest snapshot after that point. Only reads: the
/// records that a running server has written so far can be audited.
///
/// # Errors
/// Returns the first record that is wrong, with the reason.
pub fn audit<D: Disk>(disk: &D, key: VerifyingKey) -> Result<Audit, OpenError> {
    let oldest = match first_unbroken(disk)? {
        0 | 1 => None,
        first => Snapshots::look(disk.clone())?.oldest_from(first - 1)?,
    };
    let (from, replay) = restore(oldest, key)?;
    let mut replay = replay.checking_signatures();
    let (mut records, mut failed) = (from, None);
    let read = dump(disk, from + 1, |record| {
        if failed.is_none() {
            failed = match record.lsn == records + 1 {
                true => replay.record(&record).err(),
                false => Some(OpenError::Replay {
                    lsn: records + 1,
                    what: "it was pruned, and no intact snapshot replaces it".into(),
                }),
            };
            records = record.lsn;
        }
    });
    let signed = replay.signed;
    let (ledger, _, chain) = replay.finish(failed.map_or(Ok(()), Err))?;
    read?;
    let sum = |part: fn(&crate::rules::Holding) -> u64| {
        ledger
            .accounts()
            .map(|(_, account)| u128::from(part(&account.holding)))
            .sum()
    };
    let audit = Audit {
        from,
        records,
        operations: ledger.number(),
        signed,
        blocks: chain.blocks(),
        accounts: ledger.account_count() as u64,
        issued: ledger.issued(),
        balances: ledger.sum_of_balances(),
        pending: (sum(|holding| holding.held_out), sum(|holding| holding.held_in)),
    };
    let last = records;
    let wrong = |what: &str| OpenError::Replay {
        lsn: last,
        what: what.into(),
    };
    if audit.issued != audit.balances {
        return Err(wrong(
            "after it, the issued amount differs from the sum of all balances",
        ));
    }
    if audit.pending.0 != audit.pending.1 || audit.pending.0 != ledger.pending_sum() {
        return Err(wrong(
            "after it, the reserved amounts differ from the pending transfers",
        ));
    }
    Ok(audit)
}

/// Returns the state of a ledger from its newest snapshot and the journal after it. Only reads; a server may use the
/// ledger meanwhile.
///
/// # Errors
/// Returns the first record that is wrong, with the reason.
pub fn open_read_only<D: Disk>(disk: &D, key: VerifyingKey) -> Result<Ledger, OpenError> {
    let newest = Snapshots::look(disk.clone())?.latest()?.snapshot;
    let (from, mut replay) = restore(newest, key)?;
    let mut failed = None;
    let read = dump(disk, from + 1, |record| {
        if failed.is_none() {
            failed = replay.record(&record).err();
        }
    });
    let (ledger, ..) = replay.finish(failed.map_or(Ok(()), Err))?;
    read?;
    Ok(ledger)
}

/// Returns the mode of a ledger; `None` if its journal is empty. Reads only the newest snapshot, or else the first
/// record. A server may use the ledger meanwhile.
///
/// # Errors
/// Error of the journal, for example if there is none.
pub fn mode_of_ledger<D: Disk>(disk: &D) -> Result<Option<Mode>, OpenError> {
    if let Some(mut snapshot) = Snapshots::look(disk.clone())?.latest()?.snapshot {
        let mut mode = [0; 2];
        snapshot.read_exact(&mut mode)?;
        return Ok(Mode::from_durability(u16::from_le_bytes(mode)));
    }
    let mut records = Reader::open(disk.clone())?.records(1)?;
    let first = records.next()?;
    let entry = first.and_then(|record| Entry::from_record(record.kind, record.payload));
    Ok(match entry {
        Some(Entry::Limits { mode, .. }) => Some(mode),
        _ => None,
    })
}

/// Closes sessions of a ledger that no server uses, as its host would.
///
/// # Errors
/// Error of the journal.
pub fn close_sessions<D: Disk>(disk: D, options: Options, slots: &[u32]) -> Result<(), OpenError> {
    let (mut journal, _) = Journal::open(disk, options)?;
    for slot in slots {
        let entry = Entry::Close { slot: *slot };
        journal.append(entry.kind(), &entry.to_bytes())?;
    }
    journal.commit()?;
    Ok(())
}

/// Returns the number of the first record of a journal that this process has not opened; 0 if there is none.
fn first_lsn<D: Disk>(disk: &D) -> Result<Lsn, OpenError> {
    let names = disk.list()?;
    let first = names.iter().find_map(|name| name.strip_suffix(".log"));
    Ok(first.and_then(|digits| digits.parse().ok()).unwrap_or(0))
}

/// Returns the proof that operation `number` is in a block, from the journal or from the archive next to it; `None` if
/// no sealed block contains the operation.
///
/// # Errors
/// Errors of journal or archive.
pub fn prove<D: Disk>(disk: &D, number: u64) -> Result<Option<Proof>, OpenError> {
    if let Some(proof) = archive::prove(disk, number)? {
        return Ok(Some(proof));
    }
    let (mut leaves, mut next, mut proof, mut wrong) = (Vec::new(), 1, None, None);
    // In a pruned journal, operations before the first block belong to that block, which is in the archive.
    let mut is_within = first_lsn(disk)? > 1;
    let mut expected = None;
    dump_over_gaps(disk, 1, |record| {
        if proof.is_some() || wrong.is_some() {
            return;
        }
        // A block with lost records cannot be proved: the number of this record is not the expected one.
        is_within |= expected.is_some_and(|expected| expected != record.lsn);
        expected = Some(record.lsn + 1);
        match Entry::from_record(record.kind, record.payload) {
            Some(Entry::Block(block)) => {
                if std::mem::take(&mut is_within) {
                    leaves.clear();
                    next = block.first + block.count;
                    return;
                }
                if let Some(index) = number
                    .checked_sub(block.first)
                    .filter(|index| *index < block.count)
                {
                    proof = Proof::new(&block, &leaves, index);
                    let what = "the block does not match the operations before it".to_owned();
                    wrong = proof.is_none().then_some(OpenError::Replay {
                        lsn: record.lsn,
                        what,
                    });
                }
                leaves.clear();
            }
            Some(entry) => put_leaves(&entry, &mut next, &mut leaves),
            None => {
                let what = format!("an entry of kind {} is unknown or malformed", record.kind);
                wrong = Some(OpenError::Replay {
                    lsn: record.lsn,
                    what,
                });
            }
        }
    })?;
    match wrong {
        Some(wrong) => Err(wrong),
        None => Ok(proof),
    }
}
