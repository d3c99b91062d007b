//! Methods of the Electrum protocol that this server answers from the chain.
//!
//! Source: docs/protocol-methods.rst of spesmilo/electrum-protocol, commit 6fdb11f. `get_tsc_merkle` is documented in
//! the file of this name of kyuupichan/electrumx. Codes and wording of errors follow ElectrumX.

use crate::answers::{ANSWER_ATTEMPTS, Answers};
use crate::checkpoint::Proof;
use crate::limits::count;
use crate::merkle::BlockTree;
use crate::reply;
use crate::request::{Request, RpcError, UNAVAILABLE};
use crate::results::{self, WriteStop};
use crate::version::Version;
use std::sync::Arc;

/// Method that needs the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Subscribe,
    Header,
    Headers,
    Merkle,
    IdFromPosition,
    TscMerkle,
    Features,
}

impl Method {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "blockchain.transaction.get_merkle" => Method::Merkle,
            "blockchain.transaction.id_from_pos" => Method::IdFromPosition,
            "blockchain.transaction.get_tsc_merkle" => Method::TscMerkle,
            "blockchain.block.header" => Method::Header,
            "blockchain.block.headers" => Method::Headers,
            "blockchain.headers.subscribe" => Method::Subscribe,
            "server.features" => Method::Features,
            _ => return None,
        })
    }
}

/// State of a client that the methods use.
#[derive(Debug)]
pub(crate) struct ClientView {
    pub version: Version,
    /// True once the client has subscribed to new tips.
    pub is_subscribed: bool,
    /// Hash of the tip that was last sent to the client.
    pub last_tip_sent: Option<[u8; 32]>,
    /// Merkle tree that the client's last proof used, kept to avoid a search in the cache.
    pub memo: Option<Arc<BlockTree>>,
    /// Proof for a checkpoint that was last computed for the client.
    pub proof: Option<Proof>,
}

/// Properties of the server that `server.features` returns in addition to those of the chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub server_version: String,
    pub hosts: Vec<crate::server::Host>,
}

#[derive(serde::Deserialize)]
#[serde(expecting = "no parameters")]
struct NoParams {}

/// Outcome of a request, for the counters and for the rate of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub is_error: bool,
    /// Number of further requests that this request counts as, in the limit on the client's rate.
    pub cost: u32,
}

/// Number of requests that the construction of a tree counts as, in the limit on the client's rate.
pub(crate) const TREE_COST: u32 = 20;
/// Writes the whole reply to one request. The reply is valid for one state of the chain.
pub(crate) async fn answer(
    answers: &Arc<Answers>,
    about: &About,
    view: &mut ClientView,
    method: Method,
    (request, id): (&Request<'_>, &str),
    out: &mut Vec<u8>,
) -> Answered {
    let (start, mut cost) = (out.len(), 0);
    let mut failure = RpcError::new(UNAVAILABLE, "the chain changes too often to answer; ask again");
    for _ in 0..ANSWER_ATTEMPTS {
        let generation = answers.chain.generation();
        reply::begin_result(out);
        let result = attempt(answers, about, view, method, request, out);
        let is_same = answers.chain.generation() == generation;
        match result {
            Ok(more) if is_same => {
                reply::end(out, id);
                let cost = cost + more;
                return Answered {
                    is_error: false,
                    cost,
                };
            }
            Err(WriteStop::Error(error)) if is_same => {
                out.truncate(start);
                failure = error;
                break;
            }
            Err(WriteStop::Missing(wanted)) => {
                out.truncate(start);
                cost += TREE_COST;
                match answers.build(wanted).await {
                    Ok(tree) => view.memo = tree,
                    Err(error) => {
                        failure = RpcError::new(UNAVAILABLE, error.to_string());
                        break;
                    }
                }
            }
            Err(WriteStop::Unproved { height, cp_height }) => {
                out.truncate(start);
                cost += TREE_COST;
                match answers.prove(height, cp_height).await {
                    Ok(proof) => view.proof = proof,
                    Err(error) => {
                        failure = RpcError::new(UNAVAILABLE, error.to_string());
                        break;
                    }
                }
            }
            Ok(_) | Err(WriteStop::Error(_)) => {
                out.truncate(start);
                count(&answers.counters.recomputed);
            }
        }
    }
    reply::error(out, Some(id), &failure);
    Answered { is_error: true, cost }
}

/// Writes the result for the current state of the chain, and returns its additional cost.
fn attempt(
    answers: &Answers,
    about: &About,
    view: &mut ClientView,
    method: Method,
    request: &Request,
    out: &mut Vec<u8>,
) -> Result<u32, WriteStop> {
    match method {
        Method::Merkle => results::merkle(answers, view, &request.params()?, out),
        Method::IdFromPosition => results::id_from_position(answers, view, &request.params()?, out),
        Method::TscMerkle => results::tsc_merkle(answers, view, &request.params()?, out),
        Method::Header => results::header(answers, view, &request.params()?, out),
        Method::Headers => results::headers(answers, view, &request.params()?, out),
        Method::Subscribe => {
            request.params::<NoParams>()?;
            results::subscribe(answers, view, out)
        }
        Method::Features => {
            request.params::<NoParams>()?;
            results::features(answers, about, out)
        }
    }
}

/// Writes a notification of the current tip, if the client has subscribed to tips and this tip was not sent yet.
/// Returns true if the notification was written.
pub(crate) fn notify(answers: &Answers, view: &mut ClientView, out: &mut Vec<u8>) -> bool {
    let tip = answers
        .chain
        .tip()
        .filter(|tip| view.last_tip_sent != Some(tip.hash));
    let Some(tip) = tip.filter(|_| view.is_subscribed) else {
        return false;
    };
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"blockchain.headers.subscribe","params":["#);
    results::write_tip(&tip, out);
    out.extend_from_slice(b"]}\n");
    view.last_tip_sent = Some(tip.hash);
    true
}
