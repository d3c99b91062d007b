//! Finds the id of a journal that has lost all headers, its mark and its snapshots. The checksums of its records show
//! the id.
//!
//! The id is part of each record's CRC. A CRC is an affine function over GF(2) of the value that it starts from, so the
//! starting value follows from one intact record. Several ids give this value, and each of them can be used: only the
//! records refer to the id, and their checksums contain nothing but this value.

use crate::Lsn;
use crate::disk::{Disk, DiskFile, read_full};
use crate::error::{Error, Result};
use crate::format::{
    LARGEST_PAYLOAD_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, long, record_bytes, seed, word,
};
use crate::segment::lsn_of;

/// Returns an id with which the first records of the segments `names` are intact; if there are several such ids, the
/// one that fits most segments. Returns `None` if no segment begins with a record. The record of a file whose name does
/// not match counts only if the id also fits another segment, because some id fits any bytes.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn find_id<D: Disk>(disk: &D, names: &[String]) -> Result<Option<u64>> {
    let mut seeds = Vec::new();
    for name in names {
        if let Some(lsn) = lsn_of(name, ".log") {
            let file = disk.open_read(name).map_err(Error::io("open", name))?;
            let first = seed_of_first(&file).map_err(Error::io("read", name))?;
            seeds.extend(first.map(|(seed, found)| (seed, found == lsn)));
        }
    }
    let count = |seed: u32| seeds.iter().filter(|(other, _)| *other == seed).count();
    let is_sure = |(seed, is_named): &&(u32, bool)| *is_named || count(*seed) > 1;
    let sure = seeds.iter().filter(is_sure).map(|(seed, _)| *seed);
    let likely = sure.max_by_key(|seed| count(*seed));
    Ok(likely.map(|likely| u64::from(preimage(|id| seed(id.into()), likely))))
}

/// Returns the starting value of the CRC with which the first record of a segment is intact, and the record's number.
fn seed_of_first(file: &impl DiskFile) -> std::io::Result<Option<(u32, Lsn)>> {
    let mut header = [0; RECORD_HEADER_BYTES as usize];
    let read = read_full(file, SEGMENT_HEADER_BYTES, &mut header)?;
    let payload_bytes = word(&header, 4);
    let lsn = long(&header, 8);
    if read < header.len() || lsn == 0 || header[21..] != [0; 3] || payload_bytes > LARGEST_PAYLOAD_BYTES {
        return Ok(None);
    }
    let mut record = vec![0; record_bytes(payload_bytes as usize) as usize];
    if read_full(file, SEGMENT_HEADER_BYTES, &mut record)? < record.len() {
        return Ok(None);
    }
    let crc_from = |seed| crc32c::crc32c_append(seed, &record[4..]);
    Ok(Some((preimage(crc_from, word(&record, 0)), lsn)))
}

/// Solves `f(x) = image` for x by Gaussian elimination. The function `f` must be affine and invertible over GF(2).
fn preimage(f: impl Fn(u32) -> u32, image: u32) -> u32 {
    let constant = f(0);
    // Each pair contains a value of the linear part of `f`, and the argument that gives this value.
    let mut pairs: Vec<(u32, u32)> = (0..32).map(|bit| (f(1 << bit) ^ constant, 1 << bit)).collect();
    let (mut rest, mut solution) = (image ^ constant, 0);
    for bit in (0..32).map(|bit| 1u32 << bit) {
        let Some(at) = pairs.iter().position(|(linear, _)| linear & bit != 0) else {
            continue;
        };
        let (linear, value) = pairs.swap_remove(at);
        for pair in pairs.iter_mut().filter(|pair| pair.0 & bit != 0) {
            *pair = (pair.0 ^ linear, pair.1 ^ value);
        }
        if rest & bit != 0 {
            (rest, solution) = (rest ^ linear, solution ^ value);
        }
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Head, encode};

    #[test]
    fn the_starting_value_follows_from_one_record() {
        for (id, bytes) in [(0, 0), (1, 1), (0x0123_4567_89ab_cdef, 40), (u64::MAX, 70_000)] {
            let (payload, mut record) = (vec![0x5a; bytes], Vec::new());
            let head = Head {
                lsn: 9,
                group_index: 0,
                kind: 3,
                payload_bytes: bytes as u32,
            };
            encode(seed(id), head, &[&payload], &mut record);
            let found = preimage(|from| crc32c::crc32c_append(from, &record[4..]), word(&record, 0));
            assert_eq!(found, seed(id), "id {id:x}, {bytes} bytes");
            let equal = preimage(|id| seed(id.into()), found);
            assert_eq!(seed(equal.into()), seed(id));
        }
    }
}
