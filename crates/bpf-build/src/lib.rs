//! Compiles BPF programs in build scripts, so that every crate with a program uses the same compiler and flags.
//!
//! ```no_run
//! // In the build script of a crate with an XDP program: compiles `xdp/spv.bpf.c` into `$OUT_DIR`.
//! let object = lineside_bpf_build::compile_xdp_program("spv");
//! assert!(object.ends_with("spv.bpf.o"));
//! ```

use std::env;
use std::fs;
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
    println!("cargo:rerun-if-changed={}", source.display());
    compile_into(&out, source, name)
}

/// Compiles like [`compile`], into the directory `out`.
fn compile_into(out: &Path, source: &Path, name: &str) -> PathBuf {
    let object = out.join(format!("{name}.bpf.o"));
    let include = format!("-I/usr/include/{}-linux-gnu", env::consts::ARCH);
    // The binary contains the program's line information (BTF), which names source files. The paths of the repository
    // and of libbpf's headers are replaced in these names, so that builds in different directories produce the same
    // bytes.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = root.canonicalize().unwrap_or_else(|_| root.clone());
    let headers = libbpf_headers(out);
    let include_libbpf = format!("-I{}", headers.display());
    let map = |from: &Path, to: &str| format!("-ffile-prefix-map={}={to}", from.display());
    let maps = [
        map(&root, "/lineside"),
        map(&named, "/lineside"),
        map(&headers, "/libbpf"),
    ];
    libbpf_cargo::SkeletonBuilder::new()
        .source(source)
        .clang(compiler())
        .clang_args([
            include.as_str(),
            include_libbpf.as_str(),
            maps[0].as_str(),
            maps[1].as_str(),
            maps[2].as_str(),
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

/// Writes libbpf's headers for BPF programs into `out`, and returns the directory to include. libbpf-cargo writes them
/// too, but into a directory with a random name, which the line information would contain.
fn libbpf_headers(out: &Path) -> PathBuf {
    let include = out.join("libbpf");
    let folder = include.join("bpf");
    let written = fs::create_dir_all(&folder).and_then(|()| {
        libbpf_sys::API_HEADERS
            .iter()
            .try_for_each(|(name, text)| fs::write(folder.join(name), text))
    });
    written
        .unwrap_or_else(|error| panic!("cannot write libbpf's headers into {}: {error}", folder.display()));
    include
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program calls an inline function of libbpf's headers, so its line information names a header.
    #[test]
    fn builds_in_different_directories_have_the_same_bytes() {
        let program = r#"
            #include <linux/bpf.h>
            #include <bpf/bpf_helpers.h>
            struct {
                __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
                __uint(max_entries, 2);
                __type(key, __u32);
                __type(value, __u32);
            } programs SEC(".maps");
            SEC("xdp")
            int call(struct xdp_md *context) {
                bpf_tail_call_static(context, &programs, 1);
                return XDP_PASS;
            }
            char _license[] SEC("license") = "GPL";
        "#;
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("call.bpf.c");
        fs::write(&source, program).unwrap();
        let objects = ["one", "two/deeper"].map(|name| {
            let out = home.path().join(name);
            fs::create_dir_all(&out).unwrap();
            fs::read(compile_into(&out, &source, "call")).unwrap()
        });
        let contains = |text: &str| {
            objects[0]
                .windows(text.len())
                .any(|bytes| bytes == text.as_bytes())
        };
        assert!(contains("/libbpf/bpf/bpf_helpers.h"));
        assert_eq!(objects[0], objects[1]);
    }
}
