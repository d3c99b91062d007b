//! Channel configurations.

use crate::network::{Network, Organisation};
use crate::proto::Out;

/// Name of the policy (mod_policy) that controls changes of every part of the configuration.
const BY: &str = "Admins";

/// Limits at which the orderer closes a block and begins the next one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchSize {
    /// Maximum number of transactions in a block.
    pub transactions: u32,
    /// Maximum size of a block, in bytes.
    pub bytes: u32,
    /// Preferred maximum size of a block, in bytes.
    pub preferred_bytes: u32,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self {
            transactions: 100,
            bytes: 20 << 20,
            preferred_bytes: 16 << 20,
        }
    }
}

/// Returns a signature policy that requires signatures of `n` of the principals with the indices `of`. Each principal
/// is an MSP and a role.
pub(crate) fn n_of(n: usize, of: &[usize], principals: &[(&str, u64)]) -> Out {
    let signed_by = |by: &usize| Out::new().chosen(1, *by as u64);
    let rules = Out::new().number(1, n as u64).each(2, of.iter().map(signed_by));
    let principal = |&(msp, role): &(&str, u64)| {
        let role = Out::new().bytes(1, msp).number(2, role);
        Out::new().message(2, role)
    };
    Out::new()
        .message(2, Out::new().message(2, rules))
        .each(3, principals.iter().map(principal))
}

/// Values of `MSPRole`.
pub(crate) mod role {
    pub const MEMBER: u64 = 0;
    pub const ADMIN: u64 = 1;
    pub const CLIENT: u64 = 2;
    pub const PEER: u64 = 3;
}

/// Returns an entry of a map.
fn entry(name: &str, content: Out) -> Out {
    Out::new().bytes(1, name).message(2, content)
}

fn value(name: &str, content: Out) -> Out {
    entry(name, Out::new().some(2, content).bytes(3, BY))
}

/// Returns a policy of a group, by name.
fn policy(name: &str, kind: u64, content: Out) -> Out {
    let policy = Out::new().number(1, kind).message(2, content);
    entry(name, Out::new().message(2, policy).bytes(3, BY))
}

/// Returns a policy that any of these principals fulfils.
fn any_of(name: &str, principals: &[(&str, u64)]) -> Out {
    let all: Vec<usize> = (0..principals.len()).collect();
    policy(name, 1, n_of(1, &all, principals))
}

/// Returns an ImplicitMeta policy over the policies `of` in the groups below. `rule` 0 requires any of them, and 2 a
/// majority.
fn implicit(name: &str, of: &str, rule: u64) -> Out {
    policy(name, 3, Out::new().bytes(1, of).number(2, rule))
}

fn capabilities(name: &str) -> Out {
    value("Capabilities", Out::new().message(1, entry(name, Out::new())))
}

/// Returns a group with its groups, values and policies in the order of their names.
fn group(mut groups: Vec<Out>, mut values: Vec<Out>, mut policies: Vec<Out>) -> Out {
    for entries in [&mut groups, &mut values, &mut policies] {
        entries.sort_by(|a, b| key(a).cmp(key(b)));
    }
    let out = Out::new().each(2, groups).each(3, values).each(4, policies);
    out.bytes(5, BY)
}

/// Returns the key of an entry whose key is shorter than 128 bytes.
fn key(entry: &Out) -> &[u8] {
    let bytes = entry.as_ref();
    &bytes[2..2 + usize::from(bytes[1])]
}

fn msp(of: &Organisation) -> Out {
    let unit = |name: &str| Out::new().bytes(1, &of.ca).bytes(2, name);
    let node_ous = Out::new()
        .number(1, 1)
        .message(2, unit("client"))
        .message(3, unit("peer"))
        .message(4, unit("admin"))
        .message(5, unit("orderer"));
    let fabric = Out::new()
        .bytes(1, &of.msp)
        .bytes(2, &of.ca)
        .each(5, &of.crl)
        .message(8, Out::new().bytes(1, "SHA2").bytes(2, "SHA256"))
        .bytes(9, &of.tls_ca)
        .message(11, node_ous);
    value("MSP", Out::new().message(2, fabric))
}

