//! Host threads: answer the requests that the fast path forwarded, one by one or in batches.

use super::batch::Route;
use super::queue::Taker;
use super::stream::Writer;
use super::{Forwarded, PATIENCE, Shared, Way};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use lineside_fastpath::{BatchHost, BatchRequest, Host, Reader, Reply, RequestOutcome, Verdict, lease};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Number of requests from which on a batch takes no more. Smaller batches give lower latency, larger ones need fewer
/// disk syncs.
const GROUP: usize = 512;
/// Maximum number of executed batches that wait for the disk.
const WAITING: usize = 16;

/// Answers requests one at a time, until the datapath stops.
pub(super) fn one_by_one(
    socket: &UdpSocket,
    shared: &Shared,
    host: &dyn Host,
    queue: &Taker<Forwarded>,
    sender: &Reader,
) {
    while !shared.stop.load(Relaxed) {
        let Some(forwarded) = queue.take(PATIENCE) else {
            continue;
        };
        for request in forwarded.requests() {
            let mut reply = Reply::default();
            match host.serve(forwarded.from, request, &mut reply, sender) {
                Verdict::Reply => {
                    let said = RequestOutcome::reply(reply.as_bytes().to_vec());
                    send_all(socket, shared, [(&forwarded.way, request.len(), said)]);
                }
                Verdict::Drop(reason) => shared.counts.drop(reason),
                Verdict::Forward => (),
            }
            sender.unpin();
        }
        shared.progress.finish(forwarded.count as u64, lease::now_ns());
    }
}

/// Answers requests in batches and executes the next batch while earlier ones wait for the disk. Ends when all threads
/// that forward requests have ended.
pub(super) fn in_groups(
    socket: &UdpSocket,
    shared: &Shared,
    mut host: Box<dyn BatchHost>,
    forwarded: &Receiver<Forwarded>,
) {
    let patience = host.call_interval_max().min(PATIENCE);
    let mut waiting: VecDeque<Vec<Forwarded>> = VecDeque::new();
    loop {
        let (mut group, mut count) = (Vec::new(), 0);
        if waiting.is_empty() {
            match forwarded.recv_timeout(patience) {
                Ok(first) => {
                    count = first.count;
                    group.push(first);
                }
                Err(RecvTimeoutError::Timeout) => {
                    host.idle();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return host.end(),
            }
        }
        while count < GROUP
            && let Ok(next) = forwarded.try_recv()
        {
            count += next.count;
            group.push(next);
        }
        if !group.is_empty() {
            let mut asked = Vec::with_capacity(count);
            for forwarded in &group {
                asked.extend(forwarded.requests().map(|payload| BatchRequest {
                    from: forwarded.from,
                    payload,
                }));
            }
            host.execute(&asked);
            waiting.push_back(group);
        }
        // Does not wait for the disk while there is more to execute.
        let mut waits = forwarded.is_empty() || waiting.len() >= WAITING;
        while let Some(said) = host.take(waits) {
            let group = waiting.pop_front().unwrap_or_default();
            let asked = group.iter().flat_map(|forwarded| {
                let way = &forwarded.way;
                forwarded.requests().map(move |request| (way, request.len()))
            });
            let answers = asked.zip(said).map(|((way, bytes), said)| (way, bytes, said));
            send_all(socket, shared, answers);
            let count: usize = group.iter().map(|forwarded| forwarded.count).sum();
            shared.progress.finish(count as u64, lease::now_ns());
            waits = false;
        }
    }
}

/// Sends each reply along the way that its request came. An item of `answers` is that way, the length of the request in
/// bytes, and the outcome. The call never blocks: a reply that cannot be sent is lost and counted, so that no
/// destination can delay the replies to others.
fn send_all<'a>(
    socket: &UdpSocket,
    shared: &Shared,
    answers: impl IntoIterator<Item = (&'a Way, usize, RequestOutcome)>,
) {
    let counts = &shared.counts;
    let mut datagrams: Vec<(&Route, Vec<u8>)> = Vec::new();
    let mut streams: Vec<&Arc<Writer>> = Vec::new();
    let mut sent = 0;
    for (way, request_bytes, RequestOutcome { reply, drop }) in answers {
        if let Way::Stream(writer) = way {
            writer.finish(1);
            // Packets of one connection usually follow each other.
            if !streams.last().is_some_and(|last| Arc::ptr_eq(last, writer)) {
                streams.push(writer);
            }
        }
        let Some(reply) = reply else {
            drop.into_iter().for_each(|reason| counts.drop(reason));
            continue;
        };
        match way {
            Way::Datagram(_) if reply.len() > request_bytes => {
                counts.amplification.fetch_add(1, Relaxed);
            }
            Way::Datagram(route) => datagrams.push((route, reply)),
            Way::Stream(writer) => sent += u64::from(writer.put(&reply)),
        }
    }
    streams.iter().for_each(|writer| writer.flush());
    sent += shared.send_datagrams(socket, datagrams);
    counts.host_replies.fetch_add(sent, Relaxed);
}
