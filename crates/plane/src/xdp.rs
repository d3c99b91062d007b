//! The XDP plane: the programs of `xdp/` loaded, told whom they answer for, and given a service's memory.

use libbpf_rs::{MapCore, MapFlags, MapMut, Object, ObjectBuilder, OpenObject, ProgramInput, ProgramMut};
use lineside_near::FrameVerdict;
use lineside_near::memory::{Shared, Table};
use lineside_wire::endpoint::{ADDRESSES_MAX, Endpoint};
use lineside_wire::{DropReason, SPV_SLOT};
use memmap2::MmapOptions;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/line.bpf.o"));

/// Slots of the program array, `LS_SLOTS` in `xdp/maps.h`.
const SLOTS: usize = 8;
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// Room for the frame that a test run gives back.
const FRAME_BYTES_MAX: usize = 4096;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The kernel will not have BPF programs from us.
    #[error("BPF is not allowed here: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON ({0})")]
    NotAllowed(libbpf_rs::Error),
    /// The kernel refused a program or a map.
    #[error("{what}: {source}")]
    Kernel {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// A map that the program should have is not there, or has another size.
    #[error("map {0} is missing or has another size: the program and this binary do not belong together")]
    Map(String),
    /// A map could not be mapped into memory.
    #[error("mapping {0}: {1}")]
    Mmap(String, std::io::Error),
}

fn kernel(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> XdpError {
    move |source| match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => XdpError::NotAllowed(source),
        _ => XdpError::Kernel { what, source },
    }
}

/// The loaded programs: root, with one service's program in its slot.
pub struct XdpPlane {
    object: Object,
}

/// How many entries a service's map shall have.
#[derive(Clone, Copy, Debug)]
pub struct MapSize<'a> {
    /// The map's name in the C source.
    pub name: &'a str,
    /// Entries.
    pub entries: u32,
}

