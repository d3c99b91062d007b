//! Rules for the systemd unit packaging/lineside.service: systemd rates its exposure with at most 2.0, and it has the
//! settings that the tests of the packages depend on.

mod common;

use common::root;
use std::path::Path;
use std::process::Command;

/// Maximum exposure in tenths, in the form that `systemd-analyze --threshold` accepts.
const EXPOSURE_MAX: &str = "20";

/// Returns true if the exposure of a unit is at most [`EXPOSURE_MAX`]. Returns `None` if systemd-analyze 250 or newer
/// is missing.
fn is_closed(unit: &Path) -> Option<bool> {
    let output = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(format!("--threshold={EXPOSURE_MAX}"))
        .arg(unit)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.contains("Overall exposure level")
        .then(|| output.status.success())
}

#[test]
fn the_exposure_of_the_unit_is_at_most_2() {
    let unit = root().join("packaging/lineside.service");
    let Some(closed) = is_closed(&unit) else {
        eprintln!("skipped: no systemd-analyze with `security --offline`");
        return;
    };
    assert!(
        closed,
        "systemd-analyze security --offline=true {}",
        unit.display()
    );
    // The exposure is close to the limit: if one setting is removed, it is above the limit.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("open-unit");
    std::fs::create_dir_all(&folder).expect("a folder");
    let open = folder.join("lineside.service");
    let text = std::fs::read_to_string(&unit).expect("the unit");
    std::fs::write(
        &open,
        text.replace("NoNewPrivileges=yes\n", "")
            .replace("PrivateTmp=yes\n", ""),
    )
    .expect("written");
    assert_eq!(is_closed(&open), Some(false));
}

#[test]
fn the_unit_has_a_watchdog_and_does_not_restart_after_a_wrong_configuration() {
    let text = std::fs::read_to_string(root().join("packaging/lineside.service")).expect("the unit");
    for line in [
        "Type=notify",
        "WatchdogSec=60",
        "Restart=on-failure",
        "RestartPreventExitStatus=2",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}
