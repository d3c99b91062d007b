//! A message that is given in parts, as the padded blocks of SHA-256.

use super::portable::sha256::{BLOCK_BYTES, LENGTH_AT};

type Block = [u8; BLOCK_BYTES];

/// A message's blocks, in pieces: those of a part lie where they are, the others are put together in `joint`.
pub(super) struct Parts<'a> {
    parts: std::slice::Iter<'a, &'a [u8]>,
    /// What is left of the part that is being read.
    rest: &'a [u8],
    /// Bytes of several parts, then the padding.
    joint: [Block; 2],
    /// Bytes in the first of `joint`, which is not full.
    joined: usize,
    /// Whole blocks of `joint`, which come next: `first..end`.
    first: usize,
    end: usize,
    /// Bytes that were read.
    bytes: u64,
    is_padded: bool,
}

impl<'a> Parts<'a> {
    pub fn new(parts: &'a [&'a [u8]]) -> Parts<'a> {
        Parts {
            parts: parts.iter(),
            rest: &[],
            joint: [[0; BLOCK_BYTES]; 2],
            joined: 0,
            first: 0,
            end: 0,
            bytes: 0,
            is_padded: false,
        }
    }

    /// Makes the next piece ready. Returns whether there is one.
    pub fn prepare(&mut self) -> bool {
        while self.first == self.end && (self.joined > 0 || self.rest.len() < BLOCK_BYTES) {
            let (first, rest) = self.rest.split_at(self.rest.len().min(BLOCK_BYTES - self.joined));
            self.joint.as_flattened_mut()[self.joined..][..first.len()].copy_from_slice(first);
            self.joined += first.len();
            self.bytes += first.len() as u64;
            self.rest = rest;
            if self.joined == BLOCK_BYTES {
                (self.joined, self.first, self.end) = (0, 0, 1);
            } else if let Some(next) = self.parts.next() {
                self.rest = next;
            } else if self.is_padded {
                return false;
            } else {
                self.pad();
            }
        }
        true
    }

    fn pad(&mut self) {
        let joint = self.joint.as_flattened_mut();
        joint[self.joined..].fill(0);
        joint[self.joined] = 0x80;
        let end = if self.joined < LENGTH_AT { 1 } else { 2 };
        self.joint[end - 1][LENGTH_AT..].copy_from_slice(&(8 * self.bytes).to_be_bytes());
        (self.joined, self.first, self.end) = (0, 0, end);
        self.is_padded = true;
    }

    /// The blocks of the piece that is ready; at least one.
    pub fn blocks(&self) -> &[Block] {
        match self.first < self.end {
            true => &self.joint[self.first..self.end],
            false => self.rest.as_chunks().0,
        }
    }

    /// Leaves `count` blocks of the piece behind.
    pub fn advance(&mut self, count: usize) {
        if self.first < self.end {
            self.first += count;
        } else {
            self.rest = &self.rest[count * BLOCK_BYTES..];
            self.bytes += (count * BLOCK_BYTES) as u64;
        }
    }
}
