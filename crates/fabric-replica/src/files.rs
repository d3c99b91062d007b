//! Files named in a replica's configuration: the identity for requests to orderers, certificates, and the key for
//! UDP.

use crate::config::FabricConfig;
use lineside_fabric_grpc::client::{OnEndpointLeft, Options};
use lineside_fabric_grpc::{ClientTls, ServerTls, Signer};
use lineside_fabric_udp::SharedKey;
use lineside_fabric_udp::paper::identities::{self, NumberedIdentity};
use lineside_service::config::{UsageError, non_empty};
use lineside_util::key_file::read_shared_key;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

/// Files of a client of Deliver.
#[derive(Clone, Copy, Debug)]
pub struct ClientFiles<'a> {
    /// Name of the MSP of the identity that signs requests.
    pub msp_id: &'a str,
    /// Folder of that identity, with `signcerts` and `keystore`.
    pub msp: &'a Path,
    /// CA certificates that verify the endpoints' certificates; `None` for no TLS.
    pub tls_ca: Option<&'a Path>,
    /// The client's own certificate, for mutual TLS.
    pub tls_certificate: Option<&'a Path>,
    /// Key of that certificate.
    pub tls_key: Option<&'a Path>,
    /// Host name in the endpoints' certificates; `None` if each certificate has the host name of its endpoint.
    pub tls_host_name: Option<&'a str>,
}

/// Identity and TLS settings of a client of Deliver. The identity signs the client's requests.
pub struct DeliverClient {
    signer: Arc<Signer>,
    tls: Option<ClientTls>,
}

impl ClientFiles<'_> {
    /// Reads the files.
    ///
    /// # Errors
    /// [`UsageError`]: a file cannot be read, or has the wrong content.
    pub fn read(&self) -> Result<DeliverClient, UsageError> {
        let signer = Signer::from_msp_folder(self.msp_id, self.msp)
            .map_err(|error| UsageError(format!("the MSP folder {}: {error}", self.msp.display())))?;
        let own = self.tls_certificate.zip(self.tls_key);
        let tls = self.tls_ca.map(|roots| {
            let files = [Some(roots), self.tls_certificate, self.tls_key];
            let tls = ClientTls::from_files(roots, own).map_err(|error| unusable(&files, &error))?;
            Ok(match self.tls_host_name {
                Some(name) => tls.server_name(name),
                None => tls,
            })
        });
        Ok(DeliverClient {
            signer: Arc::new(signer),
            tls: tls.transpose()?,
        })
    }
}

impl DeliverClient {
    /// Returns the options for following `channel` at `endpoints` from block `from` on; the client calls `on_left` when
    /// it leaves an endpoint.
    pub fn options(
        &self,
        endpoints: Vec<String>,
        channel: &str,
        from: u64,
        on_left: OnEndpointLeft,
    ) -> Options {
        let mut options = Options::new(endpoints, Arc::clone(&self.signer), channel, from);
        options.tls = self.tls.clone();
        options.on_left = Some(on_left);
        options
    }
}

/// Reads the identity and the TLS files for requests to orderers.
///
/// # Errors
/// [`UsageError`]: a file cannot be read, or has the wrong content.
pub fn read_client(config: &FabricConfig) -> Result<DeliverClient, UsageError> {
    let files = ClientFiles {
        msp_id: &config.msp_id,
        msp: &config.msp,
        tls_ca: non_empty(&config.tls_ca),
        tls_certificate: non_empty(&config.tls_certificate),
        tls_key: non_empty(&config.tls_key),
        tls_host_name: Some(config.tls_host_name.as_str()).filter(|name| !name.is_empty()),
    };
    files.read()
}

/// Reads the server's certificate and its key; `None` for a server without TLS.
///
/// # Errors
/// [`UsageError`]: a file cannot be read, or has the wrong content.
pub fn read_server_tls(config: &FabricConfig) -> Result<Option<ServerTls>, UsageError> {
    let Some((certificate, key)) = config.tls_files() else {
        return Ok(None);
    };
    let client_ca = non_empty(&config.client_ca);
    let tls = ServerTls::from_files(certificate, key, client_ca);
    tls.map(Some)
        .map_err(|error| unusable(&[Some(certificate), Some(key), client_ca], &error))
}

/// Reads a key that is shared with a sender of blocks over UDP.
///
/// # Errors
/// [`UsageError`]: the file cannot be read, users other than its owner may read it, or it does not contain a key.
pub fn read_udp_key(path: &Path) -> Result<SharedKey, UsageError> {
    let bytes =
        read_shared_key(path).map_err(|error| UsageError(format!("{:#}", anyhow::Error::from(error))))?;
    SharedKey::new(&bytes).map_err(|error| UsageError(format!("{}: {error}", path.display())))
}

/// Reads the identities that the configuration file of the paper's published code names.
///
/// # Errors
/// [`UsageError`]: the file, or a certificate that it names, cannot be read or does not have the form of that
/// configuration file.
pub fn read_paper_identities(path: &Path) -> Result<Vec<NumberedIdentity>, UsageError> {
    identities::read(path).map_err(|error| UsageError(error.to_string()))
}

fn unusable(files: &[Option<&Path>], error: &dyn Display) -> UsageError {
    let files = files.iter().flatten().map(|path| path.display().to_string());
    UsageError(format!("{}: {error}", files.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::read_udp_key;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_hex_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let digits = "0123456789abcdef".repeat(4);
        for (text, mode, good) in [
            (format!("{digits}\n"), 0o600, true),
            (digits.clone(), 0o400, true),
            (digits.clone(), 0o640, false),
            (digits.clone(), 0o604, false),
            (digits[2..].to_owned(), 0o600, false),
            (format!("{digits}0g"), 0o600, false),
        ] {
            let _ = std::fs::remove_file(&path);
            write(&path, &text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_udp_key(&path).is_ok(), good, "{text:?} {mode:o}");
        }
        assert!(read_udp_key(folder.path()).is_err());
    }
}
