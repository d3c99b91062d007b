//! Writes `rtl/common/ls_pkg.sv`.

use crate::emit_axil;
use crate::model::{Common, Field, Rtl, Service, Spec, camel};
use std::fmt::Write;

/// Services that the RTL answers.
const SERVICES: [&str; 2] = ["spv", "transfer"];

pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "// SPDX-License-Identifier: Apache-2.0\n\
         // Generated from spec/ by `cargo run -p lineside-spec`. Do not edit.\n//\n\
         // Constants of the wire formats, counters, and the registers and commands of the RTL.\n\n\
         package ls_pkg;\n\n",
    );
    let w = &mut out;
    emit_native(w, &spec.common);
    emit_statuses(w, &spec.common);
    emit_commands(w, &spec.rtl);
    emit_axil::emit_sv(w, &spec.rtl);
    for (name, service) in spec
        .services
        .iter()
        .filter(|(name, _)| SERVICES.contains(&name.as_str()))
    {
        let port = spec.common.service.iter().find(|port| port.name == *name);
        emit_service(w, name, port.map_or(0, |port| port.port), service);
    }
    w.push_str("endpackage\n");
    out
}

fn emit_native(w: &mut String, common: &Common) {
    let native = &common.native;
    let bytes: usize = native.field.iter().map(Field::bytes).sum();
    w.push_str("  // Native format.\n");
    let _ = writeln!(
        w,
        "  localparam logic [15:0] NativeMagic = 16'h{:04x};",
        native.magic
    );
    let _ = writeln!(
        w,
        "  localparam logic [7:0] NativeVersion = 8'h{:02x};",
        native.version
    );
    let _ = writeln!(
        w,
        "  localparam logic [7:0] NativeReplyBit = 8'h{:02x};",
        native.reply_bit
    );
    message(w, "native_header", &native.field, bytes);
    let ports: Vec<_> = common.daemon_services().map(|service| service.port).collect();
    let tests: Vec<_> = ports.iter().map(|port| format!("16'd{port}")).collect();
    let _ = writeln!(
        w,
        "\n  // Returns 1 for the ports of Lineside services, from which no request is answered.\n  \
         function automatic logic is_service_port(input logic [15:0] port);\n    \
         return port inside {{{}}};\n  endfunction\n",
        tests.join(", ")
    );
    let _ = writeln!(
        w,
        "  localparam int unsigned DropReasons = {};",
        common.drop.len()
    );
    let drops = common
        .drop
        .iter()
        .map(|drop| (drop.name.as_str(), drop.doc.as_str()));
    enumeration(
        w,
        "drop",
        "Reasons for which a packet is dropped.",
        drops.zip(0..),
    );
}

fn emit_statuses(w: &mut String, common: &Common) {
    w.push_str("  // Status codes of native replies.\n");
    for status in &common.status {
        let _ = writeln!(
            w,
            "  localparam logic [15:0] Status{} = 16'd{};",
            camel(&status.name),
            status.code
        );
    }
    w.push('\n');
}

