//! `express`: the fast path executes, and the host follows. It takes what the fast path's rings hold into ledger and
//! journal; what the fast path leaves to it, it executes itself, on accounts and sessions that it claims for so long.
//!
//! What cannot be claimed, such as an account that is not there yet, it executes while the fast path rests, by the end
//! of its lease, which nobody but the host renews here: when every answer under way has left and the rings are empty,
//! ledger and fast path are the same, and stay so until the lease is renewed
//! (`docs/decisions/transfer-express.md`).

mod withheld;

use super::{Executing, Host};
use crate::AccountId;
use crate::cell;
use crate::claims::{STEP_CELLS_MAX, Slot};
use crate::entry::Entry;
use crate::ledger::{Change, Taken};
use crate::native::{self, Outcome, Request};
use crate::paper::PaperRequest;
use crate::ring::{NO_SESSION, Record, Ring};
use crate::settlement;
use crate::signed::KeyId;
use crate::store::Store;
use crate::writer::{show_last, show_session};
use lineside_fastpath::{BatchRequest, lease};
use lineside_journal::{Disk, record_bytes};
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_REFER, TRANSFER_DURABLE, TRANSFER_EXPRESS,
    TRANSFER_FLAG_LINKED, TRANSFER_LINE_OPERATIONS_MAX, TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE,
    TRANSFER_OP_OPEN, TRANSFER_OP_SIGNED, TransferCode as Code, native as wire,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use withheld::Withheld;

/// Records taken between two commits.
const RECORDS: usize = 16 << 10;

/// How often it is looked in vain for the rest of a packet, which the fast path writes within a microsecond.
const LOOKS: u32 = 1 << 24;

/// Seconds by which the journal's clock may be behind when records of the fast path are written down.
const CLOCK_S: u64 = 60;

/// What a host in `express` has besides.
pub(super) struct Express {
    fastpath: Executing,
    /// Of each ring, the next record.
    next: Vec<u64>,
    phase: Phase,
    /// The disk has no room for what the fast path did. The fast path goes on until its rings are full.
    full: bool,
    /// Sessions that the host changed.
    slots: BTreeSet<u32>,
    withheld: Withheld,
}

/// What the fast path leaves to the host just now.
enum Phase {
    /// Nothing that the ledger has not followed: the fast path is ahead of it.
    Following,
    /// These accounts and sessions; of them ledger and fast path were the same when they were claimed.
    Claimed(Claimed),
    /// Everything: ledger and fast path were the same.
    Resting,
}

/// Accounts and sessions that the host needs, and those that it has.
#[derive(Default)]
struct Claimed {
    /// Where the fast path has none the index is not known.
    accounts: BTreeMap<AccountId, Option<u32>>,
    slots: BTreeSet<u32>,
}

impl Claimed {
    fn cells(&self) -> Vec<u32> {
        self.accounts.values().copied().flatten().collect()
    }

