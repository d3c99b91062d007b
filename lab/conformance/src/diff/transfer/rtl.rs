//! Comparison of the simulated NIC of `transfer` with the Rust model. Batches of frames pass the NIC back to back, with
//! random pauses of source and sinks. After each batch, the records and the counters must be equal, and from time to
//! time all accounts and sessions. The host changes both between batches.

use super::traffic::{Order, Traffic};
use super::{Case, HASH_STEP, cases, endpoint};
use crate::diff::{DiffCounts, DiffError, ListedRequests};
use crate::rtl::{RtlDatapath, RtlModel, RtlService};
use crate::transfer::Transfer;
use lineside_fastpath::{FrameHandler, FrameVerdict, lease};
use lineside_rtl::sim::{Pauses, SimVerdict};
use lineside_rtl::{Command, NicResponse, SIM_BUCKET_BITS, SIM_RECORDS};
use lineside_testkit::Random;
use lineside_transfer::AccountId;
use lineside_transfer::claims::{Slot, StoreClaims};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::ledger::Change;
use lineside_transfer::nic::{self, NicAccount, NicSession};
use lineside_transfer::ring::Ring;
use lineside_transfer::rules::Holding;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_transfer::writer::{StoreWriter, TransferFill as _};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{TRANSFER_FAST_PATH, TRANSFER_PORT, TransferCounter};
use lineside_xdp::XdpError;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Number of frames in a batch. The model's ring has room for all records of a batch.
const BATCH: u64 = 200;
const RING_BITS: u32 = 10;
/// Number of batches after which all accounts and sessions are compared.
const STRIDE: u64 = 8;
/// Code of a response to a command that found no free cell for its account.
const STORE_FULL: u8 = lineside_wire::TransferCode::StoreFull as u8;

/// Case of the comparison with the NIC.
#[derive(Clone, Debug)]
pub struct NicCase {
    /// Case of the other datapaths, with the sizes of the simulated NIC.
    pub case: Case,
    /// True if the host takes the records so rarely that the NIC has no room for more.
    pub has_slow_records: bool,
    /// True if all accounts have the same two buckets of four cells.
    pub has_two_buckets: bool,
}

/// Returns all cases: those of the other datapaths, and one with a slow host.
///
/// # Errors
/// Fails if the CPUs of the system cannot be read.
pub fn nic_cases() -> Result<Vec<NicCase>, XdpError> {
    let sized = |case: Case| NicCase {
        has_slow_records: false,
        has_two_buckets: case.geometry.account_bits == 1,
        case: Case {
            geometry: Geometry {
                account_bits: SIM_BUCKET_BITS,
                rings: 1,
                ring_bits: RING_BITS,
                ..case.geometry
            },
            ..case
        },
    };
    let mut all: Vec<_> = cases()?.into_iter().map(sized).collect();
    if let Some(usual) = all.first().cloned() {
        let mut slow = NicCase {
            has_slow_records: true,
            ..usual
        };
        slow.case.name = "slow records";
        slow.case.geometry.ring_bits = SIM_RECORDS.ilog2();
        all.push(slow);
    }
    Ok(all)
}

/// Compares one case with the model over `count` frames. Returns the counts, and the model's counters.
///
/// # Errors
/// The first difference in verdict, bytes, counters, records, accounts or sessions, or a fault of the simulation.
pub fn run(
    case: &NicCase,
    count: u64,
    seed: u64,
) -> Result<(DiffCounts, [u64; TransferCounter::ALL.len()]), DiffError> {
    let endpoint = endpoint(case.case.loopback);
    let mut pair = Pair::new(case, &endpoint, seed)?;
    let mut traffic = Traffic::new(seed, &case.case, &endpoint, Arc::clone(&pair.store));
    traffic.prepare(&pair.store);
    pair.copy()?;
    let batch_frames = if case.has_slow_records { 1 } else { BATCH };
    let mut batches = 0;
    while pair.seen.frames < count {
        let frames = batch_frames.min(count - pair.seen.frames);
        pair.compare_frames(&mut traffic, frames)?;
        if !case.has_slow_records || pair.random.one_in(1500) {
            pair.compare_records()?;
        }
        if case.case.unrest {
            pair.change()?;
        }
        for _ in 0..frames {
            if let Some(order) = traffic.next_order(&[&pair.store, &pair.store]) {
                pair.carry_out(&order)?;
            }
        }
        batches += 1;
        if batches % (STRIDE * BATCH / batch_frames) == 0 {
            pair.compare_tables()?;
        }
    }
    pair.compare_records()?;
    pair.compare_tables()?;
    let counters = pair.model.counters();
    Ok((pair.seen, std::array::from_fn(|index| counters[index])))
}

