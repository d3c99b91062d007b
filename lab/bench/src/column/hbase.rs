//! The peer: a whole HBase in one JVM, and our clients straight to it: of its Thrift 2 gateway, and of its own RPC.

use super::rows::{self, Ask};
use super::served::{failed, load};
use crate::client::{Tally, histogram};
use crate::error::{BenchError, Result, io, java};
use crate::sys;
use lineside_column::table::{FoundCell, Table, TableError};
use lineside_hbase_client::rpc::HBase as Rpc;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_hbase_mini::{Compilers, HBase, Jars, Options};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use tempfile::NamedTempFile;

/// For one call.
const CALL_TIME: Duration = Duration::from_secs(10);
/// Connections of `thrift2x16`, each with a thread of its own; threads that share the one connection of `native`.
pub const CONNECTIONS: usize = 16;
/// Rows that nobody changes.
pub const READ: &str = "rows";
/// Rows that are changed.
pub const WRITTEN: &str = "written";

/// What its coprocessor's notices are signed with.
pub const OBSERVER_KEY: [u8; 32] = [0x5a; 32];

/// A running HBase with the bench's tables in it.
pub struct Peer {
    hbase: HBase,
    jars: Jars,
    observer: SocketAddr,
    _key: NamedTempFile,
}

impl Peer {
    /// Starts it, without tables.
    ///
    /// # Errors
    /// [`BenchError::NotMeasured`] where it cannot be had.
    pub fn start() -> Result<Self> {
        let jars = Jars::build().map_err(java)?;
        let mut key = NamedTempFile::new().map_err(io("making a file"))?;
        write!(key, "{}", "5a".repeat(OBSERVER_KEY.len())).map_err(io("writing a file"))?;
        // A port that nobody had a moment ago.
        let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let observer = free.map_err(io("looking for a port"))?;
        let settings = [
            ("lineside.key.file", key.path().display().to_string()),
            ("lineside.listen", observer.to_string()),
        ];
        let options = Options {
            settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            compilers: Compilers::Both,
            ..Options::default()
        };
        let hbase = jars.start(&options).map_err(java)?;
        Ok(Self {
            hbase,
            jars,
            observer,
            _key: key,
        })
    }

    /// What is built of Java.
    pub fn jars(&self) -> &Jars {
        &self.jars
    }

    /// Where it listens.
    pub fn ports(&self) -> lineside_hbase_mini::Ports {
        self.hbase.ports
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.hbase.pid()
    }

    /// Has it do a command.
    pub fn command(&mut self, command: &str) -> Result<String> {
        self.hbase.command(command).map_err(java)
    }

    /// A client of `table` with one connection, made by the calling thread and in its namespace.
    pub fn connect(&self, table: &str) -> Result<Thrift2> {
        let gateway = format!("127.0.0.1:{}", self.hbase.ports.thrift);
        Thrift2::connect(&gateway, table.as_bytes(), CALL_TIME).map_err(failed("connecting to HBase"))
    }

    /// A client of `table` by HBase's own RPC, made by the calling thread and in its namespace.
    pub fn connect_rpc(&self, table: &str) -> Result<Rpc> {
        let server = format!("127.0.0.1:{}", self.hbase.ports.regionserver);
        Rpc::connect(&[&server], table.as_bytes(), CALL_TIME).map_err(failed("connecting to HBase"))
    }

    /// Has the servers of `table` tell `subscriber` of its changes.
    pub fn observe(&mut self, table: &str, subscriber: SocketAddr) -> Result<()> {
        let jar = self.jars.module("observer").map_err(java)?;
        self.command(&format!("load {table} {} {subscriber}", jar.display()))?;
        Ok(())
    }

    /// Where the coprocessor listens, once it is loaded.
    pub fn observer(&self) -> SocketAddr {
        self.observer
    }

    /// Makes a table and puts the bench's rows into it.
    pub fn make(&mut self, table: &str) -> Result<()> {
        self.command(&format!("create {table} entry"))?;
        let clients = (0..CONNECTIONS / 2).map(|_| self.connect(table));
        load(&clients.collect::<Result<Vec<_>>>()?)
    }
}

/// Asks each of `clients`, which may be one several times, one request after the other, all at once, for `duration`.
///
/// # Errors
/// [`BenchError::Void`] where HBase refuses.
pub fn drive(clients: &[&dyn Table], ask: Ask, duration: Duration) -> Result<Tally> {
    let began_ns = sys::now_ns();
    let ends_ns = began_ns + duration.as_nanos() as u64;
    let mut sum = std::thread::scope(|scope| {
        let threads: Vec<_> = (0u64..)
            .zip(clients)
            .map(|(number, client)| scope.spawn(move || one(*client, ask, number * 1_000_003, ends_ns)))
            .collect();
        let mut sum = empty();
        for thread in threads {
            let tally = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            sum.sent += tally.sent;
            sum.right += tally.right;
            sum.wrong += tally.wrong;
            // The bounds of all histograms are the same.
            let _ = sum.latency.add(&tally.latency);
        }
        Ok::<_, BenchError>(sum)
    })?;
    sum.took_ns = sys::now_ns() - began_ns;
    Ok(sum)
}

/// Nothing yet.
pub fn empty() -> Tally {
    Tally {
        sent: 0,
        right: 0,
        wrong: 0,
        lost: 0,
        took_ns: 0,
        latency: histogram(),
    }
}

fn one(client: &dyn Table, ask: Ask, first: u64, ends_ns: u64) -> Result<Tally> {
    let mut tally = empty();
    let mut now_ns = sys::now_ns();
    let mut number = first;
    // However slow it is, it is asked once.
    while now_ns < ends_ns || tally.sent == 0 {
        let row = ask.row(number);
        let is_right = is_right(client, ask, row).map_err(failed("asking HBase"))?;
        let then_ns = sys::now_ns();
        tally.sent += 1;
        tally.right += u64::from(is_right);
        tally.wrong += u64::from(!is_right);
        tally.latency.saturating_record(then_ns - now_ns);
        now_ns = then_ns;
        number += 1;
    }
    Ok(tally)
}

fn is_right(client: &dyn Table, ask: Ask, row: u32) -> std::result::Result<bool, TableError> {
    let columns = [rows::column()];
    let holds = |row: u32, value: &[u8]| value == rows::value(row, rows::FIRST_VERSION);
    match ask {
        Ask::Get => {
            let cells = client.get(&rows::key(row), &columns)?;
            let cell = cells.into_iter().next().flatten();
            Ok(cell.is_some_and(|cell| holds(row, &cell.value)))
        }
        Ask::Scan(count) => {
            let found = client.scan(&ask.range(row), &columns)?;
            let is_it = |(found, row): (&FoundCell, u32)| {
                found.key == rows::key(row) && holds(row, &found.cell.value)
            };
            Ok(found.len() == count as usize && found.iter().zip(row..).all(is_it))
        }
    }
}
