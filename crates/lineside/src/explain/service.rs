//! Interface between `lineside explain` and a service.

use super::ran::LeftToHost;
use anyhow::Context;
use lineside_fastpath::FastPath;
use lineside_rtl::{Command, NicCounters, NicDesign};
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};
use std::io;
use std::sync::Arc;

/// Subject of an error about the memory of a table.
const TABLE_MEMORY: &str = "the memory of the fast-path table";

/// Service with its configuration, whose fast path can be explained on all datapaths.
#[cfg_attr(
    not(feature = "rtl"),
    expect(
        dead_code,
        reason = "only a program with the simulated NIC uses the items about it"
    )
)]
pub trait Explained {
    /// Fast-path table.
    type Store;
    /// Fast path over such a table.
    type FastPath: FastPath;
    /// Owner of the data. The fast path answers from a filled table as long as it exists.
    type Host;
    /// Name of the service.
    const NAME: &'static str;
    /// Name of the BPF map with its counters.
    const COUNTS: &'static str;
    /// Design of its NIC.
    const DESIGN: NicDesign;
    /// Register of the NIC with the UDP port of the service.
    const PORT_REGISTER: u32;
    /// Counter of the requests that a NIC leaves to the host.
    const FORWARDED: &'static str;

    /// Returns the names of its counters in their order.
    fn counter_names() -> Vec<&'static str>;

    /// Returns the meaning of a code in its replies.
    fn meaning_of_code(_code: u16) -> Option<&'static str> {
        None
    }

    /// Returns the configured UDP port.
    fn port(&self) -> u16;

    /// Returns the XDP program at this UDP port.
    fn program(&self, port: u16) -> ProgramSpec;

    /// Returns the formatted and empty table in the maps of a loaded program.
    ///
    /// # Errors
    /// Error of the kernel.
    fn store_of(&self, program: &mut XdpDatapath) -> Result<Self::Store, XdpError>;

    /// Returns a formatted and empty table in memory.
    ///
    /// # Errors
    /// The memory cannot be allocated.
    fn store(&self) -> anyhow::Result<Self::Store>;

    /// Fills the table from the configured directory, if there is one, and lets the fast path answer from it.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn fill(&self, store: &Arc<Self::Store>) -> anyhow::Result<Self::Host>;

    /// Returns a second empty table, in which each entry gets the place that it has in `store`, if a request may change
    /// the table; otherwise two datapaths can use the same table.
    ///
    /// # Errors
    /// The memory cannot be allocated.
    fn twin(&self, store: &Self::Store) -> anyhow::Result<Option<Self::Store>>;

    /// Returns the model over a table.
    fn fastpath(store: &Arc<Self::Store>) -> Self::FastPath;

    /// Returns the counters of the model.
    fn counters(fastpath: &Self::FastPath) -> Vec<u64>;

    /// Returns the commands that copy a table into a NIC.
    fn nic_commands(store: &Self::Store) -> Vec<Command>;

    /// Returns the counters of a NIC.
    fn nic_counters(counters: &NicCounters) -> Vec<u64>;

    /// Returns the reason why the RTL passes a native request to the host that the model may answer; `None` if the RTL
    /// has the same result as the model.
    fn left_to_host(&self, payload: &[u8]) -> Option<LeftToHost>;
}

/// Adds to an error that the memory of a table is not available.
pub fn table_memory<T>(allocated: io::Result<T>) -> anyhow::Result<T> {
    allocated.context(TABLE_MEMORY)
}

/// Returns a table in the maps of a program after `format` has formatted it.
///
/// # Errors
/// `format` failed.
pub fn formatted<T>(store: T, format: impl FnOnce(&T) -> io::Result<()>) -> Result<T, XdpError> {
    match format(&store) {
        Ok(()) => Ok(store),
        Err(source) => Err(XdpError::System {
            what: TABLE_MEMORY.into(),
            source,
        }),
    }
}
