//! The `transfer` service in the daemon: journal, ledger, fast path, sockets, and the lease.

mod attach_record;
mod records;
mod settling;

use crate::claims::{Claims, StoreClaims};
use crate::config::{TransferConfig, TransferMode};
use crate::datapath::{self, LineClaims};
use crate::fastpath::TransferFastPath;
use crate::host::{self, Executing, OpenError, Setup};
use crate::nic::{self, NicClaims, NicWriter};
use crate::ring::Ring;
use crate::server::{KIND, Report, Server, is_short, ledger_key, lock};
use crate::store::{Geometry, Mode, Store};
use crate::writer::{StoreWriter, TransferFill};
use anyhow::{Context, bail};
use attach_record::AttachRecord;
use lineside_fastpath::{Readers, lease};
use lineside_journal::{Error as JournalError, FsDisk, refuse_emptied};
use lineside_net::SocketDatapath;
use lineside_rtl::{REGISTER_TRANSFER_PORT, SIM_BUCKET_BITS};
use lineside_service::config::{ConfigIssue, Section, section};
use lineside_service::{
    Counted, DatapathConfig, DatapathKind, Endpoint, Frontend, LeaseRenewal, Listen, NicAttachment,
    NicProgram, PinnedWork, RecordDecoder, Rights, Running, Service, ServiceDef, StartContext, StatusBuilder,
    cannot_listen, report_lost_lease,
};

use lineside_util::data_dir::NewDirectory;
use lineside_util::histogram::Histogram;
use lineside_wire::{TRANSFER_SLOT, TransferCounter, metric};
use lineside_xdp::{Pins, ProgramSpec, detach_command};
use settling::Settling;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Number of seconds by which the ledger's clock may be ahead of the machine's clock without a warning.
const CLOCK_AHEAD_S: u64 = 60;

/// Registration of the service `transfer` in the daemon.
pub const DEF: ServiceDef = ServiceDef {
    name: "transfer",
    may_repeat: false,
    default_section: || section(&TransferConfig::default()),
    parse,
    pinned_work: Some(pinned_work),
    records: Some(RecordDecoder {
        kind: &KIND,
        decode: records::decode,
    }),
};

