//! An HBase with the coprocessor, and a fast path over one of its tables.

use lineside_column::coherence::Coherence;
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::hbase::notice::NoticeKey;
use lineside_column::hbase::{Listener, Options};
use lineside_column::host::{CLOCK_SLACK_NS, CoherenceMode, ColumnHost, Setup};
use lineside_column::servers::Servers;
use lineside_column::store::{Geometry, Store};
use lineside_column::table::{ColumnName, Table};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{FastPath, Host, Readers, Reply, Source, Verdict, lease};
use lineside_hbase_client::rpc::HBase as Rpc;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_hbase_mini::{Error, HBase, Jars};
use lineside_messages::column::native::{self, Ask};
use lineside_wire::{COLUMN_REPLY_MAY_BE_STALE, NativeHeader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

pub const COLUMN: &str = "entry:foo";
pub const KEY: [u8; 32] = [0x5a; 32];
/// Maximum time for an operation whose duration is not known.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the jars of HBase, and a lock so that only one HBase runs at a time. Returns `None` if HBase is not
/// installed.
pub fn jars() -> Option<(Jars, MutexGuard<'static, ()>)> {
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match Jars::build() {
        Err(error @ Error::NotHere(_)) => {
            eprintln!("skipped: {error}");
            None
        }
        jars => Some((jars.unwrap(), alone)),
    }
}

/// Returns an address whose port was free a moment ago.
pub fn free_address() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap()
}

