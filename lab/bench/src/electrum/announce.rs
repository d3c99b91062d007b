//! Measurement of the time from a node's announcement of a block to the first answer of the fast path.
//!
//! The node writes the block's hash to Lineside's ZMQ subscription. From then on, a client sends requests for the last
//! transaction of the block over UDP, one at a time, until the transaction is found and for some time longer. The first
//! answers come from the host and the last ones from the fast path; the fast path's hit counter shows how many come
//! from it.

use super::TRANSACTIONS;
use super::servers::Lineside;
use crate::error::{BenchError, Result, void};
use crate::gate::median;
use crate::wrong::{WrongReplies, WrongReply, hex};
use lineside_client::spv::Client;
use lineside_testkit::{CoreMini, RegtestChain};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Maximum time until the first answer.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which the client sends an unanswered request again.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Time after the first answer in which the client sends further requests before it reads the hit counter.
const ASKING_TIME_AFTER: Duration = Duration::from_millis(10);
/// Pause between blocks, so that the server is idle at each announcement.
const PAUSE: Duration = Duration::from_millis(100);

/// Times for announced blocks of 2,048 transactions.
#[derive(Clone, Debug, Serialize)]
pub struct Announced {
    /// Number of blocks that were announced.
    pub blocks: usize,
    /// Median time in milliseconds until the first answer of the fast path.
    pub first_answer_ms: f64,
    /// Maximum time in milliseconds until the first answer of the fast path.
    pub first_answer_max_ms: f64,
    /// Median time in milliseconds until the first answer, whether from the fast path or from the host.
    pub any_answer_ms: f64,
    /// Number of blocks whose first answer of all came from the fast path.
    pub fast_path_first: usize,
    /// Answers with the root of another block.
    pub wrong: WrongReplies,
}

/// Announces `count` blocks, one after the other.
///
/// # Errors
/// Returns [`BenchError::Void`] if a block gets no answer in time.
pub fn measure(
    server: &Lineside,
    node: &CoreMini,
    chain: &mut RegtestChain,
    count: usize,
) -> Result<Announced> {
    let mut client = Client::connect(server.udp, TIMEOUT).map_err(void)?;
    let (mut first, mut any) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut fast_path_first, mut wrong) = (0, WrongReplies::default());
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
    wrong.name("lineside", "root, after an announcement");
    Ok(Announced {
        blocks: count,
        first_answer_ms: median(first.iter().copied()).unwrap_or_default(),
        first_answer_max_ms: first.iter().copied().fold(0.0, f64::max),
        any_answer_ms: median(any.into_iter()).unwrap_or_default(),
        fast_path_first,
        wrong,
    })
}

/// Answers to the requests for a transaction of one block.
struct AnswerTimes {
    /// Times of all answers in milliseconds from the announcement.
    all: Vec<f64>,
    /// Number of answers from the fast path, which are the last ones; at least one.
    hits: usize,
}

fn ask(
    client: &mut Client,
    txid: &[u8; 32],
    root: &[u8; 32],
    start: Instant,
    wrong: &mut WrongReplies,
    hits: impl Fn() -> Result<u64>,
) -> Result<AnswerTimes> {
    let (mut all, mut until) = (Vec::new(), None);
    while start.elapsed() < FIRST_ANSWER_TIMEOUT {
        let answer = client.root(txid).map_err(void)?;
        let Some(place) = answer.result else { continue };
        all.push(start.elapsed().as_secs_f64() * 1e3);
        if place.root != *root {
            wrong.add(|| WrongReply::new(format!("root of {}", hex(txid)), hex(&place.root), hex(root)));
        }
        let end = until.get_or_insert_with(|| Instant::now() + ASKING_TIME_AFTER);
        if Instant::now() < *end {
            continue;
        }
        let hits = hits()? as usize;
        if (1..=all.len()).contains(&hits) {
            return Ok(AnswerTimes { all, hits });
        }
        until = None;
    }
    Err(BenchError::Void(format!(
        "no answer of the fast path for a block within {FIRST_ANSWER_TIMEOUT:?}"
    )))
}
