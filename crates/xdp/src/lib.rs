//! The XDP datapath: loads the programs of `xdp/`, gives them their addresses and the memory of each service, and
//! attaches them to an interface.
//!
//! One root program owns the interface. It parses each frame, finds the service by own address and port, and tail-calls
//! the service's program through a program array. The maps and the link can be pinned ([`Pins`]), so that they outlive
//! the process and a later one can take them over.
//!
//! ```no_run
//! use lineside_xdp::{Interface, ProgramSpec, XdpDatapath, XdpMode};
//!
//! # fn example(object: &'static [u8]) -> Result<(), lineside_xdp::XdpError> {
//! let program = ProgramSpec::new(object, "spv", 1, 7701);
//! let mut datapath = XdpDatapath::load(vec![program], None)?;
//! let interface = Interface::find("eth0")?;
//! let mode = datapath.attach(&interface, XdpMode::Auto)?;
//! println!("attached: {mode:?}");
//! datapath.detach()?;
//! # Ok(())
//! # }
//! ```

mod error;
mod interface;
mod link;
mod pins;
mod runner;

pub use error::XdpError;
pub use interface::{Interface, harmful_offloads, native_needs};
pub use link::{AttachedMode, Link, XdpMode, attached, program_info};
pub use pins::Pins;
pub use runner::Runner;

use error::kernel;
use libbpf_rs::{
    MapCore, MapFlags, MapMut, Object, ObjectBuilder, OpenMapMut, OpenObject, ProgramInput, ProgramMut,
};
use lineside_fastpath::FrameVerdict;
use lineside_fastpath::memory::{Shared, Table};
use lineside_wire::DropReason;
use lineside_wire::endpoint::{ADDRESSES_MAX, Endpoint};
use memmap2::MmapOptions;
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

static ROOT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/root.bpf.o"));

/// Number of slots of the program array, `LS_SLOTS` in `xdp/root.h`.
pub const SLOTS: usize = 8;
/// Maps that the root program and the services share, from `xdp/maps.h`.
const SHARED_MAPS: [&str; 2] = ["ls_scratches", "ls_drop_counts"];
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// Size of the buffer for the frame that a test run returns.
const FRAME_BYTES_MAX: usize = 4096;

