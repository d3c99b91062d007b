//! Verification of one chunk of signatures over one curve, from r, s and digest to verdicts.

use crate::curve::Params;
use crate::generic;
use crate::lanes::{Lanes, MAX_LANES, Stage};
use crate::portable::{Portable, Reduction};
use crate::precomputed;
use crate::table::Table;
use crate::uint::{ONE, U256, ZERO, at_least, is_zero};
use std::sync::Arc;

/// Maximum number of signatures that go through the stages together. A larger chunk shares an inversion among more
/// signatures, but needs more memory.
pub(crate) const CHUNK: usize = 512;

/// Number of signatures without a table up to which the portable backend, with one lane, is faster than a backend with
/// many lanes. With AVX-512, a vector of such signatures takes 78 µs, however many of its lanes are used. With the
/// portable backend, one signature takes 66 µs (70 µs with the generator's smaller table, which is used for this), and
/// two take 119 µs.
const ONE_LANE_MAX: usize = 1;

/// One signature to verify.
pub(crate) struct Job<'t> {
    /// Index of the signature's verdict.
    pub(crate) index: usize,
    pub(crate) r: U256,
    pub(crate) s: U256,
    /// Digest as a number, which is not reduced modulo n.
    pub(crate) z: U256,
    /// Public key: a point of the curve in plain coordinates.
    pub(crate) key: (U256, U256),
    /// Table of the key; `None` if it has no table.
    pub(crate) table: Option<&'t Table>,
}

/// Scratch memory of the engine, which is reused for the next chunk.
pub(crate) struct Scratch<L: Lanes> {
    precomputed: precomputed::Scratch<L>,
    generic: generic::Scratch<L>,
}

impl<L: Lanes> Default for Scratch<L> {
    fn default() -> Self {
        Self {
            precomputed: precomputed::Scratch::default(),
            generic: generic::Scratch::default(),
        }
    }
}

/// Numbers of signatures of a chunk by the way in which they were decided.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Number of signatures that were decided with tables.
    pub(crate) precomputed: usize,
    /// Number of signatures that were decided without tables.
    pub(crate) generic: usize,
    /// Number of exceptional cases: signatures that could not be decided with tables, and others that needed the
    /// complete formulas.
    pub(crate) exceptional: usize,
}

/// Returns true if r and s are in [1, n - 1].
pub(crate) fn in_range<C: Params>(r: &U256, s: &U256) -> bool {
    [r, s]
        .iter()
        .all(|scalar| !is_zero(scalar) && !at_least(scalar, &C::N))
}

