//! Time that misses and foreign traffic on the same queue lose: with no program, with a program that passes every
//! packet, and with Lineside's program.

use super::arithmetic::{added, added_percent};
use super::bpf::Packets;
use super::setting::{Attached, Setting};
use super::trips::{self, FOREIGN_PORT, Traffic, Trips, Waiting};
use crate::error::{BenchError, Result, io};
use crate::gate::median;
use crate::netns::SERVER_ADDRESS;
use crate::servers::ServerThread;
use crate::sys;
use lineside_wire::{SPV_PORT, SpvCounter};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Number of TXIDs that the misses ask for. They are the first ones of the workload; the fast-path table contains the
/// other half.
pub const MISSING: u64 = 1 << 19;
/// Minimum number of rounds of the measurement of a program alone.
const PROGRAM_ROUNDS_MIN: usize = 5;
/// Duration of the run in which the kernel counts the runs of a program.
const COUNTED: Duration = Duration::from_millis(20);
/// Maximum number of runs of live frames for one figure, if the kernel loses packets before the socket.
const ATTEMPTS: usize = 5;
/// Time after the last live frame in which the kernel may still process frames.
const LATE_PACKET_WAIT: Duration = Duration::from_millis(10);
/// Size of the payload of a foreign packet in bytes: that of a request in the paper's format.
const PAYLOAD_BYTES: usize = 32;

/// Median of the round trips of a socket client with one request in flight, and the differences between programs. A
/// difference is the median of the rounds' differences.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrips {
    /// Traffic that was sent.
    pub traffic: Traffic,
    /// Way in which the server waits.
    pub waiting: Waiting,
    /// Median round trip without a program, in microseconds.
    pub none_us: f64,
    /// Median round trip with the program that passes every packet, in microseconds.
    pub pass_us: f64,
    /// Median round trip with Lineside's program, in microseconds.
    pub ours_us: f64,
    /// Time that the program that passes every packet adds, in nanoseconds.
    pub pass_added_ns: f64,
    /// Time that Lineside's program adds compared with no program, in nanoseconds.
    pub ours_added_ns: f64,
    /// Time that Lineside's program adds compared with the program that passes every packet, in nanoseconds.
    pub ours_over_pass_ns: f64,
    /// Time that Lineside's program adds compared with no program, in percent of the round trip without a program.
    pub ours_added_percent: f64,
    /// Number of requests of all rounds and programs.
    pub sent: u64,
}

/// Time in which the queue of the interface processes one packet, up to the socket that drops it, including the
/// generator. The packets are live frames, as a network card's driver would pass them to the program.
#[derive(Clone, Debug, Serialize)]
pub struct QueueTime {
    /// Traffic that was sent.
    pub traffic: Traffic,
    /// Median time of a packet without a program, in nanoseconds.
    pub none_ns: f64,
    /// Median time of a packet with the program that passes every packet, in nanoseconds.
    pub pass_ns: f64,
    /// Median time of a packet with Lineside's program, in nanoseconds.
    pub ours_ns: f64,
    /// Time that the program that passes every packet adds, in nanoseconds.
    pub pass_added_ns: f64,
    /// Time that Lineside's program adds compared with no program, in nanoseconds.
    pub ours_added_ns: f64,
    /// Number of packets of all rounds and programs. The kernel counted exactly as many datagrams at the socket.
    pub sent: u64,
}

/// Time of Lineside's program alone for a packet that it passes on, by BPF_PROG_TEST_RUN, without the time of the
/// program that passes every packet.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ProgramTime {
    /// Minimum of the rounds, in nanoseconds.
    pub min_ns: f64,
    /// Median of the rounds, in nanoseconds.
    pub median_ns: f64,
}

/// Runs of the attached program by the kernel's statistics, which themselves add to the run time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CountedRuns {
    /// Traffic that was sent.
    pub traffic: Traffic,
    /// Attached program.
    pub program: Attached,
    /// Number of requests that the server received.
    pub served: u64,
    /// Number of runs of the program.
    pub runs: u64,
    /// Run time of the program, in nanoseconds.
    pub ns: f64,
}

