//! Answers to a client's requests: from the chain, from fixed values, or forwarded to the upstream server.

use super::{Client, ConnectionState};
use crate::answers::ANSWER_ATTEMPTS;
use crate::forward::{begin_part, end_batch};
use crate::limits::count;
use crate::methods::{Answered, Method, answer};
use crate::reply;
use crate::request::{BAD_REQUEST, Request, RequestFault, RpcError};
use crate::version::{Offer, Version};
use std::sync::Arc;

impl Client {
    /// Answers one request, or forwards it.
    pub(super) async fn one(&mut self, request: &Request<'_>, now: u64) {
        count(&self.counters().requests);
        // A request without an identifier is a notification. The protocol has no notifications from clients: ignore it.
        let Some(id) = request.id else { return };
        if let Some(method) = Method::of(&request.method) {
            self.has_requested = true;
            let answered = answer(
                &self.shared.answers,
                &self.shared.about,
                &mut self.view,
                method,
                (request, id),
                &mut self.out,
            )
            .await;
            self.out.push(b'\n');
            self.note(answered, now);
        } else if let Some(text) = self.fixed(request, id) {
            self.out.extend_from_slice(&text);
            self.out.push(b'\n');
        } else {
            let version = self.view.version;
            self.forwarder
                .call(&[(request, id)], None, version, now, &mut self.out);
        }
    }

    fn note(&mut self, answered: Answered, now: u64) {
        let Answered { is_error, cost } = answered;
        count(if is_error {
            &self.counters().errors
        } else {
            &self.counters().answered
        });
        self.rate.charge(now, cost);
    }

    /// Returns the reply to a method with a fixed answer, which does not need the chain; `None` for every other method.
    fn fixed(&mut self, request: &Request, id: &str) -> Option<Vec<u8>> {
        let shared = Arc::clone(&self.shared);
        let result = match &*request.method {
            "server.version" => self.version(request),
            "server.ping" => Ok("null".into()),
            "server.banner" => Ok(serde_json::Value::from(&*shared.banner).to_string()),
            "server.donation_address" => Ok(serde_json::Value::from(&*shared.donation_address).to_string()),
            "server.peers.subscribe" => Ok("[]".into()),
            // This server has no list of other servers, so it refuses to add one.
            "server.add_peer" => Ok("false".into()),
            _ => {
                self.has_requested = true;
                return None;
            }
        };
        self.has_requested = true;
        let mut out = Vec::new();
        match result {
            Ok(result) => {
                count(&self.counters().answered);
                reply::begin_result(&mut out);
                out.extend_from_slice(result.as_bytes());
                reply::end(&mut out, id);
            }
            Err(error) => {
                count(&self.counters().errors);
                reply::error(&mut out, Some(id), &error);
            }
        }
        Some(out)
    }

    fn version(&mut self, request: &Request) -> Result<String, RpcError> {
        if self.is_negotiated {
            return Err(RpcError::new(BAD_REQUEST, "server.version already sent"));
        }
        self.is_negotiated = true;
        // From version 1.6 on, `server.version` must be the client's first message. A client that has sent other
        // requests before uses an older version.
        let limit = if self.has_requested {
            Version::V1_4_3
        } else {
            Version::V1_6
        };
        let chosen = Offer::read(request.params).map(|offer| offer.choose(limit));
        match chosen {
            Ok(Some(version)) => {
                self.view.version = version;
                Ok(serde_json::json!([self.shared.about.server_version, version.name()]).to_string())
            }
            Ok(None) => {
                self.state = ConnectionState::Refused;
                Err(RpcError::new(BAD_REQUEST, Offer::refusal(request.params)))
            }
            Err(message) => {
                self.state = ConnectionState::Refused;
                Err(RpcError::new(BAD_REQUEST, message))
            }
        }
    }

    /// Answers a batch. All replies from the chain belong to one state of the chain, unless it changes during each
    /// attempt.
    pub(super) async fn batch(&mut self, batch: &[Result<Request<'_>, RequestFault<'_>>], now: u64) {
        let (mut parts, mut local, mut forward) = (Vec::new(), Vec::new(), Vec::new());
        for request in batch {
            count(&self.counters().requests);
            match request {
                Err(fault) => {
                    count(&self.counters().errors);
                    begin_part(&mut parts);
                    reply::error(&mut parts, fault.id, &fault.error);
                }
                Ok(Request { id: None, .. }) => {}
                Ok(request @ Request { id: Some(id), .. }) => match Method::of(&request.method) {
                    Some(method) => {
                        self.has_requested = true;
                        local.push((request, *id, method));
                    }
                    None => match self.fixed(request, id) {
                        Some(text) => {
                            begin_part(&mut parts);
                            parts.extend_from_slice(&text);
                        }
                        None => forward.push((request, *id)),
                    },
                },
            }
        }
        let fixed = parts.len();
        for _ in 0..ANSWER_ATTEMPTS {
            parts.truncate(fixed);
            let generation = self.shared.answers.chain.generation();
            for (request, id, method) in &local {
                begin_part(&mut parts);
                if parts.len() >= self.limits().queued_bytes {
                    count(&self.counters().errors);
                    let error = RpcError::new(
                        BAD_REQUEST,
                        "the replies to the batch are too long together; send fewer requests in a batch",
                    );
                    reply::error(&mut parts, Some(id), &error);
                    continue;
                }
                let (answers, about) = (&self.shared.answers, &self.shared.about);
                let request = (*request, *id);
                let answered = answer(answers, about, &mut self.view, *method, request, &mut parts).await;
                self.note(answered, now);
            }
            if self.shared.answers.chain.generation() == generation {
                break;
            }
            count(&self.counters().recomputed);
        }
        match forward.is_empty() {
            true => end_batch(&parts, &mut self.out),
            false => {
                let version = self.view.version;
                self.forwarder
                    .call(&forward, Some(parts), version, now, &mut self.out);
            }
        }
    }
}
