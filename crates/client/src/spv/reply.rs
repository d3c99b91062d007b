//! Parser of the native replies of `spv`. A reply that does not follow docs/wire-formats.md exactly is ignored.

use super::{Tip, TxLocation};
use lineside_spv_proof::{Hash, Header, MerklePath, TransactionProof, WitnessProof};
use lineside_wire::{
    HeadersHead, NATIVE_REPLY_BIT, NATIVE_VERSION, NativeHeader, ProofReply, RootItem, RootReply, RootsHead,
    SPV_HEADER_BYTES, Status, WitnessReply, native,
};
use zerocopy::FromBytes;

/// Result of a request, and the tip at which it is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The result.
    pub result: T,
    /// The tip of the chain at the time of the answer.
    pub tip: Tip,
}

/// Returns status and body of `datagram`; `None` if it is not the reply to the request `op` with this id.
pub fn parse(op: u8, request_id: u64, datagram: &[u8]) -> Option<(Status, &[u8])> {
    let (header, body) = NativeHeader::ref_from_prefix(datagram).ok()?;
    let ours = native::is_native(datagram)
        && header.op == op | NATIVE_REPLY_BIT
        && header.request_id.get() == request_id
        && usize::from(header.length.get()) == body.len();
    let status = Status::from_code(header.status.get())?;
    // A server of another protocol version answers with its own version number and the status `UnsupportedVersion`.
    let known = header.version == NATIVE_VERSION || status == Status::UnsupportedVersion;
    (ours && known).then_some((status, body))
}

/// Returns the contents of a reply to `root`; `None` if it is malformed.
pub fn root(status: Status, body: &[u8]) -> Option<Answer<Option<TxLocation>>> {
    let reply = RootReply::ref_from_bytes(body).ok()?;
    let location = TxLocation {
        root: reply.root,
        block_hash: reply.block_hash,
        height: reply.height.get(),
    };
    let result = match status {
        Status::Ok => Some(location),
        Status::Unknown => None,
        _ => return None,
    };
    let tip = Tip {
        hash: reply.tip_hash,
        height: reply.tip_height.get(),
    };
    Some(Answer { result, tip })
}

/// Returns the contents of a reply to `roots` with `count` items; `None` if it is malformed.
pub fn roots(status: Status, body: &[u8], count: usize) -> Option<Answer<Vec<Option<TxLocation>>>> {
    let (head, items) = RootsHead::ref_from_prefix(body).ok()?;
    let items = <[RootItem]>::ref_from_bytes(items).ok()?;
    if status != Status::Ok || items.len() != count || head.count.get() as usize != count {
        return None;
    }
    let location_of = |item: &RootItem| {
        let location = TxLocation {
            root: item.root,
            block_hash: item.block_hash,
            height: item.height.get(),
        };
        // Any status other than "ok" and "unknown" is an error.
        match Status::from_code(u16::try_from(item.status.get()).ok()?)? {
            Status::Ok => Some(Some(location)),
            Status::Unknown => Some(None),
            _ => None,
        }
    };
    Some(Answer {
        result: items.iter().map(location_of).collect::<Option<_>>()?,
        tip: Tip {
            hash: head.tip_hash,
            height: head.tip_height.get(),
        },
    })
}

/// Contents of a reply to `proof`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a short-lived value")]
pub enum Proven {
    /// The proof as the server sent it, not verified; `None` if no connected block holds the transaction.
    Answered(Answer<Option<TransactionProof>>),
    /// The path has this number of hashes, more than fit into the space that the request reserved.
    TooLong(u32),
}

