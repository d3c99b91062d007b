//! Socket client at a fixed rate. It sends requests when they are due, with at most a window of them in flight.

use crate::client::{ClosedLoop, Flight, Tally};
use crate::error::{Result, io};
use crate::netns::SERVER_ADDRESS;
use crate::sys::{self, BATCH, Batch};
use crate::workload::Workload;
use lineside_wire::SPV_PORT;
use std::net::UdpSocket;

/// Sends `rate` requests per second from one socket. If a request is due while the window is full, the client skips it,
/// so a server that is slower than the rate gets requests as fast as it answers. The calling thread must be in the
/// client's namespace.
///
/// # Errors
/// Errors of the socket.
pub fn socket(workload: &Workload, plan: ClosedLoop, rate: u32) -> Result<Tally> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(io("binding the client's socket"))?;
    socket
        .connect((SERVER_ADDRESS, SPV_PORT))
        .map_err(io("connecting the client's socket"))?;
    sys::set_segment(&socket, 32).map_err(io("setting up the client's socket"))?;
    let (mut requests, mut replies) = (Batch::default(), Batch::default());
    let mut flight = Flight::new(workload, plan);
    let began_ns = sys::now_ns();
    let mut made = 0u64;
    loop {
        let now_ns = sys::now_ns();
        let Some(room) = flight.room(now_ns) else {
            return Ok(flight.end(now_ns));
        };
        let due = u128::from(now_ns - began_ns) * u128::from(rate) / 1_000_000_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(made);
        let may = room.min(BATCH).min(usize::try_from(due).unwrap_or(BATCH));
        let mut count = 0;
        while count < may
            && let Some(request) = flight.ask(now_ns)
        {
            requests.put(count, request);
            count += 1;
        }
        if count > 0 {
            let sent = requests.send_segmented(&socket, count);
            flight.take_back(count - sent);
            made += sent as u64;
        }
        // If the window limits the client, the schedule continues from the present time.
        if due > room as u64 + plan.window as u64 {
            made += due - room as u64 - plan.window as u64;
        }
        let got = replies.receive(&socket);
        if got > 0 {
            let now_ns = sys::now_ns();
            for index in 0..got {
                flight.reply(now_ns, replies.get(index));
            }
        }
    }
}
