//! Certificates and revocation lists, as far as an MSP needs them.
//!
//! A certificate is parsed in two steps. [`SignedDer::parse`] reads the parts that are needed to check the signature;
//! it rejects only input that Go's `crypto/x509` rejects too. [`Certificate::parse`] reads the rest, and accepts fewer
//! forms than Go does. The second step is used only for certificates that a CA of the channel signed; if it rejects
//! such a certificate, validation stops without a decision.

use crate::der::{Reader, put, tag};
use crate::ecdsa::{DerSignature, OtherCurveKey, is_other_curve};
use crate::signature::{Key, UnverifiedSignature};
use lineside_verify::encoding::Signature;
use lineside_verify::encoding::der as ecdsa_der;
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verifier, ed25519, leftmost_256_bits};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// Prefix of ecdsa-with-SHA256, SHA384 and SHA512: 1.2.840.10045.4.3.2 to 4.
const ECDSA_WITH: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// id-ecPublicKey: 1.2.840.10045.2.1.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// prime256v1: 1.2.840.10045.3.1.7.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// id-Ed25519, of keys and of signatures: 1.3.101.112.
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
/// organizationalUnitName: 2.5.4.11.
const ORGANIZATIONAL_UNIT: &[u8] = &[0x55, 0x04, 0x0b];
/// Object identifiers of anyExtendedKeyUsage and serverAuth.
const USAGES: [&[u8]; 2] = [
    &[0x55, 0x1d, 0x25, 0x00],
    &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01],
];

/// n/2, rounded down, where n is the order of P-256. A low s is at most this number.
const HALF_ORDER: [u8; 32] = [
    0x7f, 0xff, 0xff, 0xff, 0x80, 0x00, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xde,
    0x73, 0x7d, 0x56, 0xd3, 0x8b, 0xcf, 0x42, 0x79, 0xdc, 0xe5, 0x61, 0x7e, 0x31, 0x92, 0xa8,
];
/// Order n of P-256.
const ORDER: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xbc,
    0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// Returns whether s of a P-256 signature is at most n/2, where n is the order of P-256.
pub fn is_low_s(signature: &Signature) -> bool {
    signature.s <= HALF_ORDER
}

/// A certificate or a revocation list that is signed with ECDSA or Ed25519.
#[derive(Clone, Debug)]
pub struct SignedDer<'a> {
    /// The complete DER.
    pub whole: &'a [u8],
    /// The signed bytes.
    tbs: &'a [u8],
    algorithm: &'a [u8],
    /// The signature; `None` if the algorithm is unknown.
    pub seal: Option<Seal<'a>>,
    /// The issuer's name, in DER.
    pub issuer: &'a [u8],
    serial: &'a [u8],
}

/// A signature on a certificate or a revocation list.
#[derive(Clone, Copy, Debug)]
pub enum Seal<'a> {
    /// Hash function of an ECDSA signature, and the signature in its encoded form.
    Ecdsa(Hash, &'a [u8]),
    /// An Ed25519 signature.
    Ed25519(&'a [u8]),
}

/// Hash function of an ECDSA signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }
}

/// The parts of a revocation list that are needed to verify its signature later.
#[derive(Clone, Debug)]
enum CrlSignature {
    /// The signed digest, and the signature in its encoded form.
    Ecdsa(Vec<u8>, Vec<u8>),
    /// The signed bytes, and the signature.
    Ed25519(Vec<u8>, Vec<u8>),
}

