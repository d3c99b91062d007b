//! One thread of a load run: its schedule, its sockets, its requests in flight, and its counts.

use super::flight::{Flight, NotInFlight, Request};
use super::{Judgement, Kind, LoadError, Pace, Plan, Result, Traffic, WRONG_KEPT, io, latencies};
use crate::sys::{self, BATCH, Batch};
use hdrhistogram::Histogram;
use lineside_client::exchange::open;
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_testkit::Random;
use lineside_wire::{NATIVE_REPLY_BIT, NATIVE_VERSION, NativeHeader, Status, native};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Duration;
use zerocopy::FromBytes;

/// Time before a scheduled request at which a waiting thread wakes up. The kernel wakes a thread some 50 µs late, which
/// would count as latency.
const WAKE_BEFORE_NS: u64 = 100_000;
/// Maximum time that a thread waits without looking at its schedule.
const WAIT_MAX_NS: u64 = 2_000_000;

/// Part of a run that one thread has.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Number of the thread, from 0.
    pub index: usize,
    /// Number of threads.
    pub threads: usize,
    /// Time of the first scheduled request.
    pub start_ns: u64,
}

/// Wrong answer with its request.
#[derive(Clone, Debug)]
pub struct WrongAnswer {
    /// Name of the request's operation; `unknown` if the answer belongs to no request.
    pub case: &'static str,
    /// Description of the contradiction.
    pub why: String,
    /// Bytes of the request; empty if the answer belongs to none.
    pub request: Vec<u8>,
    /// Bytes of the answer.
    pub answer: Vec<u8>,
}

/// Counts of one thread.
#[derive(Debug)]
pub struct ThreadTally {
    /// Requests that were sent at least once.
    pub sent: u64,
    /// Requests with a right answer.
    pub answered: u64,
    /// Requests without an answer within the time-out.
    pub lost: u64,
    /// Scheduled writes that were never sent, because no session became free in time.
    pub unsent: u64,
    /// Repeated sendings of writes that had no answer yet.
    pub resent: u64,
    /// Writes that were sent twice at once.
    pub duplicated: u64,
    /// Answers to requests that were answered or given up before.
    pub late: u64,
    /// Wrong answers.
    pub wrong: u64,
    /// The first wrong answers.
    pub wrong_answers: Vec<WrongAnswer>,
    /// Refused requests, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Replies `busy` to writes, which are sent again.
    pub busy: u64,
    /// Longest time from the scheduled time of a request until this thread looked at it.
    pub lag_ns: u64,
    /// Time of the first scheduled request.
    pub start_ns: u64,
    /// Time of the last answer.
    pub last_ns: u64,
    /// Latencies of right answers in nanoseconds.
    pub latency: Histogram<u64>,
}

struct Thread<'a, T: Traffic> {
    plan: &'a Plan,
    share: Share,
    traffic: T,
    sockets: Vec<UdpSocket>,
    /// Number of the socket that sends the next batch.
    next_socket: usize,
    /// Draws the writes that are sent twice.
    random: Random,
    flight: Flight<T::Asked>,
    /// Numbers of requests to send now.
    outbox: VecDeque<u64>,
    /// Times of scheduled writes for which no session was free.
    waiting: VecDeque<u64>,
    /// Writes in flight, with the times at which they are sent again.
    resends: VecDeque<(u64, u64)>,
    /// Number of requests that were drawn.
    drawn: u64,
    /// True once the traffic has no more requests.
    is_exhausted: bool,
    ends_ns: u64,
    tally: ThreadTally,
}

/// Sends the requests of one thread until all are answered, refused or lost.
///
/// # Errors
/// Errors of the socket and of the traffic.
pub fn run<T: Traffic>(plan: &Plan, traffic: T, share: Share) -> Result<(ThreadTally, T)> {
    let count = share_of(plan.connections, share).max(1);
    let sockets: std::io::Result<Vec<_>> = (0..count).map(|_| open(plan.server)).collect();
    let base = u64::from_ne_bytes(random_bytes()?);
    let thread = Thread {
        plan,
        share,
        traffic,
        sockets: sockets.map_err(io("opening a socket to the server"))?,
        next_socket: 0,
        random: Random(base),
        flight: Flight::new(base),
        outbox: VecDeque::new(),
        waiting: VecDeque::new(),
        resends: VecDeque::new(),
        drawn: 0,
        is_exhausted: false,
        ends_ns: share.start_ns + plan.duration.as_nanos() as u64,
        tally: ThreadTally {
            sent: 0,
            answered: 0,
            lost: 0,
            unsent: 0,
            resent: 0,
            duplicated: 0,
            late: 0,
            wrong: 0,
            wrong_answers: Vec::new(),
            refused: BTreeMap::new(),
            busy: 0,
            lag_ns: 0,
            start_ns: share.start_ns,
            last_ns: share.start_ns,
            latency: latencies(),
        },
    };
    thread.run()
}

/// Returns the part of `all` things that a thread has.
fn share_of(all: usize, share: Share) -> usize {
    all / share.threads + usize::from(share.index < all % share.threads)
}

fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = |mut file: std::fs::File| std::io::Read::read_exact(&mut file, &mut bytes);
    let opened = std::fs::File::open("/dev/urandom");
    opened.and_then(read).map_err(io("reading /dev/urandom"))?;
    Ok(bytes)
}

impl<T: Traffic> Thread<'_, T> {
    fn run(mut self) -> Result<(ThreadTally, T)> {
        let mut requests = Batch::with_room(PAYLOAD_BYTES_MAX);
        let mut replies = Batch::with_room(PAYLOAD_BYTES_MAX + 1);
        loop {
            let now_ns = sys::now_ns();
            self.draw(now_ns)?;
            let sent = self.send(&mut requests)?;
            let received = self.receive(&mut replies);
            // A thread that was not scheduled for a long time has read its socket after `now_ns`, so a request that was
            // already overdue then has no answer.
            if received < BATCH {
                self.expire(now_ns);
            }
            if self.is_over(now_ns) {
                self.tally.unsent += self.waiting.len() as u64;
                return Ok((self.tally, self.traffic));
            }
            if sent == 0 && received == 0 {
                self.wait();
            }
        }
    }

    /// Returns the time of the next scheduled request; `None` if it depends on answers.
    fn next_scheduled_ns(&self) -> Option<u64> {
        let Pace::Rate(rate) = self.plan.pace else {
            return None;
        };
        let number = self.drawn as f64 * self.share.threads as f64 + self.share.index as f64;
        Some(self.share.start_ns + (number * 1e9 / rate) as u64)
    }

    /// Returns the number of requests that this thread may have in flight in a closed loop.
    fn window(&self) -> usize {
        match self.plan.pace {
            Pace::Rate(_) => usize::MAX,
            Pace::Window(all) => share_of(all, self.share),
        }
    }

    fn has_more(&self, now_ns: u64) -> bool {
        !self.is_exhausted && self.next_scheduled_ns().unwrap_or(now_ns) < self.ends_ns
    }

    /// Draws the requests that are due, and makes those that may be sent.
    fn draw(&mut self, now_ns: u64) -> Result<()> {
        self.ask_waiting(now_ns)?;
        while self.outbox.len() < BATCH && self.has_more(now_ns) {
            let scheduled_ns = match self.next_scheduled_ns() {
                Some(at) if at > now_ns => break,
                Some(at) => at,
                None if now_ns < self.share.start_ns => break,
                None if self.flight.len() + self.waiting.len() >= self.window() => break,
                None => now_ns,
            };
            let Some(kind) = self.traffic.draw() else {
                self.is_exhausted = true;
                break;
            };
            self.drawn += 1;
            self.tally.lag_ns = self.tally.lag_ns.max(now_ns - scheduled_ns);
            match kind {
                Kind::Read => {
                    self.ask(Kind::Read, scheduled_ns, now_ns)?;
                }
                Kind::Write => {
                    self.waiting.push_back(scheduled_ns);
                    self.ask_waiting(now_ns)?;
                }
            }
        }
        while let Some((due_ns, number)) = self.resends.front().copied()
            && due_ns <= now_ns
        {
            self.resends.pop_front();
            if self.flight.get(number).is_some() {
                self.outbox.push_back(number);
                self.tally.resent += 1;
                self.resends
                    .push_back((now_ns + self.plan.resend.as_nanos() as u64, number));
            }
        }
        Ok(())
    }

    fn ask_waiting(&mut self, now_ns: u64) -> Result<()> {
        while let Some(scheduled_ns) = self.waiting.front().copied()
            && self.ask(Kind::Write, scheduled_ns, now_ns)?
        {
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Makes a request, and puts it into the outbox. Returns false if no session is free.
    fn ask(&mut self, kind: Kind, scheduled_ns: u64, now_ns: u64) -> Result<bool> {
        let mut bytes = self.flight.buffer();
        let Some(asked) = self.traffic.ask(kind, self.flight.next_id(), &mut bytes)? else {
            self.flight.give_back(bytes);
            return Ok(false);
        };
        debug_assert!(bytes.len() <= PAYLOAD_BYTES_MAX);
        let number = self.flight.push(Request {
            asked,
            kind,
            bytes,
            scheduled_ns,
            lost_ns: now_ns + self.plan.timeout.as_nanos() as u64,
        });
        self.outbox.push_back(number);
        if kind == Kind::Write {
            self.resends
                .push_back((now_ns + self.plan.resend.as_nanos() as u64, number));
            if self.random.percent(self.plan.duplicate_percent) {
                self.outbox.push_back(number);
                self.tally.duplicated += 1;
            }
        }
        self.tally.sent += 1;
        Ok(true)
    }

    /// Sends the requests in the outbox, and returns the number of datagrams that were sent.
    fn send(&mut self, requests: &mut Batch) -> Result<usize> {
        let mut count = 0;
        // A request that was answered in the meantime is not repeated.
        self.outbox.retain(|number| self.flight.get(*number).is_some());
        for request in self
            .outbox
            .iter()
            .take(BATCH)
            .filter_map(|number| self.flight.get(*number))
        {
            requests.put(count, &request.bytes);
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        match requests.send(&self.sockets[self.next_socket], count) {
            Ok(sent) => {
                self.outbox.drain(..sent);
                self.next_socket = (self.next_socket + 1) % self.sockets.len();
                Ok(sent)
            }
            // The socket's buffer is full, or an earlier datagram found no listener. The requests stay in the outbox,
            // and count as sent, because they were due.
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused)
                    || error.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                Ok(0)
            }
            Err(source) => Err(LoadError::Io {
                what: "sending to the server",
                source,
            }),
        }
    }

    /// Receives one batch from each socket. Returns the size of the largest one.
    fn receive(&mut self, replies: &mut Batch) -> usize {
        let mut largest = 0;
        for index in 0..self.sockets.len() {
            let received = replies.receive(&self.sockets[index]);
            let now_ns = sys::now_ns();
            for place in 0..received {
                self.answer(now_ns, replies.get(place));
            }
            largest = largest.max(received);
        }
        largest
    }

    /// Checks and counts one datagram. The sockets are connected, so that it has the server's address.
    fn answer(&mut self, now_ns: u64, datagram: &[u8]) {
        self.tally.last_ns = now_ns;
        let header = NativeHeader::ref_from_prefix(datagram).ok();
        let Some((header, body)) = header.filter(|_| native::is_native(datagram)) else {
            return self.wrong("unknown", "the answer has no native header", Vec::new(), datagram);
        };
        let number = match self.flight.number(header.request_id.get()) {
            Ok(number) => number,
            Err(NotInFlight::Over) => {
                self.tally.late += 1;
                return;
            }
            Err(NotInFlight::Unknown) => {
                return self.wrong(
                    "unknown",
                    "no request with the id of the answer was sent",
                    Vec::new(),
                    datagram,
                );
            }
        };
        let status = Status::from_code(header.status.get());
        let is_write = self
            .flight
            .get(number)
            .is_some_and(|request| request.kind == Kind::Write);
        if status == Some(Status::Busy) && is_write {
            // An earlier copy of the write may have been executed, so only a later answer ends it.
            self.tally.busy += 1;
            return;
        }
        let Some(request) = self.flight.take(number) else {
            return;
        };
        let is_answer = header.version == NATIVE_VERSION
            && request
                .bytes
                .get(3)
                .is_some_and(|op| header.op == op | NATIVE_REPLY_BIT)
            && usize::from(header.length.get()) == body.len();
        let case = self.traffic.case(&request.asked);
        let judged = match status {
            Some(Status::Busy) if is_answer => {
                self.traffic.lost(request.asked);
                Judgement::Refused("busy".into())
            }
            Some(status) if is_answer => self.traffic.judge(request.asked, status, body),
            _ => {
                self.traffic.lost(request.asked);
                Judgement::Wrong("the version, operation, status or length of the answer is wrong".into())
            }
        };
        match judged {
            Judgement::Right => {
                self.tally.answered += 1;
                let latency_ns = now_ns.saturating_sub(request.scheduled_ns);
                self.tally.latency.saturating_record(latency_ns);
                self.flight.give_back(request.bytes);
            }
            Judgement::Refused(why) => {
                *self.tally.refused.entry(why).or_default() += 1;
                self.flight.give_back(request.bytes);
            }
            Judgement::Wrong(why) => self.wrong(case, &why, request.bytes, datagram),
        }
    }

    fn wrong(&mut self, case: &'static str, why: &str, request: Vec<u8>, answer: &[u8]) {
        self.tally.wrong += 1;
        if self.tally.wrong_answers.len() < WRONG_KEPT {
            self.tally.wrong_answers.push(WrongAnswer {
                case,
                why: why.to_owned(),
                request,
                answer: answer.to_vec(),
            });
        }
    }

    /// Gives up requests that had no answer in time.
    fn expire(&mut self, now_ns: u64) {
        while let Some((number, request)) = self.flight.oldest()
            && request.lost_ns <= now_ns
            && let Some(request) = self.flight.take(number)
        {
            self.tally.lost += 1;
            self.traffic.lost(request.asked);
            self.flight.give_back(request.bytes);
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let is_idle = self.flight.len() == 0 && !self.has_more(now_ns);
        // Writes that still wait for a session are sent for one more time-out after the end of the schedule.
        is_idle && (self.waiting.is_empty() || now_ns > self.ends_ns + self.plan.timeout.as_nanos() as u64)
    }

    /// Waits for an answer, but not beyond the next scheduled request.
    fn wait(&self) {
        let now_ns = sys::now_ns();
        let until_ns = self
            .next_scheduled_ns()
            .filter(|_| self.has_more(now_ns))
            .unwrap_or(u64::MAX)
            .min(self.resends.front().map_or(u64::MAX, |(due_ns, _)| *due_ns))
            .min(now_ns + WAIT_MAX_NS);
        let patience_ns = until_ns.saturating_sub(now_ns + WAKE_BEFORE_NS);
        if patience_ns > 0 {
            sys::wait_readable(&self.sockets, Duration::from_nanos(patience_ns));
        }
    }
}
