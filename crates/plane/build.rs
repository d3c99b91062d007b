//! Compiles the XDP programs. clang-19 where it is found, else clang.

use std::{env, path::PathBuf, process::Command};

fn main() {
    let xdp = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../xdp");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("line.bpf.o");
    let has_19 = Command::new("clang-19").arg("--version").output().is_ok();
    let include = format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH);
    println!("cargo:rerun-if-changed={}", xdp.display());
    libbpf_cargo::SkeletonBuilder::new()
        .source(xdp.join("line.bpf.c"))
        .clang(if has_19 { "clang-19" } else { "clang" })
        .clang_args([
            include.as_str(),
            "-mcpu=v3",
            "-Wall",
            "-Werror",
            "-D__TARGET_ARCH_x86",
        ])
        .obj(out)
        .build()
        .expect("compiling xdp/line.bpf.c: is clang installed? (scripts/setup.sh installs it)");
}
