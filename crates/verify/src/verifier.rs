//! Batches of any size, of any keys, on one back end, with one cache of tables.

use crate::backend::{Backend, BackendUnavailable, lock, machine};
use crate::batch::{Counters, Inner, OverCurve};
use crate::cache::Cache;
use crate::curve::Curve;
use crate::generator::Generator;
use crate::item::{Item, Verdict};
use crate::sightings::Hasher;
use crate::table::Table;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Who builds tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Builds {
    /// The thread that verifies, before it does.
    #[default]
    Inline,
    /// Whoever calls [`Verifier::build_pending`]; until then, keys do with what they have.
    Deferred,
}

/// What a [`Verifier`] may use, and what it holds a signature to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The back end; `None` for [`Backend::best`].
    pub backend: Option<Backend>,
    /// Bytes of all tables, at most: 256 MiB. The generators' take up to a quarter of them, and 104 KiB at least.
    ///
    /// Tables that go while a batch uses them live on until it is done, and do not count. Nor do 256 KiB for each curve
    /// that the process has, with AVX-512, for signatures that come alone and by keys without a table.
    pub table_bytes: usize,
    /// Percent of the keys' bytes for those that are used much, by valid signatures: 75. Only the rest is
    /// there for keys that are not: with 0, no key gets more than the smallest table; with 100 or more, none gets one
    /// before it is used much.
    pub protected_percent: u8,
    /// Whether an s above n/2 is refused, as Bitcoin's policy, Ethereum (EIP-2) and Fabric do: no.
    pub low_s: bool,
    /// Who builds tables: the thread that verifies.
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

/// Counts since a verifier was made, and what its cache holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Signatures: the sum of the four that follow.
    pub signatures: u64,
    /// Decided by their form alone: malformed, r or s out of range, s high where that is refused.
    pub by_form: u64,
    /// Verified with their key's table.
    pub by_table: u64,
    /// Verified without.
    pub by_generic: u64,
    /// Verified by a library.
    pub by_library: u64,
    /// Signatures that met exceptional cases: that tables left undecided, or that needed the complete formulas, each
    /// counted once. Nobody meets them by chance, but anybody can send them.
    pub exceptional: u64,
    /// Signatures whose key had a table when they came.
    pub table_hits: u64,
    /// Tables built, the generators' not counted.
    pub builds: u64,
    /// Tables that made room for others. One that a larger one of its key replaced is not counted.
    pub evictions: u64,
    /// Tables not built, because nothing there was used less.
    pub refusals: u64,
    /// Bytes of tables, those being built and the generators' included. Never above [`Options::table_bytes`], or above
    /// 104 KiB where that is more.
    pub table_bytes: usize,
    /// Tables of keys.
    pub tables: usize,
    /// Keys that are used much.
    pub protected_keys: usize,
    /// Builds that wait for [`Verifier::build_pending`].
    pub pending_builds: usize,
}

/// Verifies signatures. Clones share everything: one for all threads does, each with its own batches.
#[derive(Clone)]
pub struct Verifier {
    inner: Arc<Inner>,
}

impl Default for Verifier {
    /// With the options' defaults: one of them is the best back end that runs here.
    fn default() -> Self {
        match Self::new(Options::default()) {
            Ok(verifier) => verifier,
            Err(error) => unreachable!("the best back end runs here: {error}"),
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
    /// A verifier without any tables yet. An error where `options.backend` does not run here.
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

    /// One verdict for each item, in their order.
    ///
    /// The larger the batch, the cheaper each signature, up to some hundred; larger ones are cut.
    pub fn verify_batch(&self, items: &[Item<'_>]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        self.verify_batch_into(items, &mut verdicts);
        verdicts
    }

    /// As [`verify_batch`](Self::verify_batch), to a vector whose content is replaced.
    pub fn verify_batch_into(&self, items: &[Item<'_>], verdicts: &mut Vec<Verdict>) {
        verdicts.clear();
        verdicts.resize(items.len(), Verdict::Invalid);
        for curve in [Curve::P256, Curve::Secp256k1] {
            self.inner.verify_curve(curve, items, verdicts);
        }
    }

    /// The verdict for one signature. It costs over ten times what one in a batch costs with AVX-512, whose lanes it
    /// leaves empty, and more than the portable back end takes for it.
    pub fn verify(&self, item: &Item<'_>) -> Verdict {
        let mut verdicts = Vec::with_capacity(1);
        self.verify_batch_into(std::slice::from_ref(item), &mut verdicts);
        verdicts.pop().unwrap_or(Verdict::Invalid)
    }

    /// The back end at work.
    pub fn backend(&self) -> Backend {
        self.inner.backend
    }

    /// The counts as they are now. While other threads verify, they need not fit each other.
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
            pending_builds: counts.queued + generators.filter(|generator| generator.is_wanted()).count(),
        }
    }

    /// Builds up to `limit` tables that are wanted, on this thread, and says how many it built. Others verify
    /// meanwhile; who first uses a curve waits only while its generator's small table is built.
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
    use crate::key::PublicKey;

    /// Points with a little x.
    fn keys(count: usize) -> Vec<PublicKey> {
        let key = |x: u8| {
            let mut compressed = [0; 33];
            (compressed[0], compressed[32]) = (2, x);
            PublicKey::from_sec1(Curve::P256, &compressed).ok()
        };
        (0..=255).filter_map(key).take(count).collect()
    }

    #[test]
    fn a_batch_builds_as_many_tables_as_it_waits_for() {
        let keys = keys(30);
        let verifier = Verifier::new(Options {
            backend: Some(Backend::Portable),
            ..Options::default()
        })
        .unwrap();
        let inner = &verifier.inner;
        // Others' wishes, in the queue before this one's.
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
