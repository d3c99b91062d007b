//! Blocks over UDP for `lineside fabric serve`: a receiver on a thread of its own hands them to whoever takes blocks,
//! and what it cannot get any more is fetched by Deliver.

use crate::key_file;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_fabric::early::EarlyWork;
use lineside_fabric::limits::BLOCK_BYTES_MAX;
use lineside_fabric_grpc::client::{Ahead, Options, Received, follow_ahead};
use lineside_fabric_udp::paper::PaperReceiver;
use lineside_fabric_udp::{Blocks, Counters, Dropped, Early, Receiver, ReceiverOptions, SharedKey, driver};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use tokio::sync::{Notify, mpsc};

/// Blocks that wait to be taken. The sender waits behind them.
const WAITING: usize = 8;

/// Whether and how blocks come over UDP.
#[derive(Args)]
pub struct Udp {
    /// Take blocks over UDP at this address; the orderer is asked for those that the sender has no more.
    #[arg(long)]
    udp_listen: Option<SocketAddr>,
    /// The key shared with `lineside fabric send`: a file with 64 hex digits or more, for its owner's eyes only.
    #[arg(long, requires = "udp_listen")]
    udp_key: Option<PathBuf>,
    /// Take the papers' packets instead, which are not protected against anybody.
    #[arg(long, requires = "udp_listen", conflicts_with = "udp_key")]
    udp_paper: bool,
    /// Who is believed to send the papers' packets; may be given more than once.
    #[arg(long, requires = "udp_paper", default_values = ["127.0.0.1", "::1"])]
    trusted_sources: Vec<IpAddr>,
}

/// What datagrams are.
enum Form {
    Native(SharedKey),
    Paper(Vec<IpAddr>),
}

/// A socket that blocks come to.
pub struct UdpSource {
    socket: UdpSocket,
    form: Form,
}

/// The key in a file that nobody else may read.
///
/// # Errors
/// [`Wrong`]: a file that others may read, or that holds no key.
pub fn read_key(path: &Path) -> anyhow::Result<SharedKey> {
    key_of(path).map_err(|error| Wrong(format!("{error:#}")).into())
}

fn key_of(path: &Path) -> anyhow::Result<SharedKey> {
    SharedKey::new(&key_file::read(path)?).with_context(|| path.display().to_string())
}

impl Udp {
    /// The socket, where blocks come over UDP.
    ///
    /// # Errors
    /// An address or a key that cannot be used.
    pub fn source(&self) -> anyhow::Result<Option<UdpSource>> {
        let Some(listen) = self.udp_listen else {
            return Ok(None);
        };
        let form = match &self.udp_key {
            Some(path) => Form::Native(read_key(path)?),
            None if self.udp_paper => Form::Paper(self.trusted_sources.clone()),
            None => bail!(Wrong(
                "--udp-listen needs --udp-key FILE, or --udp-paper".to_owned()
            )),
        };
        let socket = driver::listen(listen).with_context(|| format!("listening on {listen}, UDP"))?;
        Ok(Some(UdpSource { socket, form }))
    }
}

enum Event {
    Whole(u64, Vec<u8>),
    /// One that was handed out is read.
    Read,
    /// Blocks up to this one have to be fetched.
    Gap(u64),
    Failed(io::Error),
}

struct Tell {
    events: mpsc::Sender<Event>,
    early: EarlyWork,
    /// Datagrams without a right MAC, of which no fewer than so many are told of next.
    forged_told_at: u64,
}

impl Blocks for Tell {
    fn early(&mut self, early: Early<'_>) {
        self.early.put(early.block, early.index, early.bytes);
    }

    fn ready(&self) -> bool {
        self.events.capacity() > 0
    }

    fn whole(&mut self, number: u64, bytes: Vec<u8>) {
        // Whoever took them is gone only when all of it ends.
        let _ = self.events.blocking_send(Event::Whole(number, bytes));
    }

    fn dropped(&mut self, number: u64, _why: Dropped) {
        self.early.dropped(number);
    }

    fn counted(&mut self, counters: &Counters) {
        // Ten times as many each time: nobody fills the log by sending them.
        if counters.bad_mac >= self.forged_told_at {
            tell!(
                "lineside: datagrams whose MAC does not hold: {}; the sender has another key, or it is not ours",
                counters.bad_mac
            );
            self.forged_told_at = counters.bad_mac.saturating_mul(10);
        }
    }

    fn gap(&mut self, _from: u64, to: u64) {
        let _ = self.events.blocking_send(Event::Gap(to));
    }
}

