//! Adapter that runs the `transfer` service on every datapath that processes whole frames.

use crate::frames::{self, FrameService, passed_on};
use crate::native::{NativeDatapath, NativeMap};
use lineside_fastpath::FrameVerdict;
use lineside_transfer::datapath::RunOrder;
pub use lineside_transfer::datapath::{program, store};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::store::{Geometry, Store};
use std::cell::RefCell;
use std::io;
use std::sync::Arc;

pub use crate::frames::DatapathKind;

/// Adapter of the `transfer` service for the tools of this crate.
pub struct Transfer;

/// Datapath of `transfer` that processes whole frames.
pub type FrameDatapath = frames::FrameDatapath<Transfer>;

impl FrameService for Transfer {
    const COUNTS: &str = "transfer_counts";

    passed_on!(TransferFastPath);

    fn native_maps(store: &Arc<Store>) -> Vec<NativeMap> {
        vec![
            NativeMap::table("transfer_cells", store, |store| &store.cells),
            NativeMap::table("transfer_papers", store, |store| &store.paper),
            NativeMap::table("transfer_slots", store, |store| &store.sessions),
            NativeMap::table("transfer_rings", store, |store| &store.rings),
            NativeMap::table("transfer_records", store, |store| &store.records),
            NativeMap::table("transfer_control", store, |store| &store.control),
            NativeMap::value("transfer_works"),
            NativeMap::value("transfer_counts"),
        ]
    }
}

/// Carries out orders of the host (claims of accounts and sessions) in the natively compiled programs, one at a time.
pub struct NativeOrders<'a>(pub RefCell<&'a mut NativeDatapath>);

impl RunOrder for NativeOrders<'_> {
    fn run_order(&self, order: &[u8]) -> io::Result<bool> {
        Ok(self.0.borrow_mut().run_claims(order) == FrameVerdict::Pass)
    }
}
