//! The socket client: a closed loop over one socket. Who asks says what, and judges what comes back.

use super::rows::{self, Ask};
use crate::client::{Tally, Wait, histogram};
use crate::error::{Result, io};
use crate::sys::{self, BATCH, Batch};
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_wire::{COLUMN_PAPER_FOUND, COLUMN_PAPER_ROW_BYTES};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Places for requests in flight, by their tag: more than any window, and than there are rows.
const PLACES: usize = 1 << 14;
/// Bytes of the longest message that leaves as several datagrams.
const MESSAGE_BYTES: usize = 60_000;

/// A closed loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// Whom to ask.
    pub server: SocketAddr,
    /// Requests in flight at most.
    pub window: usize,
    /// Time to run before counting begins.
    pub warm_up: Duration,
    /// Time to count.
    pub duration: Duration,
    /// A request without a reply for so long is lost.
    pub patience: Duration,
}

/// What a reply is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// What must be.
    Right,
    /// A value that was replaced before it was asked for.
    Stale,
    /// Anything else.
    Wrong,
}

/// Asks, all requests as long as one another, and knows what must come back.
pub trait Asker {
    /// The next request, and its tag below [`PLACES`], which no other one in flight has; `None`: not now.
    fn ask(&mut self, is_free: &dyn Fn(usize) -> bool) -> Option<(usize, Vec<u8>)>;
    /// The tag of the request that is answered, and what the answer is worth; `None`: nobody's.
    fn judge(&mut self, reply: &[u8]) -> Option<(usize, Judged)>;
    /// The request with this tag did not leave, or nobody answered it.
    fn given_up(&mut self, _tag: usize) {}
    /// Counting begins.
    fn counts(&mut self) {}
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// As everybody counts.
    pub tally: Tally,
    /// Of the wrong replies, those that were true once.
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
            sent_ns: vec![0; PLACES],
            in_flight: 0,
            wait: Wait::new(now_ns),
            first_ns: now_ns,
            counts_from_ns,
            ends_ns: counts_from_ns + order.duration.as_nanos() as u64,
            is_warm: false,
            found: Outcome {
                tally: Tally {
                    sent: 0,
                    right: 0,
                    wrong: 0,
                    lost: 0,
                    took_ns: 0,
                    latency: histogram(),
                },
                stale: 0,
            },
        }
    }

    /// How many requests may leave now; `None`: the run is over.
    fn room(&mut self, now_ns: u64, asker: &mut dyn Asker) -> Option<usize> {
        let tally = &mut self.found.tally;
        if !self.is_warm && now_ns >= self.counts_from_ns {
            self.is_warm = true;
            self.first_ns = now_ns;
            self.ends_ns = now_ns + self.order.duration.as_nanos() as u64;
            // Losses and wrong replies count whenever they happen.
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
        // However late this thread runs, something is asked.
        if now_ns < self.ends_ns || !self.is_warm || tally.sent == 0 {
            return Some(self.order.window - self.in_flight);
        }
        // At the end the last replies are waited for: every request is right, wrong or lost.
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
            // Given up already: late, and counted as lost.
            tally.wrong += u64::from(tally.lost == 0);
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
                tally.wrong += 1;
                self.found.stale += 1;
            }
            Judged::Wrong => tally.wrong += 1,
        }
    }

    fn end(mut self, now_ns: u64) -> Outcome {
        self.found.tally.took_ns = now_ns - self.first_ns;
        self.found
    }
}

/// Asks from one socket, never waiting: what may leave leaves by one call (UDP_SEGMENT, which costs the client less
/// than sendmmsg and sends the same datagrams), what has come is taken by recvmmsg. The socket is of the calling
/// thread's namespace.
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

/// Asks in the paper's format for rows that nobody changes: a reply tells by its first key whose it is.
pub struct Paper {
    ask: Ask,
    next: u64,
}

impl Paper {
    /// From request 0 on.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rows_that_were_asked_for_are_right() {
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
