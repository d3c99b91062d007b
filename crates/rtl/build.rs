//! With the feature `sim`, builds the simulated NICs from `rtl/` by `scripts/rtl-sim.sh` and links them.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

include!("src/size.rs");

fn main() {
    if env::var_os("CARGO_FEATURE_SIM").is_none() {
        println!("cargo:rerun-if-changed=build.rs");
        return;
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out =
        PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts")).join("sim");
    for path in [
        "rtl/common",
        "rtl/pipeline",
        "rtl/spv",
        "rtl/transfer",
        "rtl/shells/sim",
        "rtl/lint.vlt",
        "scripts/rtl-sim.sh",
    ] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=RTL_SIM_OPTIMIZE");
    fs::create_dir_all(&out).expect("OUT_DIR can be written");
    let spv = [
        format!("-GLineBits={SIM_LINE_BITS}"),
        format!("-GBlockBits={SIM_BLOCK_BITS}"),
        "-DLS_SKIP_IDLE".into(),
    ];
    let transfer = [
        "transfer".into(),
        format!("-GBucketBits={SIM_BUCKET_BITS}"),
        format!("-GSessionBits={SIM_SESSION_BITS}"),
        format!("-GRecordDepth={SIM_RECORDS}"),
    ];
    for (name, arguments) in [("ls_sim", &spv[..]), ("ls_transfer_sim", &transfer[..])] {
        let folder = out.join(name);
        let status = Command::new("bash")
            .arg(root.join("scripts/rtl-sim.sh"))
            .args(arguments)
            .args(trace_arguments())
            .env("RTL_SIM_DIR", &folder)
            .env("RTL_SIM_NAME", name)
            .status()
            .expect("bash runs scripts/rtl-sim.sh");
        assert!(
            status.success(),
            "scripts/rtl-sim.sh cannot build the simulated NIC {name}; `make rtl-setup` installs its tools"
        );
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static={name}");
    }
    println!("cargo:rustc-link-lib=dylib=stdc++");
    if has_trace() {
        println!("cargo:rustc-link-lib=dylib=lz4");
        println!("cargo:rustc-link-lib=dylib=z");
    }
}

/// Returns true with the feature `trace`.
fn has_trace() -> bool {
    env::var_os("CARGO_FEATURE_TRACE").is_some()
}

/// Returns the options with which Verilator makes a model that can write its signals to an FST file.
fn trace_arguments() -> &'static [&'static str] {
    if has_trace() {
        &["--trace-fst", "-CFLAGS", "-DLS_SIM_TRACE"]
    } else {
        &[]
    }
}
