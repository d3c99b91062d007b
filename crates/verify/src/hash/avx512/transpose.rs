//! Matrix transposition in registers: converts one register per message to one register per word, and back.

use std::arch::x86_64::*;

/// Transposes 16 registers of 16 32-bit words: word `j` of register `i` becomes word `i` of register `j`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn words32(rows: [__m512i; 16]) -> [__m512i; 16] {
    let mut fours = [[_mm512_setzero_si512(); 4]; 4];
    for (four, rows) in fours.iter_mut().zip(rows.as_chunks::<4>().0) {
        *four = words32_within_quarters(*rows);
    }
    words32_quarters(fours)
}

/// Second step of [`words32`]. `fours[i]` is the result of [`words32_within_quarters`] for rows `4 * i` to `4 * i + 3`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn words32_quarters(fours: [[__m512i; 4]; 4]) -> [__m512i; 16] {
    let mut columns = [fours[0][0]; 16];
    for j in 0..4 {
        let quarters = quarters([fours[0][j], fours[1][j], fours[2][j], fours[3][j]]);
        for q in 0..4 {
            columns[4 * q + j] = quarters[q];
        }
    }
    columns
}

/// Transposes 8 registers of 16 32-bit words into 16 half registers of 8 words: word `j` of register `i` becomes word
/// `i` of half register `j`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn words32_of_8(rows: [__m512i; 8]) -> [__m256i; 16] {
    let [a, b, c, d, e, f, g, h] = rows;
    let low = words32_within_quarters([a, b, c, d]);
    let high = words32_within_quarters([e, f, g, h]);
    let mut columns = [_mm256_setzero_si256(); 16];
    for j in 0..4 {
        let quarters = quarters([low[j], high[j], low[j], high[j]]);
        for q in 0..4 {
            columns[4 * q + j] = _mm512_castsi512_si256(quarters[q]);
        }
    }
    columns
}

/// Transposes 8 registers of 8 64-bit words: word `j` of register `i` becomes word `i` of register `j`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn words64(rows: [__m512i; 8]) -> [__m512i; 8] {
    let mut columns = rows;
    let [a, b, c, d, e, f, g, h] = rows;
    let even = [
        _mm512_unpacklo_epi64(a, b),
        _mm512_unpacklo_epi64(c, d),
        _mm512_unpacklo_epi64(e, f),
        _mm512_unpacklo_epi64(g, h),
    ];
    let odd = [
        _mm512_unpackhi_epi64(a, b),
        _mm512_unpackhi_epi64(c, d),
        _mm512_unpackhi_epi64(e, f),
        _mm512_unpackhi_epi64(g, h),
    ];
    let (even, odd) = (quarters(even), quarters(odd));
    for q in 0..4 {
        columns[2 * q] = even[q];
        columns[2 * q + 1] = odd[q];
    }
    columns
}

/// Transposes 4 registers of 8 64-bit words into 8 half registers of 4 words: word `j` of register `i` becomes word `i`
/// of half register `j`.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn words64_of_4(rows: [__m512i; 4]) -> [__m256i; 8] {
    let [a, b, c, d] = rows;
    let (ab, cd) = (_mm512_unpacklo_epi64(a, b), _mm512_unpacklo_epi64(c, d));
    let even = quarters([ab, cd, ab, cd]);
    let (ab, cd) = (_mm512_unpackhi_epi64(a, b), _mm512_unpackhi_epi64(c, d));
    let odd = quarters([ab, cd, ab, cd]);
    let mut columns = [_mm256_setzero_si256(); 8];
    for q in 0..4 {
        columns[2 * q] = _mm512_castsi512_si256(even[q]);
        columns[2 * q + 1] = _mm512_castsi512_si256(odd[q]);
    }
    columns
}

/// Transposes the 4 × 4 matrix of 32-bit words in each quarter (128 bits) of four registers. First step of [`words32`].
#[inline]
#[target_feature(enable = "avx512f")]
pub fn words32_within_quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}

/// Transposes the 4 × 4 matrix of quarters (128 bits) of four registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn quarters([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    /// Selects quarters 0 and 2 of both operands.
    const EVEN: i32 = 0b10_00_10_00;
    /// Selects quarters 1 and 3 of both operands.
    const ODD: i32 = 0b11_01_11_01;
    let (ab_even, ab_odd) = (
        _mm512_shuffle_i32x4::<EVEN>(a, b),
        _mm512_shuffle_i32x4::<ODD>(a, b),
    );
    let (cd_even, cd_odd) = (
        _mm512_shuffle_i32x4::<EVEN>(c, d),
        _mm512_shuffle_i32x4::<ODD>(c, d),
    );
    [
        _mm512_shuffle_i32x4::<EVEN>(ab_even, cd_even),
        _mm512_shuffle_i32x4::<EVEN>(ab_odd, cd_odd),
        _mm512_shuffle_i32x4::<ODD>(ab_even, cd_even),
        _mm512_shuffle_i32x4::<ODD>(ab_odd, cd_odd),
    ]
}
