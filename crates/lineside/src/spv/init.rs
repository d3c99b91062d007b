//! `lineside spv init`: creates an empty chain store.

use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_bitcoin_node::SignetId;
use lineside_spv::chain::{ChainStore, Network, StoreNetwork};
use lineside_spv::config::NetworkName;
use std::path::PathBuf;

/// Create an empty chain store, which `spv import` or `spv serve --node` then fills.
#[derive(Args)]
pub struct Init {
    /// Directory of the new chain store.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Network of the blocks; a store keeps its network.
    #[arg(long, value_enum)]
    network: NetworkName,
    /// Challenge of a custom signet, the value of `signetchallenge=` in Bitcoin Core's configuration; a node of another
    /// signet is refused [default: the default signet]
    #[arg(long, value_name = "HEX")]
    signet_challenge: Option<SignetId>,
    /// Also keep witness data for `spv verify --witness`: WTXIDs, and the coinbases that commit to them. Takes 32 bytes
    /// for each transaction since segwit, and cannot be changed later.
    #[arg(long)]
    witness: bool,
}

impl Init {
    fn network(&self) -> anyhow::Result<StoreNetwork> {
        let network = Network::from(self.network);
        match self.signet_challenge {
            None => Ok(network.into()),
            Some(signet) if network == Network::Signet => Ok(StoreNetwork::of_signet(signet)),
            Some(_) => bail!(Wrong(
                "--signet-challenge needs --network signet: other networks have no challenge".into()
            )),
        }
    }
}

/// Creates the store.
///
/// # Errors
/// The directory holds a store already, or cannot be written.
pub fn run(arguments: &Init, as_json: bool) -> anyhow::Result<()> {
    let (data, network) = (&arguments.data, arguments.network()?);
    if let Some(existing) = ChainStore::network_of(data)? {
        bail!(
            "{}: this directory holds a chain store of {existing} already; give another --data directory",
            data.display()
        );
    }
    let witness = arguments.witness;
    drop(ChainStore::make(Some(data), network, witness)?);
    if as_json {
        say!(
            "{}",
            serde_json::json!({"data": data.to_string_lossy(), "network": network.network.name(), "witness": witness})
        )?;
    } else {
        let with = if witness { " with witness data" } else { "" };
        say!(
            "{}: created an empty chain store of {network}{with}",
            data.display()
        )?;
    }
    Ok(())
}
