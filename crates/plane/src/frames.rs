//! Every plane of a service that takes whole frames: the model behind the frame code of `wire`, the program in the
//! kernel, and the same C compiled natively.

use crate::native::{NativeMap, NativePlane};
use crate::xdp::{Image, XdpError, XdpPlane};
use lineside_near::{DropReason, FrameVerdict, Line, Near, lease};
use lineside_wire::endpoint::Endpoint;
use std::io;
use std::sync::Arc;

/// A plane that takes whole frames.
pub trait Plane {
    /// Runs its root program on `frame`: the verdict, and the frame as it was left. The reason of a drop shows in the
    /// counters only.
    ///
    /// # Errors
    /// What the kernel says.
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError>;

    /// Drops so far, by [`DropReason`].
    ///
    /// # Errors
    /// What the kernel says.
    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError>;
}

impl Plane for XdpPlane {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        self.test_run(frame)
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        self.drop_counts(None)
    }
}

impl Plane for NativePlane {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        Ok(NativePlane::run(self, frame))
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(NativePlane::drops(self))
    }
}

/// What a service brings so that its near may run on every plane.
pub trait FrameService {
    /// How large its store is, and its policies.
    type Geometry;
    /// Its store.
    type Store: Send + Sync + 'static;
    /// Its near.
    type Near: Near;
    /// The map of its counters.
    const COUNTS: &str;

    /// Its program for this geometry, behind `port`.
    fn image(geometry: &Self::Geometry, port: u16) -> Image;

    /// Its store in the maps of a loaded plane. What an earlier daemon left there is still in it.
    ///
    /// # Errors
    /// [`XdpError::Map`] when the maps have not this geometry; what the system says of mapping them.
    fn store(plane: &mut XdpPlane, geometry: &Self::Geometry) -> Result<Self::Store, XdpError>;

    /// A store of this process alone, formatted.
    ///
    /// # Errors
    /// What the kernel says of the memory.
    fn anonymous(geometry: &Self::Geometry) -> io::Result<Self::Store>;

    /// Writes geometry, policies and a fresh hash key into zeroed memory.
    ///
    /// # Errors
    /// What the kernel says of its random numbers.
    fn format(store: &Self::Store, geometry: &Self::Geometry) -> io::Result<()>;

    /// A near over `store`.
    fn near(store: Arc<Self::Store>) -> Self::Near;

    /// How often its near counted each of its counters.
    fn counters(near: &Self::Near) -> Vec<u64>;

    /// The maps of its program, natively, over `store`.
    fn native_maps(store: &Arc<Self::Store>) -> Vec<NativeMap>;
}

/// The model's own plane: the near of `socket` behind the frame code of `wire`.
pub struct ModelPlane<N> {
    near: N,
    endpoint: Endpoint,
    port: u16,
    drops: [u64; DropReason::ALL.len()],
}

impl<N: Near> ModelPlane<N> {
    /// This near, at this interface.
    pub fn new(near: N, endpoint: &Endpoint, port: u16) -> Self {
        Self {
            near,
            endpoint: endpoint.clone(),
            port,
            drops: [0; DropReason::ALL.len()],
        }
    }

    /// The near.
    pub fn near(&self) -> &N {
        &self.near
    }
}

impl<N: Near> Plane for ModelPlane<N> {
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

/// A plane that takes whole frames, by name.
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

/// One plane of the service `S` that takes whole frames.
pub enum FramePlane<S: FrameService> {
    /// [`PlaneKind::Socket`]
    Socket(Box<ModelPlane<S::Near>>),
    /// [`PlaneKind::Xdp`]
    Xdp(Box<XdpPlane>),
    /// [`PlaneKind::Native`]
    Native(NativePlane),
}

impl<S: FrameService> FramePlane<S> {
    /// The plane, attached to nothing, and its store: formatted, empty and without a lease.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(
        kind: PlaneKind,
        geometry: &S::Geometry,
        endpoint: &Endpoint,
        port: u16,
    ) -> Result<(Self, Arc<S::Store>), XdpError> {
        if kind == PlaneKind::Xdp {
            let mut plane = XdpPlane::load(vec![S::image(geometry, port)], None)?;
            plane.start(endpoint)?;
            let store = Arc::new(S::store(&mut plane, geometry)?);
            S::format(&store, geometry).map_err(no_memory)?;
            return Ok((Self::Xdp(Box::new(plane)), store));
        }
        let store = Arc::new(S::anonymous(geometry).map_err(no_memory)?);
        let plane = match kind {
            PlaneKind::Native => {
                Self::Native(native::<S>(&store, geometry, endpoint, port).map_err(no_memory)?)
            }
            PlaneKind::Socket | PlaneKind::Xdp => Self::Socket(Box::new(ModelPlane::new(
                S::near(Arc::clone(&store)),
                endpoint,
                port,
            ))),
        };
        Ok((plane, store))
    }

    /// What near counted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counters(&mut self) -> Result<Vec<u64>, XdpError> {
        match self {
            Self::Socket(plane) => Ok(S::counters(plane.near())),
            Self::Xdp(plane) => plane.count_all(S::COUNTS),
            Self::Native(plane) => Ok(plane.counts(S::COUNTS)),
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

impl<S: FrameService> Plane for FramePlane<S> {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        self.as_plane().run(frame)
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        self.as_plane().drops()
    }
}

/// Root and the service `S`, natively, over `store`, which has this geometry. Waits for another native plane to end.
///
/// # Errors
/// What the system says of the memory for frames.
pub fn native<S: FrameService>(
    store: &Arc<S::Store>,
    geometry: &S::Geometry,
    endpoint: &Endpoint,
    port: u16,
) -> io::Result<NativePlane> {
    NativePlane::load(vec![(S::image(geometry, port), S::native_maps(store))], endpoint)
}

fn no_memory(source: io::Error) -> XdpError {
    XdpError::System {
        what: "memory for the store".into(),
        source,
    }
}
