//! Proofs that a header is in the chain up to a checkpoint: paths in a Merkle tree over the hashes of all headers.
//! Clients request them with `cp_height`.
//!
//! Source: docs/protocol-methods.rst of spesmilo/electrum-protocol. Like the tree of a block, this tree duplicates the
//! last node of a level with an odd number of nodes. Only the roots of whole chunks of headers are stored, 64 bytes for
//! each chunk. To compute a proof, the headers of two chunks and the tree over the roots are hashed: about 4,000 hashes
//! for a million headers.

use crate::chain::{HEADER_BYTES, ProofChain};
use crate::merkle::{join, sha256d};

/// Number of levels of the tree below the root of a chunk: a chunk has 2^`CHUNK_LEVELS` headers.
const CHUNK_LEVELS: u32 = 9;
const CHUNK: u32 = 1 << CHUNK_LEVELS;

/// Stored data of a whole chunk of headers.
struct Chunk {
    root: [u8; 32],
    /// Hash of the chunk's last header. While this block is connected, all blocks before it are connected too.
    last: [u8; 32],
}

/// Proof for one header and one checkpoint. It is valid while the block of the checkpoint is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub height: u32,
    pub cp_height: u32,
    /// Hash of the header at `cp_height`.
    pub cp_hash: [u8; 32],
    pub branch: Vec<[u8; 32]>,
    pub root: [u8; 32],
}

/// Merkle roots of the chunks of headers that were needed so far.
#[derive(Default)]
pub(crate) struct Checkpoints {
    chunks: Vec<Chunk>,
}

impl Checkpoints {
    /// Computes the proof that the header at `height` is in the chain up to `cp_height`, which is not less than
    /// `height`. Returns `None` if the chain is shorter, or changed during the computation.
    pub fn prove(&mut self, chain: &dyn ProofChain, height: u32, cp_height: u32) -> Option<Proof> {
        let length = cp_height.checked_add(1)?;
        let full_chunks = (length / CHUNK) as usize;
        self.forget_disconnected(chain);
        while self.chunks.len() < full_chunks {
            let chunk = self.read(chain, self.chunks.len() as u32, CHUNK)?;
            let last = *chunk.last()?;
            let (root, _) = reduce(chunk, 0, Some(CHUNK_LEVELS));
            self.chunks.push(Chunk { root, last });
        }
        let mut roots: Vec<[u8; 32]> = self.chunks[..full_chunks]
            .iter()
            .map(|chunk| chunk.root)
            .collect();
        let rest = match length % CHUNK {
            0 => Vec::new(),
            rest => self.read(chain, full_chunks as u32, rest)?,
        };
        let cp_hash = match rest.last() {
            Some(last) => *last,
            None => self.chunks[full_chunks - 1].last,
        };
        // If the chain is shorter than one chunk, its headers are the whole tree: reduce them to one node.
        let levels = (full_chunks > 0).then_some(CHUNK_LEVELS);
        let own = height / CHUNK;
        let mut branch = Vec::new();
        if !rest.is_empty() {
            let (root, siblings) = reduce(rest, height % CHUNK, levels);
            roots.push(root);
            if own as usize == full_chunks {
                branch = siblings;
            }
        }
        if (own as usize) < full_chunks {
            let chunk = self.read(chain, own, CHUNK)?;
            let (root, siblings) = reduce(chunk, height % CHUNK, levels);
            if root != roots[own as usize] {
                return None;
            }
            branch = siblings;
        }
        let (root, above) = reduce(roots, own, None);
        branch.extend(above);
        Some(Proof {
            height,
            cp_height,
            cp_hash,
            branch,
            root,
        })
    }

    /// Drops the chunks whose last block is no longer connected.
    fn forget_disconnected(&mut self, chain: &dyn ProofChain) {
        while let Some(chunk) = self.chunks.last() {
            if chain.hash_at(self.chunks.len() as u32 * CHUNK - 1) == Some(chunk.last) {
                return;
            }
            self.chunks.pop();
        }
    }

    /// Returns the hashes of the first `count` headers of a chunk. Returns `None` unless each header's parent is the
    /// header before it, and the first header's parent is the last header of the previous chunk. Chunks are read one
    /// after the other, so without this check two chunks could belong to different chains.
    fn read(&self, chain: &dyn ProofChain, index: u32, count: u32) -> Option<Vec<[u8; 32]>> {
        let mut headers = Vec::with_capacity(count as usize * HEADER_BYTES);
        if chain.headers(index * CHUNK, count, &mut headers) != count {
            return None;
        }
        let before = index.checked_sub(1);
        let mut previous = before.map(|before| self.chunks[before as usize].last);
        let mut hashes = Vec::with_capacity(count as usize);
        for header in headers.as_chunks::<HEADER_BYTES>().0 {
            if previous.is_some_and(|previous| previous != header[4..36]) {
                return None;
            }
            let hash = sha256d(header);
            previous = Some(hash);
            hashes.push(hash);
        }
        Some(hashes)
    }
}

/// Returns the root over `nodes`, and the siblings of the node at `index` on the path to it. Stops after `levels`
/// levels, or, if there is no such limit, at the level with one node.
fn reduce(mut nodes: Vec<[u8; 32]>, index: u32, levels: Option<u32>) -> ([u8; 32], Vec<[u8; 32]>) {
    let mut index = index as usize;
    let mut siblings = Vec::new();
    while levels.map_or(nodes.len() > 1, |levels| siblings.len() < levels as usize) {
        let last = nodes.len() - 1;
        // If `index` is beyond the nodes, the caller does not use the siblings; `min` only keeps the access in range.
        siblings.push(nodes[(index ^ 1).min(last)]);
        nodes = nodes
            .chunks(2)
            .map(|pair| join(&pair[0], pair.get(1).unwrap_or(&pair[0])))
            .collect();
        index /= 2;
    }
    (nodes[0], siblings)
}
