//! Writes `clients/c/lineside_wire.h`: constants and layouts of the native packets of `spv` and `transfer`.

use crate::model::{Field, Spec};
use std::fmt::Write;

/// Services that the C client covers.
const SERVICES: [&str; 2] = ["spv", "transfer"];

pub fn emit(spec: &Spec) -> String {
    let mut out = String::from(
        "/*\n * Generated from spec/ by `cargo run -p lineside-spec`. Do not edit.\n *\n * Constants and layouts of \
         Lineside's native packets. LINESIDE_WIRE_X_BYTES is the number of bytes of a layout X, and\n * \
         LINESIDE_WIRE_X_Y the offset of its field Y. Integers are in network byte order.\n */\n\
         #ifndef LINESIDE_WIRE_H\n#define LINESIDE_WIRE_H\n\n",
    );
    let w = &mut out;
    let native = &spec.common.native;
    define(w, "NATIVE_MAGIC", format!("{:#06x}", native.magic));
    define(w, "NATIVE_VERSION", native.version);
    define(w, "NATIVE_REPLY_BIT", format!("{:#04x}", native.reply_bit));
    layout(
        w,
        "native_header",
        "Header of every native packet.",
        &native.field,
    );
    w.push_str("\n/* Status codes of replies. */\n");
    for status in &spec.common.status {
        define(w, &format!("STATUS_{}", status.name.to_uppercase()), status.code);
    }
    for (name, service) in &spec.services {
        if !SERVICES.contains(&name.as_str()) {
            continue;
        }
        let upper = name.to_uppercase();
        let port = spec.common.service.iter().find(|port| port.name == *name);
        let _ = writeln!(w, "\n/* Constants of `{name}`. */");
        if let Some(port) = port {
            define(w, &format!("{upper}_PORT"), port.port);
        }
        for item in &service.constant {
            define(
                w,
                &format!("{upper}_{}", item.name.to_uppercase()),
                format!("{}u", item.value),
            );
        }
        for op in &service.op {
            define(w, &format!("{upper}_OP_{}", op.name.to_uppercase()), op.code);
        }
        for code in &service.code {
            define(
                w,
                &format!("{upper}_CODE_{}", code.name.to_uppercase()),
                code.code,
            );
        }
        for item in &service.message {
            layout(w, &item.name, &item.doc, &item.field);
        }
    }
    out.push_str("\n#endif\n");
    out
}

fn define(w: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(w, "#define LINESIDE_WIRE_{name} {value}");
}

fn layout(w: &mut String, name: &str, doc: &str, fields: &[Field]) {
    let upper = name.to_uppercase();
    let _ = writeln!(w, "\n/* `{name}`: {doc} */");
    let mut offset = 0;
    for field in fields {
        define(w, &format!("{upper}_{}", field.name.to_uppercase()), offset);
        offset += field.bytes();
    }
    define(w, &format!("{upper}_BYTES"), offset);
}
