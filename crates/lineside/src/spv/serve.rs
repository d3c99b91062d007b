//! `lineside spv serve`: options of the command line.

use crate::config::Config;
use crate::run::{self, Overrides};
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_service::ByteSize;
use lineside_service::config::{AddressRange, given};
use lineside_spv::config::{IndexName, NetworkName, Prefill, SpvConfig, TableName};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a chain store until a signal ends it: by UDP, and, where their addresses are given, to wallets (--electrum)
/// and explorers (--http). With --node it follows a full node.
#[derive(Args)]
pub struct Serve {
    /// The configuration file; what is given here goes before it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and UDP port.
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// The chain store's directory.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The network that the chain store must have; without it, the store's own.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Where the index of TXIDs is kept: in memory, built again at each start, or on the disk, for mainnet.
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// Requests by UDP that are answered, and kept in the fast path: root, proof (needs root), witness, header.
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    tables: Option<Vec<TableName>>,
    /// Keep the bytes of new blocks, too, in `blocks` in the chain store's directory, as blk*.dat.
    #[arg(long, value_name = "BOOL")]
    keep_blocks: Option<bool>,
    /// Blocks that the fast path is filled with before the server answers: none, tip:N (the newest N) or all.
    #[arg(long, value_parser = |text: &str| Prefill::try_from(text.to_owned()))]
    prefill: Option<Prefill>,
    /// log2 of the number of TXIDs that the fast path has room for; each takes 64 bytes.
    #[arg(long)]
    line_bits: Option<u32>,
    /// Places in the fast path's table at which one TXID may be: 1, 2 or 4.
    #[arg(long, value_name = "N")]
    ways: Option<u32>,
    /// log2 of the number of blocks whose TXIDs the fast path may hold at a time.
    #[arg(long)]
    block_bits: Option<u32>,
    /// log2 of the number of nodes of Merkle trees that the fast path proves with; 0: the host proves.
    #[arg(long)]
    tree_bits: Option<u32>,
    /// Let a TXID's low bits choose its place, as in the paper; an attacker can then make transactions that displace
    /// each other.
    #[arg(long, value_name = "BOOL")]
    paper_index: Option<bool>,
    /// Answer the paper's packets, too: 32 bytes of TXID, answered with the Merkle root.
    #[arg(long, value_name = "BOOL")]
    paper_format: Option<bool>,
    /// Seconds for which the fast path goes on answering when it hears nothing from the host process.
    #[arg(long)]
    lease_s: Option<u64>,
    /// The full node that is followed: bitcoind://[USER[:PASSWORD]@]HOST:PORT, btcd://USER[:PASSWORD]@HOST:PORT,
    /// btcd+notls://… for btcd without TLS, blocks-dir:PATH for a node's block files, or embedded for none. Bitcoin
    /// Core needs --node-cookie, or a user; a user needs a password, best in --node-password or in the environment,
    /// LINESIDE_NODE_PASSWORD.
    #[arg(long, value_name = "URL")]
    node: Option<String>,
    /// The cookie file of Bitcoin Core, `.cookie` in its data directory or in the network's folder in it.
    #[arg(long, value_name = "FILE")]
    node_cookie: Option<PathBuf>,
    /// A file with the password of the node's RPC in its first line, which only its owner may read.
    #[arg(long, value_name = "FILE")]
    node_password: Option<PathBuf>,
    /// The certificate of btcd's RPC, `rpc.cert` in its data directory.
    #[arg(long, value_name = "FILE")]
    node_ca: Option<PathBuf>,
    /// Confirmations that a block needs before its transactions are answered.
    #[arg(long, value_name = "N")]
    min_confirmations: Option<u32>,
    /// Serve wallets by the Electrum protocol over TCP at this address.
    #[arg(long, value_name = "ADDR:PORT")]
    electrum: Option<SocketAddr>,
    /// Serve wallets by the Electrum protocol over TLS at this address.
    #[arg(long, value_name = "ADDR:PORT")]
    electrum_tls: Option<SocketAddr>,
    /// The certificate for --electrum-tls, PEM.
    #[arg(long, value_name = "FILE")]
    electrum_certificate: Option<PathBuf>,
    /// The key of --electrum-certificate, PEM, which only its owner may read.
    #[arg(long, value_name = "FILE")]
    electrum_key: Option<PathBuf>,
    /// The Electrum server, such as electrs, to which requests are forwarded that are not answered here.
    #[arg(long, value_name = "[tls://]HOST:PORT")]
    electrum_upstream: Option<String>,
    /// For an upstream server at tls://, the certificates to trust, PEM.
    #[arg(long, value_name = "FILE")]
    electrum_upstream_ca: Option<PathBuf>,
    /// Serve explorers by Esplora's paths over HTTP at this address.
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<SocketAddr>,
    /// Requests of one wallet or explorer a second, on average; after a pause five times as many at once.
    #[arg(long, value_name = "N")]
    client_rate: Option<u32>,
    /// Electrum connections at a time; more are closed at once.
    #[arg(long, value_name = "N")]
    electrum_clients: Option<u32>,
    /// Electrum connections of one IPv4 address, or IPv6 network of 64 bits, at a time.
    #[arg(long, value_name = "N")]
    electrum_clients_per_network: Option<u32>,
    /// HTTP connections at a time; more are closed at once.
    #[arg(long, value_name = "N")]
    http_clients: Option<u32>,
    /// HTTP connections of one IPv4 address, or IPv6 network of 64 bits, at a time.
    #[arg(long, value_name = "N")]
    http_clients_per_network: Option<u32>,
    /// Reverse proxies in front of --http, as addresses or as in 10.0.0.0/8: the client of a request that comes through
    /// one is the last address of its X-Forwarded-For that is not a proxy of this list.
    #[arg(long, value_name = "ADDR[/BITS]", value_delimiter = ',', value_parser = parse_range)]
    trusted_proxies: Option<Vec<AddressRange>>,
    /// Memory that requests can make the service keep, as in 256MiB.
    #[arg(long, value_name = "SIZE")]
    memory_max: Option<ByteSize>,
    #[command(flatten)]
    overrides: Overrides,
}

