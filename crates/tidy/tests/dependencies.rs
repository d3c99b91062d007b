//! Rules for the dependencies of the daemon: no laboratory crate, no feature for benchmarks, and no library that only
//! tests and benchmarks need.
//!
//! Each rule is a function from the output of cargo to findings. The last tests give each rule a bad example.

mod cargo;
mod common;

use cargo::cargo;
use common::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Packages that only tests and benchmarks may use.
const REFUSED: &[&str] = &[
    "aws-lc-rs",
    "aws-lc-sys",
    "secp256k1",
    "secp256k1-sys",
    "tempfile",
    "rcgen",
];

/// Refused packages that a package of another project requires: the refused package, and the package that requires it.
const UNAVOIDABLE: &[(&str, &str)] = &[
    ("secp256k1", "bitcoin"),
    ("secp256k1-sys", "secp256k1"),
    ("tempfile", "fjall"),
    ("tempfile", "lsm-tree"),
    ("tempfile", "libbpf-cargo"),
];

/// Features of Lineside's crates that only crates of `lab/` and tests may enable.
const LABORATORY_FEATURES: &[&str] = &["laboratory", "library"];

/// Line of `cargo tree --prefix depth`: name of a package, its folder if it is a package of this repository, and its
/// features.
struct Node<'a> {
    depth: usize,
    name: &'a str,
    folder: Option<&'a str>,
    features: Vec<&'a str>,
}

impl<'a> Node<'a> {
    /// Reads `2lineside-net v0.1.0 (/repository/crates/net)|feature,feature (*)`.
    fn read(line: &'a str) -> Option<Self> {
        let digits = line.find(|c: char| !c.is_ascii_digit())?;
        let (package, features) = line[digits..].split_once('|')?;
        let features = features.trim_end_matches(" (*)").split(',');
        Some(Node {
            depth: line[..digits].parse().ok()?,
            name: package.split(' ').next()?,
            folder: package
                .rsplit_once(" (/")
                .map(|(_, rest)| rest.trim_end_matches(')')),
            features: features.filter(|feature| !feature.is_empty()).collect(),
        })
    }
}

/// Returns the findings in the packages that the daemon is built from.
fn refused_packages(root: &Path, tree: &str) -> BTreeSet<String> {
    let lab = format!("{}/lab/", root.display());
    let mut found = BTreeSet::new();
    let mut parents: Vec<&str> = Vec::new();
    for node in tree.lines().filter_map(Node::read) {
        parents.truncate(node.depth);
        let parent = parents.last().copied().unwrap_or("nothing");
        parents.push(node.name);
        let Node {
            name,
            folder,
            features,
            ..
        } = node;
        if REFUSED.contains(&name) && !UNAVOIDABLE.contains(&(name, parent)) {
            found.insert(format!(
                "`{name}` is for tests and benches, and `{parent}` depends on it"
            ));
        }
        if folder.is_some_and(|folder| format!("/{folder}/").starts_with(&lab)) {
            found.insert(format!(
                "`{name}` is a laboratory crate, and `{parent}` depends on it"
            ));
        }
        for feature in features {
            if folder.is_some() && LABORATORY_FEATURES.contains(&feature) {
                found.insert(format!("`{name}` is built with the feature `{feature}`"));
            }
        }
    }
    found
}

/// Returns the findings in the manifests of `crates/`: laboratory crates that are not in `[dev-dependencies]`.
fn laboratory_dependencies(root: &Path, metadata: &str) -> Vec<String> {
    let metadata: Value = serde_json::from_str(metadata).expect("cargo metadata writes JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (crates, lab) = (root.join("crates"), root.join("lab"));
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if !Path::new(&text(&package["manifest_path"])).starts_with(&crates) {
            continue;
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let is_lab = Path::new(&text(&dependency["path"])).starts_with(&lab);
            let kind = text(&dependency["kind"]);
            if is_lab && kind != "dev" {
                let (name, other) = (text(&package["name"]), text(&dependency["name"]));
                let section = if kind == "build" {
                    "build-dependencies"
                } else {
                    "dependencies"
                };
                found.push(format!(
                    "[{section}] of `{name}` has the laboratory crate `{other}`"
                ));
            }
        }
    }
    found
}

fn daemon_tree(more: &[&str]) -> String {
    let arguments = "tree -p lineside -e normal,build --prefix depth --format {p}|{f}";
    let arguments: Vec<&str> = arguments.split(' ').chain(more.iter().copied()).collect();
    cargo(&arguments)
}

#[test]
fn the_daemon_is_built_without_laboratory_crates() {
    for more in [&[][..], &["--no-default-features"]] {
        let tree = daemon_tree(more);
        let names: BTreeSet<&str> = tree
            .lines()
            .filter_map(Node::read)
            .map(|node| node.name)
            .collect();
        assert!(
            names.contains("lineside-wire") && names.contains("libbpf-cargo"),
            "{names:?}"
        );
        assert_eq!(names.contains("rdkafka"), more.is_empty());
        let found = refused_packages(&root(), &tree);
        assert!(found.is_empty(), "cargo tree {more:?}: {found:#?}");
    }
}

#[test]
fn every_exception_is_still_needed() {
    let tree = daemon_tree(&[]);
    let mut edges = BTreeSet::new();
    let mut parents: Vec<&str> = Vec::new();
    for node in tree.lines().filter_map(Node::read) {
        parents.truncate(node.depth);
        edges.extend(parents.last().map(|parent| (node.name, *parent)));
        parents.push(node.name);
    }
    for exception in UNAVOIDABLE {
        assert!(
            edges.contains(exception),
            "no package needs {exception:?} any more; remove it from UNAVOIDABLE"
        );
    }
}