    /// What one step leaves in the fast path, in the order of the cells. What has found no room in the fast path is not
    /// in it.
    fn cells_of(&self, step: &[Change]) -> Vec<(u32, Change)> {
        let place = |change: &Change| Some((self.accounts.get(&change.account).copied()??, *change));
        // Of an account that the step changed twice, the later change counts.
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

    /// The cells of those accounts that were not in the fast path when this was asked before.
    fn find(&mut self, store: &Store) -> Vec<u32> {
        let missing = self.accounts.iter_mut().filter(|(_, index)| index.is_none());
        missing
            .filter_map(|(account, index)| {
                *index = store.find(account).map(|index| index as u32);
                *index
            })
            .collect()
    }

    /// Whether another one of the accounts is in the fast path now.
    fn has_more(&self, store: &Store) -> bool {
        let mut missing = self.accounts.iter().filter(|(_, index)| index.is_none());
        missing.any(|(account, _)| store.find(account).is_some())
    }
}

impl Express {
    pub(super) fn new(store: &Store, fastpath: Executing, refusals_per_s: u32) -> Self {
        let rings = 0..store.rings.as_slice().len();
        // The first group fills it.
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
    /// The fast path will have to be told of this session.
    pub(super) fn touch(&mut self, slot: u32) {
        if let Some(express) = &mut self.express {
            express.slots.insert(slot);
        }
    }

    /// Whether the fast path executes.
    pub fn is_express(&self) -> bool {
        self.express.is_some()
    }

    /// Whether the disk has no room: for what the fast path did, or for what was last asked for.
    pub fn is_full(&self) -> bool {
        self.wanted.is_some() && self.failed.is_none()
    }

    /// Operations that the fast path has executed and the journal has not yet.
    pub fn unjournaled(&self) -> u64 {
        Ring::waiting_in(&self.store)
    }

    /// Takes what the rings hold now, not what the fast path adds meanwhile; commits it. Nothing in `durable`.
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

    /// Takes records that stand before `until`, some [`RECORDS`] of them; returns how many. A packet whose first record
    /// is taken is taken whole, so that no group ends within one: its rest is in the ring, or about to be.
    fn drain_some(&mut self, until: &[u64]) -> usize {
        let Some(mut next) = self.express.as_ref().map(|express| express.next.clone()) else {
            return 0;
        };
        let store = Arc::clone(&self.store);
        let mut until = until.to_vec();
        let mut within = vec![false; next.len()];
        let mut refused = vec![Vec::new(); next.len()];
        let (mut taken, mut again, mut looks) = (0, true, 0);
        while again && self.failed.is_none() {
            (again, looks) = (false, looks + 1);
            for (index, next) in next.iter_mut().enumerate() {
                let ring = Ring::of(&store, index);
                while (within[index]
                    || (taken < RECORDS && *next < until[index] && self.has_room_for_packets()))
                    && let Some(record) = ring.read(*next)
                {
                    match self.ledger.line(&record) {
                        Ok(Taken::Done) => {
                            self.note(record, &mut refused[index]);
                            taken += 1;
                            within[index] = record.index + 1 < record.count;
                        }
                        // It was in the journal before the last start; its ring was not told.
                        Ok(Taken::Seen) => {}
                        Ok(Taken::Waits) => break,
                        Err(what) => {
                            let what = format!(
                                "the fast path and ledger differ, at record {next} of ring {index}: {what}"
                            );
                            self.failed = Some(what);
                            break;
                        }
                    }
                    *next += 1;
                    (again, looks) = (true, 0);
                }
            }
            if within.contains(&true) {
                again = true;
                // What it waits for may have come into a ring after that ring's end was looked up, and before it.
                for (index, until) in until.iter_mut().enumerate() {
                    *until = Ring::of(&store, index).head();
                }
                if looks == LOOKS {
                    self.failed = Some("the rest of a packet that the fast path began is missing".into());
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
        taken
    }

    /// Writes down a record that the ledger has taken. A packet of which the fast path did nothing becomes one short
    /// entry: its records are in `refused` until its last one comes, or one that was done.
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

    /// Whether the host may close this session now: nothing but the host executes its packets.
    pub(super) fn may_close(&self, slot: u32) -> bool {
        match self.express.as_ref().map(|express| &express.phase) {
            None | Some(Phase::Resting) => true,
            Some(Phase::Claimed(claimed)) => claimed.slots.contains(&slot),
            Some(Phase::Following) => false,
        }
    }

    /// Room for a packet of each ring, which may have to be taken together.
    fn has_room_for_packets(&mut self) -> bool {
        let records = self.store.rings.as_slice().len() * TRANSFER_LINE_OPERATIONS_MAX;
        let bytes = records as u64 * record_bytes(size_of::<Record>());
        self.reserve_all(bytes).is_ok()
    }

    /// The last of it: the fast path stops, and what its rings hold is taken. Nothing is renewed after this.
    pub fn end(&mut self) {
        if let Some(express) = self.express.as_ref() {
            lease::end(&self.store.control().lease_until_ns);
            express.fastpath.readers.wait();
        }
        self.drain();
        self.settle();
    }

    /// What the fast path could have executed is answered as the fast path would have: it may be the fast path that
    /// answers it again.
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

    /// Makes ledger and fast path the same in all that these requests may change and in what has expired, and keeps
    /// the fast path from changing it. `false`: they are not, and nothing may be executed: the disk has no room for
    /// what the fast path did.
    pub(super) fn hold(
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
            // What the fast path did has no time of the host's clock.
            self.ledger.time(now_s);
            self.append(&Entry::Time { now_s });
        }
        self.drain();
        let Some(express) = &mut self.express else {
            return true;
        };
        if self.store.requires_signature() && Ring::waiting_in(&self.store) == 0 {
            // The fast path executes nothing, so it can go on beside.
            express.phase = Phase::Resting;
            return true;
        }
        match self.needed(now_s, requests, signers) {
            Some(needed) if needed.accounts.is_empty() && needed.slots.is_empty() => true,
            Some(needed) => match self.claim(needed) {
                Some(is_level) => is_level,
                None => self.rest(),
            },
            None => self.rest(),
        }
    }

    /// The fast path rests. `false`: ledger and fast path are not the same, because the disk has no room for what
    /// the fast path did.
    fn rest(&mut self) -> bool {
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

    /// The accounts and sessions that these requests may change, and those of what has expired. `None`: not all of it
    /// can be claimed.
    fn needed(
        &self,
        now_s: u64,
        requests: &[BatchRequest<'_>],
        signers: &[Option<KeyId>],
    ) -> Option<Claimed> {
        let (mut needed, mut opened) = (Claimed::default(), 0);
        for id in self.ledger.expired(now_s) {
            let pending = self.ledger.pending(&id);
            needed.add([id.0]);
            needed.add(pending.map(|pending| pending.destination));
        }
        for (at, asked) in requests.iter().enumerate() {
            let signer = signers.get(at).copied().flatten();
            if let Ok(Request::Session(header, body)) = Request::parse(asked.payload)
                && header.op == TRANSFER_OP_OPEN
                && body.challenge != [0; 16]
                && self.needs_idle(asked.from)
            {
                needed.slots.extend(self.idle_for(now_s, asked.from, opened));
                opened += 1;
            }
            if !self.may_change(asked.payload, signer) {
                continue;
            }
            // A refusal needs nothing that is not there.
            let makes = |account: &AccountId| {
                let may = self.store.may_issue(asked.from.address) || signer.is_some();
                may && self.store.find(account).is_none()
            };
            if let Some(request) = PaperRequest::parse(asked.payload) {
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
            match Request::parse(asked.payload) {
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

    /// Claims these, and takes what the fast path did to them into the ledger; `false` as of [`Self::hold`]. `None`:
    /// they cannot be had.
    fn claim(&mut self, mut needed: Claimed) -> Option<bool> {
        let claims = Arc::clone(&self.express.as_ref()?.fastpath.claims);
        let slots = needed.slots();
        let mut is_ours = claims.claim(&[], &slots).is_ok();
        loop {
            let found = needed.find(&self.store);
            is_ours = is_ours && claims.claim(&found, &[]).is_ok();
            // An account that the fast path has made since then may be in the ledger now, and is claimed in the next
            // round.
            let is_level = is_ours && self.catch_up();
            if is_level && needed.has_more(&self.store) {
                continue;
            }
            if is_level {
                self.counts.claims += 1;
                self.express.as_mut()?.phase = Phase::Claimed(needed);
                return Some(true);
            }
            // Where that fails the fast path leaves them to the host for good.
            let slots = self.express.as_mut()?.withheld.take_given_back(&slots);
            let _ = claims.give_back(&needed.cells(), &slots);
            return is_ours.then_some(false);
        }
    }

    /// Takes all that the fast path has done so far. `false`: the disk has no room for it.
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
            // What it waited for in another ring has come by the next round.
            if express.full || self.failed.is_some() {
                return false;
            }
        }
    }

    /// What the fast path holds of an account, where the fast path is ahead of the ledger; `None`: the ledger must say.
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

    /// The last sequence that the fast path has of a session, where the fast path is ahead of the ledger and has been
    /// shown the session.
    pub(super) fn fastpath_sequence(&self, slot: u32, token: u64) -> Option<u64> {
        self.express.as_ref().filter(|express| match &express.phase {
            Phase::Following => true,
            Phase::Claimed(claimed) => !claimed.slots.contains(&slot),
            Phase::Resting => false,
        })?;
        let place = self.store.sessions.as_slice().get(slot as usize)?;
        (place.token.load(Acquire) == token).then(|| place.sequence.load(Acquire))
    }

    /// Shows the fast path what the host has done; in `express`, where it rests, or in what was claimed.
    pub(super) fn show(&mut self, changes: &[Change]) {
        let Some(express) = &mut self.express else {
            self.counts.homeless += self.fill.apply(changes) as u64;
            return;
        };
        let slots = std::mem::take(&mut express.slots);
        let (claims, mut shown) = (&express.fastpath.claims, Ok(()));
        let changed: BTreeSet<AccountId> = match &express.phase {
            // The fast path did it itself, but for sessions that were opened.
            Phase::Following => BTreeSet::new(),
            Phase::Claimed(claimed) => {
                let steps = changes.chunk_by(|one, next| one.step == next.step);
                for step in steps {
                    shown = shown.and_then(|()| claims.put(&claimed.cells_of(step)));
                }
                changes.iter().map(|change| change.account).collect()
            }
            Phase::Resting => {
                self.counts.homeless += self.fill.apply(changes) as u64;
                changes.iter().map(|change| change.account).collect()
            }
        };
        for id in changed {
            let last = self.ledger.account(&id).and_then(|account| account.last);
            show_last(&self.store, &id, last.as_ref());
        }
        for slot in slots {
            let session = self.ledger.session(slot);
            match &express.phase {
                Phase::Claimed(claimed) if claimed.slots.contains(&slot) => {
                    shown = shown.and_then(|()| claims.put_session(&Slot::of(slot, session)));
                }
                _ => show_session(&self.store, slot, session),
            }
        }
        if let Err(error) = shown {
            // It is in the journal, and comes into the fast path with the next start.
            self.failed = Some(format!("showing the fast path what was executed: {error}"));
        }
    }

    /// The fast path goes on, unless writing has ended: then it executes no more, and what is claimed is the next
    /// host's.
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
                self.failed = Some(format!("giving accounts back to the fast path: {error}"));
            }
        }
        let lease = &self.store.control().lease_until_ns;
        match &self.failed {
            None => lease::renew(lease, express.fastpath.lease_ns),
            Some(_) => lease::end(lease),
        }
    }

    /// Whether executing this may change what the fast path has: writes that are not refused anyway, and sessions that
    /// are closed.
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
