//! Progress of a CPU-bound neighbour on the server's core, while requests arrive at a fixed rate and are answered by
//! XDP or by sockets.

use super::arithmetic::{core_ns, progress_percent};
use super::napi;
use super::setting::{Attached, Setting};
use crate::error::{BenchError, Result, io};
use crate::gate::median;
use crate::netns::SERVER_ADDRESS;
use crate::servers::{self, ServerThread, Software};
use crate::sys::{self, BATCH, Batch};
use crate::workload::Workload;
use lineside_wire::SPV_PORT;
use serde::Serialize;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of iterations of the neighbour's loop between two checks whether it must stop.
const CHUNK: u64 = 2_000;
/// Time after the last request in which replies may still arrive.
const LATE_REPLY_WAIT: Duration = Duration::from_millis(50);

/// Contestant that answers the requests on the neighbour's core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Lineside's XDP datapath, with all TXIDs in its table.
    Xdp,
    /// Lineside's socket datapath.
    Socket,
    /// The paper's software: one thread with recvfrom and sendto.
    Sw,
}

impl By {
    /// All contestants.
    pub const ALL: [Self; 3] = [Self::Xdp, Self::Socket, Self::Sw];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Socket => "socket",
            Self::Sw => "sw",
        }
    }
}

/// Neighbour's progress at one rate. Figures are medians of the rounds, counts are sums.
#[derive(Clone, Debug, Serialize)]
pub struct Progress {
    /// Contestant that answers the requests.
    pub by: By,
    /// Requests a second that the client should send.
    pub offered_per_s: u32,
    /// Right replies a second.
    pub answered_per_s: f64,
    /// Neighbour's work per second, in percent of its work per second on an idle core.
    pub progress_percent: f64,
    /// Time that an answered request takes from the core, in nanoseconds; `None` without answers.
    pub core_ns_per_request: Option<f64>,
    /// Number of requests that were sent.
    pub sent: u64,
    /// Number of right replies.
    pub right: u64,
    /// Number of replies that differ from every root of the workload.
    pub wrong: u64,
}

/// Sizes of the runs.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of a run.
    pub duration: Duration,
    /// Requests a second.
    pub rates: &'static [u32],
}

/// Returns the number of steps of [`measure`].
pub const fn steps(sizes: &Sizes) -> usize {
    sizes.rounds
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    sent: u64,
    right: u64,
    wrong: u64,
    took_ns: f64,
    percent: f64,
}

/// Measures all contestants at all rates. All TXIDs must be in the fast-path table. From then on, the server's core
/// processes what the server's interface receives.
pub fn measure(
    setting: &Setting,
    sizes: &Sizes,
    tell: &mut dyn FnMut(&'static str),
) -> Result<Vec<Progress>> {
    napi::place_queues(&setting.field.pair)?;
    let runs: Vec<(By, u32)> = By::ALL
        .into_iter()
        .flat_map(|by| sizes.rates.iter().map(move |rate| (by, *rate)))
        .collect();
    let mut samples: BTreeMap<(By, u32), Vec<Sample>> = BTreeMap::new();
    for round in 0..sizes.rounds {
        tell("the neighbour's progress");
        let idle = idle(setting, sizes.duration)?;
        for place in 0..runs.len() {
            let (by, rate) = runs[(place + round * 2) % runs.len()];
            let (mut sample, work) = loaded(setting, by, rate, sizes.duration)?;
            let percent = progress_percent(work, idle);
            sample.percent =
                percent.ok_or_else(|| BenchError::Void("the neighbour made no progress".into()))?;
            samples.entry((by, rate)).or_default().push(sample);
        }
    }
    Ok(samples
        .iter()
        .filter_map(|(run, samples)| progress(*run, samples))
        .collect())
}

fn progress((by, offered_per_s): (By, u32), samples: &[Sample]) -> Option<Progress> {
    let of = |of: fn(&Sample) -> f64| median(samples.iter().map(of));
    let sum = |of: fn(&Sample) -> u64| samples.iter().map(of).sum();
    let core = samples
        .iter()
        .filter_map(|sample| core_ns(sample.percent, sample.took_ns, sample.right));
    Some(Progress {
        by,
        offered_per_s,
        answered_per_s: of(|sample| sample.right as f64 * 1e9 / sample.took_ns)?,
        progress_percent: of(|sample| sample.percent)?,
        core_ns_per_request: median(core),
        sent: sum(|sample| sample.sent),
        right: sum(|sample| sample.right),
        wrong: sum(|sample| sample.wrong),
    })
}

/// Neighbour on the server's core.
struct Neighbour {
    done: Arc<AtomicU64>,
    thread: ServerThread,
}

impl Neighbour {
    fn start(setting: &Setting) -> Result<Self> {
        let done = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&done);
        let thread = ServerThread::start(&setting.field.pair, move |stop, ready| {
            let _ = ready.send(());
            work(stop, &theirs);
            Ok(())
        })?;
        Ok(Self { done, thread })
    }
}

/// Works until it must stop: each iteration needs the result of the one before. Counts the iterations.
fn work(stop: &AtomicBool, done: &AtomicU64) {
    let mut value = 1u64;
    while !stop.load(Relaxed) {
        for _ in 0..CHUNK {
            value = value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            value ^= value >> 29;
        }
        black_box(value);
        done.fetch_add(CHUNK, Relaxed);
    }
}

