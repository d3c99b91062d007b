//! Tests of the cache's decisions. The cached values are numbers instead of tables.

use super::*;
use crate::curve::Curve;
use crate::table::Table;
use proptest::prelude::*;
use std::collections::HashMap;

/// Returns a distinct key. The tests only compare keys, so these are not points of a curve.
fn key(n: u64) -> PublicKey {
    PublicKey::unchecked(Curve::P256, [n, 1, 2, 3], [n, 0, 0, 0])
}

fn hash(n: u64) -> u64 {
    n.wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

const FIRST_USES: u64 = 3;

/// Cache whose values are the number of the key and the width of the table.
struct Model {
    cache: Cache<(u64, u32)>,
    limit: usize,
    numbers: HashMap<PublicKey, u64>,
    builds_of_largest: usize,
}

impl Model {
    fn new(limit: usize, protected_percent: u8) -> Self {
        Self {
            cache: Cache::new(limit, protected_percent, FIRST_USES, Table::bytes),
            limit,
            numbers: HashMap::new(),
            builds_of_largest: 0,
        }
    }

    fn see(&mut self, n: u64, uses: u64) -> Lookup<(u64, u32)> {
        self.numbers.insert(key(n), n);
        let found = self.cache.look_up(&key(n), hash(n), uses);
        self.check();
        found
    }

    fn build(&mut self) -> bool {
        let Some(build) = self.cache.next_build() else {
            return false;
        };
        self.check();
        let value = (self.numbers[&build.key], build.width);
        self.builds_of_largest += usize::from(build.width == 13);
        self.cache.finish_build(build, value);
        self.check();
        true
    }

    fn record_verdicts(&mut self, n: u64, slot_hint: SlotHint, uses: u64, valid: u64) {
        self.cache
            .record_verdicts(&key(n), hash(n), slot_hint, uses, valid);
        self.check();
    }

    /// Verifies `uses` valid signatures of key `n`, and builds tables inline. Returns the width of the used table.
    fn use_inline(&mut self, n: u64, uses: u64) -> Option<u32> {
        self.verify_inline(n, uses, uses)
    }

    /// Verifies `uses` signatures of key `n`, of which `valid` are valid, and builds tables inline. Returns the width
    /// of the used table.
    fn verify_inline(&mut self, n: u64, uses: u64, valid: u64) -> Option<u32> {
        let found = self.see(n, uses);
        if found.pending {
            while self.build() {}
        }
        let value = self.cache.get(&key(n), hash(n)).or(found.value);
        self.record_verdicts(n, found.slot_hint, uses, valid);
        value.map(|(of, width)| {
            assert_eq!(of, n);
            width
        })
    }

    /// Prepares one key. Returns the width of the reserved table; the key keeps the table that it already has, if it is
    /// prepared.
    fn prepare(&mut self, n: u64, expected: u64) -> Result<u32, prepared::NoRoom> {
        self.numbers.insert(key(n), n);
        if self.cache.share_prepared(&key(n), hash(n)) {
            return Ok(self.cache.get(&key(n), hash(n)).unwrap().1);
        }
        let width = self.cache.reserve_prepared(1, expected)?;
        self.check();
        self.cache.finish_prepared(&key(n), hash(n), width, (n, width));
        self.check();
        Ok(width)
    }

    fn release(&mut self, n: u64) {
        self.cache.release_prepared(&key(n), hash(n));
        self.check();
    }

    fn check(&self) {
        let counts = self.cache.counts();
        assert!(
            counts.bytes <= self.limit,
            "{} of {} bytes",
            counts.bytes,
            self.limit
        );
        assert!(self.cache.probation.bytes <= self.cache.probation.limit);
        assert!(self.cache.protected.bytes <= self.cache.protected.limit);
        // The bytes of prepared keys are a part of those that the other protected keys would have without them.
        assert_eq!(
            self.cache.protected.limit + self.cache.prepared.bytes,
            self.cache.prepared.limit
        );
        assert!(counts.queued <= QUEUED_BUILDS_MAX);
    }

    /// Recomputes all sums of the cache, and compares them with the stored ones.
    fn check_all(&self) {
        let cache = &self.cache;
        let of = |segment| (0..cache.entries.len() as u32).filter(move |&slot| self.is_in(slot, segment));
        for (segment, list) in [
            (Probation, &cache.probation),
            (Protected, &cache.protected),
            (Prepared, &cache.prepared),
        ] {
            assert_eq!(of(segment).count(), list.entries);
            let bytes: usize = of(segment).map(|slot| cache.bytes(slot)).sum();
            assert!(
                bytes <= list.bytes,
                "the bytes of builds in progress are included"
            );
            let mut walked = 0;
            let mut at = list.newest;
            while at != NONE {
                walked += 1;
                assert!(self.is_in(at, segment));
                at = cache.entries[at as usize].older;
            }
            assert_eq!(walked, list.entries);
        }
        let mut hot = [0; 64];
        for slot in of(Protected) {
            hot[cache.entries[slot as usize].uses.max(1).ilog2() as usize] += 1;
        }
        assert_eq!(hot, cache.hot);
        for slot in of(Prepared) {
            let entry = &cache.entries[slot as usize];
            assert!(entry.handles > 0 && entry.table.is_some());
        }
        let tables = cache.entries.iter().filter(|entry| entry.table.is_some()).count();
        assert_eq!(tables, cache.tables);
        assert_eq!(cache.index.len() + cache.free.len(), cache.entries.len());
    }

    fn is_in(&self, slot: u32, segment: Segment) -> bool {
        !self.cache.free.contains(&slot) && self.cache.entries[slot as usize].segment == Some(segment)
    }
}

#[test]
fn a_key_gets_larger_tables_with_use() {
    let mut model = Model::new(256 << 20, 75);
    assert_eq!(model.use_inline(1, 1), None);
    assert_eq!(model.use_inline(1, 1), None);
    assert_eq!(model.use_inline(1, 1), Some(5));
    for (uses, width) in [
        (252, 5),
        (1, 5),
        (1, 8),
        (1_790, 8),
        (1, 8),
        (1, 10),
        (14_334, 10),
        (1, 10),
        (1, 13),
        (1 << 30, 13),
    ] {
        assert_eq!(model.use_inline(1, uses), Some(width));
    }
    let counts = model.cache.counts();
    assert_eq!((counts.builds, counts.evictions, counts.tables), (4, 0, 1));
    assert_eq!(counts.bytes, Table::bytes(13));
    model.check_all();
}

#[test]
fn many_uses_at_once_count_when_they_are_known_to_be_valid() {
    let mut model = Model::new(256 << 20, 75);
    assert_eq!(model.use_inline(1, 3), Some(5));
    assert_eq!(model.use_inline(2, 512), Some(5));
    assert_eq!(model.use_inline(2, 1), Some(8));
    assert_eq!(model.use_inline(3, 20_000), Some(5));
    assert_eq!(model.use_inline(3, 1), Some(13));
    // A key that reaches many uses before its first build gets the table for this number of uses at once.
    assert_eq!(model.use_inline(4, 2), None);
    let slot_hint = model.see(5, 1).slot_hint;
    model.record_verdicts(5, slot_hint, 1, 20_000);
    assert_eq!(model.use_inline(5, 1), Some(13));
    assert_eq!(model.cache.counts().builds, 6);
}

#[test]
fn hot_keys_share_the_bytes_equally() {
    for (keys, width) in [(16, 13), (64, 10), (256, 8), (500, 8)] {
        let mut model = Model::new(192 << 20, 75);
        for _ in 0..100 {
            for n in 0..keys {
                model.use_inline(n, 1_000);
            }
        }
        let builds = model.cache.counts().builds;
        for n in 0..keys {
            assert_eq!(model.use_inline(n, 1), Some(width), "{keys} keys");
        }
        assert_eq!(model.cache.counts().builds, builds, "settled");
        model.check_all();
    }
}

#[test]
fn with_more_hot_keys_the_tables_become_smaller() {
    let mut model = Model::new(192 << 20, 75);
    for _ in 0..100 {
        for n in 0..16 {
            model.use_inline(n, 1_000);
        }
    }
    assert_eq!(model.use_inline(0, 1), Some(13));
    for _ in 0..100 {
        for n in 0..500 {
            model.use_inline(n, 1_000);
        }
    }
    for n in 0..500 {
        // Some larger tables may remain while their bytes are not needed.
        assert!(model.use_inline(n, 1) >= Some(8), "{n}");
    }
    assert!(model.cache.counts().evictions > 10);
    model.check_all();
}

#[test]
fn new_keys_in_any_number_cannot_evict_a_hot_key() {
    let mut model = Model::new(8 << 20, 75);
    for _ in 0..100 {
        model.use_inline(0, 30);
    }
    let width = model.use_inline(0, 1);
    assert_eq!(width, Some(10));
    for times in [2, 3, 10] {
        for n in 1..100_000 {
            model.use_inline(times << 32 | n, times);
            if n % 1_000 == 0 {
                assert_eq!(model.use_inline(0, 1), width);
            }
        }
    }
    assert!(
        model.cache.entries.len() < 1_000,
        "keys that are seen once cost no memory"
    );
    assert_eq!(model.cache.counts().protected, 1);
    model.check_all();
}

#[test]
fn keys_that_recur_in_a_too_large_cycle_do_not_evict_each_other() {
    let mut model = Model::new(4 << 20, 0);
    let fit = (4 << 20) / Table::bytes(5) as u64;
    for _ in 0..50 {
        for n in 0..2 * fit {
            model.use_inline(n, 1);
        }
    }
    let counts = model.cache.counts();
    assert!(counts.builds < 2 * fit, "{} builds", counts.builds);
    assert!(counts.refusals > fit);
    model.check_all();
}

#[test]
fn unused_tables_are_evicted_after_some_time() {
    let mut model = Model::new(8 << 20, 75);
    assert_eq!(model.use_inline(0, 100), Some(5));
    assert_eq!(model.use_inline(0, 300), Some(5));
    assert_eq!(model.use_inline(0, 1), Some(8));
    for _ in 0..=IDLE_AFTER_SIGNATURES / 1_000 {
        model.use_inline(1, 1_000);
    }
    assert_eq!(model.cache.counts().protected, 1);
    assert_eq!(
        model.cache.counts().tables,
        2,
        "the key keeps its table while the bytes are not needed"
    );
    for n in 2..1_000 {
        model.use_inline(n, 5);
    }
    assert_eq!(model.cache.get(&key(0), hash(0)), None);
    model.check_all();
}

#[test]
fn queued_builds_are_limited() {
    let mut model = Model::new(256 << 20, 75);
    for n in 0..10_000 {
        assert!(model.see(n, 3).value.is_none());
        assert!(
            model.see(n, 1).value.is_none(),
            "a build that is requested twice is queued once"
        );
    }
    assert_eq!(model.cache.counts().queued, QUEUED_BUILDS_MAX);
    assert_eq!(model.cache.counts().tables, 0);
    let mut built = 0;
    while model.build() {
        built += 1;
    }
    assert_eq!(built, QUEUED_BUILDS_MAX);
    assert_eq!(model.see(0, 1).value, Some((0, 5)));
    model.check_all();
}

#[test]
fn a_cache_without_bytes_builds_no_tables() {
    for (bytes, percent) in [(0, 75), (50_000, 0), (50_000, 100), (100_000, 50)] {
        let mut model = Model::new(bytes, percent);
        for n in 0..10 {
            assert_eq!(model.use_inline(n, 100_000), None);
        }
        assert_eq!(model.cache.counts().builds, 0);
        model.check_all();
        assert_eq!(model.cache.index.len(), 0);
    }
    let mut all_protected = Model::new(1 << 20, 100);
    assert_eq!(all_protected.use_inline(1, 3), None);
    assert_eq!(all_protected.use_inline(1, 100), None);
    assert_eq!(all_protected.use_inline(1, 1), Some(5));
    let mut none_protected = Model::new(1 << 20, 0);
    assert_eq!(none_protected.use_inline(1, 100_000), Some(5));
}

/// Checks that invalid signatures do not count as uses, so that a party without a private key cannot influence the
/// cache in the long run.
#[test]
fn invalid_signatures_count_as_no_use() {
    let mut model = Model::new(192 << 20, 75);
    assert_eq!(model.verify_inline(0, 2, 0), None);
    assert_eq!(
        model.verify_inline(0, 2, 0),
        None,
        "earlier invalid signatures do not count"
    );
    for _ in 0..100 {
        // The verdicts are not known yet, and this number of valid signatures would justify a table, so the smallest
        // table is built first.
        assert_eq!(model.verify_inline(1, 100_000, 0), Some(5));
    }
    assert_eq!(model.cache.counts().protected, 0);
    // Keys that are on probation only because of invalid signatures are evicted for a key with a valid signature.
    let fit = (192 << 20) / 4 / Table::bytes(5) as u64;
    for n in 2..2 + fit {
        assert_eq!(model.verify_inline(n, 1_000, 0), Some(5));
    }
    for n in 0..fit {
        model.use_inline(1 << 20 | n, 1);
        model.use_inline(1 << 20 | n, 1);
        assert_eq!(model.use_inline(1 << 20 | n, 1), Some(5));
    }
    assert_eq!(model.cache.counts().refusals, 0);
    model.check_all();
}

/// Checks an attack with an endless number of keys, each of which is used some times and then never again. Honest keys
/// before and after the attack must keep and get their tables.
#[test]
fn new_keys_take_no_share_of_the_protected_bytes() {
    for times in [3, 64, 100, 300] {
        for valid in [times, times / 2, 0] {
            let mut model = Model::new(192 << 20, 75);
            model.use_inline(0, 20_000);
            assert_eq!(model.use_inline(0, 1), Some(13));
            for n in 0..20_000 {
                // The attacker's signatures arrive in small batches.
                let mut left = [times, valid];
                while left[0] > 0 {
                    let now = left.map(|left| left.min(32));
                    model.verify_inline(1 << 32 | n, now[0], now[1]);
                    left = [left[0] - now[0], left[1] - now[1]];
                }
                assert_eq!(
                    model.use_inline(0, 4),
                    Some(13),
                    "{times} times, {valid} valid, {n}"
                );
                if n >= 10_000 {
                    model.use_inline(1, 4);
                }
            }
            assert_eq!(model.use_inline(1, 4), Some(13), "{times} times, {valid} valid");
            model.check_all();
        }
    }
}

/// Checks an attack with all keys that fit into the cache, each of which stays protected by a few uses from time to
/// time. Honest keys that come later must get their tables.
#[test]
fn many_rarely_used_keys_take_no_share_of_a_hot_one() {
    for (keys, times) in [(2_700, 64), (5_000, 64), (2_700, 100), (1_000, 100)] {
        let mut model = Model::new(192 << 20, 75);
        let attack = |model: &mut Model| {
            for n in 0..keys {
                model.use_inline(1 << 32 | n, times);
            }
        };
        for _ in 0..10 {
            attack(&mut model);
        }
        for round in 0..40 {
            for n in 0..16 {
                // The honest keys together have a quarter of the attacker's traffic.
                model.use_inline(n, keys.max(2_000) * times / 64);
            }
            attack(&mut model);
            if round == 20 {
                model.builds_of_largest = 0;
            }
        }
        for n in 0..16 {
            assert_eq!(model.use_inline(n, 1), Some(13), "{keys} keys, {times} times");
        }
        assert_eq!(model.builds_of_largest, 0, "{keys} keys, {times} times: settled");
        model.check_all();
    }
}

/// Checks that equally hot keys have equal shares, in whatever order they are used, and that keys which are used less
/// lose their tables to others.
#[test]
fn shares_follow_the_use() {
    let mut model = Model::new(64 << 20, 75);
    // The cache has bytes for nine of the largest tables.
    for _ in 0..40 {
        for n in 0..9 {
            model.use_inline(n, 1_000);
        }
    }
    assert!((0..9).all(|n| model.use_inline(n, 1) == Some(13)));
    // Nine other keys become hot. The first nine are still used a little, so they are not idle.
    for _ in 0..4_000 {
        for n in 0..9 {
            model.use_inline(n, 1);
        }
        for n in 9..18 {
            model.use_inline(n, 1_000);
        }
    }
    let widths: Vec<_> = (0..18).map(|n| model.use_inline(n, 1)).collect();
    assert!(widths[9..].iter().all(|width| *width == Some(13)), "{widths:?}");
    assert!(widths[..9].iter().all(|width| *width >= Some(5)), "{widths:?}");
    model.check_all();
}

#[test]
fn a_prepared_key_has_its_table_until_the_last_handle_is_released() {
    let mut model = Model::new(8 << 20, 75);
    assert_eq!(model.prepare(1, 300), Ok(8));
    assert_eq!(
        model.prepare(1, 20_000),
        Ok(8),
        "a second handle shares the table"
    );
    // Neither other keys, nor a long time without use, evict the table; use does not replace it.
    for n in 100..200 {
        model.use_inline(n, 1_000);
    }
    model.see(2, 3 * IDLE_AFTER_SIGNATURES);
    assert_eq!(model.use_inline(1, 20_000), Some(8));
    assert_eq!(model.cache.counts().prepared, 1);
    model.release(1);
    assert_eq!(model.cache.counts().prepared, 1);
    model.release(1);
    assert_eq!(model.cache.counts().prepared, 0);
    model.release(1);
    model.check_all();
    // Without handles, it is a recurring key: its uses give it a larger table, and it is evicted when it is idle.
    assert_eq!(model.use_inline(1, 1), Some(13));
    model.see(2, 3 * IDLE_AFTER_SIGNATURES);
    for n in 200..300 {
        model.use_inline(n, 50);
    }
    assert_eq!(model.use_inline(1, 1), None);
    model.check_all();
}

#[test]
fn prepared_keys_take_at_most_the_bytes_of_protected_keys() {
    let room = 100 * Table::bytes(8) + Table::bytes(8) / 2;
    let mut model = Model::new(2 * room, 50);
    for n in 0..20 {
        model.use_inline(n, 1_000);
    }
    assert_eq!(model.cache.counts().protected, 20);
    let (mut widths, mut n) = (HashMap::new(), 1_000);
    let refused = loop {
        match model.prepare(n, 500) {
            Ok(width) => *widths.entry(width).or_insert(0) += 1,
            Err(no_room) => break no_room,
        }
        n += 1;
    };
    // The recurring keys were evicted, and the tables of the last keys are smaller.
    assert_eq!(model.cache.counts().protected, 0);
    assert_eq!((widths[&8], widths[&5]), (100, 2));
    assert!(refused.free < refused.needed, "{refused:?}");
    assert_eq!(refused.needed, Table::bytes(5));
    model.check_all();
    for n in 1_000..n {
        model.release(n);
    }
    assert_eq!(model.prepare(7, 0), Ok(5));
    model.check_all();
}

#[test]
fn the_keys_of_one_call_get_the_largest_tables_that_all_fit() {
    let mut model = Model::new(2 * 100 * Table::bytes(8), 50);
    assert_eq!(model.cache.reserve_prepared(101, 2_000), Ok(5));
    for n in 0..101 {
        model.cache.finish_prepared(&key(n), hash(n), 5, (n, 5));
    }
    model.check_all();
    assert_eq!(
        model
            .cache
            .reserve_prepared(usize::MAX, 0)
            .map_err(|room| room.needed),
        Err(usize::MAX)
    );
}

#[test]
fn a_key_keeps_a_larger_table_that_it_has_by_use() {
    let mut model = Model::new(256 << 20, 75);
    for _ in 0..3 {
        model.use_inline(1, 20_000);
    }
    assert_eq!(model.use_inline(1, 1), Some(13));
    assert_eq!(model.prepare(1, 300), Ok(8));
    assert_eq!(model.use_inline(1, 1), Some(13));
    assert_eq!(model.cache.table_bytes(&key(1), hash(1)), Table::bytes(13));
    model.check_all();
    model.release(1);
    assert_eq!(model.use_inline(1, 1), Some(13));
    model.check_all();
}

#[test]
fn a_build_that_ends_after_its_key_was_prepared_is_discarded() {
    let mut model = Model::new(256 << 20, 75);
    model.see(1, 1_000);
    let build = model.cache.next_build().unwrap();
    assert_eq!(model.prepare(1, 0), Ok(5));
    let value = (1, build.width);
    model.cache.finish_build(build, value);
    model.check_all();
    assert_eq!(model.cache.get(&key(1), hash(1)), Some((1, 5)));
    assert_eq!(model.cache.counts().bytes, Table::bytes(5));
}

#[derive(Clone, Debug)]
enum Step {
    /// Looks up a key: its number, the number of signatures, and the percentage of valid ones. Above 100, no verdicts
    /// are recorded, as if they were still pending.
    See(u64, u64, u64),
    Start,
    Finish,
    /// Prepares a key: its number, and the number of expected signatures.
    Prepare(u64, u64),
    /// Reserves bytes for a prepared key, whose table is stored at the end of the run.
    Reserve(u64, u64),
    /// Releases the oldest handle.
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    let keys = prop_oneof![0..8u64, 0..64u64, 0..4_096u64];
    let uses = prop_oneof![Just(1u64), 1..8u64, 1..2_000u64, 1..400_000u64];
    let prepare = (keys.clone(), uses.clone());
    prop_oneof![
        6 => (keys, uses, 0..130u64).prop_map(|(n, uses, percent)| Step::See(n, uses, percent)),
        2 => Just(Step::Start),
        1 => Just(Step::Finish),
        1 => prepare.clone().prop_map(|(n, expected)| Step::Prepare(n, expected)),
        1 => prepare.prop_map(|(n, expected)| Step::Reserve(n, expected)),
        1 => Just(Step::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Checks the limit for builds of several threads at the same time, which end in another order than they began.
    #[test]
    fn bytes_never_exceed_the_limit(
        limit in prop_oneof![0..200_000usize, 0..3_000_000usize, 0..40_000_000usize],
        percent in 0..=100u8,
        steps in prop::collection::vec(step(), 1..600),
    ) {
        let mut model = Model::new(limit, percent);
        let (mut under_way, mut verified) = (Vec::new(), Vec::new());
        let (mut handles, mut reserved) = (VecDeque::new(), Vec::new());
        for step in steps {
            match step {
                Step::See(n, uses, percent) => {
                    let found = model.see(n, uses);
                    if let Some((of, _)) = found.value {
                        prop_assert_eq!(of, n);
                    }
                    if percent <= 100 {
                        model.record_verdicts(n, found.slot_hint, uses, uses * percent / 100);
                    } else {
                        verified.push((n, found.slot_hint, uses));
                    }
                }
                Step::Start => under_way.extend(model.cache.next_build()),
                Step::Finish => {
                    if let Some((n, slot_hint, uses)) = verified.pop() {
                        model.record_verdicts(n, slot_hint, uses, uses);
                    }
                    if let Some(build) = under_way.pop() {
                        let value = (model.numbers[&build.key], build.width);
                        model.cache.finish_build(build, value);
                    }
                }
                Step::Prepare(n, expected) => {
                    if let Ok(width) = model.prepare(n, expected) {
                        let (of, found) = model.cache.get(&key(n), hash(n)).unwrap();
                        prop_assert!(of == n && found >= width);
                        handles.push_back(n);
                    }
                }
                Step::Reserve(n, expected) => {
                    model.numbers.insert(key(n), n);
                    if let Ok(width) = model.cache.reserve_prepared(1, expected) {
                        reserved.push((n, width));
                    }
                }
                Step::Release => {
                    if let Some(n) = handles.pop_front() {
                        model.release(n);
                    }
                }
            }
            model.check();
        }
        for build in under_way {
            let value = (model.numbers[&build.key], build.width);
            model.cache.finish_build(build, value);
        }
        for (n, width) in reserved {
            model.cache.finish_prepared(&key(n), hash(n), width, (n, width));
            handles.push_back(n);
        }
        model.check_all();
        for &n in &handles {
            prop_assert!(model.cache.get(&key(n), hash(n)).is_some(), "a prepared key has a table");
        }
        prop_assert_eq!(handles.iter().collect::<std::collections::HashSet<_>>().len(), model.cache.counts().prepared);
        for n in handles {
            model.release(n);
        }
        model.check();
        model.check_all();
        let held: usize = (0..model.cache.entries.len() as u32).map(|slot| model.cache.bytes(slot)).sum();
        prop_assert_eq!(held, model.cache.counts().bytes, "no bytes stay reserved after the last build");
    }
}
