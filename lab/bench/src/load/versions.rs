//! Values that identify their key and version, and the known versions of each key, so that a stale, mixed or falsified
//! value is detected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Minimum length of a value in bytes: key, version and checksum.
pub const VALUE_BYTES_MIN: usize = 24;

/// Returns the value of `key` in one version, of `bytes` bytes: key, version, filling, checksum of all of them.
pub fn value(key: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(bytes.max(VALUE_BYTES_MIN));
    value.extend_from_slice(&key.to_be_bytes());
    value.extend_from_slice(&version.to_be_bytes());
    let filling = bytes.saturating_sub(VALUE_BYTES_MIN);
    value.extend((0..filling).map(|at| (key ^ version).wrapping_add(at as u64) as u8));
    let sum = sum(&value);
    value.extend_from_slice(&sum.to_be_bytes());
    value
}

/// Returns a checksum of bytes: FNV-1a with 64 bits.
fn sum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Returns the version in a value of `key`.
///
/// # Errors
/// The reason why it is not such a value.
fn version_in(key: u64, value: &[u8]) -> Result<u64, String> {
    let parts = value.split_last_chunk::<8>().filter(|(head, _)| head.len() >= 16);
    let Some((head, checksum)) = parts else {
        return Err(format!("a value of {} bytes is not from this load", value.len()));
    };
    if sum(head) != u64::from_be_bytes(*checksum) {
        return Err("the value has a wrong checksum".into());
    }
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[at..at + 8]);
        u64::from_be_bytes(bytes)
    };
    match word(0) {
        found if found == key => Ok(word(8)),
        found => Err(format!("the value belongs to key {found}, not {key}")),
    }
}

#[derive(Debug, Default)]
struct Known {
    /// Newest version whose write was answered.
    acknowledged: AtomicU64,
    /// Newest version that was sent.
    sent: AtomicU64,
    /// True once the outcome of a write is unknown: an older version may then appear later.
    is_uncertain: AtomicBool,
}

/// Known versions of all keys, shared by the threads of a run. Each key has one writer.
#[derive(Clone, Debug)]
pub struct Versions(Arc<[Known]>);

impl Versions {
    /// Returns the state in which nothing was written.
    pub fn new(keys: u64) -> Self {
        Self((0..keys).map(|_| Known::default()).collect())
    }

    fn known(&self, key: u64) -> &Known {
        &self.0[key as usize]
    }

    /// Returns the version of the next write of `key`, which its writer sends now.
    pub fn send(&self, key: u64) -> u64 {
        1 + self.known(key).sent.fetch_add(1, SeqCst)
    }

    /// Takes note that the server has acknowledged a version.
    pub fn acknowledge(&self, key: u64, version: u64) {
        self.known(key).acknowledged.fetch_max(version, SeqCst);
    }

    /// Takes note that the outcome of a write of `key` is unknown.
    pub fn forget(&self, key: u64) {
        self.known(key).is_uncertain.store(true, SeqCst);
    }

    /// Returns the oldest version that a read may return which is sent now.
    pub fn oldest(&self, key: u64) -> u64 {
        self.known(key).acknowledged.load(SeqCst)
    }

    /// Checks the value that a read of `key` has returned. `oldest` is from before the read was sent.
    ///
    /// # Errors
    /// The reason why the value is wrong.
    pub fn check(&self, key: u64, oldest: u64, value: Option<&[u8]>) -> Result<(), String> {
        let known = self.known(key);
        let version = match value {
            Some(value) => version_in(key, value)?,
            None if oldest == 0 || known.is_uncertain.load(SeqCst) => return Ok(()),
            None => {
                return Err(format!(
                    "key {key} has no value, but version {oldest} was acknowledged"
                ));
            }
        };
        let sent = known.sent.load(SeqCst);
        if version > sent {
            return Err(format!(
                "key {key} has version {version}, but only {sent} were sent"
            ));
        }
        if version < oldest && !known.is_uncertain.load(SeqCst) {
            return Err(format!(
                "stale: key {key} has version {version}, but {oldest} was acknowledged before the request"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_foreign_and_changed_values_are_wrong() {
        let versions = Versions::new(2);
        assert_eq!((versions.send(1), versions.send(1)), (1, 2));
        versions.acknowledge(1, 1);
        let oldest = versions.oldest(1);
        let check = |value: Option<&[u8]>| versions.check(1, oldest, value);
        let (first, second) = (value(1, 1, 40), value(1, 2, 24));
        assert_eq!((first.len(), second.len()), (40, 24));
        assert_eq!((check(Some(&first)), check(Some(&second))), (Ok(()), Ok(())));
        assert!(
            check(Some(&value(1, 3, 40)))
                .unwrap_err()
                .contains("only 2 were sent")
        );
        assert!(
            check(Some(&value(0, 1, 40)))
                .unwrap_err()
                .contains("belongs to key 0")
        );
        assert!(check(None).unwrap_err().contains("has no value"));
        for at in 0..first.len() {
            let mut changed = first.clone();
            changed[at] ^= 1;
            assert!(check(Some(&changed)).is_err(), "byte {at}");
        }
        versions.acknowledge(1, 2);
        assert!(versions.check(1, 2, Some(&first)).unwrap_err().contains("stale"));
        versions.forget(1);
        assert_eq!(versions.check(1, 2, Some(&first)), Ok(()));
    }
}
