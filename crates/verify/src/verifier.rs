//! The verifier, which verifies batches of any size with any keys, on one backend, with one cache of tables.

use crate::admission_counter::Hasher;
use crate::backend::{Backend, BackendUnavailable, lock, machine};
use crate::batch::{Counters, Inner, OverCurve};
use crate::cache::Cache;
use crate::curve::Curve;
use crate::generator::Generator;
use crate::item::{Item, Verdict};
use crate::key::PublicKey;
use crate::prepared_key::{PrepareError, PreparedKey};
use crate::table::Table;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Choice of the thread that builds tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Builds {
    /// The thread that verifies a batch builds tables before it verifies.
    #[default]
    Inline,
    /// The thread that calls [`Verifier::build_pending`] builds tables; until then, keys use the tables that they have.
    Deferred,
}

/// Options of a [`Verifier`]: its resources and its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Backend to use; `None` means [`Backend::best`].
    pub backend: Option<Backend>,
    /// Maximum number of bytes of all tables; the default is 256 MiB. The tables of the generators take up to a quarter
    /// of it, and at least 104 KiB.
    ///
    /// Two kinds of memory are not included: a table that is evicted while a batch uses it lives until the batch is
    /// done; and with AVX-512, the process has a table of 256 KiB for each curve, for single signatures by keys without
    /// a table.
    pub table_bytes: usize,
    /// Percentage of the bytes for keys' tables that is reserved for keys with many valid signatures and for prepared
    /// keys; the default is 75. The tables of other keys have the rest. With 0, no key gets more than the smallest
    /// table, and no key can be prepared; with 100 or more, a key gets its first table only after many valid
    /// signatures.
    pub protected_percent: u8,
    /// True to refuse an s above n/2, as Bitcoin's policy, Ethereum (EIP-2) and Fabric do; the default is false.
    pub low_s: bool,
    /// Choice of the thread that builds tables; the default is the verifying thread.
    pub builds: Builds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: None,
            table_bytes: 256 << 20,
            protected_percent: 75,
            low_s: false,
            builds: Builds::Inline,
        }
    }
}

/// Numbers of events since a verifier was created, and the current content of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of signatures: the sum of the next four counts.
    pub signatures: u64,
    /// Number of signatures that were decided by their form alone: they were malformed, r or s was out of range, or s
    /// was high and the options refuse a high s.
    pub by_form: u64,
    /// Number of signatures that were verified with the table of their key.
    pub by_table: u64,
    /// Number of signatures that were verified without a table.
    pub by_generic: u64,
    /// Number of signatures that a library verified (backend `library`).
    pub by_library: u64,
    /// Number of signatures that led to exceptional cases: tables left them undecided, or they needed the complete
    /// formulas. Each is counted once. They do not occur by chance, but anyone can construct them.
    pub exceptional: u64,
    /// Number of signatures whose key had a table when they arrived.
    pub table_hits: u64,
    /// Number of tables that were built, without the tables of the generators.
    pub builds: u64,
    /// Number of tables that were evicted for others. A table that is replaced by a larger one of the same key is not
    /// counted.
    pub evictions: u64,
    /// Number of tables that were not built, because no existing table was used less.
    pub refusals: u64,
    /// Bytes of all tables, including those being built and those of the generators. The value is never above
    /// [`Options::table_bytes`] or 104 KiB, whichever is greater.
    pub table_bytes: usize,
    /// Number of precomputed tables for public keys.
    pub tables: usize,
    /// Number of protected keys: keys with many valid signatures, whose tables are in the reserved bytes.
    pub protected_keys: usize,
    /// Number of prepared keys, for which at least one [`PreparedKey`] exists.
    pub prepared_keys: usize,
    /// Number of builds that wait for [`Verifier::build_pending`].
    pub pending_builds: usize,
}

/// Verifier of signatures. Clones share all state, so one verifier is enough for all threads; each thread gives it its
/// own batches.
#[derive(Clone)]
pub struct Verifier {
    inner: Arc<Inner>,
}

