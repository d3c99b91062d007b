//! Who we are to the network: an MSP identity and its key.

use lineside_fabric::pem;
use lineside_fabric::proto::wire;
use lineside_fabric::signature::Key;
use lineside_fabric::x509::{Certificate, CertifiedKey, Signed};
use lineside_util::key_file::{KeyFileError, read_owner_only};
use p256::SecretKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey;
use std::io;
use std::path::{Path, PathBuf};

/// Why an identity cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A key cannot be read, or others than its owner may use it.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A folder does not hold exactly one file of a kind.
    #[error("{}: one {what} is wanted here, there are {found}", path.display())]
    NotOne {
        /// Which folder.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
    },
    /// The certificate cannot be read.
    #[error("the certificate is not one of a P-256 key, in PEM")]
    Certificate,
    /// The key cannot be read.
    #[error("the key is not a P-256 key in PEM (PKCS#8 or SEC1)")]
    Key,
    /// Certificate and key do not belong together.
    #[error("the key is not the certificate's")]
    Mismatch,
}

/// An identity that signs requests.
pub struct Signer {
    identity: Vec<u8>,
    key: SigningKey,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SetupError> {
    std::fs::read(path).map_err(|source| SetupError::Io {
        path: path.to_owned(),
        source,
    })
}

/// The only file of a folder.
fn only(path: &Path, what: &'static str) -> Result<PathBuf, SetupError> {
    let failed = |source| SetupError::Io {
        path: path.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_file() {
            files.push(entry.path());
        }
    }
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(SetupError::NotOne {
            path: path.to_owned(),
            what,
            found: files.len(),
        }),
    }
}

impl Signer {
    /// From the certificate and the key in PEM.
    ///
    /// # Errors
    /// Where they cannot be read, or are not of one pair.
    pub fn from_pem(msp_id: &str, certificate: &[u8], key: &[u8]) -> Result<Self, SetupError> {
        let Some(der) = pem::decode(certificate) else {
            return Err(SetupError::Certificate);
        };
        let parsed = Signed::parse(&der).and_then(|signed| Certificate::parse(&signed, None));
        // A replica itself signs with P-256 only.
        let Some(CertifiedKey::Known(Key::P256(public))) = parsed.map(|certificate| certificate.key) else {
            return Err(SetupError::Certificate);
        };
        let text = std::str::from_utf8(key).map_err(|_| SetupError::Key)?;
        let secret = SecretKey::from_pkcs8_pem(text).or_else(|_| SecretKey::from_sec1_pem(text));
        let key = SigningKey::from(secret.map_err(|_| SetupError::Key)?);
        if key.verifying_key().to_encoded_point(false).as_bytes() != public.to_sec1_uncompressed() {
            return Err(SetupError::Mismatch);
        }
        let mut identity = Vec::with_capacity(certificate.len() + msp_id.len() + 8);
        wire::put_bytes(&mut identity, 1, msp_id.as_bytes());
        wire::put_bytes(&mut identity, 2, certificate);
        Ok(Self { identity, key })
    }

    /// From an MSP folder as Fabric's tools write it: `signcerts/*` and `keystore/*`.
    ///
    /// # Errors
    /// Where there is not one certificate and one key, or they do not fit, or others than its owner may use the key.
    pub fn from_msp_folder(msp_id: &str, folder: &Path) -> Result<Self, SetupError> {
        let certificate = read(&only(&folder.join("signcerts"), "certificate")?)?;
        let key = read_owner_only(&only(&folder.join("keystore"), "key")?)?;
        Self::from_pem(msp_id, &certificate, key.as_bytes())
    }

    /// The `SerializedIdentity`.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// ECDSA over SHA-256, DER, s at most n/2: Fabric refuses the other.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature: Signature = self.key.sign(message);
        let low = signature.normalize_s().unwrap_or(signature);
        low.to_der().as_bytes().to_vec()
    }
}
