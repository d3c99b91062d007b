//! Verification of a batch: splits the batch by curve and into chunks, finds the precomputed tables of
//! the public keys, and calls the engine, which computes the verdicts.

use crate::admission_counter::Hasher;
use crate::backend::{Backend, Machine, lock};
use crate::cache::{Build, Cache, SlotHint};
use crate::curve::{Curve, P256, Params, Secp256k1};
use crate::engine::{self, CHUNK, Job, Tally};
use crate::generator::Generator;
use crate::item::{Item, Verdict};
use crate::key::PublicKey;
use crate::lanes::MAX_LANES;
use crate::prepared_key::{PrepareError, PreparedKey};
use crate::table::Table;
use crate::uint::{U256, at_least, from_be_bytes, sub};
use crate::verifier::Builds;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) by_form: AtomicU64,
    pub(crate) by_table: AtomicU64,
    pub(crate) by_generic: AtomicU64,
    pub(crate) by_library: AtomicU64,
    pub(crate) exceptional: AtomicU64,
    pub(crate) table_hits: AtomicU64,
}

/// State shared by the clones of a verifier.
pub(crate) struct Inner {
    pub(crate) backend: Backend,
    pub(crate) low_s: bool,
    pub(crate) builds: Builds,
    pub(crate) hasher: Hasher,
    /// Engines for P-256 and secp256k1; `None` if the backend is `library`.
    pub(crate) curves: Option<[OverCurve; 2]>,
    pub(crate) cache: Mutex<Cache<Arc<Table>>>,
    pub(crate) counters: Counters,
}

pub(crate) struct OverCurve {
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) generator: Generator,
}

/// Maximum number of tables that are built together, so that their doublings share the lanes of a vector.
const BUILDS_TOGETHER_MAX: usize = MAX_LANES;

/// Items of one chunk that the engine must verify, and their keys.
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

/// Keys of a call of `prepare` that were not prepared before, by their indices.
struct Reserved {
    /// First occurrence of each key. The bytes of its table are reserved.
    new: Vec<usize>,
    /// Further occurrences of the same keys.
    repeated: Vec<usize>,
    /// Width of the new tables.
    width: u32,
}

/// List of the distinct keys of a chunk, each with its number of occurrences.
struct Distinct<'a> {
    keys: Vec<(&'a PublicKey, u64, u64)>,
    /// Hash table with linear probing: index in `keys` plus one, or 0 for an empty bucket. At most half of the buckets
    /// are used.
    buckets: [u16; 2 * CHUNK],
}

impl<'a> Distinct<'a> {
    fn clear(&mut self) {
        self.keys.clear();
        self.buckets = [0; 2 * CHUNK];
    }

    /// Counts a key and returns its index.
    #[inline(always)]
    fn add(&mut self, key: &'a PublicKey, hash: u64) -> u16 {
        // The upper bits of the hash select the bucket, because the low bits already select the set in the admission
        // counter.
        let mut bucket = (hash >> 32) as usize % (2 * CHUNK);
        loop {
            let at = self.buckets[bucket];
            if at == 0 {
                self.keys.push((key, hash, 1));
                self.buckets[bucket] = self.keys.len() as u16;
                return self.keys.len() as u16 - 1;
            }
            let (other, its_hash, count) = &mut self.keys[usize::from(at) - 1];
            if *its_hash == hash && (std::ptr::eq(*other, key) || *other == key) {
                *count += 1;
                return at - 1;
            }
            bucket = (bucket + 1) % (2 * CHUNK);
        }
    }
}