/// The receiver's thread; it ends when this is dropped.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl UdpSource {
    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn start(self, next: u64, mut tell: Tell, fetched: Arc<AtomicU64>) -> io::Result<Running> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let mut session = [0; 16];
        getrandom::fill(&mut session).map_err(io::Error::other)?;
        let receive = move || {
            // 0, the genesis block, never comes this way.
            let mut fetched = || Some(fetched.swap(0, Ordering::Relaxed)).filter(|&next| next > 0);
            let ended = match self.form {
                Form::Native(key) => {
                    // The validator computes data hashes anyway; a block that it refuses is fetched.
                    let options = ReceiverOptions {
                        data_hash: false,
                        ..ReceiverOptions::default()
                    };
                    let mut receiver = Receiver::new(key, session, next, options);
                    receiver.run(&self.socket, &mut tell, &mut fetched, &stopping)
                }
                Form::Paper(trusted) => {
                    let mut receiver = PaperReceiver::new(trusted, next, BLOCK_BYTES_MAX);
                    receiver.run(&self.socket, &mut tell, &mut fetched, &stopping)
                }
            };
            if let Err(error) = ended {
                let _ = tell.events.blocking_send(Event::Failed(error));
            }
        };
        let thread = std::thread::Builder::new().name("udp".into()).spawn(receive)?;
        Ok(Running {
            stop,
            thread: Some(thread),
        })
    }

    /// Hands out one block after the other until told to stop, as [`follow_ahead`] does, and tells `early` of
    /// transactions whose block is not whole; `deliver` says where from on, and whom to ask for what does not come.
    ///
    /// # Errors
    /// What the system says of the socket.
    pub async fn follow(
        self,
        deliver: Options,
        read: &Notify,
        early: EarlyWork,
        on: impl FnMut(Option<Received>) -> Ahead,
    ) -> io::Result<()> {
        let fetched = Arc::new(AtomicU64::new(0));
        let (events, waiting) = mpsc::channel(WAITING);
        let tell = Tell {
            events,
            early,
            forged_told_at: 1,
        };
        let _running = self.start(deliver.from, tell, Arc::clone(&fetched))?;
        // Dropped before the thread is waited for, which may wait for room in it.
        let mut waiting = waiting;
        let mut taking = Taking {
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
                Some(Event::Whole(number, bytes)) => taking.take(number, bytes).await,
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

struct Taking<'r, F> {
    deliver: Options,
    /// The block that is handed out next.
    next: u64,
    read: &'r Notify,
    on: F,
    fetched: Arc<AtomicU64>,
}

impl<F: FnMut(Option<Received>) -> Ahead> Taking<'_, F> {
    /// Takes a block that came over UDP; `false`: no more.
    async fn take(&mut self, number: u64, bytes: Vec<u8>) -> bool {
        if number < self.next {
            return true;
        }
        if number > self.next && !self.fetch(number - 1).await {
            return false;
        }
        let bytes = bytes.into();
        self.hand_out(Some(Received { number, bytes })).await
    }

    /// Hands out a block, or tells that one was read. Those that are handed back are fetched.
    async fn hand_out(&mut self, received: Option<Received>) -> bool {
        if let Some(received) = &received {
            self.next = received.number + 1;
        }
        match (self.on)(received) {
            Ahead::On => true,
            Ahead::Back(number, why) => {
                tell!("lineside: block {number} came over UDP, and is refused: {why}");
                let to = self.next.saturating_sub(1);
                self.next = number;
                self.fetch(to).await
            }
            Ahead::Stop => false,
        }
    }

    /// Takes blocks by Deliver, `to` being the last one; `false`: no more.
    async fn fetch(&mut self, to: u64) -> bool {
        if self.next <= to {
            tell!("lineside: blocks {} to {to} are fetched by Deliver", self.next);
            let mut options = self.deliver.clone();
            options.from = self.next;
            let mut goes_on = true;
            let Self { next, read, on, .. } = self;
            let hand_out = |received: Option<Received>| {
                let is_next = received.is_some();
                let handed = on(received);
                match &handed {
                    Ahead::On => *next += u64::from(is_next),
                    Ahead::Back(number, _) => *next = *number,
                    Ahead::Stop => goes_on = false,
                }
                let is_last = *next > to && matches!(handed, Ahead::On);
                if is_last { Ahead::Stop } else { handed }
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
mod tests {
    use super::read_key;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_hex_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let digits = "0123456789abcdef".repeat(4);
        for (text, mode, good) in [
            (format!("{digits}\n"), 0o600, true),
            (digits.clone(), 0o400, true),
            (digits.clone(), 0o640, false),
            (digits.clone(), 0o604, false),
            (digits[2..].to_owned(), 0o600, false),
            (format!("{digits}0g"), 0o600, false),
        ] {
            let _ = std::fs::remove_file(&path);
            write(&path, &text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_key(&path).is_ok(), good, "{text:?} {mode:o}");
        }
        assert!(read_key(folder.path()).is_err());
    }
}
