//! Source of blocks over UDP: a receiver on its own thread passes blocks to the intake. Blocks that the sender no
//! longer has are fetched from an orderer with Deliver.

use lineside_fabric::early::EarlyWork;
use lineside_fabric::limits::BLOCK_BYTES_MAX;
use lineside_fabric_grpc::client::{Options, ReadAheadVerdict, ReceivedBlock, follow_ahead};
use lineside_fabric_grpc::without_foreign_bytes;
use lineside_fabric_udp::paper::PaperReceiver;
use lineside_fabric_udp::paper::identities::NumberedIdentity;
use lineside_fabric_udp::{
    BlockSink, Counters, DropReason, EarlyTx, Receiver, ReceiverOptions, SharedKey, driver,
};
use lineside_fastpath::Range;
use lineside_util::counted;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

/// Maximum number of complete blocks that wait for the intake; further blocks stay at the sender.
const WAITING_BLOCKS_MAX: usize = 8;

/// Form of the datagrams.
pub enum DatagramForm {
    /// Datagrams of `lineside fabric send`, with a MAC under this key.
    Native(SharedKey),
    /// Packets in the paper format, which have no MAC: the trusted source addresses, and the identities that are known
    /// in advance.
    Paper(Vec<Range>, Vec<NumberedIdentity>),
}

/// Socket that receives blocks.
pub struct UdpSource {
    socket: UdpSocket,
    form: DatagramForm,
    /// Maximum size of the incomplete blocks, in bytes. The complete blocks that wait for the intake have the same
    /// limit.
    memory_bytes_max: usize,
}

/// Limit on the total size of complete blocks that wait for the intake.
struct BytesLimit {
    bytes: Arc<Semaphore>,
    bytes_max: u32,
}

impl BytesLimit {
    fn new(bytes_max: usize) -> Self {
        let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX);
        let bytes = Arc::new(Semaphore::new(bytes_max as usize));
        Self { bytes, bytes_max }
    }

    /// Returns the number of bytes that a block uses of the limit. A block that is larger than the limit uses the whole
    /// limit.
    fn needed(&self, block_bytes: usize) -> u32 {
        u32::try_from(block_bytes).map_or(self.bytes_max, |bytes| bytes.min(self.bytes_max))
    }

    fn has(&self, block_bytes: usize) -> bool {
        self.bytes.available_permits() >= self.needed(block_bytes) as usize
    }

    /// Waits until the limit admits the block, and returns a permit for its bytes; `None` if the intake has ended.
    /// Dropping the permit releases the bytes.
    async fn take(&self, block_bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = Arc::clone(&self.bytes);
        bytes.acquire_many_owned(self.needed(block_bytes)).await.ok()
    }

    fn closing(&self) -> CloseOnDrop {
        CloseOnDrop(Arc::clone(&self.bytes))
    }
}

/// Guard that ends all waits for a permit when it is dropped.
struct CloseOnDrop(Arc<Semaphore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

enum Event {
    /// A complete block with its number, its bytes, and the permit, which is dropped when the intake takes the block.
    Whole(u64, Vec<u8>, OwnedSemaphorePermit),
    /// Notice that a block which the intake has taken is now parsed and can be executed.
    Read,
    /// The blocks up to this number must be fetched.
    Gap(u64),
    Failed(io::Error),
}

struct EventSender {
    events: mpsc::Sender<Event>,
    memory_limit: BytesLimit,
    /// Runtime of the task that passes the blocks to the intake.
    runtime: Handle,
    early_work: EarlyWork,
    channel: String,
    /// Number of datagrams with a wrong MAC at which the next warning is due.
    forged_told_at: u64,
}

impl BlockSink for EventSender {
    fn on_early(&mut self, early: EarlyTx<'_>) {
        self.early_work.put(early.block, early.index, early.bytes);
    }

    fn has_room(&self, block_bytes: usize) -> bool {
        self.events.capacity() > 0 && self.memory_limit.has(block_bytes)
    }

    fn on_block(&mut self, number: u64, bytes: Vec<u8>) {
        // A receiver of packets in the paper format does not call `has_room` before, so this call may wait.
        let Some(room) = self.runtime.block_on(self.memory_limit.take(bytes.len())) else {
            return;
        };
        // Sending fails only if the receiving end was dropped, which happens when the service stops.
        let _ = self.events.blocking_send(Event::Whole(number, bytes, room));
    }

    fn on_dropped(&mut self, number: u64, _why: DropReason) {
        self.early_work.dropped(number);
    }

    fn on_counters(&mut self, counters: &Counters) {
        // The next warning is due at ten times the present number, so that such datagrams cannot fill the log.
        if counters.bad_mac >= self.forged_told_at {
            tracing::warn!(
                channel = self.channel,
                "{} with a wrong MAC; check that the sender uses the same `udp_key`",
                counted(counters.bad_mac, "datagram")
            );
            self.forged_told_at = counters.bad_mac.saturating_mul(10);
        }
    }

    fn on_gap(&mut self, _from: u64, to: u64) {
        let _ = self.events.blocking_send(Event::Gap(to));
    }
}

/// Handle of the receiver's thread. The thread ends when the handle is dropped.
struct ReceiverThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for ReceiverThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of this thread.
            let _ = thread.join();
        }
    }
}

