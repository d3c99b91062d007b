//! Tests of early verification: results are used only if they are still valid, and change no code.

use super::network::{Member, Network, Org, Spec, block_header, data, policy, rwset, write};
use super::update::Change;
use crate::early::{EarlyWork, Worker};
use crate::limits::EARLY_BYTES_MAX;
use crate::{Error, Options, Refused, TxCode, Validator};
use TxCode::{BadCreatorSignature, BadPayload, EndorsementPolicyFailure, Valid};
use std::time::{Duration, Instant};

const CC: &str = "cc";
const VERIFIER_TIMEOUT: Duration = Duration::from_secs(60);

/// A channel with two validators: one without and one with early verification.
struct EarlyAndPlain {
    network: Network,
    plain: Validator,
    early: Validator,
    worker: Worker,
    work: EarlyWork,
    keys: u32,
}

impl EarlyAndPlain {
    fn new(bytes_max: usize) -> Self {
        let mut network = Network::new();
        let genesis = network.genesis();
        let start = || Validator::new(&genesis, Options::default()).unwrap();
        let (plain, mut early) = (start(), start());
        let worker = Worker::with_bytes(&early.reader, 1, bytes_max).unwrap();
        early.reader.early = Some(worker.shared().clone());
        let work = worker.handle();
        let mut two = Self {
            network,
            plain,
            early,
            worker,
            work,
            keys: 0,
        };
        let policy = policy::application(&policy::n_of(2, &[("Org1MSP", 3), ("Org2MSP", 3)]));
        let definition = two.network.define(CC, &policy, &[]).build();
        assert_eq!(two.next(&[definition]), [Valid]);
        two
    }

    fn tx_by(&mut self, creator: &Member) -> Vec<u8> {
        self.keys += 1;
        let writes = write(&format!("key {}", self.keys), b"value");
        let tx = self.network.tx(CC, &rwset(&[(CC, &writes, &[])]));
        tx.from(creator).build()
    }

    fn tx(&mut self) -> Vec<u8> {
        self.tx_by(&self.network.client(0))
    }

    fn block(&self) -> u64 {
        self.network.last.0 + 1
    }

    /// Submits these transactions of the next block early, and waits until they are verified.
    fn submit_early(&self, all: &[Vec<u8>]) {
        let before = self.work.counts();
        for (index, envelope) in all.iter().enumerate() {
            self.work.put(self.block(), index as u32, envelope);
        }
        self.wait(before.verified + all.len() as u64);
    }

    fn wait(&self, verified: u64) {
        let began = Instant::now();
        while self.work.counts().verified < verified {
            assert!(began.elapsed() < VERIFIER_TIMEOUT, "{:?}", self.work.counts());
            std::thread::yield_now();
        }
    }

    /// Adds the next block with these transactions to both validators, and returns the codes on which they agree.
    fn next(&mut self, all: &[Vec<u8>]) -> Vec<TxCode> {
        let block = self.network.block(all);
        let plain = self.plain.validate(&block).unwrap();
        let early = self.early.validate(&block).unwrap();
        assert_eq!(early.codes, plain.codes);
        assert_eq!(early.commit_hash, plain.commit_hash);
        let codes = plain.codes.clone();
        self.network.last = (plain.number, plain.hash.to_vec());
        let next = plain.number + 1;
        self.plain.commit(plain);
        self.early.commit(early);
        self.worker.shared().follow(&self.early.reader, next);
        codes
    }

    fn used(&self) -> u64 {
        self.work.counts().used
    }
}

/// Returns the transaction with a changed creator signature.
fn forged(envelope: &[u8]) -> Vec<u8> {
    let mut forged = envelope.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    forged
}

