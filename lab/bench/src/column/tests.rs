use super::per_packet::{CASES, PerPacket};
use super::report::Measured;
use super::{Options, Report};
use crate::gate::Outcome;
use crate::machine::Machine;

fn report(ns: impl Fn(usize) -> f64) -> Report {
    let found = CASES.iter().enumerate().map(|(number, case)| PerPacket {
        case: *case,
        min_ns: 1.0,
        median_ns: ns(number),
        rewriting_ns: 1.0,
        payload_bytes: 96,
        calls: 1,
    });
    let measured = Measured {
        per_packet: found.collect(),
        ..Measured::default()
    };
    Report::new(&Options::default(), Machine::read(), measured)
}

#[test]
fn each_gate_judges_its_own_case() {
    let outcome = |report: &Report, key| report.checks.gates[key].outcome;
    let fast = report(|_| 100.0);
    for (key, gate) in &fast.checks.gates {
        let wanted = match *key {
            "scan8 of 2^20 rows, ns" => Outcome::Stretch,
            "verified instructions" | "puts told/untold" => Outcome::NotMeasured,
            key if key.contains("thrift2") || key.contains("socket") => Outcome::NotMeasured,
            _ => Outcome::Passed,
        };
        assert_eq!(gate.outcome, wanted, "{key}");
    }
    for (case, key, ns) in [
        (0, "get, ns", 111.0),
        (3, "scan8, ns", 131.0),
        (7, "scan8 of 2^20 rows, ns", 901.0),
        (1, "key_24/key_8", 151.0),
        (4, "key_24/key_8", 151.0),
        (2, "key_64/key_8", 201.0),
        (5, "key_64/key_8", 201.0),
    ] {
        let slow = report(|number| if number == case { ns } else { 100.0 });
        assert_eq!(outcome(&slow, key), Outcome::Missed, "{key}");
    }
}
