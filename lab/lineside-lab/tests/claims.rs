//! Tests that run `lineside-lab claims` as a user does.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Page of two claims about a command that takes a moment; the second claim is wrong.
const PAGE: &str = "\
## `diff`

    lineside-lab diff spv --datapaths socket,native --count 2000 --seed 1 --json

Minutes: 1.

| id | claim | page | figure | claimed | holds if | machine |
|---|---|---|---|---|---|---|
| equal | The datapaths agree. | [lab](docs/lab.md) | /differences | 0 | exact | any |
| answered | All frames are answered. | [lab](docs/lab.md) | /passed | 1 | +50 % | any |
";

fn claims(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .arg("claims")
        .args(arguments)
        .output()
        .expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn page(folder: &Path) -> String {
    let file = folder.join("claims.md");
    std::fs::write(&file, PAGE).expect("write");
    file.to_string_lossy().into_owned()
}

#[test]
fn a_wrong_claim_is_named_and_ends_with_code_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = page(folder.path());
    let output = claims(&[&file]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(out.starts_with("holds\n  equal "), "{out}");
    assert!(out.contains("NO LONGER HOLDS\n  answered "), "{out}");
    assert!(out.contains("claimed 1 (+50 %)"), "{out}");
    assert!(out.ends_with("1 hold, 1 no longer hold, 0 not judged\n"), "{out}");
    assert!(err.contains("1 claim is no longer true"), "{err}");
    // Both claims share the command, which runs once.
    assert_eq!(err.matches("lineside-lab diff spv").count(), 1, "{err}");

    let output = claims(&[&file, "--only", "equal"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let output = claims(&[&file, "--json"]);
    let out = text(&output.stdout);
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["outcome"], "holds");
    assert_eq!(lines[1]["outcome"], "no_longer_holds");
    assert!(lines[1]["found"].as_f64() > Some(1.5), "{out}");
    assert_eq!(lines[2]["no_longer_holds"], 1);
}

/// The real page, with the real commands that take a second.
#[test]
fn short_claims_of_the_real_page_hold() {
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["claims", "--only", "soak-finds,diff-spv"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("run");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let out = text(&output.stdout);
    assert!(out.ends_with("2 hold, 0 no longer hold, 0 not judged\n"), "{out}");
}

#[test]
fn a_list_runs_nothing_and_a_limit_of_time_is_kept() {
    let output = claims(&["--list"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let out = text(&output.stdout);
    assert!(
        out.contains("lineside-lab bench spv --json (4 minutes; needs: root, quiet)\n"),
        "{out}"
    );
    assert!(out.contains("\n  spv-latency "), "{out}");

    let folder = tempfile::tempdir().expect("a folder");
    let output = claims(&[&page(folder.path()), "--minutes", "0"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).ends_with("0 hold, 0 no longer hold, 2 not judged\n"));
    assert!(!text(&output.stderr).contains("lineside-lab diff"));
}

#[test]
fn faults_of_the_page_and_unknown_claims_end_with_code_2() {
    let output = claims(&["--only", "nothing"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("there is no claim `nothing`"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("claims.md");
    std::fs::write(&file, PAGE.replace("+50 %", "about")).expect("write");
    let output = claims(&[&file.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("line 10: `about` is not a bound"));
}
