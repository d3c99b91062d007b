//! Tests of the validation rules that the recorded blocks do not cover, on a generated channel.

use super::network::{
    CHANNEL, Member, Network, Spec, block_header, data, delete, message, metadata, number, policy, read,
    rwset, sha256, write,
};
use super::update::Change;
use crate::rules::Rule;
use crate::state::{Disk, State};
use crate::{Error, Options, Refused, Stop, TxCode, Validator};
use TxCode::*;

const CC: &str = "cc";

/// Creates a channel with a chaincode that peers of both organisations must endorse.
fn channel(broken: Option<Rule>) -> (Network, Validator) {
    channel_of(Network::new(), broken)
}

fn channel_of(mut network: Network, broken: Option<Rule>) -> (Network, Validator) {
    let mut validator = network.start(broken);
    let policy = policy::application(&policy::n_of(2, &[("Org1MSP", 3), ("Org2MSP", 3)]));
    let definition = network.define(CC, &policy, &[]).build();
    assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    (network, validator)
}

fn writing(key: &str) -> Vec<u8> {
    rwset(&[(CC, &write(key, b"1"), &[])])
}

fn ca_as_creator(broken: Option<Rule>) -> Vec<TxCode> {
    let (mut network, mut validator) = channel(broken);
    let mut spec = Spec::new("a CA", &["client"]);
    spec.is_ca = true;
    let ca = network.orgs[0].root.certify(&spec);
    let tx = network.tx(CC, &writing("a")).from(&ca).build();
    network.codes(&mut validator, &[tx])
}

fn reading_with_one_endorsement(broken: Option<Rule>) -> Vec<TxCode> {
    let (mut network, mut validator) = channel(broken);
    let one = network.peer(0);
    let tx = network
        .tx(CC, &rwset(&[(CC, &read("a", None), &[])]))
        .by(&[&one])
        .build();
    network.codes(&mut validator, &[tx])
}

fn definition_by_one(broken: Option<Rule>) -> Vec<TxCode> {
    let (mut network, mut validator) = channel(broken);
    let one = network.peer(0);
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let tx = network.define("other", &policy, &[]).by(&[&one]).build();
    network.codes(&mut validator, &[tx])
}

fn hashed_read(broken: Option<Rule>) -> Vec<TxCode> {
    let (mut network, mut validator) = channel(broken);
    let version = message(&[(2, &number(1, 7))]);
    let stale = message(&[(1, &[message(&[(1, b"hash of a key")]), version].concat())]);
    let absent = message(&[(1, &message(&[(1, b"hash of a key")]))]);
    let of = |hashed: Vec<u8>| rwset(&[(CC, b"", &[("secret", hashed)])]);
    let txs = [
        network.tx(CC, &of(stale)).build(),
        network.tx(CC, &of(absent)).build(),
    ];
    network.codes(&mut validator, &txs)
}

/// Writes a key in one block, writes it with an empty value in the next, and then reads it as missing; returns the
/// codes.
fn empty_value(broken: Option<Rule>) -> Vec<TxCode> {
    let (mut network, mut validator) = channel(broken);
    let first = network.tx(CC, &writing("a")).build();
    let second = network.tx(CC, &rwset(&[(CC, &write("a", b""), &[])])).build();
    let mut codes = network.codes(&mut validator, &[first]);
    codes.extend(network.codes(&mut validator, &[second]));
    let third = network.tx(CC, &rwset(&[(CC, &read("a", None), &[])])).build();
    codes.extend(network.codes(&mut validator, &[third]));
    codes
}

fn block_without_signature(broken: Option<Rule>) -> Result<Vec<TxCode>, Error> {
    let (mut network, mut validator) = channel(broken);
    let tx = network.tx(CC, &writing("a")).build();
    let (at, previous) = network.last.clone();
    let (data_hash, data) = data(&[tx]);
    let block = network.signed_block(at + 1, &previous, &data_hash, &data, &[]);
    validator.validate(&block).map(|validated| validated.codes)
}

