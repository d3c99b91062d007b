//! The host: executes requests in batches, makes each batch durable with one fdatasync, publishes the changes to the
//! fast path, and only then replies. The next batch may be executed during the sync ([`Host::execute`],
//! [`Host::take`]). In `express` the fast path executes operations, and the host follows ([`Host::drain`]).
//!
//! One thread owns the host; another may wait for the disk ([`Host::commit_beside`]). The host has no clock and no
//! random numbers of its own: both are parameters, so that a simulator can repeat a run.

mod archive;
mod commits;
mod express;
mod limiter;
mod open;
mod operations;
mod replay;
mod retain;
mod sessions;

pub use open::{
    Audit, Executing, OpenError, OpenedLedger, Setup, audit, close_sessions, mode_of_ledger, open_read_only,
    prove,
};
pub use operations::{ExecutedOperation, executed_operations};
pub use retain::{Retained, Retention};
pub use sessions::{SessionPolicy, SessionUse, SteadyUse};

use crate::AccountId;
use crate::entry::{self, Entry};
use crate::ledger::{Account, Ledger, PREFETCHED_OPERATIONS, SessionAnswer};
use crate::native::{self, Outcome, Request};
use crate::paper::{self, PaperAnswer, PaperRequest};
use crate::settlement::{self, BLOCK_BYTES, Chain};
use crate::signed::{SignatureChecker, SignedBytes};
use crate::store::Store;
use crate::writer::TransferFill;
use commits::Commits;
use express::Express;
use k256::ecdsa::SigningKey;
use limiter::Budgets;
use lineside_fastpath::{BatchRequest, DropReason, RequestOutcome, Source};
use lineside_journal::{Disk, Error as JournalError, Journal, record_bytes};
use lineside_messages::transfer::signer::{KeyId, signed_bytes};
use lineside_util::log_limit::LogLimit;
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, Operation, SignedHead, Status,
    TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER, TRANSFER_DURABLE, TRANSFER_EXPRESS,
    TRANSFER_OP_SIGNED, TransferCode as Code, native as wire,
};
use sessions::Sessions;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Conditions for sealing a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealPolicy {
    /// Number of operations after which a block is sealed.
    pub operations: usize,
    /// Number of seconds after the first of them.
    pub seconds: u64,
}

impl Default for SealPolicy {
    fn default() -> Self {
        Self {
            operations: 4096,
            seconds: 10,
        }
    }
}

/// Counters of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of replies.
    pub replies: u64,
    /// Number of refused operations.
    pub refused: u64,
    /// Number of batches made durable.
    pub groups: u64,
    /// Number of requests refused because the journal could not be written.
    pub writes_refused: u64,
    /// Number of changes that were not written to the fast-path table because it had no free cell for their account.
    pub homeless: u64,
    /// Number of times that the fast path was paused for the host, in `express`.
    pub rests: u64,
    /// Number of times that the host claimed accounts and sessions from the fast path instead.
    pub claims: u64,
    /// Number of valid signatures that the host has verified.
    pub signatures: u64,
    /// Number of refused packets that the host answered with `busy` because it had no credit to record them.
    pub limited: u64,
}

/// Host of a ledger: journal, ledger and the data published to the fast path.
pub struct Host<D: Disk> {
    journal: Journal<D>,
    commits: Commits<D>,
    ledger: Ledger,
    store: Arc<Store>,
    fill: Box<dyn TransferFill>,
    chain: Chain,
    key: SigningKey,
    seal: SealPolicy,
    /// Host's clock when the open block got its first operation, in seconds since 1970.
    filling_since_s: u64,
    sessions: Sessions,
    budgets: Budgets,
    /// State of mode `express`; `None` in `durable`.
    express: Option<Express>,
    /// Keys that may sign CREATE, ISSUE, FREEZE and UNFREEZE from any address.
    issuer_keys: Vec<KeyId>,
    /// Created at the first signed packet.
    checker: Option<SignatureChecker>,
    /// Maximum memory for precomputed tables for the public keys that sign packets, in bytes.
    key_table_bytes: usize,
    /// Maximum length of an entry in the journal, in bytes.
    record_bytes_max: usize,
    /// True if entries were appended since the last commit began.
    is_dirty: bool,
    /// Reason why writing has ended: since then the state in memory differs from that on the disk.
    failed: Option<String>,
    /// Space that the last request needed and the disk did not have.
    missing_space: Option<MissingSpace>,
    counts: Counts,
    written_bytes: u64,
}

