//! Tests of members with Ed25519 keys, and of revocation lists, in generated blocks. The recorded blocks have no
//! orderers, admins and readers with Ed25519 keys.

use super::network::{Member, Network, Spec, block_header, data, message, number, policy, rwset, write};
use super::update::Change;
use crate::access::SignedBy;
use crate::block::Block;
use crate::proto::Arena;
use crate::{Configurations, Error, Refused, Stop, TxCode, Validator};
use TxCode::{BadCreatorSignature, EndorsementPolicyFailure, Valid};
use lineside_verify::Verifier;

const CC: &str = "cc";
const READERS: &str = "Application/Org1MSP/Writers";

fn channel(mut network: Network) -> (Network, Validator) {
    let mut validator = network.start(None);
    let one = policy::application(&policy::n_of(1, &[("Org1MSP", 3), ("Org2MSP", 3)]));
    let definition = network.define(CC, &one, &[]).from(&network.client(1)).build();
    assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    (network, validator)
}

fn v3() -> Network {
    let mut network = Network::new();
    network.channel_capabilities = vec!["V3_0"];
    network
}

fn may_read(validator: &Validator, member: &Member) -> bool {
    let (identity, message) = (member.serialised(), b"a request");
    let signature = member.sign(message);
    let signed = |message, signature| SignedBy {
        identity: &identity,
        message,
        signature,
    };
    let config = validator.config();
    let other = config.permits(READERS, signed(b"another", &signature), &Verifier::default());
    assert!(!other, "a signature of another message");
    config.permits(READERS, signed(message, &signature), &Verifier::default())
}

/// From the channel capability V3_0 on, members with Ed25519 keys can create and endorse transactions and read blocks.
/// Before V3_0, only the organisation's other members can.
#[test]
fn ed25519_members_from_v3_0_on() {
    for (network, counts) in [(Network::new(), false), (v3(), true)] {
        let (mut network, mut validator) = channel(network);
        let client = network.orgs[0].member_with_ed25519("user1", &["client"]);
        let peer = network.orgs[0].member_with_ed25519("peer1", &["peer"]);
        let writing = |network: &mut Network, by: &Member, endorser: &Member| {
            let rwset = rwset(&[(CC, &write("a", b"1"), &[])]);
            network.tx(CC, &rwset).from(by).by(&[endorser]).build()
        };
        let (user, other) = (network.client(0), network.peer(0));
        let txs = [
            writing(&mut network, &client, &other),
            writing(&mut network, &user, &peer),
            writing(&mut network, &user, &other),
        ];
        let expected = match counts {
            true => [Valid; 3],
            false => [BadCreatorSignature, EndorsementPolicyFailure, Valid],
        };
        assert_eq!(network.codes(&mut validator, &txs), expected);
        assert_eq!(may_read(&validator, &client), counts);
        assert!(may_read(&validator, &user));
    }
}

/// A block of Raft orderers that an orderer with an Ed25519 key signed is accepted from V3_0 on.
#[test]
fn an_orderers_ed25519_key_counts_from_v3_0_on() {
    for (mut network, counts) in [(Network::new(), false), (v3(), true)] {
        network.orderer = network.orderers.member_with_ed25519("orderer1", &["orderer"]);
        let mut validator = network.start(None);
        let tx = network.define(CC, &policy::application(&policy::n_of(1, &[("Org1MSP", 3)])), &[]);
        let tx = tx.build();
        let taken = network.next(&mut validator, &[tx]);
        match counts {
            true => assert_eq!(taken.unwrap(), [Valid]),
            false => assert!(
                matches!(taken, Err(Error::Refused(Refused::Signature))),
                "{taken:?}"
            ),
        }
    }
}

