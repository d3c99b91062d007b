//! Test that runs `lineside-lab papers column --quick` as a user does: bytes and rates agree with independent formulas,
//! and the sweeps with their bounds.

mod papers_made;

use lineside_testkit::skipped;
use papers_made::{Made, Row, assert_near, number};

/// Payloads of Lineside's answers in bytes, padded to 8: one status byte and a value, or two bytes and rows of 22.
const PAYLOADS: [(&str, f64, f64); 4] = [
    ("get", 1.0, 24.0),
    ("scan1", 1.0, 24.0),
    ("scan8", 8.0, 184.0),
    ("scan64", 64.0, 1416.0),
];
/// Minimum counted time of a point of a sweep of the quick run, in seconds.
const POINT_S: f64 = 0.3;
/// Ethernet's preamble, header, checksum and gap, and the headers of IPv4 and UDP, in bytes.
const HEADERS: f64 = 8.0 + 14.0 + 4.0 + 12.0 + 20.0 + 8.0;

fn check_bytes(made: &Made) {
    let table = made.table("bytes-per-answer.csv");
    assert_eq!(table.len(), PAYLOADS.len());
    for (row, (name, rows, payload)) in table.iter().zip(PAYLOADS) {
        assert_eq!(row["request"], name);
        assert_near(number(row, "rows"), rows, row);
        assert_near(number(row, "value_bytes"), 18.0 * rows, row);
        assert_near(number(row, "wire_bytes"), payload + HEADERS, row);
        assert_near(number(row, "link_ops_per_s"), 1.25e9 / (payload + HEADERS), row);
    }
    for (place, gbit_per_s, mops, bytes) in [(0, 9.619, 2.07, 581.0), (2, 9.815, 1.005, 1221.0)] {
        let row = &table[place];
        assert_near(number(row, "paper_bytes"), gbit_per_s * 125.0 / mops, row);
        assert!((number(row, "paper_bytes") - bytes).abs() < 0.5, "{row:?}");
        let finding = made.finding(&["answers that fill 10 GbE", &row["request"]]);
        assert_eq!(finding["verdict"], "fails");
        assert_near(
            finding["ratio"].as_f64().expect("a ratio"),
            number(row, "link_ops_per_s") / (mops * 1e6),
            finding,
        );
    }
    assert!(table[1]["paper_bytes"].is_empty());
    let saved = made.finding(&["power"])["ours"].as_f64().expect("a share");
    assert_near(saved, 100.0 * 20.5 / 92.1, &"71.6 W instead of 92.1 W");
}

fn of<'a>(table: &'a [Row], request: &str, contestant: &str) -> Option<&'a Row> {
    let mut rows = table.iter();
    rows.find(|row| row["request"] == request && row["contestant"] == contestant)
}

fn check_throughput(made: &Made, with_hbase: bool) {
    let table = made.table("fig07-fig08-throughput.csv");
    assert_eq!(table.len(), 4 * if with_hbase { 7 } else { 4 });
    for (name, _, payload) in PAYLOADS {
        for contestant in ["xdp_max", "xdp_max2", "xdp", "socket"] {
            let row = of(&table, name, contestant).expect("a row");
            let rate = number(row, "ops_per_s");
            assert_near(number(row, "gbit_per_s"), rate * (payload + HEADERS) * 8e-9, row);
            assert!(number(row, "p50_us") > 0.0);
        }
    }
    for (name, mops) in [("get", 2.07), ("scan8", 1.005)] {
        let rate = number(of(&table, name, "xdp_max").expect("a row"), "ops_per_s");
        let finding = made.finding(&[&format!("{name}, hit ratio of 1, live frames, one core")]);
        assert_near(finding["ours"].as_f64().expect("a rate"), rate / 1e6, finding);
        assert_eq!(finding["paper_value"].as_f64(), Some(mops));
        assert_eq!(finding["verdict"] == "holds", rate >= mops * 1e6);
        let gain = made.finding(&[&format!("{name}, xdp_max divided by HBase")]);
        match of(&table, name, "thrift2") {
            Some(row) => assert_near(
                gain["ours"].as_f64().expect("a gain"),
                rate / number(row, "ops_per_s"),
                gain,
            ),
            None => assert!(gain["ours"].is_null() && !with_hbase),
        }
    }
}

fn check_sweeps(made: &Made) {
    let table = made.table("hit-ratio.csv");
    let held: Vec<&str> = table.iter().map(|row| row["held_percent"].as_str()).collect();
    assert_eq!(held, ["0", "50", "90", "99", "100"]);
    let ends = [0, 4].map(|place| number(&table[place], "replies_per_s"));
    for row in &table {
        let hits = number(row, "hit_percent") / 100.0;
        let held = number(row, "held_percent") / 100.0;
        // The rows are drawn, so the share of hits may differ from that of the held rows by five standard deviations.
        // `reads` is the least number of reads that count: the replies of POINT_S, without those to the 64 requests
        // that were in flight at its start. The drawn sequence repeats after 2^17 rows, so more reads do not make the
        // share more exact.
        let reads = (number(row, "replies_per_s") * POINT_S - 64.0).clamp(1.0, 131_072.0);
        let deviation = (held * (1.0 - held) / reads).sqrt();
        assert!((hits - held).abs() <= 5.0 * deviation, "{row:?}");
        let seconds = hits / ends[1] + (1.0 - hits) / ends[0];
        assert_near(number(row, "harmonic_replies_per_s"), 1.0 / seconds, row);
    }
    assert_eq!(
        (&*table[0]["hit_percent"], &*table[4]["hit_percent"]),
        ("0", "100")
    );
    let table = made.table("cache-size.csv");
    let share = |rows: usize| -> f64 { (1..=rows).map(|rank| (rank as f64).powf(-0.99)).sum() };
    for (row, space) in table.iter().zip([256usize, 1_024, 4_096, 16_384]) {
        assert_eq!(row["space_rows"], space.to_string());
        let bound = 100.0 * share(space.min(10_000)) / share(10_000);
        assert_near(number(row, "bound_percent"), bound, row);
        // The rows are drawn, so the share of the most frequent ones is not exactly the expected one.
        assert!(number(row, "hit_percent") <= bound + 3.0, "{row:?}");
    }
    assert_eq!(table.len(), 4);
    let table = made.table("puts.csv");
    let puts: Vec<&str> = table.iter().map(|row| row["puts_percent"].as_str()).collect();
    assert_eq!(puts, ["0", "1", "5", "20"]);
    assert!(table.iter().all(|row| row["stale_replies"] == "0"), "{table:?}");
}

#[test]
fn the_quick_figures_of_column_agree_with_other_formulas() {
    let made = Made::quick("column");
    check_bytes(&made);
    let not_measured = made.not_measured();
    if let Some(why) = not_measured.iter().find(|why| why.starts_with("all but")) {
        skipped(why);
        return;
    }
    if let Some(why) = not_measured.first() {
        skipped(why);
    }
    check_throughput(&made, not_measured.is_empty());
    check_sweeps(&made);
}
