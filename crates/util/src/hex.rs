//! Hexadecimal text: of bytes in their order, and of hashes as block explorers print them, with the last byte first.

/// Parses a hash as block explorers print it: 64 hex digits, last byte first.
pub fn from_display(text: &str) -> Option<[u8; 32]> {
    // from_str_radix also accepts a sign, so the digits are checked first.
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().rev().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// Returns a hash as block explorers print it: 64 hex digits, last byte first.
pub fn to_display(hash: &[u8; 32]) -> String {
    hash.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns bytes in their order as hex digits, two for each byte.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of `text`, or `None` if it does not consist of pairs of hex digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let whole = text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    whole.then(|| (0..text.len()).step_by(2).map(pair).collect())?
}

/// Returns the bytes of `text`, or `None` if it is not exactly `2 * N` hex digits, of either case.
pub fn array_from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    from_hex(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_64_hex_digits_are_a_hash() {
        let hash = std::array::from_fn(|index| index as u8);
        let shown = to_display(&hash);
        assert!(shown.starts_with("1f1e") && shown.ends_with("0100"));
        assert_eq!(from_display(&shown), Some(hash));
        assert_eq!(from_display(&shown.to_uppercase()), Some(hash));
        for wrong in [
            &shown[1..],
            &shown.replace("0a", "+a"),
            &shown.replace("0a", " a"),
            "",
        ] {
            assert_eq!(from_display(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_converted_to_hex_digits_and_back_are_unchanged() {
        assert_eq!(to_hex(&[0, 0xab, 9]), "00ab09");
        assert_eq!(from_hex("00AB09"), Some(vec![0, 0xab, 9]));
        for wrong in ["0", "0g", "+1", "ä1"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
    #[test]
    fn an_array_is_parsed_only_from_the_exact_number_of_digits_in_either_case() {
        assert_eq!(array_from_hex("00fFa5"), Some([0, 0xff, 0xa5]));
        for wrong in [
            "00ffa",
            "00ffa500",
            "0x00ff",
            "00ffg5",
            "00ff\u{e9}",
            "",
            "+1",
            "+1+1+1",
        ] {
            assert_eq!(array_from_hex::<3>(wrong), None, "{wrong}");
        }
    }
}
