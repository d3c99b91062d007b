//! Limits of refusals: a client that has used up its credit gets `busy` instead of the reason when its packet is
//! refused. Valid packets are executed nevertheless, also those of this client.

mod common;

use common::{NOW_S, Server, execute_packet, limits, operation, outcomes, start_in};
use lineside_fastpath::Source;
use lineside_journal::SimDisk;
use lineside_transfer::host::{SealPolicy, SessionPolicy};
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    Status, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER, TransferCode as Code,
};

const BUSY: u8 = Status::Busy as u8;
/// Number of refusals per second that one source may have in the long run.
const PER_S: u64 = 2;
/// Number of refusals that one source may have at once.
const BURST: u64 = 60 * PER_S;

fn stranger(host: u8) -> Source {
    Source {
        address: [203, 0, 113, host].into(),
        port: 5_000,
    }
}

fn start(disk: &SimDisk) -> Server {
    let policy = SessionPolicy {
        refusals_per_s: PER_S as u32,
        ..SessionPolicy::default()
    };
    let limits = lineside_transfer::ledger::Limits {
        sessions: 1024,
        ..limits()
    };
    let mut server = start_in(disk, 1, SealPolicy::default(), limits, policy, Vec::new()).unwrap();
    let session = server.open();
    let make = [operation(CREATE, 1, 0, 1_000), operation(CREATE, 2, 0, 1_000)];
    server.execute(session, 1, &make);
    server
}

/// Returns a packet that is refused.
fn refused(session: (u32, u64), sequence: u64) -> Vec<u8> {
    execute_packet(session, sequence, &[operation(TRANSFER, 77, 78, 1)])
}

/// Returns a packet that can be executed.
fn valid(session: (u32, u64), sequence: u64) -> Vec<u8> {
    execute_packet(session, sequence, &[operation(TRANSFER, 1, 2, 1)])
}

/// Sends refused packets of a session until one is `busy`; returns the sequence number of that packet.
fn use_up(server: &mut Server, now_s: u64, from: Source, session: (u32, u64), mut sequence: u64) -> u64 {
    while server.ask_at(now_s, from, &refused(session, sequence)).unwrap()[5] != BUSY {
        sequence += 1;
        assert!(sequence < 10 * BURST, "refusals are not limited");
    }
    sequence
}

/// Returns the code of the reply to a TRANSFER in the paper's format.
fn paper(server: &mut Server, from: Source, id: u32, amount: u32) -> u32 {
    let request = PaperRequest::new(TRANSFER, id, 1, 2, amount).to_bytes();
    let reply = server.ask_at(NOW_S, from, &request).unwrap();
    u32::from_be_bytes(reply[..4].try_into().unwrap())
}

#[test]
fn forged_packets_use_no_credit_of_the_address_that_they_name() {
    let disk = SimDisk::new(1);
    let mut server = start(&disk);
    let victim = stranger(1);
    let session = server.open_from(victim);
    let before = server.host.journal_bytes();
    let mut id = 0;
    let busy = loop {
        id += 1;
        match paper(&mut server, victim, id, 5_000) {
            code if id > 1 && server.host.counts().limited > 0 => break code,
            _ => assert!(u64::from(id) <= BURST, "refusals are not limited"),
        }
    };
    assert_eq!(u64::from(id), BURST + 1);
    assert!(server.host.journal_bytes() - before <= 96 * BURST);
    // A forger gains nothing by using another address, and the `busy` reply uses no transaction id.
    assert_eq!(paper(&mut server, stranger(9), id, 5_000), busy);
    // Valid requests are executed, in either format; the victim's refusals are answered, and it can open sessions.
    assert_ne!(paper(&mut server, victim, id, 1), busy);
    assert_eq!(server.host.ledger().sum_of_balances(), 2_000);
    let reply = server.ask_at(NOW_S, victim, &valid(session, 1)).unwrap();
    assert_eq!(outcomes(&reply), [(Code::Done, 998)]);
    let reply = server.ask_at(NOW_S, victim, &refused(session, 2)).unwrap();
    assert_eq!(outcomes(&reply), [(Code::UnknownAccount, 0)]);
    server.open_from(victim);
}

#[test]
fn a_session_that_is_always_refused_does_not_stop_other_sessions_of_its_address() {
    let disk = SimDisk::new(2);
    let mut server = start(&disk);
    let address = stranger(1);
    let (noisy, quiet) = (server.open_from(address), server.open_from(address));
    let next = use_up(&mut server, NOW_S, address, noisy, 1);
    assert_eq!(next, BURST + 1);
    // The neighbour's packets are executed, and an occasional refusal is answered with its reason.
    let reply = server.ask_at(NOW_S, address, &valid(quiet, 1)).unwrap();
    assert_eq!(outcomes(&reply), [(Code::Done, 999)]);
    let reply = server.ask_at(NOW_S, address, &refused(quiet, 2)).unwrap();
    assert_eq!(outcomes(&reply), [(Code::UnknownAccount, 0)]);
    assert_eq!(
        server.ask_at(NOW_S, address, &refused(quiet, 3)).unwrap()[5],
        BUSY
    );
    // Valid packets of the noisy session are executed as well, with the sequence number whose refused packet was
    // answered `busy`.
    let reply = server.ask_at(NOW_S, address, &valid(noisy, next)).unwrap();
    assert_eq!(outcomes(&reply), [(Code::Done, 998)]);
    server.open_from(address);
    // After a restart, every reply can be repeated.
    let ledger = server.host.ledger().to_bytes();
    drop(server);
    disk.power_cut();
    let mut server = start_in(
        &disk,
        1,
        SealPolicy::default(),
        lineside_transfer::ledger::Limits {
            sessions: 1024,
            ..limits()
        },
        SessionPolicy::default(),
        Vec::new(),
    )
    .unwrap();
    assert_eq!(server.host.ledger().to_bytes(), ledger);
    let again = server.ask_at(NOW_S, address, &valid(noisy, next)).unwrap();
    assert_eq!(outcomes(&again), [(Code::Done, 998)]);
}

#[test]
fn sessions_of_one_address_write_little_more_than_its_rate_together() {
    const SECONDS: u64 = 40;
    let mut server = start(&SimDisk::new(3));
    let address = stranger(1);
    let sessions: Vec<_> = (0..8).map(|_| server.open_from(address)).collect();
    let mut next = vec![1; sessions.len()];
    for second in 0..SECONDS {
        for (session, next) in sessions.iter().zip(&mut next) {
            *next = use_up(&mut server, NOW_S + second, address, *session, *next);
        }
    }
    let written: u64 = next.iter().map(|next| next - 1).sum();
    // The most is the burst, the rate, and one refusal of each session in four seconds.
    let most = BURST + SECONDS * PER_S + sessions.len() as u64 * SECONDS.div_ceil(4);
    assert!((BURST..=most).contains(&written), "{written} of {most}");
}
