//! Double SHA-256 and the two byte orders of a hash.
//!
//! Bitcoin hashes almost everything by SHA-256 of SHA-256 (FIPS 180-4). A Merkle node and a header have fixed lengths,
//! so this module calls the compression function directly with prepared padding. The `sha2` crate chooses the
//! processor's SHA instructions at run time where they exist.

use sha2::block_api::compress256;
use sha2::{Digest, Sha256};

/// Double SHA-256 hash in wire order, the order in which it is hashed and sent. It is displayed in the reverse order
/// ([`reversed`]).
pub type Hash = [u8; 32];

/// Initial state of SHA-256 (FIPS 180-4, section 5.3.3).
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// SHA-256 padding of a message of exactly 64 bytes. It fills a block of its own, because the message fills the first.
const PADDING_AFTER_64: [u8; 64] = padding(0, 512);

/// Returns a block that is padding from `start` on, for a message of `message_bits` bits.
const fn padding(start: usize, message_bits: u16) -> [u8; 64] {
    let mut block = [0; 64];
    block[start] = 0x80;
    block[62] = (message_bits >> 8) as u8;
    block[63] = message_bits as u8;
    block
}

/// Returns the double SHA-256 of any number of bytes.
pub fn sha256d(bytes: &[u8]) -> Hash {
    sha256d_parts(&[bytes])
}

/// Returns the double SHA-256 of the concatenation of `parts`.
pub(crate) fn sha256d_parts(parts: &[&[u8]]) -> Hash {
    let mut first = Sha256::new();
    for part in parts {
        first.update(part);
    }
    Sha256::digest(first.finalize()).into()
}

/// Returns the parent of two Merkle nodes: the double SHA-256 of `left` and then `right`.
pub fn hash_pair(left: &Hash, right: &Hash) -> Hash {
    sha256d_64(&join(left, right))
}

/// Returns the 64 bytes whose hash is the parent of `left` and `right`.
pub(crate) fn join(left: &Hash, right: &Hash) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(left);
    bytes[32..].copy_from_slice(right);
    bytes
}

/// Returns the double SHA-256 of 64 bytes.
pub(crate) fn sha256d_64(bytes: &[u8; 64]) -> Hash {
    let mut state = INITIAL;
    compress256(&mut state, &[*bytes, PADDING_AFTER_64]);
    hash_of_state(&state)
}

/// Returns the double SHA-256 of 80 bytes: the hash of a block header.
pub(crate) fn sha256d_80(bytes: &[u8; 80]) -> Hash {
    let mut blocks = [[0; 64], padding(16, 640)];
    blocks[0].copy_from_slice(&bytes[..64]);
    blocks[1][..16].copy_from_slice(&bytes[64..]);
    let mut state = INITIAL;
    compress256(&mut state, &blocks);
    hash_of_state(&state)
}

/// Returns the SHA-256 of the 32 bytes that the first SHA-256 returned.
fn hash_of_state(first: &[u32; 8]) -> Hash {
    let mut block = padding(32, 256);
    block[..32].copy_from_slice(&bytes_of_state(first));
    let mut state = INITIAL;
    compress256(&mut state, &[block]);
    bytes_of_state(&state)
}

fn bytes_of_state(state: &[u32; 8]) -> Hash {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(state) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// Returns the hash with its bytes reversed: converts between wire order and display order.
pub fn reversed(hash: &Hash) -> Hash {
    let mut other = *hash;
    other.reverse();
    other
}

/// Returns the 64 hexadecimal digits of a hash in display order (last wire byte first).
pub fn to_display(hash: &Hash) -> [u8; 64] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash.iter().rev()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// Returns the wire hash of a displayed one; `None` unless `text` is exactly 64 hexadecimal digits of either case.
pub fn from_display(text: &str) -> Option<Hash> {
    let text = text.as_bytes();
    if text.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().rev().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(hash)
}

/// Text of a hash in display order, for messages.
pub(crate) struct Display<'a>(pub &'a Hash);

impl core::fmt::Display for Display<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for byte in self.0.iter().rev() {
            write!(out, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl core::fmt::Debug for Display<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hashes::{Hash as _, sha256d as oracle};

    #[test]
    fn fixed_lengths_hash_as_the_general_function_of_another_crate() {
        let bytes: [u8; 80] = core::array::from_fn(|index| (index * 37 + 5) as u8);
        let left: Hash = bytes[..32].try_into().unwrap();
        let right: Hash = bytes[32..64].try_into().unwrap();
        let of = |bytes: &[u8]| oracle::Hash::hash(bytes).to_byte_array();
        assert_eq!(hash_pair(&left, &right), of(&bytes[..64]));
        assert_eq!(sha256d_80(&bytes), of(&bytes));
        for length in 0..80 {
            assert_eq!(sha256d(&bytes[..length]), of(&bytes[..length]), "{length}");
            let (head, tail) = bytes[..length].split_at(length / 3);
            assert_eq!(sha256d_parts(&[head, tail]), of(&bytes[..length]), "{length}");
        }
    }

    #[test]
    fn display_order_is_the_reverse_of_wire_order() {
        let hash: Hash = core::array::from_fn(|index| index as u8);
        let text = to_display(&hash);
        let text = core::str::from_utf8(&text).unwrap();
        assert!(text.starts_with("1f1e") && text.ends_with("0100"));
        assert_eq!(from_display(text), Some(hash));
        assert_eq!(from_display(&text.to_uppercase()), Some(hash));
        assert_eq!(Display(&hash).to_string(), text);
        assert_eq!(reversed(&reversed(&hash)), hash);
        assert_eq!(reversed(&hash)[0], 0x1f);
        for wrong in [
            &text[1..],
            "",
            &text.replace("0a", "+a"),
            &text.replace("0a0", "\u{e9}a"),
        ] {
            assert_eq!(from_display(wrong), None, "{wrong}");
        }
    }
}
