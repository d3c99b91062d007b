//! Batches of datagrams: one recvmmsg, one sendmmsg. The only `unsafe` of the socket plane.

use lineside_near::{PAYLOAD_BYTES_MAX, Reply};
use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams a batch.
pub const BATCH: usize = 64;
/// One byte more than a payload may have, so that a longer one shows.
const ROOM: usize = PAYLOAD_BYTES_MAX + 1;

/// Datagrams received together.
pub struct Batch {
    buffers: Box<[[u8; ROOM]; BATCH]>,
    names: Box<[libc::sockaddr_storage; BATCH]>,
    bytes: [usize; BATCH],
    len: usize,
}

impl Default for Batch {
    fn default() -> Self {
        // SAFETY: sockaddr_storage is a plain C struct; all zeros is a valid one.
        let name: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        Self {
            buffers: Box::new([[0; ROOM]; BATCH]),
            names: Box::new([name; BATCH]),
            bytes: [0; BATCH],
            len: 0,
        }
    }
}

impl Batch {
    /// Waits for a first datagram and takes what else is there; 0 after the socket's time-out.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.len = 0;
        let mut vectors: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            iov_base: self.buffers[index].as_mut_ptr().cast(),
            iov_len: ROOM,
        });
        let mut headers: [libc::mmsghdr; BATCH] =
            std::array::from_fn(|index| header(&mut vectors[index], &mut self.names[index], NAME_BYTES));
        // SAFETY: every header points to one vector and one name of this batch, which outlive the call.
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
        for (bytes, header) in self.bytes.iter_mut().zip(&headers).take(self.len) {
            *bytes = header.msg_len as usize;
        }
        Ok(self.len)
    }

    /// Datagram `index` of the batch: its sender, and its payload; `None`: it is too long, or its sender unknown.
    pub fn get(&self, index: usize) -> Option<(SocketAddr, &[u8])> {
        let payload = self.buffers[index].get(..self.bytes[index])?;
        let from = address(&self.names[index])?;
        (payload.len() <= PAYLOAD_BYTES_MAX).then_some((from, payload))
    }

    /// Sends `replies` to the senders of the datagrams they name. Returns how many left; the others are lost, as
    /// datagrams may be.
    pub fn send(&mut self, socket: &UdpSocket, replies: &mut [(usize, Reply)]) -> usize {
        let mut sent = 0;
        for chunk in replies.chunks_mut(BATCH) {
            let mut vectors: Vec<libc::iovec> = chunk
                .iter()
                .map(|(_, reply)| libc::iovec {
                    iov_base: reply.as_bytes().as_ptr().cast_mut().cast(),
                    iov_len: reply.as_bytes().len(),
                })
                .collect();
            let mut headers: Vec<libc::mmsghdr> = vectors
                .iter_mut()
                .zip(chunk.iter())
                .map(|(vector, (index, _))| {
                    let name = &mut self.names[*index];
                    let bytes = name_bytes(name);
                    header(vector, name, bytes)
                })
                .collect();
            // SAFETY: the headers point to vectors, names and replies that outlive the call; sendmmsg only reads them.
            let count = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    headers.as_mut_ptr(),
                    headers.len() as u32,
                    libc::MSG_DONTWAIT,
                )
            };
            sent += usize::try_from(count).unwrap_or(0);
        }
        sent
    }
}

const NAME_BYTES: libc::socklen_t = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;

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
    // SAFETY: mmsghdr is a plain C struct; all zeros is a valid one.
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
            // SAFETY: the family says that a sockaddr_in lies here, and the storage is larger and aligned for it.
            let v4 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in>() };
            let address = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::new(address.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let v6 = unsafe { &*std::ptr::from_ref(name).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(address, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}
