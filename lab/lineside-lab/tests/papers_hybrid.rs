//! Test that runs `lineside-lab papers hybrid --quick` as a user does, and checks its values by other arithmetic: the
//! paper's numbers are read from its words, medians and ratios are computed again from the tables, latencies are
//! compared with rates by Little's law, and wrong signatures are counted.

use lineside_testkit::skipped;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of requests in a call.
const PER_CALL: f64 = 100.0;

type Row = BTreeMap<String, String>;

fn read(folder: &Path, name: &str) -> Vec<Row> {
    let text = std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let columns: Vec<_> = lines.next().expect("a line of names").collect();
    lines
        .map(|row| {
            let row: Vec<_> = row.collect();
            assert_eq!(row.len(), columns.len(), "{name}: {row:?}");
            columns.iter().cloned().zip(row).collect()
        })
        .collect()
}

fn number(row: &Row, column: &str) -> f64 {
    let cell = &row[column];
    cell.parse()
        .unwrap_or_else(|_| panic!("{column} is {cell:?} in {row:?}"))
}

fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-4 * one.abs().max(other.abs())
}

fn folder(name: &str) -> PathBuf {
    // The ledgers must be on a disk, which the temporary folder of the system need not be.
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("papers-hybrid-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Returns the only finding whose quantity begins with `start`.
fn finding<'a>(said: &'a Value, start: &str) -> &'a Value {
    let all = said["findings"].as_array().expect("findings");
    let found: Vec<_> = all
        .iter()
        .filter(|finding| {
            finding["quantity"]
                .as_str()
                .is_some_and(|text| text.starts_with(start))
        })
        .collect();
    assert_eq!(found.len(), 1, "{start}: {found:?}");
    found[0]
}

fn ours(said: &Value, start: &str) -> f64 {
    let finding = finding(said, start);
    finding["ours"]
        .as_f64()
        .unwrap_or_else(|| panic!("no value: {finding}"))
}

/// Returns the first number in a text.
fn first_number(text: &str) -> Option<f64> {
    let begin = text.find(|character: char| character.is_ascii_digit())?;
    let rest = &text[begin..];
    let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.');
    rest[..end.unwrap_or(rest.len())].parse().ok()
}

