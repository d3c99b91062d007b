//! The simulated NIC of `transfer` together with a host: each command is executed at once, and a table in memory
//! follows the NIC.

use super::RtlDatapath;
use crate::frames::Datapath;
use crate::transfer::Transfer;
use lineside_fastpath::{DropReason, FrameVerdict};
use lineside_rtl::sim::SimError;
use lineside_rtl::{Command, Follower as _, NicResponse, REGISTER_TRANSFER_LEASE_UNTIL_NS};
use lineside_transfer::nic::{self, NicAccount, NicFollower, NicPort, NicSession};
use lineside_transfer::store::Store;
use lineside_wire::TRANSFER_PORT;
use lineside_wire::endpoint::Endpoint;
use lineside_xdp::XdpError;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Simulated NIC of `transfer` that `store` follows.
pub struct TransferNic {
    store: Arc<Store>,
    state: Mutex<State>,
}

struct State {
    nic: RtlDatapath<Transfer>,
    follower: NicFollower,
    fault: Option<String>,
}

impl State {
    /// Executes commands, and gives the records and responses to the table in memory.
    fn execute(&mut self, commands: &[Command]) -> Result<Vec<NicResponse>, SimError> {
        let sim = self.nic.simulation();
        sim.execute(commands)?;
        let (records, responses) = (sim.take_records(), sim.take_responses());
        self.follower
            .follow(&records, &responses)
            .map_err(SimError::Fault)?;
        Ok(responses)
    }
}

impl TransferNic {
    /// Returns a NIC with a copy of `store`, at this interface.
    ///
    /// # Errors
    /// [`SimError`]
    pub fn new(store: &Arc<Store>, endpoint: &Endpoint) -> Result<Self, SimError> {
        store.set_paper_refusals(0);
        let mut nic = RtlDatapath::over(store.as_ref(), endpoint, TRANSFER_PORT)?;
        nic.simulation().take_responses();
        Ok(Self {
            state: Mutex::new(State {
                nic,
                follower: NicFollower::new(Arc::clone(store)),
                fault: None,
            }),
            store: Arc::clone(store),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counters of the fast path.
    pub fn counters(&self) -> Vec<u64> {
        self.state().nic.counters()
    }

    /// Compares all accounts and sessions of the table in memory with those of the NIC.
    ///
    /// # Errors
    /// The first difference, or a fault of the NIC.
    pub fn check(&self) -> Result<(), String> {
        let mut state = self.state();
        if let Some(fault) = &state.fault {
            return Err(fault.clone());
        }
        for index in 0..self.store.cells.as_slice().len() {
            let Some(account) = nic::account_of(&self.store, index) else {
                continue;
            };
            let expected = Some(NicAccount::of_cell(&self.store, index));
            let found = state.execute(&[nic::read_command(&account)]);
            let found = NicAccount::of_response(&found.map_err(|error| error.to_string())?[0]);
            if found != expected {
                return Err(format!(
                    "{account}: the table has {expected:?}, the NIC {found:?}"
                ));
            }
        }
        for (slot, session) in (0..).zip(self.store.sessions.as_slice()) {
            let expected = Some(NicSession::of_slot(session));
            let found = state.execute(&[nic::read_session_command(slot)]);
            let found = NicSession::of_response(&found.map_err(|error| error.to_string())?[0]);
            if found != expected {
                return Err(format!(
                    "session {slot}: the table has {expected:?}, the NIC {found:?}"
                ));
            }
        }
        Ok(())
    }
}

impl NicPort for TransferNic {
    fn add(&self, commands: &[Command]) {
        let mut state = self.state();
        if let Err(error) = state.execute(commands) {
            state.fault = Some(error.to_string());
        }
    }

    fn flush(&self) {}
}

/// Handle to a [`TransferNic`] that processes frames.
pub struct TransferNicDatapath(pub Arc<TransferNic>);

impl Datapath for TransferNicDatapath {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let mut state = self.0.state();
        let lease = nic::lease_of(&self.0.store).to_le_bytes();
        let mut commands = vec![Command::register(REGISTER_TRANSFER_LEASE_UNTIL_NS, &lease)];
        state.follower.commands(&mut commands);
        state.execute(&commands).map_err(failed)?;
        let left = state.nic.run(frame)?;
        state.execute(&[]).map_err(failed)?;
        Ok(left)
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        self.0.state().nic.drops()
    }
}

fn failed(error: SimError) -> XdpError {
    XdpError::System {
        what: "the simulated NIC".into(),
        source: io::Error::other(error),
    }
}
