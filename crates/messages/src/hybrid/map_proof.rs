//! Proofs that a key of the authenticated map has a certain value or none: encoding, decoding and verification. The
//! map itself is in the crate `lineside-hybrid`, whose module `map` describes its hashes and the security of proofs.

use lineside_verify::hash::keccak256;

/// Number of bytes of a message that is hashed: one byte for its kind, then two times 32 bytes.
pub const MESSAGE_BYTES: usize = 65;

/// First bytes of the messages of leaves and of inner nodes. They differ, and both messages have the same length, so a
/// leaf cannot be presented as an inner node, nor an inner node as a leaf.
const LEAF: u8 = 0;
const INNER: u8 = 1;

/// Hash of an empty subtree. No message with this digest is known.
pub const EMPTY_HASH: [u8; 32] = [0; 32];

/// Number of bits of a key, which is also the maximum depth of a leaf.
pub const DEPTH_MAX: usize = 256;

/// Returns bit `depth` of a key, 0 or 1: the side on which the key's path continues below that depth. Bit 0 is the most
/// significant bit of the first byte.
#[inline]
pub fn bit(key: &[u8; 32], depth: usize) -> usize {
    usize::from(key[depth / 8] >> (7 - depth % 8) & 1)
}

/// Returns the number of leading bits that two keys share; 256 if they are equal.
#[inline]
pub fn shared_bits(a: &[u8; 32], b: &[u8; 32]) -> usize {
    match a.iter().zip(b).position(|(a, b)| a != b) {
        Some(at) => at * 8 + (a[at] ^ b[at]).leading_zeros() as usize,
        None => DEPTH_MAX,
    }
}

/// Returns the message whose hash is that of a leaf.
#[inline]
pub fn leaf_message(key: &[u8; 32], value: &[u8; 32]) -> [u8; MESSAGE_BYTES] {
    message(LEAF, key, value)
}

/// Returns the message whose hash is that of an inner node.
#[inline]
pub fn inner_message(left: &[u8; 32], right: &[u8; 32]) -> [u8; MESSAGE_BYTES] {
    message(INNER, left, right)
}

#[inline]
fn message(mark: u8, first: &[u8; 32], second: &[u8; 32]) -> [u8; MESSAGE_BYTES] {
    let mut message = [mark; MESSAGE_BYTES];
    message[1..33].copy_from_slice(first);
    message[33..].copy_from_slice(second);
    message
}

/// Proof of the value of a key, or of its absence, for a verifier that knows the root.
///
/// A proof has exactly one encoding (numbers are big-endian):
///
/// | bytes | what |
/// |---|---|
/// | 2 | 2 bits: end of the path (0 empty, 1 the key's leaf, 2 another leaf); 14 bits: its depth, 0 to 256 |
/// | depth / 8, rounded up | one bit per depth from the root down: 1 where the sibling is not empty; then bits of 0 |
/// | 32 each | the siblings that are not empty, from the root down; never zeros |
/// | 0, 32 or 64 | empty; the value; the other leaf's key and value |
///
/// With 10^6 keys a proof has 20 siblings in the mean: 685 bytes. One key in a hundred has 23 or more, and the worst
/// key about 25: 840 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Number of siblings on the path, empty ones included.
    depth: usize,
    /// Bit `n` (numbered as in a key): the sibling at depth `n + 1` is not empty.
    present: [u8; 32],
    /// The siblings that are not empty, from the root down.
    siblings: Vec<[u8; 32]>,
    end: End,
}

/// Content at the end of a proof's path: nothing, the leaf of the key itself, or the leaf of another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is there.
    Empty,
    /// The leaf of the key itself.
    Own {
        /// Value of the leaf.
        value: [u8; 32],
    },
    /// The leaf of another key.
    Other {
        /// Key of the leaf.
        key: [u8; 32],
        /// Value of the leaf.
        value: [u8; 32],
    },
}

/// Reason why a proof is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofError {
    /// The proof's length is wrong.
    #[error("the proof has {got} bytes, but by its first fields it must have {wanted}")]
    Length {
        /// Number of bytes given.
        got: usize,
        /// Number of bytes that the proof should have, as far as its fields could be read.
        wanted: usize,
    },
    /// The proof's path ends in an unknown kind of node.
    #[error("the proof's path ends in an unknown kind of node")]
    End,
    /// The proof's depth is above 256, the number of bits of a key.
    #[error("the proof has depth {0}; the maximum is 256")]
    Depth(usize),
    /// An unused bit is set, or an empty sibling is written out.
    #[error("the proof's encoding is not canonical")]
    Form,
    /// No tree has such a path: an inner node on it would hold fewer than two leaves.
    #[error("the proof's path is impossible in any tree")]
    Shape,
    /// The leaf at the end of the path, which must be that of another key, is the key's own, or does not belong there.
    #[error(
        "the proof does not show that the key is absent: the leaf at the end of its path is the key's own, or does not \
         belong there; do not trust this answer"
    )]
    OtherLeaf,
    /// The proof leads to another root: it belongs to another key or another state, or is forged.
    #[error(
        "the state root that follows from the proof is not the block's: the proof is of another key, value or block, \
         or it was forged"
    )]
    Root,
}

const END_EMPTY: usize = 0;
const END_OWN: usize = 1;
const END_OTHER: usize = 2;
const DEPTH_BITS: u32 = 14;
const HEAD_BYTES: usize = 2;

impl Default for Proof {
    /// Returns the proof of an empty map, to which [`Proof::push`] and [`Proof::end_with`] add a path.
    fn default() -> Proof {
        Proof {
            depth: 0,
            present: [0; 32],
            siblings: Vec::with_capacity(24),
            end: End::Empty,
        }
    }
}

