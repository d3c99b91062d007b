//! A relay between the coprocessor and Lineside that loses, reorders and delays datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Relay {
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Counts {
    /// Number of datagrams that the relay loses out of 1,000.
    of_1000: AtomicU64,
    /// Number of datagrams that the relay has lost.
    lost: AtomicU64,
}

impl Relay {
    /// Starts a relay. The region server at `server` sends its notices to the address `as_lineside`; Lineside at
    /// `lineside` sends its requests to the address `as_server`.
    pub fn start(
        server: SocketAddr,
        as_lineside: SocketAddr,
        lineside: SocketAddr,
        as_server: SocketAddr,
    ) -> Self {
        let to_server = Arc::new(UdpSocket::bind(as_lineside).unwrap());
        let to_lineside = Arc::new(UdpSocket::bind(as_server).unwrap());
        let (counts, stop) = (Arc::new(Counts::default()), Arc::new(AtomicBool::new(false)));
        let ways = [
            (Arc::clone(&to_server), Arc::clone(&to_lineside), lineside),
            (to_lineside, to_server, server),
        ];
        let threads = ways.into_iter().zip([3, 5]).map(|((from, to, address), seed)| {
            let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
            from.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            std::thread::spawn(move || carry(&from, &to, address, seed, &counts, &stop))
        });
        Self {
            threads: threads.collect(),
            counts,
            stop,
        }
    }

    /// Makes the relay lose `of_1000` out of 1,000 datagrams.
    pub fn lose(&self, of_1000: u64) {
        self.counts.of_1000.store(of_1000, Relaxed);
    }

    /// Returns the number of datagrams that the relay has lost.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Relaxed)
    }

    /// Ends the relay. Returns the number of datagrams that it has lost.
    pub fn end(self) -> u64 {
        self.stop.store(true, Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.counts.lost.load(Relaxed)
    }
}

fn carry(
    from: &UdpSocket,
    to: &UdpSocket,
    address: SocketAddr,
    seed: u64,
    counts: &Counts,
    stop: &AtomicBool,
) {
    let mut state = seed;
    let mut held: Option<Vec<u8>> = None;
    let mut bytes = [0; 2048];
    while !stop.load(Relaxed) {
        let Ok(length) = from.recv(&mut bytes) else {
            continue;
        };
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let chance = (state >> 33) % 1000;
        if chance < counts.of_1000.load(Relaxed) {
            counts.lost.fetch_add(1, Relaxed);
            // A quarter of the lost datagrams is delivered late instead.
            held = chance
                .is_multiple_of(4)
                .then(|| bytes[..length].to_vec())
                .or(held);
            continue;
        }
        to.send_to(&bytes[..length], address).unwrap();
        if chance.is_multiple_of(16)
            && let Some(late) = held.take()
        {
            to.send_to(&late, address).unwrap();
        }
    }
}
