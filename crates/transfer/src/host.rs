//! The host: executes requests in groups, makes each group durable with one fdatasync, shows near what changed, and
//! only then answers. In `express` near executes, and the host follows ([`Host::drain`]).
//!
//! One thread owns it. It has no clock and no chance of its own: both are given, so that a simulator can repeat a run.

mod express;
mod open;
mod sessions;

pub use open::{Audit, Executing, OpenError, Opened, Setup, audit, prove};
pub use sessions::SessionPolicy;

use crate::AccountId;
use crate::entry::Entry;
use crate::ledger::{Ledger, SessionAnswer};
use crate::native::{self, Outcome, Request};
use crate::paper::{PaperAnswer, PaperRequest};
use crate::settlement::{self, BLOCK_BYTES, Chain};
use crate::store::Store;
use crate::writer::TransferFill;
use express::Express;
use k256::ecdsa::SigningKey;
use lineside_journal::{Disk, Error as JournalError, Journal, record_bytes};
use lineside_near::{Asked, DropReason, Said, Source};
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, Operation, Status, TRANSFER_COMMAND_REFER,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_DURABLE, TransferCode as Code, native as wire,
};
use sessions::Sessions;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// When a block is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealPolicy {
    /// After so many operations.
    pub operations: usize,
    /// Or so many seconds after the first of them.
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

/// What a host counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests answered.
    pub replies: u64,
    /// Operations refused.
    pub refused: u64,
    /// Groups made durable.
    pub groups: u64,
    /// Requests refused because nothing could be written.
    pub writes_refused: u64,
    /// Accounts that found no room in near.
    pub homeless: u64,
}

/// Journal, ledger and what near is told.
pub struct Host<D: Disk> {
    journal: Journal<D>,
    ledger: Ledger,
    store: Arc<Store>,
    fill: Box<dyn TransferFill>,
    chain: Chain,
    key: SigningKey,
    seal: SealPolicy,
    /// The host's clock when the open block got its first operation.
    filling_since_s: u64,
    sessions: Sessions,
    /// `None`: `durable`.
    express: Option<Express>,
    /// No longer entry finds room in the journal.
    record_bytes_max: usize,
    /// Appended since the last commit.
    is_dirty: bool,
    /// Writing has ended: what is in memory is not what is on the disk.
    failed: Option<String>,
    counts: Counts,
    written_bytes: u64,
}

/// The journal cannot take this request.
struct NoRoom;

impl<D: Disk> Host<D> {
    /// The state as it is on the disk.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What it counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Blocks sealed so far.
    pub fn blocks(&self) -> u64 {
        self.chain.blocks()
    }

