//! Eight 260-bit integers in parallel, in five limbs of 52 bits, and the operations on them that do not depend on the
//! modulus.
//!
//! All operations are based on one instruction, `vpmadd52{lo,hi}uq`. It multiplies the low 52 bits of two words and
//! adds the low or high 52 bits of the product to a third word. The instruction ignores bits 52 and up of its factors,
//! so these bits need no mask, but the carries of limbs must be propagated before a multiplication.
//!
//! The functions of this module are declared as safe, but on a CPU without AVX-512 a call would be undefined behaviour.
//! They are sound because they are private: code outside `avx512ifma` cannot name them, and code in it needs a token
//! `Ifma`, which `Ifma::new` returns only if the CPU has the required features. If a function is made more visible, or
//! is called without a token, it must become `unsafe`.

use crate::unroll::{array, unroll};
use std::arch::x86_64::*;

/// Vector of eight 64-bit words, one for each lane.
pub(super) type Z = __m512i;
/// Eight integers of five limbs. Word `k` of entry `i` is limb `i` of integer `k`, with weight 2^(52 i).
pub(super) type Limbs = [Z; 5];
/// Columns of a product of two numbers of five limbs. Column `i` has the weight 2^(52 i); columns may exceed 52 bits.
pub(super) type Wide = [Z; 10];

pub(super) const MASK52: u64 = (1 << 52) - 1;

/// Defines a function for each of the listed instructions.
///
/// The `unsafe` blocks of this module are sound for two reasons: only code with a token `Ifma` calls the functions, and
/// the token exists only if the CPU has AVX-512 F, IFMA and VBMI2; and the instructions do not access memory.
macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) = $intrinsic:ident;)*) => {
        $($(#[$doc])* #[inline(always)]
        pub(super) fn $name($($argument: Z),*) -> Z {
            // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
            unsafe { $intrinsic($($argument),*) }
        })*
    };
}

instructions! {
    /// Returns `a` plus the low 52 bits of `b·c`.
    lo(a, b, c) = _mm512_madd52lo_epu64;
    /// Returns `a` plus the high 52 bits of `b·c`.
    hi(a, b, c) = _mm512_madd52hi_epu64;
    add(a, b) = _mm512_add_epi64;
    sub(a, b) = _mm512_sub_epi64;
    and(a, b) = _mm512_and_si512;
    or(a, b) = _mm512_or_si512;
    /// Returns the signed product of the low 32 bits of `a` and `b`.
    mul32(a, b) = _mm512_mul_epi32;
}

#[inline(always)]
pub(super) fn set(word: u64) -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_set1_epi64(word as i64) }
}

#[inline(always)]
pub(super) fn zero() -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_setzero_si512() }
}

/// Shifts the words right by `BITS` and fills with zeros (logical shift).
#[inline(always)]
pub(super) fn shr<const BITS: u32>(a: Z) -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_srli_epi64::<BITS>(a) }
}

/// Shifts the words right by `BITS` and fills with the sign (arithmetic shift). Carries are signed, because columns and
/// limbs may be differences.
#[inline(always)]
pub(super) fn sar<const BITS: u32>(a: Z) -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_srai_epi64::<BITS>(a) }
}

#[inline(always)]
pub(super) fn shl<const BITS: u32>(a: Z) -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_slli_epi64::<BITS>(a) }
}

/// Returns `a` in the lanes of `mask`, and `b` in the other lanes.
#[inline(always)]
pub(super) fn blend(mask: u8, a: Z, b: Z) -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_mask_blend_epi64(mask, b, a) }
}

/// Returns the mask of the lanes in which `a` equals `b`.
#[inline(always)]
pub(super) fn equal(a: Z, b: Z) -> u8 {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_cmpeq_epi64_mask(a, b) }
}

/// Returns the mask of the lanes in which `a`, as a signed number, is below zero.
#[inline(always)]
pub(super) fn negative(a: Z) -> u8 {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_cmplt_epi64_mask(a, zero()) }
}

/// Returns 64 bits of the 128-bit number `high:low`, beginning with bit `shift` of `low`.
#[inline(always)]
pub(super) fn bits_from(low: Z, high: Z, shift: u32) -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_shrdv_epi64(low, high, set(u64::from(shift))) }
}

/// Returns the mask of the lanes in which some bit is set both in `a` and in `b`.
#[inline(always)]
pub(super) fn any_bit(a: Z, b: Z) -> u8 {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_test_epi64_mask(a, b) }
}

/// Returns `!a` in the lanes of `mask`, and `a` in the other lanes.
#[inline(always)]
pub(super) fn invert_where(mask: u8, a: Z) -> Z {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe { _mm512_mask_xor_epi64(a, mask, a, set(u64::MAX)) }
}

/// Exchanges lanes: lane `i` of the result is lane `i ^ x` of `a`.
#[inline(always)]
pub(super) fn exchange(a: &Limbs, x: i64) -> Limbs {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instruction, which accesses no memory.
    unsafe {
        let from = _mm512_set_epi64(7 ^ x, 6 ^ x, 5 ^ x, 4 ^ x, 3 ^ x, 2 ^ x, 1 ^ x, x);
        array!(i in [0, 1, 2, 3, 4] => _mm512_permutexvar_epi64(from, a[i]))
    }
}

/// Copies the same limbs to all lanes.
#[inline(always)]
pub(super) fn splat(limbs: &[u64; 5]) -> Limbs {
    array!(i in [0, 1, 2, 3, 4] => set(limbs[i]))
}

