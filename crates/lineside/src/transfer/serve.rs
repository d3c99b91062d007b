//! `lineside transfer serve`: journal, ledger, near and its planes, until a signal ends it.

use crate::config::{Config, PlaneName, Transfer, TransferMode};
use crate::line::{self, Counted, Front, Renewal};
use crate::run::{Overrides, Service, until_signal};
use anyhow::{Context, bail};
use clap::Args;
use lineside_console::Snapshot;
use lineside_near::{Readers, lease};
use lineside_plane::socket::{SocketOptions, SocketPlane};
use lineside_plane::transfer as plane;
use lineside_transfer::host::{Executing, Opened, SessionPolicy, Setup};
use lineside_transfer::near::TransferNear;
use lineside_transfer::server::{Report, Server, lock};
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_wire::{TransferCounter, metric};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Serve a ledger on UDP and TCP until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file; what is given here goes before it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The ledger's directory, made where it is not there.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Address and port, of UDP and TCP.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Who executes: the host, durably, or near, at once.
    #[arg(long, value_enum)]
    mode: Option<TransferMode>,
    /// log2 of the number of accounts.
    #[arg(long)]
    account_bits: Option<u32>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Serves until a signal comes.
///
/// # Errors
/// What stands in the way of serving.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.overrides.over(arguments.config)?;
    if let Some(data) = arguments.data {
        config.transfer.data = data;
    }
    if let Some(listen) = arguments.listen {
        config.transfer.listen = listen;
    }
    if let Some(mode) = arguments.mode {
        config.transfer.mode = mode;
    }
    if let Some(account_bits) = arguments.account_bits {
        config.transfer.account_bits = account_bits;
    }
    let config = config.checked("the command line")?;
    if config.transfer.data.as_os_str().is_empty() {
        bail!("--data DIR, or `data` in [transfer] of the configuration, says where the ledger is kept");
    }
    if config.plane.keep_near {
        bail!(
            "keep_near: near of transfer always goes with its server; take it out of [plane], or --keep-near away"
        );
    }
    until_signal(&config, Daemon::start, |_| Ok(None), false, as_json)
}

/// A running `transfer`.
pub struct Daemon {
    inner: Arc<Inner>,
    /// In `express` the host renews the lease, each time that it has emptied the rings.
    renewal: Option<Renewal>,
}

struct Inner {
    started: Instant,
    store: Arc<Store>,
    near: Arc<TransferNear>,
    report: Arc<Mutex<Report>>,
    front: Front,
    warnings: Vec<String>,
}

/// Opens the ledger's directory and fills near from it.
fn open(transfer: &Transfer, store: &Arc<Store>, readers: &Readers) -> anyhow::Result<(Server, Opened)> {
    let setup = Setup {
        limits: transfer.limits(),
        seal: transfer.seal(),
        sessions: SessionPolicy {
            per_source: transfer.sessions_per_source,
        },
        express: (transfer.mode == TransferMode::Express).then(|| Executing {
            readers: readers.clone(),
            lease_ns: transfer.lease().as_nanos() as u64,
        }),
    };
    Server::open(&transfer.data, setup, Arc::clone(store))
        .with_context(|| format!("opening {}", transfer.data.display()))
}

/// Near as an earlier daemon left it, where it executes and may be ahead of the journal; else as new: what is in it is
/// in the ledger too, and comes back from there.
fn adopted(store: Store, geometry: &Geometry) -> std::io::Result<Store> {
    lease::end(&store.control().lease_until_ns);
    Readers::new(true).wait();
    if geometry.mode == Mode::Express && store.has_geometry(geometry) {
        store.set_policies(geometry);
        return Ok(store);
    }
    store.clear();
    store.format(geometry)?;
    Ok(store)
}

