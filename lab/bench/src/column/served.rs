//! Builds the `column` service for the benchmark: the fast path, its host, and their datapaths.

use super::rows::{self, Ask, ROWS};
use crate::error::{BenchError, Result, io};
use crate::netns::{CLIENT_ADDRESS, NamespacePair, SERVER_ADDRESS, SERVER_MAC};
use crate::servers::{ServerThread, wait};
use crate::sys;
use lineside_column::coherence::Coherence;
use lineside_column::datapath as column;
use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::host::{ChangeAnnouncer, CoherenceMode, ColumnHost, Setup};
use lineside_column::store::{Geometry, Store};
use lineside_column::table::{Change, ColumnName, Nonce, Table, TableError};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{Host, Range, Readers, Reply, Source, Verdict, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{COLUMN_PORT, ColumnCounter};
use lineside_xdp::XdpDatapath;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Lease in nanoseconds; it is longer than the run of any benchmark.
const LEASE_NS: u64 = 1 << 42;
/// Number of requests that can be queued for the host.
const QUEUE: usize = 1024;
/// log2 of the number of rows in the fast-path table, which has more slots than the table has rows.
pub const ROW_BITS: u32 = 14;

/// Returns the geometry of a fast-path table for one column with this number of rows.
pub fn geometry(row_bits: u32, may_be_stale: bool) -> Geometry {
    let client = Range {
        address: CLIENT_ADDRESS.into(),
        prefix_bits: 32,
    };
    Geometry {
        family_bits: 0,
        column_bits: 0,
        row_bits,
        value_bits: 0,
        columns: vec![String::from_utf8_lossy(rows::NAME).into_owned()],
        may_be_stale,
        trusted_sources: [Range::LOOPBACK[0], client].into(),
        ..Geometry::default()
    }
}

/// Returns a function for `map_err` that adds the failed action to an error of the table.
pub fn failed(what: &'static str) -> impl Fn(TableError) -> BenchError {
    move |error| BenchError::Void(format!("{what}: {error}"))
}

/// Writes all rows of the benchmark; each of `tables` is a connection that a thread of its own uses.
pub fn load<T: Table>(tables: &[T]) -> Result<()> {
    let put = |table: &T, row: u32| {
        let value = rows::value(row, rows::FIRST_VERSION);
        let change = Change::Put(value.to_vec(), None);
        let nonce = Nonce::default();
        table
            .change(&rows::key(row), &rows::column(), &change, nonce)
            .map(drop)
    };
    std::thread::scope(|scope| {
        let threads = tables.iter().enumerate().map(|(number, table)| {
            let mine = (number as u32..ROWS).step_by(tables.len());
            scope.spawn(move || mine.into_iter().try_for_each(|row| put(table, row)))
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            let loaded = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            loaded.map_err(failed("loading the table"))?;
        }
        Ok(())
    })
}

/// Returns the embedded table in memory, with the rows of the benchmark.
pub fn memory() -> Result<Arc<Embedded>> {
    let table = Embedded::in_memory(system_clock());
    load(std::slice::from_ref(&table))?;
    Ok(Arc::new(table))
}

/// Fast path and host over a fast-path table and a table.
#[derive(Clone)]
pub struct Served {
    /// The fast path.
    pub fastpath: Arc<ColumnFastPath>,
    host: Arc<ColumnHost>,
    coherence: Arc<Coherence>,
}

impl Served {
    /// Serves the benchmark's column of `table`. `coherence_mode` says how the fast path learns of changes.
    pub fn new(store: &Arc<Store>, table: Arc<dyn Table>, coherence_mode: CoherenceMode) -> Result<Self> {
        Self::of(store, table, rows::column(), coherence_mode)
    }

    /// Serves the column that the caller chooses.
    pub fn of(
        store: &Arc<Store>,
        table: Arc<dyn Table>,
        column: ColumnName,
        coherence_mode: CoherenceMode,
    ) -> Result<Self> {
        let writer = Box::new(ColumnWriter::new(Arc::clone(store)));
        let coherence = Arc::new(Coherence::new(writer));
        let mut setup = Setup::new(table, Arc::clone(&coherence), vec![column], coherence_mode);
        let trusting = Arc::clone(store);
        setup.trusted = Box::new(move |address| trusting.trusts(address));
        let host = ColumnHost::new(setup).map_err(io("making a host"))?;
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        Ok(Self {
            fastpath: Arc::new(ColumnFastPath::new(Arc::clone(store))),
            host: Arc::new(host),
            coherence,
        })
    }

    /// Serves the embedded table in memory, which reports its own changes.
    pub fn embedded(store: &Arc<Store>) -> Result<Self> {
        let table = memory()?;
        let served = Self::new(store, Arc::clone(&table) as _, CoherenceMode::ByTable)?;
        let announcer = ChangeAnnouncer::new(Arc::clone(&served.coherence), &[rows::column()]);
        table.set_listener(Arc::new(announcer));
        Ok(served)
    }

    /// Fills the fast-path table by reading every row once through the host.
    pub fn fill(&self) -> Result<()> {
        let reader = Readers::default().join();
        let from = Source {
            address: CLIENT_ADDRESS.into(),
            port: 40_000,
        };
        let ask = Ask::Scan(64);
        // Each range begins with the last row of the previous range, so that the interval between the two is filled,
        // too.
        for first in (0..ROWS).step_by(63) {
            let mut reply = Reply::default();
            let request = ask.paper(first.min(ask.span() - 1));
            if self.host.serve(from, &request, &mut reply, &reader) != Verdict::Reply {
                return Err(BenchError::Void(
                    "the host did not fill the fast path with a range".into(),
                ));
            }
        }
        let held = self.coherence.counts().fastpath.rows;
        if held < u64::from(ROWS) {
            return Err(BenchError::Void(format!(
                "the fast-path table has {held} rows instead of {ROWS}"
            )));
        }
        Ok(())
    }

    /// Starts the socket datapath with one thread, on `listen` in the namespace of the calling thread. `host_threads`
    /// threads query the table concurrently.
    pub fn listen(&self, listen: SocketAddr, host_threads: usize) -> Result<SocketDatapath> {
        let options = SocketOptions {
            listen,
            threads: 1,
            queue: QUEUE,
        };
        let (fastpath, host) = (Arc::clone(&self.fastpath), Arc::clone(&self.host));
        let readers = Readers::new(false);
        SocketDatapath::start_with_host_threads(options, fastpath, host, host_threads, &readers)
            .map_err(io("starting the socket datapath"))
    }

    /// Starts the socket datapath in the server's namespace.
    pub fn start(&self, pair: &Arc<NamespacePair>) -> Result<ServerThread> {
        let served = self.clone();
        ServerThread::start(pair, move |stop, ready| {
            let _datapath = served.listen(SocketAddr::from((SERVER_ADDRESS, COLUMN_PORT)), 1)?;
            wait(stop, &ready);
            Ok(())
        })
    }
}

/// Returns a fast-path table in this process's memory.
pub fn anonymous(geometry: &Geometry) -> Result<Arc<Store>> {
    let store = Store::anonymous(geometry).map_err(io("making a fast-path table"))?;
    Ok(Arc::new(store))
}

/// Loaded XDP programs, and their fast-path table.
pub struct XdpLine {
    datapath: XdpDatapath,
    root: OwnedFd,
    /// Fast-path table in the maps of the programs.
    pub store: Arc<Store>,
}

impl XdpLine {
    /// Loads the programs with an empty fast-path table.
    pub fn load(geometry: &Geometry) -> Result<Self> {
        let mut datapath = XdpDatapath::load(vec![column::program(geometry, COLUMN_PORT)], None)?;
        let store = column::store(&mut datapath, geometry)?;
        store
            .format(geometry)
            .map_err(io("laying out the fast-path table"))?;
        datapath.start(&Endpoint::new(SERVER_MAC, false, &[SERVER_ADDRESS.into()]).unwrap_or_default())?;
        let root = datapath
            .with_root(|root| root.try_clone_to_owned())?
            .map_err(io("opening ls_root"))?;
        Ok(Self {
            datapath,
            root,
            store: Arc::new(store),
        })
    }

    /// Attaches the programs natively to the server's interface; dropping the result detaches them. The calling thread
    /// must be in the server's namespace.
    pub fn attach(&self, pair: &NamespacePair) -> Result<OwnedFd> {
        sys::attach_native(self.root.as_fd(), pair.server_index).map_err(io("attaching ls_root"))
    }

    /// Returns the number of instructions that the verifier processed, by program.
    pub fn verified_instructions(&mut self) -> Result<BTreeMap<String, u32>> {
        Ok(self.datapath.verified_instructions()?.into_iter().collect())
    }

    /// Returns the number of replies of the programs since they were loaded.
    pub fn hits(&mut self) -> Result<u64> {
        self.count(ColumnCounter::Hits)
    }

    /// Returns a counter of the programs since they were loaded.
    pub fn count(&mut self, counter: ColumnCounter) -> Result<u64> {
        let counts: [u64; ColumnCounter::ALL.len()] = self.datapath.counts("column_counts")?;
        Ok(counts[counter as usize])
    }

    /// Returns the program that receives frames first.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }
}
