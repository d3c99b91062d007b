//! X.509 certificates and revocation lists in the form of Fabric's `cryptogen`.

use crate::sign::{Key, sign_all};
use lineside_fabric::der::{self, tag};
use sha2::{Digest, Sha256};

const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const CLIENT_AND_SERVER: [&[u8]; 2] = [&[0x2b, 6, 1, 5, 5, 7, 3, 2], &[0x2b, 6, 1, 5, 5, 7, 3, 1]];

/// Default validity of certificates: begin and end.
pub(crate) const TIMES: (&str, &str) = ("261121000800Z", "361118000800Z");
/// Validity of an expired certificate. It begins at the same time as the CA's validity, because peers check the CA one
/// second after the certificate's validity begins.
pub(crate) const EXPIRED: (&str, &str) = ("261121000800Z", "261121000900Z");
const REVOKED_AT: &str = "261121001245Z";
const NEXT_UPDATE: &str = "351119001245Z";

/// Usage of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Usage {
    Ca,
    Identity,
    TlsServer,
}

/// Content of a certificate to sign.
#[derive(Clone, Debug)]
pub(crate) struct Subject<'a> {
    pub common_name: String,
    /// Organizational units (`OU`).
    pub units: &'a [&'a str],
    /// Organisation (`O`), which only the certificates of CAs have; empty for others.
    pub organisation: &'a str,
    pub key: &'a Key,
    pub usage: Usage,
    pub times: (&'a str, &'a str),
}

/// Certificate authority.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    pub key: Key,
    name: Vec<u8>,
    key_id: [u8; 32],
    /// The authority's own certificate in PEM.
    pub pem: Vec<u8>,
}

fn element(tag: u8, parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let content: Vec<u8> = parts.iter().flat_map(|part| part.as_ref()).copied().collect();
    let mut out = Vec::with_capacity(content.len() + 4);
    der::put(&mut out, tag, &content);
    out
}

fn sequence(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    element(tag::SEQUENCE, parts)
}

fn algorithm() -> Vec<u8> {
    sequence(&[element(tag::OID, &[ECDSA_SHA256])])
}

fn times((from, to): (&str, &str)) -> Vec<u8> {
    sequence(&[element(tag::UTC_TIME, &[from]), element(tag::UTC_TIME, &[to])])
}

fn name(subject: &Subject<'_>) -> Vec<u8> {
    let place = [(6, "US"), (8, "California"), (7, "San Francisco")];
    let organisation = Some((10, subject.organisation)).filter(|(_, name)| !name.is_empty());
    let units = subject.units.iter().map(|&unit| (11, unit));
    let last = (3, subject.common_name.as_str());
    let parts = place.into_iter().chain(organisation).chain(units).chain([last]);
    let part = |(kind, text): (u8, &str)| {
        // PrintableString does not allow "@".
        let form = if text.contains('@') {
            tag::UTF8_STRING
        } else {
            tag::PRINTABLE_STRING
        };
        let pair = sequence(&[element(tag::OID, &[[0x55, 4, kind]]), element(form, &[text])]);
        element(tag::SET, &[pair])
    };
    sequence(&parts.map(part).collect::<Vec<_>>())
}

fn extension(kind: &[u8], critical: bool, content: Vec<u8>) -> Vec<u8> {
    let critical: &[u8] = if critical { &[tag::BOOLEAN, 1, 0xff] } else { &[] };
    let parts = [
        element(tag::OID, &[kind]),
        critical.to_vec(),
        element(tag::OCTET_STRING, &[content]),
    ];
    sequence(&parts)
}

fn authority_key_id(key_id: &[u8; 32]) -> Vec<u8> {
    extension(&[0x55, 0x1d, 0x23], false, sequence(&[element(0x80, &[key_id])]))
}

/// Returns the key identifier of a key: the SHA-256 of its public point.
fn key_id(key: &Key) -> [u8; 32] {
    Sha256::digest(key.public).into()
}

fn extensions(subject: &Subject<'_>, issuer: &[u8; 32]) -> Vec<u8> {
    let usage = |bits: [u8; 2]| extension(&[0x55, 0x1d, 0x0f], true, element(tag::BIT_STRING, &[bits]));
    let purposes = |oids: [&[u8]; 2]| {
        let oids = oids.map(|oid| element(tag::OID, &[oid]));
        extension(&[0x55, 0x1d, 0x25], false, sequence(&oids))
    };
    let is_ca = |content: &[u8]| extension(&[0x55, 0x1d, 0x13], true, sequence(&[content]));
    let [client, server] = CLIENT_AND_SERVER;
    let all = match subject.usage {
        Usage::Ca => vec![
            usage([1, 0xa6]),
            purposes([client, server]),
            is_ca(&[tag::BOOLEAN, 1, 0xff]),
            extension(
                &[0x55, 0x1d, 0x0e],
                false,
                element(tag::OCTET_STRING, &[key_id(subject.key)]),
            ),
        ],
        Usage::Identity => vec![usage([7, 0x80]), is_ca(&[]), authority_key_id(issuer)],
        Usage::TlsServer => {
            let dns = |name: &str| element(0x82, &[name]);
            let names = [
                dns(&subject.common_name),
                dns("localhost"),
                element(0x87, &[[127, 0, 0, 1]]),
            ];
            vec![
                usage([5, 0xa0]),
                purposes([server, client]),
                is_ca(&[]),
                authority_key_id(issuer),
                extension(&[0x55, 0x1d, 0x11], false, sequence(&names)),
            ]
        }
    };
    element(0xa3, &[sequence(&all)])
}

