//! Receives and sends datagrams in batches with recvmmsg and sendmmsg. All `unsafe` code of the socket datapath is
//! here.

use lineside_fastpath::{PAYLOAD_BYTES_MAX, Reply};
use lineside_wire::frame::reply_ttl;
use lineside_wire::native;
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Maximum number of datagrams in a batch.
pub const BATCH: usize = 64;
/// Size of a receive buffer: one byte more than the maximum payload, so that a longer datagram is detected.
const BUFFER_BYTES: usize = PAYLOAD_BYTES_MAX + 1;
const SOCKADDR_BYTES: libc::socklen_t = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
/// Buffer size for two control messages: one with an in6_pktinfo, which is larger than an in_pktinfo, and one with a
/// time to live: CMSG_SPACE(20) and CMSG_SPACE(4).
const CONTROL_BYTES: usize = 40 + 24;

/// Buffer for control messages, aligned like cmsghdr.
#[repr(align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Source of a datagram, and the local address from which its reply must leave.
#[derive(Clone, Copy)]
pub struct ReplyAddress {
    /// Address and port of the sender.
    pub peer: SocketAddr,
    /// True if the datagram was sent to a broadcast or multicast address.
    pub to_broadcast_or_multicast: bool,
    /// True if the reply would have a time to live of 0.
    pub has_no_hop_left: bool,
    name: libc::sockaddr_storage,
    ancillary: Ancillary,
}

/// Ancillary data that the kernel delivered with a datagram.
#[derive(Clone, Copy)]
struct Ancillary {
    local: LocalAddress,
    /// Time to live (IPv4) or hop limit (IPv6) with which the datagram arrived.
    ttl: Option<u8>,
}

impl Ancillary {
    const NONE: Self = Self {
        local: LocalAddress::Bound,
        ttl: None,
    };
}

/// Address of this machine to which a datagram was sent. Known only on sockets that are bound to the unspecified
/// address.
#[derive(Clone, Copy)]
enum LocalAddress {
    /// Not reported: the socket is bound to one address.
    Bound,
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

/// Datagrams that were received together.
pub struct Batch {
    buffers: Box<[[u8; BUFFER_BYTES]; BATCH]>,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    controls: Box<[Control; BATCH]>,
    bytes: [usize; BATCH],
    ancillary: [Ancillary; BATCH],
    len: usize,
}

fn no_name() -> libc::sockaddr_storage {
    // SAFETY: sockaddr_storage is a plain C struct, for which all zeros are a valid value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            buffers: Box::new([[0; BUFFER_BYTES]; BATCH]),
            names: Box::new([no_name(); BATCH]),
            controls: Box::new([Control([0; CONTROL_BYTES]); BATCH]),
            bytes: [0; BATCH],
            ancillary: [Ancillary::NONE; BATCH],
            len: 0,
        }
    }
}

/// Makes the kernel report, for each datagram of `socket`, to which address of this machine it was sent.
pub fn report_destinations(socket: &UdpSocket, v6: bool) -> io::Result<()> {
    // A v6 socket receives IPv4 datagrams with mapped addresses and reports them in an in6_pktinfo.
    let (level, name) = match v6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        false => (libc::IPPROTO_IP, libc::IP_PKTINFO),
    };
    set_option(socket, level, name, 1)
}

/// Makes the kernel report for each datagram of `socket` its time to live.
pub fn report_ttl(socket: &UdpSocket, v6: bool) -> io::Result<()> {
    if v6 {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    }
    // A v6 socket receives IPv4 datagrams too.
    set_option(socket, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)
}

/// Sets the send buffer of `socket` to `bytes`. Without CAP_NET_ADMIN the kernel limits it to `net.core.wmem_max`.
pub fn grow_send_buffer(socket: &UdpSocket, bytes: libc::c_int) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, bytes)
        .or_else(|_| set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes))
}

fn set_option(
    socket: &UdpSocket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor of `socket` is open, and the option's value is one int that lives during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns the number of bytes in the send buffer of `socket`: memory of datagrams that the kernel has not sent yet.
pub fn queued_bytes(socket: &UdpSocket) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor of `socket` is open, and the call writes only the int `bytes`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, std::ptr::from_mut(&mut bytes)) };
    if result == 0 {
        usize::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}

