//! Check of one reply against the states that the chain had during the request.

use super::truth::{Block, History, Names, State, Tx};
use lineside_client::spv::reply::{self, Proven};
use lineside_spv::store::Hash;
use lineside_spv_proof::{TransactionProof, Tree};
use lineside_wire::{
    NATIVE_REPLY_BIT, NativeHeader, ProofReply, RootItem, RootReply, RootsHead, SPV_OP_PROOF, SPV_OP_ROOT,
    SPV_OP_ROOTS, SPV_ROOTS_MAX, Status, native,
};
use std::collections::HashMap;
use zerocopy::{FromBytes, IntoBytes};

/// Maximum number of Merkle roots that a checker caches.
const ROOTS: usize = 10_000;

/// Request, with the data that the check of its reply needs.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Request in the paper's format.
    Paper(Tx),
    /// Native request `root` with this request id.
    Root(Tx, u64),
    /// Native request `roots` for the first transactions of the array. The other fields are their number and the
    /// request id.
    Roots([Tx; SPV_ROOTS_MAX], usize, u64),
    /// Native request `proof`. The other fields are the number of hashes for which it has room, and the request id.
    Proof(Tx, usize, u64),
}

impl Ask {
    /// Writes the request's payload into `into`.
    pub fn write(&self, names: &Names, into: &mut Vec<u8>) {
        into.clear();
        let header = |op, id, bytes: usize| native::request_header(op, id, bytes as u16);
        match self {
            Self::Paper(tx) => into.extend_from_slice(&names.txid(*tx)),
            Self::Root(tx, id) => {
                let bytes = size_of::<RootReply>();
                into.extend_from_slice(header(SPV_OP_ROOT, *id, bytes).as_bytes());
                into.extend_from_slice(&names.txid(*tx));
                into.resize(size_of::<NativeHeader>() + bytes, 0);
            }
            Self::Proof(tx, room, id) => {
                let bytes = size_of::<ProofReply>() + room * size_of::<Hash>();
                into.extend_from_slice(header(SPV_OP_PROOF, *id, bytes).as_bytes());
                into.extend_from_slice(&names.txid(*tx));
                into.resize(size_of::<NativeHeader>() + bytes, *id as u8);
            }
            Self::Roots(all, count, id) => {
                let bytes = size_of::<RootsHead>() + count * size_of::<RootItem>();
                into.extend_from_slice(header(SPV_OP_ROOTS, *id, bytes).as_bytes());
                into.resize(into.len() + size_of::<RootsHead>() - 4, 0);
                into.extend_from_slice(&(*count as u32).to_be_bytes());
                for tx in &all[..*count] {
                    into.extend_from_slice(&names.txid(*tx));
                    into.resize(into.len() + size_of::<RootItem>() - 32, 0);
                }
            }
        }
    }
}

/// Fault of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The parts of the reply never belonged together: it mixes hashes of two writes, or two states of the chain.
    Torn,
    /// The reply was true in an earlier state of the chain, but not in any state between request and reply.
    Stale,
    /// The reply was never true, or does not answer this request.
    Wrong,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The reply is true in a state that may have been visible.
    True,
    /// The states with which the reply must be compared are no longer stored.
    TooLate,
    /// The reply has a fault.
    Fault(Fault, String),
}

/// Range of the states of the chain, by number, in which a reply may be true.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Oldest state of the range. The change to it was complete before the request was sent.
    pub oldest: u32,
    /// Newest state of the range. The change to it had begun before the reply arrived.
    pub newest: u32,
}

/// Checker of replies. Each thread has its own.
pub struct Checker<'a> {
    names: &'a Names,
    history: &'a History,
    recent: State,
    /// Merkle roots that were computed from the TXIDs of blocks. The key is the root in the block's header. In this
    /// generated chain, that root only identifies the block.
    roots: HashMap<Hash, Hash>,
}

/// Answer for one transaction; `None` means that the transaction is unknown.
type Answer = Option<Block>;

impl<'a> Checker<'a> {
    pub fn new(names: &'a Names, history: &'a History) -> Self {
        Self {
            names,
            history,
            recent: State::empty(),
            roots: HashMap::new(),
        }
    }

    fn state(&mut self, number: u32) -> Option<State> {
        if number == 0 {
            return Some(State::empty());
        }
        if self.recent.number != number {
            self.recent = self.history.state(number)?;
        }
        Some(self.recent)
    }

    /// Checks the `reply` to `ask` against the states of `window`. Only a reply of the host (`from_host`) may say that
    /// a transaction is unknown.
    pub fn check(&mut self, ask: &Ask, reply: &[u8], window: Window, from_host: bool) -> Checked {
        match ask {
            Ask::Paper(tx) => self.paper(*tx, reply, window, from_host),
            Ask::Root(tx, id) => self.root(*tx, *id, reply, window, from_host),
            Ask::Proof(tx, room, id) => self.proof(*tx, (*room, *id), reply, window, from_host),
            Ask::Roots(all, count, id) => self.roots(&all[..*count], *id, reply, window, from_host),
        }
    }

