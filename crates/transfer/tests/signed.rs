//! Signed packets: permissions by key, and the scope of a signature. The tests build the signed bytes themselves and
//! sign them with the crates of the curves.

mod common;

use common::{ELSEWHERE, LOOPBACK, NOW_S, Server, execute_packet, key, operation, outcomes, start_with};
use k256::ecdsa::SigningKey as K256;
use lineside_fastpath::Source;
use lineside_journal::SimDisk;
use lineside_messages::transfer::{KeyId, Signer};
use lineside_transfer::AccountId;
use lineside_transfer::host::{SealPolicy, audit};
use lineside_verify::Curve;
use lineside_wire::{
    Operation, SignedHead, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_FREEZE as FREEZE,
    TRANSFER_COMMAND_ISSUE as ISSUE, TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_CONTRACT_PENDING as PENDING, TRANSFER_FLAG_LINKED as LINKED, TRANSFER_OP_SIGNED,
    TransferCode as Code, native,
};
use p256::ecdsa::SigningKey as P256;
use sha2::{Digest, Sha256};
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromBytes, IntoBytes};

const SEAL: SealPolicy = SealPolicy {
    operations: 4,
    seconds: 10,
};
/// Size of a native header, and of the signature in front of a signed body, in bytes.
const HEADER: usize = 16;
const SIGNED: usize = 104;
const UNAUTHORISED: u16 = 8;

/// Private key on either curve.
enum Key {
    P256(P256),
    K256(K256),
}

fn p256(secret: u8) -> Key {
    Key::P256(P256::from_slice(&[secret; 32]).unwrap())
}

fn k256(secret: u8) -> Key {
    Key::K256(K256::from_slice(&[secret; 32]).unwrap())
}

impl Key {
    /// Returns the curve, followed by the SEC 1 key.
    fn public(&self) -> Vec<u8> {
        match self {
            Self::P256(key) => [&[1], key.verifying_key().to_encoded_point(true).as_bytes()].concat(),
            Self::K256(key) => [&[2], key.verifying_key().to_encoded_point(true).as_bytes()].concat(),
        }
    }

    fn id(&self) -> KeyId {
        KeyId(Sha256::digest(self.public())[..16].try_into().unwrap())
    }

    /// Returns r and s over these bytes, with low s.
    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let digest = Sha256::digest(bytes);
        match self {
            Self::P256(key) => {
                use p256::ecdsa::{Signature, signature::hazmat::PrehashSigner};
                let made: Signature = key.sign_prehash(&digest).unwrap();
                made.normalize_s().unwrap_or(made).to_bytes().to_vec()
            }
            Self::K256(key) => {
                use k256::ecdsa::{Signature, signature::hazmat::PrehashSigner};
                let made: Signature = key.sign_prehash(&digest).unwrap();
                made.to_bytes().to_vec()
            }
        }
    }

    /// Returns a signed packet of a session.
    fn packet(&self, session: (u32, u64), sequence: u64, operations: &[Operation]) -> Vec<u8> {
        let plain = execute_packet(session, sequence, operations);
        let body = &plain[HEADER..];
        let signature = self.sign(&[b"lineside/transfer/1", body].concat());
        let public = self.public();
        let head = [&public[..2], &[0; 6], &public[2..], &signature].concat();
        assert_eq!(head.len(), SIGNED);
        let header = native::request_header(TRANSFER_OP_SIGNED, sequence, (SIGNED + body.len()) as u16);
        [header.as_bytes(), &head, body].concat()
    }
}

/// Returns a server that requires signatures, with accounts 1 and 2 of these owners, and a session.
fn server(owners: [&Key; 2], issuer_keys: Vec<KeyId>) -> (SimDisk, Server, (u32, u64)) {
    let disk = SimDisk::new(1);
    let mut server = start_with(&disk, 1, SEAL, issuer_keys).unwrap();
    let session = server.open();
    let create = |account: u32, owner: &Key| Operation {
        destination: owner.id().0,
        ..operation(CREATE, account, 0, 100)
    };
    let made = [
        create(1, owners[0]),
        create(2, owners[1]),
        operation(CREATE, 3, 0, 0),
    ];
    let done = server.execute(session, 1, &made);
    assert_eq!(done, [(Code::Done, 100), (Code::Done, 100), (Code::Done, 0)]);
    server.store.control().require_signature.store(1, Relaxed);
    (disk, server, session)
}

/// Returns the status, and the outcomes of the operations.
fn ask_from(server: &mut Server, from: Source, packet: &[u8]) -> (u16, Vec<(Code, u64)>) {
    let reply = server.ask_at(NOW_S, from, packet).unwrap();
    assert!(reply.len() <= packet.len(), "a reply longer than its request");
    assert_eq!(
        reply.len(),
        HEADER + usize::from(u16::from_be_bytes([reply[6], reply[7]]))
    );
    (u16::from_be_bytes([reply[4], reply[5]]), outcomes(&reply))
}

