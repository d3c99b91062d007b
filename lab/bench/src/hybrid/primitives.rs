//! Hashing, signing and verification alone: a number of requests in one or more threads, as the micro-benchmark of the
//! paper measures them. Keys, messages and tables are not warmed up.

use super::workload::{Key, record};
use crate::error::{Result, void};
use crate::gate::median;
use lineside_messages::hybrid::sign::Signer;
use lineside_verify::hash::{keccak256, keccak256_batch};
use lineside_verify::{Backend, Curve, Item, Options, PublicKey, SignatureBytes, Verifier};
use sha3::{Digest, Keccak256};
use std::time::Instant;

/// Number of keys that sign in turn.
const KEYS: usize = 16;
/// Number of bytes of a value. With its key and version it fits into one block of Keccak-256, which has 136 bytes.
const VALUE_BYTES: usize = 100;
/// Number of messages or signatures in a batch.
const BATCH: usize = 256;

/// Measured work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Keccak-256, one message at a time.
    Keccak,
    /// Keccak-256 in Lineside's batches.
    KeccakBatch,
    /// Signatures over secp256k1 by libsecp256k1, as of the clients.
    Sign,
    /// Verification by libsecp256k1, one signature at a time.
    Verify,
    /// Verification in Lineside's batches, by a verifier that has no tables at first.
    VerifyBatch,
    /// Verification of signatures that have a 65th byte, one at a time. It ends at the length.
    Verify65,
}

impl Work {
    /// All kinds of work.
    pub const ALL: [Self; 6] = [
        Self::Keccak,
        Self::KeccakBatch,
        Self::Sign,
        Self::Verify,
        Self::VerifyBatch,
        Self::Verify65,
    ];

    /// Returns the name of the work in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keccak => "keccak256",
            Self::KeccakBatch => "keccak256_batch",
            Self::Sign => "sign",
            Self::Verify => "verify",
            Self::VerifyBatch => "verify_batch",
            Self::Verify65 => "verify_65_bytes",
        }
    }
}

/// Time of one kind of work.
#[derive(Clone, Copy, Debug)]
pub struct Primitive {
    /// The work.
    pub work: Work,
    /// Number of threads that share the requests.
    pub threads: usize,
    /// Number of requests.
    pub requests: usize,
    /// Median time in milliseconds for all requests.
    pub ms: f64,
    /// Number of signatures that were accepted in a round; 0 if the work verifies nothing.
    pub accepted: u64,
    /// Number of wrong results in all rounds: digests that differ from those of the crate `sha3`, signatures that were
    /// wrongly refused, and signatures that were wrongly accepted.
    pub wrong: u64,
}

/// Measures all kinds of work with each of these numbers of threads.
///
/// # Errors
/// A key cannot be read.
pub fn measure(requests: usize, threads: &[usize], rounds: usize) -> Result<Vec<Primitive>> {
    let inputs = Inputs::new(requests)?;
    let mut found = Vec::new();
    for work in Work::ALL {
        for threads in threads.iter().copied() {
            let (mut times, mut accepted, mut wrong) = (Vec::new(), 0, 0);
            for _ in 0..rounds.max(1) {
                let begin = Instant::now();
                let results = inputs.run(work, threads);
                times.push(begin.elapsed().as_secs_f64() * 1e3);
                let counted = inputs.check(work, &results);
                accepted = counted.0;
                wrong += counted.1;
            }
            found.push(Primitive {
                work,
                threads,
                requests,
                ms: median(times.into_iter()).unwrap_or_default(),
                accepted,
                wrong,
            });
        }
    }
    Ok(found)
}

/// Requests with their digests and signatures.
struct Inputs {
    keys: Vec<(Key, PublicKey)>,
    messages: Vec<Vec<u8>>,
    digests: Vec<[u8; 32]>,
    signatures: Vec<[u8; 64]>,
    /// The signatures with a 65th byte, as libraries that recover the key from a signature return them.
    longer: Vec<[u8; 65]>,
}

/// Results of the requests in their order.
enum Results {
    Digests(Vec<[u8; 32]>),
    Signatures(Vec<[u8; 64]>),
    Verdicts(Vec<bool>),
}

impl Inputs {
    fn new(requests: usize) -> Result<Self> {
        let key = |number: usize| {
            let key = Key::of(1, number as u64 + 1);
            let public = PublicKey::from_sec1(Curve::Secp256k1, &key.public().bytes);
            Ok((key, public.map_err(void)?))
        };
        let keys = (0..KEYS).map(key).collect::<Result<Vec<_>>>()?;
        // The payload of the paper's sets: key, value and version, one after the other.
        let message = |number: usize| {
            let value = "v".repeat(VALUE_BYTES);
            format!("{}{value}{}", record(number as u64), number % 10).into_bytes()
        };
        let messages: Vec<_> = (0..requests).map(message).collect();
        let digests: Vec<[u8; 32]> = messages
            .iter()
            .map(|message| Keccak256::digest(message).into())
            .collect();
        let mut inputs = Self {
            keys,
            messages,
            digests,
            signatures: Vec::new(),
            longer: Vec::new(),
        };
        if let Results::Signatures(signatures) = inputs.run(Work::Sign, crate::sys::cores()) {
            inputs.signatures = signatures;
        }
        let longer = |signature: &[u8; 64]| {
            let mut bytes = [0; 65];
            bytes[..64].copy_from_slice(signature);
            bytes
        };
        inputs.longer = inputs.signatures.iter().map(longer).collect();
        Ok(inputs)
    }

