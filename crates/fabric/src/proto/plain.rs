//! The plain decoder: normalises any valid encoding of a message into the form that the walker accepts.
//!
//! The decoder collects the fields in a map. If a field that is not repeated occurs several times, the rules of
//! protobuf apply: the last value of a scalar is used; messages are merged, which equals decoding the concatenation of
//! their bytes; a member of a oneof removes the other members. Unknown fields are checked and dropped.

use super::{Malformed, wire};
use std::collections::BTreeMap;

/// Type of a field.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A scalar that is a varint on the wire.
    Varint,
    /// Bytes.
    Bytes,
    /// Text in UTF-8.
    Text,
    /// A message. Its schema is a function, because a message may contain itself.
    Message(fn() -> &'static Schema),
    /// Repeated bytes.
    ManyBytes,
    /// Repeated text in UTF-8.
    ManyText,
    /// A repeated message.
    ManyMessages(fn() -> &'static Schema),
}

/// A field of a message.
pub struct Field {
    /// Field number.
    pub number: u32,
    /// Field type.
    pub kind: Kind,
    /// Number of the oneof to which the field belongs; 0: none.
    pub oneof: u8,
}

/// Schema of a message.
pub struct Schema {
    /// Fields in the order of their numbers.
    pub fields: &'static [Field],
}

impl Schema {
    fn field(&self, number: u32) -> Option<&Field> {
        self.fields.iter().find(|field| field.number == number)
    }
}

enum Value<'a> {
    Varint(u64),
    One(&'a [u8]),
    /// Occurrences of a message that are to be merged.
    Parts(Vec<&'a [u8]>),
    Many(Vec<Vec<u8>>),
}

/// Maximum nesting depth of messages. Go's limit is 10,000; for a depth between the two limits, the error is
/// [`Malformed::TooLarge`].
pub const DEPTH_MAX: usize = 64;

/// Maximum number of bytes that the decoder processes for each byte of the message. The bytes of a nested message are
/// processed once for each level above it.
const WORK_PER_BYTE_MAX: usize = 2 * DEPTH_MAX;

/// Returns the message with each field once, in the order of field numbers, repeated fields contiguous, without unknown
/// fields.
pub fn normalise(schema: &Schema, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut work = bytes.len().saturating_mul(WORK_PER_BYTE_MAX).saturating_add(4096);
    within(schema, bytes, DEPTH_MAX, &mut work)
}

fn within(schema: &Schema, mut bytes: &[u8], depth: usize, work: &mut usize) -> Result<Vec<u8>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed::TooLarge)?;
    *work = work.checked_sub(bytes.len()).ok_or(Malformed::TooLarge)?;
    let mut values: BTreeMap<u32, Value<'_>> = BTreeMap::new();
    while !bytes.is_empty() {
        let (number, wire_type) = wire::tag(&mut bytes)?;
        let declared = schema.field(number).filter(|field| {
            let varint = matches!(field.kind, Kind::Varint);
            wire_type == if varint { wire::VARINT } else { wire::BYTES }
        });
        let Some(field) = declared else {
            wire::skip(number, wire_type, &mut bytes)?;
            continue;
        };
        if field.oneof != 0 {
            let others = schema.fields.iter().filter(|other| other.oneof == field.oneof);
            for other in others.filter(|other| other.number != number) {
                values.remove(&other.number);
            }
        }
        if matches!(field.kind, Kind::Varint) {
            values.insert(number, Value::Varint(wire::varint(&mut bytes)?));
            continue;
        }
        let content = wire::length_delimited(&mut bytes)?;
        match field.kind {
            Kind::Text | Kind::ManyText if std::str::from_utf8(content).is_err() => {
                return Err(Malformed::Bad);
            }
            Kind::Varint | Kind::Bytes | Kind::Text => drop(values.insert(number, Value::One(content))),
            Kind::ManyBytes | Kind::ManyText => push(&mut values, number, content.to_vec()),
            Kind::ManyMessages(inner) => push(&mut values, number, within(inner(), content, depth, work)?),
            Kind::Message(_) => match values.entry(number).or_insert_with(|| Value::Parts(Vec::new())) {
                Value::Parts(parts) => parts.push(content),
                Value::Varint(_) | Value::One(_) | Value::Many(_) => {}
            },
        }
    }
    let mut out = Vec::new();
    for (number, value) in values {
        match (value, schema.field(number).map(|field| field.kind)) {
            (Value::Varint(value), _) => {
                wire::put_varint(&mut out, u64::from(number) << 3);
                wire::put_varint(&mut out, value);
            }
            (Value::Parts(parts), Some(Kind::Message(inner))) => {
                let merged = match parts.as_slice() {
                    [only] => within(inner(), only, depth, work)?,
                    parts => {
                        // Each occurrence must be valid by itself, even if the concatenation of all occurrences is
                        // valid.
                        for part in parts {
                            within(inner(), part, depth, work)?;
                        }
                        within(inner(), &parts.concat(), depth, work)?
                    }
                };
                wire::put_bytes(&mut out, number, &merged);
            }
            (Value::One(content), _) => wire::put_bytes(&mut out, number, content),
            (Value::Many(contents), _) => {
                for content in contents {
                    wire::put_bytes(&mut out, number, &content);
                }
            }
            (Value::Parts(_), _) => {}
        }
    }
    Ok(out)
}

fn push(values: &mut BTreeMap<u32, Value<'_>>, number: u32, content: Vec<u8>) {
    match values.entry(number).or_insert_with(|| Value::Many(Vec::new())) {
        Value::Many(contents) => contents.push(content),
        Value::Varint(_) | Value::One(_) | Value::Parts(_) => {}
    }
}
