//! Records of the journal. A record says that a cell was set, that a cell was removed, or that nothing changed.

use super::Write;

/// Kind of a record that sets a cell: length of the place (u16, little endian), place, stored bytes.
const PUT: u8 = 1;
/// Kind of a record that removes a cell: its place.
const EMPTIED: u8 = 2;
/// Kind of a record that changes nothing. `repair` writes such records for the numbers of changes that only the files
/// in `tables` still have.
pub(super) const NOTHING: u8 = 3;
/// Maximum number of bytes of a record's payload, without the stored bytes of the cell.
pub(super) const HEAD_BYTES_MAX: usize = 2 + 512;

/// Returns the kind and payload of the record for a change.
pub(super) fn encode((place, stored): &Write) -> (u8, Vec<u8>) {
    match stored {
        None => (EMPTIED, place.clone()),
        Some(stored) => {
            let length = place.len() as u16;
            (PUT, [&length.to_le_bytes()[..], place, stored].concat())
        }
    }
}

/// Returns the change in a record: `Some(None)` for a record that changes nothing, and `None` for a record of another
/// kind or with a malformed payload.
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
