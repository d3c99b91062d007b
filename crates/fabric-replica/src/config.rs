//! The section `[fabric]` of the configuration; `lineside.toml` explains every key.

use lineside_fabric::Options;
use lineside_fabric_grpc::client::endpoint;
use lineside_fabric_grpc::serve::Limits;
use lineside_fastpath::Range;
use lineside_grpc::Limits as TransportLimits;
use lineside_service::config::{AddressRange, ConfigIssue, Issues, Section, loopback, non_empty};
use lineside_service::{ByteSize, OptionalAddress};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Minimum value of `memory_max`, with which blocks of usual sizes can be received and served.
const MEMORY_BYTES_MIN: ByteSize = ByteSize::mib(64);
/// Maximum value of `health_after_s`, in seconds: a day.
const HEALTH_AFTER_S_MAX: u64 = 86_400;
/// Port of a peer, by Fabric's convention.
const PEER_PORT: u16 = 7051;

/// The section `[fabric]`, or one of the tables `[[fabric]]`: a replica of one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FabricConfig {
    /// True if `lineside run` serves this service.
    pub enabled: bool,
    /// Directory of the ledger.
    pub data: PathBuf,
    /// Storage of the channel's state.
    pub state: StateName,
    /// Number of threads that read transactions and verify signatures; 0 means one for each core.
    pub threads: usize,
    /// File with the channel's genesis block; needed while the ledger is empty.
    pub genesis: PathBuf,
    /// `HOST:PORT` of orderers that deliver the channel's blocks.
    pub orderers: Vec<String>,
    /// Name of the MSP of the identity that signs requests to orderers.
    pub msp_id: String,
    /// Folder of that identity, with `signcerts` and `keystore`.
    pub msp: PathBuf,
    /// File with the CA certificates that verify the orderers' TLS certificates; empty for no TLS.
    pub tls_ca: PathBuf,
    /// File with the replica's certificate for mutual TLS with orderers.
    pub tls_certificate: PathBuf,
    /// File with that certificate's key.
    pub tls_key: PathBuf,
    /// Host name in the orderers' certificates; empty if each certificate has the host name of its endpoint.
    pub tls_host_name: String,
    /// Seconds without an orderer that delivers blocks, after which `/healthz` answers 503; 0 means that `/healthz`
    /// never answers 503 for this reason.
    pub health_after_s: u64,
    /// Address and port at which blocks are received over UDP.
    pub udp_listen: OptionalAddress,
    /// File with the key that this replica shares with `lineside fabric send`.
    pub udp_key: PathBuf,
    /// True if the replica receives packets in the paper format, which have no MAC, instead of Lineside's own
    /// datagrams.
    pub udp_paper: bool,
    /// The configuration file of the paper's published code, with the identities to which packets refer; empty for
    /// none.
    pub udp_paper_identities: PathBuf,
    /// Addresses of clients that are exempt from the per-source limits of Deliver, and of senders from which packets in
    /// the paper format are accepted.
    pub trusted_sources: Vec<AddressRange>,
    /// Address and port at which the replica serves Deliver and the other services of a peer.
    #[serde(with = "lineside_service::address")]
    pub listen: SocketAddr,
    /// File with the server's certificate; empty for no TLS.
    pub certificate: PathBuf,
    /// File with that certificate's key.
    pub key: PathBuf,
    /// File with the CA certificates that verify clients' certificates; empty if clients need no certificate.
    pub client_ca: PathBuf,
    /// File with the results of the newest blocks, which other processes can map into memory; empty for no such file.
    pub results: PathBuf,
    /// Maximum size of all blocks in transit to the ledger and to clients.
    pub memory_max: ByteSize,
}

/// Storage of a channel's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateName {
    /// The state is in the database fjall if the ledger's directory already holds such a state, otherwise in memory.
    #[default]
    Auto,
    /// The state is in memory. A state in fjall that the ledger's directory holds is removed.
    Memory,
    /// The state is in the database fjall, in the folder `state` of the ledger's directory.
    Fjall,
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            data: PathBuf::new(),
            state: StateName::Auto,
            threads: 0,
            genesis: PathBuf::new(),
            orderers: Vec::new(),
            msp_id: String::new(),
            msp: PathBuf::new(),
            tls_ca: PathBuf::new(),
            tls_certificate: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_host_name: String::new(),
            health_after_s: 60,
            udp_listen: OptionalAddress(None),
            udp_key: PathBuf::new(),
            udp_paper: false,
            udp_paper_identities: PathBuf::new(),
            trusted_sources: Range::LOOPBACK.into_iter().map(AddressRange).collect(),
            listen: loopback(PEER_PORT),
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            client_ca: PathBuf::new(),
            results: PathBuf::new(),
            memory_max: ByteSize::mib(256),
        }
    }
}

impl FabricConfig {
    /// Returns the server's certificate and its key, if it uses TLS.
    pub fn tls_files(&self) -> Option<(&Path, &Path)> {
        non_empty(&self.certificate).zip(non_empty(&self.key))
    }

