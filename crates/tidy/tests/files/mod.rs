//! Text files of the repository. They are read once, for the rules that inspect text.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Extensions of the files that [`repository`] returns.
pub const TEXT: &[&str] = &[
    "rs", "c", "h", "toml", "sh", "md", "py", "sv", "v", "html", "ts", "mjs", "css",
];

/// Text file of the repository.
pub struct File {
    /// Path from the root of the repository, with `/` as separator.
    pub path: String,
    pub text: String,
}

impl File {
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = self
            .path
            .rsplit('/')
            .next()
            .and_then(|name| name.rsplit_once('.'));
        extension.is_some_and(|(_, e)| extensions.contains(&e))
    }

    /// Returns the lines with their numbers, which begin at 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("this crate is in crates/tidy")
        .to_path_buf()
}

/// Returns the text files that git tracks or would track. If git or its folder is missing (in a source archive),
/// returns all text files below the root except those in `target`.
pub fn repository() -> Vec<File> {
    let root = root();
    let paths = git_files(&root).unwrap_or_else(|| {
        let mut paths = Vec::new();
        walk(&root, "", &mut paths);
        paths
    });
    assert!(
        paths.iter().any(|p| p == "crates/tidy/tests/tidy.rs"),
        "the list of files lacks crates/tidy/tests/tidy.rs"
    );
    let read = |path: String| {
        let bytes = std::fs::read(root.join(&path)).ok()?; // deleted but still listed, or a dangling link
        Some(File {
            path,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    };
    let is_text = |path: &String| path.rsplit_once('.').is_some_and(|(_, e)| TEXT.contains(&e));
    paths.into_iter().filter(is_text).filter_map(read).collect()
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "-co",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&listing.stdout).into_owned();
    let paths: Vec<String> = text
        .split('\0')
        .filter(|p| !p.is_empty())
        .map(String::from)
        .collect();
    (listing.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => walk(root, &path, paths),
            Ok(kind) if kind.is_file() => paths.push(path),
            _ => {}
        }
    }
}
