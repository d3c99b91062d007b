//! Writes `crates/rtl/src/generated.rs` and `docs/rtl-interface.md`.

use crate::emit_axil;
use crate::model::Spec;
use std::fmt::Write;

/// Returns the constants of the host side.
pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "// Generated from spec/*.toml by `cargo run -p lineside-spec`. Do not edit.\n\n\
         //! Commands and registers of the RTL.\n\n",
    );
    let w = &mut out;
    let mut constant = |doc: &str, name: &str, kind: &str, value: String| {
        let _ = writeln!(
            w,
            "/// {}\npub const {}: {kind} = {value};",
            sentence(doc),
            name.to_uppercase()
        );
    };
    for command in &spec.rtl.command {
        let doc = format!("Command `{}`; `spec/rtl.toml` explains it", command.name);
        constant(
            &doc,
            &format!("command_{}", command.name),
            "u32",
            command.code.to_string(),
        );
    }
    let mut at = 0;
    for field in &spec.rtl.field {
        let doc = format!("Offset of the field `{}` in a command, in bytes", field.name);
        constant(
            &doc,
            &format!("command_{}_at", field.name),
            "usize",
            at.to_string(),
        );
        at += field.bytes();
    }
    constant("Bytes of a command", "command_bytes", "usize", at.to_string());
    for register in &spec.rtl.register {
        let doc = format!(
            "Register `{}` of {} bits; `spec/rtl.toml` explains it",
            register.name, register.bits
        );
        constant(
            &doc,
            &format!("register_{}", register.name),
            "u32",
            register.index.to_string(),
        );
        if let Some(count) = register.count {
            let doc = format!("Number of registers `{}`", register.name);
            constant(
                &doc,
                &format!("register_{}_count", register.name),
                "u32",
                count.to_string(),
            );
        }
    }
    for (doc, name, value) in emit_axil::constants(&spec.rtl.axil) {
        constant(&doc, &name, "u32", value);
    }
    for stream in &spec.rtl.stream {
        let mut at = 0;
        for field in &stream.field {
            let doc = format!(
                "Offset of the field `{}` in an entry of `{}`, in bytes",
                field.name, stream.name
            );
            constant(
                &doc,
                &format!("{}_{}_at", stream.name, field.name),
                "usize",
                at.to_string(),
            );
            at += field.bytes();
        }
        let doc = format!("Bytes of an entry of the stream `{}`", stream.name);
        constant(
            &doc,
            &format!("{}_bytes", stream.name),
            "usize",
            stream.bytes().to_string(),
        );
    }
    for (name, service) in &spec.services {
        let answered: Vec<_> = service
            .op
            .iter()
            .filter(|op| op.fast_path.iter().any(|datapath| datapath == "rtl"))
            .map(|op| op.code.to_string())
            .collect();
        if !answered.is_empty() {
            let doc =
                format!("Operations of `{name}` that the RTL answers; it forwards the others to the host");
            let value = format!("&[{}]", answered.join(", "));
            constant(&doc, &format!("{name}_ops_answered"), "&[u8]", value);
        }
    }
    out
}

/// Returns the page with the tables of commands, registers and operations.
pub fn emit_docs(spec: &Spec) -> String {
    let mut out = String::from(
        "# Interface of the RTL\n\n\
         This page is for developers of hosts and of shells for the [FPGA datapath](rtl.md). It is generated from\n\
         `spec/*.toml` by `cargo run -p lineside-spec`.\n\n\
         ## Commands\n\n\
         The host writes the fast-path table, the registers and the addresses of the interface by commands of 64\n\
         bytes. The RTL executes one command in each cycle, in order, and each takes effect as a whole.\n\n\
         | field | type | offset | content |\n|---|---|---|---|\n",
    );
    let w = &mut out;
    let mut at = 0;
    for field in &spec.rtl.field {
        let _ = writeln!(w, "| `{}` | {} | {at} | {} |", field.name, field.kind, field.doc);
        at += field.bytes();
    }
    w.push_str("\nIntegers are little-endian.\n\n| command | `op` | effect |\n|---|---|---|\n");
    for command in &spec.rtl.command {
        let _ = writeln!(w, "| `{}` | {} | {} |", command.name, command.code, command.doc);
    }
    w.push_str("\n## Registers\n\n| register | `index` | bits | content |\n|---|---|---|---|\n");
    for register in &spec.rtl.register {
        let last = register.index + register.count.unwrap_or(1) - 1;
        let index = match register.count {
            Some(_) => format!("{} to {last}", register.index),
            None => last.to_string(),
        };
        let _ = writeln!(
            w,
            "| `{}` | {index} | {} | {} |",
            register.name, register.bits, register.doc
        );
    }
    for stream in &spec.rtl.stream {
        let _ = writeln!(
            w,
            "\n## Stream `{}`\n\n{}\n\n| field | type | offset | content |\n|---|---|---|---|",
            stream.name, stream.doc
        );
        let mut at = 0;
        for field in &stream.field {
            let _ = writeln!(w, "| `{}` | {} | {at} | {} |", field.name, field.kind, field.doc);
            at += field.bytes();
        }
    }
    emit_axil::emit_docs(w, spec);
    w.push_str(
        "\n## Operations by datapath\n\n\
         A datapath may forward to the host what another one answers, but never answers it differently. Operations\n\
         that are not in this table are answered by the host alone, or by the same datapaths as the service.\n\n\
         | service | operation | fast path in |\n|---|---|---|\n",
    );
    for (name, service) in &spec.services {
        for op in service.op.iter().filter(|op| !op.fast_path.is_empty()) {
            let _ = writeln!(w, "| `{name}` | `{}` | {} |", op.name, op.fast_path.join(", "));
        }
    }
    out
}

/// Returns a text that begins with a capital letter and ends with a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>());
    format!(
        "{}{}.",
        first.unwrap_or_default(),
        letters.as_str().trim_end_matches('.')
    )
}
