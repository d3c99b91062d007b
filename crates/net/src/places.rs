//! Places for TCP connections, shared fairly among the addresses that clients have.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Connections at a time.
pub(super) const PLACES: usize = 512;
/// Connections of one client address at a time.
const PLACES_EACH: usize = 128;
/// Time without a request after which any connection may lose its place to a new one when all are taken.
const IDLE: Duration = Duration::from_secs(60);

/// Addresses that count as one client: an IPv4 address, or the /64 of an IPv6 address, which one host may have whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Prefix(IpAddr);

impl Prefix {
    /// Returns the prefix that `address` belongs to.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => Self(Ipv6Addr::from(u128::from(v6) >> 64 << 64).into()),
            v4 => Self(v4),
        }
    }
}

/// A connection that has a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<T> {
    /// Name of the connection.
    pub token: T,
    /// Prefix of its client.
    pub prefix: Prefix,
    /// Time of its last request, or of its beginning.
    pub used: Instant,
}

/// Decision about a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission<T> {
    /// A place is free.
    Free,
    /// It takes the place of this connection.
    Replace(T),
    /// Its own client has as many places as one client may have.
    OwnLimit,
    /// All places are taken, and none by a client that has more than others.
    Full,
}

/// Decides about a new connection of `prefix`. When all places are taken, it gets the place of the least recently used
/// connection of the prefix that has the most, if that one has at least two more than the newcomer's; else that of the
/// least recently used of all, if it is idle. So a client from a new address finds a place as long as others have
/// several, however many addresses they have.
pub(super) fn admit<T: Copy>(held: &[Held<T>], prefix: Prefix, now: Instant) -> Admission<T> {
    let mut counts: HashMap<Prefix, usize> = HashMap::new();
    for one in held {
        *counts.entry(one.prefix).or_default() += 1;
    }
    let own = counts.get(&prefix).copied().unwrap_or(0);
    if own >= PLACES_EACH {
        return Admission::OwnLimit;
    }
    if held.len() < PLACES {
        return Admission::Free;
    }
    let most = counts.iter().max_by_key(|(_, count)| **count);
    let crowd = most
        .filter(|(_, count)| **count > own + 1)
        .map(|(prefix, _)| *prefix);
    let oldest = |among: &dyn Fn(&Held<T>) -> bool| {
        held.iter()
            .filter(|one| among(one))
            .min_by_key(|one| one.used)
            .map(|one| one.token)
    };
    let victim = match crowd {
        Some(crowd) => oldest(&|one| one.prefix == crowd),
        None => oldest(&|one| now.saturating_duration_since(one.used) >= IDLE),
    };
    victim.map_or(Admission::Full, Admission::Replace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::of(text.parse().expect("an address"))
    }

    /// Connections of clients 10.0.0.1, 10.0.0.2, …, as many as each number says, used one second after another.
    fn held(counts: &[usize], begin: Instant) -> Vec<Held<usize>> {
        let clients = counts.iter().enumerate();
        let prefixes = clients.flat_map(|(client, count)| {
            std::iter::repeat_n(
                prefix(&format!("10.0.{}.{}", client / 250, client % 250 + 1)),
                *count,
            )
        });
        let one = |(token, prefix)| Held {
            token,
            prefix,
            used: begin + Duration::from_millis(token as u64),
        };
        prefixes.enumerate().map(one).collect()
    }

    #[test]
    fn addresses_of_one_host_are_one_client() {
        assert_eq!(prefix("fd00::1"), prefix("fd00::ffff:0:0:2"));
        assert_ne!(prefix("fd00::1"), prefix("fd00:0:0:1::1"));
        assert_ne!(prefix("10.0.0.1"), prefix("10.0.0.2"));
        assert_eq!(prefix("::ffff:10.0.0.1"), prefix("10.0.0.1"));
    }

    #[test]
    fn a_newcomer_replaces_one_of_the_client_with_the_most() {
        let now = Instant::now();
        let newcomer = prefix("192.0.2.1");
        assert_eq!(
            admit(&held(&[127, 128, 128, 128], now), newcomer, now),
            Admission::Free
        );
        let crowd = held(&[128, 127, 128, 129], now);
        assert_eq!(admit(&crowd, newcomer, now), Admission::Replace(128 + 127 + 128));
        assert_eq!(admit(&crowd, prefix("10.0.0.1"), now), Admission::OwnLimit);
        let pairs = held(&[2; PLACES / 2], now);
        assert!(matches!(admit(&pairs, newcomer, now), Admission::Replace(_)));
    }

    #[test]
    fn nobody_is_replaced_who_has_no_more_than_the_newcomer_would_have() {
        let now = Instant::now();
        let all_different = held(&[1; PLACES], now);
        let newcomer = prefix("192.0.2.1");
        assert_eq!(admit(&all_different, newcomer, now), Admission::Full);
        assert_eq!(
            admit(&all_different, newcomer, now + IDLE),
            Admission::Replace(0),
            "it is idle"
        );
        let pairs = held(&[2; PLACES / 2], now);
        assert_eq!(admit(&pairs, prefix("10.0.0.1"), now), Admission::Full);
    }
}