fn parse(section: &Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>> {
    let config = TransferConfig::parse(section)?;
    let geometry = config.geometry();
    Ok(Box::new(TransferService {
        config,
        geometry,
        disk: None,
        new_directory: None,
        left_fast_path: None,
    }))
}

fn pinned_work(directory: &Path) -> anyhow::Result<Option<PinnedWork>> {
    let pinned = datapath::pinned(directory)?;
    Ok(pinned.map(|pinned| PinnedWork {
        executes: pinned.is_express,
        waiting: pinned.waiting,
    }))
}

struct TransferService {
    config: TransferConfig,
    /// Layout of the fast-path table. Its number of rings is set when the datapath is known.
    geometry: Geometry,
    /// Directory of the ledger; `Some` once this process has claimed it.
    disk: Option<FsDisk>,
    /// Guard that removes the files and directories that the start has created, if the start fails.
    new_directory: Option<NewDirectory>,
    /// Reason why a server on the socket datapath must not start: a killed server has left its fast path attached.
    /// `None` if there is no such fast path, or if this server may only use XDP.
    left_fast_path: Option<anyhow::Error>,
}

/// State that the status function shares with the running service.
struct StatusShared {
    store: Arc<Store>,
    fastpath: Arc<TransferFastPath>,
    report: Arc<Mutex<Report>>,
    /// Histogram of the durations of the journal's fdatasync calls.
    sync_times: Arc<Histogram>,
    /// Number of accounts and of sessions that the fast-path table has room for.
    capacities: [u64; 2],
    settled: Arc<AtomicU64>,
    frontend: Frontend,
}

struct RunningTransfer {
    shared: Arc<StatusShared>,
    /// Renews the lease in `durable`. In `express` the host renews it each time it has emptied the rings.
    renewal: Option<LeaseRenewal>,
    /// Writes sealed blocks to the settlement file.
    settling: Option<Settling>,
    attach_record: Option<AttachRecord>,
    /// True if the fast path was attached. If it was not, the maps that an earlier server pinned are still pinned, and
    /// the record of their interfaces must remain.
    is_confirmed: bool,
    has_stopped: bool,
}

impl Service for TransferService {
    fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    fn section(&self) -> toml::Table {
        section(&self.config)
    }

    fn listens(&self) -> Vec<Listen> {
        vec![Listen::of_fast_path(self.config.listen)]
    }

    fn warnings(&self) -> Vec<String> {
        let open = self.config.issuer_ranges().find(|range| range.prefix_bits == 0);
        let warning = open.map(|range| {
            format!(
                "[transfer] issuers: {}/0 contains every address, so any client can create money; give only the \
                 addresses that may do so",
                range.address
            )
        });
        warning.into_iter().collect()
    }

    fn data_fault(&self) -> Option<String> {
        let data = &self.config.data;
        let disk = FsDisk::look_at(data, &KIND).ok()?;
        let mode = host::mode_of_ledger(&disk).ok()??;
        let is_other = (mode == Mode::Express) != (self.config.mode == TransferMode::Express);
        is_other.then(|| format!("{}: {}", data.display(), OpenError::OtherMode(mode)))
    }

    fn privileged_init(&mut self, context: &mut StartContext) -> anyhow::Result<()> {
        let config = &self.config;
        if !config.require_signature {
            let warning = "signatures are not required, so every client that reaches the port can move money; set \
                           `require_signature` in [transfer], or restrict access to the port";
            context.warnings.push(warning.into());
        }
        if config.mode == TransferMode::Express {
            let warning = "in mode `express`, operations are on the disk only milliseconds after their reply; use the \
                           mode `durable` if a power failure must not lose them";
            context.warnings.push(warning.into());
            self.geometry.rings = match context.datapath.kind {
                DatapathKind::Socket | DatapathKind::Rtl => context.datapath.socket_threads() as u32,
                DatapathKind::Auto | DatapathKind::Xdp => datapath::rings()?,
            };
        }
        mode_as_pinned(config, &context.datapath)?;
        let disk = FsDisk::claim(&config.data, &KIND)
            .with_context(|| format!("cannot open the ledger in {}", config.data.display()))?;
        refuse_emptied(&disk).map_err(|error| match error {
            // The text of this error contains the path already.
            JournalError::Emptied { .. } => error.into(),
            _ => anyhow::Error::new(error).context(config.data.display().to_string()),
        })?;
        self.new_directory = disk.new_directory();
        self.disk = Some(disk);
        if context.datapath.kind != DatapathKind::Xdp {
            // Reading pinned maps needs capabilities. A server on the socket datapath gives them up in a later step,
            // and with `auto` the datapath is known only after that step.
            let tag = ledger_tag(&config.data)?;
            let is_express = config.mode == TransferMode::Express;
            let warnings = &mut context.warnings;
            let left =
                attach_record::check(&config.data, tag, &context.datapath, false, is_express, warnings);
            match context.datapath.kind {
                DatapathKind::Auto => self.left_fast_path = left.err(),
                _ => drop(left?),
            }
        }
        Ok(())
    }

    fn rights(&self) -> Rights {
        let settled = self.config.settle_to().map(folder_of);
        Rights::of_directories([self.config.data.clone()].into_iter().chain(settled))
    }

    fn program(&self) -> Option<ProgramSpec> {
        Some(datapath::program(&self.geometry, self.config.listen.port()))
    }

    fn nic_program(&self) -> Option<NicProgram> {
        Some(NicProgram {
            slot: TRANSFER_SLOT,
            listen: self.config.listen,
            port_register: REGISTER_TRANSFER_PORT,
        })
    }

    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>> {
        let Self {
            config,
            geometry,
            disk,
            mut new_directory,
            left_fast_path,
        } = *self;
        let disk = disk.context("internal error: the ledger's directory was not claimed before the start")?;
        let sync_times = disk.sync_times();
        let uses_xdp = context.attachment.has_programs();
        let nic = context.nic_of(config.listen).cloned();
        let (readers, geometry) = match &nic {
            Some(nic) => {
                if let Some(note) = nic::room_note(&geometry) {
                    tracing::info!("{note}");
                }
                let queue = nic.queue();
                let wait = Arc::new(move || nic::wait(&*queue));
                (Readers::new(false).with_device(wait), nic::geometry(geometry))
            }
            None => (Readers::new(uses_xdp), geometry),
        };
        let tag = ledger_tag(&config.data)?;
        let mut left = Vec::new();
        if uses_xdp {
            left = attach_record::check(
                &config.data,
                tag,
                &context.datapath,
                true,
                config.mode == TransferMode::Express,
                &mut context.warnings,
            )?;
        } else if let Some(error) = left_fast_path {
            return Err(match context.attachment.refusal() {
                Some(why) => error.context(format!("XDP cannot be used: {why}")),
                None => error,
            });
        }
        let table = open_table(&geometry, tag, nic.as_deref(), context)?;
        let store = Arc::clone(&table.store);
        let attach_record = uses_xdp
            .then(|| AttachRecord::write(&config.data, &context.datapath, &left))
            .transpose()?;
        let (mut server, opened) = open_ledger(&config, disk, table, &readers)?;
        if let Some(nic) = &nic {
            fill_nic(nic, &store, &server)?;
        }
        context.warnings.extend(recovery_warnings(&opened));
        log_recovery(&opened, &server);
        let report = server.report();
        let settling = config
            .settle_to()
            .map(|file| {
                Settling::start(&config.data, file, Arc::clone(&report))
                    .with_context(|| format!("settling to {}", file.display()))
            })
            .transpose()?;
        server.retain(config.retention(), settling.as_ref().map(Settling::settled));
        let fastpath = Arc::new(match uses_xdp || nic.is_some() {
            true => TransferFastPath::beside_xdp(Arc::clone(&store)),
            false => TransferFastPath::new(Arc::clone(&store)),
        });
        let socket = listen(&config, &fastpath, server, &readers, nic.as_deref(), context)?;
        // From here on a client may have received the reply to a durable write.
        if let Some(new) = &mut new_directory {
            new.keep();
        }
        let shared = Arc::new(StatusShared {
            store,
            fastpath,
            report,
            sync_times,
            capacities: [1 << geometry.account_bits, u64::from(geometry.sessions)],
            settled: settling.as_ref().map(Settling::settled).unwrap_or_default(),
            frontend: Frontend::new(socket, context),
        });
        let renewal = match config.mode {
            TransferMode::Express => None,
            TransferMode::Durable => Some(renew_lease(&config, &shared)?),
        };
        Ok(Box::new(RunningTransfer {
            shared,
            renewal,
            settling,
            attach_record,
            is_confirmed: false,
            has_stopped: false,
        }))
    }
}

/// Returns the directory of `file`.
fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.into(),
        _ => ".".into(),
    }
}

