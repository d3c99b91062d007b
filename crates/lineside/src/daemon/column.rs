//! `column` put together: table, coherence, host, the fast path, its datapath, and the lease that it lives by.

use crate::config::{CoherenceName, Column, Config, Datapath, TableName};
use crate::key_file;
use crate::line::{Counted, Front, Line, Renewal};
use anyhow::{Context, bail};
use lineside_column::coherence::Coherence;
use lineside_column::datapath;
use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::hbase::notice::NoticeKey;
use lineside_column::hbase::{self, Listener};
use lineside_column::host::{Announcer, CLOCK_SLACK_NS, ColumnHost, Setup, Telling};
use lineside_column::servers::Servers;
use lineside_column::store::Store;
use lineside_column::table::{ColumnName, Table};
use lineside_column::writer::ColumnWriter;
use lineside_console::ServiceStatus;
use lineside_fastpath::{Readers, lease};
use lineside_hbase_client::rpc::HBase;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::{COLUMN_NOTICE_KEY_BYTES_MIN, COLUMN_SLOT, ColumnCounter, metric};
use lineside_xdp::{Image, Pins, XdpDatapath};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// For one call of HBase, or of its gateway.
const HBASE_TIME: Duration = Duration::from_secs(5);
/// Requests that wait for HBase side by side: one connection answers many of them at the pace of one.
const HBASE_THREADS: usize = 16;

/// Everything but the line: it listens, and the fast path may answer.
pub struct Opened {
    store: Arc<Store>,
    fastpath: Arc<ColumnFastPath>,
    coherence: Arc<Coherence>,
    embedded: Option<Arc<Embedded>>,
    column: ColumnName,
    told: Option<Told>,
    socket: SocketDatapath,
    lease: Duration,
}

/// A running `column`.
pub struct Running {
    inner: Arc<Inner>,
    renewal: Option<Renewal>,
}

/// How it is, whenever it is asked.
pub struct Inner {
    store: Arc<Store>,
    fastpath: Arc<ColumnFastPath>,
    coherence: Arc<Coherence>,
    /// The table, where it is here, and a column of it: asked before the lease is renewed.
    embedded: Option<Arc<Embedded>>,
    column: ColumnName,
    told: Option<Told>,
    front: Front,
}

/// Where the table's servers tell of changes.
struct Told {
    servers: Arc<Servers>,
    listener: Listener,
    /// Servers whose leases the fast path needs.
    count: usize,
}

impl Told {
    fn new(config: &Column, table: &Arc<dyn Table>, coherence: &Arc<Coherence>) -> anyhow::Result<Self> {
        let (TableName::HBase { table: name, .. } | TableName::Thrift2 { table: name, .. }) = &config.store
        else {
            bail!("this table has no servers");
        };
        let path = &config.notify_key_file;
        let key = NoticeKey::new(&key_file::read(path)?).with_context(|| {
            format!(
                "{}: fewer than {COLUMN_NOTICE_KEY_BYTES_MIN} bytes",
                path.display()
            )
        })?;
        let count = config.servers.len();
        let coherence = Arc::clone(coherence);
        let servers = Arc::new(match config.store {
            // The gateway does not say which server it asked.
            TableName::Thrift2 { .. } => Servers::all_of(coherence, CLOCK_SLACK_NS, count),
            _ => Servers::new(coherence, CLOCK_SLACK_NS),
        });
        let options = hbase::Options {
            listen: config.notify_listen,
            servers: config.servers.clone(),
            key,
            // HBase's servers leave the default namespace out.
            table: name.strip_prefix("default:").unwrap_or(name).as_bytes().to_vec(),
            columns: config.columns.len() as u16,
        };
        let described = Arc::clone(table);
        let opened = Box::new(move || described.describe_anew());
        let listener = Listener::start(options, Arc::clone(&servers), opened)
            .with_context(|| format!("column cannot hear at {} (`notify_listen`)", config.notify_listen))?;
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
            (metric::COLUMN_NOTICES, counts.heard),
            (metric::COLUMN_REFUSED_NOTICES, counts.refused),
            (metric::COLUMN_STRANGERS, u64::from(self.servers.has_stranger())),
        ] {
            status.set_host(metric, value);
        }
        let are_told_apart = self.servers.are_told_apart();
        if self.servers.has_stranger() && !are_told_apart {
            let what =
                "column: a server that is not among `servers` changes the table; the fast path stays empty";
            problems.push(what.into());
        } else if leased < self.count {
            let count = self.count;
            let meaning = match are_told_apart {
                true => "the fast path keeps no rows of the others",
                false => "the fast path is empty without all of them",
            };
            problems.push(format!(
                "column: {leased} of {count} `servers` grant a lease; {meaning}"
            ));
        }
    }
}

