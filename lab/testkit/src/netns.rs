//! Network namespaces for tests: single ones, or two that a veth pair joins. A thread holds each namespace, so that the
//! namespace ends with the test even if the test panics.

use crate::skipped;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// Thread that runs in its own network namespace.
pub struct Namespace {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    path: String,
}

impl Namespace {
    /// Creates a namespace. If that is not permitted, prints one line and returns `None`.
    pub fn new() -> Option<Self> {
        let (jobs, work) = channel::<Job>();
        let (ready, is_ready) = channel();
        // The thread gets the name of the test, so that messages contain it.
        let test = std::thread::current().name().map(String::from);
        let named = Builder::new().name(test.unwrap_or_default());
        let spawned = named.spawn(move || {
            // SAFETY: unshare accesses no memory, and the new namespace affects only this thread.
            let made = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
            // SAFETY: gettid takes no arguments and cannot fail.
            let thread = unsafe { libc::gettid() };
            let path = format!("/proc/{}/task/{thread}/ns/net", std::process::id());
            ready.send(made.then_some(path)).unwrap();
            work.into_iter().for_each(|job| job());
        });
        let Some(path) = is_ready.recv().unwrap() else {
            skipped("creating network namespaces needs root rights");
            return None;
        };
        let namespace = Self {
            jobs: Some(jobs),
            thread: Some(spawned.expect("a thread")),
            path,
        };
        namespace.ip("link set lo up");
        Some(namespace)
    }

    /// Runs `job` in the namespace and waits for it. A panic in `job` continues in the caller.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, answered) = channel();
        let job = move || {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            answer.send(done).unwrap();
        };
        self.jobs.as_ref().unwrap().send(Box::new(job)).unwrap();
        match answered.recv().unwrap() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Runs the program `ip` with these arguments in the namespace.
    pub fn ip(&self, words: &str) {
        let line: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let output = self.run(move || Command::new("ip").args(line).output().expect("ip (iproute2)"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ip {words}: {said}");
    }

    /// Starts a thread in the namespace.
    pub fn spawn<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let namespace = std::fs::File::open(&self.path).unwrap();
        std::thread::spawn(move || {
            // SAFETY: the descriptor is open and refers to a network namespace; the call affects only this thread.
            assert_eq!(
                unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) },
                0
            );
            job()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Two namespaces joined by a veth pair: `x0` with 10.0.0.1 and fd00::1 for the client, `x1` with 10.0.0.2 and fd00::2
/// for the server.
pub struct Wire {
    /// Namespace of the client, with `x0`.
    pub client: Namespace,
    /// Namespace of the server, with `x1`.
    pub server: Namespace,
}

impl Wire {
    /// Creates both namespaces. If that is not permitted, prints one line and returns `None`.
    pub fn new() -> Option<Self> {
        let wire = Self {
            client: Namespace::new()?,
            server: Namespace::new()?,
        };
        wire.add('x', 0);
        Some(wire)
    }

    /// Adds another veth pair: `y0` with 10.0.1.1 and fd01::1 for the client, `y1` with 10.0.1.2 and fd01::2 for the
    /// server.
    pub fn add_second(&self) {
        self.add('y', 1);
    }

    /// Adds a veth pair: the end `letter`0 is for the client, which is host 1, and the end `letter`1 for the server,
    /// which is host 2. `number` selects the subnets.
    fn add(&self, letter: char, number: u8) {
        let mac = |host| format!("02:00:00:00:0{number}:0{host}");
        self.client.ip(&format!(
            "link add {letter}0 address {} type veth peer name {letter}1 address {}",
            mac(1),
            mac(2)
        ));
        self.client
            .ip(&format!("link set {letter}1 netns {}", self.server.path));
        let sides = [(&self.client, 0, 1, 2), (&self.server, 1, 2, 1)];
        for (side, end, host, _) in sides {
            side.ip(&format!(
                "address add 10.0.{number}.{host}/24 broadcast 10.0.{number}.255 dev {letter}{end}"
            ));
            side.ip(&format!(
                "address add fd0{number}::{host}/64 dev {letter}{end} nodad"
            ));
            side.ip(&format!("link set {letter}{end} up"));
        }
        for (side, end, _, peer) in sides {
            for address in [format!("10.0.{number}.{peer}"), format!("fd0{number}::{peer}")] {
                side.ip(&format!(
                    "neighbour replace {address} lladdr {} dev {letter}{end} nud permanent",
                    mac(peer)
                ));
            }
        }
    }
}

/// Runs `test` on a thread in its own network namespace. If that is not permitted, prints one line and returns.
pub fn alone(test: impl FnOnce() + Send + 'static) {
    // The thread gets the name of the test, which `skipped` prints.
    let name = std::thread::current().name().map(String::from);
    let named = Builder::new().name(name.unwrap_or_default());
    let thread = named.spawn(move || {
        // SAFETY: unshare accesses no memory, and the new namespace affects only this thread.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            skipped("creating network namespaces needs root rights");
            return;
        }
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.expect("ip (iproute2)").success());
        test();
    });
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}
