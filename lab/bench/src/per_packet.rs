//! Cost of a packet in the XDP program alone. A program writes the whole frame and then calls `ls_root`. The time of
//! the same program with a trivial program in the place of `ls_root` is subtracted.

use crate::bpf::{Generator, SendPlan, template};
use crate::error::{BenchError, Result, io};
use crate::fastpath::XdpFastPath;
use crate::sys::{self, Run};
use crate::workload::{PROVEN_TXIDS, TXIDS, Workload};
use lineside_wire::SPV_PORT;
use serde::Serialize;
use std::os::fd::{AsFd, BorrowedFd};

const XDP_TX: u32 = 3;
const ROUNDS: usize = 11;

/// Cost of a packet in nanoseconds, without the cost of writing the frame.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PerPacket {
    /// Minimum of several rounds, in nanoseconds.
    pub min_ns: f64,
    /// Median of the rounds, in nanoseconds.
    pub median_ns: f64,
    /// Median of the subtracted cost in nanoseconds: writing the frame, and a tail call to a program that only returns
    /// XDP_TX.
    pub rewriting_ns: f64,
    /// Number of calls in a round. In each round, the reply counter of the program increased by exactly this number.
    pub calls: u32,
}

/// Measures requests for a single TXID, whose data is in the L1 cache.
pub fn hot_hit(fastpath: &mut XdpFastPath, generator: &Generator, _: &Workload) -> Result<PerPacket> {
    measure(fastpath, generator, 0)
}

/// Measures requests for a different TXID each time; the TXIDs are spread over the whole table.
pub fn random_hit(fastpath: &mut XdpFastPath, generator: &Generator, _: &Workload) -> Result<PerPacket> {
    measure(fastpath, generator, TXIDS.trailing_zeros())
}

/// Measures requests for the proof of a different TXID each time. The TXIDs are spread over 64 blocks of 2,048
/// transactions, so paths have 11 hashes.
pub fn random_proof(
    fastpath: &mut XdpFastPath,
    generator: &Generator,
    workload: &Workload,
) -> Result<PerPacket> {
    fastpath.with_proofs(workload, |fastpath| proof(fastpath, generator, PROVEN_TXIDS))
}

/// Measures requests for the proof of a different TXID each time. The TXIDs are the first `txids` of the stream, which
/// must all be in the fast-path table. `txids` must be a power of two.
pub fn proof(fastpath: &mut XdpFastPath, generator: &Generator, txids: usize) -> Result<PerPacket> {
    measure_by("bench_rewrite_proof", fastpath, generator, txids.trailing_zeros())
}

fn measure(fastpath: &mut XdpFastPath, generator: &Generator, entry_bits: u32) -> Result<PerPacket> {
    measure_by("bench_rewrite", fastpath, generator, entry_bits)
}

fn measure_by(
    rewrite: &str,
    fastpath: &mut XdpFastPath,
    generator: &Generator,
    entry_bits: u32,
) -> Result<PerPacket> {
    let calls = TXIDS as u32;
    let trivial = generator.program("bench_tx")?;
    let (mut costs, mut rewritings) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let rewriting = call(generator, rewrite, trivial.as_fd(), entry_bits, calls)?;
        let hits = fastpath.hits()?;
        let whole = call(generator, rewrite, fastpath.root().as_fd(), entry_bits, calls)?;
        let risen = fastpath.hits()? - hits;
        if risen != u64::from(calls) {
            return Err(BenchError::Void(format!(
                "the program was called {calls} times, but counted {risen} replies"
            )));
        }
        costs.push(whole - rewriting);
        rewritings.push(rewriting);
    }
    costs.sort_by(f64::total_cmp);
    rewritings.sort_by(f64::total_cmp);
    Ok(PerPacket {
        min_ns: costs[0],
        median_ns: costs[ROUNDS / 2],
        rewriting_ns: rewritings[ROUNDS / 2],
        calls,
    })
}

/// Returns the time of one call of `rewrite` followed by `program`, in nanoseconds. The kernel measures it within the
/// program.
fn call(
    generator: &Generator,
    rewrite: &str,
    program: BorrowedFd<'_>,
    entry_bits: u32,
    calls: u32,
) -> Result<f64> {
    let last = u64::from(calls) - 1;
    let plan = SendPlan {
        port: SPV_PORT,
        memcached: false,
        proof: rewrite == "bench_rewrite_proof",
        entry_bits,
        last,
        echo: false,
    };
    generator.set_next(program)?;
    generator.begin(&plan)?;
    let rewrite = generator.program(rewrite)?;
    let verdict = sys::test_run(rewrite.as_fd(), &template(&plan), calls, Run::Repeat)
        .map_err(io("measuring a program"))?;
    let sent = generator.sent()?;
    if verdict != XDP_TX || sent.requests != u64::from(calls) {
        return Err(BenchError::Void(format!(
            "the program was called {} times instead of {calls}, and its last verdict was {verdict}; every call has to \
             return XDP_TX",
            sent.requests
        )));
    }
    Ok((sent.last_ns - sent.first_ns) as f64 / last as f64)
}
