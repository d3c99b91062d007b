//! Construction of signatures that lead to exceptional cases, as an attacker who knows the private key can do it.
//!
//! Every point that the engine computes is a·G + b·Q, where a and b follow from the digits of u₁ and u₂. With Q = d·G,
//! the point corresponds to the number a + b·d modulo n. A simulation of the engine's additions on the pairs (a, b)
//! shows which two points are added (meet). For any two of them there is one private key d for which they are equal,
//! and one for which they are opposite.

use super::recode::LAMBDA;
use super::reference::Reference;
use super::{big, words};
use crate::curve::Params;
use crate::endomorphism::{HALF_BITS, split};
use crate::engine::{Job, Scratch, Tally, verify};
use crate::few;
use crate::lanes::Lanes;
use crate::portable::Reduction;
use crate::recode::{Odd, windows};
use crate::table::Table;
use crate::uint::{U256, is_zero};
use num_bigint::BigUint;
use std::sync::Arc;

/// Width in bits of the windows in the loop for keys without a table.
const LOOP_WIDTH: u32 = 5;

/// Point a·G + b·Q, as the numbers a and b.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    a: BigUint,
    b: BigUint,
}

impl Sum {
    fn plus(&self, other: &Self, n: &BigUint) -> Self {
        Self {
            a: (&self.a + &other.a) % n,
            b: (&self.b + &other.b) % n,
        }
    }

    /// Returns the number a + b·d of the point for a private key d.
    fn at(&self, d: &BigUint, n: &BigUint) -> BigUint {
        (&self.a + &self.b * d) % n
    }
}

/// Two points that are added.
pub(super) type Meeting = (Sum, Sum);

/// Returns true if the points are equal or opposite, or if one of them is the point at infinity.
fn is_exceptional((x, y): &Meeting, d: &BigUint, n: &BigUint) -> bool {
    let (x, y) = (x.at(d, n), y.at(d, n));
    x == y || (&x + &y) % n == BigUint::ZERO || x == BigUint::ZERO || y == BigUint::ZERO
}

/// Returns the private key for which the two points are equal or, if `opposite` is set, opposite.
pub(super) fn key_for((x, y): &Meeting, opposite: bool, n: &BigUint) -> Option<U256> {
    let y = if opposite {
        Sum {
            a: (n - &y.a) % n,
            b: (n - &y.b) % n,
        }
    } else {
        y.clone()
    };
    // Solve x.a + x.b·d = y.a + y.b·d for d.
    let over = (n + &x.b - &y.b) % n;
    let d = (n + &y.a - &x.a) % n * over.modinv(n)? % n;
    (d != BigUint::ZERO).then(|| words(&d))
}

/// Returns the numbers that the digits of a scalar represent, beginning with the lowest window.
fn digits(odd: &Odd, width: u32, windows: usize, n: &BigUint, shift: bool) -> Vec<BigUint> {
    (0..windows)
        .map(|window| {
            let (index, negative) = odd.digit(window, width);
            let shift = if shift { window as u32 * width } else { 0 };
            let digit = (BigUint::from(2 * index + 1) << shift) % n;
            if negative { n - digit } else { digit }
        })
        .collect()
}

fn of_g(a: BigUint) -> Sum {
    Sum { a, b: BigUint::ZERO }
}

fn of_q(b: BigUint) -> Sum {
    Sum { a: BigUint::ZERO, b }
}

/// Returns the table points that are added if the generator and the key have tables: first the generator's points, then
/// the key's.
fn table_points<C: Params>(u1: &U256, u2: &U256, widths: [u32; 2]) -> Vec<Sum> {
    let n = &big(&C::N);
    let all_digits = |scalar: &U256, width: u32| {
        let windows = windows(256, width);
        digits(
            &Odd::of_scalar(scalar, &C::N, width, windows),
            width,
            windows,
            n,
            true,
        )
    };
    let mut points: Vec<Sum> = all_digits(u1, widths[0]).into_iter().map(of_g).collect();
    points.extend(all_digits(u2, widths[1]).into_iter().map(of_q));
    points
}

/// Returns the pairs of points that are added in a small batch with tables, where the points are added one after the
/// other.
pub(super) fn chain_meetings<C: Params>(u1: &U256, u2: &U256, widths: [u32; 2]) -> Vec<Meeting> {
    let n = &big(&C::N);
    let points = table_points::<C>(u1, u2, widths);
    let (mut meetings, mut sum) = (Vec::new(), points[0].clone());
    for point in &points[1..] {
        meetings.push((sum.clone(), point.clone()));
        sum = sum.plus(point, n);
    }
    meetings
}

