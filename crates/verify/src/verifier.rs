//! Batches of any size, of any keys, on one back end, with one cache of tables.

use crate::backend::{Backend, BackendUnavailable, Machine, lock, machine};
use crate::cache::Cache;
use crate::curve::{Curve, P256, Params, Secp256k1};
use crate::engine::{self, CHUNK, Job, Tally};
use crate::generator::Generator;
use crate::item::{Item, Verdict};
use crate::key::PublicKey;
use crate::sightings::Hasher;
use crate::table::Table;
use crate::uint::{U256, at_least, from_be_bytes, sub};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Who builds tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
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
    /// Tables that go while a batch uses them live on until it is done, and do not count.
    pub table_bytes: usize,
    /// Percent of the keys' bytes for those that are used much: 75. Only the rest is there for keys that are not.
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
    /// Of those, ones that needed formulas for exceptional cases. Nobody meets them by chance.
    pub exceptional: u64,
    /// Signatures whose key had a table when they came.
    pub table_hits: u64,
    /// Tables built, the generators' not counted.
    pub builds: u64,
    /// Tables that made room for others. One that a larger one of its key replaced is not counted.
    pub evictions: u64,
    /// Tables not built, because nothing there was used less.
    pub refusals: u64,
    /// Bytes of tables, those being built and the generators' included. Never above [`Options::table_bytes`].
    pub table_bytes: usize,
    /// Tables of keys.
    pub tables: usize,
    /// Keys that are used much.
    pub protected_keys: usize,
    /// Builds that wait for [`Verifier::build_pending`].
    pub pending_builds: usize,
}

#[derive(Default)]
struct Counters {
    by_form: AtomicU64,
    by_table: AtomicU64,
    by_generic: AtomicU64,
    by_library: AtomicU64,
    exceptional: AtomicU64,
    table_hits: AtomicU64,
}

/// Verifies signatures. Clones share everything: one for all threads does, each with its own batches.
#[derive(Clone)]
pub struct Verifier {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    low_s: bool,
    builds: Builds,
    hasher: Hasher,
    /// P-256 and secp256k1; none where a library does it all.
    curves: Option<[OverCurve; 2]>,
    cache: Mutex<Cache<Arc<Table>>>,
    counters: Counters,
}

struct OverCurve {
    machine: Box<dyn Machine>,
    generator: Generator,
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
                generator: Generator::new(backend, curve, width),
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
            cache: Mutex::new(Cache::new(keys_bytes, options.protected_percent, Table::bytes)),
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

    /// The verdict for one signature; ten times the work of one in a batch.
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

    /// Builds up to `limit` tables that are wanted, on this thread, and says how many it built. Others verify meanwhile.
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
        while built < limit && self.inner.build_next() {
            built += 1;
        }
        built
    }
}

/// The items of one chunk that are left to the engine, and their keys.
struct Chunk<'a> {
    parsed: Vec<Parsed>,
    keys: Distinct<'a>,
}

struct Parsed {
    index: usize,
    r: U256,
    s: U256,
    key: u16,
}

/// Each key once, and how often it comes.
struct Distinct<'a> {
    keys: Vec<(&'a PublicKey, u64, u64)>,
    /// Where in `keys`, plus one, by hash; linear probing, half full at most.
    places: [u16; 2 * CHUNK],
}

impl<'a> Distinct<'a> {
    fn clear(&mut self) {
        self.keys.clear();
        self.places = [0; 2 * CHUNK];
    }

    /// Counts a key, and says which one it is.
    #[inline(always)]
    fn add(&mut self, key: &'a PublicKey, hash: u64) -> u16 {
        // The low bits choose among the sightings' sets.
        let mut place = (hash >> 32) as usize % (2 * CHUNK);
        loop {
            let at = self.places[place];
            if at == 0 {
                self.keys.push((key, hash, 1));
                self.places[place] = self.keys.len() as u16;
                return self.keys.len() as u16 - 1;
            }
            let (other, its_hash, count) = &mut self.keys[usize::from(at) - 1];
            if *its_hash == hash && (std::ptr::eq(*other, key) || *other == key) {
                *count += 1;
                return at - 1;
            }
            place = (place + 1) % (2 * CHUNK);
        }
    }
}

