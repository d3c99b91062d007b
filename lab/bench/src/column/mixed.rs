//! Reads and puts in the native format, over rows that are drawn uniformly or by Zipf's law. The client tracks the
//! versions of each row, so that it detects a stale reply.

use super::client::{Asker, Judged};
use super::rows::{self, ROWS};
use crate::wrong::{WrongReply, hex};
use lineside_messages::column::native;
use lineside_testkit::Random;
use lineside_wire::{COLUMN_OP_GET, COLUMN_SOURCE_FASTPATH, NATIVE_REPLY_BIT, NativeHeader, Status};
use std::sync::Arc;
use zerocopy::FromBytes;

/// Number of drawn rows before the sequence repeats.
const DRAWS: usize = 1 << 17;
/// Exponent of Zipf's law; the default of YCSB.
pub const SKEW: f64 = 0.99;
/// Number of tags that identify requests in flight.
const TAGS: u64 = 1 << 14;

/// Sequence of rows, in the order of the requests.
#[derive(Clone)]
pub struct Draws(Arc<Vec<u16>>);

impl Draws {
    /// Returns rows drawn uniformly.
    pub fn even(seed: u64) -> Self {
        let mut random = Random(seed);
        Self::of(|| (random.next() % u64::from(ROWS)) as u16)
    }

    /// Returns rows drawn by Zipf's law: the most frequent row is drawn ROWS^0.99 times as often as the least frequent
    /// one. The frequencies of neighbouring rows are independent.
    pub fn skewed(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut above = 0.0;
        let sums: Vec<f64> = (1..=ROWS)
            .map(|rank| {
                above += f64::from(rank).powf(-SKEW);
                above
            })
            .collect();
        Self::of(|| {
            let at = random.next() as f64 / u64::MAX as f64 * above;
            let rank = sums.partition_point(|sum| *sum < at).min(ROWS as usize - 1);
            (rank as u64 * 7_919 % u64::from(ROWS)) as u16
        })
    }

    fn of(mut draw: impl FnMut() -> u16) -> Self {
        Self(Arc::new((0..DRAWS).map(|_| draw()).collect()))
    }

    fn row(&self, number: u64) -> u32 {
        self.0[number as usize % DRAWS].into()
    }
}

#[derive(Clone, Copy)]
struct Versions {
    /// Newest version whose put the server has answered.
    acknowledged: u64,
    /// Newest version that the client has sent.
    sent: u64,
    is_being_put: bool,
}

/// Known versions of every row; they are valid for all runs on one table.
pub struct KnownVersions(Vec<Versions>);

impl Default for KnownVersions {
    fn default() -> Self {
        let first = Versions {
            acknowledged: rows::FIRST_VERSION,
            sent: rows::FIRST_VERSION,
            is_being_put: false,
        };
        Self(vec![first; ROWS as usize])
    }
}

#[derive(Clone, Copy)]
enum RequestInFlight {
    Read { row: u32, at_least: u64 },
    Put { row: u32, version: u64 },
}

/// Client of one run.
pub struct Mixed<'a> {
    draws: Draws,
    known: &'a mut KnownVersions,
    /// Number of requests for each put; 0 means that the client sends no puts.
    put_every: u64,
    next: u64,
    asked: Vec<Option<(u64, RequestInFlight)>>,
    /// Request that was judged last, with its number.
    judged: Option<(u64, RequestInFlight)>,
    /// Number of the first request that counts in the hit rate.
    counts_from: u64,
    reads: u64,
    hits: u64,
}

impl<'a> Mixed<'a> {
    /// Returns a client that sends one put in `put_every` requests; with 0 it sends no puts.
    pub fn new(draws: Draws, known: &'a mut KnownVersions, put_every: u64) -> Self {
        known.0.iter_mut().for_each(|row| row.is_being_put = false);
        Self {
            draws,
            known,
            put_every,
            next: 0,
            asked: vec![None; TAGS as usize],
            judged: None,
            counts_from: 0,
            reads: 0,
            hits: 0,
        }
    }