fn ask(server: &mut Server, packet: &[u8]) -> (u16, Vec<(Code, u64)>) {
    ask_from(server, ELSEWHERE, packet)
}

#[test]
fn only_the_owner_of_an_account_can_move_its_balance() {
    let (alice, bob) = (p256(1), k256(2));
    let (disk, mut server, session) = server([&alice, &bob], vec![]);
    let pay = operation(TRANSFER, 1, 2, 10);
    let back = operation(TRANSFER, 2, 1, 1);
    assert_eq!(
        ask(&mut server, &alice.packet(session, 2, &[pay])),
        (0, vec![(Code::Done, 90)])
    );
    assert_eq!(
        ask(&mut server, &bob.packet(session, 3, &[back, pay])),
        (0, vec![(Code::Done, 109), (Code::Unauthorised, 0)]),
        "the other account belongs to another key"
    );
    assert_eq!(
        ask(
            &mut server,
            &alice.packet(session, 4, &[operation(TRANSFER, 3, 1, 1)])
        )
        .1,
        [(Code::Unauthorised, 1)],
        "an account without owner belongs to no key"
    );
    assert_eq!(
        ask(
            &mut server,
            &alice.packet(session, 4, &[operation(TRANSFER, 9, 1, 1)])
        ),
        (0, vec![(Code::UnknownAccount, 0)]),
        "the missing account may later belong to the signer, so the refusal is recorded"
    );
    let pending = Operation {
        contract: PENDING.into(),
        uuid: *b"a pending-------",
        ..pay
    };
    assert_eq!(
        ask(&mut server, &bob.packet(session, 5, &[pending])),
        (UNAUTHORISED, vec![(Code::Unauthorised, 10)])
    );
    let linked = Operation {
        flags: LINKED,
        ..back
    };
    assert_eq!(
        ask(&mut server, &bob.packet(session, 5, &[linked, pay])).1,
        [(Code::LinkedFailed, 0), (Code::Unauthorised, 0)]
    );
    let before = server.host.ledger().to_bytes();
    drop(server);
    let server = start_with(&disk, 2, SEAL, vec![]).unwrap();
    assert_eq!(
        server.host.ledger().to_bytes(),
        before,
        "a replay permits the operations that the server permitted"
    );
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().signed, 2);
}

#[test]
fn a_packet_signed_by_a_stranger_takes_no_space_in_the_journal() {
    let (alice, stranger) = (p256(1), k256(9));
    let (_, mut server, owners) = server([&alice, &alice], vec![]);
    let session = server.open_from(ELSEWHERE);
    let before = (server.host.journal_bytes(), server.host.ledger().to_bytes());
    let rob = [operation(TRANSFER, 1, 2, 10); 15];
    let make = [operation(CREATE, 9, 0, 1), operation(ISSUE, 1, 0, 1)];
    for (session, sequence, operations) in [(session, 1, &rob[..]), (session, 1, &make), (owners, 2, &rob)] {
        let (status, outcomes) = ask(&mut server, &stranger.packet(session, sequence, operations));
        assert_eq!(status, UNAUTHORISED);
        assert!(outcomes.iter().all(|(code, _)| *code == Code::Unauthorised));
    }
    let after = (server.host.journal_bytes(), server.host.ledger().to_bytes());
    assert!(after == before, "{} bytes more", after.0 - before.0);
    // The owner's refused packet is kept in its short form.
    let poor = [operation(TRANSFER, 1, 2, 1_000); 15];
    let packet = alice.packet(session, 1, &poor);
    let first = server.ask_at(NOW_S, ELSEWHERE, &packet).unwrap();
    assert_eq!(outcomes(&first), [(Code::InsufficientFunds, 0); 15]);
    assert!(server.host.journal_bytes() - before.0 <= 96);
    assert_eq!(server.ask_at(NOW_S, ELSEWHERE, &packet).unwrap(), first);
}

#[test]
fn unsigned_writes_are_refused() {
    let alice = p256(1);
    let (_, mut server, session) = server([&alice, &alice], vec![]);
    let before = server.host.ledger().to_bytes();
    let pay = operation(TRANSFER, 1, 2, 10);
    assert_eq!(
        ask(&mut server, &execute_packet(session, 2, &[pay, pay])),
        (UNAUTHORISED, vec![(Code::Unauthorised, 10); 2])
    );
    for command in [CREATE, ISSUE, TRANSFER] {
        let answer = server.paper(command, 1, 1, 2, 10);
        assert_eq!(
            answer,
            (0x8000_0000 | u32::from(command), Code::Unauthorised as u32)
        );
    }
    assert_eq!(
        server.paper(REFER, 0, 1, 0, 0),
        (4, 100),
        "a query needs no signature"
    );
    assert_eq!(
        server.host.ledger().to_bytes(),
        before,
        "its sequence number was not used either"
    );
    assert_eq!(ask(&mut server, &alice.packet(session, 2, &[pay])).0, 0);
}

