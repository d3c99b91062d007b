//! Encoders of `TxReadWriteSet` and its parts.

use crate::proto::Out;
use sha2::{Digest, Sha256};

/// Position of the transaction that wrote a value: block and transaction number.
pub(crate) type Height = (u64, u64);

fn height((block, tx): Height) -> Out {
    Out::new().number(1, block).number(2, tx)
}

/// Returns a `KVRead` of a key at a version; `None` for a key that does not exist.
pub(crate) fn read(key: impl AsRef<[u8]>, version: Option<Height>) -> Out {
    Out::new().bytes(1, key).each(2, version.map(height))
}

/// Returns a `KVWrite`.
pub(crate) fn write(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Out {
    Out::new().bytes(1, key).some(3, value)
}

/// Returns the `RangeQueryInfo` of a query that was read to its end, with all its results.
pub(crate) fn range(start: &str, end: &str, reads: &[Out]) -> Out {
    Out::new()
        .bytes(1, start)
        .bytes(2, end)
        .number(3, 1)
        .message(4, Out::new().each(1, reads))
}

/// Returns an `NsReadWriteSet` with a `KVRWSet` of these parts.
pub(crate) fn namespace(name: &str, reads: &[Out], ranges: &[Out], writes: &[Out]) -> Out {
    let set = Out::new().each(1, reads).each(2, ranges).each(3, writes);
    Out::new().bytes(1, name).message(2, set)
}

/// Returns a `TxReadWriteSet`.
pub(crate) fn all(namespaces: &[Out]) -> Vec<u8> {
    Out::new().each(2, namespaces).done()
}

fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Returns a `CollectionHashedReadWriteSet`. Its hash of the private read-write set is arbitrary, because validators do
/// not check it.
pub(crate) fn collection(
    name: &str,
    reads: &[(String, Option<Height>)],
    writes: &[(String, Vec<u8>)],
) -> Out {
    let read = |(key, version): &(String, Option<Height>)| read(sha256(key), *version);
    let write = |(key, value): &(String, Vec<u8>)| Out::new().bytes(1, sha256(key)).bytes(3, sha256(value));
    let hashed = Out::new()
        .each(1, reads.iter().map(read))
        .each(2, writes.iter().map(write));
    let private: Vec<u8> = writes
        .iter()
        .flat_map(|(key, value)| [key.as_bytes(), value].concat())
        .collect();
    let hash = (!writes.is_empty()).then(|| sha256(private));
    Out::new().bytes(1, name).message(2, hashed).each(3, hash)
}
