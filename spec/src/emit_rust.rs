//! Writes `crates/wire/src/generated.rs` and the `layout.rs` of the services.

use crate::model::{Code, Field, Named, Service, Spec, Struct, camel};
use std::fmt::Write;

pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "// Generated from spec/*.toml by `cargo run -p lineside-spec`. Do not edit.\n\n\
         use crate::fast_path::{FastPathList, FastPathOp};\n\
         use zerocopy::byteorder::network_endian::{U16, U32, U64};\n\
         use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};\n\n",
    );
    let common = &spec.common;
    let w = &mut out;
    constant(
        w,
        "Default TCP port of the console.",
        "CONSOLE_PORT",
        "u16",
        common.console_port,
    );
    constant(
        w,
        "Magic number in the first field of a native packet.",
        "NATIVE_MAGIC",
        "u16",
        format!("{:#06x}", common.native.magic),
    );
    constant(
        w,
        "Version of the native format.",
        "NATIVE_VERSION",
        "u8",
        common.native.version,
    );
    constant(
        w,
        "Bit that is set in the field `op` of replies.",
        "NATIVE_REPLY_BIT",
        "u8",
        format!("{:#04x}", common.native.reply_bit),
    );
    for service in &common.service {
        let name = service.name.to_uppercase();
        constant(
            w,
            &format!("UDP port of `{}`.", service.name),
            &format!("{name}_PORT"),
            "u16",
            service.port,
        );
        let doc = format!("Slot of `{}` in the program array.", service.name);
        constant(w, &doc, &format!("{name}_SLOT"), "u32", service.slot);
    }
    let ports: Vec<_> = common
        .daemon_services()
        .map(|service| service.port.to_string())
        .collect();
    let list = format!("[{}]", ports.join(", "));
    constant(
        w,
        "Ports of all services.",
        "SERVICE_PORTS",
        &format!("[u16; {}]", ports.len()),
        list,
    );
    message(
        w,
        &Struct {
            name: "native_header".into(),
            doc: "Header of every native packet.".into(),
            size: Some(16),
            field: common.native.field.iter().map(copy).collect(),
        },
    );
    codes(w, "Status", "Status codes of native replies.", &common.status);
    list_of(
        w,
        "DropReason",
        "Reason for which a fast path drops a packet.",
        &common.drop,
    );
    for (name, service) in &spec.services {
        let upper = name.to_uppercase();
        for item in &service.constant {
            let name = format!("{upper}_{}", item.name.to_uppercase());
            constant(w, &item.doc, &name, &item.kind, &item.value);
        }
        for op in &service.op {
            let doc = format!(
                "Code of the operation `{}` of `{name}`; docs/wire-formats.md describes it.",
                op.name
            );
            constant(
                w,
                &doc,
                &format!("{upper}_OP_{}", op.name.to_uppercase()),
                "u8",
                op.code,
            );
        }
        fast_path(w, name, service);
        if !service.code.is_empty() {
            let doc = format!("Outcome of one operation of `{name}`.");
            codes(w, &format!("{}Code", camel(name)), &doc, &service.code);
        }
        service.message.iter().for_each(|layout| message(w, layout));
        if !service.counter.is_empty() {
            let doc = format!("Counters of the fast path of `{name}`.");
            list_of(w, &format!("{}Counter", camel(name)), &doc, &service.counter);
        }
    }
    metrics(w, spec);
    out
}

/// Writes the list of the requests that the fast path of a service answers.
fn fast_path(w: &mut String, name: &str, service: &Service) {
    if service.fast_path().next().is_none() {
        return;
    }
    let ops = service.fast_path().filter_map(|(op, datapaths)| {
        let op = op?;
        Some(format!(
            "FastPathOp {{ name: {:?}, code: {}, datapaths: &{datapaths:?} }}",
            op.name, op.code
        ))
    });
    let ops: Vec<_> = ops.collect();
    let value = format!(
        "FastPathList {{\n    paper: &{:?},\n    ops: &[\n        {},\n    ],\n}}",
        service.paper_fast_path,
        ops.join(",\n        ")
    );
    constant(
        w,
        &format!("Requests of `{name}` that its fast path answers, by datapath."),
        &format!("{}_FAST_PATH", name.to_uppercase()),
        "FastPathList",
        value,
    );
}

