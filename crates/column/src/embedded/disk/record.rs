//! Records of the journal: a cell that was put, a cell that was emptied, or nothing.

use super::Write;

/// A cell was put: length of the place (u16, little endian), place, what is stored there.
const PUT: u8 = 1;
/// A cell was emptied: its place.
const EMPTIED: u8 = 2;
/// Nothing was changed: a number that `repair` passes over, because the rows' files are ahead of the journal.
pub(super) const NOTHING: u8 = 3;
/// Maximum number of bytes of a record's payload without those of the cell.
pub(super) const HEAD_BYTES_MAX: usize = 2 + 512;

/// Kind and payload of the record of a change.
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
