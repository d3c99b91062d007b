//! Lower limits of the verification time by the processor, and the share that the best slice reached.

use super::measure::Rates;
use serde::Serialize;

/// Windows of a scalar of 256 bits: 16 in the generator's table (width 16), and 20 in the table of a hot key (width
/// 13).
const LOOKUPS: u32 = 16 + 20;
/// Bytes of the tables with these widths: windows x 2^(width - 1) points of 64 bytes, for one generator and 16 keys.
const FULL_TABLES_BYTES: usize = 64 * ((16 << 15) + 16 * (20 << 12));
/// Micro-operations on the two 512-bit ports for eight affine additions over P-256, one in each lane.
const UOPS_PER_8: f64 = 725.0;
/// Number of these micro-operations that multiply.
const MULTIPLICATIONS_PER_8: f64 = 460.0;
/// Maximum number of micro-operations on these ports per cycle.
const PORTS: f64 = 2.0;

/// Lower limit of the time of a signature, and its share of the measured time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limit {
    /// Lower limit in ns per signature.
    pub limit_ns: f64,
    /// Measured time in ns per signature: 16 hot keys, batches of 256, the best slice.
    pub measured_ns: f64,
    /// `limit_ns` divided by `measured_ns`, in percent.
    pub share_percent: f64,
}

/// Limits of P-256 on `ifma` with 16 hot keys. Only additions of points are counted, not the work on scalars.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Limits {
    /// Additions of points per signature.
    pub additions: u32,
    /// Measured cycles per ns; `None`: not measured.
    pub clock_ghz: Option<f64>,
    /// Measured multiplications of 512 bits (`vpmadd52luq`) per cycle: 2 if both ports multiply, 1 on Zen 4.
    pub multiplications_per_cycle: Option<f64>,
    /// Limit by two micro-operations of any kind per cycle: `port_share`.
    pub port: Option<Limit>,
    /// Limit by the multiplications alone at the measured rate: `multiplier_share`.
    pub multiplier: Option<Limit>,
}

impl Limits {
    /// Computes the limits from the ns of the best slice. Without it, or if the tables are smaller than assumed, there
    /// are not shares.
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