/// Refuses to start next to a fast path in the other mode that a killed server left at one of these interfaces.
fn mode_as_pinned(config: &TransferConfig, datapath: &DatapathConfig) -> anyhow::Result<()> {
    if !datapath.kind.may_be_xdp() {
        return Ok(());
    }
    let is_express = config.mode == TransferMode::Express;
    let name = |is_express| if is_express { "express" } else { "durable" };
    for interface in &datapath.interfaces {
        let folder = Pins::folder_of(&datapath.pin_dir, interface);
        // If the maps cannot be read, opening them later fails and reports the reason.
        let Ok(Some(pinned)) = datapath::pinned(&folder) else {
            continue;
        };
        if pinned.is_express != is_express {
            let (own, theirs) = (name(is_express), name(pinned.is_express));
            bail!(
                "the fast path that is pinned at {interface} has mode `{theirs}`, but this server has mode `{own}`: \
                 give --mode {theirs}, or run `{}` first",
                detach_command(interface, &datapath.pin_dir)
            );
        }
    }
    Ok(())
}

/// Fast-path table, its writer, and the claims on it.
struct FastPathTable {
    store: Arc<Store>,
    fill: Box<dyn TransferFill>,
    claims: Arc<dyn Claims + Send + Sync>,
    /// Maximum number of accounts of the ledger, if the table limits it.
    accounts_max: Option<u64>,
}

