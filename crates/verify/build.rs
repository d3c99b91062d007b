//! Sets the cfg `unoptimised` if this crate is compiled without optimisation. The code for AVX-512 needs megabytes of
//! stack then, because the compiler gives each inlined operation registers in memory of its own.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(unoptimised)");
    if std::env::var_os("OPT_LEVEL").is_some_and(|level| level == "0") {
        println!("cargo::rustc-cfg=unoptimised");
    }
}