#[test]
fn a_signature_is_valid_for_one_packet_of_one_session() {
    let alice = k256(1);
    let (_, mut server, session) = server([&alice, &p256(2)], vec![]);
    let other = server.open_from(ELSEWHERE);
    let pay = operation(TRANSFER, 1, 2, 10);
    let good = alice.packet(session, 2, &[pay]);
    let before = server.host.ledger().to_bytes();
    // Every bit is covered, except the request id in the header, by which a client recognises its reply.
    for bit in (0..8 * good.len()).filter(|bit| !(64..128).contains(bit)) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Some(reply) = server.ask_at(NOW_S, ELSEWHERE, &bad) {
            assert_ne!(u16::from_be_bytes([reply[4], reply[5]]), 0, "bit {bit}");
        }
        assert_eq!(server.host.ledger().to_bytes(), before, "bit {bit}");
    }
    let moved = |session: (u32, u64), sequence| {
        let mut moved = alice.packet(session, sequence, &[pay]);
        moved[HEADER..HEADER + SIGNED].copy_from_slice(&good[HEADER..HEADER + SIGNED]);
        moved
    };
    for (session, sequence) in [(other, 1), (session, 3), (session, 1), (other, 2)] {
        assert_eq!(ask(&mut server, &moved(session, sequence)).0, UNAUTHORISED);
    }
    assert_eq!(ask(&mut server, &good), (0, vec![(Code::Done, 90)]));
    assert_eq!(
        ask(&mut server, &good),
        (0, vec![(Code::Done, 90)]),
        "a repetition gets the same reply, and is executed once"
    );
    assert_eq!(
        ask(&mut server, &alice.packet(session, 3, &[pay])).1,
        [(Code::Done, 80)]
    );
    assert_ne!(ask(&mut server, &good).0, 0, "an old packet again");
    assert_eq!(
        server
            .host
            .ledger()
            .account(&AccountId::from_paper(1))
            .unwrap()
            .holding
            .balance,
        80
    );
}

#[test]
fn a_key_of_one_curve_is_not_valid_on_the_other() {
    let (alice, same_secret) = (k256(1), p256(1));
    let (_, mut server, session) = server([&alice, &alice], vec![]);
    let pay = operation(TRANSFER, 1, 2, 10);
    let packet = same_secret.packet(session, 2, &[pay]);
    assert_eq!(
        ask(&mut server, &packet),
        (UNAUTHORISED, vec![(Code::Unauthorised, 10)])
    );
    for curve in [0, 2, 3, 255] {
        let mut wrong = same_secret.packet(session, 2, &[pay]);
        wrong[HEADER] = curve;
        assert_eq!(ask(&mut server, &wrong).0, UNAUTHORISED, "curve {curve}");
    }
}

#[test]
fn a_high_s_is_refused() {
    let alice = k256(1);
    let (_, mut server, session) = server([&alice, &alice], vec![]);
    let mut packet = alice.packet(session, 2, &[operation(TRANSFER, 1, 2, 10)]);
    let place = HEADER + SIGNED - 32..HEADER + SIGNED;
    let s = k256::NonZeroScalar::try_from(&packet[place.clone()]).unwrap();
    let high = k256::NonZeroScalar::new(-*s.as_ref()).unwrap();
    packet[place].copy_from_slice(&high.to_bytes());
    assert_eq!(ask(&mut server, &packet).0, UNAUTHORISED);
}

#[test]
fn issuers_are_sources_or_keys() {
    let (alice, mint) = (p256(1), k256(9));
    let (_, mut server, session) = server([&alice, &alice], vec![mint.id()]);
    let make = [
        operation(CREATE, 7, 0, 5),
        operation(ISSUE, 1, 0, 5),
        operation(FREEZE, 1, 0, 0),
    ];
    let done = vec![(Code::Done, 5), (Code::Done, 105), (Code::Done, 105)];
    let (status, refused) = ask_from(&mut server, ELSEWHERE, &alice.packet(session, 2, &make));
    assert_eq!(status, UNAUTHORISED);
    assert!(refused.iter().all(|(code, _)| *code == Code::Unauthorised));
    assert_eq!(
        ask_from(&mut server, ELSEWHERE, &mint.packet(session, 2, &make)),
        (0, done)
    );
    assert_eq!(
        ask_from(
            &mut server,
            LOOPBACK,
            &alice.packet(session, 3, &[operation(ISSUE, 2, 0, 1)])
        )
        .1,
        [(Code::Done, 101)],
        "a sender on loopback may issue, with any signature"
    );
    assert_eq!(
        ask_from(
            &mut server,
            ELSEWHERE,
            &mint.packet(session, 4, &[operation(TRANSFER, 2, 1, 1)])
        )
        .1,
        [(Code::Unauthorised, 0)],
        "an issuer cannot move the money of others"
    );
}

