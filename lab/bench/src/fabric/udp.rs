//! Measurement of the block protocol over UDP: the bytes that it saves, the rate at which one thread reassembles
//! blocks, the cost of packet loss, and the latency of the slowest block.

use super::workload::Blocks;
use crate::error::{BenchError, Result, io};
use crate::gate::median;
use crate::sys;
use crate::wrong::{WrongReplies, WrongReply, hex};
use lineside_fabric_udp::driver::{self, BlockSource};
use lineside_fabric_udp::{
    BlockSink, PollResult, Receiver, ReceiverOptions, Sender, SenderOptions, SharedKey,
};
use serde::Serialize;
use std::fmt::{self, Formatter};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Maximum UDP payload of an Ethernet frame and of a jumbo frame, in bytes. Only the results with the first size must
/// reach the gates (required values) of the bench.
pub(super) const PAYLOADS: [usize; 2] = [1_472, 8_972];
/// Size of the IPv4 and UDP headers together, in bytes.
const DATAGRAM_OVERHEAD_BYTES: u64 = 28;
/// Bytes that a frame takes on Ethernet in addition to its IP packet: preamble, header, checksum and gap.
const ETHERNET_OVERHEAD_BYTES: u64 = 8 + 14 + 4 + 12;
const LOST_PERCENT: u64 = 5;
/// Offered rate of the latency measurement in transactions per second, for which the bench's gate (required value) is
/// defined.
pub(super) const OFFERED_TPS: f64 = 50_000.0;
/// Step of the simulated network's clock, and delay of the network, in nanoseconds.
const STEP_NS: u64 = 50_000;
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
const KEY: [u8; 32] = [7; 32];

/// Figures for one size of datagrams, over the blocks of the case to which the gates (required values) apply.
#[derive(Clone, Debug, Serialize)]
pub struct Udp {
    /// Maximum payload of a datagram, in bytes.
    pub payload_bytes: usize,
    /// Number of transactions that were sent.
    pub transactions: u64,
    /// Saved bytes as a percentage of the bytes of the blocks. The sent bytes include IPv4 and UDP headers,
    /// announcements, and the filling of the receiver's cache.
    pub saved_percent: f64,
    /// Number of bytes per transaction, counted in the same way.
    pub bytes_per_tx: f64,
    /// Number of transactions per second of one thread's processor time, including the MAC and the data hash but not
    /// the sockets.
    pub tps: f64,
    /// Number of transactions per second of processor time without the data hash.
    pub tps_no_data_hash: f64,
    /// Reduction of `tps` by 5 % lost datagrams, in percent.
    pub loss_cost_percent: f64,
    /// Latency over sockets on loopback, from the time at which a block was available to the sender until the receiver
    /// passed it on.
    pub sockets: LatencyFigures,
    /// Latency over a simulated network with a delay of 50 us in each direction and a simulated clock.
    pub simulated: LatencyFigures,
    /// Latency over the simulated network with 5 % loss in each direction.
    pub simulated_lossy: LatencyFigures,
}

/// Latency of blocks at 50,000 transactions per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyFigures {
    /// Median latency.
    pub p50_ms: f64,
    /// 99th percentile of the latency.
    pub p99_ms: f64,
    /// Maximum latency.
    pub max_ms: f64,
}

impl LatencyFigures {
    pub(super) fn of(mut ms: Vec<f64>) -> Option<Self> {
        ms.sort_by(f64::total_cmp);
        let quantile = |of: f64| {
            ms.get(((ms.len() as f64 * of).ceil() as usize).max(1) - 1)
                .copied()
        };
        Some(Self {
            p50_ms: quantile(0.5)?,
            p99_ms: quantile(0.99)?,
            max_ms: quantile(1.0)?,
        })
    }
}

/// Blocks to send.
pub(super) struct BlocksToSend {
    pub(super) first: u64,
    pub(super) blocks: Vec<Arc<[u8]>>,
    pub(super) transactions: u64,
    key: SharedKey,
}

impl BlocksToSend {
    fn receiver(&self, data_hash: bool) -> Receiver {
        let options = ReceiverOptions {
            data_hash,
            ..ReceiverOptions::default()
        };
        Receiver::new(self.key.clone(), [2; 16], self.first, options)
    }

    fn sender(&self, payload_bytes: usize) -> Sender {
        let options = SenderOptions {
            payload_bytes,
            ..SenderOptions::default()
        };
        Sender::new(self.key.clone(), [1; 16], options)
    }