impl<'a> SignedDer<'a> {
    /// Parses the outer structure and the issuer of a certificate.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut signed = Self::outer(bytes)?;
        let mut tbs = Reader::new(signed.tbs).inside(tag::SEQUENCE)?;
        tbs.optional(0xa0)?;
        signed.serial = tbs.integer()?;
        signed.inner(&mut tbs)?;
        Some(signed)
    }

    /// Parses `SEQUENCE { tbs, algorithm, signature }` without trailing bytes.
    fn outer(bytes: &'a [u8]) -> Option<Self> {
        let mut all = Reader::new(bytes);
        let whole = all.expect(tag::SEQUENCE)?;
        let mut outer = Reader::new(whole.content);
        let tbs = outer.expect(tag::SEQUENCE)?.whole;
        let algorithm = outer.expect(tag::SEQUENCE)?;
        let signature = outer.bit_string()?;
        if !outer.is_empty() || !all.is_empty() {
            return None;
        }
        let oid = Reader::new(algorithm.content).expect(tag::OID)?.content;
        let hash = match oid.strip_prefix(ECDSA_WITH) {
            Some([2]) => Some(Hash::Sha256),
            Some([3]) => Some(Hash::Sha384),
            Some([4]) => Some(Hash::Sha512),
            _ => None,
        };
        // If parameters follow the identifier, Go does not recognise the algorithm.
        let ed25519 = algorithm.content.strip_prefix(&[tag::OID, ED25519.len() as u8]) == Some(ED25519);
        let ed25519 = ed25519.then_some(Seal::Ed25519(signature));
        Some(Self {
            whole: whole.whole,
            tbs,
            algorithm: algorithm.whole,
            seal: hash.map(|hash| Seal::Ecdsa(hash, signature)).or(ed25519),
            issuer: &[],
            serial: &[],
        })
    }

    /// Checks that the signed part repeats the signature algorithm, and reads the issuer.
    fn inner(&mut self, tbs: &mut Reader<'a>) -> Option<()> {
        if tbs.expect(tag::SEQUENCE)?.whole != self.algorithm {
            return None;
        }
        self.issuer = tbs.expect(tag::SEQUENCE)?.whole;
        Some(())
    }

    /// Returns the ECDSA signature over P-256, if it is strict DER.
    fn ecdsa(&self) -> Option<Signature> {
        match self.seal {
            Some(Seal::Ecdsa(_, signature)) => ecdsa_der::parse_strict(signature).ok(),
            _ => None,
        }
    }

    /// Returns the signature for verification with `key`; `None` if a key of this type cannot have made the signature.
    pub(crate) fn by<'s>(&'s self, key: &'s Key) -> Option<UnverifiedSignature<'s>> {
        match (key, self.seal) {
            (Key::P256(key), Some(Seal::Ecdsa(hash, _))) => {
                let signature = SignatureBytes::Parsed(self.ecdsa()?);
                let digest = leftmost_256_bits(&hash.digest(self.tbs));
                Some(UnverifiedSignature::Ecdsa(Item {
                    key,
                    digest,
                    signature,
                }))
            }
            (Key::OtherCurve(key), Some(Seal::Ecdsa(hash, signature))) => {
                Some(UnverifiedSignature::OtherCurve {
                    key,
                    digest: hash.digest(self.tbs),
                    signature: DerSignature::parse_strict(signature)?,
                })
            }
            (Key::Ed25519(key), Some(Seal::Ed25519(signature))) => Some(UnverifiedSignature::Ed25519 {
                key,
                message: vec![self.tbs],
                signature,
            }),
            _ => None,
        }
    }

    /// Returns the DER with s of the signature normalised to at most n/2, where n is the order of the issuer's curve.
    /// An MSP normalises a certificate in this way before it hashes the certificate. `issuer` is the issuer's key;
    /// `None` means a P-256 key.
    pub(crate) fn sanitised(&self, issuer: Option<&Key>) -> Vec<u8> {
        let lowered = match (issuer, self.seal) {
            (None | Some(Key::P256(_)), _) => self.ecdsa().and_then(with_low_s),
            (Some(Key::OtherCurve(key)), Some(Seal::Ecdsa(_, signature))) => {
                DerSignature::parse_strict(signature).and_then(|numbers| key.with_low_s(&numbers))
            }
            _ => None,
        };
        let Some(lowered) = lowered else {
            return self.whole.to_vec();
        };
        let bits = [&[0], lowered.as_slice()].concat();
        let mut content = [self.tbs, self.algorithm].concat();
        put(&mut content, tag::BIT_STRING, &bits);
        let mut whole = Vec::new();
        put(&mut whole, tag::SEQUENCE, &content);
        whole
    }
}