    /// Returns the limits of Deliver. Blocks in transit to clients may take half of the memory.
    pub fn limits(&self) -> Limits {
        let trusted: Vec<_> = self.trusted_sources.iter().map(|range| range.0).collect();
        let limits = Limits::default();
        Limits {
            transport: TransportLimits {
                memory_bytes: self.memory_max.bytes() / 2,
                trusted: Arc::new(move |address| trusted.iter().any(|range| range.contains(address))),
                ..limits.transport
            },
            ..limits
        }
    }

    /// Returns warnings about settings that are allowed but risky.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.tls_files().is_none() && !self.listen.ip().is_loopback() {
            warnings.push(format!(
                "[fabric] listen = {}: without `certificate`, blocks and requests are not encrypted; set `certificate` \
                 and `key`, or use a trusted network",
                self.listen
            ));
        }
        if let Some(udp) = self
            .udp_listen
            .0
            .filter(|udp| self.udp_paper && !udp.ip().is_loopback())
        {
            warnings.push(format!(
                "[fabric] udp_listen = {udp}: packets in the paper format (`udp_paper`) have no MAC, so anyone \
                 can forge them; use `udp_key` instead if other hosts can reach this port"
            ));
        }
        warnings
    }

    /// Returns the options for validating blocks.
    pub fn validation(&self) -> Options {
        validation(self.threads)
    }

    /// Reads and checks the section.
    ///
    /// # Errors
    /// All issues that the section has.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let config: Self = section.read()?;
        let mut issues = Issues::new(section);
        for text in &config.orderers {
            if let Err(why) = endpoint(text) {
                issues.add("orderers", format!("{text:?}: {why}"));
            }
        }
        if config.enabled {
            config.check_needed(&mut issues);
        }
        if config.memory_max < MEMORY_BYTES_MIN {
            let why = format!(
                "\"{}\" must be at least \"{MEMORY_BYTES_MIN}\"",
                config.memory_max
            );
            issues.add("memory_max", why);
        }
        if config.health_after_s > HEALTH_AFTER_S_MAX {
            let why = format!("{} must be at most {HEALTH_AFTER_S_MAX}", config.health_after_s);
            issues.add("health_after_s", why);
        }
        if !config.tls_host_name.is_empty() && non_empty(&config.tls_ca).is_none() {
            let why = format!("{:?}: needs `tls_ca`, which is empty", config.tls_host_name);
            issues.add("tls_host_name", why);
        }
        config.check_files(&mut issues);
        config.check_udp(&mut issues);
        issues.finish(config)
    }

    /// Adds an issue for each key without which the service cannot run.
    fn check_needed(&self, issues: &mut Issues<'_>) {
        for (name, is_missing) in [
            ("data", non_empty(&self.data).is_none()),
            ("orderers", self.orderers.is_empty()),
            ("msp_id", self.msp_id.is_empty()),
            ("msp", non_empty(&self.msp).is_none()),
        ] {
            if is_missing {
                issues.add("enabled", format!("true: needs `{name}`, which is empty"));
            }
        }
    }

    /// Adds an issue for each file setting that needs another setting, if that other setting is empty.
    fn check_files(&self, issues: &mut Issues<'_>) {
        let certificate = ("certificate", &self.certificate);
        let tls_certificate = ("tls_certificate", &self.tls_certificate);
        let pairs = [
            (certificate, ("key", &self.key)),
            (("key", &self.key), certificate),
            (("client_ca", &self.client_ca), certificate),
            (tls_certificate, ("tls_ca", &self.tls_ca)),
            (tls_certificate, ("tls_key", &self.tls_key)),
            (("tls_key", &self.tls_key), tls_certificate),
        ];
        for ((name, path), (needs, needed)) in pairs {
            if non_empty(path).is_some() && non_empty(needed).is_none() {
                issues.add(name, format!("{path:?}: needs `{needs}`, which is empty"));
            }
        }
    }

    /// Adds an issue for each rule that the keys for UDP break.
    fn check_udp(&self, issues: &mut Issues<'_>) {
        let key = non_empty(&self.udp_key);
        match self.udp_listen.0 {
            Some(listen) if key.is_none() && !self.udp_paper => {
                issues.add(
                    "udp_listen",
                    format!("\"{listen}\": needs `udp_key`, or `udp_paper = true`"),
                );
            }
            Some(_) => {}
            None => {
                if let Some(key) = key {
                    issues.add("udp_key", format!("{key:?}: needs `udp_listen`, which is empty"));
                }
                if self.udp_paper {
                    issues.add("udp_paper", "true: needs `udp_listen`, which is empty");
                }
            }
        }
        if let Some(file) = non_empty(&self.udp_paper_identities).filter(|_| !self.udp_paper) {
            issues.add(
                "udp_paper_identities",
                format!("{file:?}: needs `udp_paper = true`"),
            );
        }
        if self.udp_paper && key.is_some() {
            issues.add(
                "udp_paper",
                "true: cannot be used with `udp_key`, because packets in the paper format have no MAC; remove one",
            );
        }
    }
}

