//! The XDP program of `column`, and its fast-path table in BPF maps.

use crate::layout::ColumnLine;
use crate::store::{Geometry, Store};
use lineside_wire::COLUMN_SLOT;
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/column.bpf.o"));

/// Returns the XDP program of `column` for this geometry and UDP port.
pub fn program(geometry: &Geometry, port: u16) -> ProgramSpec {
    // These are the fields of `struct column_geometry` in xdp/column_store.h.
    let constants = [geometry.data_bytes() as u32, geometry.name_places() as u32 - 1];
    let columns = geometry.columns.len() as u32;
    ProgramSpec {
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

/// Returns the fast-path table in the maps of a loaded XDP program. The maps still have the contents that an earlier
/// daemon left.
///
/// # Errors
/// [`XdpError::Map`] if the maps do not have this geometry; the system's error if they cannot be mapped into memory.
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
