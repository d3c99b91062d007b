//! `transfer` put together: journal, ledger, the fast path, its datapaths, and the lease that it lives by.

use super::place::{self, Place};
use super::settle::Settling;
use crate::config::{Config, DatapathName, Transfer, TransferMode};
use crate::line::{Counted, Front, Line, Renewal};
use anyhow::{Context, bail};
use lineside_console::ServiceStatus;
use lineside_fastpath::{Readers, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_transfer::claims::{Claims, StoreClaims};
use lineside_transfer::datapath;
use lineside_transfer::datapath::LineClaims;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{self, Executing, SessionPolicy, Setup};
use lineside_transfer::ring::Ring;
use lineside_transfer::server::{KEY_FILE, Report, Server, load_or_make_key, lock};
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_wire::{TRANSFER_SLOT, TransferCounter, metric};
use lineside_xdp::{Image, XdpDatapath};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Everything but the line: it listens, and the fast path may answer.
pub struct Opened {
    store: Arc<Store>,
    fastpath: Arc<TransferFastPath>,
    report: Arc<Mutex<Report>>,
    socket: SocketDatapath,
    settling: Option<Settling>,
    place: Option<Place>,
    lease: Duration,
    is_express: bool,
}

/// A running `transfer`.
pub struct Running {
    inner: Arc<Inner>,
    /// In `express` the host renews the lease, each time that it has emptied the rings.
    renewal: Option<Renewal>,
    /// Where blocks go besides the journal.
    settling: Option<Settling>,
    place: Option<Place>,
}

/// How it is, whenever it is asked.
pub struct Inner {
    store: Arc<Store>,
    fastpath: Arc<TransferFastPath>,
    report: Arc<Mutex<Report>>,
    settled: Arc<AtomicU64>,
    front: Front,
}

/// What must be done while this process may still do everything: the directory is made. How the fast path is to be laid
/// out.
///
/// # Errors
/// What the system says.
pub fn prepare(config: &Config, warnings: &mut Vec<String>) -> anyhow::Result<Geometry> {
    let transfer = &config.transfer;
    if !transfer.require_signature {
        warnings.push("without signatures, whoever reaches the port can move money".into());
    }
    let mut geometry = transfer.geometry();
    if transfer.mode == TransferMode::Express {
        warnings.push("express: what is answered is on the disk only milliseconds later".into());
        geometry.rings = match config.datapath.datapath {
            DatapathName::Socket => config.datapath.threads() as u32,
            DatapathName::Auto | DatapathName::Xdp => datapath::rings()?,
        };
    }
    std::fs::create_dir_all(&transfer.data).with_context(|| transfer.data.display().to_string())?;
    Ok(geometry)
}

/// Its program.
pub fn image(config: &Config, geometry: &Geometry) -> Image {
    datapath::image(geometry, config.transfer.listen.port())
}

/// Opens the ledger's directory and fills the fast path from it.
fn open(
    transfer: &Transfer,
    store: &Arc<Store>,
    readers: &Readers,
    claims: Arc<dyn Claims + Send + Sync>,
) -> anyhow::Result<(Server, host::Opened)> {
    let setup = Setup {
        limits: transfer.limits(),
        seal: transfer.seal(),
        sessions: SessionPolicy {
            per_source: transfer.sessions_per_source,
        },
        issuer_keys: transfer.issuer_keys(),
        express: (transfer.mode == TransferMode::Express).then(|| Executing {
            readers: readers.clone(),
            lease_ns: transfer.lease().as_nanos() as u64,
            claims,
        }),
    };
    Server::open(&transfer.data, setup, Arc::clone(store))
        .with_context(|| format!("opening {}", transfer.data.display()))
}

/// The fast path as an earlier daemon left it, where it executes and may be ahead of the journal; else as new: what is
/// in it is in the ledger too, and comes back from there. `tag` is the ledger's.
fn adopted(store: Store, geometry: &Geometry, tag: u64) -> anyhow::Result<Store> {
    let was_express = store.is_express();
    let is_ours = store.control().ledger.load(Relaxed) == tag;
    if was_express && !is_ours {
        bail!(
            "the fast path that is pinned there is of another ledger: start that one's server first, or detach it"
        );
    }
    lease::end(&store.control().lease_until_ns);
    Readers::new(true).wait();
    let adopts = geometry.mode == Mode::Express && store.has_geometry(geometry);
    if adopts {
        store.set_policies(geometry);
    } else if was_express && Ring::waiting_in(&store) > 0 {
        bail!(
            "the fast path that is pinned there holds operations, and has another geometry or mode: give the same again"
        );
    } else {
        store.clear();
        store.format(geometry)?;
    }
    store.control().ledger.store(tag, Relaxed);
    Ok(store)
}

/// What the fast path of this ledger is known by, so that no other takes what it holds: of its settlement key.
fn tag(data: &Path) -> anyhow::Result<u64> {
    let key = load_or_make_key(&data.join(KEY_FILE))?;
    let point = key.verifying_key().to_encoded_point(true);
    let mut tag = [0; 8];
    tag.copy_from_slice(&point.as_bytes()[1..9]);
    Ok(u64::from_le_bytes(tag).max(1))
}

impl Opened {
    /// The fast path in the maps of `xdp`, where there is one, else in this process, filled from the ledger; both
    /// listening.
    ///
    /// # Errors
    /// What stands in the way, and what to do about it.
    pub fn new(
        config: &Config,
        geometry: &Geometry,
        mut xdp: Option<&mut XdpDatapath>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Self> {
        let transfer = &config.transfer;
        let is_express = transfer.mode == TransferMode::Express;
        let readers = Readers::new(xdp.is_some());
        let beside_xdp = xdp.is_some();
        let tag = tag(&transfer.data)?;
        place::check(&transfer.data, tag, &config.datapath, beside_xdp, warnings)?;
        let store = Arc::new(match &mut xdp {
            Some(xdp) => adopted(datapath::store(xdp, geometry)?, geometry, tag)?,
            None => Store::anonymous(geometry)?,
        });
        let place = beside_xdp
            .then(|| Place::take(&transfer.data, &config.datapath))
            .transpose()?;
        let claims: Arc<dyn Claims + Send + Sync> = match xdp {
            Some(xdp) => Arc::new(LineClaims::of(xdp)?),
            None => Arc::new(StoreClaims::new(Arc::clone(&store))),
        };
        let (server, opened) = open(transfer, &store, &readers, claims)?;
        warnings.extend(said(&opened));
        let report = server.report();
        let settling = transfer
            .settle_to()
            .map(|file| {
                Settling::start(&transfer.data, file, Arc::clone(&report))
                    .with_context(|| format!("settling to {}", file.display()))
            })
            .transpose()?;
        let fastpath = Arc::new(match beside_xdp {
            true => TransferFastPath::beside_xdp(Arc::clone(&store)),
            false => TransferFastPath::new(Arc::clone(&store)),
        });
        let listen = transfer.listen;
        let options = SocketOptions {
            listen,
            threads: config.datapath.threads(),
            queue: config.datapath.queue,
        };
        let filter = match transfer.allow_zero_checksum {
            true => Vec::new(),
            false => datapath::only_checked_writes(),
        };
        let (fastpath_too, host) = (Arc::clone(&fastpath) as _, Box::new(server));
        let socket = SocketDatapath::start_in_groups_behind(&filter, options, fastpath_too, host, &readers)
            .with_context(|| {
            format!("transfer cannot listen on {listen} (--listen gives another address)")
        })?;
        let lease = transfer.lease();
        if !is_express {
            lease::renew(&store.control().lease_until_ns, lease.as_nanos() as u64);
        }
        Ok(Self {
            store,
            fastpath,
            report,
            socket,
            settling,
            place,
            lease,
            is_express,
        })
    }

    /// Renews the lease from now on, where the host does not.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn run(self, line: &Arc<Line>) -> std::io::Result<Running> {
        let inner = Arc::new(Inner {
            store: self.store,
            fastpath: self.fastpath,
            report: self.report,
            settled: self.settling.as_ref().map(Settling::settled).unwrap_or_default(),
            front: Front::new(self.socket, line),
        });
        let (length, renewed) = (self.lease, Arc::clone(&inner));
        let renew = move || lease::renew(&renewed.store.control().lease_until_ns, length.as_nanos() as u64);
        let renewal = (!self.is_express)
            .then(|| Renewal::start(length, renew))
            .transpose()?;
        Ok(Running {
            inner,
            renewal,
            settling: self.settling,
            place: self.place,
        })
    }
}

/// What opening the ledger found that its operator should know.
fn said(opened: &host::Opened) -> Vec<String> {
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
        self.inner.front.words()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.renewal.take());
        // First the line stops, then the threads, and the host last: it takes what the rings still hold.
        self.inner.front.detach();
        self.inner.front.socket.stop();
        lease::end(&self.inner.store.control().lease_until_ns);
        drop(self.settling.take());
        if let Some(place) = &self.place {
            place.leave();
        }
    }
}