/// Returns the settings of a region server whose coprocessor uses the address `listen`.
pub fn settings(folder: &Path, listen: SocketAddr) -> Vec<(String, String)> {
    let key = folder.join("key");
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&key, hex).unwrap();
    let key = key.display().to_string();
    let pairs = [
        ("lineside.key.file", key),
        ("lineside.listen", listen.to_string()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

pub fn options(table: &str, listen: SocketAddr, servers: &[SocketAddr], columns: u16) -> Options {
    Options {
        listen,
        servers: servers.to_vec(),
        key: NoticeKey::new(&KEY).unwrap(),
        table: table.into(),
        columns,
    }
}

pub fn connect(hbase: &HBase, table: &str) -> Arc<Thrift2> {
    let gateway = format!("127.0.0.1:{}", hbase.ports.thrift);
    Arc::new(Thrift2::connect(&gateway, table.as_bytes(), Duration::from_secs(30)).unwrap())
}

/// Connects through HBase's own RPC, which handles many requests in parallel.
pub fn connect_rpc(hbase: &HBase, table: &str) -> Arc<dyn Table> {
    let server = format!("127.0.0.1:{}", hbase.ports.regionserver);
    Arc::new(Rpc::connect(&[&server], table.as_bytes(), Duration::from_secs(30)).unwrap())
}

/// Calls `act` again until it returns a result.
pub fn until<T>(what: &str, mut act: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(done) = act() {
            return done;
        }
        assert!(began.elapsed() < WAIT_TIMEOUT, "{what}: not in {WAIT_TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A fast path and a host over the same table.
pub struct Rig {
    pub table: Arc<Thrift2>,
    pub servers: Arc<Servers>,
    pub listener: Option<Listener>,
    fastpath: ColumnFastPath,
    host: ColumnHost,
    store: Arc<Store>,
    readers: Readers,
}

/// Value of a row, and true if the fast path answered it.
pub type Answer = (Option<Vec<u8>>, bool);

impl Rig {
    /// Connects through the Thrift gateway. The gateway does not report which server holds a row, so the fast path
    /// needs the leases of all servers.
    pub fn new(hbase: &HBase, table: &str, listen: SocketAddr, asked: &[SocketAddr]) -> Self {
        let of = |coherence| Servers::all_of(coherence, CLOCK_SLACK_NS, asked.len());
        Self::over(connect(hbase, table), hbase, table, listen, asked, of)
    }

    /// Connects through HBase's own RPC, by the address of its master. The fast path then needs only the lease of the
    /// server from which a row was read.
    pub fn told_apart(hbase: &HBase, table: &str, listen: SocketAddr, asked: &[SocketAddr]) -> Self {
        let master = format!("127.0.0.1:{}", hbase.ports.master);
        let rpc = Rpc::connect(&[&master], table.as_bytes(), Duration::from_secs(30)).unwrap();
        let of = |coherence| Servers::new(coherence, CLOCK_SLACK_NS);
        Self::over(Arc::new(rpc), hbase, table, listen, asked, of)
    }

    fn over(
        over: Arc<dyn Table>,
        hbase: &HBase,
        table: &str,
        listen: SocketAddr,
        asked: &[SocketAddr],
        servers: impl Fn(Arc<Coherence>) -> Servers,
    ) -> Self {
        let geometry = Geometry {
            columns: vec![COLUMN.into()],
            row_bits: 10,
            ..Geometry::default()
        };
        let store = Arc::new(Store::anonymous(&geometry).unwrap());
        let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(Arc::clone(&store)))));
        let servers = Arc::new(servers(Arc::clone(&coherence)));
        let described = Arc::clone(&over);
        let opened = Box::new(move || described.forget_description());
        let options = options(table, listen, asked, 1);
        let listener = Listener::start(options, Arc::clone(&servers), opened).unwrap();
        let columns = vec![ColumnName::new(COLUMN.as_bytes()).unwrap()];
        let coherence_mode = CoherenceMode::ByServers(Arc::clone(&servers));
        let setup = Setup::new(over, coherence, columns, coherence_mode);
        Self {
            table: connect(hbase, table),
            servers,
            listener: Some(listener),
            fastpath: ColumnFastPath::new(Arc::clone(&store)),
            host: ColumnHost::new(setup).unwrap(),
            store,
            readers: Readers::default(),
        }
    }

    /// Returns the answer that a client would get; `None` if it would get no answer.
    pub fn try_get(&self, row: &str) -> Option<Answer> {
        self.answer(row, true)
    }

    /// Returns the answer of the fast path without the host; `None` if the fast path does not have the row.
    pub fn held(&self, row: &str) -> Option<Option<Vec<u8>>> {
        self.answer(row, false).map(|(value, _)| value)
    }

    fn answer(&self, row: &str, by_host: bool) -> Option<Answer> {
        lease::renew(&self.store.control().lease_until_ns, 10_000_000_000);
        let column = ColumnName::new(COLUMN.as_bytes()).unwrap();
        let ask = Ask::Get(row.into(), vec![column]);
        let request = native::request(1, &ask, native::REPLY_HEAD_BYTES + 256).unwrap();
        let from = Source {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 40_000,
        };
        let mut reply = Reply::default();
        let by_fastpath = self.fastpath.answer(from, lease::now_ns(), &request, &mut reply) == Verdict::Reply;
        if !by_fastpath && !by_host {
            return None;
        }
        if !by_fastpath {
            reply.clear();
            let reader = self.readers.join();
            if self.host.serve(from, &request, &mut reply, &reader) != Verdict::Reply {
                return None;
            }
        }
        let (header, body) = NativeHeader::ref_from_prefix(reply.as_bytes()).ok()?;
        if header.status.get() > 1 {
            return None;
        }
        let answer = native::parse_reply(body)?;
        assert_eq!(answer.flags & COLUMN_REPLY_MAY_BE_STALE, 0);
        Some((
            answer.rows.into_iter().next().map(|(_, _, value)| value),
            by_fastpath,
        ))
    }

    pub fn get(&self, row: &str) -> Answer {
        until("an answer", || self.try_get(row))
    }

    /// Reads a row again until the fast path answers. Returns its answer.
    pub fn get_fastpath(&self, row: &str) -> Option<Vec<u8>> {
        until("an answer of the fast path", || match self.try_get(row) {
            Some((value, true)) => Some(value),
            _ => None,
        })
    }

    /// Returns the value of a row in the table.
    pub fn truth(&self, row: &str) -> Option<Vec<u8>> {
        let columns = [ColumnName::new(COLUMN.as_bytes()).unwrap()];
        let cells = until("the table", || self.table.get(row.as_bytes(), &columns).ok());
        cells.into_iter().next().flatten().map(|cell| cell.value)
    }
}
