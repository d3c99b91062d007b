//! Writes `docs/wire-formats.md` and `docs/metrics.md`.

use crate::model::{Field, Service, Spec};
use std::fmt::Write;

pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "# Wire formats\n\n\
         This page is for developers of clients and of packet decoders. It lists the packets of each service, \
         field\n\
         by field, with their operations and codes. It is generated from `spec/*.toml` by\n\
         `cargo run -p lineside-spec`.\n\n\
         Every service has a *native format*, Lineside's own packets, which begin with the native header. A \
         *paper format* is the\n\
         packet of the research paper that a service follows. The *fast path* answers frequent requests from a \
         table in memory;\n\
         the *host*, the thread of the server that owns the data, answers the others. The [glossary](glossary.md) \
         and the pages\n\
         of the services ([spv](spv.md), [transfer](transfer.md), [column](column.md), [fabric](fabric.md), \
         [hybrid](hybrid.md))\n\
         explain the other terms.\n\n\
         In the tables, a name such as `root_reply` is a structure that this page defines; `count` and `depth` \
         are fields of the\n\
         structure before them. The column \"fast path in\" has the [datapaths](glossary.md) whose fast path\n\
         answers an operation; the host answers it elsewhere. `be16`, `be32` and `be64` are unsigned integers of\n\
         2, 4 and 8 bytes. All integers are in network byte order (big-endian). Offsets count from the first byte of\n\
         the structure.\n\n\
         ## Ports\n\n\
         | service | UDP port |\n\
         |---|---|\n",
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
        operations(w, service);
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
        "# Metrics\n\n\
         This page is for operators who collect the metrics of a server. It lists every metric, with its labels \
         and\n\
         its meaning. The console, the HTTP server in the process, serves the metrics at `/metrics` in the \
         formats\n\
         OpenMetrics 1.0 and Prometheus text 0.0.4; [operations.md](operations.md#metrics) describes how to use \
         them.\n\
         The page is generated from `spec/*.toml` by `cargo run -p lineside-spec`.\n\n\
         These words occur in the tables; the [glossary](glossary.md) and the pages of the services explain \
         more.\n\n\
         | word | meaning |\n\
         |---|---|\n\
         | fast path | the part of a service that answers from a table of its own, before other parts see the \
         request |\n\
         | `datapath` | the place where the fast path runs: `socket` (threads in user space), `xdp` (network \
         driver) or `rtl` (simulated FPGA NIC) |\n\
         | host | the thread of the server that owns the data and answers what the fast path cannot |\n\
         | fill, invalidate, evict | write an entry into the table; remove it because it may be wrong; remove it \
         for space |\n\
         | lease | the right to answer from the table until a certain time; the host renews it |\n\
         | native | in Lineside's own packet format; other packets are in the format of a research paper |\n\
         | journal | the write-ahead log of data that Lineside owns; fdatasync makes it durable |\n\
         | session | state of a client on the server, by which a repeated request counts once |\n\
         | line, block (`spv`) | entry of the table for one transaction; block of Bitcoin transactions |\n\
         | TXID (`spv`) | hash that identifies a Bitcoin transaction |\n\
         | ring (`transfer`) | buffer in which the fast path records operations for the journal |\n\
         | sealed block, settlement (`transfer`) | signed block of operations; file for others with such blocks \
         |\n\
         | block (`column`) | group of neighbouring rows in the table, which are invalidated together |\n\
         | server (`column`) | region server of HBase, which announces changes to Lineside |\n\
         | channel (`fabric`) | chain of blocks of Hyperledger Fabric |\n\n\
         Each metric counts a request, packet or event once. A request that XDP or the NIC passes to the socket \
         datapath\n\
         is counted there, with the label `datapath=\"socket\"`; `lineside_xdp_passed_total` and \
         `lineside_rtl_passed_total`\n\
         count them by reason. A histogram has the series `_bucket`, `_sum` and `_count`. Only services with channels \
         have\n\
         the label `channel`. `reason` of `lineside_drops_total` is one of the drops in\n\
         [wire-formats.md](wire-formats.md#drops).\n",
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
    out
}

/// Writes the paper's format and the operations of a service, with the datapaths that answer them.
fn operations(w: &mut String, service: &Service) {
    if !service.paper.is_empty() {
        let _ = writeln!(w, "Paper format: {}.\n", service.paper);
    }
    if !service.paper_fast_path.is_empty() {
        let datapaths = service.paper_fast_path.join(", ");
        let _ = writeln!(w, "Fast path of the paper's format in: {datapaths}.\n");
    }
    let has_fast_path = service.fast_path().next().is_some();
    let (column, line) = match has_fast_path {
        true => (" fast path in |", "---|"),
        false => ("", ""),
    };
    let _ = writeln!(
        w,
        "| operation | code |{column} request | reply |\n|---|---|{line}---|---|"
    );
    for op in &service.op {
        let datapaths = match (has_fast_path, op.fast_path.as_slice()) {
            (false, _) => String::new(),
            (true, []) => " none |".to_owned(),
            (true, datapaths) => format!(" {} |", datapaths.join(", ")),
        };
        let _ = writeln!(
            w,
            "| `{}` | {} |{datapaths} {} | `{}` |",
            op.name, op.code, op.request, op.reply
        );
    }
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