fn emit_commands(w: &mut String, rtl: &Rtl) {
    let commands = rtl
        .command
        .iter()
        .map(|command| ((command.name.as_str(), ""), command.code));
    w.push_str("  // Commands of the host; spec/rtl.toml explains them.\n  typedef enum logic [31:0] {\n");
    let list: Vec<_> = commands
        .map(|((name, _), code)| format!("    Command{} = 32'd{code}", camel(name)))
        .collect();
    let _ = writeln!(w, "{}\n  }} command_e;\n", list.join(",\n"));
    w.push_str("  // Command of the host, 64 bytes. The first field is in the low bits.\n  typedef struct packed {\n");
    for field in rtl.field.iter().rev() {
        let _ = writeln!(w, "    logic [{}:0] {};", 8 * field.bytes() - 1, field.name);
    }
    w.push_str("  } command_t;\n\n  // Registers, written by the command `register`.\n");
    for register in &rtl.register {
        let name = camel(&register.name);
        let _ = writeln!(w, "  // {}", register.doc);
        let _ = writeln!(
            w,
            "  localparam int unsigned Register{name} = {};",
            register.index
        );
        let _ = writeln!(
            w,
            "  localparam int unsigned Register{name}Bits = {};",
            register.bits
        );
        if let Some(count) = register.count {
            let _ = writeln!(w, "  localparam int unsigned Register{name}Count = {count};");
        }
    }
    for stream in &rtl.stream {
        let _ = writeln!(
            w,
            "\n  // Entry of the stream `{}`, {} bytes; spec/rtl.toml explains it. First field in the low bits.\n  \
             typedef struct packed {{",
            stream.name,
            stream.bytes()
        );
        for field in stream.field.iter().rev() {
            let _ = writeln!(w, "    logic [{}:0] {};", 8 * field.bytes() - 1, field.name);
        }
        let _ = writeln!(w, "  }} {}_beats_t;", stream.name);
    }
    w.push('\n');
}

fn emit_service(w: &mut String, name: &str, port: u16, service: &Service) {
    let prefix = camel(name);
    let _ = writeln!(
        w,
        "  // Service `{name}`.\n  localparam logic [15:0] {prefix}Port = 16'd{port};"
    );
    for item in &service.constant {
        let number = item
            .value
            .strip_prefix("0x")
            .map(|digits| format!("32'h{digits}"));
        let _ = writeln!(
            w,
            "  localparam int unsigned {prefix}{} = {};",
            camel(&item.name),
            number.unwrap_or_else(|| item.value.clone())
        );
    }
    for op in &service.op {
        let _ = writeln!(
            w,
            "  localparam logic [7:0] {prefix}Op{} = 8'd{};",
            camel(&op.name),
            op.code
        );
    }
    for code in &service.code {
        let _ = writeln!(
            w,
            "  localparam int unsigned {prefix}Code{} = {};",
            camel(&code.name),
            code.code
        );
    }
    let _ = writeln!(
        w,
        "  localparam int unsigned {prefix}Counters = {};",
        service.counter.len()
    );
    let counters = service
        .counter
        .iter()
        .map(|counter| (counter.name.as_str(), counter.doc.as_str()));
    enumeration(
        w,
        &format!("{name}_counter"),
        "Counters of the fast path.",
        counters.zip(0..),
    );
    for structure in &service.message {
        message(w, &structure.name, &structure.field, structure.bytes());
    }
    w.push('\n');
}

/// Writes the size of a message and the offset of each of its fields, in bytes.
fn message(w: &mut String, name: &str, fields: &[Field], bytes: usize) {
    let name = camel(name);
    let _ = writeln!(w, "  localparam int unsigned {name}Bytes = {bytes};");
    let mut at = 0;
    for field in fields {
        let _ = writeln!(
            w,
            "  localparam int unsigned {name}{}At = {at};",
            camel(&field.name)
        );
        at += field.bytes();
    }
}

/// Writes an enumeration whose values count up from 0, with one comment for each value.
fn enumeration<'a>(
    w: &mut String,
    name: &str,
    doc: &str,
    items: impl Iterator<Item = ((&'a str, &'a str), u32)>,
) {
    let items: Vec<_> = items.collect();
    let bits = (usize::BITS - items.len().saturating_sub(1).leading_zeros()).max(1);
    let _ = writeln!(w, "  // {doc}\n  typedef enum logic [{}:0] {{", bits - 1);
    for ((item, meaning), value) in &items {
        let comma = if *value as usize + 1 < items.len() {
            ","
        } else {
            ""
        };
        let _ = writeln!(
            w,
            "    // {meaning}\n    {}{} = {bits}'d{value}{comma}",
            camel(name),
            camel(item)
        );
    }
    let _ = writeln!(w, "  }} {name}_e;\n");
}
