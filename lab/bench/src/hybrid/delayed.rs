//! Log of a single node that delivers each message a fixed time after it was appended, like a log whose messages take
//! that long to arrive.

use lineside_hybrid::log::{Embedded, Log, LogError};
use lineside_hybrid::node::{OpenLog, embedded};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Opens the log. Without a delay it is the log of a node that orders messages alone.
pub fn delayed(delay: Duration) -> OpenLog {
    if delay.is_zero() {
        return embedded();
    }
    Box::new(move |start| {
        let log = Embedded::new(start.position, start.deliver);
        let started = Delayed::start(log, delay);
        Ok(std::sync::Arc::new(
            started.map_err(|error| LogError(error.to_string()))?,
        ))
    })
}

/// Message, and the time at which it is delivered.
type Due = (Instant, Vec<u8>);

struct Delayed {
    delay: Duration,
    /// `None` while the log ends.
    queue: Option<Sender<Due>>,
    thread: Option<JoinHandle<()>>,
}

impl Delayed {
    fn start(log: impl Log + 'static, delay: Duration) -> std::io::Result<Self> {
        let (queue, due) = channel::<Due>();
        let deliver = move || {
            for (at, message) in due {
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                if log.append(message).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("log".into()).spawn(deliver)?;
        Ok(Self {
            delay,
            queue: Some(queue),
            thread: Some(thread),
        })
    }
}

impl Log for Delayed {
    fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        let due = (Instant::now() + self.delay, message);
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(due).is_ok());
        match sent {
            true => Ok(()),
            false => Err(LogError("the node is stopping".into())),
        }
    }
}

impl Drop for Delayed {
    fn drop(&mut self) {
        self.queue = None;
        self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Message with the time at which it was appended.
    type Appended = (Instant, Vec<u8>);

    /// Log that stores each message.
    struct Stored(Arc<Mutex<Vec<Appended>>>);

    impl Log for Stored {
        fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
            self.0.lock().unwrap().push((Instant::now(), message));
            Ok(())
        }
    }

    #[test]
    fn messages_are_delivered_in_order_and_none_before_its_time() {
        let stored = Arc::new(Mutex::new(Vec::new()));
        let delay = Duration::from_millis(20);
        let log = Delayed::start(Stored(stored.clone()), delay).unwrap();
        let sent: Vec<_> = (0..5u8)
            .map(|number| {
                log.append(vec![number]).unwrap();
                Instant::now()
            })
            .collect();
        // The end of the log waits until all messages are delivered.
        drop(log);
        let stored = stored.lock().unwrap();
        assert_eq!(stored.len(), sent.len());
        for (number, ((at, message), sent)) in (0u8..).zip(stored.iter().zip(&sent)) {
            assert_eq!(message, &[number]);
            // `sent` is shortly after the append, hence the small allowance.
            assert!(*at + Duration::from_millis(10) > *sent + delay, "{number}");
        }
    }
}
