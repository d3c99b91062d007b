//! Lower limits that the processor sets for the verification time, and how close the best slice came to them.

use super::measure::Rates;
use serde::Serialize;

/// Number of table look-ups for a scalar of 256 bits: 16 in the table of the generator (windows of 16 bits), and 20 in
/// the table of a recurring key (windows of 13 bits).
const LOOKUPS: u32 = 16 + 20;
/// Size in bytes of the tables with these windows: windows x 2^(width - 1) points of 64 bytes, for one generator and 16
/// keys.
const FULL_TABLES_BYTES: usize = 64 * ((16 << 15) + 16 * (20 << 12));
/// Number of micro-operations on the two 512-bit ports for eight affine additions over P-256, one in each lane.
const UOPS_PER_8: f64 = 725.0;
/// Number of the micro-operations of [`UOPS_PER_8`] that multiply.
const MULTIPLICATIONS_PER_8: f64 = 460.0;
/// Maximum number of micro-operations on the two 512-bit ports per cycle.
const PORTS: f64 = 2.0;

/// Lower limit of the time for a signature, compared with the measured time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limit {
    /// Lower limit in nanoseconds per signature.
    pub limit_ns: f64,
    /// Measured time of the best slice in nanoseconds per signature, with 16 recurring keys and batches of 256.
    pub measured_ns: f64,
    /// `limit_ns` divided by `measured_ns`, in percent.
    pub share_percent: f64,
}

/// Limits for P-256 on the backend `ifma` with 16 recurring keys. They count only additions of points, not the work on
/// scalars.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Limits {
    /// Number of additions of points per signature.
    pub additions: u32,
    /// Measured number of cycles per nanosecond; `None` if it was not measured.
    pub clock_ghz: Option<f64>,
    /// Measured number of 512-bit multiplications (`vpmadd52luq`) per cycle: 2 if both ports multiply, 1 on Zen 4.
    pub multiplications_per_cycle: Option<f64>,
    /// Limit if two micro-operations of any kind run per cycle. The report calls its share `port_share`.
    pub port: Option<Limit>,
    /// Limit by the multiplications alone at the measured rate. The report calls its share `multiplier_share`.
    pub multiplier: Option<Limit>,
}

impl Limits {
    /// Computes the limits from the time of the best slice in nanoseconds. There are no shares if this time is missing,
    /// or if the tables are smaller than assumed.
    pub(super) fn new(measured_ns: Option<f64>, hot_tables_bytes: Option<usize>, rates: Rates) -> Self {
        let Rates {
            clock_ghz,
            multiplications_per_ns,
        } = rates;
        let measured_ns = measured_ns.filter(|_| hot_tables_bytes == Some(FULL_TABLES_BYTES));
        let additions = LOOKUPS - 1;
        let limit = |operations_per_8: f64, per_ns: Option<f64>| {
            let (measured_ns, per_ns) = measured_ns.zip(per_ns)?;
            let limit_ns = f64::from(additions) / 8.0 * operations_per_8 / per_ns;
            Some(Limit {
                limit_ns,
                measured_ns,
                share_percent: 100.0 * limit_ns / measured_ns,
            })
        };
        let multiplications_per_cycle = multiplications_per_ns
            .zip(clock_ghz)
            .map(|(rate, clock)| rate / clock);
        Self {
            additions,
            clock_ghz,
            multiplications_per_cycle,
            port: limit(UOPS_PER_8, clock_ghz.map(|clock| PORTS * clock)),
            multiplier: limit(MULTIPLICATIONS_PER_8, multiplications_per_ns),
        }
    }
}
