//! Forwarding of one client's requests to the upstream server: identifiers, batches and time limits of the requests,
//! and the client's subscriptions, which are renewed after the upstream server was unreachable.

use crate::limits::{Limits, count};
use crate::reply;
use crate::request::{BAD_REQUEST, METHOD_NOT_FOUND, Request, RpcError, UNAVAILABLE, shorten};
use crate::server::Shared;
use crate::upstream::{Event, Link, UpstreamLine};
use crate::version::Version;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Delay before the upstream server is contacted again after the first failure. Each further failure doubles the delay.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LAST: Duration = Duration::from_secs(30);
/// Notification of the upstream server that is not forwarded, because this server sends its own notifications of new
/// tips.
const OWN_NOTIFICATION: &str = "blockchain.headers.subscribe";

/// A subscription: method, and parameters as JSON text.
type Subscription = (Box<str>, Box<str>);

enum ForwardedKind {
    /// A request of the client, with its identifier and the number of its batch, if it is in one.
    Call(Box<str>, Option<u64>),
    /// The renewal of a subscription; the status in the reply is sent to the client as a notification.
    Renewal(Subscription),
}

/// Replies to one batch, stored until all of them have arrived.
struct Batch {
    parts: Vec<u8>,
    missing: usize,
}

/// State of the forwarding for one client.
pub(crate) struct Forwarder {
    shared: Arc<Shared>,
    link: Option<Link>,
    pending: HashMap<u64, ForwardedKind>,
    /// Identifiers and time limits of forwarded requests, in the order of the identifiers. Entries of answered requests
    /// stay until their time limit.
    deadlines: VecDeque<(u64, u64)>,
    next_id: u64,
    batches: HashMap<u64, Batch>,
    subscriptions: HashSet<Subscription>,
    to_renew: Vec<Subscription>,
    /// Time before which the unreachable upstream server is not contacted again, and the reason of the last failure.
    away: Option<(u64, String)>,
    retry: Duration,
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.shared
            .subscriptions
            .fetch_sub(self.subscriptions.len(), Ordering::Relaxed);
    }
}

