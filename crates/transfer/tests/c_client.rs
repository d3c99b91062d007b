//! Tests of `clients/c/lineside_session.h` with the vectors of `vectors/transfer`: a C program makes each request again
//! and reads its reply.

use lineside_testkit::skipped;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Request and reply of a vector, in hexadecimal digits.
struct Exchange {
    what: String,
    request: String,
    reply: String,
}

/// Returns the value of a key, without line breaks, if this line begins it.
fn value<'a>(line: &str, key: &str, rest: &mut impl Iterator<Item = &'a str>) -> Option<String> {
    let text = line.strip_prefix(key)?.strip_prefix(" = \"")?;
    let Some(first) = text.strip_prefix("\"\"") else {
        return Some(text.trim_end_matches('"').to_owned());
    };
    let mut all = first.to_owned();
    all.extend(rest.take_while(|line| *line != "\"\"\""));
    Some(all)
}

/// Returns the native requests of all files that have a reply.
fn exchanges() -> Vec<Exchange> {
    let mut all = Vec::new();
    let mut paths: Vec<_> = std::fs::read_dir(repository().join("vectors/transfer"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for vector in text.split("[[vector]]").skip(1) {
            let mut found: BTreeMap<&str, String> = BTreeMap::new();
            let mut lines = vector.lines();
            while let Some(line) = lines.next() {
                for key in ["what", "request", "reply"] {
                    if let Some(text) = value(line, key, &mut lines) {
                        found.insert(key, text);
                    }
                }
            }
            let get = |key| found.get(key).cloned().unwrap_or_default();
            let (request, reply) = (get("request"), get("reply"));
            if request.starts_with("4c5301") && request.len() >= 32 && reply.len() >= 32 {
                let what = format!("{}: {}", path.display(), get("what"));
                all.push(Exchange { what, request, reply });
            }
        }
    }
    all
}

/// Compiles a program of `clients/c/test`. Returns `None` and prints a line if there is no C compiler.
fn compile(name: &str, arguments: &[&str], folder: &Path) -> Option<PathBuf> {
    let program = folder.join(name);
    let mut command = Command::new("cc");
    command.args([
        "-std=c99",
        "-D_DEFAULT_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
    ]);
    command.args(arguments).arg("-o").arg(&program);
    command.arg(repository().join(format!("clients/c/test/{name}.c")));
    match command.output() {
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            skipped(format_args!("no cc here ({error})"));
            return None;
        }
    }
    Some(program)
}

/// Runs with and without the compiler's checks for undefined behaviour.
#[test]
fn requests_and_replies_of_the_c_header_are_those_of_the_vectors() {
    const BAD_REQUEST: &str = "0002";
    let folder = tempfile::tempdir().unwrap();
    let all: Vec<Exchange> = exchanges()
        .into_iter()
        .filter(|exchange| exchange.reply[8..12] != *BAD_REQUEST)
        .collect();
    for arguments in [
        &["-O2"][..],
        &["-O1", "-fsanitize=undefined", "-fno-sanitize-recover"],
    ] {
        let Some(program) = compile("native", arguments, folder.path()) else {
            return;
        };
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let text: String = all
            .iter()
            .map(|exchange| format!("{} {}\n", exchange.request, exchange.reply))
            .collect();
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{:?}", output.status);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.lines().count(), all.len());
        let mut made: BTreeMap<&str, usize> = BTreeMap::new();
        for (exchange, said) in all.iter().zip(said.lines()) {
            if said == "skip" {
                continue;
            }
            let status = u16::from_str_radix(&exchange.reply[8..12], 16).unwrap();
            assert_eq!(said, format!("ok {status}"), "{}", exchange.what);
            *made.entry(&exchange.request[6..8]).or_default() += 1;
        }
        // All six operations: execute, refer, open, close, session, signed.
        assert_eq!(made.len(), 6, "{made:?}");
        assert!(made["01"] > 100 && made["06"] > 1, "{made:?}");
    }
}

#[test]
fn the_c_header_compiles_alone_and_freestanding() {
    for arguments in [&["-fsyntax-only"][..], &["-ffreestanding", "-fsyntax-only"]] {
        let mut command = Command::new("cc");
        command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-x", "c"]);
        command.args(arguments);
        command.arg(repository().join("clients/c/lineside_session.h"));
        match command.output() {
            Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
            Err(error) => return skipped(format_args!("no cc here ({error})")),
        }
    }
}
