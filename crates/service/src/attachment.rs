//! The XDP programs of all services at one interface.

use crate::{DatapathConfig, DatapathKind};
use anyhow::bail;
use lineside_fastpath::memory::{Shared, Table};
use lineside_wire::DropReason;
use lineside_xdp::{
    AttachedMode, Interface, Pins, ProgramSpec, XdpDatapath, XdpError, harmful_offloads, native_needs,
};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The XDP programs of all services at one interface, which are loaded, then attached, then detached. Empty if all fast
/// paths run on the socket datapath.
pub struct XdpAttachment {
    xdp: Mutex<Option<XdpDatapath>>,
    /// The interface as it was when the programs were loaded.
    interface: Option<Interface>,
    /// Mode in which the programs are attached; not set before that.
    mode: OnceLock<AttachedMode>,
}

impl XdpAttachment {
    /// Returns an attachment without programs.
    pub fn none() -> Self {
        Self {
            xdp: Mutex::new(None),
            interface: None,
            mode: OnceLock::new(),
        }
    }

    /// Loads the programs of services that listen at `listens`, as `config` says. If the configured datapath is `auto`
    /// and XDP is not available, the attachment is empty and a warning says why. `check_pins` may refuse to take over
    /// the maps that an earlier daemon left pinned at the interface.
    ///
    /// # Errors
    /// The reason why XDP is not available, if `config` requires it.
    pub fn load(
        config: &DatapathConfig,
        listens: &[SocketAddr],
        programs: impl FnOnce() -> Vec<ProgramSpec>,
        check_pins: impl FnOnce(&Pins) -> anyhow::Result<()>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Self> {
        if listens.is_empty() || config.kind == DatapathKind::Socket {
            return Ok(Self::none());
        }
        match load_programs(config, listens, programs, check_pins, warnings) {
            Ok((xdp, interface)) => Ok(Self {
                xdp: Mutex::new(Some(xdp)),
                interface: Some(interface),
                mode: OnceLock::new(),
            }),
            Err(error) if config.kind == DatapathKind::Auto => {
                warnings.push(format!(
                    "XDP cannot be used, so the fast paths run on the socket datapath: {error:#}"
                ));
                Ok(Self::none())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the loaded programs, whose maps the services fill, or `None` if there are none.
    pub fn programs(&self) -> MutexGuard<'_, Option<XdpDatapath>> {
        self.xdp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if programs are loaded.
    pub fn has_programs(&self) -> bool {
        self.programs().is_some()
    }

    /// Returns true if programs are loaded and their maps are pinned.
    pub fn has_pins(&self) -> bool {
        self.programs().as_ref().is_some_and(XdpDatapath::has_pins)
    }

    /// Attaches the programs. If the configured datapath is `auto` and the interface refuses them, the fast paths
    /// remain in user space and a warning says why.
    ///
    /// # Errors
    /// The reason why they cannot be attached, if `config` requires XDP.
    pub fn attach(&self, config: &DatapathConfig, warnings: &mut Vec<String>) -> anyhow::Result<()> {
        let mut programs = self.programs();
        let (Some(xdp), Some(interface)) = (programs.as_mut(), &self.interface) else {
            return Ok(());
        };
        match xdp.attach(interface, config.xdp_mode.into()) {
            Ok(mode) => {
                warnings.extend(harmful_offloads(&interface.name));
                if mode == AttachedMode::Native {
                    warnings.extend(native_needs(&interface.name));
                }
                let _ = self.mode.set(mode);
            }
            Err(error) => {
                xdp.detach()?;
                *programs = None;
                if config.kind == DatapathKind::Xdp {
                    return Err(error.into());
                }
                warnings.push(format!(
                    "XDP cannot be used, so the fast paths run on the socket datapath: {error}"
                ));
            }
        }
        Ok(())
    }

    /// Returns the name of the interface and the attachment mode, or `None` if no programs are attached.
    pub fn attached(&self) -> Option<(&str, AttachedMode)> {
        let interface = self.interface.as_ref()?;
        Some((&interface.name, *self.mode.get()?))
    }

    /// Returns the map `name` as a table of `len` entries, or a table in this process alone if no programs are loaded.
    ///
    /// # Errors
    /// The map is missing or has another size, or the kernel's error of mapping it.
    pub fn table<T: Shared>(&self, name: &str, len: usize) -> anyhow::Result<Table<T>> {
        match self.programs().as_mut() {
            Some(xdp) => Ok(xdp.table(name, len)?),
            None => Ok(Table::anonymous(len)?),
        }
    }

    /// Releases the programs without detaching them. Returns true if there were any.
    pub fn keep(&self) -> bool {
        self.programs().take().is_some()
    }

    /// Detaches the programs of all services and unpins their maps. Programs that were never attached are unloaded, and
    /// maps that an earlier daemon had pinned stay pinned with their contents. A second call does nothing.
    pub fn detach(&self) {
        let programs = self.programs().take();
        if self.mode.get().is_none() {
            return;
        }
        if let Some(mut xdp) = programs
            && let Err(error) = xdp.detach()
        {
            tracing::error!("{error}; run `lineside xdp detach` to try again");
        }
    }

    /// Returns the counters in the map `name` and the drops of the program in `slot`, or `None` without programs.
    ///
    /// # Errors
    /// The kernel's error of reading them.
    pub fn counts<const N: usize>(&self, name: &str, slot: u32) -> Option<Result<Counts<N>, XdpError>> {
        let mut programs = self.programs();
        let xdp = programs.as_mut()?;
        let counted = xdp.counts::<N>(name);
        Some(counted.and_then(|counted| Ok((counted, xdp.drop_counts(Some(slot))?))))
    }
}

/// Counters of a program, and its drops by reason.
pub type Counts<const N: usize> = ([u64; N], [u64; DropReason::ALL.len()]);

fn load_programs(
    config: &DatapathConfig,
    listens: &[SocketAddr],
    programs: impl FnOnce() -> Vec<ProgramSpec>,
    check_pins: impl FnOnce(&Pins) -> anyhow::Result<()>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<(XdpDatapath, Interface)> {
    let mut interface = Interface::find(&config.interface)?;
    for listen in listens {
        if listen.port() == 0 {
            bail!("XDP needs a fixed port: set a port other than 0 in `listen`");
        }
        // The root program uses the same set of addresses for all services.
        if let Some(other) = listens.iter().find(|other| other.ip() != listen.ip()) {
            bail!(
                "{listen} and {other} are at different addresses: services at one interface need the same one, or none"
            );
        }
        if !listen.ip().is_unspecified() && !interface.endpoint.keep_only(listen.ip()) {
            bail!(
                "{} is not an address of {}: give the interface that has it",
                listen.ip(),
                config.interface
            );
        }
    }
    let pins = match Pins::own(&config.pin_dir, &config.interface) {
        Ok(pins) => {
            check_pins(&pins)?;
            Some(pins)
        }
        Err(error @ XdpError::NoBpffs(_)) => {
            warnings.push(format!(
                "the fast path ends with this process, because nothing can be pinned: {error}"
            ));
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok((XdpDatapath::load(programs(), pins)?, interface))
}
