//! Counts of the requests that arrive by gRPC, and the times until their answers.

use crate::serve::Database;
use bytes::Bytes;
use lineside_hybrid::Code;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::watch::{Sink, Watching};
use lineside_util::histogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counts of requests since the start.
#[derive(Debug)]
pub struct RequestCounts {
    /// Number of requests that were passed to the database.
    pub passed: AtomicU64,
    /// Number of requests that the database has answered.
    pub answered: AtomicU64,
    /// Time in nanoseconds from passing a request to the database until its answer. It includes waiting and fdatasync.
    pub latency: Histogram,
    /// Number of requests that the server refused before they reached the database, by the number of their code.
    refused: [AtomicU64; CODES],
}

/// Number of possible codes, which are one byte.
const CODES: usize = 256;

impl Default for RequestCounts {
    fn default() -> Self {
        Self {
            passed: AtomicU64::default(),
            answered: AtomicU64::default(),
            latency: Histogram::of_times(),
            refused: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl RequestCounts {
    /// Returns the number of requests with this code that the server refused before they reached the database.
    pub fn refused(&self, code: Code) -> u64 {
        self.refused[usize::from(code as u8)].load(Relaxed)
    }

    fn finish(&self, requests: u64, time: Duration) {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.latency.record_many(time_ns, requests);
        self.answered.fetch_add(requests, Relaxed);
    }
}

/// Wrapper of a database that counts the requests to it, and those that the server refuses before they reach it.
pub struct Counted {
    database: Arc<dyn Database>,
    counts: Arc<RequestCounts>,
}

impl Counted {
    /// Wraps `database`.
    pub fn new(database: Arc<dyn Database>) -> Self {
        Self {
            database,
            counts: Arc::default(),
        }
    }

    /// Returns the counts. They remain valid after the database is dropped.
    pub fn counts(&self) -> Arc<RequestCounts> {
        Arc::clone(&self.counts)
    }
}

impl Database for Counted {
    fn submit(&self, requests: Vec<Bytes>, done: Box<dyn FnOnce(Vec<Answer>) + Send>) {
        let (count, begin) = (requests.len() as u64, Instant::now());
        self.counts.passed.fetch_add(count, Relaxed);
        let counts = Arc::clone(&self.counts);
        let answered = move |answers| {
            counts.finish(count, begin.elapsed());
            done(answers);
        };
        self.database.submit(requests, Box::new(answered));
    }

    /// Counts the beginning of the stream as one request; the events in it are not counted.
    fn watch(&self, request: Bytes, sink: Sink) -> Result<Watching, Code> {
        let begin = Instant::now();
        self.counts.passed.fetch_add(1, Relaxed);
        let watching = self.database.watch(request, sink);
        self.counts.finish(1, begin.elapsed());
        watching
    }

    fn is_paper(&self) -> bool {
        self.database.is_paper()
    }

    fn note_refused(&self, code: Code) {
        self.counts.refused[usize::from(code as u8)].fetch_add(1, Relaxed);
    }
}
