//! Rule that bounds the cost of adding a service: the example in `lab/example-service` is small, and few existing files
//! name it.

use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "odometer";
const CRATE: &str = "lab/example-service/";

/// Files that must be edited to add a service to the daemon, but not to add the example service: the daemon's manifest
/// and its list of services, the sample configuration, and the layers of the crates (in tidy.rs).
const ONLY_OF_THE_DAEMON: [&str; 4] = [
    "crates/lineside/Cargo.toml",
    "crates/lineside/src/services.rs",
    "lineside.toml",
    "crates/tidy/tests/tidy.rs",
];
const MAX_EDITED_FILES: usize = 6;
const MAX_LINES: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every file that git tracks or would track; `None` if git is missing.
fn files() -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard"])
        .current_dir(root())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&listing.stdout).into_owned();
    let files: Vec<String> = text.lines().map(String::from).collect();
    (listing.status.success() && !files.is_empty()).then_some(files)
}

/// Returns the text of a file, or an empty string if the file is not UTF-8.
fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_default()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns whether a file belongs to the service: it is in the service's crate, or its path contains the service's
/// name.
fn is_own(path: &str) -> bool {
    path.starts_with(CRATE) || path.contains(NAME)
}

fn is_generated_or_documentation(path: &str) -> bool {
    let name = file_name(path);
    name.starts_with("generated.") || name == "Cargo.lock" || name.ends_with(".md")
}

/// Returns whether a text names the service or its crate, in upper or lower case.
fn names_it(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains(NAME) || text.contains("example-service")
}

fn is_hand_written(path: &str) -> bool {
    let is_test = path.starts_with(&format!("{CRATE}tests/"));
    let is_made = path.starts_with("vectors/odometer/") || path.ends_with("/layout.rs");
    let is_source = [".rs", ".c", ".h", ".toml", ".py"]
        .iter()
        .any(|end| path.ends_with(end));
    is_own(path) && is_source && !is_test && !is_made && file_name(path) != "Cargo.toml"
}

#[test]
fn a_sixth_service_edits_at_most_six_existing_files() {
    let Some(files) = files() else {
        return println!("skipped: there is no git here");
    };
    let this_file = "crates/tidy/tests/sixth_service.rs";
    let mut edited: Vec<&str> = files
        .iter()
        .map(String::as_str)
        .filter(|path| !is_own(path) && !is_generated_or_documentation(path) && *path != this_file)
        .filter(|path| names_it(&text(path)))
        .collect();
    assert!(
        edited.contains(&"Cargo.toml"),
        "the search finds nothing: {edited:?}"
    );
    edited.extend(
        ONLY_OF_THE_DAEMON
            .iter()
            .filter(|path| files.iter().any(|file| file == *path)),
    );
    edited.sort_unstable();
    edited.dedup();
    assert!(
        edited.len() <= MAX_EDITED_FILES,
        "{} files: {edited:#?}",
        edited.len()
    );
    let guide = text("docs/adding-a-service.md");
    for path in edited {
        assert!(
            guide.contains(&format!("`{path}`")),
            "docs/adding-a-service.md does not name {path}"
        );
    }
}

#[test]
fn the_example_has_at_most_400_lines() {
    let Some(files) = files() else {
        return println!("skipped: there is no git here");
    };
    let lines: Vec<(usize, &str)> = files
        .iter()
        .filter(|path| is_hand_written(path))
        .map(|path| (text(path).lines().count(), path.as_str()))
        .collect();
    let sum: usize = lines.iter().map(|(count, _)| count).sum();
    assert!(lines.len() >= 7, "the search finds too little: {lines:#?}");
    assert!(sum <= MAX_LINES, "{sum} lines: {lines:#?}");
    let guide = text("docs/adding-a-service.md");
    for (_, path) in lines {
        assert!(
            guide.contains(&format!("`{path}`")),
            "docs/adding-a-service.md does not name {path}"
        );
    }
}

/// The excerpts in the guide are the code blocks after `<!-- from PATH -->`. Each must be a part of the file that it
/// names.
#[test]
fn the_excerpts_of_the_guide_match_their_files() {
    let guide = text("docs/adding-a-service.md");
    let mut excerpts = 0;
    for part in guide.split("<!-- from ").skip(1) {
        let (path, rest) = part.split_once(" -->").expect("`<!-- from PATH -->`");
        let (_, block) = rest.split_once("```").expect("a code block");
        let (block, _) = block.split_once("\n```").expect("the end of a code block");
        let (_, excerpt) = block.split_once('\n').expect("lines");
        assert!(text(path).contains(excerpt), "{path} does not have:\n{excerpt}");
        excerpts += 1;
    }
    assert!(excerpts >= 5, "the guide has only {excerpts} excerpts");
}
