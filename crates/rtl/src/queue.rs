//! Commands of the hosts on their way to the NIC, whose thread executes them in their order.

use crate::command::Command;
use crate::error::RtlError;
use crate::nic::{Follower, Nic};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of waiting commands. A host that adds more waits for the NIC.
const WAITING_MAX: usize = 1 << 16;

/// Queue of commands between the hosts and the thread of the NIC.
pub struct CommandQueue {
    state: Mutex<State>,
    /// Table that follows the NIC.
    follower: Mutex<Option<Box<dyn Follower>>>,
    /// Notified when commands were executed, and when the queue was closed.
    progress: Condvar,
    /// A byte in this stream wakes the thread of the NIC.
    wake: UnixStream,
    awake: UnixStream,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Command>,
    added: u64,
    executed: u64,
    is_closed: bool,
    watched: Vec<Watched>,
}

/// Register whose value follows a value in memory.
struct Watched {
    register: u32,
    value: Box<dyn Fn() -> u64 + Send>,
    written: Option<u64>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "register {} with {:?}", self.register, self.written)
    }
}

impl std::fmt::Debug for CommandQueue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("CommandQueue")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl CommandQueue {
    /// Returns an empty queue.
    ///
    /// # Errors
    /// The system's error.
    pub fn new() -> io::Result<Self> {
        let (wake, awake) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        awake.set_nonblocking(true)?;
        Ok(Self {
            state: Mutex::default(),
            follower: Mutex::default(),
            progress: Condvar::new(),
            wake,
            awake,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds commands. Waits while too many commands wait for the NIC. Does nothing after the NIC has ended.
    pub fn add(&self, commands: &[Command]) {
        for part in commands.chunks(WAITING_MAX) {
            let is_full = |state: &mut State| state.waiting.len() >= WAITING_MAX && !state.is_closed;
            let mut state = (self.progress)
                .wait_while(self.state(), is_full)
                .unwrap_or_else(PoisonError::into_inner);
            if state.is_closed {
                return;
            }
            let was_empty = state.waiting.is_empty();
            state.waiting.extend_from_slice(part);
            state.added += part.len() as u64;
            drop(state);
            if was_empty {
                self.wake();
            }
        }
    }

    /// Waits until the NIC has executed every command that was added before, and has sent every answer that it had
    /// begun before it executed them. Returns at once after the NIC has ended.
    pub fn flush(&self) {
        let state = self.state();
        let added = state.added;
        let is_open = |state: &mut State| state.executed < added && !state.is_closed;
        drop(
            self.progress
                .wait_while(state, is_open)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Lets a register follow `value`: the NIC writes the register before it processes the next frames after `value`
    /// has changed. The lease of a service is such a value.
    pub fn watch(&self, register: u32, value: impl Fn() -> u64 + Send + 'static) {
        self.state().watched.push(Watched {
            register,
            value: Box::new(value),
            written: None,
        });
    }

    /// Lets a table follow the NIC, which executes operations by itself.
    pub fn follow(&self, follower: Box<dyn Follower>) {
        *self.follower.lock().unwrap_or_else(PoisonError::into_inner) = Some(follower);
    }

    /// Gives what has left the NIC, except frames, to the table that follows it.
    ///
    /// # Errors
    /// [`RtlError::Fault`] if the NIC and the table differ.
    pub(crate) fn give(&self, nic: &mut dyn Nic) -> Result<(), RtlError> {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        let (records, responses) = (nic.take_records(), nic.take_responses());
        match follower.as_mut() {
            Some(follower) => follower.follow(&records, &responses).map_err(RtlError::Fault),
            None => Ok(()),
        }
    }

    /// Moves the waiting commands into `taken`, and adds the writes of the registers whose values have changed.
    pub(crate) fn take(&self, taken: &mut Vec<Command>) {
        let mut state = self.state();
        taken.append(&mut state.waiting);
        for watched in &mut state.watched {
            let value = (watched.value)();
            if watched.written != Some(value) {
                watched.written = Some(value);
                taken.push(Command::register(watched.register, &value.to_le_bytes()));
            }
        }
        drop(state);
        if let Some(follower) = self
            .follower
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            follower.commands(taken);
        }
    }

    /// Notifies the hosts that the commands that [`CommandQueue::take`] has removed were executed.
    pub(crate) fn executed(&self) {
        let mut state = self.state();
        let executed = state.added - state.waiting.len() as u64;
        if state.executed != executed {
            state.executed = executed;
            drop(state);
            self.progress.notify_all();
        }
    }

    /// Ends all waiting: the NIC executes no further command.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.waiting.clear();
        drop(state);
        self.progress.notify_all();
    }

    /// Wakes the thread of the NIC.
    pub(crate) fn wake(&self) {
        // If the stream is full, the bytes in it already wake the thread.
        let _ = (&self.wake).write(&[1]);
    }

    /// Returns the descriptor that becomes readable when the thread of the NIC shall wake up.
    pub(crate) fn awake(&self) -> BorrowedFd<'_> {
        self.awake.as_fd()
    }

    /// Removes the bytes that woke the thread.
    pub(crate) fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.awake)
            .read(&mut bytes)
            .is_ok_and(|count| count == bytes.len())
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

    #[test]
    fn a_flush_waits_until_all_commands_were_executed() {
        let queue = Arc::new(CommandQueue::new().unwrap());
        let commands: Vec<_> = (0..100).map(|index| Command::register(index, &[])).collect();
        queue.add(&commands);
        let (flushed, executing) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                queue.flush();
                assert!(executing.load(SeqCst), "the flush did not wait");
                flushed.store(true, SeqCst);
            });
            let mut taken = Vec::new();
            queue.take(&mut taken);
            assert_eq!(taken, commands);
            queue.add(&commands[..1]);
            assert!(!flushed.load(SeqCst));
            executing.store(true, SeqCst);
            // The command that was added later is not executed yet, and the flush does not wait for it if it began
            // before; otherwise the second round ends it.
            queue.take(&mut Vec::new());
            queue.executed();
        });
        assert!(flushed.load(SeqCst));
    }

    #[test]
    fn a_watched_register_is_written_when_its_value_changes() {
        let queue = CommandQueue::new().unwrap();
        let lease = Arc::new(AtomicU64::new(5));
        let watched = Arc::clone(&lease);
        queue.watch(33, move || watched.load(SeqCst));
        let next = || {
            let mut taken = Vec::new();
            queue.take(&mut taken);
            taken
        };
        assert_eq!(next(), [Command::register(33, &5u64.to_le_bytes())]);
        assert_eq!(next(), []);
        lease.store(0, SeqCst);
        assert_eq!(next(), [Command::register(33, &0u64.to_le_bytes())]);
    }

    #[test]
    fn a_closed_queue_lets_nobody_wait() {
        let queue = CommandQueue::new().unwrap();
        queue.add(&[Command::register(1, &[])]);
        queue.close();
        queue.flush();
        queue.add(&vec![Command::register(1, &[]); 2 * WAITING_MAX]);
        queue.flush();
    }
}
