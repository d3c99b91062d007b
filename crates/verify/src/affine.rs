//! Batches of affine additions: one inversion for all of them (Montgomery's trick), so that each costs 5 multiplications
//! and one squaring where Jacobian coordinates cost 8 and 3.
//!
//! For P₁ + P₂ with x₁ ≠ x₂: λ = (y₂ - y₁)/(x₂ - x₁), x₃ = λ² - x₁ - x₂, y₃ = λ(x₁ - x₃) - y₁. The trick: with the running
//! products c₀ = 1, cₖ = cₖ₋₁·dₖ, the inverse of the last one gives 1/dₖ = cₖ₋₁/cₖ, last to first.
//!
//! Where x₁ = x₂ the formula has no answer (the sum is a double or nothing). Honest inputs never get there; who knows
//! their private key can. Such a lane makes the whole product zero: then, and only then, the zeros are looked for and
//! replaced by one, and the lanes are marked. What stands in a marked lane from then on means nothing.

use crate::lanes::{Affine, Lanes, Stage};
use crate::uint::ONE;

/// `points[to] += points[from]`; `points[from]` is used up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) to: u32,
    pub(crate) from: u32,
    /// Whose lanes are marked if this goes wrong.
    pub(crate) group: u32,
}

/// Running products that do not wait for each other: a multiplication takes about twice as long as its share of the ports.
const CHAINS: usize = 4;

/// What is done beside the additions, a little with each, to hide how long it takes.
pub(crate) trait Beside {
    fn step(&mut self);
}

/// Nothing.
impl Beside for () {
    #[inline(always)]
    fn step(&mut self) {}
}

/// Does all `pairs`, in any order: no point may be in two of them. `products` is scratch. Marks the exceptional lanes in
/// `marked`, a mask for each group.
#[inline(always)]
pub(crate) fn add_pairs<L: Lanes>(
    l: L,
    points: &mut [Affine<L::Fe>],
    pairs: &[Pair],
    products: &mut Vec<L::Fe>,
    marked: &mut [u8],
    beside: &mut impl Beside,
) {
    if pairs.is_empty() {
        return;
    }
    let one = l.splat(&ONE);
    products.clear();
    let mut running = [one; CHAINS];
    for chunk in pairs.chunks(CHAINS) {
        for (chain, pair) in running.iter_mut().zip(chunk) {
            let d = l.diff(&points[pair.from as usize].x, &points[pair.to as usize].x);
            points[pair.from as usize].x = d;
            products.push(*chain);
            *chain = l.mul(chain, &d);
            beside.step();
        }
    }
    let mut inverses = match invert_chains(l, &running) {
        Some(inverses) => inverses,
        None => l.run(MarkZeros {
            l,
            points,
            pairs,
            products,
            marked,
        }),
    };
    let whole = pairs.len() / CHAINS * CHAINS;
    for (k, pair) in pairs.iter().enumerate().skip(whole).rev() {
        finish(l, points, pair, &products[k], &mut inverses[k % CHAINS]);
    }
    for (chunk, products) in pairs[..whole]
        .chunks_exact(CHAINS)
        .zip(products[..whole].chunks_exact(CHAINS))
        .rev()
    {
        for k in 0..CHAINS {
            finish(l, points, &chunk[k], &products[k], &mut inverses[k]);
        }
    }
}

/// The second half of one addition. `inverse` is that of the product up to this pair, and becomes that of the one before.
#[inline(always)]
fn finish<L: Lanes>(l: L, points: &mut [Affine<L::Fe>], pair: &Pair, product: &L::Fe, inverse: &mut L::Fe) {
    let Affine { x: d, y: y2 } = points[pair.from as usize];
    let Affine { x: x1, y: y1 } = points[pair.to as usize];
    let over_d = l.mul(inverse, product);
    *inverse = l.mul(inverse, &d);
    let slope = l.mul(&over_d, &l.diff(&y2, &y1));
    // x₂ = x₁ + d.
    let x1_twice = l.raw_add(&l.raw(&x1), &l.raw(&x1));
    let x3 = l.normal(&l.raw_sub(&l.sqr_raw(&slope), &l.raw_add(&x1_twice, &l.raw(&d))));
    let y3 = l.normal(&l.raw_sub(&l.mul_raw(&slope, &l.diff(&x1, &x3)), &l.raw(&y1)));
    points[pair.to as usize] = Affine { x: x3, y: y3 };
}

