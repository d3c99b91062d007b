//! Signatures by keys that have a table: no doublings at all.
//!
//! u₁·G + u₂·Q is a sum of one table point for each digit of the two scalars. They are added as a tree, each level of it
//! as one batch of affine additions over all signatures, with one inversion. The first levels, where most of the
//! additions are, run over part of the batch at a time, so that its points stay in the second level cache, while the
//! lines of the next part are on their way. The last addition needs no inversion: x(P₁ + P₂) = r is
//! (r + x₁ + x₂)(x₂ - x₁)² = (y₂ - y₁)².
//!
//! Whatever meets an exceptional case on its way is left undecided, for `unknown` to decide.

use crate::affine::{Beside, Pair, add_pairs};
use crate::curve::Params;
use crate::lanes::{Affine, Lanes, Line, MAX_LANES, Stage};
use crate::recode::Odd;
use crate::table::Table;
use crate::uint::{U256, ZERO, at_least, sub};
use std::ops::Range;

/// Vectors whose first levels are done together.
const PART: usize = 16;

/// Levels that are done part by part: three quarters of the additions.
const PART_LEVELS: usize = 2;

/// One signature. Neither scalar is zero.
#[derive(Clone, Copy)]
pub(crate) struct Job<'t> {
    pub(crate) r: U256,
    pub(crate) u1: U256,
    pub(crate) u2: U256,
    pub(crate) table: &'t Table,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Valid,
    Invalid,
    /// An exceptional case.
    Undecided,
}

/// Memory that is used again for the next batch.
pub(crate) struct Scratch<L: Lanes> {
    points: Vec<Affine<L::Fe>>,
    products: Vec<L::Fe>,
    pairs: Vec<Pair>,
}

impl<L: Lanes> Default for Scratch<L> {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            products: Vec::new(),
            pairs: Vec::new(),
        }
    }
}

/// Jobs that run in the lanes of one vector: their tables have the same width.
struct Vector {
    first: usize,
    jobs: usize,
    /// Points that are still to be added up.
    points: usize,
}

/// Decides `jobs`, which come sorted by the width of their tables.
pub(crate) struct Verify<'a, 't, L: Lanes> {
    pub(crate) l: L,
    pub(crate) generator: &'t Table,
    pub(crate) jobs: &'a [Job<'t>],
    pub(crate) scratch: &'a mut Scratch<L>,
    /// One for each job.
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
        let selection = Selection::new::<L>(generator, jobs, &vectors, stride);
        let zero = l.splat(&ZERO);
        scratch
            .points
            .resize(vectors.len() * stride, Affine { x: zero, y: zero });
        let mut marked = vec![0; vectors.len()];
        for first in (0..vectors.len()).step_by(PART) {
            let part = first..(first + PART).min(vectors.len());
            let next = part.end..(part.end + PART).min(vectors.len());
            for v in part.clone() {
                selection.load(l, v, vectors[v].points, &mut scratch.points);
            }
            let steps = part.len() * stride / 2;
            let mut prefetch = Prefetch::new(l, selection.lines::<L>(next), steps);
            for _ in 0..PART_LEVELS {
                make_pairs(&mut vectors, part.clone(), stride, &mut scratch.pairs);
                add_level(l, scratch, &mut marked, &mut prefetch);
            }
        }
        while vectors.iter().any(|vector| vector.points > 2) {
            let all = 0..vectors.len();
            make_pairs(&mut vectors, all, stride, &mut scratch.pairs);
            add_level(l, scratch, &mut marked, &mut ());
        }
        for (v, vector) in vectors.iter().enumerate() {
            let last = &scratch.points[v * stride..][..2];
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

/// The lines that the digits of all jobs ask for: one for each lane of each point of each vector.
struct Selection<'t> {
    lines: Vec<&'t Line>,
    negate: Vec<u8>,
    stride: usize,
}

