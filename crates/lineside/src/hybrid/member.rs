//! Who asks whom: what the asking verbs share.

use super::asker::Asker;
use super::key;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_hybrid::Code;
use lineside_hybrid::answer::code_name;
use lineside_hybrid::change::KeyBytes;
use lineside_hybrid::genesis::{Genesis, database_id};
use lineside_hybrid::request::{MemberId, Version};
use lineside_hybrid::udp;
use lineside_hybrid_grpc::client::Coded;
use lineside_hybrid_grpc::{Client, ClientTls, Identity, messages, paper};
pub use lineside_hybrid_node::files::read_genesis;
use lineside_util::hex::from_hex;
use lineside_wire::HYBRID_PORT;
use serde_json::{Value, json};
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::Duration;

/// How long an answer by UDP is waited for, and asked for again.
const UDP_TIME: Duration = Duration::from_secs(10);

/// Who asks whom.
#[derive(Args)]
pub struct Member {
    /// The node, HOST:PORT.
    #[arg(long, default_value_t = format!("127.0.0.1:{HYBRID_PORT}"))]
    server: String,
    /// The same by UDP, HOST:PORT: for what fits a datagram of 1,200 bytes.
    #[arg(long, value_name = "SERVER", conflicts_with_all = ["server", "tls_ca"])]
    udp: Option<String>,
    /// The member's key (`lineside hybrid key new` makes one).
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The database's genesis: it says the database, and the member whose key this is.
    #[arg(long, default_value = "genesis.bin")]
    genesis: PathBuf,
    /// The member's number, where the key is not of the genesis.
    #[arg(long)]
    member: Option<MemberId>,
    /// Which of the member's keys it is.
    #[arg(long, default_value_t = 0)]
    key_number: u16,
    /// Who writes with the same key at the same time takes another lane.
    #[arg(long, default_value_t = 0)]
    lane: u16,
    /// CA certificates of the server: by TLS.
    #[arg(long)]
    tls_ca: Option<PathBuf>,
    /// The client's certificate, for mutual TLS.
    #[arg(long, requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// The name in the server's certificate, where it is not the host's.
    #[arg(long, requires = "tls_ca")]
    tls_name: Option<String>,
}

/// The member whose key this is in the genesis.
pub fn member_of(genesis: &Genesis, key: &KeyBytes) -> Option<MemberId> {
    let mut members = genesis.members.iter();
    members.find(|first| first.key == *key).map(|first| first.member)
}

impl Member {
    fn identity(&self) -> anyhow::Result<Identity> {
        let secret = key::read(&self.key)?;
        let (genesis, bytes) = read_genesis(&self.genesis)?;
        let public = secret.public();
        let of_genesis = || member_of(&genesis, &public);
        let member = self.member.or_else(of_genesis).ok_or_else(|| {
            let (key, genesis) = (self.key.display(), self.genesis.display());
            Wrong(format!(
                "{key}: no member of {genesis} has this key; --member N says whose it is"
            ))
        })?;
        Ok(Identity {
            database: database_id(&bytes),
            member,
            key: self.key_number,
            lane: self.lane,
            secret,
        })
    }

    fn tls(&self) -> anyhow::Result<Option<ClientTls>> {
        let Some(roots) = &self.tls_ca else {
            return Ok(None);
        };
        let own = self.tls_certificate.as_deref().zip(self.tls_key.as_deref());
        let tls = ClientTls::from_files(roots, own).map_err(|error| Wrong(format!("{error:#}")))?;
        Ok(Some(match &self.tls_name {
            Some(name) => tls.server_name(name),
            None => tls,
        }))
    }

