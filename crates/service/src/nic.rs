//! The NIC of the datapath `rtl`: the simulated NIC at a TAP device, and the services that answer there.

use crate::config::UsageError;
use crate::{DatapathConfig, DatapathKind};
use anyhow::{Context, bail};
use lineside_net::SocketOptions;
use lineside_rtl::{
    Bridge, Command, CommandQueue, InterfaceAddress, NetworkPlan, Nic, NicCounters, NicDesign, NicNetwork,
    simulated_nic,
};
use lineside_wire::{DropReason, SPV_PORT, SPV_SLOT, TRANSFER_PORT, TRANSFER_SLOT};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Fast path of a service in the RTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicProgram {
    /// Number of the service, the same as its slot in XDP.
    pub slot: u32,
    /// Address on which the service listens.
    pub listen: SocketAddr,
    /// Register that holds the UDP port of the service; 0 in it switches the fast path off.
    pub port_register: u32,
}

impl NicProgram {
    /// Returns the design of the NIC that has this service.
    pub const fn design(&self) -> NicDesign {
        match self.slot {
            TRANSFER_SLOT => NicDesign::Transfer,
            _ => NicDesign::Spv,
        }
    }

    /// Splits programs into those of the NIC and the others: each design of the NIC has one service, and the NIC has
    /// the design of the first program.
    pub fn split(programs: Vec<Self>) -> (Vec<Self>, Vec<Self>) {
        let design = programs.first().map(Self::design);
        programs
            .into_iter()
            .partition(|program| Some(program.design()) == design)
    }
}

/// The NIC of all services. The daemon creates it, starts its thread, lets the services answer, and finally removes it.
pub struct NicAttachment {
    programs: Vec<NicProgram>,
    queue: Arc<CommandQueue>,
    /// Name of the TAP device.
    tap: String,
    /// UDP sockets of the services, not bound, for each family: IPv4, IPv6.
    sockets: Mutex<[Vec<OwnedFd>; 2]>,
    /// The NIC and its network, until the thread starts.
    idle: Mutex<Option<(Box<dyn Nic>, NicNetwork)>>,
    bridge: OnceLock<Bridge>,
}

impl NicAttachment {
    /// Checks that the NIC can have the addresses of the services in `programs` that fit its design, and that the
    /// others have addresses elsewhere, without asking the machine.
    ///
    /// # Errors
    /// [`UsageError`]: the configuration does not fit together.
    pub fn check(config: &DatapathConfig, programs: Vec<NicProgram>) -> anyhow::Result<()> {
        plan(config, programs).map(drop)
    }

    /// Creates the NIC and its TAP device for the services in `programs` that fit its design. Returns `None` if the
    /// datapath is another one. The process needs the rights for a TAP device and a network namespace during this call
    /// only.
    ///
    /// # Errors
    /// The configuration does not fit together, the program has no NIC, or the devices cannot be created.
    pub fn open(config: &DatapathConfig, programs: Vec<NicProgram>) -> anyhow::Result<Option<Self>> {
        if config.kind != DatapathKind::Rtl {
            return Ok(None);
        }
        let (plan, programs) = plan(config, programs)?;
        let design = programs.first().map_or(NicDesign::Spv, NicProgram::design);
        let nic = simulated_nic(design).context("the datapath `rtl` cannot be used")?;
        let mut network = NicNetwork::create(&plan).context("the datapath `rtl` cannot be used")?;
        Ok(Some(Self {
            programs,
            queue: Arc::new(CommandQueue::new()?),
            tap: plan.tap,
            sockets: Mutex::new(std::mem::take(&mut network.sockets)),
            idle: Mutex::new(Some((nic, network))),
            bridge: OnceLock::new(),
        }))
    }

