//! The host of a NIC that executes operations: a table in memory that follows the NIC by its records, and the writers
//! and claims that change both.
//!
//! The records go into the ring of the table in memory, so they reach the journal in the same way as those of the XDP
//! program. The thread of the NIC applies the records of a batch before it sends the replies of the batch. When a
//! client has a reply, the table has its effect and the ring has its record.

use super::{
    NicAccount, NicSession, SESSION_INDEX, claim_command, claim_session_command, grant_command,
    policy_commands, record,
};
use crate::AccountId;
use crate::cell::{self, CellGuard};
use crate::claims::{Claims, Slot, StoreClaims};
use crate::ledger::Change;
use crate::paper::{PaperAnswer, PaperLast};
use crate::ring::{NO_SESSION, Record, Ring};
use crate::rules::Holding;
use crate::store::{Geometry, Mode, Store};
use crate::writer::{StoreWriter, TransferFill};
use lineside_rtl::{
    Command, CommandQueue, Follower, NicRecord, NicResponse, REGISTER_TRANSFER_LEASE_UNTIL_NS,
    SIM_BUCKET_BITS, SIM_SESSION_BITS, TRANSFER_RESPONSE_CODE_AT, TRANSFER_RESPONSE_INDEX_AT,
};
use lineside_wire::{
    TRANSFER_CELL_CLAIMED, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_UNFREEZE,
    TransferCode as Code,
};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Number of free records in the ring below which the NIC has no lease, so that it executes nothing. The NIC executes
/// at most [`lineside_rtl::BATCH`] requests before the ring is looked at again.
const RECORDS_FREE_MIN: u64 = 2 * lineside_rtl::BATCH as u64;
/// Minimum log2 of the number of records in the ring.
const RING_BITS_MIN: u32 = 10;

/// Way of the host's commands to a NIC.
pub trait NicPort: Send + Sync {
    /// Adds commands, which the NIC executes in their order.
    fn add(&self, commands: &[Command]);

    /// Waits until the NIC has executed all commands that were added before, and the records of all operations that it
    /// executed before them are in the ring.
    fn flush(&self);
}

impl NicPort for CommandQueue {
    fn add(&self, commands: &[Command]) {
        Self::add(self, commands);
    }

    fn flush(&self) {
        Self::flush(self);
    }
}

/// Returns the geometry of the table that follows the simulated NIC.
pub fn geometry(wanted: Geometry) -> Geometry {
    Geometry {
        account_bits: SIM_BUCKET_BITS,
        rings: 1,
        ring_bits: wanted.ring_bits.max(RING_BITS_MIN),
        ..wanted
    }
}

/// Returns a line for the log if the configuration wants more accounts or sessions than the simulated NIC has room for.
/// In the mode `express`, only the fast path has accounts.
pub fn room_note(wanted: &Geometry) -> Option<String> {
    let has_room = wanted.account_bits <= SIM_BUCKET_BITS && wanted.sessions <= 1 << SIM_SESSION_BITS;
    let rest = match wanted.mode {
        Mode::Express => "the ledger cannot have more accounts, and the host answers all other sessions",
        Mode::Durable => "the host answers for all others",
    };
    (!has_room).then(|| {
        format!(
            "[transfer] account_bits = {}, sessions = {}: the simulated NIC has room for 2^{SIM_BUCKET_BITS} accounts \
             and {} sessions; {rest}",
            wanted.account_bits,
            wanted.sessions,
            1 << SIM_SESSION_BITS,
        )
    })
}

/// Lets `store`, which has no accounts yet, follow a NIC after its reset: copies its key and its policies. The lease of
/// the NIC follows that of `store` from now on.
pub fn begin(queue: &CommandQueue, store: &Arc<Store>) {
    queue.follow(Box::new(NicFollower::new(Arc::clone(store))));
    queue.add(&policy_commands(store));
    let followed = Arc::clone(store);
    queue.watch(REGISTER_TRANSFER_LEASE_UNTIL_NS, move || lease_of(&followed));
}

/// Returns the lease of a NIC that `store` follows: none while the ring has little room.
pub fn lease_of(store: &Store) -> u64 {
    match !store.is_express() || Ring::of(store, 0).free_records() >= RECORDS_FREE_MIN {
        true => store.control().lease_until_ns.load(Relaxed),
        false => 0,
    }
}

/// Applies the records of a NIC to a table in memory, and writes them into its ring.
pub struct NicFollower {
    store: Arc<Store>,
    /// Credit for refusals that the NIC has.
    credit: i64,
}

impl NicFollower {
    /// Returns the follower of a NIC with the contents of `store` and without credit for refusals.
    pub const fn new(store: Arc<Store>) -> Self {
        Self { store, credit: 0 }
    }

