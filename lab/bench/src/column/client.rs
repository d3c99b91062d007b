//! Socket client: a closed loop over one socket. An [`Asker`] creates the requests and checks the replies.

use super::rows::{self, Ask};
use crate::client::{Tally, Wait};
use crate::error::{Result, io};
use crate::sys::{self, BATCH, Batch};
use crate::wrong::WrongReply;
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_wire::{COLUMN_PAPER_FOUND, COLUMN_PAPER_ROW_BYTES};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Number of tags that identify requests in flight. It is larger than any window and than the number of rows.
const TAGS: usize = 1 << 14;
/// Maximum size in bytes of a message that the kernel sends as several datagrams.
const MESSAGE_BYTES: usize = 60_000;

/// Parameters of a closed loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// Address of the server.
    pub server: SocketAddr,
    /// Maximum number of requests in flight.
    pub window: usize,
    /// Time in which the client sends requests and does not count replies.
    pub warm_up: Duration,
    /// Time in which the client counts replies.
    pub duration: Duration,
    /// Time after which a request without a reply counts as lost.
    pub patience: Duration,
}

/// Result of the check of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The reply has the expected value.
    Right,
    /// The reply has a value that was replaced before the request was sent.
    Stale,
    /// The reply has any other value.
    Wrong,
}

/// Source of requests, which all have the same length, and check of the replies.
pub trait Asker {
    /// Returns the next request and its tag. The tag is below [`TAGS`], and no other request in flight has it. Returns
    /// `None` if no request can be sent now.
    fn ask(&mut self, is_free: &dyn Fn(usize) -> bool) -> Option<(usize, Vec<u8>)>;
    /// Returns the tag of the answered request and the result of the check; `None` if the reply belongs to no request.
    fn judge(&mut self, reply: &[u8]) -> Option<(usize, Judged)>;
    /// Returns the request with this tag and the expected reply, for the description of a wrong reply.
    fn describe(&self, tag: usize, reply: &[u8]) -> WrongReply;
    /// Records that the request with this tag was not sent or not answered.
    fn given_up(&mut self, _tag: usize) {}
    /// Records that the counted time begins.
    fn counts(&mut self) {}
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts of the run.
    pub tally: Tally,
    /// Number of wrong replies with a value that the row had earlier.
    pub stale: u64,
}

struct Flight {
    order: Loop,
    sent_ns: Vec<u64>,
    in_flight: usize,
    wait: Wait,
    first_ns: u64,
    counts_from_ns: u64,
    ends_ns: u64,
    is_warm: bool,
    found: Outcome,
}

impl Flight {
    fn new(order: Loop) -> Self {
        let now_ns = sys::now_ns();
        let counts_from_ns = now_ns + order.warm_up.as_nanos() as u64;
        Self {
            order,
            sent_ns: vec![0; TAGS],
            in_flight: 0,
            wait: Wait::new(now_ns),
            first_ns: now_ns,
            counts_from_ns,
            ends_ns: counts_from_ns + order.duration.as_nanos() as u64,
            is_warm: false,
            found: Outcome {
                tally: Tally::default(),
                stale: 0,
            },
        }
    }

    /// Returns the number of requests that may be sent now; `None` if the run is over.
    fn room(&mut self, now_ns: u64, asker: &mut dyn Asker) -> Option<usize> {
        let tally = &mut self.found.tally;
        if !self.is_warm && now_ns >= self.counts_from_ns {
            self.is_warm = true;
            self.first_ns = now_ns;
            self.ends_ns = now_ns + self.order.duration.as_nanos() as u64;
            // Losses and wrong replies count also in the warm-up.
            (tally.right, tally.sent) = (0, self.in_flight as u64);
            tally.latency.reset();
            asker.counts();
        }
        let patience_ns = self.order.patience.as_nanos() as u64;
        if self.in_flight > 0 && self.wait.is_in_vain(now_ns, patience_ns) {
            tally.lost += self.in_flight as u64;
            for (tag, sent_ns) in self.sent_ns.iter_mut().enumerate() {
                if std::mem::take(sent_ns) > 0 {
                    asker.given_up(tag);
                }
            }
            self.in_flight = 0;
            self.wait = Wait::new(now_ns);
        }
        // The client sends at least one request, even if this thread runs very late.
        if now_ns < self.ends_ns || !self.is_warm || tally.sent == 0 {
            return Some(self.order.window - self.in_flight);
        }
        // At the end the client waits for the last replies, so that every request is right, wrong or lost.
        (self.in_flight > 0).then_some(0)
    }

    fn ask(&mut self, now_ns: u64, asker: &mut dyn Asker) -> Option<(usize, Vec<u8>)> {
        let sent_ns = &self.sent_ns;
        let (tag, request) = asker.ask(&|tag| sent_ns[tag] == 0)?;
        self.sent_ns[tag] = now_ns;
        if self.in_flight == 0 {
            self.wait = Wait::new(now_ns);
        }
        self.in_flight += 1;
        self.found.tally.sent += 1;
        Some((tag, request))
    }

    fn take_back(&mut self, tag: usize, asker: &mut dyn Asker) {
        self.sent_ns[tag] = 0;
        self.in_flight -= 1;
        self.found.tally.sent -= 1;
        asker.given_up(tag);
    }