/// Returns a P-256 signature in DER with a low s; `None` if its s is low already.
fn with_low_s(signature: Signature) -> Option<Vec<u8>> {
    if is_low_s(&signature) {
        return None;
    }
    let mut low = signature;
    let mut borrow = 0;
    for ((to, &n), &s) in low.s.iter_mut().zip(&ORDER).zip(&signature.s).rev() {
        let difference = i16::from(n) - i16::from(s) - borrow;
        borrow = i16::from(difference < 0);
        *to = (difference & 0xff) as u8;
    }
    Some(ecdsa_der::write(&low).as_bytes().to_vec())
}

/// The key in a certificate.
#[derive(Clone, Debug)]
pub enum CertifiedKey {
    /// A key of a supported type.
    Known(Key),
    /// A key because of which Go's parser rejects the whole certificate.
    Malformed,
    /// A key of another type.
    Other,
}

/// A completely parsed certificate.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The DER, with a low s in its signature.
    pub raw: Vec<u8>,
    /// The subject's name, in DER.
    pub subject: Vec<u8>,
    /// Content of the serial number's INTEGER.
    pub serial: Vec<u8>,
    /// Start of validity, in seconds since 1970.
    pub not_before_s: i64,
    /// End of validity, in seconds since 1970.
    pub not_after_s: i64,
    /// The subject's organizational units.
    pub units: Vec<String>,
    /// The public key.
    pub key: CertifiedKey,
    /// True if the basic constraints mark the certificate as that of a CA.
    pub is_ca: bool,
    /// Maximum number of CAs below this CA in a chain, from the basic constraints.
    pub path_length: Option<u32>,
    /// True if the key usage permits signing certificates, or is missing.
    pub may_sign: bool,
    /// True if the extended key usage is missing, or includes a usage that Go requires by default: server
    /// authentication, or any usage.
    pub usage_fits: bool,
    /// True if there is a critical extension that Go does not know.
    pub unknown_critical: bool,
    /// True if there are name constraints, which are not supported in CA certificates.
    pub name_constraints: bool,
    /// The subject key identifier.
    pub subject_key_id: Option<Vec<u8>>,
}

impl Certificate {
    /// Parses a complete certificate. Returns `None` for forms that this program does not support, even if Go does.
    /// `issuer` is the key that signed the certificate; the form of [`raw`](Self::raw) depends on it. `None` means a
    /// P-256 key.
    pub fn parse(signed: &SignedDer<'_>, issuer: Option<&Key>) -> Option<Self> {
        let mut all = Reader::new(signed.tbs);
        let mut tbs = all.inside(tag::SEQUENCE)?;
        let mut version = tbs.inside(0xa0)?;
        if version.integer()? != [2] || !version.is_empty() {
            return None;
        }
        // Go rejects negative serial numbers.
        if tbs.integer()?.first().is_none_or(|&first| first >= 0x80) {
            return None;
        }
        tbs.expect(tag::SEQUENCE)?;
        names(tbs.expect(tag::SEQUENCE)?.content)?;
        let mut validity = tbs.inside(tag::SEQUENCE)?;
        let (not_before_s, not_after_s) = (time(&mut validity)?, time(&mut validity)?);
        let subject = tbs.expect(tag::SEQUENCE)?;
        let mut certificate = Self {
            raw: signed.sanitised(issuer),
            subject: subject.whole.to_vec(),
            serial: signed.serial.to_vec(),
            not_before_s,
            not_after_s,
            units: names(subject.content)?,
            key: key(&mut tbs.inside(tag::SEQUENCE)?)?,
            is_ca: false,
            path_length: None,
            may_sign: true,
            usage_fits: true,
            unknown_critical: false,
            name_constraints: false,
            subject_key_id: None,
        };
        if let Some(extensions) = tbs.optional(0xa3)? {
            let mut outer = Reader::new(extensions.content);
            let mut extensions = outer.inside(tag::SEQUENCE)?;
            let mut seen: Vec<&[u8]> = Vec::new();
            while !extensions.is_empty() {
                let (oid, critical, value) = extension(&mut extensions)?;
                if seen.len() == EXTENSIONS_MAX || seen.contains(&oid) {
                    return None;
                }
                seen.push(oid);
                certificate.extend(oid, critical, value)?;
            }
            if !outer.is_empty() {
                return None;
            }
        }
        (tbs.is_empty() && all.is_empty() && validity.is_empty()).then_some(certificate)
    }

