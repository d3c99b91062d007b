//! Paths of Esplora's HTTP interface that need only headers and proofs.
//!
//! Source: API.md of Blockstream/esplora, and the texts and statuses of src/rest.rs of Blockstream/electrs. Replies
//! have the header `Cache-Control: no-store`, because a reorganisation makes a proof invalid.

use crate::answers::{ANSWER_ATTEMPTS, Answers, TreeLookup, WantedTree};
use crate::chain::{HEADER_BYTES, Unavailable};
use crate::gate::Admitted;
use crate::limits::count;
use crate::merkle::BlockTree;
use crate::methods::TREE_COST;
use crate::proxies::{TrustedProxies, client_of};
use crate::rate::Rates;
use crate::results::write_merkle;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use lineside_util::hex::{from_display, to_display, to_hex};
use serde_json::json;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// Maximum number of bytes of the request line and the headers together. It is the smallest value that hyper permits.
const HEADER_BYTES_MAX: usize = 8192;
const HEADERS_MAX: usize = 64;
/// Maximum time for a request's headers to arrive, and for an idle connection to send a request.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// Maximum time to complete unfinished answers when the server stops.
const STOP_TIME: Duration = Duration::from_millis(300);
/// HTTP methods that the server answers.
const METHODS: &str = "GET, HEAD, OPTIONS";
/// Seconds for which a browser caches the answer to a preflight request.
const PREFLIGHT_S: &str = "86400";
/// Number of blocks, up to a block, whose median time is the block's `mediantime` (BIP 113).
const MEDIAN_BLOCKS: u32 = 11;

type Shared = State<Arc<Answers>>;

/// Client that sent a request, with access to the rates of all clients.
#[derive(Clone)]
pub(crate) struct Client {
    pub address: IpAddr,
    pub rates: Arc<Rates>,
}

impl Client {
    /// Builds a tree, and charges the client's rate for it: a tree costs more tokens than a request.
    async fn build(
        &self,
        answers: &Arc<Answers>,
        wanted: WantedTree,
    ) -> Result<Option<Arc<BlockTree>>, Unavailable> {
        self.rates.charge(self.address, self.rates.now(), TREE_COST);
        answers.build(wanted).await
    }
}

/// Serves one HTTP connection, and closes it after `time`.
pub(crate) async fn serve(
    stream: TcpStream,
    admitted: Admitted,
    client: Client,
    proxies: TrustedProxies,
    router: Router,
    time: Duration,
    mut stopped: watch::Receiver<bool>,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), with_client(client, proxies, router));
    let mut connection = std::pin::pin!(connection);
    // An error of a connection is not reported, because its client causes it: the client has disconnected, or does not
    // use HTTP.
    tokio::select! {
        _ = connection.as_mut() => (),
        _ = tokio::time::sleep(time) => (),
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(STOP_TIME, connection).await;
        }
    }
    drop(admitted);
}

/// Returns the service of one connection. It determines the client for each request, because a connection of a reverse
/// proxy has requests of many clients.
fn with_client(
    peer: Client,
    proxies: TrustedProxies,
    router: Router,
) -> impl Service<hyper::Request<Incoming>, Response = Response, Error = Infallible, Future: Send> {
    let router = TowerToHyperService::new(router);
    service_fn(move |mut request: hyper::Request<Incoming>| {
        let client = Client {
            address: client_of(peer.address, request.headers(), &*proxies),
            rates: Arc::clone(&peer.rates),
        };
        request.extensions_mut().insert(client);
        router.call(request)
    })
}

pub(crate) fn router(answers: Arc<Answers>) -> Router {
    Router::new()
        .route("/tx/{txid}/merkle-proof", get(merkle_proof))
        .route("/tx/{txid}/merkleblock-proof", get(merkleblock_proof))
        .route("/tx/{txid}/status", get(transaction_status))
        .route("/block/{hash}", get(block))
        .route("/block/{hash}/header", get(block_header))
        .route("/block/{hash}/status", get(block_status))
        .route("/block-height/{height}", get(block_at))
        .route("/blocks/tip/height", get(tip_height))
        .route("/blocks/tip/hash", get(tip_hash))
        .fallback(no_path)
        .layer(middleware::from_fn_with_state(Arc::clone(&answers), guard))
        .with_state(answers)
}

