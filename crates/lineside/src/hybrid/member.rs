//! Options and helpers that the client verbs share: the node, the member whose key signs the requests, and parsers.

use super::asker::Asker;
use super::key;
use crate::address::AddressError;
use crate::wrong::Wrong;
use anyhow::{Context, anyhow, bail};
use clap::Args;
use lineside_client::hybrid::answer::code_name;
use lineside_client::hybrid::change::KeyBytes;
use lineside_client::hybrid::genesis::{Genesis, database_id};
use lineside_client::hybrid::grpc::Coded;
use lineside_client::hybrid::grpc::{Client, ClientTls, Identity, messages, paper};
use lineside_client::hybrid::request::{MemberId, Version};
use lineside_client::hybrid::udp;
use lineside_client::hybrid::{AskError, Code};
pub use lineside_hybrid_node::files::read_genesis;
use lineside_util::hex::from_hex;
use lineside_wire::HYBRID_PORT;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Milliseconds to wait for a reply by gRPC, and by UDP with repeats of the request.
const GRPC_MS: u64 = 60_000;
const UDP_MS: u64 = 10_000;
/// Maximum time to wait by UDP: a signed request is valid for 30 s.
const UDP_MS_MAX: u64 = 29_999;

/// Returns `text` if it is an address, or a name that has one. The name is kept, because a certificate names it.
fn endpoint(text: &str) -> Result<String, AddressError> {
    crate::address::parse(text)?;
    Ok(text.to_owned())
}

/// Node that requests go to, and the member whose key signs them.
#[derive(Args)]
pub struct Member {
    /// Address and TCP port of the node (gRPC).
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = endpoint,
        default_value_t = format!("127.0.0.1:{HYBRID_PORT}")
    )]
    server: String,
    /// Address and UDP port of the node, instead of --server; for requests and replies of up to 1,200 bytes.
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = crate::address::parse,
        conflicts_with_all = ["server", "tls_ca"]
    )]
    udp: Option<SocketAddr>,
    /// Milliseconds to wait for a reply, up to 3600000 (one hour) [default: 60000; with --udp 10000, up to 29999]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    timeout_ms: Option<u64>,
    /// Key file of the member (`lineside hybrid key new` creates one).
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File with the genesis of the database, which identifies the database and the member with this key.
    #[arg(long, value_name = "FILE", default_value = "genesis.bin")]
    genesis: PathBuf,
    /// Number of the member, if the key is not in the genesis.
    #[arg(long, value_name = "N")]
    member: Option<MemberId>,
    /// Number of the key among the keys of the member.
    #[arg(long, value_name = "N", default_value_t = 0)]
    key_number: u16,
    /// Lane of writes; processes that write with the same key at the same time need different lanes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    lane: u16,
    /// File with the CA certificates to trust for the node's TLS [default: no TLS]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// File with the client's certificate, for mutual TLS.
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// File with the key of --tls-certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Host name in the node's certificate [default: host of --server]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_name: Option<String>,
}

