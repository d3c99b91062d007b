//! Unsigned integer of 256 bits with the operations that the rules of headers need, for targets and the work they
//! represent.

use core::cmp::Ordering;
use core::fmt;
use core::ops::{Shl, Shr};

/// Unsigned integer of 256 bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct U256 {
    /// Words of 64 bits, least significant first.
    words: [u64; 4],
}

impl U256 {
    /// The number 0.
    pub const ZERO: U256 = U256 { words: [0; 4] };
    /// The number 1.
    pub const ONE: U256 = U256 { words: [1, 0, 0, 0] };
    /// The greatest number, 2^256 - 1.
    pub const MAX: U256 = U256 { words: [u64::MAX; 4] };

    /// Reads 32 bytes, least significant first: a hash in wire order, to be compared with a target.
    pub fn from_le_bytes(bytes: &[u8; 32]) -> U256 {
        let mut words = [0; 4];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = chunk
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        }
        U256 { words }
    }

    /// Returns the 32 bytes of the number, most significant first.
    pub fn to_be_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.words.iter().rev()) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Returns the number as an integer of 128 bits; `None` if it needs more bits.
    pub fn to_u128(self) -> Option<u128> {
        let [low, high, 0, 0] = self.words else {
            return None;
        };
        Some(u128::from(high) << 64 | u128::from(low))
    }

    /// Returns the number of significant bits; 0 for zero.
    pub fn bits(self) -> u32 {
        let top = self.words.iter().rposition(|word| *word != 0);
        top.map_or(0, |index| {
            64 * index as u32 + 64 - self.words[index].leading_zeros()
        })
    }

    /// Returns the sum; `None` if it needs more than 256 bits.
    pub fn checked_add(self, other: U256) -> Option<U256> {
        let mut words = [0; 4];
        let mut carry = false;
        for (index, word) in words.iter_mut().enumerate() {
            let (sum, first) = self.words[index].overflowing_add(other.words[index]);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            *word = sum;
            carry = first || second;
        }
        (!carry).then_some(U256 { words })
    }

    /// Returns the difference modulo 2^256.
    fn wrapping_sub(self, other: U256) -> U256 {
        let mut words = [0; 4];
        let mut borrow = false;
        for (index, word) in words.iter_mut().enumerate() {
            let (difference, first) = self.words[index].overflowing_sub(other.words[index]);
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            *word = difference;
            borrow = first || second;
        }
        U256 { words }
    }

    /// Returns `self * factor / divisor`, rounded down, computed without overflow; [`U256::MAX`] if the quotient
    /// needs more than 256 bits. `divisor` must not be 0.
    pub(crate) fn mul_div(self, factor: u32, divisor: u32) -> U256 {
        let mut product = [0_u64; 5];
        let mut carry = 0;
        for (index, word) in self.words.iter().enumerate() {
            let wide = u128::from(*word) * u128::from(factor) + carry;
            product[index] = wide as u64;
            carry = wide >> 64;
        }
        product[4] = carry as u64;
        let mut remainder = 0;
        for word in product.iter_mut().rev() {
            let wide = remainder << 64 | u128::from(*word);
            *word = (wide / u128::from(divisor)) as u64;
            remainder = wide % u128::from(divisor);
        }
        let [a, b, c, d, over] = product;
        if over != 0 {
            U256::MAX
        } else {
            U256 { words: [a, b, c, d] }
        }
    }

    /// Returns `self / divisor`, rounded down. `divisor` must not be 0.
    fn div(self, divisor: U256) -> U256 {
        let (mut quotient, mut remainder) = (U256::ZERO, self);
        let Some(top) = self.bits().checked_sub(divisor.bits()) else {
            return quotient;
        };
        for count in (0..=top).rev() {
            let part = divisor << count;
            if part <= remainder {
                remainder = remainder.wrapping_sub(part);
                quotient.words[count as usize / 64] |= 1 << (count % 64);
            }
        }
        quotient
    }

    /// Returns the expected number of hashes until one is at most this target: 2^256 / (target + 1), rounded down.
    /// The result is 1 for the target 2^256 - 1, and [`U256::MAX`] for the target 0, which no valid header has.
    pub fn work_of_target(self) -> U256 {
        let Some(divisor) = self.checked_add(U256::ONE) else {
            return U256::ONE;
        };
        if divisor == U256::ONE {
            return U256::MAX;
        }
        // 2^256 does not fit into a U256, so this computes (2^256 - 1 - target) / (target + 1) + 1, an equal number.
        let rest = U256::MAX.wrapping_sub(self).div(divisor);
        rest.checked_add(U256::ONE).unwrap_or(U256::MAX)
    }
}

