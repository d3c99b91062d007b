//! What a ledger keeps of a block apart from the rest of it: the identities, which come again and again, and the
//! transactions' ids.

use crate::block::{Block, SIGNATURES};
use crate::proto::{self, Arena, Metadata, SignatureHeader};
use crate::state::TxId;
use std::ops::Range;

/// Shorter identities are left where they are.
const IDENTITY_BYTES_MIN: usize = 64;

/// Where identities lie in a block's bytes, and the ids of its transactions.
#[derive(Clone, Default, Debug)]
pub(crate) struct Parts {
    /// Where an identity begins, and which it is. In order, none within another, once [`Self::sort`] was called.
    pub spans: Vec<(usize, usize)>,
    /// Of each identity, where it is first found. Nothing where it lies elsewhere only: what had to be rewritten to be
    /// read does.
    pub identities: Vec<Range<usize>>,
    /// The id of each transaction, where it has one.
    pub ids: Vec<Option<TxId>>,
}

impl Parts {
    /// Adds identity number `place`, if it lies in `bytes`.
    pub fn add(&mut self, bytes: &[u8], identity: &[u8], place: usize) {
        if identity.len() < IDENTITY_BYTES_MIN {
            return;
        }
        let Some(at) = (identity.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize) else {
            return;
        };
        let Some(end) = at.checked_add(identity.len()).filter(|end| *end <= bytes.len()) else {
            return;
        };
        if self.identities.len() <= place {
            self.identities.resize(place + 1, 0..0);
        }
        if let Some(first) = self.identities.get_mut(place).filter(|first| **first == (0..0)) {
            *first = at..end;
        }
        self.spans.push((at, place));
    }

    /// Adds those who signed the block, as identities that have no number yet.
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

    /// Puts the identities into the order in which they lie; of two that overlap the first is kept.
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
