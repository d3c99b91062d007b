package livetest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
)

// regtestMagic is the value before each block in the block files of the network regtest.
var regtestMagic = []byte{0xfa, 0xbf, 0xb5, 0xda}

// genesisCoinbase is the only transaction of the genesis block of regtest, the same as that of the main network.
const genesisCoinbase = "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d" +
	"04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f" +
	"6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a01000000434104678afdb0fe5548271967f1a67130b7105cd6a828e0" +
	"3909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000"

// Block is a block of a generated chain. Hashes are in wire order.
type Block struct {
	Header [80]byte
	Hash   [32]byte
	Txids  [][32]byte
	// Wtxids has zeros for the coinbase.
	Wtxids [][32]byte
	raw    []byte
}

func double(parts ...[]byte) [32]byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}
	return sha256.Sum256(h.Sum(nil))
}

// merkleRoot returns the root of Bitcoin's tree of hashes: the last node of an odd row is paired with itself.
func merkleRoot(row [][32]byte) [32]byte {
	for len(row) > 1 {
		var above [][32]byte
		for i := 0; i < len(row); i += 2 {
			right := row[min(i+1, len(row)-1)]
			above = append(above, double(row[i][:], right[:]))
		}
		row = above
	}
	return row[0]
}

// transaction returns a transaction with a witness: its TXID, its WTXID and its bytes.
func transaction(seed uint64, outpoint [36]byte, script, output, witness []byte) (txid, wtxid [32]byte, raw []byte) {
	le := binary.LittleEndian
	body := append([]byte{1}, outpoint[:]...)
	body = append(append(body, byte(len(script))), script...)
	body = append(body, 0xff, 0xff, 0xff, 0xff, 2)
	// Two outputs: a value that makes the transaction unique, and the given script.
	body = append(le.AppendUint64(body, seed%1_000_000), 1, 0x51)
	body = append(append(le.AppendUint64(body, 0), byte(len(output))), output...)
	version, lock := []byte{2, 0, 0, 0}, []byte{0, 0, 0, 0}
	stack := append([]byte{1, byte(len(witness))}, witness...)
	txid = double(version, body, lock)
	wtxid = double(version, []byte{0, 1}, body, stack, lock)
	raw = append(append(append(append(append(raw, version...), 0, 1), body...), stack...), lock...)
	return txid, wtxid, raw
}

// MakeChain generates blocks of the network regtest with this number of transactions each, on top of the genesis block
// with the given header. Every block commits to its witnesses.
func MakeChain(genesis [80]byte, blocks, transactions int) []Block {
	le := binary.LittleEndian
	parent, time := double(genesis[:]), le.Uint32(genesis[68:])
	var chain []Block
	for height := 1; height <= blocks; height++ {
		block := Block{Txids: make([][32]byte, 1), Wtxids: make([][32]byte, 1)}
		var rest []byte
		for i := 1; i < transactions; i++ {
			seed := uint64(height)<<32 | uint64(i)
			var outpoint [36]byte
			hash := double(le.AppendUint64(nil, seed))
			copy(outpoint[:], hash[:])
			txid, wtxid, raw := transaction(seed, outpoint, nil, []byte{0x51}, hash[:20])
			block.Txids, block.Wtxids = append(block.Txids, txid), append(block.Wtxids, wtxid)
			rest = append(rest, raw...)
		}
		var reserved [32]byte
		root := merkleRoot(block.Wtxids)
		commitment := double(root[:], reserved[:])
		output := append([]byte{0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed}, commitment[:]...)
		null := [36]byte{32: 0xff, 33: 0xff, 34: 0xff, 35: 0xff}
		// The script of a coinbase begins with the height (BIP34).
		script := append([]byte{4}, le.AppendUint32(nil, uint32(height))...)
		txid, _, raw := transaction(50, null, script, output, reserved[:])
		block.Txids[0] = txid
		time += 600
		block.mine(parent, merkleRoot(block.Txids), time)
		count := []byte{0xfd, byte(transactions), byte(transactions >> 8)}
		if transactions < 0xfd {
			count = count[1:2]
		}
		block.raw = append(append(append(append(block.raw, block.Header[:]...), count...), raw...), rest...)
		parent = block.Hash
		chain = append(chain, block)
	}
	return chain
}

// mine finds a nonce. Every second hash is below the target of regtest.
func (b *Block) mine(parent, root [32]byte, time uint32) {
	header := binary.LittleEndian.AppendUint32(nil, 0x20000000)
	header = append(append(header, parent[:]...), root[:]...)
	header = binary.LittleEndian.AppendUint32(header, time)
	header = binary.LittleEndian.AppendUint32(header, 0x207fffff)
	for nonce := uint32(0); ; nonce++ {
		b.Header = [80]byte(binary.LittleEndian.AppendUint32(header, nonce))
		b.Hash = double(b.Header[:])
		if b.Hash[31] < 0x7f {
			return
		}
	}
}

// ImportChain makes a chain store `chain` with witness data in the directory and imports the blocks.
func ImportChain(directory string, genesis [80]byte, blocks []Block) error {
	folder := filepath.Join(directory, "blocks")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	coinbase, err := hex.DecodeString(genesisCoinbase)
	if err != nil {
		return err
	}
	var file []byte
	add := func(raw []byte) {
		file = append(file, regtestMagic...)
		file = binary.LittleEndian.AppendUint32(file, uint32(len(raw)))
		file = append(file, raw...)
	}
	add(append(append(genesis[:], 1), coinbase...))
	for i := range blocks {
		add(blocks[i].raw)
	}
	if err := os.WriteFile(filepath.Join(folder, "blk00000.dat"), file, 0o600); err != nil {
		return err
	}
	if _, err := Command(directory, "spv", "init", "--data", "chain", "--network", "regtest", "--witness"); err != nil {
		return err
	}
	_, err = Command(directory, "spv", "import", "--data", "chain", folder)
	return err
}
