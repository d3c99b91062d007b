//! The service `column` of the daemon: it connects table, coherence, host, fast path, sockets and lease.

use crate::coherence::Coherence;
use crate::config::{CoherenceName, ColumnConfig, TableName};
use crate::datapath;
use crate::embedded::{Embedded, KIND, Limits, system_clock};
use crate::fastpath::ColumnFastPath;
use crate::hbase::notice::NoticeKey;
use crate::hbase::{self, Listener};
use crate::host::{CLOCK_SLACK_NS, ChangeAnnouncer, CoherenceMode, ColumnHost, SessionUse, Setup};
use crate::servers::Servers;
use crate::store::Store;
use crate::table::late::{LateTable, OpenTable};
use crate::table::{ColumnName, Table, TableError};
use crate::writer::ColumnWriter;
use anyhow::{Context, anyhow, bail};
use lineside_fastpath::{Readers, lease};
use lineside_hbase_client::rpc::HBase;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_journal::FsDisk;
use lineside_net::SocketDatapath;
use lineside_service::config::{ConfigIssue, DamagedData, Section, UsageError, section};
use lineside_service::{
    Counted, DatapathConfig, Frontend, Leased, Listen, NamedFile, Rights, Running, RunningLeased, Service,
    ServiceDef, ServiceStatus, StartContext, StatusBuilder, cannot_listen,
};
use lineside_util::counted;
use lineside_util::data_dir::NewDirectory;
use lineside_util::histogram::Histogram;
use lineside_util::key_file::read_shared_key;
use lineside_wire::{COLUMN_NOTICE_KEY_BYTES_MIN, COLUMN_SLOT, ColumnCounter, metric};
use lineside_xdp::{Pins, ProgramSpec};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Time limit of one call to HBase or its Thrift gateway.
const HBASE_TIME: Duration = Duration::from_secs(5);
/// Time between two attempts to open a table of HBase that did not answer when the server started.
const HBASE_PAUSE: Duration = Duration::from_secs(1);
/// Number of host threads for a table in HBase. HBase answers this number of parallel requests of a connection in about
/// the time of one.
const HBASE_THREADS: usize = 16;

/// Memory of a queued request in bytes: the longest packet, and the request's entry in the queue.
const QUEUED_BYTES: usize = 1536;

/// Registration of the service `column` in the daemon.
pub const DEF: ServiceDef = ServiceDef {
    name: "column",
    may_repeat: false,
    default_section: || section(&ColumnConfig::default()),
    parse,
    pinned_work: None,
    records: None,
};