impl XdpPlane {
    /// Loads the programs with maps of these sizes and puts `ls_spv` into its slot. Nothing is attached.
    ///
    /// # Errors
    /// [`XdpError::NotAllowed`] without the right to load BPF; what the kernel says otherwise.
    pub fn load(sizes: &[MapSize<'_>]) -> Result<Self, XdpError> {
        let mut open = ObjectBuilder::default()
            .open_memory(OBJECT)
            .map_err(kernel("reading the object"))?;
        for size in sizes {
            let mut map = open_map(&mut open, size.name)?;
            map.set_max_entries(size.entries)
                .map_err(kernel("sizing a map"))?;
        }
        let mut object = open.load().map_err(kernel("loading the XDP programs"))?;
        let service = program(&mut object, "ls_spv")?.as_fd().as_raw_fd();
        let slots = map(&mut object, "ls_services")?;
        slots
            .update(&SPV_SLOT.to_ne_bytes(), &service.to_ne_bytes(), MapFlags::ANY)
            .map_err(kernel("putting ls_spv into its slot"))?;
        Ok(Self { object })
    }

    /// Tells the root program which interface it stands at, and which port `ls_spv` has on it.
    ///
    /// # Errors
    /// What the kernel says of the write.
    pub fn set_endpoint(&mut self, endpoint: &Endpoint, port: u16) -> Result<(), XdpError> {
        let value = endpoint_bytes(endpoint, port);
        let endpoints = map(&mut self.object, "ls_endpoints")?;
        if endpoints.value_size() as usize != value.len() {
            return Err(XdpError::Map("ls_endpoints".into()));
        }
        endpoints
            .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(kernel("writing the endpoint"))
    }

    /// A service's map as memory that the program and this process share.
    ///
    /// # Errors
    /// [`XdpError::Map`] when it is not there or its entries are not `T`'s size; [`XdpError::Mmap`].
    pub fn table<T: Shared>(&mut self, name: &str) -> Result<Table<T>, XdpError> {
        let map = map(&mut self.object, name)?;
        if map.value_size() as usize != size_of::<T>() {
            return Err(XdpError::Map(name.into()));
        }
        let entries = map.max_entries() as usize;
        let memory = MmapOptions::new()
            .len(entries * size_of::<T>())
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(|error| XdpError::Mmap(name.into(), error))?;
        Table::shared(memory, entries).ok_or_else(|| XdpError::Map(name.into()))
    }

    /// The sums over all CPUs of a per-CPU map of `u64` counters.
    ///
    /// # Errors
    /// [`XdpError::Map`] when it is not there or does not hold `N` counters.
    pub fn counts<const N: usize>(&mut self, name: &str) -> Result<[u64; N], XdpError> {
        let map = map(&mut self.object, name)?;
        let per_cpu = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(kernel("reading counters"))?
            .ok_or_else(|| XdpError::Map(name.into()))?;
        let mut sums = [0u64; N];
        for values in &per_cpu {
            if values.len() != 8 * N {
                return Err(XdpError::Map(name.into()));
            }
            for (sum, bytes) in sums.iter_mut().zip(values.chunks_exact(8)) {
                *sum += bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        Ok(sums)
    }

    /// A loaded program, for a bench that attaches or measures it by itself.
    ///
    /// # Errors
    /// [`XdpError::Map`] when there is none of this name.
    pub fn program_fd(&mut self, name: &str) -> Result<OwnedFd, XdpError> {
        let program = program(&mut self.object, name)?;
        let fd = program.as_fd().try_clone_to_owned();
        fd.map_err(|error| XdpError::Kernel {
            what: "opening a program",
            source: error.into(),
        })
    }

    /// Runs the root program once on `frame` (BPF_PROG_TEST_RUN): the verdict, and the frame as it was left. The
    /// reason of a drop is not in a verdict; `SourcePort` stands for all, the counters tell them apart.
    ///
    /// # Errors
    /// What the kernel says, such as `EINVAL` for a frame shorter than an Ethernet header.
    pub fn test_run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let mut out = vec![0; FRAME_BYTES_MAX];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let output = program(&mut self.object, "ls_root")?
            .test_run(input)
            .map_err(kernel("test run"))?;
        let verdict = match output.return_value {
            XDP_TX => FrameVerdict::Transmit,
            XDP_PASS => FrameVerdict::Pass,
            XDP_DROP => FrameVerdict::Drop(DropReason::SourcePort),
            other => {
                let source = std::io::Error::other(format!("verdict {other}")).into();
                return Err(XdpError::Kernel {
                    what: "test run",
                    source,
                });
            }
        };
        let bytes = output.data.map_or(0, |data| data.len());
        out.truncate(bytes);
        Ok((verdict, out))
    }
}

fn open_map<'a>(open: &'a mut OpenObject, name: &str) -> Result<libbpf_rs::OpenMapMut<'a>, XdpError> {
    open.maps_mut()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| XdpError::Map(name.into()))
}

fn map<'a>(object: &'a mut Object, name: &str) -> Result<MapMut<'a>, XdpError> {
    object
        .maps_mut()
        .find(|map| map.name() == OsStr::new(name))
        .ok_or_else(|| XdpError::Map(name.into()))
}

fn program<'a>(object: &'a mut Object, name: &str) -> Result<ProgramMut<'a>, XdpError> {
    let found = object
        .progs_mut()
        .find(|program| program.name() == OsStr::new(name));
    found.ok_or_else(|| XdpError::Map(name.into()))
}

/// `struct ls_endpoint` of `xdp/maps.h`.
fn endpoint_bytes(endpoint: &Endpoint, port: u16) -> Vec<u8> {
    let mut value = Vec::with_capacity(192);
    value.extend_from_slice(&endpoint.mac);
    value.extend_from_slice(&[endpoint.loopback.into(), 0]);
    for slot in 0..SLOTS {
        let port = if slot == SPV_SLOT as usize { port } else { 0 };
        value.extend_from_slice(&port.to_be_bytes());
    }
    let (v4, v6): (Vec<_>, Vec<_>) = (endpoint.v4().collect(), endpoint.v6().collect());
    value.extend_from_slice(&(v4.len() as u32).to_ne_bytes());
    value.extend_from_slice(&(v6.len() as u32).to_ne_bytes());
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(&v4.get(index).map_or([0; 4], |address| address.octets()));
    }
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(&v6.get(index).map_or([0; 16], |address| address.octets()));
    }
    value
}
