//! Measures checked replies a second of the simulated NIC at a TAP device, and where the time of its thread goes:
//!
//! ```text
//! cargo run --release -p lineside-rtl --features sim --example tap_rate
//! ```
//!
//! The last figure is the processor time of the client, the NIC and the kernel for each request, which another load on
//! the machine changes less than the rate.
//!
//! It needs root. One client thread keeps a fixed number of requests in flight and checks every reply. The table has
//! 256 lines, so every request is a hit.

use lineside_fastpath::lease;
use lineside_rtl::{
    Bridge, COMMAND_BLOCK, COMMAND_BLOCK_HASH, COMMAND_LINE, Command, CommandQueue, InterfaceAddress,
    NetworkPlan, NicDesign, NicNetwork, REGISTER_SPV_BLOCK_MASK, REGISTER_SPV_EPOCH,
    REGISTER_SPV_LEASE_UNTIL_NS, REGISTER_SPV_PAPER_FORMAT, REGISTER_SPV_PAPER_INDEX, REGISTER_SPV_PORT,
    REGISTER_SPV_SET_BITS, REGISTER_SPV_WAYS, folded_sum, simulated_nic,
};
use std::error::Error;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PORT: u16 = 7701;
const LINES: u32 = 256;
const BLOCKS: u32 = 2;

/// Returns the TXID in line `index`; the low bits of the first word choose the line.
fn txid(index: u32) -> [u8; 32] {
    std::array::from_fn(|place| match place {
        0 => index as u8,
        1..8 => 0,
        _ => index as u8 ^ place as u8,
    })
}

fn root(index: u32) -> [u8; 32] {
    [(index % BLOCKS) as u8 + 1; 32]
}

/// Returns the commands that fill a table of 256 sets of one line, and let the NIC answer for an hour.
fn table() -> Vec<Command> {
    let register = |register, value: u64| Command::register(register, &value.to_le_bytes());
    let mut commands = vec![
        register(REGISTER_SPV_SET_BITS, 8),
        register(REGISTER_SPV_WAYS, 1),
        register(REGISTER_SPV_BLOCK_MASK, u64::from(BLOCKS) - 1),
        register(REGISTER_SPV_PAPER_INDEX, 1),
        register(REGISTER_SPV_PAPER_FORMAT, 1),
    ];
    for slot in 0..BLOCKS {
        commands.push(Command::new(COMMAND_BLOCK_HASH, 0, 1, 0, &[]));
        let root = root(slot);
        commands.push(Command::new(COMMAND_BLOCK, slot, 2, folded_sum(&root), &root));
    }
    commands.extend((0..LINES).map(|line| Command::new(COMMAND_LINE, line, 2, line % BLOCKS, &txid(line))));
    let until_ns = lease::now_ns() + 3_600_000_000_000;
    commands.extend([
        register(REGISTER_SPV_LEASE_UNTIL_NS, until_ns),
        register(REGISTER_SPV_EPOCH, 2),
        register(REGISTER_SPV_PORT, PORT.into()),
    ]);
    commands
}

/// Sends `count` requests with at most `window` of them in flight, and checks every reply. Returns the rate.
fn ask(socket: &UdpSocket, count: u32, window: u32) -> Result<f64, Box<dyn Error>> {
    let (mut sent, mut right, mut reply) = (0, 0, [0; 64]);
    let begin = Instant::now();
    while right < count {
        while sent < count && sent - right < window {
            socket.send(&txid(sent % LINES))?;
            sent += 1;
        }
        let bytes = socket
            .recv(&mut reply)
            .map_err(|error| format!("reply {right} was lost: {error}"))?;
        // One client's requests stay in their order.
        if reply[..bytes] != root(right % LINES) {
            return Err(format!("reply {right} is wrong").into());
        }
        right += 1;
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}

/// Gives the socket a receive buffer for all replies in flight, whatever the limit of the system is.
fn grow_receive_buffer(socket: &UdpSocket) -> std::io::Result<()> {
    let bytes: libc::c_int = 8 << 20;
    // SAFETY: the value is valid for reading, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            std::ptr::from_ref(&bytes).cast(),
            std::mem::size_of_val(&bytes) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Returns the processor time of this process in nanoseconds, in user space and in the kernel.
fn processor_ns() -> f64 {
    // SAFETY: the structure has only numbers, and 0 is valid for all of them.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = |text| InterfaceAddress::parse(text).ok_or("an address");
    let plan = NetworkPlan {
        tap: "lsrate0".into(),
        clients: vec![address("10.78.0.1/24")?],
        own: vec![address("10.78.0.2/24")?],
        sockets: [0, 0],
    };
    let queue = Arc::new(CommandQueue::new()?);
    let bridge = Bridge::start(
        simulated_nic(NicDesign::Spv)?,
        NicNetwork::create(&plan)?,
        Arc::clone(&queue),
    )?;
    queue.add(&table());
    queue.flush();
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(("10.78.0.2", PORT))?;
    grow_receive_buffer(&socket)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    ask(&socket, 1000, 1)?;
    for (window, count) in [
        (1, 50_000),
        (16, 300_000),
        (64, 600_000),
        (128, 600_000),
        (256, 600_000),
        (512, 600_000),
    ] {
        let (before, processor_before) = (bridge.counts().all(), processor_ns());
        let rate = ask(&socket, count, window)?;
        let grown = |name: &str| {
            let of = |all: [(&str, u64); 11]| {
                all.into_iter()
                    .find(|(one, _)| *one == name)
                    .map_or(0, |(_, n)| n)
            };
            (of(bridge.counts().all()) - of(before)) as f64
        };
        let each = |name: &str| grown(name) / grown("from_wire");
        println!(
            "{window} in flight: {rate:.0} checked replies/s, 0 lost; for each frame {:.0} ns reading, {:.0} ns in the \
             model ({:.1} cycles), {:.0} ns writing, {:.0} ns of processor time",
            each("read_ns"),
            each("nic_ns"),
            each("cycles"),
            each("write_ns"),
            (processor_ns() - processor_before) / f64::from(count)
        );
    }
    Ok(())
}
