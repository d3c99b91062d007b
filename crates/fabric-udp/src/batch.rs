//! Batches of datagrams: receives a batch with one recvmmsg call, sends a batch with one sendmmsg call, and waits for
//! datagrams with a finer resolution than a socket's time-out. This is the only `unsafe` code of the block protocol.

use socket2::{SockAddr, SockAddrStorage};
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Maximum number of datagrams in a batch.
pub(super) const BATCH: usize = 64;
/// Size of the buffer for one datagram, in bytes. The payload of a jumbo frame fits. The size is not a power of two, so
/// that the buffers do not compete for the same sets of the CPU cache.
const DATAGRAM_BYTES_MAX: usize = 9_216 + 64;

/// Returns true for temporary errors. The caller treats the datagram as lost and continues.
pub(super) fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    let kinds = [
        ConnectionRefused,
        HostUnreachable,
        Interrupted,
        NetworkUnreachable,
        TimedOut,
        WouldBlock,
    ];
    // ENOBUFS means that the queue of the network interface is full.
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn header(vector: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: `mmsghdr` is a C struct of integers and raw pointers, for which zero bytes are a valid value.
    let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// Datagrams that were received together.
pub(super) struct ReceivedDatagrams {
    bytes: Vec<u8>,
    names: Vec<SockAddr>,
    /// Length of each datagram; 0 for one that was truncated.
    lengths: Vec<usize>,
}

impl Default for ReceivedDatagrams {
    fn default() -> Self {
        Self {
            bytes: vec![0; BATCH * DATAGRAM_BYTES_MAX],
            names: Vec::with_capacity(BATCH),
            lengths: Vec::with_capacity(BATCH),
        }
    }
}

impl ReceivedDatagrams {
    /// Waits at most `wait` for the first datagram, and then receives all available datagrams, up to a batch.
    pub fn receive(&mut self, socket: &UdpSocket, wait: Duration) -> io::Result<()> {
        self.lengths.clear();
        self.names.clear();
        if !wait.is_zero() && !ready(socket, wait)? {
            return Ok(());
        }
        let mut storage: [SockAddrStorage; BATCH] = std::array::from_fn(|_| SockAddrStorage::zeroed());
        let mut chunks = self.bytes.chunks_exact_mut(DATAGRAM_BYTES_MAX);
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|_| {
            let chunk = chunks.next().unwrap_or_default();
            libc::iovec {
                iov_base: chunk.as_mut_ptr().cast(),
                iov_len: chunk.len(),
            }
        });
        let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|at| {
            let mut header = header(&mut vectors[at]);
            header.msg_hdr.msg_name = std::ptr::from_mut(&mut storage[at]).cast();
            header.msg_hdr.msg_namelen = storage[at].size_of();
            header
        });
        // SAFETY: `headers` has `BATCH` entries. Each entry points to one element of `vectors` and of `storage`, which
        // live until after the call, and each vector points to its own chunk of `self.bytes`.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            return if is_temporary(&error) { Ok(()) } else { Err(error) };
        };
        for (header, storage) in headers.iter().zip(storage).take(count) {
            let is_whole = header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            self.lengths
                .push(if is_whole { header.msg_len as usize } else { 0 });
            // SAFETY: recvmmsg returned at least this many messages, so the kernel has written an address of
            // `msg_namelen` bytes to `storage`.
            self.names
                .push(unsafe { SockAddr::new(storage, header.msg_hdr.msg_namelen) });
        }
        Ok(())
    }

    /// Returns the source and payload of each datagram.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        let payloads = self.bytes.chunks_exact(DATAGRAM_BYTES_MAX).zip(&self.lengths);
        let payloads = payloads.map(|(bytes, &length)| bytes.get(..length).unwrap_or_default());
        let names = self.names.iter();
        names
            .zip(payloads)
            .filter_map(|(name, payload)| Some((name.as_socket()?, payload)))
    }
}

