//! Limits of sessions and refusals: one source cannot use up shared resources, and nothing is executed twice because
//! of the limits.

mod common;

use common::{
    LOOPBACK, NOW_S, Server, execute_packet, key, limits, operation, outcomes, policy, session_packet,
    start_in,
};
use lineside_fastpath::Source;
use lineside_fastpath::challenge::UNUSED_S;
use lineside_journal::SimDisk;
use lineside_transfer::host::{SealPolicy, SessionPolicy, SessionUse, SteadyUse, audit};
use lineside_transfer::ledger::Limits;
use lineside_transfer::native;
use lineside_wire::{
    Operation, SessionBody, Status, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_CONTRACT_PENDING as PENDING, TRANSFER_OP_CLOSE, TRANSFER_OP_OPEN, TransferCode as Code,
};
use zerocopy::{FromBytes, FromZeros};

const SEAL: SealPolicy = SealPolicy {
    operations: 1_000,
    seconds: 10_000,
};
const DAY_S: u64 = 86_400;
const IDLE_S: u64 = 7 * DAY_S;
const BUSY: u8 = Status::Busy as u8;
const NO_SESSION: u8 = Status::NoSession as u8;

fn stranger(network: u8, host: u8) -> Source {
    Source {
        address: [203, 0, network, host].into(),
        port: 5_000,
    }
}

/// Returns an address of a /64, by its number.
fn stranger6(network: u16, host: u16) -> Source {
    Source {
        address: std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, host).into(),
        port: 5_000,
    }
}

fn server(disk: &SimDisk, sessions: u32, policy: SessionPolicy) -> Server {
    let limits = Limits { sessions, ..limits() };
    start_in(disk, 1, SEAL, limits, policy, Vec::new()).unwrap()
}

/// Opens a session; the error is the status of the refusal.
fn open(server: &mut Server, now_s: u64, from: Source) -> Result<(u32, u64), u8> {
    let body = SessionBody::new_zeroed();
    let challenge = server.ask_at(now_s, from, &session_packet(TRANSFER_OP_OPEN, &body));
    let challenge = SessionBody::ref_from_bytes(&challenge.unwrap()[16..])
        .unwrap()
        .challenge;
    let packet = session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..body });
    let reply = server.ask_at(now_s, from, &packet).unwrap();
    match SessionBody::ref_from_bytes(&reply[16..]) {
        Ok(body) => Ok((body.slot.get(), body.token.get())),
        Err(_) => Err(reply[5]),
    }
}

fn make_accounts(server: &mut Server) {
    let session = server.open();
    let make = [operation(CREATE, 1, 0, 1_000_000), operation(CREATE, 2, 0, 0)];
    assert!(
        server
            .execute(session, 1, &make)
            .iter()
            .all(|(code, _)| *code == Code::Done)
    );
}

#[test]
fn sixty_four_addresses_cannot_use_all_sessions() {
    let mut server = server(&SimDisk::new(1), 4096, SessionPolicy::default());
    let mut taken = 0;
    for host in 0..64 {
        taken += (0..64)
            .filter(|_| open(&mut server, NOW_S, stranger(1, host)).is_ok())
            .count();
    }
    assert!((1_000..=2_100).contains(&taken), "{taken}");
    for host in 0..200 {
        assert!(
            open(&mut server, NOW_S, stranger(2, host)).is_ok(),
            "a newcomer is refused"
        );
    }
    assert!(open(&mut server, NOW_S, LOOPBACK).is_ok());
    assert!(!server.host.session_use(NOW_S).refuses_strangers);
}

#[test]
fn one_network_of_ipv6_counts_as_one_source() {
    let mut server = server(&SimDisk::new(1), 4096, SessionPolicy::default());
    let opened = (0..2_000)
        .filter(|host| open(&mut server, NOW_S, stranger6(1, *host)).is_ok())
        .count();
    assert!((40..=64).contains(&opened), "{opened}");
    assert!(
        open(&mut server, NOW_S, stranger6(2, 1)).is_ok(),
        "another network"
    );
}