fn revoked_by_configuration(broken: Option<Rule>) -> Vec<TxCode> {
    let (mut network, mut validator) = channel(broken);
    let client = network.client(0);
    let before = network.tx(CC, &writing("a")).from(&client).build();
    let mut codes = network.codes(&mut validator, &[before]);
    let serial = Spec::new("user1", &["client"]).serial;
    let before = network.config();
    network.orgs[0].crls = vec![network.orgs[0].root.revoke(&[1, serial, 3])];
    let admin = network.orgs[0].admin();
    let config = Change::between(&before, &network.config()).by(&[&admin]);
    let config = config.transaction(&mut network);
    codes.extend(network.codes(&mut validator, &[config]));
    let after = network.tx(CC, &writing("b")).from(&client).build();
    codes.extend(network.codes(&mut validator, &[after]));
    codes
}

#[test]
fn a_ca_certificate_is_no_creator() {
    assert_eq!(ca_as_creator(None), [BadCreatorSignature]);
}

#[test]
fn the_policy_holds_without_writes_too() {
    assert_eq!(reading_with_one_endorsement(None), [EndorsementPolicyFailure]);
}

#[test]
fn a_definition_needs_the_lifecycle_policy() {
    assert_eq!(definition_by_one(None), [EndorsementPolicyFailure]);
}

#[test]
fn hashed_reads_are_checked() {
    assert_eq!(hashed_read(None), [MvccReadConflict, Valid]);
}

#[test]
fn a_write_of_an_empty_value_deletes() {
    assert_eq!(empty_value(None), [Valid, Valid, Valid]);
}

#[test]
fn a_block_has_to_be_signed() {
    assert!(matches!(
        block_without_signature(None),
        Err(Error::Refused(Refused::Signature))
    ));
}

#[test]
fn a_configuration_applies_at_once() {
    assert_eq!(
        revoked_by_configuration(None),
        [Valid, Valid, BadCreatorSignature]
    );
}

/// Second half of the mutation test: rules that no recorded block covers.
#[test]
fn generated_blocks_show_each_rule_that_recorded_ones_do_not() {
    assert_eq!(ca_as_creator(Some(Rule::CaRefused)), [Valid]);
    assert_eq!(
        reading_with_one_endorsement(Some(Rule::PolicyWithoutWrites)),
        [Valid]
    );
    assert_eq!(definition_by_one(Some(Rule::LifecyclePolicy)), [Valid]);
    assert_eq!(hashed_read(Some(Rule::HashedReads)), [Valid, Valid]);
    assert_eq!(
        empty_value(Some(Rule::EmptyValueDeletes)),
        [Valid, Valid, MvccReadConflict]
    );
    assert!(block_without_signature(Some(Rule::OrdererSignature)).is_ok());
    assert_eq!(
        revoked_by_configuration(Some(Rule::ConfigAppliedAtOnce)),
        [Valid, Valid, Valid]
    );
    assert_eq!(by_an_intermediate_ca(Some(Rule::InternalCas)), [Valid, Valid]);
}

// ---- unusual forms of signatures and identities that peers accept ----

#[test]
fn bytes_inside_the_signature_after_s_are_accepted() {
    let (mut network, mut validator) = channel(None);
    let tx = network.tx(CC, &writing("a"));
    let (header, data) = tx.parts();
    let payload = message(&[(1, &header), (2, &data)]);
    let mut signature = tx.creator.sign(&payload);
    signature[1] += 2;
    signature.extend([5, 0]);
    let envelope = message(&[(1, &payload), (2, &signature)]);
    assert_eq!(network.codes(&mut validator, &[envelope]), [Valid]);
}

#[test]
fn an_expired_certificate_is_accepted_and_one_of_a_ca_that_is_not_valid_yet_is_not() {
    let (mut network, mut validator) = channel(None);
    let mut expired = Spec::new("expired", &["client"]);
    expired.years = (2021, 2022);
    let mut early = Spec::new("early", &["client"]);
    early.years = (2019, 2049);
    let txs = [expired, early].map(|spec| {
        let creator = network.orgs[0].root.certify(&spec);
        network.tx(CC, &writing(&spec.name)).from(&creator).build()
    });
    assert_eq!(network.codes(&mut validator, &txs), [Valid, BadCreatorSignature]);
}

