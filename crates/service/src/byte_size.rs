//! Number of bytes in a configuration, such as `"64 MiB"`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt;
use std::str::FromStr;

/// Units from the largest to the smallest, each with its number of bytes.
const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Number of bytes. Its text is a whole number and a unit: `B`, `KiB`, `MiB` or `GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// Returns the size of `count` MiB.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// Returns the number of bytes as a `usize`.
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS
            .iter()
            .find(|(_, bytes)| self.0 >= *bytes && self.0.is_multiple_of(*bytes));
        let (name, bytes) = unit.unwrap_or(&UNITS[3]);
        write!(out, "{} {name}", self.0 / bytes)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?} must be a whole number and a unit, such as \"64 MiB\" (B, KiB, MiB, GiB)");
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let unit = text[digits.len()..].trim();
        let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let count: u64 = digits.parse().map_err(|_| wrong())?;
        count.checked_mul(*bytes).map(Self).ok_or_else(wrong)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_sizes_agree() {
        for (text, bytes) in [
            ("0 B", 0),
            ("1 B", 1),
            ("1000 B", 1000),
            ("1 KiB", 1024),
            ("1536 KiB", 3 << 19),
            ("64 MiB", 64 << 20),
            ("2 GiB", 2 << 30),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
            assert_eq!(ByteSize(bytes).to_string(), text);
        }
        assert_eq!("7MiB".parse(), Ok(ByteSize::mib(7)));
    }

    #[test]
    fn a_text_without_a_number_or_a_known_unit_is_refused() {
        for text in [
            "",
            "64",
            "MiB",
            "-1 B",
            "1.5 GiB",
            "1 MB",
            "1 mib",
            "99999999999 GiB",
            "1 B 2",
        ] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
