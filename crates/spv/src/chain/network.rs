//! The Bitcoin networks that a store can hold, and what differs between them here.

use bitcoin::consensus::Params;
use bitcoin::pow::Target;

/// A Bitcoin network: it sets the proof-of-work limit and the magic of block files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The main network.
    Mainnet,
    /// The third test network.
    Testnet3,
    /// The signed test network (the default signet).
    Signet,
    /// A private network with trivial difficulty.
    Regtest,
}

impl Network {
    /// All networks, for messages and detection.
    pub const ALL: [Network; 4] = [
        Network::Mainnet,
        Network::Testnet3,
        Network::Signet,
        Network::Regtest,
    ];

    /// The easiest target that a block of this network may claim.
    pub fn easiest_target(self) -> Target {
        Params::new(self.inner()).max_attainable_target
    }

    /// The four bytes in front of every block in a block file.
    pub fn magic(self) -> [u8; 4] {
        self.inner().magic().to_bytes()
    }

    /// The name used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Network::Mainnet => "mainnet",
            Network::Testnet3 => "testnet3",
            Network::Signet => "signet",
            Network::Regtest => "regtest",
        }
    }

    /// The byte that stands for this network in the store's files.
    pub(super) fn code(self) -> u8 {
        match self {
            Network::Mainnet => 1,
            Network::Testnet3 => 2,
            Network::Signet => 3,
            Network::Regtest => 4,
        }
    }

    fn inner(self) -> bitcoin::Network {
        match self {
            Network::Mainnet => bitcoin::Network::Bitcoin,
            Network::Testnet3 => bitcoin::Network::Testnet,
            Network::Signet => bitcoin::Network::Signet,
            Network::Regtest => bitcoin::Network::Regtest,
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