impl Batch {
    /// Waits for a first datagram and takes all others that have already arrived. Returns the number of datagrams, or 0
    /// if the socket's timeout passed.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.len = 0;
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            iov_base: self.buffers[index].as_mut_ptr().cast(),
            iov_len: BUFFER_BYTES,
        });
        let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|index| {
            let mut header = header(&mut vectors[index], &mut self.names[index], SOCKADDR_BYTES);
            header.msg_hdr.msg_control = self.controls[index].0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL_BYTES;
            header
        });
        // SAFETY: every header points to one vector, name and control buffer of this batch, all of which outlive the
        // call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused => {
                    Ok(0)
                }
                _ => Err(error),
            };
        }
        self.len = count as usize;
        for (index, header) in headers.iter().enumerate().take(self.len) {
            self.bytes[index] = header.msg_len as usize;
            self.ancillary[index] = read_ancillary(&header.msg_hdr);
        }
        Ok(self.len)
    }

    /// Returns the reply address and the payload of datagram `index`. Returns `None` if the payload is too long or the
    /// sender is unknown.
    pub fn get(&self, index: usize) -> Option<(ReplyAddress, &[u8])> {
        let payload = self.buffers[index].get(..self.bytes[index])?;
        let ancillary = self.ancillary[index];
        let reply_address = ReplyAddress {
            peer: address(&self.names[index])?,
            to_broadcast_or_multicast: ancillary.local.is_broadcast_or_multicast(),
            has_no_hop_left: ancillary.ttl.is_some_and(|ttl| reply_ttl(payload, ttl) == 0),
            name: self.names[index],
            ancillary,
        };
        (payload.len() <= PAYLOAD_BYTES_MAX).then_some((reply_address, payload))
    }

    /// Returns the source address of datagram `index`, or `None` if the kernel did not report it.
    pub fn sender(&self, index: usize) -> Option<IpAddr> {
        address(&self.names[index]).map(|peer| peer.ip())
    }

    /// Sends `replies`, at most [`BATCH`], each with the index of the datagram that it answers. Does not block. Returns
    /// the number of replies that were sent; the others are lost, as UDP datagrams may be.
    pub fn send(&mut self, socket: &UdpSocket, replies: &[(usize, Reply)]) -> usize {
        if replies.is_empty() {
            return 0;
        }
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|at| match replies.get(at) {
            Some((_, reply)) => vector(reply.as_bytes()),
            None => vector(&[]),
        });
        let count = replies.len().min(BATCH);
        let mut headers: [libc::mmsghdr; BATCH] = std::array::from_fn(|at| {
            let index = replies.get(at).map_or(0, |(index, _)| *index);
            let bytes = name_bytes(&self.names[index]);
            let mut header = header(&mut vectors[at], &mut self.names[index], bytes);
            if at < count {
                self.ancillary[index].put(
                    &mut header.msg_hdr,
                    &mut self.controls[index],
                    replies[at].1.as_bytes(),
                );
            }
            header
        });
        send_headers(socket, &mut headers[..count])
    }
}

/// Sends the messages that the headers describe, without blocking. Returns the number of messages that were sent.
fn send_headers(socket: &UdpSocket, headers: &mut [libc::mmsghdr]) -> usize {
    let (mut sent, mut unsent) = (0, 0);
    while sent + unsent < headers.len() {
        let rest = &mut headers[sent + unsent..];
        // SAFETY: the headers point to vectors, names and control buffers that outlive the call, and the call only
        // reads them.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                rest.as_mut_ptr(),
                rest.len() as u32,
                libc::MSG_DONTWAIT,
            )
        };
        match usize::try_from(result) {
            Ok(more) if more > 0 => sent += more,
            // The send buffer is full, so the following datagrams cannot be sent either.
            _ if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => break,
            // The error concerns the first datagram only, such as one to an unreachable address: skip it.
            _ => unsent += 1,
        }
    }
    sent
}

/// Sends each reply to its address, without blocking. Returns the number of replies that were sent; the others are
/// lost.
pub fn send_all(socket: &UdpSocket, replies: &[(&ReplyAddress, Vec<u8>)]) -> usize {
    let chunks = replies.chunks(BATCH);
    chunks.map(|chunk| send_chunk(socket, chunk)).sum()
}

fn send_chunk(socket: &UdpSocket, replies: &[(&ReplyAddress, Vec<u8>)]) -> usize {
    let mut names = [no_name(); BATCH];
    let mut controls = [Control([0; CONTROL_BYTES]); BATCH];
    let mut vectors = [vector(&[]); BATCH];
    let mut headers: Vec<libc::mmsghdr> = Vec::with_capacity(replies.len());
    let parts = names.iter_mut().zip(&mut controls).zip(&mut vectors);
    for ((reply_address, reply), ((name, control), vector_of)) in replies.iter().zip(parts) {
        (*name, *vector_of) = (reply_address.name, vector(reply));
        let bytes = name_bytes(name);
        let mut header = header(vector_of, name, bytes);
        reply_address.ancillary.put(&mut header.msg_hdr, control, reply);
        headers.push(header);
    }
    send_headers(socket, &mut headers)
}

