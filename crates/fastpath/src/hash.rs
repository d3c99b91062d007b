//! Keyed hash that chooses a key's place in a table, so that an attacker cannot choose keys that collide.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Fills `key` with random words, and makes the last word odd.
///
/// # Errors
/// The kernel's error if it provides no random numbers.
pub fn new_key(key: &[AtomicU64; 3]) -> io::Result<()> {
    for word in key {
        word.store(random()?, Relaxed);
    }
    key[2].fetch_or(1, Relaxed);
    Ok(())
}

/// Returns a hash of `words`, whose high bits choose the place in a table.
///
/// The function is NH over the four 32-bit words (UMAC, RFC 4418); its upper half is folded into the lower one by XOR,
/// and the result is multiplied by an odd number. Without the fold, keys that count up would lie a fixed step apart
/// and, for some hash keys, fill only a few places. Two keys that differ in these 16 bytes collide in a table of 2^b
/// places with probability at most 2^-32 + 2^(1-b), even if an attacker chose them.
pub fn index_hash(words: [u64; 2], key: &[AtomicU64; 3]) -> u64 {
    let mut sum = 0u64;
    for (word, key) in words.into_iter().zip(&key[..2]) {
        let key = key.load(Relaxed);
        let low = (word as u32).wrapping_add(key as u32);
        let high = ((word >> 32) as u32).wrapping_add((key >> 32) as u32);
        sum = sum.wrapping_add(u64::from(low) * u64::from(high));
    }
    (sum ^ (sum >> 32)).wrapping_mul(key[2].load(Relaxed))
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: `bytes` is valid for writing `bytes.len()` bytes. Without flags, the call waits until the kernel has
    // entropy.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(got) {
        Ok(count) if count == bytes.len() => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}
