//! Verification of signatures whose keys have tables, without any doublings.
//!
//! u₁·G + u₂·Q is a sum of one table point for each digit of the two scalars. These points are added as a tree; each
//! level of the tree is one batch of affine additions over all signatures, with one inversion. The first levels, which
//! have most of the additions, process one part of the batch after the other: the points of a part stay in the
//! second-level cache while the table points of the next part are being loaded. The last addition needs no inversion,
//! because x(P₁ + P₂) = r is equivalent to (r + x₁ + x₂)(x₂ - x₁)² = (y₂ - y₁)².
//!
//! If there are few signatures, their points are added one after the other (`few`).
//!
//! A signature that meets an exceptional case is left undecided, and `generic` decides it.

use crate::affine::{Beside, Pair, Step, add_pairs};
use crate::curve::Params;
use crate::few;
use crate::lanes::{Affine, Lanes, MAX_LANES, Stage, TablePoint};
use crate::recode::{Odd, OddLanes};
use crate::table::Table;
use crate::uint::{U256, ZERO, at_least, sub};
use std::ops::Range;

/// Number of jobs in a part, whose first levels are computed together.
const JOBS_PER_PART: usize = 64;

/// Number of levels of the tree that are computed part by part. They have three quarters of the additions.
const PART_LEVELS: usize = 2;

/// One signature to decide. Neither u₁ nor u₂ is zero.
#[derive(Clone, Copy)]
pub(crate) struct Job<'t> {
    pub(crate) r: U256,
    pub(crate) u1: U256,
    pub(crate) u2: U256,
    pub(crate) table: &'t Table,
}

/// Outcome of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Valid,
    Invalid,
    /// The job met an exceptional case.
    Undecided,
}

/// Scratch memory, which is reused for the next batch.
pub(crate) struct Scratch<L: Lanes> {
    /// Points of the current part, as loaded from the tables.
    leaves: Vec<Affine<L::Fe>>,
    /// Points of the whole batch after the first levels.
    points: Vec<Affine<L::Fe>>,
    steps: Vec<Step<L::Fe>>,
    pairs: Vec<Pair>,
}

impl<L: Lanes> Default for Scratch<L> {
    fn default() -> Self {
        Self {
            leaves: Vec::new(),
            points: Vec::new(),
            steps: Vec::new(),
            pairs: Vec::new(),
        }
    }
}

/// Jobs that run in the lanes of one vector; their tables have the same width.
struct Vector {
    first: usize,
    jobs: usize,
    /// Number of points of each lane that are still to be added.
    points: usize,
}

/// Stage that decides `jobs`, which are sorted by the width of their tables.
pub(crate) struct Verify<'a, 't, L: Lanes> {
    pub(crate) l: L,
    pub(crate) generator: &'t Table,
    pub(crate) jobs: &'a [Job<'t>],
    pub(crate) scratch: &'a mut Scratch<L>,
    /// Results, one for each job.
    pub(crate) outcomes: &'a mut [Outcome],
}

impl<L: Lanes> Stage for Verify<'_, '_, L> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            l,
            generator,
            jobs,
            scratch,
            outcomes,
        } = self;
        let mut vectors = vectors(jobs, generator, L::LANES);
        let stride = vectors.iter().map(|vector| vector.points).max().unwrap_or(0);
        let selection = Selection::new(l, generator, jobs, &vectors, stride);
        let zero = l.splat(&ZERO);
        let blank = Affine { x: zero, y: zero };
        if vectors.len() <= few::VECTORS {
            scratch.leaves.resize(stride, blank);
            for (v, vector) in vectors.iter().enumerate() {
                let points = &mut scratch.leaves[..vector.points];
                selection.load(l, v, points);
                let jobs = &jobs[vector.first..][..vector.jobs];
                let (equal, undecided) = few::compare(l, points, &r_of(jobs));
                decide::<L>(jobs, equal, undecided, &mut outcomes[vector.first..]);
            }
            return;
        }
        let part_vectors = JOBS_PER_PART / L::LANES;
        scratch.leaves.resize(part_vectors * stride, blank);
        let kept = (0..PART_LEVELS).fold(stride, |points, _| points_after(points));
        scratch.points.resize(vectors.len() * kept, blank);
        let mut marked = vec![0; vectors.len()];
        for first in (0..vectors.len()).step_by(part_vectors) {
            let part = first..(first + part_vectors).min(vectors.len());
            let next = part.end..(part.end + part_vectors).min(vectors.len());
            let leaves = scratch.leaves.chunks_exact_mut(stride);
            for (v, leaves) in part.clone().zip(leaves) {
                selection.load(l, v, &mut leaves[..vectors[v].points]);
            }
            // Each addition makes one step of the prefetch in each of its two passes.
            let steps = part.len() * stride * 3 / 2;
            let mut prefetch = Prefetch::new(l, selection.table_points::<L>(next), steps);
            let (part, marked) = (&mut vectors[part.clone()], &mut marked[part]);
            for _ in 0..PART_LEVELS {
                make_pairs(part, stride, &mut scratch.pairs);
                let Scratch {
                    leaves, steps, pairs, ..
                } = &mut *scratch;
                add_pairs(l, leaves, pairs, steps, marked, &mut prefetch);
            }
            let leaves = scratch.leaves.chunks_exact(stride);
            let kept = scratch.points[first * kept..].chunks_exact_mut(kept);
            for ((vector, leaves), kept) in part.iter().zip(leaves).zip(kept) {
                kept[..vector.points].copy_from_slice(&leaves[..vector.points]);
            }
        }
        while vectors.iter().any(|vector| vector.points > 2) {
            make_pairs(&mut vectors, kept, &mut scratch.pairs);
            let Scratch {
                points, steps, pairs, ..
            } = &mut *scratch;
            add_pairs(l, points, pairs, steps, &mut marked, &mut ());
        }
        for (v, vector) in vectors.iter().enumerate() {
            let last = &scratch.points[v * kept..][..2];
            let jobs = &jobs[vector.first..][..vector.jobs];
            finish(l, jobs, last, marked[v], &mut outcomes[vector.first..]);
        }
    }
}

