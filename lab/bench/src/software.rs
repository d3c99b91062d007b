//! The paper's software, which a fast path is compared with: one thread receives a TXID, looks it up in a tree and
//! sends the Merkle root. The module also measures the round-trip times of one client, in the same way for every
//! server.

use lineside_spv::store::Hash;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time after which the client of [`round_trips`] sends an unanswered request again.
const RESEND_AFTER: Duration = Duration::from_millis(500);
/// Maximum number of times that the client sends a request.
const SENDS_MAX: usize = 10;

/// Server in the paper's format; it stops when this value is dropped.
pub struct Software {
    local: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Software {
    /// Serves `index`, a map from TXID to Merkle root in wire byte order, at `listen`.
    ///
    /// # Errors
    /// Fails if the address cannot be bound, or if the thread cannot be started.
    pub fn start(listen: SocketAddr, index: BTreeMap<Hash, Hash>) -> io::Result<Self> {
        let socket = UdpSocket::bind(listen)?;
        let local = socket.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("software".into());
        let thread = thread.spawn(move || serve(&socket, &index, &stopped))?;
        Ok(Self {
            local,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Software {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // The thread blocks without a time-out, because a time-out would add a cost to every packet. An empty datagram
        // wakes the thread.
        let woken = open(self.local).and_then(|socket| socket.send(&[]));
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            // If the thread has panicked, the panic was already reported.
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, index: &BTreeMap<Hash, Hash>, stop: &AtomicBool) {
    // The buffer has one byte more than a request, so that the server detects a longer datagram.
    let mut request = [0; size_of::<Hash>() + 1];
    while !stop.load(Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut request) else {
            continue;
        };
        let Ok(txid) = <&Hash>::try_from(&request[..bytes]) else {
            continue;
        };
        let root = index.get(txid).copied().unwrap_or_default();
        // A reply that cannot be sent is lost, like any datagram.
        let _ = socket.send_to(&root, from);
    }
}

/// Result of a client that sends one request at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// Round-trip times from before the request is sent until the reply arrives, one for each right answer.
    pub taken: Vec<Duration>,
    /// Number of answers with another root than the expected one.
    pub wrong: u64,
    /// Number of requests that got no answer in time; the client sent them again.
    pub lost: u64,
}

impl RoundTrips {
    /// Returns the median round-trip time; `None` if there are no answers.
    pub fn median(&self) -> Option<Duration> {
        let mut taken = self.taken.clone();
        let middle = taken.len().checked_sub(1)? / 2;
        Some(*taken.select_nth_unstable(middle).1)
    }

    /// Adds the result of another run.
    pub fn add(&mut self, other: Self) {
        self.taken.extend(other.taken);
        self.wrong += other.wrong;
        self.lost += other.lost;
    }
}

/// Sends each TXID of `questions` to `server` in the paper's format, and compares the answer with the root of the same
/// pair.
///
/// # Errors
/// `TimedOut` if a request was never answered, and other errors of the operating system.
pub fn round_trips(server: SocketAddr, questions: &[(Hash, Hash)]) -> io::Result<RoundTrips> {
    let socket = open(server)?;
    socket.set_read_timeout(Some(RESEND_AFTER))?;
    let mut seen = RoundTrips::default();
    let mut reply = [0; size_of::<Hash>() + 1];
    for (txid, root) in questions {
        let mut tries = SENDS_MAX;
        let taken = loop {
            let begun = Instant::now();
            socket.send(txid)?;
            match socket.recv(&mut reply) {
                Ok(bytes) => break (reply[..bytes] == *root).then(|| begun.elapsed()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    seen.lost += 1;
                    tries -= 1;
                    if tries == 0 {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        };
        match taken {
            Some(taken) => seen.taken.push(taken),
            None => seen.wrong += 1,
        }
    }
    Ok(seen)
}

fn open(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_baseline_answers_known_transactions_and_zeros_for_others() {
        let index = BTreeMap::from([([1; 32], [2; 32]), ([3; 32], [4; 32])]);
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let server = match Software::start(listen.parse().unwrap(), index.clone()) {
                Err(error) if listen.starts_with('[') => {
                    // `eprintln!` is not suitable here: libtest captures its output and shows it only if the test
                    // fails.
                    let name = "the_baseline_answers_known_transactions_and_zeros_for_others";
                    let _ = writeln!(io::stderr(), "skipped: {name}: IPv6 is not available ({error})");
                    continue;
                }
                started => started.unwrap(),
            };
            // Datagrams of another length get no answer, and the server continues.
            let socket = open(server.local_addr()).unwrap();
            for bytes in [0, 31, 33, 1400] {
                socket.send(&vec![7; bytes]).unwrap();
            }
            let questions = [
                ([1; 32], [2; 32]),
                ([9; 32], [0; 32]),
                ([3; 32], [4; 32]),
                ([3; 32], [5; 32]),
            ];
            let seen = round_trips(server.local_addr(), &questions).unwrap();
            assert_eq!((seen.taken.len(), seen.wrong, seen.lost), (3, 1, 0));
        }
    }

    #[test]
    fn the_median_is_the_middle_of_the_sorted_values() {
        let of = |micros: &[u64]| {
            let taken = micros.iter().copied().map(Duration::from_micros).collect();
            let seen = RoundTrips {
                taken,
                wrong: 0,
                lost: 0,
            };
            seen.median().map(|median| median.as_micros())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7]), Some(7));
        assert_eq!(of(&[9, 1, 5]), Some(5));
        assert_eq!(of(&[9, 1, 5, 4]), Some(4));
    }
}
