//! Driver that verifies batches on every backend, and compares each verdict with RustCrypto's.
//!
//! This is the driver of the test `differential` and, included by path, of the fuzz target `ecdsa`, whose crate
//! depends on this one.
//!
//! With the feature `library` of lineside-verify, aws-lc-rs and libsecp256k1 are another backend whose verdicts must
//! agree.

pub mod forge;

use forge::{Sample, Spec, random, sample};
use lineside_verify::encoding::{Signature, SignatureError, compact, der};
use lineside_verify::{Backend, Builds, Item, Options, SignatureBytes, Stats, Verdict, Verifier};
use std::sync::{Arc, LazyLock};

/// Batch sizes around the numbers of lanes and chunks, and their multiples.
pub const SIZES: [usize; 18] = [
    1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000,
];

/// Limits for the bytes of tables: enough for no key, for a few keys, or for all keys.
pub const BUDGETS: [usize; 5] = [0, 300 << 10, 1 << 20, 4 << 20, 64 << 20];

/// Minimum size of the generators' tables in bytes.
const LEAST_TABLES: usize = 104 << 10;

/// Maximum number of items of one input.
const ITEMS_MAX: usize = 4096;

/// Unread bytes of the input. After the end of the input, zeros are read, so that every input is a valid program.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        let mut bytes = [0; N];
        bytes[..taken.len()].copy_from_slice(taken);
        self.0 = rest;
        bytes
    }

    fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }
}

/// Verdicts on the items of an input, which are equal on all backends, and the statistics of each backend.
#[derive(Debug, Default)]
pub struct Report {
    pub items: usize,
    pub valid: usize,
    pub invalid: usize,
    pub high_s: usize,
    pub malformed: usize,
    pub stats: Vec<(Backend, Stats)>,
}

/// Item with the data that it borrows, and its expected verdict.
struct Prepared {
    sample: Arc<Sample>,
    form: u8,
    bytes: Vec<u8>,
    expected: Verdict,
}

impl Prepared {
    fn new(spec: Spec, form: u8, low_s: bool) -> Self {
        let sample = sample(spec);
        let signature = Signature {
            r: sample.r,
            s: sample.s,
        };
        let form = form & 7;
        let mut bytes = match form {
            0 | 4 | 7 => compact::write(&signature).to_vec(),
            _ => der::write(&signature).as_bytes().to_vec(),
        };
        let mut malformed = None;
        match form {
            4 => {
                bytes.pop();
                malformed = Some(SignatureError::CompactLength { bytes: 63 });
            }
            5 => {
                bytes.push(0);
                malformed = Some(SignatureError::TrailingAfter);
            }
            6 => bytes.push(0),
            _ => {}
        }
        let expected = match malformed {
            Some(error) => Verdict::Malformed(error),
            None if low_s && sample.is_high() => Verdict::HighS,
            None if sample.valid => Verdict::Valid,
            None => Verdict::Invalid,
        };
        Self {
            sample,
            form,
            bytes,
            expected,
        }
    }

    fn item(&self) -> Item<'_> {
        let Sample {
            key, digest, r, s, ..
        } = &*self.sample;
        let signature = match self.form {
            0 | 4 => SignatureBytes::Compact(&self.bytes),
            1 | 5 => SignatureBytes::Der(&self.bytes),
            2 | 6 => SignatureBytes::GoDer(&self.bytes),
            _ => SignatureBytes::Parsed(Signature { r: *r, s: *s }),
        };
        Item {
            key,
            digest: *digest,
            signature,
        }
    }
}

/// Batch of items, and the number of tables to build after its verification.
struct Batch {
    items: Vec<Prepared>,
    builds: usize,
}

/// Reads an input as a program: four bytes of options, then steps. A step adds one item, adds many items, or ends the
/// batch.
fn batches(bytes: &[u8]) -> (Options, Vec<Batch>) {
    let mut input = Input(bytes);
    let [flags, budget, seed, variety] = input.array();
    let options = Options {
        backend: None,
        table_bytes: BUDGETS[usize::from(budget) % BUDGETS.len()],
        protected_percent: [75, 0, 100, 50][usize::from(flags >> 2 & 3)],
        low_s: flags & 1 == 1,
        builds: if flags & 2 == 0 {
            Builds::Inline
        } else {
            Builds::Deferred
        },
    };
    let (mut batches, mut items, mut count) = (Vec::new(), Vec::new(), 0);
    while !input.0.is_empty() && count < ITEMS_MAX {
        let step = input.byte();
        match step & 7 {
            0..6 => {
                items.push(Prepared::new(input.array(), step >> 3, options.low_s));
                count += 1;
            }
            6 => {
                let size = SIZES[usize::from(input.byte()) % SIZES.len()];
                for _ in 0..size.min(ITEMS_MAX - count) {
                    let random = random(u64::from(seed) << 32 | count as u64);
                    let spec = varied(seed, u16::from_le_bytes([random[0], random[1]]), variety);
                    items.push(Prepared::new(spec, random[2], options.low_s));
                    count += 1;
                }
            }
            _ => batches.push(Batch {
                items: std::mem::take(&mut items),
                builds: usize::from(step >> 3),
            }),
        }
    }
    batches.push(Batch { items, builds: 0 });
    (options, batches)
}