/// Returns the member that has this key in the genesis.
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
                "{key}: no member in {genesis} has this key; give the number of the key's member with --member N if \
                 the member or the key was added later"
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

    /// Runs `ask` with a client of this member.
    ///
    /// # Errors
    /// A file cannot be used, the node cannot be reached, or `ask` fails.
    pub fn ask<T>(&self, ask: impl AsyncFnOnce(&Asker) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let (identity, tls) = (self.identity()?, self.tls()?);
        let timeout = self.timeout()?;
        runtime()?.block_on(async {
            if let Some(address) = self.udp {
                let client = udp::Client::connect(address, identity, timeout)?;
                return ask(&Asker::Udp(client.into())).await;
            }
            let connect = Client::connect(&self.server, tls.as_ref(), identity);
            let client = self.connected(connect).await?.with_timeout(timeout);
            ask(&Asker::Grpc(client)).await
        })
    }

    /// Returns the time to wait for a reply.
    fn timeout(&self) -> anyhow::Result<Duration> {
        let (default, most) = match self.udp {
            Some(_) => (UDP_MS, UDP_MS_MAX),
            None => (GRPC_MS, u64::MAX),
        };
        let ms = self.timeout_ms.unwrap_or(default);
        if ms > most {
            bail!(Wrong(format!(
                "--timeout-ms {ms}: a signed request is valid for 30 s; give at most {most} with --udp"
            )));
        }
        Ok(Duration::from_millis(ms))
    }

    /// Waits for a connection by gRPC.
    async fn connected<T>(&self, connect: impl Future<Output = Result<T, AskError>>) -> anyhow::Result<T> {
        let timeout = self.timeout()?;
        let late = || anyhow!("{}: no connection within {timeout:?}", self.server);
        let connected = match tokio::time::timeout(timeout, connect).await {
            Ok(connected) => connected.map_err(anyhow::Error::from),
            Err(_) => Err(late()),
        };
        connected.context("cannot reach the node; is `lineside hybrid serve` running at --server?")
    }

    /// Runs `ask` with a client in the paper's mode, in which the key alone identifies the member.
    ///
    /// # Errors
    /// See [`Self::ask`].
    pub fn ask_as_paper<T>(
        &self,
        ask: impl AsyncFnOnce(&paper::Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        runtime()?.block_on(async { ask(&self.paper_client().await?).await })
    }

    /// Returns a client that sends the paper's requests.
    ///
    /// # Errors
    /// A file cannot be used, or the node cannot be reached.
    pub async fn paper_client(&self) -> anyhow::Result<paper::Client> {
        if self.udp.is_some() {
            bail!(Wrong(
                "the paper's requests go by gRPC only: give --server instead of --udp".into()
            ));
        }
        let (secret, tls) = (key::read(&self.key)?, self.tls()?);
        let connect = paper::Client::connect(&self.server, tls.as_ref(), secret);
        Ok(self.connected(connect).await?.with_timeout(self.timeout()?))
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Returns the code of a reply.
///
/// # Errors
/// The code is not in `good`; the error names it and says what to do.
pub fn refused(answer: &impl Coded, good: &[Code]) -> anyhow::Result<Code> {
    let code = answer.known_code()?;
    if good.contains(&code) {
        return Ok(code);
    }
    let hint = match code {
        Code::Conflict => ": read the key again, then decide with its new version",
        Code::NonceUsed => {
            ": another process writes in the same lane, or the clock was set back; give another --lane N"
        }
        Code::Expired => ": this machine's clock is behind the node's; correct it",
        Code::ExpiryTooFar => ": this machine's clock is ahead of the node's; correct it",
        Code::UnknownMember => ": check --member and --key-number",
        Code::OutcomeUnknown => ": ask later with `lineside hybrid outcome ID`",
        _ => "",
    };
    bail!("refused: {} ({}){hint}", code_name(code), code.meaning())
}

/// Returns the text form of a version, BLOCK.INDEX, or `absent`.
pub fn version_text(version: Option<messages::Version>) -> String {
    match version.map(Version::from) {
        None | Some(Version::ABSENT) => "absent".into(),
        Some(version) => format!("{}.{}", version.block, version.index),
    }
}

/// Returns a version as JSON; null for none.
pub fn version_json(version: Option<messages::Version>) -> Value {
    version.map_or(
        Value::Null,
        |version| json!({"block": version.block, "index": version.index}),
    )
}

/// Parses a version: BLOCK.INDEX, or `absent`.
///
/// # Errors
/// The text does not have this form.
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

/// Parses 32 bytes from 64 hex digits.
///
/// # Errors
/// The text does not have this form.
pub fn hash(text: &str) -> Result<[u8; 32], String> {
    let bytes = from_hex(text).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "must be 64 hex digits".into())
}

/// Parses the number and hash of a block: NUMBER:HASH.
///
/// # Errors
/// The text does not have this form.
pub fn block(text: &str) -> Result<(u64, [u8; 32]), String> {
    let parts = text.split_once(':').and_then(|(number, digits)| {
        let number = number.parse().ok()?;
        Some((number, hash(digits).ok()?))
    });
    parts.ok_or_else(|| "must be NUMBER:HASH with a hash of 64 hex digits".into())
}
