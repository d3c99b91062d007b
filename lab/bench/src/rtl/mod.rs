//! Scenario `rtl`: the FPGA datapath. Cycles for each frame, latency, fills, cells, and the speed of the simulation by
//! itself and at a TAP device.
//!
//! Cycles are counted in the NIC that Verilator simulates, so they do not depend on the machine. Rates assume
//! [`CLOCK_HZ`]; no timing was computed. Cells are counts by Yosys, recorded in `rtl/syn/area.csv` by `make rtl-area`.

pub mod area;
#[cfg(feature = "rtl")]
mod measure;
pub mod report;
#[cfg(feature = "rtl")]
mod tap;
#[cfg(feature = "rtl")]
mod transfer;

#[cfg(feature = "rtl")]
pub use measure::run;

/// Clock frequency for which rates are computed, in Hz. It is that of the boxes of OpenNIC.
pub const CLOCK_HZ: f64 = 250e6;
/// Bytes that a frame takes on Ethernet in addition to those of the frame: preamble, frame check sequence and gap.
pub const WIRE_BYTES: usize = 24;
/// Line rate of 100 Gigabit Ethernet in bits per second.
pub const LINE_BITS_PER_S: f64 = 100e9;
/// Bytes of a beat of the RTL's streams.
pub const BEAT_BYTES: usize = 64;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the TXIDs and of their order.
    pub seed: u64,
    /// Number of frames in the shorter of the two runs of a case; the longer run has twice as many.
    pub frames: usize,
    /// Number of rounds; the speed of the simulation is the median of the rounds.
    pub rounds: usize,
    /// Number of requests of a measurement at the TAP device; with few requests in flight, an eighth of them.
    pub tap_requests: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            frames: 20_000,
            rounds: 5,
            tap_requests: 400_000,
        }
    }
}

impl Options {
    /// Returns the options of a short run.
    pub fn quick() -> Self {
        Self {
            frames: 2_000,
            rounds: 3,
            tap_requests: 100_000,
            ..Self::default()
        }
    }
}

/// Returns the number of frames of this length that 100 Gigabit Ethernet carries per second.
pub fn line_rate(bytes: usize) -> f64 {
    LINE_BITS_PER_S / (8 * (bytes + WIRE_BYTES)) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_rate_is_that_of_ethernet() {
        // 148.81 million frames of 60 bytes and a frame check sequence are the well-known rate of 100GbE.
        assert!((line_rate(60) / 1e6 - 148.81).abs() < 0.01);
        assert!((line_rate(74) / 1e6 - 127.55).abs() < 0.01);
    }
}
