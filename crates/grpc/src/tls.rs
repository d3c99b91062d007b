//! TLS from files in PEM.

use crate::error::{SetupError, read, read_key};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

fn wrong(what: impl std::fmt::Display) -> SetupError {
    SetupError::Tls(what.to_string())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(wrong("no certificate in the file")),
        Err(error) => Err(wrong(error)),
    }
}

/// How to trust servers, and who to be to them.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: ClientTlsConfig,
    certificate_hash: Option<[u8; 32]>,
}

impl ClientTls {
    /// From CA certificates, and for mutual TLS our certificate and key.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn from_pem(roots: &[u8], own: Option<(&[u8], &[u8])>) -> Result<Self, SetupError> {
        certificates(roots)?;
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(roots));
        let mut certificate_hash = None;
        if let Some((certificate, key)) = own {
            PrivateKeyDer::from_pem_slice(key).map_err(wrong)?;
            let leaf = certificates(certificate)?;
            certificate_hash = leaf.first().map(|leaf| Sha256::digest(leaf).into());
            config = config.identity(Identity::from_pem(certificate, key));
        }
        Ok(Self {
            config,
            certificate_hash,
        })
    }

    /// The same from files.
    ///
    /// # Errors
    /// Where they cannot be read, or others than its owner may use the key.
    pub fn from_files(roots: &Path, own: Option<(&Path, &Path)>) -> Result<Self, SetupError> {
        let own = match own {
            Some((certificate, key)) => Some((read(certificate)?, read_key(key)?)),
            None => None,
        };
        let own = own
            .as_ref()
            .map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
        Self::from_pem(&read(roots)?, own)
    }

    /// Expects this name in the server's certificate instead of the host's.
    pub fn server_name(mut self, name: &str) -> Self {
        self.config = self.config.domain_name(name);
        self
    }

    /// SHA-256 of our certificate.
    pub fn certificate_hash(&self) -> Option<[u8; 32]> {
        self.certificate_hash
    }

    /// For tonic.
    pub fn config(&self) -> ClientTlsConfig {
        self.config.clone()
    }
}

/// Who to be to clients, and which of them to let in.
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    mutual: bool,
}

impl ServerTls {
    /// Whether clients have to show a certificate.
    pub fn is_mutual(&self) -> bool {
        self.mutual
    }

    /// Returns the configuration for servers of other protocols than HTTP/2: it names no protocol, and takes clients
    /// that name one.
    pub fn stream_config(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols.clear();
        Arc::new(config)
    }

    /// From our certificate and key; with CA certificates of clients, these have to show a certificate.
    ///
    /// # Errors
    /// Where they cannot be read, or do not fit.
    pub fn from_pem(certificate: &[u8], key: &[u8], clients: Option<&[u8]>) -> Result<Self, SetupError> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(pem)? {
                    roots.add(root).map_err(wrong)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(wrong)?)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(wrong)?;
        let mut config = builder
            .with_single_cert(certificates(certificate)?, key)
            .map_err(wrong)?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            mutual: clients.is_some(),
        })
    }

    /// The same from files.
    ///
    /// # Errors
    /// Where they cannot be read, or do not fit, or others than its owner may use the key.
    pub fn from_files(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, SetupError> {
        let clients = clients.map(read).transpose()?;
        Self::from_pem(&read(certificate)?, &read_key(key)?, clients.as_deref())
    }
}
