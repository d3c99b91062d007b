//! Compiles the XDP program of `column`.

fn main() {
    lineside_bpf_build::compile_xdp_program("column");
}
