//! Keys that sign operations: each in a file, which only its owner may read.

use crate::key_file::{self, CurveName};
use anyhow::Context;
use clap::{Args, Subcommand};
use lineside_transfer::signed::Signer;
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
    /// Say a key's fingerprint: what `create --owner` and `issuers` want.
    Show {
        /// The file.
        file: PathBuf,
    },
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

fn read(file: &Path) -> anyhow::Result<Signer> {
    key_file::read_signing(file, Signer::from_bytes).context("`lineside transfer key new` makes one")
}

impl KeyVerb {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (Self::New { file, .. } | Self::Show { file }) = self;
        let signer = match self {
            Self::New { curve, file } => key_file::make_signing(*curve, file, Signer::from_bytes)?,
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
