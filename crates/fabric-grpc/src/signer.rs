//! Identity of the replica in the Fabric network: an MSP identity and its key, which sign the replica's requests.

use lineside_fabric::pem;
use lineside_fabric::proto::wire;
use lineside_fabric::signature::Key;
use lineside_fabric::x509::{Certificate, CertifiedKey, SignedDer};
use lineside_util::key_file::{KeyFileError, read_owner_only};
use p256::SecretKey;
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use p256::pkcs8::DecodePrivateKey;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why an identity cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A key cannot be read, or other users may read it.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A folder does not contain exactly one file of a kind.
    #[error("{}: this folder must have exactly one {what}, but has {found}; leave exactly one in it", path.display())]
    NotOne {
        /// Path of the folder.
        path: PathBuf,
        /// Kind of the file.
        what: &'static str,
        /// Number of files found.
        found: usize,
    },
    /// The certificate cannot be read.
    #[error("the certificate is not a PEM certificate with a P-256 key; give a certificate with such a key")]
    Certificate,
    /// The key cannot be read.
    #[error("the key is not a P-256 key in PEM (PKCS#8 or SEC1); give such a key")]
    Key,
    /// Certificate and key do not belong together.
    #[error("the key does not belong to the certificate; give the key for which the certificate was issued")]
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

/// Returns the only file of a folder.
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
    /// Reads the certificate and the key from PEM.
    ///
    /// # Errors
    /// The certificate or the key cannot be read, or they do not belong together.
    pub fn from_pem(msp_id: &str, certificate: &[u8], key: &[u8]) -> Result<Self, SetupError> {
        let Some(der) = pem::decode(certificate) else {
            return Err(SetupError::Certificate);
        };
        let parsed = SignedDer::parse(&der).and_then(|signed| Certificate::parse(&signed, None));
        // A replica signs only with a P-256 key.
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

    /// Reads an MSP folder as written by Fabric's tools: `signcerts/*` and `keystore/*`.
    ///
    /// # Errors
    /// The folder does not have one certificate and one key, they do not belong together, or other users may read the
    /// key.
    pub fn from_msp_folder(msp_id: &str, folder: &Path) -> Result<Self, SetupError> {
        let certificate = read(&only(&folder.join("signcerts"), "certificate")?)?;
        let key = read_owner_only(&only(&folder.join("keystore"), "key")?)?;
        Self::from_pem(msp_id, &certificate, key.as_bytes())
    }

    /// Returns the identity's encoded `SerializedIdentity`.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// Signs `message` with ECDSA over its SHA-256. The signature is in DER, with s at most n/2, because Fabric refuses
    /// a higher s.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature: Signature = self.key.sign(message);
        let low = signature.normalize_s().unwrap_or(signature);
        low.to_der().as_bytes().to_vec()
    }
}
