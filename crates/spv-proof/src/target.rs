//! Targets in the compact form of a header's field `bits`.
//!
//! The highest byte is the length in bytes, the lower three are the most significant bytes of the target; bit 23 is
//! the sign. The form is that of Bitcoin Core's `arith_uint256::SetCompact` and `GetCompact`. Several compact forms
//! encode one target, and rules compare compact forms, so a target is always encoded as by `GetCompact`.

use crate::U256;

/// Returns the target encoded by `bits`; `None` if it is negative, 0, or needs more than 256 bits. A header with
/// these bits is invalid.
pub fn decode_target(bits: u32) -> Option<U256> {
    let (size, mantissa) = (bits >> 24, bits & 0x007f_ffff);
    let target = if size <= 3 {
        U256::from(u128::from(mantissa >> (8 * (3 - size))))
    } else {
        let length = 32 - mantissa.leading_zeros() + 8 * (size - 3);
        if mantissa != 0 && length > 256 {
            return None;
        }
        U256::from(u128::from(mantissa)) << (8 * (size - 3)).min(255)
    };
    let is_negative = bits & 0x0080_0000 != 0;
    (target != U256::ZERO && !is_negative).then_some(target)
}

/// Returns the compact form of `target`: its length and its three most significant bytes. The other bytes are lost.
pub fn encode_target(target: U256) -> u32 {
    let mut size = target.bits().div_ceil(8);
    let mut mantissa = match size {
        0..=3 => low_word(target) << (8 * (3 - size)),
        _ => low_word(target >> (8 * (size - 3))),
    };
    if mantissa & 0x0080_0000 != 0 {
        // A reader takes bit 23 of the mantissa as the sign, so the mantissa moves down by one byte.
        mantissa >>= 8;
        size += 1;
    }
    size << 24 | mantissa
}

/// Returns the lowest 32 bits.
fn low_word(number: U256) -> u32 {
    let bytes = number.to_be_bytes();
    u32::from_be_bytes([bytes[28], bytes[29], bytes[30], bytes[31]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::pow::{CompactTarget, Target};
    use lineside_testkit::Random;

    #[test]
    fn compact_targets_decode_as_in_the_bitcoin_crate() {
        let mut random = Random(2);
        for _ in 0..200_000 {
            let bits =
                (random.below(36) as u32) << 24 | random.next() as u32 >> (8 + random.below(24) as u32);
            let Some(target) = decode_target(bits) else {
                continue;
            };
            let oracle = Target::from_compact(CompactTarget::from_consensus(bits));
            assert_eq!(target.to_be_bytes(), oracle.to_be_bytes(), "{bits:08x}");
            let again = encode_target(target);
            assert_eq!(again, oracle.to_compact_lossy().to_consensus(), "{bits:08x}");
            assert_eq!(decode_target(again), Some(target));
        }
    }

    #[test]
    fn targets_that_no_header_may_have_are_refused() {
        // The last four are too long by one, two or three bytes, in the forms that SetCompact treats as overflow.
        for bits in [
            0,
            0x0100_0000,
            0x0180_0001,
            0x0400_0000,
            0x2000_0000,
            0x0492_3456,
            0x1d80_0001,
            0x00ff_ffff,
            0x2101_0000,
            0x2200_0100,
            0x2300_0001,
            0xff12_3456,
        ] {
            assert_eq!(decode_target(bits), None, "{bits:08x}");
        }
        for (bits, shift) in [
            (0x2200_0001, 248),
            (0x2100_0100, 248),
            (0x2001_0000, 248),
            (0x0300_0001, 0),
        ] {
            assert_eq!(decode_target(bits), Some(U256::ONE << shift), "{bits:08x}");
        }
        assert_eq!(encode_target(U256::ZERO), 0);
        assert_eq!(encode_target(U256::from(0x80)), 0x0200_8000);
        assert_eq!(encode_target(U256::MAX), 0x2100_ffff);
    }
}
