//! Tests of identities with keys over P-224, P-256, P-384 and P-521. The expected results are those of Go and of the
//! rules of a peer's package `bccsp`; `tests/go/curves.go` made the cases in `tests/data/curves.json`.

use super::network::message;
use crate::ecdsa::{DerSignature, OtherCurveKey};
use crate::msp::{Identity, Msp, Msps, Resolution};
use crate::pem;
use crate::proto::FabricMspConfig;
use crate::rules::Rules;
use crate::signature::{Key, UnverifiedSignature, verify_all};
use crate::x509::{Crl, SignedDer};
use lineside_verify::Verifier;
use lineside_verify::hash::sha256;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

#[derive(Deserialize)]
struct Case {
    curves: String,
    root: String,
    intermediate: String,
    member: String,
    revoked: String,
    list: String,
    /// SHA-256 of the member's certificate; `certifiers` is that of the CAs' certificates. Each certificate is hashed
    /// with a low s in its signature.
    id: String,
    certifiers: String,
    message: String,
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    what: String,
    bytes: String,
    valid: bool,
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.map(byte).collect()
}

fn cases() -> Vec<Case> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/curves.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

impl Case {
    /// Creates an MSP without node OUs, with the member as its admin, and with the revocation list if `lists` is true.
    fn msps(&self, lists: bool) -> Msps {
        let config = FabricMspConfig {
            name: "Org1MSP",
            root_certs: vec![self.root.as_bytes()],
            intermediate_certs: vec![self.intermediate.as_bytes()],
            admins: vec![self.member.as_bytes()],
            revocation_list: lists.then_some(self.list.as_bytes()).into_iter().collect(),
            ..FabricMspConfig::default()
        };
        let mut msps = Msps::default();
        msps.add(Msp::new(&config, &Verifier::default(), false).unwrap());
        msps
    }

    fn resolved(&self, pem: &str, msps: &Msps) -> Arc<Identity> {
        let serialised = message(&[(1, b"Org1MSP"), (2, pem.as_bytes())]);
        let mut resolved = msps.resolve(&[&serialised], &Verifier::default(), Rules::default());
        match resolved.pop() {
            Some(Resolution::Known(identity)) => identity,
            other => panic!("{}: {other:?}", self.curves),
        }
    }
}

#[test]
fn identities_over_other_curves_are_those_of_go() {
    let cases = cases();
    assert_eq!(cases.len(), 39);
    for case in &cases {
        let msps = case.msps(false);
        let member = case.resolved(&case.member, &msps);
        assert!(member.valid, "{}", case.curves);
        assert_eq!(member.id.to_vec(), bytes_of(&case.id), "{}", case.curves);
        assert_eq!(
            member.certifiers.to_vec(),
            bytes_of(&case.certifiers),
            "{}",
            case.curves
        );
        assert_eq!(sha256(&member.raw), member.id);
        // The list of admins contains the certificate in its original form, so the comparison must normalise it.
        assert!(member.listed_admin, "{}", case.curves);
        let revoked = case.resolved(&case.revoked, &msps);
        assert!(revoked.valid && !revoked.listed_admin, "{}", case.curves);
        let msps = case.msps(true);
        assert!(case.resolved(&case.member, &msps).valid, "{}", case.curves);
        assert!(!case.resolved(&case.revoked, &msps).valid, "{}", case.curves);
    }
}

#[test]
fn signatures_over_other_curves_are_decided_as_by_go() {
    let (mut taken, mut refused) = (0, 0);
    for case in cases() {
        let member = case.resolved(&case.member, &case.msps(false));
        let signed = bytes_of(&case.message);
        for signature in &case.signatures {
            let bytes = bytes_of(&signature.bytes);
            for (message, counts) in [(signed.as_slice(), true), (b"another message", false)] {
                let digest = sha256(message);
                let one = UnverifiedSignature::new(&member.key, digest, Vec::new, &bytes, Rules::default());
                let valid = verify_all(one.as_slice(), &Verifier::default(), Rules::default()) == [true];
                assert_eq!(
                    valid,
                    signature.valid && counts,
                    "{}: {}",
                    case.curves,
                    signature.what
                );
                *(if valid { &mut taken } else { &mut refused }) += 1;
            }
        }
    }
    assert_eq!((taken, refused), (78, 780));
}

/// A certificate or a revocation list that another CA signed, or whose signature has a changed bit, is not accepted.
#[test]
fn signatures_of_another_ca_are_refused() {
    let cases = cases();
    for (case, other) in cases.iter().zip(cases.iter().cycle().skip(1)) {
        let msps = case.msps(false);
        let intermediate = case.resolved_key(&case.intermediate);
        let other_key = other.resolved_key(&other.intermediate);
        let list = Crl::parse(&pem::decode(case.list.as_bytes()).unwrap()).unwrap();
        assert!(list.is_signed_by(&intermediate, &Verifier::default()));
        assert!(!list.is_signed_by(&other_key, &Verifier::default()));
        let der = pem::decode(case.member.as_bytes()).unwrap();
        let mut changed = der.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        for (der, is_known) in [(&der, true), (&changed, false)] {
            let serialised = message(&[(1, b"Org1MSP"), (2, &super::network::pem(der))]);
            let resolved = msps.resolve(&[&serialised], &Verifier::default(), Rules::default());
            assert_eq!(
                matches!(resolved[0], Resolution::Known(_)),
                is_known,
                "{}",
                case.curves
            );
        }
    }
}

impl Case {
    fn resolved_key(&self, pem: &str) -> Key {
        let der = pem::decode(pem.as_bytes()).unwrap();
        let certificate = crate::x509::Certificate::parse(&SignedDer::parse(&der).unwrap(), None).unwrap();
        match certificate.key {
            crate::x509::CertifiedKey::Known(key) => key,
            other => panic!("{}: {other:?}", self.curves),
        }
    }
}

#[test]
fn points_off_the_curve_are_no_keys() {
    let curves: [(&[u8], usize); 3] = [
        (&[0x2b, 0x81, 0x04, 0x00, 0x21], 28),
        (&[0x2b, 0x81, 0x04, 0x00, 0x22], 48),
        (&[0x2b, 0x81, 0x04, 0x00, 0x23], 66),
    ];
    for (curve, bytes) in curves {
        for length in [0, 1, bytes, 2 * bytes, 2 * bytes + 2] {
            let point = [&[4][..], &vec![7; length]].concat();
            assert!(OtherCurveKey::from_sec1(curve, &point).is_none());
        }
        let nowhere = [&[4][..], &vec![7; 2 * bytes]].concat();
        assert!(OtherCurveKey::from_sec1(curve, &nowhere).is_none());
    }
    assert_eq!(DerSignature::parse_strict(&[0x30, 6, 2, 1, 1, 2, 1, 0]), None);
}