impl Proof {
    /// Returns the number of siblings on the path, empty ones included.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Extends the path, which may not be deeper than [`DEPTH_MAX`], by a sibling; `None`: the sibling is empty.
    pub fn push(&mut self, sibling: Option<[u8; 32]>) {
        if let Some(sibling) = sibling {
            self.present[self.depth / 8] |= 0x80 >> (self.depth % 8);
            self.siblings.push(sibling);
        }
        self.depth += 1;
    }

    /// Sets the content at the end of the path.
    pub fn end_with(&mut self, end: End) {
        self.end = end;
    }

    /// Encodes the proof in the format that [`Proof`] describes.
    pub fn encode(&self) -> Vec<u8> {
        let end = match self.end {
            End::Empty => END_EMPTY,
            End::Own { .. } => END_OWN,
            End::Other { .. } => END_OTHER,
        };
        let head = (end << DEPTH_BITS | self.depth) as u16;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.present.len() + 32 * self.siblings.len() + 64);
        bytes.extend_from_slice(&head.to_be_bytes());
        bytes.extend_from_slice(&self.present[..self.depth.div_ceil(8)]);
        bytes.extend_from_slice(self.siblings.as_flattened());
        match &self.end {
            End::Empty => {}
            End::Own { value } => bytes.extend_from_slice(value),
            End::Other { key, value } => {
                bytes.extend_from_slice(key);
                bytes.extend_from_slice(value);
            }
        }
        bytes
    }

    /// Decodes the output of [`Proof::encode`]. Refuses every encoding that no tree produces, so encoding a decoded
    /// proof gives the same bytes.
    pub fn decode(bytes: &[u8]) -> Result<Proof, ProofError> {
        let short = |wanted| ProofError::Length {
            got: bytes.len(),
            wanted,
        };
        let (head, rest) = bytes.split_first_chunk().ok_or(short(HEAD_BYTES))?;
        let head = usize::from(u16::from_be_bytes(*head));
        let (end, depth) = (head >> DEPTH_BITS, head & ((1 << DEPTH_BITS) - 1));
        if depth > DEPTH_MAX {
            return Err(ProofError::Depth(depth));
        }
        let marks = depth.div_ceil(8);
        let (written, rest) = rest.split_at_checked(marks).ok_or(short(HEAD_BYTES + marks))?;
        let mut present = [0; 32];
        present[..marks].copy_from_slice(written);
        if (depth..marks * 8).any(|unused| bit(&present, unused) == 1) {
            return Err(ProofError::Form);
        }
        let count = present
            .iter()
            .map(|byte| byte.count_ones() as usize)
            .sum::<usize>();
        let end_words = match end {
            END_EMPTY => 0,
            END_OWN => 1,
            END_OTHER => 2,
            _ => return Err(ProofError::End),
        };
        let (words, trailing) = rest.as_chunks::<32>();
        if words.len() != count + end_words || !trailing.is_empty() {
            return Err(short(HEAD_BYTES + marks + 32 * (count + end_words)));
        }
        let (siblings, words) = words.split_at(count);
        let end = match *words {
            [] => End::Empty,
            [value] => End::Own { value },
            [key, value, ..] => End::Other { key, value },
        };
        if siblings.contains(&[0; 32]) {
            return Err(ProofError::Form);
        }
        let proof = Proof {
            depth,
            present,
            siblings: siblings.to_vec(),
            end,
        };
        if proof.has_a_shape() {
            Ok(proof)
        } else {
            Err(ProofError::Shape)
        }
    }

    /// Returns true if, as far as the proof shows, every inner node on the path can hold two leaves. The deepest inner
    /// node has the end of the path on one side, which is at most one leaf, so its other side must not be empty. If the
    /// end is empty, the other side must hold two leaves, which is impossible at depth 256. A leaf of another key
    /// shares at most 255 bits with the key.
    fn has_a_shape(&self) -> bool {
        let beside_something = self.depth == 0 || bit(&self.present, self.depth - 1) == 1;
        let may_be_deepest = matches!(self.end, End::Own { .. });
        beside_something && (self.depth < DEPTH_MAX || may_be_deepest)
    }

    /// Verifies the proof of `key` under `root`. Returns the value, or `None` if the key is absent.
    ///
    /// Computes one Keccak-256 for each depth and one for the leaf.
    pub fn check(&self, root: &[u8; 32], key: &[u8; 32]) -> Result<Option<[u8; 32]>, ProofError> {
        let (mut hash, value_shown) = match &self.end {
            End::Empty => ([0; 32], None),
            End::Own { value } => (keccak256(&leaf_message(key, value)), Some(*value)),
            End::Other { key: other, .. } if other == key => return Err(ProofError::OtherLeaf),
            End::Other { key: other, .. } if shared_bits(other, key) < self.depth => {
                return Err(ProofError::OtherLeaf);
            }
            End::Other { key: other, value } => (keccak256(&leaf_message(other, value)), None),
        };
        let mut siblings = self.siblings.iter().rev();
        for depth in (0..self.depth).rev() {
            let sibling = match bit(&self.present, depth) {
                1 => siblings.next().ok_or(ProofError::Form)?,
                _ => &[0; 32],
            };
            hash = match bit(key, depth) {
                0 => keccak256(&inner_message(&hash, sibling)),
                _ => keccak256(&inner_message(sibling, &hash)),
            };
        }
        if hash == *root {
            Ok(value_shown)
        } else {
            Err(ProofError::Root)
        }
    }
}