/// Checks that each value of the paper is the number in its words, converted to the unit, and each ratio the quotient.
fn check_words_and_ratios(said: &Value) {
    let mut with_paper = 0;
    for finding in said["findings"].as_array().expect("findings") {
        let (paper, ours) = (finding["paper_value"].as_f64(), finding["ours"].as_f64());
        match (paper, ours) {
            (Some(paper), Some(ours)) => {
                let ratio = finding["ratio"].as_f64().expect("a ratio");
                assert!(is_close(ratio, ours / paper), "{finding}");
            }
            _ => assert!(finding["ratio"].is_null(), "{finding}"),
        }
        let words = finding["paper"].as_str().expect("words");
        assert_eq!(paper.is_some(), !words.is_empty(), "{finding}");
        let Some(paper) = paper else { continue };
        with_paper += 1;
        let seconds = words.contains(" s");
        match (finding["unit"].as_str().expect("a unit"), words) {
            ("requests/s", words) => assert_eq!(first_number(words), Some(paper), "{finding}"),
            ("ms", words) if seconds => {
                let said = first_number(words).expect("a number") * 1e3;
                assert!(is_close(paper, said), "{finding}");
            }
            ("ms", words) => assert!(is_close(paper, first_number(words).expect("a number"))),
            (_, words) if words.contains('/') => {
                // A ratio of two numbers of the text.
                let parts = words
                    .split_once('(')
                    .expect("the numbers")
                    .1
                    .trim_end_matches(')');
                let (over, under) = parts.split_once('/').expect("two numbers");
                let quotient = first_number(over).unwrap() / first_number(under).unwrap();
                assert!(is_close(paper, quotient), "{finding}");
            }
            _ => (),
        }
    }
    assert!(with_paper >= 20, "{with_paper}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

fn check_bars(folder: &Path, said: &Value) {
    let rows = read(folder, "hybrid-bars.csv");
    let rates = |contestant: &str| -> Vec<f64> {
        let of = rows.iter().filter(|row| row["contestant"] == contestant);
        of.map(|row| number(row, "requests_per_s")).collect()
    };
    let [none, scalar, batch] = ["none", "scalar", "batch"].map(rates);
    assert!(!none.is_empty() && none.len() == scalar.len() && none.len() == batch.len());
    for (start, rates) in [
        ("one node, no signatures", &none),
        ("one node, signatures verified one by one", &scalar),
        ("one node, signatures accelerated (optimistic", &batch),
        ("one node, signatures accelerated (pessimistic", &batch),
    ] {
        assert!(is_close(ours(said, start), median(rates.clone())), "{start}");
    }
    let ratio = |over: &[f64], under: &[f64]| median(over.iter().zip(under).map(|(a, b)| a / b).collect());
    let over_cpu = ratio(&batch, &scalar);
    assert!(is_close(
        ours(said, "accelerated / verified on the CPU"),
        over_cpu
    ));
    assert!(is_close(
        ours(said, "accelerated / no signatures"),
        ratio(&batch, &none)
    ));
    assert!(is_close(
        ours(said, "no signatures / verified on the CPU"),
        ratio(&none, &scalar)
    ));
    let verdict = |start| {
        finding(said, start)["verdict"]
            .as_str()
            .expect("a verdict")
            .to_owned()
    };
    let expected = if over_cpu >= 2.0 { "holds" } else { "fails" };
    assert_eq!(verdict("accelerated / verified on the CPU"), expected);
    for start in [
        "one node, signatures accelerated (optimistic",
        "one node, signatures accelerated (pessimistic",
    ] {
        assert_eq!(verdict(start), "fails");
        let remark = finding(said, start)["remark"].as_str().expect("a remark");
        assert!(remark.contains("valid") && remark.contains("sleeps"), "{remark}");
    }
}

/// One signature of each call is wrong. A verifier refuses exactly these; a node that accepts every signature, as the
/// paper's accelerator does, executes them all.
fn check_wrong_signatures(said: &Value) {
    for (contestant, refuses) in [("none", false), ("scalar", true), ("batch", true)] {
        let all = said["findings"].as_array().expect("findings").iter();
        let mut found = all.filter(|finding| {
            let quantity = finding["quantity"].as_str().unwrap_or_default();
            quantity.starts_with("wrong signatures refused") && quantity.ends_with(&format!(", {contestant}"))
        });
        let finding = found.next().expect("a finding");
        let quantity = finding["quantity"].as_str().expect("a quantity");
        let numbers = quantity.split_once(", ").expect("numbers").1;
        let (forged, rest) = numbers.split_once(" among ").expect("numbers");
        let (forged, requests) = (first_number(forged).unwrap(), first_number(rest).unwrap());
        // The paper's accelerator sets its whole vector of results to true, whatever the signatures are.
        let marked_valid = vec![true; requests as usize];
        let executed_by_paper = marked_valid.iter().filter(|is_valid| **is_valid).count() as f64;
        assert!(
            forged > 0.0 && is_close(forged, requests / PER_CALL),
            "{quantity}"
        );
        let refused = finding["ours"].as_f64().expect("a count");
        let expected = if refuses {
            forged
        } else {
            requests - executed_by_paper
        };
        assert_eq!(refused, expected, "{finding}");
    }
}

fn check_cases(folder: &Path) {
    let mut cases = BTreeMap::new();
    for file in ["clients", "values", "blocks", "workloads", "delays"] {
        let rows = read(folder, &format!("hybrid-{file}.csv"));
        for row in &rows {
            assert_eq!(row["refused"], "0", "{row:?}");
            let of = |contestant: &str| {
                let same = |other: &&Row| {
                    other["value"] == row["value"]
                        && other["second_value"] == row["second_value"]
                        && other["contestant"] == contestant
                };
                number(rows.iter().find(same).expect("a contestant"), "requests_per_s")
            };
            for contestant in ["scalar", "none"] {
                let ratio = number(row, "requests_per_s") / of(contestant);
                assert!(
                    is_close(number(row, &format!("ratio_to_{contestant}")), ratio),
                    "{row:?}"
                );
            }
        }
        cases.insert(file, rows);
    }
    for row in &cases["clients"] {
        let in_flight = number(row, "value") * number(row, "second_value");
        let calls_per_s = number(row, "requests_per_s") / PER_CALL;
        // Little's law: the calls in flight are the rate of calls times their latency. Workers that are done early
        // have none in flight. The histogram has a precision of three digits.
        let average = calls_per_s * number(row, "mean_us") / 1e6;
        assert!(average <= in_flight * 1.01, "{average}: {row:?}");
        assert!(average >= in_flight * 0.2, "{average}: {row:?}");
    }
    for row in &cases["delays"] {
        let delay_us = number(row, "value") * 1e3;
        // A set is answered only after the log has delivered its block.
        assert!(number(row, "p50_us") >= 0.99 * delay_us, "{row:?}");
    }
    let blocks = |value: &str| {
        let of = cases["blocks"].iter().filter(|row| row["value"] == value);
        of.map(|row| number(row, "blocks")).sum::<f64>()
    };
    assert!(
        blocks("10") > 5.0 * blocks("10000"),
        "{} {}",
        blocks("10"),
        blocks("10000")
    );
    let distributions: BTreeSet<_> = cases["workloads"]
        .iter()
        .map(|row| &row["second_value"])
        .collect();
    assert_eq!(distributions.len(), 3, "{distributions:?}");
}

fn check_primitives(folder: &Path, said: &Value) {
    let rows = read(folder, "hybrid-primitives.csv");
    let mut single = BTreeMap::new();
    for row in &rows {
        assert_eq!(row["wrong"], "0", "{row:?}");
        let scaled = number(row, "ms") * 100_000.0 / number(row, "requests");
        assert!(is_close(number(row, "ms_for_100000"), scaled), "{row:?}");
        let accepted = match row["work"].as_str() {
            "verify" | "verify_batch" => number(row, "requests"),
            _ => 0.0,
        };
        assert_eq!(number(row, "accepted"), accepted, "{row:?}");
        if row["threads"] == "1" {
            single.insert(row["work"].as_str(), scaled);
        }
    }
    let ratio = ours(
        said,
        "time of a verification / time of a Keccak256, one at a time",
    );
    assert!(is_close(ratio, single["verify"] / single["keccak256"]));
    // Two scalar multiplications on the curve cost more than one permutation on any processor; a signature that is
    // refused for its length costs neither.
    assert!(ratio > 2.0, "{ratio}");
    assert!(single["verify_65_bytes"] < single["verify"] / 20.0, "{single:?}");
    let claim = finding(
        said,
        "time of a verification / time of a Keccak256, one at a time",
    );
    assert_eq!(claim["verdict"], "fails");
    assert_eq!(ours(said, "accepted signatures of 65 bytes"), 0.0);
    assert!(is_close(
        ours(said, "100,000 x Keccak256, one at a time, 1 threads"),
        single["keccak256"]
    ));
}

#[test]
fn the_quick_values_agree_with_other_arithmetic_and_wrong_signatures_are_refused() {
    let folder = folder("quick");
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["--json", "papers", "hybrid", "--quick", "--seed", "3", "--out"])
        .arg(&folder)
        .output()
        .expect("run");
    assert!(output.status.success(), "{output:?}");
    let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(said["paper"], "hybrid");
    assert_eq!(said["failures"], serde_json::json!([]));
    check_words_and_ratios(&said);
    check_primitives(&folder, &said);
    let not_measured = said["not_measured"].as_array().expect("reasons");
    let of_nodes = not_measured
        .iter()
        .filter_map(Value::as_str)
        .find(|reason| reason.starts_with("all cases with a node"));
    if let Some(reason) = of_nodes {
        skipped(format_args!("{reason}"));
    } else {
        check_bars(&folder, &said);
        check_wrong_signatures(&said);
        check_cases(&folder);
    }
    let files = said["files"].as_array().expect("files").iter();
    let written: BTreeSet<_> = files
        .map(|file| PathBuf::from(file.as_str().expect("a path")))
        .collect();
    let there = std::fs::read_dir(&folder).expect("the folder");
    let there: BTreeSet<_> = there.map(|entry| entry.expect("an entry").path()).collect();
    // The ledgers are removed.
    assert_eq!(written, there);
    std::fs::remove_dir_all(&folder).expect("removed");
}
