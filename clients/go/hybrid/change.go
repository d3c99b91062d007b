package hybrid

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// Rights are the rights of a rule.
type Rights uint8

// The rights. A rule with none of them is removed.
const (
	RightRead  Rights = layout.HybridRightRead
	RightWrite Rights = layout.HybridRightWrite
)

// Everyone is the number of no member: a rule for all members.
const Everyone = layout.HybridEveryone

// Change is a change of members, keys, rules, nodes or the quorum: one of the types of this package with such a method.
type Change interface {
	appendChange([]byte) []byte
}

// AddMember adds a member with its key 0.
type AddMember struct {
	// Member is the number of the member, which was never used before.
	Member uint64
	// Name is the name for display: up to 64 bytes of printable ASCII.
	Name string
	// IsAdmin lets the member vote on changes.
	IsAdmin bool
	// Key is the public key.
	Key lineside.PublicKey
}

func appendPublicKey(b []byte, key lineside.PublicKey) []byte {
	return append(append(b, byte(key.Curve)), key.Bytes[:]...)
}

func (c AddMember) appendChange(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, layout.HybridChangeAddMember), c.Member)
	b = appendShort(b, []byte(c.Name))
	role := byte(layout.HybridRoleUser)
	if c.IsAdmin {
		role = layout.HybridRoleAdmin
	}
	return appendPublicKey(append(b, role), c.Key)
}

// RevokeMember revokes a member and all its keys.
type RevokeMember struct {
	// Member is the number of the member.
	Member uint64
}

func (c RevokeMember) appendChange(b []byte) []byte {
	return binary.BigEndian.AppendUint64(append(b, layout.HybridChangeRevokeMember), c.Member)
}

// AddKey adds a key to a member.
type AddKey struct {
	// Member is the number of the member.
	Member uint64
	// Number is the number of the key, above all numbers that the member's keys ever had.
	Number uint16
	// Key is the public key.
	Key lineside.PublicKey
}

func (c AddKey) appendChange(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, layout.HybridChangeAddKey), c.Member)
	return appendPublicKey(binary.BigEndian.AppendUint16(b, c.Number), c.Key)
}

// RevokeKey revokes a key of a member.
type RevokeKey struct {
	// Member is the number of the member.
	Member uint64
	// Number is the number of the key.
	Number uint16
}

func (c RevokeKey) appendChange(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(append(b, layout.HybridChangeRevokeKey), c.Member)
	return binary.BigEndian.AppendUint16(b, c.Number)
}

// SetRule sets the rights on keys with a prefix.
type SetRule struct {
	// Prefix is the prefix.
	Prefix []byte
	// Member is the number of a member, or [Everyone].
	Member uint64
	// Rights are the rights.
	Rights Rights
}

func (c SetRule) appendChange(b []byte) []byte {
	b = appendShort(append(b, layout.HybridChangeSetRule), c.Prefix)
	return append(binary.BigEndian.AppendUint64(b, c.Member), byte(c.Rights))
}

// AddNode adds a node.
type AddNode struct {
	// Node is the number of the node, which was never used before.
	Node uint32
	// Key is the public key.
	Key lineside.PublicKey
}

func (c AddNode) appendChange(b []byte) []byte {
	return appendPublicKey(binary.BigEndian.AppendUint32(append(b, layout.HybridChangeAddNode), c.Node), c.Key)
}

// RevokeNode revokes a node.
type RevokeNode struct {
	// Node is the number of the node.
	Node uint32
}

func (c RevokeNode) appendChange(b []byte) []byte {
	return binary.BigEndian.AppendUint32(append(b, layout.HybridChangeRevokeNode), c.Node)
}

// SetQuorum sets the number of admins who must ask for a change.
type SetQuorum struct {
	// Admins is the number.
	Admins uint16
}

func (c SetQuorum) appendChange(b []byte) []byte {
	return binary.BigEndian.AppendUint16(append(b, layout.HybridChangeSetQuorum), c.Admins)
}

type changeBody struct {
	until  time.Time
	change Change
}

func (changeBody) op() byte { return layout.HybridOpChange }

