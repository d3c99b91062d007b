//! System calls that the standard library does not have. Besides this module, only `af_xdp` has `unsafe` code in this
//! crate.

use std::ffi::CString;
use std::io;
use std::mem::{self, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Moves the calling thread into a new network namespace.
pub fn unshare_network() -> io::Result<()> {
    // SAFETY: the call takes no pointers, and changes only the calling thread's network namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves the calling thread into the network namespace `fd`.
pub fn enter_network(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the call takes no pointers, and the borrowed descriptor is open.
    check(unsafe { libc::setns(fd.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Restricts the calling thread, and the threads that it starts later, to `core`.
pub fn pin(core: usize) -> io::Result<()> {
    // SAFETY: cpu_set_t is a plain bit set; zeros in all bytes are the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: CPU_SET checks `core` against the set's size, and `set` outlives the call.
    let result = unsafe {
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    check(result).map(drop)
}

/// Restricts the thread `thread` of any process, such as a thread of the kernel, to `core`.
pub fn pin_thread(thread: u32, core: usize) -> io::Result<()> {
    // SAFETY: cpu_set_t is a plain bit set; zeros in all bytes are the empty set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: CPU_SET checks `core` against the set's size, and `set` outlives the call.
    let result = unsafe {
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(thread as libc::pid_t, size_of::<libc::cpu_set_t>(), &set)
    };
    check(result).map(drop)
}

/// Gives the thread `thread` of any process the lowest real-time priority, so that it runs before all ordinary threads.
pub fn make_real_time(thread: u32) -> io::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: `priority` outlives the call.
    check(unsafe { libc::sched_setscheduler(thread as libc::pid_t, libc::SCHED_FIFO, &raw const priority) })
        .map(drop)
}

/// Moves the calling thread into a new mount namespace, in which `/sys` shows the thread's network namespace.
pub fn mount_own_sysfs() -> io::Result<()> {
    let (sysfs, none) = (c"sysfs".as_ptr(), std::ptr::null());
    // SAFETY: the call takes no pointers, and changes only the calling thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: all arguments are C strings that outlive the call, or null where mount(2) allows it.
    check(unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) })?;
    // SAFETY: as above.
    check(unsafe { libc::mount(sysfs, c"/sys".as_ptr(), sysfs, 0, none.cast()) }).map(drop)
}

/// Returns the number of online cores.
pub fn cores() -> usize {
    // SAFETY: the call takes no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Returns CLOCK_MONOTONIC in nanoseconds, which is also the clock of `bpf_ktime_get_ns`.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time of the calling thread in ns.
pub fn thread_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the processor time of all threads of this process in ns.
pub fn process_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Clock for the processor time of a thread. Other threads can read it while the thread exists.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// Returns the clock of the calling thread.
    pub fn of_this_thread() -> io::Result<Self> {
        let mut clock = 0;
        // SAFETY: the calling thread is alive, and `clock` is a variable that the call may write to.
        match unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) } {
            0 => Ok(Self(clock)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Returns the processor time of the thread in nanoseconds; 0 if the thread has ended.
    pub fn ns(self) -> u64 {
        clock_ns(self.0)
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a variable that the call may write to.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns the index of interface `name` in the calling thread's namespace.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Turns on generic receive offload of interface `name`. On a veth without an XDP program, this enables NAPI; without
/// NAPI, the kernel drops redirected frames.
pub fn turn_gro_on(name: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    let mut value = EthtoolValue {
        command: ETHTOOL_SGRO,
        data: 1,
    };
    // SAFETY: ifreq is a plain C struct, for which zeros in all bytes are a valid value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (place, byte) in request
        .ifr_name
        .iter_mut()
        .take(libc::IFNAMSIZ - 1)
        .zip(name.bytes())
    {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: `request` contains a NUL-terminated interface name and points to `value`; both outlive the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &request) }).map(drop)
}

/// Makes the calling process receive SIGKILL when the thread that started it ends. A child calls it between fork and
/// exec.
pub fn die_with_parent() -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

/// Configures `command` so that the process is killed when the thread that starts it ends.
pub fn bound_to_thread(command: &mut std::process::Command) -> &mut std::process::Command {
    use std::os::unix::process::CommandExt;
    // SAFETY: the closure runs after fork and calls only prctl, which is async-signal-safe and allocates nothing.
    unsafe { command.pre_exec(die_with_parent) }
}

/// Number of datagrams in a [`Batch`].
pub const BATCH: usize = 64;
const DATAGRAM_BYTES: usize = 64;

/// Datagrams of one connected socket that are sent or received together. The headers point into the two other boxes,
/// and do not change after they were created.
pub struct Batch {
    bytes: Box<[u8]>,
    room: usize,
    vectors: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
}

impl Default for Batch {
    /// Returns a batch of datagrams of at most 64 bytes.
    fn default() -> Self {
        Self::with_room(DATAGRAM_BYTES)
    }
}

impl Batch {
    /// Returns a batch for datagrams of at most `room` bytes.
    pub fn with_room(room: usize) -> Self {
        let room = room.max(1);
        let mut bytes = vec![0; room * BATCH].into_boxed_slice();
        let mut places = bytes.chunks_exact_mut(room);
        let mut vectors = Box::new(std::array::from_fn(|_| libc::iovec {
            iov_base: places
                .next()
                .map_or(std::ptr::null_mut(), |place| place.as_mut_ptr().cast()),
            iov_len: room,
        }));
        let headers = std::array::from_fn(|index| {
            // SAFETY: mmsghdr is a plain C struct, for which zeros in all bytes are a valid value.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            let vectors: &mut [libc::iovec; BATCH] = &mut vectors;
            header.msg_hdr.msg_iov = &raw mut vectors[index];
            header.msg_hdr.msg_iovlen = 1;
            header
        });
        Self {
            bytes,
            room,
            vectors,
            headers: Box::new(headers),
        }
    }

    /// Writes datagram `index`; the payload must not be longer than the batch allows.
    pub fn put(&mut self, index: usize, payload: &[u8]) {
        let from = index * self.room;
        self.bytes[from..from + self.room][..payload.len()].copy_from_slice(payload);
        self.vectors[index].iov_len = payload.len();
    }

    /// Returns datagram `index` of the datagrams that were received last.
    pub fn get(&self, index: usize) -> &[u8] {
        let from = index * self.room;
        &self.bytes[from..from + (self.headers[index].msg_len as usize).min(self.room)]
    }

    /// Sends the first `count` datagrams in one call. All must have the length that was passed to [`set_segment`].
    /// Returns the number of datagrams that were sent.
    pub fn send_segmented(&mut self, socket: &std::net::UdpSocket, count: usize) -> usize {
        // SAFETY: msghdr is a plain C struct, for which zeros in all bytes are a valid value.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = self.vectors.as_mut_ptr();
        header.msg_iovlen = count.min(BATCH);
        // SAFETY: the header points to `msg_iovlen` vectors over the bytes of this batch; all of them are boxed and
        // owned by `self`.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, 0) };
        if sent > 0 { count } else { 0 }
    }

    /// Sends the first `count` datagrams, each with its own length, with one call of sendmmsg. Returns the number of
    /// datagrams that were sent, from the first on. After [`Batch::receive`], no datagram may be sent from this batch.
    ///
    /// # Errors
    /// The system's error for the first datagram; no datagram was sent then.
    pub fn send(&mut self, socket: &std::net::UdpSocket, count: usize) -> io::Result<usize> {
        let (fd, count) = (socket.as_raw_fd(), count.min(BATCH) as u32);
        // SAFETY: every header points to one vector over the bytes of this batch; all of them are boxed and owned by
        // `self`.
        let sent = unsafe { libc::sendmmsg(fd, self.headers.as_mut_ptr(), count, libc::MSG_DONTWAIT) };
        usize::try_from(check(sent)?).map_err(io::Error::other)
    }

    /// Receives the available datagrams without waiting, and returns their number. A batch that receives must not be
    /// used with [`Batch::put`].
    pub fn receive(&mut self, socket: &std::net::UdpSocket) -> usize {
        let (fd, none, count) = (socket.as_raw_fd(), std::ptr::null_mut(), BATCH as u32);
        // SAFETY: every header points to one vector over the bytes of this batch; all of them are boxed and owned by
        // `self`.
        let got = unsafe { libc::recvmmsg(fd, self.headers.as_mut_ptr(), count, libc::MSG_DONTWAIT, none) };
        usize::try_from(got).unwrap_or(0)
    }
}

/// Makes every later message on this socket leave as datagrams of `bytes` each (UDP_SEGMENT).
pub fn set_segment(socket: &std::net::UdpSocket, bytes: u16) -> io::Result<()> {
    let (bytes, length) = (libc::c_int::from(bytes), size_of::<libc::c_int>() as u32);
    let value = (&raw const bytes).cast();
    // SAFETY: `value` points to `length` valid bytes, which outlive the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            value,
            length,
        )
    })
    .map(drop)
}

/// Sets the size of a socket's receive buffer in bytes, which may be above the system's limit. Needs CAP_NET_ADMIN.
#[cfg(feature = "rtl")]
pub fn force_receive_buffer(socket: &std::net::UdpSocket, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).map_err(io::Error::other)?;
    let (value, length) = ((&raw const bytes).cast(), size_of::<libc::c_int>() as u32);
    // SAFETY: `value` points to `length` valid bytes, which outlive the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            value,
            length,
        )
    })
    .map(drop)
}