    /// Returns the time in nanoseconds from the start of the run at which block `index` is available to the sender.
    pub(super) fn due_ns(&self, index: usize) -> u64 {
        let before = self.transactions as f64 / self.blocks.len() as f64 * index as f64;
        (before / OFFERED_TPS * 1e9) as u64
    }
}

/// Datagrams that the simulated network has carried.
struct CarriedDatagrams {
    /// Datagrams that have reached the receiver.
    arrived: Vec<Vec<u8>>,
    /// Number of bytes sent to the receiver, in payloads and headers.
    bytes: u64,
    late_ms: Vec<f64>,
}

/// Receiver that compares the received blocks with the sent ones.
struct Check<'a> {
    sent: &'a BlocksToSend,
    /// True if blocks are compared byte by byte, in runs that measure no time; false if only their lengths are
    /// compared.
    exact: bool,
    next: usize,
    wrong: WrongReplies,
    last: Option<Vec<u8>>,
}

impl<'a> Check<'a> {
    fn new(sent: &'a BlocksToSend, exact: bool) -> Self {
        Self {
            sent,
            exact,
            next: 0,
            wrong: WrongReplies::default(),
            last: None,
        }
    }

    fn done(&self) -> bool {
        self.next == self.sent.blocks.len()
    }
}

impl BlockSink for Check<'_> {
    fn on_block(&mut self, number: u64, bytes: Vec<u8>) {
        let same = |block: &Arc<[u8]>| match self.exact {
            true => bytes[..] == block[..],
            false => bytes.len() == block.len(),
        };
        let right =
            number == self.sent.first + self.next as u64 && self.sent.blocks.get(self.next).is_some_and(same);
        if !right {
            let (due, sent) = (
                self.sent.first + self.next as u64,
                self.sent.blocks.get(self.next),
            );
            self.wrong.add(|| {
                let sent = sent.map_or_else(|| "no block".into(), |block| hex(block));
                WrongReply::new(
                    format!("block {due}"),
                    format!("block {number}: {}", hex(&bytes)),
                    sent,
                )
            });
        }
        self.next += 1;
        self.last = Some(bytes);
    }

    fn on_gap(&mut self, from: u64, to: u64) {
        self.wrong.add(|| {
            WrongReply::new(
                format!("blocks from {from}"),
                format!("a gap up to {to}"),
                "no gap",
            )
        });
    }
}

fn simulate(sent: &BlocksToSend, payload_bytes: usize, lost_percent: u64) -> Result<CarriedDatagrams> {
    let (mut sender, mut receiver) = (sent.sender(payload_bytes), sent.receiver(true));
    let mut flow = CarriedDatagrams {
        arrived: Vec::new(),
        bytes: 0,
        late_ms: Vec::new(),
    };
    let (mut check, mut out, mut pushed, mut random) = (Check::new(sent, true), Vec::new(), 0, 1u64);
    let mut lost = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % 100 < lost_percent
    };
    let (mut now_ns, mut begun_ns, mut answers) = (0u64, None, Vec::<Vec<u8>>::new());
    while !check.done() {
        for answer in std::mem::take(&mut answers) {
            sender.datagram(now_ns, &answer);
        }
        if sender.joined() && begun_ns.is_none() {
            begun_ns = Some(now_ns);
        }
        let begun = begun_ns.unwrap_or(u64::MAX);
        while pushed < sent.blocks.len() && now_ns >= begun.saturating_add(sent.due_ns(pushed)) {
            sender.push(sent.first + pushed as u64, Arc::clone(&sent.blocks[pushed]));
            pushed += 1;
        }
        while sender.poll(now_ns, &mut out) == PollResult::Datagram {
            flow.bytes += out.len() as u64 + DATAGRAM_OVERHEAD_BYTES;
            if lost() {
                continue;
            }
            receiver.datagram(now_ns + STEP_NS, &out, &mut check);
            flow.arrived.push(out.clone());
            while flow.late_ms.len() < check.next {
                let due = begun + sent.due_ns(flow.late_ms.len());
                flow.late_ms.push((now_ns + STEP_NS - due) as f64 / 1e6);
            }
        }
        now_ns += STEP_NS;
        if receiver.write_request(now_ns, &mut out) && !lost() {
            answers.push(out.clone());
        }
        if check.wrong.count > 0 || now_ns > 600_000_000_000 {
            return Err(BenchError::Void(format!(
                "{} blocks differ from the sent ones; {} of {} blocks arrived\n{}",
                check.wrong.count,
                check.next,
                sent.blocks.len(),
                check.wrong
            )));
        }
    }
    Ok(flow)
}

