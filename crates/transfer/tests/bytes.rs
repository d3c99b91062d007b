//! Encoding and decoding of entries, blocks, ledgers and proofs: everything that the encoder writes can be decoded, and
//! no other bytes can.

use k256::ecdsa::SigningKey;
use lineside_transfer::AccountId;
use lineside_transfer::entry::{Entry, codes_kept};
use lineside_transfer::ledger::{Ledger, Limits};
use lineside_transfer::native::Outcome;
use lineside_transfer::paper::{PaperAnswer, PaperRequest};
use lineside_transfer::settlement::{self, Block, Chain, LEAF_BYTES, Proof};
use lineside_transfer::store::Mode;
use lineside_wire::{Operation, SignedHead, TRANSFER_OPERATIONS_MAX, TransferCode as Code};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zerocopy::{FromBytes, FromZeros};

fn key() -> SigningKey {
    SigningKey::from_slice(&[7; 32]).unwrap()
}

fn code() -> impl Strategy<Value = Code> {
    (0..16u16).prop_map(|code| Code::from_code(code).unwrap())
}

fn operation() -> impl Strategy<Value = Operation> {
    vec(any::<u8>(), size_of::<Operation>()).prop_map(|bytes| Operation::read_from_bytes(&bytes).unwrap())
}

fn outcome() -> impl Strategy<Value = Outcome> {
    (code(), any::<u64>(), any::<u64>()).prop_map(|(code, amount, number)| Outcome { code, amount, number })
}

fn block() -> impl Strategy<Value = Block> {
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u128>(),
        any::<u64>(),
        any::<u64>(),
    );
    let hashes = (any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[[u8; 32]; 2]>());
    (numbers, hashes).prop_map(|((number, first, count, issued, accounts, sealed_s), hashes)| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&hashes.2[0]);
        signature[32..].copy_from_slice(&hashes.2[1]);
        Block {
            number,
            previous: hashes.0,
            root: hashes.1,
            first,
            count,
            issued,
            accounts,
            sealed_s,
            signature,
        }
    })
}

fn refusal() -> impl Strategy<Value = Code> {
    code().prop_filter("the code must be a refusal", |code| *code != Code::Done)
}

/// Codes of a refused packet, and the number of its further operations: few codes, many equal codes, more codes than
/// are stored today (older versions stored them), or exactly as many as are stored of a larger packet.
fn codes() -> impl Strategy<Value = (Vec<Code>, u16)> {
    let runs = vec((refusal(), 1..40usize), 1..6);
    let runs = runs.prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(code, count)| vec![code; count])
            .collect()
    });
    let all = prop_oneof![vec(refusal(), 1..20), runs, vec(refusal(), 80..90)];
    let rest = prop_oneof![1..3u16, 1..=(TRANSFER_OPERATIONS_MAX - 84) as u16];
    prop_oneof![all.prop_map(|codes| (codes, 0)), (vec(refusal(), 84), rest)]
}

