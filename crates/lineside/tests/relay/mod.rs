//! A relay of datagrams between one client and a server that loses, repeats, reorders and forges datagrams.

use lineside_testkit::Random;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// Counts of what the relay has done.
#[derive(Debug, Default)]
pub struct Counts {
    pub lost: AtomicU64,
    pub repeated: AtomicU64,
    pub reordered: AtomicU64,
    pub forged: AtomicU64,
    pub swallowed: AtomicU64,
}

/// Running relay; ends when dropped.
pub struct Relay {
    pub address: SocketAddr,
    pub counts: Arc<Counts>,
    /// While true, requests reach the server, and no reply reaches the client.
    pub swallows: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay to `server`. Its decisions follow from `seed`.
    pub fn start(server: SocketAddr, seed: u64) -> Self {
        let inner = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = inner.local_addr().unwrap();
        let (counts, swallows, stop) = (
            Arc::<Counts>::default(),
            Arc::<AtomicBool>::default(),
            Arc::<AtomicBool>::default(),
        );
        let mut way = Way {
            inner,
            outer: UdpSocket::bind("127.0.0.1:0").unwrap(),
            random: Random(seed),
            counts: Arc::clone(&counts),
            swallows: Arc::clone(&swallows),
        };
        way.outer.connect(server).unwrap();
        let ends = Arc::clone(&stop);
        let thread = Some(std::thread::spawn(move || way.run(&ends)));
        Self {
            address,
            counts,
            swallows,
            stop,
            thread,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Way {
    /// Socket towards the client.
    inner: UdpSocket,
    /// Socket towards the server.
    outer: UdpSocket,
    random: Random,
    counts: Arc<Counts>,
    swallows: Arc<AtomicBool>,
}

impl Way {
    fn run(&mut self, ends: &AtomicBool) {
        let wait = Some(Duration::from_millis(1));
        self.inner.set_read_timeout(wait).unwrap();
        self.outer.set_read_timeout(wait).unwrap();
        let (mut bytes, mut client) = ([0; 2048], None);
        let (mut late_request, mut late_reply) = (None, None);
        while !ends.load(Relaxed) {
            if let Ok((length, from)) = self.inner.recv_from(&mut bytes) {
                client = Some(from);
                for request in self.pass(&bytes[..length], &mut late_request) {
                    // The server may be gone; the client then repeats its request.
                    let _ = self.outer.send(&request);
                }
            }
            let (Ok(length), Some(client)) = (self.outer.recv(&mut bytes), client) else {
                continue;
            };
            if self.swallows.load(Relaxed) {
                self.counts.swallowed.fetch_add(1, Relaxed);
                continue;
            }
            self.forge(&bytes[..length], client);
            for reply in self.pass(&bytes[..length], &mut late_reply) {
                self.inner.send_to(&reply, client).unwrap();
            }
        }
    }

    /// Returns the datagrams to send now: none, one or two. `late` is a datagram that was held back before.
    fn pass(&mut self, datagram: &[u8], late: &mut Option<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        match self.random.below(10) {
            0 | 1 => _ = self.counts.lost.fetch_add(1, Relaxed),
            2 | 3 => {
                self.counts.repeated.fetch_add(1, Relaxed);
                sent.extend([datagram.to_vec(), datagram.to_vec()]);
            }
            4 | 5 if late.is_none() => *late = Some(datagram.to_vec()),
            _ => sent.push(datagram.to_vec()),
        }
        if !sent.is_empty()
            && let Some(held) = late.take()
        {
            // The held datagram arrives after one that was sent later.
            self.counts.reordered.fetch_add(1, Relaxed);
            sent.push(held);
        }
        sent
    }

    /// Sends the client wrong replies: with another id, with another operation, shortened, and of another protocol.
    /// Each of them claims another result, so a client that believes one returns a wrong value.
    fn forge(&mut self, reply: &[u8], client: SocketAddr) {
        let mut wrong = vec![Vec::new(), b"junk".to_vec(), reply[..reply.len() - 1].to_vec()];
        // Bytes of the native header: 0 belongs to the magic, 3 is the operation, and 8 is the highest of the
        // request's id.
        for place in [0, 3, 8] {
            let mut forged = reply.to_vec();
            forged[place] ^= 1;
            // The result: a status, or a value at the end.
            forged[5] ^= 1;
            let last = forged.len() - 1;
            forged[last] ^= 0xff;
            wrong.push(forged);
        }
        for forged in wrong {
            self.counts.forged.fetch_add(1, Relaxed);
            self.inner.send_to(&forged, client).unwrap();
        }
    }
}
