//! The service `spv`: its table is filled from a chain store.

use super::ran::LeftToHost;
use super::service::{Explained, formatted, table_memory};
use super::{Datapath, Explain, LEASE_NS, configured};
use crate::wrong::Wrong;
use anyhow::bail;
use lineside_fastpath::lease;
use lineside_rtl::{Command, NicCounters, NicDesign, REGISTER_SPV_PORT, SIM_LINE_BITS};
use lineside_spv::config::{IndexName, Prefill, SpvConfig};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::service::{fill_table, open_chain};
use lineside_spv::store::{Geometry, Store};
use lineside_spv::{datapath, nic};
use lineside_wire::{SPV_FAST_PATH, SpvCounter};
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};
use std::sync::Arc;

/// `spv` with its configuration.
pub struct Spv {
    config: SpvConfig,
    geometry: Geometry,
}

impl Spv {
    /// Reads the configuration of the command line.
    ///
    /// # Errors
    /// A value is not valid, or the configuration file cannot be read.
    pub fn new(arguments: &Explain) -> anyhow::Result<Self> {
        let is_rtl = arguments.datapath == Datapath::Rtl;
        let bits = arguments.line_bits.or(is_rtl.then_some(SIM_LINE_BITS));
        if let Some(bits) = bits.filter(|bits| is_rtl && *bits > SIM_LINE_BITS) {
            bail!(Wrong(format!(
                "--line-bits {bits}: the table of the simulated NIC has 2^{SIM_LINE_BITS} lines; give at most \
                 {SIM_LINE_BITS}"
            )));
        }
        let config = configured(arguments, Self::NAME, |section| {
            section.set_some("network", arguments.network);
            // The command writes nothing for a server: no index on the disk, unless the option names it, and no blocks.
            section.set("index", arguments.index.unwrap_or(IndexName::Memory));
            section.set("keep_blocks", false);
            section.set_some("line_bits", bits);
            let default_prefill = arguments.config.is_none().then_some(Prefill::All);
            section.set_some("prefill", arguments.prefill.or(default_prefill));
            SpvConfig::parse(section)
        })?;
        let geometry = match is_rtl {
            true => nic::geometry(config.geometry()),
            false => config.geometry(),
        };
        Ok(Self { config, geometry })
    }
}

impl Explained for Spv {
    type Store = Store;
    type FastPath = SpvFastPath;
    type Host = Option<SpvHost>;
    const NAME: &'static str = "spv";
    const COUNTS: &'static str = "spv_counts";
    const DESIGN: NicDesign = NicDesign::Spv;
    const PORT_REGISTER: u32 = REGISTER_SPV_PORT;
    const FORWARDED: &'static str = SpvCounter::ForwardedNative.name();

    fn counter_names() -> Vec<&'static str> {
        SpvCounter::ALL.map(SpvCounter::name).to_vec()
    }

    fn port(&self) -> u16 {
        self.config.listen.port()
    }

    fn program(&self, port: u16) -> ProgramSpec {
        datapath::program(&self.geometry, port)
    }

    fn store_of(&self, program: &mut XdpDatapath) -> Result<Store, XdpError> {
        formatted(datapath::store(program, &self.geometry)?, |store| {
            store.format(&self.geometry)
        })
    }

    fn store(&self) -> anyhow::Result<Store> {
        table_memory(Store::anonymous(&self.geometry))
    }

    fn fill(&self, store: &Arc<Store>) -> anyhow::Result<Option<SpvHost>> {
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        if self.config.data().is_none() {
            return Ok(None);
        }
        let mut warnings = Vec::new();
        let chain = open_chain(&self.config, &mut warnings)?;
        for warning in warnings {
            tell!("lineside: {warning}");
        }
        Ok(Some(fill_table(&self.config, chain, store, LEASE_NS)))
    }

    fn twin(&self, _store: &Store) -> anyhow::Result<Option<Store>> {
        Ok(None)
    }

    fn fastpath(store: &Arc<Store>) -> SpvFastPath {
        SpvFastPath::new(Arc::clone(store))
    }

    fn counters(fastpath: &SpvFastPath) -> Vec<u64> {
        fastpath.counters().to_vec()
    }

    fn nic_commands(store: &Store) -> Vec<Command> {
        [nic::entry_commands(store), nic::control_commands(store)].concat()
    }

    fn nic_counters(counters: &NicCounters) -> Vec<u64> {
        counters.spv.to_vec()
    }

    fn left_to_host(&self, payload: &[u8]) -> Option<LeftToHost> {
        nic::left_to_host(payload).map(|operation| LeftToHost::NotListed(SPV_FAST_PATH.name(operation)))
    }
}

#[cfg(test)]
impl Spv {
    /// Returns the service with its default configuration.
    pub fn with_defaults() -> Self {
        let config = SpvConfig::default();
        let geometry = config.geometry();
        Self { config, geometry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_wire::{NATIVE_REPLY_BIT, SPV_OP_PROOF, SPV_OP_ROOT, SPV_PAPER_REQUEST_BYTES, native};
    use zerocopy::IntoBytes;

    #[test]
    fn the_rtl_leaves_the_operations_that_spec_does_not_list_to_the_host() {
        let request = |operation| native::request_header(operation, 1, 0).as_bytes().to_vec();
        assert_eq!(
            Spv::with_defaults().left_to_host(&request(SPV_OP_PROOF)),
            Some(LeftToHost::NotListed("proof"))
        );
        for answered in [
            request(SPV_OP_ROOT),
            request(SPV_OP_PROOF | NATIVE_REPLY_BIT),
            vec![7; SPV_PAPER_REQUEST_BYTES],
            Vec::new(),
        ] {
            assert_eq!(Spv::with_defaults().left_to_host(&answered), None, "{answered:?}");
        }
    }
}
