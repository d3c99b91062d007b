//! `express`: near executes, and the host follows. It takes what near's rings hold into ledger and journal; what near
//! leaves to it, it executes itself while near rests.
//!
//! Near rests by the end of its lease, which nobody but the host renews here: when every answer under way has left and
//! the rings are empty, ledger and near are the same, and stay so until the lease is renewed. That costs the line some
//! milliseconds each time (`docs/decisions/transfer-express.md`).

use super::{Executing, Host};
use crate::AccountId;
use crate::cell;
use crate::entry::Entry;
use crate::ledger::{Change, Taken};
use crate::native::{self, Outcome};
use crate::paper::PaperRequest;
use crate::ring::{Record, Ring};
use crate::settlement;
use crate::signed::KeyId;
use crate::store::Store;
use crate::writer::{show_last, show_session};
use lineside_journal::{Disk, record_bytes};
use lineside_near::{Asked, lease};
use lineside_wire::{
    Operation, TRANSFER_COMMAND_REFER, TRANSFER_DURABLE, TRANSFER_EXPRESS, TRANSFER_LINE_OPERATIONS_MAX,
    TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE, TRANSFER_OP_SIGNED, TransferCode as Code, native as wire,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// Records taken between two commits.
const RECORDS: usize = 16 << 10;

/// How often it is looked in vain for the rest of a packet, which near writes within a microsecond.
const LOOKS: u32 = 1 << 24;

/// What a host in `express` has besides.
pub(super) struct Express {
    near: Executing,
    /// Of each ring, the next record.
    next: Vec<u64>,
    resting: bool,
    /// The disk has no room for what near did. Near goes on until its rings are full.
    full: bool,
    /// Sessions that the host changed while near rests.
    slots: BTreeSet<u32>,
}

impl Express {
    pub(super) fn new(store: &Store, near: Executing) -> Self {
        let rings = 0..store.rings.as_slice().len();
        Self {
            near,
            next: rings.map(|index| Ring::of(store, index).tail()).collect(),
            resting: false,
            full: false,
            slots: BTreeSet::new(),
        }
    }
}

impl<D: Disk> Host<D> {
    /// Near will have to be told of this session.
    pub(super) fn touch(&mut self, slot: u32) {
        if let Some(express) = &mut self.express {
            express.slots.insert(slot);
        }
    }

    /// Whether near executes.
    pub fn is_express(&self) -> bool {
        self.express.is_some()
    }

    /// Whether the disk has no room for what near did.
    pub fn is_full(&self) -> bool {
        self.express.as_ref().is_some_and(|express| express.full)
    }

    /// Operations that near has executed and the journal has not yet.
    pub fn unjournaled(&self) -> u64 {
        Ring::waiting_in(&self.store)
    }

    /// Takes what the rings hold now, not what near adds meanwhile; commits it. Nothing in `durable`.
    pub fn drain(&mut self) {
        let rings = 0..self.store.rings.as_slice().len();
        let until: Vec<u64> = rings.map(|index| Ring::of(&self.store, index).head()).collect();
        while self.express.is_some() && self.failed.is_none() && self.drain_some(&until) > 0 {}
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
                            self.chain
                                .push(&settlement::line_leaf(&record, self.ledger.number()));
                            self.append(&Entry::Line(record));
                            taken += 1;
                            within[index] = record.index + 1 < record.count;
                        }
                        // It was in the journal before the last start; its ring was not told.
                        Ok(Taken::Seen) => {}
                        Ok(Taken::Waits) => break,
                        Err(what) => {
                            let what =
                                format!("near and ledger differ, at record {next} of ring {index}: {what}");
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
                    self.failed = Some("the rest of a packet that near began is missing".into());
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

    /// Room for a packet of each ring, which may have to be taken together.
    fn has_room_for_packets(&mut self) -> bool {
        let records = self.store.rings.as_slice().len() * TRANSFER_LINE_OPERATIONS_MAX;
        let bytes = records as u64 * record_bytes(size_of::<Record>());
        self.reserve_all(bytes).is_ok()
    }

    /// The last of it: near stops, and what its rings hold is taken. Nothing is renewed after this.
    pub fn end(&mut self) {
        if let Some(express) = self.express.as_ref() {
            lease::end(&self.store.control().lease_until_ns);
            express.near.readers.wait();
        }
        self.drain();
        self.settle();
    }

    /// What near could have executed is answered as near would have: it may be near that answers it again.
    pub(super) fn as_near_says(
        &self,
        operations: &[Operation],
        mut outcomes: Vec<Outcome>,
    ) -> (Vec<Outcome>, u16) {
        if self.express.is_none() || !crate::near::is_plain(operations) {
            return (outcomes, TRANSFER_DURABLE);
        }
        for outcome in &mut outcomes {
            outcome.number = 0;
        }
        (outcomes, TRANSFER_EXPRESS)
    }

    /// Has near rest if one of these requests may change something, or something has expired. `false`: ledger and near
    /// are not the same, because the disk has no room for what near did; then nothing may be executed.
    pub(super) fn rest_for(&mut self, now_s: u64, requests: &[Asked<'_>], signers: &[Option<KeyId>]) -> bool {
        self.drain();
        let signer = |at| signers.get(at).copied().flatten();
        let is_due = !self.ledger.expired(now_s).is_empty()
            || requests
                .iter()
                .enumerate()
                .any(|(at, asked)| self.may_change(asked.payload, signer(at)));
        if self.express.is_none() || !is_due {
            return true;
        }
        self.counts.rests += 1;
        lease::end(&self.store.control().lease_until_ns);
        if let Some(express) = &self.express {
            express.near.readers.wait();
        }
        self.drain();
        let is_level = self.unjournaled() == 0;
        if let Some(express) = &mut self.express {
            express.resting = is_level;
        }
        is_level
    }

    /// What near holds of an account, where near is ahead of the ledger; `None`: the ledger must say.
    pub(super) fn near_balance(&self, account: &AccountId) -> Option<native::Balance> {
        self.express.as_ref().filter(|express| !express.resting)?;
        match self.store.find(account) {
            Some(index) => cell::read(&self.store.cells.as_slice()[index]).map(Ok),
            None => Some(Err(Code::UnknownAccount)),
        }
    }

    /// The last sequence that near has of a session, where near is ahead of the ledger and has been shown the session.
    pub(super) fn near_sequence(&self, slot: u32, token: u64) -> Option<u64> {
        self.express.as_ref().filter(|express| !express.resting)?;
        let place = self.store.sessions.as_slice().get(slot as usize)?;
        (place.token.load(Acquire) == token).then(|| place.sequence.load(Acquire))
    }

    /// Shows near what the host has done; in `express`, where it rests.
    pub(super) fn show(&mut self, changes: &[Change]) {
        let Some(express) = &mut self.express else {
            self.counts.homeless += self.fill.apply(changes) as u64;
            return;
        };
        if !express.resting {
            // Near did it itself, but for sessions that were opened.
            for slot in std::mem::take(&mut express.slots) {
                show_session(&self.store, slot, self.ledger.session(slot));
            }
            return;
        }
        self.counts.homeless += self.fill.apply(changes) as u64;
        let accounts: BTreeSet<AccountId> = changes.iter().map(|change| change.account).collect();
        for id in accounts {
            let last = self.ledger.account(&id).and_then(|account| account.last);
            show_last(&self.store, &id, last.as_ref());
        }
        for slot in std::mem::take(&mut express.slots) {
            show_session(&self.store, slot, self.ledger.session(slot));
        }
    }

    /// Near goes on, unless writing has ended.
    pub(super) fn go_on(&mut self) {
        if let Some(express) = &mut self.express
            && self.failed.is_none()
        {
            express.resting = false;
            lease::renew(&self.store.control().lease_until_ns, express.near.lease_ns);
        }
    }

    /// Whether executing this may change what near has: writes that are not refused anyway, and sessions that are
    /// closed.
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
