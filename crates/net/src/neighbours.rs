//! Detects neighbours that do not resolve: addresses on the link for which the kernel has no link-layer address.
//!
//! While the kernel asks for the link-layer address of such a neighbour, it queues datagrams to it: up to 212,992 bytes
//! for each neighbour (`unres_qlen_bytes`), for three seconds. They count against the send buffer of the socket that
//! sent them. An attacker on the link who sends requests from addresses that no machine has could so fill the send
//! buffer, and then no client would get a reply. Therefore, while much is queued, a thread reads the kernel's neighbour
//! table, and no replies are sent to neighbours that do not resolve. Real clients are not affected: a client asks for
//! this machine's link-layer address before it sends its request, and the kernel learns the client's address from that
//! question.

use super::{Shared, batch};
use lineside_netlink::Netlink;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Interval at which the thread checks how many bytes are queued on the sockets.
const QUEUE_CHECK_INTERVAL: Duration = Duration::from_millis(25);
/// Number of bytes queued on one socket above which the neighbour table is read. It is less than a third of what one
/// unresolved neighbour can hold, and more than is queued on a link that is not overloaded.
const QUEUED_BYTES_LIMIT: usize = 64 << 10;
/// Time after which the neighbour table is no longer read if no socket had more than [`QUEUED_BYTES_LIMIT`] queued.
const WATCH_END_DELAY: Duration = Duration::from_secs(10);

/// Addresses to which no reply is sent at the moment. Usually empty.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    /// False while the set is empty, so that senders then need no lock.
    is_any: AtomicBool,
    addresses: RwLock<HashSet<IpAddr>>,
}

impl Unresolved {
    /// Returns true if replies to at least one address are withheld at the moment.
    pub fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// Returns true if replies to `address` are withheld at the moment.
    pub fn contains(&self, address: IpAddr) -> bool {
        let addresses = self.addresses.read().unwrap_or_else(PoisonError::into_inner);
        addresses.contains(&address.to_canonical())
    }

    /// Replaces the set of addresses to which no reply is sent.
    pub fn set(&self, addresses: HashSet<IpAddr>) {
        let is_any = !addresses.is_empty();
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = addresses;
        self.is_any.store(is_any, Relaxed);
    }
}

/// Updates the set of addresses to which no reply is sent. While much is queued on one of `sockets`, and for
/// [`WATCH_END_DELAY`] after that, the function reads the kernel's neighbour table. It returns when the datapath stops.
/// If a netlink socket cannot be opened, it returns at once; datagrams to unresolved neighbours may then fill the send
/// buffers.
pub(super) fn watch(sockets: &[Arc<UdpSocket>], shared: &Shared) {
    let Ok(netlink) = Netlink::open() else {
        return;
    };
    let mut full: Option<Instant> = None;
    while !shared.stop.load(Relaxed) {
        std::thread::park_timeout(QUEUE_CHECK_INTERVAL);
        if sockets
            .iter()
            .any(|socket| batch::queued_bytes(socket) > QUEUED_BYTES_LIMIT)
        {
            full = Some(Instant::now());
        }
        if full.is_some_and(|full| full.elapsed() > WATCH_END_DELAY) {
            full = None;
            shared.unresolved.set(HashSet::new());
        }
        // If the table cannot be read now, the next tick tries again.
        if full.is_some()
            && let Ok(unresolved) = unresolved(&netlink)
        {
            shared.unresolved.set(unresolved);
        }
    }
}

/// Returns the addresses for which no interface has a link-layer address, although at least one interface tried to
/// resolve them.
///
/// # Errors
/// See [`Netlink::list`].
pub(super) fn unresolved(netlink: &Netlink) -> io::Result<HashSet<IpAddr>> {
    let request = RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default());
    let (mut unresolved, mut resolved) = (HashSet::new(), HashSet::new());
    for entry in netlink.list(request)? {
        if let RouteNetlinkMessage::NewNeighbour(entry) = entry
            && let Some((address, is_resolved)) = entry_of(&entry)
        {
            let set = if is_resolved {
                &mut resolved
            } else {
                &mut unresolved
            };
            set.insert(address);
        }
    }
    Ok(&unresolved - &resolved)
}

/// Returns the IP address of a neighbour entry, and true if the link-layer address of the neighbour is known.
fn entry_of(entry: &NeighbourMessage) -> Option<(IpAddr, bool)> {
    let address = entry.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => Some(IpAddr::from(*v4)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => Some(IpAddr::from(*v6)),
        _ => None,
    })?;
    let state = entry.header.state;
    Some((
        address,
        !matches!(state, NeighbourState::Incomplete | NeighbourState::Failed),
    ))
}
