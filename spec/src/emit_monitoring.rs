//! Writes the alert rules of Prometheus and the Grafana dashboard.

use crate::model::{Alert, Panel, Query, Spec};
use serde_json::{Value, json};
use std::fmt::Write;

/// Number of columns of Grafana's grid.
const GRID_COLUMNS: usize = 24;
const PANEL_COLUMNS: usize = 8;
const PANEL_ROWS: usize = 8;
/// Selector of the jobs and instances that the variables of the dashboard choose.
const SELECT: &str = "job=~\"$job\",instance=~\"$instance\"";

/// Returns the text of `packaging/prometheus/lineside.rules.yml`.
pub fn emit_rules(spec: &Spec) -> String {
    let mut out = String::from(
        "# Alert rules of Prometheus. Generated from spec/ by `cargo run -p lineside-spec`. Do not edit.\n\
         # Put the file into `rule_files` of prometheus.yml. The job of Lineside must be called `lineside`.\ngroups:\n",
    );
    for (section, _, alerts) in sections(spec) {
        if alerts.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  - name: lineside-{section}\n    rules:");
        for alert in alerts {
            let lines = [
                format!("    - alert: {}", alert.name),
                format!("      expr: {}", quoted(&alert.expr)),
                format!("      for: {}", alert.hold),
                format!("      labels:\n          severity: {}", alert.severity),
                format!(
                    "      annotations:\n          summary: {}",
                    quoted(&alert.summary)
                ),
                format!("        description: {}", quoted(&alert.action)),
            ];
            let _ = writeln!(out, "  {}", lines.join("\n  "));
        }
    }
    out
}

/// Returns the text of `packaging/grafana/lineside.json`.
pub fn emit_dashboard(spec: &Spec) -> String {
    let mut panels = Vec::new();
    let (mut id, mut y) = (0, 0);
    let mut next_id = || {
        id += 1;
        id
    };
    for (section, list, _) in sections(spec) {
        if list.is_empty() {
            continue;
        }
        panels.push(json!({
            "id": next_id(), "type": "row", "title": section, "collapsed": false, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": GRID_COLUMNS, "h": 1},
        }));
        y += 1;
        for (index, panel) in list.iter().enumerate() {
            let x = index * PANEL_COLUMNS % GRID_COLUMNS;
            if index > 0 && x == 0 {
                y += PANEL_ROWS;
            }
            panels.push(one_panel(panel, next_id(), x, y));
        }
        y += PANEL_ROWS;
    }
    let variable = |name: &str, query: &str| {
        json!({
            "name": name, "type": "query", "datasource": datasource(), "query": query, "refresh": 2, "sort": 1,
            "includeAll": true, "multi": true, "current": {"text": "All", "value": "$__all"},
        })
    };
    let dashboard = json!({
        "uid": "lineside", "title": "Lineside", "tags": ["lineside"], "schemaVersion": 39, "version": 1,
        "description": "Generated from spec/ by `cargo run -p lineside-spec`.",
        "editable": true, "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
            variable("job", "label_values(lineside_build_info, job)"),
            variable("instance", "label_values(lineside_build_info{job=~\"$job\"}, instance)"),
        ]},
        "panels": panels,
    });
    serde_json::to_string_pretty(&dashboard).expect("JSON") + "\n"
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn one_panel(panel: &Panel, id: u32, x: usize, y: usize) -> Value {
    let target = |(index, query): (usize, &Query)| {
        let letter = char::from(b'A' + index as u8).to_string();
        json!({
            "refId": letter, "datasource": datasource(),
            "expr": query.expr.replace("$SELECT", SELECT), "legendFormat": query.legend,
        })
    };
    let targets: Vec<Value> = panel.query.iter().enumerate().map(target).collect();
    json!({
        "id": id, "type": "timeseries", "title": panel.title, "datasource": datasource(), "targets": targets,
        "gridPos": {"x": x, "y": y, "w": PANEL_COLUMNS, "h": PANEL_ROWS},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
    })
}

/// Returns the panels and alerts of the process and of each service, with their names.
fn sections(spec: &Spec) -> Vec<(&str, &[Panel], &[Alert])> {
    let process = ("process", &spec.common.panel[..], &spec.common.alert[..]);
    let services = spec
        .services
        .iter()
        .map(|(name, service)| (name.as_str(), &service.panel[..], &service.alert[..]));
    std::iter::once(process).chain(services).collect()
}