    fn extend(&mut self, oid: &[u8], critical: bool, value: &[u8]) -> Option<()> {
        let mut value = Reader::new(value);
        match oid {
            [0x55, 0x1d, 0x0f] => {
                let bits = value.expect(tag::BIT_STRING)?.content;
                // keyCertSign is bit 5. Go treats an all-zero key usage as a missing one.
                let any = bits.iter().skip(1).any(|&byte| byte != 0);
                self.may_sign = !any || bits.get(1).is_some_and(|&byte| byte & 0x04 != 0);
            }
            [0x55, 0x1d, 0x13] => {
                let mut constraints = value.inside(tag::SEQUENCE)?;
                if let Some(ca) = constraints.optional(tag::BOOLEAN)? {
                    self.is_ca = match ca.content {
                        [0xff] => true,
                        [0x00] => false,
                        _ => return None,
                    };
                }
                if !constraints.is_empty() {
                    let length = constraints.integer()?;
                    self.path_length = match *length {
                        [small @ ..=0x7f] => Some(u32::from(small)),
                        _ => return None,
                    };
                }
            }
            [0x55, 0x1d, 0x0e] => {
                self.subject_key_id = Some(value.expect(tag::OCTET_STRING)?.content.to_vec());
            }
            [0x55, 0x1d, 0x25] => {
                let mut usages = value.inside(tag::SEQUENCE)?;
                let mut fits = usages.is_empty();
                while !usages.is_empty() {
                    fits |= USAGES.contains(&usages.expect(tag::OID)?.content);
                }
                self.usage_fits = fits;
            }
            [0x55, 0x1d, 0x1e] => {
                self.name_constraints = true;
                return Some(());
            }
            // Extensions whose content is not needed: authority key identifier, alternative names, policies, CRL
            // distribution points, authority information access.
            [0x55, 0x1d, 0x23 | 0x11 | 0x20 | 0x1f] | [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x01] => {
                value.any()?;
                return (!critical).then_some(());
            }
            // Different versions of Go know different extensions with this prefix, so such a critical extension is not
            // supported.
            [0x55, 0x1d, ..] if critical => return None,
            _ => {
                self.unknown_critical |= critical;
                return Some(());
            }
        }
        value.is_empty().then_some(())
    }
}

/// Maximum number of extensions of a certificate.
const EXTENSIONS_MAX: usize = 64;

fn extension<'a>(extensions: &mut Reader<'a>) -> Option<(&'a [u8], bool, &'a [u8])> {
    let mut extension = extensions.inside(tag::SEQUENCE)?;
    let oid = extension.expect(tag::OID)?.content;
    let critical = match extension.optional(tag::BOOLEAN)?.map(|flag| flag.content) {
        None | Some([0x00]) => false,
        Some([0xff]) => true,
        Some(_) => return None,
    };
    let value = extension.expect(tag::OCTET_STRING)?.content;
    extension.is_empty().then_some((oid, critical, value))
}