impl FastPathTable {
    fn in_memory(store: Store, claims: impl FnOnce(&Arc<Store>) -> Arc<dyn Claims + Send + Sync>) -> Self {
        let store = Arc::new(store);
        Self {
            fill: Box::new(StoreWriter::new(Arc::clone(&store))),
            claims: claims(&store),
            accounts_max: None,
            store,
        }
    }

    /// Returns the table that follows a NIC after its reset.
    fn of_nic(store: Store, nic: &NicAttachment) -> Self {
        let (store, queue) = (Arc::new(store), nic.queue());
        nic::begin(&queue, &store);
        Self {
            fill: Box::new(NicWriter::new(Arc::clone(&store), Arc::clone(&queue) as _)),
            claims: Arc::new(NicClaims::new(Arc::clone(&store), queue)),
            // In `express`, the fast path must have all accounts.
            accounts_max: store.is_express().then_some(1 << SIM_BUCKET_BITS),
            store,
        }
    }
}

/// Returns the fast-path table, in the maps of the XDP program where there is one.
fn open_table(
    geometry: &Geometry,
    tag: u64,
    nic: Option<&NicAttachment>,
    context: &StartContext,
) -> anyhow::Result<FastPathTable> {
    let mut programs = context.attachment.programs();
    if let Some(xdp) = programs.as_mut() {
        let store = datapath::store(xdp, geometry)?;
        let store = adopted(store, geometry, tag, &context.datapath)?;
        let claims = Arc::new(LineClaims::of(xdp)?);
        return Ok(FastPathTable::in_memory(store, |_| claims));
    }
    let store = Store::anonymous(geometry)?;
    Ok(match nic {
        Some(nic) => FastPathTable::of_nic(store, nic),
        None => FastPathTable::in_memory(store, |store| Arc::new(StoreClaims::new(Arc::clone(store)))),
    })
}

/// Copies the accounts and sessions of the ledger into the NIC.
fn fill_nic(nic: &NicAttachment, store: &Store, server: &Server) -> anyhow::Result<()> {
    let homeless = lock(&server.report()).counts.homeless;
    if store.is_express() && homeless > 0 {
        bail!(
            "the ledger has more than the {} accounts for which the simulated NIC has room: give another --datapath",
            1u64 << SIM_BUCKET_BITS
        );
    }
    nic.queue().add(&nic::table_commands(store));
    Ok(())
}

fn listen(
    config: &TransferConfig,
    fastpath: &Arc<TransferFastPath>,
    server: Server,
    readers: &Readers,
    nic: Option<&NicAttachment>,
    context: &StartContext,
) -> anyhow::Result<SocketDatapath> {
    let options = context.socket_options(config.listen);
    let filter = match config.allow_zero_checksum {
        true => Vec::new(),
        false => datapath::only_checked_writes(),
    };
    let fastpath = Arc::clone(fastpath) as _;
    let server = Box::new(server);
    let started = match nic {
        Some(nic) => {
            let sockets = nic.sockets(&options);
            SocketDatapath::start_batched_on(sockets, &filter, options, fastpath, server, readers)
        }
        None => SocketDatapath::start_batched_with_filter(&filter, options, fastpath, server, readers),
    };
    started.with_context(|| cannot_listen(DEF.name, config.listen))
}