    /// Applies a record, and writes it into the ring before its effect becomes visible.
    fn apply(&mut self, record: &Record) -> Result<(), String> {
        let store = Arc::clone(&self.store);
        let ring = Ring::of(&store, 0);
        if ring.free_records() == 0 {
            return Err("the ring has no room for a record".into());
        }
        let is_done = record.code == Code::Done as u16;
        let source = match store.find(&record.source) {
            None if is_done && record.command == TRANSFER_COMMAND_CREATE => self.create(&record.source)?,
            Some(index) => index,
            None => {
                ring.push(record);
                self.keep_session(record);
                return Ok(());
            }
        };
        let destination = match record.destination_version {
            0 => None,
            _ => Some(
                store
                    .find(&record.destination)
                    .ok_or("an unknown account was paid")?,
            ),
        };
        let _locks = lock(&store, source, destination);
        ring.push(record);
        self.keep_session(record);
        if let Some(index) = destination {
            self.change(index, record.destination_version, |holding| {
                holding.balance = holding.balance.wrapping_add(record.amount);
            });
        }
        if record.slot == NO_SESSION && record.sequence != 0 {
            self.keep_last(source, record);
        }
        if record.source_version != 0 {
            self.change(source, record.source_version, |holding| match record.command {
                _ if !is_done => {}
                TRANSFER_COMMAND_FREEZE => holding.frozen = true,
                TRANSFER_COMMAND_UNFREEZE => holding.frozen = false,
                TRANSFER_COMMAND_CREATE => {
                    *holding = Holding {
                        balance: record.source_balance,
                        ..Holding::default()
                    };
                }
                _ => holding.balance = record.source_balance,
            });
        }
        Ok(())
    }

    fn change(&self, index: usize, version: u64, change: impl FnOnce(&mut Holding)) {
        let cell = &self.store.cells.as_slice()[index];
        let claimed = cell.flags.load(Relaxed) & TRANSFER_CELL_CLAIMED;
        let (mut holding, _) = cell::load(cell);
        change(&mut holding);
        cell::save(cell, &holding, version);
        cell.flags.fetch_or(claimed, Relaxed);
    }

    /// Gives a new account a cell, which becomes visible with its first contents.
    fn create(&self, account: &AccountId) -> Result<usize, String> {
        let vacancy = self.store.vacancy(self.store.buckets(account.words()));
        let index =
            vacancy.ok_or_else(|| format!("the table in memory has no room for the account {account}"))?;
        let cell = &self.store.cells.as_slice()[index];
        for (place, word) in cell.id.iter().zip(account.words()) {
            place.store(word, Relaxed);
        }
        Ok(index)
    }

    fn keep_last(&mut self, source: usize, record: &Record) {
        let request = record.paper_request();
        let answer = match Code::from_code(record.code) {
            Some(Code::Done) => PaperAnswer::done(record.source_balance),
            code => {
                self.credit -= 1;
                self.store.take_paper_refusal();
                PaperAnswer::refused(code.unwrap_or(Code::Busy))
            }
        };
        cell::save_last(
            &self.store.paper.as_slice()[source],
            &PaperLast { request, answer },
        );
    }

    fn keep_session(&self, record: &Record) {
        let Some(session) = self.store.sessions.as_slice().get(record.slot as usize) else {
            return;
        };
        let _held = cell::lock_surely(&session.lock);
        session.amounts[0].store(record.source_balance, Relaxed);
        session.codes.store(record.code.into(), Relaxed);
        session.count.store(record.count.into(), Relaxed);
        session.sum.store(record.sum, Relaxed);
        session.sequence.store(record.sequence, Relaxed);
    }
}

/// Locks one or two cells, the lower index first.
fn lock(store: &Store, first: usize, second: Option<usize>) -> Vec<CellGuard<'_>> {
    let mut indexes: Vec<_> = [Some(first), second].into_iter().flatten().collect();
    indexes.sort_unstable();
    indexes.dedup();
    let cells = store.cells.as_slice();
    let locks = indexes.iter().map(|index| cell::lock_surely(&cells[*index].lock));
    locks.collect()
}

impl Follower for NicFollower {
    fn commands(&mut self, commands: &mut Vec<Command>) {
        let more = self.store.paper_refusals().saturating_sub(self.credit);
        if self.store.is_express() && more > 0 {
            self.credit += more;
            commands.push(grant_command(more.cast_unsigned()));
        }
    }

    fn follow(&mut self, records: &[NicRecord], responses: &[NicResponse]) -> Result<(), String> {
        for entry in records {
            self.apply(&record(entry))?;
        }
        let is_full = |response: &NicResponse| {
            super::word(response, TRANSFER_RESPONSE_INDEX_AT) != SESSION_INDEX
                && super::word(response, TRANSFER_RESPONSE_CODE_AT) & 0xff == Code::StoreFull as u32
        };
        // In `durable`, the host answers for an account that the NIC does not have.
        match self.store.is_express() && responses.iter().any(is_full) {
            true => Err("the NIC has no room for an account of the host".into()),
            false => Ok(()),
        }
    }
}