/// Rate of one TCP connection that sends as much as it can, in megabytes a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bulk {
    /// Rate without a program.
    pub none_mb_s: f64,
    /// Rate with the program that passes every packet.
    pub pass_mb_s: f64,
    /// Rate with Lineside's program.
    pub ours_mb_s: f64,
}

/// Counts of all runs of this part.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Number of requests that clients sent.
    pub sent: u64,
    /// Number of right replies.
    pub right: u64,
    /// Number of wrong replies.
    pub wrong: u64,
    /// Number of requests that servers received, by their own count.
    pub served: u64,
    /// Number of misses that clients sent while Lineside's program was attached.
    pub misses_sent: u64,
    /// Number of misses that Lineside's program counted.
    pub misses_counted: u64,
    /// Number of hits that Lineside's program counted, although no request should hit.
    pub hits: u64,
}

/// Figures of this part.
#[derive(Clone, Debug, Serialize)]
pub struct Losses {
    /// Round trips of a socket client.
    pub round_trips: Vec<RoundTrips>,
    /// Times of a packet in the queue.
    pub queue: Vec<QueueTime>,
    /// Times of Lineside's program alone, by the kind of packet.
    pub program: BTreeMap<&'static str, ProgramTime>,
    /// Runs that the kernel counted.
    pub counted_runs: Vec<CountedRuns>,
    /// TCP connection that sends as much as it can.
    pub bulk: Bulk,
    /// Counts of all runs.
    pub counts: Counts,
}

impl Losses {
    /// Returns the round trips of a kind of traffic and a kind of server.
    pub fn trips(&self, traffic: Traffic, waiting: Waiting) -> Option<&RoundTrips> {
        let is_it = |trips: &&RoundTrips| trips.traffic == traffic && trips.waiting == waiting;
        self.round_trips.iter().find(is_it)
    }

    /// Returns the times of a packet in the queue.
    pub fn queue(&self, traffic: Traffic) -> Option<&QueueTime> {
        self.queue.iter().find(|queue| queue.traffic == traffic)
    }
}

/// Sizes of the runs.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of a run of a socket client.
    pub duration: Duration,
    /// Number of packets of a run of live frames.
    pub packets: u32,
    /// Number of calls of a program in a round of BPF_PROG_TEST_RUN.
    pub calls: u32,
}

type Samples<K> = BTreeMap<(K, Attached), Vec<f64>>;

/// Returns the number of steps of [`measure`].
pub fn steps(sizes: &Sizes) -> usize {
    sizes.rounds * 2 + 2
}