impl Default for Verifier {
    /// Creates a verifier with default options, which use the best available backend.
    fn default() -> Self {
        match Self::new(Options::default()) {
            Ok(verifier) => verifier,
            Err(error) => unreachable!("the best backend is available: {error}"),
        }
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier")
            .field("backend", &self.inner.backend)
            .field("stats", &self.stats())
            .finish()
    }
}

impl Verifier {
    /// Creates a verifier that has no tables yet. Returns an error if this CPU or this build does not support
    /// `options.backend`.
    pub fn new(options: Options) -> Result<Self, BackendUnavailable> {
        let backend = options.backend.unwrap_or_else(Backend::best);
        let width = Generator::width_for(options.table_bytes);
        let over = |curve| -> Result<_, BackendUnavailable> {
            Ok(machine(backend, curve)?.map(|machine| OverCurve {
                machine,
                generator: Generator::new(backend, width),
            }))
        };
        let curves = over(Curve::P256)?
            .zip(over(Curve::Secp256k1)?)
            .map(|(a, b)| [a, b]);
        let keys_bytes = options.table_bytes.saturating_sub(2 * Table::bytes(width));
        let inner = Inner {
            backend,
            low_s: options.low_s,
            builds: options.builds,
            hasher: Hasher::new(),
            curves,
            cache: Mutex::new(Cache::new(
                keys_bytes,
                options.protected_percent,
                backend.first_uses(),
                Table::bytes,
            )),
            counters: Counters::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Returns one verdict for each item, in the same order.
    ///
    /// The larger a batch is, the less time each of its signatures takes, up to some hundred signatures. Larger batches
    /// are split.
    pub fn verify_batch(&self, items: &[Item<'_>]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        self.verify_batch_into(items, &mut verdicts);
        verdicts
    }

    /// Verifies a batch like [`verify_batch`](Self::verify_batch), and replaces the content of `verdicts` by the
    /// result.
    pub fn verify_batch_into(&self, items: &[Item<'_>], verdicts: &mut Vec<Verdict>) {
        verdicts.clear();
        verdicts.resize(items.len(), Verdict::Invalid);
        for curve in [Curve::P256, Curve::Secp256k1] {
            self.inner.verify_curve(curve, items, verdicts);
        }
    }

    /// Returns the verdict for one signature. With AVX-512, this takes more than ten times as long as a signature in a
    /// batch, because most lanes are empty, and longer than with the portable backend.
    pub fn verify(&self, item: &Item<'_>) -> Verdict {
        let mut verdicts = Vec::with_capacity(1);
        self.verify_batch_into(std::slice::from_ref(item), &mut verdicts);
        verdicts.pop().unwrap_or(Verdict::Invalid)
    }

    /// Builds the tables of keys before their first signatures, on this thread, and returns a handle for each key, in
    /// the same order. The tables exist until the handles are dropped.
    ///
    /// `expected_signatures` is the number of signatures that the caller expects of each key. It determines the size
    /// of the tables: 53 kB below 256 signatures, 262 kB below 2,048, 852 kB below 16,384, and 5.2 MB above. If tables
    /// of this size do not fit, all keys of the call get the next smaller size that fits. The size of a prepared table
    /// does not change later. A key that has a handle already keeps its table.
    ///
    /// The tables take part of the bytes that [`Options::table_bytes`] and [`Options::protected_percent`] reserve for
    /// keys with many signatures, of which less is left for other keys. With the default options 151 MB can be
    /// prepared. If not even the smallest tables fit, the function returns an error and prepares no key of the call.
    ///
    /// ```
    /// use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verifier};
    /// # let generator = [
    /// #     0x03, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5, 0x63, 0xa4, 0x40, 0xf2,
    /// #     0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4, 0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96,
    /// # ];
    /// # let (digest, signature) = ([7; 32], [1; 64]);
    ///
    /// let verifier = Verifier::default();
    /// let key = PublicKey::from_sec1(Curve::P256, &generator)?;
    /// let validators = verifier.prepare(&[key], 1_000)?;
    /// assert_eq!(validators[0].table_bytes(), 262_144);
    ///
    /// let item = Item { key: &validators[0], digest, signature: SignatureBytes::Compact(&signature) };
    /// assert!(!verifier.verify(&item).is_valid());
    /// assert_eq!(verifier.stats().by_table, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prepare(
        &self,
        keys: &[PublicKey],
        expected_signatures: u64,
    ) -> Result<Vec<PreparedKey>, PrepareError> {
        self.inner.prepare(keys, expected_signatures)
    }

    /// Returns the backend in use.
    pub fn backend(&self) -> Backend {
        self.inner.backend
    }

    /// Returns the current counts. While other threads verify, they may be inconsistent with each other.
    pub fn stats(&self) -> Stats {
        let inner = &*self.inner;
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let counts = lock(&inner.cache).counts();
        let generators = inner.curves.iter().flatten().map(|over| &over.generator);
        let [by_form, by_table, by_generic, by_library] = [
            read(&inner.counters.by_form),
            read(&inner.counters.by_table),
            read(&inner.counters.by_generic),
            read(&inner.counters.by_library),
        ];
        Stats {
            signatures: by_form + by_table + by_generic + by_library,
            by_form,
            by_table,
            by_generic,
            by_library,
            exceptional: read(&inner.counters.exceptional),
            table_hits: read(&inner.counters.table_hits),
            builds: counts.builds,
            evictions: counts.evictions,
            refusals: counts.refusals,
            table_bytes: counts.bytes + generators.clone().map(Generator::bytes).sum::<usize>(),
            tables: counts.tables,
            protected_keys: counts.protected,
            prepared_keys: counts.prepared,
            pending_builds: counts.queued + generators.filter(|generator| generator.is_wanted()).count(),
        }
    }

    /// Builds up to `limit` tables of the queue on this thread, and returns the number of built tables. Other threads
    /// can verify at the same time; only the first user of a curve waits, while the small table of the curve's
    /// generator is built.
    pub fn build_pending(&self, limit: usize) -> usize {
        let Some(curves) = &self.inner.curves else {
            return 0;
        };
        let mut built = 0;
        for over in curves {
            if built < limit && over.generator.is_wanted() {
                built += usize::from(over.generator.grow(&*over.machine));
            }
        }
        built + self.inner.build(limit - built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::Signature;
    use crate::item::SignatureBytes;

    /// Returns keys whose points have a small x.
    fn keys(count: usize) -> Vec<PublicKey> {
        let key = |x: u8| {
            let mut compressed = [0; 33];
            (compressed[0], compressed[32]) = (2, x);
            PublicKey::from_sec1(Curve::P256, &compressed).ok()
        };
        (0..=255).filter_map(key).take(count).collect()
    }

    #[test]
    fn a_batch_builds_only_the_number_of_tables_that_it_needs() {
        let keys = keys(30);
        let verifier = Verifier::new(Options {
            backend: Some(Backend::Portable),
            ..Options::default()
        })
        .unwrap();
        let inner = &verifier.inner;
        // Requests of other batches are in the queue before those of this batch.
        for key in &keys[..20] {
            lock(&inner.cache).look_up(key, inner.hasher.hash(key), 100);
        }
        assert_eq!(verifier.stats().pending_builds, 20);
        let mut one = [0; 32];
        one[31] = 1;
        let items: Vec<Item<'_>> = keys[20..]
            .iter()
            .flat_map(|key| [key; 4])
            .map(|key| Item {
                key,
                digest: one,
                signature: SignatureBytes::Parsed(Signature { r: one, s: one }),
            })
            .collect();
        for (items, built, waiting) in [(&items[..8], 2, 20), (&items[8..], 10, 20), (&items[..0], 10, 20)] {
            verifier.verify_batch(items);
            let stats = verifier.stats();
            assert_eq!((stats.builds, stats.pending_builds), (built, waiting));
        }
        assert_eq!(verifier.build_pending(100), 20);
    }
}