/// Returns the options for validating blocks with this number of threads; 0 means one for each core.
pub fn validation(threads: usize) -> Options {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    Options {
        threads,
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section without errors.
    const VALID_SECTION: &str = "enabled = true\ndata = \"ledger\"\norderers = [\"orderer:7050\"]\n\
                                 msp_id = \"Org1MSP\"\nmsp = \"msp\"\n";

    fn parse(text: &str) -> Result<FabricConfig, Vec<String>> {
        let text: Arc<str> = format!("[fabric]\n{text}").into();
        let parsed = FabricConfig::parse(&Section::new("fabric", &text, None));
        parsed.map_err(|issues| issues.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_key_has_a_default_and_the_service_is_off() {
        let config = parse("").unwrap();
        assert_eq!(config, FabricConfig::default());
        assert!(!config.enabled && config.listen.port() == 7051);
        let table = toml::Table::try_from(&config).unwrap();
        assert_eq!(table.len(), 24);
        assert_eq!(table.try_into::<FabricConfig>().unwrap(), config);
        assert!(config.validation().threads >= 1);
    }

    #[test]
    fn every_configured_value_is_parsed() {
        let more = "state = \"fjall\"\nthreads = 3\nudp_listen = \"[::1]:7000\"\nudp_paper = true\n\
                    udp_paper_identities = \"i\"\ntrusted_sources = [\"10.0.0.1\"]\n\
                    certificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n\
                    tls_ca = \"a\"\ntls_certificate = \"c\"\ntls_key = \"k\"\nresults = \"r\"\ngenesis = \"g\"\n";
        let config = parse(&format!("{VALID_SECTION}{more}")).unwrap();
        assert_eq!((config.state, config.validation().threads), (StateName::Fjall, 3));
        assert_eq!(config.udp_listen.0, Some("[::1]:7000".parse().unwrap()));
        assert_eq!(config.tls_files(), Some((Path::new("c"), Path::new("k"))));
    }

    #[test]
    fn an_enabled_replica_reports_all_missing_settings_together() {
        let issues = parse("enabled = true\n").unwrap_err();
        for key in ["data", "orderers", "msp_id", "msp"] {
            let said = format!("[fabric] enabled = true: needs `{key}`, which is empty");
            assert!(issues.contains(&said), "{said} is not in {issues:?}");
        }
        assert_eq!(issues.len(), 4);
        assert!(parse(VALID_SECTION).is_ok());
    }

    #[test]
    fn every_rule_between_keys_is_reported() {
        let udp = "udp_listen = \"127.0.0.1:0\"\n";
        for (text, said) in [
            ("orderers = [\"a:1\", \"bad host:1\"]", "an endpoint is HOST:PORT"),
            ("orderers = [\"127.0.0.1\"]", "an endpoint is HOST:PORT"),
            ("certificate = \"c\"", "certificate = \"c\": needs `key`"),
            ("key = \"k\"", "key = \"k\": needs `certificate`"),
            ("client_ca = \"a\"", "client_ca = \"a\": needs `certificate`"),
            ("tls_ca = \"a\"\ntls_certificate = \"c\"", "needs `tls_key`"),
            ("tls_certificate = \"c\"\ntls_key = \"k\"", "needs `tls_ca`"),
            ("tls_ca = \"a\"\ntls_key = \"k\"", "needs `tls_certificate`"),
            ("udp_key = \"k\"", "udp_key = \"k\": needs `udp_listen`"),
            ("udp_paper = true", "udp_paper = true: needs `udp_listen`"),
            (
                &format!("{udp}udp_key = \"k\"\nudp_paper_identities = \"i\""),
                "udp_paper_identities = \"i\": needs `udp_paper = true`",
            ),
            (udp, "needs `udp_key`, or `udp_paper = true`"),
            (
                &format!("{udp}udp_key = \"k\"\nudp_paper = true"),
                "cannot be used with `udp_key`",
            ),
            ("tls_host_name = \"orderer\"", "needs `tls_ca`"),
            ("health_after_s = 86401", "must be at most 86400"),
            ("memory_max = \"63 MiB\"", "must be at least \"64 MiB\""),
        ] {
            let issues = parse(text).unwrap_err();
            assert!(
                issues.len() == 1 && issues[0].contains(said),
                "{text}: {said} is not in {issues:?}"
            );
        }
        for (text, said) in [
            ("udp_listen = \"here\"", "must be an address and a port, or empty"),
            ("state = \"disk\"", "state"),
            ("listen = \"here\"", "listen"),
            ("console = \"127.0.0.1:1\"", "console"),
        ] {
            let issues = parse(text).unwrap_err();
            assert!(issues[0].contains(said), "{text}: {said} is not in {issues:?}");
        }
    }
}
