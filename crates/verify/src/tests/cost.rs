//! Tests of the cost of exceptional cases. The cost is measured as the number of multiplications, which is the same on
//! every machine.

use super::hostile::{Entry, Signature, check, key_for, tree_meetings};
use super::reference::Reference;
use super::{Draw, Random, big};
use crate::curve::{P256, Secp256k1};
use crate::lanes::{Affine, Lanes, Stage, TablePoint};
use crate::portable::{Portable, Reduction};
use crate::table::Table;
use crate::uint::U256;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static MULTIPLICATIONS: Cell<usize> = const { Cell::new(0) };
}

/// Backend that counts the multiplications of another backend.
#[derive(Clone, Copy)]
struct Counting<L>(L);

impl<L> Counting<L> {
    fn count(self, multiplications: usize) -> Self {
        MULTIPLICATIONS.set(MULTIPLICATIONS.get() + multiplications);
        self
    }
}

impl<L: Lanes> Lanes for Counting<L> {
    type Curve = L::Curve;
    type Fe = L::Fe;
    type Raw = L::Raw;
    type Sc = L::Sc;
    const LANES: usize = L::LANES;

    fn run<S: Stage>(self, stage: S) -> S::Out {
        self.0.run(stage)
    }
    fn splat(self, plain: &U256) -> L::Fe {
        self.0.splat(plain)
    }
    fn load(self, plain: &[U256]) -> L::Fe {
        self.0.load(plain)
    }
    fn store(self, a: &L::Fe, plain: &mut [U256]) {
        self.0.store(a, plain);
    }
    fn mul(self, a: &L::Fe, b: &L::Fe) -> L::Fe {
        self.count(1).0.mul(a, b)
    }
    fn sqr(self, a: &L::Fe) -> L::Fe {
        self.count(1).0.sqr(a)
    }
    fn diff(self, a: &L::Fe, b: &L::Fe) -> L::Fe {
        self.0.diff(a, b)
    }
    fn product(self, a: &L::Fe, b: &L::Fe) -> L::Fe {
        self.count(1).0.product(a, b)
    }
    fn square(self, a: &L::Fe) -> L::Fe {
        self.count(1).0.square(a)
    }
    fn factor(self, a: &L::Raw) -> L::Fe {
        self.0.factor(a)
    }
    fn factor_less(self, a: &L::Raw, b: &L::Fe) -> L::Fe {
        self.0.factor_less(a, b)
    }
    fn raw(self, a: &L::Fe) -> L::Raw {
        self.0.raw(a)
    }
    fn mul_raw(self, a: &L::Fe, b: &L::Fe) -> L::Raw {
        self.count(1).0.mul_raw(a, b)
    }
    fn sqr_raw(self, a: &L::Fe) -> L::Raw {
        self.count(1).0.sqr_raw(a)
    }
    fn mul_sub_mul(self, a: &L::Fe, b: &L::Fe, c: &L::Fe, d: &L::Fe) -> L::Fe {
        self.count(2).0.mul_sub_mul(a, b, c, d)
    }
    fn mul_sub_8_squares(self, a: &L::Fe, b: &L::Fe, c: &L::Fe) -> L::Fe {
        self.count(2).0.mul_sub_8_squares(a, b, c)
    }
    fn raw_add(self, a: &L::Raw, b: &L::Raw) -> L::Raw {
        self.0.raw_add(a, b)
    }
    fn raw_sub(self, a: &L::Raw, b: &L::Raw) -> L::Raw {
        self.0.raw_sub(a, b)
    }
    fn normal(self, a: &L::Raw) -> L::Fe {
        self.0.normal(a)
    }
    /// Inverts without counting: an inversion takes as long as many multiplications, but there is one for a whole
    /// batch.
    fn invert(self, a: &L::Fe) -> Option<L::Fe> {
        self.count(60).0.invert(a)
    }
    fn zeros(self, a: &L::Fe) -> u8 {
        self.0.zeros(a)
    }
    fn select(self, mask: u8, a: &L::Fe, b: &L::Fe) -> L::Fe {
        self.0.select(mask, a, b)
    }
    fn prefetch(self, table_point: &TablePoint) {
        self.0.prefetch(table_point);
    }
    fn load_table_points(self, table_points: &[&TablePoint], negate: u8) -> Affine<L::Fe> {
        self.0.load_table_points(table_points, negate)
    }
    fn store_table_points(self, points: &Affine<L::Fe>, table_points: &mut [TablePoint]) {
        self.0.store_table_points(points, table_points);
    }
    fn scalars(self, plain: &[U256]) -> L::Sc {
        self.0.scalars(plain)
    }
    fn store_scalars(self, a: &L::Sc, plain: &mut [U256]) {
        self.0.store_scalars(a, plain);
    }
    fn scalar_mul(self, a: &L::Sc, b: &L::Sc) -> L::Sc {
        self.count(1).0.scalar_mul(a, b)
    }
    fn scalar_invert(self, a: &L::Sc) -> L::Sc {
        self.count(60).0.scalar_invert(a)
    }
}

