//! Tests of the formulas for points, with every pair of points of two tiny curves, in one lane and in several lanes.

use super::tiny::{Group, MinusThree, Tiny, Zero};
use crate::affine::{Pair, add_pairs, double_all};
use crate::curve::Params;
use crate::jacobian::{self, Jacobian};
use crate::lanes::{Affine, Lanes};
use crate::uint::{ONE, U256};

macro_rules! every_tiny_curve {
    ($($test:ident),+ $(,)?) => {
        every_tiny_curve! { @width one_lane, 1, $($test),+ }
        every_tiny_curve! { @width four_lanes, 4, $($test),+ }
        every_tiny_curve! { @width eight_lanes, 8, $($test),+ }
    };
    (@width $name:ident, $width:literal, $($test:ident),+) => {
        mod $name {
            $(#[test]
            fn $test() {
                super::$test(super::Tiny::<super::MinusThree, $width>::new());
                super::$test(super::Tiny::<super::Zero, $width>::new());
            })+
        }
    };
}

every_tiny_curve! {
    doubling_every_point_of_every_z,
    adding_every_pair,
    adding_every_pair_completely,
    zero_z_stays_zero,
    adding_every_pair_in_batches,
    adding_pairs_that_are_never_exceptional_marks_nothing,
    doubling_every_point_in_batches,
}

type Point = Option<(u64, u64)>;
/// Jacobian coordinates X, Y and Z.
type Coordinates = [u64; 3];

fn wide(value: u64) -> U256 {
    [value, 0, 0, 0]
}

/// Returns the Jacobian coordinates of a point with the given Z. The point at infinity has three zeros, as
/// `add_complete` requires.
fn scaled(group: &Group, point: Point, z: u64, p: u64) -> Coordinates {
    assert!(group.points.contains(&point));
    match point {
        Some((x, y)) => [x * z % p * z % p, y * z % p * z % p * z % p, z],
        None => [0; 3],
    }
}

/// Returns the point that Jacobian coordinates represent.
fn unscaled(group: &Group, [x, y, z]: Coordinates, p: u64) -> Point {
    (z != 0).then(|| {
        let over_z = group.inverse(z);
        let over_z2 = over_z * over_z % p;
        (x * over_z2 % p, y * over_z2 % p * over_z % p)
    })
}

fn load<L: Lanes>(l: L, values: impl Fn(usize) -> u64) -> L::Fe {
    let plain: Vec<U256> = (0..L::LANES).map(|lane| wide(values(lane))).collect();
    l.load(&plain)
}

fn stored<L: Lanes>(l: L, element: &L::Fe) -> Vec<u64> {
    let mut plain = vec![[0; 4]; L::LANES];
    l.store(element, &mut plain);
    plain.iter().map(|words| words[0]).collect()
}

fn load_affine<L: Lanes>(l: L, point: impl Fn(usize) -> Point) -> Affine<L::Fe> {
    let point = |lane| point(lane).expect("affine points are finite");
    Affine {
        x: load(l, |lane| point(lane).0),
        y: load(l, |lane| point(lane).1),
    }
}

fn load_jacobian<L: Lanes>(l: L, point: impl Fn(usize) -> Coordinates) -> Jacobian<L::Fe> {
    let [x, y, z] = [0, 1, 2].map(|k| load(l, |lane| point(lane)[k]));
    Jacobian { x, y, z }
}

fn stored_jacobian<L: Lanes>(l: L, point: &Jacobian<L::Fe>) -> Vec<Coordinates> {
    // Z is a factor and cannot be stored, but its product with one is a normal element.
    let z = l.mul(&point.z, &l.splat(&ONE));
    let [x, y, z] = [&point.x, &point.y, &z].map(|element| stored(l, element));
    (0..L::LANES).map(|lane| [x[lane], y[lane], z[lane]]).collect()
}

/// Returns some values of Z, among them values with which a missing factor in a formula gives a wrong result.
fn some_z(p: u64) -> [u64; 6] {
    [1, 2, p - 1, p / 2 + 1, 5, 44]
}

