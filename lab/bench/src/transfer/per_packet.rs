//! Cost of a packet in the XDP program alone. A program writes the whole frame and then calls `ls_root`. The time of
//! the same program with a trivial program in the place of `ls_root` is subtracted. Requests are spread over all
//! accounts of the table.

use super::bpf::{Generator, NativeSession, Orders, template};
use super::plan::{Command, Plan};
use super::store::{self, RING_BITS, XdpLedger};
use crate::error::{BenchError, Result, io};
use crate::gate::median;
use crate::per_packet::PerPacket;
use crate::sys::{self, Run};
use lineside_transfer::store::Store;
use lineside_wire::{TRANSFER_BUCKET_CELLS, TransferCounter};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

const XDP_TX: u32 = 3;
/// log2 of the numbers of accounts: that of the case to which the gates apply, and the number for which the table has
/// 2^22 cells.
const BITS: [u32; 2] = [22, 20];
/// Number of calls in a round. It is the capacity of a ring, because each call writes a record.
const CALLS: u32 = 1 << RING_BITS;
const SLOT: u32 = 0;
const TOKEN: u64 = 0x1234_5678_9abc_def1;

/// Costs by name, or the reason why a cost is missing.
pub type Costs = BTreeMap<String, std::result::Result<PerPacket, String>>;

/// Kind of packet that is measured.
#[derive(Clone, Copy)]
struct What {
    name: &'static str,
    command: Command,
    numbered: bool,
    native: bool,
    bits: u32,
}

/// Name, in the report, of the cost of a native TRANSFER in a session, by a program that writes ring records.
pub const SESSION_TRANSFER: &str = "packet of a session's transfer, 2^22 accounts";
/// Name, in the report, of the cost of a native TRANSFER in a session, by a program that writes no ring records.
pub const SESSION_BARE: &str = "packet of a session's transfer, 2^22 accounts, ringless";
/// Name, in the report, of the cost of a REFER in the paper's format.
pub const REFER: &str = "packet of refer, 2^22 accounts";
/// Number of random reads from memory in a round.
const LOADS: u32 = 1 << 20;

const fn what(name: &'static str, command: Command, numbered: bool, native: bool) -> What {
    What {
        name,
        command,
        numbered,
        native,
        bits: 0,
    }
}

const WHATS: [What; 4] = [
    what("a session's transfer", Command::Transfer, false, true),
    what("refer", Command::Refer, false, false),
    what("transfer", Command::Transfer, false, false),
    what("transfer with an id", Command::Transfer, true, false),
];

/// Measures the costs in the client's namespace, on its core. `sizes` is the number of table sizes.
pub fn measure(generator: &Generator, rounds: usize, sizes: usize) -> Result<Costs> {
    let mut found = Costs::new();
    for bits in BITS.into_iter().take(sizes) {
        let name = |what: &What| format!("packet of {}, 2^{bits} accounts", what.name);
        // Memory for cells and for the data of the paper's format; there are four of each for each account.
        let (free, needed) = (free_bytes(), (64 + 32) << (bits + 2));
        if free < needed + needed / 4 {
            let why = format!("{} MiB are free, {} MiB are needed", free >> 20, needed >> 20);
            found.extend(WHATS.iter().map(|what| (name(what), Err(why.clone()))));
            continue;
        }
        let mut next = 0;
        let mut ledger = ready(XdpLedger::load(bits)?, bits)?;
        let load = || random_bucket_ns(&ledger.store);
        let loads: Vec<f64> = (0..rounds).map(|_| load()).collect();
        found.insert(
            format!("random bucket read by user space, 2^{bits} accounts"),
            Ok(loaded(loads)),
        );
        for what in WHATS {
            let what = What { bits, ..what };
            found.insert(
                name(&what),
                figure(one(generator, &mut ledger, &what, rounds, &mut next))?,
            );
        }
        drop(ledger);
        let mut ledger = ready(XdpLedger::load_ringless(bits)?, bits)?;
        let what = What { bits, ..WHATS[0] };
        let name = format!("{}, ringless", name(&what));
        found.insert(
            name,
            figure(one(generator, &mut ledger, &what, rounds, &mut next))?,
        );
    }
    Ok(found)
}

/// Converts a void figure into its reason; every other error ends the benchmark.
fn figure(found: Result<PerPacket>) -> Result<std::result::Result<PerPacket, String>> {
    match found {
        Err(BenchError::Void(why)) => Ok(Err(format!("no valid result: {why}"))),
        other => Ok(Ok(other?)),
    }
}

/// Creates the accounts of a ledger, and opens a session.
fn ready(ledger: XdpLedger, bits: u32) -> Result<XdpLedger> {
    store::fill(&ledger.store, bits)?;
    let session = &ledger.store.sessions.as_slice()[SLOT as usize];
    session.token.store(TOKEN, Relaxed);
    Ok(ledger)
}

