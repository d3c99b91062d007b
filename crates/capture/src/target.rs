//! Endpoint to which the requests of a capture were sent.

use crate::pcap::{Reader, Record};
use lineside_wire::SERVICE_PORTS;
use lineside_wire::endpoint::{ADDRESSES_MAX, Endpoint};
use lineside_wire::frame;
use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};

/// Endpoint for which the fast path answers the frames of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// MAC address to which its frames are sent.
    pub mac: [u8; 6],
    /// UDP port to which its requests are sent.
    pub port: u16,
    /// IP addresses to which its requests are sent, the most frequent one first.
    pub addresses: Vec<IpAddr>,
}

/// Reason why a capture has no endpoint for the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTarget {
    /// The capture has no UDP datagram, or none to this address.
    #[error("no UDP datagram{} in the capture", .0.map_or(String::new(), |to| format!(" to {to}")))]
    NoDatagram(Option<SocketAddr>),
    /// Most datagrams were sent to this port, which is the default port of another service.
    #[error(
        "most datagrams of the capture were sent to port {0}, which is the port of another service; choose that \
         service if the command has it, or give --to ADDR:PORT if the service of this command listens there"
    )]
    OtherService(u16),
}

impl Target {
    /// Returns the endpoint to which most UDP datagrams of the capture were sent; destinations with the port `port` are
    /// preferred. If `to` is given, only its MAC address is searched for. If the capture is damaged in the middle, it
    /// is read up to the damage.
    ///
    /// # Errors
    /// One variant of [`NoTarget`] for each cause. A port that was given in `to` is never that of another service.
    pub fn find<R: Read>(
        capture: &mut Reader<R>,
        port: u16,
        to: Option<SocketAddr>,
    ) -> Result<Self, NoTarget> {
        let mut frames: HashMap<([u8; 6], u16), HashMap<IpAddr, u64>> = HashMap::new();
        let mut record = Record::default();
        // An error here is ignored, because the caller reads the capture again and reports faults of the capture.
        while let Ok(true) = capture.next(&mut record) {
            let (Some(mac), Some(found)) = (record.frame.first_chunk(), frame::parse(&record.frame)) else {
                continue;
            };
            let wanted =
                to.is_none_or(|to| (found.destination, found.destination_port) == (to.ip(), to.port()));
            if wanted && mac[0] & 1 == 0 {
                let place = frames.entry((*mac, found.destination_port)).or_default();
                *place.entry(found.destination).or_default() += 1;
            }
        }
        // If two targets are equally frequent, their values decide, so that the same capture always has the same
        // target.
        let best = frames
            .into_iter()
            .max_by_key(|(key, addresses)| (key.1 == port, addresses.values().sum::<u64>(), *key));
        let ((mac, found), addresses) = best.ok_or(NoTarget::NoDatagram(to))?;
        if to.is_none() && found != port && SERVICE_PORTS.contains(&found) {
            return Err(NoTarget::OtherService(found));
        }
        let mut addresses: Vec<_> = addresses.into_iter().collect();
        addresses.sort_by_key(|(address, count)| (std::cmp::Reverse(*count), *address));
        let mut addresses: Vec<_> = addresses.into_iter().map(|(address, _)| address).collect();
        for v4 in [true, false] {
            let mut kept = 0;
            addresses.retain(|address| {
                kept += usize::from(address.is_ipv4() == v4);
                address.is_ipv4() != v4 || kept <= ADDRESSES_MAX
            });
        }
        Ok(Self {
            mac,
            port: found,
            addresses,
        })
    }

    /// Returns the interface of the fast path. It is `lo` if the capture was made there.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.mac, self.mac == [0; 6], &self.addresses).unwrap_or_default()
    }
}
