//! Cost of a packet in the XDP program alone: the time of `ls_root` after a program that writes the whole frame, minus
//! that of a trivial program after it.

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

/// Cost of a packet in ns, without the cost of writing the frame.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PerPacket {
    /// Minimum of several rounds.
    pub min_ns: f64,
    /// Median of the rounds.
    pub median_ns: f64,
    /// Cost that was subtracted (median): writing the frame, and a tail call to a program that only returns XDP_TX.
    pub rewriting_ns: f64,
    /// Calls in a round; in each round the program's reply counter increased by exactly this number.
    pub calls: u32,
}

/// Measures requests for one TXID, whose data is in the L1 cache.
pub fn hot_hit(fastpath: &mut XdpFastPath, generator: &Generator, _: &Workload) -> Result<PerPacket> {
    measure(fastpath, generator, 0)
}

/// Measures requests for another TXID each time, anywhere in the store.
pub fn random_hit(fastpath: &mut XdpFastPath, generator: &Generator, _: &Workload) -> Result<PerPacket> {
    measure(fastpath, generator, TXIDS.trailing_zeros())
}

/// Measures proofs of another TXID each time, anywhere in 64 blocks of 2,048: paths of 11 hashes.
pub fn random_proof(
    fastpath: &mut XdpFastPath,
    generator: &Generator,
    workload: &Workload,
) -> Result<PerPacket> {
    fastpath.with_proofs(workload, |fastpath| proof(fastpath, generator, PROVEN_TXIDS))
}

/// Measures proofs of another TXID each time, of the first `txids` of the stream, which are all in the fast path.
/// `txids` is a power of two.
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
                "{calls} calls, but {risen} replies counted"
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

/// Returns the time of a call of `rewrite` followed by `program` in ns, by the kernel's clock within the program.
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
            "verdict {verdict} after {} calls",
            sent.requests
        )));
    }
    Ok((sent.last_ns - sent.first_ns) as f64 / last as f64)
}
