//! DER (X.690) encoding, parsed as strictly as Go's `cryptobyte` does for certificates.

/// Identifier octets of the universal types that X.509 uses.
pub mod tag {
    #![allow(missing_docs)]
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const OID: u8 = 0x06;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const PRINTABLE_STRING: u8 = 0x13;
    pub const IA5_STRING: u8 = 0x16;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
}

/// An element with its tag, its content, and its complete bytes.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The identifier octet.
    pub tag: u8,
    /// The content, without the header.
    pub content: &'a [u8],
    /// The complete bytes, with the header.
    pub whole: &'a [u8],
}

/// Reader of consecutive elements.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next element with any tag.
    pub fn any(&mut self) -> Option<Element<'a>> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (length, header) = match first {
            ..=0x7f => (usize::from(first), 2),
            0x80 | 0x85.. => return None,
            0x81..=0x84 => {
                let octets = usize::from(first & 0x7f);
                let length = rest.get(..octets)?;
                let value = length
                    .iter()
                    .fold(0usize, |sum, &octet| sum << 8 | usize::from(octet));
                // The length must be minimal: no leading zero, and the short form where possible.
                if length.first() == Some(&0) || value < 0x80 {
                    return None;
                }
                (value, 2 + octets)
            }
        };
        let (whole, rest) = self.0.split_at_checked(header.checked_add(length)?)?;
        self.0 = rest;
        Some(Element {
            tag,
            content: whole.get(header..)?,
            whole,
        })
    }

    /// Returns the next element, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Option<Element<'a>> {
        self.any().filter(|element| element.tag == tag)
    }

    /// Returns the next element if it has this tag, otherwise `Some(None)`. `None` if the element is malformed.
    pub fn optional(&mut self, tag: u8) -> Option<Option<Element<'a>>> {
        if self.0.first() == Some(&tag) {
            self.any().map(Some)
        } else {
            Some(None)
        }
    }

    /// Returns a reader of the content of the next element, which must have this tag.
    pub fn inside(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.expect(tag).map(|element| Reader(element.content))
    }

    /// Returns the content of an INTEGER in minimal form.
    pub fn integer(&mut self) -> Option<&'a [u8]> {
        let content = self.expect(tag::INTEGER)?.content;
        match content {
            [] | [0, 0..0x80, ..] | [0xff, 0x80..=0xff, ..] => None,
            _ => Some(content),
        }
    }

    /// Returns the content of a BIT STRING of whole bytes.
    pub fn bit_string(&mut self) -> Option<&'a [u8]> {
        match self.expect(tag::BIT_STRING)?.content {
            [0, bytes @ ..] => Some(bytes),
            _ => None,
        }
    }
}

/// Appends an element.
pub fn put(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        out.push(0x80 | (bytes.len() - zeros) as u8);
        out.extend(bytes.iter().skip(zeros));
    }
    out.extend_from_slice(content);
}

/// Appends an INTEGER that is not negative.
pub fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count().min(7);
    let mut content = Vec::with_capacity(9);
    if bytes.get(zeros).is_some_and(|&byte| byte >= 0x80) {
        content.push(0);
    }
    content.extend(bytes.iter().skip(zeros));
    put(out, tag::INTEGER, &content);
}
