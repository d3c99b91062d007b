//! Cheap rules: layers of the crates, length of lines and files, left-over marks, no `.unwrap()` in
//! code that handles packets.
//!
//! Each rule is a function from files to findings (`file:line: finding`). One test applies the rule to the repository.
//! The last test gives each rule a bad example, so that a rule that inspects nothing does not pass.

mod files;

use files::{File, TEXT, repository};

/// Layers of the crates in `crates/`. A crate may depend only on crates of lower layers. The laboratory in
/// `lab/` is above all layers, and no crate depends on it.
const LAYERS: &[(&str, u8)] = &[
    ("bpf-build", 0),
    ("netlink", 0),
    ("spv-proof", 0),
    ("tidy", 0),
    ("util", 0),
    ("verify", 0),
    ("wire", 0),
    ("bitcoin-node", 1),
    ("capture", 1),
    ("fastpath", 1),
    ("grpc", 1),
    ("journal", 1),
    ("verify-c", 1),
    ("messages", 1),
    ("client", 2),
    ("electrum", 2),
    ("hbase-client", 2),
    ("net", 2),
    ("rtl", 2),
    ("xdp", 2),
    ("service", 3),
    ("column", 4),
    ("fabric", 4),
    ("hybrid", 4),
    ("spv", 4),
    ("transfer", 4),
    ("console", 5),
    ("fabric-grpc", 5),
    ("fabric-udp", 5),
    ("hybrid-grpc", 5),
    ("log-kafka", 5),
    ("fabric-replica", 6),
    ("hybrid-node", 6),
    ("lineside", 7),
];

const MAX_COLUMNS: usize = 120;
const MAX_LINES: usize = 800;
const PACKET_PATHS: &[&str] = &[
    "crates/wire/src/",
    "crates/fastpath/src/",
    "crates/net/src/",
    "crates/xdp/src/",
];

// ---- the rules ----

fn layering(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let path: Vec<&str> = file.path.split('/').collect();
        let ["crates", name, "Cargo.toml"] = path[..] else {
            continue;
        };
        let Some(layer) = layer_of(name) else {
            found.push(format!("{}:1: crate `{name}` has no layer in LAYERS", file.path));
            continue;
        };
        for (line, dependency) in lineside_dependencies(file) {
            let at = format!("{}:{line}", file.path);
            match layer_of(&dependency) {
                Some(below) if below < layer => {}
                Some(other) => found.push(format!(
                    "{at}: `{name}` (layer {layer}) depends on `{dependency}` (layer {other}); it must be lower"
                )),
                None => found.push(format!("{at}: `{dependency}` has no layer in LAYERS")),
            }
        }
    }
    found
}

fn layer_of(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(n, _)| *n == name).map(|(_, layer)| *layer)
}

/// Returns the `lineside-*` entries of `[dependencies]`, `[dependencies.X]` and `[target.'…'.dependencies]`, without
/// the prefix, each with its line. Dependencies of tests and build scripts are not counted.
fn lineside_dependencies(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in file.lines() {
        let line = line.split('#').next().unwrap_or("").trim();
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            inside = is_dependencies(section);
            if let Some((table, key)) = section.rsplit_once('.')
                && is_dependencies(table)
            {
                inside = true;
                found.extend(crate_name(key).map(|name| (number, name)));
            }
        } else if inside && let Some((key, value)) = line.split_once('=') {
            let key = key.trim().split('.').next().unwrap_or("");
            let renamed = value.split('"').find_map(crate_name);
            found.extend(crate_name(key).or(renamed).map(|name| (number, name)));
        }
    }
    found
}

fn is_dependencies(section: &str) -> bool {
    section == "dependencies" || (section.starts_with("target.") && section.ends_with(".dependencies"))
}

fn crate_name(text: &str) -> Option<String> {
    let name = text.trim().trim_matches('"');
    if name == "lineside" {
        Some(name.into())
    } else {
        name.strip_prefix("lineside-").map(String::from)
    }
}

fn line_length(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files
        .iter()
        .filter(|f| f.has_extension(&["rs", "c", "h", "toml", "sh", "ts", "mjs", "css", "html"]))
    {
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS {
                found.push(format!(
                    "{}:{number}: {columns} columns, at most {MAX_COLUMNS}",
                    file.path
                ));
            }
        }
    }
    found
}