impl Inner {
    pub(crate) fn verify_curve(&self, curve: Curve, items: &[Item<'_>], verdicts: &mut [Verdict]) {
        let room = items.len().min(CHUNK);
        let mut chunk = Chunk {
            parsed: Vec::new(),
            keys: Distinct {
                keys: Vec::new(),
                buckets: [0; 2 * CHUNK],
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

    /// Returns r and s of an item. The error is the verdict, if the form of the signature alone decides it.
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
        // n/2 is not an integer, so the condition s > n/2 is tested as s > n - s.
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
        let (tables, slot_hints) = self.tables(&chunk.keys.keys);
        // The engine needs the jobs sorted by the widths of their tables. There are few widths, so the jobs are created
        // in this order, which costs less than sorting them afterwards.
        let width_of = |table: &Option<Arc<Table>>| table.as_ref().map_or(u32::MAX, |table| table.width());
        let widths_of_keys: Vec<u32> = tables.iter().map(width_of).collect();
        let mut widths = widths_of_keys.clone();
        widths.sort_unstable();
        widths.dedup();
        let mut hits = 0;
        let mut jobs = Vec::with_capacity(chunk.parsed.len());
        for width in widths {
            let of_width = chunk
                .parsed
                .iter()
                .filter(|parsed| widths_of_keys[usize::from(parsed.key)] == width);
            jobs.extend(of_width.map(|parsed| {
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
        }
        let tally = over.machine.verify(&generator, &mut jobs, &mut |index, valid| {
            verdicts[index] = if valid { Verdict::Valid } else { Verdict::Invalid };
        });
        self.count(hits, &tally);
        self.record_verdicts(chunk, &slot_hints, verdicts);
    }

    /// Reports the number of valid signatures of each key to the cache.
    fn record_verdicts(&self, chunk: &Chunk<'_>, slot_hints: &[SlotHint], verdicts: &[Verdict]) {
        let mut valid = vec![0; slot_hints.len()];
        for parsed in &chunk.parsed {
            valid[usize::from(parsed.key)] += u64::from(verdicts[parsed.index].is_valid());
        }
        let mut cache = lock(&self.cache);
        for (((key, hash, count), slot_hint), valid) in chunk.keys.keys.iter().zip(slot_hints).zip(valid) {
            cache.record_verdicts(key, *hash, *slot_hint, *count, valid);
        }
    }

    fn count(&self, hits: u64, tally: &Tally) {
        let Counters {
            by_table,
            by_generic,
            exceptional,
            table_hits,
            ..
        } = &self.counters;
        by_table.fetch_add(tally.precomputed as u64, Relaxed);
        by_generic.fetch_add(tally.generic as u64, Relaxed);
        exceptional.fetch_add(tally.exceptional as u64, Relaxed);
        table_hits.fetch_add(hits, Relaxed);
    }

    /// Returns for each key its table, if it has one, and the key's slot in the cache. With `Builds::Inline`, the
    /// function first builds the tables that the cache has decided to build for these keys.
    fn tables(&self, keys: &[(&PublicKey, u64, u64)]) -> (Vec<Option<Arc<Table>>>, Vec<SlotHint>) {
        let mut tables = Vec::with_capacity(keys.len());
        let mut slot_hints = Vec::with_capacity(keys.len());
        let mut pending = Vec::new();
        let mut cache = lock(&self.cache);
        for (at, (key, hash, uses)) in keys.iter().enumerate() {
            let found = cache.look_up(key, *hash, *uses);
            tables.push(found.value);
            slot_hints.push(found.slot_hint);
            if found.pending {
                pending.push(at);
            }
        }
        drop(cache);
        if self.builds == Builds::Inline && !pending.is_empty() {
            // Build as many tables as this batch needs. The first tables in the queue may be for other batches;
            // building only this number bounds the delay of this batch.
            self.build(pending.len());
            let cache = lock(&self.cache);
            for at in pending {
                let (key, hash, _) = keys[at];
                tables[at] = cache.get(key, hash).or(tables[at].take());
            }
        }
        (tables, slot_hints)
    }

    /// Builds up to `limit` tables from the queue of the cache, in its order, and returns their number.
    pub(crate) fn build(&self, limit: usize) -> usize {
        let mut built = 0;
        while built < limit {
            let mut cache = lock(&self.cache);
            let next = std::iter::from_fn(|| cache.next_build());
            let mut builds: Vec<Build> = next.take(BUILDS_TOGETHER_MAX.min(limit - built)).collect();
            drop(cache);
            if builds.is_empty() {
                break;
            }
            built += builds.len();
            builds.sort_by_key(Build::kind);
            while let Some(last) = builds.last() {
                let kind = last.kind();
                let same = builds.partition_point(|build| build.kind() < kind);
                self.build_together(builds.split_off(same));
            }
        }
        built
    }

    /// Builds tables of one width for one curve.
    fn build_together(&self, builds: Vec<Build>) {
        let (Some(curves), Some(first)) = (&self.curves, builds.first()) else {
            return;
        };
        let machine = &curves[first.key.curve() as usize].machine;
        let points: Vec<_> = builds.iter().map(|build| build.key.point()).collect();
        let tables = machine.build(&points, first.width);
        let mut cache = lock(&self.cache);
        for (build, table) in builds.into_iter().zip(tables) {
            cache.finish_build(build, Arc::new(table));
        }
    }

    /// Prepares keys; see [`Verifier::prepare`](crate::Verifier::prepare).
    pub(crate) fn prepare(
        self: &Arc<Self>,
        keys: &[PublicKey],
        expected_signatures: u64,
    ) -> Result<Vec<PreparedKey>, PrepareError> {
        let hashes: Vec<u64> = keys.iter().map(|key| self.hasher.hash(key)).collect();
        if let Some(curves) = &self.curves {
            let Reserved { new, repeated, width } =
                self.reserve_prepared(keys, &hashes, expected_signatures)?;
            for (curve, over) in [Curve::P256, Curve::Secp256k1].into_iter().zip(curves) {
                let of_curve: Vec<usize> = new
                    .iter()
                    .copied()
                    .filter(|at| keys[*at].curve() == curve)
                    .collect();
                for together in of_curve.chunks(BUILDS_TOGETHER_MAX) {
                    let points: Vec<_> = together.iter().map(|at| keys[*at].point()).collect();
                    let tables = over.machine.build(&points, width);
                    let mut cache = lock(&self.cache);
                    for (at, table) in together.iter().zip(tables) {
                        cache.finish_prepared(&keys[*at], hashes[*at], width, Arc::new(table));
                    }
                }
            }
            let mut cache = lock(&self.cache);
            for at in repeated {
                cache.share_prepared(&keys[at], hashes[at]);
            }
        }
        let handles = keys.iter().zip(hashes);
        Ok(handles
            .map(|(key, hash)| PreparedKey::new(self, *key, hash))
            .collect())
    }

    /// Adds a handle to each of the keys that are prepared already, and reserves the bytes of the tables of the others.
    fn reserve_prepared(
        &self,
        keys: &[PublicKey],
        hashes: &[u64],
        expected_signatures: u64,
    ) -> Result<Reserved, PrepareError> {
        let mut cache = lock(&self.cache);
        let (shared, missing): (Vec<usize>, Vec<usize>) =
            (0..keys.len()).partition(|&at| cache.share_prepared(&keys[at], hashes[at]));
        let mut distinct = HashSet::new();
        let (new, repeated): (Vec<usize>, Vec<usize>) =
            missing.into_iter().partition(|&at| distinct.insert(&keys[at]));
        if new.is_empty() {
            let width = 0;
            return Ok(Reserved { new, repeated, width });
        }
        match cache.reserve_prepared(new.len(), expected_signatures) {
            Ok(width) => Ok(Reserved { new, repeated, width }),
            Err(no_room) => {
                for at in shared {
                    cache.release_prepared(&keys[at], hashes[at]);
                }
                Err(PrepareError {
                    keys: new.len(),
                    needed_bytes: no_room.needed,
                    free_bytes: no_room.free,
                })
            }
        }
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
        unreachable!("every backend of this build has tables");
    }
}

fn order(curve: Curve) -> &'static U256 {
    match curve {
        Curve::P256 => &P256::N,
        Curve::Secp256k1 => &Secp256k1::N,
    }
}
