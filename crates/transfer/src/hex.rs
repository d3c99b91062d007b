//! Bytes as lower-case hex digits, in files that people read.

/// Two digits for each byte.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of exactly `2 * N` digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    // from_str_radix would take a sign too.
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_as_many_digits_are_bytes() {
        assert_eq!(from_hex("00ff"), Some([0, 255]));
        assert_eq!(from_hex(&to_hex(&[1, 2, 254])), Some([1, 2, 254]));
        for wrong in ["", "0", "+1", "0g", "000"] {
            assert_eq!(from_hex::<1>(wrong), None, "{wrong}");
        }
    }
}
