//! The network around a NIC: a TAP device for the wire in the namespace of this process, and, in a network namespace
//! without a name, a second TAP device for the kernel that serves the frames that the NIC forwards.
//!
//! ```text
//!   this network namespace                 |            namespace without a name
//!   clients, ping -> kernel -> TAP `tap` <-> NIC <-> TAP `nic0` -> kernel -> sockets of the services
//! ```
//!
//! In one namespace this would not work: the kernel delivers frames to its own addresses over `lo`, so no frame for a
//! service would come to the TAP device. Nothing else has to move: a socket belongs to the namespace in which it was
//! created, whatever thread uses it.

use crate::address::{self, InterfaceAddress};
use crate::error::{RtlError, system};
use crate::tap::{Tap, control_socket, datagram_socket, set_up};
use lineside_wire::endpoint::Endpoint;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Name of the device on the side of the host. It is the only one in its namespace, apart from `lo`.
const HOST_DEVICE: &str = "nic0";

/// Description of the network around a NIC.
#[derive(Clone, Debug)]
pub struct NetworkPlan {
    /// Name of the TAP device in the namespace of the calling thread.
    pub tap: String,
    /// Addresses of this machine at the TAP device.
    pub clients: Vec<InterfaceAddress>,
    /// Addresses of the NIC, at which the services listen.
    pub own: Vec<InterfaceAddress>,
    /// Number of UDP sockets that the services need for each family: IPv4, IPv6.
    pub sockets: [usize; 2],
}

/// Devices and sockets around a NIC. Dropping it removes the devices, and the namespace with its last socket.
#[derive(Debug)]
pub struct NicNetwork {
    /// Device of the wire.
    pub(crate) wire: Tap,
    /// Device of the kernel that serves forwarded frames.
    pub(crate) host: Tap,
    /// UDP sockets of the namespace, not bound, for each family: IPv4, IPv6.
    pub sockets: [Vec<OwnedFd>; 2],
    /// Addresses of the NIC.
    pub endpoint: Endpoint,
}

impl NicNetwork {
    /// Creates the devices and the namespace. This needs CAP_NET_ADMIN and CAP_SYS_ADMIN; using them needs no rights.
    ///
    /// # Errors
    /// One variant of [`RtlError`] for each cause.
    pub fn create(plan: &NetworkPlan) -> Result<Self, RtlError> {
        let wire = Tap::create(&plan.tap)?;
        // A thread of its own enters the new namespace and ends. The device and the sockets keep the namespace.
        let (host, sockets) = std::thread::scope(|scope| {
            let making = scope.spawn(|| host_side(plan));
            making.join().unwrap_or_else(|_| {
                Err(RtlError::System {
                    what: "create a network namespace".into(),
                    source: io::Error::other("its thread ended early"),
                })
            })
        })?;
        let endpoint = endpoint_of(host.mac(), &plan.own).ok_or(RtlError::TooManyAddresses)?;
        let wire_index = wire.start(&plan.clients)?;
        for own in &plan.own {
            let towards = address::interface_towards(own.address)?;
            if towards != wire_index {
                return Err(RtlError::NetworkTaken {
                    nic: own.address,
                    interface: address::name_of(towards),
                });
            }
        }
        Ok(Self {
            wire,
            host,
            sockets,
            endpoint,
        })
    }

    /// Returns the name of the TAP device of the wire.
    pub fn name(&self) -> &str {
        self.wire.name()
    }
}

/// Returns the addresses of the NIC in the form of its registers.
fn endpoint_of(mac: [u8; 6], own: &[InterfaceAddress]) -> Option<Endpoint> {
    let addresses: Vec<IpAddr> = own.iter().map(|own| own.address).collect();
    let mut endpoint = Endpoint::new(mac, false, &addresses)?;
    for own in own {
        if let (IpAddr::V4(address), Some(broadcast)) = (own.address, own.broadcast()) {
            endpoint.set_broadcast(address, broadcast);
        }
    }
    Some(endpoint)
}

fn host_side(plan: &NetworkPlan) -> Result<(Tap, [Vec<OwnedFd>; 2]), RtlError> {
    // SAFETY: unshare accesses no memory, and the new namespace affects only this thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Err(system("create a network namespace")(io::Error::last_os_error()));
    }
    let tap = Tap::create(HOST_DEVICE)?;
    set_up(&control_socket(libc::AF_INET)?, "lo")?;
    tap.start(&plan.own)?;
    let sockets = |family, count| {
        let all: io::Result<Vec<_>> = (0..count).map(|_| datagram_socket(family)).collect();
        all.map_err(system("open the sockets of the services"))
    };
    let [v4, v6] = plan.sockets;
    Ok((tap, [sockets(libc::AF_INET, v4)?, sockets(libc::AF_INET6, v6)?]))
}
