//! How near the best slice came to what the processor can do.

use super::measure::Rates;
use serde::Serialize;

/// Windows of a scalar of 256 bits: 16 in the generator's table (width 16), 20 in a hot key's (width 13).
const LOOKUPS: u32 = 16 + 20;
/// Bytes of tables when those widths are reached: windows x 2^(width - 1) points of 64 bytes, one generator, 16 keys.
const FULL_TABLES_BYTES: usize = 64 * ((16 << 15) + 16 * (20 << 12));
/// Of eight affine additions over P-256, one in each lane: micro-operations on the two ports for 512 bits.
const UOPS_PER_8: f64 = 725.0;
/// Those of them that multiply.
const MULTIPLICATIONS_PER_8: f64 = 460.0;
/// Micro-operations on those ports in a cycle, at most.
const PORTS: f64 = 2.0;

/// A lower limit of the time of a signature, and what share of the measured time it is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limit {
    /// ns a signature, at least.
    pub limit_ns: f64,
    /// ns a signature, measured: 16 hot keys, batches of 256, the best slice.
    pub measured_ns: f64,
    /// The first over the second, in percent.
    pub share_percent: f64,
}

/// The limits of P-256 on `ifma` with 16 hot keys. Only its additions of points are counted, not the scalars.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Limits {
    /// Additions of points a signature.
    pub additions: u32,
    /// Cycles per ns, measured. `None`: not measured.
    pub clock_ghz: Option<f64>,
    /// Multiplications of 512 bits (`vpmadd52luq`) a cycle, measured: 2 where both ports multiply, 1 on Zen 4.
    pub multiplications_per_cycle: Option<f64>,
    /// Two micro-operations a cycle, of any kind: `port_share`.
    pub port: Option<Limit>,
    /// The multiplications alone, at the measured rate: `multiplier_share`.
    pub multiplier: Option<Limit>,
}

impl Limits {
    /// From the best slice's ns; without, or with smaller tables than those counted with, there are no shares.
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
