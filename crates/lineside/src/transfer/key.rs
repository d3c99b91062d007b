//! Keys that sign operations, each in a file that only its owner may read.

use crate::key_file::{self, CurveName};
use crate::wrong::Wrong;
use clap::{Args, Subcommand};
use lineside_client::transfer::Signer;
use lineside_util::key_file::KeyFileError;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Subcommands of `lineside transfer key`.
#[derive(Subcommand)]
pub enum KeyVerb {
    /// Create a key in a new file, and print its fingerprint.
    New {
        /// Elliptic curve of the key.
        #[arg(long, value_enum, default_value_t = CurveName::Secp256k1)]
        curve: CurveName,
        /// Key file, which must not exist; everybody who can read it can sign with it.
        file: PathBuf,
    },
    /// Print a key's fingerprint, for `create --owner` and for `issuers` in the configuration.
    Show {
        /// Key file.
        file: PathBuf,
    },
}

/// Option to sign operations.
#[derive(Args)]
pub struct Sign {
    /// Sign with the key in this file (`lineside transfer key new` creates one).
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
}

impl Sign {
    /// Returns the key to sign with; `None` to send unsigned operations.
    pub fn signer(&self) -> anyhow::Result<Option<Signer>> {
        self.sign.as_deref().map(read).transpose()
    }
}

pub fn read(file: &Path) -> anyhow::Result<Signer> {
    key_file::read_signing(file, Signer::from_bytes).map_err(|error| {
        let is_missing = error.downcast_ref().is_some_and(KeyFileError::is_missing);
        let remedy = if is_missing {
            "; `lineside transfer key new` creates one"
        } else {
            ""
        };
        Wrong(format!("cannot read the key: {error:#}{remedy}")).into()
    })
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