#[test]
fn early_results_are_used_and_change_no_code() {
    let mut two = EarlyAndPlain::new(EARLY_BYTES_MAX);
    let mut expected = Vec::new();
    let mut all = Vec::new();
    // The 241 transactions are more than fit into one batch.
    for round in 0..80 {
        let tx = two.tx();
        let one = two.network.peer(round % 2);
        let little = two.network.tx(CC, &rwset(&[(CC, &write("k", b"1"), &[])]));
        let forged = forged(&two.tx());
        all.extend([tx, little.by(&[&one]).build(), forged]);
        expected.extend([Valid, EndorsementPolicyFailure, BadCreatorSignature]);
    }
    // The last transaction cannot be parsed; a peer does not scan the transactions after it.
    let mut unread = two.network.tx(CC, b"");
    unread.payload = Some(Box::new(|_, _| vec![0xff; 9]));
    all.push(unread.build());
    expected.push(BadPayload);
    two.submit_early(&all);
    assert_eq!(two.used(), 0);
    assert!(two.work.memory_bytes() > all.concat().len());
    assert_eq!(two.next(&all), expected);
    assert_eq!((two.used(), two.work.memory_bytes()), (241, 0));
    // Submit some transactions of this block and of the next block, in mixed order.
    let (here, behind) = ([two.tx(), two.tx(), two.tx()], [two.tx(), forged(&two.tx())]);
    let (block, before) = (two.block(), two.work.counts().verified);
    two.work.put(block, 2, &here[2]);
    two.work.put(block + 1, 1, &behind[1]);
    two.work.put(block, 0, &here[0]);
    two.work.put(block + 1, 0, &behind[0]);
    two.wait(before + 4);
    assert_eq!(two.next(&here), [Valid; 3]);
    assert_eq!(two.used(), 243);
    assert_eq!(two.next(&behind), [Valid, BadCreatorSignature]);
    assert_eq!((two.used(), two.work.memory_bytes()), (245, 0));
}

#[test]
fn an_early_transaction_with_other_bytes_is_verified_again() {
    let mut two = EarlyAndPlain::new(EARLY_BYTES_MAX);
    let [good, other, third] = [two.tx(), two.tx(), two.tx()];
    let (bad, worse) = (forged(&other), forged(&third));
    let longer = [&good[..], &[0x18, 1]].concat();
    // The early transactions differ from those of the block: a valid one in place of a forged one, another transaction,
    // a longer envelope, and one that the block does not have.
    two.submit_early(&[other.clone(), third.clone(), longer, other.clone(), good.clone()]);
    assert_eq!(
        two.next(&[bad, worse, good.clone(), third]),
        [BadCreatorSignature, BadCreatorSignature, Valid, Valid]
    );
    assert_eq!((two.used(), two.work.memory_bytes()), (0, 0));
    let bad = forged(&two.tx());
    let good = two.tx();
    let block = two.block();
    // Two transactions are submitted for the same index. At most the result of the last one is used.
    two.submit_early(std::slice::from_ref(&bad));
    two.submit_early(std::slice::from_ref(&good));
    assert_eq!(two.next(&[good]), [Valid]);
    assert_eq!((two.block(), two.used()), (block + 1, 1));
}

#[test]
fn another_configuration_voids_earlier_early_results() {
    let mut two = EarlyAndPlain::new(EARLY_BYTES_MAX);
    let before = two.network.config();
    let third = Org::new("Org3MSP");
    let stranger = third.root.certify(&Spec::new("user1", &["client"]));
    let tx = two.tx_by(&stranger);
    let admins = [0, 1].map(|org| two.network.orgs[org].admin());
    two.network.orgs.push(third);
    let config = Change::between(&before, &two.network.config()).by(&[&admins[0], &admins[1]]);
    let config = config.transaction(&mut two.network);
    let early = two.tx();
    let (block, verified) = (two.block(), two.work.counts().verified);
    two.work.put(block, 0, &config);
    two.work.put(block + 1, 0, &tx);
    two.work.put(block + 1, 1, &early);
    two.wait(verified + 3);
    assert_eq!(two.next(&[config]), [Valid]);
    assert_eq!(two.used(), 1, "the configuration itself");
    assert_eq!(two.work.memory_bytes(), 0);
    // The creator was not known yet when this transaction was submitted early, so that result is not used.
    assert_eq!(two.next(&[tx, early]), [Valid, Valid]);
    assert_eq!(two.used(), 1);
    let tx = two.tx_by(&stranger);
    two.submit_early(std::slice::from_ref(&tx));
    // A reader with the previous configuration gets no results.
    two.worker.shared().follow(&two.plain.reader, two.block());
    assert_eq!(two.next(std::slice::from_ref(&tx)), [Valid]);
    assert_eq!(two.used(), 1);
    let tx = two.tx_by(&stranger);
    two.submit_early(std::slice::from_ref(&tx));
    assert_eq!(two.next(&[tx]), [Valid]);
    assert_eq!(two.used(), 2);
}