fn entry() -> impl Strategy<Value = Entry> {
    let mode = prop_oneof![Just(Mode::Durable), Just(Mode::Express)];
    let paper = (any::<[u32; 4]>(), any::<u8>(), code(), any::<u32>());
    let packet = vec((operation(), outcome()), 1..6);
    let head = vec(any::<u8>(), size_of::<SignedHead>());
    let signed = option::of(head.prop_map(|bytes| Box::new(SignedHead::read_from_bytes(&bytes).unwrap())));
    prop_oneof![
        (any::<[u64; 4]>(), any::<u32>(), mode).prop_map(|(words, sessions, mode)| {
            let [accounts, pendings, keys, key_window_s] = words;
            Entry::Limits {
                limits: Limits {
                    accounts,
                    sessions,
                    pendings,
                    keys,
                    key_window_s,
                },
                mode,
            }
        }),
        (any::<u32>(), any::<[u64; 3]>(), codes()).prop_map(
            |(slot, [sequence, now_s, sum], (codes, rest))| {
                Entry::Refused {
                    slot,
                    sequence,
                    now_s,
                    sum,
                    codes,
                    rest,
                }
            }
        ),
        (
            any::<u32>(),
            any::<[u64; 3]>(),
            vec(refusal(), 1..40),
            vec((operation(), any::<[u64; 2]>()), 1..6),
            any::<prop::sample::Index>()
        )
            .prop_map(|(slot, [sequence, now_s, sum], mut codes, done, at)| {
                let at = at.index(codes.len() + 1);
                codes.splice(at..at, std::iter::repeat_n(Code::Done, done.len()));
                let outcome = |[amount, number]: [u64; 2]| Outcome {
                    amount,
                    number,
                    ..Outcome::refused(Code::Done)
                };
                let (operations, outcomes) = done
                    .into_iter()
                    .map(|(operation, words)| (operation, outcome(words)))
                    .unzip();
                Entry::Partly {
                    slot,
                    sequence,
                    now_s,
                    sum,
                    codes,
                    operations,
                    outcomes,
                }
            }),
        any::<u64>().prop_map(|now_s| Entry::Time { now_s }),
        (any::<[u32; 4]>(), any::<u8>(), refusal(), any::<u64>()).prop_map(
            |([id, source, to, amount], command, code, version)| Entry::PaperRefused {
                request: PaperRequest::new(command, id, source, to, amount),
                code,
                version,
            }
        ),
        paper.prop_map(|([id, source, to, amount], command, code, answer)| Entry::Paper {
            request: PaperRequest::new(command, id, source, to, amount),
            answer: PaperAnswer { code, amount: answer },
        }),
        (any::<[u32; 3]>(), any::<u64>(), signed, packet).prop_map(
            |([slot, now_s, _], sequence, signed, packet)| {
                let (operations, outcomes) = packet.into_iter().unzip();
                let now_s = now_s.into();
                Entry::Execute {
                    slot,
                    sequence,
                    now_s,
                    operations,
                    outcomes,
                    signed,
                }
            }
        ),
        (any::<u32>(), any::<[u64; 2]>(), any::<[u8; 16]>()).prop_map(|(slot, [token, now_s], opener)| {
            Entry::Open {
                slot,
                token,
                opener,
                now_s,
            }
        }),
        any::<u32>().prop_map(|slot| Entry::Close { slot }),
        any::<[[u8; 16]; 2]>().prop_map(|[source, uuid]| Entry::Expire((AccountId(source), uuid))),
        block().prop_map(Entry::Block),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_entry_is_read_as_it_was_written(entry in entry(), flip in 1..=255u8) {
        let (kind, bytes) = (entry.kind(), entry.to_bytes());
        prop_assert_eq!(Entry::from_record(kind, &bytes), Some(entry.clone()));
        for length in 0..bytes.len() {
            prop_assert_eq!(Entry::from_record(kind, &bytes[..length]), None);
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(Entry::from_record(kind, &longer), None);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= flip;
            // A changed byte gives another entry or none. It never gives the same entry, and never an entry whose
            // encoding differs.
            if let Some(other) = Entry::from_record(kind, &flipped) {
                prop_assert_ne!(&other, &entry);
                prop_assert_eq!((other.kind(), other.to_bytes()), (kind, flipped));
            }
        }
        for kind in (0..=255).filter(|own| *own != kind) {
            if let Some(other) = Entry::from_record(kind, &bytes) {
                prop_assert_eq!((other.kind(), other.to_bytes()), (kind, bytes.clone()));
            }
        }
    }

    #[test]
    fn a_block_is_read_as_it_was_written(block in block()) {
        prop_assert_eq!(Block::from_bytes(&block.to_bytes()), Some(block));
    }
}

/// Returns the entry of a refused packet with these codes, as the host writes it.
fn refused(codes: &[Code]) -> Entry {
    let kept = codes_kept(codes.iter().copied());
    Entry::Refused {
        slot: u32::MAX,
        sequence: u64::MAX,
        now_s: u64::MAX,
        sum: u64::MAX,
        codes: codes[..kept].to_vec(),
        rest: (codes.len() - kept) as u16,
    }
}

#[test]
fn a_refused_packet_takes_at_most_96_bytes_of_the_journal() {
    let refusals: Vec<Code> = (1..=15).filter_map(Code::from_code).collect();
    let bytes = |codes: &[Code]| {
        let entry = refused(codes);
        let payload = entry.to_bytes();
        assert_eq!(Entry::from_record(entry.kind(), &payload), Some(entry));
        lineside_journal::record_bytes(payload.len())
    };
    for count in 1..=TRANSFER_OPERATIONS_MAX {
        // The codes change at every operation, or with a frequency at which the half-byte form becomes the shorter one.
        for run in [1, 2, 5, 6, 7, count / 15, count / 14, count / 13, count] {
            let codes: Vec<Code> = (0..count)
                .map(|at| refusals[at / run.max(1) % refusals.len()])
                .collect();
            assert!(bytes(&codes) <= 96, "{count} operations, runs of {run}");
            let is_whole = count <= 84 || count.div_ceil(run.max(1)) <= 14;
            let kept = codes_kept(codes.iter().copied());
            assert_eq!(kept, if is_whole { count } else { 84 }, "{count}, {run}");
        }
    }
    assert!(bytes(&[Code::UnknownAccount; TRANSFER_OPERATIONS_MAX]) <= 64);
}

/// In versions up to 0.1, the codes of a packet over TCP took half a byte each, however many there were.
#[test]
fn long_codes_of_older_versions_are_read() {
    let refusals: Vec<Code> = (1..=15).filter_map(Code::from_code).collect();
    let codes: Vec<Code> = refusals
        .into_iter()
        .cycle()
        .take(TRANSFER_OPERATIONS_MAX)
        .collect();
    let mut payload = vec![0; 28];
    payload.extend((codes.len() as u16).to_le_bytes());
    payload.extend(codes.chunks(2).map(|two| two[0] as u8 | (two[1] as u8) << 4));
    let Some(Entry::Refused {
        codes: read, rest, ..
    }) = Entry::from_record(12, &payload)
    else {
        panic!("the entry cannot be decoded");
    };
    assert_eq!((read, rest), (codes, 0));
}

#[test]
fn an_entry_has_as_many_operations_as_a_packet() {
    let of = |count: usize| Entry::Execute {
        slot: 1,
        sequence: 2,
        now_s: 3,
        operations: vec![Operation::new_zeroed(); count],
        outcomes: vec![Outcome::refused(Code::Busy); count],
        signed: None,
    };
    for count in [0, 1, TRANSFER_OPERATIONS_MAX, TRANSFER_OPERATIONS_MAX + 1] {
        let entry = of(count);
        let is_one = (1..=TRANSFER_OPERATIONS_MAX).contains(&count);
        let read = Entry::from_record(entry.kind(), &entry.to_bytes());
        assert_eq!(read, is_one.then_some(entry), "{count}");
    }
}

// ---- ledgers ----

/// Returns a ledger after some requests: accounts with and without transaction ids, a session, pending transfers.
fn ledger(amounts: &[u32]) -> Ledger {
    let limits = Limits {
        accounts: 100,
        sessions: 3,
        pendings: 1 << 20,
        keys: 1 << 20,
        key_window_s: 3600,
    };
    let mut ledger = Ledger::new(limits);
    for (at, amount) in amounts.iter().enumerate() {
        let id = at as u32 % 5 + 1;
        let numbered = (amount % 2) * (at as u32 + 1);
        let command = (amount % 3) as u8 + 1;
        let request = PaperRequest::new(command, numbered, id, id % 5 + 1, *amount % 1000);
        if ledger.paper_answer(&request).is_none() {
            ledger.paper(&request, true);
        }
    }
    ledger.open(1, 99, [3; 16], 1_700_000_000);
    let operations: Vec<Operation> = amounts
        .iter()
        .enumerate()
        .map(|(at, amount)| pending(at, *amount))
        .collect();
    for (sequence, operations) in (1..).zip(operations.chunks(3)) {
        ledger.execute(1, sequence, operations, |_, _| Ok(()), 1_000);
    }
    ledger
}

fn pending(at: usize, amount: u32) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = 3;
    operation.contract = 1.into();
    operation.source = AccountId::from_paper(amount % 5 + 1).0;
    operation.destination = AccountId::from_paper(amount % 4 + 1).0;
    operation.amount = u64::from(amount % 50).into();
    operation.uuid = [at as u8; 16];
    operation.timeout_s = (amount % 3).into();
    operation
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn a_ledger_is_read_as_it_was_written(amounts in vec(any::<u32>(), 0..30), flip in 1..=255u8) {
        check_ledger(&amounts, flip);
    }
}