/// Returns the serial number of a key's certificate: sixteen bytes derived from the key, as an unsigned number.
fn serial(key: &Key) -> Vec<u8> {
    let digest = Sha256::digest([b"serial".as_slice(), &key.public].concat());
    let bytes = &digest[..16];
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    let sign: &[u8] = if bytes[zeros] >= 0x80 { &[0] } else { &[] };
    element(tag::INTEGER, &[sign, &bytes[zeros..]])
}

fn certificate(subject: &Subject<'_>, issuer: &[u8], issuer_key_id: &[u8; 32]) -> Vec<u8> {
    let kind = sequence(&[
        element(tag::OID, &[EC_PUBLIC_KEY]),
        element(tag::OID, &[PRIME256V1]),
    ]);
    let point = element(tag::BIT_STRING, &[&[0], subject.key.public.as_slice()]);
    sequence(&[
        vec![0xa0, 3, tag::INTEGER, 1, 2],
        serial(subject.key),
        algorithm(),
        issuer.to_vec(),
        times(subject.times),
        name(subject),
        sequence(&[kind, point]),
        extensions(subject, issuer_key_id),
    ])
}

/// Signs the contents of certificates or revocation lists, all with one key.
fn sign(key: &Key, label: &str, contents: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let claims: Vec<_> = contents
        .iter()
        .map(|content| (key, Sha256::digest(content).into()))
        .collect();
    let signatures = sign_all(&[label.as_bytes(), &key.public], &claims);
    let whole = |(content, signature): (Vec<u8>, crate::sign::Signature)| {
        let signature = element(tag::BIT_STRING, &[[0].as_slice(), &signature.der()]);
        sequence(&[content, algorithm(), signature])
    };
    contents.into_iter().zip(signatures).map(whole).collect()
}

impl Authority {
    /// Returns a root with a self-signed certificate.
    pub fn new(common_name: &str, organisation: &str, key: &Key) -> Self {
        let subject = Subject {
            common_name: common_name.to_owned(),
            units: &[],
            organisation,
            key,
            usage: Usage::Ca,
            times: TIMES,
        };
        let name = name(&subject);
        let content = certificate(&subject, &name, &key_id(key));
        let der = sign(key, "root", vec![content]).concat();
        Self {
            key: key.clone(),
            name,
            key_id: key_id(key),
            pem: pem("CERTIFICATE", &der),
        }
    }

    /// Returns certificates for all of these subjects in PEM. The label distinguishes calls of one authority.
    pub fn issue(&self, label: &str, subjects: &[Subject<'_>]) -> Vec<Vec<u8>> {
        let contents = subjects
            .iter()
            .map(|subject| certificate(subject, &self.name, &self.key_id));
        let signed = sign(&self.key, label, contents.collect());
        signed.iter().map(|der| pem("CERTIFICATE", der)).collect()
    }

    /// Returns a list in PEM that revokes the certificates of these keys.
    pub fn revoke(&self, keys: &[&Key]) -> Vec<u8> {
        let at = |time: &str| element(tag::UTC_TIME, &[time]);
        let revoked: Vec<_> = keys
            .iter()
            .map(|key| sequence(&[serial(key), at(REVOKED_AT)]))
            .collect();
        let number = extension(&[0x55, 0x1d, 0x14], false, vec![tag::INTEGER, 1, 1]);
        let content = sequence(&[
            vec![tag::INTEGER, 1, 1],
            algorithm(),
            self.name.clone(),
            at(REVOKED_AT),
            at(NEXT_UPDATE),
            sequence(&revoked),
            element(0xa0, &[sequence(&[authority_key_id(&self.key_id), number])]),
        ]);
        pem("X509 CRL", &sign(&self.key, "crl", vec![content]).concat())
    }
}

/// Encodes in PEM like Go's `pem.Encode`, with 64 columns.
fn pem(kind: &str, der: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::with_capacity(der.len() * 3 / 2 + 64);
    for three in der.chunks(3) {
        let bytes = [
            three[0],
            three.get(1).copied().unwrap_or(0),
            three.get(2).copied().unwrap_or(0),
        ];
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { digit } else { b'=' });
        }
    }
    let mut out = format!("-----BEGIN {kind}-----\n").into_bytes();
    for line in text.chunks(64) {
        out.extend(line);
        out.push(b'\n');
    }
    out.extend(format!("-----END {kind}-----\n").bytes());
    out
}