impl From<u128> for U256 {
    fn from(value: u128) -> U256 {
        U256 {
            words: [value as u64, (value >> 64) as u64, 0, 0],
        }
    }
}

impl Shl<u32> for U256 {
    type Output = U256;

    /// Shifts left by at most 255 bits; bits that leave the 256 bits are lost.
    fn shl(self, count: u32) -> U256 {
        let (skip, bits) = (count as usize / 64, count % 64);
        let mut words = [0; 4];
        for (index, word) in words.iter_mut().enumerate().skip(skip) {
            *word = self.words[index - skip] << bits;
            if bits > 0 && index > skip {
                *word |= self.words[index - skip - 1] >> (64 - bits);
            }
        }
        U256 { words }
    }
}

impl Shr<u32> for U256 {
    type Output = U256;

    /// Shifts right by at most 255 bits.
    fn shr(self, count: u32) -> U256 {
        let (skip, bits) = (count as usize / 64, count % 64);
        let mut words = [0; 4];
        for (word, index) in words.iter_mut().zip(skip..4) {
            *word = self.words[index] >> bits;
            if bits > 0 && index < 3 {
                *word |= self.words[index + 1] << (64 - bits);
            }
        }
        U256 { words }
    }
}

impl Ord for U256 {
    fn cmp(&self, other: &U256) -> Ordering {
        self.words.iter().rev().cmp(other.words.iter().rev())
    }
}

impl PartialOrd for U256 {
    fn partial_cmp(&self, other: &U256) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for U256 {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.words;
        write!(out, "{d:016x}{c:016x}{b:016x}{a:016x}")
    }
}

impl fmt::Debug for U256 {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "0x{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::pow::{Target, Work};
    use lineside_testkit::Random;

    /// Returns numbers of every length in bits, with runs of ones and zeros.
    fn numbers() -> Vec<U256> {
        let mut random = Random(1);
        let mut found = vec![U256::ZERO, U256::ONE, U256::MAX];
        for length in 1..=256 {
            let words = core::array::from_fn(|_| random.next());
            found.push(U256 { words } >> (256 - length));
            found.push(U256::MAX >> (256 - length));
        }
        found
    }

    #[test]
    fn the_work_of_a_target_equals_that_of_the_bitcoin_crate() {
        for number in numbers().into_iter().filter(|number| *number > U256::ONE) {
            let oracle: Work = Target::from_be_bytes(number.to_be_bytes()).to_work();
            assert_eq!(
                number.work_of_target().to_be_bytes(),
                oracle.to_be_bytes(),
                "{number}"
            );
        }
        assert_eq!(U256::MAX.work_of_target(), U256::ONE);
        assert_eq!(U256::ONE.work_of_target(), U256::ONE << 255);
    }

    #[test]
    fn shifts_sums_and_quotients_agree_with_each_other() {
        for number in numbers() {
            for count in [0, 1, 7, 63, 64, 65, 128, 200, 255] {
                let low = number << count >> count;
                assert_eq!(low << count, number << count);
                assert_eq!((number >> count).bits(), number.bits().saturating_sub(count));
            }
            if let Some(twice) = number.checked_add(number) {
                assert_eq!(twice, number << 1);
                assert_eq!(twice.mul_div(3, 6), number);
            }
            assert_eq!(number.mul_div(4_838_400, 4_838_400), number);
            let mut le = number.to_be_bytes();
            le.reverse();
            assert_eq!(U256::from_le_bytes(&le), number);
        }
        assert_eq!(U256::MAX.mul_div(2, 1), U256::MAX);
        assert_eq!(U256::from(1 << 100).to_u128(), Some(1 << 100));
        assert_eq!((U256::ONE << 128).to_u128(), None);
        assert!(U256::ONE << 128 > U256::from(u128::MAX));
    }
}
