//! Test that runs `lineside-lab bench cost --quick` as a user does, and compares the counts and the figures of the
//! report with each other. No figure is compared with a limit of time.

use lineside_testkit::skipped;
use serde_json::Value;
use std::process::Command;

const TRAFFIC: [&str; 3] = ["miss", "foreign_udp", "foreign_tcp"];

/// Returns the report, or `None` if this machine cannot run the bench.
fn report() -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(["--json", "bench", "cost", "--quick"])
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    let reasons = [
        "run it as root",
        "BPF is not allowed here",
        "has no BPF",
        "needs two cores",
    ];
    if !output.status.success()
        && output.stdout.is_empty()
        && let Some(reason) = reasons.iter().find(|reason| said.contains(**reason))
    {
        skipped(format_args!("the bench cannot run here ({reason})"));
        return None;
    }
    assert!(output.status.success(), "{output:?}");
    Some(serde_json::from_slice(&output.stdout).expect("one JSON object"))
}

fn number(value: &Value, name: &str) -> f64 {
    let number = value[name].as_f64();
    number.unwrap_or_else(|| panic!("{name} is {} in {value:#}", value[name]))
}

fn count(value: &Value, name: &str) -> u64 {
    let count = value[name].as_u64();
    count.unwrap_or_else(|| panic!("{name} is {} in {value:#}", value[name]))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let list = value[name].as_array();
    list.unwrap_or_else(|| panic!("{name} is {}", value[name]))
}

/// Every request was answered by its server, every miss was seen by the program, and each program was attached.
fn check_losses(losses: &Value) {
    let counts = &losses["counts"];
    let sent = count(counts, "sent");
    assert!(sent > 0);
    assert_eq!(
        (count(counts, "right"), count(counts, "served")),
        (sent, sent),
        "{counts}"
    );
    assert!(count(counts, "misses_sent") > 0, "{counts}");
    assert_eq!(
        count(counts, "misses_counted"),
        count(counts, "misses_sent"),
        "{counts}"
    );
    assert_eq!(
        (count(counts, "wrong"), count(counts, "hits")),
        (0, 0),
        "{counts}"
    );

    let trips = list(losses, "round_trips");
    assert_eq!(
        trips.len(),
        TRAFFIC.len() * 2,
        "with servers that block and that poll"
    );
    for trip in trips {
        assert!(count(trip, "sent") > 0, "{trip}");
        for figure in ["none_us", "pass_us", "ours_us"] {
            assert!(number(trip, figure) > 0.0, "{trip}");
        }
    }
    let queue = list(losses, "queue");
    assert_eq!(queue.len(), 2, "TCP is not sent as live frames");
    for time in queue {
        assert!(
            number(time, "none_ns") > 0.0 && number(time, "ours_ns") > 0.0,
            "{time}"
        );
        assert_eq!(
            count(time, "sent") % 9,
            0,
            "three rounds of three programs with equal counts"
        );
    }
    let runs = list(losses, "counted_runs");
    assert_eq!(runs.len(), TRAFFIC.len() * 3);
    for run in runs {
        let (served, runs) = (count(run, "served"), count(run, "runs"));
        match run["program"].as_str() {
            Some("none") => assert_eq!(runs, 0, "{run}"),
            _ => assert!(served > 0 && runs >= served, "{run}"),
        }
    }
    for kind in [
        "miss, random",
        "miss, always the same",
        "foreign UDP",
        "foreign TCP",
    ] {
        let time = &losses["program"][kind];
        assert!(
            number(time, "min_ns") <= number(time, "median_ns"),
            "{kind}: {time}"
        );
    }
    for rate in ["none_mb_s", "pass_mb_s", "ours_mb_s"] {
        assert!(number(&losses["bulk"], rate) > 0.0, "{rate}");
    }
}

fn check_neighbour(neighbour: &Value) {
    if let Some(why) = neighbour["Err"].as_str() {
        skipped(format_args!("in part, the neighbour: {why}"));
        return;
    }
    let progresses = list(neighbour, "Ok");
    assert_eq!(progresses.len(), 3 * 2, "contestants, rates");
    for progress in progresses {
        let right = count(progress, "right");
        assert!(right > 0 && right <= count(progress, "sent"), "{progress}");
        assert_eq!(count(progress, "wrong"), 0, "{progress}");
        assert!(number(progress, "progress_percent") > 0.0, "{progress}");
        // The client is an open loop, but never sends more than is due.
        let offered = number(progress, "offered_per_s");
        assert!(count(progress, "sent") > 0 && offered > 0.0, "{progress}");
    }
}

/// The published hit ratio makes the two sides of its equation equal.
fn check_services(services: &Value) {
    assert_eq!(count(services, "lost") + count(services, "faults"), 0);
    let replies = list(services, "replies");
    let bytes: Vec<u64> = replies.iter().map(|replies| count(replies, "bytes")).collect();
    assert_eq!(bytes, [32, 24, 48, 96, 184, 360, 712, 1_416]);
    for replies in replies {
        let (ns, rps) = (number(replies, "xdp_ns"), number(replies, "xdp_rps"));
        assert!((ns * rps / 1e9 - 1.0).abs() < 1e-9, "{replies}");
        let gbit_s = number(replies, "bytes") * 8.0 * rps / 1e9;
        assert!(
            (gbit_s / number(replies, "xdp_gbit_s") - 1.0).abs() < 1e-9,
            "{replies}"
        );
    }
    let paying = list(services, "paying");
    assert_eq!(paying.len(), 4 * 2, "requests, ways to measure");
    for case in paying {
        let [hit, miss, socket] = ["hit_ns", "miss_ns", "socket_ns"].map(|name| number(case, name));
        assert!(hit > 0.0 && miss >= 0.0 && socket > 0.0, "{case}");
        match case["hit_percent"].as_f64() {
            None => assert!(hit >= socket, "{case}"),
            Some(percent) => {
                let ratio = percent / 100.0;
                let mixed = ratio * hit + (1.0 - ratio) * (socket + miss);
                assert!((mixed / socket - 1.0).abs() < 1e-9, "{case}");
            }
        }
    }
    for service in ["spv", "transfer", "column"] {
        assert!(services["misses"][service].is_object(), "{service}");
    }
}

#[test]
fn a_quick_run_is_complete_and_its_counts_agree() {
    let Some(report) = report() else { return };
    assert_eq!(report["scenario"], "cost");
    check_losses(&report["losses"]);
    check_neighbour(&report["neighbour"]);
    check_services(&report["services"]);
    let checks = &report["checks"];
    assert_eq!(count(checks, "lost") + count(checks, "wrong"), 0, "{checks:#}");
    assert!(list(checks, "disagreements").is_empty(), "{checks:#}");
    for key in ["miss, % of a socket round trip", "foreign packet, ns"] {
        assert!(checks["gates"][key]["value"].is_number(), "{key}: {checks:#}");
    }
    for place in [
        "/machine/cpu",
        "/ratios/spv root xdp_max~1socket",
        "/contestants/ours",
        "/contestants/sw",
    ] {
        // Without the threads of the kernel that place the load, there are no figures of `sw`.
        let is_optional = place == "/contestants/sw" && report.pointer("/neighbour/Err").is_some();
        assert!(
            is_optional || report.pointer(place).is_some(),
            "no {place} in {report:#}"
        );
    }
}
