//! Execution: turns a message of the log into a block. The outcome of each request depends only on the log before it,
//! so every node decides the same.

use crate::membership::{ChangeError, Membership};
use crate::paper;
use crate::signatures::Digests;
use crate::state::{State, VoteError, WriteEffect};
use lineside_journal::merkle;
use lineside_messages::hybrid::block::{Cargo, Hash, Header, Message};
use lineside_messages::hybrid::change::Change;
use lineside_messages::hybrid::genesis::{Genesis, database_id, genesis_hash};
use lineside_messages::hybrid::request::{Body, DatabaseId, Read, Request, Version, Write, split};
use lineside_verify::hash::keccak256;
use lineside_wire::HybridCode as Code;

/// Result of checking a request's signature before the request is executed. The result depends only on the request's
/// bytes and on a key, and keys never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureCheck {
    /// The key that the request names has signed the request.
    Valid,
    /// Another key has signed the request, or the signature is over other bytes.
    Invalid,
    /// The signature's s is above half the curve's order. (Of the two valid values of s, only the lower is accepted.)
    HighS,
    /// The signature was not checked: the request could not be decoded, or its member or key did not exist yet.
    Unchecked,
}

/// A block that was executed.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Header of the block.
    pub header: Header,
    /// Hash of the block.
    pub hash: Hash,
    /// Outcome of each request.
    pub codes: Vec<Code>,
    /// Writes in order.
    pub writes: Vec<WriteEffect>,
    /// The new membership, if the block changed it.
    pub membership: Option<Membership>,
}

/// Reason why a message does not become a block. All nodes skip such a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// The node is unknown or revoked, or the signature is not the node's.
    #[error("no node of the database has signed the message")]
    NotSigned,
    /// The message's sequence number is not above its node's last one: the message was sent twice.
    #[error("the node that sent the message has used the message's sequence number before")]
    Repeated,
    /// The message carries a head and no requests.
    #[error("the message carries no requests")]
    NoRequests,
}

/// Reason why a genesis file is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenesisError {
    /// The bytes cannot be read.
    #[error("genesis: {0}")]
    Malformed(#[from] lineside_messages::hybrid::codec::Malformed),
    /// The genesis' entries contradict each other.
    #[error("genesis: {0}")]
    Change(#[from] ChangeError),
    /// The genesis names no node, so no node could order messages.
    #[error("genesis: it has no node; a database needs at least one")]
    NoNode,
}

/// Executor of blocks: contains the state after the newest block, and the header of that block.
pub struct Chain {
    state: State,
    tip: Header,
    tip_hash: Hash,
}

impl Chain {
    /// Creates the chain with block 0.
    ///
    /// # Errors
    /// [`GenesisError`].
    pub fn begin(genesis: &[u8]) -> Result<Chain, GenesisError> {
        let read = Genesis::decode(genesis)?;
        if read.nodes.is_empty() {
            return Err(GenesisError::NoNode);
        }
        let mut state = match read.paper {
            true => State::of_paper(),
            false => State::new(),
        };
        for change in read.changes() {
            state.apply(&change)?;
        }
        let transactions_hash = genesis_hash(genesis);
        let tip = Header {
            database: database_id(genesis),
            number: 0,
            position: 0,
            time_ms: read.time_ms,
            transactions: 0,
            committed: 0,
            previous: [0; 32],
            transactions_hash,
            transactions_root: merkle::EMPTY_ROOT,
            codes_hash: keccak256(&[]),
            state_root: state.end_block().0,
            paper_hash: paper_hash(&[0; 32], &transactions_hash),
        };
        Ok(Chain {
            state,
            tip,
            tip_hash: tip.hash(),
        })
    }

    /// Creates the chain that continues after the block with header `tip`, at whose end the state is `state`.
    pub(crate) fn restored(tip: Header, state: State) -> Chain {
        Chain {
            state,
            tip,
            tip_hash: tip.hash(),
        }
    }

    /// Id of the database.
    pub fn database(&self) -> &DatabaseId {
        &self.tip.database
    }

    /// Header of the newest block.
    pub fn tip(&self) -> &Header {
        &self.tip
    }

    /// Hash of the newest block.
    pub fn tip_hash(&self) -> &Hash {
        &self.tip_hash
    }

    /// State after the newest block.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Makes the message at `position` of the log the next block. `signatures` has the result of checking each
    /// request's signature, `digests` the hashes of the message. The caller has checked that the node has signed the
    /// message.
    ///
    /// # Errors
    /// Returns [`Skipped`] if the message does not become a block; the chain is then unchanged.
    pub fn execute(
        &mut self,
        position: u64,
        message: &Message<'_>,
        signatures: &[SignatureCheck],
        digests: &Digests,
    ) -> Result<Executed, Skipped> {
        let Cargo::Requests(requests) = &message.cargo else {
            return Err(Skipped::NoRequests);
        };
        debug_assert_eq!(requests.len(), signatures.len());
        if self.state.membership().node(message.node).is_none() {
            return Err(Skipped::NotSigned);
        }
        if !self.state.take_sequence(message.node, message.sequence) {
            return Err(Skipped::Repeated);
        }
        let number = self.tip.number + 1;
        let mut block = Block {
            state: &mut self.state,
            database: self.tip.database,
            number,
            time_ms: message.time_ms.max(self.tip.time_ms),
            membership_changed: false,
        };
        let codes: Vec<Code> = requests
            .iter()
            .zip(signatures)
            .zip(0..)
            .map(|((request, signed), index)| block.decide(request, *signed, index))
            .collect();
        let Block {
            time_ms,
            membership_changed,
            ..
        } = block;
        let (state_root, writes) = self.state.end_block();
        let code_bytes: Vec<u8> = codes.iter().map(|code| *code as u8).collect();
        let header = Header {
            database: self.tip.database,
            number,
            position,
            time_ms,
            transactions: codes.len() as u32,
            committed: codes.iter().filter(|code| is_committed(**code)).count() as u32,
            previous: self.tip_hash,
            transactions_hash: digests.transactions_hash,
            transactions_root: digests.transactions_root,
            codes_hash: keccak256(&code_bytes),
            state_root,
            paper_hash: paper_hash(&self.tip.paper_hash, &digests.transactions_hash),
        };
        (self.tip, self.tip_hash) = (header, header.hash());
        Ok(Executed {
            header,
            hash: self.tip_hash,
            codes,
            writes,
            membership: membership_changed.then(|| self.state.membership().clone()),
        })
    }
}

/// Returns true if a request with this outcome has changed the state.
pub fn is_committed(code: Code) -> bool {
    matches!(code, Code::Done | Code::Recorded)
}

fn paper_hash(previous: &Hash, transactions_hash: &Hash) -> Hash {
    keccak256(&[*previous, *transactions_hash].concat())
}

/// A block under construction: its requests are executed one by one.
struct Block<'a> {
    state: &'a mut State,
    database: DatabaseId,
    number: u64,
    time_ms: u64,
    membership_changed: bool,
}

