//! Mode `express`: the fast path executes operations, and the host follows. The host applies the records in the fast
//! path's rings to ledger and journal. It executes forwarded requests itself, on accounts and sessions that it claims
//! meanwhile.
//!
//! Some things cannot be claimed, such as an account that does not exist yet. For these, the host pauses the fast path
//! by ending its lease, which only the host renews in this mode. Once all replies in progress have been sent and the
//! rings are empty, ledger and fast path are in sync, and remain so until the lease is renewed
//! (`docs/decisions/transfer-express.md`).

mod withheld;

use super::{Executing, Host};
use crate::AccountId;
use crate::cell;
use crate::claims::{STEP_CELLS_MAX, Slot};
use crate::entry::Entry;
use crate::ledger::{Change, RecordResult};
use crate::native::{self, Outcome, Request};
use crate::paper::PaperRequest;
use crate::ring::{NO_SESSION, Record, Ring};
use crate::settlement;
use crate::store::Store;
use crate::writer::{show_last, show_session};
use lineside_fastpath::{BatchRequest, lease};
use lineside_journal::{Disk, record_bytes};
use lineside_messages::transfer::KeyId;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_REFER, TRANSFER_DURABLE, TRANSFER_EXPRESS,
    TRANSFER_FLAG_LINKED, TRANSFER_LINE_OPERATIONS_MAX, TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE,
    TRANSFER_OP_OPEN, TRANSFER_OP_SIGNED, TransferCode as Code, native as wire,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use withheld::Withheld;

/// Maximum number of records applied between two commits, except to complete a packet.
const RECORDS_PER_COMMIT_MAX: usize = 16 << 10;

/// Maximum number of polls for the remaining records of a packet, which the fast path writes within a microsecond.
const PACKET_POLLS_MAX: u32 = 1 << 24;

/// Seconds by which the host's clock may be ahead of the journal's clock when the host journals records of the fast
/// path, which contain no host time. If the difference is larger, the host journals its time first.
const CLOCK_S: u64 = 60;

/// State of a host in `express`.
pub(super) struct Express {
    fastpath: Executing,
    /// Number of the next record of each ring.
    next: Vec<u64>,
    phase: Phase,
    /// True if the disk has no space for the fast path's operations. The fast path continues until its rings are full.
    full: bool,
    /// Slots of the sessions that the host changed and has to publish to the fast path.
    slots: BTreeSet<u32>,
    withheld: Withheld,
}

/// State of the fast path relative to the host.
enum Phase {
    /// The fast path executes everything and is ahead of the ledger, which follows.
    Following,
    /// The host has claimed accounts and sessions, in which ledger and fast path were in sync when they were claimed.
    Claimed(ClaimedState),
    /// The fast path is paused; ledger and fast path were in sync.
    Resting,
}

/// Accounts and sessions that the host needs, and those that it has claimed.
#[derive(Default)]
struct ClaimedState {
    /// Index of each account's cell; `None` if the account is not in the fast-path table.
    accounts: BTreeMap<AccountId, Option<u32>>,
    slots: BTreeSet<u32>,
}

impl ClaimedState {
    fn cells(&self) -> Vec<u32> {
        self.accounts.values().copied().flatten().collect()
    }

    /// Returns the cells that one step changes, in ascending order, without accounts that are not in the fast-path
    /// table.
    fn cells_of(&self, step: &[Change]) -> Vec<(u32, Change)> {
        let place = |change: &Change| Some((self.accounts.get(&change.account).copied()??, *change));
        // If the step changed an account twice, the later change is the one that counts.
        let cells: BTreeMap<u32, Change> = step.iter().filter_map(place).collect();
        cells.into_iter().collect()
    }

    fn slots(&self) -> Vec<u32> {
        self.slots.iter().copied().collect()
    }

    fn add(&mut self, accounts: impl IntoIterator<Item = AccountId>) {
        self.accounts
            .extend(accounts.into_iter().map(|account| (account, None)));
    }

