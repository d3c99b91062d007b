//! The table of `spv` in BPF maps, and the description of the XDP program for the loader.

use crate::store::{Geometry, Store};
use lineside_wire::SPV_SLOT;
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/spv.bpf.o"));

/// Number of cache lines in one value of the BPF map `spv_lines`; equals `SPV_SET_LINES` in `xdp/spv_store.h`.
const LINES_PER_VALUE: usize = 4;

/// Returns the program of `spv` for this geometry and UDP port.
pub fn program(geometry: &Geometry, port: u16) -> ProgramSpec {
    // The constants are the fields of `struct spv_geometry` in xdp/spv_store.h, in their order.
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

/// Returns the table in the maps of a loaded datapath, with the contents that an earlier process left there.
///
/// # Errors
/// [`XdpError::Map`] if the maps have another geometry; the system's error if they cannot be mapped.
pub fn store(datapath: &mut XdpDatapath, geometry: &Geometry) -> Result<Store, XdpError> {
    Ok(Store {
        lines: datapath.table("spv_lines", geometry.lines())?,
        blocks: datapath.table("spv_blocks", geometry.blocks())?,
        trees: datapath.table("spv_trees", geometry.tree_entries())?,
        control: datapath.table("spv_control", 1)?,
    })
}
