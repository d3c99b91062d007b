//! Keccak-256, built on the permutation of the `keccak` crate.
//!
//! The sponge is that of FIPS 202. The padding is that of the SHA-3 submission
//! (<https://keccak.team/files/Keccak-submission-3.pdf>, 1.1.2), which Ethereum uses.

use keccak::Keccak;

/// Rate of the sponge in bytes: the number of input bytes of one permutation. The state has 200 bytes; the rest of the
/// state, the capacity, is twice the length of the digest and never receives input.
pub(in crate::hash) const BLOCK_BYTES: usize = 200 - 2 * 32;

pub(in crate::hash) fn batch(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    for (message, digest) in messages.iter().zip(digests) {
        *digest = self::digest(message);
    }
}

pub(in crate::hash) fn digest(message: &[u8]) -> [u8; 32] {
    finish([0; 25], message)
}

/// Returns the digest of a message. `state` has absorbed whole blocks of the message; `rest` is the remaining message.
pub(in crate::hash) fn finish(mut state: [u64; 25], rest: &[u8]) -> [u8; 32] {
    let (blocks, tail) = rest.as_chunks::<BLOCK_BYTES>();
    let mut last = [0; BLOCK_BYTES];
    last[..tail.len()].copy_from_slice(tail);
    last[tail.len()] = 0x01;
    last[BLOCK_BYTES - 1] |= 0x80;

    Keccak::new().with_f1600(|permute| {
        for block in blocks.iter().chain([&last]) {
            for (word, bytes) in state.iter_mut().zip(block.as_chunks().0) {
                *word ^= u64::from_le_bytes(*bytes);
            }
            permute(&mut state);
        }
    });

    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_le_bytes();
    }
    digest
}

/// Returns the number of blocks of a message of `bytes` bytes, including its padding of at least one byte.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pub(in crate::hash) fn blocks(bytes: usize) -> usize {
    bytes / BLOCK_BYTES + 1
}
