//! Sender and receivers on sockets: one thread each, batches of datagrams.

use super::batch::{Incoming, Outgoing, transient};
use super::paper::PaperReceiver;
use super::sender::Polled;
use super::want::is_greeting;
use super::{Blocks, Heard, Receiver, Sender};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest wait: how soon a stop is seen, and how often a receiver thinks of what it lacks.
const WAIT: Duration = Duration::from_millis(1);
/// Receive buffer asked for, so that what comes while a block is handed on waits; the kernel may give less.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Where a sender's blocks come from, such as a Deliver stream.
pub trait Source {
    /// A receiver is there, and takes this block next: called once, before the first block is asked for.
    fn begin(&mut self, _next: u64) {}

    /// The next block, if there is one now; numbers follow one another.
    ///
    /// # Errors
    /// There will be no more.
    fn next(&mut self) -> io::Result<Option<(u64, Arc<[u8]>)>>;
}

/// A receiver's socket.
///
/// # Errors
/// What the system says of the address.
pub fn listen(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

impl Sender {
    /// Sends what `source` gives until `stop` is set. The socket must be connected to the receiver.
    ///
    /// # Errors
    /// The socket's, or the source's.
    pub fn run(&mut self, socket: &UdpSocket, source: &mut dyn Source, stop: &AtomicBool) -> io::Result<()> {
        let start = Instant::now();
        let now_ns = || start.elapsed().as_nanos() as u64;
        let (mut incoming, mut outgoing) = (Incoming::default(), Outgoing::default());
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
                Polled::Datagram => true,
                Polled::Wait(until) => {
                    wait = Duration::from_nanos(until.saturating_sub(now_ns())).min(WAIT);
                    false
                }
            }) {}
            outgoing.send(socket)?;
            incoming.receive(socket, wait)?;
            for (_, datagram) in incoming.each() {
                self.datagram(now_ns(), datagram);
            }
        }
        Ok(())
    }
}

impl Receiver {
    /// Takes blocks until `stop` is set. `fetched` is asked after every batch whether blocks came another way: it says
    /// the next block then.
    ///
    /// Questions go to where the session's newest datagram came from, so that a sender may come back elsewhere; a
    /// greeting goes to whoever has the key, and is shorter than what it answers.
    ///
    /// # Errors
    /// The socket's.
    pub fn run(
        &mut self,
        socket: &UdpSocket,
        blocks: &mut dyn Blocks,
        fetched: &mut dyn FnMut() -> Option<u64>,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let start = Instant::now();
        let now_ns = || start.elapsed().as_nanos() as u64;
        let (mut incoming, mut out) = (Incoming::default(), Vec::new());
        let (mut sender, mut stranger) = (None, None);
        while !stop.load(Ordering::Relaxed) {
            incoming.receive(socket, WAIT)?;
            for (from, datagram) in incoming.each() {
                match self.datagram(now_ns(), datagram, blocks) {
                    Heard::Sender => sender = Some(from),
                    Heard::Stranger => stranger = Some(from),
                    Heard::Nobody => {}
                }
            }
            blocks.counted(&self.counters());
            if let Some(next) = fetched().filter(|&next| next > self.next()) {
                self.set_next(next, blocks);
            }
            self.hand_on(blocks);
            if self.ask(now_ns(), &mut out) {
                let to = if is_greeting(&out) { stranger } else { sender };
                send(socket, to, &out)?;
            }
        }
        Ok(())
    }
}

fn send(socket: &UdpSocket, to: Option<SocketAddr>, datagram: &[u8]) -> io::Result<()> {
    match to.map(|to| socket.send_to(datagram, to)) {
        Some(Err(error)) if !transient(&error) => Err(error),
        _ => Ok(()),
    }
}

impl PaperReceiver {
    /// Takes the papers' packets until `stop` is set; `fetched` as in [`Receiver::run`].
    ///
    /// # Errors
    /// The socket's.
    pub fn run(
        &mut self,
        socket: &UdpSocket,
        blocks: &mut dyn Blocks,
        fetched: &mut dyn FnMut() -> Option<u64>,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let mut incoming = Incoming::default();
        while !stop.load(Ordering::Relaxed) {
            incoming.receive(socket, WAIT)?;
            for (from, datagram) in incoming.each() {
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

    struct Made(u64, u64);

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

    impl Source for Made {
        fn next(&mut self) -> io::Result<Option<(u64, Arc<[u8]>)>> {
            let number = self.0;
            self.0 += u64::from(number < self.1);
            Ok((number < self.1).then(|| (number, block(number))))
        }
    }

    struct Count<'s>(u64, &'s AtomicBool);

    impl Blocks for Count<'_> {
        fn whole(&mut self, number: u64, bytes: Vec<u8>) {
            assert_eq!((number, bytes.as_slice()), (self.0, &*block(number)));
            self.0 += 1;
            self.1.store(self.0 == 50, Ordering::Relaxed);
        }

        fn gap(&mut self, from: u64, to: u64) {
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
                sender.run(&to, &mut Made(0, 50), &stop).unwrap();
            });
            let mut receiver = Receiver::new(key.clone(), [2; 16], 0, ReceiverOptions::default());
            let mut count = Count(0, &stop);
            receiver.run(&from, &mut count, &mut || None, &stop).unwrap();
            assert_eq!(count.0, 50);
        });
    }
}