/// Measures all figures. The fast-path table must not contain the first [`MISSING`] TXIDs.
pub fn measure(setting: &mut Setting, sizes: &Sizes, tell: &mut dyn FnMut(&'static str)) -> Result<Losses> {
    let mut counts = Counts::default();
    let (mut trips, mut queue, mut bulk) = (Samples::new(), Samples::new(), Samples::new());
    let (mut asked, mut framed) = (BTreeMap::new(), BTreeMap::new());
    for round in 0..sizes.rounds {
        tell("round trips");
        for (traffic, waiting) in kinds() {
            for place in 0..Attached::ALL.len() {
                // Each round begins with another program.
                let program = Attached::ALL[(place + round) % Attached::ALL.len()];
                let run = ask(setting, traffic, waiting, program, sizes.duration, &mut counts)?;
                let median_ns = run.median_ns().ok_or_else(|| no_reply(traffic, program))?;
                trips
                    .entry(((traffic, waiting), program))
                    .or_default()
                    .push(median_ns);
                *asked.entry((traffic, waiting)).or_default() += run.sent;
            }
        }
        tell("packets in the queue");
        for traffic in [Traffic::Miss, Traffic::ForeignUdp] {
            for place in 0..Attached::ALL.len() {
                let program = Attached::ALL[(place + round) % Attached::ALL.len()];
                let ns = queue_ns(setting, traffic, program, sizes.packets, &mut counts)?;
                queue.entry((traffic, program)).or_default().push(ns);
                *framed.entry(traffic).or_default() += u64::from(sizes.packets);
            }
        }
        for place in 0..Attached::ALL.len() {
            let program = Attached::ALL[(place + round) % Attached::ALL.len()];
            let _attached = setting.attach(program)?;
            let (_, mb_s) = trips::bulk(setting, sizes.duration)?;
            bulk.entry(((), program)).or_default().push(mb_s);
        }
    }
    tell("the program alone");
    let program = programs(setting, sizes)?;
    tell("counted runs");
    let counted_runs = counted_runs(setting, &mut counts)?;
    let median_of = |which| median(bulk.get(&((), which)).into_iter().flatten().copied()).unwrap_or_default();
    Ok(Losses {
        round_trips: kinds()
            .filter_map(|kind| round_trips(&trips, kind, asked.get(&kind).copied()?))
            .collect(),
        queue: Traffic::ALL
            .into_iter()
            .filter_map(|traffic| queue_time(&queue, traffic, framed.get(&traffic).copied()?))
            .collect(),
        program,
        counted_runs,
        bulk: Bulk {
            none_mb_s: median_of(Attached::None),
            pass_mb_s: median_of(Attached::Pass),
            ours_mb_s: median_of(Attached::Ours),
        },
        counts,
    })
}

fn kinds() -> impl Iterator<Item = (Traffic, Waiting)> {
    let with_waiting = |traffic| Waiting::ALL.map(|waiting| (traffic, waiting));
    Traffic::ALL.into_iter().flat_map(with_waiting)
}

fn no_reply(traffic: Traffic, program: Attached) -> BenchError {
    let (traffic, program) = (traffic.name(), program.name());
    BenchError::Void(format!("no request of `{traffic}` was answered with `{program}`"))
}

/// Runs a socket client, and adds its counts.
fn ask(
    setting: &mut Setting,
    traffic: Traffic,
    waiting: Waiting,
    program: Attached,
    duration: Duration,
    counts: &mut Counts,
) -> Result<Trips> {
    let misses = setting.field.fastpath.count(SpvCounter::Misses)?;
    let hits = setting.field.fastpath.hits()?;
    let attached = setting.attach(program)?;
    let run = trips::run(setting, traffic, waiting, MISSING, duration)?;
    drop(attached);
    counts.sent += run.sent;
    counts.right += run.right;
    counts.wrong += run.wrong;
    counts.served += run.served;
    if traffic == Traffic::Miss && program == Attached::Ours {
        counts.misses_sent += run.sent;
    }
    counts.misses_counted += setting.field.fastpath.count(SpvCounter::Misses)? - misses;
    counts.hits += setting.field.fastpath.hits()? - hits;
    Ok(run)
}

fn round_trips(
    samples: &Samples<(Traffic, Waiting)>,
    kind: (Traffic, Waiting),
    sent: u64,
) -> Option<RoundTrips> {
    let [none, pass, ours] = Attached::ALL.map(|program| samples.get(&(kind, program)));
    let (none, pass, ours) = (none?, pass?, ours?);
    let us = |ns: &[f64]| Some(median(ns.iter().copied())? / 1e3);
    Some(RoundTrips {
        traffic: kind.0,
        waiting: kind.1,
        none_us: us(none)?,
        pass_us: us(pass)?,
        ours_us: us(ours)?,
        pass_added_ns: added(pass, none)?,
        ours_added_ns: added(ours, none)?,
        ours_over_pass_ns: added(ours, pass)?,
        ours_added_percent: added_percent(ours, none)?,
        sent,
    })
}

fn queue_time(samples: &Samples<Traffic>, traffic: Traffic, sent: u64) -> Option<QueueTime> {
    let [none, pass, ours] = Attached::ALL.map(|program| samples.get(&(traffic, program)));
    let (none, pass, ours) = (none?, pass?, ours?);
    Some(QueueTime {
        traffic,
        none_ns: median(none.iter().copied())?,
        pass_ns: median(pass.iter().copied())?,
        ours_ns: median(ours.iter().copied())?,
        pass_added_ns: added(pass, none)?,
        ours_added_ns: added(ours, none)?,
        sent,
    })
}

fn packets(traffic: Traffic) -> Packets {
    match traffic {
        Traffic::Miss => Packets::udp(SPV_PORT, &[0x4d; PAYLOAD_BYTES], 0, u64::MAX),
        Traffic::ForeignUdp => Packets::udp(FOREIGN_PORT, &[0x4d; PAYLOAD_BYTES], 0, u64::MAX),
        Traffic::ForeignTcp => Packets::tcp(FOREIGN_PORT),
    }
}

/// Returns the time of one packet in the queue. The packets go to a socket whose buffer is full after the first ones,
/// so that the kernel drops the others there. A run in which the kernel lost packets before the socket is repeated.
fn queue_ns(
    setting: &mut Setting,
    traffic: Traffic,
    program: Attached,
    count: u32,
    counts: &mut Counts,
) -> Result<f64> {
    let misses = setting.field.fastpath.count(SpvCounter::Misses)?;
    let _attached = setting.attach(program)?;
    let mut arrived = 0;
    for _ in 0..ATTEMPTS {
        let (ns, found) = frames(setting, traffic, count)?;
        arrived = found;
        if traffic == Traffic::Miss && program == Attached::Ours {
            counts.misses_sent += arrived;
        }
        if arrived == u64::from(count) {
            counts.misses_counted += setting.field.fastpath.count(SpvCounter::Misses)? - misses;
            return Ok(ns);
        }
    }
    Err(BenchError::Void(format!(
        "of {count} packets of `{}`, only {arrived} reached the socket with `{}`: repeat the run on a quiet machine",
        traffic.name(),
        program.name()
    )))
}

/// Sends live frames. Returns the time of one of them, and the number of datagrams that reached the socket.
fn frames(setting: &Setting, traffic: Traffic, count: u32) -> Result<(f64, u64)> {
    let port = match traffic {
        Traffic::Miss => SPV_PORT,
        _ => FOREIGN_PORT,
    };
    let sink = ServerThread::start(&setting.field.pair, move |stop, ready| {
        let socket = UdpSocket::bind((SERVER_ADDRESS, port)).map_err(io("binding a server's socket"))?;
        socket
            .set_nonblocking(true)
            .map_err(io("setting up a server's socket"))?;
        crate::servers::wait(stop, &ready);
        // The kernel counts a datagram in the buffer only when it is read.
        while socket.recv(&mut [0; 64]).is_ok() {}
        Ok(())
    })?;
    let before = arrived(setting)?;
    let packets = packets(traffic);
    let interface = setting.field.pair.client_index;
    let programs = &setting.programs;
    let ns = setting.on_client(|| {
        let _passing = programs.attach_pass(interface)?;
        programs.live_ns(&packets, interface, count)
    })?;
    std::thread::sleep(LATE_PACKET_WAIT);
    sink.end()?;
    Ok((ns, arrived(setting)? - before))
}

/// Returns the number of UDP datagrams that reached a socket in the server's namespace and were read or dropped there.
fn arrived(setting: &Setting) -> Result<u64> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let text = (setting.field.pair.server).within(|| read().map_err(io("reading the counters of UDP")))?;
    udp_arrived(&text)
        .ok_or_else(|| BenchError::Void("/proc/net/snmp does not have the counters of UDP".into()))
}