#[test]
fn one_site_of_ipv6_leaves_sessions_to_others() {
    let mut server = server(&SimDisk::new(1), 4096, SessionPolicy::default());
    let opened = (0..3_040)
        .filter(|network| open(&mut server, NOW_S, stranger6(*network, 1)).is_ok())
        .count();
    assert!((128..=192).contains(&opened), "{opened}");
    let elsewhere = Source {
        address: "2001:db9::1".parse().unwrap(),
        port: 5_000,
    };
    assert!(open(&mut server, NOW_S, elsewhere).is_ok());
    // Sessions of the site give way to a session of another network of the same site.
    let later_s = NOW_S + UNUSED_S;
    assert!(open(&mut server, later_s - 1, stranger6(4_000, 1)).is_err());
    for network in 4_000..4_100 {
        assert!(open(&mut server, later_s, stranger6(network, 1)).is_ok());
    }
    assert_eq!(server.host.ledger().session_count() as usize, opened + 1);
}

#[test]
fn unused_sessions_of_strangers_keep_newcomers_out_only_for_seconds() {
    let disk = SimDisk::new(1);
    let mut server = server(&disk, 256, SessionPolicy::default());
    make_accounts(&mut server);
    let (user, refused) = (stranger(9, 1), stranger(9, 2));
    let used = open(&mut server, NOW_S, user).unwrap();
    let packet = execute_packet(used, 1, &[operation(TRANSFER, 1, 2, 5)]);
    let first = server.ask_at(NOW_S, user, &packet).unwrap();
    assert_eq!(outcomes(&first), [(Code::Done, 999_995)]);
    // In a session whose packets are all refused, no operation was executed either.
    let other = open(&mut server, NOW_S, refused).unwrap();
    let mut taken = 0;
    for host in 0..400_u16 {
        let from = stranger(1 + (host / 200) as u8, (host % 200) as u8);
        taken += usize::from(open(&mut server, NOW_S, from).is_ok());
    }
    assert_eq!(taken, 192 - 3, "the limit of strangers");
    let later_s = NOW_S + UNUSED_S;
    let nowhere = [operation(TRANSFER, 77, 78, 1)];
    let reply = server.ask_at(later_s - 1, refused, &execute_packet(other, 1, &nowhere));
    assert_eq!(outcomes(&reply.unwrap()), [(Code::UnknownAccount, 0)]);
    assert_eq!(open(&mut server, later_s - 1, stranger(5, 1)), Err(BUSY));
    assert!(server.host.session_use(later_s - 1).refuses_strangers);
    assert!(!server.host.session_use(later_s).refuses_strangers);
    for host in 0..190 {
        assert!(
            open(&mut server, later_s, stranger(5, host)).is_ok(),
            "newcomer {host}"
        );
    }
    assert_eq!(open(&mut server, later_s, stranger(6, 1)), Err(BUSY));
    // Sessions that changed something remain; packets of closed sessions are not executed, also after a restart.
    let good = [operation(TRANSFER, 1, 2, 5)];
    let before = server.host.ledger().to_bytes();
    for takes_snapshot in [false, true] {
        assert_eq!(server.ask_at(later_s, user, &packet).unwrap(), first);
        for (sequence, operations) in [(1, &nowhere), (2, &good)] {
            let packet = execute_packet(other, sequence, operations);
            assert_eq!(server.ask_at(later_s, refused, &packet).unwrap()[5], NO_SESSION);
        }
        if takes_snapshot {
            server.host.snapshot().unwrap();
        }
        drop(server);
        disk.power_cut();
        server = self::server(&disk, 256, SessionPolicy::default());
        assert_eq!(server.host.ledger().to_bytes(), before);
    }
    // The order in which sessions are closed is restored, too.
    assert_eq!(open(&mut server, later_s, stranger(6, 1)), Err(BUSY));
    assert!(open(&mut server, later_s + UNUSED_S, stranger(6, 1)).is_ok());
    assert_eq!(server.ask_at(later_s + UNUSED_S, user, &packet).unwrap(), first);
    audit(&disk, *key().verifying_key()).unwrap();
}

