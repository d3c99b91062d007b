//! TLS configurations of servers and clients, from PEM files.

use crate::error::{SetupError, read, read_key};
#[cfg(feature = "server")]
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
#[cfg(feature = "server")]
use rustls::server::WebPkiClientVerifier;
#[cfg(feature = "server")]
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::path::Path;
#[cfg(feature = "server")]
use std::sync::Arc;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

fn wrong(what: impl std::fmt::Display) -> SetupError {
    SetupError::Tls(what.to_string())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(wrong("the file contains no certificate in PEM")),
        Err(error) => Err(wrong(error)),
    }
}

/// TLS configuration of a client: trusted CA certificates and, for mutual TLS, the client's own certificate.
#[derive(Clone, Debug)]
pub struct ClientTls {
    config: ClientTlsConfig,
    certificate_hash: Option<[u8; 32]>,
}

impl ClientTls {
    /// Creates a configuration from CA certificates and, for mutual TLS, the client's certificate and key.
    ///
    /// # Errors
    /// A certificate or key cannot be parsed.
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

    /// Like [`ClientTls::from_pem`], from files.
    ///
    /// # Errors
    /// A file cannot be read or parsed, or users other than its owner may use the key.
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

    /// Sets the name that the server's certificate must have, in place of the host name.
    pub fn server_name(mut self, name: &str) -> Self {
        self.config = self.config.domain_name(name);
        self
    }

    /// Returns the SHA-256 of the client's certificate.
    pub fn certificate_hash(&self) -> Option<[u8; 32]> {
        self.certificate_hash
    }

    /// Returns the configuration in tonic's form.
    pub fn config(&self) -> ClientTlsConfig {
        self.config.clone()
    }
}

/// TLS configuration of a server: its certificate and, for mutual TLS, the CA certificates of its clients.
#[cfg(feature = "server")]
#[derive(Clone, Debug)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    mutual: bool,
}

#[cfg(feature = "server")]
impl ServerTls {
    /// Returns true if clients must present a certificate.
    pub fn is_mutual(&self) -> bool {
        self.mutual
    }

    /// Returns the configuration for a protocol other than HTTP/2. It offers no ALPN protocol, and also accepts clients
    /// that offer some.
    pub fn stream_config(&self) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols.clear();
        Arc::new(config)
    }

    /// Creates a configuration from the server's certificate and key. With `clients`, CA certificates in PEM, clients
    /// must present a certificate signed by one of them.
    ///
    /// # Errors
    /// A certificate or key cannot be parsed, or they do not match.
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

    /// Like [`ServerTls::from_pem`], from files.
    ///
    /// # Errors
    /// A file cannot be read or parsed, certificate and key do not match, or users other than its owner may use the
    /// key.
    pub fn from_files(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, SetupError> {
        let clients = clients.map(read).transpose()?;
        Self::from_pem(&read(certificate)?, &read_key(key)?, clients.as_deref())
    }
}
