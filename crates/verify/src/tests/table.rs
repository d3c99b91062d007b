//! Tests of tables: every table point is compared with a second implementation's multiple.

use super::reference::Reference;
use super::{Draw, Random, Work, big, every_back_end, words};
use crate::curve::Params;
use crate::lanes::{Lanes, TablePoint};
use crate::portable::Reduction;
use crate::table::Table;
use crate::uint::{ONE, U256};
use num_bigint::BigUint;

every_back_end! {
    every_line_of_small_tables,
    lines_of_larger_tables,
    several_tables_at_once,
}

/// Returns the coordinates of a table point, after checking that every lane loads the same.
fn point_of<L: Lanes>(l: L, table_point: &TablePoint) -> (U256, U256) {
    let [mut x, mut y] = [vec![[0; 4]; L::LANES], vec![[0; 4]; L::LANES]];
    l.run(Work(|| {
        let point = l.load_table_points(&vec![table_point; L::LANES], 0);
        l.store(&point.x, &mut x);
        l.store(&point.y, &mut y);
    }));
    assert!(x.iter().all(|lane| *lane == x[0]) && y.iter().all(|lane| *lane == y[0]));
    (x[0], y[0])
}

fn check<L: Lanes<Curve: Reference + Reduction>>(l: L, key: &(U256, U256), width: u32, sample: usize) {
    check_lines(l, &Table::build(l, key, width), key, width, sample);
}

fn check_lines<L: Lanes<Curve: Reference>>(
    l: L,
    table: &Table,
    key: &(U256, U256),
    width: u32,
    sample: usize,
) {
    assert_eq!(
        (table.width(), table.windows()),
        (width, 256usize.div_ceil(width as usize))
    );
    assert_eq!(Table::bytes(width), (table.windows() * 64) << (width - 1));
    let table_points = table.windows() << (width - 1);
    let n = big(&L::Curve::N);
    for k in (0..table_points).step_by(sample).chain([table_points - 1]) {
        let (window, index) = (k >> (width - 1), k & ((1 << (width - 1)) - 1));
        let multiple = (BigUint::from(2 * index + 1) << (window as u32 * width)) % &n;
        let expected = L::Curve::multiply(&words(&multiple), key).expect("not a multiple of n");
        assert_eq!(
            point_of(l, table.table_point(window, index)),
            expected,
            "window {window}, index {index}"
        );
    }
}

/// Checks tables that are built together. The keys share the lanes for their doublings, so the test uses every number
/// of keys from one to more than the number of lanes.
fn several_tables_at_once<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut random = Random(43);
    let keys: Vec<_> = (0..9)
        .map(|_| L::Curve::multiply(&random.number(&L::Curve::N), &L::Curve::G).expect("not zero"))
        .collect();
    for count in 0..=9 {
        let tables = Table::build_all(l, &keys[..count], 5);
        assert_eq!(tables.len(), count);
        for (table, key) in tables.iter().zip(&keys) {
            check_lines(l, table, key, 5, 103);
        }
    }
}

fn every_line_of_small_tables<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut random = Random(41);
    let key = L::Curve::multiply(&random.number(&L::Curve::N), &L::Curve::G).expect("not zero");
    check(l, &key, 2, 1);
    check(l, &key, 3, 1);
}

fn lines_of_larger_tables<L: Lanes<Curve: Reference + Reduction>>(l: L) {
    let mut random = Random(42);
    let key = L::Curve::multiply(&random.number(&L::Curve::N), &L::Curve::G).expect("not zero");
    // The last argument, the step between checked points, is coprime with the size of a window, so that all indices are
    // checked.
    check(l, &key, 5, 7);
    check(l, &key, 8, 37);
    check(l, &L::Curve::G, 8, 41);
    check(l, &L::Curve::G, 10, 211);
    // Check the table of -G, whose multiples are the negated multiples of the generator.
    let minus_one = words(&(big(&L::Curve::N) - big(&ONE)));
    let opposite = L::Curve::multiply(&minus_one, &L::Curve::G).expect("not zero");
    check(l, &opposite, 5, 29);
}
