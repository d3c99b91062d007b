//! A small network for tests: an organisation with its CA, identities and TLS certificates, and a channel that the
//! organisation may read.
#![allow(dead_code)]

pub mod requests;

use bytes::Bytes;
use lineside_fabric::config::Config;
use lineside_fabric::proto::wire::{put_bytes, put_number, put_varint};
use lineside_fabric::{Options, Validator};
use lineside_fabric_grpc::messages::{DeliverContent, DeliverResponse, Envelope};
use lineside_fabric_grpc::{ClientTls, ServerTls, Signer};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// A certificate and its key in PEM.
pub struct CertAndKey {
    pub certificate: String,
    pub key: String,
}

/// A CA.
pub struct Ca {
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str, unit: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(unit) = unit {
        params
            .distinguished_name
            .push(DnType::OrganizationalUnitName, unit);
    }
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2120, 1, 1);
    params
}

impl Ca {
    pub fn new(name: &str) -> Self {
        let mut params = params(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, mut params: CertificateParams) -> CertAndKey {
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        CertAndKey {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    pub fn pair(&self, name: &str, unit: &str) -> CertAndKey {
        self.issue(params(name, Some(unit)))
    }

    /// Issues a certificate that expires after this time.
    pub fn ending(&self, name: &str, after: Duration) -> CertAndKey {
        let mut params = params(name, Some("client"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        params.not_after = date_time_ymd(1970, 1, 1) + now + after;
        self.issue(params)
    }
}

/// An organisation, its TLS, and another CA.
pub struct Network {
    pub ca: Ca,
    pub tls_ca: Ca,
    pub other_ca: Ca,
}

pub const MSP: &str = "Org1MSP";
pub const CHANNEL: &str = "lab";

impl Network {
    pub fn new() -> Self {
        Self {
            ca: Ca::new("ca.org1"),
            tls_ca: Ca::new("tlsca.org1"),
            other_ca: Ca::new("ca.org2"),
        }
    }

    pub fn client(&self) -> Arc<Signer> {
        signer(MSP, &self.ca.pair("user", "client"))
    }

    pub fn server_tls(&self, mutual: bool) -> ServerTls {
        let pair = self.tls_ca.pair("localhost", "peer");
        let clients = mutual.then_some(self.tls_ca.certificate.as_bytes());
        ServerTls::from_pem(pair.certificate.as_bytes(), pair.key.as_bytes(), clients).unwrap()
    }

    pub fn client_tls(&self, pair: Option<&CertAndKey>) -> ClientTls {
        let own = pair.map(|pair| (pair.certificate.as_bytes(), pair.key.as_bytes()));
        let tls = ClientTls::from_pem(self.tls_ca.certificate.as_bytes(), own).unwrap();
        tls.server_name("localhost")
    }

    /// Returns the channel's configuration with these ACLs. Members with the role `role` may read: with `ADMIN`, only
    /// admins.
    pub fn config(&self, sequence: u64, role: u64, acls: &[(&str, &str)]) -> Arc<Config> {
        let genesis = self.genesis(sequence, role, acls);
        Validator::new(&genesis, Options::default())
            .unwrap()
            .shared_config()
    }

    pub fn genesis(&self, sequence: u64, role: u64, acls: &[(&str, &str)]) -> Vec<u8> {
        let msp = msp(MSP, &self.ca.certificate);
        let readers = vec![
            ("Readers", signature_policy(MSP, role)),
            ("Admins", signature_policy(MSP, 1)),
        ];
        let organisation = group(vec![], vec![("MSP", msp)], readers);
        let mut of_acls = Vec::new();
        for (resource, policy) in acls {
            let entry = message(&[(1, resource.as_bytes()), (2, &message(&[(1, policy.as_bytes())]))]);
            put_bytes(&mut of_acls, 1, &entry);
        }
        let any = || {
            vec![
                ("Readers", any_policy("Readers")),
                ("Admins", any_policy("Admins")),
            ]
        };
        let application = group(
            vec![("Org1", organisation.clone())],
            vec![("Capabilities", capabilities("V2_5")), ("ACLs", of_acls)],
            any(),
        );
        let orderer = group(
            vec![("Org1", organisation)],
            vec![("Capabilities", capabilities("V2_0"))],
            any(),
        );
        let root = group(
            vec![("Application", application), ("Orderer", orderer)],
            vec![("Capabilities", capabilities("V2_0"))],
            any(),
        );
        let mut config = Vec::new();
        put_number(&mut config, 1, sequence);
        put_bytes(&mut config, 2, &root);
        block(0, &[], &[envelope(1, "", &message(&[(1, &config)]))])
    }
}

pub fn signer(msp: &str, pair: &CertAndKey) -> Arc<Signer> {
    Arc::new(Signer::from_pem(msp, pair.certificate.as_bytes(), pair.key.as_bytes()).unwrap())
}

pub fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, bytes) in fields {
        put_bytes(&mut out, *number, bytes);
    }
    out
}

type NamedEntries<'a> = Vec<(&'a str, Vec<u8>)>;

fn group(groups: NamedEntries<'_>, values: NamedEntries<'_>, policies: NamedEntries<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, group) in groups {
        put_bytes(&mut out, 2, &message(&[(1, name.as_bytes()), (2, &group)]));
    }
    for (name, value) in values {
        put_bytes(
            &mut out,
            3,
            &message(&[(1, name.as_bytes()), (2, &message(&[(2, &value)]))]),
        );
    }
    for (name, policy) in policies {
        put_bytes(
            &mut out,
            4,
            &message(&[(1, name.as_bytes()), (2, &message(&[(2, &policy)]))]),
        );
    }
    out
}

fn capabilities(name: &str) -> Vec<u8> {
    message(&[(1, &message(&[(1, name.as_bytes()), (2, &[])]))])
}

fn policy(kind: u64, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, 1, kind);
    put_bytes(&mut out, 2, value);
    out
}