impl UdpSource {
    /// Listens at `listen`. Incomplete blocks may use `memory_bytes_max` bytes, and complete blocks that wait for the
    /// intake as many again.
    ///
    /// # Errors
    /// The system's error.
    pub fn bind(listen: SocketAddr, form: DatagramForm, memory_bytes_max: usize) -> io::Result<Self> {
        let socket = driver::listen(listen)?;
        Ok(Self {
            socket,
            form,
            memory_bytes_max,
        })
    }

    /// Returns the address and port of the socket.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn start(
        self,
        next: u64,
        mut events: EventSender,
        fetched: Arc<AtomicU64>,
    ) -> io::Result<ReceiverThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let mut session = [0; 16];
        getrandom::fill(&mut session).map_err(io::Error::other)?;
        let receive = move || {
            // The value 0 means that no block was fetched, because the genesis block, number 0, is never fetched.
            let mut fetched = || Some(fetched.swap(0, Ordering::Relaxed)).filter(|&next| next > 0);
            let ended = match self.form {
                DatagramForm::Native(key) => {
                    // The validator computes data hashes anyway. A block that the validator refuses is fetched with
                    // Deliver.
                    let options = ReceiverOptions {
                        data_hash: false,
                        memory_bytes_max: self.memory_bytes_max,
                        ..ReceiverOptions::default()
                    };
                    let mut receiver = Receiver::new(key, session, next, options);
                    receiver.run(&self.socket, &mut events, &mut fetched, &stopping)
                }
                DatagramForm::Paper(trusted, identities) => {
                    let bytes_max = self.memory_bytes_max.min(BLOCK_BYTES_MAX);
                    let is_trusted = move |from| trusted.iter().any(|range| range.contains(from));
                    let mut receiver = PaperReceiver::new(is_trusted, next, bytes_max);
                    for identity in &identities {
                        receiver.preload(identity.id, &identity.identity);
                    }
                    receiver.run(&self.socket, &mut events, &mut fetched, &stopping)
                }
            };
            if let Err(error) = ended {
                let _ = events.events.blocking_send(Event::Failed(error));
            }
        };
        let thread = std::thread::Builder::new()
            .name("fabric-udp".into())
            .spawn(receive)?;
        Ok(ReceiverThread {
            stop,
            thread: Some(thread),
        })
    }

    /// Hands out one block after the other until `on` stops it, as [`follow_ahead`] does, and passes transactions of
    /// incomplete blocks to `early`. `deliver` has the number of the first block, and the endpoints from which missing
    /// blocks are fetched.
    ///
    /// # Errors
    /// The system's error of the socket.
    pub async fn follow(
        self,
        deliver: Options,
        read: &Notify,
        early: EarlyWork,
        on: impl FnMut(Option<ReceivedBlock>) -> ReadAheadVerdict,
    ) -> io::Result<()> {
        let fetched = Arc::new(AtomicU64::new(0));
        let (events, waiting) = mpsc::channel(WAITING_BLOCKS_MAX);
        let room = BytesLimit::new(self.memory_bytes_max);
        let closing = room.closing();
        let event_sender = EventSender {
            events,
            memory_limit: room,
            runtime: Handle::current(),
            early_work: early,
            channel: deliver.channel.clone(),
            forged_told_at: 1,
        };
        let _thread = self.start(deliver.from, event_sender, Arc::clone(&fetched))?;
        // These variables are declared after the thread, so they are dropped first. The thread may be waiting for a
        // permit or for space in the queue, and dropping them ends that wait.
        let (mut waiting, _closing) = (waiting, closing);
        let mut taking = BlockTaker {
            next: deliver.from,
            deliver,
            read,
            on,
            fetched,
        };
        loop {
            let event = tokio::select! {
                biased;
                event = waiting.recv() => event,
                () = read.notified() => Some(Event::Read),
            };
            let goes_on = match event {
                Some(Event::Whole(number, bytes, room)) => {
                    drop(room);
                    taking.take(number, bytes).await
                }
                Some(Event::Read) => taking.hand_out(None).await,
                Some(Event::Gap(to)) => taking.fetch(to).await,
                Some(Event::Failed(error)) => return Err(error),
                None => false,
            };
            if !goes_on {
                return Ok(());
            }
        }
    }
}

