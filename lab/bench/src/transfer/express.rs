//! Contestants of `express`, which answer packets in the paper's format: the paper's software, the socket datapath and
//! the XDP datapath.

use super::bpf::Generator;
use super::client::{self, Loop};
use super::drain::{Drain, Drained, Into};
use super::live::{self, Drive};
use super::plan::{ACCOUNT_BITS, Command, Plan};
use super::store::{self, Audit, XdpLedger};
use super::sw::Table;
use super::tally::{Faults, Tally};
use crate::error::{Result, io};
use crate::netns::{NamespacePair, SERVER_ADDRESS};
use crate::servers::{ServerThread, wait};
use lineside_fastpath::{Host, Reader, Readers, Reply, Source, Verdict};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::store::Store;
use lineside_wire::TRANSFER_PORT;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Core of the client and of the generators.
pub const CLIENT_CORE: usize = 0;
/// Interval at which `sw` checks whether it must stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Number of requests that can be queued for the host of the socket datapath. The host receives none in this benchmark.
const HOST_QUEUE: usize = 1024;
/// Number of requests of a run that sends one request at a time and creates each account only once.
const CREATES_ONE_BY_ONE: u64 = 2_000;

/// Compared system that answers the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// The paper's software.
    Sw,
    /// Lineside's socket datapath; its rings are emptied into a journal.
    Socket,
    /// Lineside's XDP datapath; its rings are emptied into a journal.
    Xdp,
    /// Lineside's XDP datapath; its rings are emptied without a journal.
    XdpUnjournalled,
}

/// Client that sends the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// Socket client with 64 requests in flight.
    Window64,
    /// Socket client with one request in flight.
    Window1,
    /// Live-frames generator.
    Live,
    /// Live-frames generator with one request in flight.
    LiveWindow1,
}

impl By {
    /// Returns the suffix that this client adds to a contestant's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window64 => "",
            Self::Window1 => ", window 1",
            Self::Live => ", live frames",
            Self::LiveWindow1 => ", live frames, window 1",
        }
    }
}

/// Kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Case {
    /// Contestant that answers.
    pub who: Who,
    /// Client that asks.
    pub by: By,
    /// Kind of request.
    pub command: Command,
    /// True if the requests have transaction ids.
    pub numbered: bool,
}

impl Case {
    /// Returns a case with transaction ids. The gates apply only to such cases.
    pub const fn of(who: Who, by: By, command: Command) -> Self {
        Self {
            who,
            by,
            command,
            numbered: true,
        }
    }

    /// Returns the plan of the requests.
    pub const fn plan(&self) -> Plan {
        Plan {
            command: self.command,
            bits: ACCOUNT_BITS,
            numbered: self.numbered,
        }
    }

    /// Returns whether a lost request counts as a fault in this run.
    pub fn is_lossless(&self) -> bool {
        self.by != By::Live || matches!(self.who, Who::Xdp | Who::XdpUnjournalled)
    }
}

/// Counts of all rounds, by case.
pub type Samples = BTreeMap<Case, Vec<Tally>>;

/// Resources that the runs share.
pub struct Field {
    /// Namespaces of the client and the server.
    pub pair: Arc<NamespacePair>,
    /// Generators of live frames.
    pub generator: Generator,
    ledger: XdpLedger,
    store: Arc<Store>,
    folder: PathBuf,
    /// Faults that the audits have found in the accounts so far.
    pub faults: Faults,
    /// Counts of the threads that empty the rings, by contestant.
    pub drained: BTreeMap<&'static str, Drained>,
}

impl Field {
    /// Loads the programs. During a run, the journal is in `folder`.
    pub fn new(folder: PathBuf) -> Result<Self> {
        Ok(Self {
            pair: Arc::new(NamespacePair::new()?),
            generator: Generator::load()?,
            ledger: XdpLedger::load(ACCOUNT_BITS)?,
            store: store::anonymous()?,
            folder,
            faults: Faults::default(),
            drained: BTreeMap::new(),
        })
    }

    /// Starts a contestant with a fresh ledger, sends requests to it, stops it, and checks that the sum of its accounts
    /// is right. `requests` limits the number of requests in addition to the time.
    pub fn run(&mut self, case: Case, duration: Duration, requests: Option<u64>) -> Result<Tally> {
        let plan = case.plan();
        let (mut tally, audit) = match case.who {
            Who::Sw => self.sw(case, duration, requests)?,
            Who::Socket => {
                let store = Arc::clone(&self.store);
                self.with_rings(case, &store, |field| {
                    let running = field.start_socket()?;
                    let tally = field.drive(case, duration, requests);
                    running.end()?;
                    tally
                })?
            }
            Who::Xdp | Who::XdpUnjournalled => {
                let store = Arc::clone(&self.ledger.store);
                self.with_rings(case, &store, |field| {
                    let _attached = field
                        .pair
                        .server
                        .run(CLIENT_CORE, || field.ledger.attach(&field.pair))?;
                    field.drive(case, duration, requests)
                })?
            }
        };
        self.faults.add(&plan, &tally, &audit);
        let ids = if case.numbered { "" } else { " without ids" };
        let how = format!("{}{ids}{}", case.command.name(), case.by.name());
        tally.wrong.name(super::contestant_of(&case), &how);
        Ok(tally)
    }