/// Returns the pairs of points that are added in a large batch with tables: in each level of the tree, the upper half
/// of the points is added to the lower half.
pub(super) fn tree_meetings<C: Params>(u1: &U256, u2: &U256, widths: [u32; 2]) -> Vec<Meeting> {
    let n = &big(&C::N);
    let mut points = table_points::<C>(u1, u2, widths);
    let mut meetings = Vec::new();
    while points.len() > 1 {
        let half = points.len() / 2;
        let upper = points.len() - half;
        for k in 0..half {
            meetings.push((points[k].clone(), points[upper + k].clone()));
            points[k] = points[k].plus(&points[upper + k], n);
        }
        points.truncate(upper);
    }
    meetings
}

/// Returns the pairs of points that are added if only the generator has a table: doublings and additions of multiples
/// of the key, then additions of the generator's points.
pub(super) fn loop_meetings<C: Params>(u1: &U256, u2: &U256, generator_width: u32) -> Vec<Meeting> {
    let (n, width) = (&big(&C::N), LOOP_WIDTH);
    let parts: Vec<Vec<BigUint>> = if C::HAS_ENDOMORPHISM {
        let windows = windows(HALF_BITS, width);
        let halves = split(u2).map(|half| Odd::of_magnitude(&half.magnitude, half.negative, width, windows));
        let [first, second] = halves.map(|odd| digits(&odd, width, windows, n, false));
        vec![
            first,
            second.iter().map(|digit| digit * big(&LAMBDA) % n).collect(),
        ]
    } else {
        let windows = windows(256, width);
        vec![digits(
            &Odd::of_scalar(u2, &C::N, width, windows),
            width,
            windows,
            n,
            false,
        )]
    };
    let (mut meetings, mut sum) = (Vec::new(), Sum::default());
    let top = parts[0].len() - 1;
    for i in (0..=top).rev() {
        sum.b = (sum.b << width) % n;
        for (part, digits) in parts.iter().enumerate() {
            let point = of_q(digits[i].clone());
            if (i, part) != (top, 0) {
                meetings.push((sum.clone(), point.clone()));
            }
            sum = sum.plus(&point, n);
        }
    }
    if !is_zero(u1) {
        let windows = windows(256, generator_width);
        let odd = Odd::of_scalar(u1, &C::N, generator_width, windows);
        for digit in digits(&odd, generator_width, windows, n, true) {
            meetings.push((sum.clone(), of_g(digit.clone())));
            sum = sum.plus(&of_g(digit), n);
        }
    }
    meetings
}

/// Signature to verify, with its key.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub(super) r: U256,
    pub(super) s: U256,
    pub(super) z: U256,
    pub(super) key: (U256, U256),
    /// Private key; `None` if it is not known.
    pub(super) d: Option<U256>,
}

/// Verdict of RustCrypto's implementation on a signature, with intermediate results.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) u1: U256,
    pub(super) u2: U256,
    pub(super) x: Option<U256>,
    pub(super) valid: bool,
}

impl Signature {
    /// Creates a signature with these u₁ and u₂ for the key d·G. The signature is valid, unless u₁·G + u₂·Q is the
    /// point at infinity, which has no r.
    pub(super) fn of<C: Reference>(d: &U256, u1: &U256, u2: &U256) -> Self {
        let n = big(&C::N);
        let sum = words(&((big(u1) + big(u2) * big(d)) % &n));
        let r = C::multiply(&sum, &C::G).map_or(BigUint::from(0x5eed_u32), |(x, _)| big(&x) % &n);
        Self::with_r::<C>(d, u1, u2, &r)
    }

    /// Creates a signature with these u₁ and u₂, which takes the same path through the engine, but with the given r.
    pub(super) fn with_r<C: Reference>(d: &U256, u1: &U256, u2: &U256, r: &BigUint) -> Self {
        let n = big(&C::N);
        let s = r * big(u2).modinv(&n).expect("u2 is not zero") % &n;
        let z = &s * big(u1) % &n;
        Self {
            r: words(r),
            s: words(&s),
            z: words(&z),
            key: C::multiply(d, &C::G).expect("d is not zero"),
            d: Some(*d),
        }
    }

    pub(super) fn verdict<C: Reference>(&self) -> Verdict {
        let n = big(&C::N);
        let over_s = big(&self.s).modinv(&n).expect("s is not zero");
        let u1 = words(&(big(&self.z) * &over_s % &n));
        let u2 = words(&(big(&self.r) * &over_s % &n));
        let x = C::combine(&u1, &C::G, &u2, &self.key).map(|(x, _)| x);
        let valid = x.is_some_and(|x| big(&x) % &n == big(&self.r));
        Verdict { u1, u2, x, valid }
    }
}

