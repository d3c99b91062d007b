//! Parser of transaction ids on the command line.

use lineside_util::hex::{from_display, to_display};
use std::str::FromStr;

/// TXID or WTXID, in wire byte order; its text form is that of block explorers (reversed bytes in hex).
#[derive(Clone, Copy)]
pub struct Id(pub [u8; 32]);

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        from_display(text)
            .map(Self)
            .ok_or_else(|| "a TXID or WTXID is 64 hex digits".to_owned())
    }
}

impl Id {
    /// Returns the text form of block explorers.
    pub fn text(&self) -> String {
        to_display(&self.0)
    }
}
