//! Compared system: HBase in one JVM, with clients of its Thrift 2 gateway and of its own RPC.

use super::rows::{self, Ask};
use super::served::{failed, load};
use crate::client::Tally;
use crate::error::{BenchError, Result, io, java};
use crate::sys;
use crate::wrong::WrongReply;
use lineside_column::table::{Table, TableError};
use lineside_hbase_client::rpc::HBase as Rpc;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_hbase_mini::{Compilers, HBase, Jars, Options};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use tempfile::NamedTempFile;

/// Time-out of one call.
const CALL_TIME: Duration = Duration::from_secs(10);
/// Number of connections of the contestant `thrift2x16`, each with a thread, and number of threads that share the one
/// connection of the contestant `native`.
pub const CONNECTIONS: usize = 16;
/// Table whose rows do not change.
pub const READ: &str = "rows";
/// Table whose rows change.
pub const WRITTEN: &str = "written";

/// Key with which the coprocessor signs its notifications.
pub const OBSERVER_KEY: [u8; 32] = [0x5a; 32];

/// Running HBase with the tables of the benchmark.
pub struct Peer {
    hbase: HBase,
    jars: Jars,
    observer: SocketAddr,
    _key: NamedTempFile,
}

impl Peer {
    /// Starts HBase without tables.
    ///
    /// # Errors
    /// [`BenchError::NotMeasured`] if HBase is not available.
    pub fn start() -> Result<Self> {
        let jars = Jars::build().map_err(java)?;
        let mut key = NamedTempFile::new().map_err(io("creating a file"))?;
        write!(key, "{}", "5a".repeat(OBSERVER_KEY.len())).map_err(io("writing a file"))?;
        // This port is free now, and the coprocessor will listen on it.
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

    /// Returns the compiled Java code.
    pub fn jars(&self) -> &Jars {
        &self.jars
    }

    /// Returns the ports of HBase.
    pub fn ports(&self) -> lineside_hbase_mini::Ports {
        self.hbase.ports
    }

    /// Returns the process id of the JVM.
    pub fn pid(&self) -> u32 {
        self.hbase.pid()
    }

    /// Runs one of the commands of `Commands.java`, and returns its answer.
    pub fn command(&mut self, command: &str) -> Result<String> {
        self.hbase.command(command).map_err(java)
    }

    /// Returns a client of `table` with one connection. The calling thread opens the connection in its own namespace.
    pub fn connect(&self, table: &str) -> Result<Thrift2> {
        let gateway = format!("127.0.0.1:{}", self.hbase.ports.thrift);
        Thrift2::connect(&gateway, table.as_bytes(), CALL_TIME).map_err(failed("connecting to HBase"))
    }

    /// Returns a client of `table` with HBase's own RPC. The calling thread opens the connection in its own namespace.
    pub fn connect_rpc(&self, table: &str) -> Result<Rpc> {
        let server = format!("127.0.0.1:{}", self.hbase.ports.regionserver);
        Rpc::connect(&[&server], table.as_bytes(), CALL_TIME).map_err(failed("connecting to HBase"))
    }

    /// Makes the servers of `table` notify `subscriber` of its changes.
    pub fn observe(&mut self, table: &str, subscriber: SocketAddr) -> Result<()> {
        let jar = self.jars.module("observer").map_err(java)?;
        self.command(&format!("load {table} {} {subscriber}", jar.display()))?;
        Ok(())
    }

    /// Returns the address on which the coprocessor listens once HBase has loaded it.
    pub fn observer(&self) -> SocketAddr {
        self.observer
    }

    /// Creates a table with the benchmark's rows.
    pub fn make(&mut self, table: &str) -> Result<()> {
        self.command(&format!("create {table} entry"))?;
        let clients = (0..CONNECTIONS / 2).map(|_| self.connect(table));
        load(&clients.collect::<Result<Vec<_>>>()?)
    }
}

/// Sends requests by all of `clients` at the same time for `duration`; each client sends one after the other. The same
/// client may occur several times.
///
/// # Errors
/// [`BenchError::Void`] if HBase refuses a request.
pub fn drive(clients: &[&dyn Table], ask: Ask, duration: Duration) -> Result<Tally> {
    let began_ns = sys::now_ns();
    let ends_ns = began_ns + duration.as_nanos() as u64;
    let mut sum = std::thread::scope(|scope| {
        let threads: Vec<_> = (0u64..)
            .zip(clients)
            .map(|(number, client)| scope.spawn(move || one(*client, ask, number * 1_000_003, ends_ns)))
            .collect();
        let mut sum = Tally::default();
        for thread in threads {
            let tally = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            sum.sent += tally.sent;
            sum.right += tally.right;
            sum.wrong.extend(&tally.wrong);
            // The addition cannot fail, because all histograms have the same bounds.
            let _ = sum.latency.add(&tally.latency);
        }
        Ok::<_, BenchError>(sum)
    })?;
    sum.took_ns = sys::now_ns() - began_ns;
    Ok(sum)
}

fn one(client: &dyn Table, ask: Ask, first: u64, ends_ns: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut now_ns = sys::now_ns();
    let mut number = first;
    // The client sends at least one request, even to a very slow server.
    while now_ns < ends_ns || tally.sent == 0 {
        let row = ask.row(number);
        let found = read(client, ask, row).map_err(failed("reading a row from HBase"))?;
        let then_ns = sys::now_ns();
        tally.sent += 1;
        if is_right(&found, ask, row) {
            tally.right += 1;
        } else {
            tally.wrong.add(|| {
                let reply = format!("{found:?}");
                WrongReply {
                    reply,
                    ..ask.describe(row, &[])
                }
            });
        }
        tally.latency.saturating_record(then_ns - now_ns);
        now_ns = then_ns;
        number += 1;
    }
    Ok(tally)
}

/// Key and value of a row.
type KeyValue = (Vec<u8>, Vec<u8>);

/// Reads the rows of a request that begins with `row`.
fn read(client: &dyn Table, ask: Ask, row: u32) -> std::result::Result<Vec<KeyValue>, TableError> {
    let columns = [rows::column()];
    match ask {
        Ask::Get => {
            let cells = client.get(&rows::key(row), &columns)?;
            let cell = cells.into_iter().next().flatten();
            let found = cell.map(|cell| (rows::key(row).to_vec(), cell.value));
            Ok(found.into_iter().collect())
        }
        Ask::Scan(_) => {
            let found = client.scan(&ask.range(row), &columns)?;
            let pairs = found.into_iter().map(|found| (found.key, found.cell.value));
            Ok(pairs.collect())
        }
    }
}

fn is_right(found: &[KeyValue], ask: Ask, row: u32) -> bool {
    let is_it = |((key, value), row): (&KeyValue, u32)| {
        *key == rows::key(row) && *value == rows::value(row, rows::FIRST_VERSION)
    };
    found.len() == ask.rows() as usize && found.iter().zip(row..).all(is_it)
}
