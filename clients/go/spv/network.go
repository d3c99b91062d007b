package spv

import (
	"fmt"
	"math/big"
	"slices"
)

// RetargetInterval is the number of blocks between two changes of the difficulty.
const RetargetInterval = 2016

const (
	// targetTimespan is the time in seconds that RetargetInterval blocks should take: two weeks.
	targetTimespan = 14 * 24 * 60 * 60
	// minDifficultyAfter is the time in seconds after which a test network accepts a block of minimum difficulty.
	minDifficultyAfter = 20 * 60
)

// Network is a Bitcoin network. The numbers and rules are those of Bitcoin Core's kernel/chainparams.cpp, of BIP94 for
// testnet4, and of btcd's chaincfg for simnet.
type Network int

// The networks. Headers of a signet do not contain the signatures of its blocks, so that its proof of work is all that
// a light client can check.
const (
	Mainnet Network = iota
	Testnet3
	Testnet4
	Signet
	Regtest
	Simnet
)

// Networks has all networks.
var Networks = []Network{Mainnet, Testnet3, Testnet4, Signet, Regtest, Simnet}

type retargetRule int

const (
	// every2016: the target changes every 2016 blocks.
	every2016 retargetRule = iota
	// minimumAfter20Minutes: like every2016, but a block more than 20 minutes after its parent has the minimum
	// difficulty.
	minimumAfter20Minutes
	// bip94: like minimumAfter20Minutes, but a change begins with the target of the first block of the period.
	bip94
	// never: every block has the minimum difficulty.
	never
)

type parameters struct {
	name      string
	magic     [4]byte
	limitBits uint32
	rule      retargetRule
	time      uint32
	nonce     uint32
}

var networks = [...]parameters{
	Mainnet:  {"mainnet", [4]byte{0xf9, 0xbe, 0xb4, 0xd9}, 0x1d00ffff, every2016, 1231006505, 2083236893},
	Testnet3: {"testnet3", [4]byte{0x0b, 0x11, 0x09, 0x07}, 0x1d00ffff, minimumAfter20Minutes, 1296688602, 414098458},
	Testnet4: {"testnet4", [4]byte{0x1c, 0x16, 0x3f, 0x28}, 0x1d00ffff, bip94, 1714777860, 393743547},
	Signet:   {"signet", [4]byte{0x0a, 0x03, 0xcf, 0x40}, 0x1e0377ae, every2016, 1598918400, 52613770},
	Regtest:  {"regtest", [4]byte{0xfa, 0xbf, 0xb5, 0xda}, 0x207fffff, never, 1296688602, 2},
	Simnet:   {"simnet", [4]byte{0x16, 0x1c, 0x14, 0x12}, 0x207fffff, minimumAfter20Minutes, 1401292357, 2},
}

// genesisRoot is the TXID of the first coinbase: the Merkle root of all genesis blocks but testnet4's.
var (
	genesisRoot  = MustParseHash("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b")
	testnet4Root = MustParseHash("7aa0a7ae1e223414cb807e40cd57e667b718e42aaf9306db9102fe28912b7b4e")
)

// ParseNetwork returns the network with this name.
func ParseNetwork(name string) (Network, error) {
	i := slices.IndexFunc(networks[:], func(p parameters) bool { return p.name == name })
	if i < 0 {
		return 0, fmt.Errorf(
			"spv: unknown network %q: give mainnet, testnet3, testnet4, signet, regtest or simnet", name)
	}
	return Network(i), nil
}

// String returns the name of the network.
func (n Network) String() string { return networks[n].name }

// Magic returns the four bytes before every message between the nodes of the network.
func (n Network) Magic() [4]byte { return networks[n].magic }

// LimitBits returns the easiest target that a header may have, in compact form.
func (n Network) LimitBits() uint32 { return networks[n].limitBits }

// limit returns the easiest target that a header may have.
func (n Network) limit() *big.Int {
	one := big.NewInt(1)
	switch n {
	case Mainnet, Testnet3, Testnet4:
		return one.Lsh(one, 224).Sub(one, big.NewInt(1))
	case Regtest, Simnet:
		return one.Lsh(one, 255).Sub(one, big.NewInt(1))
	}
	return decodeTarget(n.LimitBits())
}

// Genesis returns the header of block 0.
func (n Network) Genesis() Header {
	root := genesisRoot
	if n == Testnet4 {
		root = testnet4Root
	}
	p := networks[n]
	return Header{Version: 1, MerkleRoot: root, Time: p.time, Bits: p.limitBits, Nonce: p.nonce}
}
