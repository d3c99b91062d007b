//! The TXID index in memory: maps a TXID to every location of it in accepted blocks.
//!
//! The table stores locations, not TXIDs. A lookup compares the requested TXID with the TXID that the store has at a
//! location, so all 256 bits are compared. The hash that selects a slot is keyed with a random seed, because anyone can
//! make transactions until their TXIDs have chosen bits.

use hashbrown::HashTable;

/// Location of a transaction: the block's number in the store and the transaction's position in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexedTx {
    pub(super) block: u32,
    pub(super) position: u32,
}

/// TXID index in memory. A TXID that occurs several times has several entries.
pub(super) struct TxidIndex {
    table: HashTable<IndexedTx>,
    key: [u64; 2],
}

impl TxidIndex {
    /// Returns an empty index with a fresh random key.
    pub(super) fn new() -> std::io::Result<Self> {
        let mut seed = [0u8; 16];
        getrandom::fill(&mut seed).map_err(|e| {
            std::io::Error::other(format!(
                "the kernel returned no random seed for the TXID index: {e}"
            ))
        })?;
        let value = u128::from_le_bytes(seed);
        Ok(TxidIndex {
            table: HashTable::new(),
            key: [value as u64, (value >> 64) as u64],
        })
    }

    /// Reserves space for `more` entries in an empty index.
    pub(super) fn reserve(&mut self, more: usize) {
        debug_assert!(self.table.is_empty());
        self.table.reserve(more, |_| 0);
    }

    /// Adds the TXIDs of one block, duplicates included; `txid_at` returns the TXID at a location.
    pub(super) fn add<'a>(
        &mut self,
        block: u32,
        txids: &[[u8; 32]],
        txid_at: impl Fn(IndexedTx) -> &'a [u8; 32],
    ) {
        let key = self.key;
        let hash_at = |place: &IndexedTx| siphash(key, txid_at(*place));
        self.table.reserve(txids.len(), hash_at);
        for (txid, position) in txids.iter().zip(0..) {
            self.table
                .insert_unique(siphash(key, txid), IndexedTx { block, position }, hash_at);
        }
    }

    /// Returns all locations whose TXID is exactly `txid`.
    pub(super) fn places<'s, 'a: 's>(
        &'s self,
        txid: &'s [u8; 32],
        txid_at: impl Fn(IndexedTx) -> &'a [u8; 32] + 's,
    ) -> impl Iterator<Item = IndexedTx> + 's {
        let hash = siphash(self.key, txid);
        self.table
            .iter_hash(hash)
            .copied()
            .filter(move |place| txid_at(*place) == txid)
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

/// SipHash-2-4 of exactly 32 bytes.
fn siphash(key: [u64; 2], txid: &[u8; 32]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, _) = txid.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    for word in words.chain(std::iter::once(32u64 << 56)) {
        v[3] ^= word;
        round(&mut v);
        round(&mut v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hashes::siphash24;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn siphash_equals_that_of_the_siphasher_crate(k0: u64, k1: u64, txid: [u8; 32]) {
            prop_assert_eq!(siphash([k0, k1], &txid), siphash24::Hash::hash_to_u64_with_keys(k0, k1, &txid));
        }
    }

    #[test]
    fn duplicates_are_all_found_and_absent_transactions_are_not() {
        let stored = [[1u8; 32], [2; 32], [1; 32]];
        let at = |place: IndexedTx| &stored[place.position as usize];
        let mut index = TxidIndex::new().unwrap();
        index.add(0, &stored, at);
        let mut found: Vec<u32> = index.places(&[1; 32], at).map(|p| p.position).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 2]);
        assert_eq!(index.places(&[3; 32], at).count(), 0);
        assert_eq!(index.len(), 3);
    }
}
