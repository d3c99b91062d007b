//! The Bitcoin networks that a store can hold, and their differences.

use bitcoin::pow::{CompactTarget, Target};
use lineside_bitcoin_node::SignetId;
use lineside_spv_proof as proof;

/// Bitcoin network: determines the proof-of-work limit and the magic of block files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The main network.
    Mainnet,
    /// The third test network.
    Testnet3,
    /// The fourth test network (BIP 94).
    Testnet4,
    /// The signed test network (the default signet).
    Signet,
    /// A private network with trivial difficulty.
    Regtest,
    /// btcd's network for simulations (simnet).
    Simnet,
}

impl Network {
    /// All networks, for messages and detection.
    pub const ALL: [Network; 6] = [
        Network::Mainnet,
        Network::Testnet3,
        Network::Testnet4,
        Network::Signet,
        Network::Regtest,
        Network::Simnet,
    ];

    /// Returns the easiest target that a block of this network may claim.
    pub fn easiest_target(self) -> Target {
        Target::from_compact(CompactTarget::from_consensus(self.rules().limit_bits()))
    }

    /// Returns the four bytes before every block in a block file.
    pub fn magic(self) -> [u8; 4] {
        self.rules().magic()
    }

    /// Returns the name used in the configuration.
    pub fn name(self) -> &'static str {
        self.rules().name()
    }

    /// Returns the height from which a coinbase's witness commitment is checked (BIP141): on the networks that are
    /// older than segwit, the height at which segwit became active; on all others 0, because their software writes a
    /// commitment only if segwit is active.
    pub(super) fn segwit_height(self) -> u32 {
        match self {
            Network::Mainnet => 481_824,
            Network::Testnet3 => 834_624,
            Network::Testnet4 | Network::Signet | Network::Regtest | Network::Simnet => 0,
        }
    }

    /// Returns the byte that identifies this network in the store's files.
    pub(super) fn code(self) -> u8 {
        match self {
            Network::Mainnet => 1,
            Network::Testnet3 => 2,
            Network::Signet => 3,
            Network::Regtest => 4,
            Network::Testnet4 => 5,
            Network::Simnet => 6,
        }
    }

    /// Returns the value of `lineside-spv-proof` for this network, which has the network's header rules.
    pub fn rules(self) -> proof::Network {
        match self {
            Network::Mainnet => proof::Network::Mainnet,
            Network::Testnet3 => proof::Network::Testnet3,
            Network::Testnet4 => proof::Network::Testnet4,
            Network::Signet => proof::Network::Signet,
            Network::Regtest => proof::Network::Regtest,
            Network::Simnet => proof::Network::Simnet,
        }
    }
}

/// Network whose blocks a store holds. It also identifies the signet, because all signets have the same first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreNetwork {
    /// The network.
    pub network: Network,
    /// The signet; `None` on other networks.
    pub signet: Option<SignetId>,
}

impl StoreNetwork {
    /// Returns the value for `network`; for [`Network::Signet`], the value for the default signet.
    pub fn new(network: Network) -> Self {
        let signet = (network == Network::Signet).then(SignetId::default_signet);
        Self { network, signet }
    }

    /// Returns the value for the given signet.
    pub fn of_signet(signet: SignetId) -> Self {
        Self {
            network: Network::Signet,
            signet: Some(signet),
        }
    }

    /// Returns the four bytes before every block in a block file.
    pub fn magic(self) -> [u8; 4] {
        self.signet
            .map_or_else(|| self.network.magic(), |signet| signet.magic())
    }
}

impl From<Network> for StoreNetwork {
    fn from(network: Network) -> Self {
        Self::new(network)
    }
}

impl std::fmt::Display for StoreNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.signet {
            Some(signet) if signet != SignetId::default_signet() => write!(f, "{signet}"),
            _ => write!(f, "{}", self.network),
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
