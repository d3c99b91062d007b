//! Records of the journal: a cell was set, a cell was removed, or nothing changed.

use super::Write;

/// Kind of a record that sets a cell: length of the place (u16, little endian), place, stored bytes.
const PUT: u8 = 1;
/// Kind of a record that removes a cell: its place.
const EMPTIED: u8 = 2;
/// Kind of a record that changes nothing. `repair` writes it for numbers whose changes are only in the files of
/// `tables`.
pub(super) const NOTHING: u8 = 3;
/// Maximum size in bytes of a record's payload without the bytes of the cell.
pub(super) const HEAD_BYTES_MAX: usize = 2 + 512;

/// Returns kind and payload of the record of a change.
pub(super) fn encode((place, stored): &Write) -> (u8, Vec<u8>) {
    match stored {
        None => (EMPTIED, place.clone()),
        Some(stored) => {
            let length = place.len() as u16;
            (PUT, [&length.to_le_bytes()[..], place, stored].concat())
        }
    }
}

/// Returns the change that a record holds: `Some(None)` for a record that changes nothing, `None` for a record of
/// another kind or with a malformed payload.
pub(super) fn decode(kind: u8, payload: &[u8]) -> Option<Option<Write>> {
    match kind {
        PUT => {
            let (length, rest) = payload.split_first_chunk()?;
            let (place, stored) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
            Some(Some((place.to_vec(), Some(stored.to_vec()))))
        }
        EMPTIED => Some(Some((payload.to_vec(), None))),
        NOTHING => Some(None),
        _ => None,
    }
}
