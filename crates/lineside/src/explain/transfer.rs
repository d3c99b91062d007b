//! The service `transfer`: its table is filled from a ledger, which is only read.

use super::ran::LeftToHost;
use super::service::{Explained, formatted, table_memory};
use super::{Datapath, Explain, LEASE_NS, configured};
use crate::transfer::read_key;
use anyhow::{Context, bail};
use lineside_fastpath::lease;
use lineside_journal::FsDisk;
use lineside_rtl::{Command, NicCounters, NicDesign, REGISTER_TRANSFER_PORT, SIM_SESSION_BITS};
use lineside_service::config::non_empty;
use lineside_transfer::config::{TransferConfig, TransferMode};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{OpenError, mode_of_ledger, open_read_only};
use lineside_transfer::ledger::Ledger;
use lineside_transfer::server::KIND;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_transfer::writer::{StoreWriter, show_ledger};
use lineside_transfer::{datapath, nic};
use lineside_wire::{
    ExecuteHead, NativeHeader, TRANSFER_FAST_PATH, TRANSFER_OP_EXECUTE, TransferCode, TransferCounter, native,
};
use lineside_xdp::{ProgramSpec, XdpDatapath, XdpError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::FromBytes;

/// `transfer` with its configuration, and the ledger that fills the table.
pub struct Transfer {
    config: TransferConfig,
    geometry: Geometry,
    ledger: Option<Ledger>,
}

impl Transfer {
    /// Reads the configuration of the command line, and the ledger.
    ///
    /// # Errors
    /// A value is not valid, or the configuration file or the ledger cannot be read.
    pub fn new(arguments: &Explain) -> anyhow::Result<Self> {
        let mut config = configured(arguments, Self::NAME, |section| {
            section.set_some("mode", arguments.mode);
            TransferConfig::parse(section)
        })?;
        let mut ledger = None;
        if let Some(data) = non_empty(&config.data) {
            let (read, mode) = read_ledger(data)?;
            if let Some(mode) = mode {
                let own = match mode {
                    Mode::Durable => TransferMode::Durable,
                    Mode::Express => TransferMode::Express,
                };
                if arguments.mode.is_some_and(|given| given != own) {
                    return Err(OpenError::OtherMode(mode))
                        .with_context(|| config.data.display().to_string());
                }
                config.mode = own;
            }
            ledger = Some(read);
        }
        let mut geometry = config.geometry();
        if let Some(limits) = ledger
            .as_ref()
            .map(Ledger::limits)
            .filter(|limits| limits.accounts > 0)
        {
            // Limits of a ledger are a power of two for accounts, as in its configuration.
            (geometry.account_bits, geometry.sessions) = (limits.accounts.ilog2(), limits.sessions);
        }
        match arguments.datapath {
            Datapath::Socket => {}
            Datapath::Xdp => geometry.rings = datapath::rings()?,
            Datapath::Rtl => geometry = nic::geometry(geometry),
        }
        Ok(Self {
            config,
            geometry,
            ledger,
        })
    }
}

/// Reads a ledger and its mode, which is missing if the ledger has no record yet.
fn read_ledger(data: &Path) -> anyhow::Result<(Ledger, Option<Mode>)> {
    let disk = FsDisk::look_at(data, &KIND)?;
    let key = read_key(data)?;
    let named = || data.display().to_string();
    let mode = mode_of_ledger(&disk).with_context(named)?;
    Ok((open_read_only(&disk, key).with_context(named)?, mode))
}

impl Explained for Transfer {
    type Store = Store;
    type FastPath = TransferFastPath;
    type Host = ();
    const NAME: &'static str = "transfer";
    const COUNTS: &'static str = "transfer_counts";
    const DESIGN: NicDesign = NicDesign::Transfer;
    const PORT_REGISTER: u32 = REGISTER_TRANSFER_PORT;
    const FORWARDED: &'static str = TransferCounter::Forwarded.name();

    fn counter_names() -> Vec<&'static str> {
        TransferCounter::ALL.map(TransferCounter::name).to_vec()
    }

    fn meaning_of_code(code: u16) -> Option<&'static str> {
        TransferCode::from_code(code).map(TransferCode::meaning)
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

    fn fill(&self, store: &Arc<Store>) -> anyhow::Result<()> {
        store.set_paper_refusals(self.config.refusals_per_s.into());
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        let homeless = show_ledger(ledger, store, &mut StoreWriter::new(Arc::clone(store)));
        if homeless > 0 && store.is_express() {
            let all = ledger.account_count();
            bail!(
                "the fast-path table of this datapath has no room for {homeless} of the ledger's {all} accounts"
            );
        }
        Ok(())
    }

    fn twin(&self, store: &Store) -> anyhow::Result<Option<Store>> {
        let twin = self.store()?;
        // With the same key, each account has the same buckets in both tables.
        for (own, other) in twin.control().key.iter().zip(&store.control().key) {
            own.store(other.load(Relaxed), Relaxed);
        }
        Ok(Some(twin))
    }

    fn fastpath(store: &Arc<Store>) -> TransferFastPath {
        TransferFastPath::new(Arc::clone(store))
    }

    fn counters(fastpath: &TransferFastPath) -> Vec<u64> {
        fastpath.counters().to_vec()
    }

    fn nic_commands(store: &Store) -> Vec<Command> {
        // The key must be in the NIC before the accounts, whose places depend on it.
        [nic::control_commands(store), nic::entry_commands(store)].concat()
    }

    fn nic_counters(counters: &NicCounters) -> Vec<u64> {
        counters.transfer.to_vec()
    }

    fn left_to_host(&self, payload: &[u8]) -> Option<LeftToHost> {
        let name = |operation| TRANSFER_FAST_PATH.name(operation);
        match nic::left_to_host(payload) {
            Some(nic::LeftToHost::NotListed(operation)) => {
                return Some(LeftToHost::NotListed(name(operation)));
            }
            Some(nic::LeftToHost::NotOne(operation)) => return Some(LeftToHost::Several(name(operation))),
            None => {}
        }
        if native::request_op(payload) != Some(TRANSFER_OP_EXECUTE) {
            return None;
        }
        // The host may have more slots than the NIC; a slot that neither of them has is refused.
        let body = payload.get(size_of::<NativeHeader>()..)?;
        let (head, _) = ExecuteHead::ref_from_prefix(body).ok()?;
        let slot = head.slot.get();
        let is_of_host = slot < self.geometry.sessions && slot >> SIM_SESSION_BITS != 0;
        is_of_host.then_some(LeftToHost::NoSession(1 << SIM_SESSION_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_wire::Operation;
    use zerocopy::{FromZeros, IntoBytes};

    fn execute(operations: usize, slot: u32) -> Vec<u8> {
        let operations = vec![Operation::new_zeroed(); operations];
        let mut head = ExecuteHead::new_zeroed();
        head.slot = slot.into();
        let body = [head.as_bytes(), operations.as_bytes()].concat();
        let header = native::request_header(TRANSFER_OP_EXECUTE, 1, body.len() as u16);
        [header.as_bytes(), &body].concat()
    }

    #[test]
    fn the_rtl_leaves_several_operations_and_slots_that_only_the_host_has_to_the_host() {
        let slots = 1 << SIM_SESSION_BITS;
        let service = Transfer {
            config: TransferConfig::default(),
            geometry: Geometry {
                sessions: 2 * slots,
                ..Geometry::default()
            },
            ledger: None,
        };
        for (payload, expected) in [
            (execute(1, 0), None),
            (execute(1, slots - 1), None),
            (execute(1, slots), Some(LeftToHost::NoSession(slots))),
            (execute(1, 2 * slots - 1), Some(LeftToHost::NoSession(slots))),
            // Regression test: no server has this slot, so the NIC refuses the request as the model does.
            (execute(1, 2 * slots), None),
            (execute(1, u32::MAX), None),
            (execute(2, 0), Some(LeftToHost::Several("execute"))),
            (vec![1; 20], None),
        ] {
            assert_eq!(service.left_to_host(&payload), expected, "{payload:?}");
        }
    }
}
