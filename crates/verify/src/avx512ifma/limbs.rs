//! Eight 260-bit integers side by side, in five limbs of 52 bits, and what is the same for every modulus.
//!
//! The one instruction behind all of it, `vpmadd52{lo,hi}uq`, multiplies the low 52 bits of two words and adds the low
//! or high 52 bits of the product to a third. It ignores bits 52 and up of its factors: they need no mask, but limbs
//! that are multiplied must have their carries taken out.
//!
//! The functions here are safe to call by their signature only: on a CPU without AVX-512 they would be undefined
//! behaviour. What makes them sound is privacy. Nothing outside `avx512ifma` can name them, and all that it lets out
//! goes through a token `Ifma`, which `Ifma::new` gives only where the CPU has what they need. Who makes one of them
//! more visible, or calls one without a token at hand, has to make it `unsafe`.

use std::arch::x86_64::*;

/// Eight words.
pub(super) type Z = __m512i;
/// Limb `i` of eight integers has weight 2^(52 i).
pub(super) type Limbs = [Z; 5];
/// Columns of a product.
pub(super) type Wide = [Z; 10];

pub(super) const MASK52: u64 = (1 << 52) - 1;

/// Instructions as functions.
///
/// SAFETY of every block here: the functions are reached only through the token `Ifma`, of which there is one only
/// where the CPU has AVX-512 F, IFMA and VBMI2; none of them touches memory.
macro_rules! instructions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*) = $intrinsic:ident;)*) => {
        $($(#[$doc])* #[inline(always)]
        pub(super) fn $name($($argument: Z),*) -> Z {
            // SAFETY: see the macro.
            unsafe { $intrinsic($($argument),*) }
        })*
    };
}

instructions! {
    /// `a + low 52 bits of b·c`.
    lo(a, b, c) = _mm512_madd52lo_epu64;
    /// `a + high 52 bits of b·c`.
    hi(a, b, c) = _mm512_madd52hi_epu64;
    add(a, b) = _mm512_add_epi64;
    sub(a, b) = _mm512_sub_epi64;
    and(a, b) = _mm512_and_si512;
    or(a, b) = _mm512_or_si512;
    /// The product of the low 32 bits of each, signed.
    mul32(a, b) = _mm512_mul_epi32;
}

#[inline(always)]
pub(super) fn set(word: u64) -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_set1_epi64(word as i64) }
}

#[inline(always)]
pub(super) fn zero() -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_setzero_si512() }
}

/// Logical shift right.
#[inline(always)]
pub(super) fn shr<const BITS: u32>(a: Z) -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_srli_epi64::<BITS>(a) }
}

/// Arithmetic shift right. Carries are signed, because columns and limbs may be differences.
#[inline(always)]
pub(super) fn sar<const BITS: u32>(a: Z) -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_srai_epi64::<BITS>(a) }
}

#[inline(always)]
pub(super) fn shl<const BITS: u32>(a: Z) -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_slli_epi64::<BITS>(a) }
}

/// `a` in the lanes of `mask`, else `b`.
#[inline(always)]
pub(super) fn blend(mask: u8, a: Z, b: Z) -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_mask_blend_epi64(mask, b, a) }
}

/// The lanes in which `a` equals `b`.
#[inline(always)]
pub(super) fn equal(a: Z, b: Z) -> u8 {
    // SAFETY: see `instructions`.
    unsafe { _mm512_cmpeq_epi64_mask(a, b) }
}

/// The lanes in which `a`, signed, is below zero.
#[inline(always)]
pub(super) fn negative(a: Z) -> u8 {
    // SAFETY: see `instructions`.
    unsafe { _mm512_cmplt_epi64_mask(a, zero()) }
}

/// 64 bits of `high:low`, from bit `shift` of `low` on.
#[inline(always)]
pub(super) fn bits_from(low: Z, high: Z, shift: u32) -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_shrdv_epi64(low, high, set(u64::from(shift))) }
}

/// The lanes in which `a` and `b` have a bit in common.
#[inline(always)]
pub(super) fn any_bit(a: Z, b: Z) -> u8 {
    // SAFETY: see `instructions`.
    unsafe { _mm512_test_epi64_mask(a, b) }
}

/// `!a` in the lanes of `mask`, `a` elsewhere.
#[inline(always)]
pub(super) fn invert_where(mask: u8, a: Z) -> Z {
    // SAFETY: see `instructions`.
    unsafe { _mm512_mask_xor_epi64(a, mask, a, set(u64::MAX)) }
}

/// Lane `i` becomes lane `i ^ x`.
#[inline(always)]
pub(super) fn exchange(a: &Limbs, x: i64) -> Limbs {
    // SAFETY: see `instructions`.
    unsafe {
        let from = _mm512_set_epi64(7 ^ x, 6 ^ x, 5 ^ x, 4 ^ x, 3 ^ x, 2 ^ x, 1 ^ x, x);
        a.map(|limb| _mm512_permutexvar_epi64(from, limb))
    }
}

