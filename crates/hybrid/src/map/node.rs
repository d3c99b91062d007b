//! Parts of the tree: references to nodes, bits of keys, and the messages from which hashes are computed.

/// Number of bytes of a message that is hashed: one byte for its kind, then two times 32 bytes.
pub(super) const MESSAGE_BYTES: usize = 65;

/// First bytes of the messages of leaves and of inner nodes. They differ, and both messages have the same length, so a
/// leaf cannot be presented as an inner node, nor an inner node as a leaf.
const LEAF: u8 = 0;
const INNER: u8 = 1;

/// Hash of an empty subtree. No message with this digest is known.
pub(super) const EMPTY_HASH: [u8; 32] = [0; 32];

/// Number of bits of a key, which is also the maximum depth of a leaf.
pub(super) const DEPTH_MAX: usize = 256;

/// Maximum number of slots for each kind of node. A slot number has 30 bits, and the highest value means
/// [`Ref::EMPTY`].
pub(super) const SLOTS_MAX: usize = INDEX as usize;
const INDEX: u32 = (1 << 30) - 1;

/// Reference to a node in 4 bytes: 2 bits for its kind, 30 for its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ref(u32);

/// Kind and slot of the node that a [`Ref`] refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Empty,
    Leaf(u32),
    /// An inner node whose two children both hold leaves.
    Fork(u32),
    /// An inner node with one child, on the given side (0 left, 1 right); the child holds at least two leaves. Trees of
    /// random keys have 44 chains for 100 forks. A chain takes half the memory of a fork, so it is a kind of its own.
    Chain(usize, u32),
}

impl Ref {
    pub(super) const EMPTY: Ref = Ref(u32::MAX);

    pub(super) fn leaf(index: u32) -> Ref {
        Ref(index)
    }

    pub(super) fn fork(index: u32) -> Ref {
        Ref(1 << 30 | index)
    }

    pub(super) fn chain(side: usize, index: u32) -> Ref {
        Ref((2 + side as u32) << 30 | index)
    }

    pub(super) fn open(self) -> Node {
        let index = self.0 & INDEX;
        match self.0 >> 30 {
            _ if self == Ref::EMPTY => Node::Empty,
            0 => Node::Leaf(index),
            1 => Node::Fork(index),
            kind => Node::Chain(kind as usize - 2, index),
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self == Ref::EMPTY
    }

    pub(super) fn is_leaf(self) -> bool {
        matches!(self.open(), Node::Leaf(_))
    }
}

/// A leaf. It fills one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Leaf {
    pub(super) key: [u8; 32],
    pub(super) value: [u8; 32],
}

/// Hashes of a fork's two children. They fill one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct ChildHashes(pub(super) [[u8; 32]; 2]);

/// Returns bit `depth` of a key, 0 or 1: the side on which the key's path continues below that depth. Bit 0 is the most
/// significant bit of the first byte.
pub(super) fn bit(key: &[u8; 32], depth: usize) -> usize {
    usize::from(key[depth / 8] >> (7 - depth % 8) & 1)
}

/// Returns the number of leading bits that two keys share; 256 if they are equal.
pub(super) fn shared_bits(a: &[u8; 32], b: &[u8; 32]) -> usize {
    match a.iter().zip(b).position(|(a, b)| a != b) {
        Some(at) => at * 8 + (a[at] ^ b[at]).leading_zeros() as usize,
        None => DEPTH_MAX,
    }
}

pub(super) fn leaf_message(key: &[u8; 32], value: &[u8; 32]) -> [u8; MESSAGE_BYTES] {
    message(LEAF, key, value)
}

pub(super) fn inner_message(left: &[u8; 32], right: &[u8; 32]) -> [u8; MESSAGE_BYTES] {
    message(INNER, left, right)
}

fn message(mark: u8, first: &[u8; 32], second: &[u8; 32]) -> [u8; MESSAGE_BYTES] {
    let mut message = [mark; MESSAGE_BYTES];
    message[1..33].copy_from_slice(first);
    message[33..].copy_from_slice(second);
    message
}
