//! The `spv` service in the daemon: chain store, host, fast path, sockets, and the lease.

use crate::chain::ChainStore;
use crate::config::{Prefill, SpvConfig};
use crate::datapath;
use crate::fastpath::SpvFastPath;
use crate::host::SpvHost;
use crate::store::Store;
use crate::writer::StoreWriter;
use anyhow::{Context, bail};
use lineside_fastpath::{Readers, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_service::config::{ConfigIssue, Section, section};
use lineside_service::{
    Counted, Endpoint, Frontend, LeaseRenewal, Listen, Running, Service, ServiceDef, StartContext,
    StatusBuilder, Tip,
};
use lineside_util::hex::to_display;
use lineside_wire::{SPV_SLOT, SpvCounter, metric};
use lineside_xdp::ProgramSpec;
use std::sync::Arc;

/// Registration of the service.
pub const DEF: ServiceDef = ServiceDef {
    name: "spv",
    may_repeat: false,
    default_section: || section(&SpvConfig::default()),
    parse,
    pinned_work: None,
};

fn parse(section: &Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>> {
    let config = SpvConfig::parse(section)?;
    Ok(Box::new(SpvService { config, chain: None }))
}

struct SpvService {
    config: SpvConfig,
    /// The chain store, once it is open.
    chain: Option<ChainStore>,
}

/// State that the status function shares with the running service.
struct Shared {
    store: Arc<Store>,
    fastpath: Arc<SpvFastPath>,
    host: Arc<SpvHost>,
    frontend: Frontend,
}

struct RunningSpv {
    shared: Arc<Shared>,
    renewal: Option<LeaseRenewal>,
    /// Whether the table of an earlier daemon was taken over with what it held.
    was_kept: bool,
    has_stopped: bool,
}

impl Service for SpvService {
    fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    fn section(&self) -> toml::Table {
        section(&self.config)
    }

    fn listens(&self) -> Vec<Listen> {
        vec![Listen {
            key: "listen",
            address: self.config.listen,
            has_fast_path: true,
        }]
    }

    fn warnings(&self) -> Vec<String> {
        let paper = self.config.paper_index;
        let warning =
            paper.then(|| "[spv] paper_index = true: anyone can grind TXIDs onto one line".to_owned());
        warning.into_iter().collect()
    }

    fn may_keep_fast_path(&self) -> bool {
        true
    }

    fn privileged_init(&mut self, context: &mut StartContext) -> anyhow::Result<()> {
        self.chain = Some(open_chain(&self.config, &mut context.warnings)?);
        Ok(())
    }

    fn program(&self) -> Option<ProgramSpec> {
        Some(datapath::program(
            &self.config.geometry(),
            self.config.listen.port(),
        ))
    }

    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>> {
        let Self { config, chain } = *self;
        let chain = chain.context("the chain store is not open")?;
        let geometry = config.geometry();
        let mut programs = context.attachment.programs();
        let readers = Readers::new(programs.is_some());
        let store = Arc::new(match programs.as_mut() {
            Some(xdp) => datapath::store(xdp, &geometry)?,
            None => Store::anonymous(&geometry)?,
        });
        drop(programs);
        let (writer, was_kept) = if store.has_geometry(&geometry) {
            StoreWriter::adopt(Arc::clone(&store), chain.state())
        } else {
            lease::end(&store.control().lease_until_ns);
            let writer = StoreWriter::new(Arc::clone(&store));
            store.format(&geometry)?;
            (writer, false)
        };
        let host = SpvHost::new(chain, Box::new(writer), readers.clone(), config.paper_format);
        let host = Arc::new(host);
        match config.prefill {
            Prefill::None => {}
            Prefill::Tip(blocks) => host.prefill(blocks),
            Prefill::All => host.prefill(u32::MAX),
        }
        let fastpath = Arc::new(SpvFastPath::new(Arc::clone(&store)));
        let options = SocketOptions {
            listen: config.listen,
            threads: context.datapath.socket_threads(),
            queue: context.datapath.queue,
        };
        let (answers_first, answers_rest) = (Arc::clone(&fastpath) as _, Arc::clone(&host) as _);
        let socket = SocketDatapath::start(options, answers_first, answers_rest, &readers);
        let socket = socket.with_context(|| {
            format!(
                "spv cannot listen on {} (--listen gives another address)",
                config.listen
            )
        })?;
        let shared = Arc::new(Shared {
            store,
            fastpath,
            host,
            frontend: Frontend::new(socket, &context.attachment),
        });
        let (length, renewed) = (config.lease(), Arc::clone(&shared));
        let length_ns = length.as_nanos() as u64;
        lease::renew(&shared.store.control().lease_until_ns, length_ns);
        let renewal = LeaseRenewal::start(length, move || {
            // The host is asked first: a host that is stuck lets the lease end.
            renewed.host.tip();
            lease::renew(&renewed.store.control().lease_until_ns, length_ns);
        })?;
        Ok(Box::new(RunningSpv {
            shared,
            renewal: Some(renewal),
            was_kept,
            has_stopped: false,
        }))
    }
}

impl Running for RunningSpv {
    fn name(&self) -> &'static str {
        DEF.name
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        vec![Endpoint {
            protocol: "udp",
            address: self.shared.frontend.socket.local_addr(),
        }]
    }

    fn description(&self) -> String {
        let kept = if self.was_kept {
            ", the fast path kept from before"
        } else {
            ""
        };
        format!("{}{kept}", self.shared.frontend.description())
    }

    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |out| shared.status(out))
    }

    fn stop(&mut self, keeps_fast_path: bool) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.has_stopped, true) {
            return Ok(());
        }
        drop(self.renewal.take());
        if !keeps_fast_path {
            lease::end(&self.shared.store.control().lease_until_ns);
        }
        self.shared.frontend.socket.stop();
        Ok(())
    }
}

