//! The host's state: a deterministic state machine without clock, disk or random numbers. The same requests in the
//! same order produce the same state and the same replies, so the journal is sufficient to rebuild it.
//!
//! The host checks permissions before it calls the ledger. It passes an operation that the sender may not execute
//! together with the code of the refusal.

mod accounts;
mod history;
pub(crate) mod image;
mod keys;
mod line;
mod sessions;

pub use keys::IdempotencyKey;
pub use line::RecordResult;
pub use sessions::{Address, SMALL_RESULTS, Session, SessionAnswer, network_of, site_of};

use crate::AccountId;
use crate::native::{self, Outcome};
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::rules::{self, Holding, PAPER_LIMIT};
use accounts::Accounts;
use hashbrown::{HashMap, HashSet};
use keys::{KeyLookup, Keys};
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_PENDING, TRANSFER_CONTRACT_POST, TRANSFER_CONTRACT_VOID,
    TRANSFER_FLAG_LINKED, TransferCode as Code,
};
use sessions::Sessions;
use std::collections::BTreeSet;

/// One account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Balance and holds of the account.
    pub holding: Holding,
    /// Number of changes of the account.
    pub version: u64,
    /// Fingerprint of its owner's key; zeros: no owner.
    pub owner: [u8; 16],
    /// Last numbered request in the paper's format, with its reply.
    pub last: Option<PaperLast>,
}

/// Identifier of a pending transfer: its source, and the client's `uuid`.
pub type PendingId = (AccountId, [u8; 16]);

/// Pending transfer, which is to be posted or voided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingTransfer {
    /// Account that receives the amount when it is posted.
    pub destination: AccountId,
    /// Reserved amount.
    pub amount: u64,
    /// Expiry in the journal's seconds; 0: never.
    pub expires_s: u64,
}

/// Number of operations whose accounts are prefetched before the first of them is executed.
pub(crate) const PREFETCHED_OPERATIONS: usize = 32;

/// Maximum numbers of accounts, sessions, pending transfers and idempotency keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of accounts.
    pub accounts: u64,
    /// Maximum number of sessions.
    pub sessions: u32,
    /// Maximum number of pending transfers.
    pub pendings: u64,
    /// Maximum number of idempotency keys that are remembered.
    pub keys: u64,
    /// Time for which an idempotency key is remembered, in seconds.
    pub key_window_s: u64,
}

/// State of one account after a step. A step is one operation, or a chain of linked operations; a reader sees all
/// changes of a step or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The account.
    pub account: AccountId,
    /// Balance and holds of the account.
    pub holding: Holding,
    /// Number of changes of the account.
    pub version: u64,
    /// Number of the step that made this change.
    pub step: u64,
}

/// Accounts, sessions, pending transfers, idempotency keys and totals.
#[derive(Debug)]
pub struct Ledger {
    accounts: Accounts,
    sessions: Sessions,
    pendings: HashMap<PendingId, PendingTransfer>,
    expiries: BTreeSet<(u64, PendingId)>,
    keys: Keys,
    limits: Limits,
    /// Number of executed operations; refused ones are not counted.
    number: u64,
    /// Latest time in the journal, in seconds since 1970.
    clock_s: u64,
    /// Sum of all amounts that CREATE and ISSUE operations have created.
    issued: u128,
    /// Changes since the last call of [`Ledger::take_changes`].
    changes: Vec<Change>,
    step: u64,
    /// Previous values of everything that the current chain of linked operations has changed.
    undo: Option<Vec<Undo>>,
}

/// Idempotency keys of the operations of one chain so far.
#[derive(Debug, Default)]
struct ChainKeys {
    /// True if the first operation of the chain has a key; `None` before the first operation.
    has_keys: Option<bool>,
    /// True if the first operation of the chain repeats a key; `None` before the first operation.
    is_repeated: Option<bool>,
    /// Keys of the chain that the ledger does not remember yet.
    new: HashSet<IdempotencyKey>,
}

#[derive(Debug)]
enum Undo {
    Account(AccountId, Option<Account>),
    Pending(PendingId, Option<PendingTransfer>),
    Issued(u128),
}

impl Ledger {
    /// Creates an empty ledger.
    pub fn new(limits: Limits) -> Self {
        Self {
            accounts: Accounts::default(),
            sessions: Sessions::default(),
            pendings: HashMap::new(),
            expiries: BTreeSet::new(),
            keys: Keys::default(),
            limits,
            number: 0,
            clock_s: 0,
            issued: 0,
            changes: Vec::new(),
            step: 0,
            undo: None,
        }
    }