/// Returns the contents of a reply to `proof` with space for `room` hashes; `None` if the reply is malformed.
pub fn proof(status: Status, body: &[u8], room: usize) -> Option<Proven> {
    let (reply, rest) = ProofReply::ref_from_prefix(body).ok()?;
    let hashes = <[Hash]>::ref_from_bytes(rest).ok()?;
    let depth = reply.depth.get();
    if hashes.len() != room {
        return None;
    }
    let result = match status {
        Status::Ok => Some(TransactionProof {
            header: Header::from_bytes(&reply.header),
            height: reply.height.get(),
            transaction_count: reply.transactions.get(),
            index: reply.index.get(),
            path: MerklePath::new(hashes.get(..depth as usize)?).ok()?,
        }),
        Status::Unknown => None,
        Status::TooLong if depth as usize > room => return Some(Proven::TooLong(depth)),
        _ => return None,
    };
    let tip = Tip {
        hash: reply.tip_hash,
        height: reply.tip_height.get(),
    };
    Some(Proven::Answered(Answer { result, tip }))
}

/// A transaction's WTXID and its proof as the server sent them; they are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedWitness {
    /// WTXID of the transaction in wire byte order, as claimed by the server; zeros for a coinbase.
    pub wtxid: Hash,
    /// Header of the block.
    pub header: Header,
    /// Height of the block, as claimed by the server.
    pub height: u32,
    /// Number of transactions in the block.
    pub transaction_count: u32,
    /// Position of the transaction in the block, from 0.
    pub index: u32,
    /// Sibling hashes from the WTXID to the witness root.
    pub path: MerklePath,
    /// The coinbase without its witness.
    pub coinbase: Vec<u8>,
    /// Sibling hashes from the coinbase's TXID to the Merkle root.
    pub coinbase_path: MerklePath,
    /// Witness reserved value.
    pub witness_reserved: Hash,
}

impl ServedWitness {
    /// Returns the proof in the form that [`WitnessProof::verify`] checks.
    pub fn proof(&self) -> WitnessProof<'_> {
        WitnessProof {
            header: self.header,
            height: self.height,
            transaction_count: self.transaction_count,
            index: self.index,
            path: self.path,
            coinbase: &self.coinbase,
            coinbase_path: self.coinbase_path,
            witness_reserved: self.witness_reserved,
        }
    }
}

/// Contents of a reply to `witness_proof`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a short-lived value")]
pub enum WitnessProven {
    /// The proof as the server sent it, not verified; `None` if no connected block holds the transaction.
    Answered(Answer<Option<ServedWitness>>),
    /// The proof needs this number of bytes, more than the request reserved.
    TooLong(u64),
    /// The server keeps no witness data.
    NotKept,
    /// The transaction's block commits to no witnesses.
    NoCommitment,
}

/// Returns the contents of a reply to `witness_proof` with space for `room` bytes; `None` if the reply is malformed.
pub fn witness_proof(status: Status, body: &[u8], room: usize) -> Option<WitnessProven> {
    let (reply, rest) = WitnessReply::ref_from_prefix(body).ok()?;
    if rest.len() != room {
        return None;
    }
    let (depth, coinbase_bytes) = (reply.depth.get(), reply.coinbase_bytes.get());
    let result = match status {
        Status::Ok => Some(served_witness(reply, rest)?),
        Status::Unknown => None,
        Status::TooLong => {
            let needed = 64 * u64::from(depth) + u64::from(coinbase_bytes);
            return (needed > room as u64).then_some(WitnessProven::TooLong(needed));
        }
        Status::NotKept => return Some(WitnessProven::NotKept),
        Status::NoCommitment => return Some(WitnessProven::NoCommitment),
        _ => return None,
    };
    let tip = Tip {
        hash: reply.tip_hash,
        height: reply.tip_height.get(),
    };
    Some(WitnessProven::Answered(Answer { result, tip }))
}