struct BlockTaker<'r, F> {
    deliver: Options,
    /// Number of the block to hand out next.
    next: u64,
    read: &'r Notify,
    on: F,
    fetched: Arc<AtomicU64>,
}

impl<F: FnMut(Option<ReceivedBlock>) -> ReadAheadVerdict> BlockTaker<'_, F> {
    /// Takes a block that arrived over UDP. Returns false if `on` stops the source.
    async fn take(&mut self, number: u64, bytes: Vec<u8>) -> bool {
        if number < self.next {
            return true;
        }
        if number > self.next && !self.fetch(number - 1).await {
            return false;
        }
        let bytes = without_foreign_bytes(bytes.into());
        self.hand_out(Some(ReceivedBlock { number, bytes })).await
    }

    /// Hands out a block to `on`, or reports that a block was parsed. If `on` refuses a block, that block and the later
    /// ones are fetched with Deliver. Returns false if `on` stops the source.
    async fn hand_out(&mut self, received: Option<ReceivedBlock>) -> bool {
        if let Some(received) = &received {
            self.next = received.number + 1;
        }
        match (self.on)(received) {
            ReadAheadVerdict::On => true,
            ReadAheadVerdict::Back(number, why) => {
                let channel = &self.deliver.channel;
                tracing::warn!(
                    channel,
                    "block {number} from UDP was refused: {why}; it will be fetched from an orderer"
                );
                let to = self.next.saturating_sub(1);
                self.next = number;
                self.fetch(to).await
            }
            ReadAheadVerdict::Stop => false,
        }
    }

    /// Fetches blocks up to number `to` with Deliver. Returns false if `on` stops the source.
    async fn fetch(&mut self, to: u64) -> bool {
        if self.next <= to {
            let channel = &self.deliver.channel;
            tracing::warn!(channel, "fetching blocks {} to {to} with Deliver", self.next);
            let mut options = self.deliver.clone();
            options.from = self.next;
            let mut goes_on = true;
            let Self { next, read, on, .. } = self;
            let hand_out = |received: Option<ReceivedBlock>| {
                let is_next = received.is_some();
                let handed = on(received);
                match &handed {
                    ReadAheadVerdict::On => *next += u64::from(is_next),
                    ReadAheadVerdict::Back(number, _) => *next = *number,
                    ReadAheadVerdict::Stop => goes_on = false,
                }
                let is_last = *next > to && matches!(handed, ReadAheadVerdict::On);
                if is_last { ReadAheadVerdict::Stop } else { handed }
            };
            follow_ahead(options, read, hand_out).await;
            if !goes_on {
                return false;
            }
        }
        self.fetched.store(self.next, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
#[path = "udp_source_tests.rs"]
mod tests;
