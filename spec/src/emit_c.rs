//! Writes `xdp/generated.h`.

use crate::model::{Common, Spec, Struct};
use std::fmt::Write;

pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only\n\
         /* Generated from spec/ by `cargo run -p lineside-spec`. Do not edit. */\n#pragma once\n\n",
    );
    let common = &spec.common;
    let w = &mut out;
    let _ = writeln!(w, "#define LS_NATIVE_MAGIC {:#06x}", common.native.magic);
    let _ = writeln!(w, "#define LS_NATIVE_VERSION {}", common.native.version);
    let _ = writeln!(w, "#define LS_NATIVE_REPLY_BIT {:#04x}", common.native.reply_bit);
    for service in &common.service {
        let name = service.name.to_uppercase();
        let _ = writeln!(
            w,
            "#define LS_{name}_PORT {}\n#define LS_{name}_SLOT {}",
            service.port, service.slot
        );
    }
    let _ = writeln!(w, "#define LS_IS_SERVICE_PORT(X) ({})\n", port_ranges(common));
    let slots: Vec<_> = common
        .daemon_services()
        .map(|service| format!("X(LS_{}_SLOT)", service.name.to_uppercase()))
        .collect();
    let _ = writeln!(w, "#define LS_FOR_EACH_SLOT(X) {}\n", slots.join(" "));
    enumeration(
        w,
        "ls_status",
        common
            .status
            .iter()
            .map(|status| (&status.name, status.code as usize)),
    );
    enumeration(
        w,
        "ls_drop",
        common
            .drop
            .iter()
            .enumerate()
            .map(|(index, drop)| (&drop.name, index)),
    );
    let _ = writeln!(w, "#define LS_DROPS {}\n", common.drop.len());
    let header = Struct {
        name: "native_header".into(),
        doc: "".into(),
        size: Some(16),
        field: vec![],
    };
    structure(
        w,
        &header.name,
        "Header of every native packet.",
        &common.native.field,
        16,
    );
    for (name, service) in &spec.services {
        let upper = name.to_uppercase();
        for item in &service.constant {
            let _ = writeln!(
                w,
                "#define LS_{upper}_{} {}",
                item.name.to_uppercase(),
                item.value
            );
        }
        for op in &service.op {
            let _ = writeln!(w, "#define LS_{upper}_OP_{} {}", op.name.to_uppercase(), op.code);
        }
        w.push('\n');
        if !service.code.is_empty() {
            let codes = service.code.iter().map(|code| (&code.name, code.code as usize));
            enumeration(w, &format!("ls_{name}_code"), codes);
        }
        // The C code needs no definitions of a service without a fast path.
        if service.counter.is_empty() {
            continue;
        }
        for layout in service.message.iter().chain(&service.layout) {
            structure(w, &layout.name, &layout.doc, &layout.field, layout.bytes());
        }
        if service.counter.is_empty() {
            continue;
        }
        let prefix = format!("ls_{name}_counter");
        enumeration(
            w,
            &prefix,
            service
                .counter
                .iter()
                .enumerate()
                .map(|(index, counter)| (&counter.name, index)),
        );
        let _ = writeln!(w, "#define LS_{upper}_COUNTERS {}\n", service.counter.len());
    }
    out
}

/// Returns a C expression that is true if X is the port of a service: a comparison with both ends of each range of
/// ports.
fn port_ranges(common: &Common) -> String {
    let mut ports: Vec<u16> = common.daemon_services().map(|service| service.port).collect();
    ports.sort_unstable();
    let ranges = ports.chunk_by(|one, next| one + 1 == *next);
    let ranges: Vec<_> = ranges
        .map(|range| format!("((X) >= {} && (X) <= {})", range[0], range[range.len() - 1]))
        .collect();
    ranges.join(" || ")
}

fn enumeration<'a>(w: &mut String, name: &str, items: impl Iterator<Item = (&'a String, usize)>) {
    let _ = writeln!(w, "enum {name} {{");
    for (item, value) in items {
        let _ = writeln!(w, "\t{}_{} = {value},", name.to_uppercase(), item.to_uppercase());
    }
    w.push_str("};\n\n");
}

fn structure(w: &mut String, name: &str, doc: &str, fields: &[crate::model::Field], bytes: usize) {
    let _ = writeln!(w, "/* {doc} */\nstruct ls_{name} {{");
    for field in fields {
        let declaration = match field.kind.as_str() {
            "u8" => format!("__u8 {}", field.name),
            "be16" => format!("__be16 {}", field.name),
            "be32" => format!("__be32 {}", field.name),
            "be64" => format!("__be64 {}", field.name),
            "u32" => format!("__u32 {}", field.name),
            "u64" => format!("__u64 {}", field.name),
            "b16" => format!("__u8 {}[16]", field.name),
            _ => match field.array() {
                Some((bits, count)) => format!("__u{bits} {}[{count}]", field.name),
                None => format!("__u64 {}[{}]", field.name, field.bytes() / 8),
            },
        };
        let _ = writeln!(w, "\t{declaration}; /* {} */", field.doc);
    }
    let _ = writeln!(
        w,
        "}};\n_Static_assert(sizeof(struct ls_{name}) == {bytes}, \"{name}\");\n"
    );
}
