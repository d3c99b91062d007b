//! TLS to a node whose certificate is configured.
//!
//! btcd creates its own certificate at its first start: ECDSA on the curve P-521, marked as a certificate authority,
//! self-signed (`btcutil/certgen.go`). This needs two exceptions from the usual verification. First, the usual
//! verification refuses the certificate of an authority as a server certificate; therefore a certificate that is byte
//! for byte in the CA file is accepted. Its names and dates are not checked, because the operator chose this very key.
//! Second, the library ring does not verify signatures on P-521; the crate `p521` verifies them. Every other
//! certificate is verified as usual, with the certificates of the CA file as the only roots.

use crate::error::SetupError;
use p521::ecdsa::signature::Verifier;
use p521::ecdsa::{Signature, VerifyingKey};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::SignatureVerificationAlgorithm;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, ServerName, UnixTime, alg_id,
};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Maximum length of a CA file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// ECDSA on P-521 with SHA-512.
#[derive(Debug)]
struct EcdsaP521;

impl SignatureVerificationAlgorithm for EcdsaP521 {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(key).map_err(|_| InvalidSignature)?;
        let signature = Signature::from_der(signature).map_err(|_| InvalidSignature)?;
        key.verify(message, &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_SHA512
    }
}

type Algorithm = &'static dyn SignatureVerificationAlgorithm;

/// Signature algorithms of ring, and ECDSA on P-521. Their memory is never freed (leaked), because rustls requires a
/// static lifetime.
static ALGORITHMS: LazyLock<WebPkiSupportedAlgorithms> = LazyLock::new(|| {
    let of_ring = ring::default_provider().signature_verification_algorithms;
    let mut all: Vec<Algorithm> = of_ring.all.to_vec();
    all.push(&EcdsaP521);
    let mut mapping = of_ring.mapping.to_vec();
    mapping.push((SignatureScheme::ECDSA_NISTP521_SHA512, &[&EcdsaP521]));
    WebPkiSupportedAlgorithms {
        all: all.leak(),
        mapping: mapping.leak(),
    }
});

/// Verifier that accepts the certificates in the CA file, and certificates that one of them has signed.
#[derive(Debug)]
struct Pinned {
    certificates: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.iter().any(|pinned| pinned == end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        self.usual
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Returns a TLS client configuration that trusts only the certificates in `file`.
///
/// # Errors
/// [`SetupError::CaFile`], [`SetupError::NotCertificates`].
pub(crate) fn client_config(file: &Path) -> Result<Arc<ClientConfig>, SetupError> {
    let unusable = |why: String| SetupError::NotCertificates {
        path: file.into(),
        why,
    };
    let mut text = Vec::new();
    std::fs::File::open(file)
        .and_then(|opened| opened.take(FILE_BYTES_MAX).read_to_end(&mut text))
        .map_err(|source| SetupError::CaFile {
            path: file.into(),
            source,
        })?;
    let certificates: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates.map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in &certificates {
        roots
            .add(certificate.clone())
            .map_err(|error| unusable(error.to_string()))?;
    }
    if certificates.is_empty() {
        return Err(unusable("the file has no certificate".into()));
    }
    let provider = Arc::new(CryptoProvider {
        signature_verification_algorithms: *ALGORITHMS,
        ..ring::default_provider()
    });
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| unusable(error.to_string()))?;
    let verifier = Pinned { certificates, usual };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_util::hex::from_hex;

    #[test]
    fn a_ca_file_without_certificates_is_an_error_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rpc.cert");
        assert!(matches!(client_config(&path), Err(SetupError::CaFile { .. })));
        for text in [
            "",
            "no certificate",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = client_config(&path).unwrap_err();
            assert!(matches!(error, SetupError::NotCertificates { .. }), "{error}");
            assert!(error.to_string().contains("rpc.cert"), "{error}");
        }
    }

    /// Verifies the test vector of RFC 6979, A.2.7: the signature of "sample" with SHA-512 on P-521.
    #[test]
    fn a_signature_on_p521_is_verified() {
        let hex = |text: &str| from_hex(&text.replace(char::is_whitespace, "")).unwrap();
        let x = "01894550D0785932E00EAA23B694F213F8C3121F86DC97A04E5A7167DB4E5BCD371123D46E45DB6B5D5370A7F20FB633155D\
                 38FFA16D2BD761DCAC474B9A2F5023A4";
        let y = "00493101C962CD4D2FDDF782285E64584139C2F91B47F87FF82354D6630F746A28A0DB25741B5B34A828008B22ACC23F924F\
                 AAFBD4D33F81EA66956DFEAA2BFDFCF5";
        let r = "00C328FAFCBD79DD77850370C46325D987CB525569FB63C5D3BC53950E6D4C5F174E25A1EE9017B5D450606ADD152B534931\
                 D7D4E8455CC91F9B15BF05EC36E377FA";
        let s = "00617CCE7CF5064806C467F678D3B4080D6F1CC50AF26CA209417308281B68AF282623EAA63E5B5C0723D8B8C37FF0777B1A\
                 20F8CCB1DCCC43997F1EE0E44DA4A67A";
        let key = [&[4][..], &hex(x), &hex(y)].concat();
        let signature = Signature::from_slice(&[hex(r), hex(s)].concat());
        let der = signature.unwrap().to_der();
        assert!(
            EcdsaP521
                .verify_signature(&key, b"sample", der.as_bytes())
                .is_ok()
        );
        assert!(
            EcdsaP521
                .verify_signature(&key, b"simple", der.as_bytes())
                .is_err()
        );
        assert!(
            EcdsaP521
                .verify_signature(&key[1..], b"sample", der.as_bytes())
                .is_err()
        );
        assert!(
            EcdsaP521
                .verify_signature(&key, b"sample", &der.as_bytes()[1..])
                .is_err()
        );
    }
}