    fn paper(&mut self, tx: Tx, reply: &[u8], window: Window, from_host: bool) -> Checked {
        let Ok(root) = <&Hash>::try_from(reply) else {
            return wrong(format!("{} bytes", reply.len()));
        };
        let answer = match *root == [0; 32] {
            true if !from_host => return wrong("the fast path replied that the transaction is unknown"),
            true => None,
            false => match self.names.block_of_root(root) {
                Some(block) => Some(block),
                None => return torn(format!("root {root:02x?}")),
            },
        };
        for number in (window.oldest..=window.newest).rev() {
            match self.state(number) {
                Some(state) if state.locate(self.names, tx) == answer => return Checked::True,
                Some(_) => (),
                None => return Checked::TooLate,
            }
        }
        self.was_it_ever(tx, answer, window)
    }

    /// Returns the fault of an answer that is not true within the window: it is stale if it was true before, and wrong
    /// otherwise.
    fn was_it_ever(&mut self, tx: Tx, answer: Answer, window: Window) -> Checked {
        let said = format!(
            "the reply says that {tx:?} is in {answer:?} (None: in no block), but this is true in no state of \
             {window:?}"
        );
        let before = window.oldest.saturating_sub(1000)..window.oldest;
        for number in before.rev() {
            let state = self.state(number);
            if state.is_some_and(|state| state.locate(self.names, tx) == answer) {
                return Checked::Fault(
                    Fault::Stale,
                    format!("{said}; it was last true in state {number}"),
                );
            }
        }
        wrong(said)
    }

    fn header(&self, op: u8, id: u64, body: usize, reply: &[u8]) -> Result<(Status, usize), Checked> {
        let Ok((header, rest)) = NativeHeader::ref_from_prefix(reply) else {
            return Err(wrong(format!("{} bytes", reply.len())));
        };
        let status = match header.status.get() {
            0 => Status::Ok,
            1 => Status::Unknown,
            other => return Err(wrong(format!("status {other}"))),
        };
        let mut due = native::request_header(op | NATIVE_REPLY_BIT, id, body as u16);
        due.status = header.status;
        if due.as_bytes() != header.as_bytes() || rest.len() != body {
            return Err(wrong(format!(
                "the reply has the wrong header {header:?}, or a wrong length, with {} bytes after the header",
                rest.len()
            )));
        }
        Ok((status, size_of::<NativeHeader>()))
    }

    /// Returns the state whose tip has this hash and height, if it may be visible. Each state has a different tip, so
    /// the tip identifies the state.
    fn state_of_tip(&mut self, hash: &Hash, height: u32, window: Window) -> Result<State, Checked> {
        let number = match self.names.block_of_hash(hash) {
            Some(tip) if tip.height == height => tip.born,
            // This is the state before the first block.
            None if *hash == [0; 32] && height == 0 => 0,
            Some(tip) => {
                return Err(torn(format!(
                    "the reply has the tip {tip:?}, but the height {height}"
                )));
            }
            None => {
                return Err(torn(format!(
                    "the tip of the reply, {hash:02x?}, belongs to no block"
                )));
            }
        };
        if number < window.oldest {
            let said = format!(
                "the reply has the tip of state {number}, but only the states {window:?} were visible"
            );
            return Err(Checked::Fault(Fault::Stale, said));
        }
        if number > window.newest {
            return Err(wrong(format!(
                "the reply has the tip of state {number}, but only the states {window:?} were visible"
            )));
        }
        let state = self.state(number).ok_or(Checked::TooLate)?;
        match state.tip().map(|tip| (tip.born, tip.height)) == Some((number, height)) || number == 0 {
            true => Ok(state),
            false => Err(wrong(format!("state {number} has another tip"))),
        }
    }

    /// Checks one native answer, which must be true in the state that its tip identifies.
    fn item(
        &self,
        tx: Tx,
        state: &State,
        known: bool,
        place: (&Hash, &Hash, u32),
        from_host: bool,
    ) -> Checked {
        let (root, hash, height) = place;
        let due = state.locate(self.names, tx);
        if !known {
            let empty = (root, hash, height) == (&[0; 32], &[0; 32], 0);
            return match from_host && empty && due.is_none() {
                true => Checked::True,
                false => wrong(format!(
                    "the reply (sent by the host: {from_host}; all fields zero: {empty}) says that {tx:?} is in no \
                     block; in the state of the reply's tip the transaction is in {due:?} (None: in no block)"
                )),
            };
        }
        let (of_root, of_hash) = (self.names.block_of_root(root), self.names.block_of_hash(hash));
        let (Some(block), true) = (of_root, of_root == of_hash) else {
            return torn(format!(
                "the root is of {of_root:?}, but the hash is of {of_hash:?} (None: of no block)"
            ));
        };
        if block.height != height {
            return torn(format!("the reply has {block:?}, but the height {height}"));
        }
        let said = || {
            format!(
                "the reply says that {tx:?} is in {block:?}; but the reply's tip belongs to state {}, in which the \
                 transaction is in {due:?} (None: in no block)",
                state.number
            )
        };
        match due == Some(block) {
            true => Checked::True,
            // The block and the tip are each right, but belong to two different states.
            false if self.names.holds(block, tx) => torn(said()),
            false => wrong(said()),
        }
    }