    /// Returns the cells of accounts that were not in the fast-path table at the previous call.
    fn find(&mut self, store: &Store) -> Vec<u32> {
        let missing = self.accounts.iter_mut().filter(|(_, index)| index.is_none());
        missing
            .filter_map(|(account, index)| {
                *index = store.find(account).map(|index| index as u32);
                *index
            })
            .collect()
    }

    /// Returns whether the fast-path table now contains an account that it did not contain at the last call of
    /// [`Self::find`].
    fn has_more(&self, store: &Store) -> bool {
        let mut missing = self.accounts.iter().filter(|(_, index)| index.is_none());
        missing.any(|(account, _)| store.find(account).is_some())
    }
}

impl Express {
    pub(super) fn new(store: &Store, fastpath: Executing, refusals_per_s: u32) -> Self {
        let rings = 0..store.rings.as_slice().len();
        // The credit for refusals starts at 0; the host sets it when it executes its first batch.
        store.set_paper_refusals(0);
        Self {
            fastpath,
            next: rings.map(|index| Ring::of(store, index).tail()).collect(),
            phase: Phase::Following,
            full: false,
            slots: BTreeSet::new(),
            withheld: Withheld::new(refusals_per_s),
        }
    }
}

impl<D: Disk> Host<D> {
    /// Marks a session that the host has to publish to the fast path.
    pub(super) fn touch(&mut self, slot: u32) {
        if let Some(express) = &mut self.express {
            express.slots.insert(slot);
        }
    }

    /// Returns whether the fast path executes operations.
    pub fn is_express(&self) -> bool {
        self.express.is_some()
    }

    /// Returns whether the disk has no room for the fast path's operations or for the last request.
    pub fn is_full(&self) -> bool {
        self.missing_space.is_some() && self.failed.is_none()
    }

    /// Returns the number of operations that the fast path has executed and that are not in the journal yet.
    pub fn unjournaled(&self) -> u64 {
        Ring::waiting_in(&self.store)
    }

    /// Applies the records that are in the rings now, not those that the fast path adds meanwhile, and commits them.
    /// Does nothing in `durable`.
    pub fn drain(&mut self) {
        let rings = 0..self.store.rings.as_slice().len();
        let until: Vec<u64> = rings.map(|index| Ring::of(&self.store, index).head()).collect();
        while self.express.is_some() && self.failed.is_none() && self.drain_some(&until) > 0 {}
        self.charge_refused();
        let full = self.failed.is_none() && self.unjournaled() > 0 && !self.has_room_for_packets();
        if let Some(express) = &mut self.express {
            express.full = full;
        }
    }