    /// Sets new limits. Existing accounts, sessions, pending transfers and idempotency keys remain.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns an account.
    pub fn account(&self, id: &AccountId) -> Option<&Account> {
        self.accounts.get(id)
    }

    /// Prefetches the accounts of [`PREFETCHED_OPERATIONS`] operations into the CPU's caches.
    pub(crate) fn warm(&self, mut ids: impl Iterator<Item = AccountId>) {
        self.accounts
            .warm::<{ 2 * PREFETCHED_OPERATIONS }>(std::array::from_fn(|_| ids.next().unwrap_or_default()));
    }

    /// Returns every account, in no particular order.
    pub fn accounts(&self) -> impl Iterator<Item = (&AccountId, &Account)> {
        self.accounts.iter()
    }

    /// Returns the number of accounts.
    pub fn account_count(&self) -> usize {
        self.accounts.len()
    }

    /// Returns the number of executed operations.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the sum of all amounts that CREATE and ISSUE operations have created.
    pub fn issued(&self) -> u128 {
        self.issued
    }

    /// Returns the sum of all balances, which always equals [`Self::issued`].
    pub fn sum_of_balances(&self) -> u128 {
        self.accounts
            .iter()
            .map(|(_, account)| u128::from(account.holding.balance))
            .sum()
    }

    /// Returns the number of pending transfers.
    pub fn pending_count(&self) -> usize {
        self.pendings.len()
    }

    /// Returns the number of remembered idempotency keys.
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Returns a pending transfer.
    pub fn pending(&self, id: &PendingId) -> Option<&PendingTransfer> {
        self.pendings.get(id)
    }

    /// Returns the changes since the last call, in the order of steps.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Discards the changes until now.
    pub(crate) fn forget_changes(&mut self) {
        self.changes.clear();
    }

    /// Returns every account as a change, each in a step of its own.
    pub fn all_as_changes(&self) -> Vec<Change> {
        let change = |(step, (id, account)): (usize, (&AccountId, &Account))| Change {
            account: *id,
            holding: account.holding,
            version: account.version,
            step: step as u64,
        };
        self.accounts.iter().enumerate().map(change).collect()
    }

    /// Returns the sum of the amounts that all pending transfers reserve.
    pub fn pending_sum(&self) -> u128 {
        self.pendings
            .values()
            .map(|pending| u128::from(pending.amount))
            .sum()
    }

    // ---- the paper's format ----

    /// Returns the reply to a request whose transaction id was used before; `None` if the request is to be executed.
    pub fn paper_answer(&self, request: &PaperRequest) -> Option<PaperAnswer> {
        if !request.is_numbered() {
            return None;
        }
        let last = self.accounts.get(&request.source_id())?.last;
        PaperLast::answer(last.as_ref(), request)
    }

    /// Executes a CREATE, ISSUE or TRANSFER that its sender may execute and that has no earlier reply
    /// (`paper_answer`). Returns the reply, and whether it must be recorded because it changed something or used an
    /// id. If `may_refuse` is false, a refusal that would use an id becomes `busy` and uses none.
    pub fn paper(&mut self, request: &PaperRequest, may_refuse: bool) -> (PaperAnswer, bool) {
        self.step += 1;
        let source = request.source_id();
        let outcome = request.command_in_journal().and_then(|command| match command {
            TRANSFER_COMMAND_CREATE => self.create(&source, request.amount.into(), [0; 16], PAPER_LIMIT),
            TRANSFER_COMMAND_ISSUE => self.issue(&source, request.amount.into(), PAPER_LIMIT),
            _ => self.plain(
                &source,
                &request.destination_id(),
                request.amount.into(),
                PAPER_LIMIT,
            ),
        });
        let answer = PaperAnswer::from(outcome);
        let remembers = request.is_numbered() && self.accounts.contains(&source);
        if remembers && outcome.is_err() && !may_refuse {
            return (PaperAnswer::refused(Code::Busy), false);
        }
        if let (true, Some(account)) = (remembers, self.accounts.get(&source)) {
            let mut account = *account;
            account.last = Some(PaperLast {
                request: *request,
                answer,
            });
            // A refusal that used an id increments the version; an executed operation has incremented it already.
            account.version += u64::from(outcome.is_err());
            self.put(&source, account);
        }
        let is_recorded = outcome.is_ok() || remembers;
        self.number += u64::from(outcome.is_ok());
        (answer, is_recorded)
    }

    // ---- sessions ----

