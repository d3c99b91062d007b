//! The host's thread: what near forwarded, answered one by one or in groups.

use super::batch;
use super::{Forwarded, PATIENCE, Shared, Way};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use lineside_near::{Asked, GroupHost, Host, Reader, Reply, Said, Verdict};
use std::net::UdpSocket;
use std::sync::atomic::Ordering::Relaxed;

/// Requests that a group takes at most: what gathers while the group before is made durable.
const GROUP: usize = 2048;

/// Answers each request as it comes, until the plane stops.
pub(super) fn one_by_one(
    socket: &UdpSocket,
    shared: &Shared,
    host: &dyn Host,
    forwarded: &Receiver<Forwarded>,
    sender: &Reader,
) {
    while !shared.stop.load(Relaxed) {
        let forwarded = match forwarded.recv_timeout(PATIENCE) {
            Ok(forwarded) => forwarded,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut reply = Reply::default();
        match host.serve(forwarded.from, &forwarded.request, &mut reply, sender) {
            Verdict::Reply => send(socket, shared, &forwarded, reply.as_bytes().to_vec()),
            Verdict::Drop(reason) => shared.counts.drop(reason),
            Verdict::Forward => (),
        }
        sender.leave();
    }
}

/// Answers what has gathered, all together, until every thread that could bring more has ended.
pub(super) fn in_groups(
    socket: &UdpSocket,
    shared: &Shared,
    mut host: Box<dyn GroupHost>,
    forwarded: &Receiver<Forwarded>,
) {
    let mut group = Vec::with_capacity(GROUP);
    let patience = host.patience().min(PATIENCE);
    loop {
        match forwarded.recv_timeout(patience) {
            Ok(first) => group.push(first),
            Err(RecvTimeoutError::Timeout) => {
                host.idle();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return host.end(),
        }
        group.extend(forwarded.try_iter().take(GROUP - 1));
        let asked: Vec<Asked<'_>> = group
            .iter()
            .map(|forwarded| Asked {
                from: forwarded.from,
                payload: &forwarded.request,
            })
            .collect();
        let said = host.group(&asked);
        for (forwarded, Said { reply, drop }) in group.iter().zip(said) {
            if let Some(reply) = reply {
                send(socket, shared, forwarded, reply);
            } else if let Some(reason) = drop {
                shared.counts.drop(reason);
            }
        }
        group.clear();
    }
}

/// Sends a reply back the way that its request came.
fn send(socket: &UdpSocket, shared: &Shared, forwarded: &Forwarded, reply: Vec<u8>) {
    let counts = &shared.counts;
    let sent = match &forwarded.way {
        Way::Datagram(_) if reply.len() > forwarded.request.len() => {
            counts.amplification.fetch_add(1, Relaxed);
            return;
        }
        Way::Datagram(route) => batch::send_one(socket, route, &reply),
        // A client that does not take its replies loses its connection (stream.rs).
        Way::Stream(writer) => writer.try_send(reply).is_ok(),
    };
    if sent {
        counts.host_replies.fetch_add(1, Relaxed);
    }
}
