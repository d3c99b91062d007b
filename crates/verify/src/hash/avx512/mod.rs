//! AVX-512 back end. A register of 512 bits holds the 32-bit words of 16 messages for SHA-256, or the 64-bit words of 8
//! messages for Keccak-256.
//!
//! Messages are not copied to padded buffers: the end of a message is read with masked loads, which touch no byte after
//! the message, and is padded in the register.

pub(super) mod keccak256;
pub(super) mod sha256;
mod transpose;

use std::arch::x86_64::*;

/// Proof that the processor has the features that the code of this module is compiled for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

impl Avx512 {
    /// Returns the proof if the processor has AVX-512 F and BW.
    pub fn detect() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        has.then_some(Avx512(()))
    }
}

/// Loads up to 64 bytes, from `offset` on. If fewer bytes are left, the rest of the register is zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_bytes(bytes: &[u8], offset: usize) -> __m512i {
    // A masked load from an unmapped address, such as that of an empty slice, is correct if its mask is empty, but
    // takes hundreds of cycles.
    let Some(bytes) = bytes.get(offset..).filter(|bytes| !bytes.is_empty()) else {
        return _mm512_setzero_si512();
    };
    let mask = if bytes.len() < 64 {
        (1 << bytes.len()) - 1
    } else {
        u64::MAX
    };
    // SAFETY: the mask selects only bytes of the slice, and a masked load does not access the other bytes.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

/// Returns the mask that selects the byte at `index` of a register, or an empty mask if `index` is 64 or more.
fn byte_at(index: usize) -> u64 {
    if index < 64 { 1 << index } else { 0 }
}
