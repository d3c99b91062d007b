//! The plain decoder: any message, brought into the form that the walker takes.
//!
//! It keeps every field apart, in a map. What Go does with a field that comes again is the one rule of protobuf: of a
//! scalar the last counts, and a message is merged, which is the same as decoding the bytes of both, one after the
//! other. Members of a oneof push each other out. Unknown fields are dropped, after they have been read.

use super::{Malformed, wire};
use std::collections::BTreeMap;

/// What a field of a message holds.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Any scalar that is a varint on the wire.
    Varint,
    /// Bytes.
    Bytes,
    /// Text in UTF-8.
    Text,
    /// A message; a function, since a message may hold itself.
    Message(fn() -> &'static Schema),
    /// Bytes, any number of times.
    ManyBytes,
    /// Text in UTF-8, any number of times.
    ManyText,
    /// A message, any number of times.
    ManyMessages(fn() -> &'static Schema),
}

/// A field.
pub struct Field {
    /// Its number.
    pub number: u32,
    /// What it holds.
    pub kind: Kind,
    /// Which oneof of the message it is a member of; 0: none.
    pub oneof: u8,
}

/// A message's fields.
pub struct Schema {
    /// In the order of their numbers.
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
    /// The occurrences of a message that is to be one.
    Parts(Vec<&'a [u8]>),
    Many(Vec<Vec<u8>>),
}

/// Messages in each other, at most. Go's own limit is 10,000; what lies between is [`Malformed::TooLarge`].
pub const DEPTH_MAX: usize = 64;

/// Bytes looked at, at most, for each byte of the message: messages in each other are looked at once a layer.
const WORK_MAX: usize = 2 * DEPTH_MAX;

/// The message with every field once, in the order of their numbers, repeated ones in a row, nothing unknown.
pub fn normalise(schema: &Schema, bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut work = bytes.len().saturating_mul(WORK_MAX).saturating_add(4096);
    within(schema, bytes, DEPTH_MAX, &mut work)
}

fn within(schema: &Schema, mut bytes: &[u8], depth: usize, work: &mut usize) -> Result<Vec<u8>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed::TooLarge)?;
    *work = work.checked_sub(bytes.len()).ok_or(Malformed::TooLarge)?;
    let mut values: BTreeMap<u32, Value<'_>> = BTreeMap::new();
    while !bytes.is_empty() {
        let (number, wire_type) = wire::tag(&mut bytes)?;
        let known = schema.field(number).filter(|field| {
            let varint = matches!(field.kind, Kind::Varint);
            wire_type == if varint { wire::VARINT } else { wire::BYTES }
        });
        let Some(field) = known else {
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
                        // Each has to be whole by itself, also where the bytes of all of them are.
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
