//! SHA-256 (FIPS 180-4) on the compression function of the `sha2` crate, which finds the SHA instructions by itself.

use crate::hash::parts::Parts;
use sha2::block_api::compress256;

pub(in crate::hash) const BLOCK_BYTES: usize = 64;

/// Where the length is in the last block: 64 bits, big-endian.
pub(in crate::hash) const LENGTH_AT: usize = BLOCK_BYTES - 8;

/// The initial hash value, FIPS 180-4, 5.3.3.
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

/// The round constants: the first 32 bits behind the point of the cube roots of the first 64 primes (4.2.2).
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

/// The digest of each message that is given in parts.
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

/// The digest of a message of `bytes` bytes, of which `rest` has not entered `state` yet. What has entered is whole
/// blocks, and perhaps the padding block that holds the end of the message but not its length: see [`has_marker`].
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

/// A digest's bytes.
pub(in crate::hash) fn bytes_of(state: [u32; 8]) -> [u8; 32] {
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// Whether the bit `1` that ends the message stands in the block that begins with the message's last `tail` bytes.
/// It does not in a block that holds nothing but zeros and the length, because the block before had no room for it.
pub(in crate::hash) fn has_marker(tail: usize, bytes: usize) -> bool {
    tail == bytes % BLOCK_BYTES
}

/// Whether a block with `tail` bytes of the message has room for the length.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pub(in crate::hash) fn has_length(tail: usize) -> bool {
    tail < LENGTH_AT
}

/// How many blocks a message fills with its padding: at least a byte for the marker and eight for the length.
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

/// The largest integer whose cube is not above `cube`, which is below 2^108.
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
