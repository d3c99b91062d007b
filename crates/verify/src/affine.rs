//! Batches of affine additions with one inversion for all of them (Montgomery's trick), so that each addition costs 5
//! multiplications and one squaring. In Jacobian coordinates an addition costs 8 multiplications and 3 squarings.
//!
//! For P₁ + P₂ with x₁ ≠ x₂: λ = (y₂ - y₁)/(x₂ - x₁), x₃ = λ² - x₁ - x₂, y₃ = λ(x₁ - x₃) - y₁. The trick computes the
//! inverses of all differences dₖ = x₂ - x₁ together: with the running products c₀ = 1, cₖ = cₖ₋₁·dₖ, the inverse of
//! the last product gives 1/dₖ = cₖ₋₁/cₖ, from the last k to the first.
//!
//! If x₁ = x₂, the formula has no result (the sum is a double or the point at infinity). Honest inputs never lead to
//! this case, but an attacker who knows the private key can construct it. In a lane with this case the whole product is
//! zero. Only then, the code searches the differences that are zero, replaces them by one, and marks their lanes. The
//! content of a marked lane has no meaning from then on.

use crate::curve::Params;
use crate::lanes::{Affine, Lanes, Stage};
use crate::uint::ONE;

/// One addition of a batch: `points[to] += points[from]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) to: u32,
    pub(crate) from: u32,
    /// Number of the pair's group. If the addition is exceptional in a lane, this lane of the group is marked.
    pub(crate) group: u32,
}

/// State of one addition that the first pass stores for the second pass. Both elements are factors (see `Lanes`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<Fe> {
    /// Running product before this pair.
    product: Fe,
    /// Factor by which this pair extends the product: x₂ - x₁.
    d: Fe,
}

/// Number of independent running products. With several of them the processor can start a multiplication before the
/// previous one ends: the latency of a multiplication is about twice the time for which it occupies the execution
/// ports.
const CHAINS: usize = 4;

/// Other work that is interleaved with the additions, one step with each addition, so that the additions hide the
/// latency of this work.
pub(crate) trait Beside {
    fn step(&mut self);
}

/// Implementation without other work.
impl Beside for () {
    #[inline(always)]
    fn step(&mut self) {}
}

/// Makes all additions of `pairs`, in any order, so no point may be in two pairs. `steps` is scratch memory. The
/// function marks the exceptional lanes in `marked`, which has one mask for each group.
#[inline(always)]
pub(crate) fn add_pairs<L: Lanes>(
    l: L,
    points: &mut [Affine<L::Fe>],
    pairs: &[Pair],
    steps: &mut Vec<Step<L::Fe>>,
    marked: &mut [u8],
    beside: &mut impl Beside,
) {
    if pairs.is_empty() {
        return;
    }
    steps.clear();
    let mut running = [l.splat(&ONE); CHAINS];
    for chunk in pairs.chunks(CHAINS) {
        for (chain, pair) in running.iter_mut().zip(chunk) {
            let d = l.diff(&points[pair.from as usize].x, &points[pair.to as usize].x);
            steps.push(Step { product: *chain, d });
            *chain = l.product(chain, &d);
            beside.step();
        }
    }
    let mut inverses = match invert_chains(l, &running) {
        Some(inverses) => inverses,
        None => l.run(MarkZeros {
            l,
            points,
            pairs,
            steps,
            marked,
        }),
    };
    let whole = pairs.len() / CHAINS * CHAINS;
    for (k, pair) in pairs.iter().enumerate().skip(whole).rev() {
        finish(l, points, pair, &steps[k], &mut inverses[k % CHAINS]);
    }
    let chunks = pairs[..whole].chunks_exact(CHAINS);
    for (chunk, steps) in chunks.zip(steps[..whole].chunks_exact(CHAINS)).rev() {
        for k in 0..CHAINS {
            finish(l, points, &chunk[k], &steps[k], &mut inverses[k]);
            beside.step();
        }
    }
}

