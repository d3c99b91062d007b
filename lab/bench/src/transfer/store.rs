//! Fast-path tables of the benchmark. They are emptied and filled before a run, and audited after it.

use super::plan::{ACCOUNT_BITS, BALANCE, Plan};
use crate::error::{BenchError, Result, io};
use crate::netns::{CLIENT_ADDRESS, NamespacePair, SERVER_ADDRESS, SERVER_MAC};
use crate::sys;
use lineside_fastpath::{FastPath, Reply, Source, Verdict, lease};
use lineside_transfer::AccountId;
use lineside_transfer::datapath as transfer;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::layout::TransferCell;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::ring::Ring;
use lineside_transfer::store::{Geometry, Mode, Range, Store};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_TRANSFER, TRANSFER_PORT,
    TransferCounter,
};
use lineside_xdp::{ProgramSpec, XdpDatapath};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Lease in nanoseconds; it is longer than the run of any benchmark.
const LEASE_NS: u64 = 1 << 42;
/// log2 of the number of records in a ring. The fast path may be ahead of the journal by this number of records.
pub const RING_BITS: u32 = 18;

/// Returns the geometry for `express` mode with the address ranges from which the benchmark issues money.
pub fn geometry(account_bits: u32, rings: u32) -> Geometry {
    let all = |address: Ipv4Addr, prefix_bits| Range {
        address: address.into(),
        prefix_bits,
    };
    Geometry {
        account_bits,
        rings,
        ring_bits: RING_BITS,
        mode: Mode::Express,
        issuers: vec![all(CLIENT_ADDRESS, 24), all(Ipv4Addr::LOCALHOST, 8)],
        ..Geometry::default()
    }
}

/// Result of an audit of a ledger's accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Number of requests that changed a balance.
    pub effects: u64,
    /// Sum of the balances of all accounts.
    pub held: u64,
    /// Sum that the balances of all accounts should have after the requests that changed a balance.
    pub due: u64,
}

/// Empties `store`, and creates the accounts of the plan in it.
pub fn fill(store: &Arc<Store>, bits: u32) -> Result<()> {
    clear(store);
    let fastpath = TransferFastPath::new(Arc::clone(store));
    let from = Source {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 1,
    };
    let mut reply = Reply::default();
    for account in 0..1u32 << bits {
        let request = PaperRequest::new(TRANSFER_COMMAND_CREATE, 0, Plan::id(account), 0, BALANCE).to_bytes();
        reply.clear();
        let verdict = fastpath.answer(from, lease::now_ns(), &request, &mut reply);
        if verdict != Verdict::Reply || reply.as_bytes() != request {
            return Err(BenchError::Void(format!(
                "account {account} was not created: {verdict:?}"
            )));
        }
        if account % 4096 == 0 {
            forget_records(store);
        }
    }
    forget_records(store);
    Ok(())
}

/// Empties `store`. The caller ensures that no other thread executes requests meanwhile.
pub fn clear(store: &Store) {
    lease::renew(&store.control().lease_until_ns, LEASE_NS);
    for cell in store.cells.as_slice() {
        clear_cell(cell);
    }
    for place in store.paper.as_slice() {
        for word in [&place.last_id, &place.destination, &place.amount, &place.command] {
            zero_32(word);
        }
    }
    for session in store.sessions.as_slice() {
        session.token.store(0, Relaxed);
        session.sequence.store(0, Relaxed);
    }
    forget_records(store);
}

fn zero_32(word: &std::sync::atomic::AtomicU32) {
    // Only words that are not zero are written, so that memory that was never used stays unallocated.
    if word.load(Relaxed) != 0 {
        word.store(0, Relaxed);
    }
}

fn clear_cell(cell: &TransferCell) {
    let zero = |word: &AtomicU64| {
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    };
    zero_32(&cell.flags);
    zero_32(&cell.lock);
    zero_32(&cell.bucket_lock);
    for word in &cell.id {
        zero(word);
    }
    for word in [&cell.balance, &cell.held_out, &cell.held_in, &cell.version] {
        zero(word);
    }
}

/// Releases the records in the rings as if they had been journaled.
pub fn forget_records(store: &Store) {
    for index in 0..store.rings.as_slice().len() {
        let ring = Ring::of(store, index);
        ring.release(ring.tail() + ring.waiting());
    }
}

/// Audits the accounts of the plan.
pub fn audit(store: &Store, plan: &Plan, filled: bool) -> Audit {
    let (mut found, mut halves) = (Audit::default(), 0);
    let cells = store.cells.as_slice();
    for account in 0..plan.accounts() as u32 {
        let id = AccountId::from_paper(Plan::id(account));
        let Some(cell) = store.find(&id).map(|index| &cells[index]) else {
            continue;
        };
        // A new account has version 1, and each change adds 1.
        let version = cell.version.load(Relaxed);
        let changes = version - u64::from(filled);
        found.held += cell.balance.load(Relaxed);
        found.due += u64::from(BALANCE);
        match plan.command(account) {
            TRANSFER_COMMAND_ISSUE => {
                found.effects += changes;
                found.due += changes;
            }
            // A transfer is one change of this account and one change of another account.
            TRANSFER_COMMAND_TRANSFER => halves += changes,
            TRANSFER_COMMAND_CREATE => found.effects += changes,
            _ => {}
        }
    }
    found.effects += halves / 2;
    found
}

/// Loaded XDP programs in `express` mode, and their fast-path table.
pub struct XdpLedger {
    datapath: XdpDatapath,
    root: OwnedFd,
    /// Fast-path table that is shared with the programs.
    pub store: Arc<Store>,
}

impl XdpLedger {
    /// Loads the programs.
    pub fn load(account_bits: u32) -> Result<Self> {
        Self::load_program(account_bits, transfer::program)
    }

    /// Loads the programs without rings, so that they do not record requests.
    pub fn load_ringless(account_bits: u32) -> Result<Self> {
        Self::load_program(account_bits, transfer::ringless_program)
    }

    fn load_program(account_bits: u32, image: fn(&Geometry, u16) -> ProgramSpec) -> Result<Self> {
        let geometry = geometry(account_bits, transfer::rings()?);
        let mut datapath = XdpDatapath::load(vec![image(&geometry, TRANSFER_PORT)], None)?;
        let store = transfer::store(&mut datapath, &geometry)?;
        store
            .format(&geometry)
            .map_err(io("laying out the fast-path table"))?;
        datapath.start(&Endpoint::new(SERVER_MAC, false, &[SERVER_ADDRESS.into()]).unwrap_or_default())?;
        let root = datapath
            .with_root(|root| root.try_clone_to_owned())?
            .map_err(io("opening ls_root"))?;
        Ok(Self {
            datapath,
            root,
            store: Arc::new(store),
        })
    }

    /// Attaches the programs natively to the server's interface; dropping the result detaches them. The calling thread
    /// must be in the server's namespace.
    pub fn attach(&self, pair: &NamespacePair) -> Result<OwnedFd> {
        sys::attach_native(self.root.as_fd(), pair.server_index).map_err(io("attaching ls_root"))
    }

    /// Returns the program that receives frames first.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Returns the counters of the program.
    pub fn counts(&mut self) -> Result<[u64; TransferCounter::ALL.len()]> {
        Ok(self.datapath.counts("transfer_counts")?)
    }
}

/// Returns a fast-path table in this process's memory, for the socket datapath.
pub fn anonymous() -> Result<Arc<Store>> {
    let store = Store::anonymous(&geometry(ACCOUNT_BITS, 1)).map_err(io("making a fast-path table"))?;
    Ok(Arc::new(store))
}
