//! The store of `spv` in BPF maps, and every plane of `spv` that takes whole frames.

use crate::diff::Plane;
use crate::native::NativePlane;
use crate::xdp::{Image, XdpError, XdpPlane};
use lineside_near::{DropReason, FrameVerdict, Line, lease};
use lineside_spv::near::SpvNear;
use lineside_spv::store::{Geometry, Store};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{SPV_SLOT, SpvCounter};
use std::sync::Arc;

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
        constants: vec![(
            ".rodata.spv",
            constants.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        )],
    }
}

/// The store in the maps of a loaded plane. What an earlier daemon left there is still in it.
///
/// # Errors
/// [`XdpError::Map`] when the maps have not this geometry; what the system says of mapping them.
pub fn store(plane: &mut XdpPlane, geometry: &Geometry) -> Result<Store, XdpError> {
    Ok(Store {
        lines: plane.table("spv_lines", geometry.lines())?,
        blocks: plane.table("spv_blocks", geometry.blocks())?,
        control: plane.table("spv_control", 1)?,
    })
}

/// The model's own plane: the near of `socket` behind the frame code of `wire`.
pub struct ModelPlane {
    near: SpvNear,
    endpoint: Endpoint,
    port: u16,
    drops: [u64; DropReason::ALL.len()],
}

impl ModelPlane {
    /// Near over `store`, at this interface.
    pub fn new(store: Arc<Store>, endpoint: &Endpoint, port: u16) -> Self {
        Self {
            near: SpvNear::new(store),
            endpoint: endpoint.clone(),
            port,
            drops: [0; DropReason::ALL.len()],
        }
    }
}

impl Plane for ModelPlane {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let line = Line {
            endpoint: &self.endpoint,
            port: self.port,
            near: &self.near,
        };
        let mut frame = frame.to_vec();
        let verdict = line.answer(lease::now_ns(), &mut frame);
        if let FrameVerdict::Drop(reason) = verdict {
            self.drops[reason as usize] += 1;
        }
        Ok((verdict, frame))
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(self.drops)
    }
}

/// A plane of `spv`, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaneKind {
    /// The Rust near.
    Socket,
    /// The program in the kernel.
    Xdp,
    /// The same C compiled natively.
    Native,
}

impl PlaneKind {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Xdp => "xdp",
            Self::Native => "native",
        }
    }
}

/// One plane of `spv` that takes whole frames.
pub enum FramePlane {
    /// [`PlaneKind::Socket`]
    Socket(Box<ModelPlane>),
    /// [`PlaneKind::Xdp`]
    Xdp(Box<XdpPlane>),
    /// [`PlaneKind::Native`]
    Native(NativePlane),
}

impl FramePlane {
    /// The plane, attached to nothing, and its store: formatted, empty and without a lease.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(
        kind: PlaneKind,
        geometry: &Geometry,
        endpoint: &Endpoint,
        port: u16,
    ) -> Result<(Self, Arc<Store>), XdpError> {
        let no_memory = |source| XdpError::System {
            what: "memory for the store".into(),
            source,
        };
        if kind == PlaneKind::Xdp {
            let mut plane = XdpPlane::load(vec![image(geometry, port)], None)?;
            plane.start(endpoint)?;
            let store = Arc::new(store(&mut plane, geometry)?);
            store.format(geometry).map_err(no_memory)?;
            return Ok((Self::Xdp(Box::new(plane)), store));
        }
        let store = Arc::new(Store::anonymous(geometry).map_err(no_memory)?);
        let shared = Arc::clone(&store);
        let plane = match kind {
            PlaneKind::Native => {
                Self::Native(NativePlane::load(shared, geometry, endpoint, port).map_err(no_memory)?)
            }
            PlaneKind::Socket | PlaneKind::Xdp => {
                Self::Socket(Box::new(ModelPlane::new(shared, endpoint, port)))
            }
        };
        Ok((plane, store))
    }

    /// What near counted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counters(&mut self) -> Result<[u64; SpvCounter::ALL.len()], XdpError> {
        match self {
            Self::Socket(plane) => Ok(plane.near.counters()),
            Self::Xdp(plane) => plane.counts("spv_counts"),
            Self::Native(plane) => Ok(plane.counters()),
        }
    }

    fn as_plane(&mut self) -> &mut dyn Plane {
        match self {
            Self::Socket(plane) => plane.as_mut(),
            Self::Xdp(plane) => plane.as_mut(),
            Self::Native(plane) => plane,
        }
    }
}

impl Plane for FramePlane {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        self.as_plane().run(frame)
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        self.as_plane().drops()
    }
}
