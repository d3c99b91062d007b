//! Verification of signatures whose keys have no table, and of signatures that `precomputed` left undecided.
//!
//! The module computes u₂·Q with doublings and additions in Jacobian coordinates, from the 16 odd multiples of Q below
//! 32·Q. These multiples are computed in affine coordinates for all keys of the batch together. Then u₁·G is added from
//! the generator's table. On secp256k1, u₂ is split into halves, which needs half the doublings. Two vectors go through
//! the loop together. Interleaving them gained no time where it was measured (docs/verify.md); a loop over one vector
//! at a time was not measured in this module.
//!
//! The fast formulas are wrong if the point to be added is equal or opposite to the sum; Z then becomes zero and stays
//! zero. Lanes that end with Z = 0 are computed again with formulas that are always correct.

use crate::affine::{Pair, Step, add_pairs, double_all};
use crate::curve::Params;
use crate::endomorphism::{self, BETA, HALF_BITS, Half};
use crate::jacobian::{self, Jacobian};
use crate::lanes::{Affine, Lanes, MAX_LANES, Stage, TablePoint};
use crate::recode::{Odd, OddLanes, windows};
use crate::table::Table;
use crate::uint::{ONE, U256, at_least, is_zero, sub};

/// Number of bits of a window of a scalar.
const WIDTH: u32 = 5;
const MULTIPLES: usize = 1 << (WIDTH - 1);

/// Maximum number of jobs whose multiples are computed together. A larger number shares an inversion among more jobs,
/// but needs more memory.
const JOBS_TOGETHER_MAX: usize = 256;

/// Number of vectors that go through the loop together.
const VECTORS_TOGETHER: usize = 2;

/// One signature to decide; u₂ is not zero.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) r: U256,
    pub(crate) u1: U256,
    pub(crate) u2: U256,
    /// Public key: a point of the curve in plain coordinates.
    pub(crate) key: (U256, U256),
}

/// Scratch memory, which is reused for the next batch.
pub(crate) struct Scratch<L: Lanes> {
    multiples: Vec<Affine<L::Fe>>,
    doubles: Vec<Affine<L::Fe>>,
    steps: Vec<Step<L::Fe>>,
    pairs: Vec<Pair>,
    table_points: Vec<TablePoint>,
}

impl<L: Lanes> Default for Scratch<L> {
    fn default() -> Self {
        Self {
            multiples: Vec::new(),
            doubles: Vec::new(),
            steps: Vec::new(),
            pairs: Vec::new(),
            table_points: Vec::new(),
        }
    }
}

/// Stage that decides `jobs`. Its result is the number of jobs among the first `counted` ones that needed the complete
/// formulas.
pub(crate) struct Verify<'a, L: Lanes> {
    pub(crate) l: L,
    pub(crate) generator: &'a Table,
    pub(crate) jobs: &'a [Job],
    /// Number of jobs at the beginning of `jobs` that are not counted as exceptional yet.
    pub(crate) counted: usize,
    pub(crate) scratch: &'a mut Scratch<L>,
    /// Results: true for a valid signature, one for each job.
    pub(crate) valid: &'a mut [bool],
}

impl<L: Lanes> Stage for Verify<'_, L> {
    type Out = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Self {
            l,
            generator,
            jobs,
            mut counted,
            scratch,
            valid,
        } = self;
        let mut exceptional = 0;
        for (jobs, valid) in jobs
            .chunks(JOBS_TOGETHER_MAX)
            .zip(valid.chunks_mut(JOBS_TOGETHER_MAX))
        {
            make_multiples(l, jobs, scratch);
            let beside = VECTORS_TOGETHER * L::LANES;
            for (g, (jobs, valid)) in jobs.chunks(beside).zip(valid.chunks_mut(beside)).enumerate() {
                let multiples = &scratch.table_points[g * VECTORS_TOGETHER * MULTIPLES * L::LANES..];
                let undecided = decide::<L, false>(l, generator, jobs, multiples, valid);
                if undecided != 0 {
                    let first = (1u32 << counted.min(jobs.len())) - 1;
                    exceptional += (u32::from(undecided) & first).count_ones() as usize;
                    decide::<L, true>(l, generator, jobs, multiples, valid);
                }
                counted = counted.saturating_sub(jobs.len());
            }
        }
        exceptional
    }
}

/// Returns the job of a lane; a lane without a job of its own repeats the first job.
#[inline(always)]
fn job(jobs: &[Job], lane: usize) -> &Job {
    &jobs[if lane < jobs.len() { lane } else { 0 }]
}

