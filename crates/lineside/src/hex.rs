//! Hashes as explorers print them: last byte first.

/// The hash that `text`, 64 hex digits, shows.
pub fn from_display(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (index, byte) in hash.iter_mut().rev().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(hash)
}

/// 64 hex digits.
pub fn to_display(hash: &[u8; 32]) -> String {
    hash.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}
