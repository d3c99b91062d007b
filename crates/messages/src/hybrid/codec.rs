//! Big-endian reading and writing of numbers and length-prefixed bytes. Every value has exactly one encoding.

/// The bytes are not the unique encoding of any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed: {0}")]
pub struct Malformed(pub &'static str);

impl Malformed {
    /// The input ends before the value is complete; the rest may still arrive.
    pub const CUT_SHORT: Malformed = Malformed("the bytes end too early");
}

/// Input that is read from the front: the bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Reads this number of bytes.
    ///
    /// # Errors
    /// [`Malformed`] if fewer bytes are left.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Malformed::CUT_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads an array of bytes.
    ///
    /// # Errors
    /// [`Malformed`] if fewer bytes are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::CUT_SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`Malformed`] if fewer bytes are left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    /// Reads a number of 16 bits.
    ///
    /// # Errors
    /// [`Malformed`] if fewer bytes are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a number of 32 bits.
    ///
    /// # Errors
    /// [`Malformed`] if fewer bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a number of 64 bits.
    ///
    /// # Errors
    /// [`Malformed`] if fewer bytes are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a length of 16 bits, which must not exceed `at_most`, and then this number of bytes.
    pub fn short(&mut self, at_most: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.u16()?.into();
        if bytes > at_most {
            return Err(Malformed("a field is longer than allowed"));
        }
        self.take(bytes)
    }

    /// Reads a length of 32 bits, which must not exceed `at_most`, and then this number of bytes.
    pub fn long(&mut self, at_most: usize) -> Result<&'a [u8], Malformed> {
        let bytes = self.u32()? as usize;
        if bytes > at_most {
            return Err(Malformed("a field is longer than allowed"));
        }
        self.take(bytes)
    }

    /// Reads a length of 16 bits, which must not exceed `at_most`, and then this number of bytes of printable ASCII.
    pub fn name(&mut self, at_most: usize) -> Result<&'a str, Malformed> {
        let bytes = self.short(at_most)?;
        if !bytes.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return Err(Malformed("a name is not printable ASCII"));
        }
        std::str::from_utf8(bytes).map_err(|_| Malformed("a name is not ASCII"))
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// [`Malformed`] if bytes are left.
    #[inline]
    pub fn end(self) -> Result<(), Malformed> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Malformed("there are bytes after the end")),
        }
    }
}

/// Sink to which bytes are appended.
pub trait Output {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends a number of 16 bits.
    fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Appends a number of 32 bits.
    fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// Appends a number of 64 bits.
    fn u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// Writes the length of `bytes` in 16 bits, then `bytes`. The caller has checked that the length fits.
    fn short(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= usize::from(u16::MAX));
        self.u16(bytes.len() as u16);
        self.put(bytes);
    }

    /// Writes the length of `bytes` in 32 bits, then `bytes`. The caller has checked that the length fits.
    fn long(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= u32::MAX as usize);
        self.u32(bytes.len() as u32);
        self.put(bytes);
    }
}

impl Output for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
