//! Rules for licences: the list of third-party packages matches Cargo.lock, and every source file of the BPF programs
//! names its licences.
//!
//! `scripts/notices.sh` writes the list.

mod cargo;
mod common;

use cargo::cargo;
use common::root;
use std::collections::BTreeSet;
use std::process::Command;

/// Path of the list of third-party packages.
const NOTICES: &str = "THIRD-PARTY-NOTICES";
/// Required first line of each file in `xdp/`.
const SPDX: &str = "// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only";

/// Text of the list before its table.
const HEAD: &str = "\
Packages of others in Lineside
==============================
The daemon `lineside` for x86-64, built with every feature, contains the packages below. Written by scripts/notices.sh
from Cargo.lock; do not edit. A package under `A OR B` is used under either. Its text, with its authors and the
licence's words, is in its source, which is the archive of that version at https://crates.io/crates/NAME.

Besides, the packages with a name that ends in -sys contain libraries in C: libbpf-sys has libbpf (used under
BSD-2-Clause), rdkafka-sys has librdkafka (BSD-2-Clause; with the feature `kafka` only), secp256k1-sys has libsecp256k1
(MIT). With the feature `static`, which the packages of `make package` have, the system's libelf (used under
LGPL-3.0-or-later) and zlib (Zlib) are part of the binary. Without it they are linked dynamically, as the C library is
in every build.

The dashboard page contains the packages whose source is at https://www.npmjs.com, according to
dashboard/package-lock.json; the page has the text of their licences.

name | version | licence | source
";

/// Returns the packages of the daemon, one on each line: `name vVERSION|LICENCE|REPOSITORY`, followed by ` (*)` if
/// cargo listed the package before.
fn tree() -> String {
    let arguments = "tree -p lineside --all-features --target x86_64-unknown-linux-gnu \
                     --edges normal,no-proc-macro --prefix none --format {p}|{l}|{r}";
    cargo(&arguments.split(' ').collect::<Vec<_>>())
}

/// Returns the rows for the packages that the dashboard page contains: those in `package-lock.json` that are not only
/// for development.
fn rows_of_page(lock: &str) -> Vec<String> {
    let lock: serde_json::Value = serde_json::from_str(lock).expect("package-lock.json is JSON");
    let packages = lock["packages"].as_object().expect("packages");
    let row = |(path, package): (&String, &serde_json::Value)| {
        let (_, name) = path.rsplit_once("node_modules/")?;
        let text = |key: &str| {
            package[key]
                .as_str()
                .unwrap_or_else(|| panic!("{name} has no {key}"))
        };
        (package["dev"] != true).then(|| {
            let (version, licence) = (text("version"), text("license"));
            format!("{name} | {version} | {licence} | https://www.npmjs.com/package/{name}\n")
        })
    };
    packages.iter().filter_map(row).collect()
}

/// Returns the list of licences for a tree of packages and the `package-lock.json` of the dashboard.
fn notices(tree: &str, lock: &str) -> String {
    let row = |line: &str| {
        let mut parts = line.trim_end_matches(" (*)").split('|');
        let (name, version) = parts.next()?.split_once(" v")?;
        // For a crate of this repository, cargo prints the crate's folder after the version.
        if version.contains(" (/") {
            return None;
        }
        let (licence, source) = (parts.next()?, parts.next()?);
        assert!(!licence.is_empty(), "{name} {version} names no licence");
        let source = match source {
            "" => format!("https://crates.io/crates/{name}"),
            source => source.to_owned(),
        };
        Some(format!("{name} | {version} | {licence} | {source}\n"))
    };
    let rows: BTreeSet<String> = tree.lines().filter_map(row).chain(rows_of_page(lock)).collect();
    rows.iter().fold(HEAD.to_owned(), |text, row| text + row)
}

#[test]
fn the_list_of_packages_matches_the_lock_file() {
    let lock =
        std::fs::read_to_string(root().join("dashboard/package-lock.json")).expect("package-lock.json");
    let (path, expected) = (root().join(NOTICES), notices(&tree(), &lock));
    if std::env::var_os("LINESIDE_WRITE_NOTICES").is_some() {
        std::fs::write(&path, &expected).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = |one: &str, other: &str| {
        let lines: BTreeSet<&str> = other.lines().collect();
        let rest: Vec<&str> = one.lines().filter(|line| !lines.contains(line)).collect();
        rest.join("\n")
    };
    assert!(
        found == expected,
        "{NOTICES} is out of date: run scripts/notices.sh\nmissing:\n{}\ntoo many:\n{}",
        differs(&expected, &found),
        differs(&found, &expected)
    );
}

#[test]
fn packages_of_others_are_listed_once_with_licence_and_source() {
    let tree = "lineside v0.1.0 (/repository/crates/lineside)|Apache-2.0|https://github.com/lineside/lineside\n\
                axum v0.8.9|MIT|https://github.com/tokio-rs/axum\n\
                axum v0.8.9|MIT|https://github.com/tokio-rs/axum (*)\n\
                adler2 v2.0.1|0BSD OR MIT|\n";
    let lock = r#"{"packages": {"": {"name": "lineside-dashboard"},
        "node_modules/uplot": {"version": "1.6.32", "license": "MIT"},
        "node_modules/vite": {"version": "8.3.8", "dev": true, "license": "MIT"}}}"#;
    let expected = "adler2 | 2.0.1 | 0BSD OR MIT | https://crates.io/crates/adler2\n\
                    axum | 0.8.9 | MIT | https://github.com/tokio-rs/axum\n\
                    uplot | 1.6.32 | MIT | https://www.npmjs.com/package/uplot\n";
    assert_eq!(notices(tree, lock).strip_prefix(HEAD), Some(expected));
}

/// Returns the files of the BPF programs whose first line does not name their licences.
fn without_licence(files: &[(String, String)]) -> Vec<&str> {
    let lacking = files.iter().filter(|(_, text)| text.lines().next() != Some(SPDX));
    lacking.map(|(path, _)| path.as_str()).collect()
}

#[test]
fn files_of_bpf_programs_name_their_licences() {
    let output = Command::new("git")
        .args(["ls-files", "xdp"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    let read = |name: &str| {
        let text = std::fs::read_to_string(root().join(name)).expect("a file of the repository");
        (name.to_owned(), text)
    };
    let mut files: Vec<_> = names.lines().map(read).collect();
    assert!(files.iter().any(|(name, _)| name == "xdp/root.bpf.c"), "{names}");
    assert!(
        without_licence(&files).is_empty(),
        "{:?}",
        without_licence(&files)
    );
    files.push(("xdp/new.h".into(), "#pragma once\n".into()));
    assert_eq!(without_licence(&files), ["xdp/new.h"]);
    for (file, words) in [("NOTICE", "General Public License"), ("LICENSES/README.md", SPDX)] {
        let text = std::fs::read_to_string(root().join(file)).expect(file);
        assert!(text.contains(words), "{file} does not say {words:?}");
    }
}