    fn root(&mut self, tx: Tx, id: u64, reply: &[u8], window: Window, from_host: bool) -> Checked {
        let (status, at) = match self.header(SPV_OP_ROOT, id, size_of::<RootReply>(), reply) {
            Ok(found) => found,
            Err(fault) => return fault,
        };
        let Ok(body) = RootReply::ref_from_bytes(&reply[at..]) else {
            return wrong("the reply has no body");
        };
        match self.state_of_tip(&body.tip_hash, body.tip_height.get(), window) {
            Ok(state) => {
                let place = (&body.root, &body.block_hash, body.height.get());
                self.item(tx, &state, status == Status::Ok, place, from_host)
            }
            Err(fault) => fault,
        }
    }

    fn proof(
        &mut self,
        tx: Tx,
        (room, id): (usize, u64),
        reply: &[u8],
        window: Window,
        from_host: bool,
    ) -> Checked {
        let bytes = size_of::<ProofReply>() + room * size_of::<Hash>();
        let (status, at) = match self.header(SPV_OP_PROOF, id, bytes, reply) {
            Ok(found) => found,
            Err(fault) => return fault,
        };
        let Some(Proven::Answered(answer)) = reply::proof(status, &reply[at..], room) else {
            return wrong("the reply has no body");
        };
        let state = match self.state_of_tip(&answer.tip.hash, answer.tip.height, window) {
            Ok(state) => state,
            Err(fault) => return fault,
        };
        let used = answer.result.map_or(0, |proof| proof.path.hashes().len());
        let rest = &reply[at + size_of::<ProofReply>() + used * size_of::<Hash>()..];
        if rest.iter().any(|byte| *byte != 0) {
            return wrong("there are bytes other than zero after the path");
        }
        let Some(proof) = answer.result else {
            return self.item(tx, &state, false, (&[0; 32], &[0; 32], 0), from_host);
        };
        let header = &proof.header;
        let place = (&header.merkle_root, &header.previous, proof.height);
        match self.item(tx, &state, true, place, from_host) {
            Checked::True => self.path(tx, &proof),
            other => other,
        }
    }

    /// Checks a proof whose header belongs to the right block. All other parts must belong to this block, too.
    fn path(&mut self, tx: Tx, proof: &TransactionProof) -> Checked {
        let Some(block) = self.names.block_of_root(&proof.header.merkle_root) else {
            return torn("the header belongs to no block");
        };
        let txids = self.names.txids(block);
        let said = (proof.header.to_bytes(), proof.transaction_count, proof.index);
        let due = (
            self.names.header(block),
            txids.len() as u32,
            self.names.index(block, tx),
        );
        if said != due {
            return torn(format!(
                "{tx:?} in {block:?}: the reply has header, count and index {said:02x?}, but the block has {due:02x?}"
            ));
        }
        if self.roots.len() >= ROOTS {
            self.roots.clear();
        }
        let root = self.roots.entry(proof.header.merkle_root);
        let root = *root.or_insert_with(|| Tree::new(&txids).map_or([0; 32], |tree| tree.root()));
        match proof
            .path
            .root_in(&self.names.txid(tx), proof.index, proof.transaction_count)
        {
            Ok(reached) if reached == root => Checked::True,
            other => torn(format!("{tx:?} in {block:?}: the path leads to {other:02x?}")),
        }
    }

    fn roots(&mut self, all: &[Tx], id: u64, reply: &[u8], window: Window, from_host: bool) -> Checked {
        let body = size_of::<RootsHead>() + all.len() * size_of::<RootItem>();
        let at = match self.header(SPV_OP_ROOTS, id, body, reply) {
            Ok((Status::Ok, at)) => at,
            Ok((status, _)) => return wrong(format!("status {status:?}")),
            Err(fault) => return fault,
        };
        let parts = RootsHead::ref_from_prefix(&reply[at..]).ok();
        let parts = parts.and_then(|(head, items)| Some((head, <[RootItem]>::ref_from_bytes(items).ok()?)));
        let Some((head, items)) = parts else {
            return wrong("the reply has no body");
        };
        if head.count.get() as usize != all.len() || items.len() != all.len() {
            return wrong(format!("{} items", head.count.get()));
        }
        let state = match self.state_of_tip(&head.tip_hash, head.tip_height.get(), window) {
            Ok(state) => state,
            Err(fault) => return fault,
        };
        for (tx, item) in all.iter().zip(items) {
            let place = (&item.root, &item.block_hash, item.height.get());
            match self.item(*tx, &state, item.status.get() == 0, place, from_host) {
                Checked::True => (),
                other => return other,
            }
        }
        Checked::True
    }
}

fn torn(what: impl Into<String>) -> Checked {
    Checked::Fault(Fault::Torn, what.into())
}

fn wrong(what: impl Into<String>) -> Checked {
    Checked::Fault(Fault::Wrong, what.into())
}
