//! Full products of 256-bit integers, and arithmetic on words with carries.

use crate::uint::U256;
use crate::unroll::unroll;

/// Returns `a·b + c + d` as low and high word. The sum always fits into two words.
#[inline(always)]
pub(super) fn multiply_add(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let t = u128::from(a) * u128::from(b) + u128::from(c) + u128::from(d);
    (t as u64, (t >> 64) as u64)
}

/// Returns the sum and carry of `a + b + carry`.
#[inline(always)]
pub(super) fn add_carry(a: u64, b: u64, carry: bool) -> (u64, bool) {
    let (sum, over) = a.overflowing_add(b);
    let (sum, over_again) = sum.overflowing_add(u64::from(carry));
    (sum, over | over_again)
}

#[inline(always)]
pub(super) fn product(a: &U256, b: &U256) -> [u64; 8] {
    let mut wide = [0; 8];
    unroll!(i in [0, 1, 2, 3] {
        let mut carry = 0;
        unroll!(j in [0, 1, 2, 3] {
            (wide[i + j], carry) = multiply_add(a[i], b[j], wide[i + j], carry);
        });
        wide[i + 4] = carry;
    });
    wide
}

/// Returns `a²`. The six products of different words are computed once and doubled, and the four squares are added.
#[inline(always)]
pub(super) fn square(a: &U256) -> [u64; 8] {
    let mut wide = [0; 8];
    unroll!(i in [0, 1, 2] {
        let mut carry = 0;
        unroll!(j in [1, 2, 3] {
            if j > i {
                (wide[i + j], carry) = multiply_add(a[i], a[j], wide[i + j], carry);
            }
        });
        wide[i + 4] = carry;
    });
    unroll!(i in [7, 6, 5, 4, 3, 2, 1] {
        wide[i] = wide[i] << 1 | wide[i - 1] >> 63;
    });
    let mut carry = false;
    unroll!(i in [0, 1, 2, 3] {
        let (low, high) = multiply_add(a[i], a[i], 0, 0);
        (wide[2 * i], carry) = add_carry(wide[2 * i], low, carry);
        (wide[2 * i + 1], carry) = add_carry(wide[2 * i + 1], high, carry);
    });
    debug_assert!(!carry);
    wide
}
