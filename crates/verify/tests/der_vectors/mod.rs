//! Test vectors of DER signatures, one for each rule, with the expected results of the strict and the Go parser.

use lineside_verify::encoding::Part::{R, S, Sequence};
use lineside_verify::encoding::SignatureError::*;
use lineside_verify::encoding::{Signature, SignatureError};

pub struct Vector {
    pub what: &'static str,
    /// Bytes of the signature in hexadecimal digits, without the filling.
    hex: String,
    /// Number of bytes 0x5a that are appended, for signatures with long contents.
    fill: usize,
    pub strict: Result<Signature, SignatureError>,
    pub go: Result<Signature, SignatureError>,
}

impl Vector {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = unhex(&self.hex);
        bytes.resize(bytes.len() + self.fill, 0x5a);
        bytes
    }
}

pub fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .filter(|b| *b != b' ')
        .map(|b| (b as char).to_digit(16).expect("hex") as u8)
        .collect();
    assert!(digits.len().is_multiple_of(2), "{hex}");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Returns the signature with these two small numbers.
pub fn small(r: u8, s: u8) -> Signature {
    let mut signature = Signature {
        r: [0; 32],
        s: [0; 32],
    };
    (signature.r[31], signature.s[31]) = (r, s);
    signature
}

pub fn vectors() -> Vec<Vector> {
    let mut all = taken();
    all.extend(refused());
    all.extend(different());
    all
}

/// Returns signatures that both parsers accept.
#[rustfmt::skip]
fn taken() -> Vec<Vector> {
    let full = Signature {
        r: [0x5a; 32],
        s: [0x5a; 32],
    };
    let high = Signature {
        r: [0x80; 32],
        s: [0xff; 32],
    };
    let (h80, hff, h5a) = ("80".repeat(32), "ff".repeat(32), "5a".repeat(32));
    [
        ("the smallest numbers", "3006 020101 020101".into(), small(1, 1)),
        ("zero, for the engine to refuse", "3006 020100 020100".into(), small(0, 0)),
        ("the highest without a zero in front", "3006 02017f 02017f".into(), small(0x7f, 0x7f)),
        ("the lowest with a zero in front", "3008 02020080 02020080".into(), small(0x80, 0x80)),
        ("32 bytes", format!("3044 0220{h5a} 0220{h5a}"), full),
        ("33 bytes, the longest", format!("3046 022100{h80} 022100{hff}"), high),
    ]
    .map(|(what, hex, signature)| Vector {
        what,
        hex,
        fill: 0,
        strict: Ok(signature),
        go: Ok(signature),
    })
    .into()
}

