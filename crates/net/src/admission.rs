//! Admission of TCP connections: shares a fixed number of connections fairly among client networks.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum number of open connections.
pub(super) const CONNECTIONS_MAX: usize = 512;
/// Maximum number of open connections of one client network.
const CONNECTIONS_PER_NETWORK_MAX: usize = 128;
/// Time without a request after which a connection counts as idle. When the maximum is open, a new connection may
/// replace an idle one.
const IDLE_REPLACEABLE_AFTER: Duration = Duration::from_secs(60);

/// An open connection, as the admission decision needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenConnection<T> {
    /// Value that identifies the connection.
    pub token: T,
    /// Network of the client, as returned by `lineside_util::network::network_of`.
    pub network: IpAddr,
    /// Time of the last request, or of the connection's start.
    pub last_used: Instant,
}

/// Decision about a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission<T> {
    /// Accepted: fewer connections than the maximum are open.
    Free,
    /// Accepted: the new connection replaces this one, which the caller closes.
    Replace(T),
    /// Refused: the client's own network has reached the limit of one network.
    NetworkLimit,
    /// Refused: the maximum number of connections is open, the client's network has at least one of them, and no other
    /// network has at least two more than it. A client from a network without any connection may still be accepted, so
    /// this does not mean that new clients are refused.
    FairShareReached,
    /// Refused: the maximum number of connections is open, the client's network has no connection, and no other network
    /// has several.
    Full,
}

/// Decides about a new connection from `network`. When the maximum number is open, the new connection replaces the
/// least recently used connection of the network with the most connections, if that network has at least two more than
/// `network`. Otherwise it replaces the least recently used connection of all, if that one is idle. A client from a
/// network without any connection is therefore accepted while some other network has several connections.
pub(super) fn admit<T: Copy>(
    connections: &[OpenConnection<T>],
    network: IpAddr,
    now: Instant,
) -> Admission<T> {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for one in connections {
        *counts.entry(one.network).or_default() += 1;
    }
    let own = counts.get(&network).copied().unwrap_or(0);
    if own >= CONNECTIONS_PER_NETWORK_MAX {
        return Admission::NetworkLimit;
    }
    if connections.len() < CONNECTIONS_MAX {
        return Admission::Free;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let crowd = most
        .filter(|(_, count)| **count > own + 1)
        .map(|(network, _)| *network);
    let oldest = |among: &dyn Fn(&OpenConnection<T>) -> bool| {
        connections
            .iter()
            .filter(|one| among(one))
            .min_by_key(|one| one.last_used)
            .map(|one| one.token)
    };
    let victim = match crowd {
        Some(crowd) => oldest(&|one| one.network == crowd),
        None => oldest(&|one| now.saturating_duration_since(one.last_used) >= IDLE_REPLACEABLE_AFTER),
    };
    match victim {
        Some(token) => Admission::Replace(token),
        None if own > 0 => Admission::FairShareReached,
        None => Admission::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Returns connections of clients 10.0.0.1, 10.0.0.2, …: `counts[i]` connections of client i, each used one second
    /// after the one before.
    fn connections(counts: &[usize], begin: Instant) -> Vec<OpenConnection<usize>> {
        let clients = counts.iter().enumerate();
        let networks = clients.flat_map(|(client, count)| {
            std::iter::repeat_n(
                network(&format!("10.0.{}.{}", client / 250, client % 250 + 1)),
                *count,
            )
        });
        let one = |(token, network)| OpenConnection {
            token,
            network,
            last_used: begin + Duration::from_millis(token as u64),
        };
        networks.enumerate().map(one).collect()
    }

    #[test]
    fn a_new_client_replaces_a_connection_of_the_network_with_the_most() {
        let now = Instant::now();
        let newcomer = network("192.0.2.1");
        assert_eq!(
            admit(&connections(&[127, 128, 128, 128], now), newcomer, now),
            Admission::Free
        );
        let crowd = connections(&[128, 127, 128, 129], now);
        assert_eq!(admit(&crowd, newcomer, now), Admission::Replace(128 + 127 + 128));
        assert_eq!(admit(&crowd, network("10.0.0.1"), now), Admission::NetworkLimit);
        let pairs = connections(&[2; CONNECTIONS_MAX / 2], now);
        assert!(matches!(admit(&pairs, newcomer, now), Admission::Replace(_)));
    }

    #[test]
    fn a_network_with_no_more_connections_than_the_newcomer_loses_none() {
        let now = Instant::now();
        let all_different = connections(&[1; CONNECTIONS_MAX], now);
        let newcomer = network("192.0.2.1");
        assert_eq!(admit(&all_different, newcomer, now), Admission::Full);
        assert_eq!(
            admit(&all_different, newcomer, now + IDLE_REPLACEABLE_AFTER),
            Admission::Replace(0),
            "the oldest connection is idle"
        );
        let pairs = connections(&[2; CONNECTIONS_MAX / 2], now);
        assert_eq!(
            admit(&pairs, network("10.0.0.1"), now),
            Admission::FairShareReached
        );
    }

    /// Refusing an attacker with many addresses does not mean that a new client would be refused.
    #[test]
    fn full_is_returned_only_when_a_new_client_would_be_refused() {
        let (begin, clients) = (Instant::now(), 40);
        let address = |client: usize| network(&format!("10.0.0.{}", client + 1));
        let mut open: Vec<OpenConnection<usize>> = Vec::new();
        for attempt in 0..5_600 {
            let now = begin + Duration::from_millis(attempt as u64);
            let from = address(attempt % clients);
            match admit(&open, from, now) {
                Admission::Full => panic!("attempt {attempt}"),
                Admission::NetworkLimit | Admission::FairShareReached => continue,
                Admission::Free => {}
                Admission::Replace(token) => open.retain(|one| one.token != token),
            }
            open.push(OpenConnection {
                token: attempt,
                network: from,
                last_used: now,
            });
        }
        assert_eq!(open.len(), CONNECTIONS_MAX);
        let newcomer = admit(&open, network("192.0.2.1"), begin + Duration::from_secs(6));
        assert!(matches!(newcomer, Admission::Replace(_)), "{newcomer:?}");
    }
}
