//! The report of `bench column`.

use super::Options;
use super::per_packet::{Ask, Case, PerPacket};
use crate::gate::Bound::{AtLeast, AtMost};
use crate::gate::{Gate, write_gates};
use crate::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// The scenario's outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `column`.
    pub scenario: &'static str,
    /// As it was given.
    pub seed: u64,
    /// Where it ran.
    pub machine: Machine,
    /// What a hit costs in the XDP program alone.
    pub per_packet: Vec<PerPacket>,
    /// Medians of keys `a/b`: longer keys beside those of 8 bytes.
    pub ratios: BTreeMap<&'static str, f64>,
    /// Whether they are good enough.
    pub gates: BTreeMap<&'static str, Gate>,
}

/// Keys of 8 bytes and so many rows, as a power of two.
const HOT: u32 = 12;
const LARGE: u32 = 20;

impl Report {
    pub(super) fn new(options: &Options, machine: Machine, per_packet: Vec<PerPacket>) -> Self {
        let median = |ask, key_bytes, row_bits| {
            let is = |of: &Case| of.ask == ask && of.key_bytes == key_bytes && of.row_bits == row_bits;
            let found = per_packet.iter().find(|found| is(&found.case));
            found.map(|found| found.median_ns)
        };
        let mut ratios = BTreeMap::new();
        for (key, ask, key_bytes) in [
            ("get key_24/key_8", Ask::Get, 24),
            ("get key_64/key_8", Ask::Get, 64),
            ("scan8 key_24/key_8", Ask::Scan8, 24),
            ("scan8 key_64/key_8", Ask::Scan8, 64),
        ] {
            if let (Some(long), Some(short)) = (median(ask, key_bytes, HOT), median(ask, 8, HOT)) {
                ratios.insert(key, long / short);
            }
        }
        let longest = |short: &str, long: &str| {
            let pair = ratios.get(short).zip(ratios.get(long));
            pair.map(|(get, scan)| get.max(*scan))
        };
        let row_bytes = per_packet.iter().find(|found| found.case.ask == Ask::Scan8);
        let row_bytes = row_bytes.map(|found| found.case.overhead_bytes() as f64);
        let judged = [
            ("get, ns", median(Ask::Get, 8, HOT), 110.0, None),
            ("scan8, ns", median(Ask::Scan8, 8, HOT), 130.0, None),
            (
                "scan8 of 2^20 rows, ns",
                median(Ask::Scan8, 8, LARGE),
                900.0,
                Some(400.0),
            ),
            (
                "key_24/key_8",
                longest("get key_24/key_8", "scan8 key_24/key_8"),
                1.5,
                None,
            ),
            (
                "key_64/key_8",
                longest("get key_64/key_8", "scan8 key_64/key_8"),
                2.0,
                None,
            ),
            ("bytes of a row beside key and value", row_bytes, 12.0, None),
        ];
        let mut gates: BTreeMap<_, _> = judged
            .into_iter()
            .map(|(key, value, gate, stretch)| (key, Gate::judge(value, AtMost, gate, stretch, true)))
            .collect();
        // Not built yet: said, so that nobody takes them for passed.
        for (key, gate, stretch) in [
            ("get xdp_max/thrift2", 600.0, 1_000.0),
            ("scan8 xdp_max/thrift2", 1_000.0, 2_000.0),
        ] {
            gates.insert(key, Gate::judge(None, AtLeast, gate, Some(stretch), true));
        }
        Self {
            scenario: "column",
            seed: options.seed,
            machine,
            per_packet,
            ratios,
            gates,
        }
    }

    /// What makes the run worthless: nothing, since a reply that is missing ends it.
    pub fn failures(&self) -> Vec<String> {
        Vec::new()
    }

    /// The report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(
            f,
            "column on {}, {} cores, Linux {}, load {:.2}",
            machine.cpu, machine.cores, machine.kernel, machine.load_before
        )?;
        let (ask, keys, rows, median, least, bytes) =
            ("hit", "key bytes", "rows", "median ns", "least", "bytes");
        writeln!(
            f,
            "\n{ask:<8}{keys:>10}{rows:>10}{median:>11}{least:>9}{bytes:>8}"
        )?;
        for found in &self.per_packet {
            let case = found.case;
            let name = match case.ask {
                Ask::Get => "get",
                Ask::Scan8 => "scan8",
            };
            let (median, least) = (found.median_ns, found.min_ns);
            let (keys, rows, bytes) = (case.key_bytes, 1u64 << case.row_bits, found.payload_bytes);
            writeln!(
                f,
                "{name:<8}{keys:>10}{rows:>10}{median:>11.1}{least:>9.1}{bytes:>8}"
            )?;
        }
        write_gates(f, &self.gates)
    }
}
