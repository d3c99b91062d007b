//! Adapter that runs the `spv` service on every datapath that processes whole frames.

use crate::frames::{self, FrameService, passed_on};
use crate::native::NativeMap;
pub use lineside_spv::datapath::{program, store};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::{Geometry, Store};
use std::sync::Arc;

pub use crate::frames::DatapathKind;

/// Adapter of the `spv` service for the tools of this crate.
pub struct Spv;

/// Datapath of `spv` that processes whole frames.
pub type FrameDatapath = frames::FrameDatapath<Spv>;

impl FrameService for Spv {
    const COUNTS: &str = "spv_counts";

    passed_on!(SpvFastPath);

    fn native_maps(store: &Arc<Store>) -> Vec<NativeMap> {
        vec![
            NativeMap::table("spv_lines", store, |store| &store.lines),
            NativeMap::table("spv_blocks", store, |store| &store.blocks),
            NativeMap::table("spv_trees", store, |store| &store.trees),
            NativeMap::table("spv_control", store, |store| &store.control),
            NativeMap::value("spv_drafts"),
            NativeMap::value("spv_proofs"),
            NativeMap::value("spv_counts"),
        ]
    }
}