    /// Starts the thread of the NIC. From then on it executes commands, and passes frames; no service answers yet.
    ///
    /// # Errors
    /// The system's error if the thread cannot be started.
    pub fn start(&self) -> anyhow::Result<()> {
        if let Some((nic, network)) = lock(&self.idle).take() {
            let bridge = Bridge::start(nic, network, Arc::clone(&self.queue));
            let _ = self
                .bridge
                .set(bridge.context("the thread of the NIC cannot be started")?);
        }
        Ok(())
    }

    /// Lets all services answer in the NIC.
    pub fn attach(&self) {
        for program in &self.programs {
            let port = program.listen.port().to_le_bytes();
            self.queue.add(&[Command::register(program.port_register, &port)]);
        }
        self.queue.flush();
    }

    /// Ends the NIC and removes its devices. A second call does nothing.
    pub fn detach(&self) {
        lock(&self.idle).take();
        if let Some(bridge) = self.bridge.get() {
            bridge.stop();
        }
    }

    /// Returns the queue of commands by which a service fills its table in the NIC.
    pub fn queue(&self) -> Arc<CommandQueue> {
        Arc::clone(&self.queue)
    }

    /// Returns true if the service that listens at `listen` answers in the NIC.
    pub fn serves(&self, listen: SocketAddr) -> bool {
        self.programs.iter().any(|program| program.listen == listen)
    }

    /// Returns the sockets for a service with these options. They belong to the network of the NIC.
    pub fn sockets(&self, options: &SocketOptions) -> Vec<OwnedFd> {
        let all = &mut lock(&self.sockets)[usize::from(options.listen.is_ipv6())];
        let rest = all.len().saturating_sub(options.sockets());
        all.split_off(rest)
    }

    /// Returns the name of the TAP device.
    pub fn tap(&self) -> &str {
        &self.tap
    }

    /// Returns the counters of the service in `slot`, and its drops. `None` for a service that the NIC does not have,
    /// and before the NIC runs.
    pub fn counts<const N: usize>(&self, slot: u32) -> Option<([u64; N], [u64; DropReason::ALL.len()])> {
        let counters: NicCounters = self.bridge.get()?.counters();
        let of_service = match slot {
            SPV_SLOT => &counters.spv[..],
            TRANSFER_SLOT => &counters.transfer[..],
            _ => return None,
        };
        Some((of_service.try_into().ok()?, counters.drops))
    }

