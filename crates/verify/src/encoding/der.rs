//! DER encoding (X.690) of a signature, `SEQUENCE { r INTEGER, s INTEGER }` (RFC 3279 section 2.2.3). There are two
//! parsers: a strict one, and one that accepts the same bytes as Go's parser.
//!
//! [`parse_strict`] accepts exactly one encoding of a pair (r, s), the one that [`write()`] returns. BIP 66 requires
//! this of a signature without its hash type byte, for numbers up to 32 bytes.
//!
//! [`parse_go`] accepts what Go's `encoding/asn1.Unmarshal` accepts for `struct { R, S *big.Int }` if the rest is
//! ignored, except for values that cannot be a signature. Hyperledger Fabric's peers read signatures in this way:
//! `UnmarshalECDSASignature` in fabric-lib-go, `bccsp/utils/ecdsa.go`. A validator must accept the signatures that
//! these peers accept; otherwise its results differ from theirs.
//!
//! # Differences of the two parsers
//!
//! The parsers differ only in the bytes that may follow the two numbers:
//!
//! | bytes | strict | go | reason why go accepts them |
//! |---|---|---|---|
//! | bytes after the SEQUENCE | `TrailingAfter` | accepted | `Unmarshal` returns them as the rest, Fabric ignores it |
//! | elements after s in the SEQUENCE | `TrailingInside` | accepted | `parseField` allows more elements than fields |
//! | bytes after s that are not an element | `TrailingInside` | accepted | `parseField` does not read these bytes |
//! | enough of these for a long form of the length | `TrailingInside` | accepted | the long form is then minimal |
//! | bytes inside and after the SEQUENCE | `TrailingInside` | accepted | both of the reasons above |
//!
//! # Inputs that both parsers reject
//!
//! Go's parser is not a BER parser. Both parsers reject these inputs, for the same reason:
//!
//! | input | X.690 | encoding/asn1 |
//! |---|---|---|
//! | other classes and tags, SEQUENCE primitive, INTEGER constructed | 8.1.2, 8.3.1, 8.9.1 | `parseField` |
//! | tag numbers in the high form, which is not minimal for 16 and 2 | 8.1.2.4 | `parseTagAndLength` |
//! | indefinite lengths | 10.1 | `parseTagAndLength` |
//! | long lengths with leading zeros, or below 128 | 10.1 | `parseTagAndLength` |
//! | lengths of 2^31 or more | | `parseTagAndLength` |
//! | content that is longer than the input | | `parseField`, `invalidLength` |
//! | empty INTEGERs | 8.3.1 | `checkInteger` |
//! | INTEGERs whose first nine bits are equal | 8.3.2 | `checkInteger` |
//! | negative INTEGERs | 8.3.3 | accepted by `parseBigInt`, refused by Fabric (`Sign() != 1`) |
//! | 2^256 and more | | accepted by `parseBigInt`, never valid: `crypto/ecdsa.Verify` requires less than n |
//!
//! Both parsers accept the number zero. Fabric rejects it together with the negative numbers; the engine of this crate
//! reports such a signature as invalid.

use super::{Part, Signature, SignatureError};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;

/// Maximum number of bytes that [`write()`] returns: two INTEGERs of 33 bytes, and three headers of two bytes.
pub const BYTES_MAX: usize = 72;

/// Parses the only DER encoding of two numbers in `[0, 2^256)`. [`SignatureError`] lists the errors.
pub fn parse_strict(bytes: &[u8]) -> Result<Signature, SignatureError> {
    let (signature, inside, after) = parse(bytes)?;
    if !inside.is_empty() {
        return Err(SignatureError::TrailingInside);
    }
    if !after.is_empty() {
        return Err(SignatureError::TrailingAfter);
    }
    Ok(signature)
}

/// Parses a signature like [`parse_strict`], but accepts trailing bytes, for which that function returns one of the two
/// errors named `Trailing`. A Fabric peer accepts the same signatures, except those with a zero.
pub fn parse_go(bytes: &[u8]) -> Result<Signature, SignatureError> {
    parse(bytes).map(|(signature, _, _)| signature)
}

/// Returns the signature, the bytes after s inside the SEQUENCE, and the bytes after the SEQUENCE.
#[inline]
fn parse(bytes: &[u8]) -> Result<(Signature, &[u8], &[u8]), SignatureError> {
    if bytes.is_empty() {
        return Err(SignatureError::Empty);
    }
    let (sequence, after) = element(bytes, SEQUENCE, Part::Sequence)?;
    let (r, rest) = integer(sequence, Part::R)?;
    let (s, inside) = integer(rest, Part::S)?;
    let signature = Signature {
        r: value(r, Part::R)?,
        s: value(s, Part::S)?,
    };
    Ok((signature, inside, after))
}

