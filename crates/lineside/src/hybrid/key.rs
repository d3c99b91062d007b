//! Keys of members and nodes: each in a file, which only its owner may read. Others get the public half.

use crate::key_file::{self, CurveName};
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use lineside_hybrid::change::KeyBytes;
use lineside_hybrid::secret::SecretKey;
use lineside_hybrid_node::files::read_key;
use lineside_util::hex::{from_hex, to_hex};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What can be done with a key.
#[derive(Subcommand)]
pub enum KeyVerb {
    /// Make one and keep it in a file, which must not be there yet.
    New {
        /// The curve.
        #[arg(long, value_enum, default_value_t = CurveName::Secp256k1)]
        curve: CurveName,
        /// The file: who can read it can sign with it.
        file: PathBuf,
    },
    /// Say a key's public half, which `init` and `change` take in place of a file.
    Show {
        /// The file.
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
        let public = shown(&key.public());
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

/// A public key in words: its curve, a colon, 66 hex digits.
pub fn shown(key: &KeyBytes) -> String {
    format!("{}:{}", CurveName::of(key.curve), to_hex(&key.bytes))
}

/// A public key: in words, or of a file with a secret one.
///
/// # Errors
/// [`crate::wrong::Wrong`] for what is neither.
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
            .with_context(|| format!("{text}: neither CURVE:HEX nor a key's file"))?
            .public()),
    }
}

/// Returns the key in a file.
///
/// # Errors
/// [`crate::wrong::Wrong`] where the file holds no key, or where others may read it.
pub fn read(file: &Path) -> anyhow::Result<SecretKey> {
    Ok(read_key(file)?)
}

/// A new key, in a file of its own.
///
/// # Errors
/// What the system says; a file that is there.
pub fn make(curve: CurveName, file: &Path) -> anyhow::Result<SecretKey> {
    key_file::make_signing(curve, file, SecretKey::from_bytes)
}
