//! The datapaths, whatever the services: XDP loaded and attached for all of them, or the word on why not; how they do;
//! their end.

use crate::config::{Datapath, DatapathName};
use anyhow::bail;
use lineside_console::ServiceStatus;
use lineside_fastpath::lease;
use lineside_net::{SocketCounts, SocketDatapath};
use lineside_transfer::datapath as transfer;
use lineside_wire::{TRANSFER_SLOT, metric};
use lineside_xdp::{
    AttachedMode, Image, Interface, Pins, XdpDatapath, XdpError, harmful_offloads, native_needs,
};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Loads the programs for services at `listens`, as the configuration wants it; `None`: the fast path stays in user
/// space, and `warnings` say why where that was not asked for.
///
/// # Errors
/// Why XDP, where it was asked for, cannot be had.
pub fn load(
    datapath: &Datapath,
    listens: &[SocketAddr],
    images: impl FnOnce() -> Vec<Image>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Option<(XdpDatapath, Interface)>> {
    // Without a fast path there is nothing to stand at the line.
    if listens.is_empty() {
        return Ok(None);
    }
    match datapath.datapath {
        DatapathName::Socket => Ok(None),
        DatapathName::Xdp => load_xdp(datapath, listens, images, warnings).map(Some),
        DatapathName::Auto => match load_xdp(datapath, listens, images, warnings) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(error) => {
                warnings.push(format!("on the socket datapath: {}", crate::words(&error)));
                Ok(None)
            }
        },
    }
}