fn file_length(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.has_extension(&["rs", "c", "h"])) {
        let name = file.path.rsplit('/').next().unwrap_or("");
        let lines = file.text.lines().count();
        if lines > MAX_LINES && !name.contains("generated") {
            found.push(format!(
                "{}:{lines}: {lines} lines, at most {MAX_LINES}; split it",
                file.path
            ));
        }
    }
    found
}

/// Returns words and pieces of code that mark unfinished work. They are assembled at run time, so that the rule does
/// not find them in this file.
fn marks() -> (Vec<String>, Vec<String>) {
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]];
    let codes = [["todo", "!("], ["unimplemented", "!("], ["#[", "ignore"]];
    (
        words.map(|w| w.concat()).to_vec(),
        codes.map(|c| c.concat()).to_vec(),
    )
}

fn left_over_marks(files: &[File]) -> Vec<String> {
    let (words, codes) = marks();
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.has_extension(TEXT)) {
        for (number, line) in file.lines() {
            let mut in_words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let word = in_words.find(|w| words.iter().any(|mark| mark == w));
            let code = codes.iter().map(String::as_str).find(|code| line.contains(code));
            if let Some(mark) = word.or(code) {
                found.push(format!("{}:{number}: left-over mark `{mark}`", file.path));
            }
        }
    }
    found
}

/// Returns the places of `.unwrap()` in code that handles packets. Code after a line `#[cfg(test)]` is test code and is
/// ignored, and so are comments and the examples in them.
fn unwrap_on_packet_path(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    let on_path = |f: &&File| f.has_extension(&["rs"]) && PACKET_PATHS.iter().any(|p| f.path.starts_with(p));
    for file in files.iter().filter(on_path) {
        for (number, line) in file.lines().take_while(|(_, line)| line.trim() != "#[cfg(test)]") {
            if line.contains(".unwrap()") && !line.trim_start().starts_with("//") {
                found.push(format!(
                    "{}:{number}: `.unwrap()` in code that handles packets",
                    file.path
                ));
            }
        }
    }
    found
}

/// Checks that every crate in `crates/` and `lab/` is in the diagram of ARCHITECTURE.md, and that the crates in
/// `crates/` are shown at their layers.
fn picture(files: &[File]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return vec!["ARCHITECTURE.md:1: the page is missing".into()];
    };
    // A row of the diagram has the form `| name …`. The number of a layer precedes the first row of that layer.
    let (mut layer, mut drawn) = (None, Vec::new());
    for line in page.text.lines() {
        if line.trim_start().starts_with("crates/") || line.trim_start().starts_with("lab/") {
            layer = None;
        }
        let Some((before, row)) = line.split_once("| ") else {
            continue;
        };
        layer = before.trim().parse::<u8>().ok().or(layer);
        let name = row.split(' ').next().unwrap_or("").trim_end_matches('/');
        if !row.starts_with(' ') {
            drawn.push((name.to_owned(), layer));
        }
    }
    let mut found = Vec::new();
    for file in files {
        let path: Vec<&str> = file.path.split('/').collect();
        let (name, layer) = match path[..] {
            ["crates", name, "Cargo.toml"] => (name, layer_of(name)),
            ["lab", name, "Cargo.toml"] | ["lab", name, _, "Cargo.toml"] => (name, None),
            _ => continue,
        };
        if !drawn
            .iter()
            .any(|(drawn, at)| drawn == name && (layer.is_none() || *at == layer))
        {
            found.push(format!(
                "{}:1: ARCHITECTURE.md does not show `{name}` at layer {layer:?}",
                file.path
            ));
        }
    }
    found
}

fn hold(rule: fn(&[File]) -> Vec<String>) {
    let found = rule(&repository());
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n"));
}

#[test]
fn crates_depend_only_on_lower_layers() {
    hold(layering);
}

#[test]
fn every_crate_is_in_the_architecture_diagram() {
    hold(picture);
}

#[test]
fn lines_are_short() {
    hold(line_length);
}

#[test]
fn files_are_short() {
    hold(file_length);
}

#[test]
fn no_left_over_marks() {
    hold(left_over_marks);
}

#[test]
fn no_unwrap_where_packets_pass() {
    hold(unwrap_on_packet_path);
}