    /// Bytes that the journal has written since it was opened.
    pub fn journal_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Why nothing is written any more, if that is so.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Executes a group at the time `now_s` (seconds since 1970), makes it durable, and says what becomes of each.
    pub fn group(&mut self, now_s: u64, requests: &[Asked<'_>]) -> Vec<Said> {
        let mut said = Vec::with_capacity(requests.len());
        // Replies of a group that could not be made durable may not leave: from here on.
        let mut durable = 0;
        let is_level = self.rest_for(now_s, requests);
        if is_level {
            self.expire(now_s);
        }
        for request in requests {
            if !is_level && express::may_change(request.payload) {
                said.push(self.no_room(request));
                continue;
            }
            let mut answer = self.one(now_s, request);
            if answer.is_err() && self.is_dirty {
                // The group may have been too large: what it holds is made durable, then there is room again.
                durable = self.finish(&mut said, durable);
                answer = self.one(now_s, request);
            }
            said.push(answer.unwrap_or_else(|NoRoom| self.no_room(request)));
        }
        self.seal_when_due(now_s);
        self.finish(&mut said, durable);
        self.go_on();
        self.counts.replies += said.iter().filter(|said| said.reply.is_some()).count() as u64;
        said
    }

    /// What is due without a request: expiries, and the block.
    pub fn tick(&mut self, now_s: u64) {
        self.group(now_s, &[]);
    }

    /// Commits; the replies from `durable` on leave only if that succeeds. Returns how many may leave now.
    fn finish(&mut self, said: &mut [Said], durable: usize) -> usize {
        if self.is_dirty {
            self.is_dirty = false;
            if self.failed.is_none()
                && let Err(error) = self.journal.commit()
            {
                self.failed = Some(error.to_string());
            }
            if self.failed.is_some() {
                // Not even a refusal: whether they were executed is known after the restart.
                said[durable..].fill_with(Said::default);
                return said.len();
            }
            self.counts.groups += 1;
        }
        if self.failed.is_some() {
            return said.len();
        }
        self.show();
        said.len()
    }

    fn one(&mut self, now_s: u64, asked: &Asked<'_>) -> Result<Said, NoRoom> {
        let paper = PaperRequest::parse(asked.payload);
        // First of all: what is no request gets no answer, not even that there is no room.
        if let Some(reason) = self.drop_reason(asked.payload, paper.as_ref()) {
            return Ok(Said::drop(reason));
        }
        if self.failed.is_some() {
            // Not even what is asked for can be told: what is in memory is not what is on the disk. Near goes on.
            return Err(NoRoom);
        }
        if let Some(request) = paper {
            return self.paper(asked, &request);
        }
        let request = match Request::parse(asked.payload) {
            Ok(request) => request,
            Err(status) => return Ok(refuse(asked.payload, status)),
        };
        let reply = match request {
            Request::Refer(header, items) => self.refer(header, items),
            Request::Execute(header, head, operations) => {
                self.execute(now_s, asked, header, head, operations)?
            }
            Request::Session(header, body) => self.session(now_s, asked, header, body)?,
        };
        Ok(Said::reply(reply))
    }

    /// Why a packet is no request to us, if it is none.
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

    fn paper(&mut self, asked: &Asked<'_>, request: &PaperRequest) -> Result<Said, NoRoom> {
        let answer = self.paper_answer(asked.from, request)?;
        self.counts.refused += u64::from(answer.code != Code::Done);
        Ok(paper_reply(asked, request, answer))
    }

    fn paper_answer(&mut self, from: Source, request: &PaperRequest) -> Result<PaperAnswer, NoRoom> {
        let command = match request.command() {
            Ok(command) => command,
            Err(code) => return Ok(PaperAnswer::refused(code)),
        };
        if command == TRANSFER_COMMAND_REFER {
            let found = self.balance(&request.source_id());
            return Ok(found.map(|(holding, _)| holding.balance).into());
        }
        if !self.may(from, command) {
            return Ok(PaperAnswer::refused(Code::Unauthorised));
        }
        if let Some(answer) = self.ledger.paper_answer(request) {
            return Ok(answer);
        }
        self.reserve(64)?;
        let (answer, is_kept) = self.ledger.paper(request);
        if is_kept {
            self.chain
                .push(&settlement::paper_leaf(request, &answer, self.ledger.number()));
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
        let _fits = native::put_balances(&mut reply, header, &balances, TRANSFER_DURABLE);
        reply
    }

    fn balance(&self, account: &AccountId) -> native::Balance {
        if let Some(found) = self.near_balance(account) {
            return found;
        }
        let account = self.ledger.account(account).ok_or(Code::UnknownAccount)?;
        Ok((account.holding, account.version))
    }

    fn execute(
        &mut self,
        now_s: u64,
        asked: &Asked<'_>,
        header: &NativeHeader,
        head: &ExecuteHead,
        operations: &[Operation],
    ) -> Result<Vec<u8>, NoRoom> {
        let (slot, token, sequence) = (head.slot.get(), head.token.get(), head.sequence.get());
        let mut reply = Vec::new();
        let mut refused = |status, expected| {
            let _fits = native::put_refused(&mut reply, header, head, operations, status, expected);
            Ok(std::mem::take(&mut reply))
        };
        let outcomes = match self.ledger.session_answer(slot, token, sequence, operations) {
            Some(SessionAnswer::NoSession) => return refused(Status::NoSession, 0),
            Some(SessionAnswer::Expected(next)) => return refused(Status::Sequence, next),
            Some(SessionAnswer::Reused(next)) => return refused(Status::Reused, next),
            Some(SessionAnswer::Repeated(outcomes)) => outcomes,
            None => self.execute_next(now_s, asked.from, slot, sequence, operations)?,
        };
        let (outcomes, durability) = self.as_near_says(operations, outcomes);
        let _fits = native::put_executed(&mut reply, header, head, operations, &outcomes, durability);
        Ok(reply)
    }

    fn execute_next(
        &mut self,
        now_s: u64,
        from: Source,
        slot: u32,
        sequence: u64,
        operations: &[Operation],
    ) -> Result<Vec<Outcome>, NoRoom> {
        self.reserve(64 + operations.len() * (size_of::<Operation>() + size_of::<Outcome>()))?;
        let permitted: Vec<bool> = operations
            .iter()
            .map(|operation| self.may(from, operation.command))
            .collect();
        let permitted = |index: usize| {
            if permitted[index] {
                Ok(())
            } else {
                Err(Code::Unauthorised)
            }
        };
        self.touch(slot);
        let outcomes = self.ledger.execute(slot, sequence, operations, permitted, now_s);
        for (operation, outcome) in operations.iter().zip(&outcomes) {
            self.chain.push(&settlement::leaf(operation, outcome));
            self.counts.refused += u64::from(outcome.code != Code::Done);
        }
        self.append(&Entry::Execute {
            slot,
            sequence,
            now_s,
            operations: operations.to_vec(),
            outcomes: outcomes.clone(),
        });
        Ok(outcomes)
    }

    /// Whether `from` may do this without a signature.
    fn may(&self, from: Source, command: u8) -> bool {
        !self.store.requires_signature()
            && (command == TRANSFER_COMMAND_TRANSFER || self.store.may_issue(from.address))
    }

    // ---- the journal ----

    /// Makes sure of room for an entry of at most so many bytes, and for the block that it may complete.
    fn reserve(&mut self, bytes: usize) -> Result<(), NoRoom> {
        if bytes > self.record_bytes_max {
            return Err(NoRoom);
        }
        self.reserve_all(record_bytes(bytes) + record_bytes(BLOCK_BYTES))
    }

    /// Makes sure of room for records of so many bytes together.
    fn reserve_all(&mut self, bytes: u64) -> Result<(), NoRoom> {
        if self.failed.is_some() {
            return Err(NoRoom);
        }
        match self.journal.reserve(bytes) {
            Ok(()) => Ok(()),
            Err(JournalError::Full { .. } | JournalError::GroupFull { .. }) => Err(NoRoom),
            Err(error) => {
                self.failed = Some(error.to_string());
                Err(NoRoom)
            }
        }
    }

    /// Appends an entry for which there is room.
    fn append(&mut self, entry: &Entry) {
        self.is_dirty = true;
        let bytes = entry.to_bytes();
        self.written_bytes += record_bytes(bytes.len());
        if let Err(error) = self.journal.append(entry.kind(), &bytes) {
            // There was room: whatever it is, what is in memory is not what will be on the disk.
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// Gives back what expired pending transfers had set aside.
    fn expire(&mut self, now_s: u64) {
        for id in self.ledger.expired(now_s) {
            if self.reserve(64).is_err() && self.is_dirty {
                // More than a group holds: those so far are made durable, then there is room again.
                self.finish(&mut [], 0);
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
    }

    fn no_room(&mut self, asked: &Asked<'_>) -> Said {
        self.counts.writes_refused += 1;
        let Some(request) = PaperRequest::parse(asked.payload) else {
            return refuse(asked.payload, Status::NoRoom);
        };
        paper_reply(asked, &request, PaperAnswer::refused(Code::Busy))
    }
}

fn paper_reply(asked: &Asked<'_>, request: &PaperRequest, answer: PaperAnswer) -> Said {
    let mut reply = Vec::with_capacity(asked.payload.len());
    let _fits = request.put_reply(asked.payload, answer, &mut reply);
    Said::reply(reply)
}

/// The refusal of a native packet as a whole.
fn refuse(payload: &[u8], status: Status) -> Said {
    let reply = NativeHeader::ref_from_prefix(payload)
        .ok()
        .map(|(header, _)| wire::reply_header(header, status, 0).as_bytes().to_vec());
    Said { reply, drop: None }
}