/// Error: the journal cannot accept this request.
struct NoRoom;

/// Space that the disk did not have.
#[derive(Clone, Copy)]
struct MissingSpace {
    bytes: u64,
    /// Host's clock when the space was last checked without a request, in seconds since 1970.
    looked_at_s: u64,
}

/// Packet of a session.
struct Packet<'a> {
    now_s: u64,
    from: Source,
    /// Signing key and signature, if the packet is signed.
    by: Option<(KeyId, &'a SignedHead)>,
    head: &'a ExecuteHead,
    operations: &'a [Operation],
}

impl Packet<'_> {
    /// Returns whether the sender may execute this operation on `source`. A missing account is not a question of
    /// permission, so the result is true.
    fn may(
        &self,
        operation: &Operation,
        source: Option<&Account>,
        store: &Store,
        issuer_keys: &[KeyId],
    ) -> bool {
        let signer = self.by.map(|(key, _)| key);
        if operation.command == TRANSFER_COMMAND_TRANSFER {
            let is_owner = |account: &Account| signer.is_some_and(|key| key.0 == account.owner);
            return !store.requires_signature() || source.is_none_or(is_owner);
        }
        store.may_issue(self.from.address) || signer.is_some_and(|key| issuer_keys.contains(&key))
    }
}

impl<D: Disk> Host<D> {
    /// Returns the state after everything that was executed.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of sealed blocks.
    pub fn blocks(&self) -> u64 {
        self.chain.blocks()
    }