#[test]
fn text_around_the_certificate_and_another_type_are_accepted() {
    let (mut network, mut validator) = channel(None);
    let client = network.client(0);
    let text = String::from_utf8(client.pem()).unwrap();
    let forms = [
        format!("hello\n{text}bye"),
        text.replace("CERTIFICATE", "SOMETHING"),
        text.replace('\n', "\r\n"),
        format!("{text}{text}"),
        // If several BEGIN lines precede an END line, the last one is used; invalid PEM blocks are skipped.
        format!("-----BEGIN CERTIFICATE-----\n{text}"),
        format!("-----BEGIN X-----\n!\n-----END X-----\n{text}"),
    ];
    for form in forms {
        let mut tx = network.tx(CC, &writing("a"));
        tx.creator_bytes = Some(client.serialised_as(form.as_bytes()));
        assert_eq!(network.codes(&mut validator, &[tx.build()]), [Valid], "{form}");
    }
}

#[test]
fn bytes_after_the_certificate_are_refused() {
    let (mut network, mut validator) = channel(None);
    let mut client = network.client(0);
    client.der.push(0);
    let tx = network.tx(CC, &writing("a")).from(&client).build();
    assert_eq!(network.codes(&mut validator, &[tx]), [BadCreatorSignature]);
}

/// A state in memory accepts any key. A replica with the state on the disk stops before a block that writes a key that
/// is too long, but reading that key is not an error.
#[test]
fn a_key_too_long_for_the_state_on_the_disk_stops_validation() {
    let directory = tempfile::tempdir().unwrap();
    let mut network = Network::new();
    let on_disk = Disk::open(directory.path()).unwrap().0;
    let genesis = network.genesis();
    let mut validators = [State::default(), on_disk.into()].map(|state| {
        let started = Validator::new(&genesis, Options::default()).unwrap();
        started.with_state(state)
    });
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let definition = network.define(CC, &policy, &[]).build();
    let long = "k".repeat(70_000);
    let txs =
        [rwset(&[(CC, &read(&long, None), &[])]), writing(&long)].map(|set| network.tx(CC, &set).build());
    let [reads, writes] = txs;
    for transactions in [&[definition][..], &[reads], &[writes]] {
        let block = network.block(transactions);
        let [memory, disk] = validators.each_mut().map(|validator| validator.validate(&block));
        let memory = memory.unwrap();
        assert_eq!(memory.codes, [Valid]);
        if transactions[0].len() > 70_000 && !memory.updates.is_empty() {
            let Err(Error::Stop(Stop::Limit { found, limit, .. })) = disk else {
                panic!("{disk:?}");
            };
            assert!(found > 70_000 && limit == usize::from(u16::MAX));
            return;
        }
        assert_eq!(disk.unwrap().commit_hash, memory.commit_hash);
        network.last = (memory.number, memory.hash.to_vec());
        for validator in &mut validators {
            let validated = validator.validate(&block).unwrap();
            validator.commit(validated);
        }
    }
    panic!("the block with the long key was accepted");
}

#[test]
fn one_identity_in_two_forms_endorses_once() {
    let mut network = Network::new();
    let mut validator = network.start(None);
    let policy = policy::application(&policy::n_of(2, &[("Org1MSP", 3), ("Org1MSP", 3)]));
    let definition = network.define(CC, &policy, &[]).build();
    assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    // `high` is the same certificate with a high s in its signature. An MSP normalises s before it compares identities.
    let spec = Spec::new("peer0", &["peer"]);
    let high = network.orgs[0].root.certify(&Spec { high_s: true, ..spec });
    let low = network.peer(0);
    assert_ne!(high.der, low.der);
    let other = network.orgs[0].member("peer1", &["peer"]);
    let txs = [[&low, &high], [&low, &other], [&high, &other]];
    let txs = txs.map(|by| network.tx(CC, &writing("a")).by(&by).build());
    assert_eq!(
        network.codes(&mut validator, &txs),
        [EndorsementPolicyFailure, Valid, Valid]
    );
}

