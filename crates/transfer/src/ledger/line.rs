//! Applies the operations that the fast path executed to the ledger, in the order of the accounts' versions.

use super::Ledger;
use crate::native::Outcome;
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::ring::{NO_SESSION, Record};
use crate::rules::PAPER_LIMIT;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_TRANSFER,
    TransferCode as Code,
};

/// Result of applying a record of the fast path to the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordResult {
    /// The record is in the ledger.
    Done,
    /// The record has to wait: a record before it is still in another ring.
    Waits,
    /// The record was applied before.
    Seen,
}

/// Compares the version or position `told` in a record with the current one.
fn order(at: u64, told: u64) -> RecordResult {
    match told.cmp(&(at + 1)) {
        std::cmp::Ordering::Less => RecordResult::Seen,
        std::cmp::Ordering::Equal => RecordResult::Done,
        std::cmp::Ordering::Greater => RecordResult::Waits,
    }
}

impl Ledger {
    /// Applies one record. An executed operation is executed again and must have the same result; a refusal is only
    /// recorded.
    ///
    /// # Errors
    /// Description of the difference, if the fast path and the ledger disagree.
    pub fn line(&mut self, record: &Record) -> Result<RecordResult, String> {
        match self.order_of(record) {
            RecordResult::Done => {}
            other => return Ok(other),
        }
        let code = Code::from_code(record.code).ok_or("the record has an unknown code")?;
        self.step += 1;
        let outcome = match code {
            Code::Done => Ok(self.replay(record)?),
            code => Err(code),
        };
        self.number += u64::from(outcome.is_ok());
        if record.slot == NO_SESSION {
            self.keep_paper(record, outcome)?;
        } else {
            self.keep_packet(record, outcome);
        }
        let has_version = |id, told| {
            told == 0
                || self
                    .accounts
                    .get(id)
                    .is_some_and(|account| account.version == told)
        };
        if has_version(&record.source, record.source_version)
            && has_version(&record.destination, record.destination_version)
        {
            Ok(RecordResult::Done)
        } else {
            Err("the ledger has other versions of the accounts than the fast path".into())
        }
    }

    /// Marks the last packet of this session, or of all sessions, as complete: its missing operations were lost with
    /// the fast path.
    pub fn nothing_is_missing(&mut self, slot: Option<u32>) {
        let all = 0..self.sessions.slots().len() as u32;
        for slot in slot.map_or(all, |slot| slot..slot + 1) {
            if let Some(session) = self.sessions.get_mut(slot) {
                session.missing = 0;
            }
        }
    }

    /// Returns whether the record is the next one to apply.
    fn order_of(&self, record: &Record) -> RecordResult {
        let version = |id| self.accounts.get(id).map_or(0, |account| account.version);
        let mut orders = vec![];
        if record.source_version != 0 {
            orders.push(order(version(&record.source), record.source_version));
        }
        if record.destination_version != 0 {
            orders.push(order(version(&record.destination), record.destination_version));
        }
        if record.slot != NO_SESSION {
            let Some(session) = self.session(record.slot) else {
                return RecordResult::Seen;
            };
            // Position in the session, counted as if every packet had the maximum number of operations.
            let most = u64::from(u16::MAX);
            let at = session.sequence * most + session.outcomes.len() as u64;
            // The previous packet may be in another ring and wait there for an account; this packet must wait for it.
            let is_next = record.index == 0 && record.sequence == session.sequence + 1;
            let first = is_next && session.missing == 0;
            let position = record.sequence * most + u64::from(record.index) + 1;
            orders.push(if first {
                RecordResult::Done
            } else {
                order(at, position)
            });
        }
        [RecordResult::Seen, RecordResult::Waits]
            .into_iter()
            .find(|turn| orders.contains(turn))
            .unwrap_or(RecordResult::Done)
    }

    /// Executes an operation of the fast path again.
    fn replay(&mut self, record: &Record) -> Result<u64, String> {
        let limit = if record.slot == NO_SESSION {
            PAPER_LIMIT
        } else {
            u64::MAX
        };
        let (source, amount) = (&record.source, record.amount);
        let done = match record.command {
            TRANSFER_COMMAND_CREATE => {
                let owner = if record.slot == NO_SESSION {
                    [0; 16]
                } else {
                    record.destination.0
                };
                self.make(source, amount, owner, limit)
            }
            TRANSFER_COMMAND_ISSUE => self.issue(source, amount, limit),
            TRANSFER_COMMAND_TRANSFER => self.plain(source, &record.destination, amount, limit),
            command => self
                .accounts
                .get(source)
                .copied()
                .ok_or(Code::UnknownAccount)
                .map(|mut account| {
                    account.holding.frozen = command == TRANSFER_COMMAND_FREEZE;
                    self.change(source, account)
                }),
        };
        match done {
            Ok(balance) if balance == record.source_balance => Ok(balance),
            Ok(balance) => Err(format!(
                "the balance is {} in the fast path, but {balance} in the ledger",
                record.source_balance
            )),
            Err(code) => Err(format!(
                "the fast path executed an operation that the ledger refuses: {}",
                code.meaning()
            )),
        }
    }

    fn keep_paper(&mut self, record: &Record, outcome: Result<u64, Code>) -> Result<(), String> {
        let Ok(id) = u32::try_from(record.sequence) else {
            return Err("the transaction id has more than 32 bits".into());
        };
        if id == 0 {
            return Ok(());
        }
        let low = |account: &crate::AccountId| u128::from_be_bytes(account.0) as u32;
        let (source, destination) = (low(&record.source), low(&record.destination));
        let request = PaperRequest::new(record.command, id, source, destination, record.amount as u32);
        let mut account = *self
            .accounts
            .get(&record.source)
            .ok_or("the source account does not exist")?;
        account.last = Some(PaperLast {
            request,
            answer: PaperAnswer::from(outcome),
        });
        account.version += u64::from(outcome.is_err());
        self.put(&record.source, account);
        Ok(())
    }

    fn keep_packet(&mut self, record: &Record, outcome: Result<u64, Code>) {
        // The fast path does not know the number of the operation, so the stored outcome has none.
        let outcome = outcome.map_or_else(Outcome::refused, |amount| Outcome {
            amount,
            ..Outcome::refused(Code::Done)
        });
        let (slot, clock_s) = (record.slot, self.clock_s);
        if record.index == 0 {
            self.sessions
                .record_outcomes(slot, record.sequence, record.sum, &[outcome], clock_s);
        }
        if let Some(session) = self.sessions.get_mut(slot) {
            if record.index != 0 {
                // The fast path executes only packets of a few operations, so this outcome need not count as a large
                // result.
                (session.sequence, session.sum) = (record.sequence, record.sum);
                session.outcomes.push(outcome);
            }
            session.missing = record.count.saturating_sub(record.index + 1);
        }
        if record.index != 0 {
            self.sessions.used(slot, &[outcome], clock_s);
        }
    }
}
