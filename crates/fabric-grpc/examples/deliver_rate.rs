//! Measures the speed of a mock orderer and a follower in one process: `deliver_rate MSP CERTIFICATE KEY FOLDER
//! [ROUNDS]`.
//!
//! FOLDER holds recorded blocks. The program renumbers them in each round, and does not validate them. The printed CPU
//! time is that of the orderer and the follower together.

use lineside_fabric::block::Block;
use lineside_fabric::proto::{Arena, wire};
use lineside_fabric_grpc::client::{BlockVerdict, Options};
use lineside_fabric_grpc::mock::{Blocks, Orderer};
use lineside_fabric_grpc::source::{MemorySource, ReadAccess};
use lineside_fabric_grpc::{Signer, follow};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Returns the block with another number.
fn renumbered(bytes: &[u8], number: u64) -> Vec<u8> {
    let mut header = Vec::new();
    wire::put_number(&mut header, 1, number);
    let mut out = bytes.to_vec();
    // A protobuf parser merges this second header with the first header, so the new number applies.
    wire::put_bytes(&mut out, 1, &header);
    out
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [msp, certificate, key, folder, rounds @ ..] = arguments.as_slice() else {
        return Err("rate MSP CERTIFICATE KEY FOLDER [ROUNDS]".into());
    };
    let rounds: usize = rounds.first().map_or(Ok(10), |rounds| rounds.parse())?;
    let signer = Signer::from_pem(msp, &std::fs::read(certificate)?, &std::fs::read(key)?)?;
    let recorded = MemorySource::read(Path::new(folder), "orderer")?;
    let (mut all, mut transactions, mut bytes) = (Vec::new(), 0, 0);
    for _ in 0..rounds {
        for block in &recorded {
            let number = all.len() as u64;
            transactions += Block::read(block, &Arena::new())?.transactions.len();
            bytes += block.len();
            all.push(if rounds == 1 {
                block.clone()
            } else {
                renumbered(block, number).into()
            });
        }
    }
    let last = all.len() as u64 - 1;
    let orderer = Orderer::start(
        "127.0.0.1:0",
        None,
        Blocks::new("rate", all, ReadAccess::Everybody),
    )
    .await?;
    orderer.blocks.show(u64::MAX);
    let options = Options::new(vec![orderer.endpoint()], Arc::new(signer), "rate", 0);
    let (started, cpu) = (Instant::now(), cpu_seconds());
    let on_block = |received: lineside_fabric_grpc::client::ReceivedBlock| match received.number == last {
        true => BlockVerdict::Stop,
        false => BlockVerdict::Taken,
    };
    follow(options, on_block).await;
    let (wall, cpu) = (started.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!(
        "{} blocks, {transactions} transactions, {bytes} bytes: {:.0} MB/s, {:.0} tx/s; {:.4} CPU ms a transaction",
        last + 1,
        bytes as f64 / wall / 1e6,
        transactions as f64 / wall,
        cpu * 1e3 / transactions as f64,
    );
    Ok(())
}
