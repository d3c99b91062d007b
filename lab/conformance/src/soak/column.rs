//! Soak of `column`: checks with recorded histories that it never returns outdated rows, with the fast path on each
//! datapath in turn.

use super::{FAR_MAC, FAR_PORT, FAR_V4, FAR_V6, NEAR_MAC, NEAR_V4, NEAR_V6, endpoint, unframe};
use crate::column::FrameDatapath;
use crate::frames::{Datapath, DatapathKind};
use crate::history::{self, Options, Report, TestedFastPath};
use crossbeam_channel::{Sender, bounded};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::store::Store;
use lineside_fastpath::{DropReason, FastPath, FrameVerdict, Reply, Source, Verdict};
use lineside_wire::COLUMN_PORT;
use lineside_wire::frame::{self, Addressing};
use lineside_xdp::XdpError;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// First fault of a datapath that is not in a payload.
type Broken = Arc<Mutex<Option<Fault>>>;

enum Fault {
    /// Fault in a frame that the datapath returned.
    Frame(String),
    /// Error of the operating system.
    System(XdpError),
}

/// Frame to run, and the channel that receives the result.
type Job = (Vec<u8>, Sender<FrameResult>);
type FrameResult = Result<(FrameVerdict, Vec<u8>), XdpError>;

/// Datapath that processes whole frames, in the form of a fast path. It stays in its own thread, because the native
/// datapath requires that.
struct Framed {
    jobs: Sender<Job>,
    asked: AtomicU64,
    broken: Broken,
}

impl Framed {
    /// Opens the datapath and its store. The datapath ends when the returned value is dropped.
    fn open(kind: DatapathKind, broken: &Broken) -> Result<(Self, Arc<Store>), XdpError> {
        let (jobs, work) = bounded::<Job>(0);
        let (opened, is_open) = bounded(1);
        let serve = move || match FrameDatapath::open(kind, &history::geometry(), &endpoint(), COLUMN_PORT) {
            Ok((mut datapath, store)) => {
                // The receiver exists, because it waits for this answer.
                let _ = opened.send(Ok(store));
                for (frame, back) in work {
                    let _ = back.send(datapath.run(&frame));
                }
            }
            Err(error) => _ = opened.send(Err(error)),
        };
        let system = |source| XdpError::System {
            what: "cannot start a thread for the datapath".into(),
            source,
        };
        let thread = std::thread::Builder::new().name("soak-datapath".into());
        thread.spawn(serve).map_err(system)?;
        let store = is_open
            .recv()
            .map_err(|error| system(io::Error::other(error)))??;
        let framed = Self {
            jobs,
            asked: AtomicU64::default(),
            broken: Arc::clone(broken),
        };
        Ok((framed, store))
    }

    fn run(&self, frame: &[u8]) -> FrameResult {
        let ended = || XdpError::System {
            what: "the datapath".into(),
            source: io::Error::other("the datapath's thread has ended"),
        };
        let (back, ran) = bounded(1);
        self.jobs.send((frame.to_vec(), back)).map_err(|_| ended())?;
        ran.recv().map_err(|_| ended())?
    }

    fn breaks(&self, fault: Fault) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert(fault);
    }
}

impl FastPath for Framed {
    fn answer(&self, _: Source, _: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        let number = self.asked.fetch_add(1, Relaxed);
        let v6 = number.is_multiple_of(4);
        let to = Addressing {
            source_mac: FAR_MAC,
            destination_mac: NEAR_MAC,
            vlan: (number / 4).is_multiple_of(4).then_some(7),
            source: if v6 { FAR_V6 } else { FAR_V4 },
            destination: if v6 { NEAR_V6 } else { NEAR_V4 },
            source_port: FAR_PORT,
            destination_port: COLUMN_PORT,
        };
        let mut room = [0; 1514];
        let bytes = frame::build(&mut room, &to, request).unwrap_or(0);
        let broken = match self.run(&room[..bytes]) {
            Ok((FrameVerdict::Transmit, left)) => match unframe(&left, &to, reply) {
                Ok(()) => return Verdict::Reply,
                Err(what) => Fault::Frame(what.to_owned()),
            },
            Ok((FrameVerdict::Pass, left)) if left == room[..bytes] => return Verdict::Forward,
            Ok((FrameVerdict::Pass, _)) => Fault::Frame("a passed frame was changed".into()),
            Ok((FrameVerdict::Drop(_), _)) => Fault::Frame("a valid request was dropped".into()),
            Err(error) => Fault::System(error),
        };
        self.breaks(broken);
        Verdict::Drop(DropReason::NotARequest)
    }
}

/// Checks the rows in the answers of the fast path on this datapath, and returns the report.
///
/// # Errors
/// Error of the operating system.
pub fn run(kind: DatapathKind, options: &Options, progress: &mut dyn FnMut(u64)) -> Result<Report, XdpError> {
    let broken = Broken::default();
    let mut place = || {
        if kind == DatapathKind::Socket {
            let store = Arc::new(Store::anonymous(&history::geometry())?);
            let fastpath = Box::new(ColumnFastPath::new(Arc::clone(&store)));
            return Ok(TestedFastPath { store, fastpath });
        }
        let (fastpath, store) = Framed::open(kind, &broken).map_err(|error| {
            let said = io::Error::other(error.to_string());
            *broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(Fault::System(error));
            said
        })?;
        let fastpath = Box::new(fastpath);
        Ok(TestedFastPath { store, fastpath })
    };
    let checked = history::run_at(options, &mut place, progress);
    let fault = broken.lock().unwrap_or_else(PoisonError::into_inner).take();
    match (checked, fault) {
        (_, Some(Fault::System(error))) => Err(error),
        (Err(source), _) => Err(XdpError::System {
            what: "the soak".into(),
            source,
        }),
        (Ok(mut report), Some(Fault::Frame(what))) => {
            report.wrong += 1;
            report.told.push(what);
            Ok(report)
        }
        (Ok(report), None) => Ok(report),
    }
}
