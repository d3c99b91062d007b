//! What a back end is: field and scalar arithmetic in lanes, and the lines of a table.
//!
//! Everything above this trait (`affine`, `jacobian`, `table`, `known`, `unknown`) is written once, over `Lanes`; a
//! back end is a type for each curve, whose values are tokens: there is one only where the CPU has what it needs.

use crate::curve::Params;
use crate::recode::OddLanes;
use crate::uint::U256;

/// The most lanes of a back end: sizes the arrays that hold one entry for each lane.
pub(crate) const MAX_LANES: usize = 8;

/// A point of a table: x and y, packed, in the back end's own domain. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; 8]);

/// Affine points, one in each lane. The point at infinity has no such form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine<Fe> {
    pub(crate) x: Fe,
    pub(crate) y: Fe,
}

/// Work that is compiled for a back end's CPU as a whole: `run` and all that it calls must be inlined, because what is
/// not is compiled for any CPU and calls each instruction as a function. (A closure cannot be told to be inlined.)
pub(crate) trait Stage {
    type Out;
    fn run(self) -> Self::Out;
}

/// A back end over one curve: arithmetic in `LANES` lanes at once, and what goes in and out.
///
/// Slices of one entry per lane have `LANES` entries. Masks have bit `i` for lane `i`.
///
/// Elements are in a domain of the back end's choice (Montgomery's or the plain one) and in a redundant form. Three
/// kinds keep the bounds in order:
/// - `Fe`: normal, may be multiplied, squared, added;
/// - a *factor*: what `product`, `square`, `diff` and `factor` return. It may only be multiplied or squared: its limbs
///   may still hold carries that have also gone on, which a multiplication does not see. What `diff`, `factor` and
///   `factor_less` return is wider: to multiply two of that kind gives a `Raw`, and to square one a `Raw` or a factor,
///   never an `Fe`;
/// - `Raw`: a sum of at most 16 normal elements or products, either sign, before its carries are propagated.
pub(crate) trait Lanes: Copy + Send + Sync + 'static {
    type Curve: Params;
    type Fe: Copy + Send;
    type Raw: Copy;
    /// Elements modulo the group's order.
    type Sc: Copy + Send;
    const LANES: usize;

    /// Runs `stage` compiled for what the back end needs of the CPU.
    fn run<S: Stage>(self, stage: S) -> S::Out;

    // ---- field ----

    /// The same plain integer, below p, in every lane.
    fn splat(self, plain: &U256) -> Self::Fe;

    fn mul(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;
    fn sqr(self, a: &Self::Fe) -> Self::Fe;
    /// `a·b` as a factor.
    fn product(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;
    /// `a²` as a factor.
    fn square(self, a: &Self::Fe) -> Self::Fe;
    /// `a - b` of normal elements as a factor, the wider kind.
    fn diff(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;
    /// The sum of up to 4 normal elements or products as a factor, the wider kind. There is not room for each sum that
    /// this would allow; `tests/chain.rs` follows the bounds of every formula through.
    fn factor(self, a: &Self::Raw) -> Self::Fe;
    /// The same less one normal element.
    fn factor_less(self, a: &Self::Raw, b: &Self::Fe) -> Self::Fe;

    fn raw(self, a: &Self::Fe) -> Self::Raw;
    fn mul_raw(self, a: &Self::Fe, b: &Self::Fe) -> Self::Raw;
    fn sqr_raw(self, a: &Self::Fe) -> Self::Raw;
    /// `a·b - c·d`; c and d are not of the wider kind.
    fn mul_sub_mul(self, a: &Self::Fe, b: &Self::Fe, c: &Self::Fe, d: &Self::Fe) -> Self::Fe;
    /// `a·b - 8·c²`; c is not of the wider kind.
    fn mul_sub_8_squares(self, a: &Self::Fe, b: &Self::Fe, c: &Self::Fe) -> Self::Fe;
    fn raw_add(self, a: &Self::Raw, b: &Self::Raw) -> Self::Raw;
    fn raw_sub(self, a: &Self::Raw, b: &Self::Raw) -> Self::Raw;
    fn normal(self, a: &Self::Raw) -> Self::Fe;
    /// Plain integers below p, one for each lane.
    fn load(self, plain: &[U256]) -> Self::Fe;
    /// Plain integers below p, of a normal element.
    fn store(self, a: &Self::Fe, plain: &mut [U256]);
    /// The inverse in each lane, or `None` where a lane is zero; of a normal element or a factor that is not wider.
    fn invert(self, a: &Self::Fe) -> Option<Self::Fe>;
    /// The lanes in which a normal element is zero.
    fn zeros(self, a: &Self::Fe) -> u8;
    /// `a` in the lanes of `mask`, `b` elsewhere.
    fn select(self, mask: u8, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;

    // ---- lines ----

    /// Says that a line will be wanted soon.
    fn prefetch(self, line: &Line);
    /// The points of `lines`, one for each lane, negated in the lanes of `negate`.
    fn load_lines(self, lines: &[&Line], negate: u8) -> Affine<Self::Fe>;
    /// The points as lines, one for each lane.
    fn store_lines(self, points: &Affine<Self::Fe>, lines: &mut [Line]);

    // ---- scalars ----

    /// Digit `i` of each lane: which odd multiple, and the lanes in which it is negative.
    #[inline(always)]
    fn digits(self, scalars: &OddLanes, i: usize, width: u32) -> ([u64; MAX_LANES], u8) {
        let (mut indexes, mut negate) = ([0; MAX_LANES], 0);
        for (lane, out) in indexes[..Self::LANES].iter_mut().enumerate() {
            let (index, negative) = scalars.digit(lane, i, width);
            *out = index as u64;
            negate |= u8::from(negative) << lane;
        }
        (indexes, negate)
    }

    /// Integers below 2^256, one for each lane.
    fn scalars(self, plain: &[U256]) -> Self::Sc;
    /// Plain integers below n.
    fn store_scalars(self, a: &Self::Sc, plain: &mut [U256]);
    /// `a·b/R mod n`, Montgomery's product.
    fn scalar_mul(self, a: &Self::Sc, b: &Self::Sc) -> Self::Sc;
    /// `R/a` in each lane; no lane may be zero.
    fn scalar_invert(self, a: &Self::Sc) -> Self::Sc;
}
