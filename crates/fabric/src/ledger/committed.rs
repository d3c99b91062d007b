//! Committed blocks in the form in which a peer delivers them.

use super::record::Stored;
use crate::block::{Block, COMMIT_HASH, METADATA, TRANSACTIONS_FILTER};
use crate::proto::{Arena, wire};

impl Stored {
    /// Returns the block with its codes and its commit hash in its metadata: the bytes that a peer of version 3.1
    /// delivers. They equal the peer's bytes if the orderer wrote the block as Go does, with the fields in order and
    /// each once.
    pub fn committed(&self) -> Vec<u8> {
        let arena = Arena::new();
        let Ok(block) = Block::read(&self.bytes, &arena) else {
            return self.bytes.clone();
        };
        let mut metadata: Vec<&[u8]> = block.metadata.clone();
        metadata.resize(metadata.len().max(METADATA), &[]);
        let mut commit_hash = Vec::new();
        if let Some(hash) = &self.commit_hash {
            wire::put_bytes(&mut commit_hash, 1, hash);
        }
        if let Some(filter) = metadata.get_mut(TRANSACTIONS_FILTER) {
            *filter = &self.codes;
        }
        if let Some(of) = metadata
            .get_mut(COMMIT_HASH)
            .filter(|_| self.commit_hash.is_some())
        {
            *of = &commit_hash;
        }
        let mut header = Vec::with_capacity(80);
        wire::put_number(&mut header, 1, block.number);
        for (number, hash) in [(2, block.previous_hash), (3, block.data_hash)] {
            if !hash.is_empty() {
                wire::put_bytes(&mut header, number, hash);
            }
        }
        let field = |bytes: &[u8]| bytes.len() + 6;
        let data_bytes: usize = block.transactions.iter().map(|bytes| field(bytes)).sum();
        let mut data = Vec::with_capacity(data_bytes);
        for envelope in &block.transactions {
            wire::put_bytes(&mut data, 1, envelope);
        }
        let mut all = Vec::new();
        for entry in &metadata {
            wire::put_bytes(&mut all, 1, entry);
        }
        let mut bytes = Vec::with_capacity(field(&header) + field(&data) + field(&all));
        wire::put_bytes(&mut bytes, 1, &header);
        wire::put_bytes(&mut bytes, 2, &data);
        wire::put_bytes(&mut bytes, 3, &all);
        bytes
    }
}