/// Returns signatures that both parsers reject, for the same reason.
#[rustfmt::skip]
fn refused() -> Vec<Vector> {
    let wrong = |part, found| WrongTag { part, found };
    let rows: &[(&str, &str, usize, SignatureError)] = &[
        ("nothing", "", 0, Empty),
        // Identifier octets
        ("a SET", "3106 020101 020101", 0, wrong(Sequence, 0x31)),
        ("a primitive SEQUENCE", "1006 020101 020101", 0, wrong(Sequence, 0x10)),
        ("an application tag", "7006 020101 020101", 0, wrong(Sequence, 0x70)),
        ("a context tag", "b006 020101 020101", 0, wrong(Sequence, 0xb0)),
        ("SEQUENCE in the high form", "3f1006 020101 020101", 0, wrong(Sequence, 0x3f)),
        ("the same, padded", "3f801006 020101 020101", 0, wrong(Sequence, 0x3f)),
        ("a SEQUENCE in one", "3008 3006 020101 020101", 0, wrong(R, 0x30)),
        ("a compact signature that begins like none", "01", 63, wrong(Sequence, 0x01)),
        ("r a constructed INTEGER", "3006 220101 020101", 0, wrong(R, 0x22)),
        ("r a constructed INTEGER of one", "3008 2203020101 020101", 0, wrong(R, 0x22)),
        ("r a context tag", "3006 820101 020101", 0, wrong(R, 0x82)),
        ("r in the high form", "3007 1f020101 020101", 0, wrong(R, 0x1f)),
        ("r an OCTET STRING", "3006 040101 020101", 0, wrong(R, 0x04)),
        ("r a NULL", "3005 0500 020101", 0, wrong(R, 0x05)),
        ("s an ENUMERATED", "3006 020101 0a0101", 0, wrong(S, 0x0a)),
        ("an end mark for s", "3005 020101 0000", 0, wrong(S, 0x00)),
        // Incomplete elements
        ("an empty SEQUENCE", "3000", 0, Missing(R)),
        ("an empty SEQUENCE, both numbers after it", "3000 020101 020101", 0, Missing(R)),
        ("r alone", "3003 020101", 0, Missing(S)),
        ("r alone, s after the SEQUENCE", "3003 020101 020101", 0, Missing(S)),
        ("the tag alone", "30", 0, Truncated(Sequence)),
        ("the last byte missing", "3006 020101 0201", 0, Truncated(Sequence)),
        ("half of a length", "3082 01", 0, Truncated(Sequence)),
        ("a long length, too little content", "3081 80", 127, Truncated(Sequence)),
        ("the SEQUENCE ends after the tag of r", "3001 02", 0, Truncated(R)),
        ("r goes on beyond the SEQUENCE", "3003 020301 020101", 0, Truncated(R)),
        ("r swallows s, and more", "3006 020501 020101", 0, Truncated(R)),
        ("s goes on beyond the SEQUENCE", "3006 020101 020201 01", 0, Truncated(S)),
        ("s has half of a length", "3006 020101 028201", 0, Truncated(S)),
        // Lengths
        ("an indefinite SEQUENCE", "3080 020101 020101 0000", 0, LengthIndefinite(Sequence)),
        ("an indefinite r", "3006 028001 020101", 0, LengthIndefinite(R)),
        ("an indefinite s", "3006 020101 028001", 0, LengthIndefinite(S)),
        ("a length below 128 in the long form", "308106 020101 020101", 0, LengthNotMinimal(Sequence)),
        ("a length of 127 in the long form", "30817f 020101 020101", 121, LengthNotMinimal(Sequence)),
        ("zero in front of a length", "30820006 020101 020101", 0, LengthNotMinimal(Sequence)),
        ("zeros in front of a long length", "30820080 020101 020101", 122, LengthNotMinimal(Sequence)),
        ("a length that is zero in the long form", "308100", 0, LengthNotMinimal(Sequence)),
        ("r's length in the long form", "3007 02810101 020101", 0, LengthNotMinimal(R)),
        ("s's length in the long form", "3007 020101 02810101", 0, LengthNotMinimal(S)),
        ("a length of 2^31", "308480000000 020101 020101", 0, LengthTooLarge(Sequence)),
        ("a length of 2^31 - 1", "30847fffffff 020101 020101", 0, Truncated(Sequence)),
        ("a length of 2^32 + 6", "30850100000006 020101 020101", 0, LengthTooLarge(Sequence)),
        ("a length of 2^64 + 6", "3089010000000000000006 020101 020101", 0, LengthTooLarge(Sequence)),
        ("the reserved length octet 0xff", "30ff 020101 020101", 121, LengthTooLarge(Sequence)),
        ("r has a length of 2^32 + 1", "300b 0285010000000101 020101", 0, LengthTooLarge(R)),
        ("s has a length of 2^32 + 1", "300b 020101 0285010000000101", 0, LengthTooLarge(S)),
        // INTEGERs
        ("r is empty", "3005 0200 020101", 0, IntegerEmpty(R)),
        ("s is empty", "3005 020101 0200", 0, IntegerEmpty(S)),
        ("a zero that r does not need", "3007 02020001 020101", 0, IntegerNotMinimal(R)),
        ("a zero that s does not need", "3007 020101 0202007f", 0, IntegerNotMinimal(S)),
        ("zero in two bytes", "3007 02020000 020101", 0, IntegerNotMinimal(R)),
        ("a 0xff that r does not need", "3007 0202ff80 020101", 0, IntegerNotMinimal(R)),
        ("a 0xff that s does not need", "3007 020101 0202ffff", 0, IntegerNotMinimal(S)),
        ("r is -1", "3006 0201ff 020101", 0, IntegerNegative(R)),
        ("r is -128", "3006 020180 020101", 0, IntegerNegative(R)),
        ("s is -129", "3007 020101 0202ff7f", 0, IntegerNegative(S)),
        ("r is negative, s not minimal: form before value", "3007 0201ff 02020001", 0, IntegerNotMinimal(S)),
        ("r and s are negative", "3006 0201ff 0201ff", 0, IntegerNegative(R)),
        ("s has 33 bytes, none of them zero", "3026 020101 022101", 32, IntegerTooLarge(S)),
        ("s has 34 bytes and a zero", "3028 020101 02230080", 33, IntegerTooLarge(S)),
        ("s has 128 bytes, a long form", "308186 020101 028180", 128, IntegerTooLarge(S)),
        // Trailing bytes are checked last
        ("r is negative, bytes follow inside", "3007 0201ff 020101 00", 0, IntegerNegative(R)),
        ("s is negative, bytes follow after", "3006 020101 0201ff 00", 0, IntegerNegative(S)),
    ];
    rows.iter()
        .map(|&(what, hex, fill, reason)| Vector {
            what,
            hex: hex.into(),
            fill,
            strict: Err(reason),
            go: Err(reason),
        })
        .collect()
}