const WIDTH: u32 = 8;
const BATCH: usize = 64;

struct Setting<C> {
    l: Counting<Portable<C>>,
    generator: Table,
}

impl<C: Reference + Reduction> Setting<C> {
    fn entry(&self, d: &U256, u1: &U256, u2: &U256) -> Entry {
        let signature = Signature::of::<C>(d, u1, u2);
        let table = Arc::new(Table::build(self.l.0, &signature.key, WIDTH));
        Entry::new::<Counting<Portable<C>>>(signature, Some(table), &self.generator)
    }

    fn cost(&self, batch: &[Entry]) -> usize {
        MULTIPLICATIONS.set(0);
        check(self.l, &self.generator, batch);
        MULTIPLICATIONS.take()
    }

    /// Returns the cost of the same signatures if their keys have no tables.
    fn generic_cost(&self, batch: &[Entry]) -> usize {
        let without = |entry: &Entry| {
            Entry::new::<Counting<Portable<C>>>(entry.signature.clone(), None, &self.generator)
        };
        let batch: Vec<Entry> = batch.iter().map(without).collect();
        self.cost(&batch)
    }
}

fn costs<C: Reference + Reduction>() {
    let (mut random, n) = (Random(61), big(&C::N));
    let l = Counting(Portable::<C>::new());
    let setting = Setting {
        l,
        generator: Table::build(l.0, &C::G, WIDTH),
    };
    let mut number = || random.number(&C::N);
    let (d, mut hostile, mut infinite, mut honest) = (number(), Vec::new(), Vec::new(), Vec::new());
    let first = setting.entry(&d, &number(), &number());
    for k in 0..BATCH {
        let (u1, u2) = (number(), number());
        let signature = Signature::of::<C>(&d, &u1, &u2);
        honest.push(Entry::new::<Counting<Portable<C>>>(
            signature,
            first.table.clone(),
            &setting.generator,
        ));
        if k >= 8 {
            continue;
        }
        let meetings = tree_meetings::<C>(&u1, &u2, [WIDTH, WIDTH]);
        // Choose meetings from the first level of the tree to the last.
        let meeting = &meetings[k * (meetings.len() - 1) / 7];
        let key = key_for(meeting, k % 2 == 0, &n).expect("their multiples of Q differ");
        hostile.push(setting.entry(&key, &u1, &u2));
        // The worst case is a sum that is the point at infinity, which neither the tables nor the fast formulas can
        // decide.
        let meeting = &meetings[meetings.len() - 1];
        let key = key_for(meeting, true, &n).expect("their multiples of Q differ");
        infinite.push(setting.entry(&key, &u1, &u2));
        assert_eq!((hostile[k].exceptional, infinite[k].exceptional), (1, 1));
    }
    let honest_cost = setting.cost(&honest);
    let generic_cost = setting.generic_cost(&honest);
    // A batch of such signatures must cost at most three times as much as without tables.
    for entries in [&hostile, &infinite] {
        let batch: Vec<Entry> = (0..BATCH).map(|k| entries[k % 8].clone()).collect();
        let cost = setting.cost(&batch);
        let name = C::CURVE;
        println!("{name:?}: honest {honest_cost}, generic {generic_cost}, hostile {cost} multiplications");
        assert!(cost <= 3 * setting.generic_cost(&batch));
        assert!(cost <= 3 * generic_cost);
    }
    // One such signature in a batch must cost at most one additional pass over the other signatures, which has one
    // multiplication for each addition (an addition has six).
    for entry in hostile.iter().chain(&infinite) {
        let mut batch = honest.clone();
        batch[37] = entry.clone();
        let alone = setting.generic_cost(std::slice::from_ref(entry));
        assert!(setting.cost(&batch) <= honest_cost + honest_cost / 5 + alone);
    }
}

#[test]
fn exceptional_cases_cost_no_more_than_allowed_on_p256() {
    costs::<P256>();
}

#[test]
fn exceptional_cases_cost_no_more_than_allowed_on_secp256k1() {
    costs::<Secp256k1>();
}