/// Returns the processor time of reassembling all blocks from datagrams.
fn receive_ns(sent: &BlocksToSend, arrived: &[Vec<u8>], data_hash: bool) -> Result<u64> {
    let (mut receiver, mut check) = (sent.receiver(data_hash), Check::new(sent, false));
    let before = sys::thread_ns();
    for datagram in arrived {
        receiver.datagram(0, datagram, &mut check);
        if let Some(bytes) = check.last.take() {
            receiver.recycle(bytes);
        }
    }
    let took = sys::thread_ns() - before;
    match check.done() && check.wrong.count == 0 {
        true => Ok(took),
        false => Err(BenchError::Void(format!(
            "a block could not be reassembled from its datagrams\n{}",
            check.wrong
        ))),
    }
}

/// Sender that sends blocks at the offered rate.
struct Paced<'a> {
    sent: &'a BlocksToSend,
    began: &'a std::sync::OnceLock<Instant>,
    next: usize,
}

impl BlockSource for Paced<'_> {
    fn begin(&mut self, _next: u64) {
        self.began.get_or_init(Instant::now);
    }

    fn next(&mut self) -> std::io::Result<Option<(u64, Arc<[u8]>)>> {
        let since = self.began.get().map_or(Duration::ZERO, Instant::elapsed);
        let block = self.sent.blocks.get(self.next);
        let due = since >= Duration::from_nanos(self.sent.due_ns(self.next));
        let Some(block) = block.filter(|_| due) else {
            return Ok(None);
        };
        self.next += 1;
        Ok(Some((self.sent.first + self.next as u64 - 1, Arc::clone(block))))
    }
}

/// Receiver of blocks from a socket; it records the arrival time of each block.
struct TimedReceiver<'a> {
    check: Check<'a>,
    began: &'a std::sync::OnceLock<Instant>,
    stop: &'a AtomicBool,
    late_ms: Vec<f64>,
}

impl BlockSink for TimedReceiver<'_> {
    fn on_block(&mut self, number: u64, bytes: Vec<u8>) {
        let since = self.began.get().map_or(Duration::ZERO, Instant::elapsed);
        let due = Duration::from_nanos(self.check.sent.due_ns(self.check.next));
        self.late_ms.push(since.saturating_sub(due).as_secs_f64() * 1e3);
        self.check.on_block(number, bytes);
        self.stop.store(self.check.done(), Relaxed);
    }

    fn on_gap(&mut self, from: u64, to: u64) {
        self.check.on_gap(from, to);
    }
}

/// Sends the blocks over sockets on loopback at the offered rate.
///
/// # Errors
/// Fails if a block is lost or differs from the sent one; returns errors of the operating system.
pub(super) fn sockets(sent: &BlocksToSend, payload_bytes: usize) -> Result<LatencyFigures> {
    let failed = || io("a socket");
    let to = driver::listen(([127, 0, 0, 1], 0).into()).map_err(failed())?;
    let from = UdpSocket::bind("127.0.0.1:0").map_err(failed())?;
    from.connect(to.local_addr().map_err(failed())?)
        .map_err(failed())?;
    let (stop, began) = (AtomicBool::new(false), std::sync::OnceLock::new());
    let deadline = Instant::now() + TRANSFER_TIMEOUT;
    let mut timed = TimedReceiver {
        check: Check::new(sent, true),
        began: &began,
        stop: &stop,
        late_ms: Vec::new(),
    };
    let mut source = Paced {
        sent,
        began: &began,
        next: 0,
    };
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| sent.sender(payload_bytes).run(&from, &mut source, &stop));
        let mut overdue = || {
            stop.fetch_or(Instant::now() > deadline, Relaxed);
            None
        };
        let received = sent
            .receiver(true)
            .run(&to, &mut timed, &mut overdue, &stop)
            .map_err(failed());
        stop.store(true, Relaxed);
        let panicked = |_| BenchError::Void("the sender panicked".into());
        sending.join().map_err(panicked)?.map_err(failed())?;
        received
    })?;
    match LatencyFigures::of(timed.late_ms) {
        Some(late) if timed.check.done() && timed.check.wrong.count == 0 => Ok(late),
        _ => Err(BenchError::Void(format!(
            "blocks were lost between the sockets\n{}",
            timed.check.wrong
        ))),
    }
}

/// Returns the number of bytes on Ethernet that the blocks take over a network without loss, in Ethernet frames of the
/// usual size.
///
/// # Errors
/// Fails if a block differs from the sent one.
pub(super) fn bytes_on_ethernet(sent: &BlocksToSend) -> Result<u64> {
    let flow = simulate(sent, PAYLOADS[0], 0)?;
    Ok(flow.bytes + flow.arrived.len() as u64 * ETHERNET_OVERHEAD_BYTES)
}