/// The model and the simulated NIC, with equal tables.
struct Pair<'a> {
    case: &'a NicCase,
    store: Arc<Store>,
    model: RtlModel<Transfer>,
    nic: RtlDatapath<Transfer>,
    endpoint: &'a Endpoint,
    random: Random,
    seen: DiffCounts,
}

impl<'a> Pair<'a> {
    fn new(case: &'a NicCase, endpoint: &'a Endpoint, seed: u64) -> Result<Self, DiffError> {
        let store = Arc::new(Store::anonymous(&case.case.geometry)?);
        for (place, word) in store.control().key.iter().enumerate() {
            let key = seed.wrapping_add(place as u64).wrapping_mul(HASH_STEP) | 1;
            // With a key of 0, the hash of every account is 0.
            word.store(if case.has_two_buckets { 0 } else { key }, Relaxed);
        }
        store.set_paper_refusals(case.case.paper_refusals);
        lease::renew(&store.control().lease_until_ns, 1 << 50);
        let fastpath = TransferFastPath::on_cpu(Arc::clone(&store), 0);
        // The NIC gets the accounts later, and no credit for refusals.
        let empty = Store::anonymous(&case.case.geometry)?;
        empty.set_paper_refusals(0);
        Ok(Self {
            case,
            model: RtlModel::new(fastpath),
            nic: RtlDatapath::over(&empty, endpoint, TRANSFER_PORT)?,
            store,
            endpoint,
            random: Random(seed | 1),
            seen: DiffCounts::default(),
        })
    }

    /// Copies the model's table into the NIC.
    fn copy(&mut self) -> Result<(), DiffError> {
        let sim = self.nic.simulation();
        sim.execute(&Transfer::control_commands(&self.store))?;
        sim.execute(&Transfer::entry_commands(&self.store))?;
        sim.take_responses();
        Ok(())
    }

    /// Sends `count` frames through both sides, and compares verdicts, bytes and counters.
    fn compare_frames(&mut self, traffic: &mut Traffic, count: u64) -> Result<(), DiffError> {
        let now_ns = lease::now_ns();
        let handler = FrameHandler {
            endpoint: self.endpoint,
            port: TRANSFER_PORT,
            fastpath: &self.model,
        };
        // Each frame is made for the state after the one before it.
        let (mut batch, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let frame = traffic.next_frame();
            let mut left = frame.clone();
            let verdict = handler.answer(now_ns, &mut left);
            batch.push(frame);
            expected.push((verdict, left));
        }
        let random = &mut self.random;
        let mut pause = || [0, 0, 30, 128, 220][random.index(5)];
        let pauses = Pauses {
            seed: self.seen.frames + 1,
            source: pause(),
            network: pause(),
            host: pause(),
        };
        let records = if self.case.has_slow_records { 256 } else { 0 };
        self.nic.simulation().pause_records(records);
        let found = self.nic.run_batch(now_ns, &batch, pauses)?;
        let listed = ListedRequests {
            list: &TRANSFER_FAST_PATH,
            datapaths: &[lineside_rtl::DATAPATH],
        };
        for ((request, (said, expected)), (verdict, left)) in batch.iter().zip(expected).zip(found) {
            let is_same = match said {
                FrameVerdict::Transmit => verdict == SimVerdict::Reply && left == expected,
                FrameVerdict::Pass => verdict == SimVerdict::Forward && left == expected,
                FrameVerdict::Drop(_) => verdict == SimVerdict::Drop && left.is_empty(),
            };
            if !is_same {
                return Err(DiffError::Differs {
                    number: self.seen.frames,
                    what: format!("the model returned {said:?}, the datapath {verdict:?}"),
                    request: request.clone(),
                    model: expected,
                    datapath: left,
                });
            }
            if said == FrameVerdict::Transmit {
                self.seen
                    .check_listed(&listed, self.seen.frames, request, &left)?;
            }
            self.seen.count(said);
        }
        let (model, datapath) = (self.model.counters(), self.nic.counters());
        let drops = self.nic.dropped();
        match model == datapath && drops == self.seen.dropped {
            true => Ok(()),
            false => Err(self.differs(format!(
                "counters: the model has {model:?} and drops {:?}, the datapath {datapath:?} and {drops:?}",
                self.seen.dropped
            ))),
        }
    }

