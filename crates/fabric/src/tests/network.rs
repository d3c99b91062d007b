//! A generated channel for tests: CAs, identities, transactions and blocks. A test can change each part.

use crate::der::{put, put_unsigned, tag};
use crate::proto::wire::{put_bytes, put_number};
use crate::rules::{Rule, Rules};
use crate::{Error, Options, TxCode, ValidatedBlock, Validator};
use p256::ecdsa::signature::hazmat::PrehashSigner;
use p256::ecdsa::{Signature, SigningKey};
use sha2::{Digest, Sha256};

pub const CHANNEL: &str = "made";

pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Encodes a message whose fields are bytes; empty fields are encoded too.
pub fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, content) in fields {
        put_bytes(&mut out, *number, content);
    }
    out
}

pub fn number(field: u32, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, field, value);
    out
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, tag, content);
    out
}

/// Returns a P-256 key that is derived from a word, so that each run uses the same keys.
pub fn key(seed: &str) -> SigningKey {
    SigningKey::from_slice(&sha256(seed.as_bytes())).unwrap()
}

/// Signs a digest. The signature's s is high if `high` is true, otherwise low.
pub fn sign(key: &SigningKey, digest: &[u8; 32], high: bool) -> Vec<u8> {
    let signature: Signature = key.sign_prehash(digest).unwrap();
    let low = signature.normalize_s().unwrap_or(signature);
    let (r, s) = low.split_scalars();
    let chosen = if high {
        Signature::from_scalars(r, -s).unwrap()
    } else {
        low
    };
    chosen.to_der().as_bytes().to_vec()
}

/// Content of a certificate.
#[derive(Clone)]
pub struct Spec {
    pub name: String,
    pub units: Vec<&'static str>,
    pub serial: u64,
    pub is_ca: bool,
    pub years: (u16, u16),
    /// True if the certificate names secp256k1 as the key's curve, which Go's `crypto/x509` does not support.
    pub other_curve: bool,
    /// True if the CA's signature on the certificate has a high s.
    pub high_s: bool,
    /// True if the key is an Ed25519 key.
    pub ed25519: bool,
}

impl Spec {
    pub fn new(name: &str, units: &[&'static str]) -> Self {
        let serial = u64::from_be_bytes(sha256(name.as_bytes())[..8].try_into().unwrap()) >> 2;
        Self {
            name: name.to_owned(),
            units: units.to_vec(),
            serial,
            is_ca: false,
            years: (2020, 2049),
            other_curve: false,
            high_s: false,
            ed25519: false,
        }
    }
}

fn distinguished_name(name: &str, units: &[&str]) -> Vec<u8> {
    let attribute = |oid: u8, value: &str| {
        let mut pair = element(tag::OID, &[0x55, 0x04, oid]);
        put(&mut pair, tag::UTF8_STRING, value.as_bytes());
        element(tag::SET, &element(tag::SEQUENCE, &pair))
    };
    let mut names = attribute(3, name);
    for unit in units {
        names.extend(attribute(11, unit));
    }
    element(tag::SEQUENCE, &names)
}

const ECDSA_WITH_SHA256: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];

/// An identity with its certificate and key.
#[derive(Clone)]
pub struct Member {
    pub msp: String,
    pub key: SigningKey,
    /// The Ed25519 key that replaces `key`.
    pub ed25519: Option<ed25519_dalek::SigningKey>,
    pub der: Vec<u8>,
    subject: Vec<u8>,
}

impl Member {
    pub fn pem(&self) -> Vec<u8> {
        pem(&self.der)
    }

    pub fn serialised(&self) -> Vec<u8> {
        self.serialised_as(&self.pem())
    }

