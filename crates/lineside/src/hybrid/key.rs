//! Keys of members and nodes: each in a file, which only its owner may read. Others get the public half.

use crate::hex::{from_hex, to_hex};
use crate::transfer::CurveName;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use lineside_hybrid::change::KeyBytes;
use lineside_hybrid::secret::SecretKey;
use lineside_hybrid::sign::Signer;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
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
/// [`Wrong`] for what is neither.
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

/// The key in a file: its curve's name, then 64 hex digits.
///
/// # Errors
/// [`Wrong`] where it is none, or where others may read it.
pub fn read(file: &Path) -> anyhow::Result<SecretKey> {
    let shown = file.display();
    let wrong = |what: String| Wrong(format!("{shown}: {what}"));
    let found =
        fs::metadata(file).map_err(|error| wrong(format!("{error}: `lineside hybrid key new` makes one")))?;
    let mode = found.permissions().mode();
    if mode & 0o077 != 0 {
        let mode = mode & 0o777;
        bail!(wrong(format!(
            "others may use the key (mode {mode:03o}): chmod 600 it"
        )));
    }
    let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let parse = || {
        let (curve, digits) = text.trim().split_once(' ')?;
        let secret = from_hex(digits)?.try_into().ok()?;
        SecretKey::from_bytes(CurveName::from_str(curve, false).ok()?.curve(), &secret)
    };
    Ok(parse().ok_or_else(|| wrong("it holds no key".into()))?)
}

/// A new key, in a file of its own.
///
/// # Errors
/// What the system says; a file that is there.
pub fn make(curve: CurveName, file: &Path) -> anyhow::Result<SecretKey> {
    let key = loop {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        if let Some(key) = SecretKey::from_bytes(curve.curve(), &secret) {
            break key;
        }
    };
    let mut out = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .with_context(|| format!("making {}", file.display()))?;
    writeln!(out, "{} {}", CurveName::of(key.curve()), to_hex(&key.to_bytes()))?;
    out.sync_all()?;
    Ok(key)
}
