//! Compiles the XDP programs: for the kernel (clang-19 where it is found, else clang), and natively.

use std::{env, path::PathBuf, process::Command};

/// The sources in `xdp/`, without their ending: root, one per service, and the tests' second service.
const PROGRAMS: [&str; 5] = ["root", "spv", "transfer", "column", "test/echo"];

fn main() {
    let xdp = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../xdp");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let has_19 = Command::new("clang-19").arg("--version").output().is_ok();
    let clang = if has_19 { "clang-19" } else { "clang" };
    let include = format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH);
    println!("cargo:rerun-if-changed={}", xdp.display());
    let object = |program: &str| out.join(format!("{}.bpf.o", program.replace('/', "-")));
    println!(
        "cargo:rustc-env=LINESIDE_ECHO_OBJECT={}",
        object("test/echo").display()
    );
    for program in PROGRAMS {
        let source = xdp.join(format!("{program}.bpf.c"));
        libbpf_cargo::SkeletonBuilder::new()
            .source(&source)
            .clang(clang)
            .clang_args([
                include.as_str(),
                "-mcpu=v3",
                "-Wall",
                "-Werror",
                "-D__TARGET_ARCH_x86",
            ])
            .obj(object(program))
            .build()
            .unwrap_or_else(|error| {
                panic!(
                    "compiling {}: is clang there? scripts/setup.sh has it: {error}",
                    source.display()
                )
            });
    }
    // The same sources as a library, for machines without BPF.
    let mut native = cc::Build::new();
    if env::var_os("CARGO_CFG_FUZZING").is_some() {
        // So that a fuzzer sees which branches of the C it takes.
        native
            .compiler(clang)
            .flag("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
    }
    native
        .file(xdp.join("native/native.c"))
        .include(xdp.join("native"))
        .define("__TARGET_ARCH_x86", None)
        .flag("-Werror")
        .flag("-Wno-unknown-pragmas")
        .compile("lineside_xdp_native");
}