/// A service's program, and its settings before it is loaded.
pub struct ProgramSpec {
    /// The compiled `xdp/<service>.bpf.c`.
    pub object: &'static [u8],
    /// Name of the program in the object.
    pub program: &'static str,
    /// Slot in the program array, 1 to 7.
    pub slot: u32,
    /// UDP port of the service.
    pub port: u16,
    /// Number of entries of maps, by name. Maps that are not listed keep the value of the C source.
    pub entries: Vec<(&'static str, u32)>,
    /// Size in bytes of the values of maps, by name. Maps that are not listed keep the value of the C source.
    pub value_bytes: Vec<(&'static str, u32)>,
    /// Contents of the constant sections, by section name.
    pub constants: Vec<(&'static str, Vec<u8>)>,
}

impl ProgramSpec {
    /// Returns a program with the map sizes of its C source and without constants.
    pub fn new(object: &'static [u8], program: &'static str, slot: u32, port: u16) -> Self {
        Self {
            object,
            program,
            slot,
            port,
            entries: Vec::new(),
            value_bytes: Vec::new(),
            constants: Vec::new(),
        }
    }
}

struct Service {
    object: Object,
    program: &'static str,
    slot: u32,
    port: u16,
}

/// The loaded programs: the root program, and the services in their slots.
pub struct XdpDatapath {
    root: Object,
    services: Vec<Service>,
    link: Option<Link>,
    pins: Option<Pins>,
    adopted: bool,
}

impl XdpDatapath {
    /// Loads the root program and the services. With `pins`, maps that are pinned there are taken over, and all others
    /// are pinned there; programs that already run on these maps keep running until [`XdpDatapath::attach`]. Without
    /// `pins`, programs and maps end with this value.
    ///
    /// # Errors
    /// One variant of [`XdpError`] for each cause.
    pub fn load(images: Vec<ProgramSpec>, pins: Option<Pins>) -> Result<Self, XdpError> {
        // libbpf's own output is disabled: errors are reported once, by [`XdpError`], with the remedy.
        libbpf_rs::set_print(None);
        let adopted = pins.as_ref().is_some_and(|pins| pins.link().exists());
        let fresh = pins.as_ref().is_some_and(Pins::is_empty);
        match load_all(&images, pins.as_ref()) {
            Ok((root, services)) => Ok(Self {
                root,
                services,
                link: None,
                pins,
                adopted,
            }),
            Err(error) => {
                // Pins that were found are kept for another attempt. Pins created here are removed.
                if let Some(pins) = pins.filter(|_| fresh) {
                    let _ = pins.remove();
                }
                Err(error)
            }
        }
    }

    /// Returns true if the pinned link of an earlier daemon was found, so that the contents of the maps may be kept.
    pub fn is_adopted(&self) -> bool {
        self.adopted
    }

    /// Returns true if the maps are pinned, so that they can outlive this process.
    pub fn has_pins(&self) -> bool {
        self.pins.is_some()
    }

    /// Returns the mode in which the program is attached, or `None` before that.
    pub fn mode(&self) -> Option<AttachedMode> {
        self.link.as_ref().map(Link::mode)
    }

    /// Puts the services into their slots and gives the root program its addresses and ports, without attaching it.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(&mut self, endpoint: &Endpoint) -> Result<(), XdpError> {
        let mut ports = [0; SLOTS];
        for service in &mut self.services {
            ports[service.slot as usize % SLOTS] = service.port;
            let fd = program(&mut service.object, service.program)?.as_fd().as_raw_fd();
            map(&mut self.root, "ls_services")?
                .update(&service.slot.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(kernel("putting a service into its slot"))?;
        }
        // Removes programs that an earlier daemon put into slots that are unused now.
        for slot in (0..SLOTS as u32).filter(|slot| ports[*slot as usize] == 0) {
            match map(&mut self.root, "ls_services")?.delete(&slot.to_ne_bytes()) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(kernel("emptying a slot")(error));
                }
                _ => {}
            }
        }
        let value = endpoint_bytes(endpoint, &ports);
        let endpoints = map(&mut self.root, "ls_endpoints")?;
        if endpoints.value_size() as usize != value.len() {
            return Err(XdpError::Map("ls_endpoints".into()));
        }
        endpoints
            .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(kernel("writing the endpoint"))
    }

    /// Calls [`XdpDatapath::start`], then attaches the root program to the interface. If the link of an earlier daemon
    /// is pinned, its program is replaced atomically, so that no frame passes by.
    ///
    /// [`XdpError::ForeignProgram`], [`XdpError::DriverWithoutXdp`], [`XdpError::NotAllowed`], or the system's error.
    pub fn attach(&mut self, interface: &Interface, mode: XdpMode) -> Result<AttachedMode, XdpError> {
        self.start(&interface.endpoint)?;
        let pinned = match &self.pins {
            Some(pins) => Link::open(&pins.link(), interface)?,
            None => None,
        };
        let root = program(&mut self.root, "ls_root")?;
        let link = match pinned {
            Some(link) => {
                link.replace(root.as_fd())?;
                link
            }
            None => {
                let link = Link::attach(interface, root.as_fd(), mode)?;
                if let Some(pins) = &self.pins {
                    link.pin(&pins.link())?;
                }
                link
            }
        };
        let mode = link.mode();
        self.link = Some(link);
        Ok(mode)
    }

    /// Detaches the program from the interface and unpins everything.
    ///
    /// # Errors
    /// The system's error.
    pub fn detach(&mut self) -> Result<(), XdpError> {
        let detached = match self.link.take() {
            Some(link) => link.detach(),
            None => Ok(()),
        };
        match self.pins.take() {
            Some(pins) => detached.and(pins.remove()),
            None => detached,
        }
    }

    /// Loads the programs again over the same maps and replaces the running ones by them.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn replace(&mut self, images: Vec<ProgramSpec>) -> Result<(), XdpError> {
        let mut root = open(ROOT)?;
        share_maps(&mut root, &mut self.root)?;
        let mut root = root.load().map_err(kernel("loading the root program"))?;
        for image in images {
            let Some(old) = self.services.iter_mut().find(|old| old.slot == image.slot) else {
                continue;
            };
            let mut next = open_service(&image)?;
            share_maps(&mut next, &mut old.object)?;
            old.object = next
                .load()
                .map_err(kernel(format!("loading {}", image.program)))?;
            let fd = program(&mut old.object, old.program)?.as_fd().as_raw_fd();
            map(&mut root, "ls_services")?
                .update(&old.slot.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(kernel("putting a service into its slot"))?;
        }
        if let Some(link) = &self.link {
            link.replace(program(&mut root, "ls_root")?.as_fd())?;
        }
        self.root = root;
        Ok(())
    }

    fn map(&mut self, name: &str) -> Result<MapMut<'_>, XdpError> {
        let objects = std::iter::once(&mut self.root).chain(self.services.iter_mut().map(|s| &mut s.object));
        for object in objects {
            if let Ok(map) = map(object, name) {
                return Ok(map);
            }
        }
        Err(XdpError::Map(name.into()))
    }

