//! Splits a message that is given in parts into the padded 64-byte blocks of SHA-256.
//!
//! Blocks that lie within one part are used in place. Only a block that spans several parts and the padding are copied,
//! into a buffer of two blocks.

use super::portable::sha256::{BLOCK_BYTES, LENGTH_AT};

type Block = [u8; BLOCK_BYTES];

/// Reader of the blocks of a message, in runs of consecutive blocks. A run is either borrowed from one part or
/// assembled in `joint`. Call [`Parts::prepare`], read [`Parts::blocks`], then call [`Parts::advance`].
pub(super) struct Parts<'a> {
    parts: std::slice::Iter<'a, &'a [u8]>,
    /// Unread bytes of the current part.
    rest: &'a [u8],
    /// Buffer for blocks that span several parts, and for the padded end of the message.
    joint: [Block; 2],
    /// Number of bytes collected in `joint[0]`; less than a block between calls.
    joined: usize,
    /// Complete blocks of `joint` that are next to be read: `first..end`.
    first: usize,
    end: usize,
    /// Number of message bytes read so far, in all parts.
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

    /// Prepares the next run of blocks. Returns false at the end of the message, when its padded last block has been
    /// read.
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

    /// Appends the padding to the collected bytes: the marker byte, zeros and the message length in bits.
    fn pad(&mut self) {
        let joint = self.joint.as_flattened_mut();
        joint[self.joined..].fill(0);
        joint[self.joined] = 0x80;
        let end = if self.joined < LENGTH_AT { 1 } else { 2 };
        self.joint[end - 1][LENGTH_AT..].copy_from_slice(&(8 * self.bytes).to_be_bytes());
        (self.joined, self.first, self.end) = (0, 0, end);
        self.is_padded = true;
    }

    /// Returns the blocks of the current run. After [`Parts::prepare`] has returned true, there is at least one.
    pub fn blocks(&self) -> &[Block] {
        match self.first < self.end {
            true => &self.joint[self.first..self.end],
            false => self.rest.as_chunks().0,
        }
    }

    /// Consumes the first `count` blocks of the current run.
    pub fn advance(&mut self, count: usize) {
        if self.first < self.end {
            self.first += count;
        } else {
            self.rest = &self.rest[count * BLOCK_BYTES..];
            self.bytes += (count * BLOCK_BYTES) as u64;
        }
    }
}
