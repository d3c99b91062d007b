//! Bitcoin networks, and their differences in the rules of headers.
//!
//! Sources: Bitcoin Core's `kernel/chainparams.cpp`, BIP94 (testnet4), and for simnet btcd's `chaincfg/params.go` and
//! `chaincfg/genesis.go` (v0.26).

use crate::{Hash, Header, U256, decode_target};
use core::fmt;
use core::str::FromStr;

/// Number of blocks between two changes of the difficulty, on every network.
pub const RETARGET_INTERVAL: u32 = 2016;
/// Seconds that [`RETARGET_INTERVAL`] blocks should take: two weeks.
pub(crate) const TARGET_TIMESPAN_S: u32 = 14 * 24 * 60 * 60;
/// Seconds after the parent's time after which a test network accepts a block of minimum difficulty: 20 minutes.
pub(crate) const MIN_DIFFICULTY_AFTER_S: u32 = 20 * 60;

/// A Bitcoin network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// The main network.
    Mainnet,
    /// The third test network.
    Testnet3,
    /// The fourth test network (BIP94).
    Testnet4,
    /// The default signet (BIP325). Its blocks are authorised by a signature in the coinbase transaction, which
    /// headers do not contain: a light client can only check the proof of work, which is cheap.
    Signet,
    /// A private network of Bitcoin Core or btcd, without difficulty.
    Regtest,
    /// btcd's simulation network: the easiest target at first, and the difficulty rules of testnet3.
    Simnet,
}

/// Rule that determines the target of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetargetRule {
    /// The target changes every 2016 blocks: the target of the last of them is scaled by the time that they took.
    Every2016,
    /// [`RetargetRule::Every2016`], but a block more than 20 minutes after its parent has the minimum difficulty.
    MinimumAfter20Minutes,
    /// [`RetargetRule::MinimumAfter20Minutes`] with two differences (BIP94): a change scales the target of the first of
    /// the 2016 blocks, not of the last; and the time of a period's first block may be at most 600 s before the time of
    /// its parent.
    Bip94,
    /// Every block has the minimum difficulty.
    Never,
}

impl Network {
    /// All networks.
    pub const ALL: [Network; 6] = [
        Network::Mainnet,
        Network::Testnet3,
        Network::Testnet4,
        Network::Signet,
        Network::Regtest,
        Network::Simnet,
    ];

    /// Returns the name that options and files use.
    pub const fn name(self) -> &'static str {
        match self {
            Network::Mainnet => "mainnet",
            Network::Testnet3 => "testnet3",
            Network::Testnet4 => "testnet4",
            Network::Signet => "signet",
            Network::Regtest => "regtest",
            Network::Simnet => "simnet",
        }
    }

    /// Returns the network of this name, or `None`.
    pub fn from_name(name: &str) -> Option<Network> {
        Network::ALL.into_iter().find(|network| network.name() == name)
    }

    /// Returns the four bytes before every message between nodes and every block in block files, in wire order.
    pub const fn magic(self) -> [u8; 4] {
        match self {
            Network::Mainnet => [0xf9, 0xbe, 0xb4, 0xd9],
            Network::Testnet3 => [0x0b, 0x11, 0x09, 0x07],
            Network::Testnet4 => [0x1c, 0x16, 0x3f, 0x28],
            Network::Signet => [0x0a, 0x03, 0xcf, 0x40],
            Network::Regtest => [0xfa, 0xbf, 0xb5, 0xda],
            Network::Simnet => [0x16, 0x1c, 0x14, 0x12],
        }
    }

    /// Returns the easiest target that a header may have, in compact form.
    pub const fn limit_bits(self) -> u32 {
        match self {
            Network::Mainnet | Network::Testnet3 | Network::Testnet4 => 0x1d00_ffff,
            Network::Signet => 0x1e03_77ae,
            Network::Regtest | Network::Simnet => 0x207f_ffff,
        }
    }

    /// Returns the proof-of-work limit: no header's target may be above it. [`Network::limit_bits`] is the compact form
    /// of this limit.
    pub fn limit(self) -> U256 {
        match self {
            Network::Mainnet | Network::Testnet3 | Network::Testnet4 => U256::MAX >> 32,
            Network::Signet => decode_target(self.limit_bits()).unwrap_or(U256::ZERO),
            Network::Regtest | Network::Simnet => U256::MAX >> 1,
        }
    }

    /// Returns the rule that determines the target of a header.
    pub const fn retarget_rule(self) -> RetargetRule {
        match self {
            Network::Mainnet | Network::Signet => RetargetRule::Every2016,
            Network::Testnet3 | Network::Simnet => RetargetRule::MinimumAfter20Minutes,
            Network::Testnet4 => RetargetRule::Bip94,
            Network::Regtest => RetargetRule::Never,
        }
    }

    /// Returns the header of block 0, the first block of every chain of the network.
    pub fn genesis(self) -> Header {
        let (time, nonce) = match self {
            Network::Mainnet => (1_231_006_505, 2_083_236_893),
            Network::Testnet3 => (1_296_688_602, 414_098_458),
            Network::Testnet4 => (1_714_777_860, 393_743_547),
            Network::Signet => (1_598_918_400, 52_613_770),
            Network::Regtest => (1_296_688_602, 2),
            Network::Simnet => (1_401_292_357, 2),
        };
        Header {
            version: 1,
            previous: [0; 32],
            merkle_root: match self {
                Network::Testnet4 => TESTNET4_ROOT,
                _ => GENESIS_ROOT,
            },
            time,
            bits: self.limit_bits(),
            nonce,
        }
    }
}

