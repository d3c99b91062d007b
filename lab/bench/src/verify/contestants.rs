//! Contestants of verification: libraries, which verify one signature at a time, and Lineside's backends, which verify
//! batches.

use super::workload::Pool;
use crate::wrong::{WrongReplies, WrongReply, hex};
use aws_lc_rs::digest::{Digest, SHA256};
use aws_lc_rs::signature::ParsedPublicKey;
use lineside_verify::{Backend, Item, Options, Verdict, Verifier};
use std::ops::AddAssign;

/// Work that a contestant has done in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepWork {
    /// Number of signatures that were verified, or of messages that were hashed.
    pub(super) count: u64,
    /// Number of verdicts or digests that differ from the expected ones.
    pub(super) mismatches: u64,
}

impl AddAssign for StepWork {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.mismatches += other.mismatches;
    }
}

/// Work of a contestant that is measured in slices.
pub(super) trait Work {
    /// Prepares a slice, outside of the measured time. This method checks verdicts, too.
    fn prepare(&mut self) -> StepWork {
        StepWork::default()
    }

    /// Does one batch or one call and checks the result. Comparing a verdict takes a hundredth of the time of the
    /// fastest verification.
    fn step(&mut self) -> StepWork;

    /// Returns whether the slice is over. `spent` is true if its time is used up.
    fn is_over(&self, spent: bool) -> bool {
        spent
    }

    /// Returns the first wrong results of all slices.
    fn wrong(&self) -> WrongReplies;

    /// Finishes a slice, outside of the measured time: checks the results that `step` did not check. Returns the number
    /// of mismatches.
    fn settle(&mut self) -> u64 {
        0
    }
}

/// Library, given by a function that takes the index of a signature in the pool and returns the verdict.
pub(super) struct Library<'a, F> {
    verify: F,
    pool: &'a Pool,
    expected: Vec<bool>,
    at: usize,
    wrong: WrongReplies,
}

/// Describes a wrong verdict about signature `at` of the pool.
pub(super) fn described(pool: &Pool, at: usize, expected: bool) -> WrongReply {
    let signed = &pool.signed[at];
    let request = format!(
        "digest {}, signature {}, public key {}",
        hex(&signed.digest),
        hex(&signed.signature),
        hex(&pool.keys[signed.key].to_sec1_uncompressed())
    );
    let name = |valid| if valid { "valid" } else { "invalid" };
    WrongReply::new(request, name(!expected), name(expected))
}

impl<'a, F: Fn(usize) -> bool + 'a> Library<'a, F> {
    fn boxed(pool: &'a Pool, verify: F) -> Box<dyn Work + 'a> {
        Box::new(Self {
            verify,
            pool,
            expected: pool.expected(),
            at: 0,
            wrong: WrongReplies::default(),
        })
    }
}

/// Number of signatures that a library verifies before a slice, so that its code and its table of the generator are in
/// the CPU's caches.
const WARM_UP_SIGNATURES: usize = 16;

impl<F: Fn(usize) -> bool> Work for Library<'_, F> {
    fn wrong(&self) -> WrongReplies {
        self.wrong.clone()
    }

    fn prepare(&mut self) -> StepWork {
        let mut done = StepWork::default();
        for _ in 0..WARM_UP_SIGNATURES {
            done += self.step();
        }
        done
    }

    fn step(&mut self) -> StepWork {
        let at = self.at;
        self.at = (at + 1) % self.expected.len();
        let wrong = (self.verify)(at) != self.expected[at];
        if wrong {
            self.wrong.add(|| described(self.pool, at, self.expected[at]));
        }
        StepWork {
            count: 1,
            mismatches: u64::from(wrong),
        }
    }
}

/// Returns aws-lc-rs in its fastest form: keys are parsed before the measurement, and it receives the digest.
pub(super) fn aws_lc_rs(pool: &Pool) -> Box<dyn Work + '_> {
    use aws_lc_rs::signature::ECDSA_P256_SHA256_FIXED;
    let parse = |key: &lineside_verify::PublicKey| {
        let point = key.to_sec1_uncompressed();
        ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).expect("the key is on the curve")
    };
    let keys: Vec<ParsedPublicKey> = pool.keys.iter().map(parse).collect();
    let import = |digest| Digest::import_less_safe(digest, &SHA256).expect("32 bytes");
    let digests: Vec<Digest> = pool.signed.iter().map(|signed| import(&signed.digest)).collect();
    Library::boxed(pool, move |at| {
        let signed = &pool.signed[at];
        keys[signed.key]
            .verify_digest_sig(&digests[at], &signed.signature)
            .is_ok()
    })
}

