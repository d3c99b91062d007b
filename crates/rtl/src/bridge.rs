//! The thread of a NIC: moves frames between the wire, the NIC and the host, and executes the commands of the hosts.

use crate::command::{Command, endpoint_commands};
use crate::error::RtlError;
use crate::gso::{GsoFrame, Sender};
use crate::network::NicNetwork;
use crate::nic::{FrameBatch, Nic, NicCounters, NicVerdict};
use crate::queue::CommandQueue;
use crate::tap::Tap;
use lineside_fastpath::lease;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Maximum number of frames of the host that leave before frames of the wire are looked at again.
const HOST_BATCH: usize = 64;
/// Maximum time in ms for which the thread sleeps.
const SLEEP_MS: libc::c_int = 100;

/// Figures about the thread of a NIC. Times are sums in nanoseconds.
#[derive(Debug, Default)]
pub struct BridgeCounts {
    /// Frames from the wire.
    pub from_wire: AtomicU64,
    /// Frames from the host.
    pub from_host: AtomicU64,
    /// Replies of the NIC that were sent.
    pub replies: AtomicU64,
    /// Frames that went to the host.
    pub forwarded: AtomicU64,
    /// Replies and forwarded frames that the kernel got in one frame with others.
    pub joined: AtomicU64,
    /// Frames that the kernel did not take.
    pub unsent: AtomicU64,
    /// Commands of the hosts that the NIC executed.
    pub commands: AtomicU64,
    /// Clock cycles of the NIC for frames.
    pub cycles: AtomicU64,
    /// Time for reading frames from the wire.
    pub read_ns: AtomicU64,
    /// Time for the NIC.
    pub nic_ns: AtomicU64,
    /// Time for giving replies and forwarded frames to the kernel.
    pub write_ns: AtomicU64,
}

impl BridgeCounts {
    /// Returns the figures with their names.
    pub fn all(&self) -> [(&'static str, u64); 11] {
        [
            ("from_wire", &self.from_wire),
            ("from_host", &self.from_host),
            ("replies", &self.replies),
            ("forwarded", &self.forwarded),
            ("joined", &self.joined),
            ("unsent", &self.unsent),
            ("commands", &self.commands),
            ("cycles", &self.cycles),
            ("read_ns", &self.read_ns),
            ("nic_ns", &self.nic_ns),
            ("write_ns", &self.write_ns),
        ]
        .map(|(name, count)| (name, count.load(Relaxed)))
    }
}

/// State that the thread shares.
#[derive(Debug)]
struct Shared {
    queue: Arc<CommandQueue>,
    counts: BridgeCounts,
    counters: Mutex<NicCounters>,
    fault: Mutex<Option<String>>,
    stop: AtomicBool,
}

/// Running NIC between its network and the hosts. Dropping it ends the thread and removes the devices.
#[derive(Debug)]
pub struct Bridge {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Bridge {
    /// Starts the thread. The NIC gets the addresses of the network, and then the commands of `queue`.
    ///
    /// # Errors
    /// The system's error if the thread cannot be started.
    pub fn start(nic: Box<dyn Nic>, network: NicNetwork, queue: Arc<CommandQueue>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queue,
            counts: BridgeCounts::default(),
            counters: Mutex::default(),
            fault: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let run = move || {
            // The queue is closed even if the thread panics, so that no host waits for it for ever.
            let _close = CloseAtEnd(&of_thread.queue);
            Worker::new(&of_thread, network, nic).run();
        };
        let thread = std::thread::Builder::new().name("nic".into()).spawn(run)?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns the counters of the NIC.
    pub fn counters(&self) -> NicCounters {
        *lock(&self.shared.counters)
    }

    /// Returns the figures about the thread.
    pub fn counts(&self) -> &BridgeCounts {
        &self.shared.counts
    }

    /// Returns the fault after which the NIC answers nothing, with its remedy; `None` while it works. After a fault of
    /// the NIC, the thread passes all frames to the host; if the TAP device was removed, the thread has ended.
    pub fn fault(&self) -> Option<String> {
        lock(&self.shared.fault).clone()
    }

    /// Ends the thread, and removes the devices. A second call does nothing.
    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
        self.shared.queue.wake();
        if let Some(thread) = lock(&self.thread).take() {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct CloseAtEnd<'a>(&'a CommandQueue);

impl Drop for CloseAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The thread's own state.
struct Worker<'a> {
    shared: &'a Shared,
    network: NicNetwork,
    /// `None` after a fault.
    nic: Option<Box<dyn Nic>>,
    batch: FrameBatch,
    commands: Vec<Command>,
    replies: GsoFrame,
    forwarded: GsoFrame,
}

impl<'a> Worker<'a> {
    fn new(shared: &'a Shared, network: NicNetwork, nic: Box<dyn Nic>) -> Self {
        Self {
            shared,
            commands: endpoint_commands(&network.endpoint),
            network,
            nic: Some(nic),
            batch: FrameBatch::default(),
            replies: GsoFrame::default(),
            forwarded: GsoFrame::default(),
        }
    }

    fn run(mut self) {
        let mut is_idle = false;
        while !self.shared.stop.load(Relaxed) {
            if is_idle {
                self.sleep();
            }
            self.execute_commands();
            let Ok(from_wire) = self.take_from_wire() else {
                // Without the device there is nothing to wait for, so `poll` would return at once for ever.
                return self.lose_wire();
            };
            let from_host = self.take_from_host();
            is_idle = !from_wire && !from_host;
        }
    }