/// The test reads the use of sessions once a second, as `/healthz` does: the warning comes before the refusals, and
/// stays.
#[test]
fn health_warns_before_strangers_are_refused_and_does_not_alternate() {
    let disk = SimDisk::new(1);
    let mut server = server(&disk, 256, SessionPolicy::default());
    let (mut steady, mut warned_at, mut newcomer) = (SteadyUse::default(), None, 0_u16);
    let mut from = || {
        newcomer += 1;
        stranger((newcomer / 200) as u8, (newcomer % 200) as u8)
    };
    while open(&mut server, NOW_S, from()).is_ok() {
        let used = steady.update(NOW_S, server.host.session_use(NOW_S));
        if used.is_nearly_used_up() {
            warned_at.get_or_insert(used.open);
        }
        assert_eq!(used.refuses_strangers, used.open == 192);
    }
    assert_eq!(warned_at, Some(154), "four fifths of 192");
    // All slots are taken again as soon as they are free, every ten seconds.
    let mut looks = Vec::new();
    for now_s in NOW_S..NOW_S + 100 {
        looks.push(server.host.session_use(now_s).refuses_strangers);
        assert!(
            steady
                .update(now_s, server.host.session_use(now_s))
                .refuses_strangers
        );
        while open(&mut server, now_s, from()).is_ok() {}
    }
    assert!(
        looks.contains(&true) && looks.contains(&false),
        "the result of single checks would alternate"
    );
    // After the overload ends, the report clears after a minute.
    let quiet_s = NOW_S + 100 + UNUSED_S;
    let report = |steady: &mut SteadyUse, now_s| steady.update(now_s, server.host.session_use(now_s));
    assert!(report(&mut steady, quiet_s).refuses_strangers);
    let used = report(&mut steady, quiet_s + 60);
    assert!(!used.refuses_strangers && !used.refuses_all && used.is_nearly_used_up());
}

#[test]
fn reserved_sessions_are_for_trusted_sources_and_networks_with_a_history() {
    let disk = SimDisk::new(1);
    let mut server = server(&disk, 16, policy());
    make_accounts(&mut server);
    // A source that has moved money for two days.
    let known = stranger(9, 1);
    let session = open(&mut server, NOW_S, known).unwrap();
    let move_one = [operation(TRANSFER, 1, 2, 1)];
    for (sequence, day) in [(1, 0), (2, 1), (3, 2)] {
        let packet = execute_packet(session, sequence, &move_one);
        assert_eq!(server.ask_at(NOW_S + day * DAY_S, known, &packet).unwrap()[5], 0);
    }
    let now_s = NOW_S + 2 * DAY_S;
    let refused = (0..100).find_map(|host| open(&mut server, now_s, stranger(1, host)).err());
    assert_eq!(refused, Some(BUSY));
    let used = server.host.session_use(now_s);
    let expected = SessionUse {
        most: 16,
        strangers_most: 12,
        open: 12,
        refuses_strangers: true,
        refuses_all: false,
    };
    assert_eq!(used, expected);
    // The history is restored from the journal, and from a snapshot.
    for takes_snapshot in [false, true] {
        if takes_snapshot {
            server.host.snapshot().unwrap();
        }
        drop(server);
        disk.power_cut();
        server = self::server(&disk, 16, policy());
        assert!(open(&mut server, now_s, known).is_ok());
        assert_eq!(open(&mut server, now_s, stranger(1, 200)), Err(BUSY));
    }
    assert!(open(&mut server, now_s, LOOPBACK).is_ok());
}

