//! `express`: near executes, and the host follows. It takes what near's rings hold into ledger and journal; what near
//! leaves to it, it executes itself while near rests.
//!
//! Near rests by the end of its lease, which nobody but the host renews here: when every answer under way has left and
//! the rings are empty, ledger and near are the same, and stay so until the lease is renewed. That costs the line some
//! milliseconds each time (`docs/decisions/transfer-express.md`).

use super::Host;
use crate::AccountId;
use crate::cell;
use crate::entry::Entry;
use crate::ledger::Taken;
use crate::native::{self, Outcome};
use crate::paper::PaperRequest;
use crate::ring::{Record, Ring};
use crate::settlement;
use crate::store::Store;
use crate::writer::{show_last, show_session};
use lineside_journal::Disk;
use lineside_near::{Asked, Readers, lease};
use lineside_wire::{
    NATIVE_REPLY_BIT, Operation, TRANSFER_COMMAND_REFER, TRANSFER_DURABLE, TRANSFER_EXPRESS,
    TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE, TransferCode as Code, native as wire,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

/// Records taken between two commits.
const RECORDS: usize = 16 << 10;

/// What a host in `express` has besides.
pub(super) struct Express {
    readers: Readers,
    lease_ns: u64,
    /// Of each ring, the next record.
    next: Vec<u64>,
    resting: bool,
    /// Sessions that the host changed while near rests.
    slots: BTreeSet<u32>,
}

impl Express {
    pub(super) fn new(store: &Store, readers: Readers, lease_ns: u64) -> Self {
        let rings = 0..store.rings.as_slice().len();
        Self {
            readers,
            lease_ns,
            next: rings.map(|index| Ring::of(store, index).tail()).collect(),
            resting: false,
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

    /// Operations that near has executed and the journal has not yet.
    pub fn unjournaled(&self) -> u64 {
        let rings = 0..self.store.rings.as_slice().len();
        rings.map(|index| Ring::of(&self.store, index).waiting()).sum()
    }

    /// Takes what the rings hold now, not what near adds meanwhile; commits it. Nothing in `durable`.
    pub fn drain(&mut self) {
        let rings = 0..self.store.rings.as_slice().len();
        let until: Vec<u64> = rings.map(|index| Ring::of(&self.store, index).head()).collect();
        while self.express.is_some() && self.failed.is_none() && self.drain_some(&until) > 0 {}
    }

    /// Takes up to [`RECORDS`] records that stand before `until`; returns how many.
    fn drain_some(&mut self, until: &[u64]) -> usize {
        let Some(mut next) = self.express.as_ref().map(|express| express.next.clone()) else {
            return 0;
        };
        let store = Arc::clone(&self.store);
        let (mut taken, mut again) = (0, true);
        while again && taken < RECORDS && self.failed.is_none() {
            again = false;
            for (index, next) in next.iter_mut().enumerate() {
                let ring = Ring::of(&store, index);
                while taken < RECORDS
                    && *next < until[index]
                    && let Some(record) = ring.read(*next)
                    && self.reserve(size_of::<Record>()).is_ok()
                {
                    match self.ledger.line(&record) {
                        Ok(Taken::Done) => {
                            self.chain
                                .push(&settlement::line_leaf(&record, self.ledger.number()));
                            self.append(&Entry::Line(record));
                            taken += 1;
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
                    again = true;
                }
            }
        }
        self.finish(&mut [], 0);
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

    /// Has near rest if one of these requests may change something.
    pub(super) fn rest_for(&mut self, requests: &[Asked<'_>]) {
        self.drain();
        if self.express.is_none() || !requests.iter().any(|asked| may_change(asked.payload)) {
            return;
        }
        lease::end(&self.store.control().lease_until_ns);
        if let Some(express) = &self.express {
            express.readers.wait();
        }
        self.drain();
        if let Some(express) = &mut self.express {
            express.resting = true;
        }
    }

    /// What near holds of an account, where near is ahead of the ledger; `None`: the ledger must say.
    pub(super) fn near_balance(&self, account: &AccountId) -> Option<native::Balance> {
        self.express.as_ref().filter(|express| !express.resting)?;
        match self.store.find(account) {
            Some(index) => cell::read(&self.store.cells.as_slice()[index]).map(Ok),
            None => Some(Err(Code::UnknownAccount)),
        }
    }

    /// The last sequence that near has of a session, where near is ahead of the ledger.
    pub(super) fn near_sequence(&self, slot: u32) -> Option<u64> {
        self.express.as_ref().filter(|express| !express.resting)?;
        let place = self.store.sessions.as_slice().get(slot as usize)?;
        Some(place.sequence.load(Acquire))
    }

    /// Shows near what the host has done, where it rests.
    pub(super) fn show(&mut self) {
        let changes = self.ledger.take_changes();
        let Some(express) = &mut self.express else {
            self.counts.homeless += self.fill.apply(&changes) as u64;
            return;
        };
        if !express.resting {
            // Near did it itself, but for sessions that were opened.
            for slot in std::mem::take(&mut express.slots) {
                show_session(&self.store, slot, self.ledger.session(slot));
            }
            return;
        }
        self.counts.homeless += self.fill.apply(&changes) as u64;
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
            lease::renew(&self.store.control().lease_until_ns, express.lease_ns);
        }
    }
}

/// Whether executing this may change what near has: writes, and sessions that are closed.
fn may_change(payload: &[u8]) -> bool {
    if let Some(request) = PaperRequest::parse(payload) {
        return request
            .command()
            .is_ok_and(|command| command != TRANSFER_COMMAND_REFER);
    }
    wire::is_native(payload)
        && payload[3] & NATIVE_REPLY_BIT == 0
        && matches!(payload[3], TRANSFER_OP_EXECUTE | TRANSFER_OP_CLOSE)
}