/// Returns the neighbour's iterations per second without load.
fn idle(setting: &Setting, duration: Duration) -> Result<f64> {
    let neighbour = Neighbour::start(setting)?;
    let (from, from_ns) = (neighbour.done.load(Relaxed), sys::now_ns());
    std::thread::sleep(duration);
    let iterations = neighbour.done.load(Relaxed) - from;
    let took_ns = sys::now_ns() - from_ns;
    neighbour.thread.end()?;
    Ok(iterations as f64 * 1e9 / took_ns as f64)
}

/// Runs a contestant with load and with the neighbour. Returns the counts, and the neighbour's iterations per second.
fn loaded(setting: &Setting, by: By, rate: u32, duration: Duration) -> Result<(Sample, f64)> {
    let field = &setting.field;
    let server = match by {
        By::Xdp => None,
        By::Socket => Some(servers::start(&field.pair, Software::Socket, &field.truth)?),
        By::Sw => Some(servers::start(&field.pair, Software::Sw, &field.truth)?),
    };
    let attached = setting.attach(if by == By::Xdp {
        Attached::Ours
    } else {
        Attached::None
    })?;
    let neighbour = Neighbour::start(setting)?;
    let (programs, interface) = (&setting.programs, field.pair.client_index);
    let (workload, done) = (&*field.workload, &*neighbour.done);
    let found = setting.on_client(|| {
        // Frames that XDP_TX returns need a program at the receiving interface; sockets get the same one.
        let _passing = programs.attach_pass(interface)?;
        offer(workload, rate, duration, done)
    });
    neighbour.thread.end()?;
    drop(attached);
    server.map_or(Ok(()), ServerThread::end)?;
    found
}

/// Sends `rate` requests per second, whether replies arrive or not. Returns the counts, and the neighbour's iterations
/// per second in this time.
fn offer(workload: &Workload, rate: u32, duration: Duration, done: &AtomicU64) -> Result<(Sample, f64)> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(io("binding the client's socket"))?;
    socket
        .connect((SERVER_ADDRESS, SPV_PORT))
        .and_then(|()| socket.set_nonblocking(true))
        .map_err(io("connecting the client's socket"))?;
    let (mut replies, mut sample) = (Batch::default(), Sample::default());
    let (from, from_ns) = (done.load(Relaxed), sys::now_ns());
    let ends_ns = from_ns + duration.as_nanos() as u64;
    let mut now_ns = from_ns;
    while now_ns < ends_ns {
        let due = u128::from(now_ns - from_ns) * u128::from(rate) / 1_000_000_000;
        for _ in 0..BATCH {
            // A request that the socket refuses is sent again at once, because it is still due.
            if u128::from(sample.sent) > due || socket.send(workload.request(sample.sent)).is_err() {
                break;
            }
            sample.sent += 1;
        }
        receive(&socket, &mut replies, workload, &mut sample);
        now_ns = sys::now_ns();
    }
    let iterations = done.load(Relaxed) - from;
    sample.took_ns = (now_ns - from_ns) as f64;
    let late_ns = now_ns + LATE_REPLY_WAIT.as_nanos() as u64;
    while sample.right + sample.wrong < sample.sent && sys::now_ns() < late_ns {
        receive(&socket, &mut replies, workload, &mut sample);
    }
    Ok((sample, iterations as f64 * 1e9 / sample.took_ns))
}

/// Counts the replies that have arrived. A reply does not name its request, but its last two bytes are the number of a
/// block, whose root the reply must be.
fn receive(socket: &UdpSocket, replies: &mut Batch, workload: &Workload, sample: &mut Sample) {
    for index in 0..replies.receive(socket) {
        let reply = replies.get(index);
        let block = reply
            .get(30..32)
            .map(|mark| u16::from_le_bytes([mark[0], mark[1]]));
        let root = block.and_then(|block| workload.roots.get(usize::from(block)));
        match root.is_some_and(|root| root == reply) {
            true => sample.right += 1,
            false => sample.wrong += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_and_counts_are_sums() {
        let sample = |right, percent| Sample {
            sent: 1_000,
            right,
            wrong: 0,
            took_ns: 1e9,
            percent,
        };
        let samples = [sample(1_000, 90.0), sample(800, 80.0), sample(900, 60.0)];
        let found = progress((By::Sw, 1_000), &samples).unwrap();
        assert_eq!((found.answered_per_s, found.progress_percent), (900.0, 80.0));
        // 0.1 s / 1,000, 0.2 s / 800 and 0.4 s / 900.
        let core_ns = found.core_ns_per_request.unwrap();
        assert!((core_ns - 250_000.0).abs() < 1e-6, "{core_ns}");
        assert_eq!((found.sent, found.right), (3_000, 2_700));
    }

    #[test]
    fn the_neighbour_counts_whole_chunks_until_it_must_stop() {
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| work(&stop, &done));
            while done.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
            stop.store(true, Relaxed);
        });
        assert_eq!(done.load(Relaxed) % CHUNK, 0);
    }
}
