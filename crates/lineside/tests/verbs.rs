//! Rules that every subcommand follows: exit codes, errors in one line or as one JSON object, no files left by a failed
//! command, defaults in the help, and host names where addresses are expected. A new subcommand needs a row in the
//! table.

mod verbs_table;

use clap::{Arg, ArgAction, Command as Clap};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use verbs_table::{OPTIONAL, ROWS, Row};

/// Returns each subcommand that has no subcommands of its own, such as `hybrid key new`, by its path.
fn leaves() -> BTreeMap<String, Clap> {
    fn walk(command: &Clap, path: &str, found: &mut BTreeMap<String, Clap>) {
        let verbs: Vec<_> = command
            .get_subcommands()
            .filter(|verb| verb.get_name() != "help")
            .collect();
        if verbs.is_empty() {
            found.insert(path.trim_start().to_owned(), command.clone());
        }
        for verb in verbs {
            walk(verb, &format!("{path} {}", verb.get_name()), found);
        }
    }
    let mut command = lineside::command();
    command.build();
    let mut found = BTreeMap::new();
    walk(&command, "", &mut found);
    found
}

fn lineside(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env_remove("RUST_LOG")
        .output()
        .expect("the program runs")
}

/// Returns the words of a row's command line.
fn words<'a>(row: &Row<'a>) -> Vec<&'a str> {
    let arguments = row.options.iter().chain(row.arguments).copied();
    row.verb.split(' ').chain(arguments).collect()
}

/// Returns a directory that contains one file, `file`, which rows may name. The file is neither a key nor a journal nor
/// a block.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), "text\n").expect("written");
    folder
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns the error object in the only line of standard error, and its code.
fn error_object(stderr: &str) -> Option<(Value, String)> {
    let mut lines = stderr.lines();
    let object: Value = serde_json::from_str(lines.next_back()?).ok()?;
    let error = object.get("error")?;
    let code = error.get("code")?.as_str()?.to_owned();
    let is_complete = error.get("message")?.is_string() && error.get("hint").is_some();
    (is_complete && lines.next().is_none()).then_some((object.clone(), code))
}

/// Runs the command of a row as text and with `--json`, each time in a new directory, and returns its faults.
fn faults(row: &Row) -> Vec<String> {
    let mut faults = Vec::new();
    for as_json in [false, true] {
        let folder = folder();
        let mut line = words(row);
        line.extend(as_json.then_some("--json"));
        let output = lineside(folder.path(), &line);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let shown = line.join(" ");
        let mut fault = |what: &str| {
            faults.push(format!(
                "`{shown}`: {what}\n  stdout: {stdout}\n  stderr: {stderr}"
            ))
        };
        if output.status.code() != Some(row.code) {
            fault(&format!(
                "ended with {:?} instead of {}",
                output.status.code(),
                row.code
            ));
        }
        if as_json {
            if let Some(wrong) = stdout.lines().find(|line| !is_object(line)) {
                fault(&format!("printed a line that is not a JSON object: {wrong}"));
            }
            let expected = if row.code == 2 {
                &["usage", "configuration"][..]
            } else {
                &["failed"][..]
            };
            let code = error_object(&stderr).map(|(_, code)| code);
            if row.code != 0 && !code.is_some_and(|code| expected.contains(&code.as_str())) {
                fault("gave no error object with the code of its exit code");
            }
        } else if row.code != 0 && !is_one_line(&stderr) {
            fault("did not say in one line why it failed");
        }
        if row.code != 0 && names(folder.path()) != BTreeSet::from(["file".into()]) {
            fault(&format!("left files: {:?}", names(folder.path())));
        }
    }
    faults
}

fn is_object(line: &str) -> bool {
    serde_json::from_str::<Value>(line).is_ok_and(|value| value.is_object())
}

/// Returns true for one line of this program, or for clap's message, whose last line refers to the help.
fn is_one_line(stderr: &str) -> bool {
    let is_ours = stderr.starts_with("lineside: ") && stderr.trim_end().lines().count() == 1;
    is_ours || (stderr.starts_with("error: ") && stderr.contains("--help"))
}

