//! Files with a signing key, which only their owner may read.

use anyhow::Context;
use clap::ValueEnum;
use lineside_util::hex::to_hex;
use lineside_util::key_file::read_signing_key;
use lineside_verify::Curve;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Elliptic curve, as named on the command line and in key files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CurveName {
    P256,
    Secp256k1,
}

impl CurveName {
    pub const fn curve(self) -> Curve {
        match self {
            Self::P256 => Curve::P256,
            Self::Secp256k1 => Curve::Secp256k1,
        }
    }

    pub fn of(curve: Curve) -> &'static str {
        match curve {
            Curve::P256 => "p256",
            Curve::Secp256k1 => "secp256k1",
        }
    }
}

/// Reads a signing key from a file: the curve's name, then 64 hex digits.
///
/// # Errors
/// The file cannot be read, users other than its owner may read it, or it holds no key.
pub fn read_signing<K>(path: &Path, key: fn(Curve, &[u8; 32]) -> Option<K>) -> anyhow::Result<K> {
    let (curve, secret) = read_signing_key(path)?;
    let curve = CurveName::from_str(&curve, false).ok();
    let key = curve.and_then(|curve| key(curve.curve(), &secret));
    key.with_context(|| {
        format!(
            "{}: this file holds no key (CURVE, then 64 hex digits)",
            path.display()
        )
    })
}

/// Generates a signing key and writes it to a new file, which only its owner may read (mode 600).
///
/// # Errors
/// The file exists already or cannot be written.
pub fn make_signing<K>(
    curve: CurveName,
    path: &Path,
    key: fn(Curve, &[u8; 32]) -> Option<K>,
) -> anyhow::Result<K> {
    let mut secret = [0; 32];
    let pair = loop {
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        if let Some(pair) = key(curve.curve(), &secret) {
            break pair;
        }
    };
    let mut out = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot create the key file {}", path.display()))?;
    writeln!(out, "{} {}", CurveName::of(curve.curve()), to_hex(&secret))?;
    out.sync_all()?;
    Ok(pair)
}