/// Returns the text in double quotes, as a JSON string. YAML reads such a string too.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MetricKind;
    use std::path::Path;

    fn spec() -> Spec {
        Spec::read(Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    /// Returns the names of metrics in an expression of PromQL.
    fn metrics_in(expr: &str) -> Vec<&str> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = expr.split(|c| !is_letter(c));
        let words = words.filter(|word| word.starts_with("lineside_") || word.starts_with("process_"));
        words.collect()
    }

    /// Returns every name that a scrape can have.
    fn names(spec: &Spec) -> Vec<String> {
        let metrics = spec.metrics();
        let all = metrics.iter().flat_map(|(service, metric)| {
            let name = metric.full_name(*service);
            match metric.kind {
                MetricKind::Histogram => ["_bucket", "_sum", "_count"]
                    .map(|suffix| format!("{name}{suffix}"))
                    .to_vec(),
                _ => vec![name],
            }
        });
        all.collect()
    }

    #[test]
    fn rules_and_dashboard_name_only_metrics_that_exist() {
        let spec = spec();
        let known = names(&spec);
        let sections = sections(&spec);
        let alerts = sections.iter().flat_map(|(_, _, alerts)| alerts.iter());
        let panels = sections.iter().flat_map(|(_, panels, _)| panels.iter());
        let queries = panels.flat_map(|panel| &panel.query);
        let expressions: Vec<_> = alerts
            .map(|alert| &alert.expr)
            .chain(queries.map(|query| &query.expr))
            .collect();
        assert!(expressions.len() > 60, "{}", expressions.len());
        for expr in expressions {
            let found = metrics_in(expr);
            assert!(
                !found.is_empty() || expr.starts_with("up"),
                "{expr} names no metric"
            );
            for name in found {
                assert!(known.iter().any(|known| known == name), "{name} in: {expr}");
            }
        }
    }

    /// A counter is useful only as a rate or an increase, and a gauge must not be read as one.
    #[test]
    fn counters_are_read_as_rates_and_gauges_are_not() {
        let spec = spec();
        let metrics = spec.metrics();
        let sections = sections(&spec);
        let alerts = sections.iter().flat_map(|(_, _, alerts)| alerts.iter());
        let panels = sections.iter().flat_map(|(_, panels, _)| panels.iter());
        let queries = panels.flat_map(|panel| &panel.query);
        let queries = queries.map(|query| &query.expr);
        for expr in alerts.map(|alert| &alert.expr).chain(queries) {
            for name in metrics_in(expr) {
                let is_gauge = metrics.iter().any(|(service, metric)| {
                    metric.full_name(*service) == name && metric.kind == MetricKind::Gauge
                });
                let at = expr.find(name).expect("found above");
                let is_rate = ["rate(", "increase("]
                    .iter()
                    .any(|call| expr[..at].ends_with(call));
                assert_eq!(is_rate, !is_gauge, "{name} in: {expr}");
            }
        }
    }

    #[test]
    fn alerts_have_a_name_of_their_own_a_severity_and_something_to_do() {
        let spec = spec();
        let mut seen = Vec::new();
        for alert in sections(&spec).iter().flat_map(|(_, _, alerts)| alerts.iter()) {
            assert!(
                alert.name.starts_with("Lineside") && !seen.contains(&&alert.name),
                "{}",
                alert.name
            );
            assert!(
                ["critical", "warning"].contains(&alert.severity.as_str()),
                "{}",
                alert.name
            );
            assert!(alert.hold.ends_with(['s', 'm', 'h']), "{}", alert.name);
            assert!(
                alert.summary.contains("{{ $labels."),
                "{}: which one?",
                alert.name
            );
            assert!(
                alert.action.len() > 20 && alert.action.ends_with('.'),
                "{}",
                alert.name
            );
            seen.push(&alert.name);
        }
        assert!(seen.len() >= 20);
    }

    #[test]
    fn the_dashboard_has_every_panel_at_a_place_of_its_own() {
        let spec = spec();
        let dashboard: Value = serde_json::from_str(&emit_dashboard(&spec)).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let wanted: usize = sections(&spec).iter().map(|(_, panels, _)| panels.len()).sum();
        let is_row = |panel: &&Value| panel["type"] == "row";
        assert_eq!(panels.iter().filter(|panel| !is_row(panel)).count(), wanted);
        let number = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().expect("a number");
        for (index, one) in panels.iter().enumerate() {
            for other in &panels[..index] {
                let is_apart = |from: &str, size: &str| {
                    number(one, from) >= number(other, from) + number(other, size)
                        || number(other, from) >= number(one, from) + number(one, size)
                };
                assert!(is_apart("x", "w") || is_apart("y", "h"), "{one} {other}");
                assert_ne!(one["id"], other["id"]);
            }
        }
    }
}
