//! Adapter that runs the `column` service on every datapath that processes whole frames.

use crate::frames::{self, FrameService, passed_on};
use crate::native::NativeMap;
pub use lineside_column::datapath::{program, store};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::store::{Geometry, Store};
use std::sync::Arc;

pub use crate::frames::DatapathKind;

/// Adapter of the `column` service for the tools of this crate.
pub struct Column;

/// Datapath of `column` that processes whole frames.
pub type FrameDatapath = frames::FrameDatapath<Column>;

impl FrameService for Column {
    const COUNTS: &str = "column_counts";

    passed_on!(ColumnFastPath);

    fn native_maps(store: &Arc<Store>) -> Vec<NativeMap> {
        vec![
            NativeMap::table("column_tables", store, |store| &store.tables),
            NativeMap::table("column_names", store, |store| &store.names),
            NativeMap::table("column_tops", store, |store| &store.tops),
            NativeMap::table("column_pages", store, |store| &store.pages),
            NativeMap::table("column_blocks", store, |store| &store.blocks),
            NativeMap::table("column_data", store, |store| &store.data),
            NativeMap::table("column_servers", store, |store| &store.servers),
            NativeMap::table("column_control", store, |store| &store.control),
            NativeMap::value("column_works"),
            NativeMap::value("column_counts"),
        ]
    }
}