fn metrics(w: &mut String, spec: &Spec) {
    w.push_str(
        "/// All metrics, each as a constant.\npub mod metric {\n    use crate::{Metric, MetricKind};\n\n",
    );
    let mut names = Vec::new();
    for (service, metric) in spec.metrics() {
        let key = metric.key();
        let name = match service {
            Some(service) => format!("{service}_{key}").to_uppercase(),
            None => key.to_uppercase(),
        };
        let kind = camel(metric.kind.name());
        let _ = writeln!(
            w,
            "    /// {}\n    pub const {name}: Metric = Metric {{\n        name: {:?},\n        key: {key:?},\n        \
             service: {service:?},\n        kind: MetricKind::{kind},\n        unit: {:?},\n        \
             labels: &{:?},\n        passes: {},\n        help: {:?},\n    }};",
            metric.help,
            metric.full_name(service),
            metric.unit,
            metric.labels,
            metric.passes,
            metric.help
        );
        assert!(!names.contains(&name), "spec: two metrics are called {name}");
        names.push(name);
    }
    let _ = writeln!(
        w,
        "\n    /// All metrics, in the order of spec/.\n    pub const ALL: [&Metric; {}] = [",
        names.len()
    );
    for name in names {
        let _ = writeln!(w, "        &{name},");
    }
    w.push_str("    ];\n}\n");
}

fn copy(field: &crate::model::Field) -> crate::model::Field {
    crate::model::Field {
        name: field.name.clone(),
        kind: field.kind.clone(),
        doc: field.doc.clone(),
    }
}

fn constant(w: &mut String, doc: &str, name: &str, kind: &str, value: impl std::fmt::Display) {
    let _ = writeln!(w, "/// {doc}\npub const {name}: {kind} = {value};\n");
}

fn message(w: &mut String, layout: &Struct) {
    let name = camel(&layout.name);
    let _ = writeln!(
        w,
        "/// {}\n///\n/// Size: {} bytes. Integers are in network byte order.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]\n\
         #[repr(C)]\npub struct {name} {{",
        layout.doc,
        layout.bytes()
    );
    for field in &layout.field {
        let kind = match field.kind.as_str() {
            "u8" => "u8",
            "be16" => "U16",
            "be32" => "U32",
            "be64" => "U64",
            "b16" => "[u8; 16]",
            "b32" => "[u8; 32]",
            "b80" => "[u8; 80]",
            other => panic!("spec: {other} cannot be in a message"),
        };
        let _ = writeln!(w, "    /// {}\n    pub {}: {kind},", field.doc, field.name);
    }
    let _ = writeln!(
        w,
        "}}\n\nconst _: () = assert!(size_of::<{name}>() == {});\n",
        layout.bytes()
    );
}

/// Returns `layout.rs` of a service's crate: the layouts of its fast-path table.
pub fn emit_layouts(name: &str, layouts: &[Struct]) -> String {
    let mut out = format!(
        "// Generated from spec/{name}.toml by `cargo run -p lineside-spec`. Do not edit.\n\n\
         //! Layouts of the fast-path table of `{name}`, in memory that threads, processes and XDP share.\n\n\
         use lineside_fastpath::memory::Shared;\n"
    );
    let has = |bits: &str| {
        let mut fields = layouts.iter().flat_map(|layout| &layout.field);
        fields.any(|field| atomic(field).contains(bits))
    };
    let words: Vec<_> = ["AtomicU32", "AtomicU64"]
        .into_iter()
        .filter(|word| has(word))
        .collect();
    let _ = match words[..] {
        [word] => writeln!(out, "use core::sync::atomic::{word};\n"),
        _ => writeln!(out, "use core::sync::atomic::{{{}}};\n", words.join(", ")),
    };
    layouts.iter().for_each(|layout| shared(&mut out, layout));
    out
}