impl Drop for RunningSpv {
    fn drop(&mut self) {
        if let Err(error) = self.stop(false) {
            tracing::error!("{error:#}");
        }
    }
}

impl Shared {
    fn status(&self, out: &mut StatusBuilder) {
        let counted = Counted {
            names: SpvCounter::ALL.map(SpvCounter::name),
            socket: self.fastpath.counters(),
            slot: SPV_SLOT,
            map: "spv_counts",
            replies: SpvCounter::Hits as usize,
        };
        let lease_until_ns = &self.store.control().lease_until_ns;
        let mut status = self.frontend.status(DEF.name, lease_until_ns, &counted, out);
        status.tip = self.host.tip().map(|tip| Tip {
            hash: to_display(&tip.hash),
            height: tip.height,
        });
        let written = self.host.writer_counts();
        let (blocks, transactions) = self.host.size();
        for (metric, value) in [
            (metric::SPV_FILLS, written.fills),
            (metric::SPV_CONFLICTS, written.conflicts),
            (metric::SPV_INVALIDATIONS, written.invalidations),
            (metric::SPV_LATE_FILLS, written.late),
            (metric::SPV_BLOCKS, blocks),
            (metric::SPV_TRANSACTIONS, transactions),
        ] {
            status.set_host(metric, value);
        }
        out.services.push(status);
    }
}

/// Opens the chain store that the configuration names. What had to be made again is added to `warnings`.
///
/// # Errors
/// The reason why it cannot be opened.
pub fn open_chain(config: &SpvConfig, warnings: &mut Vec<String>) -> anyhow::Result<ChainStore> {
    let Some(data) = config.data() else {
        bail!(
            "[spv] data is empty: it names the directory of the chain store, which `lineside spv import` makes"
        );
    };
    if !data.exists() {
        bail!("{} is not there: `lineside spv import` makes it", data.display());
    }
    let opened = ChainStore::open_with(Some(data), config.network.into(), config.index.into());
    let (chain, rebuilt) = opened.with_context(|| format!("opening {}", data.display()))?;
    warnings.extend(rebuilt.map(|rebuilt| format!("{}: {rebuilt}", data.display())));
    Ok(chain)
}