/// The inverse of each chain by one inversion, or `None` when one of them is zero in some lane.
#[inline(always)]
fn invert_chains<L: Lanes>(l: L, running: &[L::Fe; CHAINS]) -> Option<[L::Fe; CHAINS]> {
    let mut together = *running;
    for k in 1..CHAINS {
        together[k] = l.mul(&together[k - 1], &running[k]);
    }
    let mut inverse = l.invert(&together[CHAINS - 1])?;
    let mut inverses = *running;
    for k in (1..CHAINS).rev() {
        inverses[k] = l.mul(&inverse, &together[k - 1]);
        inverse = l.mul(&inverse, &running[k]);
    }
    inverses[0] = inverse;
    Some(inverses)
}

/// The one extra pass: replaces the differences that are zero and marks their lanes.
struct MarkZeros<'a, L: Lanes> {
    l: L,
    points: &'a mut [Affine<L::Fe>],
    pairs: &'a [Pair],
    products: &'a mut Vec<L::Fe>,
    marked: &'a mut [u8],
}

impl<L: Lanes> Stage for MarkZeros<'_, L> {
    type Out = [L::Fe; CHAINS];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let l = self.l;
        let one = l.splat(&ONE);
        let mut running = [one; CHAINS];
        self.products.clear();
        for (k, pair) in self.pairs.iter().enumerate() {
            let d = &mut self.points[pair.from as usize].x;
            // A difference is a factor, and only normal elements are looked at: 3p in the wider form is a zero too.
            let zeros = l.zeros(&l.normal(&l.raw(d)));
            if zeros != 0 {
                *d = l.select(zeros, &one, d);
                self.marked[pair.group as usize] |= zeros;
            }
            self.products.push(running[k % CHAINS]);
            running[k % CHAINS] = l.mul(&running[k % CHAINS], d);
        }
        invert_chains(l, &running).expect("no difference is zero any more")
    }
}

/// Doubles every point, 5 multiplications and 2 squarings each: λ = (3x² + a)/2y, and y is never zero where the order is
/// odd. `products` is scratch.
#[inline(always)]
pub(crate) fn double_all<L: Lanes>(l: L, points: &mut [Affine<L::Fe>], products: &mut Vec<L::Fe>) {
    let mut running = l.splat(&ONE);
    products.clear();
    for point in points.iter() {
        products.push(running);
        running = l.mul(&running, &point.y);
    }
    let mut inverse = l.invert(&running).expect("no point of order two");
    let half = l.splat(&half_of_one(&<L::Curve as crate::curve::Params>::P));
    for (point, product) in points.iter_mut().zip(products.iter()).rev() {
        let Affine { x, y } = *point;
        let over_2y = l.mul(&l.mul(&inverse, product), &half);
        inverse = l.mul(&inverse, &y);
        let slope = l.mul(&tangent(l, &x), &over_2y);
        let x_twice = l.raw_add(&l.raw(&x), &l.raw(&x));
        let x3 = l.normal(&l.raw_sub(&l.sqr_raw(&slope), &x_twice));
        let y3 = l.normal(&l.raw_sub(&l.mul_raw(&slope, &l.diff(&x, &x3)), &l.raw(&y)));
        *point = Affine { x: x3, y: y3 };
    }
}

/// 3x² + a.
#[inline(always)]
fn tangent<L: Lanes>(l: L, x: &L::Fe) -> L::Fe {
    let mut square = l.sqr_raw(x);
    if <L::Curve as crate::curve::Params>::A_IS_MINUS_3 {
        square = l.raw_sub(&square, &l.raw(&l.splat(&ONE)));
    }
    l.normal(&l.raw_add(&l.raw_add(&square, &square), &square))
}

/// 1/2 modulo an odd p: (p + 1)/2.
const fn half_of_one(p: &crate::uint::U256) -> crate::uint::U256 {
    let (sum, _) = crate::uint::add(
        &[
            p[0] >> 1 | p[1] << 63,
            p[1] >> 1 | p[2] << 63,
            p[2] >> 1 | p[3] << 63,
            p[3] >> 1,
        ],
        &ONE,
    );
    sum
}
