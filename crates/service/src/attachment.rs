//! XDP programs of all services, attached to the interfaces of the process.

use crate::{DatapathConfig, DatapathKind, XdpModeName};
use anyhow::bail;
use lineside_fastpath::memory::{Shared, Table};
use lineside_wire::DropReason;
use lineside_xdp::{
    AttachedMode, Interface, Link, Pins, ProgramSpec, Site, XdpDatapath, XdpError, harmful_offloads,
    may_lose_native_answers, native_needs,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// XDP programs of all services at the interfaces of the process. The daemon loads them, then attaches them, and
/// finally detaches them. Empty if all fast paths run on the socket datapath.
pub struct XdpAttachment {
    xdp: Mutex<Option<XdpDatapath>>,
    /// Interfaces as they were when the programs were loaded, each with the services that answer there.
    sites: Vec<Site>,
    /// Mode in which the programs are attached at each of `sites`; not set before they are attached.
    modes: OnceLock<Vec<AttachedMode>>,
    /// Pins of interfaces that an earlier daemon served with the same maps, but that are no longer configured. Their
    /// programs are detached before the programs of this process are attached.
    left_out: Mutex<Vec<Pins>>,
    /// Reason why no programs were loaded although the configuration permits XDP.
    refusal: Option<String>,
}

/// Programs that are loaded but not attached yet.
struct Loaded {
    xdp: XdpDatapath,
    sites: Vec<Site>,
    left_out: Vec<Pins>,
}

impl XdpAttachment {
    /// Returns an attachment without programs.
    pub fn none() -> Self {
        Self {
            xdp: Mutex::new(None),
            sites: Vec::new(),
            modes: OnceLock::new(),
            left_out: Mutex::default(),
            refusal: None,
        }
    }

    /// Returns the reason why XDP cannot serve these addresses at any `interfaces` interfaces, whatever addresses the
    /// interfaces have. Asks nothing of the machine.
    pub fn fault(interfaces: usize, listens: &[SocketAddr]) -> Option<String> {
        if listens.iter().any(|listen| listen.port() == 0) {
            return Some("XDP needs a fixed port: set a port other than 0 in `listen`".into());
        }
        // All services answer at the only interface, and a service on all addresses answers at every interface.
        let everywhere = listens
            .iter()
            .find(|listen| interfaces == 1 || listen.ip().is_unspecified())?;
        let other = listens.iter().find(|other| other.ip() != everywhere.ip())?;
        Some(different_addresses(everywhere, other))
    }

    /// Loads the programs of services that listen at `listens`, as `config` requires. If the configured datapath is
    /// `auto` and XDP is not available, the attachment is empty and a warning says why. `check_pins` may refuse to take
    /// over the maps that an earlier daemon left pinned for an interface.
    ///
    /// # Errors
    /// The reason why XDP is not available, if `config` requires it.
    pub fn load(
        config: &DatapathConfig,
        listens: &[SocketAddr],
        programs: impl FnOnce() -> Vec<ProgramSpec>,
        check_pins: impl Fn(&Pins) -> anyhow::Result<()>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Self> {
        if listens.is_empty() || !config.kind.may_be_xdp() {
            return Ok(Self::none());
        }
        match load_programs(config, listens, programs, check_pins, warnings) {
            Ok(loaded) => Ok(Self {
                xdp: Mutex::new(Some(loaded.xdp)),
                sites: loaded.sites,
                modes: OnceLock::new(),
                left_out: Mutex::new(loaded.left_out),
                refusal: None,
            }),
            Err(error) if config.kind == DatapathKind::Auto => {
                let refusal = error.to_string();
                warnings.push(format!(
                    "XDP cannot be used, so the fast paths run on the socket datapath: {refusal}"
                ));
                Ok(Self {
                    refusal: Some(refusal),
                    ..Self::none()
                })
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

    /// Returns the reason why no programs were loaded although the configuration permits XDP.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Returns true if programs are loaded and their maps are pinned.
    pub fn has_pins(&self) -> bool {
        self.programs().as_ref().is_some_and(XdpDatapath::has_pins)
    }

    /// Attaches the programs to every interface. If the configured datapath is `auto` and an interface refuses the
    /// programs, they are attached to none, the fast paths run in user space, and a warning says why.
    ///
    /// # Errors
    /// The reason why the programs cannot be attached, if `config` requires XDP. In this case they are attached to no
    /// interface.
    pub fn attach(&self, config: &DatapathConfig, warnings: &mut Vec<String>) -> anyhow::Result<()> {
        let mut programs = self.programs();
        let Some(xdp) = programs.as_mut() else {
            return Ok(());
        };
        let mut detached = Ok(());
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        for pins in left_out.drain(..) {
            detached = detached.and(detach_left_out(pins));
        }
        let attached = detached.and_then(|()| xdp.attach_all(&self.sites, config.xdp_mode.into()));
        match attached {
            Ok(modes) => {
                for (site, mode) in self.sites.iter().zip(&modes) {
                    warnings.extend(harmful_offloads(&site.interface.name));
                    let name = &site.interface.name;
                    if *mode == AttachedMode::Native {
                        warnings.extend(native_needs(name));
                    } else if config.xdp_mode == XdpModeName::Auto && may_lose_native_answers(name) {
                        tracing::info!(
                            interface = name,
                            "XDP runs in generic mode, because this is a veth whose other end may not take native \
                             answers; to use native mode, run `ethtool -K PEER gro on` for the other end, then set \
                             xdp_mode = \"native\" in [datapath]"
                        );
                    }
                }
                let _ = self.modes.set(modes);
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

    /// Returns the name and the attachment mode of each interface at which the service that listens at `listen` answers
    /// in XDP. Empty if no programs are attached.
    pub fn attached(&self, listen: SocketAddr) -> Vec<(&str, AttachedMode)> {
        let modes = self.modes.get().into_iter().flatten();
        let answers = |site: &Site| site.ports.contains(&listen.port());
        self.sites
            .iter()
            .zip(modes)
            .filter(|(site, _)| answers(site))
            .map(|(site, mode)| (site.interface.name.as_str(), *mode))
            .collect()
    }

    /// Returns the map `name` as a table of `len` entries, or a table in this process alone if no programs are loaded.
    ///
    /// # Errors
    /// The map is missing or has another size, or the kernel cannot map it into memory.
    pub fn table<T: Shared>(&self, name: &str, len: usize) -> anyhow::Result<Table<T>> {
        match self.programs().as_mut() {
            Some(xdp) => Ok(xdp.table(name, len)?),
            None => Ok(Table::anonymous(len)?),
        }
    }

    /// Forgets the programs without detaching them, so that they keep answering. Returns true if there were any.
    pub fn keep(&self) -> bool {
        self.programs().take().is_some()
    }

    /// Detaches the programs of all services and unpins their maps. If the programs were never attached, they are only
    /// unloaded; maps that an earlier daemon had pinned then stay pinned with their contents. A second call does
    /// nothing.
    pub fn detach(&self) {
        let programs = self.programs().take();
        if self.modes.get().is_none() {
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
    /// The kernel's error if the counters cannot be read.
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
    check_pins: impl Fn(&Pins) -> anyhow::Result<()>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Loaded> {
    let interfaces = config.interfaces.iter().map(|name| Interface::find(name));
    let sites = sites_of(interfaces.collect::<Result<_, _>>()?, listens)?;
    let (pins, left_out) = match own_pins(config) {
        Err(error @ XdpError::NoBpffs(_)) => {
            warnings.push(format!(
                "the fast path ends with this process, because nothing can be pinned: {error}"
            ));
            (Vec::new(), Vec::new())
        }
        owned => owned?,
    };
    pins.iter().try_for_each(check_pins)?;
    Ok(Loaded {
        xdp: XdpDatapath::load_for(programs(), sites.len(), pins)?,
        sites,
        left_out,
    })
}

/// Returns the interfaces, each with the services that answer there. A service with an address in `listens` answers at
/// the interfaces that have this address; a service that listens on all addresses answers at all interfaces.
fn sites_of(interfaces: Vec<Interface>, listens: &[SocketAddr]) -> anyhow::Result<Vec<Site>> {
    if let Some(fault) = XdpAttachment::fault(interfaces.len(), listens) {
        bail!(fault);
    }
    let is_only = interfaces.len() == 1;
    let sites = interfaces
        .into_iter()
        .map(|interface| site_of(interface, listens, is_only));
    let sites = sites.collect::<anyhow::Result<Vec<_>>>()?;
    let is_served = |listen: &SocketAddr| sites.iter().any(|site| site.ports.contains(&listen.port()));
    if let Some(listen) = listens.iter().find(|listen| !is_served(listen)) {
        let names: Vec<_> = sites.iter().map(|site| &*site.interface.name).collect();
        bail!(
            "{} is not an address of {}: give the interface that has this address",
            listen.ip(),
            names.join(" or ")
        );
    }
    if let Some(site) = sites.iter().find(|site| site.ports.is_empty()) {
        let name = &site.interface.name;
        bail!("no service listens at an address of {name}: leave {name} out of `interfaces`");
    }
    Ok(sites)
}

/// Returns the error message of two services that would have to answer at one interface.
fn different_addresses(first: &SocketAddr, other: &SocketAddr) -> String {
    format!(
        "{first} and {other} are at different addresses: give all services at one interface the same address, or \
         0.0.0.0"
    )
}

/// Returns `interface` with the services that answer there, and restricts its addresses to those of the services. If it
/// is the only interface, all services must answer there.
fn site_of(mut interface: Interface, listens: &[SocketAddr], is_only: bool) -> anyhow::Result<Site> {
    let is_here = |ip: IpAddr| is_only || ip.is_unspecified() || interface.endpoint.owns(ip);
    let here: Vec<_> = listens.iter().filter(|listen| is_here(listen.ip())).collect();
    let mut ports = Vec::new();
    if let Some(first) = here.first() {
        // The root program answers at the same addresses for all services.
        if let Some(other) = here.iter().find(|other| other.ip() != first.ip()) {
            bail!(different_addresses(first, other));
        }
        if first.ip().is_unspecified() || interface.endpoint.keep_only(first.ip()) {
            ports.extend(here.iter().map(|listen| listen.port()));
        }
    }
    Ok(Site { interface, ports })
}

/// Takes the pins of the configured interfaces, and of other interfaces that an earlier daemon served with the same
/// maps.
fn own_pins(config: &DatapathConfig) -> Result<(Vec<Pins>, Vec<Pins>), XdpError> {
    let own = |name: &String| Pins::own(&config.pin_dir, name);
    let pins = config.interfaces.iter().map(own).collect::<Result<_, _>>()?;
    let together = Pins::together(&config.pin_dir, &config.interfaces)?;
    let left_out = together.iter().filter(|name| !config.interfaces.contains(name));
    Ok((pins, left_out.map(own).collect::<Result<_, _>>()?))
}

/// Detaches the program of an interface that is no longer configured, and removes its pins. Nothing is lost, because
/// the configured interfaces have pins of the same maps.
fn detach_left_out(pins: Pins) -> Result<(), XdpError> {
    if let Ok(interface) = Interface::find(pins.interface())
        && let Ok(Some(link)) = Link::open(&pins.link(), &interface)
    {
        link.detach()?;
    }
    tracing::info!(
        interface = pins.interface(),
        "the interface is no longer configured: its fast path was detached"
    );
    pins.remove()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_wire::endpoint::Endpoint;

    /// Returns the ports that are served at two interfaces, or the error. Interface `a` has 10.0.0.2 and 10.0.9.9;
    /// interface `b` has 10.0.1.2 and 10.0.9.9.
    fn ports(listens: &[&str]) -> Result<[Vec<u16>; 2], String> {
        let interface = |name: &str, own: [u8; 4]| Interface {
            name: name.into(),
            index: 1,
            endpoint: Endpoint::new([2; 6], false, &[own.into(), [10, 0, 9, 9].into()]).unwrap(),
        };
        let both = vec![interface("a", [10, 0, 0, 2]), interface("b", [10, 0, 1, 2])];
        let listens: Vec<SocketAddr> = listens.iter().map(|listen| listen.parse().unwrap()).collect();
        let sites = sites_of(both, &listens).map_err(|error| error.to_string())?;
        for site in &sites {
            let own: Vec<_> = site.interface.endpoint.v4().collect();
            let answered = own
                .into_iter()
                .filter(|own| site.interface.endpoint.answers((*own).into()));
            let is_any = listens[0].ip().is_unspecified();
            assert_eq!(answered.count(), if is_any { 2 } else { 1 }, "{site:?}");
        }
        Ok([0, 1].map(|place| sites[place].ports.clone()))
    }

    #[test]
    fn a_service_answers_at_the_interfaces_that_have_its_address() {
        assert_eq!(ports(&["0.0.0.0:1", "0.0.0.0:2"]), Ok([vec![1, 2], vec![1, 2]]));
        assert_eq!(ports(&["[::]:1"]), Ok([vec![1], vec![1]]));
        assert_eq!(ports(&["10.0.0.2:1", "10.0.1.2:2"]), Ok([vec![1], vec![2]]));
        assert_eq!(ports(&["10.0.9.9:1"]), Ok([vec![1], vec![1]]));
        for (listens, why) in [
            (
                &["10.0.0.2:1", "10.0.7.7:2"][..],
                "10.0.7.7 is not an address of a or b",
            ),
            (&["10.0.0.2:1"], "no service listens at an address of b"),
            (&["10.0.0.2:1", "0.0.0.0:2"], "are at different addresses"),
            (&["10.0.0.2:1", "10.0.9.9:2"], "are at different addresses"),
            (&["0.0.0.0:0"], "needs a fixed port"),
        ] {
            let said = ports(listens).unwrap_err();
            assert!(said.contains(why), "{listens:?}: {said}");
        }
    }

    #[test]
    fn addresses_that_fit_no_interface_are_refused_without_the_interfaces() {
        let fault = |interfaces, listens: &[&str]| {
            let listens: Vec<_> = listens.iter().map(|listen| listen.parse().unwrap()).collect();
            XdpAttachment::fault(interfaces, &listens).unwrap_or_default()
        };
        let different = "are at different addresses";
        assert!(fault(1, &["127.0.0.1:1", "127.0.0.2:2"]).contains(different));
        assert!(fault(2, &["10.0.0.2:1", "0.0.0.0:2"]).contains(different));
        assert!(fault(2, &["10.0.0.2:1", "10.0.1.2:0"]).contains("needs a fixed port"));
        assert_eq!(fault(2, &["10.0.0.2:1", "10.0.1.2:2"]), "");
        assert_eq!(fault(1, &["0.0.0.0:1", "0.0.0.0:2"]), "");
        assert_eq!(fault(1, &[]), "");
    }
}
