//! Events of a simulated run with their clock cycles, and, with the feature `trace`, waveforms of all signals.

use crate::sim::Simulation;
use std::ffi::{c_int, c_void};

/// Kind of an event; the numbers are those of `ls_sim_event_kind` in rtl/shells/sim/ls_sim.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimEventKind {
    /// A beat of the frame was taken in.
    In,
    /// A decision was counted. The index is that of a counter of the service.
    Counted,
    /// A decision was counted. The index is that of a reason of a drop.
    Dropped,
    /// A beat left to the network.
    Network,
    /// A beat left to the host.
    Host,
    /// The frame has left, or was dropped. The index is the number of the verdict.
    Passed,
}

/// Event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimEvent {
    /// Clock cycle since the reset.
    pub cycle: u64,
    /// Kind.
    pub kind: SimEventKind,
    /// For a beat 1 if it is the last one of its frame; otherwise see [`SimEventKind`].
    pub index: u32,
}

/// `struct ls_sim_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawEvent {
    cycle: u64,
    kind: u32,
    index: u32,
}

/// C functions of one design; `rtl/shells/sim/ls_sim.h` describes them.
#[derive(Debug)]
pub(crate) struct WatchFunctions {
    watch: unsafe extern "C" fn(*mut c_void, c_int),
    events: unsafe extern "C" fn(*const c_void, *mut RawEvent, usize) -> usize,
    #[cfg(feature = "trace")]
    trace_begin: unsafe extern "C" fn(*mut c_void, *const std::ffi::c_char) -> c_int,
    #[cfg(feature = "trace")]
    trace_end: unsafe extern "C" fn(*mut c_void) -> c_int,
}

macro_rules! watch_functions {
    ($name:ident, $watch:ident, $events:ident, $trace_begin:ident, $trace_end:ident) => {
        // SAFETY: the declarations are those of rtl/shells/sim/ls_sim.h.
        unsafe extern "C" {
            fn $watch(sim: *mut c_void, is_on: c_int);
            fn $events(sim: *const c_void, out: *mut RawEvent, most: usize) -> usize;
            #[cfg(feature = "trace")]
            fn $trace_begin(sim: *mut c_void, path: *const std::ffi::c_char) -> c_int;
            #[cfg(feature = "trace")]
            fn $trace_end(sim: *mut c_void) -> c_int;
        }

        pub(crate) static $name: WatchFunctions = WatchFunctions {
            watch: $watch,
            events: $events,
            #[cfg(feature = "trace")]
            trace_begin: $trace_begin,
            #[cfg(feature = "trace")]
            trace_end: $trace_end,
        };
    };
}

watch_functions!(
    SPV,
    ls_sim_watch,
    ls_sim_events,
    ls_sim_trace_begin,
    ls_sim_trace_end
);
watch_functions!(
    TRANSFER,
    ls_transfer_sim_watch,
    ls_transfer_sim_events,
    ls_transfer_sim_trace_begin,
    ls_transfer_sim_trace_end
);

/// Maximum number of events of a run that are returned.
const EVENTS_MAX: usize = 4096;

impl Simulation {
    /// Starts or stops recording the events of the next runs.
    pub fn watch(&mut self, is_on: bool) {
        // SAFETY: the pointer is valid until `drop`.
        unsafe { (self.watch_functions().watch)(self.sim.as_ptr(), c_int::from(is_on)) };
    }

    /// Returns the events of the last run in their order, at most 4,096.
    pub fn events(&self) -> Vec<SimEvent> {
        let mut events = vec![RawEvent::default(); EVENTS_MAX];
        // SAFETY: the pointer is valid until `drop`, and the buffer has space for `EVENTS_MAX` events.
        let count =
            unsafe { (self.watch_functions().events)(self.sim.as_ptr(), events.as_mut_ptr(), EVENTS_MAX) };
        events[..count.min(EVENTS_MAX)]
            .iter()
            .filter_map(RawEvent::event)
            .collect()
    }

    /// Writes all signals to a new FST file from now on. Cycle N after this call is from 4 N ns, as with a clock of 250
    /// MHz, and its clock edge is at 4 N + 2 ns.
    ///
    /// # Errors
    /// The file cannot be created.
    #[cfg(feature = "trace")]
    pub fn begin_trace(&mut self, path: &std::path::Path) -> std::io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        // The writer of Verilator does not return the system's error, so the file is created here first.
        std::fs::File::create(path)?;
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the pointer is valid until `drop`, and the path is a C string that outlives the call.
        match unsafe { (self.watch_functions().trace_begin)(self.sim.as_ptr(), path.as_ptr()) } {
            0 => Err(std::io::Error::other("the FST file cannot be written")),
            _ => Ok(()),
        }
    }

    /// Simulates four more cycles and completes the FST file.
    ///
    /// # Errors
    /// No file is being written.
    #[cfg(feature = "trace")]
    pub fn end_trace(&mut self) -> std::io::Result<()> {
        // SAFETY: the pointer is valid until `drop`.
        match unsafe { (self.watch_functions().trace_end)(self.sim.as_ptr()) } {
            0 => Err(std::io::Error::other("no FST file is being written")),
            _ => Ok(()),
        }
    }
}

impl RawEvent {
    fn event(&self) -> Option<SimEvent> {
        let kind = match self.kind {
            0 => SimEventKind::In,
            1 => SimEventKind::Counted,
            2 => SimEventKind::Dropped,
            3 => SimEventKind::Network,
            4 => SimEventKind::Host,
            5 => SimEventKind::Passed,
            _ => return None,
        };
        Some(SimEvent {
            cycle: self.cycle,
            kind,
            index: self.index,
        })
    }
}
