//! Capabilities of a serving process, once its files are open: those of XDP where it is used, and none else.

use anyhow::Context;
use caps::{CapSet, Capability, CapsHashSet};

/// Loading programs, attaching them, and the verifier's leave to compare pointers.
pub const XDP: &[Capability] = &[
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
];

/// Gives up every capability but those of `needed`, for this thread and those that it starts.
///
/// # Errors
/// The system's reason; giving up is always allowed, so this is a system that has no capabilities.
pub fn drop_all_but(needed: &[Capability]) -> anyhow::Result<()> {
    let permitted = caps::read(None, CapSet::Permitted).context("reading capabilities")?;
    let kept: CapsHashSet = permitted
        .iter()
        .copied()
        .filter(|capability| needed.contains(capability))
        .collect();
    // A program that this process might be made to start gets none.
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).context("giving up capabilities")?;
    }
    if permitted.contains(&Capability::CAP_SETPCAP) {
        for capability in caps::read(None, CapSet::Bounding).context("reading capabilities")? {
            if !needed.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability).context("giving up capabilities")?;
            }
        }
    }
    caps::set(None, CapSet::Effective, &kept).context("giving up capabilities")?;
    caps::set(None, CapSet::Permitted, &kept).context("giving up capabilities")
}
