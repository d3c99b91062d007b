//! A client of `spv`: asks over UDP, again when no answer comes, and believes only the answer to its own question.

pub use crate::reply::Answer;

use crate::reader::Place;
use crate::reply;
use crate::store::Hash;
use lineside_fastpath::exchange::{Again, ExchangeError, exchange, open};
use lineside_wire::{
    RootItem, RootReply, RootsHead, SPV_OP_ROOT, SPV_OP_ROOTS, SPV_ROOTS_MAX, Status, native,
};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use zerocopy::IntoBytes;

/// Asks one server. Not shared: one question at a time.
#[derive(Debug)]
pub struct Client {
    server: SocketAddr,
    socket: UdpSocket,
    timeout: Duration,
    next_id: u64,
    resent: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing came in time.
    #[error("no answer from {server} within {timeout:?}: does `lineside spv serve` listen there?")]
    Timeout {
        /// Who was asked.
        server: SocketAddr,
        /// How long.
        timeout: Duration,
    },
    /// The server's host was overloaded all the time.
    #[error("{0} is busy: ask again later")]
    Busy(SocketAddr),
    /// The server refused the request.
    #[error("{server} refused the request: {status:?}")]
    Refused {
        /// Who was asked.
        server: SocketAddr,
        /// Its status.
        status: Status,
    },
    /// More TXIDs than one request holds, or none.
    #[error("{0} TXIDs in one request: 1 to {SPV_ROOTS_MAX} are possible")]
    Count(usize),
    /// The system's word.
    #[error("asking {server}: {source}")]
    Io {
        /// Who was asked.
        server: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl Client {
    /// A client of `server` that waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// What the system says of a socket to that address.
    pub fn connect(server: SocketAddr, timeout: Duration) -> Result<Self, ClientError> {
        let socket = open(server).map_err(|source| ClientError::Io { server, source })?;
        // Unguessable, so that who does not see the requests cannot forge replies.
        let next_id = getrandom::u64().map_err(|error| ClientError::Io {
            server,
            source: io::Error::other(error),
        })?;
        Ok(Self {
            server,
            socket,
            timeout,
            next_id,
            resent: 0,
        })
    }

    /// How often a request was sent again.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// Where `txid` (wire byte order) is; nothing found: no connected block holds it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn root(&mut self, txid: &Hash) -> Result<Answer<Option<Place>>, ClientError> {
        let mut body = [0; size_of::<RootReply>()];
        body[..32].copy_from_slice(txid);
        self.ask(SPV_OP_ROOT, &body, reply::root)
    }

    /// Where each of 1 to 16 `txids` is, in their order, all at one tip.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn roots(&mut self, txids: &[Hash]) -> Result<Answer<Vec<Option<Place>>>, ClientError> {
        if !(1..=SPV_ROOTS_MAX).contains(&txids.len()) {
            return Err(ClientError::Count(txids.len()));
        }
        let mut body = vec![0; size_of::<RootsHead>() - 4];
        body.extend_from_slice(&(txids.len() as u32).to_be_bytes());
        for txid in txids {
            body.extend_from_slice(txid);
            body.extend_from_slice(&[0; size_of::<RootItem>() - 32]);
        }
        self.ask(SPV_OP_ROOTS, &body, |status, reply| {
            reply::roots(status, reply, txids.len())
        })
    }

    /// As [`Client::root`], in the paper's format: the Merkle root alone. That format has no request ids, so each
    /// question uses a port of its own, which keeps late answers to earlier ones away.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn paper_root(&mut self, txid: &Hash) -> Result<Option<Hash>, ClientError> {
        let io = |source| ClientError::Io {
            server: self.server,
            source,
        };
        let socket = open(self.server).map_err(io)?;
        let (root, resent) = exchange(&socket, self.server, self.timeout, txid, |reply| {
            Some(<Hash>::try_from(reply).ok().ok_or(Again::Wait))
        })?;
        self.resent += resent;
        Ok((root != [0; 32]).then_some(root))
    }

    fn ask<T>(
        &mut self,
        op: u8,
        body: &[u8],
        read: impl Fn(Status, &[u8]) -> Option<T>,
    ) -> Result<T, ClientError> {
        let (id, server) = (self.next_id, self.server);
        self.next_id = self.next_id.wrapping_add(1);
        let mut request = native::request_header(op, id, body.len() as u16)
            .as_bytes()
            .to_vec();
        request.extend_from_slice(body);
        let answer = |datagram: &[u8]| {
            let (status, body) = reply::parse(op, id, datagram)?;
            Some(match status {
                Status::Busy => Err(Again::Busy),
                Status::Ok | Status::Unknown => read(status, body).map(Ok).ok_or(Again::Wait),
                status => Ok(Err(ClientError::Refused { server, status })),
            })
        };
        let (answer, resent) = exchange(&self.socket, server, self.timeout, &request, answer)?;
        self.resent += resent;
        answer
    }
}

impl From<ExchangeError> for ClientError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Timeout { server, timeout } => Self::Timeout { server, timeout },
            ExchangeError::Busy(server) => Self::Busy(server),
            ExchangeError::Io { server, source } => Self::Io { server, source },
        }
    }
}
