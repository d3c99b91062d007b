//! The NIC as Verilator simulates it: `rtl/shells/sim/ls_sim.h`. Whole frames go in and come out in each call.

use crate::command::Command;
use crate::error::RtlError;
use crate::nic::{FrameBatch, Nic, NicCounters, NicDesign, NicRecord, NicResponse, NicVerdict};
use crate::watch::{self, WatchFunctions};
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

/// C functions of one design; `rtl/shells/sim/ls_sim.h` describes them.
#[derive(Debug)]
struct Functions {
    new: unsafe extern "C" fn() -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    set_now: unsafe extern "C" fn(*mut c_void, u64),
    command: unsafe extern "C" fn(*mut c_void, *const u8, usize) -> u64,
    run: RunFrames,
    fault: unsafe extern "C" fn(*const c_void) -> *const c_char,
    latency: unsafe extern "C" fn(*const c_void) -> u64,
    counters: unsafe extern "C" fn(*const c_void, *mut u64, *mut u64),
    watch: &'static WatchFunctions,
    /// Streams of records and responses, which only the NIC of `transfer` has.
    streams: Option<StreamFunctions>,
}

/// Arguments: simulation, frames, their lengths, their number, pauses, frames that leave, their lengths, verdicts.
type RunFrames = unsafe extern "C" fn(
    *mut c_void,
    *const u8,
    *const u32,
    usize,
    *const Pauses,
    *mut u8,
    *mut u32,
    *mut u8,
) -> u64;

#[derive(Clone, Copy, Debug)]
struct StreamFunctions {
    pause_records: unsafe extern "C" fn(*mut c_void, u16),
    take_records: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> usize,
    take_responses: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> usize,
}

macro_rules! functions {
    (
        $new:ident,
        $free:ident,
        $set_now:ident,
        $command:ident,
        $run:ident,
        $fault:ident,
        $latency:ident,
        $counters:ident
    ) => {
        // SAFETY: the declarations are those of rtl/shells/sim/ls_sim.h.
        unsafe extern "C" {
            fn $new() -> *mut c_void;
            fn $free(sim: *mut c_void);
            fn $set_now(sim: *mut c_void, now_ns: u64);
            fn $command(sim: *mut c_void, commands: *const u8, count: usize) -> u64;
            fn $run(
                sim: *mut c_void,
                frames: *const u8,
                bytes: *const u32,
                count: usize,
                pauses: *const Pauses,
                out: *mut u8,
                out_bytes: *mut u32,
                verdicts: *mut u8,
            ) -> u64;
            fn $fault(sim: *const c_void) -> *const c_char;
            fn $latency(sim: *const c_void) -> u64;
            fn $counters(sim: *const c_void, counters: *mut u64, drops: *mut u64);
        }
    };
}

functions!(
    ls_sim_new,
    ls_sim_free,
    ls_sim_set_now,
    ls_sim_command,
    ls_sim_run,
    ls_sim_fault,
    ls_sim_latency,
    ls_sim_counters
);
functions!(
    ls_transfer_sim_new,
    ls_transfer_sim_free,
    ls_transfer_sim_set_now,
    ls_transfer_sim_command,
    ls_transfer_sim_run,
    ls_transfer_sim_fault,
    ls_transfer_sim_latency,
    ls_transfer_sim_counters
);

// SAFETY: the declarations are those of rtl/shells/sim/ls_sim.h.
unsafe extern "C" {
    fn ls_transfer_sim_pause_records(sim: *mut c_void, share: u16);
    fn ls_transfer_sim_take_records(sim: *mut c_void, out: *mut u8, most: usize) -> usize;
    fn ls_transfer_sim_take_responses(sim: *mut c_void, out: *mut u8, most: usize) -> usize;
}

static SPV: Functions = Functions {
    new: ls_sim_new,
    free: ls_sim_free,
    set_now: ls_sim_set_now,
    command: ls_sim_command,
    run: ls_sim_run,
    fault: ls_sim_fault,
    latency: ls_sim_latency,
    counters: ls_sim_counters,
    watch: &watch::SPV,
    streams: None,
};

static TRANSFER: Functions = Functions {
    new: ls_transfer_sim_new,
    free: ls_transfer_sim_free,
    set_now: ls_transfer_sim_set_now,
    command: ls_transfer_sim_command,
    run: ls_transfer_sim_run,
    fault: ls_transfer_sim_fault,
    latency: ls_transfer_sim_latency,
    counters: ls_transfer_sim_counters,
    watch: &watch::TRANSFER,
    streams: Some(StreamFunctions {
        pause_records: ls_transfer_sim_pause_records,
        take_records: ls_transfer_sim_take_records,
        take_responses: ls_transfer_sim_take_responses,
    }),
};

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
pub struct Simulation {
    pub(crate) sim: NonNull<c_void>,
    functions: &'static Functions,
}

