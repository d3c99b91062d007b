//! Tests of the claims: the page and the program agree, and a wrong claim is found.

use super::command::{Ended, Programs};
use super::judge::{Judge, Outcome, value_at};
use super::page::{Bound, Claim, Figure, Machine, Page, Section};
use super::{BUILT_IN, number};
use crate::Cli;
use clap::Parser;
use lineside_bench::{column, cost, electrum, fabric, hybrid, proof, rtl, spv, transfer, verify};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Parts of real reports, by the name of the section, without the gates. The lists of gates come from the benches.
const REPORTS: &str = include_str!("reports.json");

fn page() -> Page {
    Page::parse(BUILT_IN).unwrap_or_else(|fault| panic!("CLAIMS.md, {fault}"))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

// ---- the page ----

/// The upper limit keeps the page short enough to be read, and a run of all commands near an hour. Most claims of the
/// RTL share one command of a minute.
#[test]
fn the_page_has_20_to_75_claims() {
    let count = page().claims().count();
    assert!((20..=75).contains(&count), "{count} claims");
}

/// The page of a claim has the claimed figure, so that a changed figure cannot be forgotten in CLAIMS.md. Zero and one
/// are skipped, because pages write them as words.
#[test]
fn the_page_of_each_claim_has_its_figure() {
    for claim in page().claims() {
        let file = claim.page.split('#').next().unwrap_or_default();
        let text = std::fs::read_to_string(repository().join(file))
            .unwrap_or_else(|error| panic!("{}: {file}: {error}", claim.id));
        let figure = claim.claimed_text.as_str();
        assert!(
            ["0", "1"].contains(&figure) || text.contains(figure),
            "{}: {file} does not have {figure}",
            claim.id
        );
    }
}

/// Each command has a verb and options that exist, and prints JSON.
#[test]
fn the_commands_are_accepted_by_their_programs() {
    let programs = Programs::in_folder(Path::new("/programs"));
    for section in page().sections {
        let Section { name, command, .. } = &section;
        assert!(programs.file(&command[0]).is_ok(), "{name}");
        match command[0].as_str() {
            "lineside-lab" => {
                let cli = Cli::try_parse_from(command).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(cli.json, "{name}");
            }
            "lineside" => {
                let parsed = lineside::command().try_get_matches_from(command);
                parsed.unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(command.contains(&"--json".to_owned()), "{name}");
            }
            other => assert!(
                other == "cargo" || repository().join(other).is_file(),
                "{name}: there is no {other}"
            ),
        }
    }
}

/// Returns the gates of the bench of a section, and their place in its report.
fn gates(section: &str) -> Vec<(&'static str, BTreeSet<&'static str>)> {
    match section {
        "bench verify" => vec![("/checks/gates", verify::gate_keys().collect())],
        "bench spv" => vec![("/checks/gates", spv::gate_keys().collect())],
        "bench spv --proof" => vec![
            ("/gates", proof::gate_keys().collect()),
            ("/electrum/checks/gates", electrum::gate_keys().collect()),
        ],
        "bench transfer" => vec![("/checks/gates", transfer::gate_keys().collect())],
        "bench column" => vec![("/checks/gates", column::report::gate_keys().collect())],
        "bench column --ycsb" => vec![("/checks/gates", column::ycsb::gate_keys().collect())],
        "bench cost" => vec![("/checks/gates", cost::gate_keys().collect())],
        "bench fabric" => vec![("/checks/gates", fabric::gate_keys().collect())],
        "bench hybrid" => vec![("/checks/gates", hybrid::gate_keys().collect())],
        "bench rtl" => vec![("/checks/gates", rtl::report::gate_keys().collect())],
        _ => Vec::new(),
    }
}

/// Each figure is a gate of its bench, by the bench's own list, or is in a recorded report.
#[test]
fn the_reports_have_the_figures() {
    let reports: Value = serde_json::from_str(REPORTS).expect("JSON");
    for section in page().sections {
        let name = &section.name;
        let report = reports
            .get(name)
            .unwrap_or_else(|| panic!("reports.json has no `{name}`"));
        for claim in &section.claims {
            let Figure::Pointer(pointer) = &claim.figure else {
                continue;
            };
            let gate_of = |(place, keys): &(&str, BTreeSet<&str>)| {
                let key = pointer
                    .strip_prefix(place)?
                    .strip_prefix('/')?
                    .strip_suffix("/value")?;
                Some(keys.contains(key.replace("~1", "/").as_str()))
            };
            match gates(name).iter().find_map(gate_of) {
                Some(is_gate) => assert!(is_gate, "{}: `{name}` has no gate {pointer}", claim.id),
                None => {
                    let value = value_at(report, pointer);
                    let value = value.unwrap_or_else(|why| panic!("{}: {pointer}: {why}", claim.id));
                    // Recorded figures that no machine changes must agree with the claim.
                    assert!(
                        claim.machine != Machine::Any || claim.bound.holds(claim.claimed, value),
                        "{}: {value}",
                        claim.id
                    );
                }
            }
        }
    }
}

// ---- judging ----

fn claim(pointer: &str, claimed: f64, bound: Bound) -> Claim {
    Claim {
        id: "one".into(),
        text: "A claim.".into(),
        page: "README.md".into(),
        figure: match pointer {
            "exit code" => Figure::ExitCode,
            pointer => Figure::Pointer(pointer.into()),
        },
        claimed,
        claimed_text: claimed.to_string(),
        bound,
        machine: Machine::Any,
    }
}

fn section(command: &str, name: &str) -> Section {
    Section {
        name: name.into(),
        command: command.split(' ').map(str::to_owned).collect(),
        minutes: 1,
        needs: Vec::new(),
        claims: Vec::new(),
    }
}

/// Held while a program is written or runs: a process that another thread starts during the write would keep the file
/// open, and the kernel runs no program that is open for writing.
static PROGRAMS: Mutex<()> = Mutex::new(());

/// Folder with a program `lineside-lab`, a script of the shell.
fn script(text: &str) -> tempfile::TempDir {
    let _alone = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("lineside-lab");
    std::fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("write");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("permissions");
    folder
}

/// Folder with a program `lineside-lab` that prints `out`, prints `err` and ends with a code.
fn fake(out: &str, err: &str, code: i32) -> tempfile::TempDir {
    script(&format!("cat <<'END'\n{out}\nEND\necho '{err}' >&2\nexit {code}"))
}

fn run(folder: &Path, command: &str) -> Result<Ended, String> {
    let _alone = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    Programs::in_folder(folder).run(&section(command, ""))
}

fn run_fake(folder: &tempfile::TempDir) -> Result<Ended, String> {
    run(folder.path(), "lineside-lab bench spv --json")
}

/// Judges a claim about the output of a fake command.
fn outcome(claim: &Claim, ran: &Result<Ended, String>, busy: Option<&str>) -> (Outcome, String) {
    let section = section("lineside-lab bench spv --json", "");
    let judge = Judge {
        section: &section,
        same_machine: false,
    };
    let judged = judge.judge(claim, ran, busy);
    (judged.outcome, judged.why.unwrap_or_default())
}

#[test]
fn a_claim_that_is_wrong_by_more_than_its_tolerance_is_reported() {
    let folder = fake(r#"{"ratios": {"xdp/sw": 2.0}, "checks": {"lost": 3}}"#, "", 0);
    let ran = run_fake(&folder);
    let ratio = |claimed, bound| outcome(&claim("/ratios/xdp~1sw", claimed, bound), &ran, None).0;
    for (claimed, bound, expected) in [
        (2.0, Bound::Exact, Outcome::Holds),
        (2.001, Bound::Exact, Outcome::Fails),
        (2.5, Bound::Less(20.0), Outcome::Holds),
        (2.51, Bound::Less(20.0), Outcome::Fails),
        (1.0, Bound::Less(20.0), Outcome::Holds),
        (1.6, Bound::More(25.0), Outcome::Holds),
        (1.59, Bound::More(25.0), Outcome::Fails),
        (9.0, Bound::More(25.0), Outcome::Holds),
        (1.9, Bound::Within(6.0), Outcome::Holds),
        (1.8, Bound::Within(6.0), Outcome::Fails),
        (2.2, Bound::Within(6.0), Outcome::Fails),
        (5.0, Bound::AtLeast(2.0), Outcome::Holds),
        (5.0, Bound::AtLeast(2.1), Outcome::Fails),
        (5.0, Bound::AtMost(2.0), Outcome::Holds),
        (5.0, Bound::AtMost(1.9), Outcome::Fails),
    ] {
        assert_eq!(ratio(claimed, bound), expected, "{claimed} {bound}");
    }
    let lost = claim("/checks/lost", 0.0, Bound::Exact);
    assert_eq!(outcome(&lost, &ran, None).0, Outcome::Fails);
}

#[test]
fn a_command_that_reports_faults_fails_even_claims_that_agree() {
    let folder = fake(r#"{"ratio": 2.0}"#, "lineside: 3 wrong replies", 1);
    let (found, why) = outcome(&claim("/ratio", 2.0, Bound::Exact), &run_fake(&folder), None);
    assert_eq!(found, Outcome::Fails);
    assert_eq!(why, "the command ended with code 1: lineside: 3 wrong replies");
    let code = |expected| {
        outcome(
            &claim("exit code", expected, Bound::Exact),
            &run_fake(&folder),
            None,
        )
    };
    assert_eq!(code(1.0).0, Outcome::Holds);
    assert_eq!(code(0.0), (Outcome::Fails, "lineside: 3 wrong replies".into()));
}

#[test]
fn figures_that_cannot_be_compared_are_not_judged() {
    let json =
        r#"{"void": {"value": 9, "outcome": "void"}, "absent": {"value": null, "outcome": "not_measured"}}"#;
    let (complete, failed) = (
        fake(json, "", 0),
        fake("", r#"{"error": {"message": "run it as root"}}"#, 1),
    );
    for (folder, pointer, expected) in [
        (&complete, "/void/value", "void"),
        (&complete, "/absent/value", "did not measure"),
        (&complete, "/other/value", "no figure `other`"),
        (
            &failed,
            "/void/value",
            "the command failed with code 1: run it as root",
        ),
    ] {
        let (found, why) = outcome(&claim(pointer, 9.0, Bound::Exact), &run_fake(folder), None);
        assert_eq!(found, Outcome::NotJudged, "{pointer}");
        assert!(why.contains(expected), "{pointer}: {why}");
    }
    let ran = run(Path::new("/nonexistent"), "lineside-lab soak --json");
    let (found, why) = outcome(&claim("exit code", 0.0, Bound::Exact), &ran, None);
    assert_eq!(found, Outcome::NotJudged);
    assert!(why.contains("cannot run /nonexistent/lineside-lab"), "{why}");
}

#[test]
fn a_busy_machine_excuses_ratios_but_no_counts() {
    let ran = run_fake(&fake(r#"{"figure": 1.0}"#, "", 0));
    let of = |machine, busy| {
        let claim = Claim {
            machine,
            ..claim("/figure", 2.0, Bound::Less(10.0))
        };
        outcome(&claim, &ran, busy).0
    };
    let busy = Some("the machine was busy");
    assert_eq!(of(Machine::Quiet, busy), Outcome::NotJudged);
    assert_eq!(of(Machine::Quiet, None), Outcome::Fails);
    assert_eq!(of(Machine::Any, busy), Outcome::Fails);
    assert_eq!(of(Machine::Same, None), Outcome::NotJudged);
}

#[test]
fn pointers_unescape_names_and_add_elements() {
    let report = json!([{"lost": 1, "a/b~c": {"value": 4}}, {"lost": 2}]);
    assert_eq!(value_at(&report, "/*/lost"), Ok(3.0));
    assert_eq!(value_at(&report, "/1/lost"), Ok(2.0));
    assert_eq!(value_at(&report, "/0/a~1b~0c/value"), Ok(4.0));
    for pointer in ["/*/other", "/2/lost", "/x/lost", "/0"] {
        assert!(value_at(&report, pointer).is_err(), "{pointer}");
    }
}

// ---- commands and format ----

#[test]
fn only_four_kinds_of_programs_run_and_no_shell() {
    let programs = Programs::in_folder(Path::new("/programs"));
    for name in ["lineside", "lineside-lab", "cargo", "scripts/test-c.sh"] {
        assert!(programs.file(name).is_ok(), "{name}");
    }
    for name in [
        "sh",
        "/bin/sh",
        "scripts/../sh",
        "scripts/",
        "scripts/.hidden",
        "scripts/a/b.sh",
        "./scripts/test-c.sh",
        "lineside-lab;",
        "",
    ] {
        assert!(programs.file(name).is_err(), "{name}");
    }
    // A shell would replace the variable and end the first command at the semicolon.
    let folder = script("printf '[\"%s\", %s]' \"$1\" \"$#\"");
    let ran = run(folder.path(), "lineside-lab $HOME; exit 3");
    assert_eq!(ran.expect("it runs").report, Some(json!(["$HOME;", 3])));
}

/// Page with one section, whose lines are those of the real format.
fn small_page(command: &str, minutes: &str, row: &str) -> String {
    let header =
        "| id | claim | page | figure | claimed | holds if | machine |\n|---|---|---|---|---|---|---|";
    format!("# Claims\n\n## `a`\n\n{command}\n\n{minutes}\n\n{header}\n{row}\n")
}

const COMMAND: &str = "    lineside-lab bench spv --json";
const MINUTES: &str = "Minutes: 4. Needs: root, quiet.";
const ROW: &str = "| a-1 | A claim. | [results](docs/bench/results.md#spv) | /a | 1,436.5 | -25 % | quiet |";

#[test]
fn a_page_is_parsed_and_its_faults_are_named() {
    let page = Page::parse(&small_page(COMMAND, MINUTES, ROW)).expect("a page");
    let claim = page.claims().next().expect("a claim");
    assert_eq!((claim.claimed, claim.bound), (1436.5, Bound::Less(25.0)));
    assert_eq!(claim.page, "docs/bench/results.md#spv");
    let cell = |from: &str, to: &str| small_page(COMMAND, MINUTES, &ROW.replace(from, to));
    for (text, expected) in [
        (String::new(), "no section"),
        (small_page("", MINUTES, ROW), "no command"),
        (small_page(COMMAND, "", ROW), "no line `Minutes: N.`"),
        (small_page(COMMAND, MINUTES, ""), "no claim"),
        (
            small_page(COMMAND, "Minutes: 0.", ROW),
            "line 7: the line must be",
        ),
        (small_page(COMMAND, "Minutes: 4", ROW), "line 7: the line must be"),
        (
            small_page(COMMAND, "Minutes: 4. Needs: luck.", ROW),
            "no need `luck`",
        ),
        (
            small_page(&format!("{COMMAND}\n{COMMAND}"), MINUTES, ROW),
            "second command",
        ),
        (
            small_page(COMMAND, MINUTES, &format!("{ROW}\n{ROW}")),
            "two claims have the id `a-1`",
        ),
        (cell("a-1", "A 1"), "line 11: `A 1` is not an id"),
        (cell("| a-1 ", ""), "seven cells"),
        (cell("[results]", "results"), "is not a link"),
        (cell("/a", "a"), "neither a JSON pointer"),
        (cell("1,436.5", "many"), "`many` is not a number"),
        (cell("1,436.5", "0"), "above 0"),
        (cell("-25 %", "-25%"), "`-25%` is not a bound"),
        (cell("-25 %", "-0 %"), "is not a bound"),
        (cell("| quiet", "| fast"), "not one of any, quiet and same"),
        (
            small_page(COMMAND, MINUTES, ROW).replace("|---|---|---|---|---|---|---|", "|---|"),
            "line 10: this must be",
        ),
        (
            small_page(COMMAND, MINUTES, ROW).replace("| figure |", "| value |"),
            "one table, which begins with",
        ),
        (
            small_page(COMMAND, MINUTES, ROW) + &small_page(COMMAND, MINUTES, &ROW.replace("a-1", "a-2")),
            "two sections have the command",
        ),
    ] {
        let fault = Page::parse(&text).expect_err(expected).to_string();
        assert!(fault.contains(expected), "{fault}, expected {expected}");
    }
}

#[test]
fn numbers_are_short() {
    let expected = [
        (1_436_331.4, "1436331"),
        (21.634_2, "21.63"),
        (0.002_298_94, "0.002299"),
        (0.0, "0"),
    ];
    for (value, text) in expected {
        assert_eq!(number(value), text);
    }
}
