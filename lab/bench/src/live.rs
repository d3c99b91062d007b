//! Live-frames generator: a BPF program that the kernel runs on test frames, 64 at a time, as if they had arrived at
//! the client's interface. The verdict of the program sends them to the server. The generator is an open loop at the
//! highest rate of one core. An XDP program at the same interface checks the replies.

use crate::bpf::{Generator, SAMPLE, SendPlan, memcached_key, template};
use crate::client::Tally;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, Run};
use crate::workload::{BLOCKS, Expect, PORTS, Workload};
use crate::wrong::{KeptReply, WrongReplies, WrongReply, hex};
use std::os::fd::AsFd;
use std::time::Duration;

/// Number of requests of the first call, which measures the rate of the generator with this server. Its replies are not
/// counted.
const WARM_UP_REQUESTS: u32 = 100_000;
/// Time after the last request in which replies may still arrive.
const LATE_REPLY_WAIT: Duration = Duration::from_millis(30);
/// Number of frames for which the kernel runs the XDP program in one batch (`batch_size` of BPF_PROG_TEST_RUN).
const BATCH: u32 = 64;
const REQUESTS_MAX: f64 = 1e9;

/// Server that receives the requests, and the kind of requests.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// UDP port of the server.
    pub port: u16,
    /// Kind of request.
    pub asks: LiveRequest,
    /// True to send one request at a time; false to send at the highest possible rate.
    pub one_by_one: bool,
}

/// Kind of a request and of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveRequest {
    /// The paper's exchange: the request is a TXID, and the reply is a Merkle root.
    Root,
    /// Any request, which the server returns unchanged.
    Echo,
    /// A `get` of a TXID in memcached's protocol over UDP.
    Memcached,
    /// A native request for a proof; the reply has a path of 11 hashes.
    Proof,
}

/// Sends requests to `target` for about `duration`. The calling thread must be in the client's namespace; `interface`
/// is the index of the client's interface.
pub fn run(
    generator: &Generator,
    interface: u32,
    workload: &Workload,
    target: Target,
    duration: Duration,
) -> Result<Tally> {
    if workload.roots.len() > BLOCKS {
        return Err(BenchError::Void(format!(
            "the live-frames generator supports {BLOCKS} blocks, not {}",
            workload.roots.len()
        )));
    }
    let (send, check) = match (target.asks, target.one_by_one) {
        (LiveRequest::Memcached, _) => ("bench_live_mc", "bench_check_mc"),
        (LiveRequest::Proof, _) => ("bench_live_proof", "bench_check_proof"),
        (_, true) => ("bench_live_1", "bench_check"),
        _ => ("bench_live", "bench_check"),
    };
    // The kernel sends a batch of one frame before it runs the next frame, so the reply arrives while the generator
    // waits for it.
    let batch = if target.one_by_one { 1 } else { BATCH };
    let (send, check) = (generator.program(send)?, generator.program(check)?);
    let plan = SendPlan {
        port: target.port,
        memcached: target.asks == LiveRequest::Memcached,
        proof: target.asks == LiveRequest::Proof,
        // The generator requests every TXID once before it requests the first one again.
        entry_bits: workload.txids.len().trailing_zeros(),
        last: 0,
        echo: target.asks == LiveRequest::Echo,
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
    std::thread::sleep(LATE_REPLY_WAIT);
    let requests = f64::from(WARM_UP_REQUESTS) * duration.as_nanos() as f64 / warm_up_ns as f64;
    let took_ns = call(requests.clamp(1e5, REQUESTS_MAX) as u32)?;
    std::thread::sleep(LATE_REPLY_WAIT);
    let (sent, seen) = (generator.sent()?, generator.seen()?);
    let kept = generator.wrong.read()?;
    let describe = |kept: &KeptReply| described(workload, target.asks, kept);
    let wrong = WrongReplies::new(seen.wrong + seen.unknown, kept.iter().map(describe));
    let requests = if target.one_by_one {
        sent.requests / SAMPLE
    } else {
        sent.requests
    };
    Ok(Tally {
        sent: requests,
        right: seen.right,
        lost: requests.saturating_sub(seen.right + wrong.count),
        wrong,
        took_ns: seen
            .last_ns
            .saturating_sub(sent.first_ns)
            .max(if seen.right == 0 { took_ns } else { 1 }),
        latency: seen.latency,
    })
}

/// Returns a wrong reply with the newest request that was sent from its port.
fn described(workload: &Workload, asks: LiveRequest, kept: &KeptReply) -> WrongReply {
    let place = u64::from(kept.port) % PORTS as u64;
    let Some(newest) = kept.sent.checked_sub(place + 1) else {
        return WrongReply::stray(&kept.reply);
    };
    let number = newest - newest % PORTS as u64 + place;
    let request = workload.request(number);
    let expect = match asks {
        LiveRequest::Root => Expect::Root,
        LiveRequest::Echo => Expect::Echo,
        LiveRequest::Memcached => {
            let key = String::from_utf8_lossy(&memcached_key(request)).into_owned();
            let root = hex(workload.reply(number, Expect::Root));
            return WrongReply::new(
                format!("get {key}"),
                hex(&kept.reply),
                format!("the value {root}"),
            );
        }
        LiveRequest::Proof => {
            let request = format!("proof of {}", hex(request));
            return WrongReply::new(
                request,
                hex(&kept.reply),
                "status 0, 11 hashes, both ends of the path",
            );
        }
    };
    WrongReply::of_bytes(request, &kept.reply, workload.reply(number, expect))
}
