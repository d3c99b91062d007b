//! RPC calls of one node over its connections.

use crate::answers::{self, NoResult, RpcError, cleaned_text, fault_of};
use crate::backoff::Backoff;
use crate::error::NodeFault;
use crate::hash::{BlockHash, HEADER_BYTES};
use crate::http::{Answer, Ask, Http, basic};
use crate::node::{Announcement, Header, NodeInfo, NoticedBy};
use crate::notifier::{Notifier, Publisher, Subscriber};
use crate::options::{
    ANSWER_BYTES_MAX, BATCH_MAX, BLOCK_ANSWER_BYTES_MAX, BLOCK_BYTES_MAX, NodeOptions, Use,
};
use crate::secret::Credentials;
use crate::socket::{BlockNotices, Socket};
use crate::stream::Address;
use crate::url::{Endpoint, NodeUrl};
use hyper::header::HeaderValue;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Time after a subscription during which the best block is requested often. A publisher activates a subscription only
/// some time after it has answered the handshake; notifications before the activation are lost.
const SUBSCRIPTION_SETTLE_TIME: Duration = Duration::from_secs(5);
/// Shortest and longest pause between attempts to subscribe.
const SUBSCRIBE_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Maximum time to wait for a change of the best block; a longer time might overflow the clock.
const WAIT_MAX: Duration = Duration::from_secs(365 * 86_400);

/// Interfaces that Bitcoin Core offers in addition to its RPC.
#[derive(Clone, Debug, Default)]
struct Offers {
    rest: bool,
    publisher: Option<Publisher>,
}

/// Connections to a node.
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) options: NodeOptions,
    is_btcd: bool,
    address: Address,
    authority: String,
    credentials: Credentials,
    authorization: Option<HeaderValue>,
    http: Http,
    socket: Option<Socket>,
    next_id: u64,
    /// The node's offers, and the number of HTTP connections when they were requested; `None` if they are not known.
    offers: Option<(Offers, u64)>,
    notifier: Option<(Notifier, Instant)>,
    subscribe_pauses: Backoff,
    subscribe_at: Instant,
}

impl Link {
    pub(crate) fn new(
        is_btcd: bool,
        address: Address,
        url: &NodeUrl,
        credentials: Credentials,
        options: NodeOptions,
    ) -> Link {
        let authority = url.endpoint().map(Endpoint::authority).unwrap_or_default();
        let [shortest, longest] = SUBSCRIBE_PAUSES;
        Link {
            name: url.describe(),
            options,
            is_btcd,
            http: Http::new(address.clone(), &authority),
            address,
            authority,
            credentials,
            authorization: None,
            socket: None,
            next_id: 1,
            offers: None,
            notifier: None,
            subscribe_pauses: Backoff::new(shortest, longest),
            subscribe_at: Instant::now(),
        }
    }

    /// Closes the connections for requests; the next request opens a new one.
    pub(crate) async fn close(&mut self) -> Result<(), NodeFault> {
        self.socket = None;
        self.http.close().await;
        Ok(())
    }

    // ---- one request and its answer ----

    /// Sends one request. Returns the body of the answer and the id of the request.
    async fn call(
        &mut self,
        call: &'static str,
        params: &str,
        limit_bytes: usize,
    ) -> Result<(Vec<u8>, u64), NodeFault> {
        let id = self.next_id;
        self.next_id += 1;
        let text = format!(r#"{{"jsonrpc":"1.0","id":{id},"method":"{call}","params":[{params}]}}"#);
        Ok((self.exchange(call, text, limit_bytes).await?, id))
    }

    /// Sends a batch of requests for one method, with ids from 0.
    async fn batch(
        &mut self,
        call: &'static str,
        all_params: impl Iterator<Item = String>,
    ) -> Result<Vec<u8>, NodeFault> {
        let mut text = String::from("[");
        for (id, params) in all_params.enumerate() {
            let comma = if id == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                r#"{comma}{{"jsonrpc":"2.0","id":{id},"method":"{call}","params":[{params}]}}"#
            );
        }
        text.push(']');
        self.exchange(call, text, ANSWER_BYTES_MAX).await
    }

