//! Compiles the generators' BPF programs. clang-19 where it is found, else clang.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let has_19 = Command::new("clang-19").arg("--version").output().is_ok();
    let include = format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH);
    for name in ["generator.bpf", "transfer.bpf", "column.bpf", "column_live.bpf"] {
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("bpf/{name}.c"));
        let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join(format!("{name}.o"));
        println!("cargo:rerun-if-changed={}", source.display());
        libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang(if has_19 { "clang-19" } else { "clang" })
            .clang_args([include.as_str(), "-mcpu=v3", "-Wall", "-Werror"])
            .obj(out)
            .build()
            .unwrap_or_else(|error| {
                panic!("compiling bpf/{name}.c: is clang installed? (scripts/setup.sh installs it): {error}")
            });
    }
}