fn any_policy(below: &str) -> Vec<u8> {
    policy(3, &message(&[(1, below.as_bytes())]))
}

fn signature_policy(msp: &str, role: u64) -> Vec<u8> {
    let mut of_role = message(&[(1, msp.as_bytes())]);
    put_number(&mut of_role, 2, role);
    let mut n_out_of = Vec::new();
    put_number(&mut n_out_of, 1, 1);
    let mut signed_by = Vec::new();
    put_varint(&mut signed_by, 1 << 3);
    put_varint(&mut signed_by, 0);
    put_bytes(&mut n_out_of, 2, &signed_by);
    let rule = message(&[(2, &n_out_of)]);
    policy(1, &message(&[(2, &rule), (3, &message(&[(2, &of_role)]))]))
}

fn msp(name: &str, root: &str) -> Vec<u8> {
    let mut node_ous = Vec::new();
    put_number(&mut node_ous, 1, 1);
    for (number, unit) in [(2, "client"), (3, "peer"), (4, "admin"), (5, "orderer")] {
        put_bytes(&mut node_ous, number, &message(&[(2, unit.as_bytes())]));
    }
    let fabric = message(&[(1, name.as_bytes()), (2, root.as_bytes()), (11, &node_ous)]);
    message(&[(2, &fabric)])
}

/// Returns an envelope of the channel with this header type, transaction id and data.
pub fn envelope(kind: u64, tx_id: &str, data: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    put_number(&mut header, 1, kind);
    put_bytes(&mut header, 4, CHANNEL.as_bytes());
    put_bytes(&mut header, 5, tx_id.as_bytes());
    let header = message(&[(1, &header), (2, &[])]);
    message(&[(1, &message(&[(1, &header), (2, data)])), (2, b"signature")])
}

/// Returns an endorser transaction with a chaincode event.
pub fn with_event(tx_id: &str, event: &str) -> Vec<u8> {
    with_payload(tx_id, event, b"secret")
}

/// Returns an endorser transaction with a chaincode event that has this payload.
pub fn with_payload(tx_id: &str, event: &str, payload: &[u8]) -> Vec<u8> {
    let event = message(&[
        (1, b"cc"),
        (2, tx_id.as_bytes()),
        (3, event.as_bytes()),
        (4, payload),
    ]);
    let response = message(&[(1, b"hash"), (2, &message(&[(2, &event)]))]);
    let action = message(&[(1, b"proposal"), (2, &message(&[(1, &response)]))]);
    envelope(
        3,
        tx_id,
        &message(&[(1, &message(&[(1, b"header"), (2, &action)]))]),
    )
}