impl<'t> Selection<'t> {
    #[inline(always)]
    fn new<L: Lanes>(generator: &'t Table, jobs: &[Job<'t>], vectors: &[Vector], stride: usize) -> Self {
        let mut selection = Self {
            lines: Vec::with_capacity(vectors.len() * stride * L::LANES),
            negate: Vec::with_capacity(vectors.len() * stride),
            stride,
        };
        for (v, vector) in vectors.iter().enumerate() {
            selection.select::<L>(generator, &jobs[vector.first..][..vector.jobs]);
            // Vectors of fewer points leave places that nobody looks at.
            selection.negate.resize((v + 1) * stride, 0);
            selection
                .lines
                .resize((v + 1) * stride * L::LANES, generator.line(0, 0));
        }
        selection
    }

    /// Selects for one vector. Lanes without a job do the first job again.
    #[inline(always)]
    fn select<L: Lanes>(&mut self, generator: &'t Table, jobs: &[Job<'t>]) {
        let order = &L::Curve::N;
        let job = |lane: usize| &jobs[if lane < jobs.len() { lane } else { 0 }];
        for of_key in [false, true] {
            let table = |lane| if of_key { job(lane).table } else { generator };
            let (width, windows) = (table(0).width(), table(0).windows());
            let odd: [Odd; MAX_LANES] = std::array::from_fn(|lane| {
                let job = job(lane % L::LANES);
                Odd::of_scalar(if of_key { &job.u2 } else { &job.u1 }, order, width, windows)
            });
            for window in 0..windows {
                let mut negate = 0;
                for (lane, odd) in odd[..L::LANES].iter().enumerate() {
                    let (index, negative) = odd.digit(window, width);
                    self.lines.push(table(lane).line(window, index));
                    negate |= u8::from(negative) << lane;
                }
                self.negate.push(negate);
            }
        }
    }

    fn lines<L: Lanes>(&self, vectors: Range<usize>) -> &[&'t Line] {
        &self.lines[vectors.start * self.stride * L::LANES..vectors.end * self.stride * L::LANES]
    }

    /// The first `count` points of vector `v`, to their places in `points`.
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, v: usize, count: usize, points: &mut [Affine<L::Fe>]) {
        let lines = self.lines::<L>(v..v + 1);
        let negate = &self.negate[v * self.stride..];
        let points = &mut points[v * self.stride..][..count];
        for ((point, lines), negate) in points.iter_mut().zip(lines.chunks_exact(L::LANES)).zip(negate) {
            *point = l.load_lines(lines, *negate);
        }
    }
}

/// Asks for lines, a few with each addition.
struct Prefetch<'a, L> {
    l: L,
    lines: &'a [&'a Line],
    at_a_time: usize,
}

impl<'a, L: Lanes> Prefetch<'a, L> {
    fn new(l: L, lines: &'a [&'a Line], steps: usize) -> Self {
        let at_a_time = lines.len().div_ceil(steps.max(1));
        Self { l, lines, at_a_time }
    }
}

impl<L: Lanes> Beside for Prefetch<'_, L> {
    #[inline(always)]
    fn step(&mut self) {
        let (now, later) = self.lines.split_at(self.at_a_time.min(self.lines.len()));
        for line in now {
            self.l.prefetch(line);
        }
        self.lines = later;
    }
}

/// The upper half of each vector's points is to be added to the lower half, until two are left.
fn make_pairs(vectors: &mut [Vector], which: Range<usize>, stride: usize, pairs: &mut Vec<Pair>) {
    pairs.clear();
    for v in which {
        let points = &mut vectors[v].points;
        if *points <= 2 {
            continue;
        }
        let half = *points / 2;
        let upper = *points - half;
        for d in 0..half {
            pairs.push(Pair {
                to: (v * stride + d) as u32,
                from: (v * stride + upper + d) as u32,
                group: v as u32,
            });
        }
        *points = upper;
    }
}

#[inline(always)]
fn add_level<L: Lanes>(l: L, scratch: &mut Scratch<L>, marked: &mut [u8], beside: &mut impl Beside) {
    let Scratch {
        points,
        products,
        pairs,
    } = scratch;
    add_pairs(l, points, pairs, products, marked, beside);
}

/// The last addition, and whether its x is r.
#[inline(always)]
fn finish<L: Lanes>(l: L, jobs: &[Job<'_>], last: &[Affine<L::Fe>], marked: u8, outcomes: &mut [Outcome]) {
    let mut r = [[0; 4]; MAX_LANES];
    for (lane, r) in r.iter_mut().enumerate() {
        *r = jobs[if lane < jobs.len() { lane } else { 0 }].r;
    }
    let r = l.load(&r[..L::LANES]);
    let [a, b] = last else { return };
    let dx = l.normal(&l.raw_sub(&l.raw(&b.x), &l.raw(&a.x)));
    let dy = l.normal(&l.raw_sub(&l.raw(&b.y), &l.raw(&a.y)));
    let sum = l.normal(&l.raw_add(&l.raw_add(&l.raw(&a.x), &l.raw(&b.x)), &l.raw(&r)));
    let left = l.mul_raw(&sum, &l.sqr(&dx));
    let equal = l.zeros(&l.normal(&l.raw_sub(&left, &l.sqr_raw(&dy))));
    let undecided = marked | l.zeros(&dx);
    for (lane, (job, outcome)) in jobs.iter().zip(outcomes).enumerate() {
        *outcome = if undecided >> lane & 1 == 1 {
            Outcome::Undecided
        } else if equal >> lane & 1 == 1 {
            Outcome::Valid
        } else if at_least(&job.r, &sub(&L::Curve::P, &L::Curve::N).0) {
            Outcome::Invalid
        } else {
            // x may be r + n, which is below p.
            Outcome::Undecided
        };
    }
}
