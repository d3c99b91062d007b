//! Lanes of 512 bits: 16 messages of SHA-256's 32-bit words, or 8 of Keccak's 64-bit words.
//!
//! A message's end is read with masked loads, which touch no byte beyond it, and padded in the register; so no message
//! is copied.

pub(super) mod keccak256;
pub(super) mod sha256;
mod transpose;

use std::arch::x86_64::*;

/// Proof that the processor has what the code below is compiled for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

impl Avx512 {
    pub fn detect() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        has.then_some(Avx512(()))
    }
}

/// The bytes from `offset` on, one register full, and zeros behind the last.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_bytes(bytes: &[u8], offset: usize) -> __m512i {
    // A masked load from where nothing is mapped, like the address of an empty slice, is right but takes hundreds of
    // cycles, even if its mask is empty.
    let Some(bytes) = bytes.get(offset..).filter(|bytes| !bytes.is_empty()) else {
        return _mm512_setzero_si512();
    };
    let mask = if bytes.len() < 64 {
        (1 << bytes.len()) - 1
    } else {
        u64::MAX
    };
    // SAFETY: the mask leaves out what lies behind the bytes, and a masked load does not touch what it leaves out.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

/// A mask of the byte at `index`, of none if the register ends before it.
fn byte_at(index: usize) -> u64 {
    if index < 64 { 1 << index } else { 0 }
}
