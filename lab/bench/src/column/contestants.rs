//! Compared systems (contestants) for reads: HBase through its gateway, the socket datapath, and the XDP datapath, all
//! with the same rows.

use super::client::{self, Loop, Paper};
use super::hbase::{self, Peer};
use super::live::Generator;
use super::rows::Ask;
use super::served::{ROW_BITS, Served, XdpLine, anonymous, geometry};
use crate::client::{LOST_AFTER_NS, Tally};
use crate::error::{BenchError, Result};
use crate::netns::{NamespacePair, SERVER_ADDRESS};
use crate::servers::SERVER_CORE;
use lineside_column::table::Table;
use lineside_hbase_client::rpc::HBase as Rpc;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_wire::COLUMN_PORT;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Core of the client and of the generator.
pub const CLIENT_CORE: usize = 0;
/// Cores of the generator when it runs on two.
const CORES: [usize; 2] = [CLIENT_CORE, SERVER_CORE];
/// Maximum time to wait for a reply. If the machine is not busy, the fast path answers at once.
const REPLY_TIMEOUT: Duration = Duration::from_nanos(LOST_AFTER_NS);

/// Compared system that answers the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// HBase through its Thrift 2 gateway, with one warm connection.
    Thrift2,
    /// HBase through its Thrift 2 gateway, with 16 connections and a thread for each.
    Thrift2x16,
    /// HBase's own RPC, with one connection and 16 requests in flight.
    Native,
    /// Socket datapath over the embedded table in memory; the fast-path table contains all rows.
    Socket,
    /// XDP datapath over the embedded table in memory; the fast-path table contains all rows.
    Xdp,
}

/// Client that sends the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// The contestant's own client, with one request in flight on each connection.
    Own,
    /// Socket client with 64 requests in flight.
    Window64,
    /// Socket client with one request in flight.
    Window1,
    /// Live-frames generator on one core: a BPF program that sends test frames.
    Live,
    /// Live-frames generator on two cores, over a veth pair with two queues.
    LiveTwice,
}

/// Kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Contestant that answers.
    pub who: Who,
    /// Client that asks.
    pub by: By,
    /// Kind of request.
    pub ask: Ask,
}

impl Run {
    /// Returns whether a lost request counts as a fault in this run.
    pub fn is_lossless(&self) -> bool {
        self.by != By::Live || self.who == Who::Xdp
    }
}

/// Counts of all rounds, by run.
pub type Samples = BTreeMap<Run, Vec<Tally>>;

/// Returns the runs of a round; without HBase, only the runs of Lineside.
pub fn runs(with_peer: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    for ask in Ask::ALL {
        for (who, by) in [
            (Who::Thrift2, By::Own),
            (Who::Xdp, By::Live),
            (Who::Xdp, By::LiveTwice),
            (Who::Socket, By::Live),
            (Who::Thrift2x16, By::Own),
            (Who::Xdp, By::Window64),
            (Who::Native, By::Own),
            (Who::Socket, By::Window64),
            (Who::Xdp, By::Window1),
            (Who::Socket, By::Window1),
        ] {
            let is_peer = by == By::Own;
            let is_long = by == By::Window1 && !matches!(ask, Ask::Get | Ask::Scan(8));
            if !is_long && (with_peer || !is_peer) {
                runs.push(Run { who, by, ask });
            }
        }
    }
    runs
}

/// Returns the name of a run's contestant, and the suffix of its client.
pub fn names(run: Run) -> (&'static str, &'static str) {
    match (run.who, run.by) {
        (Who::Thrift2, _) => ("thrift2", ""),
        (Who::Thrift2x16, _) => ("thrift2x16", ""),
        (Who::Native, _) => ("native", ""),
        (Who::Xdp, By::Live) => ("xdp_max", ""),
        (_, By::LiveTwice) => ("xdp_max2", ""),
        (who, by) => (
            if who == Who::Xdp { "xdp" } else { "socket" },
            match by {
                By::Live | By::LiveTwice => ", live frames",
                By::Window1 => ", window 1",
                By::Window64 | By::Own => "",
            },
        ),
    }
}

/// Resources that the runs share.
pub struct Field {
    /// Namespaces of the client and the server.
    pub pair: Arc<NamespacePair>,
    /// Namespaces whose veth pair has one queue for each of [`CORES`].
    wide: NamespacePair,
    /// Live-frames generator.
    pub generator: Generator,
    xdp: XdpLine,
    socket: Served,
    clients: Vec<Thrift2>,
    rpc: Option<Rpc>,
}

