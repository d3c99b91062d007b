//! Tables of multiples: for each window i of w bits and each odd digit, (2j + 1)·2^(w·i)·Q, j below 2^(w-1).
//!
//! Built from 2^0·Q, 2^1·Q, …: of the odd multiples of a window, the next 2^t are the first 2^t plus 2^(w·i + t + 1)·Q.
//! Those two are never the same or opposite: 2j + 1 is odd, 2^(t+1) is even, and their sum is below the order.

use crate::affine::{Pair, Step, add_pairs};
use crate::jacobian::{Jacobian, double, from_affine};
use crate::lanes::{Affine, Lanes, Line, MAX_LANES, Stage};
use crate::memory::Lines;
use crate::portable::{self, Portable};
use crate::recode;
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
        (recode::windows(SCALAR_BITS, width) * size_of::<Line>()) << (width - 1)
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn windows(&self) -> usize {
        self.windows
    }

    /// All lines; that of window i and odd multiple 2j + 1 is at i·2^(w-1) + j.
    #[inline(always)]
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
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
        let windows = recode::windows(SCALAR_BITS, width);
        let mut table = Self {
            width,
            windows,
            lines: Lines::new(windows << (width - 1)),
        };
        let doubles = doubles::<L::Curve>(point, windows * width as usize);
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

    /// A window in each lane, so many groups of them as it takes; those past the last window do it once more.
    #[inline(always)]
    fn run(self) {
        let Self { l, table, doubles } = self;
        let half = table.width - 1;
        let groups = table.windows.div_ceil(L::LANES);
        let windows = |group: usize| -> [usize; MAX_LANES] {
            std::array::from_fn(|lane| (group * L::LANES + lane % L::LANES).min(table.windows - 1))
        };
        let windows: Vec<[usize; MAX_LANES]> = (0..groups).map(windows).collect();
        for windows in &windows {
            let first = multiples(l, doubles, windows, table.width, 0);
            put(l, &mut table.lines, windows, half, 0, &first);
        }
        let mut batch = Batch::new();
        for t in 0..half {
            let have = 1 << t;
            for windows in &windows {
                let by = multiples(l, doubles, windows, table.width, t + 1);
                for index in 0..have {
                    let point = get(l, &table.lines, windows, half, index);
                    batch.add(point, by, windows, have + index);
                    if batch.is_full() {
                        batch.finish(l, &mut table.lines, half);
                    }
                }
            }
            batch.finish(l, &mut table.lines, half);
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

/// Additions that wait for each other, and where their sums go.
struct Batch<'w, Fe> {
    points: Vec<Affine<Fe>>,
    pairs: Vec<Pair>,
    steps: Vec<Step<Fe>>,
    places: Vec<(&'w [usize; MAX_LANES], usize)>,
}

impl<'w, Fe: Copy> Batch<'w, Fe> {
    fn new() -> Self {
        Self {
            points: Vec::with_capacity(2 * PAIRS),
            pairs: Vec::with_capacity(PAIRS),
            steps: Vec::with_capacity(PAIRS),
            places: Vec::with_capacity(PAIRS),
        }
    }

    fn is_full(&self) -> bool {
        self.pairs.len() == PAIRS
    }

    /// `a + b`, for `index` of `windows`.
    #[inline(always)]
    fn add(&mut self, a: Affine<Fe>, b: Affine<Fe>, windows: &'w [usize; MAX_LANES], index: usize) {
        let to = self.points.len() as u32;
        self.points.push(a);
        self.points.push(b);
        self.pairs.push(Pair {
            to,
            from: to + 1,
            group: 0,
        });
        self.places.push((windows, index));
    }

    #[inline(always)]
    fn finish<L: Lanes<Fe = Fe>>(&mut self, l: L, lines: &mut Lines, half: u32) {
        let mut marked = [0];
        add_pairs(
            l,
            &mut self.points,
            &self.pairs,
            &mut self.steps,
            &mut marked,
            &mut (),
        );
        debug_assert_eq!(marked, [0], "odd and even multiples are never the same");
        for (pair, (windows, index)) in self.pairs.iter().zip(&self.places) {
            put(l, lines, windows, half, *index, &self.points[pair.to as usize]);
        }
        self.points.clear();
        self.pairs.clear();
        self.places.clear();
    }
}

/// `2^(w·i + t)·Q` for the windows i.
#[inline(always)]
fn multiples<L: Lanes>(
    l: L,
    doubles: &[(U256, U256)],
    windows: &[usize; MAX_LANES],
    width: u32,
    t: u32,
) -> Affine<L::Fe> {
    let points = windows.map(|window| doubles[window * width as usize + t as usize]);
    Affine {
        x: l.load(&points.map(|(x, _)| x)[..L::LANES]),
        y: l.load(&points.map(|(_, y)| y)[..L::LANES]),
    }
}

#[inline(always)]
fn get<L: Lanes>(
    l: L,
    lines: &Lines,
    windows: &[usize; MAX_LANES],
    half: u32,
    index: usize,
) -> Affine<L::Fe> {
    let from = windows.map(|window| &lines[(window << half) + index]);
    l.load_lines(&from[..L::LANES], 0)
}

#[inline(always)]
fn put<L: Lanes>(
    l: L,
    lines: &mut Lines,
    windows: &[usize; MAX_LANES],
    half: u32,
    index: usize,
    points: &Affine<L::Fe>,
) {
    let mut out = [Line([0; 8]); MAX_LANES];
    l.store_lines(points, &mut out[..L::LANES]);
    for (window, line) in windows.iter().zip(&out[..L::LANES]) {
        lines[(window << half) + index] = *line;
    }
}