#[test]
fn dropped_early_transactions_are_forgotten_even_during_verification() {
    let mut two = EarlyAndPlain::new(EARLY_BYTES_MAX);
    let all: Vec<_> = (0..40).map(|_| two.tx()).collect();
    let block = two.block();
    two.submit_early(&all);
    two.work.put(block + 1, 0, &all[0]);
    two.work.dropped(block);
    two.wait(41);
    assert!((1..2 * all[0].len() + 1_000).contains(&two.work.memory_bytes()));
    two.work.dropped(block + 1);
    assert_eq!(two.work.memory_bytes(), 0);
    for some in [1, 3, 17, 40] {
        for (index, envelope) in all.iter().enumerate().take(some) {
            two.work.put(block, index as u32, envelope);
        }
        // Some transactions are waiting, some are being verified, some have results.
        two.work.dropped(block);
    }
    let began = Instant::now();
    while two.work.memory_bytes() > 0 {
        assert!(began.elapsed() < VERIFIER_TIMEOUT);
        std::thread::yield_now();
    }
    assert_eq!(two.next(&all), [Valid; 40]);
    assert_eq!(two.used(), 0);
    // Transactions of blocks that are in the ledger are skipped.
    two.work.put(block, 0, &all[0]);
    assert_eq!((two.work.memory_bytes(), two.work.counts().skipped), (0, 1));
}

#[test]
fn transactions_beyond_the_early_memory_are_verified_with_their_block() {
    let tx_bytes = {
        let mut two = EarlyAndPlain::new(EARLY_BYTES_MAX);
        two.tx().len()
    };
    let bytes_max = 5 * (tx_bytes + 1_000);
    let mut two = EarlyAndPlain::new(bytes_max);
    let mut all: Vec<_> = (0..50).map(|_| two.tx()).collect();
    all[1] = forged(&all[1]);
    let block = two.block();
    for (index, envelope) in all.iter().enumerate() {
        two.work.put(block, index as u32, envelope);
        assert!(two.work.memory_bytes() <= bytes_max);
    }
    let counts = two.work.counts();
    // The memory limit admits five transactions, and later ones only when a verification has released memory.
    assert!((10..=46).contains(&counts.skipped), "{counts:?}");
    two.wait(50 - counts.skipped);
    assert!(two.work.memory_bytes() <= bytes_max);
    let codes = two.next(&all);
    assert_eq!(codes.iter().filter(|code| **code == Valid).count(), 49);
    assert_eq!(codes[1], BadCreatorSignature);
    assert!((1..=10).contains(&two.used()), "{:?}", two.work.counts());
    // After the block, memory is free again.
    let tx = two.tx();
    two.submit_early(std::slice::from_ref(&tx));
    // With this limit, not even one transaction is verified early.
    let mut none = EarlyAndPlain::new(10);
    let tx = none.tx();
    none.work.put(none.block(), 0, &tx);
    assert_eq!((none.work.memory_bytes(), none.work.counts().skipped), (0, 1));
    assert_eq!(none.next(&[tx]), [Valid]);
}

#[test]
fn early_results_of_a_refused_block_are_discarded() {
    let mut two = EarlyAndPlain::new(EARLY_BYTES_MAX);
    let all = [two.tx(), two.tx()];
    let (at, previous) = two.network.last.clone();
    let (data_hash, transactions) = data(&all);
    let block = |number, previous: &[u8], hash: &[u8], signed: bool| {
        let header = block_header(number, previous, hash);
        let by = signed.then(|| two.network.orderer_signature(&header));
        let by: Vec<_> = by.into_iter().collect();
        two.network
            .signed_block(number, previous, hash, &transactions, &by)
    };
    let refused = [
        (block(at + 1, &previous, &data_hash, false), Refused::Signature),
        (block(at + 1, &[7; 32], &data_hash, true), Refused::PreviousHash),
        (block(at + 1, &previous, &[7; 32], true), Refused::DataHash),
    ];
    let state = |validator: &Validator| (validator.last(), validator.last_hash(), validator.commit_hash());
    let before = state(&two.early);
    for (block, why) in refused {
        two.submit_early(&all);
        assert!(two.work.memory_bytes() > 0);
        match two.early.validate(&block) {
            Err(Error::Refused(refused)) => assert_eq!(refused, why),
            other => panic!("{other:?}"),
        }
        assert_eq!(two.work.memory_bytes(), 0, "{why:?}");
        assert_eq!(state(&two.early), before);
        assert!(two.early.state().get(CC, "", b"key 1").is_none());
    }
    assert_eq!(two.next(&all), [Valid; 2]);
    assert_eq!(two.used(), 0);
}
