//! Comparison of a re-executed block with the stored one: finds the first byte that differs, and its field.

use super::{Finding, Raw};
use crate::execute::Executed;
use crate::ledger::StoredBlock;
use lineside_messages::hybrid::block::HEADER_BYTES;

/// Compares a stored block with the result of executing its message again. The node has signed the message, and
/// everything else in the block is computed from it, so both blocks must be equal, byte for byte.
pub(super) fn compare(raw: &Raw, stored: &StoredBlock<'_>, executed: &Executed) -> Result<(), Finding> {
    let number = Some(executed.header.number);
    if let Some(offset) = first_difference(&executed.header.to_bytes(), &stored.header.to_bytes()) {
        let what = match field_at(offset) {
            // Re-execution reproduces the whole previous block except for the position of its message in the log.
            "previous hash" => "the previous block's hash, or its position in the log,".to_owned(),
            field => format!("the header's {field}"),
        } + " differs from the re-execution";
        return Err(raw.finding(offset, number, what));
    }
    let codes: Vec<u8> = executed.codes.iter().map(|code| *code as u8).collect();
    match first_difference(&codes, stored.codes) {
        Some(index) => {
            let what = format!("the code of request {index} differs from the re-execution");
            Err(raw.finding(HEADER_BYTES + 4 + index, number, what))
        }
        None => Ok(()),
    }
}

pub(super) fn first_difference(ours: &[u8], theirs: &[u8]) -> Option<usize> {
    let differs = ours.iter().zip(theirs).position(|(one, other)| one != other);
    differs.or((ours.len() != theirs.len()).then(|| ours.len().min(theirs.len())))
}

/// Name of the header's field at an offset.
fn field_at(offset: usize) -> &'static str {
    const ENDS: [(usize, &str); 12] = [
        (16, "database"),
        (24, "number"),
        (32, "position"),
        (40, "time"),
        (44, "count of transactions"),
        (48, "count of committed transactions"),
        (80, "previous hash"),
        (112, "transactions hash"),
        (144, "transactions root"),
        (176, "codes hash"),
        (208, "state root"),
        (240, "paper's hash"),
    ];
    const { assert!(HEADER_BYTES == 240) };
    ENDS.iter()
        .find(|(end, _)| offset < *end)
        .map_or("end", |(_, name)| name)
}