func (c changeBody) append(b []byte) ([]byte, error) {
	return c.change.appendChange(binary.BigEndian.AppendUint64(b, uint64(c.until.UnixMilli()))), nil
}

// readChange reads a change that a genesis or a request may have.
func readChange(in *input) (Change, error) {
	publicKey := func() (key lineside.PublicKey) {
		key.Curve = lineside.Curve(in.u8())
		in.bytes(key.Bytes[:])
		return key
	}
	switch kind := in.u8(); kind {
	case layout.HybridChangeAddMember:
		c := AddMember{Member: in.u64(), Name: string(in.short(64))}
		c.IsAdmin = in.u8() == layout.HybridRoleAdmin
		c.Key = publicKey()
		return c, nil
	case layout.HybridChangeRevokeMember:
		return RevokeMember{in.u64()}, nil
	case layout.HybridChangeAddKey:
		return AddKey{in.u64(), in.u16(), publicKey()}, nil
	case layout.HybridChangeRevokeKey:
		return RevokeKey{in.u64(), in.u16()}, nil
	case layout.HybridChangeSetRule:
		return SetRule{in.short(KeyBytesMax), in.u64(), Rights(in.u8())}, nil
	case layout.HybridChangeAddNode:
		return AddNode{in.u32(), publicKey()}, nil
	case layout.HybridChangeRevokeNode:
		return RevokeNode{in.u32()}, nil
	case layout.HybridChangeSetQuorum:
		return SetQuorum{in.u16()}, nil
	default:
		return nil, fmt.Errorf("hybrid: unknown kind of change %d", kind)
	}
}

// Genesis is the first record of a database: what all participants agree on before its first block.
type Genesis struct {
	// Name is the name of the database.
	Name string
	// TimeMs is the time of the genesis in milliseconds since 1970.
	TimeMs uint64
	// IsPaper means that the database is in the paper's mode.
	IsPaper bool
	// Members, Nodes and Rules are those at the beginning.
	Members []AddMember
	Nodes   []AddNode
	Rules   []SetRule
	// Quorum is the number of admins who must ask for a change.
	Quorum uint16

	hash [32]byte
}

// ParseGenesis reads the file genesis.bin of a database.
func ParseGenesis(b []byte) (*Genesis, error) {
	malformed := errors.New("hybrid: these bytes are not a genesis")
	in := &input{rest: b}
	if string(in.take(8)) != "LShybrid" {
		return nil, malformed
	}
	version := in.u8()
	if version != 1 && version != 2 {
		return nil, malformed
	}
	g := &Genesis{
		IsPaper: version == 2,
		Name:    string(in.short(64)),
		TimeMs:  in.u64(),
		hash:    keccak256([]byte("lineside/hybrid/genesis/1"), b),
	}
	for range in.u32() {
		change, err := readChange(in)
		if err != nil || in.failed {
			return nil, malformed
		}
		switch c := change.(type) {
		case AddMember:
			g.Members = append(g.Members, c)
		case AddNode:
			g.Nodes = append(g.Nodes, c)
		case SetRule:
			g.Rules = append(g.Rules, c)
		case SetQuorum:
			g.Quorum = c.Admins
		default:
			return nil, malformed
		}
	}
	if !in.isWhole() {
		return nil, malformed
	}
	return g, nil
}

// Database returns the id of the database.
func (g *Genesis) Database() [16]byte { return [16]byte(g.hash[:16]) }

// Identity returns the identity of the member that has the key of the signer. A member or key that was added later
// needs an [Identity] with its numbers.
func (g *Genesis) Identity(signer lineside.Signer) (Identity, error) {
	for _, member := range g.Members {
		if member.Key == signer.PublicKey() {
			return Identity{Database: g.Database(), Member: member.Member, Signer: signer}, nil
		}
	}
	return Identity{}, errors.New("hybrid: no member of the genesis has this key; a member that was added later needs its number")
}

// NodeKey returns the key that a node had at the beginning.
func (g *Genesis) NodeKey(node uint32) (lineside.PublicKey, error) {
	for _, first := range g.Nodes {
		if first.Node == node {
			return first.Key, nil
		}
	}
	return lineside.PublicKey{}, fmt.Errorf("hybrid: node %d is not in the genesis", node)
}
