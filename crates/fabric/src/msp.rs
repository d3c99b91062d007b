//! Membership service providers: resolve the identities that signed a channel's messages, and determine their roles.
//!
//! The rules are those of Fabric 1.4.3 and later. An identity needs exactly one chain to a root, must not be a CA or
//! revoked, and must have exactly one node OU. The certificate's own validity period has no effect, because peers check
//! it at the time one second after the period begins (FAB-3678).

use crate::error::Stop;
use crate::limits::{CAS_MAX, CHAIN_CHECKS_MAX, CHAIN_LENGTH_MAX};
use crate::pem;
use crate::proto::{self, Arena, FabricMspConfig, FabricOuIdentifier, SerializedIdentity};
use crate::rules::{Rule, Rules};
use crate::signature::{Key, verify_all};
use crate::x509::{Certificate, CertifiedKey, Crl, SignedDer};
use lineside_verify::Verifier;
use lineside_verify::hash::sha256;
use std::collections::HashMap;
use std::sync::Arc;

/// Bits of [`Identity::roles`].
pub mod role {
    #![allow(missing_docs)]
    pub const CLIENT: u8 = 1;
    pub const PEER: u8 = 2;
    pub const ADMIN: u8 = 4;
    pub const ORDERER: u8 = 8;
}

/// An identity whose certificate was signed by a CA of the channel.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Index of the identity's MSP in [`Msps`].
    pub msp: usize,
    /// SHA-256 of the certificate. Two identities are equal if they have the same `msp` and the same `id`.
    pub id: [u8; 32],
    /// The certificate, in DER.
    pub raw: Vec<u8>,
    /// The public key in the certificate.
    pub key: Key,
    /// True if the MSP accepts the identity: it is not a CA, not revoked, and its node OUs are valid.
    pub valid: bool,
    /// The roles that the certificate's node OUs give it, as bits of [`role`].
    pub roles: u8,
    /// True if the certificate is in the MSP's list of admins.
    pub listed_admin: bool,
    /// The certificate's organizational units.
    pub units: Vec<String>,
    /// SHA-256 of the CA certificates in the identity's chain, from the issuing CA to the root.
    pub certifiers: [u8; 32],
}

