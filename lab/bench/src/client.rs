//! Parts that all software clients share: the requests, those in flight, and the check of replies; and the socket
//! client.

use crate::error::{Result, io};
use crate::netns::SERVER_ADDRESS;
use crate::sys::{self, BATCH, Batch};
use crate::workload::{BLOCKS, Expect, Workload};
use crate::wrong::{WrongReplies, WrongReply};
use hdrhistogram::Histogram;
use lineside_wire::SPV_PORT;
use std::net::UdpSocket;
use std::time::Duration;

/// Time in nanoseconds after which a request without a reply counts as lost. It is long because other work on a shared
/// machine has delayed a server by 440 ms.
pub const LOST_AFTER_NS: u64 = 2_000_000_000;
/// Maximum number of requests in flight. A reply is matched with its request by the number of its block.
pub const WINDOW_MAX: usize = BLOCKS / 2;

/// Size of a request in the paper's format, in bytes.
const REQUEST_BYTES: u16 = 32;
/// Maximum latency in the histograms, in nanoseconds. Longer latencies count as this value.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Returns an empty histogram of nanoseconds, with a precision of 1 %.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("the bounds are valid")
}

/// Counts of one run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Number of requests that the client sent.
    pub sent: u64,
    /// Number of replies with the expected bytes.
    pub right: u64,
    /// Replies with other bytes than expected.
    pub wrong: WrongReplies,
    /// Number of requests that got no reply in time.
    pub lost: u64,
    /// Duration of the run in nanoseconds.
    pub took_ns: u64,
    /// Latencies of the right replies, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            sent: 0,
            right: 0,
            wrong: WrongReplies::default(),
            lost: 0,
            took_ns: 0,
            latency: histogram(),
        }
    }
}

impl Tally {
    /// Returns the number of right replies per second.
    pub fn rps(&self) -> f64 {
        self.right as f64 * 1e9 / self.took_ns.max(1) as f64
    }
}

/// Detector of a wait without replies. If the thread was not scheduled for a long time, replies may be in its socket. A
/// wait has therefore failed only if the thread has polled the socket again after the time-out without success.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    since_ns: u64,
    is_over: bool,
}

impl Wait {
    /// Starts a wait at `now_ns`.
    pub const fn new(now_ns: u64) -> Self {
        Self {
            since_ns: now_ns,
            is_over: false,
        }
    }

    /// Returns whether no reply arrived for `patience_ns`, nor in the poll after that time. The caller calls this
    /// function between any two polls.
    pub fn is_in_vain(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        let was_over = self.is_over;
        self.is_over = now_ns.saturating_sub(self.since_ns) > patience_ns;
        was_over && self.is_over
    }
}

/// Parameters of a closed loop: a client that has at most `window` requests in flight.
#[derive(Clone, Copy, Debug)]
pub struct ClosedLoop {
    /// Maximum number of requests in flight.
    pub window: usize,
    /// Expected content of replies.
    pub expect: Expect,
    /// Time in which the client sends requests and does not count replies.
    pub warm_up: Duration,
    /// Time in which the client counts replies.
    pub duration: Duration,
}

#[derive(Clone, Copy)]
struct RequestInFlight {
    number: u64,
    sent_ns: u64,
}

/// Closed loop that is running. It stores the requests in flight by the numbers of their blocks.
pub struct Flight<'a> {
    workload: &'a Workload,
    plan: ClosedLoop,
    asked: [Option<RequestInFlight>; BLOCKS],
    in_flight: usize,
    next: u64,
    wait: Wait,
    counts_from_ns: u64,
    ends_ns: u64,
    is_warm: bool,
    tally: Tally,
}

impl<'a> Flight<'a> {
    /// Returns a closed loop that has not sent a request yet.
    pub fn new(workload: &'a Workload, plan: ClosedLoop) -> Self {
        let now_ns = sys::now_ns();
        let counts_from_ns = now_ns + plan.warm_up.as_nanos() as u64;
        debug_assert!((1..=WINDOW_MAX).contains(&plan.window));
        Self {
            workload,
            plan,
            asked: [None; BLOCKS],
            in_flight: 0,
            next: 0,
            wait: Wait::new(now_ns),
            counts_from_ns,
            ends_ns: counts_from_ns + plan.duration.as_nanos() as u64,
            is_warm: false,
            tally: Tally::default(),
        }
    }

    /// Returns the number of requests that may be sent now; `None` if the run is over.
    pub fn room(&mut self, now_ns: u64) -> Option<usize> {
        if !self.is_warm && now_ns >= self.counts_from_ns {
            self.is_warm = true;
            self.counts_from_ns = now_ns;
            self.ends_ns = now_ns + self.plan.duration.as_nanos() as u64;
            // The warm-up ends here: `right`, `sent` and the latencies start again. Losses and wrong replies of the
            // warm-up still count.
            (self.tally.right, self.tally.sent) = (0, self.in_flight as u64);
            self.tally.latency.reset();
        }
        if self.in_flight > 0 && self.wait.is_in_vain(now_ns, LOST_AFTER_NS) {
            self.tally.lost += self.in_flight as u64;
            self.asked = [None; BLOCKS];
            self.in_flight = 0;
            self.wait = Wait::new(now_ns);
        }
        // The client sends at least one request, even if this thread runs very late.
        if now_ns < self.ends_ns || !self.is_warm || self.tally.sent == 0 {
            return Some(self.plan.window - self.in_flight);
        }
        // At the end the client waits for the last replies, so that every request is right, wrong or lost.
        (self.in_flight > 0).then_some(0)
    }