/// Calls `run` with `LANES` cases at a time, and compares the results with the third element of each case. The expected
/// value `None` means Z = 0.
fn check<L: Lanes, T>(
    group: &Group,
    cases: &[(Coordinates, T, Point)],
    run: impl Fn(&dyn Fn(usize) -> usize) -> Vec<Coordinates>,
) {
    for first in (0..cases.len()).step_by(L::LANES) {
        let case = |lane: usize| (first + lane).min(cases.len() - 1);
        for (lane, got) in run(&case).into_iter().enumerate() {
            let (a, _, expected) = &cases[case(lane)];
            let got = unscaled(group, got, L::Curve::P[0]);
            assert_eq!(
                got,
                *expected,
                "case {}, lane {lane}, first operand {a:?}",
                case(lane)
            );
        }
    }
}

fn doubling_every_point_of_every_z<L: Lanes>(l: L) {
    let (group, p) = (Group::of::<L::Curve>(), L::Curve::P[0]);
    let order = group.points.len();
    let mut cases = Vec::new();
    for (k, point) in group.points.iter().enumerate() {
        let twice = group.points[2 * k % order];
        cases.extend((1..p).map(|z| (scaled(&group, *point, z, p), (), twice)));
    }
    check::<L, _>(&group, &cases, |case| {
        let double = jacobian::double(l, &load_jacobian(l, |lane| cases[case(lane)].0));
        stored_jacobian(l, &double)
    });
}

/// Returns all pairs of points whose second point is finite, with some values of Z for the first point. `sum` returns
/// the expected sum of the multiples i and j of the generator.
fn pairs<C: Params>(group: &Group, sum: impl Fn(usize, usize) -> Point) -> Vec<(Coordinates, Point, Point)> {
    let p = C::P[0];
    let order = group.points.len();
    let mut cases = Vec::new();
    for i in 0..order {
        for j in 1..order {
            for z in some_z(p) {
                cases.push((scaled(group, group.points[i], z, p), group.points[j], sum(i, j)));
            }
        }
    }
    cases
}

fn adding_every_pair<L: Lanes>(l: L) {
    let group = Group::of::<L::Curve>();
    let order = group.points.len();
    let cases = pairs::<L::Curve>(&group, |i, j| {
        // `add` cannot add the point at infinity, equal points and opposite points.
        let possible = i != 0 && i != j && i + j != order;
        if possible {
            group.points[(i + j) % order]
        } else {
            None
        }
    });
    check::<L, _>(&group, &cases, |case| {
        let a = load_jacobian(l, |lane| cases[case(lane)].0);
        let b = load_affine(l, |lane| cases[case(lane)].1);
        stored_jacobian(l, &jacobian::add(l, &a, &b))
    });
}

fn adding_every_pair_completely<L: Lanes>(l: L) {
    let group = Group::of::<L::Curve>();
    let order = group.points.len();
    let cases = pairs::<L::Curve>(&group, |i, j| group.points[(i + j) % order]);
    check::<L, _>(&group, &cases, |case| {
        let a = load_jacobian(l, |lane| cases[case(lane)].0);
        let b = load_affine(l, |lane| cases[case(lane)].1);
        let sum = stored_jacobian(l, &jacobian::add_complete(l, &a, &b));
        // The point at infinity must have three zeros, the form that the next addition requires.
        assert!(sum.iter().all(|&[x, y, z]| z != 0 || (x, y) == (0, 0)));
        sum
    });
}

/// Checks that operations on a point with Z = 0 and any X and Y, as after a failed addition, return Z = 0.
fn zero_z_stays_zero<L: Lanes>(l: L) {
    let (group, p) = (Group::of::<L::Curve>(), L::Curve::P[0]);
    let order = group.points.len() as u64;
    let mut cases = Vec::new();
    for x in 0..p {
        for y in 0..p {
            let b = group.points[(1 + (31 * x + y) % (order - 1)) as usize];
            cases.push(([x, y, 0], b, None));
        }
    }
    check::<L, _>(&group, &cases, |case| {
        let a = load_jacobian(l, |lane| cases[case(lane)].0);
        let b = load_affine(l, |lane| cases[case(lane)].1);
        let double = stored_jacobian(l, &jacobian::double(l, &a));
        assert!(double.iter().all(|coordinates| coordinates[2] == 0));
        stored_jacobian(l, &jacobian::add(l, &a, &b))
    });
}

