//! Keys in files, which only their owner may read: those that two ends share, and those that sign.

use crate::hex::{from_hex, to_hex};
use anyhow::{Context, bail};
use clap::ValueEnum;
use lineside_verify::Curve;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The bytes that a file says in hex digits.
///
/// # Errors
/// A file that cannot be read, that others may read, or that says something else.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let text = owners_text(path)?;
    from_hex(text.trim_end()).with_context(|| format!("{}: it is not hex digits", path.display()))
}

/// A curve as it is called here.
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

/// The key that signs in a file: its curve's name, then 64 hex digits.
///
/// # Errors
/// A file that cannot be read, that others may read, or that holds no key.
pub fn read_signing<K>(path: &Path, key: fn(Curve, &[u8; 32]) -> Option<K>) -> anyhow::Result<K> {
    let text = owners_text(path)?;
    let parse = || {
        let (curve, digits) = text.trim().split_once(' ')?;
        let secret = from_hex(digits)?.try_into().ok()?;
        key(CurveName::from_str(curve, false).ok()?.curve(), &secret)
    };
    parse().with_context(|| format!("{}: it holds no key", path.display()))
}

/// A new key that signs, in a file of its own.
///
/// # Errors
/// What the system says; a file that is there.
pub fn make_signing<K>(
    curve: CurveName,
    path: &Path,
    key: fn(Curve, &[u8; 32]) -> Option<K>,
) -> anyhow::Result<K> {
    let mut secret = [0; 32];
    let made = loop {
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        if let Some(made) = key(curve.curve(), &secret) {
            break made;
        }
    };
    let mut out = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("making {}", path.display()))?;
    writeln!(out, "{} {}", CurveName::of(curve.curve()), to_hex(&secret))?;
    out.sync_all()?;
    Ok(made)
}

fn owners_text(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let mode = fs::metadata(path)
        .with_context(|| shown.to_string())?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        bail!(
            "{shown}: others may use it (mode {:03o}): chmod 600 it",
            mode & 0o777
        );
    }
    fs::read_to_string(path).with_context(|| shown.to_string())
}
