//! Service `odometer` in the daemon: its configuration section, its XDP program, its start and its status.

use crate::fastpath::{OdometerFastPath, Store};
use crate::host::OdometerHost;
use lineside_fastpath::Counters;
use lineside_service::config::{ConfigIssue, Section, loopback, section};
use lineside_service::{
    Counted, Frontend, Leased, Listen, Running, RunningLeased, Service, ServiceDef, StartContext,
    StatusBuilder,
};
use lineside_wire::{ODOMETER_PORT, ODOMETER_SLOT, OdometerCounter};
use lineside_xdp::ProgramSpec;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Time for which the fast path may answer after the host has last renewed the lease.
const LEASE: Duration = Duration::from_secs(60);

/// Registration of the service `odometer` in the daemon.
pub const DEF: ServiceDef = ServiceDef::new("odometer", || section(&OdometerConfig::default()), parse);

/// Configuration section `[odometer]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OdometerConfig {
    enabled: bool,
    #[serde(with = "lineside_service::address")]
    listen: SocketAddr,
}

impl Default for OdometerConfig {
    fn default() -> Self {
        let (enabled, listen) = (false, loopback(ODOMETER_PORT));
        Self { enabled, listen }
    }
}

fn parse(section: &Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>> {
    Ok(Box::new(section.read::<OdometerConfig>()?))
}

/// Returns the XDP program that answers at the UDP port `port`.
pub fn program(port: u16) -> ProgramSpec {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/odometer.bpf.o"));
    ProgramSpec::new(object, "ls_odometer", ODOMETER_SLOT, port)
}

impl Service for OdometerConfig {
    fn is_enabled(&self) -> bool {
        self.enabled
    }

    fn section(&self) -> toml::Table {
        section(self)
    }

    fn listens(&self) -> Vec<Listen> {
        vec![Listen::of_fast_path(self.listen)]
    }

    fn program(&self) -> Option<ProgramSpec> {
        Some(program(self.listen.port()))
    }

    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>> {
        let store: Arc<Store> = Arc::new(context.attachment.table("odometer_control", 1)?);
        let host = Arc::new(OdometerHost::new(Arc::clone(&store)));
        let counters = Counters::default();
        let fastpath = Arc::new(OdometerFastPath { store, counters });
        let asked = Arc::clone(&host);
        let is_well = move || asked.add(0).is_some();
        RunningLeased::start(context, self.listen, LEASE, (fastpath, host), is_well)
    }
}

impl Leased for OdometerFastPath {
    const NAME: &'static str = DEF.name;

    fn lease_until_ns(&self) -> &AtomicU64 {
        &self.store.as_slice()[0].lease_until_ns
    }

    fn status(&self, frontend: &Frontend, out: &mut StatusBuilder) {
        let counted = Counted {
            names: OdometerCounter::ALL.map(OdometerCounter::name),
            socket: self.counters.read(),
            slot: ODOMETER_SLOT,
            map: "odometer_counts",
            replies: OdometerCounter::Reads as usize,
        };
        let status = frontend.status(DEF.name, self.lease_until_ns(), &counted, out);
        out.services.push(status);
    }
}