/// Writer of a NIC and of the table that follows it.
pub struct NicWriter {
    writer: StoreWriter,
    store: Arc<Store>,
    port: Arc<dyn NicPort>,
}

impl NicWriter {
    /// Returns the only writer of `store` and of the NIC that it follows.
    pub fn new(store: Arc<Store>, port: Arc<dyn NicPort>) -> Self {
        Self {
            writer: StoreWriter::new(Arc::clone(&store)),
            store,
            port,
        }
    }
}

/// Returns the commands that write the accounts of one step; the RTL executes no request between them.
fn put_commands(store: &Store, step: impl Iterator<Item = AccountId>) -> Vec<Command> {
    let entry = |account: AccountId| Some((account, NicAccount::of_cell(store, store.find(&account)?)));
    let entries: Vec<_> = step.filter_map(entry).collect();
    let last = entries.len().saturating_sub(1);
    let put =
        |(number, (account, entry)): (usize, &(AccountId, NicAccount))| entry.put(account, number < last);
    entries.iter().enumerate().map(put).collect()
}

impl TransferFill for NicWriter {
    fn apply(&mut self, changes: &[Change]) -> usize {
        let mut homeless = 0;
        for step in changes.chunk_by(|one, next| one.step == next.step) {
            homeless += self.writer.apply(step);
            let commands = put_commands(&self.store, step.iter().map(|change| change.account));
            self.port.add(&commands);
        }
        homeless
    }
}

/// Claims on a NIC, and on the table that follows it.
pub struct NicClaims {
    claims: StoreClaims,
    store: Arc<Store>,
    port: Arc<dyn NicPort>,
}

impl NicClaims {
    /// Returns the claims on the NIC that `store` follows.
    pub fn new(store: Arc<Store>, port: Arc<dyn NicPort>) -> Self {
        Self {
            claims: StoreClaims::new(Arc::clone(&store)),
            store,
            port,
        }
    }

    fn commands(&self, cells: &[u32], slots: &[u32], claims: bool) -> Vec<Command> {
        let accounts = cells
            .iter()
            .filter_map(|index| super::account_of(&self.store, *index as usize));
        let accounts = accounts.map(|account| claim_command(&account, claims));
        let slots = slots.iter().filter(|slot| is_in_nic(**slot));
        accounts
            .chain(slots.map(|slot| claim_session_command(*slot, claims)))
            .collect()
    }

    fn session(&self, slot: u32) -> NicSession {
        let session = self.store.sessions.as_slice().get(slot as usize);
        session.map(NicSession::of_slot).unwrap_or_default()
    }
}

/// Returns true if the simulated NIC has this session slot.
const fn is_in_nic(slot: u32) -> bool {
    slot < 1 << SIM_SESSION_BITS
}

impl fmt::Debug for NicClaims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NicClaims")
    }
}

impl Claims for NicClaims {
    fn claim(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        self.port.add(&self.commands(cells, slots, true));
        self.port.flush();
        self.claims.claim(cells, slots)
    }

    fn put(&self, step: &[(u32, Change)]) -> io::Result<()> {
        self.claims.put(step)?;
        let accounts = step
            .iter()
            .filter_map(|(index, _)| super::account_of(&self.store, *index as usize));
        self.port.add(&put_commands(&self.store, accounts));
        Ok(())
    }

    fn put_session(&self, slot: &Slot) -> io::Result<()> {
        self.claims.put_session(slot)?;
        if is_in_nic(slot.slot) {
            self.port.add(&[self.session(slot.slot).put(slot.slot)]);
        }
        Ok(())
    }

    fn give_back(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        self.claims.give_back(cells, slots)?;
        self.port.add(&self.commands(cells, slots, false));
        Ok(())
    }

    fn shown(&self, accounts: &[AccountId], slots: &[u32]) {
        let mut commands = Vec::new();
        for account in accounts {
            if let Some(index) = self.store.find(account) {
                commands.extend(NicAccount::of_cell(&self.store, index).fill(account));
            }
        }
        let slots = slots.iter().filter(|slot| is_in_nic(**slot));
        commands.extend(slots.map(|slot| self.session(*slot).write(*slot)));
        self.port.add(&commands);
    }
}

/// Waits until the NIC follows the lease of its table, and has sent every reply from before.
pub fn wait(port: &dyn NicPort) {
    port.add(&[Command::new(lineside_rtl::COMMAND_BARRIER, 0, 0, 0, &[])]);
    port.flush();
}