    /// Executes the next packet of a session. `permitted` returns, for each operation and the current state of its
    /// source, whether its sender may execute it by the rules at the time of the request. `now_s` is the packet's time
    /// in the journal.
    pub fn execute(
        &mut self,
        slot: u32,
        sequence: u64,
        operations: &[Operation],
        permitted: impl Fn(usize, Option<&Account>) -> Result<(), Code>,
        now_s: u64,
    ) -> Vec<Outcome> {
        let outcomes = self.run(operations, permitted, now_s);
        self.keep_executed(slot, sequence, native::sum(operations), &outcomes, now_s);
        outcomes
    }

    /// Executes operations and does not yet record their outcomes in a session. If all are refused, nothing has
    /// changed. The outcome of a repeated idempotency key is that of the first execution, with its number.
    pub(crate) fn run(
        &mut self,
        operations: &[Operation],
        permitted: impl Fn(usize, Option<&Account>) -> Result<(), Code>,
        now_s: u64,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(operations.len());
        let mut warm = 0;
        while outcomes.len() < operations.len() {
            let start = outcomes.len();
            if start >= warm && operations.len() > 1 {
                warm = (start + PREFETCHED_OPERATIONS).min(operations.len());
                self.warm(operations[start..warm].iter().flat_map(native::accounts));
            }
            let linked = operations[start..]
                .iter()
                .take_while(|operation| operation.flags & TRANSFER_FLAG_LINKED != 0)
                .count();
            let end = (start + linked + 1).min(operations.len());
            self.step += 1;
            self.chain(
                &operations[start..end],
                |index, source| permitted(start + index, source),
                now_s,
                &mut outcomes,
            );
        }
        outcomes
    }

    /// Records the outcomes of a session's next packet, whose operations have this checksum.
    pub(crate) fn keep_executed(
        &mut self,
        slot: u32,
        sequence: u64,
        sum: u64,
        outcomes: &[Outcome],
        now_s: u64,
    ) {
        self.time(now_s);
        self.sessions
            .record_outcomes(slot, sequence, sum, outcomes, now_s);
    }

    /// Executes operations of which either all are executed or none.
    fn chain(
        &mut self,
        operations: &[Operation],
        permitted: impl Fn(usize, Option<&Account>) -> Result<(), Code>,
        now_s: u64,
        outcomes: &mut Vec<Outcome>,
    ) {
        let first = outcomes.len();
        self.undo = (operations.len() > 1).then(Vec::new);
        let mut failed = None;
        let mut chain_keys = ChainKeys::default();
        for (index, operation) in operations.iter().enumerate() {
            let open = index + 1 == operations.len() && operation.flags & TRANSFER_FLAG_LINKED != 0;
            let outcome = match (failed, open) {
                (Some(_), _) => Err(Code::LinkedFailed),
                (None, true) => Err(Code::BadCommand),
                (None, false) => native::check_form(operation)
                    .and_then(|()| permitted(index, self.account(&AccountId(operation.source))))
                    .and_then(|()| self.first_outcome(operation, now_s, &mut chain_keys))
                    .and_then(|first| match first {
                        Some(outcome) => Ok(outcome),
                        None => self.one(operation, now_s).map(|amount| Outcome {
                            amount,
                            ..Outcome::refused(Code::Done)
                        }),
                    }),
            };
            if outcome.is_err() && failed.is_none() {
                failed = Some(index);
            }
            outcomes.push(outcome.unwrap_or_else(Outcome::refused));
        }
        let undo = self.undo.take();
        if let (Some(failed), Some(undo)) = (failed, undo) {
            self.roll_back(undo);
            outcomes[first..first + failed].fill(Outcome::refused(Code::LinkedFailed));
        }
        // Only executed operations are numbered and sealed in blocks, so refusals do not accumulate. A repetition has
        // the number of the first execution.
        for (operation, outcome) in operations.iter().zip(&mut outcomes[first..]) {
            if outcome.code == Code::Done && outcome.number == 0 {
                self.number += 1;
                outcome.number = self.number;
                if let Some(key) = IdempotencyKey::of(operation) {
                    self.keys
                        .record(key, operation, outcome, now_s, self.limits.key_window_s);
                }
            }
        }
    }

