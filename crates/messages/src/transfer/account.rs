//! Identifier of an account.

use std::fmt;

/// Account identifier of 16 bytes, in the byte order of the packet. A 32-bit Source or Destination ID of the paper's
/// format becomes 12 zero bytes, followed by the id in big-endian order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId(pub [u8; 16]);

impl AccountId {
    /// Returns the account with a 32-bit id of the paper's format.
    #[inline]
    pub const fn from_paper(id: u32) -> Self {
        Self((id as u128).to_be_bytes())
    }

    /// Returns the identifier as the two 64-bit words that the fast-path table stores.
    #[inline]
    pub fn words(&self) -> [u64; 2] {
        let (low, high) = self.0.split_at(8);
        [low, high].map(|half| {
            let mut word = [0; 8];
            word.copy_from_slice(half);
            u64::from_ne_bytes(word)
        })
    }

    /// Returns the account whose identifier the fast-path table stores as these two words.
    #[inline]
    pub fn from_words(words: [u64; 2]) -> Self {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&words[0].to_ne_bytes());
        id[8..].copy_from_slice(&words[1].to_ne_bytes());
        Self(id)
    }
}

impl fmt::Display for AccountId {
    /// Writes an id of the paper's format as a number, any other as 32 hex digits.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u32::try_from(u128::from_be_bytes(self.0)) {
            Ok(number) => write!(out, "{number}"),
            Err(_) => write!(out, "{:032x}", u128::from_be_bytes(self.0)),
        }
    }
}

impl std::str::FromStr for AccountId {
    type Err = &'static str;

    /// Parses a decimal number below 2^32, or 32 hex digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "an account must be a number below 4294967296 or 32 hex digits";
        if text.len() == 32 {
            let number = u128::from_str_radix(text, 16).map_err(|_| wrong)?;
            return Ok(Self(number.to_be_bytes()));
        }
        text.parse().map(Self::from_paper).map_err(|_| wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_paper_format_is_a_native_id_with_leading_zeros() {
        let id = AccountId::from_paper(0x0102_0304);
        assert_eq!(id.0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        assert_eq!(AccountId::from_words(id.words()), id);
        assert_eq!("16909060".parse(), Ok(id));
        assert_eq!(id.to_string(), "16909060");
        let native = AccountId([0xab; 16]);
        assert_eq!(native.to_string().parse(), Ok(native));
        assert!("4294967296".parse::<AccountId>().is_err() && "+".parse::<AccountId>().is_err());
    }
}
