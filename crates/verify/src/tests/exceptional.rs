//! Tests of exceptional cases, in which the points of an addition are equal or opposite. They may be slower, but their
//! verdicts must be right, and they must not affect other signatures of the batch.

use super::hostile::{
    Entry, Signature, chain_meetings, check, check_with, key_for, loop_meetings, tree_meetings,
};
use super::recode::LAMBDA;
use super::reference::{Reference, lift_x};
use super::{Draw, Random, big, every_back_end, words};
use crate::curve::Params;
use crate::few;
use crate::lanes::Lanes;
use crate::portable::{Portable, Reduction};
use crate::table::Table;
use crate::uint::{ONE, U256, ZERO};
use num_bigint::BigUint;
use std::sync::Arc;

every_back_end! {
    honest_batches_of_any_size,
    every_two_points_that_meet_in_the_tree,
    every_two_points_that_meet_among_few,
    the_last_two_points_of_the_tree,
    every_two_points_that_meet_in_the_loop,
    multipliers_that_bring_meetings_about_for_any_key,
    known_multiples_of_the_generator_as_keys,
    digests_of_zero_and_above_the_order,
    one_without_a_table_goes_the_portable_way,
    x_above_the_order,
    batches_full_of_exceptional_cases,
}

const GENERATOR_WIDTH: u32 = 5;

/// State shared by the tests of a backend.
struct Setting<L> {
    l: L,
    random: Random,
    generator: Table,
    honest: Vec<Entry>,
}

impl<L: Lanes<Curve: Reference + Reduction>> Setting<L> {
    /// Creates honest signatures by keys with tables of three widths; every fifth signature has no table.
    fn new(l: L, seed: u64) -> Self {
        let mut random = Random(seed);
        let generator = Table::build(l, &L::Curve::G, GENERATOR_WIDTH);
        let keys: Vec<_> = [4, 5, 5, 6, 4]
            .map(|width| {
                let d = random.number(&L::Curve::N);
                let key = L::Curve::multiply(&d, &L::Curve::G).expect("not zero");
                (d, Arc::new(Table::build(l, &key, width)))
            })
            .into();
        let mut honest = Vec::new();
        for k in 0..60 {
            let (d, table) = &keys[random.index(keys.len())];
            let [u1, u2] = std::array::from_fn(|_| random.number(&L::Curve::N));
            let mut signature = Signature::of::<L::Curve>(d, &u1, &u2);
            if k % 4 == 3 {
                signature.z[0] ^= 1 << random.index(64);
            }
            let table = (k % 5 != 4).then(|| table.clone());
            let entry = Entry::new::<L>(signature, table, &generator);
            assert_eq!((entry.verdict.valid, entry.exceptional), (k % 4 != 3, 0));
            honest.push(entry);
        }
        Self {
            l,
            random,
            generator,
            honest,
        }
    }

    fn number(&mut self) -> U256 {
        self.random.number(&L::Curve::N)
    }

    fn table(&self, key: &(U256, U256), width: u32) -> Arc<Table> {
        Arc::new(Table::build(self.l, key, width))
    }

    /// Returns an entry for a signature whose key has a table of this width, or no table.
    fn entry(&self, signature: Signature, width: Option<u32>) -> Entry {
        let table = width.map(|width| self.table(&signature.key, width));
        Entry::new::<L>(signature, table, &self.generator)
    }

    /// Returns entries for a signature with these u₁ and u₂, and for wrong signatures that take the same path through
    /// the engine: one with another r, and one with an r for which x might be r + n.
    fn with_wrong_ones(&self, d: &U256, u1: &U256, u2: &U256, width: Option<u32>) -> Vec<Entry> {
        let right = Signature::of::<L::Curve>(d, u1, u2);
        let n = big(&L::Curve::N);
        let next = (big(&right.r) % (&n - 1u32)) + 1u32;
        let mut entries = vec![self.entry(right, width)];
        let table = entries[0].table.clone();
        for r in [next, BigUint::from(3u32)] {
            let wrong = Signature::with_r::<L::Curve>(d, u1, u2, &r);
            let entry = Entry::new::<L>(wrong, table.clone(), &self.generator);
            assert!(!entry.verdict.valid);
            entries.push(entry);
        }
        entries
    }

