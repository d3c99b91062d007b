//! Tests of the check of replies: replies that come late, in another order or twice are not wrong, and wrong replies
//! are found however late they come.

use super::bpf::{Generator, Orders, TransferSeenCounts, template};
use super::express::UnusedHost;
use super::plan::{ACCOUNT_BITS, Command, Judged, Plan};
use super::store;
use crate::error::{BenchError, Result, io};
use crate::netns::{CLIENT_ADDRESS, CLIENT_MAC, NamespacePair, SERVER_ADDRESS, SERVER_MAC};
use crate::servers::{ServerThread, wait};
use crate::sys::{self, Run};
use lineside_fastpath::{FastPath, Readers, Reply, Source, Verdict};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_testkit::skipped;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::frame::{Addressing, build};
use lineside_wire::{TRANSFER_PAPER_BYTES_MAX, TRANSFER_PORT, TransferCode as Code};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, RwLock};
use std::time::Duration;

const PLAN: Plan = Plan {
    command: Command::Transfer,
    bits: ACCOUNT_BITS,
    numbered: true,
};
/// Number of requests that the generator sends in 21 ms at 3.2 M requests/s: more than there are accounts.
const STALL: u64 = 67_200;

/// Reply that arrives after `sent` requests were sent, and the expected result of its check.
struct Arrival {
    sent: u64,
    reply: [u8; TRANSFER_PAPER_BYTES_MAX],
    number: u64,
    judged: Judged,
}

/// Returns the right reply to request `number` of the plan.
fn right(plan: &Plan, number: u64) -> PaperRequest {
    let mut reply = plan.request(number);
    reply.amount = plan.balance_after(number);
    reply
}

/// Returns the replies to 2,000 requests that come late by [`STALL`] requests, each group of 64 in reverse order.
fn late(plan: &Plan) -> Vec<Arrival> {
    let mut numbers: Vec<u64> = (500..2_500).collect();
    numbers.chunks_mut(64).for_each(<[_]>::reverse);
    let arrivals = numbers.iter().enumerate().map(|(place, number)| Arrival {
        sent: 500 + STALL + place as u64,
        reply: right(plan, *number).to_bytes(),
        number: *number,
        judged: Judged::Right,
    });
    arrivals.collect()
}

/// Returns wrong replies that come late by [`STALL`] requests: a wrong balance, another command, another receiver,
/// filler that is not zero, the id of a request that was never sent, and an account that does not exist.
fn wrong(plan: &Plan) -> Vec<Arrival> {
    let sent = 2 * STALL;
    let mut arrivals = Vec::new();
    for number in 3_000..3_100 {
        let of = |change: &dyn Fn(&mut PaperRequest)| {
            let mut reply = right(plan, number);
            change(&mut reply);
            Arrival {
                sent,
                reply: reply.to_bytes(),
                number,
                judged: Judged::Wrong,
            }
        };
        arrivals.extend([
            of(&|reply| reply.amount += 1),
            of(&|reply| reply.command = 4),
            of(&|reply| reply.destination ^= 1),
            // The requests of the fourth pass over the accounts were not sent yet.
            of(&|reply| reply.transaction_id = 4),
            of(&|reply| reply.transaction_id = 0),
            of(&|reply| reply.source = Plan::id(1 << ACCOUNT_BITS)),
        ]);
        let refused = |code: Code, judged| Arrival {
            judged,
            ..of(&|reply| (reply.command, reply.amount) = (reply.command | 1 << 31, code as u32))
        };
        arrivals.push(refused(Code::InsufficientFunds, Judged::Refused));
        let mut filled = right(plan, number).to_bytes();
        filled[TRANSFER_PAPER_BYTES_MAX - 1] = 1;
        arrivals.push(Arrival {
            reply: filled,
            ..of(&|_| ())
        });
    }
    arrivals
}

