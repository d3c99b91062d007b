//! The NIC as Verilator simulates it: `rtl/shells/sim/ls_sim.h`. Whole frames go in and come out in each call.

use crate::command::Command;
use crate::error::RtlError;
use crate::nic::{FrameBatch, Nic, NicCounters, NicVerdict};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;

pub use crate::error::RtlError as SimError;
pub use crate::nic::{NicCounters as SimCounters, NicVerdict as SimVerdict};

/// Maximum number of bytes of a frame.
pub const FRAME_BYTES_MAX: usize = 16_384;

/// Pauses of the streams of a run, each in 1/256 of all cycles; 0: none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    /// Seed of the pauses.
    pub seed: u64,
    /// Pauses of the source of frames.
    pub source: u8,
    /// Pauses of the network, which takes replies.
    pub network: u8,
    /// Pauses of the host, which takes all other frames.
    pub host: u8,
}

// SAFETY: the declarations are those of rtl/shells/sim/ls_sim.h.
unsafe extern "C" {
    fn ls_sim_new() -> *mut c_void;
    fn ls_sim_free(sim: *mut c_void);
    fn ls_sim_set_now(sim: *mut c_void, now_ns: u64);
    fn ls_sim_command(sim: *mut c_void, commands: *const u8, count: usize) -> u64;
    fn ls_sim_run(
        sim: *mut c_void,
        frames: *const u8,
        bytes: *const u32,
        count: usize,
        pauses: *const Pauses,
        out: *mut u8,
        out_bytes: *mut u32,
        verdicts: *mut u8,
    ) -> u64;
    fn ls_sim_fault(sim: *const c_void) -> *const c_char;
    fn ls_sim_latency(sim: *const c_void) -> u64;
    fn ls_sim_counters(sim: *const c_void, counters: *mut u64, drops: *mut u64);
}

/// Frame after the NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameLeft {
    /// Decision.
    pub verdict: NicVerdict,
    /// Bytes that left; empty after a drop.
    pub frame: Vec<u8>,
}

/// Simulated NIC.
#[derive(Debug)]
pub struct Simulation(pub(crate) NonNull<c_void>);

// SAFETY: the simulation has no state outside its own memory, and every method that changes it takes `&mut self`.
unsafe impl Send for Simulation {}

impl Simulation {
    /// Returns a NIC after its reset: no addresses, an empty table, no lease.
    ///
    /// # Errors
    /// [`RtlError::NoMemory`]
    pub fn new() -> Result<Self, RtlError> {
        // SAFETY: the function has no requirements.
        NonNull::new(unsafe { ls_sim_new() })
            .map(Self)
            .ok_or(RtlError::NoMemory)
    }

    /// Sets the clock of the leases, which does not advance by itself.
    pub fn set_now(&mut self, now_ns: u64) {
        // SAFETY: the pointer is valid until `drop`.
        unsafe { ls_sim_set_now(self.0.as_ptr(), now_ns) };
    }

    /// Executes commands in their order. Returns the number of cycles.
    ///
    /// # Errors
    /// [`RtlError::Fault`] if a barrier does not complete.
    pub fn execute(&mut self, commands: &[Command]) -> Result<u64, RtlError> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| command.0).collect();
        // SAFETY: the pointer is valid until `drop`, and `bytes` has `commands.len()` commands of 64 bytes.
        match unsafe { ls_sim_command(self.0.as_ptr(), bytes.as_ptr(), commands.len()) } {
            0 => Err(self.fault()),
            cycles => Ok(cycles),
        }
    }

    /// Sends frames back to back, apart from `pauses`. Returns what left, in the order of the frames, and the number of
    /// cycles.
    ///
    /// # Errors
    /// [`RtlError::Fault`], also if a frame is empty or longer than [`FRAME_BYTES_MAX`].
    pub fn run(&mut self, frames: &[Vec<u8>], pauses: Pauses) -> Result<(Vec<FrameLeft>, u64), RtlError> {
        let joined = frames.concat();
        let lengths: Vec<u32> = frames.iter().map(|frame| frame.len() as u32).collect();
        let (mut out, mut out_lengths) = (vec![0; joined.len()], vec![0u32; frames.len()]);
        let mut verdicts = vec![0u8; frames.len()];
        // SAFETY: the pointer is valid until `drop`. All buffers have the sizes that ls_sim.h requires: one length and
        // one verdict for each frame, and as many bytes out as in.
        let cycles = unsafe {
            ls_sim_run(
                self.0.as_ptr(),
                joined.as_ptr(),
                lengths.as_ptr(),
                frames.len(),
                &pauses,
                out.as_mut_ptr(),
                out_lengths.as_mut_ptr(),
                verdicts.as_mut_ptr(),
            )
        };
        if cycles == 0 && !frames.is_empty() {
            return Err(self.fault());
        }
        let (mut left, mut at) = (Vec::with_capacity(frames.len()), 0);
        for ((frame, length), verdict) in frames.iter().zip(out_lengths).zip(verdicts) {
            left.push(FrameLeft {
                verdict: NicVerdict::from_number(verdict),
                frame: out[at..at + length as usize].to_vec(),
            });
            at += frame.len();
        }
        Ok((left, cycles))
    }

    /// Returns the number of cycles from the last beat of the last frame of a run to its first beat out.
    pub fn latency_cycles(&self) -> u64 {
        // SAFETY: the pointer is valid until `drop`.
        unsafe { ls_sim_latency(self.0.as_ptr()) }
    }

    /// Returns the counters.
    pub fn counters(&self) -> NicCounters {
        let mut counters = NicCounters::default();
        // SAFETY: the pointer is valid until `drop`, and both arrays have the sizes of ls_sim.h.
        unsafe {
            ls_sim_counters(
                self.0.as_ptr(),
                counters.spv.as_mut_ptr(),
                counters.drops.as_mut_ptr(),
            )
        };
        counters
    }

    fn fault(&self) -> RtlError {
        // SAFETY: the pointer is valid until `drop`; the text is a C string that lives as long as the program.
        let text = unsafe { ls_sim_fault(self.0.as_ptr()) };
        if text.is_null() {
            return RtlError::Fault("no description".into());
        }
        // SAFETY: see above.
        RtlError::Fault(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

impl Nic for Simulation {
    fn execute(&mut self, commands: &[Command]) -> Result<(), RtlError> {
        Self::execute(self, commands).map(drop)
    }

    fn process(&mut self, now_ns: u64, batch: &mut FrameBatch) -> Result<u64, RtlError> {
        if batch.is_empty() {
            return Ok(0);
        }
        self.set_now(now_ns);
        // SAFETY: the pointer is valid until `drop`. A batch has the sizes that ls_sim.h requires: one length and one
        // verdict for each frame, and as much room for what leaves as for its frames. Null pauses mean none.
        let cycles = unsafe {
            ls_sim_run(
                self.0.as_ptr(),
                batch.input.as_ptr(),
                batch.lengths.as_ptr(),
                batch.lengths.len(),
                std::ptr::null(),
                batch.output.as_mut_ptr(),
                batch.output_lengths.as_mut_ptr(),
                batch.verdicts.as_mut_ptr(),
            )
        };
        match cycles {
            0 => Err(self.fault()),
            cycles => Ok(cycles),
        }
    }

    fn counters(&self) -> NicCounters {
        Self::counters(self)
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `ls_sim_new`, and nothing uses it afterwards.
        unsafe { ls_sim_free(self.0.as_ptr()) };
    }
}