fn parse(section: &Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>> {
    let config = ColumnConfig::parse(section)?;
    Ok(Box::new(ColumnService {
        config,
        disk: None,
        new_directory: None,
        notify_key: None,
    }))
}

struct ColumnService {
    config: ColumnConfig,
    /// Directory of the embedded table. This process has the lock of the directory.
    disk: Option<FsDisk>,
    /// Key that Lineside shares with HBase's servers; `None` before it was read.
    notify_key: Option<NoticeKey>,
    /// Guard that removes a directory that the start has created, unless the service is used.
    new_directory: Option<NewDirectory>,
}

/// State of the running service.
struct ColumnState {
    store: Arc<Store>,
    fastpath: Arc<ColumnFastPath>,
    coherence: Arc<Coherence>,
    host: Arc<ColumnHost>,
    /// The embedded table, and one of its columns. Before each renewal of the lease, a read of the table checks that it
    /// responds.
    embedded: Option<Arc<Embedded>>,
    /// Durations of fdatasync for the journal of the embedded table.
    sync_times: Option<Arc<Histogram>>,
    column: ColumnName,
    subscription: Option<HBaseSubscription>,
    /// Table of HBase that could not be opened when the server started; `None` for other tables.
    late_table: Option<Arc<LateTable>>,
}

impl Service for ColumnService {
    fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    fn section(&self) -> toml::Table {
        section(&self.config)
    }

    fn listens(&self) -> Vec<Listen> {
        vec![Listen::of_fast_path(self.config.listen)]
    }

    fn tcp_listens(&self) -> Vec<Listen> {
        if !self.config.is_told_by_servers() {
            return Vec::new();
        }
        // The service itself listens on UDP and TCP.
        vec![
            Listen::new("listen", self.config.listen),
            Listen::new("notify_listen", self.config.notify_listen),
        ]
    }

    fn datapath_faults(&self, datapath: &DatapathConfig) -> Vec<(&'static str, String)> {
        let fault = queue_fault(&self.config, datapath);
        fault.map(|fault| ("queue", fault)).into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        let config = &self.config;
        let mut warnings = Vec::new();
        if config.may_be_stale() {
            warnings.push(format!(
                "[column] coherence = \"ttl\": changes by other clients may become visible up to {} ms late",
                config.ttl_ms
            ));
        }
        if !config.listen.ip().is_loopback() {
            warnings.push(format!(
                "[column] listen = {}: every client that can reach this address can open a session and change the \
                 table; restrict access to the port",
                config.listen
            ));
        }
        warnings
    }

    fn file_warnings(&self) -> Vec<String> {
        if !self.config.is_told_by_servers() {
            return Vec::new();
        }
        let fault = match read_shared_key(&self.config.notify_key_file) {
            Err(error) => Some(format!("{:#}", anyhow::Error::from(error))),
            Ok(key) if key.len() < COLUMN_NOTICE_KEY_BYTES_MIN => Some(format!(
                "{}: {}",
                self.config.notify_key_file.display(),
                too_short(&key)
            )),
            Ok(_) => None,
        };
        let warning = fault.map(|fault| format!("[column] notify_key_file cannot be used here: {fault}"));
        warning.into_iter().collect()
    }

    fn files(&self) -> Vec<NamedFile> {
        match self.config.is_told_by_servers() {
            true => NamedFile::of_keys(&self.section(), &["notify_key_file"]),
            false => Vec::new(),
        }
    }

    fn privileged_init(&mut self, _context: &mut StartContext) -> anyhow::Result<()> {
        let config = &self.config;
        if config.is_told_by_servers() {
            self.notify_key = Some(read_notify_key(&config.notify_key_file)?);
        }
        if config.store == TableName::Embedded {
            let claimed = FsDisk::claim(&config.data, &KIND);
            let disk = claimed.with_context(|| format!("opening {}", config.data.display()))?;
            self.new_directory = disk.new_directory();
            self.disk = Some(disk);
        }
        Ok(())
    }

    fn rights(&self) -> Rights {
        match self.config.store {
            TableName::Embedded => Rights::of_directories([self.config.data.clone()]).with_database(),
            _ => Rights::default(),
        }
    }

    fn program(&self) -> Option<ProgramSpec> {
        Some(datapath::program(
            &self.config.geometry(),
            self.config.listen.port(),
        ))
    }

    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>> {
        let Self {
            config,
            disk,
            notify_key,
            mut new_directory,
        } = *self;
        let sync_times = disk.as_ref().map(FsDisk::sync_times);
        let columns = names(&config)?;
        let readers = Readers::new(context.attachment.has_programs());
        let store = Arc::new(open_table(&config, &readers, context)?);
        let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(Arc::clone(&store)))));
        let memory = Memory::of(&config, context)?;
        let embedded = open_embedded(&config, disk, &memory.limits)?;
        let mut late_table = None;
        let table: Arc<dyn Table> = match &embedded {
            None => {
                let table;
                (table, late_table) = in_hbase(&config.store)?;
                table
            }
            Some(embedded) => {
                embedded.set_listener(Arc::new(ChangeAnnouncer::new(Arc::clone(&coherence), &columns)));
                Arc::clone(embedded) as _
            }
        };
        let mut subscription = None;
        let coherence_mode = match (&embedded, config.coherence) {
            (Some(_), _) => CoherenceMode::ByTable,
            (None, CoherenceName::Ttl) => CoherenceMode::Ttl(config.ttl_ms * 1_000_000),
            (None, CoherenceName::None) => CoherenceMode::Uncached,
            (None, CoherenceName::Coprocessor) => {
                let by =
                    subscription.insert(HBaseSubscription::new(&config, notify_key, &table, &coherence)?);
                CoherenceMode::ByServers(Arc::clone(&by.servers))
            }
        };
        let column = columns[0];
        let mut setup = Setup::new(table, Arc::clone(&coherence), columns, coherence_mode);
        setup.paper_format = config.paper_format;
        setup.sessions_bytes = memory.sessions_bytes;
        setup.session_idle_s = config.session_idle_s;
        let trusting = Arc::clone(&store);
        setup.trusted = Box::new(move |address| trusting.trusts(address));
        let host = Arc::new(ColumnHost::new(setup)?);
        let fastpath = Arc::new(ColumnFastPath::new(Arc::clone(&store)));
        // The embedded table is not faster with several threads.
        let host_threads = if embedded.is_some() { 1 } else { HBASE_THREADS };
        let socket = SocketDatapath::start_with_host_threads(
            context.socket_options(config.listen),
            Arc::clone(&fastpath) as _,
            Arc::clone(&host) as _,
            host_threads,
            &readers,
        );
        let socket = socket.with_context(|| cannot_listen(DEF.name, config.listen))?;
        // From now on clients may have written rows, so the directory is not removed if a later step of the start
        // fails.
        if let Some(new) = &mut new_directory {
            new.keep();
        }
        let state = Arc::new(ColumnState {
            store,
            fastpath,
            coherence,
            host,
            embedded,
            sync_times,
            column,
            subscription,
            late_table,
        });
        let status_source = Arc::clone(&state);
        RunningLeased::begin(context, socket, config.lease(), state, move || {
            status_source.is_well()
        })
    }
}