/// Returns the number of these replies that the rule "the reply belongs to the newest request about its account" would
/// have counted as wrong.
fn wrong_by_the_newest(plan: &Plan, arrivals: &[Arrival]) -> usize {
    let newest = |arrival: &Arrival| {
        let account = u64::from(plan.account(arrival.number));
        ((arrival.sent - 1 - account) >> plan.bits << plan.bits) | account
    };
    let differs = |arrival: &&Arrival| right(plan, newest(arrival)).to_bytes() != arrival.reply;
    arrivals.iter().filter(differs).count()
}

#[test]
fn replies_that_come_late_or_in_another_order_are_not_wrong() {
    for command in [Command::Issue, Command::Transfer, Command::Refer, Command::Mix] {
        for numbered in [true, false] {
            let plan = Plan {
                command,
                numbered,
                ..PLAN
            };
            for arrival in late(&plan) {
                let (number, judged) = plan.judge(arrival.sent, &arrival.reply, true);
                assert_eq!(judged, Judged::Right, "{plan:?} {}", arrival.number);
                if numbered && command != Command::Refer && plan.command(plan.account(arrival.number)) != 4 {
                    assert_eq!(number, Some(arrival.number), "{plan:?}");
                }
            }
        }
    }
    let arrivals = late(&PLAN);
    assert_eq!(wrong_by_the_newest(&PLAN, &arrivals), arrivals.len());
}

#[test]
fn wrong_replies_are_found_however_late_they_come() {
    for Arrival {
        sent, reply, judged, ..
    } in wrong(&PLAN)
    {
        assert_eq!(PLAN.judge(sent, &reply, true).1, judged, "{reply:?}");
        assert_eq!(PLAN.judge(sent, &reply[..21], true).1, Judged::Wrong);
    }
}

/// Returns the generator and namespaces, or `None` without root rights.
fn field() -> Option<(Generator, Arc<NamespacePair>)> {
    match NamespacePair::new() {
        Err(BenchError::NotAllowed(why)) => {
            skipped(format_args!("root is needed ({why})"));
            None
        }
        // With root rights, a program that the kernel does not accept is a fault.
        pair => Some((Generator::load().unwrap(), Arc::new(pair.unwrap()))),
    }
}

fn orders(first: u64) -> Orders {
    Orders {
        plan: PLAN,
        first,
        limit: u64::MAX >> 2,
        sample_bits: 4,
        last: 0,
        loses: false,
        native: None,
    }
}

/// Checks the replies in the BPF program. Each one is repeated `times` times.
fn checked(generator: &Generator, arrivals: &[Arrival], times: u32) -> Result<TransferSeenCounts> {
    let orders = orders(0);
    let (send, check) = (generator.program("tb_live")?, generator.program("tb_check")?);
    generator.begin(&orders)?;
    let mut sent = 0;
    for arrival in arrivals {
        if arrival.sent > sent {
            let more = (arrival.sent - sent) as u32;
            sys::test_run(send.as_fd(), &template(&orders), more, Run::Repeat).map_err(io("sending"))?;
            sent = arrival.sent;
        }
        let payload = &arrival.reply;
        let mut frame = vec![0; 42 + payload.len()];
        let addressing = Addressing {
            source_mac: SERVER_MAC,
            destination_mac: CLIENT_MAC,
            vlan: None,
            source: SERVER_ADDRESS.into(),
            destination: CLIENT_ADDRESS.into(),
            source_port: TRANSFER_PORT,
            destination_port: 0x8000 | (arrival.number & 0x7fff) as u16,
        };
        build(&mut frame, &addressing, payload);
        sys::test_run(check.as_fd(), &frame, times, Run::Repeat).map_err(io("checking"))?;
    }
    assert_eq!(generator.sent()?.next, sent);
    generator.seen()
}

#[test]
fn the_bpf_program_finds_the_request_of_a_late_reply_and_counts_repetitions_once() {
    let Some((generator, _)) = field() else { return };
    let arrivals = late(&PLAN);
    let seen = checked(&generator, &arrivals, 3).unwrap();
    assert_eq!((seen.right, seen.repeated), (2_000, 4_000));
    assert_eq!((seen.wrong, seen.busy, seen.refused, seen.late), (0, 0, 0, 0));
}