fn renew_lease(config: &TransferConfig, shared: &Arc<StatusShared>) -> std::io::Result<LeaseRenewal> {
    let length = config.lease();
    let (length_ns, renewed) = (length.as_nanos() as u64, Arc::clone(shared));
    let renew = move || {
        let until_ns = &renewed.store.control().lease_until_ns;
        if until_ns.load(Relaxed) > 0 {
            report_lost_lease(DEF.name, until_ns);
        }
        lease::renew(until_ns, length_ns);
    };
    renew();
    LeaseRenewal::start(length, renew)
}

/// Opens the ledger's directory and fills the fast-path table from it.
fn open_ledger(
    config: &TransferConfig,
    disk: FsDisk,
    table: FastPathTable,
    readers: &Readers,
) -> anyhow::Result<(Server, host::OpenedLedger)> {
    let FastPathTable {
        store,
        fill,
        claims,
        accounts_max,
    } = table;
    let mut limits = config.limits();
    limits.accounts = limits.accounts.min(accounts_max.unwrap_or(u64::MAX));
    let setup = Setup {
        limits,
        seal: config.seal(),
        sessions: config.session_policy(),
        issuer_keys: config.issuer_keys(),
        key_table_bytes: config.key_table_bytes(),
        express: (config.mode == TransferMode::Express).then(|| Executing {
            readers: readers.clone(),
            lease_ns: config.lease().as_nanos() as u64,
            claims,
        }),
    };
    Server::open_with(disk, setup, store, fill).with_context(|| format!("opening {}", config.data.display()))
}

/// Returns the fast-path table that an earlier daemon left, if it executes operations and may be ahead of the journal.
/// Otherwise clears the table, which is filled again from the ledger. `tag` identifies the ledger.
fn adopted(store: Store, geometry: &Geometry, tag: u64, datapath: &DatapathConfig) -> anyhow::Result<Store> {
    let was_express = store.is_express();
    let is_ours = store.control().ledger.load(Relaxed) == tag;
    if was_express && !is_ours {
        let command = |interface: &String| format!("`{}`", detach_command(interface, &datapath.pin_dir));
        let detaches: Vec<_> = datapath.interfaces.iter().map(command).collect();
        let detaches = detaches.join(" and ");
        bail!(
            "the fast path that is pinned at the interface belongs to another ledger: start the server of that \
             ledger, or run {detaches}"
        );
    }
    lease::end(&store.control().lease_until_ns);
    Readers::new(true).wait();
    let adopts = geometry.mode == Mode::Express && store.has_geometry(geometry);
    if adopts {
        store.set_policies(geometry);
    } else if was_express && Ring::waiting_in(&store) > 0 {
        bail!(
            "the fast path that is pinned at the interface has operations that are not journaled, and another table \
             size or mode than this server: start with the same options as before"
        );
    } else {
        store.clear();
        store.format(geometry)?;
    }
    store.control().ledger.store(tag, Relaxed);
    Ok(store)
}

/// Returns the tag that identifies this ledger in its fast-path table, so that no other ledger adopts the table. The
/// tag is taken from the settlement key.
fn ledger_tag(data: &Path) -> anyhow::Result<u64> {
    let key = ledger_key(data)?;
    let point = key.verifying_key().to_encoded_point(true);
    let mut tag = [0; 8];
    tag.copy_from_slice(&point.as_bytes()[1..9]);
    Ok(u64::from_le_bytes(tag).max(1))
}

/// Logs what the start found in the ledger.
fn log_recovery(opened: &host::OpenedLedger, server: &Server) {
    let report = server.report();
    let (accounts, blocks) = {
        let report = lock(&report);
        (report.accounts, report.blocks)
    };
    tracing::info!(
        snapshot = opened.snapshot,
        replayed = opened.replayed,
        last_record = opened.recovery.last_lsn,
        cut_bytes = opened.recovery.cut_bytes,
        accounts,
        blocks,
        "transfer: the ledger was recovered"
    );
}