fn vectors(jobs: &[Job<'_>], generator: &Table, lanes: usize) -> Vec<Vector> {
    let mut vectors = Vec::with_capacity(jobs.len().div_ceil(lanes) + 8);
    let mut first = 0;
    for class in jobs.chunk_by(|a, b| a.table.width() == b.table.width()) {
        for chunk in class.chunks(lanes) {
            vectors.push(Vector {
                first,
                jobs: chunk.len(),
                points: generator.windows() + chunk[0].table.windows(),
            });
            first += chunk.len();
        }
    }
    vectors
}

/// Table points that the digits of all jobs select: for each vector and each of its points, one for each lane.
struct Selection<'t> {
    table_points: Vec<&'t TablePoint>,
    /// For each point, the mask of the lanes in which it is negated.
    negate: Vec<u8>,
    stride: usize,
}

impl<'t> Selection<'t> {
    #[inline(always)]
    fn new<L: Lanes>(
        l: L,
        generator: &'t Table,
        jobs: &[Job<'t>],
        vectors: &[Vector],
        stride: usize,
    ) -> Self {
        // All vectors have the same number of places; a vector with fewer points does not use all of them.
        let places = vectors.len() * stride;
        let mut selection = Self {
            table_points: vec![generator.table_point(0, 0); places * L::LANES],
            negate: vec![0; places],
            stride,
        };
        // The table points of the first part are prefetched a few at a time, because a processor can wait for only a
        // few cache misses at the same time.
        let first_part = places.min(JOBS_PER_PART / L::LANES * stride) * L::LANES;
        let mut asked = Asked {
            until: first_part,
            next: 0,
            at_a_time: first_part.div_ceil(places.max(1)),
        };
        for (v, vector) in vectors.iter().enumerate() {
            let jobs = &jobs[vector.first..][..vector.jobs];
            selection.select(l, generator, jobs, v * stride, &mut asked);
        }
        selection
    }

    /// Selects the table points of one vector, and stores them from `place` on. Lanes without a job repeat the first
    /// job.
    #[inline(always)]
    fn select<L: Lanes>(
        &mut self,
        l: L,
        generator: &'t Table,
        jobs: &[Job<'t>],
        place: usize,
        asked: &mut Asked,
    ) {
        let job: [&Job<'t>; MAX_LANES] =
            std::array::from_fn(|lane| &jobs[if lane < jobs.len() { lane } else { 0 }]);
        let u1 = job.map(|job| job.u1);
        let u2 = job.map(|job| job.u2);
        let of_generator = [generator.table_points(); MAX_LANES];
        let of_keys = job.map(|job| job.table.table_points());
        let key = job[0].table;
        for (table, scalars, table_points, place) in [
            (generator, u1, of_generator, place),
            (key, u2, of_keys, place + generator.windows()),
        ] {
            let (width, windows) = (table.width(), table.windows());
            let odd = |lane: usize| Odd::of_scalar(&scalars[lane], &L::Curve::N, width, windows);
            let odd = OddLanes::new(L::LANES, odd);
            for window in 0..windows {
                let place = place + window;
                let (indexes, negative) = l.digits(&odd, window, width);
                self.negate[place] = negative;
                let selected = &mut self.table_points[place * L::LANES..][..L::LANES];
                for (lane, table_point) in selected.iter_mut().enumerate() {
                    *table_point = &table_points[lane][(window << (width - 1)) + indexes[lane] as usize];
                }
                let until = (asked.next + asked.at_a_time).min(asked.until);
                for table_point in &self.table_points[asked.next..until] {
                    l.prefetch(table_point);
                }
                asked.next = until;
            }
        }
    }

    fn table_points<L: Lanes>(&self, vectors: Range<usize>) -> &[&'t TablePoint] {
        &self.table_points[vectors.start * self.stride * L::LANES..vectors.end * self.stride * L::LANES]
    }

    /// Loads the first points of vector `v`.
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, v: usize, points: &mut [Affine<L::Fe>]) {
        let table_points = self.table_points::<L>(v..v + 1).chunks_exact(L::LANES);
        let negate = &self.negate[v * self.stride..];
        for ((point, table_points), negate) in points.iter_mut().zip(table_points).zip(negate) {
            *point = l.load_table_points(table_points, *negate);
        }
    }
}

/// Progress of prefetching the table points of the first part.
struct Asked {
    next: usize,
    until: usize,
    at_a_time: usize,
}

/// Prefetch of the table points of the next part, a few with each addition of the current part.
struct Prefetch<'a, L> {
    l: L,
    table_points: &'a [&'a TablePoint],
    at_a_time: usize,
}

