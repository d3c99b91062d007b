//! Compiles the XDP program of `spv`.

fn main() {
    lineside_bpf_build::compile_xdp_program("spv");
}