/// Returns the sum of `InDatagrams` and `RcvbufErrors` of the two lines `Udp:`, which have names and values.
fn udp_arrived(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let names = lines.next()?.split_whitespace();
    let values = lines.next()?.split_whitespace();
    let wanted = names
        .zip(values)
        .filter(|(name, _)| matches!(*name, "InDatagrams" | "RcvbufErrors"));
    let values: Vec<u64> = wanted.filter_map(|(_, value)| value.parse().ok()).collect();
    (values.len() == 2).then(|| values.iter().sum())
}

/// Measures Lineside's program alone.
fn programs(setting: &mut Setting, sizes: &Sizes) -> Result<BTreeMap<&'static str, ProgramTime>> {
    let hot = Packets::udp(SPV_PORT, &[0x4d; PAYLOAD_BYTES], 0, 0);
    let kinds = [
        ("miss, random", packets(Traffic::Miss)),
        ("miss, always the same", hot),
        ("foreign UDP", packets(Traffic::ForeignUdp)),
        ("foreign TCP", packets(Traffic::ForeignTcp)),
    ];
    let mut found = BTreeMap::new();
    for (name, packets) in kinds {
        let root = setting.program(Attached::Ours)?;
        let root = root.ok_or_else(|| BenchError::Void("ls_root is not loaded".into()))?;
        let misses = setting.field.fastpath.count(SpvCounter::Misses)?;
        found.insert(name, program_time(setting, &packets, root.as_fd(), sizes)?);
        let counted = setting.field.fastpath.count(SpvCounter::Misses)? - misses;
        let due = if name.starts_with("miss") {
            program_calls(sizes)
        } else {
            0
        };
        if counted != due {
            return Err(BenchError::Void(format!(
                "the program should have counted {due} misses of `{name}`, but counted {counted}"
            )));
        }
    }
    Ok(found)
}

