//! Coming back: the newest snapshot, then the journal behind it, each entry executed again and compared with what it
//! was answered.

use super::{Counts, Host, SealPolicy, SessionPolicy, Sessions};
use crate::entry::Entry;
use crate::ledger::{Ledger, Limits, SessionAnswer};
use crate::settlement::{self, BLOCK_BYTES, Block, Sealer};
use crate::store::{Mode, Store};
use crate::writer::TransferFill;
use k256::ecdsa::SigningKey;
use lineside_journal::{Disk, Error as JournalError, Journal, Lsn, Options, Recovery};
use lineside_wire::TransferCode as Code;
use std::io::{Read, Write};
use std::sync::Arc;

/// Why a data directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The journal itself.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An entry is not what executing it again gives.
    #[error("record {lsn} is not what replaying it gives: {what}")]
    Replay {
        /// The record.
        lsn: Lsn,
        /// What is wrong.
        what: String,
    },
    /// The data directory is of the other mode.
    #[error("this data directory is `{}`; the mode of one is never changed", name(*.0))]
    OtherMode(Mode),
    /// What the system says of a snapshot.
    #[error("reading a snapshot: {0}")]
    Snapshot(#[from] std::io::Error),
}

const fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Durable => "durable",
        Mode::Express => "express",
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// What the journal did.
    pub recovery: Recovery,
    /// The record that the snapshot covers; 0: there was none.
    pub snapshot: Lsn,
    /// Records replayed behind it.
    pub replayed: u64,
    /// Operations replayed behind it.
    pub operations: u64,
}

/// A ledger being brought back.
struct Replay {
    ledger: Ledger,
    sealer: Sealer,
    mode: Option<Mode>,
}

impl Replay {
    fn new(key: SigningKey) -> Self {
        let none = Limits {
            accounts: 0,
            sessions: 0,
        };
        Self {
            ledger: Ledger::new(none),
            sealer: Sealer::new(key),
            mode: None,
        }
    }

    /// Executes an entry again.
    fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        match entry {
            Entry::Limits { limits, mode } => {
                if self.mode.is_some_and(|own| own != *mode) {
                    return Err("the mode changes".into());
                }
                self.mode = Some(*mode);
                self.ledger.set_limits(*limits);
            }
            Entry::Paper { request, answer } => {
                if self.ledger.paper_answer(request).is_some() {
                    return Err("its transaction id was used before".into());
                }
                let again = self.ledger.paper(request);
                if again != (*answer, true) {
                    return Err(format!("it was answered {answer:?}, and now {again:?}"));
                }
                let leaf = settlement::paper_leaf(request, answer, self.ledger.number());
                self.sealer.push(&leaf);
            }
            Entry::Execute {
                slot,
                sequence,
                now_s,
                operations,
                outcomes,
            } => {
                let token = self.ledger.session(*slot).map_or(0, |session| session.token);
                match self.ledger.session_answer(*slot, token, *sequence, operations) {
                    None => {}
                    Some(SessionAnswer::NoSession) => return Err("its session is not open".into()),
                    Some(_) => return Err("it is not the next of its session".into()),
                }
                // Who was allowed to do it is known only by the answer.
                let permitted = |index: usize| match outcomes[index].code {
                    Code::Unauthorised => Err(Code::Unauthorised),
                    _ => Ok(()),
                };
                let again = self
                    .ledger
                    .execute(*slot, *sequence, operations, permitted, *now_s);
                if again != *outcomes {
                    return Err(format!("it was answered {outcomes:?}, and now {again:?}"));
                }
                for (operation, outcome) in operations.iter().zip(outcomes) {
                    self.sealer.push(&settlement::leaf(operation, outcome));
                }
            }
            Entry::Open { slot, token, opener } => {
                if self.ledger.session(*slot).is_some() || *token == 0 {
                    return Err("its slot is taken".into());
                }
                self.ledger.open(*slot, *token, *opener);
            }
            Entry::Close { slot } => self.ledger.close(*slot),
            Entry::Expire(id) => {
                if !self.ledger.expire(id) {
                    return Err("there is no such pending transfer".into());
                }
            }
            Entry::Block(block) => {
                let accounts = self.ledger.account_count() as u64;
                if let Some(fault) = self.sealer.fault(block, self.ledger.issued(), accounts) {
                    return Err(format!("block {}: {fault}", block.number));
                }
                self.sealer.passed(block);
            }
        }
        Ok(())
    }

    /// Executes the journal's records from `from` on; returns how many.
    fn run<D: Disk>(&mut self, journal: &Journal<D>, from: Lsn) -> Result<u64, OpenError> {
        let mut records = journal.records(from)?;
        let mut replayed = 0;
        while let Some(record) = records.next()? {
            let wrong = |what: String| OpenError::Replay {
                lsn: record.lsn,
                what,
            };
            let entry = Entry::from_record(record.kind, record.payload)
                .ok_or_else(|| wrong(format!("no entry of kind {}", record.kind)))?;
            self.entry(&entry).map_err(wrong)?;
            // Near is filled from the whole ledger, not from what led to it.
            self.ledger.take_changes();
            replayed += 1;
        }
        Ok(replayed)
    }
}

