//! Rates that follow from the number of signature engines, by arithmetic, and recorded figures of software that
//! validates Fabric's blocks.

use super::packets::ENDORSEMENTS;
use crate::table::{Table, number};
use lineside_bench::fabric::EndToEnd;

/// Numbers of parallel validators of the paper's architectures, each with two engines: 4x2 to 16x2.
pub(super) const VALIDATORS: [u32; 4] = [4, 8, 12, 16];
/// Number of engines of a validator.
const ENGINES: u32 = 2;
/// Time in microseconds of one verification in an engine for any key, and in one for Fabric, at 250 MHz on an Alveo
/// U250. Source: Agrawal, Yang and Javaid, "Efficient FPGA-based ECDSA Verification Engine for Permissioned
/// Blockchains", arXiv 2021.
pub(super) const ENGINE_US: [(&str, f64); 2] = [
    ("general engine, 760 us", 760.0),
    ("engine for Fabric, 368 us", 368.0),
];

/// Returns the number of transactions per second that an architecture's engines allow. A transaction needs one
/// verification for its creator and one for each endorsement.
pub(super) fn engines_tps(validators: u32, engine_us: f64, endorsements: usize) -> f64 {
    let verifications_per_s = f64::from(validators * ENGINES) * 1e6 / engine_us;
    verifications_per_s / (endorsements + 1) as f64
}

/// Returns the number of validators whose engines allow a rate.
pub(super) fn validators_for(tps: f64, engine_us: f64, endorsements: usize) -> f64 {
    (tps / engines_tps(1, engine_us, endorsements)).ceil()
}

/// Returns the table of all architectures, engines and numbers of endorsements.
pub(super) fn table() -> Table {
    let mut table = Table::new(&[
        "architecture",
        "engine_us",
        "endorsements",
        "verifications_per_tx",
        "tps_computed",
    ]);
    for validators in VALIDATORS {
        for (_, engine_us) in ENGINE_US {
            for endorsements in 1..=4 {
                table.push([
                    format!("{validators}x{ENGINES}"),
                    number(engine_us),
                    endorsements.to_string(),
                    (endorsements + 1).to_string(),
                    number(engines_tps(validators, engine_us, endorsements)),
                ]);
            }
        }
    }
    table
}

/// Recorded rate of software.
struct Recorded {
    software: &'static str,
    cores: f64,
    tps: f64,
    source: &'static str,
}

/// Minimum and maximum processor time of a Fabric 3.1.5 peer for a transaction with two endorsements, in microseconds.
/// Source: recorded with the blocks of `docs/fabric-validation.md`; `bench fabric` prints it.
pub(super) const PEER_US: [f64; 2] = [350.0, 530.0];

const RECORDED: [Recorded; 2] = [
    Recorded {
        software: "Fabric-X committer, 1 machine",
        cores: 12.0,
        tps: 15_000.0,
        source: "hyperledger/fabric-rfcs, pull request 63",
    },
    Recorded {
        software: "Fabric-X committer, 16 machines",
        cores: 192.0,
        tps: 150_000.0,
        source: "hyperledger/fabric-rfcs, pull request 63",
    },
];

/// Returns recorded rates of software, and those of Lineside in this run, for each core.
pub(super) fn software(measured: &[EndToEnd], cores: usize) -> Table {
    let mut table = Table::new(&["software", "cores", "tps", "tps_per_core", "source"]);
    let mut push = |software: String, cores: f64, tps: f64, source: &str| {
        table.push([
            software,
            number(cores),
            number(tps),
            number(tps / cores),
            source.to_owned(),
        ]);
    };
    for (name, cpu_us) in ["Fabric 3.1.5 peer, best", "Fabric 3.1.5 peer, worst"]
        .into_iter()
        .zip(PEER_US)
    {
        push(
            name.to_owned(),
            1.0,
            1e6 / cpu_us,
            "computed from its recorded processor time for a transaction, if all cores were always busy",
        );
    }
    for of in RECORDED {
        push(of.software.to_owned(), of.cores, of.tps, of.source);
    }
    for one in measured {
        let name = format!("Lineside, {}, {ENDORSEMENTS} endorsements", one.chaincode);
        push(name, cores as f64, one.tps, "this run");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published rates of the engines are 1,315 and 2,717 verifications per second, so 32 of the faster ones do
    /// 86,944.
    #[test]
    fn rates_follow_from_the_published_rates_of_engines() {
        let all = |validators, us, endorsements| {
            engines_tps(validators, us, endorsements) * (endorsements + 1) as f64 / f64::from(validators * 2)
        };
        for (us, published) in [(760.0, 1_315.0), (368.0, 2_717.0)] {
            for (validators, endorsements) in [(4, 1), (16, 4)] {
                let found = all(validators, us, endorsements);
                assert!((found / published - 1.0).abs() < 1e-3, "{found}");
            }
        }
        assert!((engines_tps(16, 368.0, 2) - 86_944.0 / 3.0).abs() < 20.0);
    }

    #[test]
    fn the_validators_for_a_rate_allow_it_and_one_less_does_not() {
        for endorsements in 1..=4 {
            let count = validators_for(95_600.0, 368.0, endorsements) as u32;
            assert!(engines_tps(count, 368.0, endorsements) >= 95_600.0);
            assert!(engines_tps(count - 1, 368.0, endorsements) < 95_600.0);
        }
        assert_eq!(table().to_csv().lines().count(), 1 + 4 * 2 * 4);
    }

    #[test]
    fn the_table_of_software_has_rates_for_each_core() {
        let csv = software(&[], 2).to_csv();
        assert!(
            csv.contains("Fabric-X committer, 1 machine\",12,15000,1250,"),
            "{csv}"
        );
        assert!(csv.contains("worst\",1,1886.79,1886.79,"), "{csv}");
    }
}
