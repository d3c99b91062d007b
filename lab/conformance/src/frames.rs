//! Datapaths of a service that process whole frames: the Rust model with the frame code of the crate `wire`, the
//! program in the kernel, and the same C code compiled natively.

use crate::native::{NativeDatapath, NativeMap};
use crate::steps;
use lineside_fastpath::{DropReason, FastPath, FrameHandler, FrameVerdict, Steps, lease};
use lineside_wire::endpoint::Endpoint;
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};
use std::io;
use std::sync::Arc;

/// Datapath that processes whole frames.
pub trait Datapath {
    /// Runs the root program of the datapath on `frame`. Returns the verdict and the frame after the run. If the frame
    /// was dropped, only the counters show the reason.
    ///
    /// # Errors
    /// Error of the kernel.
    fn run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError>;

    /// Returns the number of drops so far, by [`DropReason`].
    ///
    /// # Errors
    /// Error of the kernel.
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

/// Parts that a service provides so that its fast path can run on every datapath.
pub trait FrameService {
    /// Geometry of the service's fast-path table: its sizes and policies.
    type Geometry;
    /// Type of the service's store: its fast-path table.
    type Store: Send + Sync + 'static;
    /// Type of the service's fast path.
    type FastPath: FastPath;
    /// Name of the BPF map with the counters of the fast path.
    const COUNTS: &str;

    /// Returns the program of the service for this geometry at UDP port `port`.
    fn program(geometry: &Self::Geometry, port: u16) -> ProgramSpec;

    /// Returns the store of the service in the maps of a loaded datapath. It still has the content that an earlier
    /// daemon left.
    ///
    /// # Errors
    /// [`XdpError::Map`] if the maps have another geometry, or an error of the operating system when they are mapped.
    fn store(datapath: &mut XdpDatapath, geometry: &Self::Geometry) -> Result<Self::Store, XdpError>;

    /// Returns a formatted store in this process's memory.
    ///
    /// # Errors
    /// The memory cannot be allocated.
    fn anonymous(geometry: &Self::Geometry) -> io::Result<Self::Store>;

    /// Writes geometry, policies and a new hash key into zeroed memory.
    ///
    /// # Errors
    /// The kernel's random numbers are not available.
    fn format(store: &Self::Store, geometry: &Self::Geometry) -> io::Result<()>;

    /// Returns a fast path over `store`.
    fn fastpath(store: Arc<Self::Store>) -> Self::FastPath;

    /// Returns the counters of the fast path.
    fn counters(fastpath: &Self::FastPath) -> Vec<u64>;

    /// Returns the maps of the program over `store`, for the native datapath.
    fn native_maps(store: &Arc<Self::Store>) -> Vec<NativeMap>;
}

/// Items of a [`FrameService`] that are the same for every service apart from types: each passes the call on to the
/// service's crate. The calling module must import `Geometry`, `Store`, `program` and `store` of that crate.
macro_rules! passed_on {
    ($fastpath:ty) => {
        type Geometry = Geometry;
        type Store = Store;
        type FastPath = $fastpath;

        fn program(geometry: &Geometry, port: u16) -> lineside_xdp::ProgramSpec {
            program(geometry, port)
        }

        fn store(
            datapath: &mut lineside_xdp::XdpDatapath,
            geometry: &Geometry,
        ) -> Result<Store, lineside_xdp::XdpError> {
            store(datapath, geometry)
        }

        fn anonymous(geometry: &Geometry) -> std::io::Result<Store> {
            Store::anonymous(geometry)
        }

        fn format(store: &Store, geometry: &Geometry) -> std::io::Result<()> {
            store.format(geometry)
        }

        fn fastpath(store: Arc<Store>) -> $fastpath {
            <$fastpath>::new(store)
        }

        fn counters(fastpath: &$fastpath) -> Vec<u64> {
            fastpath.counters().to_vec()
        }
    };
}
pub(crate) use passed_on;

/// Datapath of the model: the fast path of the socket datapath, with the frame code of the crate `wire`.
pub struct ModelDatapath<N> {
    fastpath: N,
    endpoint: Endpoint,
    port: u16,
    drops: [u64; DropReason::ALL.len()],
    /// True if it records the steps of each frame and checks them.
    explains: bool,
}

impl<N: FastPath> ModelDatapath<N> {
    /// Returns the datapath of this fast path at this interface.
    pub fn new(fastpath: N, endpoint: &Endpoint, port: u16) -> Self {
        Self {
            fastpath,
            endpoint: endpoint.clone(),
            port,
            drops: [0; DropReason::ALL.len()],
            explains: false,
        }
    }