/// Returns every kind of signature that only the Go parser accepts; r and s are 1.
#[rustfmt::skip]
fn different() -> Vec<Vector> {
    let rows: &[(&str, &str, usize, SignatureError)] = &[
        ("a byte after", "3006 020101 020101 00", 0, TrailingAfter),
        ("an end mark after", "3006 020101 020101 0000", 0, TrailingAfter),
        ("an element after", "3006 020101 020101 020101", 0, TrailingAfter),
        ("a second signature after", "3006 020101 020101 3006 020101 020101", 0, TrailingAfter),
        ("many bytes after", "3006 020101 020101", 1000, TrailingAfter),
        ("a third INTEGER inside", "3009 020101 020101 020101", 0, TrailingInside),
        ("a NULL inside", "3008 020101 020101 0500", 0, TrailingInside),
        ("a SEQUENCE inside", "300b 020101 020101 3003 020101", 0, TrailingInside),
        ("an end mark inside", "3008 020101 020101 0000", 0, TrailingInside),
        ("an indefinite element inside", "300a 020101 020101 3080 0000", 0, TrailingInside),
        ("an INTEGER inside that is not minimal", "300a 020101 020101 02020001", 0, TrailingInside),
        ("a tag without a length inside", "3007 020101 020101 02", 0, TrailingInside),
        ("an element inside that is cut short", "3008 020101 020101 04ff", 0, TrailingInside),
        ("bytes inside that are not an element", "3009 020101 020101 5a5a5a", 0, TrailingInside),
        ("127 bytes, the last short form", "307f 020101 020101", 121, TrailingInside),
        ("128 bytes, a long form", "308180 020101 020101", 122, TrailingInside),
        ("256 bytes, a longer form", "30820100 020101 020101", 250, TrailingInside),
        ("65536 bytes, the form after that", "3083010000 020101 020101", 65530, TrailingInside),
        ("bytes inside and after", "3007 020101 020101 00 00", 0, TrailingInside),
    ];
    rows.iter()
        .map(|&(what, hex, fill, reason)| Vector {
            what,
            hex: hex.into(),
            fill,
            strict: Err(reason),
            go: Ok(small(1, 1)),
        })
        .collect()
}