    /// Returns a service's map as a table of `len` entries that the program and this process share. One value of the
    /// map may hold several entries.
    ///
    /// [`XdpError::Map`] if the map is missing or has another size; [`XdpError::System`] if it cannot be mapped.
    pub fn table<T: Shared>(&mut self, name: &str, len: usize) -> Result<Table<T>, XdpError> {
        let map = self.map(name)?;
        let bytes = map.value_size() as usize * map.max_entries() as usize;
        if bytes != len * size_of::<T>() {
            return Err(XdpError::Map(name.into()));
        }
        let memory = MmapOptions::new()
            .len(bytes)
            .map_raw(map.as_fd().as_raw_fd())
            .map_err(error::system(format!("mapping {name}")))?;
        Table::shared(memory, len).ok_or_else(|| XdpError::Map(name.into()))
    }

    /// Returns the sums over all CPUs of the `u64` counters in a per-CPU map.
    ///
    /// # Errors
    /// [`XdpError::Map`] if the map is missing or does not hold `N` counters.
    pub fn counts<const N: usize>(&mut self, name: &str) -> Result<[u64; N], XdpError> {
        let sums = self.count_all(name)?;
        sums.try_into().map_err(|_| XdpError::Map(name.into()))
    }

    /// Like [`XdpDatapath::counts`], for any number of counters.
    ///
    /// # Errors
    /// [`XdpError::Map`] if the map is missing.
    pub fn count_all(&mut self, name: &str) -> Result<Vec<u64>, XdpError> {
        let map = self.map(name)?;
        let per_cpu = map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(kernel("reading counters"))?
            .ok_or_else(|| XdpError::Map(name.into()))?;
        let mut sums = vec![0u64; map.value_size() as usize / 8];
        for values in &per_cpu {
            for (sum, bytes) in sums.iter_mut().zip(values.chunks_exact(8)) {
                *sum += bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        Ok(sums)
    }

    /// Returns the frames that XDP dropped, by [`DropReason`]: those of the service in `slot`, or of all services.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn drop_counts(&mut self, slot: Option<u32>) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(drops_in(&self.count_all("ls_drop_counts")?, slot))
    }

    /// Calls `use_it` with the descriptor of the root program, for example to tail-call it from another program.
    ///
    /// # Errors
    /// [`XdpError::Map`] if the program is missing.
    pub fn with_root<T>(&mut self, use_it: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T, XdpError> {
        Ok(use_it(program(&mut self.root, "ls_root")?.as_fd()))
    }

    /// Returns the number of instructions that the verifier processed, by program.
    ///
    /// # Errors
    /// The system's error.
    pub fn verified_instructions(&mut self) -> Result<Vec<(String, u32)>, XdpError> {
        let mut all = Vec::new();
        let root = program(&mut self.root, "ls_root")?;
        all.push(("ls_root".to_owned(), verified(&root)?));
        for service in &mut self.services {
            let loaded = program(&mut service.object, service.program)?;
            all.push((service.program.to_owned(), verified(&loaded)?));
        }
        Ok(all)
    }

    /// Runs the root program once on `frame` (BPF_PROG_TEST_RUN). Returns the verdict and the resulting frame. A
    /// verdict does not contain the reason of a drop: it is always reported as `SourcePort`, and only the counters show
    /// the reasons apart.
    ///
    /// # Errors
    /// The kernel's error, such as `EINVAL` for a frame shorter than an Ethernet header.
    pub fn test_run(&mut self, frame: &[u8]) -> Result<(FrameVerdict, Vec<u8>), XdpError> {
        let mut out = vec![0; FRAME_BYTES_MAX];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let output = program(&mut self.root, "ls_root")?
            .test_run(input)
            .map_err(kernel("test run"))?;
        let verdict = verdict(output.return_value)?;
        let bytes = output.data.map_or(0, |data| data.len());
        out.truncate(bytes);
        Ok((verdict, out))
    }

    /// Returns the root program for test runs by several threads at the same time.
    ///
    /// # Errors
    /// The system's error if the descriptor cannot be duplicated.
    pub fn runner(&mut self) -> Result<Runner, XdpError> {
        runner(&program(&mut self.root, "ls_root")?)
    }

    /// Like [`XdpDatapath::runner`], for the program `name` in a service's object. It need not be the one in the slot.
    ///
    /// # Errors
    /// [`XdpError::Map`] if no service has the program; the system's error if the descriptor cannot be duplicated.
    pub fn runner_of(&mut self, name: &str) -> Result<Runner, XdpError> {
        for service in &mut self.services {
            if let Ok(program) = program(&mut service.object, name) {
                return runner(&program);
            }
        }
        Err(XdpError::Map(name.into()))
    }
}

fn runner(program: &ProgramMut<'_>) -> Result<Runner, XdpError> {
    let fd = program.as_fd().try_clone_to_owned();
    fd.map(Runner)
        .map_err(error::system("duplicating a program's descriptor"))
}

/// Returns the drop counters of `struct ls_drops` in `xdp/maps.h`, of one slot or summed over all slots.
pub fn drops_in(counts: &[u64], slot: Option<u32>) -> [u64; DropReason::ALL.len()] {
    let mut sums = [0; DropReason::ALL.len()];
    for (index, of_slot) in counts.chunks(DropReason::ALL.len()).enumerate() {
        if slot.is_none_or(|slot| slot as usize == index) {
            let counted = sums.iter_mut().zip(of_slot);
            counted.for_each(|(sum, count)| *sum += count);
        }
    }
    sums
}

/// Converts the return value of a program. All drops are reported with the reason `SourcePort`.
fn verdict(value: u32) -> Result<FrameVerdict, XdpError> {
    match value {
        XDP_TX => Ok(FrameVerdict::Transmit),
        XDP_PASS => Ok(FrameVerdict::Pass),
        XDP_DROP => Ok(FrameVerdict::Drop(DropReason::SourcePort)),
        other => {
            let source =
                std::io::Error::other(format!("the program returned the unknown verdict {other}")).into();
            Err(kernel("test run")(source))
        }
    }
}

fn load_all(images: &[ProgramSpec], pins: Option<&Pins>) -> Result<(Object, Vec<Service>), XdpError> {
    let mut slots: Vec<_> = images.iter().map(|image| image.slot).collect();
    slots.sort_unstable();
    assert!(
        slots.windows(2).all(|two| two[0] != two[1]),
        "two programs have the same slot"
    );
    let mut root = open(ROOT)?;
    pin_maps(&mut root, &[], pins)?;
    let mut root = root.load().map_err(kernel("loading the root program"))?;
    let mut services = Vec::new();
    for image in images {
        let object = load_service(image, &mut root, pins)?;
        services.push(Service {
            object,
            program: image.program,
            slot: image.slot,
            port: image.port,
        });
    }
    Ok((root, services))
}

impl Drop for XdpDatapath {
    fn drop(&mut self) {
        // If no program was attached, newly pinned maps are of no use.
        if self.link.is_none()
            && !self.adopted
            && let Some(pins) = self.pins.take()
        {
            // `lineside xdp status` shows what could not be removed.
            let _ = pins.remove();
        }
    }
}

fn verified(program: &ProgramMut<'_>) -> Result<u32, XdpError> {
    let info = program_info(program.as_fd()).map_err(error::system("asking about a program"))?;
    Ok(info.verified_insns)
}

fn open(object: &[u8]) -> Result<OpenObject, XdpError> {
    ObjectBuilder::default()
        .open_memory(object)
        .map_err(kernel("reading a program"))
}

fn open_service(image: &ProgramSpec) -> Result<OpenObject, XdpError> {
    let mut service = open(image.object)?;
    for (name, entries) in &image.entries {
        open_map(&mut service, name)?
            .set_max_entries(*entries)
            .map_err(kernel("sizing a map"))?;
    }
    for (name, bytes) in &image.value_bytes {
        open_map(&mut service, name)?
            .set_value_size(*bytes)
            .map_err(kernel("sizing a map's values"))?;
    }
    for (name, value) in &image.constants {
        open_map(&mut service, name)?
            .set_initial_value(value)
            .map_err(kernel("setting constants"))?;
    }
    Ok(service)
}

fn load_service(image: &ProgramSpec, root: &mut Object, pins: Option<&Pins>) -> Result<Object, XdpError> {
    let mut service = open_service(image)?;
    for name in SHARED_MAPS {
        open_map(&mut service, name)?
            .reuse_fd(map(root, name)?.as_fd())
            .map_err(kernel("sharing a map"))?;
    }
    pin_maps(&mut service, &SHARED_MAPS, pins)?;
    let bytes: u64 = service
        .maps()
        .map(|map| u64::from(map.value_size()) * u64::from(map.max_entries()))
        .sum();
    service.load().map_err(|source| match source.kind() {
        libbpf_rs::ErrorKind::OutOfMemory | libbpf_rs::ErrorKind::TooBig => {
            XdpError::MapTooLarge { bytes, source }
        }
        _ => kernel(format!("loading {}", image.program))(source),
    })
}

/// Makes every map of `object` except its constants reuse its pin, or be pinned when it is loaded.
fn pin_maps(object: &mut OpenObject, shared: &[&str], pins: Option<&Pins>) -> Result<(), XdpError> {
    let Some(pins) = pins else { return Ok(()) };
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        // Each program has constants of its own. Maps shared with the root program were pinned with it.
        if name.contains('.') || shared.contains(&name.as_str()) {
            continue;
        }
        let path = pins.map(&name);
        if path.exists() && !same_shape(&map, &path)? {
            return Err(XdpError::OtherLayout {
                path,
                interface: pins.interface().into(),
            });
        }
        map.set_pin_path(&path).map_err(kernel("pinning a map"))?;
    }
    Ok(())
}

/// Returns true if the pinned map has the type, key size, value size and number of entries of `map`.
fn same_shape(map: &OpenMapMut<'_>, path: &Path) -> Result<bool, XdpError> {
    let pinned = libbpf_rs::MapHandle::from_pinned_path(path).map_err(kernel("opening a pinned map"))?;
    Ok(pinned.map_type() == map.map_type()
        && pinned.key_size() == map.key_size()
        && pinned.value_size() == map.value_size()
        && pinned.max_entries() == map.max_entries())
}

/// Makes `next` use the maps of `old`, except the constants.
fn share_maps(next: &mut OpenObject, old: &mut Object) -> Result<(), XdpError> {
    for mut wanted in next.maps_mut() {
        let name = wanted.name().to_string_lossy().into_owned();
        if !name.contains('.') {
            wanted
                .reuse_fd(map(old, &name)?.as_fd())
                .map_err(kernel("sharing a map"))?;
        }
    }
    Ok(())
}

fn open_map<'a>(open: &'a mut OpenObject, name: &str) -> Result<OpenMapMut<'a>, XdpError> {
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