#[test]
fn an_idle_session_is_closed_when_its_slot_is_needed_and_never_executes_again() {
    let disk = SimDisk::new(1);
    let mut server = server(&disk, 16, policy());
    make_accounts(&mut server);
    let old = open(&mut server, NOW_S + 1, stranger(1, 1)).unwrap();
    let packet = execute_packet(old, 1, &[operation(TRANSFER, 1, 2, 5)]);
    let first = server.ask_at(NOW_S + 1, stranger(1, 1), &packet).unwrap();
    assert_eq!(outcomes(&first), [(Code::Done, 999_995)]);
    // Opens sessions and executes an operation in each, until the server grants no more.
    let open_used = |server: &mut Server, now_s, from| {
        let session = open(server, now_s, from)?;
        let packet = execute_packet(session, 1, &[operation(TRANSFER, 1, 2, 1)]);
        let reply = server.ask_at(now_s, from, &packet).unwrap();
        assert_eq!(outcomes(&reply)[0].0, Code::Done);
        Ok(session)
    };
    let fill = |server: &mut Server, now_s| {
        (2..200).find_map(|host| open_used(server, now_s, stranger(1, host)).err())
    };
    assert_eq!(fill(&mut server, NOW_S + 2), Some(BUSY));
    let almost_s = NOW_S + IDLE_S - 1;
    server.host.tick(almost_s);
    assert_eq!(open(&mut server, almost_s, stranger(3, 1)), Err(BUSY));
    assert_eq!(
        server.ask_at(almost_s, stranger(1, 1), &packet).unwrap(),
        first,
        "the repeated packet still gets its reply"
    );
    // First the oldest session is idle, then the second oldest; the server closes each of them for one newcomer.
    for (now_s, host) in [(NOW_S + IDLE_S, 2), (NOW_S + IDLE_S + 1, 3)] {
        server.host.tick(now_s);
        assert!(!server.host.session_use(now_s).refuses_strangers);
        assert!(open(&mut server, now_s, stranger(3, host)).is_ok());
        assert_eq!(open(&mut server, now_s, stranger(3, host + 10)), Err(BUSY));
    }
    let before = server.host.ledger().to_bytes();
    for _ in 0..2 {
        for sequence in [1, 2] {
            let packet = execute_packet(old, sequence, &[operation(TRANSFER, 1, 2, 5)]);
            let reply = server
                .ask_at(NOW_S + IDLE_S + 2, stranger(1, 1), &packet)
                .unwrap();
            assert_eq!(reply[5], NO_SESSION);
        }
        drop(server);
        disk.power_cut();
        server = self::server(&disk, 16, policy());
        assert_eq!(
            server.host.ledger().to_bytes(),
            before,
            "a replay closes the same sessions"
        );
    }
    assert_eq!(audit(&disk, *key().verifying_key()).unwrap().balances, 1_000_000);
}

#[test]
fn a_used_challenge_opens_no_session_even_after_its_session_was_closed() {
    let mut server = server(&SimDisk::new(1), 16, policy());
    let body = SessionBody::new_zeroed();
    let challenge = server.ask(&session_packet(TRANSFER_OP_OPEN, &body)).unwrap();
    let challenge = SessionBody::ref_from_bytes(&challenge[16..]).unwrap().challenge;
    let packet = session_packet(TRANSFER_OP_OPEN, &SessionBody { challenge, ..body });
    let granted = server.ask(&packet).unwrap();
    let granted = SessionBody::ref_from_bytes(&granted[16..]).unwrap();
    let close = SessionBody {
        token: granted.token,
        slot: granted.slot,
        ..body
    };
    assert_eq!(
        server.ask(&session_packet(TRANSFER_OP_CLOSE, &close)).unwrap()[5],
        0
    );
    assert_eq!(server.ask(&packet).unwrap()[5], Status::Unauthorised as u8);
    assert_eq!(server.host.ledger().session_count(), 0);
}

