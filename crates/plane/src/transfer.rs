//! The store of `transfer` in BPF maps, and what `transfer` brings to every plane that takes whole frames.

use crate::frames::{self, FrameService};
use crate::native::NativeMap;
use crate::xdp::{Image, XdpError, XdpPlane};
use lineside_transfer::near::TransferNear;
use lineside_transfer::store::{Geometry, Store};
use lineside_wire::{TRANSFER_BUCKET_CELLS, TRANSFER_SLOT};
use std::io;
use std::sync::Arc;

pub use crate::frames::PlaneKind;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transfer.bpf.o"));

/// The program of `transfer` for this geometry, behind `port`. `geometry.rings` is to be [`rings`] where it executes.
pub fn image(geometry: &Geometry, port: u16) -> Image {
    // struct transfer_geometry of xdp/transfer_store.h
    let constants = [
        geometry.bucket_bits(),
        geometry.ring_bits,
        geometry.mode.durability().into(),
    ];
    Image {
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
        constants: vec![(
            ".rodata.transfer",
            constants.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        )],
    }
}

/// Rings that the program needs, one for each CPU that may ever be there; a CPU without one answers `busy`.
///
/// # Errors
/// What the system says.
pub fn rings() -> Result<u32, XdpError> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|source| XdpError::Kernel {
        what: "counting CPUs".into(),
        source,
    })?;
    Ok(cpus as u32)
}

/// The store in the maps of a loaded plane. What an earlier daemon left there is still in it.
///
/// # Errors
/// [`XdpError::Map`] when the maps have not this geometry; what the system says of mapping them.
pub fn store(plane: &mut XdpPlane, geometry: &Geometry) -> Result<Store, XdpError> {
    Ok(Store {
        cells: plane.table("transfer_cells", geometry.cells())?,
        paper: plane.table("transfer_papers", geometry.cells())?,
        sessions: plane.table("transfer_slots", geometry.sessions as usize)?,
        rings: plane.table("transfer_rings", geometry.rings as usize)?,
        records: plane.table(
            "transfer_records",
            geometry.rings as usize * geometry.ring_records(),
        )?,
        control: plane.table("transfer_control", 1)?,
    })
}

/// The service.
pub struct Transfer;

/// One plane of `transfer` that takes whole frames.
pub type FramePlane = frames::FramePlane<Transfer>;

impl FrameService for Transfer {
    type Geometry = Geometry;
    type Store = Store;
    type Near = TransferNear;
    const COUNTS: &str = "transfer_counts";

    fn image(geometry: &Geometry, port: u16) -> Image {
        image(geometry, port)
    }

    fn store(plane: &mut XdpPlane, geometry: &Geometry) -> Result<Store, XdpError> {
        store(plane, geometry)
    }

    fn anonymous(geometry: &Geometry) -> io::Result<Store> {
        Store::anonymous(geometry)
    }

    fn format(store: &Store, geometry: &Geometry) -> io::Result<()> {
        store.format(geometry)
    }

    fn near(store: Arc<Store>) -> TransferNear {
        TransferNear::new(store)
    }

    fn counters(near: &TransferNear) -> Vec<u64> {
        near.counters().to_vec()
    }

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
