//! Contestants of `spv` in two network namespaces, and the clients that send requests to them.

use crate::bpf::Generator;
use crate::client::{self, ClosedLoop, Tally};
use crate::error::Result;
use crate::fastpath::{self, XdpFastPath};
use crate::live::LiveRequest;
use crate::netns::NamespacePair;
use crate::servers::{self, ServerThread, Software, Truth};
use crate::workload::{Expect, Shape, Workload};
use crate::{live, memcached, paced, sys};
use lineside_wire::SPV_PORT;
use std::sync::Arc;
use std::time::Duration;

/// Core of the client and of the generators.
pub const CLIENT_CORE: usize = 0;

/// Compared system that answers the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Server on a socket.
    Software(Software),
    /// memcached, if it is installed.
    Memcached,
    /// Lineside's XDP datapath with all TXIDs in its table; no server runs.
    Xdp,
    /// Lineside's XDP datapath; the paper's software answers for TXIDs that are not in the fast-path table.
    XdpThenSw,
}

/// Client that sends the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Socket client with 64 requests in flight.
    Window64,
    /// Socket client with one request in flight.
    Window1,
    /// AF_XDP client with 64 requests in flight.
    AfXdp,
    /// AF_XDP client with one request in flight.
    AfXdpWindow1,
    /// Generator of live frames as an open loop.
    Live,
    /// Generator of live frames with one request in flight.
    LiveWindow1,
    /// Socket client that sends this number of requests per second.
    Paced(u32),
}

/// Contestant `echo`.
pub const ECHO: Who = Who::Software(Software::Echo);
/// Contestant `sw`.
pub const SW: Who = Who::Software(Software::Sw);
/// Contestant `sw_cache`.
pub const SW_CACHE: Who = Who::Software(Software::SwCache);
/// Contestant `sw_spin`.
pub const SW_SPIN: Who = Who::Software(Software::SwSpin);
/// Contestant `socket`.
pub const SOCKET: Who = Who::Software(Software::Socket);

/// Result of one run of a contestant: its counts and its cost.
#[derive(Clone, Debug)]
pub struct Driven {
    /// Requests and replies.
    pub tally: Tally,
    /// Processor time of the server's threads in nanoseconds: the time of this process without the client's thread.
    pub server_ns: u64,
}

/// Resources that the runs share.
pub struct Field {
    /// The two namespaces.
    pub pair: Arc<NamespacePair>,
    /// The XDP datapath.
    pub fastpath: XdpFastPath,
    /// Requests and right replies.
    pub workload: Arc<Workload>,
    /// The generator of live frames.
    pub generator: Generator,
    /// Data from which the software contestants answer.
    pub truth: Truth,
    /// Running memcached, or the reason why it does not run.
    pub memcached: std::result::Result<ServerThread, String>,
}

impl Field {
    /// Creates the namespaces, loads the XDP programs and draws the workload. If `with_memcached` is true, also starts
    /// memcached.
    pub fn new(seed: u64, shape: Shape, with_memcached: bool) -> Result<Self> {
        let pair = Arc::new(NamespacePair::new()?);
        let (fastpath, workload) = XdpFastPath::load(seed, shape)?;
        let workload = Arc::new(workload);
        let generator = Generator::load(&workload)?;
        let truth = Truth {
            tree: Arc::new(workload.tree()),
            store: fastpath::software_store(&workload)?,
        };
        let memcached = match memcached::find() {
            _ if !with_memcached => Err("memcached is not part of this run".into()),
            Some(binary) => memcached::start(&pair, binary, &workload).map_err(|error| error.to_string()),
            None => Err("memcached is not installed".into()),
        };
        Ok(Self {
            pair,
            fastpath,
            workload,
            generator,
            truth,
            memcached,
        })
    }

    /// Returns true if the contestant can run on this machine.
    pub fn has(&self, who: Who) -> bool {
        who != Who::Memcached || self.memcached.is_ok()
    }

    /// Starts the contestant `who`, sends requests to it, and stops it.
    pub fn run(&self, who: Who, by: By, duration: Duration) -> Result<Driven> {
        let running = match who {
            Who::Software(software) => Some(servers::start(&self.pair, software, &self.truth)?),
            Who::XdpThenSw => Some(servers::start(&self.pair, Software::Sw, &self.truth)?),
            Who::Memcached | Who::Xdp => None,
        };
        let _attached = match who {
            Who::Xdp | Who::XdpThenSw => {
                let attach = || self.fastpath.attach(&self.pair);
                Some(self.pair.server.run(CLIENT_CORE, attach)?)
            }
            Who::Software(_) | Who::Memcached => None,
        };
        let process_ns = sys::process_ns();
        let driven = self.drive(who, by, duration);
        let process_ns = sys::process_ns() - process_ns;
        running.map_or(Ok(()), ServerThread::end)?;
        let (tally, client_ns) = driven?;
        Ok(Driven {
            tally,
            server_ns: process_ns.saturating_sub(client_ns),
        })
    }

    /// Sends requests to `who`. Returns the client's counts, and the processor time of the client's thread in
    /// nanoseconds.
    fn drive(&self, who: Who, by: By, duration: Duration) -> Result<(Tally, u64)> {
        let expect = if who == ECHO { Expect::Echo } else { Expect::Root };
        let window = match by {
            By::Window1 | By::AfXdpWindow1 => 1,
            _ => 64,
        };
        // On a veth, the frames that XDP_TX returns are polled only if an XDP program is attached to the receiving
        // interface (veth_xdp_flush in Linux 6.18).
        let passes = matches!(who, Who::Xdp | Who::XdpThenSw)
            && matches!(by, By::Window64 | By::Window1 | By::Paced(_));
        let plan = ClosedLoop {
            window,
            expect,
            warm_up: if matches!(by, By::Paced(_)) {
                Duration::ZERO
            } else {
                duration / 8
            },
            duration,
        };
        let (workload, generator) = (&*self.workload, &self.generator);
        let interface = self.pair.client_index;
        self.pair.client.run(CLIENT_CORE, || {
            let _passing = if passes {
                Some(generator.attach_pass(interface)?)
            } else {
                None
            };
            let tally = match by {
                By::Window64 | By::Window1 => client::socket(workload, plan),
                By::Paced(rate) => paced::socket(workload, plan, rate),
                By::AfXdp | By::AfXdpWindow1 => crate::af_xdp::run(generator, interface, workload, plan),
                By::Live | By::LiveWindow1 => {
                    let (port, asks) = match (who, expect) {
                        (Who::Memcached, _) => (memcached::PORT, LiveRequest::Memcached),
                        (_, Expect::Echo) => (SPV_PORT, LiveRequest::Echo),
                        (_, Expect::Root) => (SPV_PORT, LiveRequest::Root),
                    };
                    let target = live::Target {
                        port,
                        asks,
                        one_by_one: by == By::LiveWindow1,
                    };
                    live::run(generator, interface, workload, target, duration)
                }
            }?;
            Ok((tally, sys::thread_ns()))
        })
    }
}
