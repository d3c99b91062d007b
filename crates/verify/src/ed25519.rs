//! Ed25519 (RFC 8032) as Go's `crypto/ed25519` verifies it, one signature at a time.
//!
//! Implementations of Ed25519 differ in which unusual keys and signatures they accept. Like Go's, this implementation
//! accepts keys whose y is not reduced, keys of small order, and x = 0 with the sign bit set. It rejects an S that is
//! not below the order of the group, and an R whose bytes are not the encoding of the point that the equation without
//! the cofactor gives.

use ed25519_dalek::{Signature, Verifier, VerifyingKey};

/// Length of a public key in bytes.
pub const KEY_BYTES: usize = 32;

/// Returns true if `signature` is a valid signature of the message by a key; false if the key is not a point of the
/// curve. The parts of the message are concatenated.
pub fn verify(key: &[u8; KEY_BYTES], message: &[&[u8]], signature: &[u8]) -> bool {
    let (Ok(key), Ok(signature)) = (VerifyingKey::from_bytes(key), Signature::from_slice(signature)) else {
        return false;
    };
    match message {
        [only] => key.verify(only, &signature),
        parts => key.verify(&parts.concat(), &signature),
    }
    .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    fn key(hex: &str) -> [u8; KEY_BYTES] {
        bytes(hex).try_into().unwrap()
    }

    /// Test vectors 1 to 3 of RFC 8032, section 7.1: key, message, signature.
    const VECTORS: [[&str; 3]; 3] = [
        [
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            concat!(
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155",
                "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
        ],
        [
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            concat!(
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da",
                "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
        ],
        [
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            concat!(
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac",
                "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
            ),
        ],
    ];

    #[test]
    fn the_signatures_of_the_rfc_are_valid() {
        for [public, message, signature] in VECTORS {
            let (public, message, signature) = (key(public), bytes(message), bytes(signature));
            assert!(verify(&public, &[&message], &signature));
            let (first, rest) = message.split_at(message.len() / 2);
            assert!(verify(&public, &[first, rest], &signature), "in two parts");
            assert!(!verify(&public, &[&message, b"x"], &signature));
            for at in 0..signature.len() {
                let mut other = signature.clone();
                other[at] ^= 4;
                assert!(!verify(&public, &[&message], &other), "byte {at}");
            }
            assert!(!verify(&public, &[&message], &signature[..63]));
            assert!(!verify(&public, &[&message], &[&signature[..], &[0]].concat()));
        }
    }

    /// Checks that a signature with S + L instead of S is refused. S + L satisfies the equation too, but RFC 8032 and
    /// Go reject it.
    #[test]
    fn a_scalar_beyond_the_order_is_refused() {
        const ORDER: &str = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010";
        for [public, message, signature] in VECTORS {
            let mut other = bytes(signature);
            let mut carry = 0;
            for (byte, order) in other[32..].iter_mut().zip(bytes(ORDER)) {
                let sum = u16::from(*byte) + u16::from(order) + carry;
                (*byte, carry) = (sum as u8, sum >> 8);
            }
            assert_eq!(carry, 0);
            assert!(!verify(&key(public), &[&bytes(message)], &other));
        }
    }

    /// Checks keys that strict implementations reject: the identity in three encodings, with R = identity and S = 0.
    #[test]
    fn keys_of_small_order_are_accepted_and_noncanonical_r_is_refused() {
        let mut one = [0; 32];
        one[0] = 1;
        let mut unreduced = [0xff; 32];
        (unreduced[0], unreduced[31]) = (0xee, 0x7f);
        let mut signed = one;
        signed[31] = 0x80;
        let signature = [one, [0; 32]].concat();
        for key in [one, unreduced, signed] {
            assert!(verify(&key, &[b"any"], &signature), "{key:02x?}");
            for r in [unreduced, signed] {
                assert!(!verify(&key, &[b"any"], &[r, [0; 32]].concat()), "{key:02x?}");
            }
        }
        // No point of the curve has y = 2.
        let mut none = [0; 32];
        none[0] = 2;
        assert!(!verify(&none, &[b"any"], &signature));
    }
}
