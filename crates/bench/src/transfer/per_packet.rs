//! What a packet costs in the program alone: `ls_root` behind a program that writes the whole frame anew, less the same
//! with a trivial program behind it. Accounts lie anywhere among 2^22.

use super::bpf::{Generator, NativeSession, Orders, template};
use super::plan::{Command, Plan};
use super::store::{self, RING_BITS, XdpLedger};
use crate::error::{BenchError, Result, io};
use crate::gate::median;
use crate::per_packet::PerPacket;
use crate::sys::{self, Run};
use lineside_wire::{TRANSFER_COMMAND_TRANSFER, TransferCounter};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;

const XDP_TX: u32 = 3;
/// log2 of the accounts.
const BITS: u32 = 22;
/// What the machine must have free: cells and what the paper's format keeps, four places for each account.
const MEMORY_BYTES: u64 = (64 + 32) << (BITS + 2);
/// Calls of a round: as many as records find room.
const CALLS: u32 = 1 << RING_BITS;
const SLOT: u32 = 0;
const TOKEN: u64 = 0x1234_5678_9abc_def1;

/// One figure.
struct What {
    name: &'static str,
    command: Command,
    numbered: bool,
    native: bool,
}

/// The name of native TRANSFER in a session, with its ring.
pub const SESSION_TRANSFER: &str = "session transfer, with ring";
/// The name of the paper's REFER.
pub const REFER: &str = "refer";

const WHATS: [What; 4] = [
    What {
        name: SESSION_TRANSFER,
        command: Command::Transfer,
        numbered: false,
        native: true,
    },
    What {
        name: REFER,
        command: Command::Refer,
        numbered: false,
        native: false,
    },
    What {
        name: "transfer, with ring",
        command: Command::Transfer,
        numbered: false,
        native: false,
    },
    What {
        name: "transfer with id, with ring",
        command: Command::Transfer,
        numbered: true,
        native: false,
    },
];

/// The figures by name, or why there is none. Runs in the client's namespace, on a core of its own.
pub fn measure(
    generator: &Generator,
    rounds: usize,
) -> Result<BTreeMap<&'static str, std::result::Result<PerPacket, String>>> {
    let mut found = BTreeMap::new();
    let free = free_bytes();
    if free < MEMORY_BYTES + MEMORY_BYTES / 4 {
        let why = format!("{} MiB are free, {} needed", free >> 20, MEMORY_BYTES >> 20);
        found.extend(WHATS.iter().map(|what| (what.name, Err(why.clone()))));
        return Ok(found);
    }
    let mut ledger = XdpLedger::load(BITS)?;
    store::fill(&ledger.store, BITS)?;
    let session = &ledger.store.sessions.as_slice()[SLOT as usize];
    session.token.store(TOKEN, Relaxed);
    let mut next = 0;
    for what in &WHATS {
        let figure = match one(generator, &mut ledger, what, rounds, &mut next) {
            Err(BenchError::Void(why)) => Err(format!("void: {why}")),
            other => Ok(other?),
        };
        found.insert(what.name, figure);
    }
    Ok(found)
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
        let refused = [TransferCounter::Refusals, TransferCounter::Busy, TransferCounter::Repeats];
        let not_done: u64 = refused.into_iter().map(rose).sum();
        if replies != u64::from(CALLS) || not_done > 0 {
            return Err(BenchError::Void(format!(
                "{CALLS} calls, but {replies} replies counted, {not_done} of them not done"
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

/// ns a call of `tb_rewrite` with `program` behind it, by the kernel's clock within the program.
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
        bits: BITS,
        numbered: what.numbered,
    };
    debug_assert_eq!(plan.command(0) == TRANSFER_COMMAND_TRANSFER, what.command == Command::Transfer);
    let orders = Orders {
        plan,
        first,
        limit: u64::from(CALLS),
        sample: 1,
        last,
        slack: 0,
        native: what.native.then(|| NativeSession {
            slot: SLOT,
            token: TOKEN,
            // The program adds the request's number.
            sequence: (session.sequence.load(Relaxed) + 1).wrapping_sub(first),
        }),
    };
    let rewrite = if what.native { "tb_rewrite_native" } else { "tb_rewrite" };
    generator.set_next(program)?;
    generator.begin(&orders)?;
    let rewrite = generator.program(rewrite)?;
    let verdict = sys::test_run(rewrite.as_fd(), &template(&orders), CALLS, Run::Repeat)
        .map_err(io("measuring a program"))?;
    let sent = generator.sent()?;
    if verdict != XDP_TX || sent.next != *next {
        let calls = sent.next - first;
        return Err(BenchError::Void(format!("verdict {verdict} after {calls} calls")));
    }
    Ok((sent.last_ns - sent.first_ns) as f64 / f64::from(CALLS - 1))
}

/// Memory that can be had without swapping.
fn free_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
