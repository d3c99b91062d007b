//! Writes `clients/python/src/lineside/_generated.py`.

use crate::model::{Code, Field, Service, Spec, Struct, camel};
use std::fmt::Write;

/// Services that the Python client speaks.
const SERVICES: [&str; 4] = ["spv", "transfer", "column", "hybrid"];
/// Maximum length of a line of the file.
const COLUMNS: usize = 120;

pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "\"\"\"Constants and layouts of the wire formats.\n\n\
         Generated from spec/ by `cargo run -p lineside-spec`. Do not edit.\n\"\"\"\n\n\
         from __future__ import annotations\n\n\
         import enum\nfrom struct import Struct\nfrom typing import Final, NamedTuple\n\n\n\
         class Code(enum.IntEnum):\n    \"\"\"Number with a meaning in words.\"\"\"\n\n    \
         meaning: str\n\n    \
         def __new__(cls, value: int, meaning: str = \"\") -> Code:\n        \
         member = int.__new__(cls, value)\n        \
         member._value_ = value\n        \
         member.meaning = meaning\n        \
         return member\n\n",
    );
    let common = &spec.common;
    let w = &mut out;
    let _ = writeln!(w, "\nNATIVE_MAGIC: Final = 0x{:04X}", common.native.magic);
    let _ = writeln!(w, "NATIVE_VERSION: Final = {}", common.native.version);
    let _ = writeln!(w, "NATIVE_REPLY_BIT: Final = 0x{:02X}", common.native.reply_bit);
    let header = "Header of every native packet.";
    layout(w, "native_header", header, &common.native.field);
    codes(w, "Status", "Status of a native reply.", &common.status);
    for (name, service) in spec.services.iter().filter(|(name, _)| is_served(name)) {
        let port = common.service.iter().find(|port| port.name == *name);
        let port = port.map_or(0, |service| service.port);
        let _ = writeln!(w, "\n\n# ---- {name} ----\n");
        comment(
            w,
            "",
            "Default UDP port; that of gRPC is the TCP port with this number.",
        );
        let _ = writeln!(w, "{}_PORT: Final = {port}", name.to_uppercase());
        emit_service(w, name, service);
    }
    out
}

fn is_served(name: &str) -> bool {
    SERVICES.contains(&name)
}

fn emit_service(w: &mut String, name: &str, service: &Service) {
    let upper = name.to_uppercase();
    for item in &service.constant {
        comment(w, "", &item.doc);
        let _ = writeln!(w, "{upper}_{}: Final = {}", item.name.to_uppercase(), item.value);
    }
    for op in &service.op {
        let _ = writeln!(w, "{upper}_OP_{}: Final = {}", op.name.to_uppercase(), op.code);
    }
    if !service.code.is_empty() {
        let doc = format!("Outcome of an operation of `{name}`.");
        codes(w, &camel(&format!("{name}_code")), &doc, &service.code);
    }
    for Struct { name, doc, field, .. } in &service.message {
        layout(w, name, doc, field);
    }
}

fn codes(w: &mut String, name: &str, doc: &str, codes: &[Code]) {
    let _ = writeln!(w, "\n\nclass {name}(Code):\n    \"\"\"{doc}\"\"\"\n");
    for code in codes {
        let meaning = code.doc.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = writeln!(
            w,
            "    {} = {}, \"{meaning}\"",
            code.name.to_uppercase(),
            code.code
        );
    }
}

/// Writes a `Struct`, and a `NamedTuple` of what it unpacks, whose fields are zero by default.
fn layout(w: &mut String, name: &str, doc: &str, fields: &[Field]) {
    let format: String = fields.iter().map(format_of).collect();
    let class = camel(name);
    let _ = writeln!(w, "\n\nclass {class}(NamedTuple):\n    \"\"\"{doc}\"\"\"\n");
    for field in fields {
        comment(w, "    ", &field.doc);
        let kind = if field.kind.starts_with("be") || field.kind == "u8" {
            "int = 0".into()
        } else {
            format!("bytes = bytes({})", field.bytes())
        };
        // A tuple has methods of these names, which the field replaces.
        let ignore = if ["count", "index"].contains(&field.name.as_str()) {
            "  # type: ignore[assignment]"
        } else {
            ""
        };
        let _ = writeln!(w, "    {}: {kind}{ignore}", field.name);
    }
    let _ = writeln!(w, "\n\n{}: Final = Struct(\">{format}\")", name.to_uppercase());
}

/// Returns the character of Python's module `struct` for a field.
fn format_of(field: &Field) -> String {
    match field.kind.as_str() {
        "u8" => "B".into(),
        "be16" => "H".into(),
        "be32" => "I".into(),
        "be64" => "Q".into(),
        kind if kind.starts_with('b') => format!("{}s", field.bytes()),
        kind => panic!(
            "spec: field {} of a message has the type {kind}, which no packet has",
            field.name
        ),
    }
}

/// Writes a comment, in as many lines as it needs.
fn comment(w: &mut String, indent: &str, text: &str) {
    let mut line = format!("{indent}#:");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COLUMNS {
            let _ = writeln!(w, "{line}");
            line = format!("{indent}#:");
        }
        line.push(' ');
        line.push_str(word);
    }
    let _ = writeln!(w, "{line}");
}
