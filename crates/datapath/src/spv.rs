//! The store of `spv` in BPF maps, and what `spv` brings to every datapath that takes whole frames.

use crate::frames::{self, FrameService};
use crate::native::NativeMap;
use crate::xdp::{Image, XdpDatapath, XdpError};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::{Geometry, Store};
use lineside_wire::SPV_SLOT;
use std::io;
use std::sync::Arc;

pub use crate::frames::DatapathKind;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/spv.bpf.o"));

/// Lines in one value of the map, `SPV_SET_LINES` in `xdp/spv_store.h`.
const LINES_PER_VALUE: usize = 4;

/// The program of `spv` for this geometry, behind `port`.
pub fn image(geometry: &Geometry, port: u16) -> Image {
    // struct spv_geometry of xdp/spv_store.h
    let constants = [
        geometry.set_bits(),
        geometry.ways,
        geometry.paper_index.into(),
        geometry.blocks() as u32 - 1,
    ];
    Image {
        object: OBJECT,
        program: "ls_spv",
        slot: SPV_SLOT,
        port,
        entries: vec![
            ("spv_lines", (geometry.lines() / LINES_PER_VALUE) as u32),
            ("spv_blocks", geometry.blocks() as u32),
        ],
        value_bytes: Vec::new(),
        constants: vec![(
            ".rodata.spv",
            constants.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        )],
    }
}

/// The store in the maps of a loaded datapath. What an earlier daemon left there is still in it.
///
/// # Errors
/// [`XdpError::Map`] when the maps have not this geometry; what the system says of mapping them.
pub fn store(datapath: &mut XdpDatapath, geometry: &Geometry) -> Result<Store, XdpError> {
    Ok(Store {
        lines: datapath.table("spv_lines", geometry.lines())?,
        blocks: datapath.table("spv_blocks", geometry.blocks())?,
        control: datapath.table("spv_control", 1)?,
    })
}

/// The service.
pub struct Spv;

/// One datapath of `spv` that takes whole frames.
pub type FrameDatapath = frames::FrameDatapath<Spv>;

impl FrameService for Spv {
    type Geometry = Geometry;
    type Store = Store;
    type FastPath = SpvFastPath;
    const COUNTS: &str = "spv_counts";

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

    fn fastpath(store: Arc<Store>) -> SpvFastPath {
        SpvFastPath::new(store)
    }

    fn counters(fastpath: &SpvFastPath) -> Vec<u64> {
        fastpath.counters().to_vec()
    }

    fn native_maps(store: &Arc<Store>) -> Vec<NativeMap> {
        vec![
            NativeMap::table("spv_lines", store, |store| &store.lines),
            NativeMap::table("spv_blocks", store, |store| &store.blocks),
            NativeMap::table("spv_control", store, |store| &store.control),
            NativeMap::value("spv_drafts"),
            NativeMap::value("spv_counts"),
        ]
    }
}
