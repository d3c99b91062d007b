//! Compiles BPF programs in build scripts, so that every crate with a program uses the same compiler and flags.
//!
//! ```no_run
//! // In the build script of a crate with an XDP program: compiles `xdp/spv.bpf.c` into `$OUT_DIR`.
//! let object = lineside_bpf_build::compile_xdp_program("spv");
//! assert!(object.ends_with("spv.bpf.o"));
//! ```

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the name of the C compiler for BPF: `clang-19` where it is installed, else `clang`.
pub fn compiler() -> &'static str {
    match Command::new("clang-19").arg("--version").output() {
        Ok(_) => "clang-19",
        Err(_) => "clang",
    }
}

/// Returns the directory `xdp/` of the repository, which holds the XDP programs.
pub fn xdp_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xdp")
}

/// Compiles `xdp/<program>.bpf.c` into `$OUT_DIR/<program>.bpf.o`; each `/` in the name is replaced by `-` in the
/// output path. Cargo runs the build script again whenever a file in `xdp/` changes.
///
/// # Panics
/// Panics if the compiler is missing or rejects the program, which ends the build.
pub fn compile_xdp_program(program: &str) -> PathBuf {
    let directory = xdp_directory();
    println!("cargo:rerun-if-changed={}", directory.display());
    compile(
        &directory.join(format!("{program}.bpf.c")),
        &program.replace('/', "-"),
    )
}

/// Compiles the BPF program `source` into `$OUT_DIR/<name>.bpf.o` and returns that path.
///
/// # Panics
/// Panics if the compiler is missing or rejects the program, which ends the build.
pub fn compile(source: &Path, name: &str) -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let object = out.join(format!("{name}.bpf.o"));
    let include = format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH);
    // The binary contains the program's line information (BTF), which names source files. The path of the repository is
    // removed from these names, so that builds in different directories produce the same bytes.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = root.canonicalize().unwrap_or_else(|_| root.clone());
    let maps = [&root, &named].map(|root| format!("-ffile-prefix-map={}=/lineside", root.display()));
    println!("cargo:rerun-if-changed={}", source.display());
    libbpf_cargo::SkeletonBuilder::new()
        .source(source)
        .clang(compiler())
        .clang_args([
            include.as_str(),
            maps[0].as_str(),
            maps[1].as_str(),
            "-mcpu=v3",
            "-Wall",
            "-Werror",
            "-D__TARGET_ARCH_x86",
        ])
        .obj(&object)
        .build()
        .unwrap_or_else(|error| {
            panic!(
                "cannot compile {}: {error} (scripts/setup.sh installs the compiler)",
                source.display()
            )
        });
    object
}