    /// Returns the share of the counted reads that the fast path answered. Reads count if they were sent after the
    /// warm-up. Those in flight when it ends are mostly misses, because a miss takes longer, and would lower the share.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }

    fn judge_read(&mut self, number: u64, status: u16, body: &[u8], row: u32, at_least: u64) -> Judged {
        let answer = native::parse_reply(body).filter(|_| status == Status::Ok as u16);
        let found = answer.as_ref().and_then(|answer| match &answer.rows[..] {
            [(key, 0, value)] if *key == rows::key(row) => rows::version_of(row, value),
            _ => None,
        });
        let is_hit = answer.is_some_and(|answer| answer.source == COLUMN_SOURCE_FASTPATH);
        if number >= self.counts_from {
            self.reads += 1;
            self.hits += u64::from(is_hit);
        }
        match found {
            Some(version) if version < at_least => Judged::Stale,
            Some(version) if version <= self.known.0[row as usize].sent => Judged::Right,
            _ => Judged::Wrong,
        }
    }

    fn judge_put(&mut self, status: u16, row: u32, version: u64) -> Judged {
        let known = &mut self.known.0[row as usize];
        known.is_being_put = false;
        if status != Status::Ok as u16 {
            return Judged::Wrong;
        }
        known.acknowledged = version;
        Judged::Right
    }
}

