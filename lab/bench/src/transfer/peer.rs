//! Clients of the durable contestants: many connections with several requests in flight each. One thread drives all of
//! them and never blocks on a single connection. The thread shares two cores with the servers, so it handles only
//! connections on which data has arrived.

use super::plan::BALANCE;
use super::tally::Tally;
use crate::error::{BenchError, Result, io};
use crate::sys::{self, Ready};
use crate::wrong::{WrongReplies, WrongReply, hex};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::RawFd;
use std::time::Duration;

/// Maximum time for which the thread blocks if no data has arrived.
const READ_TIMEOUT: Duration = Duration::from_millis(20);
/// Time in nanoseconds after the last request in which replies may still arrive.
const LOST_AFTER_NS: u64 = 3_000_000_000;

/// Connection to a contestant.
pub trait Peer {
    /// Returns the socket and the event that the thread has to wait for.
    fn ready(&self) -> Ready;
    /// Receives the data that has arrived. If `asks` is true, then sends the requests that may be sent.
    ///
    /// # Errors
    /// Fails if the connection failed.
    fn pump(&mut self, asks: bool) -> std::io::Result<()>;
    /// Returns the state of the connection's requests.
    fn requests(&mut self) -> &mut Requests;
}

/// Transfers of one connection. Each moves 1 from one of the connection's own accounts to another of them, so that
/// balances are known without a model (see `plan`).
pub struct Requests {
    base: u32,
    bits: u32,
    window: usize,
    /// Number of transfers in one request.
    each: u64,
    next: u64,
    waiting: VecDeque<(u64, u64)>,
    tally: Tally,
}

impl Requests {
    /// Returns requests with at most `window` of them in flight. Each has `each` transfers over 2^bits accounts,
    /// beginning with account `base`.
    pub fn new(base: u32, bits: u32, window: usize, each: u64) -> Self {
        Self {
            base,
            bits,
            window,
            each,
            next: 0,
            waiting: VecDeque::with_capacity(window),
            tally: Tally::default(),
        }
    }

    /// Returns the number of the first transfer of the next request, if a request may be sent now.
    pub fn ask(&mut self) -> Option<u64> {
        (self.waiting.len() < self.window).then(|| {
            let number = self.next;
            self.next += self.each;
            self.waiting.push_back((number, sys::now_ns()));
            number
        })
    }