#[test]
fn refused_packets_cost_little_and_are_limited_by_source() {
    let disk = SimDisk::new(1);
    let mut server = server(&disk, 64, SessionPolicy::default());
    make_accounts(&mut server);
    let (attacker, other) = (stranger(1, 1), stranger(2, 1));
    let session = open(&mut server, NOW_S, attacker).unwrap();
    let others = open(&mut server, NOW_S, other).unwrap();
    let nowhere = [operation(TRANSFER, 77, 78, 1); 16];
    let before = server.host.journal_bytes();
    let mut sequence = 0;
    let last = loop {
        let packet = execute_packet(session, sequence + 1, &nowhere);
        let reply = server.ask_at(NOW_S, attacker, &packet).unwrap();
        if reply[5] == BUSY {
            break sequence;
        }
        assert_eq!(outcomes(&reply), [(Code::UnknownAccount, 0); 16]);
        sequence += 1;
        assert!(sequence < 2_000, "there is no limit");
    };
    assert_eq!(
        last,
        16 * 60,
        "the credit of a minute; opening the session is counted separately"
    );
    let bytes = server.host.journal_bytes() - before;
    assert!(bytes <= 96 * last, "{bytes} bytes for {last} packets");
    // A repeated packet gets its reply, and no other source is limited.
    let again = server
        .ask_at(NOW_S, attacker, &execute_packet(session, last, &nowhere))
        .unwrap();
    assert_eq!(outcomes(&again), [(Code::UnknownAccount, 0); 16]);
    let good = execute_packet(others, 1, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(
        outcomes(&server.ask_at(NOW_S, other, &good).unwrap()),
        [(Code::Done, 999_999)]
    );
    // Valid packets are executed, and the count of refusals is restored after a restart.
    drop(server);
    disk.power_cut();
    let mut server = self::server(&disk, 64, SessionPolicy::default());
    let after = server
        .ask_at(NOW_S + 1, attacker, &execute_packet(session, last, &nowhere))
        .unwrap();
    assert_eq!(after, again);
    let good = execute_packet(session, last + 1, &[operation(TRANSFER, 1, 2, 1)]);
    assert_eq!(
        outcomes(&server.ask_at(NOW_S + 1, attacker, &good).unwrap()),
        [(Code::Done, 999_998)]
    );
    assert_eq!(
        audit(&disk, *key().verifying_key()).unwrap().operations,
        4,
        "only executed operations are numbered"
    );
}

#[test]
fn packets_with_forged_sources_are_charged_to_the_opener_of_their_session() {
    let mut server = server(&SimDisk::new(1), 64, SessionPolicy::default());
    make_accounts(&mut server);
    let session = open(&mut server, NOW_S, stranger(1, 1)).unwrap();
    let mut sequence = 1;
    // The forged source addresses include a trusted one, but nothing proves that the packets come from it.
    let mut forged = (0..=255)
        .map(|network| stranger(network, 1))
        .chain([LOOPBACK])
        .cycle();
    loop {
        let packet = execute_packet(session, sequence, &[operation(TRANSFER, 77, 78, 1)]);
        if server.ask_at(NOW_S, forged.next().unwrap(), &packet).unwrap()[5] == BUSY {
            break;
        }
        sequence += 1;
        assert!(sequence < 2_000, "there is no limit");
    }
    let victim = open(&mut server, NOW_S, stranger(7, 1)).unwrap();
    let refused = execute_packet(victim, 1, &[operation(TRANSFER, 77, 78, 1)]);
    let reply = server.ask_at(NOW_S, stranger(7, 1), &refused).unwrap();
    assert_eq!(
        outcomes(&reply),
        [(Code::UnknownAccount, 0)],
        "nothing was charged to the named source"
    );
}

fn pending(number: u64, amount: u64) -> Operation {
    let mut operation = operation(TRANSFER, 1, 2, amount);
    operation.contract = PENDING.into();
    operation.uuid[..8].copy_from_slice(&number.to_be_bytes());
    operation
}

#[test]
fn pending_transfers_need_an_amount_and_their_number_is_limited() {
    let disk = SimDisk::new(1);
    let limits = Limits {
        pendings: 20,
        keys: 1 << 20,
        key_window_s: 3600,
        ..limits()
    };
    let mut server = start_in(&disk, 1, SEAL, limits, policy(), Vec::new()).unwrap();
    make_accounts(&mut server);
    let session = server.open();
    assert_eq!(
        server.execute(session, 1, &[pending(1, 0)]),
        [(Code::BadCommand, 0)]
    );
    let many: Vec<Operation> = (0..25).map(|number| pending(number, 1)).collect();
    let done = server.execute(session, 2, &many);
    assert!(done[..20].iter().all(|(code, _)| *code == Code::Done));
    assert_eq!(done[20..], [(Code::StoreFull, 0); 5]);
    drop(server);
    disk.power_cut();
    let mut server = start_in(&disk, 1, SEAL, limits, policy(), Vec::new()).unwrap();
    assert_eq!(server.host.ledger().pending_count(), 20);
    let mut void = pending(3, 0);
    void.contract = 3.into();
    let done = server.execute(session, 3, &[void, pending(30, 1), pending(31, 1)]);
    let codes: Vec<Code> = done.iter().map(|(code, _)| *code).collect();
    assert_eq!(
        codes,
        [Code::Done, Code::Done, Code::StoreFull],
        "the space of each ended pending transfer is used again"
    );
}

#[test]
fn large_packets_leave_room_for_large_packets_of_others() {
    let policy = SessionPolicy {
        large_results: 200,
        ..SessionPolicy::default()
    };
    let mut server = server(&SimDisk::new(1), 512, policy);
    make_accounts(&mut server);
    let large = [operation(TRANSFER, 1, 2, 1); 40];
    let ask = |server: &mut Server, from: Source, session, sequence, operations: &[Operation]| {
        server
            .ask_at(NOW_S, from, &execute_packet(session, sequence, operations))
            .unwrap()[5]
    };
    let own: Vec<_> = (0..2)
        .map(|_| open(&mut server, NOW_S, stranger(1, 1)).unwrap())
        .collect();
    assert_eq!(ask(&mut server, stranger(1, 1), own[0], 1, &large), 0);
    assert_eq!(ask(&mut server, stranger(1, 1), own[1], 1, &large), 0);
    assert_eq!(
        ask(&mut server, stranger(1, 1), own[0], 2, &large),
        0,
        "the packet replaces the previous one of its session"
    );
    let third = open(&mut server, NOW_S, stranger(1, 1)).unwrap();
    assert_eq!(ask(&mut server, stranger(1, 1), third, 1, &large), 0);
    let fourth = open(&mut server, NOW_S, stranger(1, 1)).unwrap();
    assert_eq!(
        ask(&mut server, stranger(1, 1), fourth, 1, &large),
        BUSY,
        "the packet needs more room than is left"
    );
    let mut more = stranger(2, 1);
    let other = open(&mut server, NOW_S, more).unwrap();
    assert_eq!(
        ask(&mut server, more, other, 1, &large),
        0,
        "a packet of another network finds room"
    );
    more = stranger(3, 1);
    let last = open(&mut server, NOW_S, more).unwrap();
    assert_eq!(
        ask(&mut server, more, last, 1, &[operation(TRANSFER, 1, 2, 1); 41]),
        BUSY
    );
    assert_eq!(
        ask(&mut server, more, last, 1, &large[..16]),
        0,
        "a small packet always finds room"
    );
    assert_eq!(ask(&mut server, stranger(2, 1), other, 2, &large[..1]), 0);
    assert_eq!(
        ask(&mut server, more, last, 2, &large),
        0,
        "freed room is used again"
    );
}

#[test]
fn the_checksum_depends_on_each_bit_and_on_the_order() {
    let words = |index: u64| (0..11_u64).map(move |word| index * 11 + word + 1);
    let packet = |bytes: &[u8]| -> Vec<Operation> {
        let operations = bytes.chunks_exact(size_of::<Operation>());
        operations
            .map(|bytes| Operation::read_from_bytes(bytes).unwrap())
            .collect()
    };
    // Small numbers, zeros, and all ones: no key of the checksum is among them.
    for pattern in [|word: u64| word, |_: u64| 0, |_: u64| u64::MAX] {
        let bytes: Vec<u8> = words(0)
            .chain(words(1))
            .flat_map(|word| pattern(word).to_le_bytes())
            .collect();
        let sum = native::sum(&packet(&bytes));
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(native::sum(&packet(&other)), sum, "bit {bit}");
        }
        for (first, second) in (0..22).flat_map(|first| (0..first).map(move |second| (first, second))) {
            let mut other = bytes.clone();
            other[8 * first] ^= 1;
            other[8 * second] ^= 1;
            assert_ne!(native::sum(&packet(&other)), sum, "words {first} and {second}");
        }
    }
    let bytes: Vec<u8> = words(0).chain(words(1)).flat_map(u64::to_le_bytes).collect();
    let mut swapped = packet(&bytes);
    swapped.reverse();
    assert_ne!(native::sum(&swapped), native::sum(&packet(&bytes)));
}