fn parse_range(text: &str) -> Result<AddressRange, String> {
    AddressRange::try_from(text.to_owned())
}

impl Serve {
    /// Returns the configuration of the file, or the default one, with these options in the place of its values.
    fn configured(self) -> anyhow::Result<Config> {
        let mut config = self.overrides.over(self.config)?;
        let section = config.section("spv");
        section.set_some("listen", self.listen);
        section.set_some("data", self.data);
        section.set_some("network", self.network);
        section.set_some("index", self.index);
        section.set_some("tables", self.tables);
        section.set_some("keep_blocks", self.keep_blocks);
        section.set_some("line_bits", self.line_bits);
        section.set_some("ways", self.ways);
        section.set_some("block_bits", self.block_bits);
        section.set_some("tree_bits", self.tree_bits);
        section.set_some("paper_index", self.paper_index);
        section.set_some("paper_format", self.paper_format);
        section.set_some("lease_s", self.lease_s);
        section.set_some("prefill", self.prefill);
        section.set_some("node", self.node);
        section.set_some("node_cookie", self.node_cookie);
        section.set_some("node_password", self.node_password);
        section.set_some("node_ca", self.node_ca);
        section.set_some("min_confirmations", self.min_confirmations);
        section.set_some("electrum", self.electrum);
        section.set_some("electrum_tls", self.electrum_tls);
        section.set_some("electrum_certificate", self.electrum_certificate);
        section.set_some("electrum_key", self.electrum_key);
        section.set_some("electrum_upstream", self.electrum_upstream);
        section.set_some("electrum_upstream_ca", self.electrum_upstream_ca);
        section.set_some("http", self.http);
        section.set_some("client_rate", self.client_rate);
        section.set_some("electrum_clients", self.electrum_clients);
        section.set_some("electrum_clients_per_network", self.electrum_clients_per_network);
        section.set_some("http_clients", self.http_clients);
        section.set_some("http_clients_per_network", self.http_clients_per_network);
        section.set_some("trusted_proxies", self.trusted_proxies);
        section.set_some("memory_max", self.memory_max);
        Ok(config)
    }
}

