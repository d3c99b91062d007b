//! Public key of the server that seals the blocks of a ledger.

use anyhow::Context;
use k256::ecdsa::VerifyingKey;
use lineside_transfer::server::PUBLIC_KEY_FILE;
use lineside_util::hex::from_hex;
use std::path::Path;

/// Reads the server's public key from a ledger's directory.
///
/// # Errors
/// The file cannot be read, or holds no key.
pub fn read_key(data: &Path) -> anyhow::Result<VerifyingKey> {
    let file = data.join(PUBLIC_KEY_FILE);
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!(
            "cannot read the server's public key {}; give the data directory of a transfer ledger",
            file.display()
        )
    })?;
    parse_key(text.trim()).with_context(|| file.display().to_string())
}

/// Parses a public key from its hex digits.
///
/// # Errors
/// The text is not a key.
pub fn parse_key(text: &str) -> anyhow::Result<VerifyingKey> {
    let bytes = from_hex(text).context("a public key is 66 hex digits")?;
    VerifyingKey::from_sec1_bytes(&bytes).context("this public key is not a point on the curve secp256k1")
}