/// Returns the fast-path table, emptied. If there is an XDP program, the table is in its maps.
fn open_table(config: &ColumnConfig, readers: &Readers, context: &StartContext) -> anyhow::Result<Store> {
    let geometry = config.geometry();
    let mut programs = context.attachment.programs();
    let Some(xdp) = programs.as_mut() else {
        refuse_left_over(&context.datapath)?;
        return Ok(Store::anonymous(&geometry)?);
    };
    let store = datapath::store(xdp, &geometry)?;
    // A killed server may have left rows. They were current only as long as no client could change the table, which
    // becomes possible now.
    lease::end(&store.control().lease_until_ns);
    readers.wait();
    store.format(&geometry)?;
    Ok(store)
}

/// Returns the error message of a queue that takes more than half of `memory_max`. It begins with the queue's length.
fn queue_fault(config: &ColumnConfig, datapath: &DatapathConfig) -> Option<String> {
    let queue_bytes = datapath.queue * QUEUED_BYTES;
    (queue_bytes > config.memory_max.bytes().div_ceil(2)).then(|| {
        format!(
            "{}: the requests of [column] take {queue_bytes} bytes in this queue, more than half of its `memory_max`, \
             which is {}; lower `queue`, or raise `memory_max`",
            datapath.queue, config.memory_max
        )
    })
}

/// Parts of the memory that `memory_max` allows.
struct Memory {
    limits: Limits,
    sessions_bytes: usize,
}

impl Memory {
    /// Divides `memory_max`. The queue of requests for the host gets its part before sessions and the table.
    fn of(config: &ColumnConfig, context: &StartContext) -> anyhow::Result<Self> {
        if let Some(fault) = queue_fault(config, &context.datapath) {
            bail!(UsageError(format!("[datapath] queue = {fault}")));
        }
        let rest = config.memory_max.bytes() - context.datapath.queue * QUEUED_BYTES;
        Ok(Self {
            limits: Limits {
                rows_bytes: rest / 4,
                nonces_bytes: rest / 8,
            },
            sessions_bytes: rest / 2,
        })
    }
}

