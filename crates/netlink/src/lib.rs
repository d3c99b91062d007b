//! Requests to the kernel about addresses and neighbours of this network namespace, over netlink.
//!
//! ```
//! use lineside_netlink::Netlink;
//! use netlink_packet_route::RouteNetlinkMessage;
//! use netlink_packet_route::address::AddressMessage;
//!
//! let netlink = Netlink::open()?;
//! let addresses = netlink.list(RouteNetlinkMessage::GetAddress(AddressMessage::default()))?;
//! println!("this namespace has {} addresses", addresses.len());
//! # Ok::<(), std::io::Error>(())
//! ```

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Size of the buffer for reading the socket. The kernel sends at most 32 KiB in one message.
const BUFFER_BYTES: usize = 64 << 10;

/// Number of times that a list is read again if it changed while the kernel sent it.
const LIST_REPETITIONS: usize = 8;

/// Connection to the kernel. Reading needs no privileges; creating needs CAP_NET_ADMIN.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    /// Number of the last request. Messages with another number answer earlier requests, whose caller has given up.
    sequence: AtomicU32,
}

impl Netlink {
    /// Opens a connection for the network namespace of the calling thread.
    ///
    /// # Errors
    /// The system's error if the socket cannot be opened.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: AtomicU32::new(0),
        })
    }

    /// Returns all objects of the kind that `request` asks for.
    ///
    /// # Errors
    /// The system's error, `InvalidData` for a message that cannot be parsed, or `Interrupted` if the objects changed
    /// each time that they were read.
    pub fn list(&self, request: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..LIST_REPETITIONS {
            match self.request(request.clone(), NLM_F_DUMP) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Returns the object that `request` asks for.
    ///
    /// # Errors
    /// See [`Netlink::list`]; `NotFound` if the kernel confirms the request without an object.
    pub fn get(&self, request: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        let found = self.request(request, NLM_F_ACK)?;
        found.into_iter().next().ok_or(io::ErrorKind::NotFound.into())
    }

    /// Creates the object in `request`, which must not exist.
    ///
    /// # Errors
    /// See [`Netlink::list`].
    pub fn create(&self, request: RouteNetlinkMessage) -> io::Result<()> {
        self.request(request, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
            .map(drop)
    }

    fn request(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence.fetch_add(1, Relaxed).wrapping_add(1);
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(request));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut found = Vec::new();
        let mut is_changed = false;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let size = self.socket.recv(&mut &mut buffer[..], 0)?;
            let mut rest = buffer.get(..size).unwrap_or_default();
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest);
                let message = message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                if message.header.sequence_number == header.sequence_number {
                    is_changed |= message.header.flags & NLM_F_DUMP_INTR != 0;
                    match message.payload {
                        NetlinkPayload::Done(_) if is_changed => {
                            return Err(io::ErrorKind::Interrupted.into());
                        }
                        NetlinkPayload::Done(done) if done.code != 0 => {
                            return Err(io::Error::from_raw_os_error(-done.code));
                        }
                        NetlinkPayload::Done(_) => return Ok(found),
                        // An error without a code confirms a request with NLM_F_ACK.
                        NetlinkPayload::Error(error) if error.code.is_none() => return Ok(found),
                        NetlinkPayload::Error(error) => return Err(error.to_io()),
                        NetlinkPayload::InnerMessage(object) => found.push(object),
                        _ => {}
                    }
                }
                // Messages are aligned to four bytes, so the next message begins at a multiple of four.
                let bytes = (message.header.length as usize).next_multiple_of(4).max(4);
                rest = rest.get(bytes..).unwrap_or_default();
            }
        }
    }
}