/// Computes table points of Q, 3Q, 5Q, … 31Q for the keys of all jobs, ordered by vector, multiple and lane. Each step
/// doubles the number of multiples: it adds 2^(t+1)·Q to each of the first 2^t multiples.
#[inline(always)]
fn make_multiples<L: Lanes>(l: L, jobs: &[Job], scratch: &mut Scratch<L>) {
    let vectors = jobs.len().div_ceil(L::LANES);
    scratch.doubles.clear();
    scratch.multiples.clear();
    for jobs in jobs.chunks(L::LANES) {
        let mut plain = [([0; 4], [0; 4]); MAX_LANES];
        for (lane, plain) in plain[..L::LANES].iter_mut().enumerate() {
            *plain = job(jobs, lane).key;
        }
        let point = Affine {
            x: l.load(&plain.map(|(x, _)| x)[..L::LANES]),
            y: l.load(&plain.map(|(_, y)| y)[..L::LANES]),
        };
        scratch.doubles.push(point);
        scratch.multiples.extend([point; MULTIPLES]);
    }
    let mut marked = [0];
    for t in 0..WIDTH - 1 {
        double_all(l, &mut scratch.doubles, &mut scratch.steps);
        let have = 1 << t;
        scratch.pairs.clear();
        for v in 0..vectors {
            let (from, to) = (v * MULTIPLES, v * MULTIPLES + have);
            scratch.multiples[to..to + have].fill(scratch.doubles[v]);
            scratch.pairs.extend((0..have).map(|j| Pair {
                to: (to + j) as u32,
                from: (from + j) as u32,
                group: 0,
            }));
        }
        let Scratch {
            multiples,
            pairs,
            steps,
            ..
        } = scratch;
        add_pairs(l, multiples, pairs, steps, &mut marked, &mut ());
    }
    debug_assert_eq!(marked, [0], "odd and even multiples are never equal");
    let table_points = vectors * MULTIPLES * L::LANES;
    if scratch.table_points.len() < table_points {
        scratch.table_points.resize(table_points, TablePoint([0; 8]));
    }
    for (multiple, table_points) in scratch
        .multiples
        .iter()
        .zip(scratch.table_points.chunks_exact_mut(L::LANES))
    {
        l.store_table_points(multiple, table_points);
    }
}

/// The scalars of one vector's jobs, prepared for extracting digits.
struct Digits {
    /// Digits of u₂; on secp256k1, of its two halves.
    key: [OddLanes; 2],
    generator: OddLanes,
    /// Mask of the lanes whose u₁ is zero.
    no_generator: u8,
}

impl Digits {
    fn windows<C: Params>() -> usize {
        windows(if C::HAS_ENDOMORPHISM { HALF_BITS } else { 256 }, WIDTH)
    }

    #[inline(always)]
    fn new<L: Lanes>(jobs: &[Job], generator: &Table) -> Self {
        let order = &L::Curve::N;
        let windows = Self::windows::<L::Curve>();
        let key = if L::Curve::HAS_ENDOMORPHISM {
            let halves: [_; MAX_LANES] = std::array::from_fn(|lane| endomorphism::split(&job(jobs, lane).u2));
            [0, 1].map(|part| {
                let odd = |half: &Half| Odd::of_magnitude(&half.magnitude, half.negative, WIDTH, windows);
                OddLanes::new(L::LANES, |lane| odd(&halves[lane][part]))
            })
        } else {
            let odd = |lane| Odd::of_scalar(&job(jobs, lane).u2, order, WIDTH, windows);
            [OddLanes::new(L::LANES, odd); 2]
        };
        let mut no_generator = 0;
        for lane in 0..L::LANES {
            no_generator |= u8::from(is_zero(&job(jobs, lane).u1)) << lane;
        }
        let odd = |lane| {
            let u1 = &job(jobs, lane).u1;
            let u1 = if is_zero(u1) { &ONE } else { u1 };
            Odd::of_scalar(u1, order, generator.width(), generator.windows())
        };
        Self {
            key,
            generator: OddLanes::new(L::LANES, odd),
            no_generator,
        }
    }
}

/// Returns the multiples of the keys that digit `i` of every lane selects, multiplied by λ if `times_lambda` is set.
#[inline(always)]
fn key_points<L: Lanes>(
    l: L,
    digits: &OddLanes,
    multiples: &[TablePoint],
    i: usize,
    times_lambda: bool,
) -> Affine<L::Fe> {
    let (indexes, negate) = l.digits(digits, i, WIDTH);
    let mut table_points = [&multiples[0]; MAX_LANES];
    for (lane, table_point) in table_points[..L::LANES].iter_mut().enumerate() {
        *table_point = &multiples[indexes[lane] as usize * L::LANES + lane];
    }
    let mut points = l.load_table_points(&table_points[..L::LANES], negate);
    if times_lambda {
        points.x = l.mul(&points.x, &l.splat(&BETA));
    }
    points
}

/// Returns the multiples of the generator that digit `i` of every lane selects.
#[inline(always)]
fn generator_points<L: Lanes>(l: L, digits: &OddLanes, generator: &Table, i: usize) -> Affine<L::Fe> {
    let (indexes, negate) = l.digits(digits, i, generator.width());
    let table_points = indexes.map(|index| generator.table_point(i, index as usize));
    l.load_table_points(&table_points[..L::LANES], negate)
}

