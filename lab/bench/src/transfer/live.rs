//! The live-frames generator (see `crate::live`) with this scenario's requests. Their UDP checksums are right: the fast
//! path executes nothing whose checksum it cannot check.

use super::bpf::{Generator, Orders, template};
use super::plan::{Command, Plan};
use super::tally::Tally;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, Run};
use std::os::fd::AsFd;
use std::time::Duration;

/// Requests of the first call, which says how fast the generator is against this server; its replies do not count.
const WARM_UP_REQUESTS: u64 = 100_000;
/// Replies have ended when none has come for so long; what came later would count against the next call.
const PATIENCE: Duration = Duration::from_millis(30);
/// How many times that at most.
const PATIENCE_TIMES: usize = 100;
/// Frames that the kernel runs at once.
const BATCH: u32 = 64;
const REQUESTS_MAX: f64 = 1e9;
/// One request in so many is timed, where there are many.
const SAMPLE: u32 = 16;
/// Of so few each one is.
const TIMED_EACH: u64 = 1_000;

/// How to drive.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    /// What is asked.
    pub plan: Plan,
    /// One request at a time, instead of as many as can be.
    pub one_by_one: bool,
    /// The server may lose requests, so that balances are known only within a bound.
    pub loses: bool,
    /// For about so long.
    pub duration: Duration,
    /// Requests at most; where there is such a limit nothing warms up.
    pub limit: Option<u64>,
}

/// Drives whoever answers. The calling thread stands in the client's namespace, `interface` is the index of its end.
pub fn run(generator: &Generator, interface: u32, drive: Drive) -> Result<Tally> {
    let send = if drive.one_by_one { "tb_live_1" } else { "tb_live" };
    // A batch of one is acted on before the next is run, so that the reply comes while the generator waits for it.
    let batch = if drive.one_by_one { 1 } else { BATCH };
    let (send, check) = (generator.program(send)?, generator.program("tb_check")?);
    let _attached = sys::attach_native(check.as_fd(), interface).map_err(io("attaching the checker"))?;
    let call = |first: u64, limit: u64, calls: u64, knows: bool| {
        let slack = if !knows {
            // All of an account's requests of one kind may not have been done, and all of the other.
            ((first + calls) >> drive.plan.bits) as u32 + 1
        } else {
            0
        };
        let orders = Orders {
            plan: drive.plan,
            first,
            limit,
            sample: if drive.one_by_one || limit <= TIMED_EACH {
                1
            } else {
                SAMPLE
            },
            last: 0,
            slack,
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
        let mut answered = u64::MAX;
        for _ in 0..PATIENCE_TIMES {
            let before = std::mem::replace(&mut answered, generator.seen()?.answered());
            if answered == before {
                break;
            }
            std::thread::sleep(PATIENCE);
        }
        let (sent, seen) = (generator.sent()?, generator.seen()?);
        let (counted, answered) = (sent.next - first, seen.answered());
        let spent_ns = seen.last_ns.saturating_sub(sent.first_ns);
        Ok::<_, BenchError>((
            Tally {
                sent: counted,
                right: seen.right,
                busy: seen.busy,
                refused: seen.refused,
                wrong: seen.wrong,
                lost: counted.saturating_sub(answered),
                took_ns: if seen.right == 0 { took_ns } else { spent_ns.max(1) },
                latency: seen.latency,
                sent_all: counted,
                right_all: seen.right,
            },
            took_ns,
        ))
    };
    let knows = !drive.loses;
    if let Some(limit) = drive.limit {
        // One at a time most calls only look whether the reply has come: more than enough of them.
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
    tally.wrong += warm.wrong;
    Ok(tally)
}

/// Requests after which a plan has to begin anew: an account is made once.
pub fn limit_of(plan: &Plan) -> Option<u64> {
    (plan.command == Command::Create).then(|| plan.accounts())
}
