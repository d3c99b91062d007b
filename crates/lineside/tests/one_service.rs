//! A process with one service: the example of its configuration in `docs/config` is right, and the process allocates no
//! memory for the tables of other services.

use lineside::config::Config;
use lineside::services::SERVICES;
use lineside_testkit::Daemon;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn lineside(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(arguments)
        .output()
        .expect("run")
}

#[test]
fn every_service_has_an_example_that_enables_it_alone() {
    for definition in SERVICES {
        let name = definition.name;
        let file = repository().join(format!("docs/config/{name}.toml"));
        let shown = file.to_str().expect("text");
        let output = lineside(&["check-config", shown]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        assert!(text.ends_with(": ok\n"), "{name}: {text}");
        let config = Config::read(&file).and_then(|config| config.check());
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        let services = config.services.iter();
        let enabled: Vec<_> = services
            .filter(|one| one.service.is_enabled())
            .map(|one| one.name)
            .collect();
        assert_eq!(enabled, [name]);
    }
    let files = fs::read_dir(repository().join("docs/config")).expect("a folder");
    assert_eq!(files.count(), SERVICES.len(), "a file that belongs to no service");
}

/// Starts `lineside run` with these services enabled; their data directories are in `place`.
fn start(place: &TempDir, services: &[&str], config: Option<&Path>) -> Daemon {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(["run", "--datapath", "socket", "--console", "127.0.0.1:0"]);
    if let Some(config) = config {
        command.arg("--config").arg(config);
    }
    let mut set = |value: String| {
        command.arg("--set").arg(value);
    };
    for service in services {
        set(format!("{service}.enabled=true"));
        set(format!("{service}.listen=127.0.0.1:0"));
        if *service != "column" {
            let data = place.path().join(service);
            set(format!("{service}.data={}", data.display()));
        }
    }
    Daemon::start(&mut command).unwrap_or_else(|why| panic!("{services:?}: {why}"))
}

/// Returns the number of bytes of memory that a process has mapped and may write, used or not. A fast-path table is
/// counted completely, although the kernel allocates its pages only when they are used.
fn writable_bytes(daemon: &Daemon) -> u64 {
    let maps = fs::read_to_string(format!("/proc/{}/maps", daemon.child.id())).expect("readable");
    let mapped = maps.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (begin, end) = words.next()?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let bytes = number(end)? - number(begin)?;
        words.next()?.starts_with("rw").then_some(bytes)
    });
    mapped.sum()
}

#[test]
fn a_service_that_is_not_enabled_takes_no_memory() {
    let place = TempDir::new().expect("a folder");
    let chain = place.path().join("spv");
    let made = lineside(&[
        "spv",
        "init",
        "--network",
        "regtest",
        "--data",
        chain.to_str().expect("text"),
    ]);
    assert!(made.status.success(), "{made:?}");
    let all_sections = repository().join("lineside.toml");
    for service in ["column", "transfer", "spv"] {
        let alone = writable_bytes(&start(&place, &[service], None));
        // All five services have a section here, and one of them is enabled.
        let among_others = writable_bytes(&start(&place, &[service], Some(&all_sections)));
        assert!(
            among_others.abs_diff(alone) < 4 * MIB,
            "{service}: {alone} bytes alone, {among_others} with the sections of the others"
        );
    }
    // This shows that the measurement includes tables: the table of `spv` has 2^22 lines of 64 bytes.
    let column = writable_bytes(&start(&place, &["column"], None));
    let both = writable_bytes(&start(&place, &["column", "spv"], None));
    assert!(both > column + 256 * MIB, "{column} bytes, {both} with `spv`");
}