impl Block<'_> {
    fn decide(&mut self, request: &[u8], signed: SignatureCheck, index: u32) -> Code {
        if let Ok((_, bytes)) = split(request)
            && lineside_messages::hybrid::paper::is_one(bytes)
        {
            let block = self.number;
            return paper::decide(self.state, bytes, signed, Version { block, index });
        }
        let Ok(request) = split(request).and_then(|(_, signed)| Request::decode(signed)) else {
            return Code::Malformed;
        };
        let head = &request.head;
        if head.database != self.database {
            return Code::WrongDatabase;
        }
        if !request.body.is_ordered() {
            return Code::Malformed;
        }
        if self.state.membership().is_paper()
            && !lineside_messages::hybrid::paper::takes_native(&request.body)
        {
            return Code::WrongMode;
        }
        let membership = self.state.membership();
        let active = membership.is_active(head.member, head.key);
        if !active && membership.key(head.member, head.key).is_none() {
            return Code::UnknownMember;
        }
        match signed {
            SignatureCheck::Valid => {}
            SignatureCheck::HighS => return Code::HighS,
            SignatureCheck::Invalid | SignatureCheck::Unchecked => return Code::BadSignature,
        }
        if !active {
            return Code::Revoked;
        }
        // From here on it is certain that the member has signed the request. An expired request stays expired, because
        // the time of blocks never goes back. Every other outcome uses up the nonce, so that a refused request is never
        // executed later.
        if head.expiry_ms < self.time_ms {
            return Code::Expired;
        }
        if !self.state.take_nonce(head.member, head.nonce) {
            return Code::NonceUsed;
        }
        match &request.body {
            Body::Write { reads, writes } => self.write(&request, reads, writes, index),
            Body::Change { until_ms, change } => self.change(&request, *until_ms, change),
            _ => Code::Malformed,
        }
    }

    fn write(&mut self, request: &Request<'_>, reads: &[Read<'_>], writes: &[Write<'_>], index: u32) -> Code {
        let member = request.head.member;
        let membership = self.state.membership();
        let may_read = reads.iter().all(|read| membership.rights(member, read.key).read);
        if !may_read
            || !writes
                .iter()
                .all(|write| membership.rights(member, write.key).write)
        {
            return Code::NotAllowed;
        }
        if reads
            .iter()
            .any(|read| self.state.version(read.key) != read.version)
        {
            return Code::Conflict;
        }
        let version = Version {
            block: self.number,
            index,
        };
        for write in writes {
            self.state.write(write.key, version, write.value);
        }
        Code::Done
    }

    fn change(&mut self, request: &Request<'_>, until_ms: u64, change: &Change<'_>) -> Code {
        let member = request.head.member;
        // The nonce is used up, so the ledger must contain the request with a final code.
        if until_ms < self.time_ms {
            return Code::BadChange;
        }
        if Membership::is_own(member, change) {
            return self.make(change);
        }
        if !self.state.membership().is_admin(member) {
            return Code::NotAllowed;
        }
        let mut name = until_ms.to_be_bytes().to_vec();
        if change.write(&mut name).is_err() {
            return Code::Malformed;
        }
        let name = keccak256(&name);
        match self.state.vote(name, until_ms, member, self.time_ms) {
            Err(VoteError::TooMany) => Code::TooManyVotes,
            Ok(false) => Code::Recorded,
            Ok(true) => {
                self.state.end_vote(&name);
                self.make(change)
            }
        }
    }

    fn make(&mut self, change: &Change<'_>) -> Code {
        match self.state.apply(change) {
            Ok(()) => {
                self.membership_changed = true;
                Code::Done
            }
            Err(_) => Code::BadChange,
        }
    }
}
