//! Interface of a backend: arithmetic of field elements and scalars in lanes, and access to the points of tables.
//!
//! The layers above this trait (`affine`, `jacobian`, `table`, `precomputed`, `generic`) are generic over `Lanes`. A
//! backend is one type for each curve, whose values are tokens: a token exists only if the CPU has the required
//! features.

use crate::curve::Params;
use crate::recode::OddLanes;
use crate::uint::U256;

/// Maximum number of lanes of a backend: the size of arrays with one entry for each lane.
pub(crate) const MAX_LANES: usize = 8;

/// Point of a table: x and y, packed into words, in the backend's domain. A point fills one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct TablePoint(pub(crate) [u64; 8]);

/// Affine points, one in each lane. The point at infinity has no affine form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affine<Fe> {
    pub(crate) x: Fe,
    pub(crate) y: Fe,
}

/// Work that is compiled as a whole for the CPU features of a backend. `run` and all functions that it calls must be
/// inlined: code outside is compiled for any CPU, and would call each vector instruction as a function. This is a trait
/// and not a closure, because inlining of a closure cannot be forced.
pub(crate) trait Stage {
    type Out;
    fn run(self) -> Self::Out;
}

/// A backend over one curve: arithmetic in `LANES` lanes at once, and conversion of its operands and results.
///
/// Slices of one entry per lane have `LANES` entries. Masks have bit `i` for lane `i`.
///
/// Elements are in a domain of the backend's choice (Montgomery's or the plain one) and in a redundant form, in which
/// several representations have the same value. There are three kinds of elements with different bounds:
/// - A *normal* element (type `Fe`) may be multiplied, squared and added.
/// - A *factor* (type `Fe` too) is the result of `product`, `square`, `diff`, `factor` or `factor_less`. It may only be
///   multiplied or squared, because its limbs may contain bits that were already carried to the next limb; a
///   multiplication ignores these bits. The results of `diff`, `factor` and `factor_less` are *wider* factors. The
///   product of two wider factors must be computed as a `Raw`, and the square of one as a `Raw` or a factor, never as a
///   normal element.
/// - A *raw* sum (type `Raw`) is a sum of at most 16 normal elements or products of either sign, whose carries are not
///   propagated yet.
pub(crate) trait Lanes: Copy + Send + Sync + 'static {
    type Curve: Params;
    type Fe: Copy + Send;
    type Raw: Copy;
    /// Scalars: elements modulo the group's order.
    type Sc: Copy + Send;
    const LANES: usize;

    /// Runs `stage`, compiled with the CPU features that the backend needs.
    fn run<S: Stage>(self, stage: S) -> S::Out;

    // ---- field ----

    /// Returns an element with the same plain integer, below p, in every lane.
    fn splat(self, plain: &U256) -> Self::Fe;

    fn mul(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;
    fn sqr(self, a: &Self::Fe) -> Self::Fe;
    /// Returns `a·b` as a factor.
    fn product(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;
    /// Returns `a²` as a factor.
    fn square(self, a: &Self::Fe) -> Self::Fe;
    /// Returns `a - b` of normal elements as a wider factor.
    fn diff(self, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;
    /// Returns a sum of up to 4 normal elements or products as a wider factor. Some of these sums exceed the bounds of
    /// a factor; `tests/chain.rs` checks that the sums in the formulas do not.
    fn factor(self, a: &Self::Raw) -> Self::Fe;
    /// Returns the sum `a` minus the normal element `b` as a wider factor, like `factor`.
    fn factor_less(self, a: &Self::Raw, b: &Self::Fe) -> Self::Fe;

    fn raw(self, a: &Self::Fe) -> Self::Raw;
    fn mul_raw(self, a: &Self::Fe, b: &Self::Fe) -> Self::Raw;
    fn sqr_raw(self, a: &Self::Fe) -> Self::Raw;
    /// Returns `a·b - c·d`; neither c nor d may be a wider factor.
    fn mul_sub_mul(self, a: &Self::Fe, b: &Self::Fe, c: &Self::Fe, d: &Self::Fe) -> Self::Fe;
    /// Returns `a·b - 8·c²`; c may not be a wider factor.
    fn mul_sub_8_squares(self, a: &Self::Fe, b: &Self::Fe, c: &Self::Fe) -> Self::Fe;
    fn raw_add(self, a: &Self::Raw, b: &Self::Raw) -> Self::Raw;
    fn raw_sub(self, a: &Self::Raw, b: &Self::Raw) -> Self::Raw;
    fn normal(self, a: &Self::Raw) -> Self::Fe;
    /// Loads plain integers below p, one for each lane.
    fn load(self, plain: &[U256]) -> Self::Fe;
    /// Stores a normal element as plain integers below p.
    fn store(self, a: &Self::Fe, plain: &mut [U256]);
    /// Returns the inverse in each lane, or `None` if a lane is zero. `a` is a normal element or a factor, but not a
    /// wider one.
    fn invert(self, a: &Self::Fe) -> Option<Self::Fe>;
    /// Returns the mask of the lanes in which a normal element is zero.
    fn zeros(self, a: &Self::Fe) -> u8;
    /// Returns `a` in the lanes of `mask`, and `b` in the other lanes.
    fn select(self, mask: u8, a: &Self::Fe, b: &Self::Fe) -> Self::Fe;

    // ---- table points ----

    /// Prefetches a table point that will be needed soon.
    fn prefetch(self, table_point: &TablePoint);
    /// Loads the points of `table_points`, one for each lane, negated in the lanes of `negate`.
    fn load_table_points(self, table_points: &[&TablePoint], negate: u8) -> Affine<Self::Fe>;
    /// Stores the points as table points, one for each lane.
    fn store_table_points(self, points: &Affine<Self::Fe>, table_points: &mut [TablePoint]);

    // ---- scalars ----

    /// Returns digit `i` of each lane: the index of the odd multiple, and the mask of the lanes in which it is
    /// negative.
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

    /// Loads integers below 2^256, one for each lane.
    fn scalars(self, plain: &[U256]) -> Self::Sc;
    /// Stores plain integers below n.
    fn store_scalars(self, a: &Self::Sc, plain: &mut [U256]);
    /// Returns Montgomery's product, `a·b/R mod n`.
    fn scalar_mul(self, a: &Self::Sc, b: &Self::Sc) -> Self::Sc;
    /// Returns `R/a` in each lane; no lane may be zero.
    fn scalar_invert(self, a: &Self::Sc) -> Self::Sc;
}
