//! Attack `kill` on `hybrid`. Each client sets its own keys by gRPC, each key once. If a write gets no answer, the
//! client looks up its outcome by its id, and sends the same write again if the ledger does not have it. In the end,
//! every key must have exactly one write, at the acknowledged position.

use super::{Load, REQUEST_TIMEOUT, any_port, under_load};
use crate::server::Server;
use crate::service::{Name, Service};
use crate::{Report, Scene};
use anyhow::{Context, ensure};
use bytes::Bytes;
use lineside_client::hybrid::grpc::{Client, Identity};
use lineside_messages::hybrid::grpc::{Placed, Version};
use lineside_messages::hybrid::request::Body;
use lineside_messages::hybrid::signing::{Signing, id_of};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const CLIENTS: u16 = 6;
/// Lane (number of independent requests of one member) of the first client. The honest client of the service uses lower
/// lanes.
const FIRST_LANE: u16 = 10;
/// Number of newest writes of a key that the check requests.
const HISTORY: u32 = 4;

/// Keys of one client, each with the position that the node has acknowledged.
type Places = Vec<(Vec<u8>, Version)>;

/// Runs the case with the embedded log.
pub fn hybrid(scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
    let mut service = Service::new(scene, Name::Hybrid, any_port(), "")?;
    let server = service.start(None)?;
    let runtime = Runtime::new()?;
    let load = Load::default();
    let mut writers = Vec::new();
    for number in 0..CLIENTS {
        writers.push(Writer {
            number,
            endpoint: server.listen.to_string(),
            signing: service.signing(FIRST_LANE + number)?,
            reader: service.identity(FIRST_LANE + CLIENTS + number)?,
            client: None,
            places: Places::new(),
        });
    }
    let clients = writers.into_iter().map(|mut writer| {
        let (load, runtime) = (&load, runtime.handle());
        move || {
            if let Err(why) = runtime.block_on(writer.write(load)) {
                load.fault(format!("client {}: {why:#}", writer.number));
            }
            writer.places
        }
    });
    let (server, places) = under_load(&load, clients, || load.kill(scene, &mut service, server, report))?;
    load.tell(report);
    report.peak(server.peak_bytes());
    runtime.block_on(check(&service, &server, &places, report))?;
    server.terminate()?;
    let (is_right, said) = service.command(&["hybrid", "audit", "--data", "data"])?;
    ensure!(is_right, "`lineside hybrid audit`: {said}");
    Ok(())
}

/// Client that writes.
struct Writer {
    number: u16,
    endpoint: String,
    /// Signer of the client's writes.
    signing: Signing,
    /// Identity that looks up outcomes. It uses another lane than the writes.
    reader: Identity,
    /// Open connection to the node, if there is one.
    client: Option<Client>,
    /// Acknowledged positions of the writes.
    places: Places,
}

impl Writer {
    /// Sets one key after another until the attack is over, and records the position of each write.
    async fn write(&mut self, load: &Load) -> anyhow::Result<()> {
        let mut number = 0u64;
        while !load.is_over() {
            number += 1;
            let key = format!("client{}/{number:08}", self.number).into_bytes();
            let request = self.signing.sign(Body::set(&key, None, &number.to_be_bytes()))?;
            let placed = self.place(request, load).await?;
            ensure!(
                placed.code == 0,
                "unexpected code {} for key {number}",
                placed.code_name
            );
            let version = placed.version.context("an acknowledged write has no position")?;
            self.places.push((key, version));
            load.acknowledge(1);
        }
        Ok(())
    }

    /// Sends one signed write until its position is known, even if calls break and the daemon is killed.
    async fn place(&mut self, request: Bytes, load: &Load) -> anyhow::Result<Placed> {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let mut may_be_ordered = false;
        while Instant::now() < deadline {
            let Some(client) = self.connected().await else {
                continue;
            };
            if may_be_ordered {
                match client.read_outcome(id_of(&request), None).await {
                    Ok(placed) if placed.version.is_some() => return Ok(placed),
                    Ok(_) => {}
                    Err(_) => {
                        self.client = None;
                        continue;
                    }
                }
            }
            match client.connection().set(request.clone()).await {
                // The first copy of the write was ordered after the look-up of its outcome.
                Ok(placed) if may_be_ordered && placed.version.is_none() => {}
                Ok(placed) => return Ok(placed),
                Err(_) => self.client = None,
            }
            may_be_ordered = true;
            load.repeated.fetch_add(1, Relaxed);
        }
        anyhow::bail!("the node did not report the position of a write within {REQUEST_TIMEOUT:?}")
    }

    /// Returns the open connection, or opens one. Returns `None` after a short pause if the node is down.
    async fn connected(&mut self) -> Option<&Client> {
        if self.client.is_none() {
            match Client::connect(&self.endpoint, None, self.reader.clone()).await {
                Ok(client) => self.client = Some(client),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        self.client.as_ref()
    }
}

/// Compares the acknowledged positions with the ledger: each key must have one write, at its position.
async fn check(
    service: &Service,
    server: &Server,
    places: &[Places],
    report: &mut Report,
) -> anyhow::Result<()> {
    let endpoint = server.listen.to_string();
    let client = Client::connect(&endpoint, None, service.identity(FIRST_LANE + 2 * CLIENTS)?).await?;
    for (key, version) in places.iter().flatten() {
        let writes = client.history(key, HISTORY, None).await?.writes;
        let name = String::from_utf8_lossy(key);
        match writes.as_slice() {
            [] => report.lose(format!(
                "{name}: the write was acknowledged as version {version:?}, but the ledger does not have it"
            )),
            [one] if one.version.as_ref() == Some(version) => {}
            [one] => report.fault(format!(
                "{name}: the write was acknowledged as version {version:?}, but the ledger has it as {:?}",
                one.version
            )),
            more => report.double(format!("{name} has {} writes instead of 1", more.len())),
        }
    }
    Ok(())
}
