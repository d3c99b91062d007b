//! Who verifies: libraries, a signature at a time; our back ends, in batches.

use super::workload::Pool;
use aws_lc_rs::digest::{Digest, SHA256};
use aws_lc_rs::signature::ParsedPublicKey;
use lineside_verify::{Backend, Item, Options, Verdict, Verifier};
use std::ops::AddAssign;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Signatures verified, or messages hashed.
    pub(super) count: u64,
    /// Verdicts, or digests, that are not as expected.
    pub(super) mismatches: u64,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.mismatches += other.mismatches;
    }
}

/// What a slice measures.
pub(super) trait Work {
    /// Before a slice, not measured. What it verifies is checked, too.
    fn prepare(&mut self) -> Done {
        Done::default()
    }

    /// One batch or one call, checked: a comparison of a verdict is a hundredth of the least verification.
    fn step(&mut self) -> Done;

    /// Whether the slice is over, its time being spent or not.
    fn is_over(&self, spent: bool) -> bool {
        spent
    }

    /// After a slice, not measured: what was not checked in `step`.
    fn settle(&mut self) -> u64 {
        0
    }
}

/// A library, by a function from the signature's place in the pool to its verdict.
pub(super) struct Library<F> {
    verify: F,
    expected: Vec<bool>,
    at: usize,
}

impl<F: Fn(usize) -> bool> Library<F> {
    fn boxed<'a>(pool: &Pool, verify: F) -> Box<dyn Work + 'a>
    where
        F: 'a,
    {
        Box::new(Self {
            verify,
            expected: pool.expected(),
            at: 0,
        })
    }
}

/// Signatures that a library verifies before a slice: its code and its table of the generator are in the caches then.
const WARM_UP_SIGNATURES: usize = 16;

impl<F: Fn(usize) -> bool> Work for Library<F> {
    fn prepare(&mut self) -> Done {
        let mut done = Done::default();
        for _ in 0..WARM_UP_SIGNATURES {
            done += self.step();
        }
        done
    }

    fn step(&mut self) -> Done {
        let at = self.at;
        self.at = (at + 1) % self.expected.len();
        let wrong = (self.verify)(at) != self.expected[at];
        Done {
            count: 1,
            mismatches: u64::from(wrong),
        }
    }
}

/// aws-lc-rs with keys parsed before and the digest given: its best.
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

/// ring, which hashes the 32 bytes of the message and parses the key itself: it offers nothing else.
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

/// libsecp256k1 with keys parsed before and a context that can only verify.
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

/// A verifier with nothing but what all verifiers of the process share.
pub(super) fn fresh(backend: Backend) -> Verifier {
    let options = Options {
        backend: Some(backend),
        ..Options::default()
    };
    Verifier::new(options).expect("only back ends that run here take part")
}

/// Our verifier, and where in the pool it is.
struct Ours<'a> {
    verifier: Verifier,
    items: Vec<Item<'a>>,
    expected: Vec<bool>,
    verdicts: Vec<Verdict>,
    batch: usize,
    at: usize,
}

impl<'a> Ours<'a> {
    fn new(verifier: Verifier, pool: &'a Pool, batch: usize) -> Self {
        Self {
            verifier,
            items: pool.items(),
            expected: pool.expected(),
            verdicts: Vec::with_capacity(batch),
            batch,
            at: 0,
        }
    }

    /// Verifies the next batch. The last of the pool may be smaller.
    #[inline]
    fn batch(&mut self) -> Done {
        let end = (self.at + self.batch).min(self.items.len());
        let range = self.at..end;
        self.verifier
            .verify_batch_into(&self.items[range.clone()], &mut self.verdicts);
        let expected = &self.expected[range.clone()];
        let pairs = self.verdicts.iter().zip(expected);
        let wrong = pairs.filter(|(verdict, expected)| verdict.is_valid() != **expected);
        let mismatches = wrong.count() as u64;
        self.at = end % self.items.len();
        Done {
            count: range.len() as u64,
            mismatches,
        }
    }
}

/// Feeds the pool until every key was used `uses` times and a whole round of the pool has built nothing more.
pub(super) fn warm(verifier: &Verifier, pool: &Pool, batch: usize, uses: u64) -> Done {
    let mut ours = Ours::new(verifier.clone(), pool, batch);
    let mut done = Done::default();
    let wanted = uses * pool.keys.len() as u64;
    loop {
        let builds = verifier.stats().builds;
        done += ours.batch();
        while ours.at > 0 {
            done += ours.batch();
        }
        if done.count >= wanted && verifier.stats().builds == builds {
            return done;
        }
    }
}

/// Keys whose tables are there: by a verifier that was warmed.
struct Warm<'a>(Ours<'a>);

/// See [`Warm`]; batches of `batch`, 1 for calls of [`Verifier::verify`].
pub(super) fn with_tables<'a>(verifier: &Verifier, pool: &'a Pool, batch: usize) -> Box<dyn Work + 'a> {
    Box::new(Warm(Ours::new(verifier.clone(), pool, batch)))
}

impl Work for Warm<'_> {
    /// Others have filled the caches since: some hundred signatures that are not measured.
    fn prepare(&mut self) -> Done {
        let mut done = Done::default();
        while done.count < 256 {
            done += self.step();
        }
        done
    }

    fn step(&mut self) -> Done {
        if self.0.batch > 1 {
            return self.0.batch();
        }
        let ours = &mut self.0;
        let at = ours.at;
        ours.at = (at + 1) % ours.items.len();
        let wrong = ours.verifier.verify(&ours.items[at]).is_valid() != ours.expected[at];
        Done {
            count: 1,
            mismatches: u64::from(wrong),
        }
    }
}

/// Keys that are new: each slice has a fresh verifier, which finds the generator's table but no key's.
struct Fresh<'a> {
    ours: Ours<'a>,
    /// Signatures of this slice, and how many it may have at most.
    count: usize,
    most: usize,
    /// Whether all `most` are wanted, however long they take.
    all: bool,
}

/// 16 keys from cold, the builds of their tables counted: the pool's first `most` signatures, always all of them.
pub(super) fn from_cold(backend: Backend, pool: &Pool, batch: usize, most: usize) -> Box<dyn Work + '_> {
    let mut ours = Ours::new(fresh(backend), pool, batch);
    ours.items.truncate(most);
    let most = ours.items.len();
    Box::new(Fresh {
        ours,
        count: 0,
        most,
        all: true,
    })
}

/// Every signature by another key, none of which comes twice.
pub(super) fn unknown(backend: Backend, pool: &Pool, batch: usize) -> Box<dyn Work + '_> {
    let ours = Ours::new(fresh(backend), pool, batch);
    // A slice may begin anywhere in the pool, after a batch that is not measured.
    let most = ours.items.len().saturating_sub(batch);
    Box::new(Fresh {
        ours,
        count: 0,
        most,
        all: false,
    })
}

impl Work for Fresh<'_> {
    fn prepare(&mut self) -> Done {
        self.ours.verifier = fresh(self.ours.verifier.backend());
        self.count = 0;
        if self.all {
            self.ours.at = 0;
            return Done::default();
        }
        self.ours.batch()
    }

    fn step(&mut self) -> Done {
        let done = self.ours.batch();
        self.count += done.count as usize;
        done
    }

    fn is_over(&self, spent: bool) -> bool {
        self.count >= self.most || (spent && !self.all)
    }
}
