//! Requests in flight, found by the ids of their answers.

use super::Kind;
use std::collections::VecDeque;

/// Odd factor that spreads consecutive numbers over all ids: an id with a changed bit is far from every id in use.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Request that was sent, or is about to be sent.
#[derive(Debug)]
pub struct Request<A> {
    /// Facts that the check of the answer needs.
    pub asked: A,
    /// Kind of the request.
    pub kind: Kind,
    /// Bytes of the request.
    pub bytes: Vec<u8>,
    /// Time from which the latency counts.
    pub scheduled_ns: u64,
    /// Time after which the request counts as lost.
    pub lost_ns: u64,
}

/// Reason why an answer belongs to no request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInFlight {
    /// The request was answered or given up before.
    Over,
    /// No request with this id was sent.
    Unknown,
}

/// Requests in flight, in the order of their numbers.
#[derive(Debug)]
pub struct Flight<A> {
    base: u64,
    /// Number of the request at the front.
    first: u64,
    requests: VecDeque<Option<Request<A>>>,
    in_flight: usize,
    spare: Vec<Vec<u8>>,
}

/// Returns the number by which a product with `odd` is multiplied to undo it, modulo 2^64.
const fn inverse(odd: u64) -> u64 {
    // Newton's iteration: each step doubles the number of right bits, and any odd number is its own inverse modulo 8.
    let (mut inverse, mut step) = (odd, 0);
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

impl<A> Flight<A> {
    /// Returns an empty table. `base` is random, so that ids cannot be guessed.
    pub fn new(base: u64) -> Self {
        Self {
            base,
            first: 0,
            requests: VecDeque::new(),
            in_flight: 0,
            spare: Vec::new(),
        }
    }

    /// Returns the number of requests in flight.
    pub fn len(&self) -> usize {
        self.in_flight
    }

    /// Returns the id of the next request.
    pub fn next_id(&self) -> u64 {
        let number = self.first + self.requests.len() as u64;
        number.wrapping_add(self.base).wrapping_mul(SPREAD)
    }

    /// Returns an empty buffer for the bytes of a request.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes a buffer back that was not used.
    pub fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare.push(buffer);
    }

    /// Adds the request with the id [`Flight::next_id`], and returns its number.
    pub fn push(&mut self, request: Request<A>) -> u64 {
        self.requests.push_back(Some(request));
        self.in_flight += 1;
        self.first + self.requests.len() as u64 - 1
    }

    /// Returns the number of the request with this id.
    ///
    /// # Errors
    /// [`NotInFlight`].
    pub fn number(&self, id: u64) -> Result<u64, NotInFlight> {
        const INVERSE: u64 = inverse(SPREAD);
        let number = id.wrapping_mul(INVERSE).wrapping_sub(self.base);
        let place = number.wrapping_sub(self.first);
        match self.requests.get(usize::try_from(place).unwrap_or(usize::MAX)) {
            Some(Some(_)) => Ok(number),
            Some(None) => Err(NotInFlight::Over),
            None if number < self.first => Err(NotInFlight::Over),
            None => Err(NotInFlight::Unknown),
        }
    }

    /// Returns the request with this number, if it is in flight.
    pub fn get(&self, number: u64) -> Option<&Request<A>> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.requests.get(place)?.as_ref()
    }

    /// Removes the request with this number. The caller returns its buffer with [`Flight::give_back`].
    pub fn take(&mut self, number: u64) -> Option<Request<A>> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let request = self.requests.get_mut(place)?.take()?;
        self.in_flight -= 1;
        while let Some(None) = self.requests.front() {
            self.requests.pop_front();
            self.first += 1;
        }
        Some(request)
    }

    /// Returns the oldest request in flight.
    pub fn oldest(&self) -> Option<(u64, &Request<A>)> {
        // The request at the front is in flight, because `take` removes all others from there.
        self.requests
            .front()?
            .as_ref()
            .map(|request| (self.first, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scheduled_ns: u64) -> Request<u64> {
        Request {
            asked: scheduled_ns,
            kind: Kind::Read,
            bytes: Vec::new(),
            scheduled_ns,
            lost_ns: 0,
        }
    }

    #[test]
    fn an_answer_finds_its_request_once_in_any_order() {
        let mut flight = Flight::new(u64::MAX - 1);
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(flight.next_id());
            assert_eq!(flight.push(request(number)), number);
        }
        for at in [3, 0, 1, 4, 2] {
            let number = flight.number(ids[at]).unwrap();
            assert_eq!(flight.take(number).map(|taken| taken.asked), Some(at as u64));
            assert_eq!(flight.number(ids[at]), Err(NotInFlight::Over));
            assert!(flight.take(number).is_none());
        }
        assert_eq!((flight.len(), flight.oldest().is_none()), (0, true));
        let next = flight.next_id();
        assert_eq!(flight.number(next), Err(NotInFlight::Unknown), "not sent yet");
    }

    #[test]
    fn an_id_with_one_changed_bit_belongs_to_no_request() {
        let mut flight = Flight::new(77);
        let ids: Vec<u64> = (0..10_000)
            .map(|number| {
                let id = flight.next_id();
                flight.push(request(number));
                id
            })
            .collect();
        for number in 0..5_000 {
            flight.take(number);
        }
        for id in ids {
            for bit in 0..64 {
                // Numbers below the first one in flight count as over, so a changed id may look like an old one only if
                // it is among the numbers that were given out.
                let changed = flight.number(id ^ (1 << bit));
                assert_eq!(changed, Err(NotInFlight::Unknown), "bit {bit} of {id:x}");
            }
        }
    }
}