#[test]
fn a_pending_transfer_is_for_another_account() {
    // These amounts give a pending transfer of 0 whose changed destination is its source.
    let amounts = [
        2_570_395_614,
        0,
        0,
        1,
        2_399_299_855,
        3_547_664_282,
        1_017_468_966,
        350_910_162,
        1_649_016_550,
    ];
    check_ledger(&amounts, 2);
}

fn check_ledger(amounts: &[u32], flip: u8) {
    let bytes = ledger(amounts).to_bytes();
    let again = Ledger::from_bytes(&bytes).unwrap();
    assert_eq!(again.to_bytes(), bytes);
    assert_eq!(again.expired(u64::MAX), ledger(amounts).expired(u64::MAX));
    for length in 0..bytes.len() {
        assert!(Ledger::from_bytes(&bytes[..length]).is_none());
    }
    assert!(Ledger::from_bytes(&[&bytes[..], &[0]].concat()).is_none());
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= flip;
        // A changed byte may change ids and versions, but never amounts of money.
        if let Some(mut other) = Ledger::from_bytes(&flipped) {
            assert_eq!(other.sum_of_balances(), other.issued());
            for id in other.expired(u64::MAX) {
                assert!(other.expire(&id), "byte {at}");
            }
            assert_eq!(other.sum_of_balances(), other.issued());
        }
    }
}

