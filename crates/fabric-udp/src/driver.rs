//! Runs a sender or a receiver on a socket: each on one thread, with batches of datagrams.

use super::batch::{Outgoing, ReceivedDatagrams, is_temporary};
use super::paper::PaperReceiver;
use super::sender::PollResult;
use super::want::is_greeting;
use super::{BlockSink, DatagramOrigin, Receiver, Sender};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum time that a loop waits for datagrams. It limits the time until the loop notices a stop, and the time between
/// two checks of a receiver for missing parts.
const POLL_WAIT_MAX: Duration = Duration::from_millis(1);
/// Size of the socket's receive buffer to request, in bytes. Datagrams wait there while the receiver passes on a block.
/// The kernel may grant less.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Source of a sender's blocks, such as a Deliver stream.
pub trait BlockSource {
    /// Notifies the source that a receiver has answered and needs block `_next` next. The sender calls this method
    /// once, before the first call of [`next`](Self::next).
    fn begin(&mut self, _next: u64) {}

    /// Returns the next block with its number; `None` if there is no block now. Numbers are consecutive.
    ///
    /// # Errors
    /// The source has failed; the sender stops.
    fn next(&mut self) -> io::Result<Option<(u64, Arc<[u8]>)>>;
}

/// Opens a receiver's socket.
///
/// # Errors
/// The system's error for this address.
pub fn listen(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

impl Sender {
    /// Sends the blocks of `source` until `stop` is set. The socket must be connected to the receiver.
    ///
    /// # Errors
    /// Errors of the socket or the source.
    pub fn run(
        &mut self,
        socket: &UdpSocket,
        source: &mut dyn BlockSource,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let start = Instant::now();
        let now_ns = || start.elapsed().as_nanos() as u64;
        let (mut incoming, mut outgoing) = (ReceivedDatagrams::default(), Outgoing::default());
        let mut begun = false;
        while !stop.load(Ordering::Relaxed) {
            if let Some(next) = self.receiver_next().filter(|_| !begun) {
                begun = true;
                source.begin(next);
            }
            while begun && self.has_room() {
                let Some((number, bytes)) = source.next()? else {
                    break;
                };
                self.push(number, bytes);
            }
            let mut wait = Duration::ZERO;
            while outgoing.put(|out| match self.poll(now_ns(), out) {
                PollResult::Datagram => true,
                PollResult::Wait(until) => {
                    wait = Duration::from_nanos(until.saturating_sub(now_ns())).min(POLL_WAIT_MAX);
                    false
                }
            }) {}
            outgoing.send(socket)?;
            incoming.receive(socket, wait)?;
            for (_, datagram) in incoming.datagrams() {
                self.datagram(now_ns(), datagram);
            }
        }
        Ok(())
    }
}

impl Receiver {
    /// Receives blocks until `stop` is set. Calls `fetched` after every batch; that function returns the number of the
    /// next block if blocks arrived in another way, for example through Deliver.
    ///
    /// The receiver sends requests to the address from which the session's newest datagram came, so that a sender may
    /// return at another address. It sends a greeting to any address from which a datagram with a valid MAC came; the
    /// greeting is shorter than that datagram.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn run(
        &mut self,
        socket: &UdpSocket,
        blocks: &mut dyn BlockSink,
        fetched: &mut dyn FnMut() -> Option<u64>,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let start = Instant::now();
        let now_ns = || start.elapsed().as_nanos() as u64;
        let (mut incoming, mut out) = (ReceivedDatagrams::default(), Vec::new());
        let (mut sender, mut foreign) = (None, None);
        while !stop.load(Ordering::Relaxed) {
            incoming.receive(socket, POLL_WAIT_MAX)?;
            for (from, datagram) in incoming.datagrams() {
                match self.datagram(now_ns(), datagram, blocks) {
                    DatagramOrigin::Sender => sender = Some(from),
                    DatagramOrigin::OtherSession => foreign = Some(from),
                    DatagramOrigin::Unknown => {}
                }
            }
            blocks.on_counters(&self.counters());
            if let Some(next) = fetched().filter(|&next| next > self.next()) {
                self.set_next(next, blocks);
            }
            self.hand_on(blocks);
            if self.write_request(now_ns(), &mut out) {
                let to = if is_greeting(&out) { foreign } else { sender };
                send(socket, to, &out)?;
            }
        }
        Ok(())
    }
}

fn send(socket: &UdpSocket, to: Option<SocketAddr>, datagram: &[u8]) -> io::Result<()> {
    match to.map(|to| socket.send_to(datagram, to)) {
        Some(Err(error)) if !is_temporary(&error) => Err(error),
        _ => Ok(()),
    }
}

impl PaperReceiver {
    /// Receives packets in the paper format until `stop` is set. `fetched` has the same meaning as in
    /// [`Receiver::run`].
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn run(
        &mut self,
        socket: &UdpSocket,
        blocks: &mut dyn BlockSink,
        fetched: &mut dyn FnMut() -> Option<u64>,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut incoming = ReceivedDatagrams::default();
        while !stop.load(Ordering::Relaxed) {
            incoming.receive(socket, POLL_WAIT_MAX)?;
            for (from, datagram) in incoming.datagrams() {
                self.datagram(from.ip(), datagram, blocks);
            }
            if let Some(next) = fetched().filter(|&next| next > self.next()) {
                self.set_next(next);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ReceiverOptions, SenderOptions, SharedKey};
    use super::*;
    use lineside_fabric::proto::wire;
    use sha2::{Digest, Sha256};

    struct MadeBlocks(u64, u64);

    fn block(number: u64) -> Arc<[u8]> {
        let envelope = vec![number as u8; 5_000];
        let (mut header, mut data, mut block) = (Vec::new(), Vec::new(), Vec::new());
        wire::put_number(&mut header, 1, number);
        wire::put_bytes(&mut header, 3, &Sha256::digest(&envelope));
        wire::put_bytes(&mut data, 1, &envelope);
        wire::put_bytes(&mut block, 1, &header);
        wire::put_bytes(&mut block, 2, &data);
        block.into()
    }

    impl BlockSource for MadeBlocks {
        fn next(&mut self) -> io::Result<Option<(u64, Arc<[u8]>)>> {
            let number = self.0;
            self.0 += u64::from(number < self.1);
            Ok((number < self.1).then(|| (number, block(number))))
        }
    }

    struct CountingReceiver<'s>(u64, &'s AtomicBool);

    impl BlockSink for CountingReceiver<'_> {
        fn on_block(&mut self, number: u64, bytes: Vec<u8>) {
            assert_eq!((number, bytes.as_slice()), (self.0, &*block(number)));
            self.0 += 1;
            self.1.store(self.0 == 50, Ordering::Relaxed);
        }

        fn on_gap(&mut self, from: u64, to: u64) {
            panic!("{from} to {to}");
        }
    }

    #[test]
    fn blocks_go_over_sockets() {
        let (to, from) = (
            UdpSocket::bind("127.0.0.1:0").unwrap(),
            listen("127.0.0.1:0".parse().unwrap()).unwrap(),
        );
        to.connect(from.local_addr().unwrap()).unwrap();
        let key = SharedKey::new(&[3; 32]).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sender = Sender::new(key.clone(), [1; 16], SenderOptions::default());
                sender.run(&to, &mut MadeBlocks(0, 50), &stop).unwrap();
            });
            let mut receiver = Receiver::new(key.clone(), [2; 16], 0, ReceiverOptions::default());
            let mut count = CountingReceiver(0, &stop);
            receiver.run(&from, &mut count, &mut || None, &stop).unwrap();
            assert_eq!(count.0, 50);
        });
    }
}
