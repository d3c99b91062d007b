//! Reader that takes values from the bytes of a fuzzer. Missing bytes are zeros, so that every input is valid.

/// Bytes that were not taken yet.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Returns the next `count` bytes, or the rest of the input if it is shorter.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Returns the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// Returns the next four bytes as a little-endian number.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Returns the next eight bytes as a little-endian number.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Returns whether all bytes were taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