    pub fn serialised_as(&self, pem: &[u8]) -> Vec<u8> {
        message(&[(1, self.msp.as_bytes()), (2, pem)])
    }

    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        use ed25519_dalek::Signer;
        match &self.ed25519 {
            Some(key) => key.sign(bytes).to_bytes().to_vec(),
            None => sign(&self.key, &sha256(bytes), false),
        }
    }

    /// Issues a certificate.
    pub fn certify(&self, spec: &Spec) -> Member {
        let key = key(&format!("{}/{}", self.msp, spec.name));
        self.certify_key(spec, key, &self.subject)
    }

    fn certify_key(&self, spec: &Spec, key: SigningKey, issuer: &[u8]) -> Member {
        let subject = distinguished_name(&spec.name, &spec.units);
        let mut tbs = element(0xa0, &[2, 1, 2]);
        put_unsigned(&mut tbs, spec.serial);
        tbs.extend_from_slice(ECDSA_WITH_SHA256);
        tbs.extend_from_slice(issuer);
        let year = |year: u16| element(tag::GENERALIZED_TIME, format!("{year}0101000000Z").as_bytes());
        put(
            &mut tbs,
            tag::SEQUENCE,
            &[year(spec.years.0), year(spec.years.1)].concat(),
        );
        tbs.extend_from_slice(&subject);
        let mut curve = element(tag::OID, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01]);
        let oid: &[u8] = match spec.other_curve {
            true => &[0x2b, 0x81, 0x04, 0x00, 0x0a],
            false => &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        };
        put(&mut curve, tag::OID, oid);
        let mut info = element(tag::SEQUENCE, &curve);
        let point = key.verifying_key().to_encoded_point(false);
        let seed = sha256(point.as_bytes());
        let ed25519 = spec.ed25519.then(|| ed25519_dalek::SigningKey::from_bytes(&seed));
        match &ed25519 {
            Some(key) => {
                info = element(tag::SEQUENCE, &element(tag::OID, &[0x2b, 0x65, 0x70]));
                let public = key.verifying_key().to_bytes();
                put(&mut info, tag::BIT_STRING, &[&[0], &public[..]].concat());
            }
            None => put(&mut info, tag::BIT_STRING, &[&[0], point.as_bytes()].concat()),
        }
        put(&mut tbs, tag::SEQUENCE, &info);
        let extension = |oid: u8, value: &[u8]| {
            let mut extension = element(tag::OID, &[0x55, 0x1d, oid]);
            put(&mut extension, tag::OCTET_STRING, value);
            element(tag::SEQUENCE, &extension)
        };
        let mut extensions = extension(0x0e, &element(tag::OCTET_STRING, &sha256(point.as_bytes())));
        if spec.is_ca {
            extensions.extend(extension(0x13, &[0x30, 3, 1, 1, 0xff]));
            extensions.extend(extension(0x0f, &[3, 2, 1, 6]));
        }
        put(&mut tbs, 0xa3, &element(tag::SEQUENCE, &extensions));
        let tbs = element(tag::SEQUENCE, &tbs);
        let signer = if issuer == subject { &key } else { &self.key };
        let signature = sign(signer, &sha256(&tbs), spec.high_s);
        let signature = element(tag::BIT_STRING, &[vec![0], signature].concat());
        let der = element(tag::SEQUENCE, &[&tbs[..], ECDSA_WITH_SHA256, &signature].concat());
        Member {
            msp: self.msp.clone(),
            key,
            ed25519,
            der,
            subject,
        }
    }

    /// Creates a root CA.
    pub fn root(msp: &str) -> Member {
        let mut spec = Spec::new(&format!("ca.{msp}"), &[]);
        spec.is_ca = true;
        let key = key(&spec.name);
        let subject = distinguished_name(&spec.name, &[]);
        let blank = Member {
            msp: msp.to_owned(),
            key: key.clone(),
            ed25519: None,
            der: Vec::new(),
            subject: subject.clone(),
        };
        blank.certify_key(&spec, key, &subject)
    }

    /// Creates a revocation list of this CA.
    pub fn revoke(&self, serials: &[u64]) -> Vec<u8> {
        let id = sha256(self.key.verifying_key().to_encoded_point(false).as_bytes());
        self.revoke_with(serials, Some(&element(tag::SEQUENCE, &element(0x80, &id))))
    }

    /// Creates a revocation list of this CA with the given value of the authority key identifier.
    pub fn revoke_with(&self, serials: &[u64], identifier: Option<&[u8]>) -> Vec<u8> {
        let mut tbs = element(tag::INTEGER, &[1]);
        tbs.extend_from_slice(ECDSA_WITH_SHA256);
        tbs.extend_from_slice(&self.subject);
        let time = element(tag::UTC_TIME, b"300101000000Z");
        tbs.extend_from_slice(&time);
        let mut revoked = Vec::new();
        for &serial in serials {
            let mut entry = Vec::new();
            put_unsigned(&mut entry, serial);
            entry.extend_from_slice(&time);
            put(&mut revoked, tag::SEQUENCE, &entry);
        }
        put(&mut tbs, tag::SEQUENCE, &revoked);
        if let Some(value) = identifier {
            let mut extension = element(tag::OID, &[0x55, 0x1d, 0x23]);
            put(&mut extension, tag::OCTET_STRING, value);
            let extensions = element(tag::SEQUENCE, &element(tag::SEQUENCE, &extension));
            put(&mut tbs, 0xa0, &extensions);
        }
        let tbs = element(tag::SEQUENCE, &tbs);
        let signature = sign(&self.key, &sha256(&tbs), false);
        let signature = element(tag::BIT_STRING, &[vec![0], signature].concat());
        element(tag::SEQUENCE, &[&tbs[..], ECDSA_WITH_SHA256, &signature].concat())
    }
}

