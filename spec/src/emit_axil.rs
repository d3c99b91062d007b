//! Writes the AXI4-Lite window of the RTL: constants of the package, constants of the host side, and tables of the page
//! about the interface.

use crate::model::{Axil, Rtl, Spec, camel};
use std::fmt::Write;

/// Writes the addresses, and the functions that know the registers.
pub fn emit_sv(w: &mut String, rtl: &Rtl) {
    let axil = &rtl.axil;
    w.push_str("  // AXI4-Lite window: addresses in bytes.\n");
    for (name, value) in [
        ("AddressBits", axil.address_bits),
        ("Version", axil.version),
        ("RegistersAt", axil.registers_at),
        ("RegisterStride", axil.register_stride),
    ] {
        let _ = writeln!(w, "  localparam int unsigned Axil{name} = {value};");
    }
    let _ = writeln!(
        w,
        "  localparam logic [31:0] AxilIdentity = 32'h{:08x};",
        axil.identity
    );
    for word in &axil.word {
        let name = camel(&word.name);
        let _ = writeln!(w, "  localparam int unsigned Axil{name}At = 'h{:x};", word.at);
        if let Some(words) = word.words {
            let _ = writeln!(w, "  localparam int unsigned Axil{name}Words = {words};");
        }
    }
    for group in &axil.counters {
        let name = camel(&group.group);
        let _ = writeln!(
            w,
            "  localparam int unsigned AxilCounters{name}At = 'h{:x};",
            group.at
        );
    }
    let last = rtl
        .register
        .iter()
        .map(|register| register.index + register.count.unwrap_or(1) - 1);
    let index_bits = u32::BITS - last.max().unwrap_or(1).leading_zeros();
    let widest = rtl.register.iter().map(|register| register.bits).max();
    let _ = writeln!(
        w,
        "  localparam int unsigned RegisterIndexBits = {index_bits};\n  \
         localparam int unsigned RegisterBitsMax = {};\n",
        widest.unwrap_or(0)
    );
    let _ = writeln!(
        w,
        "  // Returns the number of bits of a register; 0 if there is no such register.\n  \
         function automatic logic [8:0] register_bits(input logic [RegisterIndexBits-1:0] index);\n    \
         case (index)"
    );
    for register in &rtl.register {
        let numbers = register.index..register.index + register.count.unwrap_or(1);
        let list: Vec<_> = numbers.map(|number| format!("{index_bits}'d{number}")).collect();
        let _ = writeln!(w, "      {}: return 9'd{};", list.join(", "), register.bits);
    }
    w.push_str("      default: return 9'd0;\n    endcase\n  endfunction\n\n");
    let _ = writeln!(
        w,
        "  // Returns the value of a register after a reset.\n  \
         function automatic logic [31:0] register_reset(input logic [RegisterIndexBits-1:0] index);\n    \
         case (index)"
    );
    for register in &rtl.register {
        if let Some(reset) = register.reset {
            let _ = writeln!(w, "      {index_bits}'d{}: return 32'd{reset};", register.index);
        }
    }
    w.push_str("      default: return 32'd0;\n    endcase\n  endfunction\n\n");
}

/// Returns constants of the host side: description, name, value.
pub fn constants(axil: &Axil) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    let mut add = |doc: String, name: String, value: u32| all.push((doc, name, format!("{value:#x}")));
    add(
        "Value of the AXI4-Lite word `identity`".to_owned(),
        "axil_identity".to_owned(),
        axil.identity,
    );
    for word in &axil.word {
        add(
            format!("Address of the AXI4-Lite word `{}`", word.name),
            format!("axil_{}_at", word.name),
            word.at,
        );
    }
    for group in &axil.counters {
        add(
            format!("Address of the first counter of `{}`", group.group),
            format!("axil_counters_{}_at", group.group),
            group.at,
        );
    }
    add(
        "Address of register 0".to_owned(),
        "axil_registers_at".to_owned(),
        axil.registers_at,
    );
    add(
        "Bytes from one register to the next".to_owned(),
        "axil_register_stride".to_owned(),
        axil.register_stride,
    );
    all
}

/// Writes the section about the window.
pub fn emit_docs(w: &mut String, spec: &Spec) {
    let axil = &spec.rtl.axil;
    let _ = write!(
        w,
        "\n## AXI4-Lite window\n\n\
         The window has {} KiB and words of 32 bits. The pipeline decodes the low {} bits of an address and ignores\n\
         the lowest two. A read or a write of an address that is not in these tables gets the response `SLVERR` and\n\
         has no effect; so does a write to a word that cannot be written, and a write without all four byte\n\
         strobes.\n\n\
         | word | address | access | content |\n|---|---|---|---|\n",
        (1 << axil.address_bits) / 1024,
        axil.address_bits
    );
    for word in &axil.word {
        let last = word.at + 4 * (word.words.unwrap_or(1) - 1);
        let address = if last == word.at {
            format!("{:#05x}", word.at)
        } else {
            format!("{:#05x} to {last:#05x}", word.at)
        };
        let _ = writeln!(
            w,
            "| `{}` | {address} | {} | {} |",
            word.name, word.access, word.doc
        );
    }
    let _ = write!(
        w,
        "\nCounters have 64 bits and can be read only. A NIC has those of `drops` and of its service; the addresses\n\
         of other services get the response `SLVERR`. A read of the low word of a counter or of `clock` keeps the\n\
         high word of the same moment for the next read. A read of a high word gets the response `SLVERR` if the\n\
         last low word that was read is not the one before it.\n\n\
         | counters | address of the low word |\n|---|---|\n"
    );
    for group in &axil.counters {
        let names: Vec<_> = if group.group == "drops" {
            spec.common.drop.iter().map(|drop| drop.name.as_str()).collect()
        } else {
            let service = spec.services.iter().find(|(name, _)| *name == group.group);
            service
                .iter()
                .flat_map(|(_, service)| &service.counter)
                .map(|counter| counter.name.as_str())
                .collect()
        };
        for (number, name) in names.iter().enumerate() {
            let _ = writeln!(
                w,
                "| `{}`: `{name}` | {:#05x} |",
                group.group,
                group.at as usize + 8 * number
            );
        }
    }
    let _ = write!(
        w,
        "\nRegister number `index` of the table of registers is at {:#x} + {} * `index`, the low word first. A write\n\
         to the last word of a register writes the whole register, by a `register` command. The other words are those\n\
         that were written to the same register before it or, if there are none, those of its present value. A write\n\
         is an error while `busy`. A read returns what was written last, also by a command; a register that was not\n\
         written since the reset reads as 0 (`spv_epoch`: 1).\n",
        axil.registers_at, axil.register_stride
    );
}
