//! The simulated NIC as a datapath of a service.

use super::{RtlService, setup_commands};
use crate::frames::Datapath;
use lineside_fastpath::{DropReason, FrameVerdict, lease};
use lineside_rtl::sim::{Pauses, SimError, SimVerdict, Simulation};
use lineside_wire::endpoint::Endpoint;
use lineside_xdp::XdpError;
use std::io;
use std::marker::PhantomData;

/// Simulated NIC that answers for the service `S`.
#[derive(Debug)]
pub struct RtlDatapath<S> {
    sim: Simulation,
    service: PhantomData<S>,
}

impl<S: RtlService> RtlDatapath<S> {
    /// Returns a NIC with a copy of `store`, at this interface and UDP port.
    ///
    /// # Errors
    /// [`SimError`]
    pub fn over(store: &S::Store, endpoint: &Endpoint, port: u16) -> Result<Self, SimError> {
        let mut sim = Simulation::new(S::DESIGN)?;
        sim.execute(&setup_commands::<S>(store, endpoint, port))?;
        Ok(Self {
            sim,
            service: PhantomData,
        })
    }

    /// Copies policies, tip, lease and epoch of `store`. The entries of the table remain.
    ///
    /// # Errors
    /// [`SimError`]
    pub fn copy_control(&mut self, store: &S::Store) -> Result<(), SimError> {
        self.sim.execute(&S::control_commands(store)).map(drop)
    }

    /// Sends frames back to back, apart from `pauses`. Returns the verdict on each, and the frame that left; a dropped
    /// frame is empty.
    ///
    /// # Errors
    /// [`SimError`]
    pub fn run_batch(
        &mut self,
        now_ns: u64,
        frames: &[Vec<u8>],
        pauses: Pauses,
    ) -> Result<Vec<(SimVerdict, Vec<u8>)>, SimError> {
        self.sim.set_now(now_ns);
        let (left, _) = self.sim.run(frames, pauses)?;
        Ok(left.into_iter().map(|left| (left.verdict, left.frame)).collect())
    }

    /// Returns the simulation.
    pub const fn simulation(&mut self) -> &mut Simulation {
        &mut self.sim
    }

    /// Returns the counters of the fast path.
    pub fn counters(&self) -> Vec<u64> {
        S::nic_counters(&self.sim.counters())
    }

    /// Returns the number of drops so far, by [`DropReason`].
    pub fn dropped(&self) -> [u64; DropReason::ALL.len()] {
        self.sim.counters().drops
    }
}

impl<S: RtlService> Datapath for RtlDatapath<S> {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let before = self.dropped();
        let left = self.run_batch(lease::now_ns(), &[frame.to_vec()], Pauses::default());
        let (verdict, left) = left
            .map_err(failed)?
            .pop()
            .unwrap_or((SimVerdict::Drop, Vec::new()));
        let verdict = match verdict {
            SimVerdict::Reply => FrameVerdict::Transmit,
            SimVerdict::Forward => FrameVerdict::Pass,
            SimVerdict::Drop => {
                let after = self.dropped();
                let rose = |reason: &&DropReason| after[**reason as usize] != before[**reason as usize];
                let reason = DropReason::ALL.iter().find(rose).copied();
                FrameVerdict::Drop(reason.unwrap_or(DropReason::NotARequest))
            }
        };
        Ok((verdict, left))
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(self.dropped())
    }
}

fn failed(error: SimError) -> XdpError {
    XdpError::System {
        what: "the simulated NIC".into(),
        source: io::Error::other(error),
    }
}
