//! Compiles the BPF programs of the load generators.

use std::path::Path;

fn main() {
    for name in ["generator", "transfer", "column", "column_live", "cost"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("bpf/{name}.bpf.c"));
        lineside_bpf_build::compile(&source, name);
    }
    println!(
        "cargo:rerun-if-changed={}",
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("bpf/wrong.h")
            .display()
    );
}
