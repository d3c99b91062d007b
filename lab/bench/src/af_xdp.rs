//! AF_XDP client: it writes whole frames and bypasses the socket stack. It uses copy mode, the only mode that a veth
//! interface supports. One of the two modules with `unsafe` in this crate.

use crate::bpf::{Generator, SPV_FRAME_BYTES, SendPlan, template};
use crate::client::{ClosedLoop, Flight, Tally};
use crate::error::{Result, bpf, io};
use crate::sys;
use crate::workload::Workload;
use libbpf_rs::{MapCore, MapFlags};
use lineside_wire::SPV_PORT;
use std::io::{Error, ErrorKind};
use std::mem::{self, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const FRAME_BYTES: usize = 2048;
/// Number of frames for each direction, and number of entries of each ring.
const FRAMES: u32 = 1024;
const PAYLOAD_AT: usize = SPV_FRAME_BYTES - 32;
const BURST: usize = 64;
/// Maximum time to wait until the interface's queue is free.
const BIND_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two attempts to bind the socket.
const BIND_PAUSE: Duration = Duration::from_millis(20);

/// Sends the workload through an AF_XDP socket. The calling thread must be in the client's namespace; `interface` is
/// the index of the client's interface.
pub fn run(generator: &Generator, interface: u32, workload: &Workload, plan: ClosedLoop) -> Result<Tally> {
    let program = generator.program("bench_xsk")?;
    let _attached = sys::attach_native(program.as_fd(), interface).map_err(io("attaching bench_xsk"))?;
    let frame = template(&SendPlan {
        port: SPV_PORT,
        memcached: false,
        proof: false,
        entry_bits: 0,
        last: 0,
        echo: false,
    });
    let mut socket = Socket::new(interface, &frame).map_err(io("creating an AF_XDP socket"))?;
    let (queue, fd) = (0u32.to_ne_bytes(), socket.fd.as_raw_fd().to_ne_bytes());
    let sockets = generator.sockets()?;
    sockets
        .update(&queue, &fd, MapFlags::ANY)
        .map_err(bpf("directing replies to AF_XDP"))?;
    let mut flight = Flight::new(workload, plan);
    loop {
        let now_ns = sys::now_ns();
        let Some(room) = flight.room(now_ns) else {
            return Ok(flight.end(now_ns));
        };
        let room = room.min(BURST).min(socket.begin_sending());
        let mut count = 0;
        while count < room
            && let Some(request) = flight.ask(now_ns)
        {
            socket.put(request);
            count += 1;
        }
        socket.send(count > 0);
        let mut now_ns = 0;
        socket.receive(|frame| {
            if now_ns == 0 {
                now_ns = sys::now_ns();
            }
            let is_reply = frame.len() >= SPV_FRAME_BYTES && frame[34..36] == SPV_PORT.to_be_bytes();
            if is_reply {
                flight.reply(now_ns, &frame[PAYLOAD_AT..]);
            }
        });
    }
}

/// Memory that stays mapped as long as this value exists.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps `bytes` of memory: anonymous, or the ring of `fd` at `offset`.
    fn new(bytes: usize, ring: Option<(&OwnedFd, libc::off_t)>) -> std::io::Result<Self> {
        let (fd, offset, flags) = match ring {
            Some((fd, offset)) => (fd.as_raw_fd(), offset, libc::MAP_SHARED | libc::MAP_POPULATE),
            None => (
                -1,
                0,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            ),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address of this new mapping, so no existing memory is affected.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, offset) };
        match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Self { start, bytes }),
            _ => Err(Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the call unmaps exactly the range that `new` mapped, and no reference into the range exists any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Ring of a socket with entries of type `T`. This process owns one side of the ring, and the kernel owns the other.
struct Ring<T> {
    memory: Mapping,
    offsets: libc::xdp_ring_offset,
    kind: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn new(fd: &OwnedFd, at: libc::off_t, offsets: libc::xdp_ring_offset) -> std::io::Result<Self> {
        let bytes = offsets.desc as usize + FRAMES as usize * size_of::<T>();
        Ok(Self {
            memory: Mapping::new(bytes, Some((fd, at)))?,
            offsets,
            kind: std::marker::PhantomData,
        })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        debug_assert!(offset as usize + 4 <= self.memory.bytes);
        // SAFETY: the kernel places an aligned u32 at this offset, and all accesses to it are atomic.
        unsafe { AtomicU32::from_ptr(self.memory.start.as_ptr().add(offset as usize).cast()) }
    }

    fn producer(&self) -> &AtomicU32 {
        self.word(self.offsets.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.word(self.offsets.consumer)
    }

    fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn place(&self, index: u32) -> *mut T {
        let at = self.offsets.desc as usize + (index & (FRAMES - 1)) as usize * size_of::<T>();
        // SAFETY: the mask keeps the index within the ring's FRAMES entries, all of which are mapped.
        unsafe { self.memory.start.as_ptr().add(at).cast() }
    }

    /// Writes one entry. The caller ensures that there is room, and calls [`Ring::publish`] afterwards.
    fn write(&self, index: u32, entry: T) {
        // SAFETY: this process owns the entries between producer and consumer + FRAMES.
        unsafe { self.place(index).write(entry) };
    }

    fn publish(&self, producer: u32) {
        self.producer().store(producer, Ordering::Release);
    }

    /// Takes all entries that the kernel has published, and passes each one to `take`.
    fn drain(&self, mut take: impl FnMut(T)) {
        let (from, to) = (
            self.consumer().load(Ordering::Relaxed),
            self.producer().load(Ordering::Acquire),
        );
        for index in 0..to.wrapping_sub(from) {
            // SAFETY: this process owns the entries between consumer and producer.
            take(unsafe { self.place(from.wrapping_add(index)).read() });
        }
        self.consumer().store(to, Ordering::Release);
    }
}

/// AF_XDP socket on queue 0. The first half of its frames is for receiving. The second half is for sending, and is
/// written once.
struct Socket {
    fd: OwnedFd,
    area: Mapping,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    free: Vec<u64>,
    tx_at: u32,
}

impl Socket {
    fn new(interface: u32, template: &[u8]) -> std::io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: the kernel returned this new descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let area = Mapping::new(2 * FRAMES as usize * FRAME_BYTES, None)?;
        // SAFETY: xdp_umem_reg is a plain C struct, for which zeros in all bytes are a valid value.
        let mut registration: libc::xdp_umem_reg = unsafe { mem::zeroed() };
        registration.addr = area.start.as_ptr() as u64;
        registration.len = area.bytes as u64;
        registration.chunk_size = FRAME_BYTES as u32;
        set(&fd, libc::XDP_UMEM_REG, &registration)?;
        let rings = [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ];
        rings.into_iter().try_for_each(|ring| set(&fd, ring, &FRAMES))?;
        let offsets = offsets(&fd)?;
        let socket = Self {
            fill: Ring::new(&fd, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t, offsets.fr)?,
            completion: Ring::new(
                &fd,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
                offsets.cr,
            )?,
            rx: Ring::new(&fd, libc::XDP_PGOFF_RX_RING, offsets.rx)?,
            tx: Ring::new(&fd, libc::XDP_PGOFF_TX_RING, offsets.tx)?,
            free: (u64::from(FRAMES)..2 * u64::from(FRAMES))
                .map(|frame| frame * FRAME_BYTES as u64)
                .collect(),
            tx_at: 0,
            area,
            fd,
        };
        for frame in &socket.free {
            socket.write(*frame, 0, template);
        }
        for frame in 0..FRAMES {
            socket.fill.write(frame, u64::from(frame) * FRAME_BYTES as u64);
        }
        socket.fill.publish(FRAMES);
        socket.bind(interface)?;
        Ok(socket)
    }

    /// Binds the socket to queue 0. The kernel releases the queue only some time after the socket of the previous
    /// contestant was closed, so the call is repeated until then.
    fn bind(&self, interface: u32) -> std::io::Result<()> {
        let deadline = Instant::now() + BIND_TIMEOUT;
        loop {
            match self.try_bind(interface) {
                Err(error) if error.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                    std::thread::sleep(BIND_PAUSE);
                }
                result => return result,
            }
        }
    }

    fn try_bind(&self, interface: u32) -> std::io::Result<()> {
        // SAFETY: sockaddr_xdp is a plain C struct; with zeros in all bytes it means queue 0.
        let mut address: libc::sockaddr_xdp = unsafe { mem::zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_flags = libc::XDP_COPY | libc::XDP_USE_NEED_WAKEUP;
        address.sxdp_ifindex = interface;
        let bytes = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: `address` is `bytes` long and outlives the call.
        let result = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), bytes) };
        if result < 0 {
            Err(Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Writes bytes into a frame that this process owns.
    fn write(&self, frame: u64, at: usize, bytes: &[u8]) {
        let from = frame as usize + at;
        assert!(
            from + bytes.len() <= self.area.bytes,
            "the write is outside of the frame area"
        );
        // SAFETY: the range is within the area (checked), and no reference into it exists during the write.
        unsafe {
            self.area
                .start
                .as_ptr()
                .add(from)
                .copy_from(bytes.as_ptr(), bytes.len())
        };
    }

    /// Takes back the frames that the kernel has sent. Returns the number of requests that may be sent now.
    fn begin_sending(&mut self) -> usize {
        let free = &mut self.free;
        self.completion.drain(|frame| free.push(frame));
        self.free.len()
    }

    /// Queues a request. The caller ensures that there is a free frame.
    fn put(&mut self, request: &[u8; 32]) {
        let Some(frame) = self.free.pop() else { return };
        self.write(frame, PAYLOAD_AT, request);
        let entry = libc::xdp_desc {
            addr: frame,
            len: SPV_FRAME_BYTES as u32,
            options: 0,
        };
        self.tx.write(self.tx_at, entry);
        self.tx_at = self.tx_at.wrapping_add(1);
    }

    /// Lets the kernel send the queued requests. In copy mode the kernel sends within the call, one batch at a time.
    fn send(&self, is_new: bool) {
        if is_new {
            self.tx.publish(self.tx_at);
        }
        let is_queued = self.tx.consumer().load(Ordering::Acquire) != self.tx_at;
        if is_queued && self.tx.needs_wakeup() {
            let (fd, none) = (self.fd.as_raw_fd(), std::ptr::null());
            // If the call fails, the requests remain queued, and the next round sends them.
            // SAFETY: the message is empty and has no address, so the kernel reads no memory.
            unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
        }
    }

    /// Passes the bytes of every received frame to `show`, then returns the frame to the kernel.
    fn receive(&mut self, mut show: impl FnMut(&[u8])) {
        let mut producer = self.fill.producer().load(Ordering::Relaxed);
        self.rx.drain(|entry| {
            let (from, len) = (entry.addr as usize, entry.len as usize);
            if from + len <= self.area.bytes {
                // SAFETY: the range is within the area (checked), and the kernel does not use this frame any more.
                show(unsafe { std::slice::from_raw_parts(self.area.start.as_ptr().add(from), len) });
            }
            self.fill.write(producer, entry.addr & !(FRAME_BYTES as u64 - 1));
            producer = producer.wrapping_add(1);
        });
        self.fill.publish(producer);
    }
}

fn set<T>(fd: &OwnedFd, option: libc::c_int, value: &T) -> std::io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is `bytes` long and outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            bytes,
        )
    };
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(())
    }
}

fn offsets(fd: &OwnedFd) -> std::io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: xdp_mmap_offsets is a plain C struct, for which zeros in all bytes are a valid value.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { mem::zeroed() };
    let mut bytes = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
    let place = (&raw mut offsets).cast();
    // SAFETY: `offsets` is `bytes` long and outlives the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_XDP,
            libc::XDP_MMAP_OFFSETS,
            place,
            &mut bytes,
        )
    };
    match result {
        0 if bytes as usize == size_of::<libc::xdp_mmap_offsets>() => Ok(offsets),
        0 => Err(Error::new(
            ErrorKind::Unsupported,
            "the kernel reports an unknown layout of AF_XDP rings; use Linux 5.4 or later",
        )),
        _ => Err(Error::last_os_error()),
    }
}
