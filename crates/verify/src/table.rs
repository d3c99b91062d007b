//! Tables of the multiples of a point Q. For each window i of w bits and each odd digit, a table contains the point
//! (2j + 1)·2^(w·i)·Q, for all j below 2^(w-1).
//!
//! A table is built from 2^0·Q, 2^1·Q, …. In each window, the first 2^t odd multiples plus 2^(w·i + t + 1)·Q give the
//! next 2^t odd multiples. The two points of such an addition are never equal or opposite: 2j + 1 is odd, 2^(t+1) is
//! even, and their sum is below the order.

use crate::affine::{Pair, Step, add_pairs};
use crate::jacobian::{Jacobian, double, from_affine, select};
use crate::lanes::{Affine, Lanes, MAX_LANES, Stage, TablePoint};
use crate::memory::Lines;
use crate::recode;
use crate::uint::{ONE, U256};

/// Number of bits of a scalar.
const SCALAR_BITS: u32 = 256;

/// Number of pairs of vectors in a batch of additions when a table is built. The batch is large enough that its
/// inversion takes a small share of the time, and small enough for the second-level cache.
const PAIRS: usize = 128;

/// Table of all multiples of one point that the windows of a scalar may select.
pub(crate) struct Table {
    width: u32,
    windows: usize,
    table_points: Lines,
}

impl Table {
    /// Returns the number of bytes of a table of this width.
    pub(crate) const fn bytes(width: u32) -> usize {
        (recode::windows(SCALAR_BITS, width) * size_of::<TablePoint>()) << (width - 1)
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn windows(&self) -> usize {
        self.windows
    }

    /// Returns all points of the table; the point of window i and odd multiple 2j + 1 has the index i·2^(w-1) + j.
    #[inline(always)]
    pub(crate) fn table_points(&self) -> &[TablePoint] {
        &self.table_points
    }

    /// Returns the table point of the odd multiple `2·index + 1` in window `window`.
    #[inline(always)]
    pub(crate) fn table_point(&self, window: usize, index: usize) -> &TablePoint {
        &self.table_points[(window << (self.width - 1)) + index]
    }

    /// Builds the table of a point given as plain integers; `width` is at least 2.
    #[cfg(test)]
    pub(crate) fn build<L: Lanes>(l: L, point: &(U256, U256), width: u32) -> Self {
        Self::build_all(l, &[*point], width).remove(0)
    }

    /// Builds the tables of points given as plain integers; `width` is at least 2. The doublings of a point depend on
    /// each other and are most of the work for a small table, so they are done for as many points at once as there are
    /// lanes.
    pub(crate) fn build_all<L: Lanes>(l: L, points: &[(U256, U256)], width: u32) -> Vec<Self> {
        let windows = recode::windows(SCALAR_BITS, width);
        let blank = |_: &_| Self {
            width,
            windows,
            table_points: Lines::new(windows << (width - 1)),
        };
        let mut tables: Vec<Self> = points.iter().map(blank).collect();
        for (points, tables) in points.chunks(L::LANES).zip(tables.chunks_mut(L::LANES)) {
            l.run(Fill { l, points, tables });
        }
        tables
    }
}

/// Stage that fills tables of one width, at most as many as there are lanes.
struct Fill<'a, L> {
    l: L,
    points: &'a [(U256, U256)],
    tables: &'a mut [Table],
}

impl<L: Lanes> Stage for Fill<'_, L> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let Self { l, points, tables } = self;
        let count = tables[0].windows * tables[0].width as usize;
        let doubles = doubles(l, points, count);
        let doubles: Vec<&[(U256, U256)]> = doubles.chunks_exact(count).collect();
        fill(l, tables, &doubles);
    }
}

/// Fills the tables. Each lane computes one window, in as many groups of windows as necessary; lanes after the last
/// window repeat it. The additions of all tables share inversions.
#[inline(always)]
fn fill<L: Lanes>(l: L, tables: &mut [Table], doubles: &[&[(U256, U256)]]) {
    let (width, count) = (tables[0].width, tables[0].windows);
    let half = width - 1;
    let mut windows = vec![[0; MAX_LANES]; count.div_ceil(L::LANES)];
    for (group, windows) in windows.iter_mut().enumerate() {
        for (lane, window) in windows.iter_mut().enumerate() {
            *window = (group * L::LANES + lane % L::LANES).min(count - 1);
        }
    }
    for (table, doubles) in tables.iter_mut().zip(doubles) {
        for windows in &windows {
            let first = multiples(l, doubles, windows, width, 0);
            put(l, &mut table.table_points, windows, half, 0, &first);
        }
    }
    let mut batch = Batch::new();
    for t in 0..half {
        let have = 1 << t;
        for (which, doubles) in doubles.iter().enumerate() {
            for windows in &windows {
                let by = multiples(l, doubles, windows, width, t + 1);
                for index in 0..have {
                    let point = get(l, &tables[which].table_points, windows, half, index);
                    batch.add(point, by, (which, windows, have + index));
                    if batch.is_full() {
                        batch.finish(l, tables, half);
                    }
                }
            }
        }
        batch.finish(l, tables, half);
    }
}

