//! Admission of clients to one server. It limits the number of clients, in total and for each network, and the memory
//! of their lines and replies.

use lineside_util::network::network_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Divisor of the memory limit: the clients of one network may use the limit divided by this number.
const MEMORY_SHARE: usize = 4;

#[derive(Debug, Default)]
struct Source {
    clients: usize,
    memory: Arc<AtomicUsize>,
}

/// Counts clients and their memory.
#[derive(Debug)]
pub(crate) struct Gate {
    clients_max: usize,
    by_network_max: usize,
    memory_max: usize,
    memory: AtomicUsize,
    sources: Mutex<(usize, HashMap<IpAddr, Source>)>,
}

impl Gate {
    pub fn new(clients_max: usize, by_network_max: usize, memory_max: usize) -> Arc<Self> {
        Arc::new(Self {
            clients_max,
            by_network_max,
            memory_max,
            memory: AtomicUsize::new(0),
            sources: Mutex::default(),
        })
    }

    // A thread that panics while it holds the lock leaves valid data, because the map and the sum are consistent after
    // each statement. So a poisoned lock can be used.
    fn sources(&self) -> MutexGuard<'_, (usize, HashMap<IpAddr, Source>)> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a client. Returns `None` if a limit is reached. When the returned value is dropped, the client no longer
    /// counts. A connection of a reverse proxy (`is_proxy`) has many clients, so only the total limit applies to it.
    pub fn admit(self: &Arc<Self>, address: IpAddr, is_proxy: bool) -> Option<Admitted> {
        let network = network_of(address);
        let mut sources = self.sources();
        let (clients, sources) = &mut *sources;
        let network_clients = sources.get(&network).map_or(0, |source| source.clients);
        if *clients >= self.clients_max || (network_clients >= self.by_network_max && !is_proxy) {
            return None;
        }
        let source = sources.entry(network).or_default();
        source.clients += 1;
        *clients += 1;
        Some(Admitted {
            gate: Arc::clone(self),
            network,
            of_network: Arc::clone(&source.memory),
            memory: 0,
        })
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.sources().0
    }
}

/// Admission of one client, and the memory in bytes that the client uses.
#[derive(Debug)]
pub(crate) struct Admitted {
    gate: Arc<Gate>,
    network: IpAddr,
    of_network: Arc<AtomicUsize>,
    memory: usize,
}

impl Admitted {
    /// Sets the memory of the client to `bytes`. Returns false if this exceeds the limit for all clients or for the
    /// client's network.
    pub fn set_memory(&mut self, bytes: usize) -> bool {
        if bytes == self.memory {
            return true;
        }
        // The new value is added before the old one is subtracted, so the sum is never negative.
        let set = |sum: &AtomicUsize| {
            sum.fetch_add(bytes, Ordering::Relaxed);
            sum.fetch_sub(self.memory, Ordering::Relaxed) - self.memory
        };
        let (all, network) = (set(&self.gate.memory), set(&self.of_network));
        let has_grown = bytes > self.memory;
        self.memory = bytes;
        !has_grown || (all <= self.gate.memory_max && network <= self.gate.memory_max / MEMORY_SHARE)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.set_memory(0);
        let mut sources = self.gate.sources();
        sources.0 -= 1;
        if let Some(source) = sources.1.get_mut(&self.network) {
            source.clients -= 1;
            if source.clients == 0 {
                sources.1.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn clients_are_limited_in_total_and_by_network() {
        let gate = Gate::new(3, 2, 1000);
        let first = gate.admit(address("2001:db8::1"), false);
        let second = gate.admit(address("2001:db8::2"), false);
        assert!(first.is_some() && second.is_some());
        assert!(
            gate.admit(address("2001:db8::3"), false).is_none(),
            "one IPv6 network of 64 bits may have two clients"
        );
        let third = gate.admit(address("10.0.0.1"), false);
        assert!(third.is_some());
        assert!(
            gate.admit(address("10.0.0.2"), false).is_none(),
            "three clients in total are allowed"
        );
        drop(first);
        assert!(gate.admit(address("10.0.0.2"), false).is_some());
        let gate_of_two = Gate::new(2, 1, 1000);
        let proxied = [(); 3].map(|()| gate_of_two.admit(address("10.0.0.1"), true));
        assert_eq!(
            proxied.map(|admitted| admitted.is_some()),
            [true, true, false],
            "the total limit applies to a proxy too"
        );
        drop((second, third));
        assert_eq!(gate.clients(), 0);
        assert!(gate.sources().1.is_empty());
    }

    #[test]
    fn memory_is_limited_in_total_and_by_network() {
        let gate = Gate::new(9, 9, 1000);
        let mut clients: Vec<_> = (0..5)
            .map(|number| {
                gate.admit(address(&format!("10.0.0.{}", number / 2)), false)
                    .expect("room")
            })
            .collect();
        assert!(clients[0].set_memory(200));
        assert!(
            !clients[1].set_memory(51),
            "one network may use a quarter of the memory"
        );
        assert!(clients[1].set_memory(50));
        assert!(clients[0].set_memory(0));
        assert!(clients[1].set_memory(250));
        assert!(clients[2].set_memory(250) && clients[4].set_memory(250));
        clients.clear();
        assert_eq!(gate.memory.load(Ordering::Relaxed), 0);
    }
}
