//! Tests that run `lineside-lab papers all --only spv --quick` as a user does: the tables agree with independent
//! formulas, the plots are complete, and the page has all of them.

use lineside_testkit::skipped;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Rows of a CSV table; each maps column names to cells.
struct Csv(Vec<BTreeMap<String, String>>);

impl Csv {
    fn read(folder: &Path, name: &str) -> Self {
        let text =
            std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut lines = text.lines().map(cells);
        let columns = lines.next().expect("a line of names");
        let rows = lines.map(|row| {
            assert_eq!(row.len(), columns.len(), "{name}: {row:?}");
            columns.iter().cloned().zip(row).collect()
        });
        Self(rows.collect())
    }

    /// Returns the rows whose named cells have these values.
    fn find(&self, cells: &[(&str, &str)]) -> Vec<&BTreeMap<String, String>> {
        let rows = self.0.iter();
        rows.filter(|row| cells.iter().all(|(column, value)| row[*column] == *value))
            .collect()
    }
}

fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut is_quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cells.last_mut().expect("at least one cell").push(other),
        }
    }
    cells
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    let cell = &row[column];
    cell.parse()
        .unwrap_or_else(|_| panic!("{column} is {cell:?} in {row:?}"))
}

/// Returns the percentage of keys that are lost, computed with a Poisson distribution of the keys of a set. The program
/// uses a binomial distribution.
fn poisson_lost_percent(keys: f64, lines_log2: i32, ways: u32) -> f64 {
    let sets = 2f64.powi(lines_log2) / f64::from(ways);
    let mean = keys / sets;
    let mut probability = (-mean).exp();
    let mut lost = 0.0;
    for count in 1..200u32 {
        probability *= mean / f64::from(count);
        lost += f64::from(count.saturating_sub(ways)) * probability;
    }
    100.0 * lost / mean
}

fn check_collisions(folder: &Path) {
    let table = Csv::read(folder, "fig13-collisions.csv");
    assert_eq!(table.0.len(), 3 * 2 * 3 * 3, "sizes, indexes, ways, keys");
    for row in &table.0 {
        let (keys, ways) = (number(row, "keys"), number(row, "ways") as u32);
        let expected = poisson_lost_percent(keys, number(row, "lines_log2") as i32, ways);
        let computed = number(row, "lost_computed_percent");
        assert!(
            (computed - expected).abs() < 2e-3 * expected + 1e-9,
            "{row:?}: {expected}"
        );
        if row["lines_log2"] != "22" {
            continue;
        }
        // The tolerance is six standard deviations; the number of losses is approximately Poisson-distributed.
        let losses = keys * expected / 100.0;
        let room = 100.0 * (6.0 * losses.sqrt() + 3.0) / keys;
        assert!(
            (number(row, "lost_measured_percent") - expected).abs() < room,
            "{row:?}: {expected}"
        );
        for kind in ["hit_comparisons", "miss_comparisons"] {
            let [measured, computed] =
                ["measured", "computed"].map(|how| number(row, &format!("{kind}_{how}")));
            assert!((measured - computed).abs() < 0.02, "{kind}: {row:?}");
        }
    }
    let direct = [("keys", "250000"), ("lines_log2", "22"), ("ways", "1")];
    for row in table.find(&direct) {
        assert!((number(row, "lost_computed_percent") - 2.922).abs() < 0.001);
        assert_eq!(row["paper_lost_percent"], "<1");
    }
}

fn check_throughput(folder: &Path) {
    let table = Csv::read(folder, "fig16-transactions-per-block.csv");
    assert_eq!(
        table.0.len(),
        3 * 2 * 2,
        "transactions in a block, totals, contestants"
    );
    for row in &table.0 {
        let product = number(row, "transactions_per_block") * number(row, "blocks");
        assert_eq!(product, number(row, "transactions"));
        assert!(number(row, "replies_per_s") > 100.0, "{row:?}");
    }
    let table = Csv::read(folder, "fig18-throughput.csv");
    for contestant in ["echo", "sw", "sw_cache", "socket", "xdp", "xdp_max"] {
        for row in table.find(&[("contestant", contestant)]) {
            let sw = table.find(&[("contestant", "sw"), ("blocks", &row["blocks"])]);
            let ratio = number(row, "replies_per_s") / number(sw[0], "replies_per_s");
            assert!((number(row, "ratio_to_sw") / ratio - 1.0).abs() < 1e-3, "{row:?}");
        }
        assert_eq!(table.find(&[("contestant", contestant)]).len(), 2, "{contestant}");
    }
}

