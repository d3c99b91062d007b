//! Channel of Fabric: generated blocks, whose validation codes are known before a replica receives them, and an orderer
//! that delivers the blocks.

use crate::Scene;
use crate::server::Server;
use crate::service::{Name, Service};
use anyhow::ensure;
use bytes::Bytes;
use lineside_fabric_grpc::Signer;
use lineside_fabric_grpc::mock::{Blocks, Orderer};
use lineside_fabric_grpc::source::ReadAccess;
use lineside_fabric_maker::{Blocks as Maker, MadeBlock, Network, Options, Workload};
use serde_json::Value;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Name of the channel.
pub const NAME: &str = "lab";
/// Name of the MSP of the replicas' identity and of their clients' identities.
const MSP: &str = "Org1MSP";
/// Interval between two reads of a replica's height.
const HEIGHT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Generated channel.
pub struct Channel {
    /// Blocks of the channel, beginning with the genesis block.
    pub blocks: Vec<MadeBlock>,
    /// Orderer of the channel. At first it delivers no block.
    pub orderer: Orderer,
    network: Arc<Network>,
}

impl Channel {
    /// Generates the blocks of `workload` and starts an orderer at a loopback port.
    ///
    /// # Errors
    /// Fails if there is no free port.
    pub fn start(runtime: &Runtime, workload: Workload) -> anyhow::Result<Self> {
        let network = Arc::new(Network::new(7, Options::default()));
        let blocks: Vec<MadeBlock> = Maker::new(Arc::clone(&network), workload, 1).collect();
        let bytes = blocks.iter().map(|made| Bytes::from(made.bytes.clone()));
        let source = Blocks::new(NAME, bytes.collect(), ReadAccess::Everybody);
        let orderer = runtime.block_on(Orderer::start("127.0.0.1:0", None, source))?;
        Ok(Self {
            blocks,
            orderer,
            network,
        })
    }

    /// Returns the number of blocks.
    pub fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Prepares a replica that follows the orderer. `keys` contains additional lines of its configuration section.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn replica(&self, scene: &Scene, keys: &str) -> anyhow::Result<Service> {
        let listen: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let mut service = Service::new(scene, Name::Fabric, listen, keys)?;
        let folder = service.folder.path();
        let (genesis, msp) = (folder.join("genesis"), folder.join("msp"));
        self.network.client(0).write_msp(&msp)?;
        fs::write(&genesis, &self.blocks[0].bytes)?;
        let endpoint = self.orderer.endpoint();
        service.add_keys(&format!(
            "genesis = {genesis:?}\norderers = [{endpoint:?}]\nmsp_id = {MSP:?}\nmsp = {msp:?}\n"
        ));
        Ok(service)
    }

    /// Returns an identity that may read the channel at `replica`.
    ///
    /// # Errors
    /// Fails if the replica's folder contains no identity.
    pub fn reader(&self, replica: &Service) -> anyhow::Result<Signer> {
        let folder = replica.folder.path().join("msp");
        Ok(Signer::from_msp_folder(MSP, &folder)?)
    }
}

/// Waits until the replica has `height` blocks.
///
/// # Errors
/// Fails if the replica does not have the blocks within `patience`, or if its console does not answer.
pub fn wait_for(replica: &Server, height: u64, patience: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let (_, status) = replica.page("/status")?;
        let taken = height_in(&serde_json::from_str(&status)?);
        if taken == Some(height) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the replica has height {taken:?} instead of {height} after {patience:?}"
        );
        std::thread::sleep(HEIGHT_POLL_INTERVAL);
    }
}

/// Returns the number of blocks that the replica reports in `/status`.
fn height_in(status: &Value) -> Option<u64> {
    let mut services = status["services"].as_array()?.iter();
    let fabric = services.find(|service| service["name"] == "fabric")?;
    fabric["host"]["height"].as_u64()
}
