//! Test that walks the texts of all crates: the list of verbs in `failure.rs` must know each clause after `; `.

use super::{first_word, is_remedy};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// First words of clauses after `; ` that are statements. The first word of a new clause belongs here or, if the clause
/// says what to do, in `REMEDIES`.
const STATEMENTS: &[&str] = &[
    "1",
    "2",
    "Bitcoin",
    "CommitStatus",
    "HTTP",
    "UDP",
    "\\\"off\\\"",
    "`{}`",
    "a",
    "all",
    "base-uri",
    "because",
    "block",
    "blocks",
    "charset=utf-8",
    "connect-src",
    "connections",
    "form-action",
    "frame-ancestors",
    "gRPC",
    "img-src",
    "in",
    "it",
    "its",
    "more",
    "networks",
    "next",
    "no",
    "nothing",
    "on",
    "one",
    "only",
    "or",
    "otherwise",
    "ours",
    "reading",
    "relative",
    "requests",
    "rows",
    "script-src",
    "still",
    "style-src",
    "the",
    "their",
    "this",
    "trying",
    "version=0.0.4;",
    "version=1.0.0;",
];

/// Returns the source files of all crates without their tests and without generated code.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::path);
    for path in entries.into_iter().map(|entry| entry.path()) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.contains("test") && !name.contains("generated") {
            found.push(path);
        }
    }
}

/// Returns the string literals in a source file, before its module of tests, with lines that end in a backslash joined.
fn literals(text: &str) -> Vec<String> {
    let end = text
        .find("#[cfg(test)]\nmod tests {")
        .or(text.find("#[cfg(test)]\npub mod tests {"));
    let text = &text[..end.unwrap_or(text.len())];
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, here) = rest.split_at(at);
        let is_raw = before.trim_end_matches('#').ends_with('r');
        let length = match here.as_bytes() {
            [b'/', b'/', ..] => here.find('\n').unwrap_or(here.len()),
            [b'"', ..] if is_raw => {
                let hashes = before.len() - before.trim_end_matches('#').len();
                let close = format!("\"{}", "#".repeat(hashes));
                1 + here[1..].find(&close).expect("the end of a raw literal") + close.len()
            }
            [b'"', ..] => {
                let length = literal_length(&here[1..]);
                let mut lines = here[1..=length].split("\\\n");
                let first = lines.next().unwrap_or_default().to_owned();
                found.push(lines.fold(first, |joined, line| joined + line.trim_start()));
                length + 2
            }
            // Characters, among them a quotation mark and an escaped one.
            [b'\'', b'\\', ..] => 4 + here[3..].find('\'').expect("the end of a character"),
            [b'\'', _, b'\'', ..] => 3,
            // A lifetime, or a division.
            _ => 1,
        };
        rest = &here[length..];
    }
    found
}

/// Returns the length of a literal without its quotation marks, from its first character on.
fn literal_length(literal: &str) -> usize {
    let mut is_escaped = false;
    let length = literal.find(|letter: char| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends
    });
    length.expect("the end of a literal")
}

/// Returns the first word of each clause after `; ` that is neither what to do nor begins with a placeholder. Clauses
/// after the one that says what to do belong to it.
fn statements(text: &str) -> Vec<String> {
    let mut clauses = text
        .match_indices("; ")
        .map(|(at, separator)| &text[at + separator.len()..]);
    let mut found = Vec::new();
    for clause in clauses.by_ref() {
        if is_remedy("; ", clause) {
            break;
        }
        let word = first_word(clause);
        if !word.is_empty() && !word.starts_with('{') {
            found.push(word.to_owned());
        }
    }
    found
}

#[test]
fn every_clause_of_a_text_is_known_as_a_statement_or_as_what_to_do() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).expect("crates").flatten() {
        let source = entry.path().join("src");
        if source.is_dir() && entry.file_name() != "tidy" {
            sources(&source, &mut files);
        }
    }
    let (mut unknown, mut used) = (Vec::new(), BTreeSet::new());
    for file in files {
        for literal in literals(&fs::read_to_string(&file).expect("a source file")) {
            for word in statements(&literal) {
                if !STATEMENTS.contains(&word.as_str()) {
                    unknown.push(format!("{}: {word:?} in {literal:?}", file.display()));
                }
                used.insert(word);
            }
        }
    }
    assert!(
        unknown.is_empty(),
        "add each first word to STATEMENTS, or its verb to REMEDIES in failure.rs:\n{}",
        unknown.join("\n")
    );
    let unused: Vec<_> = STATEMENTS.iter().filter(|word| !used.contains(**word)).collect();
    assert!(unused.is_empty(), "no text has these words: {unused:?}");
}

#[test]
fn literals_are_found_between_comments_and_characters() {
    let text = concat!(
        "// \"no\"\nlet a = '\"'; let b = \"one \\\n   two\"; let c = r#\"raw\"#; ",
        "let d = '\\''; f::<'a>(\"\\\"q\", 'x', 1 / 2);"
    );
    assert_eq!(literals(text), ["one two", "\\\"q"]);
    assert_eq!(statements("a; the b; give c; d"), ["the"]);
    assert_eq!(statements("a; unheard of"), ["unheard"]);
    assert!(statements("a; {b}; `lineside x` does it").is_empty());
}