fn loaded(ns: Vec<f64>) -> PerPacket {
    PerPacket {
        min_ns: ns.iter().copied().fold(f64::MAX, f64::min),
        median_ns: median(ns.into_iter()).unwrap_or_default(),
        rewriting_ns: 0.0,
        calls: LOADS,
    }
}

/// Returns the time in nanoseconds to read the four cells of a bucket, if the address of the bucket depends on the
/// previous read. It is the lower bound for a packet about one random account.
fn random_bucket_ns(store: &Store) -> f64 {
    let cells = store.cells.as_slice();
    let buckets = (cells.len() / TRANSFER_BUCKET_CELLS) as u64;
    let (mut random, start) = (1u64, Instant::now());
    for _ in 0..LOADS {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let first = ((random >> 32) % buckets) as usize * TRANSFER_BUCKET_CELLS;
        for cell in &cells[first..first + TRANSFER_BUCKET_CELLS] {
            // The value is always 0, and is part of the next address.
            random += u64::from(cell.lock.load(Relaxed));
        }
    }
    let took = start.elapsed();
    std::hint::black_box(random);
    took.as_nanos() as f64 / f64::from(LOADS)
}

fn one(
    generator: &Generator,
    ledger: &mut XdpLedger,
    what: &What,
    rounds: usize,
    next: &mut u64,
) -> Result<PerPacket> {
    let trivial = generator.program("tb_tx")?;
    let root = ledger.root().try_clone().map_err(io("opening ls_root"))?;
    let (mut costs, mut rewritings) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let rewriting = call(generator, trivial.as_fd(), ledger, what, next)?;
        let before = ledger.counts()?;
        let whole = call(generator, root.as_fd(), ledger, what, next)?;
        store::forget_records(&ledger.store);
        let after = ledger.counts()?;
        let rose = |counter: TransferCounter| after[counter as usize] - before[counter as usize];
        let replies = rose(TransferCounter::Replies);
        let refused = [
            TransferCounter::Refusals,
            TransferCounter::Busy,
            TransferCounter::Repeats,
        ];
        let not_done: u64 = refused.into_iter().map(rose).sum();
        if replies != u64::from(CALLS) || not_done > 0 {
            return Err(BenchError::Void(format!(
                "the program was called {CALLS} times, but counted {replies} replies, {not_done} of them to requests \
                 that it did not execute"
            )));
        }
        costs.push(whole - rewriting);
        rewritings.push(rewriting);
    }
    Ok(PerPacket {
        min_ns: costs.iter().copied().fold(f64::MAX, f64::min),
        median_ns: median(costs.into_iter()).unwrap_or_default(),
        rewriting_ns: median(rewritings.into_iter()).unwrap_or_default(),
        calls: CALLS,
    })
}

/// Returns the time of one call of `tb_rewrite` followed by `program`, in nanoseconds. The kernel measures it within
/// the program.
fn call(
    generator: &Generator,
    program: BorrowedFd<'_>,
    ledger: &XdpLedger,
    what: &What,
    next: &mut u64,
) -> Result<f64> {
    let session = &ledger.store.sessions.as_slice()[SLOT as usize];
    let first = *next;
    *next += u64::from(CALLS);
    let last = *next - 1;
    let plan = Plan {
        command: what.command,
        bits: what.bits,
        numbered: what.numbered,
    };
    let orders = Orders {
        plan,
        first,
        limit: u64::from(CALLS),
        sample_bits: 0,
        last,
        loses: false,
        native: what.native.then(|| NativeSession {
            slot: SLOT,
            token: TOKEN,
            // The BPF program adds the number of the request to this value.
            sequence: (session.sequence.load(Relaxed) + 1).wrapping_sub(first),
        }),
    };
    let rewrite = if what.native {
        "tb_rewrite_native"
    } else {
        "tb_rewrite"
    };
    generator.set_next(program)?;
    generator.begin(&orders)?;
    let rewrite = generator.program(rewrite)?;
    let verdict = sys::test_run(rewrite.as_fd(), &template(&orders), CALLS, Run::Repeat)
        .map_err(io("measuring a program"))?;
    let sent = generator.sent()?;
    if verdict != XDP_TX || sent.next != *next {
        let calls = sent.next - first;
        return Err(BenchError::Void(format!(
            "the program was called {calls} times instead of {CALLS}, and its last verdict was {verdict}; every call \
             has to return XDP_TX"
        )));
    }
    Ok((sent.last_ns - sent.first_ns) as f64 / f64::from(CALLS - 1))
}

/// Returns the memory that is available without swapping, in bytes.
fn free_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
