//! Compares the PEM decoder with Go's, on random texts.

use lineside_fabric::pem;
use lineside_testkit::Random;
use std::fmt::Write as _;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const TEXTS: usize = 200_000;
/// Parts from which the random texts are made. Some parts are in the list twice, so that more texts contain a PEM
/// block.
const PARTS: &[&str] = &[
    "-----BEGIN X-----\n",
    "-----BEGIN X-----\n",
    "-----BEGIN Y-----\n",
    "-----BEGIN a:b-----\n",
    "-----BEGIN X\n",
    "-----BEGIN ",
    "-----END X-----\n",
    "-----END X-----\n",
    "\n-----END X-----",
    "-----END Y-----\n",
    "-----END a:b-----\n",
    "-----END ",
    "-----",
    "AQID\n",
    "AQID",
    "AQ==\n",
    "AR==\n",
    "AQI",
    "=",
    "name: value\n",
    ":\n",
    "\n",
    "\r\n",
    " ",
    "\t\n",
    "!\n",
];

/// Returns a text of up to twelve parts; from one in four texts, a byte is removed.
fn text(random: &mut Random) -> Vec<u8> {
    let parts = 1 + random.index(12);
    let mut text: Vec<u8> = (0..parts).flat_map(|_| random.pick(PARTS).bytes()).collect();
    if random.one_in(4) && !text.is_empty() {
        let at = random.index(text.len());
        text.remove(at);
    }
    text
}

/// Returns a Go command of version 1.25.3 or later, which has the expected decoder.
fn find_go() -> Option<&'static str> {
    ["go", "/usr/local/go/bin/go"].into_iter().find(|go| {
        let Ok(said) = Command::new(go).arg("version").output() else {
            return false;
        };
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let version = said.split_whitespace().find_map(|word| word.strip_prefix("go1."));
        let mut numbers = version
            .unwrap_or_default()
            .split('.')
            .map(|number| number.parse::<u32>());
        let mut number = || numbers.next().and_then(Result::ok).unwrap_or_default();
        (number(), number()) >= (25, 3)
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[test]
fn our_pem_decoder_agrees_with_go() {
    let Some(go) = find_go() else {
        lineside_testkit::skipped("no Go of version 1.25.3 or later to compare with");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut build = Command::new(go);
    build.args(["build", "-o", "pem"]);
    build.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go/pem.go"));
    build
        .current_dir(&folder)
        .env("GO111MODULE", "off")
        .env("GOTOOLCHAIN", "local");
    build.env("GOFLAGS", "").env("GOPATH", folder.path());
    if ["GOCACHE", "XDG_CACHE_HOME", "HOME"]
        .iter()
        .all(|name| std::env::var_os(name).is_none())
    {
        build.env("GOCACHE", folder.path().join("cache"));
    }
    assert!(build.status().unwrap().success(), "go build failed");

    let mut random = Random(0x70_65_6d);
    let texts: Vec<Vec<u8>> = (0..TEXTS).map(|_| text(&mut random)).collect();
    let mut questions = tempfile::tempfile().unwrap();
    let lines: String = texts.iter().map(|text| hex(text) + "\n").collect();
    questions.write_all(lines.as_bytes()).unwrap();
    questions.rewind().unwrap();
    let mut program = Command::new(folder.path().join("pem"));
    let answers = program
        .stdin(questions)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(answers.status.success());
    let answers = String::from_utf8(answers.stdout).unwrap();
    let (mut compared, mut found) = (0, 0);
    for (text, answer) in texts.iter().zip(answers.lines()) {
        let ours = match pem::decode(text) {
            Some(bytes) => format!("+{}", hex(&bytes)),
            None => "-".to_owned(),
        };
        assert_eq!(ours, answer, "{:?}", String::from_utf8_lossy(text));
        compared += 1;
        found += usize::from(answer != "-");
    }
    assert_eq!(compared, TEXTS);
    assert!(
        found > 1_000,
        "only {found} blocks found: the comparison says little"
    );
}