/// Returns a committed block with these validation codes and transactions.
pub fn block(number: u64, codes: &[u8], envelopes: &[Vec<u8>]) -> Vec<u8> {
    let mut hasher = Sha256::new();
    let mut data = Vec::new();
    for envelope in envelopes {
        hasher.update(envelope);
        put_bytes(&mut data, 1, envelope);
    }
    let mut header = Vec::new();
    put_number(&mut header, 1, number);
    put_bytes(&mut header, 2, &[number as u8; 32]);
    put_bytes(&mut header, 3, &hasher.finalize());
    let metadata = message(&[(1, &[]), (1, &[]), (1, codes), (1, &[]), (1, &[])]);
    message(&[(1, &header), (2, &data), (3, &metadata)])
}

/// Returns `count` blocks with two transactions each; the second transaction of each block has code 10 and is invalid.
pub fn blocks(count: u64) -> Vec<Bytes> {
    let make = |number: u64| {
        let (one, two) = (format!("tx{number}a"), format!("tx{number}b"));
        block(
            number,
            &[0, 10],
            &[with_event(&one, "made"), with_event(&two, "made")],
        )
        .into()
    };
    (0..count).map(make).collect()
}

/// Returns the folder of a recorded set next to the project, if it exists.
pub fn recorded(set: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = root.join("shared/data/fabric-blocks").join(set);
    if folder.join("manifest.json").exists() {
        return Some(folder);
    }
    eprintln!("skipped: there are no recorded blocks next to the project");
    None
}

pub const DELIVER: &str = "/protos.Deliver/Deliver";
pub const FILTERED: &str = "/protos.Deliver/DeliverFiltered";

/// Connects to a server: with TLS if `tls` is given, and with the client certificate `own` if that is given.
pub async fn connect(address: impl ToString, tls: Option<&Network>, own: Option<&CertAndKey>) -> Channel {
    let address = address.to_string();
    let Some(network) = tls else {
        return Endpoint::from_shared(format!("http://{address}"))
            .unwrap()
            .connect()
            .await
            .unwrap();
    };
    let mut config = tonic::transport::ClientTlsConfig::new()
        .ca_certificate(tonic::transport::Certificate::from_pem(
            &network.tls_ca.certificate,
        ))
        .domain_name("localhost");
    if let Some(own) = own {
        config = config.identity(tonic::transport::Identity::from_pem(&own.certificate, &own.key));
    }
    let endpoint = Endpoint::from_shared(format!("https://{address}")).unwrap();
    endpoint.tls_config(config).unwrap().connect().await.unwrap()
}

/// Sends these requests in one call and ends the request stream. Returns all answers, and the status if the call
/// failed.
pub async fn ask(
    channel: &Channel,
    path: &'static str,
    envelopes: Vec<Envelope>,
) -> (Vec<DeliverContent>, Option<Status>) {
    ask_each(channel, path, envelopes, || ()).await
}

/// Does the same as [`ask`], and calls `received` after each answer.
pub async fn ask_each(
    channel: &Channel,
    path: &'static str,
    envelopes: Vec<Envelope>,
    mut received: impl FnMut(),
) -> (Vec<DeliverContent>, Option<Status>) {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<Envelope, DeliverResponse>::default();
    let request = Request::new(tokio_stream::iter(envelopes));
    let mut stream = match grpc
        .streaming(request, PathAndQuery::from_static(path), codec)
        .await
    {
        Ok(response) => response.into_inner(),
        Err(status) => return (Vec::new(), Some(status)),
    };
    let mut all = Vec::new();
    while let Some(response) = stream.next().await {
        match response {
            Ok(response) => all.push(response.delivered.unwrap()),
            Err(status) => return (all, Some(status)),
        }
        received();
    }
    (all, None)
}

/// Returns a block with one valid transaction that has a long event.
pub fn large_event(number: u64, bytes: usize) -> Bytes {
    let transaction = with_payload(&format!("tx{number}"), "made", &vec![7; bytes]);
    block(number, &[0], &[transaction]).into()
}
