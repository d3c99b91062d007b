//! Conversion between words of 64 bits and limbs of 52 bits, and between eight table points and eight lanes.

use super::limbs::*;
use crate::lanes::TablePoint;
use std::arch::x86_64::*;

/// Converts the four 64-bit words of each lane into five limbs of 52 bits.
#[inline(always)]
pub(super) fn unpack(words: &[Z; 4]) -> Limbs {
    let mask = set(MASK52);
    [
        and(words[0], mask),
        and(or(shr::<52>(words[0]), shl::<12>(words[1])), mask),
        and(or(shr::<40>(words[1]), shl::<24>(words[2])), mask),
        and(or(shr::<28>(words[2]), shl::<36>(words[3])), mask),
        shr::<16>(words[3]),
    ]
}

/// Converts the limbs of each lane into four 64-bit words. The value must be below 2^256 and have propagated carries.
#[inline(always)]
pub(super) fn pack(limbs: &Limbs) -> [Z; 4] {
    [
        or(limbs[0], shl::<52>(limbs[1])),
        or(shr::<12>(limbs[1]), shl::<40>(limbs[2])),
        or(shr::<24>(limbs[2]), shl::<28>(limbs[3])),
        or(shr::<36>(limbs[3]), shl::<16>(limbs[4])),
    ]
}

/// Transposes an 8 × 8 matrix of words: word `i` of row `j` becomes word `j` of row `i`. This converts eight table
/// points into eight vectors with one word of each, and back.
#[inline(always)]
pub(super) fn transpose(rows: &[Z; 8]) -> [Z; 8] {
    // SAFETY: the caller has a token `Ifma`, so the CPU has the instructions, which access no memory.
    unsafe {
        // Combine pairs of rows: an even vector has the words 0, 2, 4, 6 of both rows, an odd one the words 1, 3, 5, 7.
        let mut pairs = [zero(); 8];
        for i in 0..4 {
            pairs[2 * i] = _mm512_unpacklo_epi64(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_epi64(rows[2 * i], rows[2 * i + 1]);
        }
        // Combine four rows: each vector has the words `k` and `k + 4` of all four.
        let low = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0);
        let high = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
        let mut quads = [zero(); 8];
        for half in 0..2 {
            for k in 0..4 {
                let by = if k < 2 { low } else { high };
                let (a, b) = (pairs[4 * half + k % 2], pairs[4 * half + 2 + k % 2]);
                quads[4 * half + k] = _mm512_permutex2var_epi64(a, by, b);
            }
        }
        let mut columns = [zero(); 8];
        for k in 0..4 {
            columns[k] = _mm512_shuffle_i64x2::<0x44>(quads[k], quads[4 + k]);
            columns[4 + k] = _mm512_shuffle_i64x2::<0xee>(quads[k], quads[4 + k]);
        }
        columns
    }
}

/// Loads the limbs of x and y of eight table points.
#[inline(always)]
pub(super) fn load(table_points: &[&TablePoint]) -> (Limbs, Limbs) {
    let table_points: &[&TablePoint; 8] = table_points
        .try_into()
        .expect("there is one table point for each lane");
    // SAFETY: the aligned load reads 64 bytes at an address that must be a multiple of 64. A table point has exactly
    // this size and alignment.
    let rows = table_points.map(|table_point| unsafe { _mm512_load_si512(table_point.0.as_ptr().cast()) });
    let [x0, x1, x2, x3, y0, y1, y2, y3] = transpose(&rows);
    (unpack(&[x0, x1, x2, x3]), unpack(&[y0, y1, y2, y3]))
}

#[inline(always)]
pub(super) fn store(x: &Limbs, y: &Limbs, table_points: &mut [TablePoint]) {
    let table_points: &mut [TablePoint; 8] = table_points
        .try_into()
        .expect("there is one table point for each lane");
    let ([x0, x1, x2, x3], [y0, y1, y2, y3]) = (pack(x), pack(y));
    let rows = transpose(&[x0, x1, x2, x3, y0, y1, y2, y3]);
    for (table_point, row) in table_points.iter_mut().zip(rows) {
        table_point.0 = lanes(row);
    }
}
