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

#[cfg(test)]
mod tests {
    use lineside_hybrid_node::files::{read_genesis, read_key};
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// Returns the errors of reading `path` as a genesis and as each kind of key.
    fn errors(path: &Path) -> [String; 3] {
        [
            read_genesis(path).expect_err("no genesis").0,
            read_key(path).err().expect("no key").0,
            crate::transfer::key::read(path)
                .err()
                .expect("no key")
                .to_string(),
        ]
    }

    /// A command that creates a file does not help if the file exists.
    #[test]
    fn only_a_missing_file_is_to_be_created() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        for text in errors(&path) {
            assert!(
                text.contains("No such file") && text.contains("`lineside "),
                "{text}"
            );
        }
        write(&path, "secp256k1 12").expect("a file");
        set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
        for text in errors(&path) {
            assert!(!text.contains("lineside ") && text.contains("/file"), "{text}");
        }
        set_permissions(folder.path(), Permissions::from_mode(0o700)).expect("a mode");
        for text in errors(folder.path()) {
            assert!(
                text.contains("Is a directory") && !text.contains("lineside "),
                "{text}"
            );
        }
    }
}