/// Decides up to `CHUNK` jobs, whose r and s are in range, in any order. Calls `decided` with the index and the verdict
/// of each. If so few jobs have no table that the portable backend is faster, the function calls `portable_generator`
/// for the generator's table of that backend; if this returns `None`, the backend `L` decides these jobs. (The function
/// is not generic over both backends, because each copy of it contains all stages and takes the compiler a minute.)
pub(crate) fn verify<L: Lanes>(
    l: L,
    generator: &Table,
    jobs: &mut [Job<'_>],
    scratch: &mut Scratch<L>,
    portable_generator: &mut dyn FnMut() -> Option<Arc<Table>>,
    decided: &mut dyn FnMut(usize, bool),
) -> Tally
where
    L::Curve: Reduction,
{
    // Sort the jobs by the width of their tables; jobs without a table come last.
    jobs.sort_by_key(|job| job.table.map_or(u32::MAX, |table| table.width()));
    let scalars = l.run(Scalars { l, jobs });
    let mut tally = Tally::default();
    let mut precomputed = Vec::with_capacity(jobs.len());
    let mut known_at = Vec::with_capacity(jobs.len());
    let mut left = Vec::new();
    for (i, (job, (u1, u2))) in jobs.iter().zip(&scalars).enumerate() {
        match job.table {
            Some(table) if !is_zero(u1) => {
                precomputed.push(precomputed::Job {
                    r: job.r,
                    u1: *u1,
                    u2: *u2,
                    table,
                });
                known_at.push(i);
            }
            _ => left.push(i),
        }
    }
    tally.precomputed = precomputed.len();
    tally.generic = left.len();
    if !precomputed.is_empty() {
        let mut outcomes = vec![precomputed::Outcome::Undecided; precomputed.len()];
        l.run(precomputed::Verify {
            l,
            generator,
            jobs: &precomputed,
            scratch: &mut scratch.precomputed,
            outcomes: &mut outcomes,
        });
        for (i, outcome) in known_at.into_iter().zip(outcomes) {
            match outcome {
                precomputed::Outcome::Undecided => left.push(i),
                outcome => decided(jobs[i].index, outcome == precomputed::Outcome::Valid),
            }
        }
    }
    tally.exceptional = left.len() - tally.generic;
    if !left.is_empty() {
        let generic: Vec<generic::Job> = left
            .iter()
            .map(|&i| generic::Job {
                r: jobs[i].r,
                u1: scalars[i].0,
                u2: scalars[i].1,
                key: jobs[i].key,
            })
            .collect();
        let mut valid = vec![false; generic.len()];
        let in_one_lane = (L::LANES > 1 && generic.len() <= ONE_LANE_MAX)
            .then(portable_generator)
            .flatten();
        tally.exceptional += match in_one_lane {
            Some(generator) => portably::<L::Curve>(&generator, &generic, tally.generic, &mut valid),
            None => l.run(generic::Verify {
                l,
                generator,
                jobs: &generic,
                counted: tally.generic,
                scratch: &mut scratch.generic,
                valid: &mut valid,
            }),
        };
        for (i, valid) in left.into_iter().zip(valid) {
            decided(jobs[i].index, valid);
        }
    }
    tally
}

/// Decides jobs without tables with the portable backend. This is a separate function, which is compiled once for each
/// curve and not in every backend's copy of `verify`, because its compilation takes long.
#[inline(never)]
fn portably<C: Reduction>(
    generator: &Table,
    jobs: &[generic::Job],
    counted: usize,
    valid: &mut [bool],
) -> usize {
    generic::Verify {
        l: Portable::<C>::new(),
        generator,
        jobs,
        counted,
        scratch: &mut generic::Scratch::default(),
        valid,
    }
    .run()
}

/// Stage that computes u₁ = z/s and u₂ = r/s modulo n, with one inversion for all jobs.
///
/// Montgomery's product of a and b is a·b/R, so the running products contain powers of 1/R. These powers cancel: if c
/// is a running product and R/c its inverse, the Montgomery product of R/c and the previous running product is R/s.
struct Scalars<'a, L> {
    l: L,
    jobs: &'a [Job<'a>],
}

impl<L: Lanes> Stage for Scalars<'_, L> {
    type Out = Vec<(U256, U256)>;

    #[inline(always)]
    fn run(self) -> Self::Out {
        let Self { l, jobs } = self;
        let mut products = Vec::with_capacity(jobs.len().div_ceil(L::LANES));
        let mut running = l.scalars(&[ONE; MAX_LANES][..L::LANES]);
        for jobs in jobs.chunks(L::LANES) {
            products.push(running);
            running = l.scalar_mul(&running, &lanes_of(l, jobs, |job| job.s));
        }
        let mut inverse = l.scalar_invert(&running);
        let mut out = vec![(ZERO, ZERO); jobs.len()];
        let chunks = jobs.chunks(L::LANES).zip(out.chunks_mut(L::LANES));
        for ((jobs, out), product) in chunks.zip(&products).rev() {
            let over_s = l.scalar_mul(&inverse, product);
            inverse = l.scalar_mul(&inverse, &lanes_of(l, jobs, |job| job.s));
            let (mut u1, mut u2) = ([ZERO; MAX_LANES], [ZERO; MAX_LANES]);
            let z_over_s = l.scalar_mul(&lanes_of(l, jobs, |job| job.z), &over_s);
            let r_over_s = l.scalar_mul(&lanes_of(l, jobs, |job| job.r), &over_s);
            l.store_scalars(&z_over_s, &mut u1[..L::LANES]);
            l.store_scalars(&r_over_s, &mut u2[..L::LANES]);
            for (out, u) in out.iter_mut().zip(u1.into_iter().zip(u2)) {
                *out = u;
            }
        }
        out
    }
}

/// Returns a vector with one number of each job; lanes without a job have the number 1.
#[inline(always)]
fn lanes_of<L: Lanes>(l: L, jobs: &[Job<'_>], of: impl Fn(&Job<'_>) -> U256) -> L::Sc {
    let mut plain = [ONE; MAX_LANES];
    for (plain, job) in plain.iter_mut().zip(jobs) {
        *plain = of(job);
    }
    l.scalars(&plain[..L::LANES])
}