/// Serves until a signal comes.
///
/// # Errors
/// The reason why it cannot serve.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.configured()?;
    let section = config.section("spv");
    if section
        .read::<SpvConfig>()
        .is_ok_and(|read| given(&read.data).is_none())
    {
        bail!(Wrong(
            "--data DIR, or `data` in [spv] of the configuration, says what to serve".into()
        ));
    }
    config.serve_only("spv");
    run::serve(Session::start(&config, true)?, as_json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use lineside_service::config::section;

    /// A value for each key that is not its default, as the command line has it.
    const VALUES: &[(&str, &str)] = &[
        ("listen", "127.0.0.1:1"),
        ("data", "somewhere"),
        ("network", "simnet"),
        ("index", "disk"),
        ("tables", "root,header"),
        ("keep_blocks", "true"),
        ("line_bits", "9"),
        ("ways", "2"),
        ("block_bits", "7"),
        ("tree_bits", "5"),
        ("paper_index", "true"),
        ("paper_format", "false"),
        ("lease_s", "7"),
        ("prefill", "tip:3"),
        ("node", "blocks-dir:blocks"),
        ("node_cookie", "cookie"),
        ("node_password", "password"),
        ("node_ca", "rpc.cert"),
        ("min_confirmations", "3"),
        ("electrum", "127.0.0.1:2"),
        ("electrum_tls", "127.0.0.1:3"),
        ("electrum_certificate", "certificate.pem"),
        ("electrum_key", "key.pem"),
        ("electrum_upstream", "localhost:4"),
        ("electrum_upstream_ca", "ca.pem"),
        ("http", "127.0.0.1:5"),
        ("client_rate", "77"),
        ("electrum_clients", "7"),
        ("electrum_clients_per_network", "6"),
        ("http_clients", "5"),
        ("http_clients_per_network", "4"),
        ("trusted_proxies", "10.0.0.0/8"),
        ("memory_max", "64 MiB"),
    ];

    fn command() -> clap::Command {
        Serve::augment_args(clap::Command::new("serve"))
    }

    #[test]
    fn every_key_is_an_option_and_every_option_a_key() {
        let defaults = section(&SpvConfig::default());
        // A service that is named on the command line is enabled.
        let keys: Vec<&str> = defaults
            .keys()
            .map(String::as_str)
            .filter(|key| *key != "enabled")
            .collect();
        let own = command();
        let of_all = Overrides::augment_args(clap::Command::new("run"));
        let is_own =
            |name: &str| name != "config" && of_all.get_arguments().all(|of_all| of_all.get_id() != name);
        let mut options: Vec<&str> = own
            .get_arguments()
            .map(|option| option.get_id().as_str())
            .collect();
        options.retain(|name| is_own(name));
        options.sort_unstable();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert_eq!(options, sorted);
        for (key, value) in VALUES {
            let flag = format!("--{}", key.replace('_', "-"));
            let matches = command().try_get_matches_from(["serve", &flag, value]).unwrap();
            let mut config = Serve::from_arg_matches(&matches).unwrap().configured().unwrap();
            let read = section(&config.section("spv").read::<SpvConfig>().unwrap());
            for name in &keys {
                // A list on the command line has commas.
                let one =
                    |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let text = match &read[*name] {
                    toml::Value::Array(all) => all.iter().map(one).collect::<Vec<_>>().join(","),
                    value => one(value),
                };
                if name == key {
                    assert_eq!(text, *value, "{flag}");
                } else {
                    assert_eq!(read[*name], defaults[*name], "{flag} changes {name}");
                }
            }
        }
        let tried: Vec<&str> = VALUES.iter().map(|(key, _)| *key).collect();
        assert!(
            keys.iter().all(|key| tried.contains(key)),
            "a key has no value here"
        );
    }
}
