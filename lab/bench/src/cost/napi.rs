//! Threads of the kernel that poll the queues of the veth pair, so that received packets are processed on a core of
//! choice. Without them, a veth processes packets on the sender's core, which is not the core of the server.

use crate::error::{BenchError, Result, io};
use crate::netns::{CLIENT_INTERFACE, Netns, SERVER_INTERFACE};
use crate::servers::SERVER_CORE;
use crate::sys;
use crate::{field::CLIENT_CORE, netns::NamespacePair};
use std::collections::BTreeSet;

/// Lets the server's core process what the server's interface receives, and the client's core what the client's
/// interface receives. The threads run before all ordinary threads, as interrupts do.
///
/// # Errors
/// [`BenchError::NotMeasured`] if the kernel does not have such threads, or if they cannot be placed.
pub fn place_queues(pair: &NamespacePair) -> Result<()> {
    place(&pair.server, SERVER_INTERFACE, SERVER_CORE)?;
    place(&pair.client, CLIENT_INTERFACE, CLIENT_CORE)
}

fn place(namespace: &Netns, interface: &str, core: usize) -> Result<()> {
    let before = threads(interface)?;
    let path = format!("/sys/class/net/{interface}/threaded");
    namespace.within(|| {
        sys::mount_own_sysfs().map_err(missing("mounting sysfs in a namespace of its own"))?;
        std::fs::write(path, "1").map_err(missing("starting a thread for the queue of a veth"))
    })?;
    let found: Vec<u32> = threads(interface)?.difference(&before).copied().collect();
    if found.is_empty() {
        return Err(BenchError::NotMeasured(format!(
            "the kernel has not started a thread for the queue of {interface}"
        )));
    }
    for thread in found {
        sys::pin_thread(thread, core)
            .and_then(|()| sys::make_real_time(thread))
            .map_err(missing("placing a thread of the kernel"))?;
    }
    Ok(())
}

/// Returns a function for `map_err` that names the step without which the part cannot be measured.
fn missing(what: &'static str) -> impl Fn(std::io::Error) -> BenchError {
    move |error| BenchError::NotMeasured(format!("{what}: {error}"))
}

/// Returns the threads of the kernel for the queues of interfaces with this name, in any namespace.
fn threads(interface: &str) -> Result<BTreeSet<u32>> {
    let name = format!("napi/{interface}-");
    let entries = std::fs::read_dir("/proc").map_err(io("reading /proc"))?;
    let ids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // A process may end between the two calls.
    let comm = |id: &u32| std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
    Ok(ids.filter(|id| comm(id).starts_with(&name)).collect())
}
