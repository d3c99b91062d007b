//! The XDP datapath: loads the programs of `xdp/`, writes the interface's addresses and each service's tables for them,
//! and attaches the programs to an interface.
//!
//! One root program owns each interface. It parses each frame, finds the service by destination address and port, and
//! tail-calls the service's program through a program array. Several interfaces share the services and all maps except
//! the map with the addresses of the interface. The maps and the links can be pinned ([`Pins`]); then they remain when
//! the process ends, and a later process can take them over.
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
mod load;
mod pins;
mod runner;
mod site;

pub use error::XdpError;
pub use interface::{Interface, harmful_offloads, may_lose_native_answers, native_needs};
pub use link::{AttachedMode, AttachedRoot, Link, XdpMode, attached, attached_roots, program_info};
pub use pins::{DEFAULT_PIN_DIR, Pins, detach_command};
pub use runner::Runner;
pub use site::{Site, endpoint_bytes};

use error::kernel;
use libbpf_rs::{MapCore, MapFlags, MapMut, Object, ProgramInput, ProgramMut};
use lineside_fastpath::FrameVerdict;
use lineside_fastpath::memory::{Shared, Table};
use lineside_wire::DropReason;
use lineside_wire::endpoint::Endpoint;
use load::{load_all, map, open, open_service, program, share_maps};
use memmap2::MmapOptions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

static ROOT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/root.bpf.o"));

/// Name of the root program in its object.
const ROOT_PROGRAM: &str = "ls_root";
/// Number of slots of the program array, `LS_SLOTS` in `xdp/root.h`.
pub const SLOTS: usize = 8;
/// Name of the map with the addresses of one interface, from `xdp/root.h`. Each root program has its own map of this
/// name.
const ENDPOINT_MAP: &str = "ls_endpoints";
/// Name of the map with the programs of the services, from `xdp/root.h`. Its id identifies the maps that a process has
/// pinned together.
const SERVICES_MAP: &str = "ls_services";
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// Size in bytes of the buffer for the frame that a test run returns.
const FRAME_BYTES_MAX: usize = 4096;

/// A service's program that is not loaded yet, with its settings.
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

/// Pins of one interface, with their state at the time when they were found.
struct FoundPins {
    pins: Pins,
    /// True if the link of an earlier daemon was pinned.
    had_link: bool,
}

/// The loaded programs: a root program for each interface, and the services in their slots.
pub struct XdpDatapath {
    /// Root program of each interface. The first one also holds the maps that all of them share.
    roots: Vec<Object>,
    services: Vec<Service>,
    /// Links that attach the root programs, in the same order; empty before [`XdpDatapath::attach`].
    links: Vec<Link>,
    /// Pins of the interfaces, in the order of the root programs; empty if nothing is pinned.
    pins: Vec<FoundPins>,
}

impl XdpDatapath {
    /// Loads the root program and the services for one interface; see [`XdpDatapath::load_for`].
    ///
    /// # Errors
    /// One variant of [`XdpError`] for each cause.
    pub fn load(images: Vec<ProgramSpec>, pins: Option<Pins>) -> Result<Self, XdpError> {
        Self::load_for(images, 1, pins.into_iter().collect())
    }

    /// Loads the services once, and the root program for each of `interfaces` interfaces. `pins` has one item for each
    /// interface, or none. With pins, maps that are pinned already are taken over, and all other maps are pinned at
    /// every interface; programs that already run on these maps keep running until [`XdpDatapath::attach_all`]. Without
    /// pins, programs and maps end when this value is dropped.
    ///
    /// # Errors
    /// [`XdpError::Apart`] if two interfaces have pins of different maps; one variant of [`XdpError`] for each other
    /// cause.
    ///
    /// # Panics
    /// If there are no interfaces, or not as many `pins` as interfaces.
    pub fn load_for(images: Vec<ProgramSpec>, interfaces: usize, pins: Vec<Pins>) -> Result<Self, XdpError> {
        assert!(interfaces > 0 && (pins.is_empty() || pins.len() == interfaces));
        // Output of libbpf itself is disabled, because [`XdpError`] reports each error, together with its remedy.
        libbpf_rs::set_print(None);
        let had_link: Vec<_> = pins.iter().map(|pins| pins.link().exists()).collect();
        let were_empty: Vec<_> = pins.iter().map(Pins::is_empty).collect();
        match load_all(&images, interfaces, &pins) {
            Ok((roots, services)) => Ok(Self {
                roots,
                services,
                links: Vec::new(),
                pins: pins
                    .into_iter()
                    .zip(had_link)
                    .map(|(pins, had_link)| FoundPins { pins, had_link })
                    .collect(),
            }),
            Err(error) => {
                // Pins that existed before are kept for another attempt. Pins that this call created are removed.
                for (pins, was_empty) in pins.into_iter().zip(were_empty) {
                    if was_empty {
                        let _ = pins.remove();
                    }
                }
                Err(error)
            }
        }
    }