/// Returns the content of the first element, and the bytes after the element.
#[inline]
fn element(bytes: &[u8], tag: u8, part: Part) -> Result<(&[u8], &[u8]), SignatureError> {
    let (&found, bytes) = bytes.split_first().ok_or(SignatureError::Missing(part))?;
    if found != tag {
        return Err(SignatureError::WrongTag { part, found });
    }
    let (&first, bytes) = bytes.split_first().ok_or(SignatureError::Truncated(part))?;
    let (length, bytes) = match first {
        0..0x80 => (usize::from(first), bytes),
        _ => long_length(first & 0x7f, bytes, part)?,
    };
    bytes
        .split_at_checked(length)
        .ok_or(SignatureError::Truncated(part))
}

/// Reads a length of `octets` octets (X.690 section 8.1.3.5), which must be minimal (section 10.1). Returns the length
/// and the remaining bytes.
#[cold]
fn long_length(octets: u8, bytes: &[u8], part: Part) -> Result<(usize, &[u8]), SignatureError> {
    if octets == 0 {
        return Err(SignatureError::LengthIndefinite(part));
    }
    let cut = bytes.split_at_checked(usize::from(octets));
    let (length, bytes) = cut.ok_or(SignatureError::Truncated(part))?;
    if length.first() == Some(&0) {
        return Err(SignatureError::LengthNotMinimal(part));
    }
    // Go refuses longer lengths on every machine: `parseTagAndLength` keeps a length in 31 bits.
    if length.len() > 4 {
        return Err(SignatureError::LengthTooLarge(part));
    }
    let length = length.iter().fold(0, |sum, &octet| sum << 8 | u32::from(octet));
    match length {
        0..0x80 => Err(SignatureError::LengthNotMinimal(part)),
        0x80..0x8000_0000 => Ok((length as usize, bytes)),
        _ => Err(SignatureError::LengthTooLarge(part)),
    }
}

/// Returns the content of the first INTEGER, which must be minimal in form, and the bytes after this INTEGER.
#[inline]
fn integer(bytes: &[u8], part: Part) -> Result<(&[u8], &[u8]), SignatureError> {
    let (content, rest) = element(bytes, INTEGER, part)?;
    match *content {
        [] => Err(SignatureError::IntegerEmpty(part)),
        [0, 0..0x80, ..] | [0xff, 0x80..=0xff, ..] => Err(SignatureError::IntegerNotMinimal(part)),
        _ => Ok((content, rest)),
    }
}

/// Returns the value of an INTEGER, given its content, which is minimal in form.
#[inline]
fn value(content: &[u8], part: Part) -> Result<[u8; 32], SignatureError> {
    let magnitude = match content {
        [0x80..=0xff, ..] => return Err(SignatureError::IntegerNegative(part)),
        [0, magnitude @ ..] => magnitude,
        magnitude => magnitude,
    };
    if let Ok(full) = magnitude.try_into() {
        return Ok(full);
    }
    let mut value = [0; 32];
    let from = 32usize.checked_sub(magnitude.len());
    let low = from.and_then(|from| value.get_mut(from..));
    low.ok_or(SignatureError::IntegerTooLarge(part))?
        .copy_from_slice(magnitude);
    Ok(value)
}

/// DER encoding of a signature, in a fixed array; [`as_bytes`](Self::as_bytes) returns its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Der {
    bytes: [u8; BYTES_MAX],
    length: u8,
}

impl Der {
    /// Returns the encoding, which has 8 to 72 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    fn push(&mut self, bytes: &[u8]) {
        let from = usize::from(self.length);
        if let Some(to) = self.bytes.get_mut(from..from + bytes.len()) {
            to.copy_from_slice(bytes);
            self.length += bytes.len() as u8;
        }
    }
}

impl AsRef<[u8]> for Der {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Encodes a signature in DER, the only encoding that [`parse_strict`] accepts.
pub fn write(signature: &Signature) -> Der {
    let (r, s) = (significant(&signature.r), significant(&signature.s));
    let mut der = Der {
        bytes: [0; BYTES_MAX],
        length: 0,
    };
    let content = 4 + integer_length(r) + integer_length(s);
    der.push(&[SEQUENCE, content]);
    for number in [r, s] {
        der.push(&[INTEGER, integer_length(number)]);
        if wants_zero(number) {
            der.push(&[0]);
        }
        der.push(number);
    }
    der
}

/// Returns the bytes of a number without leading zeros.
fn significant(number: &[u8; 32]) -> &[u8] {
    let zeros = number.iter().take_while(|&&byte| byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// Returns true if the encoding needs a leading zero byte, because the sign bit would otherwise be set, or because the
/// number is zero and has no other byte.
fn wants_zero(significant: &[u8]) -> bool {
    significant.first().is_none_or(|&first| first >= 0x80)
}

/// Returns the number of bytes of an INTEGER's content, 1 to 33.
fn integer_length(significant: &[u8]) -> u8 {
    significant.len() as u8 + u8::from(wants_zero(significant))
}
