//! The live-frames generator: a BPF program that the kernel runs on frames of its own, 64 at a time, as if they had
//! come in at the client's interface, and whose verdict sends them to the server. An open loop at the greatest rate
//! that one core gives. Replies are checked by an XDP program at the same interface.

use crate::bpf::{Generator, Plan, SAMPLE, template};
use crate::client::Tally;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, Run};
use crate::workload::{BLOCKS, Workload};
use std::os::fd::AsFd;
use std::time::Duration;

/// Requests of the first call, which says how fast the generator is against this server; its replies do not count.
const WARM_UP_REQUESTS: u32 = 100_000;
/// How long replies may come after the last request.
const PATIENCE: Duration = Duration::from_millis(30);
/// Frames that the kernel runs at once.
const BATCH: u32 = 64;
const REQUESTS_MAX: f64 = 1e9;

/// Whom to drive, and how.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// UDP port of the server.
    pub port: u16,
    /// What it is asked.
    pub asks: Asks,
    /// One request at a time, instead of as many as can be.
    pub one_by_one: bool,
}

/// What a server is asked, and what it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// The paper's exchange: a TXID, a Merkle root.
    Root,
    /// Anything; the server sends it back.
    Echo,
    /// memcached's `get` of a TXID by UDP.
    Memcached,
    /// The native request for a proof, answered with a path of 11 hashes.
    Proof,
}

/// Drives `target` for about `duration`. The calling thread stands in the client's namespace, `interface` is the
/// index of its end.
pub fn run(
    generator: &Generator,
    interface: u32,
    workload: &Workload,
    target: Target,
    duration: Duration,
) -> Result<Tally> {
    if workload.roots.len() > BLOCKS {
        return Err(BenchError::Void(format!(
            "the live-frames generator tells {BLOCKS} blocks apart, not {}",
            workload.roots.len()
        )));
    }
    let (send, check) = match (target.asks, target.one_by_one) {
        (Asks::Memcached, _) => ("bench_live_mc", "bench_check_mc"),
        (Asks::Proof, _) => ("bench_live_proof", "bench_check_proof"),
        (_, true) => ("bench_live_1", "bench_check"),
        _ => ("bench_live", "bench_check"),
    };
    // A batch of one is acted on before the next is run, so that the reply comes while the generator waits for it.
    let batch = if target.one_by_one { 1 } else { BATCH };
    let (send, check) = (generator.program(send)?, generator.program(check)?);
    let plan = Plan {
        port: target.port,
        memcached: target.asks == Asks::Memcached,
        proof: target.asks == Asks::Proof,
        // Every TXID once before the first one again.
        entry_bits: workload.txids.len().trailing_zeros(),
        last: 0,
        echo: target.asks == Asks::Echo,
    };
    let frame = template(&plan);
    let _attached = sys::attach_native(check.as_fd(), interface).map_err(io("attaching the checker"))?;
    let call = |requests: u32| {
        generator.begin(&plan)?;
        let from_ns = sys::now_ns();
        sys::test_run(send.as_fd(), &frame, requests, Run::Live { interface, batch })
            .map_err(io("running the live-frames generator"))?;
        Ok::<_, BenchError>(sys::now_ns() - from_ns)
    };
    let warm_up_ns = call(WARM_UP_REQUESTS)?.max(1);
    std::thread::sleep(PATIENCE);
    let requests = f64::from(WARM_UP_REQUESTS) * duration.as_nanos() as f64 / warm_up_ns as f64;
    let took_ns = call(requests.clamp(1e5, REQUESTS_MAX) as u32)?;
    std::thread::sleep(PATIENCE);
    let (sent, seen) = (generator.sent()?, generator.seen()?);
    let wrong = seen.wrong + seen.unknown;
    let requests = if target.one_by_one {
        sent.requests / SAMPLE
    } else {
        sent.requests
    };
    Ok(Tally {
        sent: requests,
        right: seen.right,
        wrong,
        lost: requests.saturating_sub(seen.right + wrong),
        took_ns: seen
            .last_ns
            .saturating_sub(sent.first_ns)
            .max(if seen.right == 0 { took_ns } else { 1 }),
        latency: seen.latency,
    })
}