/// Packages with server code, which the clients must not contain.
const SERVERS: &[&str] = &[
    "lineside-spv",
    "lineside-transfer",
    "lineside-column",
    "lineside-hybrid",
    "lineside-hybrid-grpc",
    "lineside-hybrid-node",
    "lineside-fabric",
    "lineside-fastpath",
    "lineside-service",
    "lineside-net",
    "lineside-xdp",
    "lineside-journal",
    "lineside-console",
    "lineside-hbase-client",
    "lineside",
];

/// Packages that only the feature `grpc` of the clients may require.
const FOR_GRPC: &[&str] = &["lineside-grpc", "prost", "tokio", "tonic"];

/// Returns the packages of a tree that `refused` names, and server features that are enabled in it.
fn refused_in(tree: &str, refused: &[&[&str]]) -> Vec<String> {
    let mut found = Vec::new();
    for node in tree.lines().filter_map(Node::read) {
        if refused.concat().contains(&node.name) {
            found.push(node.name.to_owned());
        }
        if node.folder.is_some() && node.features.contains(&"server") {
            found.push(format!("{} with the feature `server`", node.name));
        }
    }
    found
}

#[test]
fn the_clients_contain_no_server_code() {
    let tree = |more: &[&str]| {
        let arguments = [
            "tree",
            "--package",
            "lineside-client",
            "--edges",
            "normal",
            "--prefix",
            "depth",
            "--format",
            "{p}|{f}",
        ];
        cargo(&[&arguments[..], more].concat())
    };
    let (plain, with_grpc) = (tree(&[]), tree(&["--features", "grpc"]));
    assert!(plain.contains("lineside-wire"), "{plain}");
    assert!(with_grpc.contains("tonic"), "{with_grpc}");
    assert_eq!(refused_in(&plain, &[SERVERS, FOR_GRPC]), Vec::<String>::new());
    assert_eq!(refused_in(&with_grpc, &[SERVERS]), Vec::<String>::new());
    let bad = "0lineside-client v0.1.0 (/repository/crates/client)|\n\
               1lineside-spv v0.1.0 (/repository/crates/spv)|\n\
               1lineside-grpc v0.1.0 (/repository/crates/grpc)|server\n";
    let found = refused_in(bad, &[SERVERS]);
    assert_eq!(found, ["lineside-spv", "lineside-grpc with the feature `server`"]);
    assert_eq!(refused_in(bad, &[SERVERS, FOR_GRPC]).len(), 3);
}

#[test]
fn crates_depend_on_laboratory_crates_only_for_tests() {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    assert!(metadata.contains("lineside-testkit"));
    let found = laboratory_dependencies(&root(), &metadata);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_refused_package_in_the_tree_is_found() {
    let root = Path::new("/repository");
    let good = "0lineside v0.1.0 (/repository/crates/lineside)|default,kafka\n\
                1lineside-verify v0.1.0 (/repository/crates/verify)|default,simd\n\
                1fjall v3.1.13|default\n\
                2tempfile v3.27.0|default,getrandom\n\
                1lineside-laboratory v0.1.0 (/repository/crates/laboratory)|\n";
    assert_eq!(refused_packages(root, good), BTreeSet::new());
    let finding = |line: &str| {
        let found = refused_packages(root, &format!("{good}{line}\n"));
        found.into_iter().collect::<Vec<_>>().join("; ")
    };
    for name in REFUSED {
        let line = format!("1{name} v1.0.0|default (*)");
        let expected = format!("`{name}` is for tests and benches, and `lineside` depends on it");
        assert_eq!(finding(&line), expected);
    }
    assert_eq!(
        finding("1lineside-bench v0.1.0 (/repository/lab/bench)|"),
        "`lineside-bench` is a laboratory crate, and `lineside` depends on it"
    );
    assert_eq!(
        finding("1lineside-hybrid v0.1.0 (/repository/crates/hybrid)|laboratory"),
        "`lineside-hybrid` is built with the feature `laboratory`"
    );
    assert_eq!(
        finding("1lineside-verify v0.1.0 (/repository/crates/verify)|default,library,simd (*)"),
        "`lineside-verify` is built with the feature `library`"
    );
    let below = format!("{good}2aws-lc-rs v1.13.0|\n3aws-lc-sys v0.30.0|\n");
    let found: Vec<_> = refused_packages(root, &below).into_iter().collect();
    assert_eq!(
        found,
        [
            "`aws-lc-rs` is for tests and benches, and `lineside-laboratory` depends on it",
            "`aws-lc-sys` is for tests and benches, and `aws-lc-rs` depends on it",
        ]
    );
}

#[test]
fn a_laboratory_crate_in_a_manifest_is_found() {
    let metadata = |folder: &str, kind: &str| {
        format!(
            r#"{{"packages": [{{"name": "lineside-net", "manifest_path": "/repository/{folder}/net/Cargo.toml",
            "dependencies": [{{"name": "tempfile", "kind": {kind}}},
            {{"name": "lineside-testkit", "kind": {kind}, "path": "/repository/lab/testkit"}}]}}]}}"#
        )
    };
    let found = |folder, kind| laboratory_dependencies(Path::new("/repository"), &metadata(folder, kind));
    assert!(found("crates", r#""dev""#).is_empty());
    assert!(found("lab", "null").is_empty());
    assert_eq!(
        found("crates", "null"),
        ["[dependencies] of `lineside-net` has the laboratory crate `lineside-testkit`"]
    );
    assert_eq!(
        found("crates", r#""build""#),
        ["[build-dependencies] of `lineside-net` has the laboratory crate `lineside-testkit`"]
    );
}