/// The same limbs in all lanes.
#[inline(always)]
pub(super) fn splat(limbs: &[u64; 5]) -> Limbs {
    limbs.map(set)
}

/// The words of one lane each.
#[inline(always)]
pub(super) fn lanes(a: Z) -> [u64; 8] {
    // SAFETY: see `instructions`; both are 64 bytes of plain integers.
    unsafe { std::mem::transmute(a) }
}

#[inline(always)]
pub(super) fn from_lanes(words: [u64; 8]) -> Z {
    // SAFETY: see `instructions`; both are 64 bytes of plain integers.
    unsafe { std::mem::transmute(words) }
}

/// The columns of `a·b`, added to `columns`: 50 multiplications. Column sums stay below 10·2^52 more.
#[inline(always)]
pub(super) fn add_product(columns: &mut Wide, a: &Limbs, b: &Limbs) {
    for i in 0..5 {
        for j in 0..5 {
            columns[i + j] = lo(columns[i + j], a[i], b[j]);
            columns[i + j + 1] = hi(columns[i + j + 1], a[i], b[j]);
        }
    }
}

/// The columns of `a·a`: 30 multiplications and 8 additions.
#[inline(always)]
pub(super) fn square(a: &Limbs) -> Wide {
    let mut columns = [zero(); 10];
    for i in 0..5 {
        for j in i + 1..5 {
            columns[i + j] = lo(columns[i + j], a[i], a[j]);
            columns[i + j + 1] = hi(columns[i + j + 1], a[i], a[j]);
        }
    }
    for column in &mut columns[1..9] {
        *column = add(*column, *column);
    }
    for i in 0..5 {
        columns[2 * i] = lo(columns[2 * i], a[i], a[i]);
        columns[2 * i + 1] = hi(columns[2 * i + 1], a[i], a[i]);
    }
    columns
}

/// Takes the carries out of limbs 0 to 3; words are signed.
#[inline(always)]
pub(super) fn carry(mut a: Limbs) -> Limbs {
    let mask = set(MASK52);
    for i in 0..4 {
        a[i + 1] = add(a[i + 1], sar::<52>(a[i]));
        a[i] = and(a[i], mask);
    }
    a
}

/// The same without taking them out: each limb's low 52 bits are right, which is all that a multiplication looks at.
#[inline(always)]
pub(super) fn carry_on(mut a: Limbs) -> Limbs {
    for i in 0..4 {
        a[i + 1] = add(a[i + 1], sar::<52>(a[i]));
    }
    a
}

#[inline(always)]
pub(super) fn add_limbs(a: &Limbs, b: &Limbs) -> Limbs {
    std::array::from_fn(|i| add(a[i], b[i]))
}

#[inline(always)]
pub(super) fn sub_limbs(a: &Limbs, b: &Limbs) -> Limbs {
    std::array::from_fn(|i| sub(a[i], b[i]))
}

#[inline(always)]
pub(super) fn blend_limbs(mask: u8, a: &Limbs, b: &Limbs) -> Limbs {
    std::array::from_fn(|i| blend(mask, a[i], b[i]))
}

/// `a mod m` for `a < 3m` in taken-out limbs.
#[inline(always)]
pub(super) fn reduce_twice(a: &Limbs, m: &Limbs) -> Limbs {
    let mut a = *a;
    for _ in 0..2 {
        let reduced = carry(sub_limbs(&a, m));
        a = blend_limbs(negative(reduced[4]), &a, &reduced);
    }
    a
}

/// The lanes in which all limbs are equal.
#[inline(always)]
pub(super) fn equal_limbs(a: &Limbs, b: &Limbs) -> u8 {
    (0..5).fold(0xff, |mask, i| mask & equal(a[i], b[i]))
}

/// In debug builds: the last limb, whose carries cannot go on, fits `top_bits`.
#[inline(always)]
pub(super) fn assert_factor(a: &Limbs, top_bits: u32) {
    if cfg!(debug_assertions) {
        let words = lanes(a[4]);
        assert!(
            words.iter().all(|word| word >> top_bits == 0),
            "limb 4: {words:x?}"
        );
    }
}

/// In debug builds: every limb fits 52 bits, and the last one `top_bits`.
#[inline(always)]
pub(super) fn assert_limbs(a: &Limbs, top_bits: u32) {
    if cfg!(debug_assertions) {
        for (i, limb) in a.iter().enumerate() {
            let bits = if i == 4 { top_bits } else { 52 };
            let words = lanes(*limb);
            assert!(words.iter().all(|word| word >> bits == 0), "limb {i}: {words:x?}");
        }
    }
}