impl<'a, L: Lanes> Prefetch<'a, L> {
    fn new(l: L, table_points: &'a [&'a TablePoint], steps: usize) -> Self {
        let at_a_time = table_points.len().div_ceil(steps.max(1));
        Self {
            l,
            table_points,
            at_a_time,
        }
    }
}

impl<L: Lanes> Beside for Prefetch<'_, L> {
    #[inline(always)]
    fn step(&mut self) {
        let (now, later) = self
            .table_points
            .split_at(self.at_a_time.min(self.table_points.len()));
        for table_point in now {
            self.l.prefetch(table_point);
        }
        self.table_points = later;
    }
}

/// Returns the number of points that are left after a level of the tree.
fn points_after(points: usize) -> usize {
    if points > 2 { points - points / 2 } else { points }
}

/// Pairs the upper half of each vector's points with the lower half, for one level of the tree; a vector with two
/// points has no further pair. Vector `v` has its points from `v * stride` on.
fn make_pairs(vectors: &mut [Vector], stride: usize, pairs: &mut Vec<Pair>) {
    pairs.clear();
    for (v, vector) in vectors.iter_mut().enumerate() {
        let left = points_after(vector.points);
        for d in 0..vector.points - left {
            pairs.push(Pair {
                to: (v * stride + d) as u32,
                from: (v * stride + left + d) as u32,
                group: v as u32,
            });
        }
        vector.points = left;
    }
}

/// Makes the last addition of each lane and compares the x of its result with r.
#[inline(always)]
fn finish<L: Lanes>(l: L, jobs: &[Job<'_>], last: &[Affine<L::Fe>], marked: u8, outcomes: &mut [Outcome]) {
    let r = l.load(&r_of(jobs)[..L::LANES]);
    let [a, b] = last else { return };
    let dx = l.normal(&l.raw_sub(&l.raw(&b.x), &l.raw(&a.x)));
    let dy = l.normal(&l.raw_sub(&l.raw(&b.y), &l.raw(&a.y)));
    let sum = l.normal(&l.raw_add(&l.raw_add(&l.raw(&a.x), &l.raw(&b.x)), &l.raw(&r)));
    let left = l.mul_raw(&sum, &l.sqr(&dx));
    let equal = l.zeros(&l.normal(&l.raw_sub(&left, &l.sqr_raw(&dy))));
    decide::<L>(jobs, equal, marked | l.zeros(&dx), outcomes);
}

/// Returns r in each lane; lanes without a job have the r of the first job.
fn r_of(jobs: &[Job<'_>]) -> [U256; MAX_LANES] {
    std::array::from_fn(|lane| jobs[if lane < jobs.len() { lane } else { 0 }].r)
}

/// Converts masks of lanes to outcomes of jobs.
fn decide<L: Lanes>(jobs: &[Job<'_>], equal: u8, undecided: u8, outcomes: &mut [Outcome]) {
    for (lane, (job, outcome)) in jobs.iter().zip(outcomes).enumerate() {
        *outcome = if undecided >> lane & 1 == 1 {
            Outcome::Undecided
        } else if equal >> lane & 1 == 1 {
            Outcome::Valid
        } else if at_least(&job.r, &sub(&L::Curve::P, &L::Curve::N).0) {
            Outcome::Invalid
        } else {
            // x may also be r + n, if this is below p. `generic` checks this case.
            Outcome::Undecided
        };
    }
}