impl Inner {
    /// Its part of a snapshot; what cannot be told is put among the `problems`.
    pub fn status(&self, problems: &mut Vec<String>) -> ServiceStatus {
        let counted = Counted {
            names: TransferCounter::ALL.map(TransferCounter::name),
            socket: self.fastpath.counters(),
            slot: TRANSFER_SLOT,
            map: "transfer_counts",
            replies: TransferCounter::Replies as usize,
        };
        let report = lock(&self.report).clone();
        problems.extend(report.failed);
        if report.full {
            problems.push(match report.unjournaled {
                0 => "the disk is full: what would change something is refused".to_owned(),
                waiting => format!(
                    "the disk is full: {waiting} operations that the fast path executed and answered are in no \
                     journal yet"
                ),
            });
        }
        let lease_until_ns = &self.store.control().lease_until_ns;
        let mut status = self.front.status("transfer", lease_until_ns, &counted, problems);
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
            (metric::TRANSFER_SIGNATURES, report.counts.signatures),
            (metric::TRANSFER_RESTS, report.counts.rests),
            (metric::TRANSFER_CLAIMS, report.counts.claims),
            (metric::TRANSFER_SETTLED_BLOCKS, self.settled.load(Relaxed)),
        ] {
            status.set_host(metric, value);
        }
        status
    }
}
