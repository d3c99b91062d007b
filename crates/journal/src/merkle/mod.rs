//! RFC 6962 Merkle trees over SHA-256: roots, inclusion proofs, consistency proofs.
//!
//! A leaf's hash is SHA-256(0x00, leaf), a node's SHA-256(0x01, left, right); n leaves are split at the largest power
//! of two below n (RFC 6962 section 2.1, RFC 9162 section 2.1).
//!
//! ```
//! use lineside_journal::merkle::{self, Sha256};
//!
//! let leaves: Vec<_> = ["a", "b", "c"].iter().map(|leaf| merkle::leaf_hash(leaf.as_bytes())).collect();
//! let root = merkle::root(&Sha256, ["a", "b", "c"]);
//! let proof = merkle::inclusion_proof(&Sha256, &leaves, 1).expect("there is a leaf 1");
//! assert!(merkle::verify_inclusion(&leaves[1], 1, 3, &proof, &root));
//! ```

mod hash;
mod proof;
mod tree;

pub use hash::{Batch, EMPTY_ROOT, Hash, Hasher, Sha256, leaf_hash, node_hash};
pub use proof::{consistency_proof, inclusion_proof, verify_consistency, verify_inclusion};
pub use tree::{Tree, root, root_of_hashes};