/// Prefetches the multiples that `generator_points` loads, because a large table does not fit into the processor's
/// cache. Without a prefetch, the processor would begin to load the multiples of the next addition only near the end of
/// the current one: an addition has more instructions than the processor looks ahead.
#[inline(always)]
fn prefetch_generator<L: Lanes>(l: L, digits: &OddLanes, generator: &Table, i: usize) {
    let (indexes, _) = l.digits(digits, i, generator.width());
    for index in &indexes[..L::LANES] {
        l.prefetch(generator.table_point(i, *index as usize));
    }
}

#[inline(always)]
fn add<L: Lanes, const COMPLETE: bool>(l: L, a: &Jacobian<L::Fe>, b: &Affine<L::Fe>) -> Jacobian<L::Fe> {
    if COMPLETE {
        jacobian::add_complete(l, a, b)
    } else {
        jacobian::add(l, a, b)
    }
}

/// Decides up to `VECTORS_TOGETHER` vectors of jobs. Returns the jobs that the fast formulas could not decide.
#[inline(always)]
fn decide<L: Lanes, const COMPLETE: bool>(
    l: L,
    generator: &Table,
    jobs: &[Job],
    multiples: &[TablePoint],
    valid: &mut [bool],
) -> u16 {
    let chunk = |v: usize| &jobs[(v * L::LANES).min(jobs.len() - 1)..jobs.len().min((v + 1) * L::LANES)];
    let used = jobs.len().div_ceil(L::LANES);
    let digits: [Digits; VECTORS_TOGETHER] =
        std::array::from_fn(|v| Digits::new::<L>(chunk(v.min(used - 1)), generator));
    let multiples: [&[TablePoint]; VECTORS_TOGETHER] =
        std::array::from_fn(|v| &multiples[v.min(used - 1) * MULTIPLES * L::LANES..]);
    let parts = if L::Curve::HAS_ENDOMORPHISM { 2 } else { 1 };
    let top = Digits::windows::<L::Curve>() - 1;
    let mut sums = [jacobian::infinity(l); VECTORS_TOGETHER];
    for v in 0..used {
        sums[v] = jacobian::from_affine(l, &key_points(l, &digits[v].key[0], multiples[v], top, false));
    }
    for i in (0..=top).rev() {
        if i < generator.windows() {
            for digits in &digits[..used] {
                prefetch_generator(l, &digits.generator, generator, i);
            }
        }
        if i < top {
            for _ in 0..WIDTH {
                for sum in &mut sums[..used] {
                    *sum = jacobian::double(l, sum);
                }
            }
        }
        for part in usize::from(i == top)..parts {
            for v in 0..used {
                let point = key_points(l, &digits[v].key[part], multiples[v], i, part == 1);
                sums[v] = add::<L, COMPLETE>(l, &sums[v], &point);
            }
        }
    }
    for i in 0..generator.windows() {
        for v in 0..used {
            let point = generator_points(l, &digits[v].generator, generator, i);
            let sum = add::<L, COMPLETE>(l, &sums[v], &point);
            sums[v] = match digits[v].no_generator {
                0 => sum,
                absent => jacobian::select(l, absent, &sums[v], &sum),
            };
        }
    }
    let mut undecided = 0;
    for (v, valid) in valid.chunks_mut(L::LANES).enumerate() {
        let infinite = compare(l, chunk(v), &sums[v], valid);
        undecided |= u16::from(infinite) << (v * L::LANES);
    }
    undecided & ((1u32 << jobs.len()) - 1) as u16
}

/// Checks that x of the sum is r modulo n: X = r·Z² or X = (r + n)·Z². Returns the mask of the lanes whose sum is the
/// point at infinity.
#[inline(always)]
fn compare<L: Lanes>(l: L, jobs: &[Job], sum: &Jacobian<L::Fe>, valid: &mut [bool]) -> u8 {
    let z2 = l.sqr(&sum.z);
    let infinite = jacobian::zeros_of_factor(l, &sum.z);
    let gap = sub(&L::Curve::P, &L::Curve::N).0;
    let mut r = [[0; 4]; MAX_LANES];
    let mut above = [[0; 4]; MAX_LANES];
    let mut any_above = false;
    for lane in 0..L::LANES {
        r[lane] = job(jobs, lane).r;
        let fits = !at_least(&r[lane], &gap);
        any_above |= fits;
        above[lane] = if fits {
            crate::uint::add(&r[lane], &L::Curve::N).0
        } else {
            r[lane]
        };
    }
    let mut matches = equals(l, &r, &z2, &sum.x);
    if any_above {
        matches |= equals(l, &above, &z2, &sum.x);
    }
    for (lane, valid) in valid.iter_mut().enumerate() {
        *valid = (matches & !infinite) >> lane & 1 == 1;
    }
    infinite
}

/// Returns the mask of the lanes in which r·Z² equals X.
#[inline(always)]
fn equals<L: Lanes>(l: L, r: &[U256; MAX_LANES], z2: &L::Fe, x: &L::Fe) -> u8 {
    let product = l.mul_raw(&l.load(&r[..L::LANES]), z2);
    l.zeros(&l.normal(&l.raw_sub(&product, &l.raw(x))))
}
