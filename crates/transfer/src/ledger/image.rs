//! Encoding of a ledger for snapshots: everything except the last changes, in an order that depends only on the
//! content.

use super::history::ChangeTimes;
use super::keys::KeyedOperation;
use super::{Account, IdempotencyKey, Ledger, Limits, PendingTransfer, Session};
use crate::AccountId;
use crate::bytes::{Reader, Writer};
use crate::native::Outcome;
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::rules::Holding;
use lineside_wire::TransferCode as Code;
use std::collections::HashMap;

const VERSION: u32 = 3;
/// Version without idempotency keys, which is still read.
const VERSION_WITHOUT_KEYS: u32 = 2;

impl Ledger {
    /// Returns the encoded state.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u32(VERSION);
        out.u64(self.limits.accounts);
        out.u32(self.limits.sessions);
        out.u64(self.limits.pendings);
        out.u64(self.number);
        out.u64(self.clock_s);
        out.u128(self.issued);
        let mut accounts: Vec<_> = self.accounts.iter().collect();
        accounts.sort_unstable_by_key(|(id, _)| **id);
        out.u64(accounts.len() as u64);
        for (id, account) in accounts {
            put_account(&mut out, id, account);
        }
        out.u64(self.sessions.slots().len() as u64);
        for session in self.sessions.slots() {
            put_session(&mut out, session);
        }
        out.u64(self.sessions.history.iter().len() as u64);
        for (network, times) in self.sessions.history.iter() {
            out.bytes(network);
            out.u64(times.first_s);
            out.u64(times.last_s);
        }
        let mut pendings: Vec<_> = self.pendings.iter().collect();
        pendings.sort_unstable_by_key(|(id, _)| **id);
        out.u64(pendings.len() as u64);
        for ((source, uuid), pending) in pendings {
            out.bytes(&source.0);
            out.bytes(uuid);
            out.bytes(&pending.destination.0);
            out.u64(pending.amount);
            out.u64(pending.expires_s);
        }
        out.u64(self.limits.keys);
        out.u64(self.limits.key_window_s);
        out.u64(self.keys.iter().count() as u64);
        for (key, operation) in self.keys.iter() {
            put_keyed(&mut out, key, operation);
        }
        out.into_bytes()
    }

    /// Decodes the bytes of [`Ledger::to_bytes`]; `None` if they are invalid or inconsistent.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        let version = input.u32()?;
        if ![VERSION, VERSION_WITHOUT_KEYS].contains(&version) {
            return None;
        }
        let limits = Limits {
            accounts: input.u64()?,
            sessions: input.u32()?,
            pendings: input.u64()?,
            keys: 0,
            key_window_s: 0,
        };
        let mut ledger = Self::new(limits);
        ledger.number = input.u64()?;
        ledger.clock_s = input.u64()?;
        ledger.issued = input.u128()?;
        for _ in 0..input.u64()? {
            let (id, account) = account(&mut input)?;
            ledger.accounts.insert(id, account);
        }
        for slot in 0..u32::try_from(input.u64()?).ok()? {
            let session = session(&mut input)?;
            ledger.sessions.put(slot, session);
        }
        for _ in 0..input.u64()? {
            let (network, first_s, last_s) = (input.array()?, input.u64()?, input.u64()?);
            ledger
                .sessions
                .history
                .put(network, ChangeTimes { first_s, last_s });
        }
        for _ in 0..input.u64()? {
            let id = (AccountId(input.array()?), input.array()?);
            let pending = PendingTransfer {
                destination: AccountId(input.array()?),
                amount: input.u64()?,
                expires_s: input.u64()?,
            };
            ledger.set_pending(id, Some(pending));
        }
        if version == VERSION {
            ledger.limits.keys = input.u64()?;
            ledger.limits.key_window_s = input.u64()?;
            for _ in 0..input.u64()? {
                let (key, operation) = keyed(&mut input)?;
                ledger.keys.insert(key, operation);
            }
        }
        (input.is_empty() && ledger.adds_up()).then_some(ledger)
    }

    /// Returns whether all balances sum up to the issued amount, and whether the reserved amounts of each account
    /// match its pending transfers, which must go to another account.
    fn adds_up(&self) -> bool {
        let mut aside: HashMap<AccountId, (u128, u128)> = HashMap::new();
        for ((source, _), pending) in &self.pendings {
            if *source == pending.destination {
                return false;
            }
            let amount = u128::from(pending.amount);
            aside.entry(*source).or_default().0 += amount;
            aside.entry(pending.destination).or_default().1 += amount;
        }
        let is_sound = |(id, account): (&AccountId, &Account)| {
            let holding = account.holding;
            let aside = aside.get(id).copied().unwrap_or_default();
            aside == (holding.held_out.into(), holding.held_in.into())
                && holding.held_out <= holding.balance
                && holding.balance.checked_add(holding.held_in).is_some()
        };
        self.accounts.iter().all(is_sound)
            && aside.keys().all(|id| self.accounts.contains(id))
            && self.sum_of_balances() == self.issued
    }
}

