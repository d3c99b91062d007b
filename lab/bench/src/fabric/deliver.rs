//! Source of blocks for the benchmark: a Deliver stream by gRPC over loopback, from an orderer whose processor time is
//! measured.

use super::feeder::{Give, Given};
use crate::error::{Result, io, void};
use crate::sys::ThreadClock;
use bytes::Bytes;
use lineside_fabric::TxCode;
use lineside_fabric::access::SignedBy;
use lineside_fabric_grpc::Running;
use lineside_fabric_grpc::client::{Follower, Options};
use lineside_fabric_grpc::serve::{Limits, Role};
use lineside_fabric_grpc::source::Unavailable;
use lineside_fabric_grpc::{CommittedSource, Signer, start};
use lineside_fabric_maker::{Network, Options as Members, cache};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

/// Keep-alive time of the orderer's threads. The threads must not end before the orderer, because the clock of a thread
/// ends with the thread.
const ORDERER_LIFETIME: Duration = Duration::from_secs(24 * 3_600);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks of a channel in their order, which are read from the cache on demand.
pub(super) struct Stream {
    channel: String,
    end: u64,
    reader: Mutex<cache::Reader>,
    /// Expected validation codes of the blocks that were read.
    codes: Mutex<VecDeque<Vec<TxCode>>>,
    heights: watch::Sender<u64>,
}

impl Stream {
    /// Returns a stream of the blocks of `reader` that come before block `end`.
    pub(super) fn new(reader: cache::Reader, end: u64) -> Self {
        Self {
            channel: Members::default().channel,
            end,
            reader: Mutex::new(reader),
            codes: Mutex::default(),
            heights: watch::Sender::new(end),
        }
    }
}

impl CommittedSource for Stream {
    fn channel(&self) -> &str {
        &self.channel
    }

    fn heights(&self) -> watch::Receiver<u64> {
        self.heights.subscribe()
    }

    fn block(&self, number: u64) -> std::result::Result<Bytes, Unavailable> {
        let made = lock(&self.reader).next();
        match made {
            Some(Ok(made)) if made.number == number => {
                lock(&self.codes).push_back(made.codes);
                Ok(made.bytes.into())
            }
            Some(Err(error)) => Err(Unavailable(error.to_string())),
            _ => Err(Unavailable(format!(
                "block {number} was requested, but it is not the next block of the stream"
            ))),
        }
    }

    fn config_sequence(&self) -> u64 {
        0
    }

    fn permits(&self, _resource: &str, _by: SignedBy<'_>) -> bool {
        true
    }
}

/// Running orderer.
pub(super) struct RunningOrderer {
    stream: Arc<Stream>,
    running: Option<Running>,
    runtime: Option<Runtime>,
    clocks: Arc<Mutex<Vec<ThreadClock>>>,
}

impl RunningOrderer {
    /// Starts an orderer.
    pub(super) fn start(stream: Stream) -> Result<Self> {
        let clocks: Arc<Mutex<Vec<ThreadClock>>> = Arc::default();
        let theirs = Arc::clone(&clocks);
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_keep_alive(ORDERER_LIFETIME)
            .thread_name("orderer")
            .on_thread_start(move || lock(&theirs).extend(ThreadClock::of_this_thread()))
            .enable_all()
            .build()
            .map_err(io("starting an orderer"))?;
        let stream = Arc::new(stream);
        let sources: Vec<Arc<dyn CommittedSource>> = vec![Arc::clone(&stream) as _];
        let started = start("127.0.0.1:0", None, Role::Orderer, sources, Limits::default());
        let running = runtime.block_on(started).map_err(io("starting an orderer"))?;
        Ok(Self {
            stream,
            running: Some(running),
            runtime: Some(runtime),
            clocks,
        })
    }

    /// Returns the processor time in nanoseconds that the orderer's threads have used.
    pub(super) fn spent_ns(&self) -> u64 {
        lock(&self.clocks).iter().map(|clock| clock.ns()).sum()
    }

    /// Returns a client that follows the orderer.
    pub(super) fn following(&self) -> Result<Following> {
        let network = Network::new(1, Members::default());
        let client = network.client(0);
        let signer = Signer::from_pem(&network.orgs[0].msp, &client.pem, client.key.pem().as_bytes());
        let signer = signer.map_err(void)?;
        let address = self.running.as_ref().map(|running| running.address.to_string());
        let endpoints = address.into_iter().collect();
        Ok(Following {
            options: Options::new(endpoints, Arc::new(signer), self.stream.channel(), 0),
            stream: Arc::clone(&self.stream),
        })
    }
}

impl Drop for RunningOrderer {
    fn drop(&mut self) {
        self.running = None;
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Client that follows the orderer.
pub(super) struct Following {
    options: Options,
    stream: Arc<Stream>,
}

impl Following {
    /// Passes on all blocks until the receiver accepts no more.
    pub(super) fn run(self, give: &Give) -> std::io::Result<()> {
        // The worker thread keeps receiving while this thread is blocked.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("deliver")
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut follower = Follower::new(self.options);
            while follower.next_number() < self.stream.end {
                let received = follower.next().await;
                let given = Given {
                    number: received.number,
                    bytes: received.bytes,
                    codes: lock(&self.stream.codes).pop_front().unwrap_or_default(),
                };
                if give.send(Ok(given)).is_err() {
                    break;
                }
            }
        });
        runtime.shutdown_background();
        Ok(())
    }
}