/// Computes `2^i·Q` for `i` below `count` as plain integers, one point after the other; there must be no more points
/// than lanes.
///
/// The doublings of a point depend on each other, so lanes without a point of their own repeat the work of other lanes.
/// The divisions by Z are independent of each other, so for them each lane takes another doubling.
#[inline(always)]
fn doubles<L: Lanes>(l: L, points: &[(U256, U256)], count: usize) -> Vec<(U256, U256)> {
    let keys = points.len().next_power_of_two().min(L::LANES);
    // Number of doublings of each key that one vector holds for the divisions.
    let each = L::LANES / keys;
    let mut plain = [[[0; 4]; MAX_LANES]; 2];
    for lane in 0..L::LANES {
        let (x, y) = points[(lane % keys).min(points.len() - 1)];
        (plain[0][lane], plain[1][lane]) = (x, y);
    }
    let q = Affine {
        x: l.load(&plain[0][..L::LANES]),
        y: l.load(&plain[1][..L::LANES]),
    };
    let mut packed: Vec<Jacobian<L::Fe>> = Vec::with_capacity(count.div_ceil(each));
    let mut next = from_affine(l, &q);
    let mut taken = next;
    for i in 0..count {
        let lanes = ((1u32 << keys) - 1) << (i % each * keys);
        taken = if i % each == 0 {
            next
        } else {
            select(l, lanes as u8, &next, &taken)
        };
        if i % each == each - 1 || i == count - 1 {
            packed.push(taken);
        }
        next = double(l, &next);
    }
    // All Z are inverted with one inversion.
    let mut products = Vec::with_capacity(packed.len());
    let mut running = l.splat(&ONE);
    for point in &packed {
        products.push(running);
        running = l.mul(&running, &point.z);
    }
    let mut inverse = l
        .invert(&running)
        .expect("a point of odd order never doubles to infinity");
    let mut out = vec![([0; 4], [0; 4]); points.len() * count];
    for (group, (point, product)) in packed.iter().zip(&products).enumerate().rev() {
        let over_z = l.mul(&inverse, product);
        inverse = l.mul(&inverse, &point.z);
        let over_z2 = l.sqr(&over_z);
        let x = l.mul(&point.x, &over_z2);
        let y = l.mul(&point.y, &l.mul(&over_z2, &over_z));
        l.store(&x, &mut plain[0][..L::LANES]);
        l.store(&y, &mut plain[1][..L::LANES]);
        let [xs, ys] = &plain;
        for (lane, (x, y)) in xs.iter().zip(ys).take(L::LANES).enumerate() {
            let (key, i) = (lane % keys, group * each + lane / keys);
            if key < points.len() && i < count {
                out[key * count + i] = (*x, *y);
            }
        }
    }
    out
}

/// Batch of additions whose results are pending, and the places where the sums are stored: table, windows, index.
struct Batch<'w, Fe> {
    points: Vec<Affine<Fe>>,
    pairs: Vec<Pair>,
    steps: Vec<Step<Fe>>,
    places: Vec<(usize, &'w [usize; MAX_LANES], usize)>,
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

    /// Adds the addition `a + b` to the batch; its sum will be stored at `place`.
    #[inline(always)]
    fn add(&mut self, a: Affine<Fe>, b: Affine<Fe>, place: (usize, &'w [usize; MAX_LANES], usize)) {
        let to = self.points.len() as u32;
        self.points.push(a);
        self.points.push(b);
        self.pairs.push(Pair {
            to,
            from: to + 1,
            group: 0,
        });
        self.places.push(place);
    }

    #[inline(always)]
    fn finish<L: Lanes<Fe = Fe>>(&mut self, l: L, tables: &mut [Table], half: u32) {
        let mut marked = [0];
        add_pairs(
            l,
            &mut self.points,
            &self.pairs,
            &mut self.steps,
            &mut marked,
            &mut (),
        );
        debug_assert_eq!(marked, [0], "odd and even multiples are never equal");
        for (pair, (table, windows, index)) in self.pairs.iter().zip(&self.places) {
            let table_points = &mut tables[*table].table_points;
            put(
                l,
                table_points,
                windows,
                half,
                *index,
                &self.points[pair.to as usize],
            );
        }
        self.points.clear();
        self.pairs.clear();
        self.places.clear();
    }
}

/// Returns `2^(w·i + t)·Q` for the windows i.
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
    table_points: &Lines,
    windows: &[usize; MAX_LANES],
    half: u32,
    index: usize,
) -> Affine<L::Fe> {
    let from = windows.map(|window| &table_points[(window << half) + index]);
    l.load_table_points(&from[..L::LANES], 0)
}

#[inline(always)]
fn put<L: Lanes>(
    l: L,
    table_points: &mut Lines,
    windows: &[usize; MAX_LANES],
    half: u32,
    index: usize,
    points: &Affine<L::Fe>,
) {
    let mut out = [TablePoint([0; 8]); MAX_LANES];
    l.store_table_points(points, &mut out[..L::LANES]);
    for (window, table_point) in windows.iter().zip(&out[..L::LANES]) {
        table_points[(window << half) + index] = *table_point;
    }
}
