//! SHA-256 (FIPS 180-4), built on the compression function of the `sha2` crate. That crate detects the SHA instructions
//! of the processor and uses them.

use crate::hash::parts::Parts;
use sha2::block_api::compress256;

pub(in crate::hash) const BLOCK_BYTES: usize = 64;

/// Byte offset of the message length in the last block. The length is in bits, as a 64-bit big-endian integer.
pub(in crate::hash) const LENGTH_AT: usize = BLOCK_BYTES - 8;

/// Initial hash value (FIPS 180-4, 5.3.3).
pub(in crate::hash) const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Round constants: the first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2).
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pub(in crate::hash) const ROUND: [[u32; 16]; 4] = {
    let mut constants = [[0; 16]; 4];
    let (mut count, mut candidate) = (0, 2);
    while count < 64 {
        if is_prime(candidate) {
            constants[count / 16][count % 16] = cube_root((candidate as u128) << 96) as u32;
            count += 1;
        }
        candidate += 1;
    }
    constants
};

pub(in crate::hash) fn batch(messages: &[&[u8]], digests: &mut [[u8; 32]]) {
    for (message, digest) in messages.iter().zip(digests) {
        *digest = self::digest(message);
    }
}

/// Computes the digest of each message, given as a list of parts.
pub(in crate::hash) fn of_parts(messages: &[&[&[u8]]], digests: &mut [[u8; 32]]) {
    for (message, digest) in messages.iter().zip(digests) {
        let (mut parts, mut state) = (Parts::new(message), INITIAL);
        while parts.prepare() {
            let blocks = parts.blocks();
            compress256(&mut state, blocks);
            let count = blocks.len();
            parts.advance(count);
        }
        *digest = bytes_of(state);
    }
}

pub(in crate::hash) fn digest(message: &[u8]) -> [u8; 32] {
    finish(INITIAL, message, message.len())
}

/// Returns the digest of a message of `bytes` bytes. `state` has processed whole blocks of the message; `rest` is the
/// remaining message. If `rest` is empty, `state` may also have processed the padding block that holds the end of the
/// message but has no space for the length; see [`has_marker`].
pub(in crate::hash) fn finish(mut state: [u32; 8], rest: &[u8], bytes: usize) -> [u8; 32] {
    let (blocks, tail) = rest.as_chunks::<BLOCK_BYTES>();
    compress256(&mut state, blocks);

    let mut padding = [[0; BLOCK_BYTES]; 2];
    padding.as_flattened_mut()[..tail.len()].copy_from_slice(tail);
    if has_marker(tail.len(), bytes) {
        padding.as_flattened_mut()[tail.len()] = 0x80;
    }
    let count = if tail.len() < LENGTH_AT { 1 } else { 2 };
    padding[count - 1][LENGTH_AT..].copy_from_slice(&(8 * bytes as u64).to_be_bytes());
    compress256(&mut state, &padding[..count]);

    bytes_of(state)
}

/// Converts a hash value to the bytes of a digest, in big-endian order.
pub(in crate::hash) fn bytes_of(state: [u32; 8]) -> [u8; 32] {
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// Returns true if the marker bit `1`, which follows the message, belongs in the block that begins with the last `tail`
/// bytes of the message. If that block holds only zeros and the length, the previous block already has the marker but
/// had no space for the length; the function then returns false.
pub(in crate::hash) fn has_marker(tail: usize, bytes: usize) -> bool {
    tail == bytes % BLOCK_BYTES
}

/// Returns true if a block that begins with the last `tail` bytes of the message has space for the length.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pub(in crate::hash) fn has_length(tail: usize) -> bool {
    tail < LENGTH_AT
}

/// Returns the number of blocks of a message of `bytes` bytes, including its padding: at least one byte for the marker
/// and eight bytes for the length.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pub(in crate::hash) fn blocks(bytes: usize) -> usize {
    (bytes + 8) / BLOCK_BYTES + 1
}

#[cfg(all(feature = "simd", target_arch = "x86_64"))]
const fn is_prime(number: u32) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= number {
        if number.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

/// Returns the integer cube root of `cube`, rounded down. `cube` must be less than 2^108.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
const fn cube_root(cube: u128) -> u128 {
    let (mut root, mut bit) = (0, 1 << 35);
    while bit > 0 {
        let next = root + bit;
        if next * next * next <= cube {
            root = next;
        }
        bit /= 2;
    }
    root
}
