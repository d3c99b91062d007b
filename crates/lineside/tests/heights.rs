//! The height of a chain has one definition: `/status`, `/metrics`, the data of the dashboard and the commands agree.

mod served;

use serde_json::Value;
use served::{Server, ServiceFiles, lineside, text};
use std::time::{Duration, Instant};

/// Maximum time until the dashboard's data, which have one sample a second, have the height of the status.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the body of a page of the console.
fn body(server: &Server, path: &str) -> String {
    let page = server.page(path);
    page.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

fn object(server: &Server, path: &str) -> Value {
    serde_json::from_str(&body(server, path)).expect("JSON")
}

/// Returns the value of the first series whose name begins with `name`.
fn metric(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit_once(' '));
    let (_, value) = value.unwrap_or_else(|| panic!("no {name} in {metrics}"));
    value.parse().expect("a whole number")
}

/// Returns the newest value that the history of the dashboard has for the series `key`, or `None` if the history has
/// no sample or no such series.
fn last(history: &Value, key: &str) -> Option<u64> {
    let series = history["series"].as_array().expect("a list");
    let at = series.iter().position(|one| one["key"] == key)?;
    history["samples"].as_array()?.last()?["values"].get(at)?.as_u64()
}

/// Checks all outputs of a server whose best block has the number `block`, at the height `height`.
fn all_agree(server: &Server, key: &str, name: &str, block: u64, height: u64) {
    let status = object(server, "/status");
    let tip = &status["services"][0]["tip"];
    assert_eq!(
        (&tip["block"], &tip["height"]),
        (&block.into(), &height.into()),
        "{name}"
    );
    let host = &status["services"][0]["host"]["height"];
    assert!(host.is_null() || *host == height, "{name}: {host}");
    assert_eq!(metric(&body(server, "/metrics"), name), height, "{name}");
    let deadline = Instant::now() + PATIENCE;
    while last(&object(server, "/history"), key) != Some(height) {
        let history = object(server, "/history");
        assert!(
            Instant::now() < deadline,
            "{name}: {:?}, not {height}",
            last(&history, key)
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(
        last(&object(server, "/history"), "tip_height"),
        Some(height),
        "{name}"
    );
    let shown = lineside(&["status", "--console", &server.console]);
    let shown = text(&shown);
    let expected = match block == height {
        true => format!(" at height {height}\n"),
        false => format!(", block {block}, at height {height}\n"),
    };
    let hash = tip["hash"].as_str().expect("a hash");
    assert!(
        shown.contains(&format!("  tip     {hash}{expected}")),
        "{name}: {shown}"
    );
}

#[test]
fn status_metrics_dashboard_and_commands_have_one_height() {
    let place = ServiceFiles::new();
    let data = place.path("spv-data");
    place.make_chain(&data);
    let server = place.serve("spv", &data);
    all_agree(&server, "tip_height", "lineside_spv_tip_height", 1, 1);

    // The height of a channel is the number of its blocks, as `peer channel getinfo` counts it.
    let server = place.serve("fabric", &place.path("fabric-data"));
    all_agree(&server, "height", "lineside_fabric_height", 0, 1);

    let server = place.serve("hybrid", &place.path("hybrid-data"));
    all_agree(&server, "height", "lineside_hybrid_height", 0, 0);
    for number in 1..4 {
        server.write(number).expect("a write");
    }
    all_agree(&server, "height", "lineside_hybrid_height", 3, 3);
    let file = |name: &str| place.path(name).display().to_string();
    let (key, genesis) = (file("alice.key"), file("genesis.bin"));
    let words = [
        "--json",
        "hybrid",
        "head",
        "--server",
        &server.address,
        "--key",
        &key,
        "--genesis",
        &genesis,
    ];
    let head: Value = serde_json::from_str(&text(&lineside(&words))).expect("JSON");
    assert_eq!(head["block"], 3, "{head}");
}