// ---- proofs ----

fn leaves(count: u64) -> Vec<[u8; LEAF_BYTES]> {
    let leaf = |number: u64| {
        let operation = pending(number as usize, number as u32 * 7);
        let outcome = Outcome {
            code: Code::Done,
            amount: number * 3,
            number,
        };
        settlement::leaf(&operation, &outcome)
    };
    (1..=count).map(leaf).collect()
}

/// Returns the second block of two, over `count` operations, and its leaves.
fn sealed(count: u64) -> (Block, Vec<[u8; LEAF_BYTES]>) {
    let all = leaves(3 + count);
    let mut chain = Chain::new(*key().verifying_key());
    all[..3].iter().for_each(|leaf| chain.push(leaf));
    let sealed = chain.seal(&key(), 10, 2, 1_000);
    chain.passed(&sealed);
    all[3..].iter().for_each(|leaf| chain.push(leaf));
    let block = chain.seal(&key(), 20, 4, 2_000);
    assert_eq!(chain.fault(&block, 20, 4), None);
    (block, all[3..].to_vec())
}

/// Returns whether a verifier with only the server's public key accepts the proof.
fn is_taken(proof: &Proof) -> bool {
    proof.fault().is_none() && proof.block.is_signed_by(key().verifying_key())
}

#[test]
fn a_proof_is_accepted_and_a_changed_proof_is_not() {
    for count in [1, 2, 3, 5, 8, 13] {
        let (block, leaves) = sealed(count);
        for index in 0..count {
            let proof = Proof::new(&block, &leaves, index).unwrap();
            assert!(is_taken(&proof));
            refuses_changes(&proof);
        }
        assert_eq!(Proof::new(&block, &leaves, count), None);
        assert_eq!(
            Proof::new(&block, &leaves[1..], 0),
            None,
            "the leaves are not those of the block"
        );
    }
}

fn refuses_changes(proof: &Proof) {
    let refused = |what: &str, change: &dyn Fn(&mut Proof)| {
        let mut other = proof.clone();
        change(&mut other);
        assert!(!is_taken(&other), "{what} of {proof:?}");
    };
    for at in 0..LEAF_BYTES {
        refused("a byte of the operation", &|proof| proof.leaf[at] ^= 1);
    }
    for (step, byte) in (0..proof.path.len()).flat_map(|step| (0..32).map(move |byte| (step, byte))) {
        refused("a byte of the path", &|proof| proof.path[step][byte] ^= 0x80);
    }
    let block = proof.block.to_bytes();
    // Only some bytes of the signature are changed, because each change costs a complete check.
    for at in (0..block.len() - 64).chain([block.len() - 64, block.len() - 32, block.len() - 1]) {
        let mut bytes = block;
        bytes[at] ^= 1;
        refused("a byte of the block", &|proof| {
            proof.block = Block::from_bytes(&bytes).unwrap()
        });
    }
    for index in (0..proof.block.count + 2).filter(|index| *index != proof.index) {
        refused("the index", &|proof| proof.index = index);
    }
    for count in (0..proof.block.count + 3).filter(|count| *count != proof.block.count) {
        refused("the size", &|proof| proof.block.count = count);
    }
    refused("a longer path", &|proof| proof.path.push([0; 32]));
    if !proof.path.is_empty() {
        refused("a shorter path", &|proof| _ = proof.path.pop());
    }
}

#[test]
fn another_key_or_another_chain_is_refused() {
    let (block, leaves) = sealed(4);
    let proof = Proof::new(&block, &leaves, 2).unwrap();
    let other = SigningKey::from_slice(&[9; 32]).unwrap();
    assert!(!proof.block.is_signed_by(other.verifying_key()));
    // Everything in the block is correct, except that its chain contains another previous block.
    let mut chain = Chain::new(*key().verifying_key());
    leaves.iter().for_each(|leaf| chain.push(leaf));
    assert!(chain.fault(&block, 20, 4).is_some());
    for (issued, accounts) in [(21, 4), (20, 5)] {
        let (block, _) = sealed(4);
        let mut chain = Chain::new(*key().verifying_key());
        self::leaves(3).iter().for_each(|leaf| chain.push(leaf));
        let sealed = chain.seal(&key(), 10, 2, 1_000);
        chain.passed(&sealed);
        leaves.iter().for_each(|leaf| chain.push(leaf));
        assert!(chain.fault(&block, issued, accounts).is_some());
        assert_eq!(chain.fault(&block, 20, 4), None);
    }
}