    /// Returns figures about the thread of the NIC, by their names. Empty before it runs.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        let bridge = self.bridge.get();
        bridge.map_or_else(Vec::new, |bridge| bridge.counts().all().into())
    }

    /// Returns the problem of a NIC that has failed or lost its device, with the remedy.
    pub fn problem(&self) -> Option<String> {
        self.bridge.get()?.fault()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the programs of the NIC, and the description of the network in which they have their addresses.
fn plan(
    config: &DatapathConfig,
    programs: Vec<NicProgram>,
) -> anyhow::Result<(NetworkPlan, Vec<NicProgram>)> {
    let (programs, others) = NicProgram::split(programs);
    if programs.is_empty() {
        bail!(UsageError(
            "[datapath] kind = \"rtl\": no enabled service has a fast path in the RTL; enable [spv] or [transfer], or \
             set another kind"
            .into()
        ));
    }
    let clients = config.tap_networks();
    for NicProgram { listen, .. } in others {
        if config.nic_network_of(listen.ip()).is_some() {
            bail!(UsageError(format!(
                "{listen}: the simulated NIC has one service, and another enabled service has it; set `listen` of this \
                 service to an address of this machine, or run it in a process of its own with another `tap` and other \
                 `tap_addresses`"
            )));
        }
    }
    let mut own: Vec<InterfaceAddress> = Vec::new();
    let mut sockets = [0; 2];
    for program in &programs {
        let listen = &program.listen;
        let containing = clients.iter().filter(|client| client.contains(listen.ip()));
        let Some(network) = containing.max_by_key(|client| client.prefix_bits) else {
            bail!(UsageError(not_in_network(program, &clients)));
        };
        let is_own = clients.iter().any(|client| client.address == listen.ip());
        if is_own || listen.port() == 0 {
            bail!(UsageError(format!(
                "{listen}: the address of the NIC must have a port other than 0, and cannot be one that this machine \
                 has in `tap_addresses`; {}",
                remedy(program, &clients)
            )));
        }
        let address = InterfaceAddress {
            address: listen.ip(),
            prefix_bits: network.prefix_bits,
        };
        if let Some(fault) = address.fault() {
            bail!(UsageError(format!(
                "{listen} {fault}; {}",
                remedy(program, &clients)
            )));
        }
        if !own.contains(&address) {
            own.push(address);
        }
        let threads = config.socket_threads();
        let options = SocketOptions {
            listen: *listen,
            threads,
            queue: config.queue,
        };
        sockets[usize::from(listen.is_ipv6())] += options.sockets();
    }
    let plan = NetworkPlan {
        tap: config.tap.clone(),
        clients,
        own,
        sockets,
    };
    Ok((plan, programs))
}

fn not_in_network(program: &NicProgram, clients: &[InterfaceAddress]) -> String {
    let networks: Vec<_> = clients.iter().map(ToString::to_string).collect();
    format!(
        "{} is in no network of the TAP device ({}), so the NIC cannot have this address; {}",
        program.listen,
        networks.join(", "),
        remedy(program, clients)
    )
}

/// Returns the remedy for a wrong address of the NIC, with an example in the first network that has one.
fn remedy(program: &NicProgram, clients: &[InterfaceAddress]) -> String {
    let port = match (program.listen.port(), program.slot) {
        (0, TRANSFER_SLOT) => TRANSFER_PORT,
        (0, _) => SPV_PORT,
        (port, _) => port,
    };
    match clients.iter().find_map(|network| free_address(network, clients)) {
        Some(address) => format!(
            "set `listen` of the service to another address there, such as {}",
            SocketAddr::new(address, port)
        ),
        None => "set `tap_addresses` to a network that has a second address, such as \"10.77.0.1/24\"".into(),
    }
}

/// Returns one of the first addresses of `network` that a machine can have and that is not in `clients`.
fn free_address(network: &InterfaceAddress, clients: &[InterfaceAddress]) -> Option<IpAddr> {
    let host_bits = |bits: u32| bits - u32::from(network.prefix_bits);
    let at = |offset: u32| match network.address {
        IpAddr::V4(v4) => {
            let first = u32::from(v4) & u32::MAX.checked_shl(host_bits(32)).unwrap_or(0);
            IpAddr::from(first.wrapping_add(offset).to_be_bytes())
        }
        IpAddr::V6(v6) => {
            let first = u128::from(v6) & u128::MAX.checked_shl(host_bits(128)).unwrap_or(0);
            IpAddr::from(first.wrapping_add(offset.into()).to_be_bytes())
        }
    };
    let is_free = |ip: &IpAddr| {
        let address = InterfaceAddress {
            address: *ip,
            prefix_bits: network.prefix_bits,
        };
        network.contains(*ip)
            && address.fault().is_none()
            && clients.iter().all(|client| client.address != *ip)
    };
    // The first addresses of a network are those of the network itself and of at most 8 clients.
    (0..16).map(at).find(is_free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_rtl::{REGISTER_SPV_PORT, REGISTER_TRANSFER_PORT};

    fn program(slot: u32, listen: &str) -> NicProgram {
        NicProgram {
            slot,
            listen: listen.parse().unwrap(),
            port_register: match slot {
                TRANSFER_SLOT => REGISTER_TRANSFER_PORT,
                _ => REGISTER_SPV_PORT,
            },
        }
    }

    fn planned(listens: &[&str]) -> Result<NetworkPlan, String> {
        let programs = listens.iter().map(|listen| program(SPV_SLOT, listen));
        plan_of(programs.collect()).map(|(plan, _)| plan)
    }

    fn plan_of(programs: Vec<NicProgram>) -> Result<(NetworkPlan, Vec<NicProgram>), String> {
        let config = DatapathConfig {
            kind: DatapathKind::Rtl,
            threads: 2,
            ..DatapathConfig::default()
        };
        plan(&config, programs).map_err(|error| error.to_string())
    }

    #[test]
    fn the_nic_has_the_addresses_of_its_services() {
        let plan = planned(&["10.77.0.2:7701", "10.77.0.2:7702"]).unwrap();
        assert_eq!((plan.tap.as_str(), plan.sockets), ("lineside0", [6, 0]));
        assert_eq!(plan.own.len(), 1);
        assert_eq!(plan.own[0].to_string(), "10.77.0.2/24");
    }

    #[test]
    fn a_nic_has_the_service_that_comes_first() {
        let of_transfer = program(TRANSFER_SLOT, "10.77.0.2:7702");
        let (plan, programs) = plan_of(vec![of_transfer]).unwrap();
        assert_eq!((programs, plan.own.len()), (vec![of_transfer], 1));
        let of_spv = program(SPV_SLOT, "10.77.0.2:7701");
        for elsewhere in ["127.0.0.1:7702", "0.0.0.0:7702", "10.77.0.1:7702"] {
            let both = vec![of_spv, program(TRANSFER_SLOT, elsewhere)];
            assert_eq!(plan_of(both).unwrap().1, [of_spv], "{elsewhere}");
        }
        let said = plan_of(vec![of_spv, of_transfer]).unwrap_err();
        assert!(
            said.starts_with("10.77.0.2:7702: the simulated NIC has one service"),
            "{said}"
        );
    }

    #[test]
    fn an_address_that_the_nic_cannot_have_is_refused_with_an_example() {
        for (listens, why) in [
            (
                &["127.0.0.1:7701"][..],
                "is in no network of the TAP device (10.77.0.1/24)",
            ),
            (&["127.0.0.1:7701"], "such as 10.77.0.2:7701"),
            (&["0.0.0.0:7701"], "is in no network"),
            (&["[::1]:7701"], "is in no network"),
            (&["10.77.0.1:7701"], "cannot be one that this machine has"),
            (&["10.77.0.0:7701"], "is the address of a network; set `listen`"),
            (&["10.77.0.255:7701"], "is a broadcast address; set `listen`"),
            (&["10.77.0.2:0"], "a port other than 0"),
            (&[], "no enabled service has a fast path in the RTL"),
        ] {
            let said = planned(listens).unwrap_err();
            assert!(said.contains(why), "{listens:?}: {said}");
        }
    }

    #[test]
    fn the_example_is_an_address_that_the_nic_can_have() {
        for (clients, listen, expected) in [
            (&["10.77.0.252/24"][..], "127.0.0.1:9", "such as 10.77.0.1:9"),
            (
                &["10.77.0.1/24", "10.77.0.2/24"],
                "10.77.0.2:9",
                "such as 10.77.0.3:9",
            ),
            (&["10.77.0.1/31"], "127.0.0.1:9", "such as 10.77.0.0:9"),
            (
                &["10.77.0.1/32"],
                "127.0.0.1:9",
                "set `tap_addresses` to a network that has a second address",
            ),
            (
                &["255.255.255.254/31"],
                "127.0.0.1:9",
                "set `tap_addresses` to a network that has a second address",
            ),
            (&["fd77::1/64"], "127.0.0.1:9", "such as [fd77::2]:9"),
            (&["10.77.0.1/24"], "10.77.0.2:0", "such as 10.77.0.2:7702"),
        ] {
            let config = DatapathConfig {
                kind: DatapathKind::Rtl,
                tap_addresses: clients.iter().map(|text| (*text).to_owned()).collect(),
                ..DatapathConfig::default()
            };
            let refused = plan(&config, vec![program(TRANSFER_SLOT, listen)]).expect_err(listen);
            assert!(refused.to_string().contains(expected), "{clients:?}: {refused}");
        }
    }
}