/// Opens the embedded table. Returns `None` if the table is in HBase.
fn open_embedded(
    config: &ColumnConfig,
    disk: Option<FsDisk>,
    limits: &Limits,
) -> anyhow::Result<Option<Arc<Embedded>>> {
    let embedded = match &config.store {
        TableName::Memory => Embedded::in_memory_within(limits, system_clock()),
        TableName::Embedded => {
            let disk = disk.context("internal error: the data directory was not opened")?;
            let opened = Embedded::open_on(disk, limits, system_clock()).map_err(|error| match error {
                TableError::Refused(why) => DamagedData(why).into(),
                TableError::Unavailable(why) => anyhow!(why),
                other => other.into(),
            });
            opened.with_context(|| format!("opening {}", config.data.display()))?
        }
        TableName::HBase { .. } | TableName::Thrift2 { .. } => return Ok(None),
    };
    Ok(Some(Arc::new(embedded)))
}

impl ColumnState {
    /// Returns true if the locks and the table that every change and every fill needs are available. If one of them is
    /// blocked, this function does not return, so the lease is not renewed and ends.
    fn is_well(&self) -> bool {
        self.coherence.counts();
        (self.embedded.as_ref()).is_none_or(|table| table.get(&[0], &[self.column]).is_ok())
    }
}

impl Leased for ColumnState {
    const NAME: &'static str = DEF.name;

    fn lease_until_ns(&self) -> &AtomicU64 {
        &self.store.control().lease_until_ns
    }

    fn status(&self, frontend: &Frontend, out: &mut StatusBuilder) {
        let counted = Counted {
            names: ColumnCounter::ALL.map(ColumnCounter::name),
            socket: self.fastpath.counters(),
            slot: COLUMN_SLOT,
            map: "column_counts",
            replies: ColumnCounter::Hits as usize,
        };
        let mut status = frontend.status(DEF.name, self.lease_until_ns(), &counted, out);
        let counts = self.coherence.counts();
        for (metric, value) in [
            (metric::COLUMN_BLOCKS, counts.fastpath.blocks),
            (metric::COLUMN_ROWS, counts.fastpath.rows),
            (metric::COLUMN_FILLS, counts.fastpath.fills),
            (metric::COLUMN_COLD_FILLS, counts.fastpath.cold),
            (metric::COLUMN_LATE_FILLS, counts.overtaken),
            (metric::COLUMN_SHARED_READS, counts.shared),
            (metric::COLUMN_INVALIDATIONS, counts.fastpath.invalidations),
            (metric::COLUMN_EVICTIONS, counts.fastpath.evictions),
            (metric::COLUMN_MARKS, counts.intents),
            (metric::COLUMN_OFF, counts.is_off.into()),
        ] {
            status.set_host(metric, value);
        }
        if let Some(why) = self.embedded.as_ref().and_then(|table| table.failed()) {
            out.problems.push(format!(
                "column: the table takes no changes until the next start: {why}; make space if the disk is full, or \
                 repair it; then restart the server"
            ));
        } else if let Some(why) = self.embedded.as_ref().and_then(|table| table.full()) {
            out.problems.push(format!(
                "column: the table refuses changes: {why}; make space; the table then takes changes without a restart"
            ));
        }
        if let Some(why) = self.late_table.as_ref().and_then(|table| table.fault()) {
            out.problems.push(format!(
                "column: the table of HBase could not be opened since the start ({why}); requests are refused until it \
                 is open; check that HBase runs, and that `store` is right"
            ));
        }
        status.set_table(
            "blocks",
            counts.fastpath.blocks,
            self.store.blocks.as_slice().len() as u64,
        );
        if let Some(times) = &self.sync_times {
            status.set_histogram(metric::FDATASYNC, times.read());
        }
        let sessions = self.host.session_use();
        status.set_host(metric::COLUMN_SESSIONS, sessions.open as u64);
        session_status(&sessions, out);
        if let Some(subscription) = &self.subscription {
            subscription.status(&mut status, &mut out.problems);
        }
        out.services.push(status);
    }
}

/// Percentage of a share of sessions above which the status has a warning.
const SESSIONS_WARN_PERCENT: usize = 80;

