//! SHA-256 and Keccak-256: Lineside's batches compared with the crates `sha2` and `sha3`.

use super::contestants::{StepWork, Work};
use crate::wrong::{WrongReplies, WrongReply};
use lineside_testkit::Random;
use lineside_verify::hash::{Backend, Hasher};
use sha2::Digest;

/// Number of messages in a batch.
const MESSAGES: usize = 256;
/// Length in bytes of each message for SHA-256.
const LONG: usize = 1_024;
/// Lengths in bytes of the messages for Keccak-256; each message fits into one block.
const SHORT: std::ops::RangeInclusive<usize> = 32..=100;

/// Hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hash {
    Sha256,
    Keccak256,
}

/// Messages and their expected digests.
pub(super) struct Messages {
    hash: Hash,
    bytes: Vec<Vec<u8>>,
    /// Digests that Lineside's code for single messages returns; that code is tested against the vectors of the
    /// standards.
    expected: Vec<[u8; 32]>,
}

impl Messages {
    pub(super) fn new(hash: Hash, seed: u64) -> Self {
        let mut random = Random(seed ^ (4 << 60));
        let message = |_| {
            let length = match hash {
                Hash::Sha256 => LONG,
                Hash::Keccak256 => SHORT.start() + random.next() as usize % SHORT.count(),
            };
            (0..length).map(|_| random.next() as u8).collect::<Vec<u8>>()
        };
        let bytes: Vec<Vec<u8>> = (0..MESSAGES).map(message).collect();
        let one = match hash {
            Hash::Sha256 => lineside_verify::hash::sha256,
            Hash::Keccak256 => lineside_verify::hash::keccak256,
        };
        let expected = bytes.iter().map(|message| one(message)).collect();
        Self {
            hash,
            bytes,
            expected,
        }
    }

    /// Returns the crate `sha2` or `sha3`, which hashes one message at a time.
    pub(super) fn by_crates(&self) -> Box<dyn Work + '_> {
        let hash = self.hash;
        self.work(move |messages, digests| {
            for (message, digest) in messages.iter().zip(digests) {
                *digest = match hash {
                    Hash::Sha256 => sha2::Sha256::digest(message).into(),
                    Hash::Keccak256 => sha3::Keccak256::digest(message).into(),
                };
            }
        })
    }

    /// Returns work with Lineside's batches on a backend; `None` if the processor does not support the backend.
    pub(super) fn in_batch(&self, backend: Backend) -> Option<Box<dyn Work + '_>> {
        let (hasher, hash) = (Hasher::new(backend)?, self.hash);
        Some(self.work(move |messages, digests| match hash {
            Hash::Sha256 => hasher.sha256_batch(messages, digests),
            Hash::Keccak256 => hasher.keccak256_batch(messages, digests),
        }))
    }

    /// Changes one expected digest, so that a test can show that a mismatch is counted.
    #[cfg(test)]
    pub(super) fn spoil_one(&mut self) {
        self.expected[9][0] ^= 1;
    }

    fn work<'a>(&'a self, digest: impl Fn(&[&[u8]], &mut [[u8; 32]]) + 'a) -> Box<dyn Work + 'a> {
        Box::new(Hashing {
            messages: self.bytes.iter().map(Vec::as_slice).collect(),
            expected: &self.expected,
            digests: vec![[0; 32]; MESSAGES],
            digest,
            wrong: WrongReplies::default(),
        })
    }
}

struct Hashing<'a, F> {
    messages: Vec<&'a [u8]>,
    expected: &'a [[u8; 32]],
    digests: Vec<[u8; 32]>,
    digest: F,
    wrong: WrongReplies,
}

impl<F: Fn(&[&[u8]], &mut [[u8; 32]])> Work for Hashing<'_, F> {
    fn wrong(&self) -> WrongReplies {
        self.wrong.clone()
    }

    fn prepare(&mut self) -> StepWork {
        self.digests.fill([0; 32]);
        StepWork::default()
    }

    fn step(&mut self) -> StepWork {
        (self.digest)(&self.messages, &mut self.digests);
        std::hint::black_box(&self.digests);
        StepWork {
            count: MESSAGES as u64,
            mismatches: 0,
        }
    }

    /// Checks the digests of the last batch. Comparing 32 bytes within `step` would distort the time of a short
    /// message.
    fn settle(&mut self) -> u64 {
        let mut mismatches = 0;
        for ((digest, expected), message) in self.digests.iter().zip(self.expected).zip(&self.messages) {
            if digest != expected {
                mismatches += 1;
                self.wrong.add(|| WrongReply::of_bytes(message, digest, expected));
            }
        }
        mismatches
    }
}
