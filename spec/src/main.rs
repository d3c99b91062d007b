//! Reads `spec/*.toml` and generates Rust types and constants, the C header of the XDP programs, the package of
//! the RTL, the constants and layouts of the clients in C, Go and Python, the tables of the documentation, the alert
//! rules of Prometheus and the Grafana dashboard. `lineside-spec --check` writes nothing, and fails if a generated file
//! is stale.

mod emit_axil;
mod emit_c;
mod emit_c_client;
mod emit_docs;
mod emit_go;
mod emit_monitoring;
mod emit_python;
mod emit_rtl;
mod emit_rust;
mod emit_sv;
mod model;

use std::{env, fs, path::Path, process::ExitCode};

fn main() -> ExitCode {
    let check = env::args().any(|argument| argument == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let spec = model::Spec::read(&root.join("spec"));
    let mut outputs = vec![
        ("crates/wire/src/generated.rs".to_owned(), emit_rust::emit(&spec)),
        ("xdp/generated.h".to_owned(), emit_c::emit(&spec)),
        ("rtl/common/ls_pkg.sv".to_owned(), emit_sv::emit(&spec)),
        ("crates/rtl/src/generated.rs".to_owned(), emit_rtl::emit(&spec)),
        ("clients/c/lineside_wire.h".to_owned(), emit_c_client::emit(&spec)),
        (
            "clients/python/src/lineside/_generated.py".to_owned(),
            emit_python::emit(&spec),
        ),
        ("docs/wire-formats.md".to_owned(), emit_docs::emit(&spec)),
        ("docs/rtl-interface.md".to_owned(), emit_rtl::emit_docs(&spec)),
        ("docs/metrics.md".to_owned(), emit_docs::emit_metrics(&spec)),
        (
            "packaging/prometheus/lineside.rules.yml".to_owned(),
            emit_monitoring::emit_rules(&spec),
        ),
        (
            "packaging/grafana/lineside.json".to_owned(),
            emit_monitoring::emit_dashboard(&spec),
        ),
    ];
    outputs.extend(emit_go::emit(&spec));
    let with_layouts = spec
        .services
        .iter()
        .filter(|(_, service)| !service.layout.is_empty());
    outputs.extend(with_layouts.map(|(name, service)| {
        let directory = service
            .directory
            .clone()
            .unwrap_or_else(|| format!("crates/{name}"));
        let text = emit_rust::emit_layouts(name, &service.layout);
        (format!("{directory}/src/layout.rs"), text)
    }));
    let mut stale = false;
    for (path, text) in outputs {
        let file = root.join(&path);
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