    /// Does `ask` with a client of this member.
    ///
    /// # Errors
    /// What is wrong with the files; no connection; what `ask` says.
    pub fn ask<T>(&self, ask: impl AsyncFnOnce(&Asker) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let (identity, tls) = (self.identity()?, self.tls()?);
        runtime()?.block_on(async {
            if let Some(server) = &self.udp {
                let address = server.to_socket_addrs().map(|mut all| all.next());
                let address = address.map_err(|error| Wrong(format!("--udp {server}: {error}")))?;
                let address = address.with_context(|| format!("--udp {server}: no address"))?;
                let client = udp::Client::connect(address, identity, UDP_TIME)?;
                return ask(&Asker::Udp(client.into())).await;
            }
            let client = Client::connect(&self.server, tls.as_ref(), identity).await;
            let client = client.context("does `lineside hybrid serve` run there?")?;
            ask(&Asker::Grpc(client)).await
        })
    }

    /// The same as the paper's clients do: the key is all that says who asks.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_as_paper<T>(
        &self,
        ask: impl AsyncFnOnce(&paper::Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        runtime()?.block_on(async { ask(&self.paper_client().await?).await })
    }

    /// A client that asks as the paper's do.
    ///
    /// # Errors
    /// What is wrong with the files; no connection.
    pub async fn paper_client(&self) -> anyhow::Result<paper::Client> {
        if self.udp.is_some() {
            bail!(Wrong(
                "the paper's requests go by gRPC alone: --server instead of --udp".into()
            ));
        }
        let (secret, tls) = (key::read(&self.key)?, self.tls()?);
        let client = paper::Client::connect(&self.server, tls.as_ref(), secret).await;
        client.context("does `lineside hybrid serve` run there?")
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// The answer's code, where it is none of `good`: what to say, as an error.
///
/// # Errors
/// The refusal.
pub fn refused(answer: &impl Coded, good: &[Code]) -> anyhow::Result<Code> {
    let code = answer.known_code()?;
    if good.contains(&code) {
        return Ok(code);
    }
    let hint = match code {
        Code::Conflict => ": get it again, and decide again",
        Code::NonceUsed => {
            ": another process signs in the same lane, or the clock was set back; --lane N takes another"
        }
        Code::Expired => ": this machine's clock is behind the node's",
        Code::ExpiryTooFar => ": this machine's clock is ahead of the node's",
        Code::UnknownMember => ": --member and --key-number say who signs",
        Code::OutcomeUnknown => ": `lineside hybrid outcome` asks, with the id",
        _ => "",
    };
    bail!("refused: {} ({}){hint}", code_name(code), code.meaning())
}

/// A version in words: BLOCK.INDEX.
pub fn shown(version: Option<messages::Version>) -> String {
    match version.map(Version::from) {
        None | Some(Version::ABSENT) => "absent".into(),
        Some(version) => format!("{}.{}", version.block, version.index),
    }
}

/// A version in JSON; null where there is none.
pub fn version_json(version: Option<messages::Version>) -> Value {
    version.map_or(
        Value::Null,
        |version| json!({"block": version.block, "index": version.index}),
    )
}

/// A version from words.
///
/// # Errors
/// What is allowed.
pub fn version(text: &str) -> Result<Version, String> {
    let parse = || {
        let (block, index) = text.split_once('.')?;
        Some(Version {
            block: block.parse().ok()?,
            index: index.parse().ok()?,
        })
    };
    match text {
        "absent" => Ok(Version::ABSENT),
        _ => parse().ok_or_else(|| "a version is BLOCK.INDEX, or absent".into()),
    }
}

/// 32 bytes from 64 hex digits.
///
/// # Errors
/// What is allowed.
pub fn hash(text: &str) -> Result<[u8; 32], String> {
    let bytes = from_hex(text).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "64 hex digits are wanted".into())
}

/// A block from words: NUMBER:HASH.
///
/// # Errors
/// What is allowed.
pub fn block(text: &str) -> Result<(u64, [u8; 32]), String> {
    let parts = text.split_once(':').and_then(|(number, digits)| {
        let number = number.parse().ok()?;
        Some((number, hash(digits).ok()?))
    });
    parts.ok_or_else(|| "NUMBER:HASH is wanted, of 64 hex digits".into())
}
