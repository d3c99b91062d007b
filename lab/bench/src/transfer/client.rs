//! Socket client: a closed loop over one socket, with a window of requests or one request at a time.

use super::plan::{Judged, Plan};
use super::tally::Tally;
use crate::client::{LOST_AFTER_NS, Wait};
use crate::error::{Result, io};
use crate::netns::SERVER_ADDRESS;
use crate::sys::{self, BATCH, Batch};
use lineside_wire::{TRANSFER_PAPER_BYTES_MAX, TRANSFER_PORT};
use std::net::UdpSocket;
use std::time::Duration;

/// Number of slots for requests in flight. It is larger than any window.
const REQUEST_SLOTS: usize = 256;

/// Parameters of a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// Plan of the requests.
    pub plan: Plan,
    /// Maximum number of requests in flight.
    pub window: usize,
    /// Time in which the client sends requests and does not count replies.
    pub warm_up: Duration,
    /// Time in which the client counts replies.
    pub duration: Duration,
    /// Maximum number of requests, including the warm-up.
    pub limit: u64,
}

struct Flight {
    order: Loop,
    asked: [Option<(u64, u64)>; REQUEST_SLOTS],
    in_flight: usize,
    next: u64,
    first_ns: u64,
    last_ns: u64,
    wait: Wait,
    counts_from_ns: u64,
    ends_ns: u64,
    is_warm: bool,
    tally: Tally,
}

impl Flight {
    fn new(order: Loop) -> Self {
        let now_ns = sys::now_ns();
        let counts_from_ns = now_ns + order.warm_up.as_nanos() as u64;
        Self {
            order,
            asked: [None; REQUEST_SLOTS],
            in_flight: 0,
            next: 0,
            first_ns: now_ns,
            last_ns: now_ns,
            wait: Wait::new(now_ns),
            counts_from_ns,
            ends_ns: counts_from_ns + order.duration.as_nanos() as u64,
            is_warm: order.warm_up.is_zero(),
            tally: Tally::default(),
        }
    }

    /// Returns the number of requests that may be sent now; `None` if the run is over.
    fn room(&mut self, now_ns: u64) -> Option<usize> {
        if !self.is_warm && now_ns >= self.counts_from_ns {
            self.is_warm = true;
            self.first_ns = now_ns;
            self.ends_ns = now_ns + self.order.duration.as_nanos() as u64;
            // Losses and wrong replies count also in the warm-up.
            (self.tally.right, self.tally.sent) = (0, self.in_flight as u64);
            self.tally.latency.reset();
        }
        if self.in_flight > 0 && self.wait.is_in_vain(now_ns, LOST_AFTER_NS) {
            self.tally.lost += self.in_flight as u64;
            self.asked = [None; REQUEST_SLOTS];
            self.in_flight = 0;
            self.last_ns = now_ns;
            self.wait = Wait::new(now_ns);
        }
        let left = self.order.limit - self.next;
        // The client sends at least one request, even if this thread runs very late.
        if left > 0 && (now_ns < self.ends_ns || !self.is_warm || self.tally.sent == 0) {
            return Some((self.order.window - self.in_flight).min(left as usize));
        }
        // At the end the client waits for the last replies, so that every request is right, refused, wrong or lost.
        (self.in_flight > 0).then_some(0)
    }

    fn ask(&mut self, now_ns: u64) -> Option<[u8; TRANSFER_PAPER_BYTES_MAX]> {
        let place = &mut self.asked[self.next as usize % REQUEST_SLOTS];
        if place.is_some() {
            return None;
        }
        *place = Some((self.next, now_ns));
        let request = self.order.plan.request(self.next).to_bytes();
        self.next += 1;
        if self.in_flight == 0 {
            self.wait = Wait::new(now_ns);
        }
        self.in_flight += 1;
        self.tally.sent += 1;
        Some(request)
    }

    fn take_back(&mut self, count: usize) {
        for _ in 0..count {
            self.next -= 1;
            self.asked[self.next as usize % REQUEST_SLOTS] = None;
            self.in_flight -= 1;
            self.tally.sent -= 1;
        }
    }

    fn reply(&mut self, now_ns: u64, payload: &[u8]) {
        self.last_ns = now_ns;
        self.wait = Wait::new(now_ns);
        let tally = &mut self.tally;
        let is_known = tally.busy + tally.refused + tally.lost == 0;
        let (number, judged) = self.order.plan.judge(self.next, payload, is_known);
        let (Some(number), true) = (number, judged != Judged::Wrong) else {
            let (plan, sent) = (self.order.plan, self.next);
            tally.wrong.add(|| plan.describe(sent, payload));
            return;
        };
        let place = &mut self.asked[number as usize % REQUEST_SLOTS];
        let Some((_, sent_ns)) = place.take_if(|(asked, _)| *asked == number) else {
            // The request was answered before, or the client gave it up and counted it as lost.
            tally.repeated += 1;
            return;
        };
        self.in_flight -= 1;
        match judged {
            Judged::Right => {
                tally.right += 1;
                tally.right_all += 1;
                tally.latency.saturating_record(now_ns - sent_ns);
            }
            Judged::Busy => tally.busy += 1,
            _ => tally.refused += 1,
        }
    }

    fn end(mut self) -> Tally {
        self.tally.took_ns = self.last_ns - self.first_ns;
        self.tally.sent_all = self.next;
        self.tally
    }
}

/// Runs a closed loop over one socket without blocking. One call sends all requests that may be sent (UDP_SEGMENT,
/// which costs the client less than sendmmsg and sends the same datagrams), and recvmmsg receives the replies. The
/// calling thread must be in the client's namespace.
pub fn run(order: Loop) -> Result<Tally> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(io("binding the client's socket"))?;
    socket
        .connect((SERVER_ADDRESS, TRANSFER_PORT))
        .map_err(io("connecting the client's socket"))?;
    if order.window == 1 {
        return one_by_one(&socket, Flight::new(order));
    }
    sys::set_segment(&socket, TRANSFER_PAPER_BYTES_MAX as u16)
        .map_err(io("setting up the client's socket"))?;
    let (mut requests, mut replies) = (Batch::default(), Batch::default());
    let mut flight = Flight::new(order);
    loop {
        let now_ns = sys::now_ns();
        let Some(room) = flight.room(now_ns) else {
            return Ok(flight.end());
        };
        let mut count = 0;
        while count < room.min(BATCH)
            && let Some(request) = flight.ask(now_ns)
        {
            requests.put(count, &request);
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
fn one_by_one(socket: &UdpSocket, mut flight: Flight) -> Result<Tally> {
    socket
        .set_nonblocking(true)
        .map_err(io("setting up the client's socket"))?;
    let mut bytes = [0; 64];
    loop {
        let now_ns = sys::now_ns();
        let Some(room) = flight.room(now_ns) else {
            return Ok(flight.end());
        };
        if room > 0
            && let Some(request) = flight.ask(now_ns)
            && socket.send(&request).is_err()
        {
            flight.take_back(1);
        }
        if let Ok(count) = socket.recv(&mut bytes) {
            flight.reply(sys::now_ns(), &bytes[..count]);
        }
    }
}
