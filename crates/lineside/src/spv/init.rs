//! `lineside spv init`: makes an empty chain store.

use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_bitcoin_node::SignetId;
use lineside_spv::chain::{ChainStore, Network, StoreNetwork};
use lineside_spv::config::NetworkName;
use std::path::PathBuf;

/// Make an empty chain store, which `spv serve --node` fills from a full node.
#[derive(Args)]
pub struct Init {
    /// Directory of the new chain store.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The network of the blocks. A store is of one network, for good.
    #[arg(long, value_enum)]
    network: NetworkName,
    /// The challenge of a custom signet, as `signetchallenge=` of Bitcoin Core has it; without it, --network signet is
    /// the default signet. A node of another signet is refused.
    #[arg(long, value_name = "HEX")]
    signet_challenge: Option<SignetId>,
    /// Keep witness data of every block, too: WTXIDs and the coinbases that commit to them, for `spv verify --witness`.
    /// A store is made with it or without, for good; it takes 32 bytes more for each transaction since segwit.
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
                "--signet-challenge is for --network signet: other networks have no challenge".into()
            )),
        }
    }
}

/// Makes the store.
///
/// # Errors
/// A store that is there already; the system's reason.
pub fn run(arguments: &Init, as_json: bool) -> anyhow::Result<()> {
    let (data, network) = (&arguments.data, arguments.network()?);
    if let Some(found) = ChainStore::network_of(data)? {
        bail!("{}: there is a chain store of {found} already", data.display());
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
        say!("{}: an empty chain store of {network}{with}", data.display())?;
    }
    Ok(())
}
