//! Files that a node's configuration names: the genesis of its database, and its key.

use lineside_messages::hybrid::genesis::Genesis;
use lineside_messages::hybrid::secret::SecretKey;
use lineside_service::config::UsageError;
use lineside_util::key_file::{KeyFileError, read_signing_key, remedy_for};
use lineside_verify::Curve;
use std::path::Path;

/// Reads a genesis file. Returns the genesis and the bytes of the file.
///
/// # Errors
/// [`UsageError`] if the file cannot be read or is not a genesis.
pub fn read_genesis(file: &Path) -> Result<(Genesis, Vec<u8>), UsageError> {
    let bytes = std::fs::read(file).map_err(|error| {
        let remedy = remedy_for(
            &error,
            "give the database's own genesis with --genesis (`genesis` in [hybrid]), or create a new database: \
             `lineside hybrid init`",
        );
        UsageError(format!("the genesis {}: {error}{remedy}", file.display()))
    })?;
    let genesis = Genesis::decode(&bytes);
    let genesis = genesis.map_err(|error| UsageError(format!("{}: {error}", file.display())))?;
    Ok((genesis, bytes))
}

/// Reads the secret key in a file.
///
/// # Errors
/// [`UsageError`] if the file cannot be read, if other users may read it, or if it is not a key.
pub fn read_key(file: &Path) -> Result<SecretKey, UsageError> {
    let (curve, secret) = read_signing_key(file).map_err(|error| {
        let remedy = match &error {
            KeyFileError::Unreadable { source, .. } => {
                remedy_for(source, "`lineside hybrid key new` creates a key")
            }
            _ => String::new(),
        };
        UsageError(format!("{:#}{remedy}", anyhow::Error::from(error)))
    })?;
    let curve = match curve.as_str() {
        "p256" => Some(Curve::P256),
        "secp256k1" => Some(Curve::Secp256k1),
        _ => None,
    };
    let key = curve.and_then(|curve| SecretKey::from_bytes(curve, &secret));
    key.ok_or_else(|| UsageError(format!("{}: not a key of secp256k1 or P-256", file.display())))
}