/// A directory that was made for a table which does not serve yet; taken away again when dropped.
pub struct Made(Option<PathBuf>);

impl Made {
    /// The table serves.
    pub fn stays(mut self) {
        self.0 = None;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(made) = self.0.take() {
            // Nobody has written a row; what cannot be removed does no harm.
            let _ = std::fs::remove_dir_all(made);
        }
    }
}

/// What must be done while this process may still do everything: the directory is made, where it is not there.
///
/// # Errors
/// What the system says.
pub fn prepare(config: &Column) -> anyhow::Result<Made> {
    if config.store != TableName::Embedded || config.data.exists() {
        return Ok(Made(None));
    }
    std::fs::create_dir_all(&config.data).with_context(|| config.data.display().to_string())?;
    Ok(Made(Some(config.data.clone())))
}

/// Its program.
pub fn image(config: &Column) -> Image {
    datapath::image(&config.geometry(), config.listen.port())
}

/// A fast path that a killed server left at the interface would answer beside this one, of which it hears nothing.
fn refuse_left_over(datapath: &Datapath) -> anyhow::Result<()> {
    let folder = Pins::folder_of(&datapath.pin_dir, &datapath.interface);
    if folder.join("column_control").exists() {
        let interface = &datapath.interface;
        bail!(
            "the fast path of an earlier server is pinned at {interface}, and may be answering: `lineside xdp detach \
             {interface} --pin-dir {}` first",
            datapath.pin_dir.display()
        );
    }
    Ok(())
}

fn names(config: &Column) -> anyhow::Result<Vec<ColumnName>> {
    let name =
        |text: &String| ColumnName::new(text.as_bytes()).with_context(|| format!("{text:?}: no column"));
    config.columns.iter().map(name).collect()
}

fn in_hbase(store: &TableName) -> anyhow::Result<Arc<dyn Table>> {
    match store {
        TableName::HBase { servers, table } => {
            let addresses: Vec<&str> = servers.iter().map(String::as_str).collect();
            let opened = HBase::connect(&addresses, table.as_bytes(), HBASE_TIME);
            Ok(Arc::new(opened.with_context(|| {
                format!("table {table} at {}", servers.join(","))
            })?))
        }
        TableName::Thrift2 { gateway, table } => {
            let opened = Thrift2::connect(gateway, table.as_bytes(), HBASE_TIME);
            Ok(Arc::new(
                opened.with_context(|| format!("table {table} behind {gateway}"))?,
            ))
        }
        TableName::Memory | TableName::Embedded => bail!("no table"),
    }
}

