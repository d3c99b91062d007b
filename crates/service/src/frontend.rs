//! Frontend of a service: its socket datapath, and the XDP programs or the NIC that answer before it.

use crate::{NicAttachment, ServiceStatus, StartContext, StatusBuilder, XdpAttachment};
use lineside_fastpath::lease;
use lineside_net::SocketDatapath;
use lineside_util::counted;
use lineside_wire::metric;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Time after a refused connection for which the process counts as unhealthy.
const RECENT: Duration = Duration::from_secs(60);

/// The socket datapath of a running service, and the XDP programs or the NIC that answer before it.
pub struct Frontend {
    /// Socket datapath of the service.
    pub socket: SocketDatapath,
    attachment: Arc<XdpAttachment>,
    /// NIC in which the fast path answers; `None` on the other datapaths.
    nic: Option<Arc<NicAttachment>>,
    stall: Duration,
}

/// Counters of a fast path: the values of the fast path in user space, and the location of the counters with the same
/// names that the XDP program keeps.
pub struct Counted<const N: usize> {
    /// Names of the counters, in their order.
    pub names: [&'static str; N],
    /// Counters of the fast path in user space.
    pub socket: [u64; N],
    /// Slot of the XDP program.
    pub slot: u32,
    /// BPF map that holds the counters of the XDP program.
    pub map: &'static str,
    /// Index of the counter of replies.
    pub replies: usize,
}

impl Frontend {
    /// Connects the socket datapath of a service with the XDP programs of all services.
    pub fn new(socket: SocketDatapath, context: &StartContext) -> Self {
        Self {
            nic: context.nic_of(socket.local_addr()).cloned(),
            socket,
            attachment: Arc::clone(&context.attachment),
            stall: context.datapath.stall(),
        }
    }

    /// Returns a short description of where the fast path answers.
    pub fn description(&self) -> String {
        if let Some(nic) = &self.nic {
            return format!("rtl datapath, {SIMULATED} on {}", nic.tap());
        }
        let attached = self.attachment.attached(self.socket.local_addr());
        if attached.is_empty() {
            return "socket datapath".into();
        }
        let places = attached
            .iter()
            .map(|(interface, mode)| format!("{} on {interface}", mode.name()));
        format!("xdp datapath, {}", places.collect::<Vec<_>>().join(", "))
    }

    /// Returns the parts of the status that all services have. If a counter cannot be read, adds a problem to `out`.
    pub fn status<const N: usize>(
        &self,
        service: &str,
        lease_until_ns: &AtomicU64,
        counted: &Counted<N>,
        out: &mut StatusBuilder,
    ) -> ServiceStatus {
        let listen = self.socket.local_addr();
        let attached = self.attachment.attached(listen);
        let mut status = ServiceStatus {
            name: service.into(),
            datapath: match &self.nic {
                Some(_) => "rtl",
                None if attached.is_empty() => "socket",
                None => "xdp",
            }
            .into(),
            listen: listen.to_string(),
            lease_left_ms: Some(lease_until_ns.load(Relaxed).saturating_sub(lease::now_ns()) / 1_000_000),
            ..ServiceStatus::default()
        };
        status.set_interfaces(attached.into_iter().map(|(name, mode)| (name, mode.name())));
        status.set_counters("socket", counted.names.into_iter().zip(counted.socket));
        set_socket_counts(&mut status, &self.socket);
        out.problems
            .extend(stall_problem(service, &self.socket, self.stall));
        add_connections(&mut status, &self.socket, out);
        match self.attachment.counts::<N>(counted.map, counted.slot) {
            Some(Ok((fastpath, drops))) => {
                status.set_fastpath_replies("xdp", fastpath[counted.replies]);
                status.set_counters("xdp", counted.names.into_iter().zip(fastpath));
                status.set_drops("xdp", drops);
            }
            Some(Err(error)) => out.problems.push(error.to_string()),
            None => {}
        }
        if let Some(nic) = &self.nic {
            add_nic(&mut status, nic, counted, out);
        }
        status
    }
}

/// Mode of the NIC in a status.
const SIMULATED: &str = "simulated NIC";

/// Adds the counters of a service in the NIC to a status.
fn add_nic<const N: usize>(
    status: &mut ServiceStatus,
    nic: &NicAttachment,
    counted: &Counted<N>,
    out: &mut StatusBuilder,
) {
    status.interface = Some(nic.tap().into());
    status.mode = Some(SIMULATED.into());
    if let Some((fastpath, drops)) = nic.counts::<N>(counted.slot) {
        status.set_fastpath_replies("rtl", fastpath[counted.replies]);
        status.set_counters("rtl", counted.names.into_iter().zip(fastpath));
        status.set_drops("rtl", drops);
    }
    let figures = nic.figures().into_iter();
    let figures: serde_json::Map<_, _> = figures.map(|(name, value)| (name.into(), value.into())).collect();
    status.details.insert("nic".into(), figures.into());
    out.problems.extend(nic.problem());
}

/// Returns the problem of a service whose host has answered nothing for at least `stall`, or `None` if it works.
pub fn stall_problem(service: &str, socket: &SocketDatapath, stall: Duration) -> Option<String> {
    let stalled = socket.stalled();
    (stalled >= stall).then(|| {
        let (seconds, waiting) = (stalled.as_secs(), socket.waiting());
        format!(
            "{service}: the host has answered nothing for {seconds} s while {} waited for it",
            counted(waiting, "request")
        )
    })
}

/// Adds the number of TCP connections to the status, if the service accepts any. Adds a warning if at least four fifths
/// of the maximum number are open, and a problem if a new client was refused within the last [`RECENT`].
fn add_connections(status: &mut ServiceStatus, socket: &SocketDatapath, out: &mut StatusBuilder) {
    let Some(places) = socket.connections_max() else {
        return;
    };
    let (service, counts) = (&status.name, socket.counts());
    let open = counts.connections.load(Relaxed);
    if open * 5 >= places as u64 * 4 {
        let what = format!("{service}: {open} of at most {places} TCP connections are open");
        out.warnings.push(what);
    }
    if socket.since_refusal().is_some_and(|since| since < RECENT) {
        let what = format!("{service}: TCP connections are refused, because the maximum of {places} is open");
        out.problems.push(what);
    }
    status.set_host(metric::CONNECTIONS, open);
    status.set_host(
        metric::CONNECTIONS_REFUSED,
        counts.connections_refused.load(Relaxed),
    );
}

/// Adds the counters and histograms of a socket datapath to a status.
pub fn set_socket_counts(status: &mut ServiceStatus, socket: &SocketDatapath) {
    let counts = socket.counts();
    status.set_fastpath_replies("socket", counts.fastpath_replies.load(Relaxed));
    status.set_drops("socket", counts.drops.each_ref().map(|count| count.load(Relaxed)));
    for (metric, count) in [
        (metric::HOST_REPLIES, &counts.host_replies),
        (metric::QUEUE_FULL, &counts.queue_full),
        (metric::UNSENT, &counts.unsent),
        (metric::OVERSIZE, &counts.oversize),
        (metric::AMPLIFICATION, &counts.amplification),
    ] {
        status.set_host(metric, count.load(Relaxed));
    }
    status.passed_to_host = Some(socket.passed_to_host());
    status.set_histogram(metric::HOST_LATENCY, counts.host_latency.read());
    if socket.takes_batches() {
        status.set_histogram(metric::HOST_BATCH, counts.host_batch.read());
    }
    if let Some(lag) = socket.durability_lag() {
        status.durability_lag_ns = Some(lag.as_nanos() as u64);
    }
}
