//! `spv` put together: chain, host, the fast path, its datapath, and the lease that it lives by.

use crate::config::{Config, Prefill};
use crate::hex::to_display;
use crate::line::{Counted, Front, Line, Renewal};
use anyhow::{Context, bail};
use lineside_console::{ServiceStatus, Tip};
use lineside_fastpath::{Readers, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::chain::ChainStore;
use lineside_spv::datapath as spv;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::Store;
use lineside_spv::writer::StoreWriter;
use lineside_wire::{SPV_SLOT, SpvCounter, metric};
use lineside_xdp::{Image, XdpDatapath};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Everything but the line: it listens, and the fast path may answer.
pub struct Opened {
    store: Arc<Store>,
    fastpath: Arc<SpvFastPath>,
    host: Arc<SpvHost>,
    socket: SocketDatapath,
    kept: bool,
    lease: Duration,
    keep_fast_path: bool,
}

/// A running `spv`.
pub struct Running {
    inner: Arc<Inner>,
    renewal: Option<Renewal>,
    keep_fast_path: bool,
}

/// How it is, whenever it is asked.
pub struct Inner {
    store: Arc<Store>,
    fastpath: Arc<SpvFastPath>,
    host: Arc<SpvHost>,
    front: Front,
    kept: bool,
}

/// Its program.
pub fn image(config: &Config) -> Image {
    spv::image(&config.spv.geometry(), config.spv.listen.port())
}

impl Opened {
    /// The fast path in the maps of `xdp`, where there is one, else in this process; its host over `chain`; both
    /// listening.
    ///
    /// # Errors
    /// What stands in the way, and what to do about it.
    pub fn new(config: &Config, chain: ChainStore, xdp: Option<&mut XdpDatapath>) -> anyhow::Result<Self> {
        let geometry = config.spv.geometry();
        let readers = Readers::new(xdp.is_some());
        let store = Arc::new(match xdp {
            Some(datapath) => spv::store(datapath, &geometry)?,
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
        let host = SpvHost::new(chain, Box::new(writer), readers.clone(), config.spv.paper_format);
        let host = Arc::new(host);
        match config.spv.prefill {
            Prefill::None => {}
            Prefill::Tip(blocks) => host.prefill(blocks),
            Prefill::All => host.prefill(u32::MAX),
        }
        let fastpath = Arc::new(SpvFastPath::new(Arc::clone(&store)));
        let options = SocketOptions {
            listen: config.spv.listen,
            threads: config.datapath.threads(),
            queue: config.datapath.queue,
        };
        let socket = SocketDatapath::start(
            options,
            Arc::clone(&fastpath) as _,
            Arc::clone(&host) as _,
            &readers,
        )
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
        Ok(Self {
            store,
            fastpath,
            host,
            socket,
            kept,
            lease: config.spv.lease(),
            keep_fast_path: config.datapath.keep_fast_path,
        })
    }

    /// Renews the lease from now on.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn run(self, line: &Arc<Line>) -> std::io::Result<Running> {
        let inner = Arc::new(Inner {
            store: self.store,
            fastpath: self.fastpath,
            host: self.host,
            front: Front::new(self.socket, line),
            kept: self.kept,
        });
        let (length, renewed) = (self.lease, Arc::clone(&inner));
        let renewal = Renewal::start(length, move || {
            // The host is asked first: one that is stuck lets the lease end.
            renewed.host.tip();
            lease::renew(&renewed.store.control().lease_until_ns, length.as_nanos() as u64);
        })?;
        Ok(Running {
            inner,
            renewal: Some(renewal),
            keep_fast_path: self.keep_fast_path,
        })
    }
}

impl Running {
    /// How it is, whenever it is asked.
    pub fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        self.inner.front.socket.local_addr()
    }

    /// Where the fast path stands, in words.
    pub fn datapath(&self) -> String {
        let kept = if self.inner.kept {
            ", the fast path kept from before"
        } else {
            ""
        };
        format!("{}{kept}", self.inner.front.words())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.renewal.take());
        if self.keep_fast_path && self.inner.front.keep() {
            return;
        }
        lease::end(&self.inner.store.control().lease_until_ns);
        self.inner.front.detach();
    }
}

impl Inner {
    /// Its part of a snapshot; what cannot be told is put among the `problems`.
    pub fn status(&self, problems: &mut Vec<String>) -> ServiceStatus {
        let counted = Counted {
            names: SpvCounter::ALL.map(SpvCounter::name),
            socket: self.fastpath.counters(),
            slot: SPV_SLOT,
            map: "spv_counts",
            replies: SpvCounter::Hits as usize,
        };
        let lease_until_ns = &self.store.control().lease_until_ns;
        let mut status = self.front.status("spv", lease_until_ns, &counted, problems);
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
        status
    }
}

/// Opens the chain store that the configuration names.
///
/// # Errors
/// The reason why it cannot be opened.
pub fn open_chain(config: &Config, warnings: &mut Vec<String>) -> anyhow::Result<ChainStore> {
    let Some(data) = config.spv.data() else {
        bail!(
            "[spv] data is empty: it names the directory of the chain store, which `lineside spv import` makes"
        );
    };
    if !data.exists() {
        bail!("{} is not there: `lineside spv import` makes it", data.display());
    }
    let (chain, rebuilt) =
        ChainStore::open_with(Some(data), config.spv.network.into(), config.spv.index.into())
            .with_context(|| format!("opening {}", data.display()))?;
    warnings.extend(rebuilt.map(|rebuilt| format!("{}: {rebuilt}", data.display())));
    Ok(chain)
}