// SAFETY: the simulation has no state outside its own memory, and every method that changes it takes `&mut self`.
unsafe impl Send for Simulation {}

impl Simulation {
    /// Returns the NIC of a service after its reset: no addresses and no lease. The table of `spv` is undefined; that
    /// of `transfer` has no accounts, and its sessions are undefined.
    ///
    /// # Errors
    /// [`RtlError::NoMemory`]
    pub fn new(design: NicDesign) -> Result<Self, RtlError> {
        let functions = match design {
            NicDesign::Spv => &SPV,
            NicDesign::Transfer => &TRANSFER,
        };
        // SAFETY: the function has no requirements.
        let sim = NonNull::new(unsafe { (functions.new)() }).ok_or(RtlError::NoMemory)?;
        Ok(Self { sim, functions })
    }

    /// Sets the clock of the leases, which does not advance by itself.
    pub fn set_now(&mut self, now_ns: u64) {
        // SAFETY: the pointer is valid until `drop`.
        unsafe { (self.functions.set_now)(self.sim.as_ptr(), now_ns) };
    }

    /// Executes commands in their order. Returns the number of cycles.
    ///
    /// # Errors
    /// [`RtlError::Fault`] if a barrier does not complete.
    pub fn execute(&mut self, commands: &[Command]) -> Result<u64, RtlError> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| command.0).collect();
        // SAFETY: the pointer is valid until `drop`, and `bytes` has `commands.len()` commands of 64 bytes.
        match unsafe { (self.functions.command)(self.sim.as_ptr(), bytes.as_ptr(), commands.len()) } {
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
            (self.functions.run)(
                self.sim.as_ptr(),
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
        unsafe { (self.functions.latency)(self.sim.as_ptr()) }
    }

    /// Returns the counters.
    pub fn counters(&self) -> NicCounters {
        let mut counters = NicCounters::default();
        let of_service = match self.functions.streams {
            None => counters.spv.as_mut_ptr(),
            Some(_) => counters.transfer.as_mut_ptr(),
        };
        // SAFETY: the pointer is valid until `drop`, and both arrays have the sizes of ls_sim.h for this design.
        unsafe { (self.functions.counters)(self.sim.as_ptr(), of_service, counters.drops.as_mut_ptr()) };
        counters
    }

    /// Lets the record stream of `transfer` pause in each cycle with a probability of `share` / 256; 256 stops it.
    pub fn pause_records(&mut self, share: u16) {
        if let Some(streams) = self.functions.streams {
            // SAFETY: the pointer is valid until `drop`.
            unsafe { (streams.pause_records)(self.sim.as_ptr(), share) };
        }
    }

    /// Removes the records that have left the NIC, and those that are leaving.
    pub fn take_records(&mut self) -> Vec<NicRecord> {
        let streams = self.functions.streams;
        self.take(streams.map(|streams| streams.take_records))
    }

    /// Removes the responses to commands that have left the NIC.
    pub fn take_responses(&mut self) -> Vec<NicResponse> {
        let streams = self.functions.streams;
        self.take(streams.map(|streams| streams.take_responses))
    }

    fn take<const N: usize>(
        &mut self,
        function: Option<unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> usize>,
    ) -> Vec<[u8; N]> {
        let mut taken = Vec::new();
        let Some(function) = function else {
            return taken;
        };
        loop {
            let mut room = [[0; N]; 64];
            // SAFETY: the pointer is valid until `drop`, and `room` has as many entries of the size in ls_sim.h as the
            // call may write.
            let count = unsafe { function(self.sim.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
            taken.extend_from_slice(&room[..count]);
            if count < room.len() {
                return taken;
            }
        }
    }

    pub(crate) fn watch_functions(&self) -> &'static WatchFunctions {
        self.functions.watch
    }

    fn fault(&self) -> RtlError {
        // SAFETY: the pointer is valid until `drop`; the text is a C string that lives as long as the program.
        let text = unsafe { (self.functions.fault)(self.sim.as_ptr()) };
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
            (self.functions.run)(
                self.sim.as_ptr(),
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

    fn take_records(&mut self) -> Vec<NicRecord> {
        Self::take_records(self)
    }

    fn take_responses(&mut self) -> Vec<NicResponse> {
        Self::take_responses(self)
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `new`, and nothing uses it afterwards.
        unsafe { (self.functions.free)(self.sim.as_ptr()) };
    }
}