/// TXID of the coinbase in the main network's genesis block, in wire order. It is the Merkle root of the genesis blocks
/// of all networks except testnet4.
const GENESIS_ROOT: Hash = [
    0x3b, 0xa3, 0xed, 0xfd, 0x7a, 0x7b, 0x12, 0xb2, 0x7a, 0xc7, 0x2c, 0x3e, 0x67, 0x76, 0x8f, 0x61, 0x7f,
    0xc8, 0x1b, 0xc3, 0x88, 0x8a, 0x51, 0x32, 0x3a, 0x9f, 0xb8, 0xaa, 0x4b, 0x1e, 0x5e, 0x4a,
];
/// Merkle root of testnet4's genesis block, in wire order.
const TESTNET4_ROOT: Hash = [
    0x4e, 0x7b, 0x2b, 0x91, 0x28, 0xfe, 0x02, 0x91, 0xdb, 0x06, 0x93, 0xaf, 0x2a, 0xe4, 0x18, 0xb7, 0x67,
    0xe6, 0x57, 0xcd, 0x40, 0x7e, 0x80, 0xcb, 0x14, 0x34, 0x22, 0x1e, 0xae, 0xa7, 0xa0, 0x7a,
];

impl fmt::Display for Network {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Error of [`Network::from_str`]: no network has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownNetwork;

impl fmt::Display for UnknownNetwork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("unknown network: give mainnet, testnet3, testnet4, signet, regtest or simnet")
    }
}

impl core::error::Error for UnknownNetwork {}

impl FromStr for Network {
    type Err = UnknownNetwork;

    fn from_str(name: &str) -> Result<Network, UnknownNetwork> {
        Network::from_name(name).ok_or(UnknownNetwork)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{encode_target, from_display};
    use bitcoin::p2p::Magic;

    /// Returns the `bitcoin` crate's value for a network; `None` for simnet, which that crate does not know.
    fn oracle(network: Network) -> Option<bitcoin::Network> {
        Some(match network {
            Network::Mainnet => bitcoin::Network::Bitcoin,
            Network::Testnet3 => bitcoin::Network::Testnet,
            Network::Testnet4 => bitcoin::Network::Testnet4,
            Network::Signet => bitcoin::Network::Signet,
            Network::Regtest => bitcoin::Network::Regtest,
            Network::Simnet => return None,
        })
    }

    #[test]
    fn genesis_magic_and_limit_equal_those_of_the_bitcoin_crate() {
        for network in Network::ALL {
            let Some(other) = oracle(network) else {
                continue;
            };
            let header = bitcoin::constants::genesis_block(other).header;
            assert_eq!(
                network.genesis().to_bytes().to_vec(),
                bitcoin::consensus::serialize(&header)
            );
            assert_eq!(network.magic(), Magic::from(other).to_bytes(), "{network}");
            let rules = other.params();
            assert_eq!(
                network.limit_bits(),
                rules.max_attainable_target.to_compact_lossy().to_consensus()
            );
            let retargets = network.retarget_rule() != RetargetRule::Never;
            assert_eq!(retargets, !rules.no_pow_retargeting);
            let always_hard = network.retarget_rule() == RetargetRule::Every2016;
            assert_eq!(always_hard, !rules.allow_min_difficulty_blocks, "{network}");
        }
    }

    #[test]
    fn every_genesis_has_its_proof_of_work_and_every_name_its_network() {
        for network in Network::ALL {
            assert_eq!(
                network.genesis().check_proof_of_work(network),
                Ok(()),
                "{network}"
            );
            assert_eq!(encode_target(network.limit()), network.limit_bits(), "{network}");
            assert_eq!(network.name().parse(), Ok(network));
        }
        // btcd's chaincfg/genesis.go, simNetGenesisHash.
        let simnet = from_display("683e86bd5c6d110d91b94b97137ba6bfe02dbbdb8e3dff722a669b5d69d77af6");
        assert_eq!(Some(Network::Simnet.genesis().hash()), simnet);
        assert_eq!("main".parse::<Network>(), Err(UnknownNetwork));
    }
}
