use super::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IDLE_S: u64 = 3600;

fn from(address: impl Into<IpAddr>, port: u16) -> Source {
    Source {
        address: address.into(),
        port,
    }
}

fn sessions(count: usize) -> Sessions {
    let sessions = Sessions::new(history::BYTES + count * SESSION_BYTES, IDLE_S).unwrap();
    assert_eq!(sessions.limits.count, count);
    sessions
}

fn challenge(sessions: &Sessions, from: Source, now_s: u64) -> ColumnSession {
    let answer = sessions
        .open(from, false, 1, &ColumnSession::new_zeroed(), now_s)
        .unwrap();
    assert_eq!(answer.token.get(), 0);
    ColumnSession {
        challenge: answer.challenge,
        ..ColumnSession::new_zeroed()
    }
}

/// Opens a session for a client with a new challenge.
fn open(sessions: &Sessions, from: Source, is_trusted: bool, now_s: u64) -> Result<Arc<Session>, Status> {
    let asked = challenge(sessions, from, now_s);
    let granted = sessions.open(from, is_trusted, 2, &asked, now_s)?;
    Ok(sessions
        .find(granted.slot.get(), granted.token.get(), now_s)
        .unwrap())
}

/// Returns the address of one of an attacker's many networks.
fn stranger(number: u32) -> Source {
    from(Ipv4Addr::from(0x0a00_0000 + number), 1)
}

/// Opens sessions from new networks of an attacker, each of which changes the table, until no more are granted. Returns
/// the number of sessions.
fn use_up(sessions: &Sessions, now_s: u64) -> usize {
    let mut opened = 0;
    for number in 0..sessions.limits.count as u32 {
        while let Ok(session) = open(sessions, stranger(number), false, now_s) {
            sessions.changed(&session, now_s);
            opened += 1;
        }
    }
    opened
}

#[test]
fn a_challenge_is_valid_for_one_source_one_time_and_one_session() {
    let sessions = sessions(64);
    let client = from([10, 0, 0, 1], 1);
    let asked = challenge(&sessions, client, 100);
    let open = |from, id, now_s| sessions.open(from, false, id, &asked, now_s);
    assert_eq!(open(from([10, 0, 0, 1], 2), 2, 100), Err(Status::Unauthorised));
    assert_eq!(open(from([10, 0, 0, 2], 1), 2, 100), Err(Status::Unauthorised));
    assert_eq!(open(client, 2, 160), Err(Status::Unauthorised));
    let granted = open(client, 2, 110).unwrap();
    assert_eq!(open(client, 2, 111).unwrap(), granted, "a repeated request");
    for id in 3..1000 {
        assert_eq!(open(client, id, 111), Err(Status::Unauthorised));
    }
    assert_eq!(sessions.usage(111).open, 1);
    // Another client that uses the same address and port later gets a different challenge.
    let other = challenge(&sessions, client, 111);
    assert_ne!(other.challenge, asked.challenge);
    let other = sessions.open(client, false, 3, &other, 111).unwrap();
    assert_ne!((other.slot, other.token), (granted.slot, granted.token));
    let (slot, token) = (granted.slot.get(), granted.token.get());
    assert!(sessions.find(slot, token, 112).is_some());
    assert!(sessions.find(slot, token ^ 1, 112).is_none());
    assert!(sessions.find(slot + 1, token, 112).is_none());
}

/// Without shares, clients at 64 addresses could use up all sessions.
#[test]
fn sessions_are_reserved_for_known_and_trusted_clients_and_health_reports_refusals() {
    let sessions = sessions(1024);
    let known = from([192, 0, 2, 1], 1);
    let first = open(&sessions, known, false, 0).unwrap();
    sessions.changed(&first, 0);
    let mut now_s = 1000;
    let opened = use_up(&sessions, now_s);
    // The first session of the known client counts as a stranger's, because its network had no history when the session
    // was opened.
    assert_eq!(opened, 1024 / 2 - 1);
    let usage = sessions.usage(now_s);
    assert!(usage.is_refusing && usage.share_percent == 100, "{usage:?}");
    assert!(open(&sessions, known, false, now_s).is_ok());
    assert!(open(&sessions, from([127, 0, 0, 1], 1), true, now_s).is_ok());
    // A session that has changed something stays open until it was unused for the configured time.
    now_s += IDLE_S - 1;
    first.used_s.store(now_s, Relaxed);
    assert!(open(&sessions, from([192, 0, 2, 2], 1), false, now_s).is_err());
    now_s += 1;
    assert!(open(&sessions, from([192, 0, 2, 2], 1), false, now_s).is_ok());
    let usage = sessions.usage(now_s + REFUSED_S);
    assert!(!usage.is_refusing && usage.share_percent < 5, "{usage:?}");
}

#[test]
fn attackers_do_not_become_known_while_they_use_up_their_share() {
    let sessions = sessions(1024);
    assert_eq!(use_up(&sessions, 1000), 512);
    assert!(open(&sessions, stranger(0), false, 1001).is_err());
    // Even if attackers get a history, a quarter of the sessions is left for trusted sources.
    use_up(&sessions, 2000);
    assert!(sessions.usage(2000).open <= 768);
    let local = |port| open(&sessions, from([127, 0, 0, 1], port), true, 2001);
    assert!((0..256).all(|port| local(port).is_ok()));
    assert!(local(256).is_err());
}

#[test]
fn unused_sessions_are_closed_soon() {
    let sessions = sessions(256);
    let mut opened = 0;
    for number in 0..256 {
        while open(&sessions, stranger(number), false, 50).is_ok() {
            opened += 1;
        }
    }
    assert_eq!(opened, 128);
    let honest = from([192, 0, 2, 9], 7);
    assert!(open(&sessions, honest, false, 50 + UNUSED_S - 1).is_err());
    assert!(open(&sessions, honest, false, 50 + UNUSED_S).is_ok());
}

#[test]
fn one_network_has_few_sessions_and_an_ipv6_64_is_one_network() {
    let sessions = sessions(1024);
    let of = |host: u16, port| from(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, host, host, host, host), port);
    for host in 0..8 {
        open(&sessions, of(host, 1), false, 5).unwrap();
    }
    assert_eq!(open(&sessions, of(8, 1), false, 5).err(), Some(Status::Busy));
    assert!(
        !sessions.usage(5).is_refusing,
        "a network that has reached its own limit does not make the server unhealthy"
    );
    let elsewhere = from(Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1), 1);
    open(&sessions, elsewhere, false, 5).unwrap();
    assert_eq!(
        open(&sessions, of(8, 1), false, 4 + UNUSED_S).err(),
        Some(Status::Busy)
    );
    open(&sessions, of(8, 1), false, 5 + UNUSED_S).unwrap();
}

#[test]
fn a_closed_session_is_not_found_and_its_challenge_opens_no_other() {
    let sessions = sessions(8);
    let client = from([10, 0, 0, 1], 1);
    let asked = challenge(&sessions, client, 100);
    let granted = sessions.open(client, false, 2, &asked, 100).unwrap();
    for number in 1..8 {
        while open(&sessions, stranger(100 + number), false, 100).is_ok() {}
    }
    // Another client needs a session, and the first session was unused for long enough and has changed nothing.
    open(&sessions, from([192, 0, 2, 1], 1), false, 111).unwrap();
    assert!(
        sessions
            .find(granted.slot.get(), granted.token.get(), 111)
            .is_none()
    );
    assert_eq!(
        sessions.open(client, false, 2, &asked, 111),
        Err(Status::Unauthorised)
    );
}
