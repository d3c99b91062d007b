//! Tables of multiples: for each window i of w bits and each odd digit, (2j + 1)·2^(w·i)·Q, j below 2^(w-1).
//!
//! Built from 2^0·Q, 2^1·Q, …: of the odd multiples of a window, the next 2^t are the first 2^t plus 2^(w·i + t + 1)·Q.
//! Those two are never the same or opposite: 2j + 1 is odd, 2^(t+1) is even, and their sum is below the order.

use crate::affine::{Pair, add_pairs};
use crate::jacobian::{Jacobian, double, from_affine};
use crate::lanes::{Affine, Lanes, Line, MAX_LANES, Stage};
use crate::memory::Lines;
use crate::portable::{self, Portable};
use crate::recode::windows;
use crate::uint::{ONE, U256};

/// The bits of a scalar.
const SCALAR_BITS: u32 = 256;

/// Vector pairs of a batch when a table is built: enough that an inversion is a small share, few enough for the second
/// level cache.
const PAIRS: usize = 128;

/// All multiples of one point that a scalar's windows may ask for.
pub(crate) struct Table {
    width: u32,
    windows: usize,
    lines: Lines,
}

impl Table {
    /// The bytes of a table of this width.
    pub(crate) const fn bytes(width: u32) -> usize {
        (windows(SCALAR_BITS, width) * size_of::<Line>()) << (width - 1)
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn windows(&self) -> usize {
        self.windows
    }

    /// Of window `window`, the odd multiple `2·index + 1`.
    #[inline(always)]
    pub(crate) fn line(&self, window: usize, index: usize) -> &Line {
        &self.lines[(window << (self.width - 1)) + index]
    }

    /// The table of a point given as plain integers; `width` is at least 2.
    pub(crate) fn build<L: Lanes>(l: L, point: &(U256, U256), width: u32) -> Self
    where
        L::Curve: portable::Reduction,
    {
        let windows = windows(SCALAR_BITS, width);
        let mut table = Self {
            width,
            windows,
            lines: Lines::new(windows << (width - 1)),
        };
        let doubles = doubles::<L::Curve>(point, (windows - 1) * width as usize + width as usize);
        l.run(Fill {
            l,
            table: &mut table,
            doubles: &doubles,
        });
        table
    }
}

struct Fill<'a, L> {
    l: L,
    table: &'a mut Table,
    doubles: &'a [(U256, U256)],
}

impl<L: Lanes> Stage for Fill<'_, L> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        for first in (0..self.table.windows).step_by(L::LANES) {
            fill_windows(self.l, self.table, first, self.doubles);
        }
    }
}

/// `2^i·Q` for `i` below `count`, as plain integers.
fn doubles<C: portable::Reduction>(point: &(U256, U256), count: usize) -> Vec<(U256, U256)> {
    let l = Portable::<C>::new();
    let q = Affine {
        x: l.splat(&point.0),
        y: l.splat(&point.1),
    };
    let mut doubles: Vec<Jacobian<U256>> = Vec::with_capacity(count);
    let mut next = from_affine(l, &q);
    for _ in 0..count {
        doubles.push(next);
        next = double(l, &next);
    }
    // One inversion for all Z.
    let mut products = Vec::with_capacity(count);
    let mut running = l.splat(&ONE);
    for point in &doubles {
        products.push(running);
        running = l.mul(&running, &point.z);
    }
    let mut inverse = l
        .invert(&running)
        .expect("a point of odd order never doubles to infinity");
    let mut plain = vec![([0; 4], [0; 4]); count];
    for i in (0..count).rev() {
        let over_z = l.mul(&inverse, &products[i]);
        inverse = l.mul(&inverse, &doubles[i].z);
        let over_z2 = l.sqr(&over_z);
        let x = l.mul(&doubles[i].x, &over_z2);
        let y = l.mul(&doubles[i].y, &l.mul(&over_z2, &over_z));
        let mut out = [[0; 4]; 2];
        l.store(&x, &mut out[..1]);
        l.store(&y, &mut out[1..]);
        plain[i] = (out[0], out[1]);
    }
    plain
}

/// Fills windows `first` to `first + LANES`, a window in each lane. Lanes past the last window do it once more.
#[inline(always)]
fn fill_windows<L: Lanes>(l: L, table: &mut Table, first: usize, doubles: &[(U256, U256)]) {
    let width = table.width as usize;
    let window = |lane: usize| (first + lane).min(table.windows - 1);
    let double = |t: usize| {
        let at = |lane: usize| doubles[window(lane) * width + t];
        let (mut x, mut y) = ([[0; 4]; MAX_LANES], [[0; 4]; MAX_LANES]);
        for lane in 0..L::LANES {
            (x[lane], y[lane]) = at(lane);
        }
        Affine {
            x: l.load(&x[..L::LANES]),
            y: l.load(&y[..L::LANES]),
        }
    };
    let bases: [usize; MAX_LANES] = std::array::from_fn(|lane| window(lane.min(L::LANES - 1)) << (width - 1));
    put(l, &mut table.lines, &bases, 0, &double(0));
    let mut points = Vec::with_capacity(2 * PAIRS);
    let mut steps = Vec::with_capacity(PAIRS);
    let pairs: Vec<Pair> = (0..PAIRS as u32)
        .map(|k| Pair {
            to: 2 * k,
            from: 2 * k + 1,
            group: 0,
        })
        .collect();
    let mut marked = [0];
    for t in 0..width - 1 {
        let (have, by) = (1 << t, double(t + 1));
        for start in (0..have).step_by(PAIRS) {
            let count = PAIRS.min(have - start);
            points.clear();
            for j in start..start + count {
                points.push(get(l, &table.lines, &bases, j));
                points.push(by);
            }
            add_pairs(l, &mut points, &pairs[..count], &mut steps, &mut marked, &mut ());
            for (k, j) in (start..start + count).enumerate() {
                put(l, &mut table.lines, &bases, have + j, &points[2 * k]);
            }
        }
    }
    debug_assert_eq!(marked, [0], "odd and even multiples are never the same");
}

#[inline(always)]
fn get<L: Lanes>(l: L, lines: &Lines, bases: &[usize; MAX_LANES], index: usize) -> Affine<L::Fe> {
    let from: [&Line; MAX_LANES] = bases.map(|base| &lines[base + index]);
    l.load_lines(&from[..L::LANES], 0)
}

#[inline(always)]
fn put<L: Lanes>(l: L, lines: &mut Lines, bases: &[usize; MAX_LANES], index: usize, points: &Affine<L::Fe>) {
    let mut out = [Line([0; 8]); MAX_LANES];
    l.store_lines(points, &mut out[..L::LANES]);
    for (base, line) in bases.iter().zip(&out[..L::LANES]) {
        lines[base + index] = *line;
    }
}
