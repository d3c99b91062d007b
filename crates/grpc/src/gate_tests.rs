use super::*;

fn gate(connections: usize, idle: Duration) -> Arc<Gate> {
    Gate::new(Limits {
        connections,
        idle,
        ..Limits::default()
    })
}

fn is_closed(admitted: &mut Admitted) -> bool {
    admitted.close.try_recv().is_ok()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn one_network_leaves_connections_for_others_and_untrusted_networks_leave_some_for_trusted_ones() {
    let gate = gate(80, Duration::MAX);
    let mut open = Vec::new();
    for host in 0..8 {
        let from = IpAddr::from([10, 0, 0, host]);
        open.extend(std::iter::from_fn(|| gate.connect(from)));
    }
    // Each of the first seven networks gets ten connections; an eighth of all connections is reserved for trusted
    // networks.
    assert_eq!(open.len(), 70);
    let full = gate.standing();
    assert_eq!(
        full.problems,
        [
            "new clients are refused: 70 of 80 connections are in use, and any free ones are for `trusted_sources`"
        ]
    );
    assert_eq!((full.connections, full.refused), (70, 8));
    let trusted: Vec<_> = std::iter::from_fn(|| gate.connect(address("127.0.0.1"))).collect();
    assert_eq!(trusted.len(), 10);
    open.pop();
    drop(trusted);
    assert!(gate.connect(address("10.0.0.9")).is_some());
    let near = gate.standing();
    assert!(near.problems.is_empty());
    assert_eq!(near.warnings, ["69 of 80 connections are in use"]);
}

#[test]
fn a_network_of_64_bits_counts_as_one() {
    let gate = gate(16, Duration::MAX);
    let _first = gate.connect(address("2001:db8::1")).unwrap();
    let _second = gate.connect(address("2001:db8::ffff:2")).unwrap();
    assert!(gate.connect(address("2001:db8:0:0:a::3")).is_none());
    assert!(gate.connect(address("2001:db8:0:1::1")).is_some());
    // An IPv4 address that is mapped into IPv6 counts as the IPv4 address.
    let _mapped = gate.connect(address("::ffff:10.0.0.1")).unwrap();
    let _plain = gate.connect(address("10.0.0.1")).unwrap();
    assert!(gate.connect(address("10.0.0.1")).is_none());
    assert!(gate.connect(address("::ffff:127.0.0.1")).is_some());
}

#[test]
fn an_idle_connection_is_closed_for_another() {
    let gate = gate(16, Duration::ZERO);
    let mut own: Vec<_> = (0..2)
        .map(|_| gate.connect(address("10.0.0.1")).unwrap())
        .collect();
    own[0].connection.calls.store(1, Ordering::Release);
    let third = gate.connect(address("10.0.0.1")).unwrap();
    assert!(!is_closed(&mut own[0]) && is_closed(&mut own[1]));
    // When a connection that was closed in favour of another one ends, it releases nothing, because its place is in
    // use.
    own.pop();
    assert_eq!(gate.standing().connections, 2);
    third.connection.calls.store(1, Ordering::Release);
    assert!(
        gate.connect(address("10.0.0.1")).is_none(),
        "both connections have a call"
    );
    // A connection whose client does not read its answer counts as idle, although a call is in progress.
    third.connection.unread.store(1, Ordering::Release);
    assert!(gate.connect(address("10.0.0.1")).is_some());
}

#[test]
fn connections_of_untrusted_networks_do_not_replace_those_of_trusted_ones() {
    let gate = gate(8, Duration::ZERO);
    let mut trusted: Vec<_> = (0..8)
        .map(|_| gate.connect(address("127.0.0.1")).unwrap())
        .collect();
    assert!(gate.connect(address("10.0.0.1")).is_none());
    assert!(!gate.standing().problems.is_empty());
    assert!(!trusted.iter_mut().any(is_closed));
    trusted.pop();
    let mut stranger = gate.connect(address("10.0.0.1")).unwrap();
    let _more = gate.connect(address("127.0.0.1")).unwrap();
    assert!(is_closed(&mut stranger) && !trusted.iter_mut().any(is_closed));
    assert!(
        !gate.standing().problems.is_empty(),
        "only trusted connections are left"
    );
}

#[test]
fn the_longest_idle_connection_of_the_network_with_the_most_is_closed_first() {
    let gate = gate(16, Duration::ZERO);
    let mut open: Vec<_> = (1..=14)
        .map(|number| gate.connect(IpAddr::from([10, 0, 0, 1 + number / 2])).unwrap())
        .collect();
    // The first and the last address have one connection each, and each of the others has two.
    for (used_ms, admitted) in (0..).zip(&open) {
        admitted.connection.used_ms.store(used_ms, Ordering::Release);
    }
    let _new = gate.connect(address("10.0.9.9")).unwrap();
    let closed: Vec<_> = (0..14).filter(|at| is_closed(&mut open[*at])).collect();
    assert_eq!(closed, [1]);
}
