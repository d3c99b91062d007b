//! The store of `column` in BPF maps, and what `column` brings to every datapath that takes whole frames.

use crate::frames::{self, FrameService};
use crate::native::NativeMap;
use crate::xdp::{Image, XdpDatapath, XdpError};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::store::{Geometry, Store};
use lineside_wire::{COLUMN_SLOT, ColumnLine};
use std::io;
use std::sync::Arc;

pub use crate::frames::DatapathKind;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/column.bpf.o"));

/// The program of `column` for this geometry, behind `port`.
pub fn image(geometry: &Geometry, port: u16) -> Image {
    // struct column_geometry of xdp/column_store.h
    let constants = [geometry.data_bytes() as u32, geometry.name_places() as u32 - 1];
    let columns = geometry.columns.len() as u32;
    Image {
        object: OBJECT,
        program: "ls_column",
        slot: COLUMN_SLOT,
        port,
        entries: vec![
            ("column_names", geometry.name_places() as u32),
            ("column_tables", columns),
            ("column_tops", columns),
            ("column_pages", geometry.pages() as u32),
            ("column_blocks", geometry.blocks() as u32),
            ("column_data", geometry.blocks() as u32),
        ],
        value_bytes: vec![("column_data", geometry.data_bytes() as u32)],
        constants: vec![(
            ".rodata.column",
            constants.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        )],
    }
}

/// The store in the maps of a loaded datapath. What an earlier daemon left there is still in it.
///
/// # Errors
/// [`XdpError::Map`] when the maps have not this geometry; what the system says of mapping them.
pub fn store(datapath: &mut XdpDatapath, geometry: &Geometry) -> Result<Store, XdpError> {
    let columns = geometry.columns.len();
    let lines = geometry.blocks() * geometry.data_bytes() / size_of::<ColumnLine>();
    Ok(Store {
        tables: datapath.table("column_tables", columns)?,
        names: datapath.table("column_names", geometry.name_places())?,
        tops: datapath.table("column_tops", columns)?,
        pages: datapath.table("column_pages", geometry.pages())?,
        blocks: datapath.table("column_blocks", geometry.blocks())?,
        data: datapath.table("column_data", lines)?,
        servers: datapath.table("column_servers", 1)?,
        control: datapath.table("column_control", 1)?,
    })
}

/// The service.
pub struct Column;

/// One datapath of `column` that takes whole frames.
pub type FrameDatapath = frames::FrameDatapath<Column>;

impl FrameService for Column {
    type Geometry = Geometry;
    type Store = Store;
    type FastPath = ColumnFastPath;
    const COUNTS: &str = "column_counts";

    fn image(geometry: &Geometry, port: u16) -> Image {
        image(geometry, port)
    }

    fn store(datapath: &mut XdpDatapath, geometry: &Geometry) -> Result<Store, XdpError> {
        store(datapath, geometry)
    }

    fn anonymous(geometry: &Geometry) -> io::Result<Store> {
        Store::anonymous(geometry)
    }

    fn format(store: &Store, geometry: &Geometry) -> io::Result<()> {
        store.format(geometry)
    }

    fn fastpath(store: Arc<Store>) -> ColumnFastPath {
        ColumnFastPath::new(store)
    }

    fn counters(fastpath: &ColumnFastPath) -> Vec<u64> {
        fastpath.counters().to_vec()
    }

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