#[test]
fn a_bad_signature_does_not_spoil_a_good_one_of_the_same_endorser() {
    let (mut network, mut validator) = channel(None);
    let (one, two) = (network.peer(0), network.peer(1));
    let mut tx = network.tx(CC, &writing("a")).by(&[]);
    let bytes = one.serialised();
    tx.endorsements.push((bytes.clone(), Box::new(|_| vec![1, 2, 3])));
    tx.endorsements
        .push((bytes, Box::new(move |signed| one.sign(signed))));
    tx.endorsements
        .push((two.serialised(), Box::new(move |signed| two.sign(signed))));
    tx.endorsements.push((b"nobody".to_vec(), Box::new(|_| vec![])));
    assert_eq!(network.codes(&mut validator, &[tx.build()]), [Valid]);
}

#[test]
fn a_member_of_an_intermediate_ca_is_accepted_and_the_ca_itself_is_not() {
    assert_eq!(by_an_intermediate_ca(None), [Valid, BadCreatorSignature]);
}

fn by_an_intermediate_ca(broken: Option<Rule>) -> Vec<TxCode> {
    let mut network = Network::new();
    let mut spec = Spec::new("intermediate", &[]);
    spec.is_ca = true;
    let intermediate = network.orgs[0].root.certify(&spec);
    network.orgs[0].intermediates.push(intermediate.clone());
    let mut validator = network.start(broken);
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let (two, peer) = (
        network.peer(1),
        intermediate.certify(&Spec::new("peer0", &["peer"])),
    );
    let client = intermediate.certify(&Spec::new("user1", &["client"]));
    let definition = network
        .define(CC, &policy, &[])
        .from(&client)
        .by(&[&two, &peer])
        .build();
    assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    let good = network.tx(CC, &writing("a")).from(&client).by(&[&peer]).build();
    // The root has an intermediate CA below it, so it may not certify identities itself.
    let direct = network.client(0);
    let direct = network.tx(CC, &writing("b")).from(&direct).by(&[&peer]).build();
    network.codes(&mut validator, &[good, direct])
}

#[test]
fn admins_are_those_on_the_list_and_those_with_the_admin_unit() {
    let mut network = Network::new();
    let (listed, other) = (
        network.orgs[0].member("boss", &["client"]),
        network.orgs[0].member("maid", &["client"]),
    );
    let by_unit = network.orgs[0].member("chief", &["admin"]);
    network.orgs[0].admins.push(listed.pem());
    let mut validator = network.start(None);
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 1)]));
    let definition = network.define(CC, &policy, &[]).build();
    assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    let txs = [&listed, &by_unit, &other].map(|by| network.tx(CC, &writing("a")).by(&[by]).build());
    assert_eq!(
        network.codes(&mut validator, &txs),
        [Valid, Valid, EndorsementPolicyFailure]
    );
}

// ---- unusual encodings of protobuf messages that peers accept ----

/// Returns the code of a transaction whose payload `make` builds from header and data.
fn with_payload(make: impl Fn(&[u8], &[u8]) -> Vec<u8> + 'static) -> TxCode {
    let (mut network, mut validator) = channel(None);
    let first = network.tx(CC, &writing("z")).build();
    let mut tx = network.tx(CC, &writing("a"));
    tx.payload = Some(Box::new(make));
    network.codes(&mut validator, &[first, tx.build()])[1]
}

#[test]
fn a_header_in_two_parts_is_merged() {
    let split = |header: &[u8], data: &[u8]| {
        let arena = crate::proto::Arena::new();
        let header: crate::proto::Header<'_> = crate::proto::decode(header, &arena).unwrap();
        let (first, second) = (
            message(&[(1, header.channel_header)]),
            message(&[(2, header.signature_header)]),
        );
        message(&[(1, &first), (2, data), (1, &second)])
    };
    assert_eq!(with_payload(split), Valid);
}