fn put_account(out: &mut Writer, id: &AccountId, account: &Account) {
    let Account {
        holding,
        version,
        owner,
        last,
    } = account;
    out.bytes(&id.0);
    out.u64(holding.balance);
    out.u64(holding.held_out);
    out.u64(holding.held_in);
    out.u8(holding.frozen.into());
    out.u64(*version);
    out.bytes(owner);
    out.u8(last.is_some().into());
    if let Some(PaperLast { request, answer }) = last {
        out.bytes(&request.to_bytes());
        out.u16(answer.code as u16);
        out.u32(answer.amount);
    }
}

fn account(input: &mut Reader<'_>) -> Option<(AccountId, Account)> {
    let id = AccountId(input.array()?);
    let holding = Holding {
        balance: input.u64()?,
        held_out: input.u64()?,
        held_in: input.u64()?,
        frozen: input.u8()? != 0,
    };
    let (version, owner) = (input.u64()?, input.array()?);
    let last = match input.u8()? {
        0 => None,
        _ => Some(PaperLast {
            request: PaperRequest::parse(&input.array::<22>()?)?,
            answer: PaperAnswer {
                code: Code::from_code(input.u16()?)?,
                amount: input.u32()?,
            },
        }),
    };
    let account = Account {
        holding,
        version,
        owner,
        last,
    };
    Some((id, account))
}

fn put_session(out: &mut Writer, session: &Session) {
    let Session {
        token,
        opener,
        last_s,
        noted_s,
        sequence,
        sum,
        outcomes,
        // `missing` is always 0 when a snapshot is written.
        missing: _,
    } = session;
    out.u64(*token);
    out.bytes(opener);
    out.u64(*last_s);
    out.u64(*noted_s);
    out.u64(*sequence);
    out.u64(*sum);
    out.u16(outcomes.len() as u16);
    for outcome in outcomes {
        put_outcome(out, outcome);
    }
}

fn session(input: &mut Reader<'_>) -> Option<Session> {
    Some(Session {
        token: input.u64()?,
        opener: input.array()?,
        last_s: input.u64()?,
        noted_s: input.u64()?,
        sequence: input.u64()?,
        sum: input.u64()?,
        outcomes: (0..input.u16()?).map(|_| outcome(input)).collect::<Option<_>>()?,
        missing: 0,
    })
}

fn put_keyed(out: &mut Writer, key: &IdempotencyKey, operation: &KeyedOperation) {
    key.put(out);
    out.u64(operation.sum);
    out.u64(operation.executed_s);
    out.u64(operation.amount);
    out.u64(operation.number);
}

fn keyed(input: &mut Reader<'_>) -> Option<(IdempotencyKey, KeyedOperation)> {
    let key = IdempotencyKey::read(input)?;
    let operation = KeyedOperation {
        sum: input.u64()?,
        executed_s: input.u64()?,
        amount: input.u64()?,
        number: input.u64()?,
    };
    Some((key, operation))
}

pub(crate) fn put_outcome(out: &mut Writer, outcome: &Outcome) {
    out.u16(outcome.code as u16);
    out.u64(outcome.amount);
    out.u64(outcome.number);
}

pub(crate) fn outcome(input: &mut Reader<'_>) -> Option<Outcome> {
    Some(Outcome {
        code: Code::from_code(input.u16()?)?,
        amount: input.u64()?,
        number: input.u64()?,
    })
}