/// Computes `i·G + j·G` for all given (i, j) in one batch, `LANES` additions in each pair of vectors. Returns each sum,
/// and true if its lane was marked as exceptional.
fn add_in_batch<L: Lanes>(l: L, group: &Group, multiples: &[(usize, usize)]) -> Vec<(Point, bool)> {
    let at = |pair: usize, lane: usize| multiples[(pair * L::LANES + lane).min(multiples.len() - 1)];
    let count = multiples.len().div_ceil(L::LANES);
    let (mut points, mut pairs) = (Vec::new(), Vec::new());
    // `add_pairs` accepts pairs in any order, so the pairs are in another order than their points.
    for pair in (0..count).rev() {
        pairs.push(Pair {
            to: points.len() as u32,
            from: points.len() as u32 + 1,
            group: pair as u32,
        });
        points.push(load_affine(l, |lane| group.points[at(pair, lane).0]));
        points.push(load_affine(l, |lane| group.points[at(pair, lane).1]));
    }
    pairs.rotate_left(count / 3);
    let mut marked = vec![0; count];
    add_pairs(l, &mut points, &pairs, &mut Vec::new(), &mut marked, &mut ());
    let mut sums = vec![(None, false); count * L::LANES];
    for pair in &pairs {
        let sum = &points[pair.to as usize];
        let (x, y) = (stored(l, &sum.x), stored(l, &sum.y));
        for lane in 0..L::LANES {
            let is_marked = marked[pair.group as usize] >> lane & 1 == 1;
            sums[pair.group as usize * L::LANES + lane] = (Some((x[lane], y[lane])), is_marked);
        }
    }
    sums.truncate(multiples.len());
    sums
}

fn check_batch<L: Lanes>(l: L, group: &Group, multiples: &[(usize, usize)]) {
    let order = group.points.len();
    for (&(i, j), (sum, is_marked)) in multiples.iter().zip(add_in_batch(l, group, multiples)) {
        let exceptional = i == j || i + j == order;
        assert_eq!(is_marked, exceptional, "{i} and {j}");
        if !exceptional {
            assert_eq!(sum, group.points[(i + j) % order], "{i} and {j}");
        }
    }
}

fn adding_every_pair_in_batches<L: Lanes>(l: L) {
    let group = Group::of::<L::Curve>();
    let order = group.points.len();
    for i in 1..order {
        let multiples: Vec<_> = (1..order).map(|j| (i, j)).collect();
        check_batch(l, &group, &multiples);
    }
    // Put one exceptional case at each place of a batch of each length, because a running product may begin and end at
    // any place.
    for length in 1..4 * L::LANES + 2 {
        for place in 0..length {
            for exceptional in [(7, 7), (7, order - 7)] {
                let mut multiples: Vec<_> = (0..length).map(|k| (2 + k, order - 50)).collect();
                multiples[place] = exceptional;
                check_batch(l, &group, &multiples);
            }
        }
    }
}

fn adding_pairs_that_are_never_exceptional_marks_nothing<L: Lanes>(l: L) {
    let group = Group::of::<L::Curve>();
    let order = group.points.len();
    for i in 1..order {
        let mut multiples: Vec<_> = (1..order).map(|j| (i, j)).collect();
        multiples.retain(|&(i, j)| i != j && i + j != order);
        multiples.truncate(order - 3 - i % 9);
        check_batch(l, &group, &multiples);
    }
    add_pairs(l, &mut [], &[], &mut Vec::new(), &mut [], &mut ());
}

fn doubling_every_point_in_batches<L: Lanes>(l: L) {
    let group = Group::of::<L::Curve>();
    let order = group.points.len();
    for length in (1..order).filter(|length| *length < 12 || *length == order - 1) {
        let at = |vector: usize, lane: usize| 1 + (vector * L::LANES + lane) % length;
        let count = length.div_ceil(L::LANES);
        let mut points: Vec<_> = (0..count)
            .map(|vector| load_affine(l, |lane| group.points[at(vector, lane)]))
            .collect();
        double_all(l, &mut points, &mut Vec::new());
        for (vector, point) in points.iter().enumerate() {
            let (x, y) = (stored(l, &point.x), stored(l, &point.y));
            for lane in 0..L::LANES {
                let expected = group.points[2 * at(vector, lane) % order];
                assert_eq!(Some((x[lane], y[lane])), expected);
            }
        }
    }
}
