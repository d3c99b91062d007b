//! Parts of a block that the ledger stores separately: the identities, which recur in many blocks, and the transaction
//! ids.

use crate::block::{Block, SIGNATURES};
use crate::proto::{self, Arena, Metadata, SignatureHeader};
use crate::state::TxId;
use std::ops::Range;

/// Minimum size of an identity, in bytes, that is stored separately.
const IDENTITY_BYTES_MIN: usize = 64;

/// Positions of the identities in a block's bytes, and the ids of its transactions.
#[derive(Clone, Default, Debug)]
pub(crate) struct BlockParts {
    /// Offset and index of each occurrence of an identity. After [`Self::sort`] they are in order and do not overlap.
    pub spans: Vec<(usize, usize)>,
    /// Range of the first occurrence of each identity; empty if it does not occur in the bytes, because the message
    /// that contains it had to be normalised.
    pub identities: Vec<Range<usize>>,
    /// Id of each transaction, if it has one.
    pub ids: Vec<Option<TxId>>,
}

impl BlockParts {
    /// Adds an occurrence of the identity with index `index`, if it lies in `bytes`.
    pub fn add(&mut self, bytes: &[u8], identity: &[u8], index: usize) {
        if identity.len() < IDENTITY_BYTES_MIN {
            return;
        }
        let Some(at) = (identity.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize) else {
            return;
        };
        let Some(end) = at.checked_add(identity.len()).filter(|end| *end <= bytes.len()) else {
            return;
        };
        if self.identities.len() <= index {
            self.identities.resize(index + 1, 0..0);
        }
        if let Some(first) = self.identities.get_mut(index).filter(|first| **first == (0..0)) {
            *first = at..end;
        }
        self.spans.push((at, index));
    }

    /// Adds the signers of the block, as identities with new indices.
    pub fn add_signers(&mut self, bytes: &[u8], block: &Block<'_>) {
        let arena = Arena::new();
        let signatures = block.metadata.get(SIGNATURES);
        let metadata = signatures.and_then(|bytes| proto::decode::<Metadata<'_>>(bytes, &arena).ok());
        for signature in metadata.iter().flat_map(|metadata| &metadata.signatures) {
            if let Ok(by) = proto::decode::<SignatureHeader<'_>>(signature.signature_header, &arena) {
                self.add(bytes, by.creator, self.identities.len());
            }
        }
    }

    /// Sorts the occurrences by offset. If two occurrences overlap, the first is kept and the other is removed.
    pub fn sort(&mut self) {
        self.spans.sort_unstable_by_key(|(at, _)| *at);
        let (identities, mut free) = (&self.identities, 0);
        self.spans.retain(|&(at, place)| {
            let apart = at >= free;
            if apart {
                free = at + identities.get(place).map_or(0, Range::len);
            }
            apart
        });
    }
}
