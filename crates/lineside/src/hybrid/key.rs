//! Keys of members and nodes, each in a file that only its owner may read; others need only the public half.

use crate::key_file::{self, CurveName};
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use lineside_client::hybrid::change::KeyBytes;
use lineside_client::hybrid::secret::SecretKey;
use lineside_hybrid_node::files::read_key;
use lineside_util::hex::{from_hex, to_hex};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Subcommands of `lineside hybrid key`.
#[derive(Subcommand)]
pub enum KeyVerb {
    /// Create a key in a new file, and print its public half.
    New {
        /// Elliptic curve of the key.
        #[arg(long, value_enum, default_value_t = CurveName::Secp256k1)]
        curve: CurveName,
        /// Key file, which must not exist; everybody who can read it can sign with it.
        file: PathBuf,
    },
    /// Print the public half of a key, which `init` and `change` accept instead of a file.
    Show {
        /// Key file.
        file: PathBuf,
    },
}

impl KeyVerb {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (Self::New { file, .. } | Self::Show { file }) = self;
        let key = match self {
            Self::New { curve, file } => make(*curve, file)?,
            Self::Show { file } => read(file)?,
        };
        let public = key_text(&key.public());
        match as_json {
            true => say!(
                "{}",
                json!({"public": public, "file": file.display().to_string()})
            )?,
            false => say!("{public}")?,
        }
        Ok(())
    }
}

/// Returns the text form of a public key: its curve, a colon, 66 hex digits.
pub fn key_text(key: &KeyBytes) -> String {
    format!("{}:{}", CurveName::of(key.curve), to_hex(&key.bytes))
}

/// Returns the public key given as CURVE:HEX, or that of a key file.
///
/// # Errors
/// [`crate::wrong::Wrong`]: the text is neither.
pub fn public(text: &str) -> anyhow::Result<KeyBytes> {
    let in_words = || {
        let (curve, digits) = text.split_once(':')?;
        let curve = CurveName::from_str(curve, false).ok()?.curve();
        let bytes = from_hex(digits)?.try_into().ok()?;
        let key = KeyBytes { curve, bytes };
        key.key().map(|_| key)
    };
    match in_words() {
        Some(key) => Ok(key),
        None => Ok(read(Path::new(text))
            .with_context(|| format!("{text}: neither a public key (CURVE:HEX) nor a key file"))?
            .public()),
    }
}

/// Returns the key in a file.
///
/// # Errors
/// [`crate::wrong::Wrong`]: the file holds no key, or users other than its owner may read it.
pub fn read(file: &Path) -> anyhow::Result<SecretKey> {
    Ok(read_key(file)?)
}

/// Generates a key and writes it to a new file.
///
/// # Errors
/// The file exists already or cannot be written.
pub fn make(curve: CurveName, file: &Path) -> anyhow::Result<SecretKey> {
    key_file::make_signing(curve, file, SecretKey::from_bytes)
}
