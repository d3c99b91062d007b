//! Attack with kill -9: clients send changes all the time, while the daemon is killed and started again. At the end,
//! each acknowledged change must be present exactly once.

mod column;
mod fabric;
mod hybrid;
mod transfer;

pub use column::column;
pub use fabric::fabric;
pub use hybrid::hybrid;
pub use transfer::{transfer, transfer_express};

use crate::server::Server;
use crate::service::Service;
use crate::{Report, Scene};
use lineside_testkit::Random;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which the daemon is killed even if it has acknowledged fewer changes than planned.
const LOAD_TIME: Duration = Duration::from_secs(3);
/// Maximum time from a kill to the first acknowledged change after it.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time-out of a client's request, including kills and starts of the daemon.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between two reads of the number of acknowledged changes.
const PROGRESS_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Returns a loopback address with port 0, for which the daemon chooses a port.
fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// State that the clients share with the thread that kills the daemon.
#[derive(Default)]
struct Load {
    /// True when the clients must finish their last change and return.
    is_over: AtomicBool,
    /// Number of changes acknowledged so far.
    acknowledged: AtomicU64,
    /// Number of packets that a client sent again, or whose outcome it does not know.
    repeated: AtomicU64,
    /// Answers that a correct server does not give.
    faults: Mutex<Vec<String>>,
}

impl Load {
    fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    fn acknowledge(&self, changes: u64) {
        self.acknowledged.fetch_add(changes, Relaxed);
    }

    fn fault(&self, text: String) {
        self.faults
            .lock()
            .expect("no client panics while it holds the lock")
            .push(text);
    }

    /// Kills and starts `server` again and again, each time after a random number of acknowledged changes. Returns the
    /// last server, which is running.
    fn kill(
        &self,
        scene: &Scene,
        service: &mut Service,
        server: Server,
        report: &mut Report,
    ) -> anyhow::Result<Server> {
        let most = scene.scale.of(2_000, 20_000);
        self.kill_and_look(scene, service, server, report, most, |_, _| Ok(()))
    }

    /// Does the same as [`kill`](Self::kill), each time after 100 to 100 + `most` further changes. Calls `look` to
    /// check the daemon's data before each start.
    fn kill_and_look(
        &self,
        scene: &Scene,
        service: &mut Service,
        mut server: Server,
        report: &mut Report,
        most: u64,
        look: impl Fn(&Service, &mut Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Server> {
        let mut random = Random(scene.seed);
        for _ in 0..scene.scale.of(4, 40) {
            let wanted = self.acknowledged.load(Relaxed) + 100 + random.below(most);
            self.wait_for(wanted)?;
            report.peak(server.peak_bytes());
            server.kill();
            if scene.disk_forgets {
                service.turn_back()?;
            }
            look(service, report)?;
            server = service.start(None)?;
            report.count("kills", 1);
        }
        Ok(server)
    }

    /// Waits until `wanted` changes are acknowledged, or until the time is over and at least one change is
    /// acknowledged.
    fn wait_for(&self, wanted: u64) -> anyhow::Result<()> {
        let (begin, before) = (Instant::now(), self.acknowledged.load(Relaxed));
        loop {
            let now = self.acknowledged.load(Relaxed);
            if now >= wanted || (now > before && begin.elapsed() > LOAD_TIME) {
                return Ok(());
            }
            anyhow::ensure!(
                begin.elapsed() < LOAD_TIMEOUT,
                "the clients get no answers from the daemon: {:?}",
                self.faults
            );
            std::thread::sleep(PROGRESS_POLL_INTERVAL);
        }
    }

    /// Adds the counts of the clients to `report`.
    fn tell(&self, report: &mut Report) {
        report.count("acknowledged", self.acknowledged.load(Relaxed));
        report.count("repeated", self.repeated.load(Relaxed));
        for text in self
            .faults
            .lock()
            .expect("no client panics while it holds the lock")
            .drain(..)
        {
            report.fault(text);
        }
    }
}

/// Runs `clients` while `attack` runs, then stops them. Returns the results of the clients.
fn under_load<T: Send>(
    load: &Load,
    clients: impl Iterator<Item = impl FnOnce() -> T + Send>,
    attack: impl FnOnce() -> anyhow::Result<Server>,
) -> anyhow::Result<(Server, Vec<T>)> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = clients.map(|client| scope.spawn(client)).collect();
        let server = attack();
        load.is_over.store(true, Relaxed);
        let results = threads.into_iter().map(|thread| thread.join());
        let results = results.collect::<Result<Vec<T>, _>>();
        Ok((
            server?,
            results.map_err(|_| anyhow::anyhow!("a client panicked"))?,
        ))
    })
}
