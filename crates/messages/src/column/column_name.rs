//! Names of columns.

use std::fmt;

/// Maximum length of a column name, `family:qualifier`, in bytes.
pub const NAME_BYTES_MAX: usize = 32;

/// Name of a column, `family:qualifier`, of at most [`NAME_BYTES_MAX`] bytes, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnName([u8; NAME_BYTES_MAX]);

impl ColumnName {
    /// Creates a name. Returns `None` if it is too long, has no family, or contains a zero byte, because zeros are
    /// padding.
    pub fn new(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let colon = name.iter().position(|byte| *byte == b':')?;
        (colon > 0 && !name.contains(&0)).then_some(Self(bytes))
    }

    /// Reads a name from a field of fixed length. Also returns `None` if the name is followed by anything except zeros.
    pub fn from_padded(bytes: &[u8; NAME_BYTES_MAX]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let (name, padding) = bytes.split_at(end);
        padding
            .iter()
            .all(|byte| *byte == 0)
            .then(|| Self::new(name))
            .flatten()
    }

    /// Returns the name without padding.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        &self.0[..end.unwrap_or(NAME_BYTES_MAX)]
    }

    /// Returns the name with its padding.
    pub const fn padded(&self) -> &[u8; NAME_BYTES_MAX] {
        &self.0
    }

    /// Returns the family and the qualifier.
    pub fn split(&self) -> (&[u8], &[u8]) {
        let name = self.as_bytes();
        let colon = name.iter().position(|byte| *byte == b':').unwrap_or(name.len());
        (&name[..colon], name.get(colon + 1..).unwrap_or_default())
    }
}

impl fmt::Debug for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_family_and_end_at_their_padding() {
        let name = ColumnName::new(b"entry:foo").unwrap();
        assert_eq!(name.split(), (&b"entry"[..], &b"foo"[..]));
        assert_eq!(ColumnName::from_padded(name.padded()), Some(name));
        assert_eq!(ColumnName::new(b"cf:").unwrap().split(), (&b"cf"[..], &b""[..]));
        for wrong in [&b""[..], b"foo", b":foo", b"a:b\0c", &[b':'; 33]] {
            assert_eq!(ColumnName::new(wrong), None, "{wrong:?}");
        }
        let mut broken = *name.padded();
        broken[20] = b'x';
        assert_eq!(ColumnName::from_padded(&broken), None);
    }
}