/// Signature in a batch, with or without a table for its key.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) signature: Signature,
    pub(super) table: Option<Arc<Table>>,
    pub(super) verdict: Verdict,
    /// Expected number of times (0 or 1) that the engine counts the signature as exceptional in a large batch.
    pub(super) exceptional: usize,
    /// Expected number of times (0 or 1) in a small batch, in which points are added one after the other.
    pub(super) exceptional_among_few: usize,
}

impl Entry {
    pub(super) fn new<L: Lanes<Curve: Reference>>(
        signature: Signature,
        table: Option<Arc<Table>>,
        generator: &Table,
    ) -> Self {
        let verdict = signature.verdict::<L::Curve>();
        let [exceptional, exceptional_among_few] = [tree_meetings::<L::Curve>, chain_meetings::<L::Curve>]
            .map(|meet| {
                exceptional::<L::Curve>(&signature, &verdict, table.as_deref(), generator.width(), meet)
            });
        Self {
            signature,
            table,
            verdict,
            exceptional,
            exceptional_among_few,
        }
    }
}

/// Returns 1 if the tables leave the signature undecided, or if the fast formulas fail, or if both happen; otherwise 0.
fn exceptional<C: Params>(
    signature: &Signature,
    verdict: &Verdict,
    table: Option<&Table>,
    generator: u32,
    meet: fn(&U256, &U256, [u32; 2]) -> Vec<Meeting>,
) -> usize {
    let (n, p) = (big(&C::N), big(&C::P));
    let Verdict { u1, u2, x, .. } = verdict;
    let met = |meetings: &[Meeting]| {
        let d = signature.d.map(|d| big(&d));
        // If d is not known, the signature was not constructed for a meeting.
        d.is_some_and(|d| meetings.iter().any(|meeting| is_exceptional(meeting, &d, &n)))
    };
    // If u₁ is zero, it has no digits, and the tables are not used.
    let table = table.filter(|_| !is_zero(u1));
    let undecided = table.is_some_and(|table| {
        let may_be_above = big(&signature.r) + &n < p && *x != Some(signature.r);
        may_be_above || met(&meet(u1, u2, [generator, table.width()]))
    });
    let by_loop = || table.is_none() && met(&loop_meetings::<C>(u1, u2, generator));
    usize::from(undecided || by_loop())
}

/// Verifies a batch, and compares every verdict and the tally with the expected ones.
pub(super) fn check<L: Lanes<Curve: Reference + Reduction>>(
    l: L,
    generator: &Table,
    batch: &[Entry],
) -> Tally {
    check_with(l, generator, batch, &mut || None)
}

/// Verifies a batch like `check`, and lets the portable backend decide a single signature without a table, with the
/// generator's table that the given function returns.
pub(super) fn check_with<L: Lanes<Curve: Reference + Reduction>>(
    l: L,
    generator: &Table,
    batch: &[Entry],
    portable_generator: &mut dyn FnMut() -> Option<Arc<Table>>,
) -> Tally {
    let mut jobs: Vec<Job> = batch
        .iter()
        .enumerate()
        .map(|(index, entry)| Job {
            index,
            r: entry.signature.r,
            s: entry.signature.s,
            z: entry.signature.z,
            key: entry.signature.key,
            table: entry.table.as_deref(),
        })
        .collect();
    let mut verdicts = vec![None; batch.len()];
    let tally = verify(
        l,
        generator,
        &mut jobs,
        &mut Scratch::default(),
        portable_generator,
        &mut |index, valid| {
            assert_eq!(verdicts[index].replace(valid), None, "decided twice");
        },
    );
    for (at, (entry, verdict)) in batch.iter().zip(verdicts).enumerate() {
        let has_table = entry.table.is_some();
        assert_eq!(
            verdict,
            Some(entry.verdict.valid),
            "{at}, table {has_table}: {:x?}",
            entry.signature
        );
    }
    let mut by_width = std::collections::HashMap::new();
    for entry in batch.iter().filter(|entry| !is_zero(&entry.verdict.u1)) {
        if let Some(table) = &entry.table {
            *by_width.entry(table.width()).or_insert(0usize) += 1;
        }
    }
    let vectors: usize = by_width.values().map(|count| count.div_ceil(L::LANES)).sum();
    let of = |entry: &Entry| match vectors <= few::VECTORS {
        true => entry.exceptional_among_few,
        false => entry.exceptional,
    };
    let expected: usize = batch.iter().map(of).sum();
    assert_eq!(tally.exceptional, expected, "exceptional cases");
    assert_eq!(tally.precomputed + tally.generic, batch.len());
    tally
}