/// Returns the words of the eight lanes.
#[inline(always)]
pub(super) fn lanes(a: Z) -> [u64; 8] {
    // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
    unsafe { std::mem::transmute(a) }
}

#[inline(always)]
pub(super) fn from_lanes(words: [u64; 8]) -> Z {
    // SAFETY: both types have 64 bytes, and every bit pattern is valid for both.
    unsafe { std::mem::transmute(words) }
}

/// Adds the columns of `a·b` to `columns`, with 50 multiplications. Each column grows by less than 10·2^52.
#[inline(always)]
pub(super) fn add_product(columns: &mut Wide, a: &Limbs, b: &Limbs) {
    unroll!(i in [0, 1, 2, 3, 4] {
        unroll!(j in [0, 1, 2, 3, 4] {
            columns[i + j] = lo(columns[i + j], a[i], b[j]);
            columns[i + j + 1] = hi(columns[i + j + 1], a[i], b[j]);
        });
    });
}

/// Returns the columns of `a·a`, with 30 multiplications and 8 additions.
#[inline(always)]
pub(super) fn square(a: &Limbs) -> Wide {
    let mut columns = [zero(); 10];
    unroll!(i in [0, 1, 2, 3, 4] {
        unroll!(j in [1, 2, 3, 4] {
            if j > i {
                columns[i + j] = lo(columns[i + j], a[i], a[j]);
                columns[i + j + 1] = hi(columns[i + j + 1], a[i], a[j]);
            }
        });
    });
    unroll!(i in [1, 2, 3, 4, 5, 6, 7, 8] {
        columns[i] = add(columns[i], columns[i]);
    });
    unroll!(i in [0, 1, 2, 3, 4] {
        columns[2 * i] = lo(columns[2 * i], a[i], a[i]);
        columns[2 * i + 1] = hi(columns[2 * i + 1], a[i], a[i]);
    });
    columns
}

/// Propagates the carries of limbs 0 to 3, which are signed, and masks these limbs to 52 bits.
#[inline(always)]
pub(super) fn carry(mut a: Limbs) -> Limbs {
    let mask = set(MASK52);
    unroll!(i in [0, 1, 2, 3] {
        a[i + 1] = add(a[i + 1], sar::<52>(a[i]));
        a[i] = and(a[i], mask);
    });
    a
}

/// Propagates the carries of limbs 0 to 3 without masking the limbs. The low 52 bits of each limb are then right, and a
/// multiplication uses only these bits.
#[inline(always)]
pub(super) fn carry_on(mut a: Limbs) -> Limbs {
    unroll!(i in [0, 1, 2, 3] {
        a[i + 1] = add(a[i + 1], sar::<52>(a[i]));
    });
    a
}

#[inline(always)]
pub(super) fn add_limbs(a: &Limbs, b: &Limbs) -> Limbs {
    array!(i in [0, 1, 2, 3, 4] => add(a[i], b[i]))
}

#[inline(always)]
pub(super) fn sub_limbs(a: &Limbs, b: &Limbs) -> Limbs {
    array!(i in [0, 1, 2, 3, 4] => sub(a[i], b[i]))
}

#[inline(always)]
pub(super) fn blend_limbs(mask: u8, a: &Limbs, b: &Limbs) -> Limbs {
    array!(i in [0, 1, 2, 3, 4] => blend(mask, a[i], b[i]))
}

/// Returns `a mod m` for an `a` below `3m` with propagated carries.
#[inline(always)]
pub(super) fn reduce_twice(a: &Limbs, m: &Limbs) -> Limbs {
    let once = carry(sub_limbs(a, m));
    let once = blend_limbs(negative(once[4]), a, &once);
    let twice = carry(sub_limbs(&once, m));
    blend_limbs(negative(twice[4]), &once, &twice)
}

/// Returns the mask of the lanes in which all limbs of `a` and `b` are equal.
#[inline(always)]
pub(super) fn equal_limbs(a: &Limbs, b: &Limbs) -> u8 {
    let [e0, e1, e2, e3, e4] = array!(i in [0, 1, 2, 3, 4] => equal(a[i], b[i]));
    e0 & e1 & e2 & e3 & e4
}

/// Asserts in debug builds that the last limb, whose carry cannot be propagated, fits in `top_bits`.
#[inline(always)]
pub(super) fn assert_factor(a: &Limbs, top_bits: u32) {
    if cfg!(debug_assertions) {
        assert_bits(a[4], top_bits);
    }
}

/// Asserts in debug builds that every limb fits in 52 bits, and the last one in `top_bits`.
#[inline(always)]
pub(super) fn assert_limbs(a: &Limbs, top_bits: u32) {
    if cfg!(debug_assertions) {
        unroll!(i in [0, 1, 2, 3] {
            assert_bits(a[i], 52);
        });
        assert_bits(a[4], top_bits);
    }
}

/// Asserts that the words of all lanes fit in `bits`.
#[inline(always)]
fn assert_bits(limb: Z, bits: u32) {
    if any_bit(limb, set(u64::MAX << bits)) != 0 {
        limb_too_large(&lanes(limb), bits);
    }
}

#[cold]
#[inline(never)]
fn limb_too_large(words: &[u64; 8], bits: u32) -> ! {
    panic!("a limb exceeds {bits} bits: {words:x?}");
}