pub fn pem(der: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    for (place, chunk) in der.chunks(3).enumerate() {
        let bits =
            chunk.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit > chunk.len() { b'=' } else { DIGITS[index] });
        }
        if place % 16 == 15 {
            text.push(b'\n');
        }
    }
    text.extend_from_slice(b"\n-----END CERTIFICATE-----\n");
    text
}

/// Encodings of policies.
pub mod policy {
    use super::{message, number};

    pub fn role(msp: &str, role: u64) -> Vec<u8> {
        let role = [message(&[(1, msp.as_bytes())]), number(2, role)].concat();
        message(&[(2, &role)])
    }

    /// Encodes a policy that requires `n` of these principals: MSP and role. Roles: 0 member, 1 admin, 2 client, 3
    /// peer, 4 orderer.
    pub fn n_of(n: u64, of: &[(&str, u64)]) -> Vec<u8> {
        let principals: Vec<_> = of.iter().map(|(msp, kind)| role(msp, *kind)).collect();
        n_of_principals(n, &principals)
    }

    pub fn n_of_principals(n: u64, principals: &[Vec<u8>]) -> Vec<u8> {
        let mut out = number(1, n);
        for place in 0..principals.len() {
            let mut signed_by = vec![0x08];
            crate::proto::wire::put_varint(&mut signed_by, place as u64);
            out.extend(message(&[(2, &signed_by)]));
        }
        let rule = message(&[(2, &out)]);
        let mut envelope = message(&[(2, &rule)]);
        for principal in principals {
            envelope.extend(message(&[(3, principal)]));
        }
        envelope
    }

    /// Encodes an `ApplicationPolicy`.
    pub fn application(envelope: &[u8]) -> Vec<u8> {
        message(&[(1, envelope)])
    }

    pub fn reference(path: &str) -> Vec<u8> {
        message(&[(2, path.as_bytes())])
    }
}

/// Settings of an organisation.
pub struct Org {
    pub msp: String,
    pub root: Member,
    pub intermediates: Vec<Member>,
    pub admins: Vec<Vec<u8>>,
    pub crls: Vec<Vec<u8>>,
    pub node_ous: bool,
    pub kind: u64,
}

impl Org {
    pub fn new(msp: &str) -> Self {
        Self {
            msp: msp.to_owned(),
            root: Member::root(msp),
            intermediates: Vec::new(),
            admins: Vec::new(),
            crls: Vec::new(),
            node_ous: true,
            kind: 0,
        }
    }