/// Adds a warning to the status if a share of sessions is nearly used up, and a problem if new clients are refused.
fn session_status(sessions: &SessionUse, out: &mut StatusBuilder) {
    let SessionUse {
        open,
        max,
        share_percent,
        is_refusing,
    } = *sessions;
    if is_refusing {
        out.problems.push(format!(
            "column: new clients are refused: {open} of {max} sessions are open, and only a part of them is for \
             clients outside `trusted_sources`; raise `memory_max`, shorten `session_idle_s`, or add the clients' \
             networks to `trusted_sources`"
        ));
    } else if share_percent >= SESSIONS_WARN_PERCENT {
        out.warnings.push(format!(
            "column: {open} of {max} sessions are open; one class of clients (new, known or trusted ones) uses \
             {share_percent} % of its sessions, and new clients of this class are refused at 100 %"
        ));
    }
}

/// Receiver of the notices of changes that the table's servers send.
struct HBaseSubscription {
    servers: Arc<Servers>,
    listener: Listener,
    /// Number of servers whose leases the fast path needs.
    count: usize,
}

impl HBaseSubscription {
    fn new(
        config: &ColumnConfig,
        key: Option<NoticeKey>,
        table: &Arc<dyn Table>,
        coherence: &Arc<Coherence>,
    ) -> anyhow::Result<Self> {
        let (TableName::HBase { table: name, .. } | TableName::Thrift2 { table: name, .. }) = &config.store
        else {
            bail!("coherence = \"coprocessor\" needs a table in HBase; change `store` or `coherence`");
        };
        let key = key.context("internal error: the key of the notices was not read")?;
        let count = config.servers.len();
        let coherence = Arc::clone(coherence);
        let servers = Arc::new(match config.store {
            // The gateway does not report which server it used, so the leases of all servers are needed.
            TableName::Thrift2 { .. } => Servers::all_of(coherence, CLOCK_SLACK_NS, count),
            _ => Servers::new(coherence, CLOCK_SLACK_NS),
        });
        let options = hbase::Options {
            listen: config.notify_listen,
            servers: config.servers.clone(),
            key,
            // HBase's servers omit the default namespace in the names of tables.
            table: name.strip_prefix("default:").unwrap_or(name).as_bytes().to_vec(),
            columns: config.columns.len() as u16,
        };
        let described = Arc::clone(table);
        let opened = Box::new(move || described.forget_description());
        let listener = Listener::start(options, Arc::clone(&servers), opened).with_context(|| {
            format!(
                "column cannot listen on {} for the notices of HBase's servers; set another address with \
                 `notify_listen`",
                config.notify_listen
            )
        })?;
        Ok(Self {
            servers,
            listener,
            count,
        })
    }

    fn status(&self, status: &mut ServiceStatus, problems: &mut Vec<String>) {
        let counts = self.listener.counts();
        let leased = self.servers.leased(lease::now_ns());
        for (metric, value) in [
            (metric::COLUMN_LEASED_SERVERS, leased as u64),
            (metric::COLUMN_NOTICES, counts.accepted),
            (metric::COLUMN_REFUSED_NOTICES, counts.refused),
            (
                metric::COLUMN_STRANGERS,
                u64::from(self.servers.has_unknown_writer()),
            ),
        ] {
            status.set_host(metric, value);
        }
        status
            .details
            .insert("servers_expected".into(), self.count.into());
        let has_lease_per_server = self.servers.has_lease_per_server();
        if self.servers.has_unknown_writer() && !has_lease_per_server {
            let what = "column: a server that is not in `servers` changes the table; the fast path stays empty: add \
                        the server to `servers` and restart";
            problems.push(what.into());
        } else if leased < self.count {
            let count = self.count;
            let meaning = match has_lease_per_server {
                true => "rows of the other servers are not cached",
                false => "the fast path is empty until all of them grant one",
            };
            problems.push(format!(
                "column: {leased} of {count} `servers` grant a lease; {meaning}; check that the other servers run and \
                 have the coprocessor"
            ));
        }
    }
}