    /// Checks each entry at a random place among honest signatures, and then all entries in one batch.
    fn check(&mut self, entries: &[Entry]) {
        for (k, entry) in entries.iter().enumerate() {
            let size = [1, 7, 8, 9, 2, 17, 64, 33][k % 8];
            self.check_among_honest(std::slice::from_ref(entry), size);
        }
        for entries in entries.chunks(230) {
            self.check_among_honest(entries, 300);
        }
    }

    /// Checks `entries` at random places among honest signatures, in a batch of `size` signatures.
    fn check_among_honest(&mut self, entries: &[Entry], size: usize) {
        let mut batch = entries.to_vec();
        while batch.len() < size {
            let place = self.random.index(batch.len() + 1);
            batch.insert(place, self.honest[self.random.index(self.honest.len())].clone());
        }
        check(self.l, &self.generator, &batch);
    }
}

fn honest_batches_of_any_size<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 51);
    check(l, &setting.generator, &[]);
    for size in (1..40).chain([63, 64, 65, 127, 128, 129, 300, 511, 512]) {
        setting.check_among_honest(&[], size);
    }
}

fn every_two_points_that_meet_in_the_tree<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 52);
    let n = big(&L::Curve::N);
    for width in [5, 4] {
        let (u1, u2) = (setting.number(), setting.number());
        let meetings = tree_meetings::<L::Curve>(&u1, &u2, [GENERATOR_WIDTH, width]);
        let mut entries = Vec::new();
        for (k, meeting) in meetings.iter().enumerate() {
            for opposite in [false, true] {
                // A meeting of two points of the generator does not depend on the key, so no key can be found for it.
                let Some(d) = key_for(meeting, opposite, &n) else {
                    continue;
                };
                // Test all meetings of the last levels with wrong signatures too, and a third of the other meetings.
                if k % 3 == 0 || k + 8 > meetings.len() {
                    entries.extend(setting.with_wrong_ones(&d, &u1, &u2, Some(width)));
                } else {
                    entries.push(setting.entry(Signature::of::<L::Curve>(&d, &u1, &u2), Some(width)));
                }
            }
        }
        assert!(entries.len() > 150);
        assert!(entries.iter().all(|entry| entry.exceptional == 1));
        setting.check(&entries);
    }
}

/// Checks every pair of points that can meet in batches so small that their points are added one after the other.
fn every_two_points_that_meet_among_few<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 59);
    let n = big(&L::Curve::N);
    let (u1, u2) = (setting.number(), setting.number());
    let mut entries = Vec::new();
    for (k, meeting) in chain_meetings::<L::Curve>(&u1, &u2, [GENERATOR_WIDTH, 4])
        .iter()
        .enumerate()
    {
        for opposite in [false, true] {
            // There is no key for a meeting of two points of the generator, which never meet.
            if let Some(d) = key_for(meeting, opposite, &n) {
                match k % 4 {
                    0 => entries.extend(setting.with_wrong_ones(&d, &u1, &u2, Some(4))),
                    _ => entries.push(setting.entry(Signature::of::<L::Curve>(&d, &u1, &u2), Some(4))),
                }
            }
        }
    }
    assert!(entries.len() >= 2 * 64);
    assert!(entries.iter().all(|entry| entry.exceptional_among_few == 1));
    for size in [1, 2, few::VECTORS * L::LANES] {
        for entries in entries.chunks(size) {
            let tally = check(l, &setting.generator, entries);
            assert_eq!(tally.exceptional, entries.len());
        }
    }
    setting.check(&entries);
}

