//! The store of `spv` in BPF maps, and what `spv` brings to every datapath that takes whole frames.

use crate::store::{Geometry, Store};
use lineside_wire::SPV_SLOT;
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/spv.bpf.o"));

/// Lines in one value of the map, `SPV_SET_LINES` in `xdp/spv_store.h`.
const LINES_PER_VALUE: usize = 4;

/// The program of `spv` for this geometry, behind `port`.
pub fn program(geometry: &Geometry, port: u16) -> ProgramSpec {
    // struct spv_geometry of xdp/spv_store.h
    let constants = [
        geometry.set_bits(),
        geometry.ways,
        geometry.paper_index.into(),
        geometry.blocks() as u32 - 1,
        geometry.tree_nodes() as u32,
    ];
    ProgramSpec {
        object: OBJECT,
        program: "ls_spv",
        slot: SPV_SLOT,
        port,
        entries: vec![
            ("spv_lines", (geometry.lines() / LINES_PER_VALUE) as u32),
            ("spv_blocks", geometry.blocks() as u32),
            ("spv_trees", geometry.tree_entries() as u32),
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
        trees: datapath.table("spv_trees", geometry.tree_entries())?,
        control: datapath.table("spv_control", 1)?,
    })
}