    /// Takes all records from both sides, and compares them.
    fn compare_records(&mut self) -> Result<(), DiffError> {
        let ring = Ring::of(&self.store, 0);
        let model: Vec<_> = (ring.tail()..ring.head()).map(|at| ring.read(at)).collect();
        ring.release(ring.head());
        let sim = self.nic.simulation();
        sim.pause_records(0);
        let datapath: Vec<_> = sim
            .take_records()
            .iter()
            .map(|record| Some(nic::record(record)))
            .collect();
        if model == datapath {
            return Ok(());
        }
        let first = model
            .iter()
            .zip(&datapath)
            .find(|(model, datapath)| model != datapath);
        Err(self.differs(format!(
            "the model has {} records and the datapath {}; the first difference: {first:?}",
            model.len(),
            datapath.len()
        )))
    }

    /// Compares all accounts and sessions.
    fn compare_tables(&mut self) -> Result<(), DiffError> {
        let store = Arc::clone(&self.store);
        let cells = 0..store.cells.as_slice().len();
        let mut accounts: Vec<_> = cells
            .filter_map(|index| {
                Some((
                    nic::account_of(&store, index)?,
                    Some(NicAccount::of_cell(&store, index)),
                ))
            })
            .collect();
        // Some accounts that the model does not have.
        let ids = (0..=self.case.case.accounts).map(AccountId::from_paper);
        accounts.extend(ids.filter(|id| store.find(id).is_none()).map(|id| (id, None)));
        let reads: Vec<_> = accounts.iter().map(|(id, _)| nic::read_command(id)).collect();
        let responses = self.order(&reads)?;
        for ((id, model), response) in accounts.iter().zip(&responses) {
            let datapath = NicAccount::of_response(response);
            if *model != datapath {
                return Err(self.differs(format!(
                    "account {id:?}: the model has {model:x?}, the datapath {datapath:x?}"
                )));
            }
        }
        let sessions = store.sessions.as_slice();
        let reads: Vec<_> = (0..sessions.len() as u32)
            .map(nic::read_session_command)
            .collect();
        for (slot, (session, response)) in sessions.iter().zip(&self.order(&reads)?).enumerate() {
            let model = Some(NicSession::of_slot(session));
            let datapath = NicSession::of_response(response);
            if model != datapath {
                return Err(self.differs(format!(
                    "session {slot}: the model has {model:x?}, the datapath {datapath:x?}"
                )));
            }
        }
        Ok(())
    }

    /// Executes commands of the host that have responses.
    fn order(&mut self, commands: &[Command]) -> Result<Vec<NicResponse>, DiffError> {
        let sim = self.nic.simulation();
        sim.take_responses();
        sim.execute(commands)?;
        let responses = sim.take_responses();
        match responses.len() == commands.len() {
            true => Ok(responses),
            false => Err(self.differs(format!(
                "{} commands have {} responses",
                commands.len(),
                responses.len()
            ))),
        }
    }

    /// Changes policies, the lease or accounts on both sides.
    fn change(&mut self) -> Result<(), DiffError> {
        let (kind, value) = (self.random.index(9), self.random.next());
        let sometimes = u32::from(value.is_multiple_of(4));
        let control = self.store.control();
        match kind {
            0 => control
                .lease_until_ns
                .store(if sometimes == 1 { 0 } else { u64::MAX }, Relaxed),
            1 => control.require_signature.store(sometimes, Relaxed),
            2 => control.paper_format.store(1 - sometimes, Relaxed),
            3 => control.issuers.store((value % 9) as u32, Relaxed),
            4 => return self.remove(value),
            _ => return self.fill(value, kind == 5),
        }
        self.nic.copy_control(&self.store)?;
        Ok(())
    }

