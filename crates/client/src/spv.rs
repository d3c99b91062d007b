//! A client of `spv`: sends requests over UDP, repeats them if no answer comes, and accepts only answers with the id of
//! its own request. It does not verify answers: [`spv_proof`](crate::spv_proof) does, with an own chain of headers.
//!
//! ```no_run
//! use lineside_client::spv::Client;
//! use lineside_client::spv_proof::{Network, from_display};
//! use std::time::Duration;
//!
//! let mut client = Client::connect("127.0.0.1:7701".parse()?, Duration::from_secs(1))?;
//! let txid = from_display("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b").ok_or("a TXID")?;
//! if let Some(proof) = client.proof(&txid)?.result {
//!     proof.verify(Network::Mainnet, &txid)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod reply;
mod sync;

pub use crate::error::ClientError;
pub use lineside_messages::spv::{Tip, TxLocation};
pub use lineside_spv_proof::Hash;
pub use reply::{Answer, ServedWitness};
pub use sync::{Verified, VerifyError};

use crate::exchange::{Again, Link, exchange, open};
use lineside_spv_proof::{Header, TransactionProof};
use lineside_wire::{
    HeadersHead, ProofReply, RootItem, RootReply, RootsHead, SPV_HEADER_BYTES, SPV_HEADERS_MAX,
    SPV_OP_HEADERS, SPV_OP_PROOF, SPV_OP_ROOT, SPV_OP_ROOTS, SPV_OP_WITNESS_PROOF, SPV_OP_WTXID_PROOF,
    SPV_PROOF_DEPTH_MAX, SPV_ROOTS_MAX, SPV_WITNESS_ROOM_MAX, Status, WitnessReply, native,
};
use reply::{Proven, WitnessProven};
use std::net::SocketAddr;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Name of the service.
const SERVICE: &str = "spv";

/// Number of hashes for which the first request for a proof has space: enough for a block of 4,096 transactions.
const PROOF_ROOM: usize = 12;

/// Client of one server. It sends one request at a time, and threads cannot share it.
#[derive(Debug)]
pub struct Client {
    link: Link,
}

