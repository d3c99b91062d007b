//! Bytes as text: two hex digits each.

use std::fmt::Write;

/// Lower-case digits.
pub fn to_hex(bytes: &[u8]) -> String {
    let text = String::with_capacity(2 * bytes.len());
    bytes.iter().fold(text, |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from twice as many hex digits, of either case.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let digit = |at: usize| char::from(digits[at]).to_digit(16);
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = (digit(2 * place)? << 4 | digit(2 * place + 1)?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_of_one_length_and_either_case() {
        assert_eq!(from_hex("00fFa5"), Some([0, 0xff, 0xa5]));
        assert_eq!(to_hex(&[0, 0xff, 0xa5]), "00ffa5");
        for bad in ["00ffa", "00ffa500", "0x00ff", "00ffg5", "00ff\u{e9}", ""] {
            assert_eq!(from_hex::<3>(bad), None, "{bad}");
        }
    }
}