    /// Returns the number of bytes that the journal has written since it was opened.
    pub fn journal_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Returns the reason why writing has ended, if it has.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Executes a batch at the time `now_s` (seconds since 1970), makes it durable, and returns the outcome of each
    /// request. Earlier batches are taken first.
    pub fn group(&mut self, now_s: u64, requests: &[BatchRequest<'_>]) -> Vec<RequestOutcome> {
        self.execute(now_s, requests);
        let mut said = Vec::new();
        while let Some(next) = self.take(true) {
            said = next;
        }
        said
    }

    /// Executes a batch at the time `now_s`. [`Host::take`] returns its outcomes, after those of all earlier batches.
    pub fn execute(&mut self, now_s: u64, requests: &[BatchRequest<'_>]) {
        let had_failed = self.failed.is_some();
        let mut outcomes = Vec::with_capacity(requests.len());
        let signers = self.signers(requests);
        let is_level = self.acquire(now_s, requests, &signers);
        if is_level {
            self.expire(now_s);
        }
        for (at, request) in requests.iter().enumerate() {
            if at % PREFETCHED_OPERATIONS == 0 {
                self.warm(&requests[at..(at + PREFETCHED_OPERATIONS).min(requests.len())]);
            }
            let signer = signers.get(at).copied().flatten();
            if !is_level && self.may_change(request.payload, signer) {
                outcomes.push(self.no_room(request));
                continue;
            }
            let mut answer = self.one(now_s, request, signer);
            if answer.is_err() && self.is_dirty {
                // The batch may have been too large. The host makes its entries durable, which frees space for this
                // request.
                self.settle();
                answer = self.one(now_s, request, signer);
            }
            outcomes.push(answer.unwrap_or_else(|NoRoom| self.no_room(request)));
        }
        self.seal_when_due(now_s);
        if self.is_express() {
            // The fast path may resume only from a durable state.
            self.settle();
        }
        self.enqueue(outcomes, had_failed);
        self.go_on();
    }

    /// Prefetches the accounts of each packet's first operation into the CPU's caches.
    fn warm(&self, requests: &[BatchRequest<'_>]) {
        let accounts = |asked: &BatchRequest<'_>| {
            if let Some(request) = PaperRequest::parse(asked.payload) {
                return Some([request.source_id(), request.destination_id()]);
            }
            match Request::parse(asked.payload) {
                Ok(Request::Execute(_, _, operations) | Request::Signed(_, _, _, operations)) => {
                    operations.first().map(native::accounts)
                }
                _ => None,
            }
        };
        self.ledger.warm(requests.iter().filter_map(accounts).flatten());
    }

    /// Returns the signing key of each request; empty if none is signed.
    fn signers(&mut self, requests: &[BatchRequest<'_>]) -> Vec<Option<KeyId>> {
        let is_signed = |asked: &BatchRequest<'_>| {
            wire::is_native(asked.payload) && asked.payload[3] == TRANSFER_OP_SIGNED && self.failed.is_none()
        };
        if !requests.iter().any(is_signed) {
            return Vec::new();
        }
        let (mut places, mut signed) = (Vec::new(), Vec::new());
        for (at, request) in requests.iter().enumerate().filter(|(_, asked)| is_signed(asked)) {
            if let Ok(Request::Signed(_, head, execute, operations)) = Request::parse(request.payload) {
                places.push(at);
                let bytes = signed_bytes(execute, operations);
                signed.push(SignedBytes { head, bytes });
            }
        }
        self.counts.signatures += signed.len() as u64;
        let table_bytes = self.key_table_bytes;
        let checker = self
            .checker
            .get_or_insert_with(|| SignatureChecker::new(table_bytes));
        let verdicts = checker.check(&signed);
        let mut signers = vec![None; requests.len()];
        for (at, signer) in places.into_iter().zip(verdicts) {
            signers[at] = signer;
        }
        signers
    }

    /// Does the work that needs no request: expiries, sealing, and once a second a check whether a full disk has room
    /// again.
    pub fn tick(&mut self, now_s: u64) {
        if let Some(missing) = self.missing_space.as_mut()
            && missing.looked_at_s != now_s
        {
            missing.looked_at_s = now_s;
            let bytes = missing.bytes;
            let _still_full = self.reserve_all(bytes);
        }
        self.look_for_idle(now_s);
        self.budgets.forget(now_s);
        self.group(now_s, &[]);
    }

    fn one(
        &mut self,
        now_s: u64,
        batch_request: &BatchRequest<'_>,
        signer: Option<KeyId>,
    ) -> Result<RequestOutcome, NoRoom> {
        let paper = PaperRequest::parse(batch_request.payload);
        // This check comes first: a packet that is not a request gets no reply, not even an error.
        if let Some(reason) = self.drop_reason(batch_request.payload, paper.as_ref()) {
            return Ok(RequestOutcome::drop(reason));
        }
        if self.failed.is_some() {
            // Even queries are refused: the state in memory differs from that on the disk. The fast path continues.
            return Err(NoRoom);
        }
        if let Some(request) = paper {
            return self.paper(now_s, batch_request, &request);
        }
        let request = match Request::parse(batch_request.payload) {
            Ok(request) => request,
            Err(status) => return Ok(refuse(batch_request.payload, status)),
        };
        let reply = match request {
            Request::Refer(header, items) => self.refer(header, items),
            Request::Execute(header, head, operations) if self.store.requires_signature() => {
                self.unauthorised(header, head, operations)
            }
            Request::Execute(header, head, operations) => {
                let packet = Packet {
                    now_s,
                    from: batch_request.from,
                    by: None,
                    head,
                    operations,
                };
                self.packet(header, &packet)?
            }
            Request::Signed(header, signed, head, operations) => match signer {
                None => self.unauthorised(header, head, operations),
                Some(key) => {
                    let packet = Packet {
                        now_s,
                        from: batch_request.from,
                        by: Some((key, signed)),
                        head,
                        operations,
                    };
                    self.packet(header, &packet)?
                }
            },
            Request::Session(header, body) => self.session(now_s, batch_request, header, body)?,
        };
        Ok(RequestOutcome::reply(reply))
    }

    /// Returns the reason why a packet is not a request, if it is not one.
    fn drop_reason(&self, payload: &[u8], paper: Option<&PaperRequest>) -> Option<DropReason> {
        match paper {
            Some(request) if request.is_refusal() => Some(DropReason::ReplyBit),
            Some(_) if !self.store.paper_format() => Some(DropReason::PaperRefused),
            Some(_) => None,
            None if !wire::is_native(payload) => Some(DropReason::NotARequest),
            None if payload[3] & NATIVE_REPLY_BIT != 0 => Some(DropReason::ReplyBit),
            None => None,
        }
    }

    // ---- the paper's format ----

    fn paper(
        &mut self,
        now_s: u64,
        asked: &BatchRequest<'_>,
        request: &PaperRequest,
    ) -> Result<RequestOutcome, NoRoom> {
        let answer = self.paper_answer(now_s, asked.from, request)?;
        self.counts.refused += u64::from(answer.code != Code::Done);
        Ok(paper_reply(asked, request, answer))
    }

    fn paper_answer(
        &mut self,
        now_s: u64,
        from: Source,
        request: &PaperRequest,
    ) -> Result<PaperAnswer, NoRoom> {
        let command = match request.command() {
            Ok(command) => command,
            Err(code) => return Ok(PaperAnswer::refused(code)),
        };
        if command == TRANSFER_COMMAND_REFER {
            let balance = self.balance(&request.source_id());
            return Ok(balance.map(|(holding, _)| holding.balance).into());
        }
        if !self.may(from, command) {
            return Ok(PaperAnswer::refused(Code::Unauthorised));
        }
        if let Some(answer) = self.ledger.paper_answer(request) {
            return Ok(answer);
        }
        self.reserve(64)?;
        let may_refuse = self.may_refuse_unproved(from, now_s);
        let (answer, is_kept) = self.ledger.paper(request, may_refuse);
        self.counts.limited += u64::from(answer.code == Code::Busy);
        if is_kept {
            if answer.code == Code::Done {
                let leaf = settlement::paper_leaf(request, &answer, self.ledger.number());
                self.chain.push(&leaf);
            } else {
                self.charge_unproved(from, now_s);
            }
            let request = *request;
            self.append(&Entry::Paper { request, answer });
        }
        Ok(answer)
    }

    // ---- the native format ----

    fn refer(&self, header: &NativeHeader, items: &[BalanceItem]) -> Vec<u8> {
        let balances: Vec<BalanceItem> = items
            .iter()
            .map(|item| {
                let account = AccountId(item.account);
                native::balance_item(&account, self.balance(&account))
            })
            .collect();
        let mut reply = Vec::new();
        // In `express`, the balances were read from the fast path's cells, which may contain operations that are not in
        // the journal.
        let durability = if self.is_express() {
            TRANSFER_EXPRESS
        } else {
            TRANSFER_DURABLE
        };
        let _fits = native::put_balances(&mut reply, header, &balances, durability);
        reply
    }

    fn balance(&self, account: &AccountId) -> native::Balance {
        if let Some(found) = self.fastpath_balance(account) {
            return found;
        }
        let account = self.ledger.account(account).ok_or(Code::UnknownAccount)?;
        Ok((account.holding, account.version))
    }

    /// Refuses a packet without a valid signature. The packet counts as not received.
    fn unauthorised(
        &mut self,
        header: &NativeHeader,
        head: &ExecuteHead,
        operations: &[Operation],
    ) -> Vec<u8> {
        self.counts.refused += operations.len() as u64;
        let mut reply = Vec::new();
        let _fits = native::put_unauthorised(&mut reply, header, head, operations);
        reply
    }

    fn packet(&mut self, header: &NativeHeader, packet: &Packet<'_>) -> Result<Vec<u8>, NoRoom> {
        let Packet { head, operations, .. } = *packet;
        let (slot, token, sequence) = (head.slot.get(), head.token.get(), head.sequence.get());
        let body_bytes = size_of::<ExecuteHead>() + size_of_val(operations);
        let mut reply = Vec::with_capacity(size_of::<NativeHeader>() + body_bytes);
        let mut refused = |status, expected| {
            let _fits = native::put_refused(&mut reply, header, head, operations, status, expected);
            Ok(std::mem::take(&mut reply))
        };
        let outcomes = match self.ledger.session_answer(slot, token, sequence, operations) {
            Some(SessionAnswer::NoSession) => return refused(Status::NoSession, 0),
            Some(SessionAnswer::Expected(next)) => return refused(Status::Sequence, next),
            Some(SessionAnswer::Reused(next)) => return refused(Status::Reused, next),
            Some(SessionAnswer::Repeated(outcomes)) => outcomes,
            None if self.is_strangers(packet) => return Ok(self.unauthorised(header, head, operations)),
            None if !self.can_keep(slot, operations.len()) => return refused(Status::Busy, sequence),
            None => match self.execute_next(packet)? {
                Some(outcomes) => outcomes,
                None => {
                    self.counts.limited += 1;
                    return refused(Status::Busy, sequence);
                }
            },
        };
        let (outcomes, durability) = self.as_fastpath_says(operations, outcomes);
        let _fits = native::put_executed(&mut reply, header, head, operations, &outcomes, durability);
        Ok(reply)
    }

    /// Executes the next packet of a session. Returns `None` if no operation of it can be executed and its refusal may
    /// not be recorded; the packet then counts as not received.
    fn execute_next(&mut self, packet: &Packet<'_>) -> Result<Option<Vec<Outcome>>, NoRoom> {
        let Packet {
            now_s,
            head,
            operations,
            by,
            ..
        } = *packet;
        let (slot, sequence) = (head.slot.get(), head.sequence.get());
        self.reserve(Entry::execute_bytes_max(operations.len()))?;
        let (store, issuer_keys) = (&self.store, &self.issuer_keys);
        let permitted = |index: usize, source: Option<&Account>| {
            native::check(&operations[index])?;
            match packet.may(&operations[index], source, store, issuer_keys) {
                true => Ok(()),
                false => Err(Code::Unauthorised),
            }
        };
        let number_before = self.ledger.number();
        let mut outcomes = self.ledger.run(operations, permitted, now_s);
        let done = outcomes
            .iter()
            .filter(|outcome| outcome.code == Code::Done)
            .count();
        if done == 0 && !self.may_refuse(slot, now_s) {
            return Ok(None);
        }
        self.touch(slot);
        let sum = native::sum(operations);
        self.ledger.keep_executed(slot, sequence, sum, &outcomes, now_s);
        self.counts.refused += (outcomes.len() - done) as u64;
        for (operation, outcome) in native::executed(operations, &outcomes, number_before) {
            self.chain.push(&settlement::leaf(operation, outcome));
        }
        if done == 0 {
            self.charge_refusals(slot, 1, now_s);
            let code_count = entry::codes_kept(outcomes.iter().map(|outcome| outcome.code));
            // The reply, the session and the journal must contain the same codes, now and after a restart.
            self.ledger.keep_first(slot, code_count);
            outcomes[code_count..].fill(Outcome::refused(Code::Busy));
            self.append(&Entry::Refused {
                slot,
                sequence,
                now_s,
                sum,
                codes: outcomes[..code_count]
                    .iter()
                    .map(|outcome| outcome.code)
                    .collect(),
                rest: (outcomes.len() - code_count) as u16,
            });
            return Ok(Some(outcomes));
        }
        // A signature covers all operations of its packet, so the journal keeps a signed packet completely.
        if done < outcomes.len() && by.is_none() {
            let both = operations.iter().zip(&outcomes);
            let both = both.filter(|(_, outcome)| outcome.code == Code::Done);
            let (done, done_outcomes) = both.map(|(operation, outcome)| (*operation, *outcome)).unzip();
            self.append(&Entry::Partly {
                slot,
                sequence,
                now_s,
                sum,
                codes: outcomes.iter().map(|outcome| outcome.code).collect(),
                operations: done,
                outcomes: done_outcomes,
            });
            return Ok(Some(outcomes));
        }
        self.append(&Entry::Execute {
            slot,
            sequence,
            now_s,
            operations: operations.to_vec(),
            outcomes: outcomes.clone(),
            signed: by.map(|(_, signed)| Box::new(*signed)),
        });
        Ok(Some(outcomes))
    }

    /// Returns whether no operation of a signed packet can ever be executed, because its accounts belong to others and
    /// its signer may not issue. The packet then counts as not received, and nothing is recorded. (A missing account
    /// may later belong to the signer. That refusal must be recorded, or a late copy of the packet would be executed.)
    fn is_strangers(&self, packet: &Packet<'_>) -> bool {
        let Some((key, _)) = packet.by.filter(|_| self.store.requires_signature()) else {
            return false;
        };
        let is_anothers = |operation: &Operation| {
            let account = self.ledger.account(&AccountId(operation.source));
            operation.command != TRANSFER_COMMAND_TRANSFER
                || account.is_some_and(|account| account.owner != key.0)
        };
        !self.store.may_issue(packet.from.address)
            && !self.issuer_keys.contains(&key)
            && packet.operations.iter().all(is_anothers)
    }

    /// Returns whether `from` may execute this command in the paper's format, which has no signatures.
    fn may(&self, from: Source, command: u8) -> bool {
        !self.store.requires_signature()
            && (command == TRANSFER_COMMAND_TRANSFER || self.store.may_issue(from.address))
    }

    // ---- the journal ----

    /// Ensures that there is room for an entry of at most `bytes` bytes, and for the block that it may complete.
    fn reserve(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes > self.record_bytes_max {
            return Err(NoRoom);
        }
        self.reserve_all(record_bytes(bytes) + record_bytes(BLOCK_BYTES))
    }

    /// Ensures that there is room for records of `bytes` bytes in total.
    fn reserve_all(&mut self, bytes: u64) -> Result<(), NoRoom> {
        if self.failed.is_some() {
            return Err(NoRoom);
        }
        match self.journal.reserve(bytes) {
            Ok(()) => {
                self.missing_space = self.missing_space.filter(|wanted| wanted.bytes > bytes);
                Ok(())
            }
            Err(JournalError::GroupFull { .. }) => Err(NoRoom),
            Err(JournalError::Full { .. }) => {
                let looked_at_s = self.missing_space.map_or(0, |wanted| wanted.looked_at_s);
                self.missing_space = Some(MissingSpace { bytes, looked_at_s });
                Err(NoRoom)
            }
            Err(error) => {
                self.failed = Some(error.to_string());
                Err(NoRoom)
            }
        }
    }

    /// Appends an entry. The caller has ensured that there is room.
    fn append(&mut self, entry: &Entry) {
        self.is_dirty = true;
        let bytes = entry.to_bytes();
        self.written_bytes += record_bytes(bytes.len());
        if let Err(error) = self.journal.append(entry.kind(), &bytes) {
            // There was room, so the disk has another fault: the state in memory now differs from the state on the
            // disk.
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// Releases the amounts that expired pending transfers reserved.
    fn expire(&mut self, now_s: u64) {
        for id in self.ledger.expired(now_s) {
            if self.reserve(64).is_err() && self.is_dirty {
                // More transfers expire than one batch can hold. The host makes the entries so far durable, which frees
                // space for the others.
                self.settle();
            }
            if self.reserve(64).is_err() {
                return;
            }
            self.ledger.expire(&id);
            self.append(&Entry::Expire(id));
        }
    }

    fn seal_when_due(&mut self, now_s: u64) {
        let waiting = self.chain.waiting();
        if waiting == 0 {
            self.filling_since_s = now_s;
            return;
        }
        // The clock may have been set back since the block got its first operation.
        self.filling_since_s = self.filling_since_s.min(now_s);
        let is_due = waiting >= self.seal.operations
            || now_s.saturating_sub(self.filling_since_s) >= self.seal.seconds;
        if !is_due || self.reserve(BLOCK_BYTES).is_err() {
            return;
        }
        let accounts = self.ledger.account_count() as u64;
        let block = self.chain.seal(&self.key, self.ledger.issued(), accounts, now_s);
        self.append(&Entry::Block(block));
        self.chain.passed(&block);
        self.filling_since_s = now_s;
        log_seal(self.chain.blocks(), waiting, accounts);
    }

    fn no_room(&mut self, asked: &BatchRequest<'_>) -> RequestOutcome {
        self.counts.writes_refused += 1;
        let Some(request) = PaperRequest::parse(asked.payload) else {
            return refuse(asked.payload, Status::NoRoom);
        };
        paper_reply(asked, &request, PaperAnswer::refused(Code::Busy))
    }
}

/// Logs a sealed block, but at most one block in each second, because a ledger under load may seal many of them.
fn log_seal(block: u64, operations: usize, accounts: u64) {
    static LIMIT: LogLimit = LogLimit::new(Duration::from_secs(1));
    tracing::debug!(block, operations, accounts, "transfer: sealed a block");
    if let Some(left_out) = LIMIT.admit() {
        tracing::info!(
            block,
            operations,
            accounts,
            blocks_not_logged = left_out,
            "transfer: sealed a block"
        );
    }
}

fn paper_reply(asked: &BatchRequest<'_>, request: &PaperRequest, answer: PaperAnswer) -> RequestOutcome {
    let mut reply = Vec::with_capacity(asked.payload.len());
    let _fits = paper::put_reply(request, asked.payload, answer, &mut reply);
    RequestOutcome::reply(reply)
}

/// Returns the refusal of a whole native packet.
fn refuse(payload: &[u8], status: Status) -> RequestOutcome {
    let reply = NativeHeader::ref_from_prefix(payload)
        .ok()
        .map(|(header, _)| wire::reply_header(header, status, 0).as_bytes().to_vec());
    RequestOutcome { reply, drop: None }
}
