//! Reads `spec/*.toml` and writes what is generated from them: Rust types and constants, the C header of the XDP
//! programs, and the tables of the documentation. `lineside-spec --check` writes nothing and fails when one is stale.

mod emit_c;
mod emit_docs;
mod emit_rust;
mod model;

use std::{env, fs, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let check = env::args().any(|argument| argument == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let spec = model::Spec::read(&root.join("spec"));
    let outputs = [
        ("crates/wire/src/generated.rs", emit_rust::emit(&spec)),
        ("xdp/generated.h", emit_c::emit(&spec)),
        ("docs/wire-formats.md", emit_docs::emit(&spec)),
        ("docs/metrics.md", emit_docs::emit_metrics(&spec)),
    ];
    let mut stale = false;
    for (path, text) in outputs {
        let file = root.join(path);
        if fs::read_to_string(&file).ok().as_deref() == Some(&text) {
            continue;
        }
        if check {
            eprintln!("{path} is stale: run `cargo run -p lineside-spec`");
            stale = true;
        } else {
            fs::write(&file, text).unwrap_or_else(|error| panic!("{path}: {error}"));
            println!("wrote {path}");
        }
    }
    if stale {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