fn served_witness(reply: &WitnessReply, rest: &[u8]) -> Option<ServedWitness> {
    let path_bytes = (reply.depth.get() as usize).checked_mul(size_of::<Hash>())?;
    let (path, rest) = rest.split_at_checked(path_bytes)?;
    let (coinbase_path, rest) = rest.split_at_checked(path_bytes)?;
    let (coinbase, padding) = rest.split_at_checked(reply.coinbase_bytes.get() as usize)?;
    let path_of = |bytes| MerklePath::new(<[Hash]>::ref_from_bytes(bytes).ok()?).ok();
    let is_padded = padding.iter().all(|byte| *byte == 0);
    is_padded.then_some(ServedWitness {
        wtxid: reply.wtxid,
        header: Header::from_bytes(&reply.header),
        height: reply.height.get(),
        transaction_count: reply.transactions.get(),
        index: reply.index.get(),
        path: path_of(path)?,
        coinbase: coinbase.to_vec(),
        coinbase_path: path_of(coinbase_path)?,
        witness_reserved: reply.witness_reserved,
    })
}

/// Returns the contents of a reply to `headers`: up to `count` headers from the height `start` on; `None` if it is
/// malformed.
pub fn headers(status: Status, body: &[u8], start: u32, count: usize) -> Option<Answer<Vec<Header>>> {
    let (head, rest) = HeadersHead::ref_from_prefix(body).ok()?;
    let headers = <[[u8; SPV_HEADER_BYTES]]>::ref_from_bytes(rest).ok()?;
    let filled = head.count.get() as usize;
    if status != Status::Ok || head.start.get() != start || headers.len() != count || filled > count {
        return None;
    }
    Some(Answer {
        result: headers[..filled].iter().map(Header::from_bytes).collect(),
        tip: Tip {
            hash: head.tip_hash,
            height: head.tip_height.get(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_wire::{SPV_OP_ROOT, SPV_OP_ROOTS};
    use zerocopy::IntoBytes;

    fn body(statuses: &[u32]) -> Vec<u8> {
        let mut body = vec![7; 32];
        body.extend(9u32.to_be_bytes());
        body.extend((statuses.len() as u32).to_be_bytes());
        for status in statuses {
            body.extend([3; 64]);
            body.extend(4u32.to_be_bytes());
            body.extend(status.to_be_bytes());
        }
        body
    }

    #[test]
    fn an_item_of_roots_is_found_or_unknown_or_malformed() {
        let answer = roots(Status::Ok, &body(&[0, 1]), 2).unwrap();
        assert_eq!(
            answer.result.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, false]
        );
        for status in [2, 3, 4, 5, 0x1_0000, 0x1_0001, u32::MAX] {
            assert_eq!(roots(Status::Ok, &body(&[0, status]), 2), None, "{status}");
        }
    }

    #[test]
    fn roots_needs_the_requested_number_of_items_and_the_status_ok() {
        let mut lying = body(&[0, 0]);
        lying[39] = 1;
        assert_eq!(roots(Status::Ok, &lying, 2), None);
        assert_eq!(roots(Status::Ok, &body(&[0]), 2), None);
        assert_eq!(roots(Status::Unknown, &body(&[0]), 1), None);
        assert_eq!(root(Status::Busy, &[0; 104]), None);
    }

    #[test]
    fn a_reply_to_another_request_is_ignored() {
        let mut reply = native::request_header(SPV_OP_ROOT | NATIVE_REPLY_BIT, 5, 2)
            .as_bytes()
            .to_vec();
        reply.extend([1, 2]);
        assert_eq!(parse(SPV_OP_ROOT, 5, &reply), Some((Status::Ok, &[1, 2][..])));
        assert_eq!(parse(SPV_OP_ROOT, 6, &reply), None);
        assert_eq!(parse(SPV_OP_ROOTS, 5, &reply), None);
        assert_eq!(parse(SPV_OP_ROOT, 5, &reply[..17]), None);
        reply[2] = 2;
        assert_eq!(parse(SPV_OP_ROOT, 5, &reply), None, "another version");
        reply[5] = Status::UnsupportedVersion as u8;
        assert_eq!(
            parse(SPV_OP_ROOT, 5, &reply).unwrap().0,
            Status::UnsupportedVersion
        );
    }
}