fn program_rounds(sizes: &Sizes) -> usize {
    sizes.rounds.max(PROGRAM_ROUNDS_MIN)
}

/// Returns the number of calls of a program in [`program_time`].
pub fn program_calls(sizes: &Sizes) -> u64 {
    program_rounds(sizes) as u64 * u64::from(sizes.calls)
}

/// Measures `root` alone with packets that it passes on.
pub fn program_time(
    setting: &Setting,
    packets: &Packets,
    root: BorrowedFd<'_>,
    sizes: &Sizes,
) -> Result<ProgramTime> {
    let programs = &setting.programs;
    setting.on_client(|| {
        let pass = programs.pass()?;
        let mut costs = Vec::with_capacity(sizes.rounds);
        for _ in 0..program_rounds(sizes) {
            let trivial = programs.program_ns(packets, pass.as_fd(), sizes.calls)?;
            costs.push(programs.program_ns(packets, root, sizes.calls)? - trivial);
        }
        Ok(ProgramTime {
            min_ns: costs.iter().copied().fold(f64::MAX, f64::min),
            median_ns: median(costs.iter().copied()).unwrap_or_default(),
        })
    })
}

/// Runs each case once more while the kernel counts the runs of programs, which shows that the program was attached.
fn counted_runs(setting: &mut Setting, counts: &mut Counts) -> Result<Vec<CountedRuns>> {
    let _on = sys::count_run_time().map_err(io("turning on the run time of BPF programs"))?;
    let mut found = Vec::new();
    for traffic in Traffic::ALL {
        for program in Attached::ALL {
            let before = setting.statistics(program)?;
            let run = ask(setting, traffic, Waiting::Blocking, program, COUNTED, counts)?;
            let after = setting.statistics(program)?;
            let runs = after.runs - before.runs;
            found.push(CountedRuns {
                traffic,
                program,
                served: run.served,
                runs,
                ns: (after.run_time_ns - before.run_time_ns) as f64 / (runs.max(1)) as f64,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_counted_whether_the_socket_dropped_them_or_not() {
        let snmp = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
                    Udp: 5 1 30 2 30 9\nUdpLite: InDatagrams\nUdpLite: 77\n";
        assert_eq!(udp_arrived(snmp), Some(35));
        assert_eq!(udp_arrived("Udp: InDatagrams\nUdp: 5\n"), None);
    }

    #[test]
    fn the_figures_of_a_round_trip_are_medians_of_the_rounds() {
        let kind = (Traffic::Miss, Waiting::Polling);
        let samples = BTreeMap::from([
            ((kind, Attached::None), vec![4_000.0, 5_000.0, 4_200.0]),
            ((kind, Attached::Pass), vec![4_100.0, 5_050.0, 4_200.0]),
            ((kind, Attached::Ours), vec![4_200.0, 5_150.0, 4_263.0]),
        ]);
        let found = round_trips(&samples, kind, 9).unwrap();
        assert_eq!((found.none_us, found.pass_us, found.ours_us), (4.2, 4.2, 4.263));
        // 100, 50 and 0; 200, 150 and 63; 100, 100 and 63; 5 %, 3 % and 1.5 %.
        assert_eq!((found.pass_added_ns, found.ours_added_ns), (50.0, 150.0));
        assert_eq!((found.ours_over_pass_ns, found.ours_added_percent), (100.0, 3.0));
        assert!(round_trips(&samples, (Traffic::Miss, Waiting::Blocking), 9).is_none());
    }
}