    fn reply(&mut self, now_ns: u64, payload: &[u8], asker: &mut dyn Asker) {
        self.wait = Wait::new(now_ns);
        let judged = asker.judge(payload);
        let tally = &mut self.found.tally;
        let known = judged.filter(|(tag, _)| self.sent_ns.get(*tag).is_some_and(|sent_ns| *sent_ns > 0));
        let Some((tag, judged)) = known else {
            // The client gave the request up and counted it as lost, so this reply is late.
            if tally.lost == 0 {
                tally.wrong.add(|| WrongReply::stray(payload));
            }
            return;
        };
        let sent_ns = std::mem::take(&mut self.sent_ns[tag]);
        self.in_flight -= 1;
        match judged {
            Judged::Right => {
                tally.right += 1;
                tally.latency.saturating_record(now_ns.saturating_sub(sent_ns));
            }
            Judged::Stale => {
                tally.wrong.add(|| asker.describe(tag, payload));
                self.found.stale += 1;
            }
            Judged::Wrong => tally.wrong.add(|| asker.describe(tag, payload)),
        }
    }

    fn end(mut self, now_ns: u64) -> Outcome {
        self.found.tally.took_ns = now_ns - self.first_ns;
        self.found
    }
}

/// Runs a closed loop over one socket without blocking. One call sends all requests that may be sent (UDP_SEGMENT,
/// which costs the client less than sendmmsg and sends the same datagrams), and recvmmsg receives the replies. The
/// socket is in the network namespace of the calling thread.
pub fn run(order: Loop, asker: &mut dyn Asker) -> Result<Outcome> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(io("binding the client's socket"))?;
    socket
        .connect(order.server)
        .map_err(io("connecting the client's socket"))?;
    socket
        .set_nonblocking(true)
        .map_err(io("setting up the client's socket"))?;
    let (mut out, mut input) = (
        Batch::with_room(PAYLOAD_BYTES_MAX),
        Batch::with_room(PAYLOAD_BYTES_MAX),
    );
    let mut flight = Flight::new(order);
    let mut segment = 0;
    loop {
        let now_ns = sys::now_ns();
        let Some(room) = flight.room(now_ns, asker) else {
            return Ok(flight.end(now_ns));
        };
        let (mut tags, mut bytes) = (Vec::with_capacity(BATCH), 0);
        while tags.len() < room.min(BATCH)
            && bytes < MESSAGE_BYTES
            && let Some((tag, request)) = flight.ask(now_ns, asker)
        {
            out.put(tags.len(), &request);
            bytes += request.len();
            tags.push(tag);
            if segment != request.len() {
                segment = request.len();
                sys::set_segment(&socket, segment as u16).map_err(io("setting up the client's socket"))?;
            }
        }
        if !tags.is_empty() && out.send_segmented(&socket, tags.len()) == 0 {
            tags.iter().for_each(|tag| flight.take_back(*tag, asker));
        }
        let got = input.receive(&socket);
        if got > 0 {
            let now_ns = sys::now_ns();
            for index in 0..got {
                flight.reply(now_ns, input.get(index), asker);
            }
        }
    }
}

/// Source of requests in the paper's format for rows that do not change. The first key of a reply determines its
/// request.
pub struct Paper {
    ask: Ask,
    next: u64,
}

impl Paper {
    /// Returns a source that begins with request 0.
    pub const fn new(ask: Ask) -> Self {
        Self { ask, next: 0 }
    }
}

impl Asker for Paper {
    fn ask(&mut self, is_free: &dyn Fn(usize) -> bool) -> Option<(usize, Vec<u8>)> {
        let row = self.ask.row(self.next);
        is_free(row as usize).then(|| {
            self.next += 1;
            (row as usize, self.ask.paper(row))
        })
    }

    fn judge(&mut self, reply: &[u8]) -> Option<(usize, Judged)> {
        let (status, rest) = reply.split_first()?;
        let first = match self.ask {
            Ask::Get => rest.get(..rows::KEY_BYTES)?,
            Ask::Scan(_) => rest.get(1..=rows::KEY_BYTES)?,
        };
        let row = rows::row_of(first)?;
        let holds = |row: u32, value: &[u8]| value == rows::value(row, rows::FIRST_VERSION);
        let is_right = *status == COLUMN_PAPER_FOUND
            && match self.ask {
                Ask::Get => rest
                    .get(..rows::VALUE_BYTES)
                    .is_some_and(|value| holds(row, value)),
                Ask::Scan(count) => {
                    let found = rest[1..].chunks_exact(COLUMN_PAPER_ROW_BYTES).zip(row..);
                    let right = found.take(count as usize).filter(|(found, row)| {
                        let (key, value) = found.split_at(rows::KEY_BYTES);
                        key == rows::key(*row) && holds(*row, value)
                    });
                    u32::from(rest[0]) == count && right.count() == count as usize
                }
            };
        let judged = if is_right { Judged::Right } else { Judged::Wrong };
        Some((row as usize, judged))
    }

    fn describe(&self, tag: usize, reply: &[u8]) -> WrongReply {
        self.ask.describe(tag as u32, reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_requested_rows_are_counted_as_right() {
        for ask in Ask::ALL {
            let mut paper = Paper::new(ask);
            let mut reply = vec![COLUMN_PAPER_FOUND];
            let mut put = |row: u32| match ask {
                Ask::Get => reply.extend(rows::value(row, rows::FIRST_VERSION)),
                Ask::Scan(count) => {
                    if reply.len() == 1 {
                        reply.push(count as u8);
                    }
                    reply.extend(rows::key(row));
                    reply.extend(rows::value(row, rows::FIRST_VERSION));
                }
            };
            (7..7 + ask.rows()).for_each(&mut put);
            let bytes = reply.len();
            reply.resize(ask.paper(7).len(), 0);
            assert_eq!(paper.judge(&reply), Some((7, Judged::Right)), "{ask:?}");
            reply[bytes - 1] ^= 1;
            assert_eq!(paper.judge(&reply), Some((7, Judged::Wrong)), "{ask:?}");
            reply[bytes - 1] ^= 1;
            reply[0] ^= 1;
            assert_eq!(paper.judge(&reply), Some((7, Judged::Wrong)), "{ask:?}");
        }
    }
}