/// Counts requests, and refuses requests that exceed their client's rate, that have a body, or that use a method which
/// is not in `METHODS`. Web pages of every origin may read the replies, as with Esplora.
async fn guard(
    State(answers): Shared,
    Extension(client): Extension<Client>,
    request: Request,
    next: Next,
) -> Response {
    count(&answers.counters.http_requests);
    let admitted = client.rates.admit(client.address, client.rates.now());
    let headers = request.headers();
    let is_zero = |length: &HeaderValue| length == "0";
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || !headers.get(header::CONTENT_LENGTH).is_none_or(is_zero);
    let mut response = if let Err(wait_ns) = admitted {
        count(&answers.counters.http_throttled);
        let seconds = wait_ns.div_ceil(1_000_000_000).max(1);
        let after = [(header::RETRY_AFTER, HeaderValue::from(seconds))];
        (StatusCode::TOO_MANY_REQUESTS, after, "Too many requests").into_response()
    } else if request.method() == Method::OPTIONS {
        preflight()
    } else if request.method() != Method::GET && request.method() != Method::HEAD {
        (
            StatusCode::METHOD_NOT_ALLOWED,
            [(header::ALLOW, METHODS)],
            "GET only",
        )
            .into_response()
    } else if has_body {
        let close = [(header::CONNECTION, "close")];
        (StatusCode::PAYLOAD_TOO_LARGE, close, "no request body").into_response()
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

/// Answers a preflight request (CORS), by which a browser asks if a page of another origin may send requests.
fn preflight() -> Response {
    let allowed = [
        (header::ALLOW, METHODS),
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
        (header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_S),
    ];
    (StatusCode::NO_CONTENT, allowed).into_response()
}

/// Reason why a path has no answer, with the text that Esplora sends.
enum Failure {
    BadRequest(&'static str),
    NotFound(&'static str),
    Unavailable(Unavailable),
}

const NO_BLOCK: Failure = Failure::NotFound("Block not found");
const NO_TRANSACTION: Failure = Failure::NotFound("Transaction not found or is unconfirmed");

impl From<Unavailable> for Failure {
    fn from(error: Unavailable) -> Self {
        Failure::Unavailable(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Failure::BadRequest(text) => (StatusCode::BAD_REQUEST, text).into_response(),
            Failure::NotFound(text) => (StatusCode::NOT_FOUND, text).into_response(),
            Failure::Unavailable(error) => {
                (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response()
            }
        }
    }
}

type Answer = Result<Response, Failure>;

fn json(text: impl Into<axum::body::Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

fn hash(text: &str) -> Result<[u8; 32], Failure> {
    from_display(text).ok_or(Failure::BadRequest("Invalid hex string"))
}

async fn no_path(request: Request) -> Response {
    let path: String = request.uri().path().chars().take(200).collect();
    (StatusCode::NOT_FOUND, format!("endpoint does not exist {path:?}")).into_response()
}

/// Computes an answer, and repeats the computation if the chain changed meanwhile, so that the answer is for one state
/// of the chain.
fn steady<T>(answers: &Answers, mut compute: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 0..ANSWER_ATTEMPTS {
        let generation = answers.chain.generation();
        let answer = compute();
        if answers.chain.generation() == generation {
            return answer;
        }
        count(&answers.counters.recomputed);
    }
    Err(Unavailable("the chain changes too often; ask again".into()).into())
}

/// Returns the proof of a transaction: the tree of its block, the block's height, and the transaction's position in it.
async fn proof(
    answers: &Arc<Answers>,
    client: &Client,
    text: &str,
) -> Result<(Arc<BlockTree>, u32, u32), Failure> {
    let txid = hash(text)?;
    let mut memo = None;
    for _ in 0..ANSWER_ATTEMPTS {
        let generation = answers.chain.generation();
        let location = answers.chain.locate(&txid)?;
        let located_tree = location.map(|location| (location, answers.tree(location.height, &mut memo)));
        let is_same = answers.chain.generation() == generation;
        match located_tree {
            None if is_same => return Err(NO_TRANSACTION),
            Some((location, TreeLookup::Tree(tree))) if is_same => {
                if tree.txid(location.position) != Some(&txid) {
                    let text = format!(
                        "the index has position {} for {text}, but the block has another transaction there",
                        location.position
                    );
                    return Err(Unavailable(text).into());
                }
                return Ok((tree, location.height, location.position));
            }
            Some((_, TreeLookup::Missing(wanted))) => memo = client.build(answers, wanted).await?,
            _ => count(&answers.counters.recomputed),
        }
    }
    Err(Unavailable("the chain changes too often; ask again".into()).into())
}

async fn merkle_proof(
    State(answers): Shared,
    Extension(client): Extension<Client>,
    Path(txid): Path<String>,
) -> Answer {
    let (tree, height, position) = proof(&answers, &client, &txid).await?;
    let mut text = Vec::new();
    write_merkle(&tree, height, position, &mut text);
    Ok(json(text))
}

async fn merkleblock_proof(
    State(answers): Shared,
    Extension(client): Extension<Client>,
    Path(txid): Path<String>,
) -> Answer {
    let (tree, _, position) = proof(&answers, &client, &txid).await?;
    let message = tree.merkle_block(position).ok_or(NO_TRANSACTION)?;
    Ok(to_hex(&message).into_response())
}

async fn transaction_status(State(answers): Shared, Path(txid): Path<String>) -> Answer {
    let txid = hash(&txid)?;
    steady(&answers, || {
        let location = answers.chain.locate(&txid)?;
        let Some((location, header)) =
            location.and_then(|location| Some((location, answers.chain.header_at(location.height)?)))
        else {
            return Ok(json(json!({"confirmed": false}).to_string()));
        };
        let status = json!({
            "confirmed": true,
            "block_height": location.height,
            "block_hash": to_display(&crate::merkle::sha256d(&header)),
            "block_time": word(&header, 68),
        });
        Ok(json(status.to_string()))
    })
}

/// Returns the header and the height of a connected block.
fn connected(answers: &Answers, hash: &[u8; 32]) -> Result<([u8; HEADER_BYTES], u32), Failure> {
    let height = answers.chain.height_of(hash).ok_or(NO_BLOCK)?;
    let header = answers.chain.header_at(height).ok_or(NO_BLOCK)?;
    Ok((header, height))
}

async fn block_header(State(answers): Shared, Path(text): Path<String>) -> Answer {
    let hash = hash(&text)?;
    let (header, _) = steady(&answers, || connected(&answers, &hash))?;
    Ok(to_hex(&header).into_response())
}

/// Returns the number in the four bytes from offset `at` of a header.
fn word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let bytes = &header[at..at + 4];
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Returns the ratio of the easiest target of the main chain to the target of a header, computed as in Bitcoin Core.
fn difficulty(bits: u32) -> f64 {
    let (exponent, mantissa) = ((bits >> 24) as i32, bits & 0x00ff_ffff);
    f64::from(0xffff) / f64::from(mantissa) * 256f64.powi(0x1d - exponent)
}

/// Returns the properties of a block that its header and its TXIDs determine. Size and weight are not among them.
async fn block(
    State(answers): Shared,
    Extension(client): Extension<Client>,
    Path(text): Path<String>,
) -> Answer {
    let hash = hash(&text)?;
    let mut memo = None;
    for _ in 0..ANSWER_ATTEMPTS {
        let generation = answers.chain.generation();
        let height = answers.chain.height_of(&hash);
        let located_tree = height.map(|height| (height, answers.tree(height, &mut memo)));
        let mut times = Vec::new();
        if let Some(height) = height {
            let first = (height + 1).saturating_sub(MEDIAN_BLOCKS);
            answers.chain.headers(first, height + 1 - first, &mut times);
        }
        let is_same = answers.chain.generation() == generation;
        match located_tree {
            None if is_same => return Err(NO_BLOCK),
            Some((height, TreeLookup::Tree(tree))) if is_same => {
                return Ok(json(describe(&tree, height, &times)));
            }
            Some((_, TreeLookup::Missing(wanted))) => memo = client.build(&answers, wanted).await?,
            _ => count(&answers.counters.recomputed),
        }
    }
    Err(Unavailable("the chain changes too often; ask again".into()).into())
}

fn describe(tree: &BlockTree, height: u32, last_headers: &[u8]) -> String {
    let header = tree.header();
    let headers = last_headers.as_chunks::<HEADER_BYTES>().0;
    let mut times: Vec<u32> = headers.iter().map(|header| word(header, 68)).collect();
    times.sort_unstable();
    let previous: [u8; 32] = std::array::from_fn(|index| header[4 + index]);
    let bits = word(header, 72);
    json!({
        "id": to_display(tree.hash()),
        "height": height,
        "version": word(header, 0),
        "timestamp": word(header, 68),
        "tx_count": tree.transactions(),
        "merkle_root": to_display(tree.root()),
        "previousblockhash": (height > 0).then(|| to_display(&previous)),
        "mediantime": times.get(times.len() / 2),
        "nonce": word(header, 76),
        "bits": bits,
        "difficulty": difficulty(bits),
    })
    .to_string()
}

async fn block_status(State(answers): Shared, Path(text): Path<String>) -> Answer {
    let hash = hash(&text)?;
    steady(&answers, || {
        let status = match answers.chain.height_of(&hash) {
            None => json!({"in_best_chain": false}),
            Some(height) => json!({
                "in_best_chain": true,
                "height": height,
                "next_best": answers.chain.hash_at(height + 1).map(|hash| to_display(&hash)),
            }),
        };
        Ok(json(status.to_string()))
    })
}

async fn block_at(State(answers): Shared, Path(height): Path<String>) -> Answer {
    let is_number = !height.is_empty() && height.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number || height.len() > 19 {
        return Err(Failure::BadRequest("Invalid number"));
    }
    // Digits that do not fit into the type name a height that no block has.
    let height = height.parse().map_err(|_| NO_BLOCK)?;
    let hash = answers.chain.hash_at(height).ok_or(NO_BLOCK)?;
    Ok(to_display(&hash).into_response())
}

async fn tip_height(State(answers): Shared) -> Answer {
    let tip = answers.chain.tip().ok_or(NO_BLOCK)?;
    Ok(tip.height.to_string().into_response())
}

async fn tip_hash(State(answers): Shared) -> Answer {
    let tip = answers.chain.tip().ok_or(NO_BLOCK)?;
    Ok(to_display(&tip.hash).into_response())
}