/// Returns the organizational units of a name, whose values must all be plain text.
fn names(content: &[u8]) -> Option<Vec<String>> {
    let mut units = Vec::new();
    let mut sequence = Reader::new(content);
    while !sequence.is_empty() {
        let mut set = sequence.inside(tag::SET)?;
        while !set.is_empty() {
            let mut pair = set.inside(tag::SEQUENCE)?;
            let oid = pair.expect(tag::OID)?.content;
            let value = pair.any()?;
            let text = std::str::from_utf8(value.content).ok()?;
            let plain = match value.tag {
                tag::PRINTABLE_STRING => text.bytes().all(is_printable),
                tag::IA5_STRING => text.is_ascii(),
                tag::UTF8_STRING => true,
                _ => false,
            };
            if !plain || !pair.is_empty() {
                return None;
            }
            if oid == ORGANIZATIONAL_UNIT {
                units.push(text.to_owned());
            }
        }
    }
    Some(units)
}

/// Returns whether a byte is in the alphabet of PrintableString; Go also accepts `*` and `&`.
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(&byte)
}

/// Reads a `UTCTime` or `GeneralizedTime` in UTC. Returns seconds since 1970.
fn time(reader: &mut Reader<'_>) -> Option<i64> {
    let element = reader.any()?;
    let digits = element.content.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |from: usize| {
        let pair = digits.get(from..from + 2)?;
        pair.iter()
            .try_fold(0i64, |sum, &digit| Some(sum * 10 + i64::from(digit - b'0')))
    };
    let (year, rest) = match (element.tag, digits.len()) {
        (tag::UTC_TIME, 12) => {
            let year = number(0)?;
            (if year >= 50 { 1900 + year } else { 2000 + year }, 2)
        }
        (tag::GENERALIZED_TIME, 14) => (number(0)? * 100 + number(2)?, 4),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|place| number(rest + place));
    let (month, day, hour, minute, second) = (month?, day?, hour?, minute?, second?);
    let days_in = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_in).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Days since 1970-01-01 in the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Reads the public key; `None` if this program does not know how Go parses a key of this form.
fn key(info: &mut Reader<'_>) -> Option<CertifiedKey> {
    let mut algorithm = info.inside(tag::SEQUENCE)?;
    let kind = algorithm.expect(tag::OID)?.content;
    let bits = info.bit_string()?;
    if !info.is_empty() {
        return None;
    }
    if kind == ED25519 {
        // RFC 8410 allows no parameters.
        return Some(match <[u8; 32]>::try_from(bits) {
            Ok(key) if algorithm.is_empty() => CertifiedKey::Known(Key::Ed25519(key)),
            _ => CertifiedKey::Malformed,
        });
    }
    let curve = algorithm.optional(tag::OID)?.map(|oid| oid.content);
    let curve = curve.filter(|_| kind == EC_PUBLIC_KEY && algorithm.is_empty());
    if let Some(curve) = curve.filter(|curve| is_other_curve(curve)) {
        let key = OtherCurveKey::from_sec1(curve, bits);
        return Some(key.map_or(CertifiedKey::Malformed, |key| {
            CertifiedKey::Known(Key::OtherCurve(key))
        }));
    }
    if curve != Some(P256) {
        return Some(CertifiedKey::Other);
    }
    // Go accepts only the uncompressed form.
    if bits.first() != Some(&4) {
        return Some(CertifiedKey::Malformed);
    }
    Some(match PublicKey::from_sec1(Curve::P256, bits) {
        Ok(key) => CertifiedKey::Known(Key::P256(key)),
        Err(_) => CertifiedKey::Malformed,
    })
}

/// Returns the key identifier in the value of an authority key identifier extension: empty if the extension has no
/// identifier, `None` if Go cannot parse the extension.
///
/// Go skips elements with other tags and ignores bytes after the fields that it knows.
fn authority_key_id(value: &[u8]) -> Option<Vec<u8>> {
    let mut identifier = Reader::new(value).inside(tag::SEQUENCE)?;
    let key = identifier.optional(0x80)?;
    identifier.optional(0x81)?;
    if let Some(serial) = identifier.optional(0x82)? {
        let is_minimal = match serial.content {
            [] => false,
            [0x00, second, ..] => *second >= 0x80,
            [0xff, second, ..] => *second < 0x80,
            _ => true,
        };
        if !is_minimal {
            return None;
        }
    }
    Some(key.map(|key| key.content.to_vec()).unwrap_or_default())
}

