//! Tests of identities that are read from files, and of the signatures that they make.

mod common;

use common::{Ca, MSP, signer};
use lineside_fabric_grpc::{ClientTls, ServerTls, SetupError, Signer};
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::pkcs8::DecodePrivateKey;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

#[test]
fn signatures_have_a_low_s() {
    let pair = Ca::new("ca").pair("user", "client");
    let key = VerifyingKey::from(&SigningKey::from_pkcs8_pem(&pair.key).unwrap());
    let signer = signer(MSP, &pair);
    for number in 0..50u8 {
        let signature = Signature::from_der(&signer.sign(&[number])).unwrap();
        assert!(signature.normalize_s().is_none());
        key.verify(&[number], &signature).unwrap();
    }
    assert!(signer.identity().ends_with(pair.certificate.as_bytes()));
}

#[test]
fn a_signer_is_read_from_folders_and_files_of_fabric() {
    let ca = Ca::new("ca");
    let (pair, other) = (ca.pair("user", "client"), ca.pair("other", "client"));
    let folder = tempfile::tempdir().unwrap();
    let missing = Signer::from_msp_folder(MSP, folder.path());
    assert!(matches!(missing, Err(SetupError::Io { .. })));
    for name in ["signcerts", "keystore"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("signcerts/cert.pem"), &pair.certificate).unwrap();
    let keyless = Signer::from_msp_folder(MSP, folder.path());
    assert!(matches!(keyless, Err(SetupError::NotOne { found: 0, .. })));
    let key = folder.path().join("keystore/priv_sk");
    std::fs::write(&key, &pair.key).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    let exposed = Signer::from_msp_folder(MSP, folder.path()).unwrap_err();
    assert!(exposed.to_string().contains("chmod 600"), "{exposed}");
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let whole = Signer::from_msp_folder(MSP, folder.path()).unwrap();
    assert_eq!(whole.sign(b"x"), signer(MSP, &pair).sign(b"x"));

    let secret = p256::SecretKey::from_pkcs8_pem(&pair.key).unwrap();
    let sec1 = secret.to_sec1_pem(p256::pkcs8::LineEnding::LF).unwrap();
    Signer::from_pem(MSP, pair.certificate.as_bytes(), sec1.as_bytes()).unwrap();
    let mixed = Signer::from_pem(MSP, pair.certificate.as_bytes(), other.key.as_bytes());
    assert!(matches!(mixed, Err(SetupError::Mismatch)));
    let turned = Signer::from_pem(MSP, pair.key.as_bytes(), pair.certificate.as_bytes());
    assert!(matches!(turned, Err(SetupError::Certificate)));

    let (certificate, key) = (pair.certificate.as_bytes(), pair.key.as_bytes());
    assert!(ClientTls::from_pem(b"", None).is_err());
    assert!(ClientTls::from_pem(certificate, Some((certificate, b""))).is_err());
    assert!(ServerTls::from_pem(certificate, other.key.as_bytes(), None).is_err());
    ServerTls::from_pem(certificate, key, None).unwrap();
}
