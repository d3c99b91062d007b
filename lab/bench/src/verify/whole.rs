//! Work that begins with bytes, as a server receives them: P-256 keys of 33 bytes, messages of 32 bytes, and
//! signatures. Each contestant decodes or looks up the key, hashes the message, and verifies the signature.
//!
//! In the case `seen_once` every key is new, so each contestant decompresses and checks it. In the case `come_back` the
//! keys of 256 accounts are known beforehand: Lineside has prepared them, and aws-lc-rs has parsed them.

use super::contestants::{StepWork, Work, described, fresh};
use super::workload::{Pool, Signed};
use crate::wrong::{WrongReplies, WrongReply, hex};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};
use lineside_verify::{Backend, Curve, Item, PreparedKey, PublicKey, SignatureBytes, Verifier, hash};
use std::ops::Range;

/// Number of signatures by a prepared key that the verifier expects; it selects tables of 262 kB.
const EXPECTED_SIGNATURES: u64 = 1_000;

/// Size of a table for this number of signatures.
const TABLE_BYTES: usize = 262_144;

/// Number of signatures that precede a slice of keys that come back, so that the tables are in the CPU's caches.
const WARM_UP_SIGNATURES: u64 = 256;

/// Position in a pool. A batch never crosses the end of the pool.
struct Position {
    at: usize,
    batch: usize,
    len: usize,
}

impl Position {
    fn new(pool: &Pool, batch: usize) -> Self {
        let len = pool.signed.len();
        Self { at: 0, batch, len }
    }

    fn advance(&mut self) -> Range<usize> {
        let end = (self.at + self.batch).min(self.len);
        let range = self.at..end;
        self.at = end % self.len;
        range
    }
}

/// Compares the verdicts on the signatures `range` of a pool with the expected ones, and keeps wrong ones in `wrong`.
fn done(
    pool: &Pool,
    range: Range<usize>,
    verdicts: impl Iterator<Item = bool>,
    wrong: &mut WrongReplies,
) -> StepWork {
    let count = range.len() as u64;
    let wrong_before = wrong.count;
    for (at, valid) in range.zip(verdicts) {
        let expected = pool.signed[at].valid;
        if valid != expected {
            wrong.add(|| described(pool, at, expected));
        }
    }
    StepWork {
        count,
        mismatches: wrong.count - wrong_before,
    }
}

/// Returns the keys of a pool as bytes.
fn encoded(pool: &Pool) -> Vec<[u8; 33]> {
    pool.keys.iter().map(PublicKey::to_sec1_compressed).collect()
}

fn item<'a>(key: &'a PublicKey, signed: &'a Signed) -> Item<'a> {
    Item {
        key,
        digest: hash::sha256(&signed.message),
        signature: SignatureBytes::Compact(&signed.signature),
    }
}

/// Lineside's verifier with keys that it sees for the first time. Each slice gets a fresh verifier.
struct SeenOnce<'a> {
    verifier: Verifier,
    pool: &'a Pool,
    encoded: Vec<[u8; 33]>,
    position: Position,
    /// Number of signatures verified in this slice. No key may occur twice in a slice.
    count: usize,
    wrong: WrongReplies,
}

/// Returns work in which every signature has a different key, which arrives as bytes.
pub(super) fn seen_once(backend: Backend, pool: &Pool, batch: usize) -> Box<dyn Work + '_> {
    Box::new(SeenOnce {
        verifier: fresh(backend),
        pool,
        encoded: encoded(pool),
        position: Position::new(pool, batch),
        count: 0,
        wrong: WrongReplies::default(),
    })
}

impl Work for SeenOnce<'_> {
    fn wrong(&self) -> WrongReplies {
        self.wrong.clone()
    }

    fn prepare(&mut self) -> StepWork {
        self.verifier = fresh(self.verifier.backend());
        let done = self.step();
        self.count = 0;
        done
    }

    fn step(&mut self) -> StepWork {
        let range = self.position.advance();
        let signed = &self.pool.signed[range.clone()];
        let parse = |signed: &Signed| {
            PublicKey::from_sec1(Curve::P256, &self.encoded[signed.key]).expect("the key is on the curve")
        };
        let keys: Vec<PublicKey> = signed.iter().map(parse).collect();
        let items: Vec<Item<'_>> = keys
            .iter()
            .zip(signed)
            .map(|(key, signed)| item(key, signed))
            .collect();
        let verdicts = self.verifier.verify_batch(&items);
        self.count += signed.len();
        let verdicts = verdicts.into_iter().map(|verdict| verdict.is_valid());
        done(self.pool, range, verdicts, &mut self.wrong)
    }

    fn is_over(&self, spent: bool) -> bool {
        spent || self.count + self.position.batch >= self.position.len
    }
}

/// Lineside's verifier with prepared keys.
struct ComeBack<'a> {
    verifier: Verifier,
    prepared: Vec<PreparedKey>,
    pool: &'a Pool,
    position: Position,
    wrong: WrongReplies,
}

