//! Prometheus' own program `promtool` accepts the alert rules and the queries of the dashboard, and the alerts fire as
//! described. If `promtool` (Debian: package `prometheus`) is missing, the tests print that they were skipped.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn packaging(file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging");
    root.join(file).canonicalize().expect(file)
}

/// Runs promtool. Returns `None` and prints a message if promtool is not installed.
fn promtool(arguments: &[&str]) -> Option<Output> {
    match Command::new("promtool").args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: promtool: {error}; Debian has it in the package `prometheus`");
            None
        }
    }
}

/// Writes a file into the folder of this test, and returns its path.
fn written(name: &str, text: &str) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect(name);
    path.display().to_string()
}

fn accepts(output: &Output) {
    assert!(output.status.success(), "{}", said(output));
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn promtool_accepts_the_alert_rules() {
    let rules = packaging("prometheus/lineside.rules.yml");
    if let Some(output) = promtool(&["check", "rules", rules.to_str().expect("UTF-8")]) {
        accepts(&output);
    }
}

#[test]
fn promtool_accepts_the_queries_of_the_dashboard() {
    let text = std::fs::read_to_string(packaging("grafana/lineside.json")).expect("read");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten();
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    let mut queries = 0;
    for target in targets {
        let expr = target["expr"].as_str().expect("an expression");
        let expr = expr.replace("$__rate_interval", "5m");
        rules += &format!(
            "      - record: query:{queries}\n        expr: {}\n",
            Value::from(expr)
        );
        queries += 1;
    }
    assert!(queries > 50, "{queries}");
    let file = written("dashboard.rules.yml", &rules);
    let Some(output) = promtool(&["check", "rules", &file]) else {
        return;
    };
    accepts(&output);
    // This shows that the check can fail: a rule with a syntax error is refused.
    let wrong = written("wrong.rules.yml", &rules.replacen("rate(", "rate((", 1));
    let refused = promtool(&["check", "rules", &wrong]).expect("installed");
    assert!(!refused.status.success());
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    let series = [
        ("up{job=\"lineside\",instance=\"down\"}", "1 0x10"),
        ("lineside_problems{job=\"lineside\",instance=\"well\"}", "0x10"),
        ("lineside_problems{job=\"lineside\",instance=\"sick\"}", "0 2x10"),
        (
            "lineside_queue_full_total{job=\"lineside\",instance=\"a\",service=\"spv\"}",
            "0+600x20",
        ),
        (
            "lineside_queue_full_total{job=\"lineside\",instance=\"b\",service=\"spv\"}",
            "7x20",
        ),
        (
            "lineside_fdatasync_seconds_bucket{instance=\"a\",service=\"transfer\",le=\"0.067108864\"}",
            "0+100x30",
        ),
        (
            "lineside_fdatasync_seconds_bucket{instance=\"a\",service=\"transfer\",le=\"1.073741824\"}",
            "0+200x30",
        ),
        (
            "lineside_fdatasync_seconds_bucket{instance=\"a\",service=\"transfer\",le=\"+Inf\"}",
            "0+200x30",
        ),
    ];
    let series: String = series
        .iter()
        .map(|(series, values)| {
            let series = Value::from(*series);
            format!("      - series: {series}\n        values: '{values}'\n")
        })
        .collect();
    // Each case has a time, the name of an alert, and the instances for which the alert fires at this time.
    let cases: [(&str, &str, &[&str]); 7] = [
        ("30s", "LinesideDown", &[]),
        ("4m", "LinesideDown", &["down"]),
        ("4m", "LinesideProblem", &["sick"]),
        ("1m", "LinesideProblem", &[]),
        ("3m", "LinesideHostQueueFull", &[]),
        ("10m", "LinesideHostQueueFull", &["a"]),
        ("20m", "LinesideSlowDisk", &["a"]),
    ];
    for (time, alert, instances) in cases {
        // promtool compares whole alerts including their texts. The test compares only their names, by a query of
        // ALERTS.
        let samples: String = instances
            .iter()
            .map(|instance| {
                let labels = format!("{{instance=\"{instance}\"}}");
                format!(
                    "          - labels: {}\n            value: 1\n",
                    Value::from(labels)
                )
            })
            .collect();
        let expr = format!("max by (instance) (ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"}})");
        let list = if samples.is_empty() {
            "[]\n".to_owned()
        } else {
            format!("\n{samples}")
        };
        let rules = packaging("prometheus/lineside.rules.yml");
        let test = format!(
            "rule_files: [{}]\nevaluation_interval: 30s\ntests:\n  - interval: 1m\n    input_series:\n{series}    \
             promql_expr_test:\n      - expr: {}\n        eval_time: {time}\n        exp_samples: {list}",
            Value::from(rules.display().to_string()),
            Value::from(expr)
        );
        let file = written(&format!("{alert}-{time}.test.yml"), &test);
        let Some(output) = promtool(&["test", "rules", &file]) else {
            return;
        };
        assert!(output.status.success(), "{alert} at {time}: {}", said(&output));
    }
}
