//! Writes the generated files of `clients/go`: layouts and constants, status codes, and the codes of operations.

use crate::model::{Code, Spec, Struct, camel};
use std::fmt::Write;

/// Services that the Go module has a package for.
const SERVICES: [&str; 4] = ["spv", "transfer", "column", "hybrid"];
const NOTICE: &str = "// Code generated from spec/*.toml by `cargo run -p lineside-spec`. DO NOT EDIT.\n\n";

/// Returns the paths of the files and their text.
pub fn emit(spec: &Spec) -> Vec<(String, String)> {
    let mut files = vec![
        ("clients/go/internal/layout/layout.go".to_owned(), layouts(spec)),
        (
            "clients/go/status.go".to_owned(),
            codes(
                "lineside",
                "Status",
                "Status is the status code of a native reply.",
                &spec.common.status,
                &[],
            ),
        ),
    ];
    for (name, service) in &spec.services {
        if ["transfer", "hybrid"].contains(&name.as_str()) {
            let doc = format!("Code is the outcome of one operation of {name}.");
            files.push((
                format!("clients/go/{name}/code.go"),
                codes(name, "Code", &doc, &service.code, &service.client_code),
            ));
        }
    }
    files
}

fn layouts(spec: &Spec) -> String {
    let mut out = format!(
        "{NOTICE}// Package layout has the constants and the fixed layouts of Lineside's wire formats.\n\
         package layout\n\nimport \"encoding/binary\"\n"
    );
    let w = &mut out;
    let native = &spec.common.native;
    constant(
        w,
        "First field of a native packet.",
        "NativeMagic",
        format!("{:#06x}", native.magic),
    );
    constant(
        w,
        "Version of the native format.",
        "NativeVersion",
        native.version,
    );
    constant(
        w,
        "Bit that is set in the operation of replies.",
        "NativeReplyBit",
        format!("{:#04x}", native.reply_bit),
    );
    for service in &spec.common.service {
        if SERVICES.contains(&service.name.as_str()) {
            let doc = format!("UDP port of {}.", service.name);
            constant(w, &doc, &format!("{}Port", camel(&service.name)), service.port);
        }
    }
    message(w, "NativeHeader", "Header of every native packet.", &native.field);
    for (name, service) in &spec.services {
        if !SERVICES.contains(&name.as_str()) {
            continue;
        }
        let prefix = camel(name);
        for item in &service.constant {
            constant(
                w,
                &item.doc,
                &format!("{prefix}{}", camel(&item.name)),
                &item.value,
            );
        }
        for op in &service.op {
            let doc = format!("Operation `{}` of {name}.", op.name);
            constant(w, &doc, &format!("{prefix}Op{}", camel(&op.name)), op.code);
        }
        for Struct { name, doc, field, .. } in &service.message {
            message(w, &camel(name), doc, field);
        }
    }
    out
}

fn constant(w: &mut String, doc: &str, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(w, "\n// {name}: {doc}\nconst {name} = {value}");
}

/// Writes the struct of a message with `Append` and `Decode`.
fn message(w: &mut String, name: &str, doc: &str, fields: &[crate::model::Field]) {
    let bytes: usize = fields.iter().map(crate::model::Field::bytes).sum();
    let _ = writeln!(
        w,
        "\n// {name}Bytes is the number of bytes of a {name}.\nconst {name}Bytes = {bytes}\n\n\
         // {name}: {doc}\ntype {name} struct {{"
    );
    let (mut append, mut decode, mut offset) = (String::new(), String::new(), 0);
    for field in fields {
        let own = camel(&field.name);
        let end = offset + field.bytes();
        let kind = match field.kind.as_str() {
            "u8" => {
                let _ = writeln!(append, "\tb = append(b, m.{own})");
                let _ = writeln!(decode, "\tm.{own} = b[{offset}]");
                "uint8".to_owned()
            }
            "be16" | "be32" | "be64" => {
                let bits = &field.kind[2..];
                let _ = writeln!(append, "\tb = binary.BigEndian.AppendUint{bits}(b, m.{own})");
                let _ = writeln!(decode, "\tm.{own} = binary.BigEndian.Uint{bits}(b[{offset}:])");
                format!("uint{bits}")
            }
            "b16" | "b32" | "b80" => {
                let _ = writeln!(append, "\tb = append(b, m.{own}[:]...)");
                let _ = writeln!(decode, "\tcopy(m.{own}[:], b[{offset}:{end}])");
                format!("[{}]byte", field.bytes())
            }
            other => panic!("spec: {other} cannot be in a message"),
        };
        let _ = writeln!(w, "\t// {own}: {}\n\t{own} {kind}", field.doc);
        offset = end;
    }
    let _ = writeln!(
        w,
        "}}\n\n// Append appends the encoding of m to b.\nfunc (m *{name}) Append(b []byte) []byte {{\n{append}\
         \treturn b\n}}\n\n// Decode reads m from the first {name}Bytes bytes of b.\n\
         func (m *{name}) Decode(b []byte) {{\n\t_ = b[{name}Bytes-1]\n{decode}}}"
    );
}

/// Returns a file with a type of codes, their names and their meanings. No server sends the codes in `of_client`.
fn codes(package: &str, name: &str, doc: &str, codes: &[Code], of_client: &[Code]) -> String {
    let mut out = format!(
        "{NOTICE}package {package}\n\nimport \"strconv\"\n\n// {doc}\ntype {name} uint16\n\n\
         // Values of {name}.\nconst (\n"
    );
    let w = &mut out;
    let go_name = |code: &Code| match code.name.as_str() {
        "ok" => format!("{name}OK"),
        other => format!("{name}{}", camel(other)),
    };
    for code in codes {
        let own = go_name(code);
        let _ = writeln!(w, "\t// {own}: {}.\n\t{own} {name} = {}", code.doc, code.code);
    }
    if !of_client.is_empty() {
        let _ = writeln!(w, ")\n\n// Values of {name} that no server sends.\nconst (");
    }
    for code in of_client {
        let own = go_name(code);
        let _ = writeln!(w, "\t// {own}: {}.\n\t{own} {name} = {:#x}", code.doc, code.code);
    }
    let receiver = name.to_lowercase().remove(0);
    for (method, method_doc, is_name) in [
        (
            "String",
            "returns the name of the code, which does not change between versions",
            true,
        ),
        ("Meaning", "returns the meaning of the code in words", false),
    ] {
        let opening = if is_name { ")\n\n" } else { "\n" };
        let _ = writeln!(
            w,
            "{opening}// {method} {method_doc}.\nfunc ({receiver} {name}) {method}() string {{\n\tswitch {receiver} {{"
        );
        for code in codes.iter().chain(of_client) {
            let text = if is_name { &code.name } else { &code.doc };
            let _ = writeln!(w, "\tcase {}:\n\t\treturn {text:?}", go_name(code));
        }
        let _ = writeln!(w, "\t}}\n\treturn \"code \" + strconv.Itoa(int({receiver}))\n}}");
    }
    out
}
