//! Bytes of an answer. The paper gives the rate of answers and the bits per second that they fill; their quotient is
//! the size of an answer. Lineside's replies have the length of their requests, so both directions of a link carry as
//! many bytes.

use lineside_bench::column::figures::{Ask, VALUE_BYTES};

/// Data rate of the link in the paper, in bits per second.
pub const LINK_BITS_PER_S: f64 = 10e9;
/// Bytes that a datagram takes on Ethernet in addition to its payload: preamble, headers, checksum and gap, IP, UDP.
const FRAME_BYTES: usize = 8 + 14 + 4 + 12 + 20 + 8;

/// Values of the paper for one kind of request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paper {
    /// Kind of request.
    pub ask: Ask,
    /// Number of the figure.
    pub figure: u8,
    /// Operations per second with a hit ratio of 1.
    pub ops_per_s: f64,
    /// Bits per second with a hit ratio of 1.
    pub bits_per_s: f64,
}

/// Values of the paper's text.
pub const PAPER: [Paper; 2] = [
    Paper {
        ask: Ask::Get,
        figure: 7,
        ops_per_s: 2.07e6,
        bits_per_s: 9.619e9,
    },
    Paper {
        ask: Ask::Scan(8),
        figure: 8,
        ops_per_s: 1.005e6,
        bits_per_s: 9.815e9,
    },
];

impl Paper {
    /// Returns the bytes of an answer: bits per second divided by answers per second.
    pub const fn answer_bytes(&self) -> f64 {
        self.bits_per_s / 8.0 / self.ops_per_s
    }
}

/// Returns the paper's values for a kind of request.
pub fn of_paper(ask: Ask) -> Option<Paper> {
    PAPER.into_iter().find(|paper| paper.ask == ask)
}

/// Returns the bytes of the values in an answer.
pub const fn value_bytes(ask: Ask) -> usize {
    ask.rows() as usize * VALUE_BYTES
}

/// Returns the bytes that an answer of Lineside takes on Ethernet.
pub fn wire_bytes(ask: Ask) -> usize {
    FRAME_BYTES + ask.paper(0).len()
}

/// Returns the number of Lineside's answers per second that fill the paper's link.
pub fn link_ops_per_s(ask: Ask) -> f64 {
    LINK_BITS_PER_S / 8.0 / wire_bytes(ask) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_the_paper_have_581_and_1221_bytes() {
        assert_eq!(PAPER.map(|paper| paper.answer_bytes().round()), [581.0, 1221.0]);
        assert_eq!(PAPER.map(|paper| value_bytes(paper.ask)), [18, 144]);
        // A get has 19 bytes and a scan of eight rows 178; the benchmark pads both to whole words.
        assert_eq!(PAPER.map(|paper| wire_bytes(paper.ask)), [24 + 66, 184 + 66]);
        assert!((link_ops_per_s(Ask::Get) - 13.89e6).abs() < 1e4);
        assert_eq!(of_paper(Ask::Scan(64)), None);
    }
}
