package hybrid

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"fmt"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/vectors"
)

func signerOf(t *testing.T, curve int64, secret []byte) lineside.Signer {
	t.Helper()
	if curve == layout.HybridCurveSecp256k1 {
		signer, err := lineside.NewSecp256k1Signer([32]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return signer
	}
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := lineside.NewP256Signer(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// readBody reads the body of a request. It returns nil if the bytes are not the body of a request that a client makes.
func readBody(op byte, rest []byte) body {
	in := &input{rest: rest}
	var read body
	keys := func() (keys [][]byte) {
		for range in.u16() {
			keys = append(keys, in.short(KeyBytesMax))
		}
		return keys
	}
	switch op {
	case layout.HybridOpGet:
		read = getBody{in.flag(), keys()}
	case layout.HybridOpRange:
		read = rangeBody{in.flag(), in.short(KeyBytesMax), in.short(KeyBytesMax), in.u32()}
	case layout.HybridOpProve:
		read = proveBody{in.short(KeyBytesMax)}
	case layout.HybridOpHistory:
		history := historyBody{key: in.short(KeyBytesMax), limit: in.u32()}
		if len(in.rest) > 0 {
			history.before = Version{in.u64(), in.u32()}
		}
		read = history
	case layout.HybridOpHead:
		read = headBody{}
	case layout.HybridOpOutcome:
		var id ID
		in.bytes(id[:])
		read = outcomeBody{id}
	case layout.HybridOpWatch:
		read = watchBody{in.short(KeyBytesMax)}
	case layout.HybridOpWrite:
		transaction := &Transaction{}
		for range in.u16() {
			transaction.Reads = append(transaction.Reads, Read{in.short(KeyBytesMax), Version{in.u64(), in.u32()}})
		}
		for range in.u16() {
			write := Write{Key: in.short(KeyBytesMax)}
			if write.IsDelete = in.flag(); !write.IsDelete {
				write.Value = in.long(ValueBytesMax)
			}
			transaction.Writes = append(transaction.Writes, write)
		}
		read = transaction
	case layout.HybridOpChange:
		until := time.UnixMilli(int64(in.u64()))
		change, err := readChange(in)
		if err != nil {
			return nil
		}
		read = changeBody{until, change}
	}
	if !in.isWhole() {
		return nil
	}
	return read
}

// again makes a request again from what its signed bytes say.
func again(t *testing.T, signer lineside.Signer, signed []byte) []byte {
	t.Helper()
	if len(signed) < layout.RequestHeadBytes {
		return nil
	}
	var head layout.RequestHead
	head.Decode(signed)
	body := readBody(head.Op, signed[layout.RequestHeadBytes:])
	if body == nil {
		return nil
	}
	identity := Identity{Database: head.Database, Member: head.Member, Key: head.Key, Signer: signer}
	request, err := identity.sign(body, head.Nonce, head.ExpiryMs)
	if err != nil {
		return nil
	}
	return request
}

func TestRequestsDigestsAndSignaturesAreThoseOfTheVectors(t *testing.T) {
	operations := map[byte]bool{}
	for _, vector := range vectors.Read(t, "hybrid", "requests.toml").Lists["vector"] {
		what, signed := vector.Text("what"), vector.Bytes("signed")
		signer := signerOf(t, vector.Number("curve"), vector.Bytes("secret"))
		hash := digest(signer.PublicKey().Curve, []byte(requestTag), signed)
		if !bytes.Equal(hash[:], vector.Bytes("digest")) {
			t.Errorf("%s: the digest is %x", what, hash)
		}
		request := again(t, signer, signed)
		if want := append(vector.Bytes("signature"), signed...); !bytes.Equal(request, want) {
			t.Errorf("%s: the client makes\n%x, not\n%x", what, request, want)
			continue
		}
		if id := idOf(request); !bytes.Equal(id[:], vector.Bytes("id")) {
			t.Errorf("%s: the id is %v", what, id)
		}
		if !signer.PublicKey().Verify(hash, [64]byte(vector.Bytes("signature"))) {
			t.Errorf("%s: the signature is refused", what)
		}
		operations[signed[1]] = true
	}
	if len(operations) != 9 {
		t.Errorf("the vectors have %d operations", len(operations))
	}
}

func TestNoOtherEncodingIsMade(t *testing.T) {
	signer := signerOf(t, layout.HybridCurveSecp256k1, bytes.Repeat([]byte{0x11}, 32))
	for _, vector := range vectors.Read(t, "hybrid", "refused.toml").Lists["vector"] {
		signed := vector.Bytes("signed")
		request := again(t, signer, signed)
		// A vector may be of a member, a database or a version that the client takes from its caller; whatever the
		// client makes from it must be an encoding of its own.
		if request != nil && !bytes.Equal(request[signatureBytes:], signed) {
			continue
		}
		if request != nil && !isOfTheCaller(signed) {
			t.Errorf("%s: the client makes a request that nodes refuse", vector.Text("what"))
		}
	}
}

// isOfTheCaller returns true for numbers that the client takes from its caller without a check: member 0, a get without
// keys, a version of no block, or a change whose numbers, name or key no node accepts.
func isOfTheCaller(signed []byte) bool {
	var head layout.RequestHead
	head.Decode(signed)
	switch body := readBody(head.Op, signed[layout.RequestHeadBytes:]).(type) {
	case getBody:
		return head.Member == 0 || len(body.keys) == 0
	case changeBody:
		return true
	case *Transaction:
		for _, read := range body.Reads {
			if read.Version.Block == 0 && read.Version.Index != 0 {
				return true
			}
		}
		return head.Member == 0 || len(body.Writes) == 0
	}
	return head.Member == 0
}

func TestRequestsOfALedgerAreMadeAgain(t *testing.T) {
	file := vectors.Read(t, "hybrid", "ledger.toml")
	genesis, err := ParseGenesis(file.Root.Bytes("genesis"))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%x", genesis.Database()) != vectors.Read(t, "hybrid", "requests.toml").Root.Text("database") {
		t.Errorf("the id of the database is %x", genesis.Database())
	}
	if len(genesis.Members) != 3 || len(genesis.Nodes) != 1 || len(genesis.Rules) != 2 || genesis.Quorum == 0 {
		t.Errorf("the genesis is %+v", genesis)
	}
	signers := map[uint64]lineside.Signer{}
	for number, curve := range map[uint64]int64{1: 2, 2: 2, 3: 1} {
		signers[number] = signerOf(t, curve, file.Root.Bytes(fmt.Sprintf("secret_%d", number)))
		identity, err := genesis.Identity(signers[number])
		if err != nil || identity.Member != number {
			t.Errorf("member %d: %+v, %v", number, identity, err)
		}
	}
	made := 0
	for _, vector := range file.Lists["vector"] {
		request := vector.Bytes("request")
		if len(request) < signatureBytes+layout.RequestHeadBytes {
			continue
		}
		var head layout.RequestHead
		head.Decode(request[signatureBytes:])
		signer := signers[head.Member]
		if signer == nil || head.Key != 0 {
			continue
		}
		code := Code(vector.Number("code"))
		found := again(t, signer, request[signatureBytes:])
		switch {
		case code == CodeMalformed || code == CodeBadSignature || code == CodeHighS:
		case bytes.Equal(found, request):
			made++
		default:
			t.Errorf("%s: the client makes\n%x, not\n%x", vector.Text("what"), found, request)
		}
	}
	if made < 10 {
		t.Errorf("%d requests were made", made)
	}
}
