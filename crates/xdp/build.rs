//! Compiles the root program (xdp/root.bpf.c).

fn main() {
    lineside_bpf_build::compile_xdp_program("root");
}