/// Checks signatures with a wrong r whose last addition has the same point twice. The equation of the last addition,
/// (r + x₁ + x₂)(x₂ - x₁)² = (y₂ - y₁)², is then 0 = 0 for any r. Only the check for x₁ = x₂ prevents this forgery, for
/// which an attacker needs only a key of his own.
fn the_last_two_points_of_the_tree<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 60);
    let n = big(&L::Curve::N);
    for width in [4, 5, 6] {
        let (u1, u2) = (setting.number(), setting.number());
        let meetings = tree_meetings::<L::Curve>(&u1, &u2, [GENERATOR_WIDTH, width]);
        let last = &meetings[meetings.len() - 1];
        let d = key_for(last, false, &n).expect("their multiples of Q differ");
        let table = setting.table(&Signature::of::<L::Curve>(&d, &u1, &u2).key, width);
        let mut batch = Vec::new();
        // The batch has signatures by one key, each with another r, and is large enough for the tree.
        for k in 0..(few::VECTORS + 2) * L::LANES {
            let r = big(&setting.number());
            let signature = match k % 7 {
                3 => Signature::of::<L::Curve>(&d, &u1, &u2),
                _ => Signature::with_r::<L::Curve>(&d, &u1, &u2, &r),
            };
            let entry = Entry::new::<L>(signature, Some(table.clone()), &setting.generator);
            assert_eq!((entry.verdict.valid, entry.exceptional), (k % 7 == 3, 1));
            batch.push(entry);
        }
        let tally = check(l, &setting.generator, &batch);
        assert_eq!(tally.exceptional, batch.len());
    }
}

fn every_two_points_that_meet_in_the_loop<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 53);
    let n = big(&L::Curve::N);
    let (u1, u2) = (setting.number(), setting.number());
    let mut entries = Vec::new();
    for meeting in &loop_meetings::<L::Curve>(&u1, &u2, GENERATOR_WIDTH) {
        for opposite in [false, true] {
            if let Some(d) = key_for(meeting, opposite, &n) {
                entries.extend(setting.with_wrong_ones(&d, &u1, &u2, None));
            }
        }
    }
    // There are entries for equal and for opposite points, for each of the generator's windows.
    assert_eq!(entries.len(), 2 * 3 * setting.generator.windows());
    assert!(entries.iter().all(|entry| entry.exceptional == 1));
    setting.check(&entries);
}

/// Checks values of u₂ close to 0 and n, and close to small multiples of λ. All partial sums of the loop are then small
/// multiples of the key, which may meet for any key.
fn multipliers_that_bring_meetings_about_for_any_key<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 54);
    let n = big(&L::Curve::N);
    let mut candidates: Vec<BigUint> = (1u32..70).map(BigUint::from).collect();
    for multiple in 1u32..70 {
        let product = &big(&LAMBDA) * multiple % &n;
        candidates.extend([
            product.clone(),
            (&product + 1u32) % &n,
            (&product + multiple) % &n,
        ]);
        candidates.push((&n + &product - multiple) % &n);
    }
    let negated: Vec<BigUint> = candidates.iter().map(|k| &n - k).collect();
    candidates.extend(negated);
    let (u1, d) = (setting.number(), setting.number());
    let mut entries = Vec::new();
    for (k, u2) in candidates.iter().enumerate() {
        let width = [None, Some(4), None][k % 3];
        entries.push(setting.entry(Signature::of::<L::Curve>(&d, &u1, &words(u2)), width));
    }
    // On secp256k1, u₂ = -58·λ leads to an exceptional case, because its halves are a short vector of the lattice plus
    // (0, -58), whose lowest digit is -29. On P-256, with windows of this width, no u₂ leads to such a case.
    let met = entries.iter().filter(|entry| entry.exceptional > 0).count();
    assert_eq!(met > 0, L::Curve::HAS_ENDOMORPHISM, "{met}");
    setting.check(&entries);
}

/// Checks keys that are known multiples of the generator: Q = ±G and other small multiples. Equal digits of u₁ and u₂
/// then select equal points.
fn known_multiples_of_the_generator_as_keys<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 55);
    let n = big(&L::Curve::N);
    let mut entries = Vec::new();
    for d in [1u32, 2, 3, 32, 33] {
        for d in [BigUint::from(d), &n - d] {
            let u = big(&setting.number());
            let over_d = &u * d.modinv(&n).expect("not zero") % &n;
            let minus = &n - &over_d;
            // The values of u₂ give equal digits, opposite digits, u₁·G = u₂·Q, and u₁·G = -u₂·Q, for which no r
            // exists.
            let little = [1u32, 2, 31].map(BigUint::from);
            let mut others = vec![u.clone(), &n - &u, over_d, minus];
            others.extend(little.iter().flat_map(|k| [k.clone(), &n - k]));
            for u2 in &others {
                for width in [None, Some(5), Some(6)] {
                    entries.extend(setting.with_wrong_ones(&words(&d), &words(&u), &words(u2), width));
                }
            }
        }
    }
    let infinite = entries.iter().filter(|entry| entry.verdict.x.is_none());
    assert!(infinite.clone().count() >= 10 && infinite.clone().all(|entry| !entry.verdict.valid));
    assert!(infinite.clone().all(|entry| entry.exceptional > 0));
    setting.check(&entries);
}