    /// Returns the outcome of the first execution if the operation repeats an idempotency key, and `None` if it is to
    /// be executed. A chain is repeated as a whole: either all of its operations have a known key, or none has.
    ///
    /// # Errors
    /// `bad_command` if only some operations of the chain have a key, `id_reused` if the key belongs to another
    /// operation or if only a part of the chain was executed before, `store_full` if no more keys can be remembered.
    fn first_outcome(
        &self,
        operation: &Operation,
        now_s: u64,
        chain: &mut ChainKeys,
    ) -> Result<Option<Outcome>, Code> {
        let key = IdempotencyKey::of(operation);
        if *chain.has_keys.get_or_insert(key.is_some()) != key.is_some() {
            return Err(Code::BadCommand);
        }
        let Some(key) = key else {
            return Ok(None);
        };
        let first = match self
            .keys
            .look_up(&key, operation, now_s, self.limits.key_window_s)
        {
            KeyLookup::Repeated(outcome) => Some(outcome),
            KeyLookup::New => None,
            KeyLookup::Reused => return Err(Code::IdReused),
        };
        if *chain.is_repeated.get_or_insert(first.is_some()) != first.is_some() {
            return Err(Code::IdReused);
        }
        if first.is_none() {
            let remembered = self.keys.remembered(now_s, self.limits.key_window_s);
            if (remembered + chain.new.len()) as u64 >= self.limits.keys {
                return Err(Code::StoreFull);
            }
            if !chain.new.insert(key) {
                return Err(Code::IdReused);
            }
        }
        Ok(first)
    }

    fn roll_back(&mut self, undo: Vec<Undo>) {
        for undo in undo.into_iter().rev() {
            match undo {
                Undo::Account(id, Some(account)) => _ = self.accounts.insert(id, account),
                // The chain created this account. Undoing goes backwards, so the account is the last one of the table.
                Undo::Account(_, None) => self.accounts.remove_last(),
                Undo::Pending(id, pending) => self.set_pending(id, pending),
                Undo::Issued(issued) => self.issued = issued,
            }
        }
        let step = self.step;
        self.changes.retain(|change| change.step != step);
    }

    // ---- operations ----

    fn one(&mut self, operation: &Operation, now_s: u64) -> Result<u64, Code> {
        let source = AccountId(operation.source);
        let destination = AccountId(operation.destination);
        let amount = operation.amount.get();
        match (operation.command, operation.contract.get()) {
            (TRANSFER_COMMAND_CREATE, _) => self.create(&source, amount, operation.destination, u64::MAX),
            (TRANSFER_COMMAND_ISSUE, _) => self.issue(&source, amount, u64::MAX),
            (TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_PENDING) => {
                let expires_s = match operation.timeout_s.get() {
                    0 => 0,
                    timeout_s => now_s.saturating_add(timeout_s.into()),
                };
                self.set_aside(&source, &destination, amount, operation.uuid, expires_s)
            }
            (TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_POST) => {
                self.end(&source, &destination, operation.uuid, |from, to, pending| {
                    let amount = if amount == 0 { pending } else { amount };
                    rules::post(from, to, pending, amount)
                })
            }
            (TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_VOID) => {
                self.end(&source, &destination, operation.uuid, |from, to, pending| {
                    rules::release(from, to, pending);
                    Ok(())
                })
            }
            (TRANSFER_COMMAND_TRANSFER, _) => self.plain(&source, &destination, amount, u64::MAX),
            (command, _) => {
                let mut account = *self.accounts.get(&source).ok_or(Code::UnknownAccount)?;
                account.holding.frozen = command == TRANSFER_COMMAND_FREEZE;
                Ok(self.change(&source, account))
            }
        }
    }

    fn create(&mut self, id: &AccountId, amount: u64, owner: [u8; 16], limit: u64) -> Result<u64, Code> {
        let is_full = self.accounts.len() as u64 >= self.limits.accounts;
        let stands = self.accounts.contains(id) || rules::create(amount, limit).is_err();
        if is_full && !stands {
            return Err(Code::StoreFull);
        }
        self.make(id, amount, owner, limit)
    }

    /// Creates an account even if the limit is reached: the fast path, whose table has space for more accounts, has
    /// already created it.
    fn make(&mut self, id: &AccountId, amount: u64, owner: [u8; 16], limit: u64) -> Result<u64, Code> {
        if self.accounts.contains(id) {
            return Err(Code::AccountExists);
        }
        let holding = rules::create(amount, limit)?;
        self.bring_in(amount);
        let account = Account {
            holding,
            owner,
            ..Account::default()
        };
        Ok(self.change(id, account))
    }

    fn issue(&mut self, id: &AccountId, amount: u64, limit: u64) -> Result<u64, Code> {
        let mut account = *self.accounts.get(id).ok_or(Code::UnknownAccount)?;
        rules::issue(&mut account.holding, amount, limit)?;
        self.bring_in(amount);
        Ok(self.change(id, account))
    }