    /// Returns the datapath of this fast path at this interface. It records the steps of each frame, and a run fails if
    /// they do not fit the verdict.
    pub fn explaining(fastpath: N, endpoint: &Endpoint, port: u16) -> Self {
        Self {
            explains: true,
            ..Self::new(fastpath, endpoint, port)
        }
    }

    /// Returns the fast path.
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
        let verdict = match self.explains {
            true => {
                let mut recorded = Steps::default();
                let verdict = line.explain(lease::now_ns(), &mut frame, &mut recorded);
                steps::reason(&recorded, verdict).map_err(|why| XdpError::System {
                    what: "the steps of the model".into(),
                    source: io::Error::other(why),
                })?;
                verdict
            }
            false => line.answer(lease::now_ns(), &mut frame),
        };
        if let FrameVerdict::Drop(reason) = verdict {
            self.drops[reason as usize] += 1;
        }
        Ok((verdict, frame))
    }

    fn drops(&mut self) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(self.drops)
    }
}

/// Kind of a datapath that processes whole frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatapathKind {
    /// The fast path in Rust, which is the model.
    Socket,
    /// The model, which records its steps, as `lineside explain` shows them.
    Explained,
    /// The XDP program in the kernel.
    Xdp,
    /// The C code of the program, compiled natively.
    Native,
}

impl DatapathKind {
    /// Returns the name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Explained => "explained",
            Self::Xdp => "xdp",
            Self::Native => "native",
        }
    }

    /// Returns the name in the lists of `spec/`: the native build has the code of `xdp`.
    pub const fn listed_name(self) -> &'static str {
        match self {
            Self::Socket | Self::Explained => "socket",
            Self::Xdp | Self::Native => "xdp",
        }
    }
}

/// Datapath of the service `S` that processes whole frames.
pub enum FrameDatapath<S: FrameService> {
    /// [`DatapathKind::Socket`] or [`DatapathKind::Explained`]
    Socket(Box<ModelDatapath<S::FastPath>>),
    /// [`DatapathKind::Xdp`]
    Xdp(Box<XdpDatapath>),
    /// [`DatapathKind::Native`]
    Native(NativeDatapath),
}

impl<S: FrameService> FrameDatapath<S> {
    /// Opens the datapath without attaching it, and its store. The store is formatted and empty, and the fast path has
    /// no lease.
    ///
    /// # Errors
    /// Error of the operating system.
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
        let fastpath = S::fastpath(Arc::clone(&store));
        let datapath = match kind {
            DatapathKind::Native => {
                Self::Native(native::<S>(&store, geometry, endpoint, port).map_err(no_memory)?)
            }
            DatapathKind::Explained => {
                Self::Socket(Box::new(ModelDatapath::explaining(fastpath, endpoint, port)))
            }
            DatapathKind::Socket | DatapathKind::Xdp => {
                Self::Socket(Box::new(ModelDatapath::new(fastpath, endpoint, port)))
            }
        };
        Ok((datapath, store))
    }

    /// Returns the counters of the fast path.
    ///
    /// # Errors
    /// Error of the kernel.
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

/// Returns the root program and the service `S`, compiled natively, over `store`, which has this geometry. Waits until
/// another native datapath has ended.
///
/// # Errors
/// The memory for frames cannot be allocated.
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