#[test]
fn every_rule_finds_its_bad_example() {
    let check = |rule: fn(&[File]) -> Vec<String>, path: &str, text: &str, expected: &[&str]| {
        let found = rule(&[File {
            path: path.into(),
            text: text.into(),
        }]);
        let places: Vec<String> = found
            .iter()
            .map(|f| f.splitn(3, ':').take(2).collect::<Vec<_>>().join(":"))
            .collect();
        assert_eq!(places, expected, "in {path}:\n{text}\nfound: {found:?}");
    };

    let fastpath = "crates/fastpath/Cargo.toml";
    check(
        layering,
        fastpath,
        "[dependencies]\nlineside-wire.workspace = true\nlibc = \"0.2\"\n",
        &[],
    );
    check(
        layering,
        fastpath,
        "[dev-dependencies]\nlineside-net.workspace = true\n",
        &[],
    );
    check(
        layering,
        fastpath,
        "[dependencies]\nlineside-fastpath.workspace = true\n",
        &["crates/fastpath/Cargo.toml:2"],
    );
    check(
        layering,
        fastpath,
        "[dependencies]\nlineside-spv = { path = \"../spv\" }\n",
        &["crates/fastpath/Cargo.toml:2"],
    );
    check(
        layering,
        fastpath,
        "[dependencies]\nx = { package = \"lineside-spv\" }\n",
        &["crates/fastpath/Cargo.toml:2"],
    );
    check(
        layering,
        fastpath,
        "\n[dependencies.lineside-net]\nworkspace = true\n",
        &["crates/fastpath/Cargo.toml:2"],
    );
    let for_target = "[target.'cfg(unix)'.dependencies]\nlineside-bench.workspace = true\n";
    check(layering, fastpath, for_target, &["crates/fastpath/Cargo.toml:2"]);
    check(
        layering,
        fastpath,
        "[dependencies]\nlineside-cellar.workspace = true\n",
        &["crates/fastpath/Cargo.toml:2"],
    );
    check(
        layering,
        "crates/cellar/Cargo.toml",
        "",
        &["crates/cellar/Cargo.toml:1"],
    );

    let page = |text: &str| File {
        path: "ARCHITECTURE.md".into(),
        text: text.into(),
    };
    let manifest = |path: &str| File {
        path: path.into(),
        text: String::new(),
    };
    let drawn = "  1 | fastpath  traits |\n    | net  sockets |\n lab/\n | bench  figures |\n";
    let found = |path: &str| picture(&[page(drawn), manifest(path)]).len();
    for (path, findings) in [
        ("crates/fastpath/Cargo.toml", 0),
        ("lab/bench/Cargo.toml", 0),
        ("crates/net/Cargo.toml", 1), // its layer is 2
        ("crates/wire/Cargo.toml", 1),
        ("lab/soak/Cargo.toml", 1),
    ] {
        assert_eq!(found(path), findings, "{path}");
    }

    let long = format!(
        "ok\n{}\n{}\n",
        "é".repeat(MAX_COLUMNS),
        "x".repeat(MAX_COLUMNS + 1)
    );
    check(line_length, "xdp/a.h", &long, &["xdp/a.h:3"]);
    check(line_length, "docs/a.md", &long, &[]);

    check(file_length, "xdp/a.c", &"\n".repeat(MAX_LINES), &[]);
    check(
        file_length,
        "xdp/a.c",
        &"\n".repeat(MAX_LINES + 1),
        &["xdp/a.c:801"],
    );
    check(file_length, "xdp/generated.h", &"\n".repeat(MAX_LINES + 1), &[]);

    let (words, codes) = marks();
    for mark in words.iter().chain(&codes) {
        check(
            left_over_marks,
            "a.rs",
            &format!("fine\n    // {mark}: later\n"),
            &["a.rs:2"],
        );
    }
    check(
        left_over_marks,
        "a.rs",
        &format!("let a = {}_COUNT;\n", words[0]),
        &[],
    );

    let unwrapping =
        "/// a.unwrap()\nfn f() { a.unwrap() }\n#[cfg(test)]\nmod tests { fn g() { a.unwrap() } }\n";
    check(
        unwrap_on_packet_path,
        "crates/net/src/a/b.rs",
        unwrapping,
        &["crates/net/src/a/b.rs:2"],
    );
    check(unwrap_on_packet_path, "lab/bench/src/a.rs", unwrapping, &[]);
}
