//! Runs every case in its short form. `make soak` runs the long form, `lineside-lab chaos --long`.

use lineside_chaos::{CASES, Scale, Scene};
use lineside_testkit::{binary, skipped};

fn scene() -> Scene {
    Scene {
        program: binary("lineside"),
        seed: 1,
        scale: Scale::Short,
        disk_forgets: false,
    }
}

/// Runs the cases of one attack, and panics at the first fault.
fn run(attack: &str) {
    let cases = CASES.iter().filter(|case| case.attack == attack);
    let (mut ran, scene) = (0, scene());
    for case in cases {
        let report = case.run(&scene);
        ran += 1;
        match &report.skipped {
            Some(why) if report.held() => skipped(format_args!("{attack} {}: {why}", case.target)),
            _ => assert!(report.held(), "{report:#?}"),
        }
    }
    assert!(ran > 0, "there is no attack {attack}");
}

#[test]
fn a_change_acknowledged_before_a_kill_is_present_exactly_once() {
    run("kill");
}

#[test]
fn malformed_datagrams_do_not_affect_an_honest_client() {
    run("datagrams");
}

#[test]
fn an_honest_client_is_answered_during_forged_requests() {
    run("forged");
}

#[test]
fn no_attack_makes_a_daemon_use_more_than_512_mib() {
    run("memory");
}

#[test]
fn a_full_disk_loses_no_acknowledged_change() {
    run("full");
}

#[test]
fn a_disk_that_loses_acknowledged_writes_is_detected() {
    let scene = Scene {
        disk_forgets: true,
        ..scene()
    };
    for target in ["transfer", "column", "fabric", "hybrid"] {
        let case = CASES
            .iter()
            .find(|case| (case.attack, case.target) == ("kill", target));
        let report = case.expect("the case exists").run(&scene);
        assert!(
            !report.held(),
            "the case found no fault on the broken disk: {report:#?}"
        );
    }
}
