//! What the fast path has executed at the line, taken into the ledger: in the order that the accounts' versions give.

use super::Ledger;
use crate::native::Outcome;
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::ring::{NO_SESSION, Record};
use crate::rules::PAPER_LIMIT;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_TRANSFER,
    TransferCode as Code,
};

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in the ledger.
    Done,
    /// Something that came before it is still in another ring.
    Waits,
    /// It was taken before.
    Seen,
}

/// How one thing that a record names stands to it.
fn order(at: u64, told: u64) -> Taken {
    match told.cmp(&(at + 1)) {
        std::cmp::Ordering::Less => Taken::Seen,
        std::cmp::Ordering::Equal => Taken::Done,
        std::cmp::Ordering::Greater => Taken::Waits,
    }
}

impl Ledger {
    /// Takes one record. What was done is done again, and must come out the same; what was refused is only kept.
    ///
    /// # Errors
    /// What does not fit: the fast path and ledger are not the same then.
    pub fn line(&mut self, record: &Record) -> Result<Taken, String> {
        match self.turn(record) {
            Taken::Done => {}
            other => return Ok(other),
        }
        let code = Code::from_code(record.code).ok_or("an unknown code")?;
        self.step += 1;
        let outcome = match code {
            Code::Done => Ok(self.again(record)?),
            code => Err(code),
        };
        self.number += u64::from(outcome.is_ok());
        if record.slot == NO_SESSION {
            self.keep_paper(record, outcome)?;
        } else {
            self.keep_packet(record, outcome);
        }
        let stands = |id, told| {
            told == 0
                || self
                    .accounts
                    .get(id)
                    .is_some_and(|account| account.version == told)
        };
        if stands(&record.source, record.source_version)
            && stands(&record.destination, record.destination_version)
        {
            Ok(Taken::Done)
        } else {
            Err("it leaves other versions".into())
        }
    }

    /// What a packet of this session, or of all, lacks will not come any more: it was lost with the fast path.
    pub fn nothing_is_missing(&mut self, slot: Option<u32>) {
        let all = 0..self.sessions.slots().len() as u32;
        for slot in slot.map_or(all, |slot| slot..slot + 1) {
            if let Some(session) = self.sessions.get_mut(slot) {
                session.missing = 0;
            }
        }
    }

    /// Whether it is the record's turn.
    fn turn(&self, record: &Record) -> Taken {
        let version = |id| self.accounts.get(id).map_or(0, |account| account.version);
        let mut turns = vec![];
        if record.source_version != 0 {
            turns.push(order(version(&record.source), record.source_version));
        }
        if record.destination_version != 0 {
            turns.push(order(version(&record.destination), record.destination_version));
        }
        if record.slot != NO_SESSION {
            let Some(session) = self.session(record.slot) else {
                return Taken::Seen;
            };
            // Operations of the session so far, if each packet had as many as this one can have.
            let most = u64::from(u16::MAX);
            let at = session.sequence * most + session.outcomes.len() as u64;
            // The packet before it may lie in another ring, and wait there for an account: it is not done without it.
            let is_next = record.index == 0 && record.sequence == session.sequence + 1;
            let first = is_next && session.missing == 0;
            let told = record.sequence * most + u64::from(record.index) + 1;
            turns.push(if first { Taken::Done } else { order(at, told) });
        }
        [Taken::Seen, Taken::Waits]
            .into_iter()
            .find(|turn| turns.contains(turn))
            .unwrap_or(Taken::Done)
    }

    /// Does again what was done.
    fn again(&mut self, record: &Record) -> Result<u64, String> {
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
                "the fast path left {} with it, the ledger {balance}",
                record.source_balance
            )),
            Err(code) => Err(format!(
                "the fast path did it, and the ledger refuses it: {}",
                code.meaning()
            )),
        }
    }

    fn keep_paper(&mut self, record: &Record, outcome: Result<u64, Code>) -> Result<(), String> {
        let Ok(id) = u32::try_from(record.sequence) else {
            return Err("a transaction id of more than 32 bits".into());
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
            .ok_or("its account is not there")?;
        account.last = Some(PaperLast {
            request,
            answer: PaperAnswer::from(outcome),
        });
        account.version += u64::from(outcome.is_err());
        self.put(&record.source, account);
        Ok(())
    }

    fn keep_packet(&mut self, record: &Record, outcome: Result<u64, Code>) {
        // The fast path could not know its number, and so the answer has none.
        let outcome = outcome.map_or_else(Outcome::refused, |amount| Outcome {
            amount,
            ..Outcome::refused(Code::Done)
        });
        let (slot, clock_s) = (record.slot, self.clock_s);
        if record.index == 0 {
            self.sessions
                .keep(slot, record.sequence, record.sum, &[outcome], clock_s);
        }
        if let Some(session) = self.sessions.get_mut(slot) {
            if record.index != 0 {
                // A packet of the fast path's has a few operations.
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
