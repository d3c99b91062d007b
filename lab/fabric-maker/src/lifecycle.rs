//! Transactions that install a chaincode in a channel: each organisation approves its definition, then it is committed.

use crate::config::{n_of, role};
use crate::network::Network;
use crate::proto::Out;
use crate::rwset::{all, collection, namespace, read, write};

pub(crate) const NAMESPACE: &str = "_lifecycle";
/// Version that transactions name for the system chaincodes of a peer.
pub(crate) const VERSION_OF_PEER: &str = "syscc";

/// Returns the key of a definition's sequence, which every transaction of the chaincode reads.
pub(crate) fn sequence_key(chaincode: &str) -> String {
    format!("namespaces/fields/{chaincode}/Sequence")
}

/// Endorsement policy of a chaincode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Policy {
    /// All of the peers that the generator uses as endorsers, from all organisations in turn, must endorse.
    #[default]
    Peers,
    /// The channel's policy `/Channel/Application/Endorsement`, which requires a majority of the organisations
    /// (ImplicitMeta MAJORITY).
    Majority,
}

/// Definition of a chaincode, which organisations approve and commit.
#[derive(Clone, Copy)]
pub(crate) struct Definition<'a> {
    pub name: &'a str,
    pub policy: Policy,
    /// Number of endorsements of each transaction.
    pub endorsements: usize,
}

/// Returns the `ApplicationPolicy` of a definition.
fn policy(network: &Network, of: Definition<'_>) -> Out {
    let n = of.endorsements;
    if of.policy == Policy::Majority {
        return Out::new().bytes(2, "/Channel/Application/Endorsement");
    }
    let orgs = n.min(network.orgs.len());
    let principal: Vec<usize> = (0..n).map(|number| number % orgs).collect();
    let principals = network
        .orgs
        .iter()
        .take(orgs)
        .map(|org| (org.msp.as_str(), role::PEER));
    Out::new().message(1, n_of(n, &principal, &principals.collect::<Vec<_>>()))
}

fn package(chaincode: &str) -> String {
    format!("{chaincode}_1:{}", "5d".repeat(32))
}

/// Returns `StateData` with bytes.
fn bytes(content: Out) -> Vec<u8> {
    Out::new().message(2, content).done()
}

/// Returns `StateMetadata`.
fn metadata(kind: &str, fields: &[&str]) -> Vec<u8> {
    Out::new().bytes(1, kind).each(2, fields).done()
}

/// Returns the fields of a definition and their values.
fn fields(network: &Network, of: Definition<'_>) -> [(&'static str, Vec<u8>); 3] {
    let endorsement = Out::new().bytes(1, "1").bytes(3, "escc");
    let validation = Out::new().bytes(1, "vscc").message(2, policy(network, of));
    [
        ("Collections", bytes(Out::new())),
        ("EndorsementInfo", bytes(endorsement)),
        ("ValidationInfo", bytes(validation)),
    ]
}

fn implicit_collection(msp: &str) -> String {
    format!("_implicit_org_{msp}")
}

fn args(function: &str, definition: Out) -> Vec<Vec<u8>> {
    vec![function.into(), definition.done()]
}

fn definition(network: &Network, of: Definition<'_>) -> Out {
    let out = Out::new().number(1, 1).bytes(2, of.name).bytes(3, "1");
    out.message(6, policy(network, of))
}

/// Returns reads of keys that do not exist yet. Both the approval and the commit of a definition contain them.
fn reads(chaincode: &str) -> [Out; 2] {
    [
        read(sequence_key(chaincode), None),
        read(format!("namespaces/metadata/{chaincode}"), None),
    ]
}

fn legacy(chaincode: &str) -> Out {
    namespace("lscc", &[read(chaincode, None)], &[], &[])
}

/// Returns arguments and results of the transaction by which an organisation approves a definition.
pub(crate) fn approve(network: &Network, of: Definition<'_>, org: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let chaincode = of.name;
    let source = Out::new().message(2, Out::new().bytes(1, package(chaincode)));
    let args = args(
        "ApproveChaincodeDefinitionForMyOrg",
        definition(network, of).message(9, source),
    );
    let sources = format!("chaincode-sources/metadata/{chaincode}#1");
    let approved = format!("namespaces/metadata/{chaincode}#1");
    let package_key = format!("chaincode-sources/fields/{chaincode}#1/PackageID");
    let package = Out::new().bytes(3, package(chaincode)).done();
    let mut writes = vec![
        (package_key, package),
        (sources.clone(), metadata("ChaincodeLocalPackage", &["PackageID"])),
    ];
    let field = |(name, value)| (format!("namespaces/fields/{chaincode}#1/{name}"), value);
    writes.extend(fields(network, of).map(field));
    let names = ["EndorsementInfo", "ValidationInfo", "Collections"];
    writes.push((approved.clone(), metadata("ChaincodeParameters", &names)));
    let name = implicit_collection(&network.orgs[org].msp);
    let private = collection(&name, &[(sources, None), (approved, None)], &writes);
    let public = namespace(NAMESPACE, &reads(chaincode), &[], &[]);
    (args, all(&[public.message(3, private), legacy(chaincode)]))
}

/// Returns arguments and results of the transaction that commits a definition, after the organisations' approvals in
/// the first blocks.
pub(crate) fn commit(network: &Network, of: Definition<'_>) -> (Vec<Vec<u8>>, Vec<u8>) {
    let chaincode = of.name;
    let args = args("CommitChaincodeDefinition", definition(network, of));
    let field = |name: &str| format!("namespaces/fields/{chaincode}/{name}");
    let [collections, endorsement, validation] = fields(network, of);
    let names = ["Sequence", "EndorsementInfo", "ValidationInfo", "Collections"];
    let writes = [
        write(field(collections.0), &collections.1),
        write(field(endorsement.0), &endorsement.1),
        write(sequence_key(chaincode), Out::new().number(1, 1)),
        write(field(validation.0), &validation.1),
        write(
            format!("namespaces/metadata/{chaincode}"),
            metadata("ChaincodeDefinition", &names),
        ),
    ];
    let mut public = namespace(NAMESPACE, &reads(chaincode), &[], &writes);
    for (number, org) in network.orgs.iter().enumerate() {
        // The approval by organisation `number` is the only transaction of block `number` + 1.
        let version = Some((number as u64 + 1, 0));
        let keys = [
            "fields/{}#1/Collections",
            "fields/{}#1/EndorsementInfo",
            "fields/{}#1/ValidationInfo",
            "metadata/{}#1",
        ];
        let read = |key: &str| (format!("namespaces/{}", key.replace("{}", chaincode)), version);
        let private = collection(&implicit_collection(&org.msp), &keys.map(read), &[]);
        public = public.message(3, private);
    }
    (args, all(&[public, legacy(chaincode)]))
}