    /// Returns true if the pinned link of an earlier daemon was found at an interface. Its maps were taken over, so
    /// this daemon may keep their contents.
    pub fn is_adopted(&self) -> bool {
        self.pins.iter().any(|found| found.had_link)
    }

    /// Returns true if the maps are pinned, so that they can outlive this process.
    pub fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// Puts the services into their slots, and writes the addresses and the ports of all services for the root program
    /// of the first interface. Does not attach the program.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(&mut self, endpoint: &Endpoint) -> Result<(), XdpError> {
        self.fill_slots()?;
        self.write_endpoint(0, endpoint, &self.all_ports())
    }

    fn all_ports(&self) -> Vec<u16> {
        self.services.iter().map(|service| service.port).collect()
    }

    /// Puts the services into their slots, and removes programs that an earlier daemon put into slots that are unused
    /// now.
    fn fill_slots(&mut self) -> Result<(), XdpError> {
        let mut unused: Vec<_> = (0..SLOTS as u32).collect();
        for service in &mut self.services {
            unused.retain(|slot| *slot != service.slot);
            let fd = program(&mut service.object, service.program)?.as_fd().as_raw_fd();
            map(&mut self.roots[0], SERVICES_MAP)?
                .update(&service.slot.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(kernel(
                    "cannot put the program of a service into the program array",
                ))?;
        }
        for slot in unused {
            match map(&mut self.roots[0], SERVICES_MAP)?.delete(&slot.to_ne_bytes()) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(kernel(
                        "cannot remove the program of a service from the program array",
                    )(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes the addresses of an interface, and the ports of the services that answer there, for its root program.
    fn write_endpoint(&mut self, index: usize, endpoint: &Endpoint, ports: &[u16]) -> Result<(), XdpError> {
        let mut port_of_slot = [0; SLOTS];
        for service in self
            .services
            .iter()
            .filter(|service| ports.contains(&service.port))
        {
            port_of_slot[service.slot as usize % SLOTS] = service.port;
        }
        let value = endpoint_bytes(endpoint, &port_of_slot);
        let endpoints = map(&mut self.roots[index], ENDPOINT_MAP)?;
        if endpoints.value_size() as usize != value.len() {
            return Err(XdpError::Map(ENDPOINT_MAP.into()));
        }
        endpoints
            .update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(kernel(
                "cannot write the addresses of the interface for the BPF programs",
            ))
    }

    /// Attaches the only root program to `interface`, where all services answer; see [`XdpDatapath::attach_all`].
    ///
    /// # Errors
    /// See [`XdpDatapath::attach_all`].
    pub fn attach(&mut self, interface: &Interface, mode: XdpMode) -> Result<AttachedMode, XdpError> {
        let site = Site {
            interface: interface.clone(),
            ports: self.all_ports(),
        };
        Ok(self.attach_all(&[site], mode)?[0])
    }

    /// Puts the services into their slots, and attaches a root program to each interface, in the order of the pins. If
    /// the link of an earlier daemon is pinned, its program is replaced atomically, so that every frame is processed by
    /// the old or the new program. Returns the mode at each interface. After an error, the caller calls
    /// [`XdpDatapath::detach`], which detaches the programs that were already attached.
    ///
    /// # Errors
    /// [`XdpError::ForeignProgram`], [`XdpError::DriverWithoutXdp`], [`XdpError::NotAllowed`], or the system's error.
    ///
    /// # Panics
    /// If there are not as many `sites` as root programs were loaded.
    pub fn attach_all(&mut self, sites: &[Site], mode: XdpMode) -> Result<Vec<AttachedMode>, XdpError> {
        assert_eq!(
            sites.len(),
            self.roots.len(),
            "one root program for each interface"
        );
        self.fill_slots()?;
        for (index, site) in sites.iter().enumerate() {
            self.write_endpoint(index, &site.interface.endpoint, &site.ports)?;
        }
        for (index, site) in sites.iter().enumerate() {
            let link = self.attach_root(index, &site.interface, mode)?;
            self.links.push(link);
        }
        Ok(self.links.iter().map(Link::mode).collect())
    }

    fn attach_root(&mut self, index: usize, interface: &Interface, mode: XdpMode) -> Result<Link, XdpError> {
        let path = self.pins.get(index).map(|found| found.pins.link());
        let pinned = match &path {
            Some(path) => Link::open(path, interface)?,
            None => None,
        };
        let root = program(&mut self.roots[index], ROOT_PROGRAM)?;
        match pinned {
            Some(link) => {
                link.replace(root.as_fd())?;
                Ok(link)
            }
            None => {
                let link = Link::attach(interface, root.as_fd(), mode)?;
                if let Some(path) = &path {
                    link.pin(path)?;
                }
                Ok(link)
            }
        }
    }

    /// Detaches the programs from all interfaces and unpins everything.
    ///
    /// # Errors
    /// The system's first error; the remaining interfaces are detached nevertheless.
    pub fn detach(&mut self) -> Result<(), XdpError> {
        let mut done = Ok(());
        for link in self.links.drain(..) {
            done = done.and(link.detach());
        }
        for found in self.pins.drain(..) {
            done = done.and(found.pins.remove());
        }
        done
    }

    /// Loads the programs again with the same maps, and replaces the running programs by the new ones.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn replace(&mut self, images: Vec<ProgramSpec>) -> Result<(), XdpError> {
        let mut roots = Vec::new();
        for old in &mut self.roots {
            let mut root = open(ROOT)?;
            share_maps(&mut root, old, &[])?;
            roots.push(root.load().map_err(kernel("cannot load the root program"))?);
        }
        for image in images {
            let Some(old) = self.services.iter_mut().find(|old| old.slot == image.slot) else {
                continue;
            };
            let mut next = open_service(&image)?;
            share_maps(&mut next, &mut old.object, &[])?;
            old.object = next
                .load()
                .map_err(kernel(format!("cannot load {}", image.program)))?;
            let fd = program(&mut old.object, old.program)?.as_fd().as_raw_fd();
            map(&mut roots[0], SERVICES_MAP)?
                .update(&old.slot.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
                .map_err(kernel(
                    "cannot put the program of a service into the program array",
                ))?;
        }
        for (link, root) in self.links.iter().zip(&mut roots) {
            link.replace(program(root, ROOT_PROGRAM)?.as_fd())?;
        }
        self.roots = roots;
        Ok(())
    }

    fn map(&mut self, name: &str) -> Result<MapMut<'_>, XdpError> {
        let objects =
            std::iter::once(&mut self.roots[0]).chain(self.services.iter_mut().map(|s| &mut s.object));
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
    /// # Errors
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
            .map_err(error::system(format!("cannot map {name} into memory")))?;
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
            .map_err(kernel("cannot read the counters of the fast path"))?
            .ok_or_else(|| XdpError::Map(name.into()))?;
        let mut sums = vec![0u64; map.value_size() as usize / 8];
        for values in &per_cpu {
            for (sum, bytes) in sums.iter_mut().zip(values.chunks_exact(8)) {
                *sum += bytes.try_into().map_or(0, u64::from_ne_bytes);
            }
        }
        Ok(sums)
    }

    /// Returns the number of frames that XDP dropped, by [`DropReason`], for the service in `slot` or for all services.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn drop_counts(&mut self, slot: Option<u32>) -> Result<[u64; DropReason::ALL.len()], XdpError> {
        Ok(drops_in(&self.count_all("ls_drop_counts")?, slot))
    }

    /// Calls `use_it` with the descriptor of the root program. A caller can use it to tail-call the root program.
    ///
    /// # Errors
    /// [`XdpError::Map`] if the program is missing.
    pub fn with_root<T>(&mut self, use_it: impl FnOnce(BorrowedFd<'_>) -> T) -> Result<T, XdpError> {
        Ok(use_it(program(&mut self.roots[0], ROOT_PROGRAM)?.as_fd()))
    }

    /// Returns the number of instructions that the kernel's verifier processed, by program.
    ///
    /// # Errors
    /// The system's error.
    pub fn verified_instructions(&mut self) -> Result<Vec<(String, u32)>, XdpError> {
        let mut all = Vec::new();
        let root = program(&mut self.roots[0], ROOT_PROGRAM)?;
        all.push(("ls_root".to_owned(), verified(&root)?));
        for service in &mut self.services {
            let loaded = program(&mut service.object, service.program)?;
            all.push((service.program.to_owned(), verified(&loaded)?));
        }
        Ok(all)
    }

    /// Runs the root program once on `frame` (BPF_PROG_TEST_RUN). Returns the verdict and the resulting frame. The
    /// kernel does not report the reason of a drop, so the verdict always has the reason `SourcePort`; only the
    /// counters show the real reason.
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
        let output = program(&mut self.roots[0], ROOT_PROGRAM)?
            .test_run(input)
            .map_err(kernel("cannot run a program for a test"))?;
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
        runner(&program(&mut self.roots[0], ROOT_PROGRAM)?)
    }

    /// Like [`XdpDatapath::runner`], for the program `name` in a service's object. The program need not be in a slot.
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
        .map_err(error::system("cannot duplicate the descriptor of a program"))
}

/// Returns the drop counters in `struct ls_drops` (`xdp/maps.h`): those of one slot, or the sums over all slots.
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
            Err(kernel("cannot run a program for a test")(source))
        }
    }
}

impl Drop for XdpDatapath {
    fn drop(&mut self) {
        if self.links.len() == self.roots.len() {
            return;
        }
        // The programs were never attached, so the maps that this process pinned are removed.
        for found in self.pins.drain(..).filter(|found| !found.had_link) {
            // `lineside xdp status` shows pins that could not be removed.
            let _ = found.pins.remove();
        }
    }
}

fn verified(program: &ProgramMut<'_>) -> Result<u32, XdpError> {
    let info = program_info(program.as_fd()).map_err(error::system("cannot read the state of a program"))?;
    Ok(info.verified_insns)
}
