//! Live-frames generator (see `crate::live`) with the requests of this scenario. Their UDP checksums are valid, because
//! the fast path executes no request whose checksum it cannot verify.

use super::bpf::{Generator, Orders, template};
use super::plan::{Command, Plan};
use super::tally::Tally;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, Run};
use crate::wrong::{KeptReply, WrongReplies};
use std::os::fd::AsFd;
use std::time::Duration;

/// Number of requests of the first call, which measures the rate of the generator with this server. Its replies are not
/// counted.
const WARM_UP_REQUESTS: u64 = 100_000;
/// Time without a reply after which the replies of a call count as complete. A reply after that time would count in the
/// next call.
const LATE_REPLY_WAIT: Duration = Duration::from_millis(30);
/// Maximum time to wait for replies, as a multiple of [`LATE_REPLY_WAIT`].
const PATIENCE_TIMES: usize = 100;
/// Number of frames for which the kernel runs the XDP program in one batch (`batch_size` of BPF_PROG_TEST_RUN).
const BATCH: u32 = 64;
const REQUESTS_MAX: f64 = 1e9;
/// log2 of the sampling interval of latencies in long runs: the generator times one request in 16.
const SAMPLE_BITS: u32 = 4;
/// Maximum number of requests of a run in which the generator times each request.
const TIMED_EACH: u64 = 1_000;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    /// Plan of the requests.
    pub plan: Plan,
    /// True to send one request at a time; false to send at the highest possible rate.
    pub one_by_one: bool,
    /// True if the server may lose requests, so that balances are known only within a bound.
    pub loses: bool,
    /// Approximate duration of the run.
    pub duration: Duration,
    /// Maximum number of requests. If it is given, the run has no warm-up.
    pub limit: Option<u64>,
}

/// Sends requests to the attached contestant. The calling thread must be in the client's namespace; `interface` is the
/// index of the client's interface.
pub fn run(generator: &Generator, interface: u32, drive: Drive) -> Result<Tally> {
    let send = if drive.one_by_one { "tb_live_1" } else { "tb_live" };
    // The kernel sends a batch of one frame before it runs the next frame, so the reply arrives while the generator
    // waits for it.
    let batch = if drive.one_by_one { 1 } else { BATCH };
    let (send, check) = (generator.program(send)?, generator.program("tb_check")?);
    let _attached = sys::attach_native(check.as_fd(), interface).map_err(io("attaching the checker"))?;
    let call = |first: u64, limit: u64, calls: u64, knows: bool| {
        let orders = Orders {
            plan: drive.plan,
            first,
            limit,
            sample_bits: if drive.one_by_one || limit <= TIMED_EACH {
                0
            } else {
                SAMPLE_BITS
            },
            last: 0,
            loses: !knows,
            native: None,
        };
        generator.begin(&orders)?;
        let from_ns = sys::now_ns();
        let calls = calls.clamp(1, REQUESTS_MAX as u64) as u32;
        sys::test_run(
            send.as_fd(),
            &template(&orders),
            calls,
            Run::Live { interface, batch },
        )
        .map_err(io("running the live-frames generator"))?;
        let took_ns = sys::now_ns() - from_ns;
        let mut arrived = u64::MAX;
        for _ in 0..PATIENCE_TIMES {
            let before = std::mem::replace(&mut arrived, generator.seen()?.arrived());
            if arrived == before {
                break;
            }
            std::thread::sleep(LATE_REPLY_WAIT);
        }
        let (sent, seen) = (generator.sent()?, generator.seen()?);
        let (counted, answered) = (sent.next - first, seen.answered());
        let kept = generator.wrong.read()?;
        let describe = |kept: &KeptReply| drive.plan.describe(kept.sent, &kept.reply);
        let spent_ns = seen.last_ns.saturating_sub(sent.first_ns);
        Ok::<_, BenchError>((
            Tally {
                sent: counted,
                right: seen.right,
                busy: seen.busy,
                refused: seen.refused,
                wrong: WrongReplies::new(seen.wrong, kept.iter().map(describe)),
                late: seen.late,
                repeated: seen.repeated,
                lost: counted.saturating_sub(answered),
                took_ns: if seen.right == 0 { took_ns } else { spent_ns.max(1) },
                latency: seen.latency,
                sent_all: counted,
                right_all: seen.right + seen.late,
            },
            took_ns,
        ))
    };
    let knows = !drive.loses;
    if let Some(limit) = drive.limit {
        // With one request at a time, most calls of the program only poll for the reply, so the number of calls is very
        // large.
        let calls = if drive.one_by_one {
            limit.saturating_mul(400)
        } else {
            limit
        };
        return Ok(call(0, limit, calls, knows)?.0);
    }
    let (warm, warm_ns) = call(0, u64::MAX >> 1, WARM_UP_REQUESTS, knows)?;
    let calls = WARM_UP_REQUESTS as f64 * drive.duration.as_nanos() as f64 / warm_ns.max(1) as f64;
    let knows = knows && warm.busy + warm.refused + warm.lost == 0;
    let calls = calls.clamp(1e5, REQUESTS_MAX) as u64;
    let (mut tally, _) = call(warm.sent, u64::MAX >> 2, calls, knows)?;
    tally.sent_all += warm.sent_all;
    tally.right_all += warm.right_all;
    tally.busy += warm.busy;
    tally.refused += warm.refused;
    tally.wrong.extend(&warm.wrong);
    tally.repeated += warm.repeated;
    Ok(tally)
}

/// Returns the number of requests after which a plan must be restarted, because each account can be created only once.
pub fn limit_of(plan: &Plan) -> Option<u64> {
    (plan.command == Command::Create).then(|| plan.accounts())
}
