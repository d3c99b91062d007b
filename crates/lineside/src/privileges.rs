//! What the daemon may do, once its files are open: BPF, XDP, and nothing else that root may.

use anyhow::Context;
use caps::{CapSet, Capability, CapsHashSet};

/// Loading programs, attaching them, and the verifier's leave to compare pointers.
const NEEDED: [Capability; 3] = [
    Capability::CAP_BPF,
    Capability::CAP_NET_ADMIN,
    Capability::CAP_PERFMON,
];

/// Gives up every capability but those that XDP needs, for this thread and those that it starts.
///
/// # Errors
/// What the system says; giving up is always allowed, so this is a system that has no capabilities.
pub fn drop_all_but_bpf() -> anyhow::Result<()> {
    let permitted = caps::read(None, CapSet::Permitted).context("reading capabilities")?;
    let kept: CapsHashSet = NEEDED
        .into_iter()
        .filter(|capability| permitted.contains(capability))
        .collect();
    // A program that this process might be made to start gets none.
    for set in [CapSet::Ambient, CapSet::Inheritable] {
        caps::clear(None, set).context("giving up capabilities")?;
    }
    if permitted.contains(&Capability::CAP_SETPCAP) {
        for capability in caps::read(None, CapSet::Bounding).context("reading capabilities")? {
            if !NEEDED.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability).context("giving up capabilities")?;
            }
        }
    }
    caps::set(None, CapSet::Effective, &kept).context("giving up capabilities")?;
    caps::set(None, CapSet::Permitted, &kept).context("giving up capabilities")
}