fn organisation(of: &Organisation) -> Out {
    let name = of.msp.as_str();
    let policies = vec![
        any_of(
            "Readers",
            &[(name, role::ADMIN), (name, role::PEER), (name, role::CLIENT)],
        ),
        any_of("Writers", &[(name, role::ADMIN), (name, role::CLIENT)]),
        any_of("Admins", &[(name, role::ADMIN)]),
        any_of("Endorsement", &[(name, role::PEER)]),
    ];
    entry(&of.name, group(vec![], vec![msp(of)], policies))
}

fn orderers(of: &Organisation) -> Out {
    let name = of.msp.as_str();
    let endpoints = Out::new().each(
        1,
        (0..of.nodes.len()).map(|number| format!("127.0.0.1:{}", 7050 + number)),
    );
    let policies = vec![
        any_of("Readers", &[(name, role::MEMBER)]),
        any_of("Writers", &[(name, role::MEMBER)]),
        any_of("Admins", &[(name, role::ADMIN)]),
    ];
    entry(
        &of.name,
        group(vec![], vec![msp(of), value("Endpoints", endpoints)], policies),
    )
}

fn consensus(of: &Organisation) -> Out {
    let consenter = |(number, pem): (usize, &Vec<u8>)| {
        let address = Out::new().bytes(1, "127.0.0.1").number(2, 7050 + number as u64);
        address.bytes(3, pem).bytes(4, pem)
    };
    let options = Out::new()
        .bytes(1, "500ms")
        .number(2, 10)
        .number(3, 1)
        .number(4, 5)
        .number(5, 64 << 20);
    let metadata = Out::new()
        .each(1, of.tls_nodes.iter().enumerate().map(consenter))
        .message(2, options);
    value(
        "ConsensusType",
        Out::new().bytes(1, "etcdraft").message(2, metadata),
    )
}

fn batch_size(size: BatchSize) -> Out {
    Out::new()
        .number(1, size.transactions.into())
        .number(2, size.bytes.into())
        .number(3, size.preferred_bytes.into())
}

/// Returns the value of the batch size after `version` changes.
fn batch_size_value(size: BatchSize, version: u64) -> Out {
    let value = Out::new()
        .number(1, version)
        .message(2, batch_size(size))
        .bytes(3, BY);
    entry("BatchSize", value)
}

/// Returns the `Config` after `changes` changes of the batch size.
pub(crate) fn config(network: &Network, size: BatchSize, changes: u64) -> Out {
    let orderer = group(
        vec![orderers(&network.orderer)],
        vec![
            batch_size_value(size, changes),
            value("BatchTimeout", Out::new().bytes(1, "2s")),
            value("ChannelRestrictions", Out::new()),
            capabilities("V2_0"),
            consensus(&network.orderer),
        ],
        vec![
            implicit("BlockValidation", "Writers", 0),
            implicit("Readers", "Readers", 0),
            implicit("Writers", "Writers", 0),
            implicit("Admins", "Admins", 2),
        ],
    );
    let application = group(
        network.orgs.iter().map(organisation).collect(),
        vec![capabilities("V2_5")],
        vec![
            implicit("Admins", "Admins", 2),
            implicit("Endorsement", "Endorsement", 2),
            implicit("LifecycleEndorsement", "Endorsement", 2),
            implicit("Readers", "Readers", 0),
            implicit("Writers", "Writers", 0),
        ],
    );
    let writers = match network.options.everybody_writes {
        true => policy("Writers", 1, n_of(0, &[0], &[("Org1MSP", role::MEMBER)])),
        false => implicit("Writers", "Writers", 0),
    };
    let channel = group(
        vec![entry("Orderer", orderer), entry("Application", application)],
        vec![
            value("HashingAlgorithm", Out::new().bytes(1, "SHA256")),
            value("BlockDataHashingStructure", Out::new().number(1, u32::MAX.into())),
            capabilities("V2_0"),
        ],
        vec![
            implicit("Admins", "Admins", 2),
            implicit("Readers", "Readers", 0),
            writers,
        ],
    );
    Out::new().number(1, changes).message(2, channel)
}

/// Returns the `ConfigUpdate` that changes the batch size for the `changes`-th time.
pub(crate) fn update(network: &Network, size: BatchSize, changes: u64) -> Out {
    let orderer = |content: Out| Out::new().message(2, entry("Orderer", content));
    let value = Out::new().message(3, batch_size_value(size, changes));
    Out::new()
        .bytes(1, &network.options.channel)
        .message(2, orderer(Out::new()))
        .message(3, orderer(value))
}