fn read_notify_key(path: &Path) -> anyhow::Result<NoticeKey> {
    let unusable = |why: String| UsageError(format!("[column] notify_key_file = {path:?}: {why}"));
    let key = read_shared_key(path).map_err(|error| unusable(format!("{:#}", anyhow::Error::from(error))))?;
    let parsed = NoticeKey::new(&key).ok_or_else(|| unusable(too_short(&key)))?;
    Ok(parsed)
}

/// Returns the error of a key with fewer bytes than a notice's key must have.
fn too_short(key: &[u8]) -> String {
    let (bytes, digits) = (COLUMN_NOTICE_KEY_BYTES_MIN, 2 * COLUMN_NOTICE_KEY_BYTES_MIN);
    format!(
        "the key in this file has {}, but must have at least {bytes} bytes ({digits} hex digits); write a longer key \
         into it, and into the region servers' files",
        counted(key.len(), "byte")
    )
}

/// Returns an error if a killed server left its fast path at one of the interfaces. That fast path would still answer,
/// but would not learn of changes by this server.
fn refuse_left_over(datapath: &DatapathConfig) -> anyhow::Result<()> {
    let has_table = |interface: &&String| {
        let folder = Pins::folder_of(&datapath.pin_dir, interface);
        folder.join("column_control").exists()
    };
    if let Some(interface) = datapath.interfaces.iter().find(has_table) {
        bail!(
            "the fast path of an earlier server is pinned at {interface}, and may still be answering: run `lineside \
             xdp detach {interface} --pin-dir {}` first",
            datapath.pin_dir.display()
        );
    }
    Ok(())
}

fn names(config: &ColumnConfig) -> anyhow::Result<Vec<ColumnName>> {
    let name = |text: &String| {
        ColumnName::new(text.as_bytes()).with_context(|| {
            format!("{text:?} is not a column name; give family:qualifier, at most 32 bytes")
        })
    };
    config.columns.iter().map(name).collect()
}

/// Returns the function that opens the configured table of HBase, and a description of that table.
fn opener(store: &TableName) -> anyhow::Result<(OpenTable, String)> {
    Ok(match store.clone() {
        TableName::HBase { servers, table } => {
            let described = format!("table {table} at {}", servers.join(","));
            let open: OpenTable = Box::new(move || {
                let addresses: Vec<&str> = servers.iter().map(String::as_str).collect();
                Ok(Arc::new(HBase::connect(
                    &addresses,
                    table.as_bytes(),
                    HBASE_TIME,
                )?))
            });
            (open, described)
        }
        TableName::Thrift2 { gateway, table } => {
            let described = format!("table {table} through {gateway}");
            let open: OpenTable = Box::new(move || {
                Ok(Arc::new(Thrift2::connect(
                    &gateway,
                    table.as_bytes(),
                    HBASE_TIME,
                )?))
            });
            (open, described)
        }
        TableName::Memory | TableName::Embedded => {
            bail!("internal error: this kind of table is not opened here")
        }
    })
}

/// A table of HBase, and the same table again if a thread opens it later.
type HBaseTable = (Arc<dyn Table>, Option<Arc<LateTable>>);

/// Opens the configured table of HBase. If HBase does not answer, returns a table that a thread opens later.
fn in_hbase(store: &TableName) -> anyhow::Result<HBaseTable> {
    let (open, described) = opener(store)?;
    match open() {
        Ok(table) => Ok((table, None)),
        Err(TableError::Unavailable(why)) => {
            tracing::warn!(
                "column: cannot open {described}: {why}; trying again every {} s",
                HBASE_PAUSE.as_secs()
            );
            let late_table = Arc::new(LateTable::new(open, format!("{described}: {why}"), HBASE_PAUSE));
            Ok((Arc::clone(&late_table) as _, Some(late_table)))
        }
        Err(error) => Err(error).with_context(|| format!("cannot open {described}")),
    }
}

#[cfg(test)]
mod tests;