/// Returns the library ring, which hashes the 32 bytes of the message and parses the key in each call, because it has
/// no other interface.
pub(super) fn ring(pool: &Pool) -> Box<dyn Work + '_> {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    let key = |key: &lineside_verify::PublicKey| {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.to_sec1_uncompressed())
    };
    let keys: Vec<_> = pool.keys.iter().map(key).collect();
    Library::boxed(pool, move |at| {
        let signed = &pool.signed[at];
        keys[signed.key]
            .verify(&signed.message, &signed.signature)
            .is_ok()
    })
}

/// Returns libsecp256k1 with a context for verification only; keys are parsed before the measurement.
pub(super) fn libsecp256k1(pool: &Pool) -> Box<dyn Work + '_> {
    use secp256k1::{Message, PublicKey, Secp256k1, ecdsa::Signature};
    let parse = |key: &lineside_verify::PublicKey| {
        PublicKey::from_slice(&key.to_sec1_uncompressed()).expect("the key is on the curve")
    };
    let keys: Vec<PublicKey> = pool.keys.iter().map(parse).collect();
    let context = Secp256k1::verification_only();
    Library::boxed(pool, move |at| {
        let signed = &pool.signed[at];
        let message = Message::from_digest(signed.digest);
        Signature::from_compact(&signed.signature).is_ok_and(|signature| {
            context
                .verify_ecdsa(&message, &signature, &keys[signed.key])
                .is_ok()
        })
    })
}

/// Returns a verifier without tables of its own; it has only the tables that all verifiers of the process share.
pub(super) fn fresh(backend: Backend) -> Verifier {
    let options = Options {
        backend: Some(backend),
        ..Options::default()
    };
    Verifier::new(options).expect("only back ends that this processor supports take part")
}

/// Verifier of Lineside, with its position in the pool of signatures.
struct LinesideVerifier<'a> {
    verifier: Verifier,
    pool: &'a Pool,
    wrong: WrongReplies,
    items: Vec<Item<'a>>,
    expected: Vec<bool>,
    verdicts: Vec<Verdict>,
    batch: usize,
    at: usize,
}

impl<'a> LinesideVerifier<'a> {
    fn new(verifier: Verifier, pool: &'a Pool, batch: usize) -> Self {
        Self {
            verifier,
            pool,
            wrong: WrongReplies::default(),
            items: pool.items(),
            expected: pool.expected(),
            verdicts: Vec::with_capacity(batch),
            batch,
            at: 0,
        }
    }

    /// Verifies the next batch. The last batch of the pool may be smaller.
    #[inline]
    fn batch(&mut self) -> StepWork {
        let end = (self.at + self.batch).min(self.items.len());
        let range = self.at..end;
        self.verifier
            .verify_batch_into(&self.items[range.clone()], &mut self.verdicts);
        let expected = &self.expected[range.clone()];
        let pairs = self.verdicts.iter().zip(expected);
        let wrong = pairs.filter(|(verdict, expected)| verdict.is_valid() != **expected);
        let mismatches = wrong.count() as u64;
        if mismatches > 0 {
            let pairs = range.clone().zip(self.verdicts.iter().zip(expected));
            for (at, (verdict, expected)) in pairs {
                if verdict.is_valid() != *expected {
                    self.wrong.add(|| described(self.pool, at, *expected));
                }
            }
        }
        self.at = end % self.items.len();
        StepWork {
            count: range.len() as u64,
            mismatches,
        }
    }
}