impl Daemon {
    /// Opens the ledger, gives up the privileges that are not needed any more, and serves.
    ///
    /// # Errors
    /// What stands in the way, and what to do about it.
    pub fn start(config: &Config) -> anyhow::Result<Self> {
        let transfer = &config.transfer;
        let mut warnings = config.warnings();
        warnings.push("without signatures, whoever reaches the port can move money".into());
        let is_express = transfer.mode == TransferMode::Express;
        let mut geometry = transfer.geometry();
        if is_express {
            warnings.push("express: what is answered is on the disk only milliseconds later".into());
            geometry.rings = match config.plane.plane {
                PlaneName::Socket => config.plane.threads() as u32,
                PlaneName::Auto | PlaneName::Xdp => plane::rings()?,
            };
        }
        // The directory is made before: what root may do to files is given up with the rest.
        std::fs::create_dir_all(&transfer.data).with_context(|| transfer.data.display().to_string())?;
        crate::privileges::drop_all_but_bpf()?;
        let listen = transfer.listen;
        let image = || Ok(plane::image(&geometry, listen.port()));
        let (mut xdp, interface) = line::load(&config.plane, listen, image, &mut warnings)?.unzip();
        let store = Arc::new(match &mut xdp {
            Some(xdp) => adopted(plane::store(xdp, &geometry)?, &geometry)?,
            None => Store::anonymous(&geometry)?,
        });
        let readers = Readers::new(xdp.is_some());
        let (server, opened) = open(transfer, &store, &readers)?;
        warnings.extend(said(&opened));
        let report = server.report();
        let near = Arc::new(match xdp {
            Some(_) => TransferNear::beside_xdp(Arc::clone(&store)),
            None => TransferNear::new(Arc::clone(&store)),
        });
        let options = SocketOptions {
            listen,
            threads: config.plane.threads(),
            queue: config.plane.queue,
        };
        let socket =
            SocketPlane::start_in_groups(options, Arc::clone(&near) as _, Box::new(server), &readers)
                .with_context(|| {
                    format!("transfer cannot listen on {listen} (--listen gives another address)")
                })?;
        let length = transfer.lease();
        if !is_express {
            lease::renew(&store.control().lease_until_ns, length.as_nanos() as u64);
        }
        let attached = match (xdp, &interface) {
            (Some(xdp), Some(interface)) => line::attach(&config.plane, xdp, interface, &mut warnings)?,
            _ => None,
        };
        let inner = Arc::new(Inner {
            started: Instant::now(),
            store,
            near,
            report,
            front: Front::new(socket, attached, &config.plane.interface),
            warnings,
        });
        let renewed = Arc::clone(&inner);
        let renew = move || lease::renew(&renewed.store.control().lease_until_ns, length.as_nanos() as u64);
        let renewal = (!is_express).then(|| Renewal::start(length, renew)).transpose()?;
        Ok(Self { inner, renewal })
    }
}

/// What opening the ledger found that its operator should know.
fn said(opened: &Opened) -> Vec<String> {
    let recovery = &opened.recovery;
    let cut = (recovery.cut_bytes > 0).then(|| {
        let behind = recovery.last_lsn;
        format!(
            "{} bytes of an unfinished group behind record {behind} were cut",
            recovery.cut_bytes
        )
    });
    let removed = (!recovery.removed.is_empty()).then(|| format!("removed: {}", recovery.removed.join(", ")));
    cut.into_iter().chain(removed).collect()
}

impl Service for Daemon {
    fn name(&self) -> &'static str {
        "transfer"
    }

    fn listen(&self) -> SocketAddr {
        self.inner.front.socket.local_addr()
    }

    fn plane(&self) -> String {
        self.inner.front.words()
    }

    fn warnings(&self) -> &[String] {
        &self.inner.warnings
    }

    fn observed(&self) -> Arc<dyn Fn() -> Snapshot + Send + Sync> {
        let inner = Arc::clone(&self.inner);
        Arc::new(move || inner.snapshot())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.renewal.take());
        // First the line stops, then the threads, and the host last: it takes what the rings still hold.
        self.inner.front.detach();
        self.inner.front.socket.stop();
        lease::end(&self.inner.store.control().lease_until_ns);
    }
}

impl Inner {
    fn snapshot(&self) -> Snapshot {
        let counted = Counted {
            names: TransferCounter::ALL.map(TransferCounter::name),
            socket: self.near.counters(),
            map: "transfer_counts",
            replies: TransferCounter::Replies as usize,
        };
        let report = lock(&self.report).clone();
        let mut problems: Vec<String> = report.failed.into_iter().collect();
        let lease_until_ns = &self.store.control().lease_until_ns;
        let mut status = self
            .front
            .status("transfer", lease_until_ns, &counted, &mut problems);
        for (metric, value) in [
            (metric::TRANSFER_ACCOUNTS, report.accounts),
            (metric::TRANSFER_SESSIONS, report.sessions),
            (metric::TRANSFER_OPERATIONS, report.operations),
            (metric::TRANSFER_REFUSED, report.counts.refused),
            (metric::TRANSFER_UNJOURNALED_OPS, report.unjournaled),
            (metric::TRANSFER_GROUPS, report.counts.groups),
            (metric::TRANSFER_JOURNAL, report.journal_bytes),
            (metric::TRANSFER_BLOCKS, report.blocks),
            (metric::TRANSFER_WRITES_REFUSED, report.counts.writes_refused),
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