    /// Returns an account that occurs in requests.
    fn account(&self, value: u64) -> AccountId {
        let mut account = AccountId::from_paper(1 + (value % u64::from(self.case.case.accounts)) as u32);
        if value >> 32 & 1 == 1 {
            account.0[0] = 0xa5;
        }
        account
    }

    /// Writes an account, which may be new. `whole`: also its last request, which a new account does not have.
    fn fill(&mut self, value: u64, whole: bool) -> Result<(), DiffError> {
        let account = self.account(value);
        let balance = [0, 1, 100, u64::from(u32::MAX), 1 << 63, u64::MAX][(value >> 33) as usize % 6];
        let holding = Holding {
            balance,
            held_out: [0, 0, balance / 2, balance][(value >> 40) as usize % 4],
            held_in: [0, 0, 7.min(u64::MAX - balance), u64::MAX - balance][(value >> 42) as usize % 4],
            frozen: (value >> 44).is_multiple_of(5),
        };
        let change = Change {
            account,
            holding,
            version: 1 + (value >> 50),
            step: 0,
        };
        let homeless = StoreWriter::new(Arc::clone(&self.store)).apply(&[change]);
        let entry = match self.store.find(&account) {
            Some(index) => NicAccount::of_cell(&self.store, index),
            None => NicAccount::default(),
        };
        let responses = match whole {
            true => {
                let [last, fill] = entry.fill(&account);
                self.nic.simulation().execute(&[last])?;
                self.order(&[fill])?
            }
            false => self.order(&[entry.put(&account, false)])?,
        };
        let is_full = responses.iter().any(|response| response[4] == STORE_FULL);
        match is_full == (homeless > 0) {
            true => Ok(()),
            false => Err(self.differs(format!(
                "the model did not place {homeless} accounts: {responses:02x?}"
            ))),
        }
    }

    /// Removes an account, if it is there.
    fn remove(&mut self, value: u64) -> Result<(), DiffError> {
        let account = self.account(value);
        if let Some(index) = self.store.find(&account) {
            let (cell, last) = (
                &self.store.cells.as_slice()[index],
                &self.store.paper.as_slice()[index],
            );
            cell.flags.store(0, Relaxed);
            for word in [
                &last.last_id,
                &last.destination,
                &last.amount,
                &last.command,
                &last.reply_amount,
            ] {
                word.store(0, Relaxed);
            }
        }
        self.order(&[nic::remove_command(&account)]).map(drop)
    }

    /// Carries out an order of the host about accounts and sessions on both sides.
    fn carry_out(&mut self, order: &Order) -> Result<(), DiffError> {
        let claims = StoreClaims::new(Arc::clone(&self.store));
        order.carry_out(&claims)?;
        let store = Arc::clone(&self.store);
        let id = |index: &u32| nic::account_of(&store, *index as usize).unwrap_or_default();
        let claim = |cells: &[u32], slots: &[u32], claims: bool| -> Vec<Command> {
            let cells = cells.iter().map(|index| nic::claim_command(&id(index), claims));
            cells
                .chain(slots.iter().map(|slot| nic::claim_session_command(*slot, claims)))
                .collect()
        };
        let commands = match order {
            Order::Claim(cells, slots) => claim(cells, slots, true),
            Order::GiveBack(cells, slots) => claim(cells, slots, false),
            Order::Put(step) => (1..=step.len())
                .zip(step)
                .map(|(number, (index, _))| {
                    let entry = NicAccount::of_cell(&store, *index as usize);
                    entry.put(&id(index), number < step.len())
                })
                .collect(),
            Order::PutSession(Slot { slot, .. }) => {
                vec![NicSession::of_slot(&store.sessions.as_slice()[*slot as usize]).put(*slot)]
            }
        };
        self.order(&commands).map(drop)
    }

    fn differs(&self, what: String) -> DiffError {
        DiffError::Differs {
            number: self.seen.frames,
            what,
            request: Vec::new(),
            model: Vec::new(),
            datapath: Vec::new(),
        }
    }
}

/// Returns true if the fast path executes operations in this case.
pub fn executes(case: &NicCase) -> bool {
    case.case.geometry.mode == Mode::Express && !case.case.geometry.require_signature
}