/// Returns the blocks with the first `transactions` transactions of a workload.
///
/// # Errors
/// Errors of the operating system.
pub(super) fn load(blocks: &Blocks<'_>, transactions: u64) -> Result<BlocksToSend> {
    let first = blocks.first();
    let end = first + transactions.div_ceil(blocks.case.block as u64);
    let mut sent = BlocksToSend {
        first,
        blocks: Vec::new(),
        transactions: 0,
        key: SharedKey::new(&KEY).map_err(crate::error::void)?,
    };
    for made in blocks.open()? {
        let made = made.map_err(io("reading blocks"))?;
        if (first..end).contains(&made.number) {
            sent.transactions += made.codes.len() as u64;
            sent.blocks.push(made.bytes.into());
        }
        if made.number + 1 == end {
            break;
        }
    }
    Ok(sent)
}

/// Measures with the first `transactions` transactions of `blocks`; each rate is the median of `rounds` rounds.
///
/// # Errors
/// Fails if a block is lost or differs from the sent one; returns errors of the operating system.
pub(super) fn measure(blocks: &Blocks<'_>, transactions: u64, rounds: usize) -> Result<Vec<Udp>> {
    let sent = load(blocks, transactions)?;
    PAYLOADS.iter().map(|&bytes| one(&sent, bytes, rounds)).collect()
}

fn one(sent: &BlocksToSend, payload_bytes: usize, rounds: usize) -> Result<Udp> {
    let flow = simulate(sent, payload_bytes, 0)?;
    let lossy = simulate(sent, payload_bytes, LOST_PERCENT)?;
    let mut ns = [(); 3].map(|()| Vec::new());
    // The first round is a warm-up and does not count.
    for round in 0..=rounds.max(1) {
        for (of, (arrived, data_hash)) in [(&flow, true), (&flow, false), (&lossy, true)]
            .map(|(flow, data_hash)| (&flow.arrived, data_hash))
            .into_iter()
            .enumerate()
        {
            let took = receive_ns(sent, arrived, data_hash)?;
            if round > 0 {
                ns[of].push(took as f64);
            }
        }
    }
    let none = || BenchError::Void("no block was sent".into());
    let [hashed, unhashed, lossy_ns] = ns.map(|ns| median(ns.into_iter()));
    let (hashed, unhashed) = (hashed.ok_or_else(none)?, unhashed.ok_or_else(none)?);
    let lossy_ns = lossy_ns.ok_or_else(none)?;
    let rate = |ns: f64| sent.transactions as f64 / ns * 1e9;
    let block_bytes: usize = sent.blocks.iter().map(|block| block.len()).sum();
    Ok(Udp {
        payload_bytes,
        transactions: sent.transactions,
        saved_percent: 100.0 - 100.0 * flow.bytes as f64 / block_bytes as f64,
        bytes_per_tx: flow.bytes as f64 / sent.transactions as f64,
        tps: rate(hashed),
        tps_no_data_hash: rate(unhashed),
        loss_cost_percent: 100.0 - 100.0 * hashed / lossy_ns,
        sockets: sockets(sent, payload_bytes)?,
        simulated: LatencyFigures::of(flow.late_ms).ok_or_else(none)?,
        simulated_lossy: LatencyFigures::of(lossy.late_ms).ok_or_else(none)?,
    })
}

/// Writes the figures as a table.
pub(super) fn write(all: &[Udp], out: &mut Formatter<'_>) -> fmt::Result {
    let head = ["saved %", "bytes/tx", "tx/s", "no hash", "loss %"];
    write!(out, "\n{:<28}", "UDP, payload")?;
    head.iter().try_for_each(|column| write!(out, "{column:>10}"))?;
    writeln!(out, "   latency in ms: p50, p99, maximum")?;
    for udp in all {
        write!(
            out,
            "{:<28}{:>10.1}{:>10.0}{:>10.0}{:>10.0}{:>10.1}",
            udp.payload_bytes,
            udp.saved_percent,
            udp.bytes_per_tx,
            udp.tps,
            udp.tps_no_data_hash,
            udp.loss_cost_percent
        )?;
        for (name, late) in [
            ("sockets", udp.sockets),
            ("simulated", udp.simulated),
            ("5 % lost", udp.simulated_lossy),
        ] {
            write!(
                out,
                "   {name} {:.1} {:.1} {:.1}",
                late.p50_ms, late.p99_ms, late.max_ms
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
