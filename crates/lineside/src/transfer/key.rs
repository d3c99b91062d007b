//! Keys that sign operations: each in a file, which only its owner may read.

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use lineside_transfer::signed::Signer;
use lineside_verify::Curve;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
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
    /// Say a key's fingerprint: what `create --owner` and `issuers` want.
    Show {
        /// The file.
        file: PathBuf,
    },
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

/// A signature on what is sent.
#[derive(Args)]
pub struct Sign {
    /// Sign with the key in this file (`lineside transfer key new` makes one).
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
}

impl Sign {
    /// The key, if one is to be used.
    pub fn signer(&self) -> anyhow::Result<Option<Signer>> {
        self.sign.as_deref().map(read).transpose()
    }
}

/// The key in a file: its curve's name, then 64 hex digits.
fn read(file: &Path) -> anyhow::Result<Signer> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("{}: `lineside transfer key new` makes one", file.display()))?;
    let parse = || {
        let (curve, digits) = text.trim().split_once(' ')?;
        let secret = crate::hex::from_hex(digits)?.try_into().ok()?;
        Signer::from_bytes(CurveName::from_str(curve, false).ok()?.curve(), &secret)
    };
    parse().with_context(|| format!("{} holds no key", file.display()))
}

impl KeyVerb {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (Self::New { file, .. } | Self::Show { file }) = self;
        let signer = match self {
            Self::New { curve, file } => make(*curve, file)?,
            Self::Show { file } => read(file)?,
        };
        let (id, curve) = (signer.id().to_string(), CurveName::of(signer.curve()));
        match as_json {
            true => say!(
                "{}",
                json!({"fingerprint": id, "curve": curve, "file": file.display().to_string()})
            )?,
            false => say!("{id} ({curve})")?,
        }
        Ok(())
    }
}

fn make(curve: CurveName, file: &Path) -> anyhow::Result<Signer> {
    if file.exists() {
        bail!("{} is there already", file.display());
    }
    let signer = loop {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        if let Some(signer) = Signer::from_bytes(curve.curve(), &secret) {
            break signer;
        }
    };
    let mut out = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    let secret = crate::hex::to_hex(&signer.to_bytes());
    writeln!(out, "{} {secret}", CurveName::of(signer.curve()))?;
    out.sync_all()?;
    Ok(signer)
}
