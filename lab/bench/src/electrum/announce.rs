//! Time from a node's announcement of a block to its first answer on the fast path.
//!
//! The node writes the block's hash to Lineside's ZMQ subscription; from then on a client asks for the block's last
//! transaction by UDP, one request at a time, until it is found, and some time longer. The fast path's count of hits
//! then says how many of the answers, which are the last ones, came from there.

use super::TRANSACTIONS;
use super::servers::Lineside;
use crate::error::{BenchError, Result, void};
use crate::gate::median;
use lineside_spv::client::Client;
use lineside_testkit::{CoreMini, RegtestChain};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Longest wait for the first answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that one request waits before it is sent again.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which the client goes on asking before it reads the count of hits.
const LONGER: Duration = Duration::from_millis(10);
/// Pause between blocks, so that each finds the server idle.
const PAUSE: Duration = Duration::from_millis(100);

/// Times of announced blocks of 2,048 transactions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Announced {
    /// Blocks that were announced.
    pub blocks: usize,
    /// Median time until the first answer of the fast path.
    pub first_answer_ms: f64,
    /// Longest time until that answer.
    pub first_answer_max_ms: f64,
    /// Median time until the first answer of either, fast path or host.
    pub any_answer_ms: f64,
    /// Blocks whose very first answer came from the fast path.
    pub fast_path_first: usize,
    /// Answers with another root than the block's.
    pub wrong: u64,
}

/// Announces `count` blocks, one after the other.
///
/// # Errors
/// [`BenchError::Void`] where a block is not answered in time.
pub fn measure(
    server: &Lineside,
    node: &CoreMini,
    chain: &mut RegtestChain,
    count: usize,
) -> Result<Announced> {
    let mut client = Client::connect(server.udp, TIMEOUT).map_err(void)?;
    let (mut first, mut any) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut fast_path_first, mut wrong) = (0, 0);
    for _ in 0..count {
        let block = chain.next(&[], TRANSACTIONS - 2);
        let (root, txid) = (block.root, block.txids[block.txids.len() - 1]);
        std::thread::sleep(PAUSE);
        let before = server.hits()?;
        let start = Instant::now();
        node.connect(block);
        let times = ask(&mut client, &txid, &root, start, &mut wrong, || {
            Ok(server.hits()? - before)
        })?;
        any.extend(times.all.first());
        first.extend(times.all.get(times.all.len() - times.hits));
        fast_path_first += usize::from(times.hits == times.all.len());
    }
    Ok(Announced {
        blocks: count,
        first_answer_ms: median(first.iter().copied()).unwrap_or_default(),
        first_answer_max_ms: first.iter().copied().fold(0.0, f64::max),
        any_answer_ms: median(any.into_iter()).unwrap_or_default(),
        fast_path_first,
        wrong,
    })
}

/// Answers to one block's transaction.
struct Times {
    /// Milliseconds from the announcement to each of them.
    all: Vec<f64>,
    /// The last of them, that came from the fast path; at least one.
    hits: usize,
}

fn ask(
    client: &mut Client,
    txid: &[u8; 32],
    root: &[u8; 32],
    start: Instant,
    wrong: &mut u64,
    hits: impl Fn() -> Result<u64>,
) -> Result<Times> {
    let (mut all, mut until) = (Vec::new(), None);
    while start.elapsed() < PATIENCE {
        let answer = client.root(txid).map_err(void)?;
        let Some(place) = answer.found else { continue };
        all.push(start.elapsed().as_secs_f64() * 1e3);
        *wrong += u64::from(place.root != *root);
        let end = until.get_or_insert_with(|| Instant::now() + LONGER);
        if Instant::now() < *end {
            continue;
        }
        let hits = hits()? as usize;
        if (1..=all.len()).contains(&hits) {
            return Ok(Times { all, hits });
        }
        until = None;
    }
    Err(BenchError::Void(format!(
        "the fast path does not answer of a block after {PATIENCE:?}"
    )))
}