    /// Sleeps until a frame or a command comes, or [`SLEEP_MS`] have passed.
    fn sleep(&self) {
        let readable = |descriptor| libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut waited = [
            readable(self.network.wire.as_fd_number()),
            readable(self.network.host.as_fd_number()),
            readable(self.shared.queue.awake().as_raw_fd()),
        ];
        // SAFETY: the array is valid for reading and writing, and its length is given. An error such as EINTR means
        // that the loop looks for work.
        unsafe { libc::poll(waited.as_mut_ptr(), waited.len() as libc::nfds_t, SLEEP_MS) };
        if waited[2].revents != 0 {
            self.shared.queue.drain();
        }
    }

    /// Executes the commands that wait. All frames before them have left, because each batch is sent before.
    fn execute_commands(&mut self) {
        self.shared.queue.take(&mut self.commands);
        if !self.commands.is_empty() {
            if let Some(nic) = &mut self.nic
                && let Err(error) =
                    (nic.execute(&self.commands)).and_then(|()| self.shared.queue.give(nic.as_mut()))
            {
                self.fail(&error);
            }
            let count = self.commands.len() as u64;
            self.shared.counts.commands.fetch_add(count, Relaxed);
            self.commands.clear();
        }
        self.shared.queue.executed();
    }

    /// Processes one batch of frames from the wire. Returns true if there were any, and an error if the device does not
    /// exist any more.
    fn take_from_wire(&mut self) -> Result<bool, DeviceRemoved> {
        let begin = Instant::now();
        self.batch.clear();
        let wire = &self.network.wire;
        let end = loop {
            match self.batch.push(|room| wire.read(room)) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break error.raw_os_error(),
            }
        };
        if self.batch.is_empty() {
            // Another error, such as EAGAIN, or EIO while the device is down, means that there are no frames.
            return match end {
                Some(libc::EBADFD) => Err(DeviceRemoved),
                _ => Ok(false),
            };
        }
        let read = Instant::now();
        let processed = match &mut self.nic {
            Some(nic) => nic.process(lease::now_ns(), &mut self.batch),
            None => Ok(0),
        };
        // The table of the host has each operation before a client has the reply to it.
        let processed = processed.and_then(|cycles| match &mut self.nic {
            Some(nic) => self.shared.queue.give(nic.as_mut()).map(|()| cycles),
            None => Ok(cycles),
        });
        let cycles = processed.unwrap_or_else(|error| {
            self.fail(&error);
            0
        });
        // The counters have a request before its client has the reply.
        if let Some(nic) = &self.nic {
            *lock(&self.shared.counters) = nic.counters();
        }
        let ran = Instant::now();
        let mut replies = Sender::new(&self.network.wire, &mut self.replies);
        let mut forwarded = Sender::new(&self.network.host, &mut self.forwarded);
        match &self.nic {
            Some(_) => {
                for (verdict, frame) in self.batch.left() {
                    match verdict {
                        NicVerdict::Reply => replies.send(frame),
                        NicVerdict::Forward => forwarded.send(frame),
                        NicVerdict::Drop => {}
                    }
                }
            }
            // Without the NIC, the host answers everything.
            None => self.batch.frames().for_each(|frame| forwarded.send(frame)),
        }
        let (replies, forwarded) = (replies.finish(), forwarded.finish());
        let counts = &self.shared.counts;
        let nanoseconds = |from: Instant, to: Instant| (to - from).as_nanos() as u64;
        for (count, more) in [
            (&counts.from_wire, self.batch.len() as u64),
            (&counts.replies, replies.taken),
            (&counts.forwarded, forwarded.taken),
            (&counts.joined, replies.joined + forwarded.joined),
            (&counts.unsent, replies.refused + forwarded.refused),
            (&counts.cycles, cycles),
            (&counts.read_ns, nanoseconds(begin, read)),
            (&counts.nic_ns, nanoseconds(read, ran)),
            (&counts.write_ns, nanoseconds(ran, Instant::now())),
        ] {
            count.fetch_add(more, Relaxed);
        }
        Ok(true)
    }

    /// Sends frames of the host to the wire, as a NIC does. Returns true if there were any.
    fn take_from_host(&mut self) -> bool {
        let mut frame = [0; 2048];
        let mut taken = 0;
        while taken < HOST_BATCH
            && let Ok(bytes @ 1..) = self.network.host.read(&mut frame)
        {
            taken += 1;
            if self.network.wire.write(&frame[..bytes]).is_err() {
                self.shared.counts.unsent.fetch_add(1, Relaxed);
            }
        }
        self.shared.counts.from_host.fetch_add(taken as u64, Relaxed);
        taken > 0
    }

    /// Removes the NIC, so that the host answers everything.
    fn fail(&mut self, error: &RtlError) {
        self.report(format!(
            "{error}; the host answers all requests, restart the server to use the NIC again"
        ));
        self.nic = None;
    }

    /// Reports that the device of the wire does not exist any more.
    fn lose_wire(&self) {
        self.report(format!(
            "the TAP device {} was removed, so no client reaches the services there; restart the server",
            self.network.wire.name()
        ));
    }

    fn report(&self, fault: String) {
        tracing::error!("{fault}");
        *lock(&self.shared.fault) = Some(fault);
    }
}

/// Error: someone has removed the TAP device of the wire.
struct DeviceRemoved;

impl Tap {
    fn as_fd_number(&self) -> std::os::fd::RawFd {
        std::os::fd::AsFd::as_fd(self).as_raw_fd()
    }
}
