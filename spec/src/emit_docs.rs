//! Writes `docs/wire-formats.md` and `docs/metrics.md`.

use crate::model::{Field, Spec};
use std::fmt::Write;

pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "# Wire formats\n\nGenerated from `spec/*.toml` by `cargo run -p lineside-spec`. \
         Integers are in network byte order.\n\n\
         ## Ports\n\n| service | UDP port |\n|---|---|\n",
    );
    let common = &spec.common;
    let w = &mut out;
    for service in &common.service {
        let example = if service.example {
            ", an [example](adding-a-service.md)"
        } else {
            ""
        };
        let _ = writeln!(w, "| `{}`{example} | {} |", service.name, service.port);
    }
    let _ = writeln!(
        w,
        "| console (TCP, 127.0.0.1) | {} |\n\n## Native header\n",
        common.console_port
    );
    table(w, &common.native.field);
    w.push_str("\n## Status codes\n\n| code | name | meaning |\n|---|---|---|\n");
    for status in &common.status {
        let _ = writeln!(w, "| {} | `{}` | {} |", status.code, status.name, status.doc);
    }
    w.push_str(
        "\n## Time to live\n\n\
         A native reply is sent with a hop limit of 64. A reply in a paper's format is sent with one hop less than\n\
         its request had on arrival, and at most 64. If an attacker tricks two servers into answering each other,\n\
         the exchange then ends. A request in a paper's format whose reply would have no hop left is dropped\n\
         (`hop_limit`).\n",
    );
    w.push_str(
        "\n## Drops\n\nReasons for which a packet is dropped. Dropped packets are counted and never answered.\n\n\
         | reason | when |\n|---|---|\n",
    );
    for drop in &common.drop {
        let _ = writeln!(w, "| `{}` | {} |", drop.name, drop.doc);
    }
    for (name, service) in &spec.services {
        let _ = writeln!(w, "\n## `{name}`\n");
        if !service.paper.is_empty() {
            let _ = writeln!(w, "Paper format: {}.\n", service.paper);
        }
        let _ = writeln!(w, "| operation | code | request | reply |\n|---|---|---|---|");
        for op in &service.op {
            let _ = writeln!(
                w,
                "| `{}` | {} | {} | `{}` |",
                op.name, op.code, op.request, op.reply
            );
        }
        if !service.code.is_empty() {
            w.push_str("\n| code | name | outcome of an operation |\n|---|---|---|\n");
            for code in &service.code {
                let _ = writeln!(w, "| {} | `{}` | {} |", code.code, code.name, code.doc);
            }
        }
        for message in &service.message {
            let _ = writeln!(
                w,
                "\n### `{}` ({} bytes after the header)\n\n{}\n",
                message.name,
                message.bytes(),
                message.doc
            );
            table(w, &message.field);
        }
    }
    out
}

/// Returns the text of `docs/metrics.md`.
pub fn emit_metrics(spec: &Spec) -> String {
    let mut out = String::from(
        "# Metrics\n\nGenerated from `spec/*.toml` by `cargo run -p lineside-spec`. The console serves them at\n\
         `/metrics` in the formats OpenMetrics 1.0 and Prometheus text 0.0.4; see\n\
         [operations.md](operations.md#metrics).\n\n\
         The sum of a metric over all its labels counts every request, packet or event once. XDP passes\n\
         requests to the socket datapath, which counts them again; a counter of requests that a fast path passes\n\
         on therefore has only the count of the socket datapath, and `lineside_xdp_passed_total` has that of XDP,\n\
         by reason. A histogram has the series `_bucket`, `_sum` and `_count`. Only services with channels have\n\
         the label `channel`.\n",
    );
    let mut section = None;
    for (service, metric) in spec.metrics() {
        if section != Some(service) {
            let title = service.map_or("Process and every service".into(), |name| format!("`{name}`"));
            let _ = writeln!(
                out,
                "\n## {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|"
            );
            section = Some(service);
        }
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            metric.full_name(service),
            metric.kind.name(),
            labels.join(", "),
            metric.help
        );
    }
    let datapaths = "\n`datapath` is where the fast path runs: `socket` or `xdp`. `reason` of \
                     `lineside_drops_total` is one of\nthe drops in \
                     [wire-formats.md](wire-formats.md#drops).\n";
    out + datapaths
}

fn table(w: &mut String, fields: &[Field]) {
    w.push_str("| offset | bytes | field | meaning |\n|---|---|---|---|\n");
    let mut offset = 0;
    for field in fields {
        let _ = writeln!(
            w,
            "| {offset} | {} | `{}` | {} |",
            field.bytes(),
            field.name,
            field.doc
        );
        offset += field.bytes();
    }
}