/// Checks digests with u₁ = 0, which has no digits (z = 0 and z = n), and digests above n, up to all ones.
fn digests_of_zero_and_above_the_order<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 56);
    let n = big(&L::Curve::N);
    let mut entries = Vec::new();
    for round in 0..4 {
        let (d, u2) = (
            setting.number(),
            [setting.number(), ONE, words(&(&n - 1u32)), words(&(&n - 2u32))][round],
        );
        for width in [None, Some(5)] {
            let zero = Signature::of::<L::Curve>(&d, &ZERO, &u2);
            assert!(zero.z == ZERO && zero.verdict::<L::Curve>().valid);
            for z in [ZERO, L::Curve::N, ONE, [u64::MAX; 4]] {
                entries.push(setting.entry(Signature { z, ..zero.clone() }, width));
            }
            // The digests z and z + n are equivalent, and a signature of a small z must be valid for both.
            for z in [1u32, 2, 77] {
                let s = big(&setting.number());
                let point = L::Curve::multiply(&words(&s), &L::Curve::G).expect("not zero");
                let r = big(&point.0) % &n;
                // Sign with the nonce `s` (k): the signature's s is (z + r·d)/k.
                let s = (BigUint::from(z) + &r * big(&d)) * s.modinv(&n).expect("not zero") % &n;
                let key = zero.key;
                for z in [BigUint::from(z), &n + z, BigUint::from(z + 1)] {
                    let signature = Signature {
                        r: words(&r),
                        s: words(&s),
                        z: words(&z),
                        key,
                        d: Some(d),
                    };
                    entries.push(setting.entry(signature, width));
                }
            }
        }
    }
    assert!(entries.iter().filter(|entry| entry.verdict.u1 == ZERO).count() >= 16);
    assert!(entries.iter().filter(|entry| entry.verdict.valid).count() >= 40);
    setting.check(&entries);
}

/// Checks single signatures without a table, honest and hostile ones, which the portable backend decides. All other
/// tests of this module use only the tested backend.
fn one_without_a_table_goes_the_portable_way<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 61);
    let n = big(&L::Curve::N);
    let portable = Arc::new(Table::build(
        Portable::<L::Curve>::new(),
        &L::Curve::G,
        GENERATOR_WIDTH,
    ));
    let (u1, u2) = (setting.number(), setting.number());
    let mut entries: Vec<Entry> = setting.honest.clone();
    for meeting in &loop_meetings::<L::Curve>(&u1, &u2, GENERATOR_WIDTH) {
        if let Some(d) = key_for(meeting, entries.len().is_multiple_of(2), &n) {
            entries.extend(setting.with_wrong_ones(&d, &u1, &u2, None));
        }
    }
    // These signatures have a table but stay undecided with it. Each is the only signature of its batch that must be
    // decided without a table.
    for meeting in &tree_meetings::<L::Curve>(&u1, &u2, [GENERATOR_WIDTH, 4]) {
        let d = key_for(meeting, false, &n).unwrap_or_else(|| setting.number());
        entries.push(setting.entry(Signature::of::<L::Curve>(&d, &u1, &u2), Some(4)));
    }
    entries.push(setting.entry(Signature::of::<L::Curve>(&u1, &ZERO, &u2), Some(4)));
    let mut asked = 0;
    for (k, entry) in entries.iter().enumerate() {
        // The signature is among others that have tables, whose number is enough for the tree.
        let with_table = setting.honest.iter().filter(|other| other.table.is_some());
        let mut batch: Vec<Entry> = with_table.cycle().take(k % 3 * 50).cloned().collect();
        batch.insert(batch.len() / 2, entry.clone());
        check_with(l, &setting.generator, &batch, &mut || {
            asked += 1;
            Some(Arc::clone(&portable))
        });
        // Two signatures without a table are decided by the tested backend, not by the portable one.
        let twice = [entry.clone(), entry.clone()];
        check_with(l, &setting.generator, &twice, &mut || {
            unreachable!("there are two")
        });
    }
    assert_eq!(asked > 100, L::LANES > 1, "{asked}");
}

