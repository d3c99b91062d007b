//! A network between the coprocessor and Lineside that loses, repeats and delays.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

pub struct Relay {
    lost: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Relay {
    /// The server at `server` knows `as_lineside` as subscriber; Lineside at `lineside` knows `as_server` as server.
    pub fn start(
        server: SocketAddr,
        as_lineside: SocketAddr,
        lineside: SocketAddr,
        as_server: SocketAddr,
    ) -> Self {
        let to_server = Arc::new(UdpSocket::bind(as_lineside).unwrap());
        let to_lineside = Arc::new(UdpSocket::bind(as_server).unwrap());
        let (lost, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let ways = [
            (Arc::clone(&to_server), Arc::clone(&to_lineside), lineside),
            (to_lineside, to_server, server),
        ];
        let threads = ways.into_iter().zip([3, 5]).map(|((from, to, address), seed)| {
            let (lost, stop) = (Arc::clone(&lost), Arc::clone(&stop));
            from.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            std::thread::spawn(move || carry(&from, &to, address, seed, &lost, &stop))
        });
        Self {
            threads: threads.collect(),
            lost,
            stop,
        }
    }

    /// Of 1000 datagrams so many are lost from now on.
    pub fn lose(&self, of_1000: u64) {
        self.lost.store(of_1000, Relaxed);
    }

    /// Ends it; how many were lost.
    pub fn end(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    }
}

fn carry(
    from: &UdpSocket,
    to: &UdpSocket,
    address: SocketAddr,
    seed: u64,
    lost: &AtomicU64,
    stop: &AtomicBool,
) -> u64 {
    let (mut state, mut count) = (seed, 0);
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
        if chance < lost.load(Relaxed) {
            count += 1;
            // Some of them come late.
            held = (chance % 4 == 0).then(|| bytes[..length].to_vec()).or(held);
            continue;
        }
        to.send_to(&bytes[..length], address).unwrap();
        if chance % 16 == 0
            && let Some(late) = held.take()
        {
            to.send_to(&late, address).unwrap();
        }
    }
    count
}