/// Result of resolving a serialised identity.
#[derive(Clone, Debug)]
pub enum Resolution {
    /// An MSP of the channel knows the identity; see [`Identity::valid`].
    Known(Arc<Identity>),
    /// No MSP of the channel knows the identity.
    Unknown,
    /// A CA of the channel signed the identity, but this program does not support the identity's form, for this reason.
    Unsure(&'static str),
}

/// A CA certificate of an MSP.
#[derive(Debug)]
struct Ca {
    certificate: Certificate,
    key: Key,
    root: bool,
    /// Chains from this CA to a root, as indices into [`Msp::cas`].
    chains: Vec<Vec<usize>>,
    /// True if the CA signed an intermediate CA. The CA must then not sign identities.
    internal: bool,
}

#[derive(Debug)]
struct NodeOu {
    unit: String,
    role: u8,
    certifiers: Option<[u8; 32]>,
}

/// A membership service provider.
#[derive(Debug)]
pub struct Msp {
    /// MSP identifier.
    pub name: String,
    cas: Vec<Ca>,
    crls: Vec<Crl>,
    admins: Vec<Vec<u8>>,
    /// The configured node OUs; `None` if node OUs are disabled.
    node_ous: Option<Vec<NodeOu>>,
    units: Vec<(String, [u8; 32])>,
    takes_ed25519: bool,
}

/// The MSPs of a channel.
#[derive(Debug, Default)]
pub struct Msps {
    all: Vec<Msp>,
    by_name: HashMap<String, usize>,
}

fn wrong(name: &str, what: &str) -> Stop {
    Stop::Config {
        what: format!("MSP {name}: {what}"),
    }
}

/// Parses a certificate of an MSP's configuration. `issuer` returns the key that signed the certificate, if it is not a
/// P-256 key.
fn configured(
    name: &str,
    pem: &[u8],
    issuer: &dyn Fn(&SignedDer<'_>) -> Option<Key>,
) -> Result<Certificate, Stop> {
    let Some(der) = pem::decode(pem) else {
        return Err(wrong(name, "a certificate is not PEM"));
    };
    let signed = SignedDer::parse(&der).ok_or_else(|| wrong(name, "a certificate is malformed"))?;
    Certificate::parse(&signed, issuer(&signed).as_ref())
        .ok_or_else(|| wrong(name, "a certificate has an unsupported form"))
}

impl Msp {
    /// Creates an MSP from its configuration. If `takes_ed25519` is true, Ed25519 keys are accepted, as with the
    /// channel capability V3_0.
    pub fn new(config: &FabricMspConfig<'_>, verifier: &Verifier, takes_ed25519: bool) -> Result<Self, Stop> {
        let name = config.name;
        let crypto = config.crypto_config.clone().unwrap_or_default();
        if !matches!(crypto.signature_hash_family, "" | "SHA2")
            || !matches!(crypto.identity_hash_function, "" | "SHA256")
        {
            return Err(wrong(name, "the MSP uses a hash function other than SHA-256"));
        }
        let mut msp = Self {
            name: name.to_owned(),
            cas: Vec::new(),
            crls: Vec::new(),
            admins: Vec::new(),
            node_ous: None,
            units: Vec::new(),
            takes_ed25519,
        };
        msp.add_cas(config, verifier)?;
        for crl in &config.revocation_list {
            let der = pem::decode(crl).unwrap_or_else(|| crl.to_vec());
            let crl = Crl::parse(&der).ok_or_else(|| wrong(name, "a revocation list is malformed"))?;
            msp.crls.push(crl);
        }
        if msp.takes_nobody() && !config.intermediate_certs.is_empty() {
            return Err(wrong(
                name,
                "peers refuse intermediate CAs with a revocation list that has no authority key identifier",
            ));
        }
        for unit in &config.organizational_units {
            let certifiers = msp.certifiers_of(unit.certificate, verifier)?;
            msp.units.push((unit.unit.to_owned(), certifiers));
        }
        msp.add_node_ous(config, verifier)?;
        for admin in &config.admins {
            let admin = configured(name, admin, &|signed| msp.large_issuer(signed, verifier))?;
            msp.admins.push(admin.raw);
        }
        if msp.takes_nobody() && !msp.admins.is_empty() && msp.node_ous.is_none() {
            return Err(wrong(
                name,
                "peers refuse admin certificates with a revocation list that has no authority key identifier",
            ));
        }
        if msp.admins.is_empty() && !msp.node_ous.iter().flatten().any(|ou| ou.role == role::ADMIN) {
            return Err(wrong(name, "the MSP has no admins"));
        }
        Ok(msp)
    }

    fn add_cas(&mut self, config: &FabricMspConfig<'_>, verifier: &Verifier) -> Result<(), Stop> {
        let name = self.name.clone();
        let count = config.root_certs.len() + config.intermediate_certs.len();
        if config.root_certs.is_empty() || count > CAS_MAX {
            return Err(wrong(&name, "the MSP has no root certificates, or too many CAs"));
        }
        let mut signed = Vec::new();
        let roots = config.root_certs.iter().map(|pem| (pem, true));
        for (pem, root) in roots.chain(config.intermediate_certs.iter().map(|pem| (pem, false))) {
            let certificate = configured(&name, pem, &|_| None)?;
            let CertifiedKey::Known(key) = certificate.key.clone() else {
                return Err(wrong(&name, "the key of a CA has an unsupported type"));
            };
            if !certificate.is_ca || certificate.subject_key_id.is_none() {
                return Err(wrong(
                    &name,
                    "a certificate in the list of CAs is not a CA certificate",
                ));
            }
            if certificate.name_constraints || certificate.unknown_critical || !certificate.usage_fits {
                return Err(wrong(&name, "a CA certificate has unsupported constraints"));
            }
            self.cas.push(Ca {
                certificate,
                key,
                root,
                chains: Vec::new(),
                internal: false,
            });
            if let Some(der) = pem::decode(pem) {
                signed.push(der);
            }
        }
        // Indices of the CAs that signed each CA.
        let mut parents: Vec<Vec<usize>> = Vec::new();
        for (der, ca) in signed.iter().zip(&self.cas) {
            let checked = SignedDer::parse(der).ok_or_else(|| wrong(&name, "a certificate is malformed"))?;
            let mut above = Vec::new();
            if !ca.root {
                for candidate in self.candidates(checked.issuer) {
                    let parent = self.cas.get(candidate).map(|parent| &parent.certificate.raw);
                    let itself = parent == Some(&ca.certificate.raw);
                    if !itself && self.signed_by(&checked, candidate, verifier) {
                        above.push(candidate);
                    }
                }
            }
            parents.push(above);
        }
        self.sanitise_cas(&signed, &parents);
        let mut internal = vec![false; self.cas.len()];
        for place in 0..self.cas.len() {
            let mut found = Vec::new();
            self.follow(&parents, vec![place], &mut found);
            let ca = self
                .cas
                .get_mut(place)
                .ok_or_else(|| wrong(&name, "a CA that signed another CA is missing"))?;
            if !ca.root {
                let [chain] = found.as_slice() else {
                    return Err(wrong(
                        &name,
                        "an intermediate CA does not have exactly one chain to a root",
                    ));
                };
                for &above in chain.iter().skip(1) {
                    if let Some(flag) = internal.get_mut(above) {
                        *flag = true;
                    }
                }
            }
            ca.chains = found;
        }
        for (ca, internal) in self.cas.iter_mut().zip(internal) {
            ca.internal = internal;
        }
        Ok(())
    }

    /// Changes the signature of each CA certificate to the form with a low s, if the issuer's key is not a P-256 key.
    fn sanitise_cas(&mut self, signed: &[Vec<u8>], parents: &[Vec<usize>]) {
        for (place, (der, above)) in signed.iter().zip(parents).enumerate() {
            let is_root = self.cas.get(place).is_some_and(|ca| ca.root);
            let issuer = if is_root { Some(&place) } else { above.first() };
            let issuer = issuer.and_then(|&issuer| self.cas.get(issuer));
            let key = issuer.map(|issuer| issuer.key.clone());
            if let (Some(ca), Some(signed)) = (self.cas.get_mut(place), SignedDer::parse(der)) {
                ca.certificate.raw = signed.sanitised(key.as_ref());
            }
        }
    }

    /// Returns the key of the CA that signed a certificate; `None` if it is a P-256 key, or if no CA of the MSP signed
    /// it.
    fn large_issuer(&self, signed: &SignedDer<'_>, verifier: &Verifier) -> Option<Key> {
        let mut candidates = self.candidates(signed.issuer);
        let is_large = |ca: &usize| {
            self.cas
                .get(*ca)
                .is_some_and(|ca| !matches!(ca.key, Key::P256(_)))
        };
        let issuer = candidates.find(|ca| is_large(ca) && self.signed_by(signed, *ca, verifier))?;
        self.cas.get(issuer).map(|ca| ca.key.clone())
    }

    fn follow(&self, parents: &[Vec<usize>], chain: Vec<usize>, found: &mut Vec<Vec<usize>>) {
        let Some(ca) = chain.last().and_then(|&last| self.cas.get(last)) else {
            return;
        };
        let below = chain.len() - 1;
        let too_long = |length: u32| below > length as usize;
        if ca.certificate.path_length.is_some_and(too_long) || found.len() > 1 {
            return;
        }
        if ca.root {
            found.push(chain);
            return;
        }
        let last = chain.last().copied().unwrap_or_default();
        for &parent in parents.get(last).into_iter().flatten() {
            if chain.len() < CHAIN_LENGTH_MAX && !chain.contains(&parent) {
                let mut longer = chain.clone();
                longer.push(parent);
                self.follow(parents, longer, found);
            }
        }
    }

    /// Returns the CAs with the subject `issuer` that may sign certificates, at most [`CHAIN_CHECKS_MAX`].
    fn candidates(&self, issuer: &[u8]) -> impl Iterator<Item = usize> {
        let fits = move |(place, ca): (usize, &Ca)| {
            (ca.certificate.subject == issuer && ca.certificate.may_sign).then_some(place)
        };
        self.cas
            .iter()
            .enumerate()
            .filter_map(fits)
            .take(CHAIN_CHECKS_MAX)
    }

    fn signed_by(&self, signed: &SignedDer<'_>, ca: usize, verifier: &Verifier) -> bool {
        let seal = self.cas.get(ca).and_then(|ca| signed.by(&ca.key));
        seal.is_some_and(|seal| verify_all(&[seal], verifier, Rules::default()) == [true])
    }

    /// Returns whether the MSP accepts no identity, because peers cannot match one of its revocation lists with a CA.
    fn takes_nobody(&self) -> bool {
        self.crls.iter().any(|crl| crl.authority_key_id.is_none())
    }

    /// Returns the SHA-256 of the certificates from a CA of the MSP to its root.
    fn certifiers_of(&self, pem: &[u8], verifier: &Verifier) -> Result<[u8; 32], Stop> {
        let certificate = configured(&self.name, pem, &|signed| self.large_issuer(signed, verifier))?;
        let mut cas = self.cas.iter();
        let found = cas.find(|ca| ca.certificate.raw == certificate.raw);
        let chain = found.and_then(|ca| ca.chains.first());
        let chain = chain.ok_or_else(|| {
            wrong(
                &self.name,
                "an OU names a CA certificate that the MSP does not have",
            )
        })?;
        Ok(self.hash_of(chain))
    }

    fn hash_of(&self, chain: &[usize]) -> [u8; 32] {
        let raw = |&ca: &usize| self.cas.get(ca).map(|ca| ca.certificate.raw.as_slice());
        sha256(&chain.iter().filter_map(raw).collect::<Vec<_>>().concat())
    }

    fn add_node_ous(&mut self, config: &FabricMspConfig<'_>, verifier: &Verifier) -> Result<(), Stop> {
        let Some(node_ous) = config.node_ous.as_ref() else {
            return Ok(());
        };
        let mut known = Vec::new();
        let listed: [(&Option<FabricOuIdentifier<'_>>, u8); 4] = [
            (&node_ous.client, role::CLIENT),
            (&node_ous.peer, role::PEER),
            (&node_ous.admin, role::ADMIN),
            (&node_ous.orderer, role::ORDERER),
        ];
        for (ou, role) in listed {
            if let Some(ou) = ou {
                let certifiers = match ou.certificate {
                    [] => None,
                    pem => Some(self.certifiers_of(pem, verifier)?),
                };
                known.push(NodeOu {
                    unit: ou.unit.to_owned(),
                    role,
                    certifiers,
                });
            }
        }
        if node_ous.enable && !known.is_empty() {
            self.node_ous = Some(known);
        }
        Ok(())
    }

    /// Returns whether every CA of a chain is valid one second after a certificate's validity begins.
    fn in_time(&self, chain: &[usize], not_before_s: i64) -> bool {
        let now = not_before_s + 1;
        chain.iter().filter_map(|&ca| self.cas.get(ca)).all(|ca| {
            let certificate = &ca.certificate;
            certificate.not_before_s <= now && now <= certificate.not_after_s
        })
    }

    /// Returns the identity of a certificate that the CAs `signers` signed.
    fn admit(
        &self,
        place: usize,
        signed: &SignedDer<'_>,
        signers: &[usize],
        verifier: &Verifier,
        rules: Rules,
    ) -> Resolution {
        let issuer = signers.first().and_then(|&ca| self.cas.get(ca));
        let Some(certificate) = Certificate::parse(signed, issuer.map(|ca| &ca.key)) else {
            return Resolution::Unsure("the certificate has an unsupported form");
        };
        let mut now_s = certificate.not_before_s + 1;
        if !rules.hold(Rule::ExpiryIgnored) {
            now_s = 1_795_219_965;
        }
        if certificate.unknown_critical || !certificate.usage_fits || now_s > certificate.not_after_s {
            return Resolution::Unknown;
        }
        let chains = signers
            .iter()
            .filter_map(|&ca| self.cas.get(ca))
            .flat_map(|ca| &ca.chains);
        let mut chains = chains.filter(|chain| self.in_time(chain, certificate.not_before_s));
        let (Some(chain), None) = (chains.next(), chains.next()) else {
            return Resolution::Unknown;
        };
        let key = match &certificate.key {
            CertifiedKey::Known(key) => key.clone(),
            CertifiedKey::Malformed => return Resolution::Unknown,
            CertifiedKey::Other => return Resolution::Unsure("the key has an unsupported type"),
        };
        let takes_ed25519 = self.takes_ed25519 || !rules.hold(Rule::Ed25519FromV3);
        let takes_key = takes_ed25519 || !matches!(key, Key::Ed25519(_));
        let certifiers = self.hash_of(chain);
        let roles = self.roles(&certificate, &certifiers, rules);
        let issuer = chain.first().and_then(|&ca| self.cas.get(ca));
        let takes_any = !self.takes_nobody() || !rules.hold(Rule::ListWithoutIdentifier);
        let from_leaf = issuer.is_some_and(|ca| !ca.internal) || !rules.hold(Rule::InternalCas);
        let not_ca = !certificate.is_ca || !rules.hold(Rule::CaRefused);
        let revoked = issuer.is_none_or(|ca| self.revoked(&certificate, ca, verifier, rules));
        let revoked = revoked && rules.hold(Rule::RevokedRefused);
        Resolution::Known(Arc::new(Identity {
            msp: place,
            id: sha256(&certificate.raw),
            key,
            valid: takes_any && takes_key && from_leaf && not_ca && !revoked && roles.is_some(),
            roles: roles.unwrap_or_default(),
            listed_admin: self.admins.contains(&certificate.raw),
            raw: certificate.raw,
            units: certificate.units,
            certifiers,
        }))
    }

    fn revoked(&self, certificate: &Certificate, issuer: &Ca, verifier: &Verifier, rules: Rules) -> bool {
        let mut listing = self.crls.iter().filter(|crl| {
            let of_issuer = crl.authority_key_id == issuer.certificate.subject_key_id;
            (of_issuer || !rules.hold(Rule::ListOfIssuer)) && crl.lists(&certificate.serial)
        });
        listing.any(|crl| crl.is_signed_by(&issuer.key, verifier) || !rules.hold(Rule::ListSigned))
    }

    /// Returns the roles that a certificate's node OUs give it; `None` if the node OUs are invalid.
    fn roles(&self, certificate: &Certificate, certifiers: &[u8; 32], rules: Rules) -> Option<u8> {
        let Some(node_ous) = &self.node_ous else {
            let listed = |unit: &String| {
                self.units
                    .iter()
                    .any(|(name, by)| name == unit && by == certifiers)
            };
            let fits = self.units.is_empty() || certificate.units.iter().any(listed);
            let none = if rules.hold(Rule::RolesWithoutNodeOus) {
                0
            } else {
                role::CLIENT | role::PEER
            };
            return fits.then_some(none);
        };
        let (mut count, mut roles) = (0, 0);
        for unit in &certificate.units {
            // Two roles may have the same OU name; then the certifiers of the last of these roles, in the order of
            // `node_ous`, apply.
            let mut named = node_ous.iter().filter(|ou| ou.unit == *unit);
            let Some(ou) = named.clone().next_back() else {
                continue;
            };
            let certified = ou.certifiers.is_none_or(|by| by == *certifiers);
            if !certified && count < 2 && rules.hold(Rule::NodeOuCertifiers) {
                return None;
            }
            count += 1;
            roles |= named.by_ref().fold(0, |all, ou| all | ou.role);
        }
        (count == 1 || !rules.hold(Rule::OneNodeOu)).then_some(roles)
    }

    /// Returns whether the MSP determines roles by node OUs.
    pub fn has_node_ous(&self) -> bool {
        self.node_ous.is_some()
    }
}

/// An identity whose certificate's signature is not verified yet.
struct UnverifiedIdentity {
    at: usize,
    msp: usize,
    der: Vec<u8>,
    /// CAs that may have signed the certificate.
    candidates: Vec<usize>,
}

impl Msps {
    /// Adds an MSP and returns its index.
    pub fn add(&mut self, msp: Msp) -> usize {
        let place = self.all.len();
        self.by_name.insert(msp.name.clone(), place);
        self.all.push(msp);
        place
    }

    /// Returns the index of the MSP with the identifier `name`.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Returns the identifier of the MSP at an index.
    pub fn name(&self, place: usize) -> Option<&str> {
        self.get(place).map(|msp| msp.name.as_str())
    }

    /// Returns the MSP at an index.
    pub fn get(&self, place: usize) -> Option<&Msp> {
        self.all.get(place)
    }

    /// Resolves serialised identities. The signatures on their certificates are verified in one batch.
    pub(crate) fn resolve(&self, identities: &[&[u8]], verifier: &Verifier, rules: Rules) -> Vec<Resolution> {
        let mut resolutions = vec![Resolution::Unknown; identities.len()];
        let mut waiting = Vec::new();
        for (at, (bytes, resolution)) in identities.iter().zip(&mut resolutions).enumerate() {
            match self.prepare(bytes) {
                Ok((msp, der, candidates)) => waiting.push(UnverifiedIdentity {
                    at,
                    msp,
                    der,
                    candidates,
                }),
                Err(early) => *resolution = early,
            }
        }
        let signed: Vec<_> = waiting
            .iter()
            .map(|waiting| SignedDer::parse(&waiting.der))
            .collect();
        let mut seals = Vec::new();
        // For each entry of `seals`, the index of the identity in `waiting`, and the index of the CA that may have
        // signed its certificate.
        let mut seal_of = Vec::new();
        for (place, (waiting, signed)) in waiting.iter().zip(&signed).enumerate() {
            for &ca in &waiting.candidates {
                let key = self.all.get(waiting.msp).and_then(|msp| msp.cas.get(ca));
                let seal = signed
                    .as_ref()
                    .zip(key)
                    .and_then(|(signed, ca)| signed.by(&ca.key));
                if let Some(seal) = seal {
                    seals.push(seal);
                    seal_of.push((place, ca));
                }
            }
        }
        let mut signers = vec![Vec::new(); waiting.len()];
        let valid = verify_all(&seals, verifier, Rules::default());
        for ((place, ca), _) in seal_of.into_iter().zip(valid).filter(|(_, valid)| *valid) {
            if let Some(signers) = signers.get_mut(place) {
                signers.push(ca);
            }
        }
        for ((waiting, signed), signers) in waiting.iter().zip(&signed).zip(&signers) {
            let (Some(msp), Some(signed)) = (self.all.get(waiting.msp), signed) else {
                continue;
            };
            if !signers.is_empty()
                && let Some(resolution) = resolutions.get_mut(waiting.at)
            {
                *resolution = msp.admit(waiting.msp, signed, signers, verifier, rules);
            }
        }
        resolutions
    }

    fn prepare(&self, bytes: &[u8]) -> Result<(usize, Vec<u8>, Vec<usize>), Resolution> {
        let unknown = || Resolution::Unknown;
        let arena = Arena::new();
        let identity: SerializedIdentity<'_> = proto::decode(bytes, &arena).map_err(|_| unknown())?;
        let place = self.index_of(identity.mspid).ok_or_else(unknown)?;
        let msp = self.all.get(place).ok_or_else(unknown)?;
        let der = pem::decode(identity.id_bytes).ok_or_else(unknown)?;
        let signed = SignedDer::parse(&der).ok_or_else(unknown)?;
        let candidates: Vec<usize> = msp.candidates(signed.issuer).collect();
        if candidates.is_empty() {
            return Err(Resolution::Unknown);
        }
        Ok((place, der, candidates))
    }
}