impl Asker for Mixed<'_> {
    fn ask(&mut self, is_free: &dyn Fn(usize) -> bool) -> Option<(usize, Vec<u8>)> {
        let (number, tag) = (self.next, (self.next % TAGS) as usize);
        if !is_free(tag) {
            return None;
        }
        self.next += 1;
        let row = self.draws.row(number);
        let known = &mut self.known.0[row as usize];
        let puts = self.put_every > 0 && number.is_multiple_of(self.put_every);
        // The client sends no put of a row while another one is in flight, because their order would be unknown.
        let (asked, request) = if puts && !known.is_being_put {
            known.sent += 1;
            known.is_being_put = true;
            let version = known.sent;
            let request = rows::native_put(number + 1, row, version);
            (RequestInFlight::Put { row, version }, request)
        } else {
            let at_least = known.acknowledged;
            let request = rows::native_get(number + 1, row);
            (RequestInFlight::Read { row, at_least }, request)
        };
        self.asked[tag] = Some((number, asked));
        Some((tag, request))
    }

    fn judge(&mut self, reply: &[u8]) -> Option<(usize, Judged)> {
        let (header, body) = NativeHeader::ref_from_prefix(reply).ok()?;
        let number = header.request_id.get().checked_sub(1)?;
        let tag = (number % TAGS) as usize;
        let (asked_number, asked) = self.asked[tag]?;
        if asked_number != number {
            return None;
        }
        self.judged = self.asked[tag].take();
        let status = header.status.get();
        let judged = match asked {
            RequestInFlight::Read { row, at_least } if header.op == COLUMN_OP_GET | NATIVE_REPLY_BIT => {
                self.judge_read(number, status, body, row, at_least)
            }
            RequestInFlight::Read { .. } => Judged::Wrong,
            RequestInFlight::Put { row, version } => self.judge_put(status, row, version),
        };
        Some((tag, judged))
    }

    fn describe(&self, _tag: usize, reply: &[u8]) -> WrongReply {
        match self.judged {
            Some((number, RequestInFlight::Read { row, at_least })) => WrongReply::new(
                hex(&rows::native_get(number + 1, row)),
                hex(reply),
                format!(
                    "row {row}, a version from {at_least} to {}",
                    self.known.0[row as usize].sent
                ),
            ),
            Some((number, RequestInFlight::Put { row, version })) => WrongReply::new(
                hex(&rows::native_put(number + 1, row, version)),
                hex(reply),
                "status 0",
            ),
            None => WrongReply::stray(reply),
        }
    }

    fn given_up(&mut self, tag: usize) {
        // A put that the client gave up may have been executed or may still be executed. Replies may therefore contain
        // its version, but need not.
        if let Some((_, RequestInFlight::Put { row, .. })) = self.asked[tag].take() {
            self.known.0[row as usize].is_being_put = false;
        }
    }

    fn counts(&mut self) {
        self.counts_from = self.next;
        (self.reads, self.hits) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_column::table::{Cell, FoundCell};
    use lineside_messages::column::native::Draft;
    use lineside_wire::COLUMN_SOURCE_HOST;

    fn reply(request: &[u8], row: u32, version: u64) -> Vec<u8> {
        reply_of(COLUMN_SOURCE_FASTPATH, request, row, version)
    }

    fn reply_of(source: u8, request: &[u8], row: u32, version: u64) -> Vec<u8> {
        let (header, _) = NativeHeader::ref_from_prefix(request).unwrap();
        let mut draft = Draft::new(request.len());
        let cell = Cell {
            value: rows::value(row, version).to_vec(),
            timestamp_ms: 0,
            expires_ms: None,
        };
        let key = rows::key(row).to_vec();
        assert!(draft.put(&[FoundCell { key, column: 0, cell }]));
        draft.finish(header, Status::Ok, source)
    }

    #[test]
    fn a_version_replaced_before_the_read_is_stale() {
        let mut known = KnownVersions::default();
        // The requests are a put and three reads, all of one row.
        let draws = Draws(Arc::new(vec![5; DRAWS]));
        let mut mixed = Mixed::new(draws, &mut known, 4);
        let free = |_: usize| true;
        let (put, first) = mixed.ask(&free).unwrap();
        let (_, early) = mixed.ask(&free).unwrap();
        assert_eq!(mixed.judge(&reply(&first, 5, 2)), Some((put, Judged::Right)));
        assert_eq!(
            mixed.judge(&reply(&early, 5, 1)),
            Some((1, Judged::Right)),
            "a read before the answer to the put may return either version"
        );
        assert_eq!(
            mixed.judge(&reply(&early, 5, 1)),
            None,
            "the request was answered already"
        );
        let (_, late) = mixed.ask(&free).unwrap();
        assert_eq!(mixed.judge(&reply(&late, 5, 1)), Some((2, Judged::Stale)));
        let (_, other) = mixed.ask(&free).unwrap();
        assert_eq!(
            mixed.judge(&reply(&other, 5, 3)),
            Some((3, Judged::Wrong)),
            "no put has this version, so the reply is wrong"
        );
        assert_eq!(mixed.hit_rate(), 1.0);
    }

    #[test]
    fn reads_sent_before_the_counted_time_are_not_in_the_hit_rate() {
        let mut known = KnownVersions::default();
        let mut mixed = Mixed::new(Draws(Arc::new(vec![5; DRAWS])), &mut known, 0);
        let free = |_: usize| true;
        let (_, early) = mixed.ask(&free).unwrap();
        mixed.counts();
        let (_, hit) = mixed.ask(&free).unwrap();
        let (_, miss) = mixed.ask(&free).unwrap();
        for (source, request) in [
            (COLUMN_SOURCE_HOST, &early),
            (COLUMN_SOURCE_FASTPATH, &hit),
            (COLUMN_SOURCE_HOST, &miss),
        ] {
            let reply = reply_of(source, request, 5, rows::FIRST_VERSION);
            assert!(matches!(mixed.judge(&reply), Some((_, Judged::Right))));
        }
        assert_eq!(mixed.hit_rate(), 0.5);
    }

    #[test]
    fn skewed_draws_prefer_one_row() {
        let count = |draws: &Draws, row| draws.0.iter().filter(|drawn| **drawn == row).count();
        let (even, skewed) = (Draws::even(1), Draws::skewed(1));
        assert!(count(&skewed, 0) > 50 * count(&even, 0).max(1));
        assert!(skewed.0.iter().all(|row| u32::from(*row) < ROWS));
    }
}