impl Forwarder {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            link: None,
            pending: HashMap::new(),
            deadlines: VecDeque::new(),
            next_id: 1,
            batches: HashMap::new(),
            subscriptions: HashSet::new(),
            to_renew: Vec::new(),
            away: None,
            retry: RETRY_FIRST,
        }
    }

    fn limits(&self) -> &Limits {
        &self.shared.answers.limits
    }

    /// Returns the number of requests that wait for the upstream server.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Returns true while the forwarder accepts no further request, because the upstream server does not read.
    pub fn is_full(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_full)
    }

    /// Returns the number of bytes of two kinds: requests that wait for the upstream server, and replies that wait for
    /// the rest of their batch.
    pub fn memory_bytes(&self) -> usize {
        let batches: usize = self.batches.values().map(|batch| batch.parts.capacity()).sum();
        batches + self.link.as_ref().map_or(0, Link::queued_bytes)
    }

    /// Waits for an event of the link. If `wants_room` is set, the function also returns when the link can accept a
    /// message; the result is then `None`.
    pub async fn next(&mut self, wants_room: bool) -> Option<Event> {
        match &mut self.link {
            Some(link) => link.event(wants_room).await,
            None => std::future::pending().await,
        }
    }

    /// Forwards one request, or the requests of one batch. `parts` has the replies to the other requests of the batch,
    /// which this server answers itself. Requests that cannot be forwarded are answered with an error in `out`.
    pub fn call(
        &mut self,
        requests: &[(&Request<'_>, &str)],
        batch: Option<Vec<u8>>,
        version: Version,
        now: u64,
        out: &mut Vec<u8>,
    ) {
        let is_batch = batch.is_some();
        let mut parts = batch.unwrap_or_default();
        let (mut lines, mut sent) = (Vec::new(), 0);
        let batch_id = is_batch.then_some(self.next_id);
        for (request, id) in requests {
            let forwarded = self
                .open(&request.method, version, now)
                .and_then(|()| self.subscription(request));
            match forwarded {
                Ok(()) => {
                    let kind = ForwardedKind::Call((*id).into(), batch_id);
                    let params = request.params.unwrap_or("[]");
                    self.add(&request.method, params, kind, now, &mut lines);
                    sent += 1;
                }
                Err(error) => {
                    count(&self.shared.answers.counters.errors);
                    begin_part(&mut parts);
                    reply::error(&mut parts, Some(id), &error);
                }
            }
        }
        if let Some(link) = self.link.as_ref().filter(|_| sent > 0) {
            link.send(lines);
        }
        match batch_id {
            Some(batch_id) if sent > 0 => {
                let batch = Batch { parts, missing: sent };
                self.batches.insert(batch_id, batch);
            }
            Some(_) => end_batch(&parts, out),
            None if sent == 0 => {
                out.extend_from_slice(&parts);
                out.push(b'\n');
            }
            None => {}
        }
    }

    /// Opens the link if it is not open.
    fn open(&mut self, method: &str, version: Version, now: u64) -> Result<(), RpcError> {
        if self.link.is_some() {
            return Ok(());
        }
        let Some(upstream) = &self.shared.upstream else {
            let message = format!(
                "{} is not answered by this server, and no upstream Electrum server is configured for it \
                 (electrum_upstream)",
                shorten(method)
            );
            return Err(RpcError::new(METHOD_NOT_FOUND, message));
        };
        if let Some((until, reason)) = &self.away
            && now < *until
        {
            return Err(away(&upstream.address, reason));
        }
        let watch = Arc::clone(&self.shared.watch);
        self.link = Some(Link::open(upstream.clone(), watch, version, self.limits()));
        Ok(())
    }

    /// Records a subscription that a request starts or ends.
    fn subscription(&mut self, request: &Request) -> Result<(), RpcError> {
        let params: Box<str> = request.params.unwrap_or("[]").into();
        if let Some(name) = request.method.strip_suffix(".unsubscribe") {
            let subscription = (format!("{name}.subscribe").into(), params);
            if self.subscriptions.remove(&subscription) {
                self.shared.subscriptions.fetch_sub(1, Ordering::Relaxed);
            }
            return Ok(());
        }
        if !request.method.ends_with(".subscribe") {
            return Ok(());
        }
        let subscription = (Box::from(&*request.method), params);
        if self.subscriptions.contains(&subscription) {
            return Ok(());
        }
        let (own_max, all_max) = (self.limits().subscriptions, self.limits().subscriptions_in_all);
        if self.subscriptions.len() >= own_max {
            let message = format!("the limit of {own_max} subscriptions for one client is reached");
            return Err(RpcError::new(BAD_REQUEST, message));
        }
        if self.shared.subscriptions.fetch_add(1, Ordering::Relaxed) >= all_max {
            self.shared.subscriptions.fetch_sub(1, Ordering::Relaxed);
            return Err(RpcError::new(
                BAD_REQUEST,
                "the server has reached its limit of subscriptions",
            ));
        }
        self.subscriptions.insert(subscription);
        Ok(())
    }

    fn add(&mut self, method: &str, params: &str, kind: ForwardedKind, now: u64, lines: &mut Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        lines.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
        reply::string(lines, method);
        lines.extend_from_slice(b",\"params\":");
        lines.extend_from_slice(params.as_bytes());
        reply::end(lines, &id.to_string());
        lines.push(b'\n');
        self.pending.insert(id, kind);
        let deadline = now + self.limits().call_time.as_nanos() as u64;
        self.deadlines.push_back((deadline, id));
        count(&self.shared.answers.counters.forwarded);
    }

    /// Renews subscriptions until the limit of pending requests is reached.
    pub fn renew(&mut self, version: Version, now: u64) {
        if self.to_renew.is_empty() || self.away.as_ref().is_some_and(|(until, _)| now < *until) {
            return;
        }
        if self.open("", version, now).is_err() || self.is_full() {
            return;
        }
        let mut lines = Vec::new();
        while self.pending.len() < self.limits().in_flight
            && let Some(subscription) = self.to_renew.pop()
        {
            let (method, params) = subscription.clone();
            self.add(
                &method,
                &params,
                ForwardedKind::Renewal(subscription),
                now,
                &mut lines,
            );
        }
        if let Some(link) = self.link.as_ref().filter(|_| !lines.is_empty()) {
            link.send(lines);
        }
    }

    /// Handles an event of the link, and writes the messages for the client.
    pub fn take(&mut self, event: Event, now: u64, out: &mut Vec<u8>) {
        match event {
            Event::Gone(reason) => self.on_link_lost(reason, now, out),
            Event::Line(line) => match UpstreamLine::read(&line) {
                Some(reply) => self.line(&line, &reply, out),
                None => self.on_link_lost(
                    "the upstream server sent a line that is not JSON-RPC".into(),
                    now,
                    out,
                ),
            },
        }
    }

    fn line(&mut self, line: &[u8], reply: &UpstreamLine, out: &mut Vec<u8>) {
        // The link works, so the delay after the next failure is the first one again.
        self.retry = RETRY_FIRST;
        self.away = None;
        let Some(id) = reply.id else {
            if reply
                .method
                .as_deref()
                .is_some_and(|method| method != OWN_NOTIFICATION)
            {
                count(&self.shared.answers.counters.notifications);
                out.extend_from_slice(line);
                out.push(b'\n');
            }
            return;
        };
        match self.pending.remove(&id) {
            // There is no pending request with this identifier: it has timed out, or was never sent.
            None => {}
            Some(ForwardedKind::Call(own, batch)) => {
                let counters = &self.shared.answers.counters;
                count(if reply.error.is_some() {
                    &counters.errors
                } else {
                    &counters.answered
                });
                self.finish(batch, out, |text| {
                    let (name, value) = match reply.error {
                        Some(error) => ("error", error.get()),
                        None => ("result", reply.result.map_or("null", RawValue::get)),
                    };
                    text.extend_from_slice(br#"{"jsonrpc":"2.0",""#);
                    text.extend_from_slice(name.as_bytes());
                    text.extend_from_slice(b"\":");
                    text.extend_from_slice(value.as_bytes());
                    reply::end(text, &own);
                });
            }
            Some(ForwardedKind::Renewal((method, params))) => {
                let params: Option<Vec<&RawValue>> = serde_json::from_str(&params).ok();
                if let (Some(first), None) = (params.as_ref().and_then(|params| params.first()), reply.error)
                {
                    count(&self.shared.answers.counters.notifications);
                    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
                    reply::string(out, &method);
                    out.extend_from_slice(b",\"params\":[");
                    out.extend_from_slice(first.get().as_bytes());
                    out.push(b',');
                    out.extend_from_slice(reply.result.map_or("null", RawValue::get).as_bytes());
                    out.extend_from_slice(b"]}\n");
                }
            }
        }
    }

    /// Writes one reply to the client, or adds it to its batch; the batch is written when it is complete.
    fn finish(&mut self, batch: Option<u64>, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(batch_id) = batch else {
            write(out);
            return out.push(b'\n');
        };
        let Some(batch) = self.batches.get_mut(&batch_id) else {
            return;
        };
        begin_part(&mut batch.parts);
        write(&mut batch.parts);
        batch.missing -= 1;
        if batch.missing == 0 {
            end_batch(&batch.parts, out);
            self.batches.remove(&batch_id);
        }
    }

    /// Handles the end of the link: pending requests fail, and subscriptions are renewed later.
    fn on_link_lost(&mut self, reason: String, now: u64, out: &mut Vec<u8>) {
        self.link = None;
        let address = self
            .shared
            .upstream
            .as_ref()
            .map_or("", |upstream| &upstream.address);
        let error = away(address, &reason);
        tracing::debug!(
            upstream = address,
            "the connection of a client to the upstream Electrum server ended: {reason}"
        );
        self.away = Some((now + self.retry.as_nanos() as u64, reason));
        self.retry = (2 * self.retry).min(RETRY_LAST);
        self.to_renew = self.subscriptions.iter().cloned().collect();
        let mut ids: Vec<u64> = self.pending.keys().copied().collect();
        ids.sort_unstable();
        self.deadlines.clear();
        ids.into_iter().for_each(|id| self.fail(id, &error, out));
    }

    fn fail(&mut self, id: u64, error: &RpcError, out: &mut Vec<u8>) {
        if let Some(ForwardedKind::Call(own, batch)) = self.pending.remove(&id) {
            count(&self.shared.answers.counters.upstream_failures);
            count(&self.shared.answers.counters.errors);
            self.finish(batch, out, |text| reply::error(text, Some(&own), error));
        }
    }

    /// Answers the forwarded requests whose time limit has ended with an error.
    pub fn expire(&mut self, now: u64, out: &mut Vec<u8>) {
        while let Some((deadline, id)) = self.deadlines.front().copied() {
            let is_pending = self.pending.contains_key(&id);
            if is_pending && deadline > now {
                break;
            }
            self.deadlines.pop_front();
            if is_pending {
                let address = self
                    .shared
                    .upstream
                    .as_ref()
                    .map_or("", |upstream| &upstream.address);
                let error = away(address, "the server did not answer in time");
                self.fail(id, &error, out);
            }
        }
    }

    /// Returns the next time at which [`Forwarder::expire`] or [`Forwarder::renew`] must be called.
    pub fn next_deadline(&self) -> Option<u64> {
        let call = self.deadlines.front().map(|(deadline, _)| *deadline);
        let renewal = self.away.as_ref().map(|(until, _)| *until);
        let renewal = renewal.filter(|_| !self.to_renew.is_empty() && self.link.is_none());
        call.into_iter().chain(renewal).min()
    }
}

fn away(address: &str, reason: &str) -> RpcError {
    let message = format!(
        "the upstream Electrum server {address} is unreachable: {}",
        shorten(reason)
    );
    RpcError::new(UNAVAILABLE, message)
}

/// Writes the comma that precedes a reply in a batch, except before the first one.
pub(crate) fn begin_part(parts: &mut Vec<u8>) {
    if !parts.is_empty() {
        parts.push(b',');
    }
}

/// Writes a whole batch, or nothing for a batch that has only notifications.
pub(crate) fn end_batch(parts: &[u8], out: &mut Vec<u8>) {
    if !parts.is_empty() {
        out.push(b'[');
        out.extend_from_slice(parts);
        out.extend_from_slice(b"]\n");
    }
}
