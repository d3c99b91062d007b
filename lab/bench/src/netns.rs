//! Two network namespaces with a veth pair between them. The namespaces have no names: they exist only as long as
//! descriptors and threads use them, so that nothing remains even after `kill -9`.

use crate::error::{BenchError, Result, io};
use crate::sys;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

/// Interface of the client's end.
pub const CLIENT_INTERFACE: &str = "x0";
/// Interface of the server's end.
pub const SERVER_INTERFACE: &str = "x1";
/// Address of the client's end.
pub const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Address of the server's end.
pub const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// MAC of the client's end.
pub const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0a];
/// MAC of the server's end.
pub const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

/// Network namespace that exists as long as this value and the threads in it.
#[derive(Debug)]
pub struct Netns {
    handle: File,
}

impl Netns {
    /// Creates a namespace.
    ///
    /// # Errors
    /// [`BenchError::NotAllowed`] without the rights of root.
    pub fn new() -> Result<Self> {
        let open = || {
            sys::unshare_network()?;
            File::open("/proc/thread-self/ns/net")
        };
        let handle = on_thread(|| open().map_err(io("creating a network namespace")))?;
        Ok(Self { handle })
    }

    /// Moves the calling thread into the namespace until the thread ends.
    pub fn enter(&self) -> Result<()> {
        sys::enter_network(self.handle.as_fd()).map_err(io("entering a network namespace"))
    }

    /// Runs `work` on a new thread in this namespace, on the core `core`.
    pub fn run<T: Send>(&self, core: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.within(|| {
            sys::pin(core).map_err(io("pinning a thread"))?;
            work()
        })
    }

    /// Runs `work` on a new thread in this namespace, on any core.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        on_thread(|| {
            self.enter()?;
            work()
        })
    }
}

fn on_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Namespaces of the client and the server, joined by a veth pair whose addresses and neighbour entries are fixed.
#[derive(Debug)]
pub struct NamespacePair {
    /// Namespace of the client.
    pub client: Netns,
    /// Namespace of the server.
    pub server: Netns,
    /// Index of [`CLIENT_INTERFACE`] in `client`.
    pub client_index: u32,
    /// Index of [`SERVER_INTERFACE`] in `server`.
    pub server_index: u32,
}

impl NamespacePair {
    /// Creates the namespaces and the veth pair.
    ///
    /// # Errors
    /// Fails if the process has no root rights, or if the `ip` tool is not installed.
    pub fn new() -> Result<Self> {
        Self::with_queues(1)
    }

    /// Creates the pair with this number of queues in each direction, so that this number of cores can send and reply
    /// at the same time.
    ///
    /// # Errors
    /// The errors of [`NamespacePair::new`].
    pub fn with_queues(queues: usize) -> Result<Self> {
        let queues = format!("numtxqueues {queues} numrxqueues {queues}");
        let (client, server) = (Netns::new()?, Netns::new()?);
        let (client_mac, server_mac) = (text(&CLIENT_MAC), text(&SERVER_MAC));
        let there = format!("/proc/{}/fd/{}", std::process::id(), server.handle.as_raw_fd());
        let client_index = client.run(0, || {
            ip(&format!(
                "link add {CLIENT_INTERFACE} address {client_mac} {queues} type veth \
                 peer name {SERVER_INTERFACE} address {server_mac} {queues} netns {there}"
            ))?;
            up(CLIENT_INTERFACE, CLIENT_ADDRESS, SERVER_ADDRESS, &server_mac)
        })?;
        let server_index = server.run(0, || {
            up(SERVER_INTERFACE, SERVER_ADDRESS, CLIENT_ADDRESS, &client_mac)
        })?;
        Ok(Self {
            client,
            server,
            client_index,
            server_index,
        })
    }
}

fn up(interface: &str, own: Ipv4Addr, peer: Ipv4Addr, peer_mac: &str) -> Result<u32> {
    ip("link set lo up")?;
    ip(&format!("link set {interface} addrgenmode none"))?;
    ip(&format!("address add {own}/24 dev {interface}"))?;
    ip(&format!("link set {interface} up"))?;
    ip(&format!(
        "neighbour add {peer} lladdr {peer_mac} dev {interface} nud permanent"
    ))?;
    sys::turn_gro_on(interface).map_err(io("turning GRO on"))?;
    sys::interface_index(interface).map_err(io("finding the interface"))
}

/// Runs the `ip` tool in the calling thread's namespace.
fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    let output = output.map_err(io("running `ip` (package iproute2)"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BenchError::Command {
        command: format!("ip {arguments}"),
        said,
    })
}

fn text(mac: &[u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