    fn run(&self, work: Work, threads: usize) -> Results {
        let backend = match work {
            Work::VerifyBatch => None,
            _ => Some(Backend::Library),
        };
        let options = Options {
            backend,
            ..Options::default()
        };
        // The best backend and the library are always available.
        let verifier = Verifier::new(options).unwrap_or_default();
        let verifier = &verifier;
        match work {
            Work::Keccak => Results::Digests(self.divided(threads, |range| {
                self.messages[range]
                    .iter()
                    .map(|message| keccak256(message))
                    .collect()
            })),
            Work::KeccakBatch => Results::Digests(self.divided(threads, |range| self.hash_batches(range))),
            Work::Sign => Results::Signatures(self.divided(threads, |range| {
                range.map(|at| self.key(at).0.sign(&self.digests[at])).collect()
            })),
            Work::Verify => Results::Verdicts(self.divided(threads, |range| {
                let verify = |at: usize| verifier.verify(&self.item(at, &self.signatures[at])).is_valid();
                range.map(verify).collect()
            })),
            Work::VerifyBatch => Results::Verdicts(self.divided(threads, |range| {
                let items: Vec<_> = range.map(|at| self.item(at, &self.signatures[at])).collect();
                let verdicts = items.chunks(BATCH).flat_map(|batch| verifier.verify_batch(batch));
                verdicts.map(|verdict| verdict.is_valid()).collect()
            })),
            Work::Verify65 => Results::Verdicts(self.divided(threads, |range| {
                let verify = |at: usize| verifier.verify(&self.item(at, &self.longer[at])).is_valid();
                range.map(verify).collect()
            })),
        }
    }

    fn key(&self, at: usize) -> &(Key, PublicKey) {
        &self.keys[at % KEYS]
    }

    fn item<'a>(&'a self, at: usize, signature: &'a [u8]) -> Item<'a> {
        Item {
            key: &self.key(at).1,
            digest: self.digests[at],
            signature: SignatureBytes::Compact(signature),
        }
    }

    fn hash_batches(&self, range: std::ops::Range<usize>) -> Vec<[u8; 32]> {
        let messages: Vec<&[u8]> = self.messages[range].iter().map(Vec::as_slice).collect();
        let mut digests = vec![[0; 32]; messages.len()];
        for (messages, digests) in messages.chunks(BATCH).zip(digests.chunks_mut(BATCH)) {
            keccak256_batch(messages, digests);
        }
        digests
    }

    /// Divides the requests among threads, and returns the results in the order of the requests.
    fn divided<T: Send>(
        &self,
        threads: usize,
        work: impl Fn(std::ops::Range<usize>) -> Vec<T> + Sync,
    ) -> Vec<T> {
        let (all, work) = (self.messages.len(), &work);
        let share = all.div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            let shares = (0..all).step_by(share);
            let started: Vec<_> = shares
                .map(|first| scope.spawn(move || work(first..(first + share).min(all))))
                .collect();
            // A thread that panicked has no results, which the check counts as wrong.
            let results = started
                .into_iter()
                .map(|thread| thread.join().unwrap_or_default());
            results.flatten().collect()
        })
    }

    /// Returns the number of accepted signatures and the number of wrong results.
    fn check(&self, work: Work, results: &Results) -> (u64, u64) {
        let all = self.messages.len() as u64;
        match results {
            Results::Digests(digests) => {
                let right = digests
                    .iter()
                    .zip(&self.digests)
                    .filter(|(ours, sha3)| ours == sha3);
                (0, all - right.count() as u64)
            }
            Results::Signatures(signatures) => {
                let right = signatures.iter().zip(&self.signatures);
                (
                    0,
                    all - right.filter(|(ours, first)| ours == first).count() as u64,
                )
            }
            Results::Verdicts(verdicts) => {
                let accepted = verdicts.iter().filter(|accepted| **accepted).count() as u64;
                let missing = all - verdicts.len() as u64;
                match work {
                    Work::Verify65 => (accepted, accepted + missing),
                    _ => (accepted, all - accepted),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_is_right_and_a_signature_of_65_bytes_is_refused() {
        let found = measure(600, &[1, 3], 1).unwrap();
        assert_eq!(found.len(), 2 * Work::ALL.len());
        for primitive in found {
            let accepted = match primitive.work {
                Work::Verify | Work::VerifyBatch => 600,
                _ => 0,
            };
            assert_eq!(
                (primitive.accepted, primitive.wrong),
                (accepted, 0),
                "{primitive:?}"
            );
            assert!(primitive.ms > 0.0);
        }
    }

    #[test]
    fn wrong_results_are_counted() {
        let mut inputs = Inputs::new(300).unwrap();
        inputs.signatures[7][63] ^= 1;
        for work in [Work::Verify, Work::VerifyBatch] {
            assert_eq!(inputs.check(work, &inputs.run(work, 2)), (299, 1));
        }
        assert_eq!(inputs.check(Work::Sign, &inputs.run(Work::Sign, 1)), (0, 1));
        inputs.digests[3][0] ^= 1;
        let digests = inputs.run(Work::KeccakBatch, 1);
        assert_eq!(inputs.check(Work::KeccakBatch, &digests), (0, 1));
        let too_lenient = Results::Verdicts(vec![true; 300]);
        assert_eq!(inputs.check(Work::Verify65, &too_lenient), (300, 300));
    }
}
