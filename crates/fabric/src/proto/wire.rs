//! The wire format of protobuf, with the bounds that Go's `protowire` sets.

use super::Malformed;

/// Wire type of a varint.
pub const VARINT: u8 = 0;
/// Wire type of eight bytes.
pub const FIXED64: u8 = 1;
/// Wire type of a length followed by that number of bytes.
pub const BYTES: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Largest field number of a message: 2^29 - 1.
const NUMBER_MAX: u64 = (1 << 29) - 1;
/// Largest field number inside an unknown group, where `protowire.ConsumeTag` reads it: 2^31 - 1.
const NUMBER_IN_GROUP_MAX: u64 = i32::MAX as u64;
/// Maximum depth of nested groups: `protowire.DefaultRecursionLimit`, plus the outermost.
const GROUPS_MAX: usize = 10_001;

/// Reads a varint of at most ten bytes; in the tenth byte, only the lowest bit may be set.
#[inline]
pub fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let (&first, rest) = bytes.split_first().ok_or(Malformed::Bad)?;
    if first < 0x80 {
        *bytes = rest;
        return Ok(u64::from(first));
    }
    // Most lengths have two bytes, so this case has its own short path.
    if let Some((&second, rest)) = rest.split_first()
        && second < 0x80
    {
        *bytes = rest;
        return Ok(u64::from(first & 0x7f) | u64::from(second) << 7);
    }
    long_varint(bytes)
}

fn long_varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0u64;
    for (place, &byte) in bytes.iter().enumerate().take(10) {
        if place == 9 && byte > 1 {
            return Err(Malformed::Bad);
        }
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            *bytes = bytes.get(place + 1..).ok_or(Malformed::Bad)?;
            return Ok(value);
        }
    }
    Err(Malformed::Bad)
}

/// Reads a field's number and wire type.
#[inline]
pub fn tag(bytes: &mut &[u8]) -> Result<(u32, u8), Malformed> {
    let tag = varint(bytes)?;
    let number = tag >> 3;
    if number == 0 || number > NUMBER_MAX {
        return Err(Malformed::Bad);
    }
    Ok((number as u32, (tag & 7) as u8))
}

/// Reads a length and that number of bytes.
#[inline]
pub fn length_delimited<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = usize::try_from(varint(bytes)?).map_err(|_| Malformed::Bad)?;
    let (content, rest) = bytes.split_at_checked(length).ok_or(Malformed::Bad)?;
    *bytes = rest;
    Ok(content)
}

/// Skips the value of an unknown field, or of a field with an unexpected wire type.
#[inline]
pub fn skip(number: u32, wire_type: u8, bytes: &mut &[u8]) -> Result<(), Malformed> {
    match wire_type {
        START_GROUP => skip_group(number, bytes),
        other => skip_plain(other, bytes),
    }
}

fn skip_plain(wire_type: u8, bytes: &mut &[u8]) -> Result<(), Malformed> {
    let fixed = match wire_type {
        VARINT => return varint(bytes).map(drop),
        BYTES => return length_delimited(bytes).map(drop),
        FIXED64 => 8,
        FIXED32 => 4,
        _ => return Err(Malformed::Bad),
    };
    *bytes = bytes.get(fixed..).ok_or(Malformed::Bad)?;
    Ok(())
}

#[cold]
fn skip_group(number: u32, bytes: &mut &[u8]) -> Result<(), Malformed> {
    let mut open = vec![u64::from(number)];
    while let Some(&innermost) = open.last() {
        let tag = varint(bytes)?;
        let number = tag >> 3;
        if number == 0 || number > NUMBER_IN_GROUP_MAX {
            return Err(Malformed::Bad);
        }
        match (tag & 7) as u8 {
            END_GROUP if number == innermost => drop(open.pop()),
            END_GROUP => return Err(Malformed::Bad),
            START_GROUP if open.len() == GROUPS_MAX => return Err(Malformed::Bad),
            START_GROUP => open.push(number),
            other => skip_plain(other, bytes)?,
        }
    }
    Ok(())
}

/// Appends a varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field of bytes.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, content: &[u8]) {
    put_varint(out, u64::from(number) << 3 | u64::from(BYTES));
    put_varint(out, content.len() as u64);
    out.extend_from_slice(content);
}

/// Appends a varint field, unless the value is zero, as proto3 does.
pub fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_varint(out, u64::from(number) << 3);
        put_varint(out, value);
    }
}
