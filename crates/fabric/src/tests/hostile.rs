//! Tests with malicious input: nothing panics, and memory and time stay proportional to the input.

use super::network::{Network, Spec, message, number, pem, policy, rwset, sha256, write};
use crate::proto::wire::put_bytes;
use crate::{Error, Stop, TxCode, Validator};

fn channel() -> (Network, Validator) {
    let mut network = Network::new();
    let validator = network.start(None);
    (network, validator)
}

#[test]
fn a_truncated_block_is_refused() {
    let (mut network, mut validator) = channel();
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let tx = network.define("cc", &policy, &[]).build();
    let block = network.block(&[tx]);
    for length in 0..block.len() {
        assert!(validator.validate(&block[..length]).is_err(), "{length}");
    }
    assert!(validator.validate(&block).is_ok());
}

#[test]
fn a_block_with_any_changed_byte_is_refused_or_gets_the_same_codes() {
    let (mut network, mut validator) = channel();
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let tx = network.define("cc", &policy, &[]).build();
    let block = network.block(&[tx]);
    let good = validator.validate(&block).unwrap().codes;
    for place in 0..block.len() {
        let mut bent = block.clone();
        bent[place] ^= 1 << (place % 8);
        if let Ok(validated) = validator.validate(&bent) {
            assert_eq!(validated.codes, good, "{place}");
        }
    }
}

/// Changes each byte of a client's transaction in turn, in a block that the orderer signs after the change.
#[test]
fn a_transaction_with_any_changed_byte_is_never_valid() {
    let (mut network, mut validator) = channel();
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let good = network.define("cc", &policy, &[]).build();
    for place in 0..good.len() {
        let mut bent = good.clone();
        bent[place] ^= 1 << (place % 8);
        match validator.validate(&network.block(&[bent])) {
            Ok(validated) => assert_ne!(validated.codes, [TxCode::Valid], "{place}"),
            Err(Error::Refused(_) | Error::Stop(Stop::Transaction { .. })) => {}
            Err(error) => panic!("{place}: {error}"),
        }
    }
}

#[test]
fn identities_with_any_changed_byte_are_decided_without_a_panic() {
    let (mut network, mut validator) = channel();
    let client = network.client(0);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for place in 0..client.der.len() {
        let mut der = client.der.clone();
        der[place] ^= 1 << (place % 8);
        sent.push(client.serialised_as(&pem(&der)));
    }
    let whole = client.serialised();
    sent.extend((0..whole.len()).map(|length| whole[..length].to_vec()));
    let txs: Vec<_> = sent
        .into_iter()
        .map(|bytes| {
            let mut tx = network.tx("cc", &rwset(&[])).by(&[]);
            tx.creator_bytes = Some(bytes);
            tx.build()
        })
        .collect();
    let codes = network.codes(&mut validator, &txs);
    // A few changes do not change the certificate: blanks around the PEM block, or unused bits of its last base64
    // digit.
    let strange = codes
        .iter()
        .filter(|code| **code != TxCode::BadCreatorSignature)
        .count();
    assert!(strange <= 32, "{strange}");
}

fn key_with(network: &mut Network, validator: &mut Validator, policy: &[u8]) -> Result<Vec<TxCode>, Error> {
    let cc = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let definition = network.define("cc", &cc, &[]).build();
    network.next(validator, &[definition])?;
    let set = [write("k", b"1"), super::network::metadata("k", policy)].concat();
    let set = network.tx("cc", &rwset(&[("cc", &set, &[])])).build();
    network.next(validator, &[set])?;
    let tx = network
        .tx("cc", &rwset(&[("cc", &write("k", b"2"), &[])]))
        .build();
    network.next(validator, &[tx])
}

#[test]
fn policies_with_too_many_rules_or_layers_are_refused() {
    let principal = policy::role("Org1MSP", 3);
    let envelope = |rule: &[u8]| message(&[(2, rule), (3, &principal)]);
    let mut many = number(1, 1);
    for _ in 0..1_000_000 {
        put_bytes(&mut many, 2, &[8, 0]);
    }
    let mut deep = vec![8, 0];
    for _ in 0..1_000 {
        deep = message(&[(2, &message(&[(2, &deep)]))]);
    }
    for rule in [message(&[(2, &many)]), deep] {
        let (mut network, mut validator) = channel();
        let stopped = key_with(&mut network, &mut validator, &envelope(&rule));
        assert!(
            matches!(stopped, Err(Error::Stop(Stop::Transaction { .. }))),
            "{stopped:?}"
        );
    }
}

#[test]
fn a_validation_parameter_that_is_no_policy_halts_peers() {
    let (mut network, mut validator) = channel();
    // Peers halt on a validation parameter that is not a policy. A policy that they cannot compile is never satisfied.
    let stopped = key_with(&mut network, &mut validator, &[0xff]);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Transaction { .. }))),
        "{stopped:?}"
    );
    let (mut network, mut validator) = channel();
    let missing = message(&[(2, &[8, 5])]);
    let codes = key_with(&mut network, &mut validator, &missing).unwrap();
    assert_eq!(codes, [TxCode::EndorsementPolicyFailure]);
}

#[test]
fn too_many_endorsements_and_oversized_certificates_stop_validation() {
    let (mut network, mut validator) = channel();
    // More endorsements than the limit.
    let mut tx = network.tx("cc", &rwset(&[])).by(&[]);
    for _ in 0..1_025 {
        tx.endorsements.push((vec![1], Box::new(|_| vec![2])));
    }
    let stopped = network.next(&mut validator, &[tx.build()]);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Transaction { .. }))),
        "{stopped:?}"
    );
    // Certificates that must be refused quickly: one of a megabyte, one of deeply nested elements, and ones with wrong
    // lengths.
    let mut deep = Vec::new();
    for _ in 0..2_000 {
        let mut outer = Vec::new();
        crate::der::put(&mut outer, 0x30, &deep);
        deep = outer;
    }
    let bombs = [
        vec![0x30; 1 << 20],
        deep,
        vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        vec![0x30, 0x80, 0, 0],
    ];
    let client = network.client(0);
    let txs = bombs.map(|bomb| {
        let mut tx = network.tx("cc", &rwset(&[])).by(&[]);
        tx.creator_bytes = Some(client.serialised_as(&pem(&bomb)));
        tx.build()
    });
    assert_eq!(
        network.codes(&mut validator, &txs),
        [TxCode::BadCreatorSignature; 4]
    );
}

#[test]
fn a_certificate_that_cannot_be_decoded_here_stops_validation() {
    let (mut network, mut validator) = channel();
    let mut spec = Spec::new("odd", &["client"]);
    spec.years = (2020, 9999);
    let fine = network.orgs[0].root.certify(&spec);
    let fine = network.tx("cc", &rwset(&[])).from(&fine).build();
    assert_eq!(network.codes(&mut validator, &[fine]), [TxCode::InvalidChaincode]);
    let units: Vec<&'static str> = vec!["client"; 70];
    let many = network.orgs[0].root.certify(&Spec::new("many", &units));
    let many = network.tx("cc", &rwset(&[])).from(&many).build();
    assert_eq!(
        network.codes(&mut validator, &[many]),
        [TxCode::BadCreatorSignature]
    );
    assert_ne!(sha256(b""), [0; 32]);
}