#[test]
fn the_bpf_program_finds_wrong_replies() {
    let Some((generator, _)) = field() else { return };
    let arrivals = wrong(&PLAN);
    let due = |judged| arrivals.iter().filter(|arrival| arrival.judged == judged).count() as u64;
    let seen = checked(&generator, &arrivals, 1).unwrap();
    assert_eq!(
        (seen.wrong, seen.refused),
        (due(Judged::Wrong), due(Judged::Refused))
    );
    assert_eq!((seen.right, seen.repeated, seen.late), (0, 0, 0));
    let kept = generator.wrong.read().unwrap();
    let first = arrivals.iter().filter(|arrival| arrival.judged == Judged::Wrong);
    assert_eq!(kept.len(), 10);
    for (kept, arrival) in kept.iter().zip(first) {
        assert_eq!((kept.sent, &kept.reply[..]), (arrival.sent, &arrival.reply[..]));
        let shown = PLAN.describe(kept.sent, &kept.reply);
        assert_eq!(shown.reply, crate::wrong::hex(&arrival.reply));
    }
}

/// Fast path that answers nothing while the lock is held for writing.
struct Stalling {
    gate: Arc<RwLock<()>>,
    inner: TransferFastPath,
}

impl FastPath for Stalling {
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        let _open = self.gate.read();
        self.inner.answer(from, now_ns, request, reply)
    }
}

/// Sends requests to the socket datapath while its fast path pauses. It answers the requests in its socket's
/// buffer after all others were sent, more than a pass over the accounts too late.
#[test]
fn a_server_that_stood_still_answers_late_but_not_wrongly() {
    const REQUESTS: u32 = 200_000;
    let Some((generator, pair)) = field() else { return };
    let store = store::anonymous().unwrap();
    store::fill(&store, ACCOUNT_BITS).unwrap();
    let gate = Arc::new(RwLock::new(()));
    let fastpath = Stalling {
        gate: Arc::clone(&gate),
        inner: TransferFastPath::new(store),
    };
    let server = ServerThread::start(&pair, move |stop, ready| {
        let options = SocketOptions {
            listen: SocketAddr::from((SERVER_ADDRESS, TRANSFER_PORT)),
            threads: 1,
            queue: 1024,
        };
        let datapath = SocketDatapath::start(
            options,
            Arc::new(fastpath),
            Arc::new(UnusedHost),
            &Readers::new(false),
        );
        let _datapath = datapath.map_err(io("starting the socket datapath"))?;
        wait(stop, &ready);
        Ok(())
    })
    .unwrap();
    let interface = pair.client_index;
    let seen = pair.client.run(0, || {
        let (send, check) = (generator.program("tb_live")?, generator.program("tb_check")?);
        let _attached = sys::attach_native(check.as_fd(), interface).map_err(io("attaching"))?;
        let orders = Orders {
            loses: true,
            ..orders(0)
        };
        generator.begin(&orders)?;
        let closed = gate.write();
        let live = Run::Live { interface, batch: 64 };
        sys::test_run(send.as_fd(), &template(&orders), REQUESTS, live).map_err(io("sending"))?;
        assert_eq!(
            generator.seen()?.arrived(),
            0,
            "the server must not answer while it pauses"
        );
        drop(closed);
        let mut seen = generator.seen()?;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let before = std::mem::replace(&mut seen, generator.seen()?);
            if seen.arrived() > 0 && seen.arrived() == before.arrived() {
                return Ok(seen);
            }
        }
    });
    let seen = seen.unwrap();
    server.end().unwrap();
    eprintln!("{} requests were answered late", seen.right);
    assert!(seen.right > 100, "{seen:?}");
    assert_eq!((seen.wrong, seen.refused, seen.repeated), (0, 0, 0), "{seen:?}");
}