/// Checks signatures whose R has x = r + n below p, and signatures with an equally small x = r. No nonce is known for
/// such an R, but for any R, s and z there is a key for which the signature is valid: Q = (s·R - z·G)/r.
fn x_above_the_order<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 57);
    let n = big(&L::Curve::N);
    let mut entries = Vec::new();
    for base in [n.clone(), BigUint::ZERO] {
        let points = (1u32..).filter_map(|k| lift_x::<L::Curve>(&(&base + k)).map(|point| (k, point)));
        for (k, point) in points.take(6) {
            let (s, z) = (setting.number(), setting.number());
            let over_r = BigUint::from(k).modinv(&n).expect("not zero");
            let of_point = words(&(big(&s) * &over_r % &n));
            let of_g = words(&((&n - big(&z)) * &over_r % &n));
            let key = L::Curve::combine(&of_point, &point, &of_g, &L::Curve::G).expect("not infinity");
            let right = Signature {
                r: [k.into(), 0, 0, 0],
                s,
                z,
                key,
                d: None,
            };
            for width in [None, Some(5)] {
                let entry = setting.entry(right.clone(), width);
                assert!(entry.verdict.valid);
                assert_eq!(entry.verdict.x, Some(words(&(&base + k))));
                assert_eq!(
                    entry.exceptional,
                    usize::from(width.is_some() && base != BigUint::ZERO)
                );
                entries.push(entry);
                for wrong in [
                    Signature {
                        r: [u64::from(k) + 1, 0, 0, 0],
                        ..right.clone()
                    },
                    Signature {
                        z: s,
                        ..right.clone()
                    },
                ] {
                    entries.push(setting.entry(wrong, width));
                    assert!(entries.last().is_some_and(|entry| !entry.verdict.valid));
                }
            }
        }
    }
    // Check the greatest r for which r + n is below p, and the first r for which it is not.
    let gap = big(&L::Curve::P) - &n;
    for r in [&gap - 1u32, gap.clone(), &gap + 1u32] {
        let [d, u1, u2] = std::array::from_fn(|_| setting.number());
        let wrong = Signature::with_r::<L::Curve>(&d, &u1, &u2, &r);
        let entry = setting.entry(wrong, Some(5));
        assert_eq!(entry.exceptional, usize::from(r < gap));
        entries.push(entry);
    }
    setting.check(&entries);
}

/// Checks batches that have only hostile signatures, with every number of used lanes.
fn batches_full_of_exceptional_cases<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut setting = Setting::new(l, 58);
    let n = big(&L::Curve::N);
    let mut entries = Vec::new();
    for k in 0..48 {
        let (u1, u2) = (setting.number(), setting.number());
        // The signature is exceptional with tables and, if possible, also in the loop that decides it afterwards.
        let tree = tree_meetings::<L::Curve>(&u1, &u2, [GENERATOR_WIDTH, 4]);
        let generator = loop_meetings::<L::Curve>(&u1, &u2, GENERATOR_WIDTH);
        let meeting = [
            &tree[tree.len() - 1],
            &tree[k],
            &generator[generator.len() - 1 - k],
        ][k % 3];
        let d = key_for(meeting, k % 2 == 0, &n).expect("their multiples of Q differ");
        let width = if k % 3 == 2 { None } else { Some(4) };
        entries.push(setting.entry(Signature::of::<L::Curve>(&d, &u1, &u2), width));
    }
    assert!(entries.iter().all(|entry| entry.exceptional > 0));
    for size in [1, 2, 7, 8, 9, 15, 16, 17, 48] {
        check(l, &setting.generator, &entries[..size]);
        check(l, &setting.generator, &entries[entries.len() - size..]);
    }
    let many: Vec<Entry> = (0..300).map(|k| entries[k % entries.len()].clone()).collect();
    // Some of these signatures are exceptional on both paths, but each is counted once.
    let tally = check(l, &setting.generator, &many);
    assert_eq!(tally.exceptional, 300, "each is counted once");
}