/// Returns the specification of one of 16·2^`variety` samples, of which there are at most 4,096.
fn varied(seed: u8, number: u16, variety: u8) -> Spec {
    let number = u64::from(number) % (16 << (variety % 9));
    let [which, u1, u2, mutation, parameter, noise, ..] = random(u64::from(seed % 4) << 16 | number);
    // The frequencies of keys follow a square law, so that some keys get tables soon and others hardly ever.
    let key = (u16::from(which) * u16::from(which) / 1024) as u8;
    // In a quarter of the samples u₁ is at an edge of its range, and in a quarter u₂ is. The number of the mutation is
    // below 36; about half of these numbers change the signature.
    let u1 = if noise & 3 == 0 { u1 % 24 } else { u1 };
    let u2 = if noise & 12 == 0 { u2 % 16 } else { u2 };
    [key, u1, u2, mutation % 36, parameter, noise]
}

/// Verifiers that live during the whole run, so that the generators' tables, which all verifiers share, are not freed.
static ANCHORS: LazyLock<Vec<Verifier>> = LazyLock::new(|| {
    let any = [0, 1].map(|curve| Prepared::new([curve, 99, 99, 99, 0, 0], 0, false));
    let options = BUDGETS.map(|table_bytes| Options {
        table_bytes,
        ..Options::default()
    });
    let verifiers = options.iter().flat_map(verifiers);
    verifiers
        .inspect(|verifier| drop(verifier.verify_batch(&any.each_ref().map(Prepared::item))))
        .collect()
});

/// Returns a verifier on each backend that this CPU and this build support.
fn verifiers(options: &Options) -> Vec<Verifier> {
    let with = |backend: &Backend| {
        let backend = Some(*backend);
        Verifier::new(Options {
            backend,
            ..options.clone()
        })
        .ok()
    };
    let verifiers: Vec<Verifier> = Backend::ALL.iter().filter_map(with).collect();
    let available = Backend::ALL.iter().filter(|backend| backend.is_available());
    assert_eq!(verifiers.len(), available.count());
    verifiers
}

/// Runs an input on every backend, and checks that each verdict equals RustCrypto's.
pub fn check(bytes: &[u8]) -> Report {
    LazyLock::force(&ANCHORS);
    let (options, batches) = batches(bytes);
    let mut report = Report::default();
    for prepared in batches.iter().flat_map(|batch| &batch.items) {
        report.items += 1;
        *match prepared.expected {
            Verdict::Valid => &mut report.valid,
            Verdict::Invalid => &mut report.invalid,
            Verdict::HighS => &mut report.high_s,
            _ => &mut report.malformed,
        } += 1;
    }
    for verifier in verifiers(&options) {
        let mut verdicts = vec![Verdict::HighS; 3];
        for batch in &batches {
            run(&verifier, batch, &options, &mut verdicts);
        }
        let stats = verifier.stats();
        assert_eq!(stats.signatures, report.items as u64);
        report.stats.push((verifier.backend(), stats));
    }
    report
}

fn run(verifier: &Verifier, batch: &Batch, options: &Options, verdicts: &mut Vec<Verdict>) {
    let items: Vec<Item<'_>> = batch.items.iter().map(Prepared::item).collect();
    verifier.verify_batch_into(&items, verdicts);
    assert_eq!(verdicts.len(), items.len());
    for (at, (prepared, verdict)) in batch.items.iter().zip(&*verdicts).enumerate() {
        let item = &items[at];
        assert_eq!(
            *verdict,
            prepared.expected,
            "{at} of {} on {}: {item:02x?}",
            items.len(),
            verifier.backend()
        );
    }
    verifier.build_pending(batch.builds);
    let stats = verifier.stats();
    assert!(
        stats.table_bytes <= options.table_bytes.max(LEAST_TABLES),
        "{stats:?}"
    );
}

/// Returns programs of a few items each, as seeds for the fuzz target.
pub fn ecdsa_seeds() -> Vec<Vec<u8>> {
    let single = |key: u8, u1: u8, u2: u8, mutation: u8| [0, key, u1, u2, mutation, key, 7];
    let edges = (0..24).map(|u| single(u, u, u % 16, 99));
    let changed = (0..18).map(|mutation| single(40 + mutation, 99, 99, mutation));
    let fitted = (56..64).map(|key| single(key, 0, 0, 99));
    let mut seeds: Vec<Vec<u8>> = [edges.collect(), changed.collect(), fitted.collect::<Vec<_>>()]
        .iter()
        .map(|steps| [&[0, 2, 0, 0][..], &steps.concat()].concat())
        .collect();
    // One key is used four times, so that it has a table for the further items. The first program builds the table at
    // once, the second one later.
    let repeated = [single(33, 3, 99, 99); 4].concat();
    seeds.push([&[0, 2, 0, 0][..], &repeated, &[7], &repeated].concat());
    seeds.push([&[2, 2, 0, 0][..], &repeated, &[15], &repeated].concat());
    seeds.push(vec![1, 1, 1, 0, 6, 8, 7, 6, 4, 7, 6, 2]);
    seeds
}