impl Field {
    /// Loads the programs and fills both fast paths.
    pub fn new(peer: Option<&Peer>) -> Result<Self> {
        let geometry = geometry(ROW_BITS, false);
        let xdp = XdpLine::load(&geometry)?;
        Served::embedded(&xdp.store)?.fill()?;
        let socket = Served::embedded(&anonymous(&geometry)?)?;
        socket.fill()?;
        let clients = peer.map_or_else(
            || Ok(Vec::new()),
            |peer| {
                let clients = (0..hbase::CONNECTIONS).map(|_| peer.connect(hbase::READ));
                clients.collect::<Result<Vec<_>>>()
            },
        )?;
        let rpc = peer.map(|peer| peer.connect_rpc(hbase::READ)).transpose()?;
        Ok(Self {
            rpc,
            pair: Arc::new(NamespacePair::new()?),
            wide: NamespacePair::with_queues(CORES.len())?,
            generator: Generator::load()?,
            xdp,
            socket,
            clients,
        })
    }

    /// Warms up HBase with each kind of request for `duration`, because a cold JVM answers its first thousands of
    /// requests slowly.
    pub fn warm(&self, duration: Duration) -> Result<()> {
        for ask in Ask::ALL {
            hbase::drive(&self.thrift2(), ask, duration)?;
            hbase::drive(&self.native(), ask, duration)?;
        }
        Ok(())
    }

    fn thrift2(&self) -> Vec<&dyn Table> {
        self.clients.iter().map(|client| client as _).collect()
    }

    fn native(&self) -> Vec<&dyn Table> {
        self.rpc
            .iter()
            .flat_map(|rpc| [rpc as &dyn Table; hbase::CONNECTIONS])
            .collect()
    }

    /// Returns the number of instructions that the verifier processed, by program.
    pub fn verified_instructions(&mut self) -> Result<BTreeMap<String, u32>> {
        self.xdp.verified_instructions()
    }

    /// Starts a contestant, sends requests to it, and stops it.
    pub fn run(&mut self, run: Run, duration: Duration) -> Result<Tally> {
        match run.who {
            Who::Thrift2 => hbase::drive(&self.thrift2()[..1], run.ask, duration),
            Who::Thrift2x16 => hbase::drive(&self.thrift2(), run.ask, duration),
            Who::Native => hbase::drive(&self.native(), run.ask, duration),
            Who::Socket => {
                let running = self.socket.start(&self.pair)?;
                let tally = self.drive(run, duration);
                running.end()?;
                tally
            }
            Who::Xdp => {
                let hits = self.xdp.hits()?;
                let pair = self.pair_of(run);
                let attached = pair.server.run(CLIENT_CORE, || self.xdp.attach(pair))?;
                let tally = self.drive(run, duration)?;
                drop(attached);
                let risen = self.xdp.hits()? - hits;
                if risen < tally.right {
                    let right = tally.right;
                    return Err(BenchError::Void(format!("{right} right replies, {risen} hits")));
                }
                Ok(tally)
            }
        }
    }

    fn pair_of(&self, run: Run) -> &NamespacePair {
        match run.by {
            By::LiveTwice => &self.wide,
            _ => &self.pair,
        }
    }

    fn drive(&self, run: Run, duration: Duration) -> Result<Tally> {
        let pair = self.pair_of(run);
        let interface = pair.client_index;
        let window = if run.by == By::Window1 { 1 } else { 64 };
        pair.client.run(CLIENT_CORE, || {
            let cores = match run.by {
                By::Live => &CORES[..1],
                By::LiveTwice => &CORES[..],
                By::Own | By::Window1 | By::Window64 => &[],
            };
            if !cores.is_empty() {
                return self.generator.run(interface, run.ask, cores, duration);
            }
            // On a veth, the frames that XDP_TX returns are polled only if an XDP program is attached to the receiving
            // interface (veth_xdp_flush in Linux 6.18).
            let _passing = match run.who {
                Who::Xdp => Some(self.generator.attach_pass(interface)?),
                _ => None,
            };
            let order = Loop {
                server: SocketAddr::from((SERVER_ADDRESS, COLUMN_PORT)),
                window,
                warm_up: duration / 8,
                duration,
                patience: REPLY_TIMEOUT,
            };
            client::run(order, &mut Paper::new(run.ask)).map(|found| found.tally)
        })
    }
}