/// Returns work with the keys of the pool, which are prepared.
pub(super) fn come_back(backend: Backend, pool: &Pool, batch: usize) -> Box<dyn Work + '_> {
    let verifier = fresh(backend);
    let prepared = verifier.prepare(&pool.keys, EXPECTED_SIGNATURES);
    Box::new(ComeBack {
        prepared: prepared.expect("the default memory is enough for 256 tables of 262 kB"),
        verifier,
        pool,
        position: Position::new(pool, batch),
        wrong: WrongReplies::default(),
    })
}

impl Work for ComeBack<'_> {
    fn wrong(&self) -> WrongReplies {
        self.wrong.clone()
    }

    fn prepare(&mut self) -> StepWork {
        let mut done = StepWork::default();
        while done.count < WARM_UP_SIGNATURES {
            done += self.step();
        }
        done
    }

    fn step(&mut self) -> StepWork {
        let range = self.position.advance();
        let signed = &self.pool.signed[range.clone()];
        let items: Vec<Item<'_>> = signed
            .iter()
            .map(|signed| item(&self.prepared[signed.key], signed))
            .collect();
        let verdicts = self.verifier.verify_batch(&items).into_iter();
        let verdicts = verdicts.map(|verdict| verdict.is_valid());
        done(self.pool, range, verdicts, &mut self.wrong)
    }
}

/// Verifier that prepares the keys of a pool, eight at a time, and releases them again.
struct Prepare<'a> {
    verifier: Verifier,
    keys: &'a [PublicKey],
    at: usize,
    wrong: WrongReplies,
}

/// Number of keys that are prepared together. It is the number of lanes of AVX-512.
const PREPARED_TOGETHER: usize = 8;

/// Returns work that builds tables of 262 kB. It counts keys instead of signatures, and tables of another size.
pub(super) fn prepare(backend: Backend, pool: &Pool) -> Box<dyn Work + '_> {
    Box::new(Prepare {
        verifier: fresh(backend),
        keys: &pool.keys,
        at: 0,
        wrong: WrongReplies::default(),
    })
}

impl Work for Prepare<'_> {
    fn wrong(&self) -> WrongReplies {
        self.wrong.clone()
    }

    fn step(&mut self) -> StepWork {
        let end = (self.at + PREPARED_TOGETHER).min(self.keys.len());
        let keys = &self.keys[self.at..end];
        self.at = end % self.keys.len();
        let prepared = self
            .verifier
            .prepare(keys, EXPECTED_SIGNATURES)
            .unwrap_or_default();
        let wrong_before = self.wrong.count;
        for (place, key) in keys.iter().enumerate() {
            let table_bytes = prepared.get(place).map(PreparedKey::table_bytes);
            if table_bytes != Some(TABLE_BYTES) {
                self.wrong.add(|| {
                    let request = format!("public key {}", hex(&key.to_sec1_uncompressed()));
                    let reply =
                        table_bytes.map_or("not prepared".to_owned(), |bytes| format!("{bytes} bytes"));
                    WrongReply::new(request, reply, format!("{TABLE_BYTES} bytes"))
                });
            }
        }
        StepWork {
            count: keys.len() as u64,
            mismatches: self.wrong.count - wrong_before,
        }
    }
}

/// The library aws-lc-rs, which verifies one signature at a time.
struct AwsLcRs<'a> {
    pool: &'a Pool,
    encoded: Vec<[u8; 33]>,
    /// Keys that were parsed before the measurement; `None` if each key is parsed when it arrives.
    parsed: Option<Vec<ParsedPublicKey>>,
    position: Position,
    wrong: WrongReplies,
}

/// Returns aws-lc-rs with keys that were parsed before (`come_back`) or that it parses each time (`seen_once`).
pub(super) fn aws_lc_rs(pool: &Pool, come_back: bool) -> Box<dyn Work + '_> {
    let encoded = encoded(pool);
    Box::new(AwsLcRs {
        pool,
        parsed: come_back.then(|| encoded.iter().map(aws_lc_rs_key).collect()),
        encoded,
        position: Position::new(pool, 1),
        wrong: WrongReplies::default(),
    })
}

fn aws_lc_rs_key(encoded: &[u8; 33]) -> ParsedPublicKey {
    ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, encoded).expect("the key is on the curve")
}

impl Work for AwsLcRs<'_> {
    fn wrong(&self) -> WrongReplies {
        self.wrong.clone()
    }

    fn prepare(&mut self) -> StepWork {
        let mut done = StepWork::default();
        while done.count < 16 {
            done += self.step();
        }
        done
    }

    fn step(&mut self) -> StepWork {
        let range = self.position.advance();
        let signed = &self.pool.signed[range.start];
        let verify = |key: &ParsedPublicKey| key.verify_sig(&signed.message, &signed.signature).is_ok();
        let valid = match &self.parsed {
            Some(parsed) => verify(&parsed[signed.key]),
            None => verify(&aws_lc_rs_key(&self.encoded[signed.key])),
        };
        done(self.pool, range, std::iter::once(valid), &mut self.wrong)
    }
}