impl Client {
    /// Returns a client of `server` that waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// The system's error for a socket to that address.
    pub fn connect(server: SocketAddr, timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self {
            link: Link::open(server, timeout)?,
        })
    }

    /// Returns the number of requests that were repeated.
    pub fn resent(&self) -> u64 {
        self.link.resent
    }

    /// Returns the location of `txid` (wire byte order); `None`: no connected block holds it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn root(&mut self, txid: &Hash) -> Result<Answer<Option<TxLocation>>, ClientError> {
        let mut body = [0; size_of::<RootReply>()];
        body[..32].copy_from_slice(txid);
        self.ask(SPV_OP_ROOT, &body, reply::root)
    }

    /// Returns the location of each of 1 to 16 `txids`, in their order, all at one tip.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn roots(&mut self, txids: &[Hash]) -> Result<Answer<Vec<Option<TxLocation>>>, ClientError> {
        if !(1..=SPV_ROOTS_MAX).contains(&txids.len()) {
            return Err(ClientError::Count {
                items: "TXIDs",
                count: txids.len(),
                most: SPV_ROOTS_MAX,
            });
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

    /// Returns the location of `txid` (wire byte order), with the Merkle path to its block's header; `None`: no
    /// connected block holds it. The caller must verify the proof ([`TransactionProof::verify`]); this function does
    /// not check it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn proof(&mut self, txid: &Hash) -> Result<Answer<Option<TransactionProof>>, ClientError> {
        let mut room = PROOF_ROOM;
        loop {
            let mut body = vec![0; size_of::<ProofReply>() + room * size_of::<Hash>()];
            body[..32].copy_from_slice(txid);
            let proven = self.ask(SPV_OP_PROOF, &body, |status, reply| {
                reply::proof(status, reply, room)
            })?;
            match proven {
                Proven::Answered(answer) => return Ok(answer),
                // Each repetition has space for a longer path, up to the maximum, so the loop ends.
                Proven::TooLong(depth) if depth as usize <= SPV_PROOF_DEPTH_MAX => room = depth as usize,
                Proven::TooLong(depth) => {
                    let server = self.link.server;
                    return Err(ClientError::LongPath { server, depth });
                }
            }
        }
    }

    /// Returns the WTXID of `txid` (wire byte order), its path to the witness root, and the coinbase that commits to
    /// that root; `None`: no connected block holds `txid`. The caller must verify the proof
    /// ([`WitnessProof::verify`](lineside_spv_proof::WitnessProof::verify)); this function does not check it. The proof
    /// does not show that the WTXID belongs to `txid`: for that, compare header and index with those of a proof of
    /// `txid`.
    /// # Errors
    /// See [`ClientError`].
    pub fn witness_proof(&mut self, txid: &Hash) -> Result<Answer<Option<ServedWitness>>, ClientError> {
        self.witness(SPV_OP_WITNESS_PROOF, txid)
    }

    /// Returns a witness proof like [`Client::witness_proof`], by the WTXID (wire byte order) alone. `None`: no
    /// connected block that commits to its witnesses holds the WTXID after its coinbase. This function does not check
    /// that the served WTXID is the requested one.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn wtxid_proof(&mut self, wtxid: &Hash) -> Result<Answer<Option<ServedWitness>>, ClientError> {
        self.witness(SPV_OP_WTXID_PROOF, wtxid)
    }

    fn witness(&mut self, op: u8, id: &Hash) -> Result<Answer<Option<ServedWitness>>, ClientError> {
        // The length of the coinbase is not known in advance, so the request has the maximum length.
        let room = SPV_WITNESS_ROOM_MAX;
        let mut body = vec![0; size_of::<WitnessReply>() + room];
        body[..32].copy_from_slice(id);
        let proven = self.ask(op, &body, |status, reply| {
            reply::witness_proof(status, reply, room)
        })?;
        let server = self.link.server;
        match proven {
            WitnessProven::Answered(answer) => Ok(answer),
            WitnessProven::TooLong(bytes) => Err(ClientError::LongWitnessProof { server, bytes }),
            WitnessProven::NotKept => Err(ClientError::WitnessNotKept(server)),
            WitnessProven::NoCommitment => Err(ClientError::NoWitnessCommitment(server)),
        }
    }

    /// Returns `count` headers of the chain, 1 to 14, from the height `start` on; fewer at the end of the chain. The
    /// caller must check that the headers form a chain; this function does not check them.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn headers(&mut self, start: u32, count: usize) -> Result<Answer<Vec<Header>>, ClientError> {
        if !(1..=SPV_HEADERS_MAX).contains(&count) {
            return Err(ClientError::Count {
                items: "headers",
                count,
                most: SPV_HEADERS_MAX,
            });
        }
        let mut body = vec![0; size_of::<HeadersHead>() + count * SPV_HEADER_BYTES];
        body[..4].copy_from_slice(&start.to_be_bytes());
        body[4..8].copy_from_slice(&(count as u32).to_be_bytes());
        self.ask(SPV_OP_HEADERS, &body, |status, reply| {
            reply::headers(status, reply, start, count)
        })
    }

    /// Returns the Merkle root of the block that holds `txid`, with a request in the paper's format. This format has no
    /// request ids, so each request uses its own local port; a late answer to an earlier request cannot arrive there.
    /// # Errors
    /// See [`ClientError`].
    pub fn paper_root(&mut self, txid: &Hash) -> Result<Option<Hash>, ClientError> {
        let io = |source| ClientError::Io {
            server: self.link.server,
            source,
        };
        let socket = open(self.link.server).map_err(io)?;
        let answered = exchange(&socket, self.link.server, self.link.timeout, txid, |reply| {
            Some(<Hash>::try_from(reply).ok().ok_or(Again::Wait))
        });
        let (root, resent) = answered.map_err(|error| ClientError::of(error, SERVICE))?;
        self.link.resent += resent;
        Ok((root != [0; 32]).then_some(root))
    }

    fn ask<T>(
        &mut self,
        op: u8,
        body: &[u8],
        read: impl Fn(Status, &[u8]) -> Option<T>,
    ) -> Result<T, ClientError> {
        let (id, server) = (self.link.take_id(), self.link.server);
        let mut request = native::request_header(op, id, body.len() as u16)
            .as_bytes()
            .to_vec();
        request.extend_from_slice(body);
        let answer = |datagram: &[u8]| {
            let (status, body) = reply::parse(op, id, datagram)?;
            Some(match status {
                // A reply without a body: the server does not answer this operation.
                Status::NotKept if body.is_empty() => Ok(Err(ClientError::NotServed(server))),
                Status::Busy => Err(Again::Busy),
                Status::Ok | Status::Unknown | Status::TooLong | Status::NotKept | Status::NoCommitment => {
                    read(status, body).map(Ok).ok_or(Again::Wait)
                }
                status => Ok(Err(ClientError::Refused {
                    server,
                    status,
                    expected: 0,
                })),
            })
        };
        let answered = self.link.exchange(&request, answer);
        answered.map_err(|error| ClientError::of(error, SERVICE))?
    }
}
