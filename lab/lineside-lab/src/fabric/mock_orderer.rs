//! `lineside-lab fabric mock-orderer`: delivers recorded blocks as an orderer does.

use anyhow::Context;
use clap::Args;
use lineside::{out, run, say};
use lineside_fabric::Validator;
use lineside_fabric_grpc::mock::{self, Orderer};
use lineside_fabric_grpc::source::{MemorySource, ReadAccess};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// Deliver recorded blocks as an orderer does, to every client, without TLS.
#[derive(Args)]
pub struct MockOrderer {
    /// Folder with files NNNNN.orderer.pb.gz, numbered from 00000.
    folder: PathBuf,
    /// Address to listen on.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 7050)))]
    listen: SocketAddr,
}

/// Delivers the blocks until a signal arrives.
///
/// # Errors
/// Fails if the blocks cannot be read, or if the address cannot be bound.
pub fn run(arguments: &MockOrderer, as_json: bool) -> anyhow::Result<()> {
    let blocks = MemorySource::read(&arguments.folder, "orderer")?;
    let genesis = blocks.first().with_context(|| {
        format!(
            "{}: there is no 00000.orderer.pb.gz; give a folder with the blocks of an orderer",
            arguments.folder.display()
        )
    })?;
    let channel = Validator::new(genesis, lineside_fabric::Options::default())?
        .channel()
        .to_owned();
    let count = blocks.len();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let blocks = mock::Blocks::new(&channel, blocks, ReadAccess::Everybody);
        let orderer = Orderer::start(arguments.listen, None, blocks).await?;
        orderer.blocks.show(u64::MAX);
        let listen = orderer.endpoint();
        out::said_by_server(match as_json {
            true => say!(
                "{}",
                json!({ "channel": channel, "blocks": count, "listen": listen })
            ),
            false => say!(
                "channel {channel}: {} on {listen}{}",
                out::counted(count, "block"),
                run::end_notice()
                    .map(|notice| format!("; {notice}"))
                    .unwrap_or_default()
            ),
        });
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        orderer.running.stop().await?;
        Ok(())
    })
}
