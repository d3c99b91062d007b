//! Store of `transfer` in BPF maps, and parts of `transfer` that a datapath needs to receive whole frames.

mod claims;

pub use claims::{LineClaims, RunOrder};

use crate::layout::{TransferControl, TransferRing};
use crate::store::{Geometry, Store};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use lineside_wire::{
    NATIVE_MAGIC, TRANSFER_BUCKET_CELLS, TRANSFER_COMMAND_REFER, TRANSFER_EXPRESS, TRANSFER_OP_REFER,
    TRANSFER_OP_SESSION, TRANSFER_PAPER_BYTES_MAX, TRANSFER_PAPER_BYTES_MIN, TRANSFER_SLOT,
};
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};
use socket2::SockFilter;
use std::mem::offset_of;
use std::path::Path;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transfer.bpf.o"));

/// Returns the program of `transfer` for this geometry and `port`. In `express`, `geometry.rings` must be [`rings`].
pub fn program(geometry: &Geometry, port: u16) -> ProgramSpec {
    // Values in the order of the fields of `struct transfer_geometry` in xdp/transfer_store.h.
    let constants = [
        geometry.bucket_bits(),
        geometry.ring_bits,
        geometry.mode.durability().into(),
        0,
    ];
    ProgramSpec {
        object: OBJECT,
        program: "ls_transfer",
        slot: TRANSFER_SLOT,
        port,
        entries: vec![
            (
                "transfer_cells",
                (geometry.cells() / TRANSFER_BUCKET_CELLS) as u32,
            ),
            ("transfer_papers", geometry.cells() as u32),
            ("transfer_slots", geometry.sessions),
            ("transfer_rings", geometry.rings),
            ("transfer_records", geometry.rings << geometry.ring_bits),
        ],
        value_bytes: Vec::new(),
        constants: vec![(
            ".rodata.transfer",
            constants.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        )],
    }
}

/// Returns the program of `transfer` without rings. The operations that it executes never reach a journal; a benchmark
/// uses it to measure the cost of the rings.
#[cfg(feature = "laboratory")]
pub fn ringless_program(geometry: &Geometry, port: u16) -> ProgramSpec {
    let mut image = program(geometry, port);
    for (_, words) in &mut image.constants {
        let last = words.len() - size_of::<u32>();
        words[last..].copy_from_slice(&1u32.to_ne_bytes());
    }
    image
}

/// Returns the number of rings that the program needs: one for each possible CPU. A CPU without a ring replies `busy`.
///
/// # Errors
/// Error of the system.
pub fn rings() -> Result<u32, XdpError> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|source| XdpError::Kernel {
        what: "counting CPUs".into(),
        source,
    })?;
    Ok(cpus as u32)
}

/// Returns the store in the maps of a loaded datapath. It still has the content that an earlier daemon left there.
///
/// # Errors
/// [`XdpError::Map`] when the maps have another geometry; errors of the system when it maps them.
pub fn store(datapath: &mut XdpDatapath, geometry: &Geometry) -> Result<Store, XdpError> {
    Ok(Store {
        cells: datapath.table("transfer_cells", geometry.cells())?,
        paper: datapath.table("transfer_papers", geometry.cells())?,
        sessions: datapath.table("transfer_slots", geometry.sessions as usize)?,
        rings: datapath.table("transfer_rings", geometry.rings as usize)?,
        records: datapath.table(
            "transfer_records",
            geometry.rings as usize * geometry.ring_records(),
        )?,
        control: datapath.table("transfer_control", 1)?,
    })
}

/// Fast path of `transfer` that an earlier server left pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// True if it executes operations.
    pub is_express: bool,
    /// Identifier of its ledger.
    pub ledger: u64,
    /// Number of operations in its rings that may not be in a journal yet.
    pub waiting: u64,
}

/// Returns the fast path of `transfer` that is pinned in `folder`, if there is one.
///
/// # Errors
/// Error of the system when it reads the maps.
pub fn pinned(folder: &Path) -> Result<Option<Pinned>, XdpError> {
    let control = folder.join("transfer_control");
    if !control.exists() {
        return Ok(None);
    }
    let control = read(&control, 0)?;
    let mode = word(&control, offset_of!(TransferControl, mode), size_of::<u32>());
    let rings = folder.join("transfer_rings");
    let mut waiting = 0;
    for index in 0..open(&rings)?.max_entries() {
        let ring = read(&rings, index)?;
        let at = |offset| word(&ring, offset, size_of::<u64>());
        waiting += at(offset_of!(TransferRing, head)).saturating_sub(at(offset_of!(TransferRing, tail)));
    }
    Ok(Some(Pinned {
        is_express: mode == u64::from(TRANSFER_EXPRESS),
        ledger: word(&control, offset_of!(TransferControl, ledger), size_of::<u64>()),
        waiting,
    }))
}

fn open(map: &Path) -> Result<MapHandle, XdpError> {
    MapHandle::from_pinned_path(map).map_err(|source| XdpError::Kernel {
        what: format!("opening {}", map.display()),
        source,
    })
}

fn read(map: &Path, index: u32) -> Result<Vec<u8>, XdpError> {
    let found = open(map)?.lookup(&index.to_ne_bytes(), MapFlags::ANY);
    let found = found.map_err(|source| XdpError::Kernel {
        what: format!("reading {}", map.display()),
        source,
    })?;
    Ok(found.unwrap_or_default())
}

/// Returns the number of `bytes` bytes at `offset` of a map's value; 0 if the value is too short.
fn word(value: &[u8], offset: usize, bytes: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = value.get(offset..offset + bytes) {
        word[..bytes].copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

/// Returns a classic BPF filter for the sockets of `transfer`: a request that may change something must have a UDP
/// checksum. On IPv4 the kernel accepts a checksum of 0 ("none") and does not report it to the receiver; XDP passes
/// these requests to the kernel, where this filter drops them. Reads pass, as they do in XDP.
pub fn only_checked_writes() -> Vec<SockFilter> {
    // See linux/filter.h. Offsets count from the UDP header.
    const LOAD_WORD: u16 = 0x20;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_BYTE: u16 = 0x30;
    const IF_EQUAL: u16 = 0x15;
    const IF_ABOVE: u16 = 0x25;
    const IF_NOT_BELOW: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const WHOLE: u32 = u32::MAX;
    let payload = 8;
    let step = SockFilter::new;
    vec![
        step(LOAD_HALF, 0, 0, 6),
        step(IF_EQUAL, 0, 10, 0),
        // A packet in the paper's format, recognised by its length: only REFER passes.
        step(LOAD_HALF, 0, 0, 4),
        step(IF_NOT_BELOW, 0, 8, payload + TRANSFER_PAPER_BYTES_MIN as u32),
        step(IF_ABOVE, 2, 0, payload + TRANSFER_PAPER_BYTES_MAX as u32),
        step(LOAD_WORD, 0, 0, payload),
        step(IF_EQUAL, 5, 6, TRANSFER_COMMAND_REFER.into()),
        // A native packet passes if it only reads. Anything else also passes and is counted after the filter.
        step(LOAD_HALF, 0, 0, payload),
        step(IF_EQUAL, 0, 3, NATIVE_MAGIC.into()),
        step(LOAD_BYTE, 0, 0, payload + 3),
        step(IF_EQUAL, 1, 0, TRANSFER_OP_REFER.into()),
        step(IF_EQUAL, 0, 1, TRANSFER_OP_SESSION.into()),
        step(RETURN, 0, 0, WHOLE),
        step(RETURN, 0, 0, 0),
    ]
}