    /// Returns the next request and counts it as sent at `now_ns`. Returns `None` if a request of the same block is in
    /// flight.
    pub fn ask(&mut self, now_ns: u64) -> Option<&'a [u8; 32]> {
        let place = &mut self.asked[self.next as usize % self.workload.places()];
        if place.is_some() {
            return None;
        }
        *place = Some(RequestInFlight {
            number: self.next,
            sent_ns: now_ns,
        });
        let request = self.workload.request(self.next);
        self.next += 1;
        if self.in_flight == 0 {
            self.wait = Wait::new(now_ns);
        }
        self.in_flight += 1;
        self.tally.sent += 1;
        Some(request)
    }

    /// Takes back the last `count` requests, which could not be sent.
    pub fn take_back(&mut self, count: usize) {
        for _ in 0..count {
            self.next -= 1;
            self.asked[self.next as usize % self.workload.places()] = None;
            self.in_flight -= 1;
            self.tally.sent -= 1;
        }
    }

    /// Checks and counts a reply.
    pub fn reply(&mut self, now_ns: u64, payload: &[u8]) {
        self.wait = Wait::new(now_ns);
        let mark = payload
            .get(30..32)
            .map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
        let place = &mut self.asked[mark % self.workload.places()];
        let expect = self.plan.expect;
        match *place {
            Some(asked) if payload == self.workload.reply(asked.number, expect) => {
                *place = None;
                self.in_flight -= 1;
                self.tally.right += 1;
                self.tally.latency.saturating_record(now_ns - asked.sent_ns);
            }
            // The client gave the request up and counted it as lost, so this reply is late.
            None if self.tally.lost > 0 => (),
            Some(asked) => self.tally.wrong.add(|| {
                let (workload, number) = (self.workload, asked.number);
                WrongReply::of_bytes(workload.request(number), payload, workload.reply(number, expect))
            }),
            None => self.tally.wrong.add(|| WrongReply::stray(payload)),
        }
    }

    /// Returns the counts of the run.
    pub fn end(mut self, now_ns: u64) -> Tally {
        self.tally.took_ns = now_ns - self.counts_from_ns;
        self.tally
    }
}

/// Runs a closed loop over one socket without blocking. One call sends all requests that may be sent (UDP_SEGMENT,
/// which costs the client less than sendmmsg and sends the same datagrams), and recvmmsg receives the replies. The
/// calling thread must be in the client's namespace.
pub fn socket(workload: &Workload, plan: ClosedLoop) -> Result<Tally> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(io("binding the client's socket"))?;
    socket
        .connect((SERVER_ADDRESS, SPV_PORT))
        .map_err(io("connecting the client's socket"))?;
    let (mut requests, mut replies) = (Batch::default(), Batch::default());
    let mut flight = Flight::new(workload, plan);
    sys::set_segment(&socket, REQUEST_BYTES).map_err(io("setting up the client's socket"))?;
    if plan.window == 1 {
        return one_by_one(&socket, flight);
    }
    loop {
        let now_ns = sys::now_ns();
        let Some(room) = flight.room(now_ns) else {
            return Ok(flight.end(now_ns));
        };
        let mut count = 0;
        while count < room.min(BATCH)
            && let Some(request) = flight.ask(now_ns)
        {
            requests.put(count, request);
            count += 1;
        }
        if count > 0 {
            let sent = requests.send_segmented(&socket, count);
            flight.take_back(count - sent);
        }
        let got = replies.receive(&socket);
        if got > 0 {
            let now_ns = sys::now_ns();
            for index in 0..got {
                flight.reply(now_ns, replies.get(index));
            }
        }
    }
}

/// Runs a closed loop with one request in flight, with the calls send and recv.
fn one_by_one(socket: &UdpSocket, mut flight: Flight<'_>) -> Result<Tally> {
    socket
        .set_nonblocking(true)
        .map_err(io("setting up the client's socket"))?;
    let mut bytes = [0; 64];
    loop {
        let now_ns = sys::now_ns();
        let Some(room) = flight.room(now_ns) else {
            return Ok(flight.end(now_ns));
        };
        if room > 0
            && let Some(request) = flight.ask(now_ns)
            && socket.send(request).is_err()
        {
            flight.take_back(1);
        }
        if let Ok(count) = socket.recv(&mut bytes) {
            flight.reply(sys::now_ns(), &bytes[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_not_scheduled_polls_once_more_before_it_times_out() {
        let mut wait = Wait::new(100);
        assert!(!wait.is_in_vain(110, 10));
        assert!(
            !wait.is_in_vain(5_000, 10),
            "the thread was not scheduled in between"
        );
        assert!(
            wait.is_in_vain(5_001, 10),
            "the client has polled since the time-out"
        );
        let mut wait = Wait::new(100);
        assert!(!wait.is_in_vain(5_000, 10));
        wait = Wait::new(5_000);
        assert!(!wait.is_in_vain(5_005, 10), "a reply has arrived");
    }
}