#[test]
fn the_table_has_a_row_for_every_verb_and_no_other() {
    let verbs: BTreeSet<_> = leaves().into_keys().collect();
    let rows: BTreeSet<_> = ROWS.iter().map(|row| row.verb.to_owned()).collect();
    let lacking: Vec<_> = verbs.difference(&rows).collect();
    let unknown: Vec<_> = rows.difference(&verbs).collect();
    assert!(
        lacking.is_empty() && unknown.is_empty(),
        "lacking {lacking:?}, unknown {unknown:?}"
    );
}

#[test]
fn every_verb_follows_the_rules_for_exit_codes_and_errors() {
    let faults: Vec<_> = ROWS.iter().flat_map(faults).collect();
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// The JSON error has the remedy in `hint`, and the rest of the text in `message`.
#[test]
fn the_remedy_of_an_error_is_its_hint_in_json() {
    for (words, message, hint) in [
        (
            &["run"][..],
            "the command line: no service is enabled",
            "give --config FILE with `enabled = true`",
        ),
        (
            &["status", "--console", "127.0.0.1:9"],
            "no status from 127.0.0.1:9: ",
            "start a server with `--console 127.0.0.1:9`",
        ),
        (
            &["spv", "serve", "--data", "missing", "--datapath", "socket"],
            "missing: there is no chain store",
            "`lineside spv init --data missing --network NETWORK` creates an empty one",
        ),
        (
            &["man", "missing"],
            "missing: no such directory",
            "create it first",
        ),
        (
            &["column", "get", "--server", "127.0.0.1:x", "k"],
            "invalid value '127.0.0.1:x'",
            "write ADDR:PORT or NAME:PORT",
        ),
    ] {
        let folder = folder();
        let text = lineside(folder.path(), words);
        let text = String::from_utf8_lossy(&text.stderr).into_owned();
        let output = lineside(folder.path(), &[words, &["--json"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (object, _) = error_object(&stderr).unwrap_or_else(|| panic!("{words:?}: {stderr}"));
        let of = |key: &str| object["error"][key].as_str().unwrap_or_default().to_owned();
        assert!(of("message").starts_with(message), "{words:?}: {object}");
        assert!(of("hint").starts_with(hint), "{words:?}: {object}");
        assert!(!of("message").contains(hint), "{words:?}: {object}");
        assert!(text.contains(hint), "{words:?}: {text}");
    }
}

#[test]
fn every_verb_refuses_an_unknown_option_with_code_2() {
    let folder = folder();
    for verb in leaves().keys() {
        let mut line: Vec<_> = verb.split(' ').collect();
        line.push("--no-such-option");
        let output = lineside(folder.path(), &line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{verb}: {stderr}");
        assert!(output.stdout.is_empty(), "{verb}");
        assert!(stderr.contains("'--no-such-option'"), "{verb}: {stderr}");
        line.push("--json");
        let output = lineside(folder.path(), &line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (object, code) = error_object(&stderr).unwrap_or_else(|| panic!("{verb}: {stderr}"));
        assert_eq!(code, "usage", "{verb}: {object}");
        assert_eq!(output.status.code(), Some(2), "{verb}: {stderr}");
    }
    assert_eq!(names(folder.path()), BTreeSet::from(["file".into()]));
}

/// Returns the arguments of a subcommand that take a value.
fn with_values(verb: &Clap) -> impl Iterator<Item = &Arg> {
    verb.get_arguments().filter(|argument| {
        matches!(argument.get_action(), ArgAction::Set | ArgAction::Append) && !argument.is_hide_set()
    })
}

#[test]
fn the_help_shows_the_default_of_every_option() {
    let mut lacking = BTreeSet::new();
    let mut unused: BTreeSet<_> = OPTIONAL.iter().copied().collect();
    for (path, verb) in leaves() {
        for argument in with_values(&verb).filter(|argument| !argument.is_required_set()) {
            let help = argument.get_long_help().or(argument.get_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            let shows = help.contains("[default: ") || !argument.get_default_values().is_empty();
            let name = argument.get_id().as_str();
            if OPTIONAL.contains(&name) {
                unused.remove(name);
            } else if !shows {
                lacking.insert(format!("{path}: {name}"));
            }
        }
    }
    assert!(
        lacking.is_empty(),
        "no default is shown, and no list says that there is none: {lacking:#?}"
    );
    assert!(
        unused.is_empty(),
        "the list of options without a default has unused names: {unused:?}"
    );
}

/// Only the fast path of `spv` can answer without its server.
#[test]
fn only_servers_that_can_keep_their_fast_path_offer_it() {
    let offers = |verb: &Clap| {
        let mut all = verb.get_arguments();
        all.any(|argument| argument.get_long() == Some("keep-fast-path") && !argument.is_hide_set())
    };
    let verbs = leaves().into_iter().filter(|(_, verb)| offers(verb));
    let verbs: Vec<_> = verbs.map(|(path, _)| path).collect();
    assert_eq!(verbs, ["doctor", "run", "spv serve"]);
}

#[test]
fn placeholders_name_the_kind_of_value() {
    for (path, verb) in leaves() {
        for argument in with_values(&verb) {
            let names = argument.get_value_names().unwrap_or_default();
            let id = argument.get_id().as_str().to_uppercase();
            let vague = [
                "DATA", "CONFIG", "LISTEN", "SERVER", "CONSOLE", "PEER", "ORDERER", "TO", "BIND",
            ];
            for name in names
                .iter()
                .filter(|name| name.as_str() == id && argument.get_long().is_some())
            {
                assert!(
                    !vague.contains(&name.as_str()),
                    "{path}: <{name}> repeats the option's name"
                );
            }
        }
    }
}

/// Calls `check` with a command line for each option of a subcommand that takes an address: the words of the row, with
/// `address` as the value of the option.
fn for_each_address(address: &str, mut check: impl FnMut(&[&str])) {
    let mut count = 0;
    for (path, verb) in leaves() {
        let row = ROWS.iter().find(|row| row.verb == path).expect("a row");
        for argument in with_values(&verb) {
            let names = argument.get_value_names().unwrap_or_default();
            let takes_address = names
                .iter()
                .any(|name| name.ends_with("ADDR:PORT") || name.ends_with("HOST:PORT"));
            let Some(long) = argument.get_long().filter(|_| takes_address) else {
                continue;
            };
            let option = format!("--{long}");
            let mut line = vec!["lineside"];
            let given = words(row);
            // If the row already gives the option, the option and its value are left out.
            let place = given.iter().position(|word| *word == option);
            line.extend(given.iter().enumerate().filter_map(|(at, word)| {
                let is_value = place.is_some_and(|place| at == place || at == place + 1);
                (!is_value).then_some(*word)
            }));
            line.extend([option.as_str(), address]);
            check(&line);
            count += 1;
        }
    }
    assert!(count > 30, "{count} options with an address were found");
}

#[test]
fn a_host_name_is_accepted_where_an_address_is() {
    for_each_address("localhost:7799", |line| {
        let parsed = lineside::command().try_get_matches_from(line);
        if let Err(error) = parsed {
            assert!(
                error.kind() == clap::error::ErrorKind::ArgumentConflict,
                "{line:?}: {error}"
            );
        }
    });
}

/// The command line is right, but the name has no address, so the command fails. Names of the domain `invalid` do not
/// exist (RFC 6761). Options that take HOST:PORT look the name up only when they connect.
#[test]
fn a_host_name_without_an_address_is_a_failure() {
    let mut count = 0;
    let folder = folder();
    for_each_address("no-such-host.invalid:7799", |line| {
        let output = lineside(folder.path(), &[&line[1..], &["--json"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        let (object, code) = error_object(&stderr).unwrap_or_else(|| panic!("{line:?}: {stderr}"));
        let message = object["error"]["message"].as_str().unwrap_or_default();
        if message.contains("this name has no address") {
            assert_eq!(
                (output.status.code(), code.as_str()),
                (Some(1), "failed"),
                "{line:?}"
            );
            count += 1;
        }
        assert!(!message.contains("invalid value"), "{line:?}: {message}");
    });
    assert!(count > 20, "{count} options look up the name");
    assert_eq!(names(folder.path()), BTreeSet::from(["file".into()]));
}
