//! Drops the capabilities that a server does not need once its files are open. With XDP it keeps three, otherwise none.

use anyhow::Context;
use caps::{CapSet, Capability, CapsHashSet};

/// Capabilities for XDP: load BPF programs, attach them to an interface, and pass the verifier's checks of pointer
/// arithmetic (`CAP_PERFMON`).
pub const XDP: &[Capability] = &[
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
];

/// Drops every capability that is not in `needed`, for this thread and the threads that it starts.
///
/// # Errors
/// The kernel has no capabilities; dropping one is always allowed.
pub fn drop_all_but(needed: &[Capability]) -> anyhow::Result<()> {
    let permitted =
        caps::read(None, CapSet::Permitted).context("cannot read the capabilities of the process")?;
    let remaining: CapsHashSet = permitted
        .iter()
        .copied()
        .filter(|capability| needed.contains(capability))
        .collect();
    // A program that this process might execute inherits no capability.
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).context("cannot drop capabilities")?;
    }
    if permitted.contains(&Capability::CAP_SETPCAP) {
        for capability in
            caps::read(None, CapSet::Bounding).context("cannot read the capabilities of the process")?
        {
            if !needed.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability).context("cannot drop capabilities")?;
            }
        }
    }
    caps::set(None, CapSet::Effective, &remaining).context("cannot drop capabilities")?;
    caps::set(None, CapSet::Permitted, &remaining).context("cannot drop capabilities")
}
