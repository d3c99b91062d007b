//! Compiles the generators' BPF programs. clang-19 where it is found, else clang.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("bpf/generator.bpf.c");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("generator.bpf.o");
    let has_19 = Command::new("clang-19").arg("--version").output().is_ok();
    let include = format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH);
    println!("cargo:rerun-if-changed={}", source.display());
    libbpf_cargo::SkeletonBuilder::new()
        .source(&source)
        .clang(if has_19 { "clang-19" } else { "clang" })
        .clang_args([include.as_str(), "-mcpu=v3", "-Wall", "-Werror"])
        .obj(out)
        .build()
        .expect("compiling bpf/generator.bpf.c: is clang installed? (scripts/setup.sh installs it)");
}
