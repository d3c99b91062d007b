//! Every datapath of a service that takes whole frames: the model behind the frame code of `wire`, the program in the
//! kernel, and the same C compiled natively.

use crate::native::{NativeDatapath, NativeMap};
use lineside_fastpath::{DropReason, FastPath, FrameHandler, FrameVerdict, lease};
use lineside_wire::endpoint::Endpoint;
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};
use std::io;
use std::sync::Arc;

/// A datapath that takes whole frames.
pub trait Datapath {
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

impl Datapath for XdpDatapath {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        self.test_run(frame)
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        self.drop_counts(None)
    }
}

impl Datapath for NativeDatapath {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        Ok(NativeDatapath::run(self, frame))
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(NativeDatapath::drops(self))
    }
}

/// What a service brings so that its fast path may run on every datapath.
pub trait FrameService {
    /// How large its store is, and its policies.
    type Geometry;
    /// Its store.
    type Store: Send + Sync + 'static;
    /// Its fast path.
    type FastPath: FastPath;
    /// The map of its counters.
    const COUNTS: &str;

    /// Its program for this geometry, behind `port`.
    fn program(geometry: &Self::Geometry, port: u16) -> ProgramSpec;

    /// Its store in the maps of a loaded datapath. What an earlier daemon left there is still in it.
    ///
    /// # Errors
    /// [`XdpError::Map`] when the maps have not this geometry; what the system says of mapping them.
    fn store(datapath: &mut XdpDatapath, geometry: &Self::Geometry) -> Result<Self::Store, XdpError>;

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

    /// A fast path over `store`.
    fn fastpath(store: Arc<Self::Store>) -> Self::FastPath;

    /// How often its fast path counted each of its counters.
    fn counters(fastpath: &Self::FastPath) -> Vec<u64>;

    /// The maps of its program, natively, over `store`.
    fn native_maps(store: &Arc<Self::Store>) -> Vec<NativeMap>;
}

/// The model's own datapath: the fast path of `socket` behind the frame code of `wire`.
pub struct ModelDatapath<N> {
    fastpath: N,
    endpoint: Endpoint,
    port: u16,
    drops: [u64; DropReason::ALL.len()],
}

impl<N: FastPath> ModelDatapath<N> {
    /// This fast path, at this interface.
    pub fn new(fastpath: N, endpoint: &Endpoint, port: u16) -> Self {
        Self {
            fastpath,
            endpoint: endpoint.clone(),
            port,
            drops: [0; DropReason::ALL.len()],
        }
    }

    /// The fast path.
    pub fn fastpath(&self) -> &N {
        &self.fastpath
    }
}

impl<N: FastPath> Datapath for ModelDatapath<N> {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let line = FrameHandler {
            endpoint: &self.endpoint,
            port: self.port,
            fastpath: &self.fastpath,
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

/// A datapath that takes whole frames, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatapathKind {
    /// The Rust fast path.
    Socket,
    /// The program in the kernel.
    Xdp,
    /// The same C compiled natively.
    Native,
}

impl DatapathKind {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Xdp => "xdp",
            Self::Native => "native",
        }
    }
}

/// One datapath of the service `S` that takes whole frames.
pub enum FrameDatapath<S: FrameService> {
    /// [`DatapathKind::Socket`]
    Socket(Box<ModelDatapath<S::FastPath>>),
    /// [`DatapathKind::Xdp`]
    Xdp(Box<XdpDatapath>),
    /// [`DatapathKind::Native`]
    Native(NativeDatapath),
}

impl<S: FrameService> FrameDatapath<S> {
    /// The datapath, attached to nothing, and its store: formatted, empty and without a lease.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(
        kind: DatapathKind,
        geometry: &S::Geometry,
        endpoint: &Endpoint,
        port: u16,
    ) -> Result<(Self, Arc<S::Store>), XdpError> {
        if kind == DatapathKind::Xdp {
            let mut datapath = XdpDatapath::load(vec![S::program(geometry, port)], None)?;
            datapath.start(endpoint)?;
            let store = Arc::new(S::store(&mut datapath, geometry)?);
            S::format(&store, geometry).map_err(no_memory)?;
            return Ok((Self::Xdp(Box::new(datapath)), store));
        }
        let store = Arc::new(S::anonymous(geometry).map_err(no_memory)?);
        let datapath = match kind {
            DatapathKind::Native => {
                Self::Native(native::<S>(&store, geometry, endpoint, port).map_err(no_memory)?)
            }
            DatapathKind::Socket | DatapathKind::Xdp => Self::Socket(Box::new(ModelDatapath::new(
                S::fastpath(Arc::clone(&store)),
                endpoint,
                port,
            ))),
        };
        Ok((datapath, store))
    }

    /// What the fast path counted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn counters(&mut self) -> Result<Vec<u64>, XdpError> {
        match self {
            Self::Socket(datapath) => Ok(S::counters(datapath.fastpath())),
            Self::Xdp(datapath) => datapath.count_all(S::COUNTS),
            Self::Native(datapath) => Ok(datapath.counts(S::COUNTS)),
        }
    }

    fn as_datapath(&mut self) -> &mut dyn Datapath {
        match self {
            Self::Socket(datapath) => datapath.as_mut(),
            Self::Xdp(datapath) => datapath.as_mut(),
            Self::Native(datapath) => datapath,
        }
    }
}

impl<S: FrameService> Datapath for FrameDatapath<S> {
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        self.as_datapath().run(frame)
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        self.as_datapath().drops()
    }
}

/// Root and the service `S`, natively, over `store`, which has this geometry. Waits for another native datapath to end.
///
/// # Errors
/// What the system says of the memory for frames.
pub fn native<S: FrameService>(
    store: &Arc<S::Store>,
    geometry: &S::Geometry,
    endpoint: &Endpoint,
    port: u16,
) -> io::Result<NativeDatapath> {
    NativeDatapath::load(
        vec![(S::program(geometry, port), S::native_maps(store))],
        endpoint,
    )
}

fn no_memory(source: io::Error) -> XdpError {
    XdpError::System {
        what: "memory for the store".into(),
        source,
    }
}
