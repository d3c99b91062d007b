//! A call: requests that a client submitted together. Their answers are returned together when the last one is known.

use crate::answer::Answer;
use crate::verify_worker::VerifiedRequest;
use crate::watch::Subscription;
use bytes::Bytes;
use lineside_wire::HybridCode as Code;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Memory in bytes that each request of a call needs in addition to its own bytes: for its index, its answer and its
/// callback.
const REQUEST_BYTES: usize = 256;

/// Callback that is called once, with the answers in the order of the requests.
pub type OnAnswers = Box<dyn FnOnce(Vec<Answer>) + Send>;

/// Requests that were submitted together.
pub(crate) struct Call {
    pub requests: Vec<Bytes>,
    open: AtomicUsize,
    answers: Mutex<Answers>,
    subscription: Mutex<Option<Subscription>>,
}

struct Answers {
    answers: Vec<Answer>,
    done: Option<OnAnswers>,
}

impl Call {
    pub fn new(requests: Vec<Bytes>, done: OnAnswers) -> Arc<Call> {
        Arc::new(Call {
            open: AtomicUsize::new(requests.len()),
            answers: Mutex::new(Answers {
                answers: vec![Answer::Refused(Code::OutcomeUnknown); requests.len()],
                done: Some(done),
            }),
            requests,
            subscription: Mutex::default(),
        })
    }

    /// Returns the number of bytes of memory that the call takes while it waits.
    pub fn bytes(&self) -> usize {
        let requests: usize = self.requests.iter().map(Bytes::len).sum();
        requests + self.requests.len() * REQUEST_BYTES
    }

    /// Creates the call of a watch request, together with the sink for its events.
    pub fn watch(request: Bytes, subscription: Subscription, done: OnAnswers) -> Arc<Call> {
        let call = Call::new(vec![request], done);
        *call.subscription.lock().unwrap_or_else(PoisonError::into_inner) = Some(subscription);
        call
    }

    /// Removes and returns the sink of a watch request.
    pub fn take_subscription(&self) -> Option<Subscription> {
        self.subscription
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    /// Stores the answers of some requests; no request may be answered twice. After the last answer, calls the call's
    /// callback with all of them.
    pub fn answer(&self, some: impl IntoIterator<Item = (usize, Answer)>) {
        let mut count = 0;
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, answer) in some {
            if let Some(slot) = answers.answers.get_mut(index) {
                *slot = answer;
                count += 1;
            }
        }
        let finished = count > 0 && self.open.fetch_sub(count, Ordering::AcqRel) == count;
        if !finished {
            return;
        }
        let all = std::mem::take(&mut answers.answers);
        let done = answers.done.take();
        drop(answers);
        if let Some(done) = done {
            done(all);
        }
    }
}

/// Reference to one request of a call.
#[derive(Clone)]
pub(crate) struct Ticket {
    pub call: Arc<Call>,
    pub index: usize,
}

impl Ticket {
    pub fn request(&self) -> &Bytes {
        &self.call.requests[self.index]
    }

    pub fn answer(&self, answer: Answer) {
        self.call.answer([(self.index, answer)]);
    }
}

/// Answers `requests` with `outcome_unknown`.
pub(crate) fn answer_unknown(requests: Vec<VerifiedRequest>) {
    let unknown = Answer::Refused(Code::OutcomeUnknown);
    answer_all(requests.into_iter().map(|one| (one.ticket, unknown.clone())));
}

/// Answers the requests of many tickets. Consecutive tickets of the same call are answered under one lock.
pub(crate) fn answer_all(tickets: impl IntoIterator<Item = (Ticket, Answer)>) {
    struct Run {
        call: Arc<Call>,
        answers: Vec<(usize, Answer)>,
    }
    let mut run: Option<Run> = None;
    for (ticket, answer) in tickets {
        let answer = (ticket.index, answer);
        match &mut run {
            Some(run) if Arc::ptr_eq(&run.call, &ticket.call) => run.answers.push(answer),
            _ => {
                let answers = vec![answer];
                if let Some(before) = run.replace(Run {
                    call: ticket.call,
                    answers,
                }) {
                    before.call.answer(before.answers);
                }
            }
        }
    }
    if let Some(run) = run {
        run.call.answer(run.answers);
    }
}
