//! `spv` put together: chain, host, near, its plane, and the lease that it lives by.

use crate::config::{Config, Prefill};
use crate::hex::to_display;
use crate::line::{self, Counted, Front, Renewal};
use crate::run::Service;
use anyhow::{Context, bail};
use lineside_console::{Snapshot, Tip};
use lineside_near::{Readers, lease};
use lineside_plane::socket::{SocketOptions, SocketPlane};
use lineside_plane::spv;
use lineside_spv::chain::{ChainStore, DemoChain, Network};
use lineside_spv::host::SpvHost;
use lineside_spv::near::SpvNear;
use lineside_spv::store::Store;
use lineside_spv::writer::StoreWriter;
use lineside_wire::{SpvCounter, metric};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// The demonstration chain: 64 blocks of 2,048 transactions.
pub const DEMO_SEED: u64 = 1;
/// Its blocks.
pub const DEMO_BLOCKS: usize = 64;
/// Transactions in each.
pub const DEMO_TRANSACTIONS: u32 = 2048;
/// A running `spv`.
pub struct Daemon {
    inner: Arc<Inner>,
    renewal: Option<Renewal>,
    keep_near: bool,
}

struct Inner {
    started: Instant,
    store: Arc<Store>,
    near: Arc<SpvNear>,
    host: Arc<SpvHost>,
    front: Front,
    kept: bool,
    warnings: Vec<String>,
}

impl Daemon {
    /// Opens the chain, gives up the privileges that are not needed any more, and serves.
    ///
    /// # Errors
    /// What stands in the way, and what to do about it.
    pub fn start(config: &Config) -> anyhow::Result<Self> {
        let mut warnings = config.warnings();
        let chain = open_chain(config, &mut warnings)?;
        crate::privileges::drop_all_but_bpf()?;
        let geometry = config.spv.geometry();
        let listen = config.spv.listen;
        let image = || Ok(spv::image(&geometry, listen.port()));
        let loaded = line::load(&config.plane, listen, image, &mut warnings)?;
        let (mut xdp, interface) = loaded.unzip();
        let store = Arc::new(match &mut xdp {
            Some(plane) => spv::store(plane, &geometry)?,
            None => Store::anonymous(&geometry)?,
        });
        let (writer, kept) = if store.has_geometry(&geometry) {
            StoreWriter::adopt(Arc::clone(&store), chain.state())
        } else {
            lease::end(&store.control().lease_until_ns);
            let writer = StoreWriter::new(Arc::clone(&store));
            store.format(&geometry)?;
            (writer, false)
        };
        let readers = Readers::new(xdp.is_some());
        let host = SpvHost::new(chain, Box::new(writer), readers.clone(), config.spv.paper_format);
        let host = Arc::new(host);
        match config.spv.prefill {
            Prefill::None => {}
            Prefill::Tip(blocks) => host.prefill(blocks),
            Prefill::All => host.prefill(u32::MAX),
        }
        let near = Arc::new(SpvNear::new(Arc::clone(&store)));
        let options = SocketOptions {
            listen: config.spv.listen,
            threads: config.plane.threads(),
            queue: config.plane.queue,
        };
        let socket = SocketPlane::start(options, Arc::clone(&near) as _, Arc::clone(&host) as _, &readers)
            .with_context(|| {
                format!(
                    "spv cannot listen on {} (--listen gives another address)",
                    config.spv.listen
                )
            })?;
        lease::renew(
            &store.control().lease_until_ns,
            config.spv.lease().as_nanos() as u64,
        );
        let attached = match (xdp, &interface) {
            (Some(plane), Some(interface)) => line::attach(&config.plane, plane, interface, &mut warnings)?,
            _ => None,
        };
        let inner = Arc::new(Inner {
            started: Instant::now(),
            store,
            near,
            host,
            front: Front::new(socket, attached, &config.plane.interface),
            kept,
            warnings,
        });
        let (length, renewed) = (config.spv.lease(), Arc::clone(&inner));
        let renewal = Renewal::start(length, move || {
            // The host is asked first: one that is stuck lets the lease end.
            renewed.host.tip();
            lease::renew(&renewed.store.control().lease_until_ns, length.as_nanos() as u64);
        })?;
        Ok(Self {
            inner,
            renewal: Some(renewal),
            keep_near: config.plane.keep_near,
        })
    }
}

impl Service for Daemon {
    fn name(&self) -> &'static str {
        "spv"
    }

    fn listen(&self) -> SocketAddr {
        self.inner.front.socket.local_addr()
    }

    fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    fn plane(&self) -> String {
        let kept = if self.inner.kept {
            ", near kept from before"
        } else {
            ""
        };
        format!("{}{kept}", self.inner.front.words())
    }

    fn observed(&self) -> Arc<dyn Fn() -> Snapshot + Send + Sync> {
        let inner = Arc::clone(&self.inner);
        Arc::new(move || inner.snapshot())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.renewal.take());
        if self.keep_near && self.inner.front.keep() {
            return;
        }
        lease::end(&self.inner.store.control().lease_until_ns);
        self.inner.front.detach();
    }
}

impl Inner {
    fn snapshot(&self) -> Snapshot {
        let counted = Counted {
            names: SpvCounter::ALL.map(SpvCounter::name),
            socket: self.near.counters(),
            map: "spv_counts",
            replies: SpvCounter::Hits as usize,
        };
        let mut problems = Vec::new();
        let lease_until_ns = &self.store.control().lease_until_ns;
        let mut status = self.front.status("spv", lease_until_ns, &counted, &mut problems);
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
        Snapshot {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: self.started.elapsed().as_secs(),
            services: vec![status],
            problems,
            warnings: self.warnings.clone(),
        }
    }
}

/// The chain store of the configuration, or the demonstration chain.
///
/// # Errors
/// What stands in the way of opening it.
pub fn open_chain(config: &Config, warnings: &mut Vec<String>) -> anyhow::Result<ChainStore> {
    if let Some(data) = config.spv.data() {
        if !data.exists() {
            bail!("{} is not there: `lineside spv import` makes it", data.display());
        }
        let (chain, rebuilt) =
            ChainStore::open_with(Some(data), config.spv.network.into(), config.spv.index.into())
                .with_context(|| format!("opening {}", data.display()))?;
        warnings.extend(rebuilt.map(|rebuilt| format!("{}: {rebuilt}", data.display())));
        return Ok(chain);
    }
    if Network::from(config.spv.network) != Network::Regtest {
        bail!("the demonstration chain is of regtest: set `data` to serve another network");
    }
    let mut chain = ChainStore::open(None, Network::Regtest)?;
    for block in DemoChain::new(DEMO_SEED, DEMO_TRANSACTIONS).take(DEMO_BLOCKS) {
        chain.submit(&block.raw, false)?;
    }
    chain.catch_up()?;
    Ok(chain)
}