#[test]
fn the_last_value_of_a_repeated_scalar_field_counts() {
    assert_eq!(
        with_payload(|header, data| message(&[(2, b"x"), (1, header), (2, data)])),
        Valid
    );
    let spoiled = with_payload(|header, data| message(&[(1, header), (2, data), (2, b"x")]));
    assert_eq!(spoiled, InvalidEndorserTransaction);
}

#[test]
fn unknown_fields_and_groups_are_skipped_and_broken_ones_are_not() {
    let around = |extra: &'static [u8]| {
        with_payload(move |header, data| [extra, &message(&[(1, header), (2, data)]), extra].concat())
    };
    // The unknown field 9 as a varint, as eight bytes, as four bytes, and as nested groups.
    assert_eq!(around(&[0x48, 0x80, 0x01]), Valid);
    assert_eq!(around(&[0x49, 1, 2, 3, 4, 5, 6, 7, 8]), Valid);
    assert_eq!(around(&[0x4d, 1, 2, 3, 4]), Valid);
    assert_eq!(around(&[0x4b, 0x53, 0x54, 0x4c]), Valid);
    // A known field with another wire type is treated as unknown.
    assert_eq!(around(&[0x08, 5]), Valid);
    // Not accepted: field number 0, a group whose end has another number, wire types 6 and 7, a varint of eleven bytes.
    assert_eq!(around(&[0x00, 0x00]), BadPayload);
    assert_eq!(around(&[0x4b, 0x54]), BadPayload);
    assert_eq!(around(&[0x4e, 0x00]), BadPayload);
    assert_eq!(
        around(&[0x48, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]),
        BadPayload
    );
    assert_eq!(
        around(&[0x48, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        Valid
    );
}

#[test]
fn codes_that_no_recorded_channel_contains_are_given() {
    let (mut network, mut validator) = channel(None);
    let name = message(&[(2, CC.as_bytes())]);
    let mut build = |change: &dyn Fn(&mut super::network::Tx)| {
        let mut tx = network.tx(CC, &writing("a"));
        change(&mut tx);
        tx.build()
    };
    let txs = [
        build(&|_| {}),
        build(&|tx| tx.payload = Some(Box::new(|_, _| vec![0xff]))),
        build(&|tx| tx.kind = 2),
        build(&|tx| tx.extension = Some(vec![0xff])),
        build(&|tx| tx.extension = Some(vec![])),
        build(&|tx| tx.action = Some(vec![0xff])),
        build(&|tx| tx.action = Some(vec![])),
        build(&|tx| tx.action = Some(message(&[(1, &writing("a"))]))),
        build(&|tx| tx.action = Some(message(&[(1, &writing("a")), (4, &name)]))),
        build(&|tx| tx.action = Some(message(&[(1, &[0xff]), (4, &name)]))),
    ];
    let expected = [
        Valid,
        BadPayload,
        UnsupportedTxPayload,
        BadHeaderExtension,
        InvalidOtherReason,
        BadResponsePayload,
        BadResponsePayload,
        InvalidOtherReason,
        InvalidChaincode,
        BadRwset,
    ];
    assert_eq!(network.codes(&mut validator, &txs), expected);
}

// ---- policies ----

#[test]
fn a_definition_may_refer_to_a_channel_policy() {
    let mut network = Network::new();
    let mut validator = network.start(None);
    let policies = [
        "/Channel/Application/Endorsement",
        "/Channel/Application/Nobody",
        "Application/Endorsement",
    ];
    for (place, path) in policies.iter().enumerate() {
        let definition = network
            .define(&format!("cc{place}"), &policy::reference(path), &[])
            .build();
        assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    }
    let (one, two) = (network.peer(0), network.peer(1));
    let mut codes = |chaincode: &str| {
        let set = rwset(&[(chaincode, &write("a", b"1"), &[])]);
        let txs = [
            network.tx(chaincode, &set).by(&[&one, &two]),
            network.tx(chaincode, &set).by(&[&one]),
        ];
        network.codes(&mut validator, &txs.map(|tx| tx.build()))
    };
    assert_eq!(codes("cc0"), [Valid, EndorsementPolicyFailure]);
    assert_eq!(codes("cc1"), [EndorsementPolicyFailure, EndorsementPolicyFailure]);
    assert_eq!(codes("cc2"), [Valid, EndorsementPolicyFailure]);
}

#[test]
fn an_upgrade_holds_from_the_next_block_on() {
    let (mut network, mut validator) = channel(None);
    let one = network.peer(0);
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let upgrade = network.define(CC, &policy, &[]).build();
    let [same, next] = ["a", "b"].map(|key| network.tx(CC, &writing(key)).by(&[&one]).build());
    assert_eq!(
        network.codes(&mut validator, &[upgrade, same]),
        [Valid, EndorsementPolicyFailure]
    );
    assert_eq!(network.codes(&mut validator, &[next]), [Valid]);
}

#[test]
fn a_transaction_needs_the_policy_of_every_namespace_it_writes() {
    let (mut network, mut validator) = channel(None);
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let other = network.define("other", &policy, &[]).build();
    assert_eq!(network.codes(&mut validator, &[other]), [Valid]);
    let one = network.peer(0);
    let writes = write("a", b"1");
    let both = rwset(&[("other", &writes, &[]), (CC, &writes, &[])]);
    let reading = rwset(&[("other", &writes, &[]), (CC, &read("b", None), &[])]);
    let missing = rwset(&[("other", &writes, &[]), ("missing", &writes, &[])]);
    let txs = [
        network.tx("other", &both).build(),
        network.tx("other", &both).by(&[&one]).build(),
        network.tx("other", &reading).by(&[&one]).build(),
        network.tx("other", &missing).by(&[&one]).build(),
    ];
    let expected = [Valid, EndorsementPolicyFailure, Valid, InvalidChaincode];
    assert_eq!(network.codes(&mut validator, &txs), expected);
    let neither = network.tx("other", &missing).by(&[]).build();
    let stopped = network.next(&mut validator, &[neither]);
    assert!(matches!(
        stopped,
        Err(Error::Stop(Stop::Transaction { index: 0, .. }))
    ));
}

#[test]
fn a_write_to_a_collection_needs_the_collections_policy() {
    let mut network = Network::new();
    let mut validator = network.start(None);
    let both = policy::application(&policy::n_of(2, &[("Org1MSP", 3), ("Org2MSP", 3)]));
    let second = policy::application(&policy::n_of(1, &[("Org2MSP", 3)]));
    let collection = |name: &str, more: &[u8]| {
        let fixed = [message(&[(1, name.as_bytes())]), more.to_vec()].concat();
        message(&[(1, &message(&[(1, &fixed)]))])
    };
    let collections = [
        collection("own", &message(&[(8, &second)])),
        collection("plain", &[]),
        collection("mortal", &number(5, 3)),
    ];
    let definition = network.define(CC, &both, &collections.concat()).build();
    assert_eq!(network.codes(&mut validator, &[definition]), [Valid]);
    let (one, two) = (network.peer(0), network.peer(1));
    let hashed = message(&[(2, &message(&[(1, b"key"), (3, b"value")]))]);
    let mut to = |collection: &str, by: &[&Member]| {
        network
            .tx(CC, &rwset(&[(CC, b"", &[(collection, hashed.clone())])]))
            .by(by)
            .build()
    };
    let txs = [
        to("own", &[&two]),
        to("own", &[&one]),
        to("plain", &[&two]),
        to("plain", &[&one, &two]),
        to("_implicit_org_Org1MSP", &[&one]),
        to("_implicit_org_Org1MSP", &[&two]),
        to("_implicit_org_NobodyMSP", &[&one, &two]),
        to("missing", &[&one, &two]),
        to("mortal", &[&one, &two]),
    ];
    let failed = EndorsementPolicyFailure;
    let expected = [Valid, failed, failed, Valid, Valid, failed, failed, failed, Valid];
    assert_eq!(network.codes(&mut validator, &txs), expected);
}

#[test]
fn a_key_deleted_and_written_in_one_block_keeps_its_policy() {
    let (mut network, mut validator) = channel(None);
    let (one, two) = (network.peer(0), network.peer(1));
    let only_one = policy::n_of(1, &[("Org1MSP", 3)]);
    let set = [write("k", b"1"), metadata("k", &only_one)].concat();
    let set = network.tx(CC, &rwset(&[(CC, &set, &[])])).build();
    assert_eq!(network.codes(&mut validator, &[set]), [Valid]);
    let remove = network
        .tx(CC, &rwset(&[(CC, &delete("k"), &[])]))
        .by(&[&one])
        .build();
    let again = network.tx(CC, &writing("k")).by(&[&one]).build();
    assert_eq!(network.codes(&mut validator, &[remove, again]), [Valid, Valid]);
    let txs = [&one, &two].map(|by| network.tx(CC, &writing("k")).by(&[by]).build());
    assert_eq!(
        network.codes(&mut validator, &txs),
        [Valid, EndorsementPolicyFailure]
    );
}

#[test]
fn validation_stops_where_peers_wait_for_ever() {
    let (mut network, mut validator) = channel(None);
    let policy = policy::n_of(1, &[("Org1MSP", 3)]);
    let mut first = network.tx(CC, &rwset(&[(CC, &metadata("k", &policy), &[])]));
    first.creator.key = super::network::key("somebody else");
    let second = network.tx(CC, &writing("k")).build();
    let txs = [first.build(), second];
    assert!(matches!(
        network.next(&mut validator, &txs),
        Err(Error::Stop(Stop::Transaction { index: 1, .. }))
    ));
}

// ---- whole blocks ----

#[test]
fn blocks_with_a_malformed_envelope_are_refused() {
    let (mut network, mut validator) = channel(None);
    let tx = network.tx(CC, &writing("a"));
    let (header, payload_data) = tx.parts();
    let payload = message(&[(1, &header), (2, &payload_data)]);
    let signature = tx.creator.sign(&payload);
    let good = message(&[(1, &payload), (2, &signature)]);
    let mut refused = |envelope: Vec<u8>| match network.next(&mut validator, &[envelope]) {
        Err(Error::Refused(Refused::Envelope { index: 0, what })) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(message(&[(1, &payload), (2, b"")])),
        "it has no signature"
    );
    assert_eq!(
        refused(message(&[(1, b""), (2, &signature)])),
        "it has no payload"
    );
    let form = "its envelope is not encoded as orderers encode it (payload, signature, unknown fields, in this order)";
    assert_eq!(refused(message(&[(2, &signature), (1, &payload)])), form);
    assert_eq!(
        refused(message(&[(1, b"x"), (1, &payload), (2, &signature)])),
        form
    );
    assert_eq!(refused([&[0x48, 1], &good[..]].concat()), form);
    assert_eq!(refused([&good[..], &[0xff]].concat()), "it is malformed");
    // Go writes unknown fields after the known ones, in their original form.
    let unknown = [&good[..], &[0x48, 0x81, 0x00]].concat();
    let (at, previous) = network.last.clone();
    let (data_hash, all) = data(std::slice::from_ref(&unknown));
    let block = |at, previous: &[u8], hash: &[u8]| {
        let by = [network.orderer_signature(&block_header(at, previous, hash))];
        network.signed_block(at, previous, hash, &all, &by)
    };
    let mut refusal = |block: Vec<u8>| match validator.validate(&block) {
        Err(Error::Refused(refused)) => Some(refused),
        Ok(_) => None,
        Err(Error::Stop(stop)) => panic!("{stop}"),
    };
    assert_eq!(refusal(block(at + 1, &previous, &data_hash)), None);
    assert!(matches!(
        refusal(block(at, &previous, &data_hash)),
        Some(Refused::Number { .. })
    ));
    assert_eq!(
        refusal(block(at + 1, b"other", &data_hash)),
        Some(Refused::PreviousHash)
    );
    assert_eq!(
        refusal(block(at + 1, &previous, &sha256(b""))),
        Some(Refused::DataHash)
    );
    let mut tx = network.tx(CC, &writing("a"));
    tx.channel = "other".to_owned();
    let foreign = tx.build();
    assert!(matches!(
        network.next(&mut validator, &[foreign]),
        Err(Error::Refused(Refused::Channel))
    ));
    assert!(matches!(
        network.next(&mut validator, &[]),
        Err(Error::Refused(Refused::Empty))
    ));
}

#[test]
fn a_block_of_bft_orderers_needs_a_quorum_of_signatures() {
    let mut network = Network::new();
    network.channel_capabilities = vec!["V3_0"];
    let members: Vec<_> = (0..4u64)
        .map(|id| (id + 1, network.orderers.member(&format!("o{id}"), &["orderer"])))
        .collect();
    network.consenters = members.clone();
    let mut validator = network.start(None);
    let policy = policy::application(&policy::n_of(2, &[("Org1MSP", 3), ("Org2MSP", 3)]));
    let tx = network.define(CC, &policy, &[]).build();
    let (data_hash, data) = data(&[tx]);
    let (at, previous) = network.last.clone();
    let header = block_header(at + 1, &previous, &data_hash);
    let by = |(id, member): &(u64, Member)| {
        let identifier = [number(1, *id), message(&[(2, b"nonce")])].concat();
        let signed = [b"orderer block metadata", &identifier[..], &header].concat();
        message(&[(2, &member.sign(&signed)), (3, &identifier)])
    };
    let mut codes = |by: &[Vec<u8>]| {
        let block = network.signed_block(at + 1, &previous, &data_hash, &data, by);
        validator.validate(&block).map(|validated| validated.codes)
    };
    let all: Vec<_> = members.iter().map(by).collect();
    assert!(matches!(
        codes(&all[..2]),
        Err(Error::Refused(Refused::Signature))
    ));
    assert!(matches!(
        codes(&[&all[..2], &all[..1]].concat()),
        Err(Error::Refused(Refused::Signature))
    ));
    assert_eq!(codes(&all[1..]).unwrap(), [Valid]);
}

// ---- input on which validation stops ----

fn stops(change: impl FnOnce(&mut Network)) -> String {
    let mut network = Network::new();
    change(&mut network);
    match network.try_start(None) {
        Err(Error::Stop(Stop::Config { what })) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn unsupported_configurations_stop_validation() {
    assert_eq!(
        stops(|network| network.orgs[0].kind = 1),
        "an MSP has the type idemix, which is not supported"
    );
    assert_eq!(
        stops(|network| network.application_capabilities = vec!["V1_3"]),
        "the application capability V2_0 or V2_5 is required"
    );
    assert_eq!(
        stops(|network| network.channel_capabilities = vec!["V1_4_3"]),
        "the channel capability V2_0 or V3_0 is required"
    );
    let unknown = "the application capability V9_9 is not supported";
    assert_eq!(
        stops(|network| network.application_capabilities = vec!["V2_5", "V9_9"]),
        unknown
    );
}

#[test]
fn unsupported_identities_and_plugins_stop_validation() {
    let (mut network, mut validator) = channel(None);
    let mut spec = Spec::new("secp256k1", &["client"]);
    spec.other_curve = true;
    let creator = network.orgs[0].root.certify(&spec);
    let tx = network.tx(CC, &writing("a")).from(&creator).build();
    let first = network.tx(CC, &writing("b")).build();
    let stopped = network.next(&mut validator, &[first, tx]);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Identity { index: 1, .. }))),
        "{stopped:?}"
    );

    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let custom = network.define_with("custom", "mine", &policy, &[]).build();
    assert_eq!(network.codes(&mut validator, &[custom]), [Valid]);
    let tx = network.tx("custom", &rwset(&[])).build();
    let stopped = network.next(&mut validator, &[tx]);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Chaincode { .. }))),
        "{stopped:?}"
    );
}

#[test]
fn a_refused_block_changes_nothing() {
    let (mut network, mut validator) = channel(None);
    let block = network.block(&[network.config()]);
    assert!(validator.validate(&block).is_err());
    assert_eq!((validator.last(), validator.channel()), (1, CHANNEL));
    let tx = network.tx(CC, &writing("a")).build();
    assert_eq!(network.codes(&mut validator, &[tx]), [Valid]);
}