    async fn exchange(
        &mut self,
        call: &'static str,
        text: String,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, NodeFault> {
        if self.is_btcd && self.options.web_socket == Use::Offered {
            match self.exchange_by_socket(call, &text, limit_bytes).await {
                // The node accepts no further web socket, or a proxy blocks web sockets.
                Err(fault @ (NodeFault::Busy { .. } | NodeFault::Http { .. })) => {
                    tracing::debug!(
                        node = self.name,
                        "the web socket to the node cannot be opened: {fault}; HTTP is used instead"
                    );
                }
                done => return done,
            }
        }
        self.exchange_by_http(call, text, limit_bytes).await
    }

    async fn exchange_by_socket(
        &mut self,
        call: &'static str,
        text: &str,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, NodeFault> {
        // The socket is taken out of `self`, so that it is closed if this future is dropped before the end.
        if let Some(mut socket) = self.socket.take() {
            match socket.ask(call, text.to_owned(), limit_bytes).await {
                Ok(answer) => {
                    self.socket = Some(socket);
                    return Ok(answer);
                }
                // The node may have been restarted since the last call.
                Err(NodeFault::Lost { .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        let authorization = self.authorize(false)?;
        let opened = Socket::open(
            &self.address,
            &self.authority,
            authorization.as_ref(),
            BLOCK_ANSWER_BYTES_MAX,
        );
        let mut socket = opened.await?;
        let answer = socket.ask(call, text.to_owned(), limit_bytes).await?;
        self.socket = Some(socket);
        Ok(answer)
    }

    async fn exchange_by_http(
        &mut self,
        call: &'static str,
        text: String,
        limit_bytes: usize,
    ) -> Result<Vec<u8>, NodeFault> {
        let ask = Ask {
            call,
            path: "/",
            body: Some(text.into()),
            limit_bytes,
        };
        let authorization = self.authorize(false)?;
        let mut answer = self.http.send(&ask, authorization.as_ref()).await?;
        if answer.status == 401 {
            let renewed = self.authorize(true)?;
            if renewed != authorization {
                answer = self.http.send(&ask, renewed.as_ref()).await?;
            }
        }
        body_of(call, answer)
    }

    /// Returns the HTTP header with the credentials. If `renew` is set, the credentials are read again from their file.
    fn authorize(&mut self, renew: bool) -> Result<Option<HeaderValue>, NodeFault> {
        if self.authorization.is_none() || renew {
            let pair = self
                .credentials
                .pair()
                .map_err(|source| match &self.credentials {
                    Credentials::CookieFile(path) if source.kind() == ErrorKind::NotFound => {
                        NodeFault::NoCookie { path: path.clone() }
                    }
                    Credentials::CookieFile(path) => NodeFault::Cookie {
                        path: path.clone(),
                        source,
                    },
                    _ => NodeFault::Connect { source },
                })?;
            self.authorization = pair.as_ref().and_then(basic);
        }
        Ok(self.authorization.clone())
    }

    // ---- the chain ----

    pub(crate) async fn info(&mut self) -> Result<NodeInfo, NodeFault> {
        const CALL: &str = "getblockchaininfo";
        let (body, id) = self.call(CALL, "", ANSWER_BYTES_MAX).await?;
        answers::info(&body, id).map_err(|error| fault_of(CALL, error))
    }

    async fn best(&mut self) -> Result<BlockHash, NodeFault> {
        const CALL: &str = "getbestblockhash";
        let (body, id) = self.call(CALL, "", ANSWER_BYTES_MAX).await?;
        answers::hash(&body, id).map_err(|error| fault_of(CALL, error))
    }

    pub(crate) async fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeFault> {
        const CALL: &str = "getblockhash";
        let (body, id) = self.call(CALL, &height.to_string(), ANSWER_BYTES_MAX).await?;
        answers::hash(&body, id).map_err(|error| height_fault(height, error))
    }

    pub(crate) async fn hashes(&mut self, from: u32, count: u32) -> Result<Vec<BlockHash>, NodeFault> {
        const CALL: &str = "getblockhash";
        let mut hashes = Vec::new();
        let heights: Vec<u32> = (from..from.saturating_add(count)).collect();
        for heights in heights.chunks(BATCH_MAX) {
            let body = self.batch(CALL, heights.iter().map(u32::to_string)).await?;
            let answered_hashes =
                answers::hashes(&body, heights.len()).map_err(|error| fault_of(CALL, error))?;
            for (height, hash) in heights.iter().zip(answered_hashes) {
                match hash.map_err(|error| height_fault(*height, error)) {
                    Ok(hash) => hashes.push(hash),
                    Err(NodeFault::NoSuchHeight { .. }) => return Ok(hashes),
                    Err(fault) => return Err(fault),
                }
            }
        }
        Ok(hashes)
    }

    pub(crate) async fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeFault> {
        const CALL: &str = "getblockheader";
        let params = [false, true].map(|details| format!("\"{hash}\",{details}"));
        let body = self.batch(CALL, params.into_iter()).await?;
        let header = answers::header(&body).map_err(|error| block_fault(CALL, hash, error))?;
        check_hash(hash, BlockHash::of_header(&header.raw))?;
        Ok(header)
    }

    pub(crate) async fn headers(
        &mut self,
        hashes: &[BlockHash],
    ) -> Result<Vec<[u8; HEADER_BYTES]>, NodeFault> {
        const CALL: &str = "getblockheader";
        let mut headers = Vec::with_capacity(hashes.len());
        for hashes in hashes.chunks(BATCH_MAX) {
            let params = hashes.iter().map(|hash| format!("\"{hash}\",false"));
            let body = self.batch(CALL, params).await?;
            let answered_headers =
                answers::headers(&body, hashes.len()).map_err(|error| fault_of(CALL, error))?;
            for (hash, header) in hashes.iter().zip(answered_headers) {
                let header = header.map_err(|error| block_fault(CALL, hash, error))?;
                check_hash(hash, BlockHash::of_header(&header))?;
                headers.push(header);
            }
        }
        Ok(headers)
    }

    pub(crate) async fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeFault> {
        const CALL: &str = "getblock";
        self.probe().await?;
        let by_rest = match &self.offers {
            Some((Offers { rest: true, .. }, _)) => self.block_by_rest(hash).await?,
            _ => None,
        };
        let raw = match by_rest {
            Some(raw) => raw,
            None => {
                let params = format!("\"{hash}\",0");
                let (body, id) = self.call(CALL, &params, BLOCK_ANSWER_BYTES_MAX).await?;
                answers::block(&body, id).map_err(|error| block_fault(CALL, hash, error))?
            }
        };
        match BlockHash::of_block(&raw) {
            Some(actual_hash) => check_hash(hash, actual_hash)?,
            None => {
                return Err(NodeFault::Malformed {
                    call: CALL,
                    why: "the block is shorter than a header".into(),
                });
            }
        }
        if raw.len() > BLOCK_BYTES_MAX {
            return Err(NodeFault::TooLarge {
                call: CALL,
                limit_bytes: BLOCK_BYTES_MAX,
            });
        }
        Ok(raw)
    }

    /// Fetches a block by REST; `None` if REST answers with an error. The caller then uses the RPC, which reports the
    /// reason more precisely.
    async fn block_by_rest(&mut self, hash: &BlockHash) -> Result<Option<Vec<u8>>, NodeFault> {
        let ask = Ask {
            call: "REST block",
            path: &format!("/rest/block/{hash}.bin"),
            body: None,
            limit_bytes: BLOCK_BYTES_MAX,
        };
        let answer = self.http.send(&ask, None).await?;
        Ok((answer.status == 200).then_some(answer.body))
    }

    // ---- notifications ----

    /// Requests which interfaces Bitcoin Core offers: once for each connection, because a restart may change them.
    async fn probe(&mut self) -> Result<(), NodeFault> {
        let is_fresh = |(_, opened): &(Offers, u64)| *opened == self.http.opened();
        if self.is_btcd || self.offers.as_ref().is_some_and(is_fresh) {
            return Ok(());
        }
        let mut offers = Offers::default();
        if self.options.notifications == Use::Offered {
            const CALL: &str = "getzmqnotifications";
            let (body, id) = self.call(CALL, "", ANSWER_BYTES_MAX).await?;
            match answers::zmq_notifications(&body, id).map_err(|error| fault_of(CALL, error)) {
                Ok(offered) => offers.publisher = Publisher::choose(&offered, &self.address.host),
                // The node was built without ZMQ, or does not let this user call the method.
                Err(NodeFault::Rpc { .. }) => {}
                Err(fault) => return Err(fault),
            }
        }
        if self.options.rest == Use::Offered {
            let ask = Ask {
                call: "REST chaininfo",
                path: "/rest/chaininfo.json",
                body: None,
                limit_bytes: ANSWER_BYTES_MAX,
            };
            offers.rest = self.http.send(&ask, None).await?.status == 200;
        }
        let zmq = offers.publisher.is_some();
        tracing::debug!(node = self.name, ?offers.rest, zmq, "the optional interfaces of the node are known");
        self.offers = Some((offers, self.http.opened()));
        Ok(())
    }

    /// Subscribes if the node offers notifications and no pause is active. A failure is not an error, because polling
    /// continues.
    async fn subscribe(&mut self) {
        let now = Instant::now();
        if self.notifier.is_some() || self.options.notifications == Use::Never || now < self.subscribe_at {
            return;
        }
        let limit = self.options.call_timeout;
        let opening = async {
            if self.is_btcd {
                let authorization = self.authorize(false)?;
                let opened = BlockNotices::open(&self.address, &self.authority, authorization.as_ref());
                return opened
                    .await
                    .map(|opened| Some(Notifier::Socket(Box::new(opened))));
            }
            let offers = self
                .offers
                .as_ref()
                .and_then(|(offers, _)| offers.publisher.clone());
            match offers {
                None => Ok(None),
                Some(Publisher { address, topic }) => {
                    let opened = Subscriber::open(&address, topic).await?;
                    Ok(Some(Notifier::Zmq(opened)))
                }
            }
        };
        let opened = timeout(limit, opening).await.unwrap_or(Err(NodeFault::TimedOut {
            call: "the subscription",
            after: limit,
        }));
        match opened {
            Ok(notifier) => {
                self.subscribe_pauses.reset();
                self.notifier = notifier.map(|notifier| (notifier, Instant::now()));
            }
            Err(fault) => self.unsubscribed(&fault),
        }
    }

    fn unsubscribed(&mut self, fault: &NodeFault) {
        let pause = self.subscribe_pauses.pause();
        tracing::warn!(
            node = self.name,
            ?pause,
            "the node's notifications cannot be received: {fault}; the node is polled instead"
        );
        self.notifier = None;
        self.subscribe_at = Instant::now() + pause;
    }

    /// Waits until the best block may differ from `known_tip`, at most for `wait`.
    pub(crate) async fn wait(
        &mut self,
        known_tip: &BlockHash,
        wait: Duration,
    ) -> Result<Option<Announcement>, NodeFault> {
        let end = Instant::now() + wait.min(WAIT_MAX);
        loop {
            if self.notifier.is_none() {
                self.probe_within_limit().await?;
                self.subscribe().await;
            }
            // This request follows the subscription, so that a block which was found before it is not missed.
            if let Some(announcement) = self.another_best(known_tip).await? {
                return Ok(Some(announcement));
            }
            let is_settled = |(_, since): &(Notifier, Instant)| since.elapsed() > SUBSCRIPTION_SETTLE_TIME;
            let interval = match &self.notifier {
                Some(notifier) if is_settled(notifier) => self.options.backup_poll_interval,
                _ => self.options.poll_interval,
            };
            if let Some(announcement) = self.notified(known_tip, end.min(Instant::now() + interval)).await {
                return Ok(Some(announcement));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
        }
    }

    async fn probe_within_limit(&mut self) -> Result<(), NodeFault> {
        let after = self.options.call_timeout;
        let call = "getzmqnotifications";
        let probed = timeout(after, self.probe()).await;
        probed.unwrap_or(Err(NodeFault::TimedOut { call, after }))
    }

    /// Requests the best block within the time limit of a call.
    async fn another_best(&mut self, known: &BlockHash) -> Result<Option<Announcement>, NodeFault> {
        let after = self.options.call_timeout;
        let call = "getbestblockhash";
        let asked = timeout(after, self.best()).await;
        let best = asked.unwrap_or(Err(NodeFault::TimedOut { call, after }))?;
        Ok((best != *known).then_some(Announcement {
            hash: best,
            noticed_by: NoticedBy::Poll,
        }))
    }

    /// Waits for a notification until `end`. If there is no subscription, the function only sleeps until `end`.
    async fn notified(&mut self, known_tip: &BlockHash, end: Instant) -> Option<Announcement> {
        loop {
            let Some((notifier, _)) = &mut self.notifier else {
                sleep_until(end).await;
                return None;
            };
            let by = notifier.noticed_by();
            let first = timeout_at(end, notifier.next()).await.ok()?;
            let newest = first.and_then(|first| {
                let later = notifier.drain(known_tip)?;
                Ok(later.or(first.filter(|hash| hash != known_tip)))
            });
            match newest {
                Ok(Some(hash)) => return Some(Announcement { hash, noticed_by: by }),
                // The notification is about the known block: wait for the next one.
                Ok(None) => {}
                Err(fault) => {
                    self.unsubscribed(&fault);
                    return None;
                }
            }
        }
    }
}

/// Returns the body of a JSON answer; a fault for any other answer.
fn body_of(call: &'static str, answer: Answer) -> Result<Vec<u8>, NodeFault> {
    let Answer { status, body } = answer;
    let message = || cleaned_text(&String::from_utf8_lossy(&body[..body.len().min(1024)]));
    let is_json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
    match status {
        401 => Err(NodeFault::Unauthorized),
        403 => Err(NodeFault::Forbidden),
        200 => Ok(body),
        _ if is_json => Ok(body),
        503 => Err(NodeFault::Busy { message: message() }),
        status => Err(NodeFault::Http {
            call,
            status,
            message: message(),
        }),
    }
}

fn check_hash(asked: &BlockHash, found: BlockHash) -> Result<(), NodeFault> {
    if *asked == found {
        return Ok(());
    }
    Err(NodeFault::WrongBlock { asked: *asked, found })
}

fn height_fault(height: u32, error: NoResult) -> NodeFault {
    match error {
        NoResult::Error(RpcError { code, .. }) if answers::OUT_OF_RANGE.contains(&code) => {
            NodeFault::NoSuchHeight { height }
        }
        error => fault_of("getblockhash", error),
    }
}

fn block_fault(call: &'static str, hash: &BlockHash, error: NoResult) -> NodeFault {
    let hash = *hash;
    match error {
        NoResult::Error(RpcError { code, .. }) if code == answers::NOT_FOUND => {
            NodeFault::NoSuchBlock { hash }
        }
        // Bitcoin Core uses one error code for the messages "Block not available (pruned data)", "Block not available
        // (not fully downloaded)" and "Block not found on disk", so the message decides.
        NoResult::Error(RpcError { code, message }) if code == answers::MISC => {
            if message.contains("pruned") {
                NodeFault::Pruned { hash }
            } else if message.contains("not available") || message.contains("not found on disk") {
                NodeFault::NotDownloaded { hash }
            } else {
                fault_of(call, NoResult::Error(RpcError { code, message }))
            }
        }
        error => fault_of(call, error),
    }
}