impl<D: Disk> Host<D> {
    /// Opens the journal on `disk`, or makes one with a random `journal_id`, and fills near from it. `store` is empty
    /// and formatted; `fill` writes to it.
    ///
    /// # Errors
    /// Why it cannot be served.
    #[expect(clippy::too_many_arguments, reason = "everything a host stands on, once")]
    pub fn open(
        disk: D,
        mut random: Box<dyn FnMut() -> u64 + Send>,
        options: Options,
        limits: Limits,
        key: SigningKey,
        seal: SealPolicy,
        sessions: SessionPolicy,
        store: Arc<Store>,
        mut fill: Box<dyn TransferFill>,
    ) -> Result<(Self, Opened), OpenError> {
        let (mut journal, recovery) = Journal::open_or_create(disk, random(), options)?;
        let mut replay = Replay::new(key);
        let snapshot = restore(&journal, &mut replay)?;
        let before = replay.ledger.number();
        let replayed = replay.run(&journal, snapshot + 1)?;
        let mode = Mode::Durable;
        match replay.mode {
            Some(own) if own != mode => return Err(OpenError::OtherMode(own)),
            Some(_) if replay.ledger.limits() == limits => {}
            _ => {
                let entry = Entry::Limits { limits, mode };
                journal.append(entry.kind(), &entry.to_bytes())?;
                journal.commit()?;
                replay.ledger.set_limits(limits);
            }
        }
        let homeless = fill.apply(&replay.ledger.all_as_changes()) as u64;
        let opened = Opened {
            recovery,
            snapshot,
            replayed,
            operations: replay.ledger.number() - before,
        };
        let host = Self {
            journal,
            ledger: replay.ledger,
            store,
            fill,
            sealer: replay.sealer,
            seal,
            filling_since_s: 0,
            sessions: Sessions::new(sessions, random),
            is_dirty: false,
            failed: None,
            counts: Counts {
                homeless,
                ..Counts::default()
            },
        };
        Ok((host, opened))
    }

    /// Writes a snapshot of what is on the disk, so that the next start replays only what follows.
    ///
    /// # Errors
    /// What the disk says; the journal goes on all the same. `Poisoned` once writing has ended: what is in memory is
    /// then ahead of the record that the snapshot would stand for.
    pub fn snapshot(&mut self) -> Result<(), JournalError> {
        if let Some(cause) = &self.failed {
            let cause = cause.as_str().into();
            return Err(JournalError::Poisoned { cause });
        }
        let lsn = self.journal.durable_lsn();
        let (last, waiting) = self.sealer.to_parts();
        let ledger = self.ledger.to_bytes();
        self.journal.write_snapshot(lsn, |out| {
            out.write_all(&last.map_or([0; BLOCK_BYTES], |block| block.to_bytes()))?;
            out.write_all(&(waiting.len() as u64).to_le_bytes())?;
            for hash in waiting {
                out.write_all(hash)?;
            }
            out.write_all(&ledger)
        })
    }
}

/// Brings the newest snapshot back; returns the record that it covers.
fn restore<D: Disk>(journal: &Journal<D>, replay: &mut Replay) -> Result<Lsn, OpenError> {
    let Some(mut snapshot) = journal.latest_snapshot()?.snapshot else {
        return Ok(0);
    };
    let lsn = snapshot.lsn;
    let wrong = |what: &str| OpenError::Replay {
        lsn,
        what: format!("the snapshot behind it {what}"),
    };
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
    replay.ledger = Ledger::from_bytes(&bytes).ok_or_else(|| wrong("holds no ledger"))?;
    replay.sealer.restore(block, waiting);
    replay.mode = Some(Mode::Durable);
    Ok(lsn)
}

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Records replayed, from the first one on.
    pub records: u64,
    /// Operations among them.
    pub operations: u64,
    /// Blocks, each with its root, its chain and its signature checked.
    pub blocks: u64,
    /// Accounts.
    pub accounts: u64,
    /// Everything issued.
    pub issued: u128,
    /// What all accounts hold.
    pub held: u128,
    /// Set aside by pending transfers: out of accounts, and for accounts.
    pub pending: (u128, u128),
}

/// Executes the whole journal again, from its first record, and checks every answer, every block and every sum.
///
/// # Errors
/// The first record that is not what it should be; a journal that was pruned cannot be audited.
pub fn audit<D: Disk>(journal: &Journal<D>, key: SigningKey) -> Result<Audit, OpenError> {
    let mut replay = Replay::new(key);
    let first = journal.first_lsn();
    if first > 1 {
        return Err(OpenError::Replay {
            lsn: 1,
            what: "it was pruned".into(),
        });
    }
    let records = replay.run(journal, 1)?;
    let ledger = &replay.ledger;
    let sum = |part: fn(&crate::rules::Holding) -> u64| {
        ledger
            .accounts()
            .map(|(_, account)| u128::from(part(&account.holding)))
            .sum()
    };
    let audit = Audit {
        records,
        operations: ledger.number(),
        blocks: replay.sealer.blocks(),
        accounts: ledger.account_count() as u64,
        issued: ledger.issued(),
        held: ledger.held(),
        pending: (sum(|holding| holding.held_out), sum(|holding| holding.held_in)),
    };
    let last = records;
    let wrong = |what: &str| OpenError::Replay {
        lsn: last,
        what: what.into(),
    };
    if audit.issued != audit.held {
        return Err(wrong("after it, what was issued is not what is held"));
    }
    if audit.pending.0 != audit.pending.1 || audit.pending.0 != ledger.pending_sum() {
        return Err(wrong("after it, what is set aside is not what is pending"));
    }
    Ok(audit)
}