/// A revocation list.
#[derive(Clone, Debug)]
pub struct Crl {
    /// The signature; `None` if the algorithm is unknown.
    seal: Option<CrlSignature>,
    /// The authority key identifier; empty if the extension contains no identifier. `None` if the extension is missing
    /// or Go cannot parse it: peers then accept no identity of the MSP.
    pub authority_key_id: Option<Vec<u8>>,
    /// Contents of the serial numbers, sorted.
    pub serials: Vec<Vec<u8>>,
}

impl Crl {
    /// Parses a revocation list. Its dates of issue are ignored.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut signed = SignedDer::outer(bytes)?;
        let mut tbs = Reader::new(signed.tbs).inside(tag::SEQUENCE)?;
        tbs.optional(tag::INTEGER)?;
        signed.inner(&mut tbs)?;
        time(&mut tbs)?;
        if tbs.optional(tag::UTC_TIME)?.is_none() {
            tbs.optional(tag::GENERALIZED_TIME)?;
        }
        let mut serials = Vec::new();
        if let Some(revoked) = tbs.optional(tag::SEQUENCE)? {
            let mut revoked = Reader::new(revoked.content);
            while !revoked.is_empty() {
                serials.push(revoked.inside(tag::SEQUENCE)?.integer()?.to_vec());
            }
        }
        serials.sort_unstable();
        // If the extension occurs several times, the first one is used.
        let mut identifier = None;
        if let Some(extensions) = tbs.optional(0xa0)? {
            let mut extensions = Reader::new(extensions.content).inside(tag::SEQUENCE)?;
            while !extensions.is_empty() {
                let (oid, _, value) = extension(&mut extensions)?;
                if oid == [0x55, 0x1d, 0x23] {
                    identifier.get_or_insert(value);
                }
            }
        }
        let seal = match signed.seal {
            // A peer parses the signature on a revocation list with the lenient parser, and encodes it again.
            Some(Seal::Ecdsa(hash, signature)) => {
                DerSignature::parse_go(signature)?;
                Some(CrlSignature::Ecdsa(hash.digest(signed.tbs), signature.to_vec()))
            }
            Some(Seal::Ed25519(signature)) => {
                Some(CrlSignature::Ed25519(signed.tbs.to_vec(), signature.to_vec()))
            }
            None => None,
        };
        Some(Self {
            seal,
            authority_key_id: identifier.and_then(authority_key_id),
            serials,
        })
    }

    /// Returns whether a CA with this key signed the list.
    pub fn is_signed_by(&self, key: &Key, verifier: &Verifier) -> bool {
        match (key, &self.seal) {
            (Key::P256(key), Some(CrlSignature::Ecdsa(digest, signature))) => {
                let digest = leftmost_256_bits(digest);
                ecdsa_der::parse_go(signature).is_ok_and(|signature| {
                    let signature = SignatureBytes::Parsed(signature);
                    let item = Item {
                        key,
                        digest,
                        signature,
                    };
                    verifier.verify(&item).is_valid()
                })
            }
            (Key::OtherCurve(key), Some(CrlSignature::Ecdsa(digest, signature))) => {
                DerSignature::parse_go(signature).is_some_and(|signature| key.verify(digest, &signature))
            }
            (Key::Ed25519(key), Some(CrlSignature::Ed25519(signed, signature))) => {
                ed25519::verify(key, &[signed], signature)
            }
            _ => false,
        }
    }

    /// Returns whether the list contains this serial number.
    pub fn lists(&self, serial: &[u8]) -> bool {
        self.serials
            .binary_search_by(|other| other.as_slice().cmp(serial))
            .is_ok()
    }
}