/// A block of four BFT orderers, two of which have Ed25519 keys, needs three valid signatures.
#[test]
fn signatures_of_bft_orderers_with_ed25519_keys_count() {
    let mut network = v3();
    let members: Vec<(u64, Member)> = (0..4u64)
        .map(|id| {
            let name = format!("o{id}");
            let member = match id % 2 {
                0 => network.orderers.member_with_ed25519(&name, &["orderer"]),
                _ => network.orderers.member(&name, &["orderer"]),
            };
            (id + 1, member)
        })
        .collect();
    network.consenters = members.clone();
    let mut validator = network.start(None);
    let one = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let (data_hash, data) = data(&[network.define(CC, &one, &[]).build()]);
    let (at, previous) = network.last.clone();
    let header = block_header(at + 1, &previous, &data_hash);
    let by = |(id, member): &(u64, Member), over: &[u8]| {
        let identifier = [number(1, *id), message(&[(2, b"nonce")])].concat();
        let signed = [b"orderer block metadata", &identifier[..], over].concat();
        message(&[(2, &member.sign(&signed)), (3, &identifier)])
    };
    let mut codes = |by: &[Vec<u8>]| {
        let block = network.signed_block(at + 1, &previous, &data_hash, &data, by);
        validator.validate(&block).map(|validated| validated.codes)
    };
    let good: Vec<_> = members.iter().map(|member| by(member, &header)).collect();
    for missing in 0..4 {
        let mut three = good.clone();
        three.remove(missing);
        assert_eq!(codes(&three).unwrap(), [Valid]);
        // A third signature over other bytes does not count.
        three[0] = by(&members[(missing + 1) % 4], b"another header");
        let refused = codes(&three);
        assert!(
            matches!(refused, Err(Error::Refused(Refused::Signature))),
            "{missing}: {refused:?}"
        );
    }
}

/// An admin with an Ed25519 key can sign a configuration update.
#[test]
fn an_admin_with_an_ed25519_key_changes_the_configuration() {
    let (mut network, mut validator) = channel(v3());
    let admin = network.orgs[0].member_with_ed25519("admin1", &["admin"]);
    let before = network.config();
    network.orgs[0].crls = vec![network.orgs[0].root.revoke(&[1])];
    let change = Change::between(&before, &network.config()).by(&[&admin]);
    let config = change.transaction(&mut network);
    assert_eq!(network.codes(&mut validator, &[config]), [Valid]);
}

/// Sets the revocation lists of the first organisation by an update that `by` signs.
fn revoke(network: &mut Network, validator: &mut Validator, lists: Vec<Vec<u8>>, by: &Member) {
    let before = network.config();
    network.orgs[0].crls = lists;
    let change = Change::between(&before, &network.config()).by(&[by]);
    let config = change.transaction(network);
    assert_eq!(network.codes(validator, &[config]), [Valid]);
}

/// If the authority key identifier of a list is missing or malformed, all identities of the organisation are refused,
/// also as readers. A well-formed identifier without a key matches no CA.
#[test]
fn a_revocation_list_without_a_key_id_invalidates_the_organisation() {
    // The extension is missing; it has a serial number that is not minimal; it has another type; it has a length beyond
    // its end.
    let broken: [Option<&[u8]>; 4] = [
        None,
        Some(&[0x30, 4, 0x82, 2, 0, 1]),
        Some(&[4, 0]),
        Some(&[0x30, 2, 0x80, 9]),
    ];
    let minimal: [Option<&[u8]>; 3] = [
        Some(&[0x30, 0]),
        Some(&[0x30, 3, 0x82, 1, 5]),
        // Bytes after the sequence are ignored.
        Some(&[0x30, 0, 1, 2]),
    ];
    let serial = Spec::new("user1", &["client"]).serial;
    let all = broken.map(|value| (value, false)).into_iter();
    for (value, counts) in all.chain(minimal.map(|value| (value, true))) {
        let (mut network, mut validator) = channel(Network::new());
        let (client, admin) = (network.client(0), network.orgs[0].admin());
        assert!(may_read(&validator, &client));
        let list = network.orgs[0].root.revoke_with(&[serial], value);
        revoke(&mut network, &mut validator, vec![list], &admin);
        let rwset = rwset(&[(CC, &write("a", b"1"), &[])]);
        let (mine, other) = (network.peer(0), network.peer(1));
        let outsider = network.client(1);
        let txs = [
            network.tx(CC, &rwset).from(&client).by(&[&other]).build(),
            network.tx(CC, &rwset).from(&outsider).by(&[&mine]).build(),
            network
                .tx(CC, &rwset)
                .from(&outsider)
                .by(&[&mine, &other])
                .build(),
        ];
        let expected = match counts {
            true => [Valid; 3],
            false => [BadCreatorSignature, EndorsementPolicyFailure, Valid],
        };
        assert_eq!(network.codes(&mut validator, &txs), expected, "{value:02x?}");
        assert_eq!(may_read(&validator, &client), counts, "{value:02x?}");
    }
}

