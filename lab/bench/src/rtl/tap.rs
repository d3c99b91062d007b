//! Rate of the simulated NIC at a TAP device. One client keeps a fixed number of requests in the paper's format in
//! flight, and checks every reply. Each request is a hit.

use super::measure::root_of;
use super::report::TapFigures;
use crate::error::{BenchError, Result, io, void};
use crate::gate::median;
use crate::netns::{CLIENT_ADDRESS, Netns, SERVER_ADDRESS};
use crate::sys;
use lineside_conformance::rtl::setup_commands;
use lineside_conformance::spv::Spv;
use lineside_rtl::{
    Bridge, CommandQueue, InterfaceAddress, NetworkPlan, NicDesign, NicNetwork, simulated_nic,
};
use lineside_spv::store::{Hash, Store};
use lineside_wire::SPV_PORT;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Numbers of requests in flight.
const WINDOWS: [usize; 6] = [1, 16, 64, 128, 256, 512];
/// Number of requests before the first measurement.
const WARM_UP: usize = 1000;
/// Receive buffer of the client in bytes, which has room for all replies in flight.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Time after which a reply counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns the figures by the number of requests in flight: medians of `rounds` rounds, each of which measures every
/// number of [`WINDOWS`] once. `store` contains `known`. A measurement sends `requests` requests; with up to 16
/// requests in flight, which take longer, an eighth of them.
///
/// # Errors
/// [`BenchError::NotAllowed`] or [`BenchError::NotMeasured`] if there can be no TAP device here; another error if a
/// reply is wrong or lost, or a system call fails.
pub fn measure(
    store: &Store,
    known: &[Hash],
    requests: usize,
    rounds: usize,
) -> Result<BTreeMap<usize, TapFigures>> {
    Netns::new()?.within(|| {
        let network =
            NicNetwork::create(&plan()).map_err(|error| BenchError::NotMeasured(error.to_string()))?;
        let queue = Arc::new(CommandQueue::new().map_err(io("creating the queue of commands"))?);
        let commands = setup_commands::<Spv>(store, &network.endpoint, SPV_PORT);
        let nic = simulated_nic(NicDesign::Spv).map_err(void)?;
        let bridge =
            Bridge::start(nic, network, Arc::clone(&queue)).map_err(io("starting the thread of the NIC"))?;
        queue.add(&commands);
        queue.flush();
        let client = Client::new(known).map_err(io("opening the socket of the client"))?;
        client.ask(WARM_UP, 1)?;
        let mut all: BTreeMap<usize, Vec<TapFigures>> = BTreeMap::new();
        for _ in 0..rounds.max(1) {
            for window in WINDOWS {
                let requests = if window > 16 {
                    requests
                } else {
                    requests.div_ceil(8)
                };
                let figures = one_round(&bridge, &client, requests, window)?;
                all.entry(window).or_default().push(figures);
            }
        }
        Ok(all
            .into_iter()
            .map(|(window, rounds)| (window, median_of(&rounds)))
            .collect())
    })
}

fn plan() -> NetworkPlan {
    let address = |address: Ipv4Addr| InterfaceAddress {
        address: address.into(),
        prefix_bits: 24,
    };
    NetworkPlan {
        tap: "lineside0".into(),
        clients: vec![address(CLIENT_ADDRESS)],
        own: vec![address(SERVER_ADDRESS)],
        sockets: [0, 0],
    }
}

fn one_round(bridge: &Bridge, client: &Client<'_>, requests: usize, window: usize) -> Result<TapFigures> {
    let (before, processor_before_ns) = (bridge.counts().all(), sys::process_ns());
    let replies_per_s = client.ask(requests, window)?;
    let processor_ns = sys::process_ns() - processor_before_ns;
    let grown: BTreeMap<_, _> = bridge
        .counts()
        .all()
        .into_iter()
        .zip(before)
        .map(|((name, now), (_, before))| (name, (now - before) as f64))
        .collect();
    let each = |name: &str| grown[name] / grown["from_wire"];
    Ok(TapFigures {
        replies_per_s,
        read_ns: each("read_ns"),
        nic_ns: each("nic_ns"),
        nic_cycles: each("cycles"),
        write_ns: each("write_ns"),
        processor_ns: processor_ns as f64 / requests as f64,
    })
}

fn median_of(rounds: &[TapFigures]) -> TapFigures {
    let of = |figure: fn(&TapFigures) -> f64| median(rounds.iter().map(figure)).unwrap_or_default();
    TapFigures {
        replies_per_s: of(|round| round.replies_per_s),
        read_ns: of(|round| round.read_ns),
        nic_ns: of(|round| round.nic_ns),
        nic_cycles: of(|round| round.nic_cycles),
        write_ns: of(|round| round.write_ns),
        processor_ns: of(|round| round.processor_ns),
    }
}

struct Client<'a> {
    socket: UdpSocket,
    known: &'a [Hash],
}

impl<'a> Client<'a> {
    fn new(known: &'a [Hash]) -> std::io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((SERVER_ADDRESS, SPV_PORT))?;
        sys::force_receive_buffer(&socket, RECEIVE_BUFFER)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket, known })
    }

    /// Sends `requests` requests with at most `window` of them in flight, and checks every reply. Returns the replies
    /// in a second.
    fn ask(&self, requests: usize, window: usize) -> Result<f64> {
        let (mut sent, mut right, mut reply) = (0, 0, [0; 64]);
        let begin = Instant::now();
        while right < requests {
            while sent < requests && sent - right < window {
                let txid = &self.known[sent % self.known.len()];
                self.socket.send(txid).map_err(io("sending a request"))?;
                sent += 1;
            }
            let bytes = self
                .socket
                .recv(&mut reply)
                .map_err(|error| void(format!("reply {right} did not come: {error}")))?;
            // The NIC answers in the order of the requests, and requests in succession have different answers.
            if reply[..bytes] != root_of(right % self.known.len()) {
                return Err(void(format!(
                    "reply {right} is wrong, or the one before it was lost"
                )));
            }
            right += 1;
        }
        Ok(requests as f64 / begin.elapsed().as_secs_f64())
    }
}
