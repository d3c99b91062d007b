//! Compiles the root program.

fn main() {
    lineside_bpf_build::compile_xdp_program("root");
}
