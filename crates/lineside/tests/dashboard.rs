//! The dashboard page in the browser Chromium. One real process runs all services, and clients keep them busy.
//! `scripts/test-dashboard.sh` builds the page and sets LINESIDE_CHROMIUM; `make screenshots` also sets
//! LINESIDE_SCREENSHOTS. Without these variables the tests are skipped.

mod load;
mod replica;
mod served;

use lineside_testkit::netns::Namespace;
use lineside_testkit::{Daemon, skipped};
use load::Load;
use served::ServiceFiles;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Time in seconds for which clients send requests before the screenshots are taken; the charts show the last five
/// minutes.
const SCREENSHOT_LOAD_S: u64 = 305;

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the address that the server printed after `start`.
fn address(daemon: &Daemon, start: &str) -> String {
    let mut lines = daemon.said.iter();
    let rest = lines.find_map(|line| Some(line.split_once(start)?.1));
    let rest = rest.unwrap_or_else(|| panic!("no {start:?} in {:?}", daemon.said));
    rest.split([' ', '/', ',']).next().expect("an address").to_owned()
}

/// Starts `lineside run` with these sections of a configuration.
fn start(place: &ServiceFiles, kind: &str, sections: &[String]) -> Daemon {
    let file = place.path("lineside.toml");
    let text = format!(
        "[console]\nlisten = \"127.0.0.1:0\"\n[datapath]\nkind = \"{kind}\"\nthreads = 1\npin_dir = \
         \"/sys/fs/bpf/lineside-test-dashboard\"\n{}",
        sections.concat()
    );
    std::fs::write(&file, text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(["run", "--config"]).arg(file);
    Daemon::start(&mut command).unwrap_or_else(|why| panic!("{why}"))
}

/// Runs one of the scripts in `dashboard/test` with the address of the console.
fn browser(console: &str, arguments: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboard/test/browser.mjs");
    let url = format!("http://{console}/");
    let status = Command::new("node").arg(script).arg(url).args(arguments).status();
    assert!(
        status.expect("node").success(),
        "browser.mjs {arguments:?} failed"
    );
}

#[test]
fn the_page_shows_every_service_in_a_browser() {
    if environment("LINESIDE_CHROMIUM").is_none() {
        return skipped("scripts/test-dashboard.sh runs it");
    }
    let place = ServiceFiles::new();
    let (_orderer, fabric) = load::channel(&place);
    let data = |service: &str| place.path(&format!("{service}-data"));
    let txids = load::chain(&data("spv"), 2, 64);
    let section = |service: &str| place.section(service, &data(service), "127.0.0.1:0");
    let mut sections: Vec<String> = ["spv", "transfer", "column", "hybrid"].map(section).into();
    sections.push(fabric);
    let daemon = start(&place, "socket", &sections);
    let console = address(&daemon, "console on http://");
    let load = Load::default();
    load.spv(&address(&daemon, "spv on "), txids);
    load.transfer(&address(&daemon, "transfer on "));
    load.column(&address(&daemon, "column on "));
    load.hybrid(&address(&daemon, "hybrid on "), &place);
    browser(
        &console,
        &["check", "spv", "transfer", "column", "hybrid", "fabric-lab"],
    );
    load.stop();
    browser(&console, &["lost", &daemon.child.id().to_string()]);
}

#[test]
fn screenshots_of_the_dashboard_are_written() {
    let Some(folder) = environment("LINESIDE_SCREENSHOTS") else {
        return skipped("`make screenshots` runs it");
    };
    let folder = PathBuf::from(folder);
    // The server runs in a separate network namespace, so that XDP is attached to no interface of the machine.
    match Namespace::new() {
        Some(namespace) => namespace.run(move || screenshots(&folder, "auto")),
        None => screenshots(&folder, "socket"),
    }
}

fn screenshots(folder: &Path, kind: &str) {
    let place = ServiceFiles::new();
    let data = |service: &str| place.path(&format!("{service}-data"));
    let txids = load::chain(&data("spv"), 16, 512);
    let section = |service: &str| {
        let listen = if service == "spv" {
            "127.0.0.1:7701"
        } else {
            "127.0.0.1:7702"
        };
        place.section(service, &data(service), listen)
    };
    let daemon = start(&place, kind, &["spv", "transfer"].map(section));
    let load = Load::default();
    load.spv("127.0.0.1:7701", txids);
    load.transfer("127.0.0.1:7702");
    std::thread::sleep(std::time::Duration::from_secs(SCREENSHOT_LOAD_S));
    let folder = folder.to_str().expect("text");
    browser(&address(&daemon, "console on http://"), &["shots", folder]);
    load.stop();
    daemon.signal(libc::SIGTERM);
}
