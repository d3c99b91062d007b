//! Comparison of `parse_go` with Go itself, on mutated signatures.

mod der_vectors;
mod mutate;

use der_vectors::Vector;
use lineside_verify::encoding::{Part, Signature, SignatureError, der};
use mutate::Mutator;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MUTATED: usize = 300_000;
/// Minimum number of signatures with each reason of rejection, so that the comparison is meaningful.
const AT_LEAST: usize = 300;

#[test]
fn parse_go_agrees_with_the_parser_of_go() {
    let Some(go) = find_go() else {
        // `eprintln!` is not suitable here: libtest shows its output only if the test fails.
        let _ = std::io::stderr().write_all(
            b"skipped: parse_go_agrees_with_the_parser_of_go: Go is not installed; install it with \
              `apt-get install golang-go`, or put `go` on the PATH\n",
        );
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let program = build(&go, temp.path());
    on_the_vectors(&program);
    on_mutated_signatures(&program);
}

fn on_the_vectors(program: &Path) {
    let vectors = der_vectors::vectors();
    let questions: Vec<Vec<u8>> = vectors.iter().map(Vector::bytes).collect();
    for (vector, answer) in vectors.iter().zip(ask(program, &questions)) {
        assert!(
            agree(vector.go, &answer),
            "{}: {:?}, Go says {answer}",
            vector.what,
            vector.go
        );
        assert!(
            vector.strict.is_err() || answer.starts_with("ok"),
            "{}: {answer}",
            vector.what
        );
    }
}

fn on_mutated_signatures(program: &Path) {
    let signatures = signatures();
    let mut counts = BTreeMap::new();
    for (bytes, answer) in signatures.iter().zip(ask(program, &signatures)) {
        let ours = der::parse_go(bytes);
        assert!(agree(ours, &answer), "{}: {ours:?}, Go says {answer}", hex(bytes));
        *counts.entry(kind(ours.err())).or_insert(0) += 1;
        if let (Ok(_), Err(trailing)) = (ours, der::parse_strict(bytes)) {
            *counts.entry(format!("taken, strict {trailing:?}")).or_insert(0) += 1;
        }
    }
    println!("{} compared: {counts:#?}", signatures.len());
    for expected in every_kind() {
        let count = counts.remove(&expected).unwrap_or(0);
        assert!(
            count >= AT_LEAST,
            "the reason {expected} occurred only {count} times"
        );
    }
    assert!(
        counts.is_empty(),
        "`parse_go` returned errors that only the strict parser may return: {counts:?}"
    );
}

/// Returns true if the result of `parse_go` agrees with Go and Fabric: the values must be equal, and if Fabric rejects
/// a value, the error must name this reason.
fn agree(ours: Result<Signature, SignatureError>, answer: &str) -> bool {
    match read(answer) {
        None => ours.is_err_and(|reason| !is_of_value(reason)),
        Some(theirs) => ours == theirs,
    }
}

/// Returns mutated signatures, and three valid signatures with every value of every byte at every position.
fn signatures() -> Vec<Vec<u8>> {
    let mut mutator = Mutator::new(0x6173_6e31);
    let mut all: Vec<Vec<u8>> = (0..MUTATED).map(|_| mutator.signature()).collect();
    let (short, long) = ([0; 32], [0xff; 32]);
    for (r, s) in [(short, short), (long, long), (short, long)] {
        let valid = der::write(&Signature { r, s }).as_bytes().to_vec();
        for at in 0..valid.len() {
            for value in 0..=u8::MAX {
                let mut changed = valid.clone();
                changed[at] = value;
                all.push(changed);
            }
        }
    }
    all
}

/// Converts the answer of the Go program to a result of `parse_go`; `None` if `asn1.Unmarshal` returned an error.
/// Otherwise r and then s are checked as Fabric does.
fn read(answer: &str) -> Option<Result<Signature, SignatureError>> {
    let mut words = answer.split(' ');
    match words.next() {
        Some("no") => None,
        Some("ok") => {
            let mut number = |part| number(words.next().expect("two numbers"), part);
            let (r, s) = (number(Part::R), number(Part::S));
            Some(r.and_then(|r| Ok(Signature { r, s: s? })))
        }
        _ => panic!("Go answered {answer:?}"),
    }
}

fn number(hex: &str, part: Part) -> Result<[u8; 32], SignatureError> {
    if hex.starts_with('-') {
        return Err(SignatureError::IntegerNegative(part));
    }
    if hex.len() > 64 {
        return Err(SignatureError::IntegerTooLarge(part));
    }
    let padded = format!("{hex:0>64}");
    Ok(std::array::from_fn(|i| {
        u8::from_str_radix(&padded[2 * i..2 * i + 2], 16).expect("hex")
    }))
}

/// Returns true if the reason is about the value of a number, so that Go's parser accepts the bytes.
fn is_of_value(reason: SignatureError) -> bool {
    matches!(
        reason,
        SignatureError::IntegerNegative(_) | SignatureError::IntegerTooLarge(_)
    )
}

fn kind(reason: Option<SignatureError>) -> String {
    match reason {
        None => "taken".into(),
        Some(SignatureError::WrongTag { part, .. }) => format!("WrongTag({part:?})"),
        Some(other) => format!("{other:?}"),
    }
}

fn every_kind() -> Vec<String> {
    let mut kinds: Vec<String> = [
        "taken",
        "taken, strict TrailingInside",
        "taken, strict TrailingAfter",
        "Empty",
    ]
    .map(String::from)
    .to_vec();
    let of_all = [
        "Truncated",
        "WrongTag",
        "LengthIndefinite",
        "LengthNotMinimal",
        "LengthTooLarge",
    ];
    let of_integers = [
        "Missing",
        "IntegerEmpty",
        "IntegerNotMinimal",
        "IntegerNegative",
        "IntegerTooLarge",
    ];
    kinds.extend(of_all.map(|reason| format!("{reason}(Sequence)")));
    for part in ["R", "S"] {
        kinds.extend(
            of_all
                .iter()
                .chain(&of_integers)
                .map(|reason| format!("{reason}({part})")),
        );
    }
    kinds
}

fn find_go() -> Option<String> {
    let runs = |go: &&str| {
        let version = Command::new(go).arg("version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    ["go", "/usr/local/go/bin/go"]
        .iter()
        .find(|go| runs(go))
        .map(ToString::to_string)
}

/// Builds the Go program in `folder`, outside of the source tree, without modules or network.
fn build(go: &str, folder: &Path) -> PathBuf {
    let program = folder.join("asn1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/asn1.go");
    let mut build = Command::new(go);
    build
        .args(["build", "-o"])
        .arg(&program)
        .arg(source)
        .current_dir(folder);
    build
        .env("GO111MODULE", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOFLAGS", "")
        .env("GOPATH", folder);
    if ["GOCACHE", "XDG_CACHE_HOME", "HOME"]
        .iter()
        .all(|name| std::env::var_os(name).is_none())
    {
        build.env("GOCACHE", folder.join("cache"));
    }
    assert!(build.status().unwrap().success(), "go build failed");
    program
}

/// Passes the signatures to the program, one per line, and returns its answers.
fn ask(program: &Path, signatures: &[Vec<u8>]) -> Vec<String> {
    let mut questions = tempfile::tempfile().unwrap();
    let lines = signatures
        .iter()
        .fold(String::new(), |lines, bytes| lines + &hex(bytes) + "\n");
    questions.write_all(lines.as_bytes()).unwrap();
    questions.rewind().unwrap();
    let output = Command::new(program).stdin(questions).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<String> = answers.lines().map(String::from).collect();
    assert_eq!(answers.len(), signatures.len());
    answers
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}
