//! Stream of events to a watcher. Events wait in a bounded queue; a client that does not read them in time gets the
//! code `busy` as its last event.

use crate::serve::Database;
use bytes::Bytes;
use lineside_hybrid::Code;
use lineside_hybrid::watch::{Notification, Sink, Watching};
use lineside_messages::hybrid::grpc::Event;
use lineside_messages::hybrid::grpc::{event, shared, version};
use lineside_messages::hybrid::request::Version;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tonic::Status;

/// Maximum number of events that wait for a client.
const EVENTS_MAX: usize = 4096;
/// Maximum number of bytes of keys and values that wait for a client.
const BYTES_MAX: usize = 8 << 20;

/// Number of bytes of memory for each event, in addition to its key and value.
const EVENT_BYTES: usize = 128;

/// Sending side of a client's queue of events.
type Queue = mpsc::UnboundedSender<Event>;

/// Limit of the total number of bytes of all events that wait for the clients of a server.
pub(crate) struct Room {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Room {
    /// Creates a limit of `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicUsize::new(0),
            bytes_max,
        })
    }
}

/// Number and bytes of the events that wait for one client.
struct WaitingEvents {
    events: AtomicUsize,
    bytes: AtomicUsize,
    watch_memory: Arc<Room>,
}

impl WaitingEvents {
    fn new(room: Arc<Room>) -> Self {
        Self {
            events: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            watch_memory: room,
        }
    }

    fn is_full(&self) -> bool {
        self.events.load(Ordering::Acquire) >= EVENTS_MAX
            || self.bytes.load(Ordering::Acquire) >= BYTES_MAX
            || self.watch_memory.bytes.load(Ordering::Acquire) >= self.watch_memory.bytes_max
    }

    fn add(&self, event: &Event) {
        self.events.fetch_add(1, Ordering::AcqRel);
        self.bytes.fetch_add(size(event), Ordering::AcqRel);
        self.watch_memory.bytes.fetch_add(size(event), Ordering::AcqRel);
    }

    fn take(&self, event: &Event) {
        self.events.fetch_sub(1, Ordering::AcqRel);
        self.bytes.fetch_sub(size(event), Ordering::AcqRel);
        self.watch_memory.bytes.fetch_sub(size(event), Ordering::AcqRel);
    }
}

impl Drop for WaitingEvents {
    fn drop(&mut self) {
        let left = self.bytes.load(Ordering::Acquire);
        self.watch_memory.bytes.fetch_sub(left, Ordering::AcqRel);
    }
}

fn size(event: &Event) -> usize {
    EVENT_BYTES + event.key.len() + event.value.as_ref().map_or(0, Bytes::len)
}

/// Stream of events to a client.
pub(crate) struct Events {
    /// The node's answer to the request, which is sent first.
    first: Option<Event>,
    queue: mpsc::UnboundedReceiver<Event>,
    waiting: Arc<WaitingEvents>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    _watching: Option<Watching>,
}

impl Events {
    /// Subscribes to writes at the database. The stream begins with the node's answer, and ends when `stopping` is
    /// true.
    pub async fn of(
        database: Arc<dyn Database>,
        request: Bytes,
        room: Arc<Room>,
        mut stopping: watch::Receiver<bool>,
    ) -> Result<Events, Status> {
        let (queue, events) = mpsc::unbounded_channel();
        let waiting = Arc::new(WaitingEvents::new(room));
        let sink = sink(queue, waiting.clone());
        // `Database::watch` blocks until the request is verified, so it runs in a thread for blocking work.
        let watching = tokio::task::spawn_blocking(move || database.watch(request, sink)).await;
        let (first, watching) = match watching {
            Ok(Ok(watching)) => {
                let block = Version {
                    block: watching.block,
                    index: 0,
                };
                let first = Event {
                    version: Some(version(block)),
                    ..event(Code::Done)
                };
                (first, Some(watching))
            }
            Ok(Err(code)) => (event(code), None),
            Err(_) => return Err(Status::unavailable("the server is stopping")),
        };
        let stop = async move {
            // An error means that the server has ended, which ends the stream, too.
            let _ = stopping.wait_for(|stopping| *stopping).await;
        };
        Ok(Events {
            first: Some(first),
            queue: events,
            waiting,
            stop: Box::pin(stop),
            _watching: watching,
        })
    }
}

fn sink(queue: Queue, waiting: Arc<WaitingEvents>) -> Sink {
    Box::new(move |told| {
        let (event, goes_on) = match told {
            Notification::Ended(code) => (event(code), false),
            Notification::Event(_) if waiting.is_full() => (event(Code::Busy), false),
            Notification::Event(told) => {
                let event = Event {
                    version: Some(version(told.version)),
                    key: shared(told.key),
                    value: told.value.map(shared),
                    ..event(Code::Done)
                };
                (event, true)
            }
        };
        waiting.add(&event);
        queue.send(event).is_ok() && goes_on
    })
}

impl Stream for Events {
    type Item = Result<Event, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        if self.stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Status::unavailable("the server is stopping"))));
        }
        let event = ready!(self.queue.poll_recv(context));
        if let Some(event) = &event {
            self.waiting.take(event);
        }
        Poll::Ready(event.map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_hybrid::watch::Event as Write;

    fn told(bytes: usize) -> Notification {
        Notification::Event(Write {
            key: b"k"[..].into(),
            version: Version { block: 1, index: 0 },
            value: Some(vec![0; bytes].into()),
        })
    }

    #[test]
    fn clients_that_do_not_read_share_one_bound() {
        let room = Room::new(1 << 20);
        let client = || {
            let (queue, taken) = mpsc::unbounded_channel();
            let waiting = Arc::new(WaitingEvents::new(Arc::clone(&room)));
            (sink(queue, Arc::clone(&waiting)), taken, waiting)
        };
        let (mut first, taken, waiting) = client();
        let (mut second, _others, _waiting) = client();
        while room.bytes.load(Ordering::Acquire) < 1 << 20 {
            assert!(first(told(100_000)));
        }
        assert!(
            !second(told(1)),
            "if the limit is reached, the client gets `busy` and its stream ends"
        );
        assert!(!first(told(1)));
        drop((first, taken, waiting));
        assert!(room.bytes.load(Ordering::Acquire) < 1_000);
        let (mut third, _others, _waiting) = client();
        assert!(third(told(1)));
    }
}
