//! Compiles the XDP program of `transfer`.

fn main() {
    lineside_bpf_build::compile_xdp_program("transfer");
}