impl Inner {
    fn verify_curve(&self, curve: Curve, items: &[Item<'_>], verdicts: &mut [Verdict]) {
        let room = items.len().min(CHUNK);
        let mut chunk = Chunk {
            parsed: Vec::new(),
            keys: Distinct {
                keys: Vec::new(),
                places: [0; 2 * CHUNK],
            },
        };
        let order = order(curve);
        let mut by_form = 0;
        for (index, item) in items.iter().enumerate() {
            if item.key.curve() != curve {
                continue;
            }
            let (r, s) = match self.parse(item, order) {
                Ok(numbers) => numbers,
                Err(verdict) => {
                    by_form += 1;
                    verdicts[index] = verdict;
                    continue;
                }
            };
            if chunk.parsed.is_empty() {
                chunk.parsed.reserve(room);
            }
            let key = chunk.keys.add(item.key, self.hasher.hash(item.key));
            chunk.parsed.push(Parsed { index, r, s, key });
            if chunk.parsed.len() == CHUNK {
                self.verify_chunk(curve, items, &chunk, verdicts);
                chunk.parsed.clear();
                chunk.keys.clear();
            }
        }
        if !chunk.parsed.is_empty() {
            self.verify_chunk(curve, items, &chunk, verdicts);
        }
        if by_form > 0 {
            self.counters.by_form.fetch_add(by_form, Relaxed);
        }
    }

    /// r and s, or the verdict where they say enough.
    #[inline(always)]
    fn parse(&self, item: &Item<'_>, order: &U256) -> Result<(U256, U256), Verdict> {
        let signature = item.signature.parse().map_err(Verdict::Malformed)?;
        let (r, s) = (from_be_bytes(&signature.r), from_be_bytes(&signature.s));
        let in_range = match item.key.curve() {
            Curve::P256 => engine::in_range::<P256>(&r, &s),
            Curve::Secp256k1 => engine::in_range::<Secp256k1>(&r, &s),
        };
        if !in_range {
            return Err(Verdict::Invalid);
        }
        // Above n/2, which is no integer: above n - s.
        if self.low_s && !at_least(&sub(order, &s).0, &s) {
            return Err(Verdict::HighS);
        }
        Ok((r, s))
    }

    fn verify_chunk(&self, curve: Curve, items: &[Item<'_>], chunk: &Chunk<'_>, verdicts: &mut [Verdict]) {
        let Some(curves) = &self.curves else {
            return self.verify_by_library(items, chunk, verdicts);
        };
        let over = &curves[curve as usize];
        let generator = over
            .generator
            .table(&*over.machine, chunk.parsed.len() as u64, self.builds);
        let tables = self.tables(&chunk.keys.keys);
        let mut hits = 0;
        let mut jobs = Vec::with_capacity(chunk.parsed.len());
        jobs.extend(chunk.parsed.iter().map(|parsed| {
            let item = &items[parsed.index];
            let table = tables[usize::from(parsed.key)].as_deref();
            hits += u64::from(table.is_some());
            Job {
                index: parsed.index,
                r: parsed.r,
                s: parsed.s,
                z: from_be_bytes(&item.digest),
                key: item.key.point(),
                table,
            }
        }));
        let tally = over.machine.verify(&generator, &mut jobs, &mut |index, valid| {
            verdicts[index] = if valid { Verdict::Valid } else { Verdict::Invalid };
        });
        self.count(hits, &tally);
    }

    fn count(&self, hits: u64, tally: &Tally) {
        let Counters {
            by_table,
            by_generic,
            exceptional,
            table_hits,
            ..
        } = &self.counters;
        by_table.fetch_add(tally.known as u64, Relaxed);
        by_generic.fetch_add(tally.unknown as u64, Relaxed);
        exceptional.fetch_add(tally.exceptional as u64, Relaxed);
        table_hits.fetch_add(hits, Relaxed);
    }

    /// The tables of keys; where builds are inline, wanted ones are built first.
    fn tables(&self, keys: &[(&PublicKey, u64, u64)]) -> Vec<Option<Arc<Table>>> {
        let mut tables = Vec::with_capacity(keys.len());
        let mut pending = Vec::new();
        let mut cache = lock(&self.cache);
        for (at, (key, hash, uses)) in keys.iter().enumerate() {
            let found = cache.look_up(key, *hash, *uses);
            tables.push(found.value);
            if found.pending {
                pending.push(at);
            }
        }
        drop(cache);
        if self.builds == Builds::Inline && !pending.is_empty() {
            while self.build_next() {}
            let cache = lock(&self.cache);
            for at in pending {
                let (key, hash, _) = keys[at];
                tables[at] = cache.get(key, hash).or(tables[at].take());
            }
        }
        tables
    }

    /// Builds the next wanted table, if there is one.
    fn build_next(&self) -> bool {
        let Some(curves) = &self.curves else { return false };
        let Some(build) = lock(&self.cache).next_build() else {
            return false;
        };
        let machine = &curves[build.key.curve() as usize].machine;
        let table = Arc::new(machine.build(&build.key.point(), build.width));
        lock(&self.cache).finish_build(build, table);
        true
    }

    #[cfg(feature = "library")]
    fn verify_by_library(&self, items: &[Item<'_>], chunk: &Chunk<'_>, verdicts: &mut [Verdict]) {
        use crate::uint::to_be_bytes;
        for parsed in &chunk.parsed {
            let item = &items[parsed.index];
            let (r, s) = (to_be_bytes(&parsed.r), to_be_bytes(&parsed.s));
            let valid = crate::library::verify(item.key, &item.digest, &r, &s);
            verdicts[parsed.index] = if valid { Verdict::Valid } else { Verdict::Invalid };
        }
        self.counters
            .by_library
            .fetch_add(chunk.parsed.len() as u64, Relaxed);
    }

    #[cfg(not(feature = "library"))]
    fn verify_by_library(&self, _: &[Item<'_>], _: &Chunk<'_>, _: &mut [Verdict]) {
        unreachable!("every back end of this build has tables");
    }
}

fn order(curve: Curve) -> &'static U256 {
    match curve {
        Curve::P256 => &P256::N,
        Curve::Secp256k1 => &Secp256k1::N,
    }
}
