//! Servers in software: each contestant runs on threads in the server's namespace and on core 1.

use crate::error::{BenchError, Result, io};
use crate::netns::{NamespacePair, SERVER_ADDRESS};
use crate::sys;
use crate::workload::Hash;
use lineside_fastpath::{FastPath, Host, Reader, Readers, Reply, Source, Verdict, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::Store;
use lineside_wire::SPV_PORT;
use std::collections::BTreeMap;
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Core that servers run on.
pub const SERVER_CORE: usize = 1;
/// Interval at which a waiting server checks whether it must stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Number of requests that can be queued for the socket datapath's host.
const HOST_QUEUE: usize = 1024;

/// Contestant that answers through a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Software {
    /// Server that returns each request without a look-up.
    Echo,
    /// The paper's software: one thread with recvfrom, a look-up in a tree, and sendto.
    Sw,
    /// The paper's software with the cache of the fast path in front of its tree.
    SwCache,
    /// Like `Sw`, but with a busy loop instead of blocking receives.
    SwSpin,
    /// Lineside's socket datapath.
    Socket,
}

/// Data from which the servers answer.
#[derive(Clone)]
pub struct Truth {
    /// Map from TXID to root.
    pub tree: Arc<BTreeMap<Hash, Hash>>,
    /// Cache that `SwCache` and `Socket` use.
    pub store: Arc<Store>,
}

impl Host for Truth {
    fn serve(&self, _from: Source, request: &[u8], reply: &mut Reply, _sender: &Reader) -> Verdict {
        match <&Hash>::try_from(request) {
            Ok(txid) if reply.put(&root(&self.tree, txid)) => Verdict::Reply,
            _ => Verdict::Forward,
        }
    }
}

fn root(tree: &BTreeMap<Hash, Hash>, txid: &Hash) -> Hash {
    tree.get(txid).copied().unwrap_or_default()
}

/// Thread in the server's namespace that runs until this value is dropped.
pub struct ServerThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl ServerThread {
    /// Starts `work` on the server's core and waits until it reports that it is ready.
    pub fn start(
        pair: &Arc<NamespacePair>,
        work: impl FnOnce(&AtomicBool, Sender<()>) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = channel();
        let (their_pair, their_stop) = (Arc::clone(pair), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("bench-server".into())
            .spawn(move || {
                their_pair.server.enter()?;
                sys::pin(SERVER_CORE).map_err(io("pinning a server"))?;
                work(&their_stop, ready)
            });
        let mut running = Self {
            stop,
            thread: Some(thread.map_err(io("starting a server"))?),
        };
        match is_ready.recv() {
            Ok(()) => Ok(running),
            Err(_) => Err(match running.join() {
                Err(error) => error,
                Ok(()) => BenchError::Void("a server ended before it was ready".into()),
            }),
        }
    }

    fn join(&mut self) -> Result<()> {
        self.stop.store(true, Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }

    /// Stops the server, and returns its error, if any.
    pub fn end(mut self) -> Result<()> {
        self.join()
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // The error is ignored here, because a caller that needs it calls `end`.
            let _ = thread.join();
        }
    }
}

/// Reports that a server is ready, and waits until the server must stop.
pub fn wait(stop: &AtomicBool, ready: &Sender<()>) {
    let _ = ready.send(());
    while !stop.load(Relaxed) {
        std::thread::sleep(STOP_CHECK_INTERVAL / 4);
    }
}

/// Starts a contestant.
pub fn start(pair: &Arc<NamespacePair>, software: Software, truth: &Truth) -> Result<ServerThread> {
    let truth = truth.clone();
    ServerThread::start(pair, move |stop, ready| {
        let listen = SocketAddr::from((SERVER_ADDRESS, SPV_PORT));
        if software == Software::Socket {
            let fastpath = Arc::new(SpvFastPath::new(Arc::clone(&truth.store)));
            let options = SocketOptions {
                listen,
                threads: 1,
                queue: HOST_QUEUE,
            };
            let datapath = SocketDatapath::start(options, fastpath, Arc::new(truth), &Readers::new(false));
            let _datapath = datapath.map_err(io("starting the socket datapath"))?;
            wait(stop, &ready);
            return Ok(());
        }
        let socket = UdpSocket::bind(listen).map_err(io("binding a server's socket"))?;
        let waiting = match software {
            Software::SwSpin => socket.set_nonblocking(true),
            _ => socket.set_read_timeout(Some(STOP_CHECK_INTERVAL)),
        };
        waiting.map_err(io("setting up a server's socket"))?;
        let _ = ready.send(());
        let served = match software {
            Software::Echo => serve(&socket, stop, |_, request| *request),
            Software::SwCache => {
                let fastpath = SpvFastPath::new(truth.store);
                let mut reply = Reply::default();
                serve(&socket, stop, |from, request| {
                    reply.clear();
                    match fastpath.answer(Source::from(from), lease::now_ns(), request, &mut reply) {
                        Verdict::Reply => reply.as_bytes().try_into().unwrap_or_default(),
                        _ => root(&truth.tree, request),
                    }
                })
            }
            _ => serve(&socket, stop, |_, request| root(&truth.tree, request)),
        };
        served.map_err(io("serving"))
    })
}

fn serve(
    socket: &UdpSocket,
    stop: &AtomicBool,
    mut answer: impl FnMut(SocketAddr, &Hash) -> Hash,
) -> std::io::Result<()> {
    let mut bytes = [0; 64];
    while !stop.load(Relaxed) {
        let (count, from) = match socket.recv_from(&mut bytes) {
            Ok(datagram) => datagram,
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => continue,
            Err(error) => return Err(error),
        };
        if let Ok(request) = <&Hash>::try_from(&bytes[..count]) {
            // A reply that cannot be sent counts as lost by the client, like any lost datagram.
            let _ = socket.send_to(&answer(from, request), from);
        }
    }
    Ok(())
}