/// Returns warnings about what the recovery of the ledger found.
fn recovery_warnings(opened: &host::OpenedLedger) -> Vec<String> {
    let recovery = &opened.recovery;
    let cut = (recovery.cut_bytes > 0).then(|| {
        let what = match recovery.is_proved {
            true => "they were never acknowledged",
            false => "this may be damage",
        };
        let (bytes, last) = (recovery.cut_bytes, recovery.last_lsn);
        format!("the start removed {bytes} bytes after record {last}: {what}")
    });
    let removed = (!recovery.removed.is_empty()).then(|| format!("removed: {}", recovery.removed.join(", ")));
    let unproved = (!recovery.is_proved).then(|| {
        "the file `acknowledged` was missing or damaged, so the server cannot detect whether the newest records are \
         missing"
            .to_owned()
    });
    let empty = (recovery.began_again).then(|| {
        "the directory was used before, but has no record of a ledger: the ledger is empty, and begins with record 1"
            .to_owned()
    });
    (cut.into_iter().chain(removed).chain(unproved).chain(empty)).collect()
}

impl Running for RunningTransfer {
    fn name(&self) -> &'static str {
        DEF.name
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let address = self.shared.frontend.socket.local_addr();
        // At a NIC, the service has no TCP.
        let tcp = self.shared.frontend.socket.connections_max().map(|_| "tcp");
        std::iter::once("udp")
            .chain(tcp)
            .map(|protocol| Endpoint { protocol, address })
            .collect()
    }

    fn description(&self) -> String {
        self.shared.frontend.description()
    }

    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |out| shared.status(out))
    }

    fn confirm(&mut self) {
        self.is_confirmed = true;
    }

    fn stop(&mut self, _keeps_fast_path: bool) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.has_stopped, true) {
            return Ok(());
        }
        drop(self.renewal.take());
        // The programs are detached. First the threads end; then the host reads the remaining records from the rings.
        self.shared.frontend.socket.stop();
        lease::end(&self.shared.store.control().lease_until_ns);
        drop(self.settling.take());
        if let Some(record) = self.attach_record.take().filter(|_| self.is_confirmed) {
            record.remove();
        }
        Ok(())
    }
}

impl Drop for RunningTransfer {
    fn drop(&mut self) {
        if let Err(error) = self.stop(false) {
            tracing::error!("{error:#}");
        }
    }
}

impl StatusShared {
    fn status(&self, out: &mut StatusBuilder) {
        let counted = Counted {
            names: TransferCounter::ALL.map(TransferCounter::name),
            socket: self.fastpath.counters(),
            slot: TRANSFER_SLOT,
            map: "transfer_counts",
            replies: TransferCounter::Replies as usize,
        };
        let report = lock(&self.report).clone();
        out.problems.extend(report.failed.clone());
        if report.full {
            out.problems.push(match report.unjournaled {
                0 => "the disk is full or too many files are open, and every request that changes something is \
                      refused; free space on the disk of the ledger, or raise the limit on open files (LimitNOFILE of \
                      systemd)"
                    .to_owned(),
                waiting => format!(
                    "the disk is full or too many files are open, and {} that the fast path executed and answered are \
                     not in the journal yet; free space on the disk of the ledger, or raise the limit on open files \
                     (LimitNOFILE of systemd)",
                    lineside_util::counted(waiting, "operation")
                ),
            });
        }
        report_limits(&report, out);
        let lease_until_ns = &self.store.control().lease_until_ns;
        let mut status = self.frontend.status(DEF.name, lease_until_ns, &counted, out);
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
        let [accounts, sessions] = self.capacities;
        status.set_table("accounts", report.accounts, accounts);
        status.set_table("sessions", report.sessions, sessions);
        let (pendings, pendings_max) = report.pendings;
        status.set_table("pending_transfers", pendings, pendings_max);
        let (keys, keys_max) = report.keys;
        status.set_table("idempotency_keys", keys, keys_max);
        status.set_histogram(metric::FDATASYNC, self.sync_times.read());
        out.services.push(status);
    }
}

