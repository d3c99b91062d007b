//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Returns the sum of `bytes` as 16-bit words in network order, not folded. An odd last byte is padded with zero.
pub fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(2);
    let whole: u64 = words
        .by_ref()
        .map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    match words.remainder() {
        [last] => whole + (u64::from(*last) << 8),
        _ => whole,
    }
}

/// Folds a sum into 16 bits with end-around carry.
pub fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the UDP checksum to send for `sum`: its complement, but 0xffff in place of 0, because 0 means "no checksum"
/// (RFC 768).
pub fn udp(sum: u64) -> u16 {
    match !fold(sum) {
        0 => 0xffff,
        check => check,
    }
}

/// Returns the checksum `check` updated for one 16-bit word that changed from `old` to `new` (RFC 1624, equation 3).
pub fn update(check: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!check) + u64::from(!old) + u64::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rfc_1071_example() {
        assert_eq!(
            fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])),
            0xddf2
        );
    }

    #[test]
    fn odd_byte_is_the_high_one() {
        assert_eq!(sum(&[1, 2, 3]), 0x0102 + 0x0300);
    }

    proptest! {
        #[test]
        fn update_equals_fresh(mut words in proptest::collection::vec(any::<u16>(), 2..20), new: u16) {
            prop_assume!(words.iter().any(|word| *word != 0) && new != 0);
            let fresh = |words: &[u16]| !fold(words.iter().map(|word| u64::from(*word)).sum());
            let before = fresh(&words);
            let old = core::mem::replace(&mut words[0], new);
            prop_assert_eq!(update(before, old, new), fresh(&words));
        }
    }
}