    /// Creates a member with an Ed25519 key, certified by this organisation's root.
    pub fn member_with_ed25519(&self, name: &str, units: &[&'static str]) -> Member {
        let mut spec = Spec::new(name, units);
        spec.ed25519 = true;
        self.root.certify(&spec)
    }

    /// Creates a member, certified by this organisation's root.
    pub fn member(&self, name: &str, units: &[&'static str]) -> Member {
        self.root.certify(&Spec::new(name, units))
    }

    fn config(&self) -> Vec<u8> {
        let mut fabric = message(&[(1, self.msp.as_bytes()), (2, &self.root.pem())]);
        for (field, list) in [(4, &self.admins), (5, &self.crls)] {
            for item in list {
                put_bytes(&mut fabric, field, item);
            }
        }
        for intermediate in &self.intermediates {
            put_bytes(&mut fabric, 3, &intermediate.pem());
        }
        if self.node_ous {
            let mut ous = number(1, 1);
            for (field, unit) in [(2, "client"), (3, "peer"), (4, "admin"), (5, "orderer")] {
                put_bytes(&mut ous, field, &message(&[(2, unit.as_bytes())]));
            }
            put_bytes(&mut fabric, 11, &ous);
        }
        [number(1, self.kind), message(&[(2, &fabric)])].concat()
    }

    fn group(&self) -> Vec<u8> {
        let mut group = value("MSP", &self.config());
        group.extend(signature_policy(
            "Endorsement",
            &policy::n_of(1, &[(&self.msp, 3)]),
        ));
        group.extend(signature_policy("Writers", &policy::n_of(1, &[(&self.msp, 0)])));
        group.extend(signature_policy("Admins", &policy::n_of(1, &[(&self.msp, 1)])));
        group
    }

    /// Returns the organisation's admin.
    pub fn admin(&self) -> Member {
        self.member("admin", &["admin"])
    }
}

/// The mod_policy of all elements of the configuration: the policy that a change of the element must satisfy.
const MOD_POLICY: &[u8] = b"Admins";

fn value(name: &str, bytes: &[u8]) -> Vec<u8> {
    let value = message(&[(2, bytes), (3, MOD_POLICY)]);
    message(&[(3, &message(&[(1, name.as_bytes()), (2, &value)]))])
}

fn policy_entry(name: &str, kind: u64, bytes: &[u8]) -> Vec<u8> {
    let policy = [number(1, kind), message(&[(2, bytes)])].concat();
    let policy = message(&[(2, &policy), (3, MOD_POLICY)]);
    message(&[(4, &message(&[(1, name.as_bytes()), (2, &policy)]))])
}

fn signature_policy(name: &str, envelope: &[u8]) -> Vec<u8> {
    policy_entry(name, 1, envelope)
}

/// Encodes a policy over the policies `sub` of the groups below. Rules: 0 any, 1 all, 2 majority.
fn implicit_policy(name: &str, sub: &str, rule: u64) -> Vec<u8> {
    policy_entry(
        name,
        3,
        &[message(&[(1, sub.as_bytes())]), number(2, rule)].concat(),
    )
}

fn capabilities(names: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for name in names {
        out.extend(message(&[(1, &message(&[(1, name.as_bytes()), (2, b"")]))]));
    }
    out
}

fn group(name: &str, content: &[u8]) -> Vec<u8> {
    let content = [content, &message(&[(5, MOD_POLICY)])].concat();
    message(&[(2, &message(&[(1, name.as_bytes()), (2, &content)]))])
}

/// A generated channel.
pub struct Network {
    pub orgs: Vec<Org>,
    pub orderers: Org,
    pub orderer: Member,
    pub channel_capabilities: Vec<&'static str>,
    pub application_capabilities: Vec<&'static str>,
    /// Numbers and identities of BFT consenters.
    pub consenters: Vec<(u64, Member)>,
    pub sequence: u64,
    /// Channel group that replaces the generated channel group, if it is set.
    pub channel_group: Option<Vec<u8>>,
    nonce: u64,
    /// Number and header hash of the last block.
    pub last: (u64, Vec<u8>),
}

impl Network {
    pub fn new() -> Self {
        let orderers = Org::new("OrdererMSP");
        Self {
            orgs: vec![Org::new("Org1MSP"), Org::new("Org2MSP")],
            orderer: orderers.member("orderer0", &["orderer"]),
            orderers,
            channel_capabilities: vec!["V2_0"],
            application_capabilities: vec!["V2_5"],
            consenters: Vec::new(),
            sequence: 0,
            channel_group: None,
            nonce: 0,
            last: (0, Vec::new()),
        }
    }

    pub fn peer(&self, org: usize) -> Member {
        self.orgs[org].member("peer0", &["peer"])
    }

    pub fn client(&self, org: usize) -> Member {
        self.orgs[org].member("user1", &["client"])
    }

    /// Returns the current configuration, a `ConfigEnvelope`.
    pub fn config(&self) -> Vec<u8> {
        let mut application = value("Capabilities", &capabilities(&self.application_capabilities));
        for org in &self.orgs {
            application.extend(group(&org.msp, &org.group()));
        }
        application.extend(implicit_policy("Endorsement", "Endorsement", 2));
        application.extend(implicit_policy("LifecycleEndorsement", "Endorsement", 2));
        application.extend(implicit_policy("Admins", "Admins", 2));
        let mut orderer = group("OrdererOrg", &self.orderers.group());
        orderer.extend(value("Capabilities", &capabilities(&["V2_0"])));
        orderer.extend(implicit_policy("Admins", "Admins", 2));
        let mut block_validation = implicit_policy("BlockValidation", "Writers", 0);
        if !self.consenters.is_empty() {
            let mut consenters = Vec::new();
            let mut principals = Vec::new();
            for (id, member) in &self.consenters {
                let identity = message(&[(4, member.msp.as_bytes()), (5, &member.pem())]);
                consenters.extend(message(&[(1, &[number(1, *id), identity].concat())]));
                principals.push([number(1, 2), message(&[(2, &member.serialised())])].concat());
            }
            orderer.extend(value("Orderers", &consenters));
            let quorum = self.consenters.len() as u64 * 2 / 3 + 1;
            block_validation =
                signature_policy("BlockValidation", &policy::n_of_principals(quorum, &principals));
        }
        orderer.extend(block_validation);
        let mut channel = value("Capabilities", &capabilities(&self.channel_capabilities));
        channel.extend(group("Application", &application));
        channel.extend(group("Orderer", &orderer));
        channel.extend(implicit_policy("Admins", "Admins", 2));
        channel.extend(message(&[(5, MOD_POLICY)]));
        let channel = self.channel_group.clone().unwrap_or(channel);
        let config = [number(1, self.sequence), message(&[(2, &channel)])].concat();
        message(&[(1, &config)])
    }

    /// Returns the current configuration as a transaction that the orderer signed.
    pub fn config_transaction(&mut self) -> Vec<u8> {
        let config = self.config();
        self.transaction_of(&config)
    }

    /// Returns a configuration, a `ConfigEnvelope`, as a transaction that the orderer signed.
    pub fn transaction_of(&mut self, config: &[u8]) -> Vec<u8> {
        self.nonce += 1;
        let header = header(1, "", &self.orderer.serialised(), &self.nonce.to_be_bytes(), b"");
        envelope(&self.orderer, &message(&[(1, &header), (2, config)]))
    }

    /// Starts a validator at the genesis block.
    pub fn start(&mut self, broken: Option<Rule>) -> Validator {
        self.try_start(broken).unwrap()
    }

    pub fn try_start(&mut self, broken: Option<Rule>) -> Result<Validator, Error> {
        Validator::with_rules(&self.genesis(), Options::default(), Rules { broken })
    }

    pub fn genesis(&mut self) -> Vec<u8> {
        let transaction = self.config_transaction();
        self.block_at(0, &[], &[transaction])
    }

    /// Returns the next block. The network's last block stays the same.
    pub fn block(&self, transactions: &[Vec<u8>]) -> Vec<u8> {
        let (last, hash) = &self.last;
        let (data_hash, data) = data(transactions);
        let header = block_header(last + 1, hash, &data_hash);
        self.signed_block(
            last + 1,
            hash,
            &data_hash,
            &data,
            &[self.orderer_signature(&header)],
        )
    }

    pub fn orderer_signature(&self, header: &[u8]) -> Vec<u8> {
        let by = message(&[(1, &self.orderer.serialised()), (2, b"nonce")]);
        let signed = [VALUE, &by, header].concat();
        message(&[(1, &by), (2, &self.orderer.sign(&signed))])
    }

    pub fn signed_block(
        &self,
        at: u64,
        previous: &[u8],
        data_hash: &[u8],
        data: &[u8],
        by: &[Vec<u8>],
    ) -> Vec<u8> {
        let mut signatures = message(&[(1, VALUE)]);
        for signature in by {
            put_bytes(&mut signatures, 2, signature);
        }
        let header = [number(1, at), message(&[(2, previous), (3, data_hash)])].concat();
        let metadata = message(&[(1, &signatures), (1, b""), (1, b""), (1, b""), (1, b"")]);
        message(&[(1, &header), (2, data), (3, &metadata)])
    }

    fn block_at(&mut self, at: u64, previous: &[u8], transactions: &[Vec<u8>]) -> Vec<u8> {
        let (data_hash, data) = data(transactions);
        let header = block_header(at, previous, &data_hash);
        self.last = (at, sha256(&header).to_vec());
        self.signed_block(
            at,
            previous,
            &data_hash,
            &data,
            &[self.orderer_signature(&header)],
        )
    }

    /// Validates and commits the next block with these transactions, and returns its codes.
    pub fn codes(&mut self, validator: &mut Validator, transactions: &[Vec<u8>]) -> Vec<TxCode> {
        self.next(validator, transactions).unwrap()
    }

    pub fn next(
        &mut self,
        validator: &mut Validator,
        transactions: &[Vec<u8>],
    ) -> Result<Vec<TxCode>, Error> {
        let block = self.block(transactions);
        let validated: ValidatedBlock = validator.validate(&block)?;
        let codes = validated.codes.clone();
        self.last = (validated.number, validated.hash.to_vec());
        validator.commit(validated);
        Ok(codes)
    }

    /// Creates a transaction by the first organisation's client, endorsed by both peers.
    pub fn tx(&mut self, chaincode: &str, rwset: &[u8]) -> Tx {
        self.nonce += 1;
        Tx {
            creator: self.client(0),
            creator_bytes: None,
            nonce: self.nonce,
            kind: 3,
            channel: CHANNEL.to_owned(),
            chaincode: chaincode.to_owned(),
            extension: None,
            action: None,
            rwset: rwset.to_vec(),
            endorsers: vec![self.peer(0), self.peer(1)],
            endorsements: Vec::new(),
            payload: None,
        }
    }

    /// Creates a transaction that defines a chaincode.
    pub fn define(&mut self, chaincode: &str, policy: &[u8], collections: &[u8]) -> Tx {
        self.define_with(chaincode, "vscc", policy, collections)
    }

    pub fn define_with(&mut self, chaincode: &str, plugin: &str, policy: &[u8], collections: &[u8]) -> Tx {
        let field = |name: &str| format!("namespaces/fields/{chaincode}/{name}");
        let validation = message(&[(1, plugin.as_bytes()), (2, policy)]);
        let data = |bytes: &[u8]| message(&[(2, bytes)]);
        let metadata = message(&[(1, b"ChaincodeDefinition"), (2, b"Sequence")]);
        let writes = [
            write(&field("Sequence"), &number(1, 1)),
            write(
                &field("EndorsementInfo"),
                &data(&message(&[(1, b"1.0"), (3, b"escc")])),
            ),
            write(&field("ValidationInfo"), &data(&validation)),
            write(&field("Collections"), &data(collections)),
            write(&format!("namespaces/metadata/{chaincode}"), &metadata),
        ];
        self.tx("_lifecycle", &rwset(&[("_lifecycle", &writes.concat(), &[])]))
    }
}

const VALUE: &[u8] = b"orderer block metadata";

pub fn block_header(at: u64, previous: &[u8], data_hash: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    put_unsigned(&mut header, at);
    put(&mut header, tag::OCTET_STRING, previous);
    put(&mut header, tag::OCTET_STRING, data_hash);
    element(tag::SEQUENCE, &header)
}

pub fn data(transactions: &[Vec<u8>]) -> ([u8; 32], Vec<u8>) {
    let fields: Vec<_> = transactions.iter().map(|bytes| (1, bytes.as_slice())).collect();
    (sha256(&transactions.concat()), message(&fields))
}

fn header(kind: u64, id: &str, creator: &[u8], nonce: &[u8], extension: &[u8]) -> Vec<u8> {
    header_of(kind, CHANNEL, id, creator, nonce, extension)
}

pub fn header_of(
    kind: u64,
    channel: &str,
    id: &str,
    creator: &[u8],
    nonce: &[u8],
    extension: &[u8],
) -> Vec<u8> {
    let channel = message(&[(4, channel.as_bytes()), (5, id.as_bytes()), (7, extension)]);
    let channel = [number(1, kind), channel].concat();
    message(&[(1, &channel), (2, &message(&[(1, creator), (2, nonce)]))])
}

pub fn envelope(by: &Member, payload: &[u8]) -> Vec<u8> {
    message(&[(1, payload), (2, &by.sign(payload))])
}

/// Encodes a write of one key, as a part of a `KVRWSet`.
pub fn write(key: &str, value: &[u8]) -> Vec<u8> {
    message(&[(3, &message(&[(1, key.as_bytes()), (3, value)]))])
}

pub fn delete(key: &str) -> Vec<u8> {
    message(&[(3, &[message(&[(1, key.as_bytes())]), number(2, 1)].concat())])
}

pub fn read(key: &str, version: Option<(u64, u64)>) -> Vec<u8> {
    let mut read = message(&[(1, key.as_bytes())]);
    if let Some((block, tx)) = version {
        read.extend(message(&[(2, &[number(1, block), number(2, tx)].concat())]));
    }
    message(&[(1, &read)])
}

pub fn metadata(key: &str, policy: &[u8]) -> Vec<u8> {
    let entry = message(&[(1, b"VALIDATION_PARAMETER"), (2, policy)]);
    message(&[(4, &message(&[(1, key.as_bytes()), (2, &entry)]))])
}

/// Encodes a `TxReadWriteSet`.
pub fn rwset(namespaces: &[Namespace<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (namespace, public, collections) in namespaces {
        let mut of = message(&[(1, namespace.as_bytes()), (2, public)]);
        for (name, hashed) in *collections {
            put_bytes(&mut of, 3, &message(&[(1, name.as_bytes()), (2, hashed)]));
        }
        put_bytes(&mut out, 2, &of);
    }
    out
}

/// Function that signs bytes.
pub type Signer = Box<dyn Fn(&[u8]) -> Vec<u8>>;
/// Function that makes a payload from a header and data.
pub type Payload = Box<dyn Fn(&[u8], &[u8]) -> Vec<u8>>;
/// A namespace, its `KVRWSet`, and the names and `HashedRWSet`s of its collections.
pub type Namespace<'a> = (&'a str, &'a [u8], &'a [(&'a str, Vec<u8>)]);

/// An endorser transaction that is being built.
pub struct Tx {
    pub creator: Member,
    pub creator_bytes: Option<Vec<u8>>,
    pub nonce: u64,
    pub kind: u64,
    pub channel: String,
    pub chaincode: String,
    pub extension: Option<Vec<u8>>,
    pub action: Option<Vec<u8>>,
    pub rwset: Vec<u8>,
    pub endorsers: Vec<Member>,
    /// Additional endorsements: identities and signing functions.
    pub endorsements: Vec<(Vec<u8>, Signer)>,
    pub payload: Option<Payload>,
}

impl Tx {
    pub fn by(mut self, endorsers: &[&Member]) -> Self {
        self.endorsers = endorsers.iter().map(|member| (*member).clone()).collect();
        self
    }

    pub fn from(mut self, creator: &Member) -> Self {
        self.creator = creator.clone();
        self
    }

    /// Returns header and data of the unsigned payload.
    pub fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        let creator = self
            .creator_bytes
            .clone()
            .unwrap_or_else(|| self.creator.serialised());
        let nonce = self.nonce.to_be_bytes();
        let id = sha256(&[&nonce[..], &creator].concat());
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = message(&[(2, self.chaincode.as_bytes())]);
        let extension = self.extension.clone().unwrap_or_else(|| message(&[(2, &name)]));
        let header = header_of(self.kind, &self.channel, &id, &creator, &nonce, &extension);
        let channel_header = channel_header_of(&header);
        let action_header = message(&[(1, &creator), (2, &nonce)]);
        let proposal = b"proposal";
        let hash = sha256(&[&channel_header[..], &action_header, proposal].concat());
        let versioned = message(&[(2, self.chaincode.as_bytes()), (3, b"1.0")]);
        let action = message(&[(1, &self.rwset), (4, &versioned)]);
        let action = self.action.clone().unwrap_or(action);
        let response = message(&[(1, &hash), (2, &action)]);
        let mut endorsed = message(&[(1, &response)]);
        for endorser in &self.endorsers {
            let bytes = endorser.serialised();
            let signature = endorser.sign(&[&response[..], &bytes].concat());
            put_bytes(&mut endorsed, 2, &message(&[(1, &bytes), (2, &signature)]));
        }
        for (bytes, sign) in &self.endorsements {
            let signature = sign(&[&response[..], bytes].concat());
            put_bytes(&mut endorsed, 2, &message(&[(1, bytes), (2, &signature)]));
        }
        let payload = message(&[(1, proposal), (2, &endorsed)]);
        let action = message(&[(1, &action_header), (2, &payload)]);
        (header, message(&[(1, &action)]))
    }

    pub fn build(&self) -> Vec<u8> {
        let (header, data) = self.parts();
        let payload = match &self.payload {
            Some(make) => make(&header, &data),
            None => message(&[(1, &header), (2, &data)]),
        };
        envelope(&self.creator, &payload)
    }
}

fn channel_header_of(header: &[u8]) -> Vec<u8> {
    let arena = crate::proto::Arena::new();
    let header: crate::proto::Header<'_> = crate::proto::decode(header, &arena).unwrap();
    header.channel_header.to_vec()
}
