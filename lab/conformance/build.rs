//! Compiles the XDP programs natively, as a library for machines on which loading BPF programs is not permitted. Also
//! compiles a second service, which tests of several services at one interface load.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let echo = lineside_bpf_build::compile_xdp_program("test/echo");
    println!("cargo:rustc-env=LINESIDE_ECHO_OBJECT={}", echo.display());
    let xdp = lineside_bpf_build::xdp_directory();
    let mut native = cc::Build::new();
    if env::var_os("CARGO_CFG_FUZZING").is_some() {
        // The fuzzer then measures which branches of the C code an input reaches.
        native
            .compiler(lineside_bpf_build::compiler())
            .flag("-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp");
    }
    native
        .file(xdp.join("native/native.c"))
        .include(xdp.join("native"))
        .include(list_services(&xdp))
        .define("__TARGET_ARCH_x86", None)
        .flag("-Werror")
        .flag("-Wno-unknown-pragmas")
        .compile("lineside_xdp_native");
}

/// Writes `services.h` for `xdp/native/native.c`, and returns the folder of this file. Every file `<service>.bpf.c` in
/// `xdp` is a service.
fn list_services(xdp: &Path) -> PathBuf {
    let entries = fs::read_dir(xdp).expect("xdp/ is there");
    let names = entries.map(|entry| entry.expect("xdp/ can be read").file_name());
    let mut services: Vec<String> = names
        .filter_map(|name| Some(name.to_str()?.strip_suffix(".bpf.c")?.to_owned()))
        .filter(|service| service != "root")
        .collect();
    services.sort();
    let (mut text, mut list) = (String::new(), String::from("#define LS_NATIVE_SERVICES(X)"));
    for service in services {
        let source = xdp.join(format!("{service}.bpf.c"));
        text += &format!("#define _license ls_license_{service}\n#include {source:?}\n#undef _license\n");
        list += &format!(" X({service}, {})", service.to_uppercase());
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    fs::write(folder.join("services.h"), text + &list + "\n").expect("OUT_DIR can be written");
    folder
}
