//! Parts of the tree: references to nodes, leaves, and the hashes of children.

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