fn check_hit_rate(folder: &Path) {
    let table = Csv::read(folder, "fig19-hit-rate.csv");
    for kind in ["closed", "open"] {
        let rows = table.find(&[("loop", kind)]);
        assert_eq!(rows.len(), 11, "{kind}");
        let ends = [rows[0], rows[10]].map(|row| number(row, "measured_replies_per_s"));
        for row in rows {
            let share = number(row, "hit_percent") / 100.0;
            let linear = ends[0] * (1.0 - share) + ends[1] * share;
            let harmonic = ends[0] * ends[1] / (ends[1] * (1.0 - share) + ends[0] * share);
            for (name, model) in [("linear", linear), ("harmonic", harmonic)] {
                let computed = number(row, &format!("{name}_replies_per_s"));
                assert!((computed / model - 1.0).abs() < 1e-3, "{name}: {row:?}");
                let error = 100.0 * (model / number(row, "measured_replies_per_s") - 1.0).abs();
                assert!((number(row, &format!("{name}_error_percent")) - error).abs() < 0.01 + error / 1e3);
            }
        }
    }
}

fn check_load(folder: &Path) {
    let table = Csv::read(folder, "fig20-roofline.csv");
    assert_eq!(table.0.len(), 3 * 7, "contestants, loads");
    for row in &table.0 {
        let roof = number(row, "offered_per_s").min(number(row, "system_replies_per_s"));
        assert_eq!(number(row, "roof_replies_per_s"), roof, "{row:?}");
        assert!((number(row, "link_replies_per_s") - 10e9 / 8.0 / 98.0).abs() < 1.0);
        // The client must not send faster than its configured rate.
        assert!(
            number(row, "replies_per_s") <= 1.1 * number(row, "offered_per_s"),
            "{row:?}"
        );
    }
    let table = Csv::read(folder, "fig21-latency.csv");
    assert_eq!(table.0.len(), 5 * 2 * 2, "contestants, clients, shapes");
    for row in &table.0 {
        assert!(
            number(row, "p50_us") > 0.0 && number(row, "p50_us") <= number(row, "p99_us"),
            "{row:?}"
        );
    }
    let table = Csv::read(folder, "server-load.csv");
    assert_eq!(table.0.len(), 3 + 6);
    let server = |hits| {
        let rows = table.find(&[("contestant", "xdp + sw"), ("hit_percent", hits)]);
        number(rows[0], "server_us_per_reply")
    };
    // The fast path is meant to relieve the server. The measured ratio is much larger than the factor of two that is
    // required here.
    assert!(
        server("100") < server("0") / 2.0,
        "{} {}",
        server("100"),
        server("0")
    );
}

