//! Encoding of points by SEC 1 (version 2.0) section 2.3.4, for fields of 256 bits.
//!
//! | first byte | further bytes | meaning |
//! |---|---|---|
//! | 0x00 | nothing | the point at infinity: refused, because it is not a public key |
//! | 0x02, 0x03 | x | a point whose y is even, odd |
//! | 0x04 | x, y | a point |
//! | 0x06, 0x07 | x, y | X9.62's hybrid form: refused, although some libraries accept it |
//!
//! Coordinates have 32 bytes, big-endian. A point has two encodings, so the bytes do not identify a key: a lookup by
//! bytes would treat the two encodings of a key as two keys.

use super::PointError;

/// Number of bytes of a compressed point.
pub const COMPRESSED_BYTES: usize = 33;
/// Number of bytes of an uncompressed point.
pub const UNCOMPRESSED_BYTES: usize = 65;

/// Parsed encoding of a point. The parser does not check that x and y are below p, or that the point is on the curve.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Encoded {
    /// Encoding with both coordinates; first byte 0x04.
    Uncompressed {
        /// Coordinate x, 32 bytes, big-endian.
        x: [u8; 32],
        /// Coordinate y, 32 bytes, big-endian.
        y: [u8; 32],
    },
    /// Encoding with the coordinate x, and the choice between the two points with this x; first byte 0x02 or 0x03.
    Compressed {
        /// Coordinate x, 32 bytes, big-endian.
        x: [u8; 32],
        /// True if y is odd.
        y_is_odd: bool,
    },
}

/// Parses a point of 33 or 65 bytes.
pub fn parse(bytes: &[u8]) -> Result<Encoded, PointError> {
    let (&form, coordinates) = bytes.split_first().ok_or(PointError::Empty)?;
    let expected = match form {
        0x00 => 1,
        0x02 | 0x03 => COMPRESSED_BYTES,
        0x04 => UNCOMPRESSED_BYTES,
        0x06 | 0x07 => return Err(PointError::Hybrid),
        found => return Err(PointError::UnknownForm { found }),
    };
    let wrong_length = PointError::WrongLength {
        bytes: bytes.len(),
        expected,
    };
    if bytes.len() != expected {
        return Err(wrong_length);
    }
    let (&x, y) = coordinates.split_first_chunk().ok_or(PointError::Infinity)?;
    if form == 0x04 {
        let y = y.try_into().map_err(|_| wrong_length)?;
        Ok(Encoded::Uncompressed { x, y })
    } else {
        Ok(Encoded::Compressed {
            x,
            y_is_odd: form == 0x03,
        })
    }
}