    /// Returns the number of transfers in one request.
    pub const fn each(&self) -> u64 {
        self.each
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of the first transfer of the oldest request in flight. A server whose replies carry no ids
    /// answers it next.
    pub fn due(&self) -> Option<u64> {
        self.waiting.front().map(|(number, _)| *number)
    }

    const fn mask(&self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Returns the account that pays in transfer `number`.
    pub const fn source(&self, number: u64) -> u32 {
        self.base + (number as u32 & self.mask())
    }

    /// Returns the account that is paid in transfer `number`.
    pub const fn destination(&self, number: u64) -> u32 {
        self.base + ((number as u32).wrapping_add(self.mask() / 2 + 1) & self.mask())
    }

    /// Returns a transaction id above the ids of all earlier transfers of the source.
    pub const fn transaction(&self, number: u64) -> u32 {
        (number >> self.bits) as u32 + 1
    }

    /// Returns the number of the transfer with this source and this transaction id; `None` if there is none.
    pub fn number_of(&self, source: u32, transaction: u32) -> Option<u64> {
        let account = source
            .checked_sub(self.base)
            .filter(|account| *account <= self.mask())?;
        let pass = u64::from(transaction.checked_sub(1)?);
        Some((pass << self.bits) | u64::from(account))
    }

    /// Returns the balance of the source after transfer `number`.
    pub const fn balance_after(&self, number: u64) -> u64 {
        let gives_first = number as u32 & self.mask() <= self.mask() / 2;
        BALANCE as u64 - gives_first as u64
    }

    /// Counts a reply with `right` right transfers to the request whose first transfer is `number`; `None` means that
    /// the reply belongs to no request that was sent. `reply` has the bytes of the reply.
    pub fn answered(&mut self, number: Option<u64>, right: u64, reply: &[u8]) {
        let Some(number) = number.filter(|number| *number < self.next) else {
            self.tally.wrong.add(|| WrongReply::stray(reply));
            return;
        };
        if right < self.each {
            let shown = [self.described(number, reply)];
            self.tally
                .wrong
                .extend(&WrongReplies::new(self.each - right, shown));
        }
        let found = self.waiting.iter().position(|(asked, _)| *asked == number);
        let Some((_, sent_ns)) = found.and_then(|place| self.waiting.remove(place)) else {
            // The request was answered before, or the client gave it up and counted it as lost.
            self.tally.repeated += u64::from(right == self.each);
            return;
        };
        self.tally.right += right;
        self.tally.right_all += right;
        self.tally.latency.saturating_record(sys::now_ns() - sent_ns);
    }

    /// Describes a wrong reply to the request whose first transfer is `number`.
    fn described(&self, number: u64, reply: &[u8]) -> WrongReply {
        let request = format!(
            "{} transfers of 1 from number {number} on, the first from account {} to {} with the id {}",
            self.each,
            self.source(number),
            self.destination(number),
            self.transaction(number)
        );
        let expected = format!("success, with the balance {}", self.balance_after(number));
        WrongReply::new(request, hex(reply), expected)
    }

    /// Returns the number of transfers that were requested since the beginning.
    pub fn asked(&self) -> u64 {
        self.next
    }

    /// Returns the number of right replies since the beginning.
    pub fn right_in_all(&self) -> u64 {
        self.tally.right_all
    }
}

/// Sends requests on all connections for `duration` after a `warm_up`, then waits for the requests in flight.
pub fn drive(peers: &mut [Box<dyn Peer>], warm_up: Duration, duration: Duration) -> Result<Tally> {
    let began_ns = sys::now_ns();
    let from_ns = began_ns + warm_up.as_nanos() as u64;
    let to_ns = from_ns + duration.as_nanos() as u64;
    for peer in peers.iter_mut() {
        let tally = &mut peer.requests().tally;
        (tally.wrong, tally.repeated) = (WrongReplies::default(), 0);
    }
    pump_until(peers, from_ns, true)?;
    for peer in peers.iter_mut() {
        let tally = &mut peer.requests().tally;
        tally.right = 0;
        tally.latency.reset();
    }
    let (from_ns, asked): (u64, u64) = (sys::now_ns(), asked(peers));
    pump_until(peers, to_ns, true)?;
    // On a slow machine, the first replies may take longer than the warm-up.
    while answered(peers) == 0 && sys::now_ns() < to_ns + LOST_AFTER_NS {
        pump_until(peers, sys::now_ns() + duration.as_nanos() as u64, true)?;
    }
    let took_ns = sys::now_ns() - from_ns;
    let mut sum = Tally {
        took_ns,
        sent: self::asked(peers) - asked,
        ..Tally::default()
    };
    for peer in peers.iter_mut() {
        let tally = &peer.requests().tally;
        sum.right += tally.right;
        // The addition cannot fail, because all histograms have the same bounds.
        let _ = sum.latency.add(&tally.latency);
    }
    pump_until(peers, sys::now_ns() + LOST_AFTER_NS, false)?;
    for peer in peers.iter_mut() {
        let requests = peer.requests();
        sum.lost += requests.waiting.len() as u64 * requests.each;
        sum.wrong.extend(&requests.tally.wrong);
        sum.repeated += requests.tally.repeated;
        requests.waiting.clear();
    }
    Ok(sum)
}

fn asked(peers: &mut [Box<dyn Peer>]) -> u64 {
    peers.iter_mut().map(|peer| peer.requests().next).sum()
}

fn answered(peers: &mut [Box<dyn Peer>]) -> u64 {
    let of = |peer: &mut Box<dyn Peer>| peer.requests().tally.right;
    peers.iter_mut().map(of).sum()
}

/// Handles the connections until the time `until_ns`. If no requests are sent any more, it ends earlier when all are
/// answered.
fn pump_until(peers: &mut [Box<dyn Peer>], until_ns: u64, asks: bool) -> Result<()> {
    // In the first pass, every connection must be called, because a connection without requests in flight gets no reply
    // that would wake it.
    let mut ready = vec![true; peers.len()];
    loop {
        for (peer, _) in peers.iter_mut().zip(&ready).filter(|(_, ready)| **ready) {
            peer.pump(asks).map_err(io("driving a durable contestant"))?;
        }
        let done = !asks && peers.iter_mut().all(|peer| peer.requests().in_flight() == 0);
        if done || sys::now_ns() >= until_ns {
            return Ok(());
        }
        let awaited: Vec<Ready> = peers.iter().map(|peer| peer.ready()).collect();
        sys::wait_ready(&awaited, READ_TIMEOUT, &mut ready)
            .map_err(io("waiting for a durable contestant"))?;
    }
}

/// Stream over a socket that is read and written without blocking.
pub struct Stream<S> {
    socket: S,
    fd: RawFd,
    out: Vec<u8>,
    sent: usize,
    /// Received bytes; the bytes in `taken..filled` are not processed yet.
    input: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl<S: Read + Write> Stream<S> {
    /// Returns a stream over a non-blocking socket.
    pub fn new(socket: S, fd: RawFd) -> Self {
        Self {
            socket,
            fd,
            out: Vec::new(),
            sent: 0,
            input: vec![0; 64 << 10],
            taken: 0,
            filled: 0,
        }
    }

    /// Returns the socket and the event that the thread has to wait for.
    pub fn ready(&self) -> Ready {
        Ready {
            fd: self.fd,
            to_write: self.sent < self.out.len(),
        }
    }

    /// Returns the buffer for bytes that have to be sent.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends as many bytes as the socket accepts now.
    pub fn flush(&mut self) -> std::io::Result<()> {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Receives the bytes that have arrived.
    pub fn fill(&mut self) -> std::io::Result<()> {
        self.input.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        loop {
            if self.filled == self.input.len() {
                self.input.resize(2 * self.filled, 0);
            }
            match self.socket.read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.filled += count;
                    if self.filled < self.input.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the received bytes that are not processed yet.
    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..self.filled]
    }

    /// Marks the first `count` unprocessed bytes as processed.
    pub fn take(&mut self, count: usize) {
        self.taken += count;
    }
}

/// Calls `ask` until it succeeds, for at most `patience`.
pub fn retry<T>(
    what: &'static str,
    patience: Duration,
    mut ask: impl FnMut() -> std::io::Result<T>,
) -> Result<T> {
    let began = std::time::Instant::now();
    loop {
        match ask() {
            Ok(found) => return Ok(found),
            Err(error) if began.elapsed() > patience => {
                return Err(BenchError::NotMeasured(format!("{what}: {error}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
