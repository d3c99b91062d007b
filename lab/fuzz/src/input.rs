//! Takes a fuzzer's bytes apart. What runs out becomes zeros, so that every input means something.

/// The bytes not yet taken.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next `count` bytes, or as many as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    /// The next four bytes, little-endian.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// The next eight bytes, little-endian.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
