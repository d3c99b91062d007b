//! Rule for examples: the documentation at the head of every `lib.rs` has an example that `cargo test --doc` compiles.
//! A library without public items, which only has tests, needs none.

mod files;

use files::{File, repository};

/// Returns whether a Markdown fence opens a block of Rust that rustdoc compiles. `language` is the text after the
/// fence.
fn is_compiled(language: &str) -> bool {
    let words = language.split(',').map(str::trim);
    words
        .into_iter()
        .all(|word| matches!(word, "" | "rust" | "no_run" | "should_panic"))
}

/// Returns whether the documentation at the head of a file has a block that rustdoc compiles.
fn has_example(file: &File) -> bool {
    let head = file.text.lines().map_while(|line| line.strip_prefix("//!"));
    let fences = head.filter_map(|line| line.trim().strip_prefix("```"));
    fences.step_by(2).any(is_compiled)
}

/// Returns the libraries of the workspace without an example.
fn without_example(files: &[File]) -> Vec<String> {
    let is_library = |file: &&File| {
        file.path.ends_with("/src/lib.rs")
            && (file.path.starts_with("crates/") || file.path.starts_with("lab/"))
    };
    let is_public = |file: &&File| {
        file.text
            .lines()
            .any(|line| line.trim_start().starts_with("pub "))
    };
    files
        .iter()
        .filter(is_library)
        .filter(is_public)
        .filter(|file| !has_example(file))
        .map(|file| format!("{}: the head of the file has no example that compiles", file.path))
        .collect()
}

#[test]
fn every_library_has_an_example_that_compiles() {
    let files = repository();
    let libraries = files.iter().filter(|file| file.path.ends_with("/src/lib.rs"));
    assert!(libraries.count() > 30, "the search has found too few libraries");
    let findings = without_example(&files);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_library_without_a_compiled_example_is_found() {
    let library = |text: &str| {
        let file = File {
            path: "crates/a/src/lib.rs".into(),
            text: format!("{text}\npub fn a() {{}}\n"),
        };
        without_example(&[file]).len()
    };
    assert_eq!(library("//! Text.\n//!\n//! ```\n//! a::a();\n//! ```"), 0);
    assert_eq!(
        library("//! ```text\n//! a -> b\n//! ```\n//! ```no_run\n//! a::a();\n//! ```"),
        0
    );
    for missing in [
        "//! Text.",
        "//! ```text\n//! a -> b\n//! ```",
        "//! ```ignore\n//! a::a();\n//! ```",
        "//! Text.\n\n/// ```\n/// a::a();\n/// ```",
    ] {
        assert_eq!(library(missing), 1, "{missing}");
    }
}
