//! An interface with the services that answer there, and its description for the root program.

use super::{Interface, SLOTS};
use lineside_wire::endpoint::{ADDRESSES_MAX, Endpoint};

/// An interface to which a root program is attached, and the UDP ports of the services that answer there.
#[derive(Clone, Debug)]
pub struct Site {
    /// The interface.
    pub interface: Interface,
    /// Ports of the services that answer at this interface. Requests to other services are passed to the kernel.
    pub ports: Vec<u16>,
}

/// Returns the value of the endpoint map: the bytes of `struct ls_endpoint` in `xdp/root.h`.
pub fn endpoint_bytes(endpoint: &Endpoint, ports: &[u16; SLOTS]) -> Vec<u8> {
    let mut value = Vec::with_capacity(224);
    value.extend_from_slice(&endpoint.mac);
    value.extend_from_slice(&[endpoint.loopback.into(), 0]);
    ports
        .iter()
        .for_each(|port| value.extend_from_slice(&port.to_be_bytes()));
    let (mut v4, mut v6): (Vec<_>, Vec<_>) =
        (endpoint.v4_with_broadcasts().collect(), endpoint.v6().collect());
    v4.sort_by_key(|(own, _)| !endpoint.answers((*own).into()));
    v6.sort_by_key(|own| !endpoint.answers((*own).into()));
    let v4_answered = v4
        .iter()
        .filter(|(own, _)| endpoint.answers((*own).into()))
        .count();
    let v6_answered = v6.iter().filter(|own| endpoint.answers((**own).into())).count();
    for count in [v4_answered, v6_answered, v4.len(), v6.len()] {
        value.extend_from_slice(&(count as u32).to_ne_bytes());
    }
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(&v4.get(index).map_or([0; 4], |(own, _)| own.octets()));
    }
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(
            &v4.get(index)
                .map_or([255; 4], |(_, broadcast)| broadcast.octets()),
        );
    }
    for index in 0..ADDRESSES_MAX {
        value.extend_from_slice(&v6.get(index).map_or([0; 16], |address| address.octets()));
    }
    value
}
