//! Test runs of a program by several threads at the same time.

use super::error::{XdpError, system};
use super::{FRAME_BYTES_MAX, verdict};
use lineside_fastpath::FrameVerdict;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A program of a datapath that can be run on the calling thread's CPU. While this value exists, the program and its
/// maps stay loaded, even if the datapath is dropped.
#[derive(Debug)]
pub struct Runner(pub(super) OwnedFd);

impl Runner {
    /// Runs the program once on `frame` (BPF_PROG_TEST_RUN). Returns the verdict and writes the resulting frame to
    /// `out`. See [`super::XdpDatapath::test_run`] about the reasons of drops.
    ///
    /// # Errors
    /// The kernel's error, such as `EINVAL` for a frame shorter than an Ethernet header.
    pub fn run(&self, frame: &[u8], out: &mut Vec<u8>) -> Result<FrameVerdict, XdpError> {
        out.resize(FRAME_BYTES_MAX, 0);
        // SAFETY: the struct consists of numbers and pointers, for which zeros are valid values.
        let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as _;
        options.data_in = frame.as_ptr().cast();
        options.data_size_in = frame.len() as u32;
        options.data_out = out.as_mut_ptr().cast();
        options.data_size_out = out.len() as u32;
        // SAFETY: the descriptor is open, and both buffers are as long as the options say and outlive the call.
        let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(self.0.as_raw_fd(), &mut options) };
        if result != 0 {
            return Err(system("cannot run a program for a test")(
                io::Error::from_raw_os_error(-result),
            ));
        }
        out.truncate(options.data_size_out as usize);
        verdict(options.retval)
    }
}
