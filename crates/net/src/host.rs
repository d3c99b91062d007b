//! Host threads: answer the requests that the fast path forwarded, one by one or in batches.

use super::batch::ReplyAddress;
use super::clock::precise_ns;
use super::queue::QueueReceiver;
use super::stream::Writer;
use super::{QueuedRequests, STOP_CHECK_INTERVAL, Shared, Transport};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use lineside_fastpath::{BatchHost, BatchRequest, Host, Reader, Reply, RequestOutcome, Verdict};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Number of requests at which a batch is closed. Smaller batches give lower latency; larger ones need fewer disk
/// syncs.
const BATCH_REQUESTS_MAX: usize = 512;
/// Maximum number of executed batches that wait for the disk.
const EXECUTED_BATCHES_MAX: usize = 16;

/// Executed batch that waits for the disk, with the CLOCK_MONOTONIC time of its execution in ns.
type ExecutedBatch = (u64, Vec<QueuedRequests>);

/// Answers requests one at a time, until the datapath stops.
pub(super) fn serve_one_by_one(
    socket: &UdpSocket,
    shared: &Shared,
    host: &dyn Host,
    queue: &QueueReceiver<QueuedRequests>,
    sender: &Reader,
) {
    while !shared.stop.load(Relaxed) {
        let Some(forwarded) = queue.take(STOP_CHECK_INTERVAL) else {
            continue;
        };
        for request in forwarded.requests() {
            let mut reply = Reply::default();
            match host.serve(forwarded.from, request, &mut reply, sender) {
                Verdict::Reply => {
                    let outcome = RequestOutcome::reply(reply.as_bytes().to_vec());
                    send_all(socket, shared, [(&forwarded.transport, request.len(), outcome)]);
                }
                Verdict::Drop(reason) => shared.counts.drop(reason),
                Verdict::Forward => (),
            }
            sender.unpin();
        }
        finish(shared, [&forwarded]);
    }
}

/// Answers requests in batches and executes the next batch while earlier ones wait for the disk. Ends when all threads
/// that forward requests have ended.
pub(super) fn serve_in_batches(
    socket: &UdpSocket,
    shared: &Shared,
    mut host: Box<dyn BatchHost>,
    forwarded: &Receiver<QueuedRequests>,
) {
    let wait = host.call_interval_max().min(STOP_CHECK_INTERVAL);
    let mut waiting: VecDeque<ExecutedBatch> = VecDeque::new();
    loop {
        let (mut batch, mut count) = (Vec::new(), 0);
        if waiting.is_empty() {
            match forwarded.recv_timeout(wait) {
                Ok(first) => {
                    count = first.count;
                    batch.push(first);
                }
                Err(RecvTimeoutError::Timeout) => {
                    host.idle();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return host.end(),
            }
        }
        while count < BATCH_REQUESTS_MAX
            && let Ok(next) = forwarded.try_recv()
        {
            count += next.count;
            batch.push(next);
        }
        if !batch.is_empty() {
            let mut batch_requests = Vec::with_capacity(count);
            for forwarded in &batch {
                batch_requests.extend(forwarded.requests().map(|payload| BatchRequest {
                    from: forwarded.from,
                    payload,
                }));
            }
            shared.counts.host_batch.record(count as u64);
            let executed_ns = precise_ns();
            host.execute(&batch_requests);
            waiting.push_back((executed_ns, batch));
            note_oldest(shared, &waiting);
        }
        // The thread waits for the disk only if it has nothing to execute, or if too many executed batches wait
        // already.
        let mut waits = forwarded.is_empty() || waiting.len() >= EXECUTED_BATCHES_MAX;
        while let Some(outcomes) = host.take(waits) {
            let (_, batch) = waiting.pop_front().unwrap_or_default();
            note_oldest(shared, &waiting);
            let recipients = batch.iter().flat_map(|forwarded| {
                let transport = &forwarded.transport;
                forwarded
                    .requests()
                    .map(move |request| (transport, request.len()))
            });
            let answers = recipients
                .zip(outcomes)
                .map(|((transport, bytes), said)| (transport, bytes, said));
            send_all(socket, shared, answers);
            finish(shared, &batch);
            waits = false;
        }
    }
}

/// Publishes the time at which the oldest of the batches that wait for the disk was executed.
fn note_oldest(shared: &Shared, waiting: &VecDeque<ExecutedBatch>) {
    let since_ns = waiting.front().map_or(0, |(executed_ns, _)| *executed_ns);
    shared.undurable_since_ns.store(since_ns, Relaxed);
}

/// Counts requests that the host has finished, and records their latency.
fn finish<'a>(shared: &Shared, requests: impl IntoIterator<Item = &'a QueuedRequests>) {
    let (now_ns, mut count) = (precise_ns(), 0);
    for forwarded in requests {
        let latency_ns = now_ns.saturating_sub(forwarded.received_ns);
        let latency = &shared.counts.host_latency;
        latency.record_many(latency_ns, forwarded.count as u64);
        count += forwarded.count as u64;
    }
    shared.progress.finish(count, now_ns);
}

/// Sends each reply by the transport on which its request arrived. An item of `answers` is this transport, the length
/// of the request in bytes, and the outcome. The call never blocks, so that no destination can delay the replies to
/// others: a reply that cannot be sent at once is lost and counted.
fn send_all<'a>(
    socket: &UdpSocket,
    shared: &Shared,
    answers: impl IntoIterator<Item = (&'a Transport, usize, RequestOutcome)>,
) {
    let counts = &shared.counts;
    let mut datagrams: Vec<(&ReplyAddress, Vec<u8>)> = Vec::new();
    let mut streams: Vec<&Arc<Writer>> = Vec::new();
    let mut sent = 0;
    for (transport, request_bytes, RequestOutcome { reply, drop }) in answers {
        if let Transport::Stream(writer) = transport {
            writer.finish(1);
            // Packets of one connection usually follow each other, so comparing with the last connection finds most
            // repetitions.
            if !streams.last().is_some_and(|last| Arc::ptr_eq(last, writer)) {
                streams.push(writer);
            }
        }
        let Some(reply) = reply else {
            drop.into_iter().for_each(|reason| counts.drop(reason));
            continue;
        };
        match transport {
            Transport::Datagram(_) if reply.len() > request_bytes => {
                counts.amplification.fetch_add(1, Relaxed);
            }
            Transport::Datagram(reply_address) => datagrams.push((reply_address, reply)),
            Transport::Stream(writer) => sent += u64::from(writer.put(&reply)),
        }
    }
    streams.iter().for_each(|writer| writer.flush());
    sent += shared.send_datagrams(socket, datagrams);
    counts.host_replies.fetch_add(sent, Relaxed);
}
