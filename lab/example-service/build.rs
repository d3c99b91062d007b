//! Compiles the XDP program of `odometer`.

fn main() {
    lineside_bpf_build::compile_xdp_program("odometer");
}