/// A peer rejects a configuration with a revocation list without a key identifier if the MSP has intermediate CAs, or
/// has admins only by certificate.
#[test]
fn a_revocation_list_without_a_key_id_with_intermediate_cas_stops_validation() {
    let mut network = Network::new();
    let mut spec = Spec::new("intermediate", &[]);
    spec.is_ca = true;
    let intermediate = network.orgs[0].root.certify(&spec);
    network.orgs[0].intermediates.push(intermediate);
    network.orgs[0].crls = vec![network.orgs[0].root.revoke_with(&[1], None)];
    let stopped = network.try_start(None);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Config { .. }))),
        "{stopped:?}"
    );
}

/// After a stop, the channel's configurations are still followed: a revoked client can no longer read, and an
/// undecidable configuration is reported.
#[test]
fn configurations_are_followed_after_a_stop() {
    let (mut network, mut validator) = channel(Network::new());
    let mut spec = Spec::new("secp256k1", &["client"]);
    spec.other_curve = true;
    let unknown = network.orgs[0].root.certify(&spec);
    let (client, other) = (network.client(0), network.orgs[0].member("user2", &["client"]));
    let rwset = rwset(&[(CC, &write("a", b"1"), &[])]);
    let stopping = network.tx(CC, &rwset).from(&unknown).build();
    let stopping = network.block(&[stopping]);
    let stopped = validator.validate(&stopping);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Identity { .. }))),
        "{stopped:?}"
    );

    let mut configurations = Configurations::after(&validator);
    let mut follow = |network: &mut Network, block: &[u8]| {
        let arena = Arena::new();
        let followed = configurations.follow(block);
        if followed.is_ok() {
            let read = Block::read(block, &arena).unwrap();
            network.last = (read.number, read.hash().to_vec());
            assert_eq!(configurations.next(), read.number + 1);
        }
        followed
    };
    assert!(follow(&mut network, &stopping).unwrap().is_none());
    let before = network.config();
    let serial = Spec::new("user1", &["client"]).serial;
    network.orgs[0].crls = vec![network.orgs[0].root.revoke(&[serial])];
    let admin = network.orgs[0].admin();
    let unsigned = Change::between(&before, &network.config()).by(&[&client]);
    let unsigned = unsigned.transaction(&mut network);
    let block = network.block(&[unsigned]);
    assert!(
        matches!(follow(&mut network, &block), Err(Error::Stop(_))),
        "no admin signed the configuration"
    );
    let change = Change::between(&before, &network.config()).by(&[&admin]);
    let change = change.transaction(&mut network);
    let block = network.block(&[change]);
    let mut forged = block.clone();
    let last = forged.len() - 40;
    forged[last] ^= 1;
    assert!(matches!(follow(&mut network, &forged), Err(Error::Refused(_))));
    let config = follow(&mut network, &block).unwrap().unwrap();
    let reads = |member: &Member| {
        let (identity, message) = (member.serialised(), b"a request");
        let signature = member.sign(message);
        let by = SignedBy {
            identity: &identity,
            message,
            signature: &signature,
        };
        config.permits(READERS, by, &Verifier::default())
    };
    assert!(!reads(&client) && reads(&other));
    assert!(
        may_read(&validator, &client),
        "the stopped replica still has the previous configuration"
    );
}
