//! Encoding of the database's entries: the places (database keys) of keys, of links and of the expiry index, and the
//! values.

use super::cache::DbKey;
use super::{EXPIRY, EXPIRY_BYTES, HEAD_BYTES, MARK};
use crate::state::{Entry, ExpiringKey, Height, Key};

/// Returns the database key of the link of a batch that ends with block `last`. The value of the link is the number of
/// the last block of the previous batch.
pub(super) fn link(last: u64) -> Vec<u8> {
    [&MARK[..], &last.to_be_bytes()].concat()
}

/// Returns the database key of the expiry index entry for the key at `place`, which block `number` removes.
pub(super) fn expiry_place(number: u64, place: &[u8]) -> Vec<u8> {
    [&EXPIRY[..], &number.to_be_bytes(), place].concat()
}

/// Decodes an entry of the expiry index.
pub(super) fn read_due(place: &[u8], life: &[u8]) -> Option<ExpiringKey> {
    let (namespace, collection, key) = read_place(place.get(EXPIRY_BYTES..)?)?;
    Some(ExpiringKey {
        namespace: namespace.to_owned(),
        collection: collection.to_owned(),
        key: Key::from_slice(key),
        life: u64::from_le_bytes(life.try_into().ok()?),
    })
}

/// Decodes a place (a key of the database) into namespace, collection and key.
pub(super) fn read_place(place: &[u8]) -> Option<(&str, &str, &[u8])> {
    let (namespace, rest) = name(place)?;
    let (collection, key) = name(rest)?;
    Some((namespace, collection, key))
}

/// Returns the place (the key in the database) of a key of the state.
pub(super) fn db_key(namespace: &str, collection: &str, key: &[u8]) -> Vec<u8> {
    short_place(namespace, collection, key).into_vec()
}

/// Returns the place of a key; a short one is stored inline, without an allocation.
pub(super) fn short_place(namespace: &str, collection: &str, key: &[u8]) -> DbKey {
    let mut place = DbKey::with_capacity(HEAD_BYTES + namespace.len() + collection.len() + key.len());
    for name in [namespace, collection] {
        place.extend_from_slice(&(name.len() as u32).to_be_bytes());
        place.extend_from_slice(name.as_bytes());
    }
    place.extend_from_slice(key);
    place
}

/// Reads the first name in a place; returns the name and the bytes after it.
pub(super) fn name(place: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = place.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((std::str::from_utf8(name).ok()?, rest))
}

/// Returns the first place after all places that begin with `head`.
pub(super) fn after(head: &[u8]) -> Vec<u8> {
    let mut after = head.to_vec();
    while let Some(last) = after.last_mut() {
        if *last < 0xff {
            *last += 1;
            break;
        }
        after.pop();
    }
    after
}

/// Encodes a value.
pub(super) fn encode(entry: &Entry) -> Vec<u8> {
    let parameter = entry.validation_parameter.as_deref();
    let parameter_bytes = parameter.unwrap_or_default();
    let mut bytes = Vec::with_capacity(21 + parameter_bytes.len() + entry.value.len());
    bytes.extend_from_slice(&entry.version.block.to_le_bytes());
    bytes.extend_from_slice(&entry.version.tx.to_le_bytes());
    bytes.push(u8::from(parameter.is_some()));
    bytes.extend_from_slice(&(parameter_bytes.len() as u32).to_le_bytes());
    bytes.extend_from_slice(parameter_bytes);
    bytes.extend_from_slice(&entry.value);
    bytes
}

/// Decodes a value; `None` for bytes in an unknown form.
pub(super) fn decode(bytes: &[u8]) -> Option<Entry> {
    let (block, bytes) = bytes.split_first_chunk()?;
    let (tx, bytes) = bytes.split_first_chunk()?;
    let (has_parameter, bytes) = bytes.split_first()?;
    let (length, bytes) = bytes.split_first_chunk()?;
    let (parameter, value) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(Entry {
        value: value.into(),
        validation_parameter: (*has_parameter == 1).then(|| parameter.into()),
        version: Height {
            block: u64::from_le_bytes(*block),
            tx: u64::from_le_bytes(*tx),
        },
    })
}
