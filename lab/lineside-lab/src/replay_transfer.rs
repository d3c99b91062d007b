//! `replay --service transfer`: a fast path that executes operations, over an empty ledger.

use crate::replay::Datapath;
use lineside_capture::Target;
use lineside_conformance::frames::{Datapath as FrameRunner, DatapathKind};
use lineside_conformance::transfer::FrameDatapath;
use lineside_fastpath::{DropReason, FrameVerdict, Range, lease};
use lineside_transfer::ring::Ring;
use lineside_transfer::store::{Geometry, Mode};
use lineside_xdp::XdpError;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Fast path whose records are discarded after each frame, so that there is always room for more.
struct Drained<D, F> {
    datapath: D,
    drain: F,
}

impl<D: FrameRunner, F: FnMut(&mut D)> FrameRunner for Drained<D, F> {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let left = self.datapath.run(frame)?;
        (self.drain)(&mut self.datapath);
        Ok(left)
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        self.datapath.drops()
    }
}

/// Returns a table without accounts and sessions in which every sender may create money.
fn geometry() -> anyhow::Result<Geometry> {
    let all = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    Ok(Geometry {
        account_bits: lineside_rtl::SIM_BUCKET_BITS,
        rings: lineside_transfer::datapath::rings()?,
        mode: Mode::Express,
        issuers: all
            .map(|address| Range {
                address,
                prefix_bits: 0,
            })
            .to_vec(),
        ..Geometry::default()
    })
}

/// Opens the datapath for the endpoint of a replay, with a lease of `lease_ns`.
pub fn open(kind: Datapath, target: &Target, lease_ns: u64) -> anyhow::Result<Box<dyn FrameRunner>> {
    let kind = match kind {
        Datapath::Socket => DatapathKind::Socket,
        Datapath::Xdp => DatapathKind::Xdp,
        Datapath::Native => DatapathKind::Native,
        Datapath::Rtl => return open_rtl(target, lease_ns),
    };
    let (datapath, store) = FrameDatapath::open(kind, &geometry()?, &target.endpoint(), target.port)?;
    lease::renew(&store.control().lease_until_ns, lease_ns);
    let drain = move |_: &mut FrameDatapath| {
        for index in 0..store.rings.as_slice().len() {
            let ring = Ring::of(&store, index);
            ring.release(ring.head());
        }
    };
    Ok(Box::new(Drained { datapath, drain }))
}

#[cfg(feature = "rtl")]
fn open_rtl(target: &Target, lease_ns: u64) -> anyhow::Result<Box<dyn FrameRunner>> {
    use lineside_conformance::rtl::RtlDatapath;
    use lineside_conformance::transfer::Transfer;
    use lineside_transfer::store::Store;
    let store = Store::anonymous(&geometry()?)?;
    lease::renew(&store.control().lease_until_ns, lease_ns);
    let datapath = RtlDatapath::<Transfer>::over(&store, &target.endpoint(), target.port)?;
    let drain = |datapath: &mut RtlDatapath<Transfer>| {
        datapath.simulation().take_records();
        datapath.simulation().take_responses();
    };
    Ok(Box::new(Drained { datapath, drain }))
}

#[cfg(not(feature = "rtl"))]
fn open_rtl(_target: &Target, _lease_ns: u64) -> anyhow::Result<Box<dyn FrameRunner>> {
    anyhow::bail!(crate::NO_SIMULATED_NIC)
}
