//! The paper's service: `controller.Node`, hex strings in and out. What it asks of a node are the same requests as any
//! other; only a database of the paper's mode takes them.

mod client;
pub mod messages;
mod serve;

pub use client::Client;
pub(crate) use serve::PaperService;

use std::fmt::Write;

/// In a status of gRPC: the number of the code that it stands for.
const CODE_HEADER: &str = "lineside-code";

fn to_hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // A string takes everything.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Bytes from twice as many hex digits, of either case.
fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let digit = |at: usize| char::from(digits[at]).to_digit(16);
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = (digit(2 * place)? << 4 | digit(2 * place + 1)?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_of_one_length_and_either_case() {
        assert_eq!(from_hex("00fFa5"), Some([0, 0xff, 0xa5]));
        assert_eq!(to_hex(&[0, 0xff, 0xa5]), "00ffa5");
        for bad in ["00ffa", "00ffa500", "0x00ff", "00ffg5", "00ff\u{e9}", ""] {
            assert_eq!(from_hex::<3>(bad), None, "{bad}");
        }
    }
}