    fn plain(&mut self, from: &AccountId, to: &AccountId, amount: u64, limit: u64) -> Result<u64, Code> {
        self.pair(from, to, |from, to| rules::transfer(from, to, amount, limit))
    }

    fn set_aside(
        &mut self,
        from: &AccountId,
        to: &AccountId,
        amount: u64,
        uuid: [u8; 16],
        expires_s: u64,
    ) -> Result<u64, Code> {
        let id = (*from, uuid);
        if self.pendings.contains_key(&id) {
            return Err(Code::PendingExists);
        }
        if self.pendings.len() as u64 >= self.limits.pendings {
            return Err(Code::StoreFull);
        }
        let balance = self.pair(from, to, |from, to| rules::set_aside(from, to, amount))?;
        let pending = PendingTransfer {
            destination: *to,
            amount,
            expires_s,
        };
        self.change_pending(id, Some(pending));
        Ok(balance)
    }

    /// Ends a pending transfer with the rule `how`.
    fn end(
        &mut self,
        from: &AccountId,
        to: &AccountId,
        uuid: [u8; 16],
        how: impl FnOnce(&mut Holding, &mut Holding, u64) -> Result<(), Code>,
    ) -> Result<u64, Code> {
        let id = (*from, uuid);
        let pending = *self.pendings.get(&id).ok_or(Code::UnknownPending)?;
        if pending.destination != *to {
            return Err(Code::UnknownPending);
        }
        let balance = self.pair(from, to, |from, to| how(from, to, pending.amount))?;
        self.change_pending(id, None);
        Ok(balance)
    }

    /// Returns the pending transfers that have expired at `now_s`, the earliest first.
    pub fn expired(&self, now_s: u64) -> Vec<PendingId> {
        let due = self
            .expiries
            .iter()
            .take_while(|(expires_s, _)| *expires_s <= now_s);
        due.map(|(_, id)| *id).collect()
    }

    /// Releases the amount that a pending transfer reserved. Returns `false` if there is no such transfer.
    pub fn expire(&mut self, id: &PendingId) -> bool {
        self.step += 1;
        let Some(pending) = self.pendings.get(id).copied() else {
            return false;
        };
        let release = |from: &mut Holding, to: &mut Holding, pending| {
            rules::release(from, to, pending);
            Ok(())
        };
        self.end(&id.0, &pending.destination, id.1, release).is_ok()
    }

    fn pair(
        &mut self,
        from_id: &AccountId,
        to_id: &AccountId,
        rule: impl FnOnce(&mut Holding, &mut Holding) -> Result<(), Code>,
    ) -> Result<u64, Code> {
        let mut from = *self.accounts.get(from_id).ok_or(Code::UnknownAccount)?;
        if from_id == to_id {
            return Err(Code::SameAccount);
        }
        let mut to = *self.accounts.get(to_id).ok_or(Code::UnknownAccount)?;
        rule(&mut from.holding, &mut to.holding)?;
        self.change(to_id, to);
        Ok(self.change(from_id, from))
    }

    // ---- changes ----

    fn bring_in(&mut self, amount: u64) {
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Issued(self.issued));
        }
        self.issued += u128::from(amount);
    }

    /// Writes a changed account with the next version; returns its balance.
    fn change(&mut self, id: &AccountId, mut account: Account) -> u64 {
        account.version += 1;
        self.put(id, account);
        account.holding.balance
    }

    fn put(&mut self, id: &AccountId, account: Account) {
        let before = self.accounts.insert(*id, account);
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Account(*id, before));
        }
        self.changes.push(Change {
            account: *id,
            holding: account.holding,
            version: account.version,
            step: self.step,
        });
    }

    fn change_pending(&mut self, id: PendingId, pending: Option<PendingTransfer>) {
        let before = self.pendings.get(&id).copied();
        if let Some(undo) = &mut self.undo {
            undo.push(Undo::Pending(id, before));
        }
        self.set_pending(id, pending);
    }

    fn set_pending(&mut self, id: PendingId, pending: Option<PendingTransfer>) {
        if let Some(before) = self.pendings.remove(&id)
            && before.expires_s != 0
        {
            self.expiries.remove(&(before.expires_s, id));
        }
        if let Some(pending) = pending {
            if pending.expires_s != 0 {
                self.expiries.insert((pending.expires_s, id));
            }
            self.pendings.insert(id, pending);
        }
    }
}
