//! Answers to `witness_proof` and `wtxid_proof`: proofs of a WTXID by the coinbase's commitment. Only the host sends
//! these answers, never the fast path.

use super::{SpvHost, put};
use crate::chain::{BlockInfo, BlockWitness, Chain, ChainError, Committed, Located, Tip};
use crate::store::Hash;
use lineside_fastpath::{Reply, Verdict};
use lineside_spv_proof::{MerklePath, Tree, depth_of};
use lineside_wire::{NativeHeader, SPV_HEADER_BYTES, SPV_WITNESS_ROOM_MAX, Status, WitnessReply, native};
use zerocopy::IntoBytes;

/// Id by which a request for a witness proof names the transaction.
#[derive(Clone, Copy)]
pub(super) enum Key<'a> {
    Txid(&'a Hash),
    Wtxid(&'a Hash),
}

/// A request for a witness proof.
pub(super) struct WitnessRequest<'a> {
    pub(super) header: &'a NativeHeader,
    pub(super) key: Key<'a>,
    /// Number of bytes available in the reply after its fixed part.
    pub(super) body_bytes_max: usize,
}

impl<'a> WitnessRequest<'a> {
    pub(super) const fn new(header: &'a NativeHeader, key: Key<'a>, body_bytes_max: usize) -> Self {
        Self {
            header,
            key,
            body_bytes_max,
        }
    }
}

/// Fields of a witness proof in a reply.
struct Proven<'a> {
    info: BlockInfo,
    index: u32,
    wtxid: Hash,
    path: MerklePath,
    coinbase_path: MerklePath,
    committed: Committed<'a>,
}

/// Result of a request for a witness proof.
enum WitnessLookup<'a> {
    Proven(Box<Proven<'a>>),
    /// The request reserves too little space for the proof, which needs two paths of `depth` hashes and the bytes of
    /// the coinbase.
    TooLong {
        transactions: u32,
        depth: usize,
        coinbase_bytes: usize,
    },
    /// There is no proof, for the reason in the status.
    None(Status),
}

impl SpvHost {
    /// Writes the reply to `witness_proof` or `wtxid_proof`, as long as its request. Returns false if the reply does
    /// not fit.
    pub(super) fn witness_proof(
        &self,
        chain: &dyn Chain,
        request: &WitnessRequest<'_>,
        tip: Tip,
        reply: &mut Reply,
    ) -> Result<bool, ChainError> {
        let found = self.prove_witness(chain, request)?;
        Ok(write(request, &found, tip, reply))
    }

    fn prove_witness<'a>(
        &self,
        chain: &'a dyn Chain,
        request: &WitnessRequest<'_>,
    ) -> Result<WitnessLookup<'a>, ChainError> {
        if !chain.keeps_witness() {
            return Ok(WitnessLookup::None(Status::NotKept));
        }
        let located = match request.key {
            Key::Txid(txid) => chain.locate(txid)?,
            Key::Wtxid(wtxid) => chain.locate_wtxid(wtxid)?,
        };
        let Some(location) = located else {
            return Ok(WitnessLookup::None(Status::Unknown));
        };
        let committed = match chain.witness(location.block)? {
            BlockWitness::NotKept => return Ok(WitnessLookup::None(Status::NotKept)),
            BlockWitness::NoCommitment => return Ok(WitnessLookup::None(Status::NoCommitment)),
            BlockWitness::Committed(committed) => committed,
        };
        let info = chain
            .block(location.block)
            .ok_or(ChainError::NoSuchBlock(location.block.0))?;
        let (transactions, depth) = (info.transactions, depth_of(info.transactions));
        let coinbase_bytes = committed.coinbase.len();
        // This check precedes the computation of the trees, so that a refusal is cheap.
        if 2 * depth * size_of::<Hash>() + coinbase_bytes > request.body_bytes_max {
            return Ok(WitnessLookup::TooLong {
                transactions,
                depth,
                coinbase_bytes,
            });
        }
        self.proven(chain, &location, info, committed)
            .map(|proven| WitnessLookup::Proven(Box::new(proven)))
    }

    fn proven<'a>(
        &self,
        chain: &dyn Chain,
        location: &Located,
        info: BlockInfo,
        committed: Committed<'a>,
    ) -> Result<Proven<'a>, ChainError> {
        let missing = || ChainError::NoSuchBlock(location.block.0);
        let of_txids = self.tree(chain, location.block)?;
        let of_wtxids = self.witness_trees.get(location.block, || {
            // `Tree::new` fails only for a block without transactions or with too many, which the check of a block
            // refuses.
            Tree::new(&committed.wtxids).map_err(|_| missing())
        })?;
        let index = location.position;
        Ok(Proven {
            info,
            index,
            wtxid: *committed.wtxids.get(index as usize).ok_or_else(missing)?,
            path: of_wtxids.merkle_path(index).ok_or_else(missing)?,
            coinbase_path: of_txids.merkle_path(0).ok_or_else(missing)?,
            committed,
        })
    }
}

fn write(request: &WitnessRequest<'_>, lookup: &WitnessLookup<'_>, tip: Tip, reply: &mut Reply) -> bool {
    let mut body = WitnessReply {
        header: [0; SPV_HEADER_BYTES],
        height: 0.into(),
        transactions: 0.into(),
        index: 0.into(),
        depth: 0.into(),
        tip_hash: tip.hash,
        tip_height: tip.height.into(),
        coinbase_bytes: 0.into(),
        wtxid: [0; 32],
        witness_reserved: [0; 32],
    };
    let mut parts: [&[u8]; 3] = [&[]; 3];
    let status = match lookup {
        WitnessLookup::Proven(proven) => {
            body.header = proven.info.header;
            body.height = proven.info.height.into();
            body.transactions = proven.info.transactions.into();
            body.index = proven.index.into();
            body.depth = (proven.path.hashes().len() as u32).into();
            body.coinbase_bytes = (proven.committed.coinbase.len() as u32).into();
            body.wtxid = proven.wtxid;
            body.witness_reserved = proven.committed.reserved;
            parts = [
                proven.path.hashes().as_flattened(),
                proven.coinbase_path.hashes().as_flattened(),
                &proven.committed.coinbase,
            ];
            Status::Ok
        }
        WitnessLookup::TooLong {
            transactions,
            depth,
            coinbase_bytes,
        } => {
            body.transactions = (*transactions).into();
            body.depth = (*depth as u32).into();
            body.coinbase_bytes = (*coinbase_bytes as u32).into();
            (body.tip_hash, body.tip_height) = ([0; 32], 0.into());
            Status::TooLong
        }
        WitnessLookup::None(status) => *status,
    };
    let filled: usize = parts.iter().map(|part| part.len()).sum();
    let Some(rest) = request.body_bytes_max.checked_sub(filled) else {
        return false;
    };
    let bytes = size_of::<WitnessReply>() + request.body_bytes_max;
    let header = native::reply_header(request.header, status, bytes as u16);
    let zeros = [0; SPV_WITNESS_ROOM_MAX];
    let parts = [header.as_bytes(), body.as_bytes()]
        .into_iter()
        .chain(parts)
        .chain([&zeros[..rest.min(SPV_WITNESS_ROOM_MAX)]]);
    parts.into_iter().all(|part| put(reply, part) == Verdict::Reply)
}
