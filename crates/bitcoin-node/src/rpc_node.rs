//! Client of Bitcoin Core and btcd through their RPC.
//!
//! Both use nearly the same JSON-RPC. Bitcoin Core keeps HTTP connections open, can serve blocks by REST and announces
//! them by ZMQ. btcd closes an HTTP connection after each answer, so its calls use a web socket, and it announces
//! blocks on a second web socket.

use crate::error::{NodeError, NodeFault, SetupError};
use crate::hash::{BlockHash, HEADER_BYTES};
use crate::interrupt::Interrupter;
use crate::link::Link;
use crate::node::{Announcement, Header, Node, NodeInfo};
use crate::options::NodeOptions;
use crate::secret::Credentials;
use crate::stream::Address;
use crate::url::{Endpoint, NodeUrl};
use crate::{blocking::Blocking, tls};
use std::time::Duration;

/// Client of a node's RPC.
pub(crate) struct RpcNode {
    runtime: Blocking,
    link: Link,
}

impl RpcNode {
    pub(crate) fn new(url: &NodeUrl, options: &NodeOptions) -> Result<RpcNode, SetupError> {
        let Some(endpoint) = url.endpoint() else {
            return Err(SetupError::NotANode);
        };
        let tls = match (url, &options.ca_file) {
            (NodeUrl::Btcd(_), Some(file)) => Some(tls::client_config(file)?),
            (NodeUrl::Btcd(_), None) => return Err(SetupError::NoCertificate),
            _ => None,
        };
        let Endpoint { host, port, .. } = endpoint;
        let address = Address {
            host: host.clone(),
            port: *port,
            tls,
        };
        let credentials = Credentials::choose(url, &options.credentials)?;
        let is_btcd = !matches!(url, NodeUrl::Bitcoind(_));
        Ok(RpcNode {
            runtime: Blocking::new().map_err(SetupError::Runtime)?,
            link: Link::new(is_btcd, address, url, credentials, options.clone()),
        })
    }
}

/// Runs a call of the link within a time limit.
macro_rules! call {
    ($node:ident, $name:literal, $limit:ident, $link:ident => $future:expr) => {{
        let RpcNode { runtime, link } = $node;
        let limit = link.options.$limit;
        let done = {
            let $link = &mut *link;
            runtime.run($name, limit, $future)
        };
        done.map_err(|fault| NodeError::new(link.name.as_str(), fault))
    }};
}

impl Node for RpcNode {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        call!(self, "getblockchaininfo", call_timeout, link => link.info())
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        call!(self, "getblockhash", call_timeout, link => link.hash_at(height))
    }

    fn hashes(&mut self, from: u32, count: u32) -> Result<Vec<BlockHash>, NodeError> {
        call!(self, "getblockhash", block_timeout, link => link.hashes(from, count))
    }

    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
        call!(self, "getblockheader", call_timeout, link => link.header(hash))
    }

    fn headers(&mut self, hashes: &[BlockHash]) -> Result<Vec<[u8; HEADER_BYTES]>, NodeError> {
        call!(self, "getblockheader", block_timeout, link => link.headers(hashes))
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        call!(self, "getblock", block_timeout, link => link.block(hash))
    }

    fn wait_for_change(
        &mut self,
        known: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError> {
        let RpcNode { runtime, link } = self;
        // The last request for the best block may begin just before `timeout` ends, so the limit includes one call.
        let limit = timeout.saturating_add(link.options.call_timeout);
        let waited = runtime.run("notifications", limit, link.wait(known, timeout));
        waited.map_err(|fault: NodeFault| NodeError::new(link.name.as_str(), fault))
    }

    fn close(&mut self) {
        let RpcNode { runtime, link } = self;
        // An error is ignored: if the connection cannot be closed in time, the node closes it.
        let _ = runtime.run("close", link.options.call_timeout, link.close());
    }

    fn interrupter(&self) -> Interrupter {
        self.runtime.interrupter()
    }

    fn describe(&self) -> String {
        self.link.name.clone()
    }
}