/// Returns the text of every `text` element of an SVG file, and checks that its elements are closed in the right order.
fn texts(svg: &str) -> Vec<String> {
    let (mut open, mut texts, mut rest) = (Vec::new(), Vec::new(), svg);
    while let Some((before, after)) = rest.split_once('<') {
        if open.last() == Some(&"text") && !before.trim().is_empty() {
            texts.push(before.trim().to_owned());
        }
        let (tag, after) = after.split_once('>').expect("a tag that ends");
        rest = after;
        let name = tag
            .split([' ', '\n', '/'])
            .find(|part| !part.is_empty())
            .unwrap_or("");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(name);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert!(open.is_empty(), "{open:?}");
    texts
}

/// Expected content of each plot: name of its file, then its title, its axes, and a part of the name of each series.
const PLOTS: [(&str, &[&str]); 10] = [
    (
        "fig13-collisions",
        &[
            "Figure 13",
            "keys sent",
            "[%]",
            "1-way, measured",
            "4-way, computed",
            "2^24",
            "paper: less",
        ],
    ),
    (
        "fig13-comparisons",
        &[
            "Figure 13",
            "keys sent",
            "tags compared",
            "2-way, hit, measured",
            "4-way, miss, computed",
        ],
    ),
    (
        "fig16-transactions-per-block",
        &[
            "Figure 16",
            "transactions in the chain",
            "[replies/s]",
            "sw, 1024",
            "echo, 4096",
        ],
    ),
    (
        "fig18-throughput",
        &[
            "Figure 18",
            "blocks of 2,048",
            "[replies/s]",
            "SW Cache",
            "paper: HW)",
            "HW Max",
            "socket",
        ],
    ),
    (
        "fig19-hit-rate",
        &[
            "Figure 19",
            "hit rate",
            "[replies/s]",
            "measured",
            "linear",
            "harmonic",
            "slower of both",
        ],
    ),
    (
        "fig19-hit-rate-open-loop",
        &["Figure 19", "hit rate", "open loop", "linear", "harmonic"],
    ),
    (
        "fig20-roofline",
        &[
            "Figure 20",
            "[requests/s]",
            "[replies/s]",
            "sw, roof",
            "xdp, roof",
            "10 GbE",
        ],
    ),
    (
        "fig21-latency",
        &[
            "Figure 21",
            "transactions in a block",
            "[µs]",
            "SW Cache",
            "sw_spin",
            "paper: HW",
        ],
    ),
    (
        "fig21-latency-live-frames",
        &[
            "Figure 21",
            "transactions in a block",
            "[µs]",
            "client's interface",
        ],
    ),
    (
        "server-load",
        &[
            "Load of the server",
            "hit rate",
            "[µs a reply]",
            "sw_cache, no fast",
            "xdp before sw: server",
        ],
    ),
];

fn check_plots(folder: &Path, written: &BTreeSet<String>) {
    for (name, parts) in &PLOTS {
        let file = format!("{name}.svg");
        if !written.contains(&file) {
            continue;
        }
        let svg = std::fs::read_to_string(folder.join(&file)).expect("the plot");
        assert!(svg.starts_with("<svg") || svg.starts_with("<?xml"), "{file}");
        let texts = texts(&svg).join("\n");
        for part in *parts {
            let part = part.replace('\'', "&apos;");
            let is_there = texts.contains(&part) || texts.contains(&part.replace("&apos;", "'"));
            assert!(is_there, "{file}: no {part:?} in\n{texts}");
        }
        assert!(svg.matches("<circle").count() > 2, "{file} has points");
    }
}

#[test]
fn the_quick_figures_are_complete_and_agree_with_other_formulas() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("new/folder");
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["--json", "papers", "all", "--only", "spv", "--quick", "--out"])
        .arg(&whole)
        .output()
        .expect("run");
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let papers = report["papers"].as_array().expect("papers");
    assert_eq!(papers.len(), 1);
    let (out, said) = (whole.join("spv"), &papers[0]);
    assert_eq!(said["command"], "lineside-lab papers spv --quick");
    let files = said["files"].as_array().expect("files").iter();
    let written: BTreeSet<String> = files
        .map(|file| {
            Path::new(file.as_str().expect("a path"))
                .file_name()
                .expect("a name")
        })
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let there: BTreeSet<String> = std::fs::read_dir(&out)
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(written, there);
    let page = std::fs::read_to_string(whole.join("index.html")).expect("the page");
    for file in &written {
        assert!(page.contains(&format!("href=\"spv/{file}\"")), "{file}");
    }
    assert_eq!(
        page.matches("<svg").count(),
        written.iter().filter(|file| file.ends_with(".svg")).count()
    );
    check_collisions(&out);
    check_plots(&out, &written);
    let paper = Csv::read(&out, "paper.csv");
    assert!(
        !paper
            .find(&[("figure", "figure 13"), ("paper", "< 1 %"), ("verdict", "fails")])
            .is_empty()
    );
    if let Some(why) = said["not_measured"][0].as_str() {
        skipped(format_args!("all but figure 13: {why}"));
        return;
    }
    assert_eq!(written.len(), 10 + 8 + 1, "{written:?}");
    check_throughput(&out);
    check_hit_rate(&out);
    check_load(&out);
    for value in [
        "1.07",
        "1.84",
        "1.97",
        "at most 26.2",
        "at most 10.4 %",
        "1.64",
        "3.22",
        "86.0 W",
        "67.5 W",
    ] {
        assert!(!paper.find(&[("paper", value)]).is_empty(), "{value}");
    }
    assert_eq!(said["failures"], serde_json::json!([]));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["papers", "spv", "--quick", "--out"])
        .arg(&file)
        .output()
        .expect("run");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--out") && said.contains("file"), "{said}");
}

#[test]
fn the_page_has_the_error_of_a_paper_that_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spv"), "").expect("a file in place of the folder");
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["papers", "all", "--only", "spv", "--quick", "--out"])
        .arg(folder.path())
        .output()
        .expect("run");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("index.html"), "{said}");
    let page = std::fs::read_to_string(folder.path().join("index.html")).expect("the page");
    assert!(
        page.contains("The run of this paper failed") && page.contains("--out"),
        "{page}"
    );
}