#[test]
fn one_group_has_signatures_of_all_kinds() {
    let keys: Vec<Key> = (1..=20)
        .map(|secret| {
            if secret % 2 == 0 {
                p256(secret)
            } else {
                k256(secret)
            }
        })
        .collect();
    let (_, mut server, session) = server([&keys[0], &keys[1]], vec![]);
    let pay = operation(TRANSFER, 1, 2, 1);
    let mut packets = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        // The owner's packet uses sequence number 2; the packets of the others use no sequence number.
        let sequence = if at == 0 { 2 } else { 3 };
        packets.push(key.packet(session, sequence, &[pay]));
        let mut bad = packets[packets.len() - 1].clone();
        bad[HEADER + SIGNED - 1] ^= 1;
        packets.insert(0, bad);
        packets.push(execute_packet(session, sequence, &[pay]));
    }
    let asked: Vec<_> = packets
        .iter()
        .map(|payload| lineside_fastpath::BatchRequest {
            from: ELSEWHERE,
            payload,
        })
        .collect();
    let said = server.host.group(NOW_S, &asked);
    let is_refused = |reply: &[u8]| reply[5] == UNAUTHORISED as u8;
    let refused = said
        .iter()
        .filter(|said| is_refused(said.reply.as_ref().unwrap()));
    assert_eq!(refused.count(), 59);
    let done = said
        .iter()
        .flat_map(|said| outcomes(said.reply.as_ref().unwrap()))
        .filter(|(code, _)| *code == Code::Done)
        .count();
    assert_eq!(done, 1, "only the owner's packet is executed");
    assert_eq!(
        server
            .host
            .ledger()
            .account(&AccountId::from_paper(1))
            .unwrap()
            .holding
            .balance,
        99
    );
}

#[test]
fn an_audit_finds_a_signature_of_another_packet() {
    use lineside_journal::{Journal, dump};
    use lineside_transfer::entry::Entry;
    let alice = p256(1);
    let (disk, mut server, session) = server([&alice, &alice], vec![]);
    ask(
        &mut server,
        &alice.packet(session, 2, &[operation(TRANSFER, 1, 2, 10)]),
    );
    drop(server);
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().signed, 1);
    // The test makes a copy of the journal in which the packet has another signature of the same key.
    let forged = SimDisk::new(2);
    let (mut journal, _) = Journal::open_or_create(forged.clone(), 1, common::options()).unwrap();
    dump(&disk, 1, |record| {
        let mut entry = Entry::from_record(record.kind, record.payload).unwrap();
        if let Entry::Execute {
            signed: Some(head), ..
        } = &mut entry
        {
            let signature = alice.sign(b"something else");
            head.r.copy_from_slice(&signature[..32]);
            head.s.copy_from_slice(&signature[32..]);
        }
        if !matches!(entry, Entry::Block(_)) {
            journal.append(entry.kind(), &entry.to_bytes()).unwrap();
        }
    })
    .unwrap();
    journal.commit().unwrap();
    drop(journal);
    let fault = audit(&forged, *key().verifying_key()).unwrap_err().to_string();
    assert!(fault.contains("signature"), "{fault}");
}

#[test]
fn the_client_signs_as_documented() {
    for curve in [Curve::P256, Curve::Secp256k1] {
        let ours = Signer::from_bytes(curve, &[5; 32]).unwrap();
        let theirs = if curve == Curve::P256 { p256(5) } else { k256(5) };
        assert_eq!(ours.id(), theirs.id());
        assert_eq!(ours.to_bytes(), [5; 32]);
        let packet = theirs.packet((3, 4), 5, &[operation(TRANSFER, 1, 2, 3)]);
        let (execute, rest) =
            lineside_wire::ExecuteHead::ref_from_prefix(&packet[HEADER + SIGNED..]).unwrap();
        let operations = <[Operation]>::ref_from_bytes(rest).unwrap();
        // The client and this test both sign deterministically (RFC 6979), so the signatures are equal.
        let head = SignedHead::ref_from_bytes(&packet[HEADER..HEADER + SIGNED]).unwrap();
        assert_eq!(ours.sign(execute, operations), *head);
        assert!(Signer::from_bytes(curve, &[0; 32]).is_none());
    }
    let id = p256(1).id();
    assert_eq!(id.to_string().parse(), Ok(id));
    for wrong in ["", "+0000000000000000000000000000000", "0123"] {
        assert!(wrong.parse::<KeyId>().is_err(), "{wrong}");
    }
}