/// Datagrams that are sent together.
#[derive(Default)]
pub(super) struct Outgoing {
    payloads: Vec<Vec<u8>>,
    count: usize,
}

impl Outgoing {
    /// Calls `fill` to write the next datagram, unless the batch is full. Returns true if `fill` has written one.
    pub fn put(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        if self.count == BATCH {
            return false;
        }
        if self.payloads.len() == self.count {
            self.payloads.push(Vec::new());
        }
        let wrote = fill(&mut self.payloads[self.count]);
        self.count += usize::from(wrote);
        wrote
    }

    /// Sends the datagrams to the peer to which the socket is connected, and waits while the socket's send buffer is
    /// full. Datagrams that cannot be sent are lost.
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let payloads = self.payloads.get(..self.count).unwrap_or_default();
        let mut vectors: Vec<libc::iovec> = payloads
            .iter()
            .map(|payload| libc::iovec {
                iov_base: payload.as_ptr().cast_mut().cast(),
                iov_len: payload.len(),
            })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = vectors.iter_mut().map(header).collect();
        self.count = 0;
        let mut done = 0;
        while let Some(rest) = headers.get_mut(done..).filter(|rest| !rest.is_empty()) {
            // SAFETY: `rest` has `rest.len()` headers. Each header points to a vector, and each vector to a payload;
            // all of them live until after the call, which only reads the payloads.
            let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), rest.as_mut_ptr(), rest.len() as u32, 0) };
            match usize::try_from(sent) {
                Ok(sent) => done += sent.max(1),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if !is_temporary(&error) {
                        return Err(error);
                    }
                    // The error belongs to the first datagram of `rest`, for example because no process listens on the
                    // port. This datagram is skipped.
                    done += 1;
                }
            }
        }
        Ok(())
    }
}

/// Waits for a datagram. Returns true if one is available.
fn ready(socket: &UdpSocket, wait: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let wait = libc::timespec {
        tv_sec: wait.as_secs() as libc::time_t,
        tv_nsec: wait.subsec_nanos().into(),
    };
    // SAFETY: `poll` is one valid descriptor entry, as the count 1 says, `wait` is a valid time, and the null pointer
    // means that no signal mask is set.
    let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const wait, std::ptr::null()) };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return if is_temporary(&error) {
            Ok(false)
        } else {
            Err(error)
        };
    }
    // The socket may be ready because of a pending error; the receive call then returns that error.
    Ok(ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_longer_than_the_buffer_are_received_empty() {
        let (a, b) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        a.connect(b.local_addr().unwrap()).unwrap();
        let (mut out, mut incoming) = (Outgoing::default(), ReceivedDatagrams::default());
        incoming.receive(&b, Duration::from_micros(50)).unwrap();
        assert_eq!(incoming.datagrams().count(), 0);
        let mut number = 0u8;
        while out.put(|payload| {
            payload.clear();
            payload.extend([number; 9]);
            number += 1;
            true
        }) {}
        assert_eq!(usize::from(number), BATCH);
        out.send(&a).unwrap();
        let mut seen = 0;
        while seen < BATCH {
            incoming.receive(&b, Duration::from_secs(1)).unwrap();
            for (from, payload) in incoming.datagrams() {
                assert_eq!((from, payload), (a.local_addr().unwrap(), &[seen as u8; 9][..]));
                seen += 1;
            }
        }
        a.send(&[1; 10_000]).unwrap();
        incoming.receive(&b, Duration::from_secs(1)).unwrap();
        assert_eq!(
            incoming
                .datagrams()
                .map(|(_, payload)| payload.len())
                .sum::<usize>(),
            0
        );
        // The other end is closed. Neither sending nor receiving may fail because of that.
        drop(b);
        for _ in 0..3 {
            assert!(out.put(|payload| !payload.is_empty()));
            out.send(&a).unwrap();
            incoming.receive(&a, Duration::from_micros(50)).unwrap();
        }
    }
}