impl Opened {
    /// The fast path in the maps of `xdp`, where there is one, else in this process, and empty; its host over the table
    /// that the configuration names; both listening.
    ///
    /// # Errors
    /// What stands in the way, and what to do about it.
    pub fn new(config: &Config, xdp: Option<&mut XdpDatapath>) -> anyhow::Result<Self> {
        let column = &config.column;
        let (geometry, columns) = (column.geometry(), names(column)?);
        let readers = Readers::new(xdp.is_some());
        let store = match xdp {
            Some(datapath) => {
                let store = datapath::store(datapath, &geometry)?;
                // What a killed server left there was true as long as nothing changes without it: from here on it does.
                lease::end(&store.control().lease_until_ns);
                readers.wait();
                store.format(&geometry)?;
                store
            }
            None => {
                refuse_left_over(&config.datapath)?;
                Store::anonymous(&geometry)?
            }
        };
        let store = Arc::new(store);
        let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(Arc::clone(&store)))));
        let embedded = match &column.store {
            TableName::Memory => Some(Embedded::in_memory(system_clock())),
            TableName::Embedded => Some(
                Embedded::open(&column.data, system_clock())
                    .with_context(|| format!("opening {}", column.data.display()))?,
            ),
            TableName::HBase { .. } | TableName::Thrift2 { .. } => None,
        };
        let embedded = embedded.map(Arc::new);
        let table: Arc<dyn Table> = match &embedded {
            None => in_hbase(&column.store)?,
            Some(embedded) => {
                embedded.watch(Arc::new(Announcer::new(Arc::clone(&coherence), &columns)));
                Arc::clone(embedded) as _
            }
        };
        let mut told = None;
        let telling = match (&embedded, column.coherence) {
            (Some(_), _) => Telling::ByTable,
            (None, CoherenceName::Ttl) => Telling::Ttl(column.ttl_ms * 1_000_000),
            (None, CoherenceName::None) => Telling::Nothing,
            (None, CoherenceName::Coprocessor) => {
                let by = told.insert(Told::new(column, &table, &coherence)?);
                Telling::ByServers(Arc::clone(&by.servers))
            }
        };
        let first = columns[0];
        let mut setup = Setup::new(table, Arc::clone(&coherence), columns, telling);
        setup.paper_format = column.paper_format;
        let trusting = Arc::clone(&store);
        setup.trusted = Box::new(move |address| trusting.trusts(address));
        let host = ColumnHost::new(setup)?;
        let fastpath = Arc::new(ColumnFastPath::new(Arc::clone(&store)));
        let listen = column.listen;
        let options = SocketOptions {
            listen,
            threads: config.datapath.threads(),
            queue: config.datapath.queue,
        };
        // What is here is answered as fast by one.
        let host_threads = if embedded.is_some() { 1 } else { HBASE_THREADS };
        let socket = SocketDatapath::start_side_by_side(
            options,
            Arc::clone(&fastpath) as _,
            Arc::new(host),
            host_threads,
            &readers,
        )
        .with_context(|| format!("column cannot listen on {listen} (--listen gives another address)"))?;
        lease::renew(&store.control().lease_until_ns, column.lease().as_nanos() as u64);
        Ok(Self {
            store,
            fastpath,
            coherence,
            embedded,
            column: first,
            told,
            socket,
            lease: column.lease(),
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
            coherence: self.coherence,
            embedded: self.embedded,
            column: self.column,
            told: self.told,
            front: Front::new(self.socket, line),
        });
        let (length, renewed) = (self.lease, Arc::clone(&inner));
        let renewal = Renewal::start(length, move || {
            if renewed.is_well() {
                lease::renew(&renewed.store.control().lease_until_ns, length.as_nanos() as u64);
            }
        })?;
        Ok(Running {
            inner,
            renewal: Some(renewal),
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
        self.inner.front.words()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.renewal.take());
        lease::end(&self.inner.store.control().lease_until_ns);
        self.inner.front.detach();
    }
}

impl Inner {
    /// Asks what every change and every fill needs: where one of them is stuck this does not return, and the lease
    /// ends.
    fn is_well(&self) -> bool {
        self.coherence.counts();
        (self.embedded.as_ref()).is_none_or(|table| table.get(&[0], &[self.column]).is_ok())
    }

    /// Its part of a snapshot; what cannot be told is put among the `problems`.
    pub fn status(&self, problems: &mut Vec<String>) -> ServiceStatus {
        let counted = Counted {
            names: ColumnCounter::ALL.map(ColumnCounter::name),
            socket: self.fastpath.counters(),
            slot: COLUMN_SLOT,
            map: "column_counts",
            replies: ColumnCounter::Hits as usize,
        };
        let lease_until_ns = &self.store.control().lease_until_ns;
        let mut status = self.front.status("column", lease_until_ns, &counted, problems);
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
            (metric::COLUMN_MARKS, counts.marks),
            (metric::COLUMN_OFF, counts.is_off.into()),
        ] {
            status.set_host(metric, value);
        }
        if let Some(why) = self.embedded.as_ref().and_then(|table| table.failed()) {
            problems.push(format!(
                "column: nothing can be written until the next start: {why}"
            ));
        }
        if let Some(told) = &self.told {
            told.status(&mut status, problems);
        }
        status
    }
}

#[cfg(test)]
mod tests;