    /// Runs `drive` with a fresh `store`, while another thread empties its rings.
    fn with_rings(
        &mut self,
        case: Case,
        store: &Arc<Store>,
        drive: impl FnOnce(&Self) -> Result<Tally>,
    ) -> Result<(Tally, Audit)> {
        let fresh = case.command == Command::Create;
        if fresh {
            store::clear(store);
        } else {
            store::fill(store, ACCOUNT_BITS)?;
        }
        let (name, into) = match case.who {
            Who::XdpUnjournalled => ("xdp, not journalled", Into::Nothing),
            Who::Socket => ("socket", Into::Journal(self.folder.join("rings"))),
            _ => ("xdp", Into::Journal(self.folder.join("rings"))),
        };
        let drain = Drain::start(store, into)?;
        let tally = drive(self)?;
        let drained = drain.end()?;
        let sum = self.drained.entry(name).or_default();
        sum.records += drained.records;
        sum.groups += drained.groups;
        sum.waiting_max = sum.waiting_max.max(drained.waiting_max);
        sum.torn += drained.torn;
        Ok((tally, store::audit(store, &case.plan(), !fresh)))
    }

    fn start_socket(&self) -> Result<ServerThread> {
        let store = Arc::clone(&self.store);
        ServerThread::start(&self.pair, move |stop, ready| {
            let options = SocketOptions {
                listen: SocketAddr::from((SERVER_ADDRESS, TRANSFER_PORT)),
                threads: 1,
                queue: HOST_QUEUE,
            };
            let fastpath = Arc::new(TransferFastPath::new(store));
            let datapath =
                SocketDatapath::start(options, fastpath, Arc::new(UnusedHost), &Readers::new(false));
            let _datapath = datapath.map_err(io("starting the socket datapath"))?;
            wait(stop, &ready);
            Ok(())
        })
    }

    fn sw(&self, case: Case, duration: Duration, requests: Option<u64>) -> Result<(Tally, Audit)> {
        let table = match case.command {
            Command::Create => Table::new(ACCOUNT_BITS),
            _ => Table::filled(ACCOUNT_BITS),
        };
        let table = Arc::new(Mutex::new(table));
        let theirs = Arc::clone(&table);
        let running = ServerThread::start(&self.pair, move |stop, ready| {
            let listen = (SERVER_ADDRESS, TRANSFER_PORT);
            let socket = UdpSocket::bind(listen).map_err(io("binding a server's socket"))?;
            socket
                .set_read_timeout(Some(STOP_CHECK_INTERVAL))
                .map_err(io("setting up a server's socket"))?;
            let mut table = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = ready.send(());
            table.serve(&socket, stop).map_err(io("serving"))
        })?;
        let tally = self.drive(case, duration, requests);
        running.end()?;
        let table = table.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((tally?, table.audit()))
    }

    fn drive(&self, case: Case, duration: Duration, requests: Option<u64>) -> Result<Tally> {
        let plan = case.plan();
        let one_by_one = matches!(case.by, By::Window1 | By::LiveWindow1);
        let limit = requests.or(match live::limit_of(&plan) {
            Some(_) if one_by_one => Some(CREATES_ONE_BY_ONE),
            limit => limit,
        });
        let interface = self.pair.client_index;
        self.pair.client.run(CLIENT_CORE, || match case.by {
            By::Window64 | By::Window1 => {
                // On a veth, the frames that XDP_TX returns are polled only if an XDP program is attached to the
                // receiving interface (veth_xdp_flush in Linux 6.18).
                let _passing = match case.who {
                    Who::Xdp | Who::XdpUnjournalled => Some(self.generator.attach_pass(interface)?),
                    _ => None,
                };
                client::run(Loop {
                    plan,
                    window: if one_by_one { 1 } else { 64 },
                    warm_up: if limit.is_some() {
                        Duration::ZERO
                    } else {
                        duration / 8
                    },
                    duration: if requests.is_some() {
                        Duration::from_secs(5)
                    } else {
                        duration
                    },
                    limit: limit.unwrap_or(u64::MAX),
                })
            }
            By::Live | By::LiveWindow1 => live::run(
                &self.generator,
                interface,
                Drive {
                    plan,
                    one_by_one,
                    loses: !case.is_lossless(),
                    duration,
                    limit,
                },
            ),
        })
    }
}

/// Host of a fast path that answers every request itself, so that none is passed to the host.
pub(super) struct UnusedHost;

impl Host for UnusedHost {
    fn serve(&self, _from: Source, _request: &[u8], _reply: &mut Reply, _sender: &Reader) -> Verdict {
        Verdict::Forward
    }
}