    /// Applies about [`RECORDS_PER_COMMIT_MAX`] of the records before `until`; returns their number. A packet whose
    /// first record is applied is applied completely, so that no batch ends within a packet: its rest is in the ring,
    /// or is just being written.
    fn drain_some(&mut self, until: &[u64]) -> usize {
        let Some(mut next) = self.express.as_ref().map(|express| express.next.clone()) else {
            return 0;
        };
        let store = Arc::clone(&self.store);
        let mut until = until.to_vec();
        let mut within = vec![false; next.len()];
        let mut refused = vec![Vec::new(); next.len()];
        let (mut drained, mut has_more, mut looks) = (0, true, 0);
        while has_more && self.failed.is_none() {
            (has_more, looks) = (false, looks + 1);
            for (index, next) in next.iter_mut().enumerate() {
                let ring = Ring::of(&store, index);
                while (within[index]
                    || (drained < RECORDS_PER_COMMIT_MAX
                        && *next < until[index]
                        && self.has_room_for_packets()))
                    && let Some(record) = ring.read(*next)
                {
                    match self.ledger.line(&record) {
                        Ok(RecordResult::Done) => {
                            self.note(record, &mut refused[index]);
                            drained += 1;
                            within[index] = record.index + 1 < record.count;
                        }
                        // The record was in the journal before the last start, but its ring did not know that.
                        Ok(RecordResult::Seen) => {}
                        Ok(RecordResult::Waits) => break,
                        Err(what) => {
                            let what = format!(
                                "the fast path and the ledger differ at record {next} of ring {index}: {what}"
                            );
                            self.failed = Some(what);
                            break;
                        }
                    }
                    *next += 1;
                    (has_more, looks) = (true, 0);
                }
            }
            if within.contains(&true) {
                has_more = true;
                // A record that this packet depends on may have been written to another ring after that ring's end was
                // read.
                for (index, until) in until.iter_mut().enumerate() {
                    *until = Ring::of(&store, index).head();
                }
                if looks == PACKET_POLLS_MAX {
                    self.failed = Some("the fast path wrote only a part of a packet to its ring".into());
                }
            }
        }
        self.settle();
        if self.failed.is_some() {
            lease::end(&self.store.control().lease_until_ns);
        } else if let Some(express) = &mut self.express {
            for (index, next) in next.iter().enumerate() {
                Ring::of(&store, index).release(*next);
            }
            express.next = next;
        }
        drained
    }

    /// Journals a record that the ledger has applied. A packet of which the fast path executed nothing becomes one
    /// short entry: `refused` collects its records until the packet ends or has an executed operation.
    fn note(&mut self, record: Record, refused: &mut Vec<Record>) {
        let is_done = record.code == Code::Done as u16;
        if is_done {
            let leaf = settlement::line_leaf(&record, self.ledger.number());
            self.chain.push(&leaf);
        }
        if record.index == 0 {
            refused.clear();
        }
        let is_whole = refused.len() == usize::from(record.index);
        if is_done || record.slot == NO_SESSION || !is_whole {
            for before in refused.drain(..) {
                self.append(&Entry::Line(before));
            }
            return self.append(&Entry::of_record(record));
        }
        refused.push(record);
        if record.index + 1 == record.count {
            let codes = refused
                .drain(..)
                .filter_map(|record| Code::from_code(record.code));
            let codes = codes.collect();
            self.note_refused(record.slot);
            self.append(&Entry::Refused {
                slot: record.slot,
                sequence: record.sequence,
                now_s: self.ledger.clock_s(),
                sum: record.sum,
                codes,
                rest: 0,
            });
        }
    }

    /// Returns whether the host may close this session now, because only the host executes its packets.
    pub(super) fn may_close(&self, slot: u32) -> bool {
        match self.express.as_ref().map(|express| &express.phase) {
            None | Some(Phase::Resting) => true,
            Some(Phase::Claimed(claimed)) => claimed.slots.contains(&slot),
            Some(Phase::Following) => false,
        }
    }

    /// Ensures that the journal has room for one packet of each ring, because these packets may have to be applied
    /// together.
    fn has_room_for_packets(&mut self) -> bool {
        let records = self.store.rings.as_slice().len() * TRANSFER_LINE_OPERATIONS_MAX;
        let bytes = records as u64 * record_bytes(size_of::<Record>());
        self.reserve_all(bytes).is_ok()
    }

    /// Stops the fast path and applies the records in its rings. The lease is not renewed after this.
    pub fn end(&mut self) {
        if let Some(express) = self.express.as_ref() {
            lease::end(&self.store.control().lease_until_ns);
            express.fastpath.readers.wait();
        }
        self.drain();
        self.settle();
    }

    /// Gives the outcomes of a plain packet the form in which the fast path reports them, because the fast path may be
    /// the one that repeats the reply.
    pub(super) fn as_fastpath_says(
        &self,
        operations: &[Operation],
        mut outcomes: Vec<Outcome>,
    ) -> (Vec<Outcome>, u16) {
        if self.express.is_none() || !crate::fastpath::is_plain(operations) {
            return (outcomes, TRANSFER_DURABLE);
        }
        for outcome in &mut outcomes {
            outcome.number = 0;
        }
        (outcomes, TRANSFER_EXPRESS)
    }