/// Completes one addition in the second pass. `inverse` is the inverse of the product up to this pair; the function
/// replaces it by the inverse of the product before the pair.
#[inline(always)]
fn finish<L: Lanes>(
    l: L,
    points: &mut [Affine<L::Fe>],
    pair: &Pair,
    step: &Step<L::Fe>,
    inverse: &mut L::Fe,
) {
    let over_d = l.product(inverse, &step.product);
    *inverse = l.product(inverse, &step.d);
    let a = &points[pair.to as usize];
    let b = &points[pair.from as usize];
    let slope = l.product(&over_d, &l.diff(&b.y, &a.y));
    let x_sum = l.raw_add(&l.raw(&a.x), &l.raw(&b.x));
    let x = l.normal(&l.raw_sub(&l.sqr_raw(&slope), &x_sum));
    let y = l.normal(&l.raw_sub(&l.mul_raw(&slope, &l.diff(&a.x, &x)), &l.raw(&a.y)));
    points[pair.to as usize] = Affine { x, y };
}

/// Returns the inverse of the running product of each chain, with a single inversion. Returns `None` if a product is
/// zero in some lane.
#[inline(always)]
fn invert_chains<L: Lanes>(l: L, running: &[L::Fe; CHAINS]) -> Option<[L::Fe; CHAINS]> {
    let mut together = *running;
    for k in 1..CHAINS {
        together[k] = l.product(&together[k - 1], &running[k]);
    }
    let mut inverse = l.invert(&together[CHAINS - 1])?;
    let mut inverses = *running;
    for k in (1..CHAINS).rev() {
        inverses[k] = l.product(&inverse, &together[k - 1]);
        inverse = l.product(&inverse, &running[k]);
    }
    inverses[0] = inverse;
    Some(inverses)
}

/// Additional pass for exceptional cases: replaces differences that are zero by one, and marks their lanes.
struct MarkZeros<'a, L: Lanes> {
    l: L,
    points: &'a [Affine<L::Fe>],
    pairs: &'a [Pair],
    steps: &'a mut [Step<L::Fe>],
    marked: &'a mut [u8],
}

impl<L: Lanes> Stage for MarkZeros<'_, L> {
    type Out = [L::Fe; CHAINS];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let l = self.l;
        let one = l.splat(&ONE);
        let mut running = [one; CHAINS];
        for (k, (pair, step)) in self.pairs.iter().zip(self.steps).enumerate() {
            let [a, b] = [pair.to, pair.from].map(|i| l.raw(&self.points[i as usize].x));
            let zeros = l.zeros(&l.normal(&l.raw_sub(&b, &a)));
            if zeros != 0 {
                step.d = l.select(zeros, &one, &step.d);
                self.marked[pair.group as usize] |= zeros;
            }
            step.product = running[k % CHAINS];
            running[k % CHAINS] = l.product(&step.product, &step.d);
        }
        invert_chains(l, &running).expect("zero differences were replaced by one")
    }
}

/// Doubles every point with 5 multiplications and 2 squarings: λ = (3x² + a)/2y. In a group of odd order y is never
/// zero. `steps` is scratch memory.
#[inline(always)]
pub(crate) fn double_all<L: Lanes>(l: L, points: &mut [Affine<L::Fe>], steps: &mut Vec<Step<L::Fe>>) {
    let mut running = l.splat(&ONE);
    steps.clear();
    for point in points.iter() {
        let d = l.normal(&l.raw_add(&l.raw(&point.y), &l.raw(&point.y)));
        steps.push(Step { product: running, d });
        running = l.product(&running, &d);
    }
    let mut inverse = l
        .invert(&running)
        .expect("a group of odd order has no point with y = 0");
    for (point, step) in points.iter_mut().zip(steps.iter()).rev() {
        let over_2y = l.product(&inverse, &step.product);
        inverse = l.product(&inverse, &step.d);
        let slope = l.product(&tangent(l, &point.x), &over_2y);
        let x_twice = l.raw_add(&l.raw(&point.x), &l.raw(&point.x));
        let x = l.normal(&l.raw_sub(&l.sqr_raw(&slope), &x_twice));
        let y = l.normal(&l.raw_sub(&l.mul_raw(&slope, &l.diff(&point.x, &x)), &l.raw(&point.y)));
        *point = Affine { x, y };
    }
}

/// Returns 3x² + a, the numerator of the tangent's slope.
#[inline(always)]
fn tangent<L: Lanes>(l: L, x: &L::Fe) -> L::Fe {
    let mut square = l.sqr_raw(x);
    if L::Curve::A_IS_MINUS_3 {
        square = l.raw_sub(&square, &l.raw(&l.splat(&ONE)));
    }
    l.normal(&l.raw_add(&l.raw_add(&square, &square), &square))
}
