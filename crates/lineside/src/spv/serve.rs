//! `lineside spv serve`: command-line options of the server.

use crate::config::Config;
use crate::run::{self, KeepFastPath, Overrides};
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_service::ByteSize;
use lineside_service::config::{AddressRange, non_empty};
use lineside_spv::config::{IndexName, NetworkName, Prefill, SpvConfig, TableName};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a chain store over UDP until SIGINT, SIGTERM or SIGHUP.
///
/// With --node the server follows a full node. It also serves wallets (--electrum) and block explorers (--http) if
/// their addresses are given. Only the service `spv` runs, even if the configuration file enables others. Options
/// replace values of the file.
#[derive(Args)]
pub struct Serve {
    /// Configuration file; its sections [spv], [datapath], [console] and [process] apply.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and UDP port to listen on [default: 127.0.0.1:7701]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    listen: Option<SocketAddr>,
    /// Directory of the chain store (`spv init` creates one); needed here or in the configuration file.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Network that the chain store must have [default: that of the store]
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Place of the TXID index: in memory, rebuilt at each start, or on disk, for large chains such as mainnet
    /// [default: memory]
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// UDP requests that are answered and cached in the fast path: root, proof (needs root), witness, header
    /// [default: all four]
    #[arg(long, value_name = "TABLE", value_delimiter = ',', help_heading = "Fast path")]
    tables: Option<Vec<TableName>>,
    /// Also keep the raw blocks, as blk*.dat in the folder `blocks` of the chain store [default: false]
    #[arg(long, value_name = "BOOL")]
    keep_blocks: Option<bool>,
    /// Blocks loaded into the fast path before the server answers: none, tip:N (the newest N) or all [default: tip:8]
    #[arg(
        long,
        value_name = "BLOCKS",
        help_heading = "Fast path",
        value_parser = |text: &str| Prefill::try_from(text.to_owned())
    )]
    prefill: Option<Prefill>,
    /// log2 of the number of TXIDs that fit the fast path, 3 to 28; each takes 64 bytes [default: 22]
    #[arg(long, value_name = "BITS", help_heading = "Fast path")]
    line_bits: Option<u32>,
    /// Associativity of the fast path's TXID table: entries in which a TXID can be stored, 1, 2 or 4 [default: 4]
    #[arg(long, value_name = "N", help_heading = "Fast path")]
    ways: Option<u32>,
    /// log2 of the number of blocks whose TXIDs the fast path can hold, 1 to 24; each takes 128 bytes [default: 18]
    #[arg(long, value_name = "BITS", help_heading = "Fast path")]
    block_bits: Option<u32>,
    /// log2 of the number of Merkle tree nodes in the fast path, 4 to 26, 32 bytes each; 0: the host makes all proofs
    /// [default: 20]
    #[arg(long, value_name = "BITS", help_heading = "Fast path")]
    tree_bits: Option<u32>,
    /// Index the fast path's table by the low bits of the TXID, as in the paper, instead of by a keyed hash; an
    /// attacker can then craft transactions that evict each other [default: false]
    #[arg(long, value_name = "BOOL", help_heading = "Fast path")]
    paper_index: Option<bool>,
    /// Also answer the paper's packets: 32 bytes of TXID, answered with the Merkle root [default: true]
    #[arg(long, value_name = "BOOL")]
    paper_format: Option<bool>,
    /// Seconds that the fast path keeps answering without a sign of life from the server, 1 to 3600 [default: 60]
    #[arg(long, value_name = "S", help_heading = "Fast path")]
    lease_s: Option<u64>,
    /// Full node to follow: bitcoind://[USER[:PASSWORD]@]HOST:PORT, btcd://USER[:PASSWORD]@HOST:PORT, btcd+notls://…
    /// for btcd without TLS, blocks-dir:PATH for the block files of a node, or embedded for none [default: embedded].
    /// Bitcoin Core needs --node-cookie or a user. A user needs a password, best given by --node-password or the
    /// environment variable LINESIDE_NODE_PASSWORD.
    #[arg(long, value_name = "URL", help_heading = "Full node")]
    node: Option<String>,
    /// Cookie file of Bitcoin Core: `.cookie` in its data directory, or in the network's folder there.
    #[arg(long, value_name = "FILE", help_heading = "Full node")]
    node_cookie: Option<PathBuf>,
    /// File with the password of the node's RPC in its first line; only its owner may be able to read it.
    #[arg(long, value_name = "FILE", help_heading = "Full node")]
    node_password: Option<PathBuf>,
    /// TLS certificate of btcd's RPC: `rpc.cert` in its data directory.
    #[arg(long, value_name = "FILE", help_heading = "Full node")]
    node_ca: Option<PathBuf>,
    /// Confirmations that a block needs before its transactions are answered, 1 to 1000 [default: 1]
    #[arg(long, value_name = "N", help_heading = "Full node")]
    min_confirmations: Option<u32>,
    /// Address and TCP port for wallets that use the Electrum protocol [default: none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse, help_heading = "Wallets and explorers")]
    electrum: Option<SocketAddr>,
    /// Address and TCP port for wallets that use the Electrum protocol over TLS [default: none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse, help_heading = "Wallets and explorers")]
    electrum_tls: Option<SocketAddr>,
    /// Certificate for --electrum-tls, as PEM.
    #[arg(long, value_name = "FILE", help_heading = "Wallets and explorers")]
    electrum_certificate: Option<PathBuf>,
    /// Key of --electrum-certificate, as PEM; only its owner may be able to read the file.
    #[arg(long, value_name = "FILE", help_heading = "Wallets and explorers")]
    electrum_key: Option<PathBuf>,
    /// Electrum server, such as electrs, that answers the requests that this server cannot, such as balances
    /// [default: none, and such requests are refused]
    #[arg(
        long,
        value_name = "[tls://]HOST:PORT",
        help_heading = "Wallets and explorers"
    )]
    electrum_upstream: Option<String>,
    /// Certificates to trust for an upstream server at tls://, as PEM.
    #[arg(long, value_name = "FILE", help_heading = "Wallets and explorers")]
    electrum_upstream_ca: Option<PathBuf>,
    /// Address and TCP port for block explorers that use Esplora's HTTP paths [default: none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse, help_heading = "Wallets and explorers")]
    http: Option<SocketAddr>,
    /// Requests of one client a second, on average; after a pause, five times this number at once [default: 2000]
    #[arg(long, value_name = "N", help_heading = "Wallets and explorers")]
    client_rate: Option<u32>,
    /// Maximum number of Electrum connections; further ones are closed at once [default: 4000]
    #[arg(long, value_name = "N", help_heading = "Wallets and explorers")]
    electrum_clients: Option<u32>,
    /// Maximum number of Electrum connections of one IPv4 address or IPv6 /64 network [default: 100]
    #[arg(long, value_name = "N", help_heading = "Wallets and explorers")]
    electrum_clients_per_network: Option<u32>,
    /// Maximum number of HTTP connections; further ones are closed at once [default: 500]
    #[arg(long, value_name = "N", help_heading = "Wallets and explorers")]
    http_clients: Option<u32>,
    /// Maximum number of HTTP connections of one IPv4 address or IPv6 /64 network [default: 50]
    #[arg(long, value_name = "N", help_heading = "Wallets and explorers")]
    http_clients_per_network: Option<u32>,
    /// Addresses or ranges of reverse proxies in front of --http, separated by commas. For a request through a proxy,
    /// the client is the last address in X-Forwarded-For that is not in this list [default: none, and the header is
    /// ignored]
    #[arg(
        long,
        value_name = "ADDR[/BITS]",
        value_delimiter = ',',
        value_parser = parse_range,
        help_heading = "Wallets and explorers"
    )]
    trusted_proxies: Option<Vec<AddressRange>>,
    /// Maximum memory for data of requests, such as 256MiB; the fast path and the TXID index are not counted
    /// [default: 256 MiB]
    #[arg(long, value_name = "SIZE")]
    memory_max: Option<ByteSize>,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    keep: KeepFastPath,
}

fn parse_range(text: &str) -> Result<AddressRange, String> {
    AddressRange::try_from(text.to_owned())
}

impl Serve {
    /// Returns the configuration in the file, or the default one, with the values of these options.
    fn configured(self) -> anyhow::Result<Config> {
        let mut config = self.overrides.over(self.config)?;
        self.keep.over(&mut config);
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

/// Serves until a signal ends the process.
///
/// # Errors
/// The options or the configuration are wrong, or the server cannot start.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.configured()?;
    let section = config.section("spv");
    if section
        .read::<SpvConfig>()
        .is_ok_and(|read| non_empty(&read.data).is_none())
    {
        bail!(Wrong(
            "no chain store: give --data DIR, or `data` in [spv] of the configuration file (`lineside spv init` \
             creates a store)".into()
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

    /// Option values that differ from the defaults, one for each key.
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
        // `enabled` has no option: `spv serve` always enables the service.
        let keys: Vec<&str> = defaults
            .keys()
            .map(String::as_str)
            .filter(|key| *key != "enabled")
            .collect();
        let own = command();
        let of_all = KeepFastPath::augment_args(Overrides::augment_args(clap::Command::new("run")));
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
                // Items of a list are separated by commas on the command line.
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
