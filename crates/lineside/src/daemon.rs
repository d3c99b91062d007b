//! `spv` put together: chain, host, near, its plane, and the lease that it lives by.

use crate::config::{Config, Prefill};
use crate::hex::to_display;
use crate::line;
use crate::run::Service;
use anyhow::{Context, bail};
use lineside_console::{ServiceStatus, Snapshot, Tip};
use lineside_near::{DropReason, Readers, lease};
use lineside_plane::socket::{SocketOptions, SocketPlane};
use lineside_plane::spv;
use lineside_plane::xdp::{AttachedMode, XdpPlane};
use lineside_spv::chain::{ChainStore, DemoChain, Network};
use lineside_spv::host::SpvHost;
use lineside_spv::near::SpvNear;
use lineside_spv::store::Store;
use lineside_spv::writer::StoreWriter;
use lineside_wire::{SpvCounter, metric};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The demonstration chain: 64 blocks of 2,048 transactions.
pub const DEMO_SEED: u64 = 1;
/// Its blocks.
pub const DEMO_BLOCKS: usize = 64;
/// Transactions in each.
pub const DEMO_TRANSACTIONS: u32 = 2048;
/// The lease is renewed this many times within its length.
const RENEWALS: u32 = 6;

/// A running `spv`.
pub struct Daemon {
    inner: Arc<Inner>,
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
    keep_near: bool,
}

struct Inner {
    started: Instant,
    store: Arc<Store>,
    near: Arc<SpvNear>,
    host: Arc<SpvHost>,
    socket: SocketPlane,
    xdp: Mutex<Option<XdpPlane>>,
    interface: String,
    mode: Option<AttachedMode>,
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
        let (xdp, mode) = match (xdp, &interface) {
            (Some(plane), Some(interface)) => {
                line::attach(&config.plane, plane, interface, &mut warnings)?.unzip()
            }
            _ => (None, None),
        };
        let inner = Arc::new(Inner {
            started: Instant::now(),
            store,
            near,
            host,
            socket,
            xdp: Mutex::new(xdp),
            interface: config.plane.interface.clone(),
            mode,
            kept,
            warnings,
        });
        let renewal = Some(renew_lease(Arc::clone(&inner), config.spv.lease())?);
        Ok(Self {
            inner,
            renewal,
            keep_near: config.plane.keep_near,
        })
    }
}

impl Service for Daemon {
    fn name(&self) -> &'static str {
        "spv"
    }

    fn listen(&self) -> SocketAddr {
        self.inner.socket.local_addr()
    }

    fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    fn plane(&self) -> String {
        let inner = &self.inner;
        let kept = if inner.kept { ", near kept from before" } else { "" };
        match inner.mode {
            Some(mode) => format!("xdp plane, {} on {}{kept}", mode.name(), inner.interface),
            None => "socket plane".into(),
        }
    }

    fn observed(&self) -> Arc<dyn Fn() -> Snapshot + Send + Sync> {
        let inner = Arc::clone(&self.inner);
        Arc::new(move || inner.snapshot())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.renewal.take() {
            drop(stop);
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
        let Some(mut plane) = self.inner.xdp().take() else {
            return;
        };
        if self.keep_near {
            return;
        }
        lease::end(&self.inner.store.control().lease_until_ns);
        if let Err(error) = plane.detach() {
            eprintln!("lineside: {error}; `lineside xdp detach` tries again");
        }
    }
}

impl Inner {
    fn xdp(&self) -> MutexGuard<'_, Option<XdpPlane>> {
        self.xdp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Snapshot {
        let lease_until_ns = self.store.control().lease_until_ns.load(Relaxed);
        let mut status = ServiceStatus {
            name: "spv".into(),
            plane: if self.mode.is_some() { "xdp" } else { "socket" }.into(),
            listen: self.socket.local_addr().to_string(),
            interface: self.mode.map(|_| self.interface.clone()),
            mode: self.mode.map(|mode| mode.name().into()),
            lease_left_ms: Some(lease_until_ns.saturating_sub(lease::now_ns()) / 1_000_000),
            tip: self.host.tip().map(|tip| Tip {
                hash: to_display(&tip.hash),
                height: tip.height,
            }),
            ..ServiceStatus::default()
        };
        let counts = self.socket.counts();
        let names = || SpvCounter::ALL.map(SpvCounter::name).into_iter();
        status.set_counters("socket", names().zip(self.near.counters()));
        status.set_near_replies("socket", counts.near_replies.load(Relaxed));
        status.set_drops("socket", counts.drops.each_ref().map(|count| count.load(Relaxed)));
        let mut problems = Vec::new();
        if let Some(plane) = self.xdp().as_mut() {
            let near = plane.counts::<{ SpvCounter::ALL.len() }>("spv_counts");
            let drops = plane.counts::<{ DropReason::ALL.len() }>("ls_drop_counts");
            match (near, drops) {
                (Ok(near), Ok(drops)) => {
                    status.set_near_replies("xdp", near[SpvCounter::Hits as usize]);
                    status.set_counters("xdp", names().zip(near));
                    status.set_drops("xdp", drops);
                }
                (Err(error), _) | (_, Err(error)) => problems.push(error.to_string()),
            }
        }
        let written = self.host.writer_counts();
        let (blocks, transactions) = self.host.size();
        for (metric, value) in [
            (metric::HOST_REPLIES, counts.host_replies.load(Relaxed)),
            (metric::QUEUE_FULL, counts.queue_full.load(Relaxed)),
            (metric::OVERSIZE, counts.oversize.load(Relaxed)),
            (metric::AMPLIFICATION, counts.amplification.load(Relaxed)),
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

/// Renews the lease until it is told to stop. The host is asked first: one that is stuck lets the lease end.
fn renew_lease(inner: Arc<Inner>, length: Duration) -> std::io::Result<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel();
    let renew = move || {
        while stopped.recv_timeout(length / RENEWALS) == Err(RecvTimeoutError::Timeout) {
            inner.host.tip();
            lease::renew(&inner.store.control().lease_until_ns, length.as_nanos() as u64);
        }
    };
    let thread = std::thread::Builder::new().name("lease".into()).spawn(renew)?;
    Ok((stop, thread))
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
