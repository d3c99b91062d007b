//! Compiles the XDP programs natively, as a library for machines that may not load BPF, and the second service that the
//! tests of several services at one interface load.

use std::env;

fn main() {
    let echo = lineside_bpf_build::compile_xdp_program("test/echo");
    println!("cargo:rustc-env=LINESIDE_ECHO_OBJECT={}", echo.display());
    let xdp = lineside_bpf_build::xdp_directory();
    let mut native = cc::Build::new();
    if env::var_os("CARGO_CFG_FUZZING").is_some() {
        // A fuzzer then sees which branches of the C it takes.
        native
            .compiler(lineside_bpf_build::compiler())
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