impl LocalAddress {
    /// Returns true if the datagram was sent to a broadcast or multicast address, which is not an address of this
    /// machine.
    fn is_broadcast_or_multicast(&self) -> bool {
        match self {
            Self::Bound => false,
            Self::V4(info) => info.ipi_addr.s_addr != info.ipi_spec_dst.s_addr,
            Self::V6(info) => Ipv6Addr::from(info.ipi6_addr.s6_addr).is_multicast(),
        }
    }
}

impl Ancillary {
    /// Writes the control messages of a reply: the local address that it leaves from, if the socket has several, and
    /// the time to live of a reply in a paper format ([`reply_ttl`]).
    fn put(&self, header: &mut libc::msghdr, control: &mut Control, reply: &[u8]) {
        header.msg_control = std::ptr::null_mut();
        header.msg_controllen = 0;
        match self.local {
            LocalAddress::Bound => {}
            LocalAddress::V4(info) => {
                let from = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: info.ipi_addr,
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                put_control(header, control, libc::IPPROTO_IP, libc::IP_PKTINFO, from);
            }
            LocalAddress::V6(info) => {
                put_control(header, control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
        if let Some(ttl) = self.ttl
            && !native::is_native(reply)
        {
            let ttl = libc::c_int::from(reply_ttl(reply, ttl));
            // SAFETY: every `msg_name` that a header of this module points to is a sockaddr_storage.
            let is_v6 = is_v6(unsafe { &*header.msg_name.cast::<libc::sockaddr_storage>() });
            let (level, kind) = match is_v6 {
                true => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
                false => (libc::IPPROTO_IP, libc::IP_TTL),
            };
            put_control(header, control, level, kind, ttl);
        }
    }
}

/// Returns true if a datagram to `name` is sent over IPv6, and not over IPv4 by a mapped address.
fn is_v6(name: &libc::sockaddr_storage) -> bool {
    address(name).is_some_and(|peer| peer.ip().to_canonical().is_ipv6())
}

/// Appends a control message to those that `header` has.
fn put_control<T: Copy>(
    header: &mut libc::msghdr,
    control: &mut Control,
    level: libc::c_int,
    kind: libc::c_int,
    data: T,
) {
    let at = header.msg_controllen;
    header.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CONTROL_BYTES is large enough for all messages that `Ancillary::put` adds, so `at` and the message lie
    // within `control`. `Control` is aligned like cmsghdr, and CMSG_SPACE keeps the following messages aligned.
    unsafe {
        header.msg_controllen = at + libc::CMSG_SPACE(mem::size_of::<T>() as u32) as usize;
        let message = control.0.as_mut_ptr().add(at).cast::<libc::cmsghdr>();
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = libc::CMSG_LEN(mem::size_of::<T>() as u32) as _;
        libc::CMSG_DATA(message).cast::<T>().write_unaligned(data);
    }
}

/// Reads the control messages of a received header.
fn read_ancillary(header: &libc::msghdr) -> Ancillary {
    let mut ancillary = Ancillary::NONE;
    // SAFETY: the kernel has filled the header and its control messages. CMSG_FIRSTHDR and CMSG_NXTHDR return null
    // after the last message.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    ancillary.local = LocalAddress::V4(data.cast::<libc::in_pktinfo>().read_unaligned());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    ancillary.local = LocalAddress::V6(data.cast::<libc::in6_pktinfo>().read_unaligned());
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    ancillary.ttl = u8::try_from(data.cast::<libc::c_int>().read_unaligned()).ok();
                }
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    ancillary
}

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

fn name_bytes(name: &libc::sockaddr_storage) -> libc::socklen_t {
    match i32::from(name.ss_family) {
        libc::AF_INET => mem::size_of::<libc::sockaddr_in>() as libc::socklen_t,
        _ => mem::size_of::<libc::sockaddr_in6>() as libc::socklen_t,
    }
}

fn header(
    vector: &mut libc::iovec,
    name: &mut libc::sockaddr_storage,
    bytes: libc::socklen_t,
) -> libc::mmsghdr {
    // SAFETY: mmsghdr is a plain C struct, for which all zeros are a valid value.
    let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
    header.msg_hdr.msg_namelen = bytes;
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the address family says that this is a sockaddr_in, and sockaddr_storage is large enough and
            // aligned for it.
            let v4 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(address.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the address family says that this is a sockaddr_in6, and sockaddr_storage is large enough and
            // aligned for it.
            let v6 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(address, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