    /// Brings ledger and fast path in sync for everything that these requests may change and everything that has
    /// expired, and keeps the fast path from changing it. Returns `false` if they are not in sync, because the disk
    /// has no room for the fast path's operations; then nothing may be executed.
    pub(super) fn acquire(
        &mut self,
        now_s: u64,
        requests: &[BatchRequest<'_>],
        signers: &[Option<KeyId>],
    ) -> bool {
        self.tell_time(now_s);
        if self.express.is_some()
            && now_s > self.ledger.clock_s().saturating_add(CLOCK_S)
            && self.unjournaled() > 0
            && self.reserve(64).is_ok()
        {
            // Records of the fast path do not contain the time of the host's clock.
            self.ledger.time(now_s);
            self.append(&Entry::Time { now_s });
        }
        self.drain();
        let Some(express) = &mut self.express else {
            return true;
        };
        if self.store.requires_signature() && Ring::waiting_in(&self.store) == 0 {
            // With required signatures, the fast path executes no operations, so it needs no pause.
            express.phase = Phase::Resting;
            return true;
        }
        match self.needed(now_s, requests, signers) {
            Some(needed) if needed.accounts.is_empty() && needed.slots.is_empty() => true,
            Some(needed) => match self.claim(needed) {
                Some(is_level) => is_level,
                None => self.quiesce(),
            },
            None => self.quiesce(),
        }
    }

    /// Pauses the fast path. Returns `false` if ledger and fast path are not in sync, because the disk has no room for
    /// the fast path's operations.
    fn quiesce(&mut self) -> bool {
        self.counts.rests += 1;
        lease::end(&self.store.control().lease_until_ns);
        if let Some(express) = &self.express {
            express.fastpath.readers.wait();
        }
        self.drain();
        let is_level = self.unjournaled() == 0;
        if let Some(express) = self.express.as_mut().filter(|_| is_level) {
            express.phase = Phase::Resting;
        }
        is_level
    }

    /// Returns the accounts and sessions that these requests and the expired transfers may change; `None` if not all
    /// of them can be claimed.
    fn needed(
        &self,
        now_s: u64,
        requests: &[BatchRequest<'_>],
        signers: &[Option<KeyId>],
    ) -> Option<ClaimedState> {
        let (mut needed, mut opened) = (ClaimedState::default(), 0);
        for id in self.ledger.expired(now_s) {
            let pending = self.ledger.pending(&id);
            needed.add([id.0]);
            needed.add(pending.map(|pending| pending.destination));
        }
        for (at, batch_request) in requests.iter().enumerate() {
            let signer = signers.get(at).copied().flatten();
            if let Ok(Request::Session(header, body)) = Request::parse(batch_request.payload)
                && header.op == TRANSFER_OP_OPEN
                && body.challenge != [0; 16]
                && self.needs_idle(batch_request.from)
            {
                needed
                    .slots
                    .extend(self.idle_for(now_s, batch_request.from, opened));
                opened += 1;
            }
            if !self.may_change(batch_request.payload, signer) {
                continue;
            }
            // A request whose sender may not create accounts is refused, so its accounts need not exist.
            let makes = |account: &AccountId| {
                let may = self.store.may_issue(batch_request.from.address) || signer.is_some();
                may && self.store.find(account).is_none()
            };
            if let Some(request) = PaperRequest::parse(batch_request.payload) {
                let source = request.source_id();
                if request.command() == Ok(TRANSFER_COMMAND_CREATE) && makes(&source) {
                    return None;
                }
                needed.add([source, request.destination_id()]);
                continue;
            }
            let session_of = |slot, token| {
                let session = self.ledger.session(slot);
                session
                    .is_some_and(|session| session.token == token)
                    .then_some(slot)
            };
            match Request::parse(batch_request.payload) {
                Ok(Request::Execute(_, head, operations) | Request::Signed(_, _, head, operations)) => {
                    let Some(slot) = session_of(head.slot.get(), head.token.get()) else {
                        continue;
                    };
                    let is_new = |operation: &Operation| {
                        operation.command == TRANSFER_COMMAND_CREATE && makes(&AccountId(operation.source))
                    };
                    let mut chains = operations.chunk_by(|one, _| one.flags & TRANSFER_FLAG_LINKED != 0);
                    if chains.any(|chain| 2 * chain.len() > STEP_CELLS_MAX) || operations.iter().any(is_new) {
                        return None;
                    }
                    needed.slots.insert(slot);
                    needed.add(operations.iter().flat_map(native::accounts));
                }
                Ok(Request::Session(_, body)) => {
                    needed.slots.extend(session_of(body.slot.get(), body.token.get()));
                }
                Ok(Request::Refer(..)) | Err(_) => {}
            }
        }
        Some(needed)
    }

    /// Claims accounts and sessions, and applies the fast path's operations on them to the ledger. Returns `false` as
    /// [`Self::acquire`] does; `None` if they cannot be claimed.
    fn claim(&mut self, mut needed: ClaimedState) -> Option<bool> {
        let claims = Arc::clone(&self.express.as_ref()?.fastpath.claims);
        let slots = needed.slots();
        let mut is_ours = claims.claim(&[], &slots).is_ok();
        loop {
            let cells = needed.find(&self.store);
            is_ours = is_ours && claims.claim(&cells, &[]).is_ok();
            // An account that the fast path has created meanwhile may be in the ledger now; the next round claims it.
            let is_level = is_ours && self.catch_up();
            if is_level && needed.has_more(&self.store) {
                continue;
            }
            if is_level {
                self.counts.claims += 1;
                self.express.as_mut()?.phase = Phase::Claimed(needed);
                return Some(true);
            }
            // If giving back fails, the fast path forwards requests for these accounts and sessions to the host until
            // the next start.
            let slots = self.express.as_mut()?.withheld.take_given_back(&slots);
            let _ = claims.give_back(&needed.cells(), &slots);
            return is_ours.then_some(false);
        }
    }

    /// Applies everything that the fast path has executed so far. Returns `false` if the disk has no room for it.
    fn catch_up(&mut self) -> bool {
        let rings = 0..self.store.rings.as_slice().len();
        let until: Vec<u64> = rings.map(|index| Ring::of(&self.store, index).head()).collect();
        loop {
            self.drain();
            let Some(express) = &self.express else {
                return true;
            };
            if express.next.iter().zip(&until).all(|(next, until)| next >= until) {
                return self.failed.is_none();
            }
            // The record that this ring waits for may be in another ring; the next round applies it.
            if express.full || self.failed.is_some() {
                return false;
            }
        }
    }

    /// Returns the state of an account in the fast-path table, if the fast path is ahead of the ledger; `None` if the
    /// ledger has the current state.
    pub(super) fn fastpath_balance(&self, account: &AccountId) -> Option<native::Balance> {
        self.express.as_ref().filter(|express| match &express.phase {
            Phase::Following => true,
            Phase::Claimed(claimed) => !matches!(claimed.accounts.get(account), Some(Some(_))),
            Phase::Resting => false,
        })?;
        match self.store.find(account) {
            Some(index) => cell::read(&self.store.cells.as_slice()[index]).map(Ok),
            None => Some(Err(Code::UnknownAccount)),
        }
    }

    /// Returns the last sequence number of a session in the fast-path table, if the fast path is ahead of the ledger
    /// and knows the session.
    pub(super) fn fastpath_sequence(&self, slot: u32, token: u64) -> Option<u64> {
        self.express.as_ref().filter(|express| match &express.phase {
            Phase::Following => true,
            Phase::Claimed(claimed) => !claimed.slots.contains(&slot),
            Phase::Resting => false,
        })?;
        let place = self.store.sessions.as_slice().get(slot as usize)?;
        (place.token.load(Acquire) == token).then(|| place.sequence.load(Acquire))
    }

    /// Publishes the host's changes to the fast path. In `express`, the fast path must be paused, or the accounts
    /// claimed.
    pub(super) fn publish(&mut self, changes: &[Change]) {
        let Some(express) = &mut self.express else {
            self.counts.homeless += self.fill.apply(changes) as u64;
            return;
        };
        let slots = std::mem::take(&mut express.slots);
        let (claims, mut result) = (&express.fastpath.claims, Ok(()));
        let changed: BTreeSet<AccountId> = match &express.phase {
            // The fast path made the changes itself, except the opening of sessions.
            Phase::Following => BTreeSet::new(),
            Phase::Claimed(claimed) => {
                let steps = changes.chunk_by(|one, next| one.step == next.step);
                for step in steps {
                    result = result.and_then(|()| claims.put(&claimed.cells_of(step)));
                }
                changes.iter().map(|change| change.account).collect()
            }
            Phase::Resting => {
                self.counts.homeless += self.fill.apply(changes) as u64;
                changes.iter().map(|change| change.account).collect()
            }
        };
        for id in &changed {
            let last = self.ledger.account(id).and_then(|account| account.last);
            show_last(&self.store, id, last.as_ref());
        }
        for slot in slots.iter().copied() {
            let session = self.ledger.session(slot);
            match &express.phase {
                Phase::Claimed(claimed) if claimed.slots.contains(&slot) => {
                    result = result.and_then(|()| claims.put_session(&Slot::of(slot, session)));
                }
                _ => show_session(&self.store, slot, session),
            }
        }
        let slots: Vec<u32> = slots.into_iter().collect();
        claims.shown(&changed.into_iter().collect::<Vec<_>>(), &slots);
        if let Err(error) = result {
            // The change is in the journal, and the next start of the server publishes it.
            self.failed = Some(format!(
                "the fast-path table could not be updated: {error}; restart the server"
            ));
        }
    }

    /// Resumes the fast path, unless writing has ended: then the fast path stops executing, and the next host releases
    /// the claims.
    pub(super) fn go_on(&mut self) {
        self.withhold();
        let Some(express) = &mut self.express else { return };
        if self.failed.is_none() {
            let (cells, slots) = match std::mem::replace(&mut express.phase, Phase::Following) {
                Phase::Claimed(claimed) => (claimed.cells(), claimed.slots()),
                Phase::Following | Phase::Resting => Default::default(),
            };
            let slots = express.withheld.take_given_back(&slots);
            if let Err(error) = express.fastpath.claims.give_back(&cells, &slots) {
                self.failed = Some(format!(
                    "accounts that the host had claimed could not be given back to the fast path: {error}; restart the \
                     server"
                ));
            }
        }
        let lease = &self.store.control().lease_until_ns;
        match &self.failed {
            None => lease::renew(lease, express.fastpath.lease_ns),
            Some(_) => lease::end(lease),
        }
    }

    /// Returns whether executing this request may change the fast-path table: a write that is not refused anyway, or
    /// closing a session.
    pub(super) fn may_change(&self, payload: &[u8], signer: Option<KeyId>) -> bool {
        let unsigned = !self.store.requires_signature();
        if let Some(request) = PaperRequest::parse(payload) {
            let writes = |command| command != TRANSFER_COMMAND_REFER;
            return unsigned && request.command().is_ok_and(writes);
        }
        wire::is_native(payload)
            && match payload[3] {
                TRANSFER_OP_EXECUTE => unsigned,
                TRANSFER_OP_SIGNED => signer.is_some(),
                op => op == TRANSFER_OP_CLOSE,
            }
    }
}