/// Reports limits that are reached or nearly reached.
fn report_limits(report: &Report, out: &mut StatusBuilder) {
    let used = report.session_use;
    let (open, most) = (used.open, used.most);
    if used.refuses_all {
        out.problems.push(format!(
            "transfer: all {most} sessions are open and none was idle for long: new clients are refused; `lineside \
             transfer sessions list` shows who opened them, `lineside transfer sessions close` closes some, and \
             `sessions` sets their maximum number"
        ));
    } else if used.refuses_strangers {
        out.problems.push(format!(
            "transfer: {open} of {most} sessions are open: new clients are refused, or were within the last minute, \
             except for trusted_sources and networks with a history"
        ));
    } else if used.is_nearly_used_up() {
        let strangers_most = used.strangers_most;
        out.warnings.push(format!(
            "transfer: {open} of {most} sessions are open: when {strangers_most} are open, new clients are refused, \
             except for trusted_sources and networks with a history"
        ));
    }
    let (pendings, pendings_max) = report.pendings;
    if pendings.saturating_mul(5) >= pendings_max.saturating_mul(4) {
        out.warnings.push(format!(
            "transfer: {pendings} of {pendings_max} pending transfers exist: at the maximum, further ones are refused \
             as store_full; raise memory_max"
        ));
    }
    let (keys, keys_max) = report.keys;
    if keys_max > 0 && keys.saturating_mul(5) >= keys_max.saturating_mul(4) {
        out.warnings.push(format!(
            "transfer: {keys} of {keys_max} idempotency keys are in use: at the maximum, operations with a new key are \
             refused as store_full; raise idempotency_keys, or lower idempotency_hours so that keys are forgotten \
             earlier"
        ));
    }
    if report.clock_ahead_s > CLOCK_AHEAD_S {
        out.warnings.push(format!(
            "transfer: the newest time in the ledger is {} s ahead of this machine's clock: the clock was ahead \
             when it \
             was written, or is slow now. Sessions and pending transfers recorded with that time end later than they \
             should; correct the clock if it is slow",
            report.clock_ahead_s
        ));
    }
    out.warnings
        .extend(space_warning(report.space_bytes, report.may_shorten));
    if let Some(error) = &report.not_retained {
        out.warnings.push(format!(
            "transfer: old blocks cannot be removed from the journal: {error}; the journal keeps growing"
        ));
    }
}

/// Returns the warning for little free space on the ledger's disk. `may_shorten` is true if retention, which is not
/// configured, would remove a part of the journal.
fn space_warning(space_bytes: (u64, u64), may_shorten: bool) -> Option<String> {
    let remedy = match may_shorten {
        true => "make space, or set keep_blocks or keep_days to let old blocks be removed",
        false => "make space",
    };
    let free_mib = space_bytes.0 >> 20;
    is_short(space_bytes)
        .then(|| format!("transfer: {free_mib} MiB are free on the disk of the ledger; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::space_warning;

    /// Regression test: the warning recommended `keep_blocks` to ledgers of a few blocks, where it frees no space.
    #[test]
    fn the_warning_of_little_space_recommends_retention_only_if_it_would_free_something() {
        let little = (100 << 20, 1 << 40);
        let message = space_warning(little, false).expect("100 MiB are little");
        assert!(
            message.ends_with("; make space") && message.contains("100 MiB"),
            "{message}"
        );
        let message = space_warning(little, true).expect("100 MiB are little");
        assert!(message.contains("keep_blocks or keep_days"), "{message}");
        assert_eq!(space_warning((1 << 39, 1 << 40), true), None);
    }
}