/// Returns the bytes of `struct ls_endpoint` in `xdp/root.h`.
pub fn endpoint_bytes(endpoint: &Endpoint, ports: &[u16; SLOTS]) -> Vec<u8> {
    let mut value = Vec::with_capacity(224);
    value.extend_from_slice(&endpoint.mac);
    value.extend_from_slice(&[endpoint.loopback.into(), 0]);
    ports
        .iter()
        .for_each(|port| value.extend_from_slice(&port.to_be_bytes()));
    let (mut v4, mut v6): (Vec<_>, Vec<_>) =
        (endpoint.v4_with_broadcasts().collect(), endpoint.v6().collect());
    v4.sort_by_key(|(own, _)| !endpoint.answers((*own).into()));
    v6.sort_by_key(|own| !endpoint.answers((*own).into()));
    let v4_answered = v4
        .iter()
        .filter(|(own, _)| endpoint.answers((*own).into()))
        .count();
    let v6_answered = v6.iter().filter(|own| endpoint.answers((**own).into())).count();
    for count in [v4_answered, v6_answered, v4.len(), v6.len()] {
        value.extend_from_slice(&(count as u32).to_ne_bytes());
    }
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(&v4.get(index).map_or([0; 4], |(own, _)| own.octets()));
    }
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(
            &v4.get(index)
                .map_or([255; 4], |(_, broadcast)| broadcast.octets()),
        );
    }
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(&v6.get(index).map_or([0; 16], |address| address.octets()));
    }
    value
}