/// Verifies signatures of the pool until every key was used `uses` times and a whole pass over the pool has built no
/// more tables. Adds wrong verdicts to `wrong`.
pub(super) fn warm_keeping(
    verifier: &Verifier,
    pool: &Pool,
    batch: usize,
    uses: u64,
    wrong: &mut WrongReplies,
) -> StepWork {
    let mut ours = LinesideVerifier::new(verifier.clone(), pool, batch);
    let mut done = StepWork::default();
    let wanted = uses * pool.keys.len() as u64;
    loop {
        let builds = verifier.stats().builds;
        done += ours.batch();
        while ours.at > 0 {
            done += ours.batch();
        }
        if done.count >= wanted && verifier.stats().builds == builds {
            wrong.extend(&ours.wrong);
            return done;
        }
    }
}

/// Does the work of [`warm_keeping`], and only counts wrong verdicts.
#[cfg(test)]
pub(super) fn warm(verifier: &Verifier, pool: &Pool, batch: usize, uses: u64) -> StepWork {
    warm_keeping(verifier, pool, batch, uses, &mut WrongReplies::default())
}

/// Verifier that has already built the tables of all keys.
struct Warm<'a>(LinesideVerifier<'a>);

/// Returns work with a verifier that has built its tables (see [`Warm`]), and batches of `batch` signatures. With 1, it
/// calls [`Verifier::verify`].
pub(super) fn with_tables<'a>(verifier: &Verifier, pool: &'a Pool, batch: usize) -> Box<dyn Work + 'a> {
    Box::new(Warm(LinesideVerifier::new(verifier.clone(), pool, batch)))
}

impl Work for Warm<'_> {
    fn wrong(&self) -> WrongReplies {
        self.0.wrong.clone()
    }

    /// Other contestants have filled the CPU's caches since the last slice. Some hundred signatures are therefore
    /// verified first, outside of the measured time.
    fn prepare(&mut self) -> StepWork {
        let mut done = StepWork::default();
        while done.count < 256 {
            done += self.step();
        }
        done
    }

    fn step(&mut self) -> StepWork {
        if self.0.batch > 1 {
            return self.0.batch();
        }
        let ours = &mut self.0;
        let at = ours.at;
        ours.at = (at + 1) % ours.items.len();
        let wrong = ours.verifier.verify(&ours.items[at]).is_valid() != ours.expected[at];
        if wrong {
            ours.wrong.add(|| described(ours.pool, at, ours.expected[at]));
        }
        StepWork {
            count: 1,
            mismatches: u64::from(wrong),
        }
    }
}

/// Verifier for new keys. Each slice gets a fresh verifier, which has the table of the generator but no table of a key.
struct Fresh<'a> {
    ours: LinesideVerifier<'a>,
    /// Number of signatures verified in this slice; `most` is its maximum.
    count: usize,
    most: usize,
    /// True if all `most` signatures are verified, however long that takes.
    all: bool,
}

/// Returns work with 16 keys that have no tables at first, so that building the tables is included. Each slice verifies
/// the first `most` signatures of the pool.
pub(super) fn from_cold(backend: Backend, pool: &Pool, batch: usize, most: usize) -> Box<dyn Work + '_> {
    let mut ours = LinesideVerifier::new(fresh(backend), pool, batch);
    ours.items.truncate(most);
    let most = ours.items.len();
    Box::new(Fresh {
        ours,
        count: 0,
        most,
        all: true,
    })
}

/// Returns work whose signatures all have different keys, so the verifier has seen no key before and has no table for
/// it.
pub(super) fn unknown(backend: Backend, pool: &Pool, batch: usize) -> Box<dyn Work + '_> {
    let ours = LinesideVerifier::new(fresh(backend), pool, batch);
    // A slice may begin anywhere in the pool, after one batch that is not measured.
    let most = ours.items.len().saturating_sub(batch);
    Box::new(Fresh {
        ours,
        count: 0,
        most,
        all: false,
    })
}

impl Work for Fresh<'_> {
    fn wrong(&self) -> WrongReplies {
        self.ours.wrong.clone()
    }

    fn prepare(&mut self) -> StepWork {
        self.ours.verifier = fresh(self.ours.verifier.backend());
        self.count = 0;
        if self.all {
            self.ours.at = 0;
            return StepWork::default();
        }
        self.ours.batch()
    }

    fn step(&mut self) -> StepWork {
        let done = self.ours.batch();
        self.count += done.count as usize;
        done
    }

    fn is_over(&self, spent: bool) -> bool {
        self.count >= self.most || (spent && !self.all)
    }
}