fn load_xdp(
    datapath: &Datapath,
    listens: &[SocketAddr],
    images: impl FnOnce() -> Vec<Image>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<(XdpDatapath, Interface)> {
    let mut interface = Interface::find(&datapath.interface)?;
    for listen in listens {
        if listen.port() == 0 {
            bail!("XDP needs a port to be given, not 0");
        }
        // The line answers for its addresses at every port of ours.
        if let Some(other) = listens.iter().find(|other| other.ip() != listen.ip()) {
            bail!(
                "{listen} and {other} are at different addresses: services at one interface need the same one, or none"
            );
        }
        if !listen.ip().is_unspecified() && !interface.endpoint.keep_only(listen.ip()) {
            bail!(
                "{} is not an address of {}: give the interface that has it",
                listen.ip(),
                datapath.interface
            );
        }
    }
    let images = images();
    let pins = match Pins::own(&datapath.pin_dir, &datapath.interface) {
        Ok(pins) => {
            let serves_transfer = images.iter().any(|image| image.slot == TRANSFER_SLOT);
            if !serves_transfer && transfer::pinned(pins.path())?.is_some_and(|fastpath| fastpath.is_express)
            {
                bail!(
                    "the fast path of a `transfer` in `express` is pinned at {}: start that server there, or \
                     `lineside xdp detach {}`",
                    datapath.interface,
                    datapath.interface
                );
            }
            Some(pins)
        }
        Err(error @ XdpError::NoBpffs(_)) => {
            warnings.push(format!("the fast path ends with this process: {error}"));
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok((XdpDatapath::load(images, pins)?, interface))
}

/// Where the programs of all services stand; or nowhere, where the fast path is in user space.
pub struct Line {
    xdp: Mutex<Option<XdpDatapath>>,
    interface: String,
    mode: Option<AttachedMode>,
}

impl Line {
    /// Attaches what was loaded; on the datapath `auto` a refusal is told, and the fast path stays in user space.
    ///
    /// # Errors
    /// Why it cannot be attached, where that was asked for.
    pub fn attach(
        config: &Datapath,
        loaded: Option<(XdpDatapath, Interface)>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Arc<Self>> {
        let (mut xdp, mut attached) = (None, None);
        if let Some((mut datapath, interface)) = loaded {
            match datapath.attach(&interface, config.xdp_mode.into()) {
                Ok(mode) => {
                    warnings.extend(harmful_offloads(&interface.name));
                    if mode == AttachedMode::Native {
                        warnings.extend(native_needs(&interface.name));
                    }
                    (xdp, attached) = (Some(datapath), Some(mode));
                }
                Err(error) => {
                    datapath.detach()?;
                    if config.datapath == DatapathName::Xdp {
                        return Err(error.into());
                    }
                    warnings.push(format!("on the socket datapath: {error}"));
                }
            }
        }
        Ok(Arc::new(Self {
            xdp: Mutex::new(xdp),
            interface: config.interface.clone(),
            mode: attached,
        }))
    }

    fn xdp(&self) -> MutexGuard<'_, Option<XdpDatapath>> {
        self.xdp.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease is renewed this many times within its length.
const RENEWALS: u32 = 6;

/// Does something again and again until it is dropped.
pub struct Renewal(Option<(Sender<()>, JoinHandle<()>)>);

impl Renewal {
    /// Has `renew` called some times within each `length`, on a thread of its own.
    ///
    /// # Errors
    /// What the system says of the thread.
    pub fn start(length: Duration, renew: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            while stopped.recv_timeout(length / RENEWALS) == Err(RecvTimeoutError::Timeout) {
                renew();
            }
        };
        let thread = std::thread::Builder::new().name("lease".into()).spawn(run)?;
        Ok(Self(Some((stop, thread))))
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

/// What a fast path in user space counted, and where a program's counters of the same names are.
pub struct Counted<const N: usize> {
    /// In the order of the counters.
    pub names: [&'static str; N],
    /// Of the fast path in user space.
    pub socket: [u64; N],
    /// The program's slot.
    pub slot: u32,
    /// Its map of counters.
    pub map: &'static str,
    /// Which of them counts replies.
    pub replies: usize,
}

/// Notes what a socket datapath counted.
pub fn set_counts(status: &mut ServiceStatus, counts: &SocketCounts) {
    status.set_fastpath_replies("socket", counts.fastpath_replies.load(Relaxed));
    status.set_drops("socket", counts.drops.each_ref().map(|count| count.load(Relaxed)));
    for (metric, count) in [
        (metric::HOST_REPLIES, &counts.host_replies),
        (metric::QUEUE_FULL, &counts.queue_full),
        (metric::OVERSIZE, &counts.oversize),
        (metric::AMPLIFICATION, &counts.amplification),
    ] {
        status.set_host(metric, count.load(Relaxed));
    }
}

/// A service's datapaths while it runs.
pub struct Front {
    /// User space.
    pub socket: SocketDatapath,
    line: Arc<Line>,
}

impl Front {
    /// The socket datapath, and the line that all services share.
    pub fn new(socket: SocketDatapath, line: &Arc<Line>) -> Self {
        Self {
            socket,
            line: Arc::clone(line),
        }
    }

    /// Where the fast path stands, in words.
    pub fn words(&self) -> String {
        match self.line.mode {
            Some(mode) => format!("xdp datapath, {} on {}", mode.name(), self.line.interface),
            None => "socket datapath".into(),
        }
    }

    /// Forgets the XDP datapath, which stays attached.
    pub fn keep(&self) -> bool {
        self.line.xdp().take().is_some()
    }

    /// Takes the XDP datapath off the interface, for all services. What goes wrong is said. Again is the same as once.
    pub fn detach(&self) {
        if let Some(mut xdp) = self.line.xdp().take()
            && let Err(error) = xdp.detach()
        {
            tell!("lineside: {error}; `lineside xdp detach` tries again");
        }
    }

    /// How it does, but for what only the service knows. What cannot be told is put among the `problems`.
    pub fn status<const N: usize>(
        &self,
        service: &str,
        lease_until_ns: &AtomicU64,
        counted: &Counted<N>,
        problems: &mut Vec<String>,
    ) -> ServiceStatus {
        let mut status = ServiceStatus {
            name: service.into(),
            datapath: if self.line.mode.is_some() { "xdp" } else { "socket" }.into(),
            listen: self.socket.local_addr().to_string(),
            interface: self.line.mode.map(|_| self.line.interface.clone()),
            mode: self.line.mode.map(|mode| mode.name().into()),
            lease_left_ms: Some(lease_until_ns.load(Relaxed).saturating_sub(lease::now_ns()) / 1_000_000),
            ..ServiceStatus::default()
        };
        let counts = self.socket.counts();
        status.set_counters("socket", counted.names.into_iter().zip(counted.socket));
        set_counts(&mut status, counts);
        if let Some(xdp) = self.line.xdp().as_mut() {
            let fastpath = xdp.counts::<N>(counted.map);
            let drops = xdp.drop_counts(Some(counted.slot));
            match (fastpath, drops) {
                (Ok(fastpath), Ok(drops)) => {
                    status.set_fastpath_replies("xdp", fastpath[counted.replies]);
                    status.set_counters("xdp", counted.names.into_iter().zip(fastpath));
                    status.set_drops("xdp", drops);
                }
                (Err(error), _) | (_, Err(error)) => problems.push(error.to_string()),
            }
        }
        status
    }
}
