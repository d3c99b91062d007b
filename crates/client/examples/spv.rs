//! Asks a server of `spv` for a transaction, and verifies the proof with an own chain of headers.
//!
//! With the server of `lineside-lab demo`, which prints a TXID to try:
//!
//!     cargo run -p lineside-client --example spv -- 127.0.0.1:7701 regtest TXID

use lineside_client::spv::Client;
use lineside_client::spv_proof::{ChainOptions, HeaderChain, Network, from_display, to_display};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, network, txid] = &arguments[..] else {
        return Err("give ADDR:PORT, the network (mainnet, testnet4, signet or regtest) and a TXID".into());
    };
    let networks = [
        Network::Mainnet,
        Network::Testnet4,
        Network::Signet,
        Network::Regtest,
    ];
    let network = networks.into_iter().find(|known| known.name() == network);
    let network = network.ok_or("unknown network")?;
    let txid = from_display(txid).ok_or("a TXID has 64 hex digits")?;
    let mut client = Client::connect(server.parse()?, Duration::from_secs(3))?;
    match client.root(&txid)?.result {
        Some(found) => {
            let hash = to_display(&found.block_hash);
            println!("the server says: block {}", String::from_utf8_lossy(&hash));
        }
        None => return Err("the server does not know this transaction".into()),
    }
    let mut chain = HeaderChain::in_memory(network, ChainOptions::default());
    let verified = client.verified(&mut chain, &txid)?;
    println!(
        "verified: transaction {} of block {}, {} confirmations",
        verified.proof.index, verified.proof.height, verified.confirmations
    );
    Ok(())
}