/// Returns the resource usage of this process.
pub fn resource_usage() -> libc::rusage {
    // SAFETY: zeros in all bytes are a valid value of `rusage`.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `usage` is a variable that the call fills. The call cannot fail for RUSAGE_SELF.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage
}

/// Attaches an XDP program natively to an interface of the calling thread's namespace. Dropping the result detaches it.
pub fn attach_native(program: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    // SAFETY: zeros in all bytes are the default of this options struct, and its size field says which fields it has.
    let mut options: libbpf_sys::bpf_link_create_opts = unsafe { mem::zeroed() };
    options.sz = size_of::<libbpf_sys::bpf_link_create_opts>() as _;
    options.flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
    let kind = libbpf_sys::BPF_XDP;
    // SAFETY: the program is open, and `options` outlives the call.
    let fd =
        unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), interface as libc::c_int, kind, &options) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just returned this new descriptor, and no other code uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Enables the kernel's run-time statistics of BPF programs until the result is dropped.
pub fn count_run_time() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = check(unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) })?;
    // SAFETY: the kernel has just returned this new descriptor, and no other code uses it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Statistics of a BPF program since [`count_run_time`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RunStatistics {
    /// Run time in nanoseconds, including the program's tail calls.
    pub run_time_ns: u64,
    /// Number of runs.
    pub runs: u64,
}