/// Returns the type of a field of shared memory.
fn atomic(field: &Field) -> String {
    match field.kind.as_str() {
        "u32" => "AtomicU32".to_owned(),
        "u64" => "AtomicU64".to_owned(),
        _ => match field.array() {
            Some((bits, count)) => format!("[AtomicU{bits}; {count}]"),
            None => format!("[AtomicU64; {}]", field.bytes() / 8),
        },
    }
}

fn shared(w: &mut String, layout: &Struct) {
    let name = camel(&layout.name);
    let size = layout.bytes();
    let _ = writeln!(
        w,
        "/// {}\n#[repr(C)]\n#[derive(Debug)]\npub struct {name} {{",
        layout.doc
    );
    for field in &layout.field {
        let kind = atomic(field);
        let _ = writeln!(w, "    /// {}\n    pub {}: {kind},", field.doc, field.name);
    }
    let _ = writeln!(w, "}}\n\nconst _: () = assert!(size_of::<{name}>() == {size});\n");
    let _ = writeln!(
        w,
        "// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it\n\
         // has no padding.\n\
         unsafe impl Shared for {name} {{}}\n"
    );
}

fn codes(w: &mut String, name: &str, doc: &str, codes: &[Code]) {
    let _ = writeln!(
        w,
        "/// {doc}\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n#[repr(u16)]\npub enum {name} {{"
    );
    for code in codes {
        let _ = writeln!(
            w,
            "    /// {}\n    {} = {},",
            code.doc,
            camel(&code.name),
            code.code
        );
    }
    let _ = writeln!(
        w,
        "}}\n\nimpl {name} {{\n    /// Returns the value with this number; `None` if the number is unknown.\n    \
         pub const fn from_code(code: u16) -> Option<Self> {{\n        match code {{"
    );
    for code in codes {
        let _ = writeln!(
            w,
            "            {} => Some(Self::{}),",
            code.code,
            camel(&code.name)
        );
    }
    w.push_str(
        "            _ => None,\n        }\n    }\n\n    /// Returns a description of the code.\n    \
         pub const fn meaning(self) -> &'static str {\n        match self {\n",
    );
    for code in codes {
        let _ = writeln!(w, "            Self::{} => {:?},", camel(&code.name), code.doc);
    }
    w.push_str(
        "        }\n    }\n\n    /// Returns the name, which stays the same in all versions.\n    \
         pub const fn name(self) -> &'static str {\n        match self {\n",
    );
    for code in codes {
        let _ = writeln!(w, "            Self::{} => {:?},", camel(&code.name), code.name);
    }
    w.push_str("        }\n    }\n}\n\n");
}

fn list_of(w: &mut String, name: &str, doc: &str, items: &[Named]) {
    let _ = writeln!(
        w,
        "/// {doc}\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n#[repr(u32)]\npub enum {name} {{"
    );
    for (index, item) in items.iter().enumerate() {
        let _ = writeln!(w, "    /// {}\n    {} = {index},", item.doc, camel(&item.name));
    }
    let _ = writeln!(
        w,
        "}}\n\nimpl {name} {{\n    /// All values, in the order of their numbers.\n    pub const ALL: [Self; {}] = [",
        items.len()
    );
    for item in items {
        let _ = writeln!(w, "        Self::{},", camel(&item.name));
    }
    w.push_str(
        "    ];\n\n    /// Returns the name in metrics and logs.\n    \
         pub const fn name(self) -> &'static str {\n        match self {\n",
    );
    for item in items {
        let _ = writeln!(w, "            Self::{} => \"{}\",", camel(&item.name), item.name);
    }
    w.push_str("        }\n    }\n}\n\n");
}