/// Returns the statistics of a BPF program.
pub fn run_statistics(program: BorrowedFd<'_>) -> io::Result<RunStatistics> {
    // SAFETY: zeros in all bytes are a valid value of this struct.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { mem::zeroed() };
    let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: the program is open, `info` is `length` bytes long, and both outlive the call.
    check(unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    })?;
    Ok(RunStatistics {
        run_time_ns: info.run_time_ns,
        runs: info.run_cnt,
    })
}

/// Returns the run time of a BPF program in ns, including its tail calls, since [`count_run_time`].
pub fn run_time_ns(program: BorrowedFd<'_>) -> io::Result<u64> {
    run_statistics(program).map(|statistics| statistics.run_time_ns)
}

/// Mode in which [`test_run`] runs a program.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Runs again and again on one frame, without an interface.
    Repeat,
    /// Runs on live frames: the kernel acts on the verdicts as if the frames had arrived at this interface.
    Live {
        /// Interface in the calling thread's namespace.
        interface: u32,
        /// Number of frames for which the kernel runs the program before it acts on the verdicts.
        batch: u32,
    },
}

/// Runs an XDP program `repeat` times (BPF_PROG_TEST_RUN). Returns the last verdict, or 0 for live frames.
pub fn test_run(program: BorrowedFd<'_>, frame: &[u8], repeat: u32, run: Run) -> io::Result<u32> {
    // SAFETY: zeros in all bytes are the default of this options struct, and its size field says which fields it has.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { mem::zeroed() };
    let mut out = vec![0u8; 4096];
    let mut context = [0u32; size_of::<libbpf_sys::xdp_md>() / 4];
    options.sz = size_of::<libbpf_sys::bpf_test_run_opts>() as _;
    options.data_in = frame.as_ptr().cast();
    options.data_size_in = frame.len() as _;
    options.repeat = repeat as _;
    match run {
        Run::Repeat => {
            options.data_out = out.as_mut_ptr().cast();
            options.data_size_out = out.len() as _;
        }
        Run::Live { interface, batch } => {
            // Fields of struct xdp_md: data, data_end, data_meta, ingress_ifindex and further ones.
            context[1] = frame.len() as u32;
            context[3] = interface;
            options.ctx_in = context.as_ptr().cast();
            options.ctx_size_in = size_of_val(&context) as _;
            options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
            options.batch_size = batch;
        }
    }
    // SAFETY: the program is open, and every pointer in `options` has its length next to it and outlives the call.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if result < 0 {
        Err(io::Error::from_raw_os_error(-result))
    } else {
        Ok(options.retval)
    }
}

/// Socket and event for which [`wait_ready`] waits.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Socket; the call waits until it is readable.
    pub fd: RawFd,
    /// True if the call also waits until the socket is writable.
    pub to_write: bool,
}

/// Waits until one of the sockets is ready, for at most `patience`. Stores in `found` for each socket whether it is
/// ready.
pub fn wait_ready(sockets: &[Ready], patience: std::time::Duration, found: &mut [bool]) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = sockets
        .iter()
        .map(|ready| libc::pollfd {
            fd: ready.fd,
            events: libc::POLLIN | if ready.to_write { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    let milliseconds = patience.as_millis() as libc::c_int;
    // SAFETY: `polled` has the given number of elements, and outlives the call.
    let result = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    match check(result) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        other => drop(other?),
    }
    for (found, polled) in found.iter_mut().zip(&polled) {
        *found = polled.revents != 0;
    }
    Ok(())
}

/// Waits until one of the sockets is readable, for at most `patience`. Returns early if a signal arrives.
pub fn wait_readable(sockets: &[std::net::UdpSocket], patience: std::time::Duration) {
    let polled = |socket: &std::net::UdpSocket| libc::pollfd {
        fd: socket.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polled: Vec<_> = sockets.iter().map(polled).collect();
    let time = libc::timespec {
        tv_sec: patience.as_secs() as libc::time_t,
        tv_nsec: patience.subsec_nanos().into(),
    };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: `polled` has `count` elements; it and `time` outlive the call, and no signal mask is given.
    unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const time, std::ptr::null()) };
}

/// Sends SIGINT to a child of this process.
pub fn interrupt(child: u32) -> io::Result<()> {
    // SAFETY: the call takes no pointers.
    check(unsafe { libc::kill(child as libc::pid_t, libc::SIGINT) }).map(drop)
}
