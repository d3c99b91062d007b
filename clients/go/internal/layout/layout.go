// Code generated from spec/*.toml by `cargo run -p lineside-spec`. DO NOT EDIT.

// Package layout has the constants and the fixed layouts of Lineside's wire formats.
package layout

import "encoding/binary"

// NativeMagic: First field of a native packet.
const NativeMagic = 0x4c53

// NativeVersion: Version of the native format.
const NativeVersion = 1

// NativeReplyBit: Bit that is set in the operation of replies.
const NativeReplyBit = 0x80

// SpvPort: UDP port of spv.
const SpvPort = 7701

// TransferPort: UDP port of transfer.
const TransferPort = 7702

// ColumnPort: UDP port of column.
const ColumnPort = 7703

// HybridPort: UDP port of hybrid.
const HybridPort = 7705

// NativeHeaderBytes is the number of bytes of a NativeHeader.
const NativeHeaderBytes = 16

// NativeHeader: Header of every native packet.
type NativeHeader struct {
	// Magic: magic number 0x4c53 ("LS")
	Magic uint16
	// Version: version of the format, 1
	Version uint8
	// Op: operation; bit 7 is set in replies
	Op uint8
	// Status: 0 in a request; status code in a reply
	Status uint16
	// Length: number of bytes after this header
	Length uint16
	// RequestId: chosen by the client and returned in the reply
	RequestId uint64
}

// Append appends the encoding of m to b.
func (m *NativeHeader) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, m.Magic)
	b = append(b, m.Version)
	b = append(b, m.Op)
	b = binary.BigEndian.AppendUint16(b, m.Status)
	b = binary.BigEndian.AppendUint16(b, m.Length)
	b = binary.BigEndian.AppendUint64(b, m.RequestId)
	return b
}

// Decode reads m from the first NativeHeaderBytes bytes of b.
func (m *NativeHeader) Decode(b []byte) {
	_ = b[NativeHeaderBytes-1]
	m.Magic = binary.BigEndian.Uint16(b[0:])
	m.Version = b[2]
	m.Op = b[3]
	m.Status = binary.BigEndian.Uint16(b[4:])
	m.Length = binary.BigEndian.Uint16(b[6:])
	m.RequestId = binary.BigEndian.Uint64(b[8:])
}

// SpvPaperRequestBytes: Bytes of the paper's request: a TXID in wire byte order, the reverse of the order in block explorers.
const SpvPaperRequestBytes = 32

// SpvPaperReplyBytes: Bytes of the paper's reply: a Merkle root in wire byte order; zeros if the TXID is unknown.
const SpvPaperReplyBytes = 32

// SpvHeightUnknown: Value for the height of a block whose parents are unknown (`spv import --detached`).
const SpvHeightUnknown = 0xffffffff

// SpvRootsMax: Maximum number of items in a `roots` packet, which then has 1,208 bytes.
const SpvRootsMax = 16

// SpvProofDepthMax: Maximum number of hashes in a `proof` packet: the path of a block of 16,384 transactions, 600 bytes.
const SpvProofDepthMax = 14

// SpvHeadersMax: Maximum number of headers in a `headers` packet, which then has 1,184 bytes.
const SpvHeadersMax = 14

// SpvWitnessRoomMax: Maximum bytes after witness_reply in a `witness_proof` packet: 1,452 bytes with both headers.
const SpvWitnessRoomMax = 1236

// SpvHeaderBytes: Bytes of a block header.
const SpvHeaderBytes = 80

// SpvTreeHeadNodes: Number of nodes before a tree's leaves in the fast-path table: the block header, then zeros.
const SpvTreeHeadNodes = 3

// SpvOpRoot: Operation `root` of spv.
const SpvOpRoot = 1

// SpvOpRoots: Operation `roots` of spv.
const SpvOpRoots = 2

// SpvOpProof: Operation `proof` of spv.
const SpvOpProof = 3

// SpvOpHeaders: Operation `headers` of spv.
const SpvOpHeaders = 4

// SpvOpWitnessProof: Operation `witness_proof` of spv.
const SpvOpWitnessProof = 5

// SpvOpWtxidProof: Operation `wtxid_proof` of spv.
const SpvOpWtxidProof = 6

// RootReplyBytes is the number of bytes of a RootReply.
const RootReplyBytes = 104

// RootReply: Position of one transaction, and the tip at which it was valid.
type RootReply struct {
	// Root: Merkle root of the block (the request has the TXID here)
	Root [32]byte
	// BlockHash: hash of the block's header, wire byte order
	BlockHash [32]byte
	// TipHash: hash of the best block at the time of the reply
	TipHash [32]byte
	// Height: height of the block; 0xffffffff: unknown
	Height uint32
	// TipHeight: height of the best block at the time of the reply
	TipHeight uint32
}

// Append appends the encoding of m to b.
func (m *RootReply) Append(b []byte) []byte {
	b = append(b, m.Root[:]...)
	b = append(b, m.BlockHash[:]...)
	b = append(b, m.TipHash[:]...)
	b = binary.BigEndian.AppendUint32(b, m.Height)
	b = binary.BigEndian.AppendUint32(b, m.TipHeight)
	return b
}

// Decode reads m from the first RootReplyBytes bytes of b.
func (m *RootReply) Decode(b []byte) {
	_ = b[RootReplyBytes-1]
	copy(m.Root[:], b[0:32])
	copy(m.BlockHash[:], b[32:64])
	copy(m.TipHash[:], b[64:96])
	m.Height = binary.BigEndian.Uint32(b[96:])
	m.TipHeight = binary.BigEndian.Uint32(b[100:])
}

// RootsHeadBytes is the number of bytes of a RootsHead.
const RootsHeadBytes = 40

// RootsHead: Header of the body of `roots`, with the tip at which all items were valid.
type RootsHead struct {
	// TipHash: request: zeros; reply: hash of the best block at the time of the reply
	TipHash [32]byte
	// TipHeight: request: 0; reply: height of the best block
	TipHeight uint32
	// Count: number of items that follow: 1 to 16
	Count uint32
}

// Append appends the encoding of m to b.
func (m *RootsHead) Append(b []byte) []byte {
	b = append(b, m.TipHash[:]...)
	b = binary.BigEndian.AppendUint32(b, m.TipHeight)
	b = binary.BigEndian.AppendUint32(b, m.Count)
	return b
}

// Decode reads m from the first RootsHeadBytes bytes of b.
func (m *RootsHead) Decode(b []byte) {
	_ = b[RootsHeadBytes-1]
	copy(m.TipHash[:], b[0:32])
	m.TipHeight = binary.BigEndian.Uint32(b[32:])
	m.Count = binary.BigEndian.Uint32(b[36:])
}

// RootItemBytes is the number of bytes of a RootItem.
const RootItemBytes = 72

// RootItem: Position of one transaction in `roots`. If the TXID is unknown, all fields but the status are zero.
type RootItem struct {
	// Root: Merkle root of the block (the request has the TXID here)
	Root [32]byte
	// BlockHash: hash of the block's header, wire byte order
	BlockHash [32]byte
	// Height: height of the block; 0xffffffff: unknown
	Height uint32
	// Status: 0 ok, 1 unknown
	Status uint32
}

// Append appends the encoding of m to b.
func (m *RootItem) Append(b []byte) []byte {
	b = append(b, m.Root[:]...)
	b = append(b, m.BlockHash[:]...)
	b = binary.BigEndian.AppendUint32(b, m.Height)
	b = binary.BigEndian.AppendUint32(b, m.Status)
	return b
}

// Decode reads m from the first RootItemBytes bytes of b.
func (m *RootItem) Decode(b []byte) {
	_ = b[RootItemBytes-1]
	copy(m.Root[:], b[0:32])
	copy(m.BlockHash[:], b[32:64])
	m.Height = binary.BigEndian.Uint32(b[64:])
	m.Status = binary.BigEndian.Uint32(b[68:])
}

// ProofReplyBytes is the number of bytes of a ProofReply.
const ProofReplyBytes = 136

// ProofReply: Header of a proof. Unknown TXID: only the tip is set. Too long: only transactions and depth.
type ProofReply struct {
	// Header: the block's header, wire byte order (the request has the TXID here)
	Header [80]byte
	// Height: height of the block; 0xffffffff: unknown
	Height uint32
	// Transactions: number of transactions in the block
	Transactions uint32
	// Index: position of the transaction in the block, from 0
	Index uint32
	// Depth: number of hashes that follow
	Depth uint32
	// TipHash: hash of the best block at the time of the reply
	TipHash [32]byte
	// TipHeight: height of the best block at the time of the reply
	TipHeight uint32
	// Reserved: reserved: zero
	Reserved uint32
}

// Append appends the encoding of m to b.
func (m *ProofReply) Append(b []byte) []byte {
	b = append(b, m.Header[:]...)
	b = binary.BigEndian.AppendUint32(b, m.Height)
	b = binary.BigEndian.AppendUint32(b, m.Transactions)
	b = binary.BigEndian.AppendUint32(b, m.Index)
	b = binary.BigEndian.AppendUint32(b, m.Depth)
	b = append(b, m.TipHash[:]...)
	b = binary.BigEndian.AppendUint32(b, m.TipHeight)
	b = binary.BigEndian.AppendUint32(b, m.Reserved)
	return b
}

// Decode reads m from the first ProofReplyBytes bytes of b.
func (m *ProofReply) Decode(b []byte) {
	_ = b[ProofReplyBytes-1]
	copy(m.Header[:], b[0:80])
	m.Height = binary.BigEndian.Uint32(b[80:])
	m.Transactions = binary.BigEndian.Uint32(b[84:])
	m.Index = binary.BigEndian.Uint32(b[88:])
	m.Depth = binary.BigEndian.Uint32(b[92:])
	copy(m.TipHash[:], b[96:128])
	m.TipHeight = binary.BigEndian.Uint32(b[128:])
	m.Reserved = binary.BigEndian.Uint32(b[132:])
}

// WitnessReplyBytes is the number of bytes of a WitnessReply.
const WitnessReplyBytes = 200

// WitnessReply: Header of a witness proof. Unknown: only the tip. Too long: transactions, depth, coinbase_bytes.
type WitnessReply struct {
	// Header: the block's header, wire byte order (the request has the TXID here)
	Header [80]byte
	// Height: height of the block; 0xffffffff: unknown
	Height uint32
	// Transactions: number of transactions in the block
	Transactions uint32
	// Index: position of the transaction in the block, from 0
	Index uint32
	// Depth: number of hashes in each of the two paths that follow
	Depth uint32
	// TipHash: hash of the best block at the time of the reply
	TipHash [32]byte
	// TipHeight: height of the best block at the time of the reply
	TipHeight uint32
	// CoinbaseBytes: bytes of the coinbase without its witness; too long: 64 * depth more bytes are needed
	CoinbaseBytes uint32
	// Wtxid: WTXID of the transaction, wire byte order; zeros for a coinbase
	Wtxid [32]byte
	// WitnessReserved: the witness reserved value: the only item in the witness of the coinbase (BIP141)
	WitnessReserved [32]byte
}

// Append appends the encoding of m to b.
func (m *WitnessReply) Append(b []byte) []byte {
	b = append(b, m.Header[:]...)
	b = binary.BigEndian.AppendUint32(b, m.Height)
	b = binary.BigEndian.AppendUint32(b, m.Transactions)
	b = binary.BigEndian.AppendUint32(b, m.Index)
	b = binary.BigEndian.AppendUint32(b, m.Depth)
	b = append(b, m.TipHash[:]...)
	b = binary.BigEndian.AppendUint32(b, m.TipHeight)
	b = binary.BigEndian.AppendUint32(b, m.CoinbaseBytes)
	b = append(b, m.Wtxid[:]...)
	b = append(b, m.WitnessReserved[:]...)
	return b
}

// Decode reads m from the first WitnessReplyBytes bytes of b.
func (m *WitnessReply) Decode(b []byte) {
	_ = b[WitnessReplyBytes-1]
	copy(m.Header[:], b[0:80])
	m.Height = binary.BigEndian.Uint32(b[80:])
	m.Transactions = binary.BigEndian.Uint32(b[84:])
	m.Index = binary.BigEndian.Uint32(b[88:])
	m.Depth = binary.BigEndian.Uint32(b[92:])
	copy(m.TipHash[:], b[96:128])
	m.TipHeight = binary.BigEndian.Uint32(b[128:])
	m.CoinbaseBytes = binary.BigEndian.Uint32(b[132:])
	copy(m.Wtxid[:], b[136:168])
	copy(m.WitnessReserved[:], b[168:200])
}

// HeadersHeadBytes is the number of bytes of a HeadersHead.
const HeadersHeadBytes = 48

// HeadersHead: Header of a reply to `headers`, which has fewer headers than requested if the chain ends.
type HeadersHead struct {
	// TipHash: hash of the best block at the time of the reply
	TipHash [32]byte
	// TipHeight: height of the best block at the time of the reply
	TipHeight uint32
	// Start: height of the first header, as requested
	Start uint32
	// Count: number of headers that follow
	Count uint32
	// Reserved: reserved: zero
	Reserved uint32
}

// Append appends the encoding of m to b.
func (m *HeadersHead) Append(b []byte) []byte {
	b = append(b, m.TipHash[:]...)
	b = binary.BigEndian.AppendUint32(b, m.TipHeight)
	b = binary.BigEndian.AppendUint32(b, m.Start)
	b = binary.BigEndian.AppendUint32(b, m.Count)
	b = binary.BigEndian.AppendUint32(b, m.Reserved)
	return b
}

// Decode reads m from the first HeadersHeadBytes bytes of b.
func (m *HeadersHead) Decode(b []byte) {
	_ = b[HeadersHeadBytes-1]
	copy(m.TipHash[:], b[0:32])
	m.TipHeight = binary.BigEndian.Uint32(b[32:])
	m.Start = binary.BigEndian.Uint32(b[36:])
	m.Count = binary.BigEndian.Uint32(b[40:])
	m.Reserved = binary.BigEndian.Uint32(b[44:])
}

// TransferPaperBytesMin: Bytes of the paper's packet, request and reply.
const TransferPaperBytesMin = 20

// TransferPaperBytesMax: Bytes of the paper's packet with padding to a frame of 64 bytes.
const TransferPaperBytesMax = 22

// TransferPaperRefused: Bit that is set in the field Command of a refusal; Amount is then the result code.
const TransferPaperRefused = 0x80000000

// TransferCommandCreate: CREATE: creates the account Source with the balance Amount.
const TransferCommandCreate = 1

// TransferCommandIssue: ISSUE: adds Amount to Source.
const TransferCommandIssue = 2

// TransferCommandTransfer: TRANSFER: moves Amount from Source to Destination.
const TransferCommandTransfer = 3

// TransferCommandRefer: REFER: reads the balance of Source. Paper format only; the native format has `refer`.
const TransferCommandRefer = 4

// TransferCommandFreeze: FREEZE: blocks transfers into and out of Source until UNFREEZE. Native format only.
const TransferCommandFreeze = 5

// TransferCommandUnfreeze: UNFREEZE: ends FREEZE. Native format only.
const TransferCommandUnfreeze = 6

// TransferContractPlain: Contract code of TRANSFER: the amount is transferred at once.
const TransferContractPlain = 0

// TransferContractPending: Contract code of TRANSFER: Amount is reserved until it is posted, voided or expires; `uuid` names it.
const TransferContractPending = 1

// TransferContractPost: Contract code of TRANSFER: posts Amount (0: all) of the pending transfer `uuid`, and releases the rest.
const TransferContractPost = 2

// TransferContractVoid: Contract code of TRANSFER: cancels the pending transfer `uuid`.
const TransferContractVoid = 3

// TransferFlagLinked: Flag of an operation that is linked with the next one: either both are executed or neither.
const TransferFlagLinked = 1

// TransferFlagKeyed: Flag of an operation: `uuid` is its idempotency key: a repetition changes nothing.
const TransferFlagKeyed = 2

// TransferCurveP256: Number of the curve P-256 in a signed packet.
const TransferCurveP256 = 1

// TransferCurveSecp256k1: Number of the curve secp256k1 in a signed packet.
const TransferCurveSecp256k1 = 2

// TransferLineOperationsMax: Maximum number of operations in a packet that the fast path executes; larger packets go to the host.
const TransferLineOperationsMax = 4

// TransferOperationsMax: Maximum number of operations in a packet, given by the header's length field. A datagram holds 16.
const TransferOperationsMax = 744

// TransferReferMax: Maximum number of accounts in one `refer` packet, which then has 1,416 bytes.
const TransferReferMax = 29

// TransferDurable: Durability in a reply: the operation was on the disk before the reply was sent.
const TransferDurable = 1

// TransferExpress: Durability in a reply: the operation is executed and will be on the disk within a bounded delay.
const TransferExpress = 2

// TransferBucketCells: Number of cells of a bucket. An account is in a cell of one of two buckets.
const TransferBucketCells = 4

// TransferCellValid: Flag of a cell that has an account. It is never cleared.
const TransferCellValid = 1

// TransferCellFrozen: Flag of a cell whose account is frozen.
const TransferCellFrozen = 2

// TransferCellClaimed: Flag of a cell whose account the host is changing. The fast path then only reads the account.
const TransferCellClaimed = 4

// TransferIssuersMax: Maximum number of address ranges that may CREATE, ISSUE, FREEZE and UNFREEZE.
const TransferIssuersMax = 8

// TransferOpExecute: Operation `execute` of transfer.
const TransferOpExecute = 1

// TransferOpRefer: Operation `refer` of transfer.
const TransferOpRefer = 2

// TransferOpOpen: Operation `open` of transfer.
const TransferOpOpen = 3

// TransferOpClose: Operation `close` of transfer.
const TransferOpClose = 4

// TransferOpSession: Operation `session` of transfer.
const TransferOpSession = 5

// TransferOpSigned: Operation `signed` of transfer.
const TransferOpSigned = 6

// PaperTransferBytes is the number of bytes of a PaperTransfer.
const PaperTransferBytes = 20

// PaperTransfer: Packet in the paper's format (Table II of the paper).
type PaperTransfer struct {
	// Command: 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER; bit 31: refused
	Command uint32
	// TransactionId: above the last id of the source account; 0: the request is sent once and never repeated
	TransactionId uint32
	// Source: Source ID
	Source uint32
	// Destination: Destination ID; used only by TRANSFER
	Destination uint32
	// Amount: request: amount; reply: balance of Source after the operation, or the code
	Amount uint32
}

// Append appends the encoding of m to b.
func (m *PaperTransfer) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, m.Command)
	b = binary.BigEndian.AppendUint32(b, m.TransactionId)
	b = binary.BigEndian.AppendUint32(b, m.Source)
	b = binary.BigEndian.AppendUint32(b, m.Destination)
	b = binary.BigEndian.AppendUint32(b, m.Amount)
	return b
}

// Decode reads m from the first PaperTransferBytes bytes of b.
func (m *PaperTransfer) Decode(b []byte) {
	_ = b[PaperTransferBytes-1]
	m.Command = binary.BigEndian.Uint32(b[0:])
	m.TransactionId = binary.BigEndian.Uint32(b[4:])
	m.Source = binary.BigEndian.Uint32(b[8:])
	m.Destination = binary.BigEndian.Uint32(b[12:])
	m.Amount = binary.BigEndian.Uint32(b[16:])
}

// ExecuteHeadBytes is the number of bytes of a ExecuteHead.
const ExecuteHeadBytes = 24

// ExecuteHead: Header of the body of `execute`: session and sequence number of the packet.
type ExecuteHead struct {
	// Token: secret token of the session, which authenticates its packets
	Token uint64
	// Sequence: last sequence number of the session plus 1; in the refusal of another number: the expected one
	Sequence uint64
	// Slot: slot number of the session
	Slot uint32
	// Count: number of operations that follow
	Count uint16
	// Durability: request: 0; reply: 1 durable, 2 express
	Durability uint16
}

// Append appends the encoding of m to b.
func (m *ExecuteHead) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Token)
	b = binary.BigEndian.AppendUint64(b, m.Sequence)
	b = binary.BigEndian.AppendUint32(b, m.Slot)
	b = binary.BigEndian.AppendUint16(b, m.Count)
	b = binary.BigEndian.AppendUint16(b, m.Durability)
	return b
}

// Decode reads m from the first ExecuteHeadBytes bytes of b.
func (m *ExecuteHead) Decode(b []byte) {
	_ = b[ExecuteHeadBytes-1]
	m.Token = binary.BigEndian.Uint64(b[0:])
	m.Sequence = binary.BigEndian.Uint64(b[8:])
	m.Slot = binary.BigEndian.Uint32(b[16:])
	m.Count = binary.BigEndian.Uint16(b[20:])
	m.Durability = binary.BigEndian.Uint16(b[22:])
}

// SignedHeadBytes is the number of bytes of a SignedHead.
const SignedHeadBytes = 104

// SignedHead: Header of `signed`: ECDSA over the SHA-256 of `lineside/transfer/1` and all bytes after it.
type SignedHead struct {
	// Curve: 1: P-256, 2: secp256k1
	Curve uint8
	// KeyPrefix: 2 if the y coordinate of the public key is even, 3 if it is odd
	KeyPrefix uint8
	// Reserved: reserved: zero
	Reserved uint16
	// Reserved2: reserved: zero
	Reserved2 uint32
	// KeyX: x coordinate of the public key, big-endian
	KeyX [32]byte
	// R: r of the signature, big-endian
	R [32]byte
	// S: s of the signature, big-endian, at most half the curve's order
	S [32]byte
}

// Append appends the encoding of m to b.
func (m *SignedHead) Append(b []byte) []byte {
	b = append(b, m.Curve)
	b = append(b, m.KeyPrefix)
	b = binary.BigEndian.AppendUint16(b, m.Reserved)
	b = binary.BigEndian.AppendUint32(b, m.Reserved2)
	b = append(b, m.KeyX[:]...)
	b = append(b, m.R[:]...)
	b = append(b, m.S[:]...)
	return b
}

// Decode reads m from the first SignedHeadBytes bytes of b.
func (m *SignedHead) Decode(b []byte) {
	_ = b[SignedHeadBytes-1]
	m.Curve = b[0]
	m.KeyPrefix = b[1]
	m.Reserved = binary.BigEndian.Uint16(b[2:])
	m.Reserved2 = binary.BigEndian.Uint32(b[4:])
	copy(m.KeyX[:], b[8:40])
	copy(m.R[:], b[40:72])
	copy(m.S[:], b[72:104])
}

// OperationBytes is the number of bytes of a Operation.
const OperationBytes = 88

// Operation: Operation in a request, with its outcome in the reply.
type Operation struct {
	// Command: 1 CREATE, 2 ISSUE, 3 TRANSFER, 5 FREEZE, 6 UNFREEZE
	Command uint8
	// Flags: 1: the operation is linked with the next one; 2: `uuid` is its idempotency key; 3: both
	Flags uint8
	// Code: request: 0; reply: code of the outcome
	Code uint16
	// Contract: 0 plain, 1 pending, 2 post, 3 void
	Contract uint32
	// Source: account that pays, is created, gets an amount (ISSUE), or is frozen or unfrozen
	Source [16]byte
	// Destination: TRANSFER: account that is paid; CREATE: fingerprint of the owner's key, or 0; else 0
	Destination [16]byte
	// Amount: request: amount; in a post, 0 means all; reply: balance of the source after the operation
	Amount uint64
	// Number: request: 0; reply: number of the operation in the ledger, or 0; of a repetition: of the first one
	Number uint64
	// Timestamp: time of the client's clock, which the server stores and does not use
	Timestamp uint64
	// Uuid: id that the client chooses: names a pending transfer; with flag 2, the idempotency key
	Uuid [16]byte
	// Nonce: value chosen by the client, which the server stores and does not use
	Nonce uint32
	// TimeoutS: pending transfer: seconds until it expires, 0: never; other operations: 0
	TimeoutS uint32
}

// Append appends the encoding of m to b.
func (m *Operation) Append(b []byte) []byte {
	b = append(b, m.Command)
	b = append(b, m.Flags)
	b = binary.BigEndian.AppendUint16(b, m.Code)
	b = binary.BigEndian.AppendUint32(b, m.Contract)
	b = append(b, m.Source[:]...)
	b = append(b, m.Destination[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Amount)
	b = binary.BigEndian.AppendUint64(b, m.Number)
	b = binary.BigEndian.AppendUint64(b, m.Timestamp)
	b = append(b, m.Uuid[:]...)
	b = binary.BigEndian.AppendUint32(b, m.Nonce)
	b = binary.BigEndian.AppendUint32(b, m.TimeoutS)
	return b
}

// Decode reads m from the first OperationBytes bytes of b.
func (m *Operation) Decode(b []byte) {
	_ = b[OperationBytes-1]
	m.Command = b[0]
	m.Flags = b[1]
	m.Code = binary.BigEndian.Uint16(b[2:])
	m.Contract = binary.BigEndian.Uint32(b[4:])
	copy(m.Source[:], b[8:24])
	copy(m.Destination[:], b[24:40])
	m.Amount = binary.BigEndian.Uint64(b[40:])
	m.Number = binary.BigEndian.Uint64(b[48:])
	m.Timestamp = binary.BigEndian.Uint64(b[56:])
	copy(m.Uuid[:], b[64:80])
	m.Nonce = binary.BigEndian.Uint32(b[80:])
	m.TimeoutS = binary.BigEndian.Uint32(b[84:])
}

// ReferHeadBytes is the number of bytes of a ReferHead.
const ReferHeadBytes = 8

// ReferHead: Header of the body of `refer`.
type ReferHead struct {
	// Count: number of accounts that follow: 1 to 29
	Count uint32
	// Durability: request: 0; reply: 1 durable, 2 express
	Durability uint16
	// Reserved: reserved: zero
	Reserved uint16
}

// Append appends the encoding of m to b.
func (m *ReferHead) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, m.Count)
	b = binary.BigEndian.AppendUint16(b, m.Durability)
	b = binary.BigEndian.AppendUint16(b, m.Reserved)
	return b
}

// Decode reads m from the first ReferHeadBytes bytes of b.
func (m *ReferHead) Decode(b []byte) {
	_ = b[ReferHeadBytes-1]
	m.Count = binary.BigEndian.Uint32(b[0:])
	m.Durability = binary.BigEndian.Uint16(b[4:])
	m.Reserved = binary.BigEndian.Uint16(b[6:])
}

// BalanceItemBytes is the number of bytes of a BalanceItem.
const BalanceItemBytes = 48

// BalanceItem: Balance of one account.
type BalanceItem struct {
	// Account: id of the account
	Account [16]byte
	// Balance: request: 0; reply: balance, including amounts reserved by pending transfers
	Balance uint64
	// Held: amounts reserved by pending transfers
	Held uint64
	// Version: number of changes of the account
	Version uint64
	// Code: 0 done, 1 unknown account
	Code uint16
	// Frozen: 1: frozen
	Frozen uint16
	// Reserved: reserved: zero
	Reserved uint32
}

// Append appends the encoding of m to b.
func (m *BalanceItem) Append(b []byte) []byte {
	b = append(b, m.Account[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Balance)
	b = binary.BigEndian.AppendUint64(b, m.Held)
	b = binary.BigEndian.AppendUint64(b, m.Version)
	b = binary.BigEndian.AppendUint16(b, m.Code)
	b = binary.BigEndian.AppendUint16(b, m.Frozen)
	b = binary.BigEndian.AppendUint32(b, m.Reserved)
	return b
}

// Decode reads m from the first BalanceItemBytes bytes of b.
func (m *BalanceItem) Decode(b []byte) {
	_ = b[BalanceItemBytes-1]
	copy(m.Account[:], b[0:16])
	m.Balance = binary.BigEndian.Uint64(b[16:])
	m.Held = binary.BigEndian.Uint64(b[24:])
	m.Version = binary.BigEndian.Uint64(b[32:])
	m.Code = binary.BigEndian.Uint16(b[40:])
	m.Frozen = binary.BigEndian.Uint16(b[42:])
	m.Reserved = binary.BigEndian.Uint32(b[44:])
}

// SessionBodyBytes is the number of bytes of a SessionBody.
const SessionBodyBytes = 40

// SessionBody: Session that a client opens, closes or queries: body of the request and of the reply.
type SessionBody struct {
	// Challenge: proof that the client receives packets at its address
	Challenge [16]byte
	// Token: secret token of the session, which authenticates its packets
	Token uint64
	// Sequence: next sequence number
	Sequence uint64
	// Slot: slot number of the session
	Slot uint32
	// LeaseS: reply to a challenge: seconds for which it is valid
	LeaseS uint32
}

// Append appends the encoding of m to b.
func (m *SessionBody) Append(b []byte) []byte {
	b = append(b, m.Challenge[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Token)
	b = binary.BigEndian.AppendUint64(b, m.Sequence)
	b = binary.BigEndian.AppendUint32(b, m.Slot)
	b = binary.BigEndian.AppendUint32(b, m.LeaseS)
	return b
}

// Decode reads m from the first SessionBodyBytes bytes of b.
func (m *SessionBody) Decode(b []byte) {
	_ = b[SessionBodyBytes-1]
	copy(m.Challenge[:], b[0:16])
	m.Token = binary.BigEndian.Uint64(b[16:])
	m.Sequence = binary.BigEndian.Uint64(b[24:])
	m.Slot = binary.BigEndian.Uint32(b[32:])
	m.LeaseS = binary.BigEndian.Uint32(b[36:])
}

// ColumnPaperKeyBytes: Bytes of a row key in the paper's format, padded with zeros.
const ColumnPaperKeyBytes = 4

// ColumnPaperNameBytes: Bytes of a column name (`entry:foo`) in the paper's format, padded with zeros.
const ColumnPaperNameBytes = 9

// ColumnPaperValueBytes: Bytes of a value in the paper's format, padded with zeros.
const ColumnPaperValueBytes = 18

// ColumnPaperGetBytes: Bytes of a `get`: `get`, key, name; further bytes are zeros. A `put` has the same bytes before its value.
const ColumnPaperGetBytes = 16

// ColumnPaperScanBytes: Bytes of `sc1`, startRow, name, stopRow (inclusive); further bytes are zeros.
const ColumnPaperScanBytes = 20

// ColumnPaperGetReplyBytes: Bytes of a reply to `get`: status, value.
const ColumnPaperGetReplyBytes = 19

// ColumnPaperRowBytes: Bytes of one row of a reply to `sc1`, after status and number of rows: key, value.
const ColumnPaperRowBytes = 22

// ColumnPaperFound: First byte of a reply to `get` and `sc1` if a row was found.
const ColumnPaperFound = 0

// ColumnPaperNoRow: First byte of a reply to `get` and `sc1` if there is no row, or if startRow is above stopRow.
const ColumnPaperNoRow = 1

// ColumnPaperMore: First byte of a reply to `sc1` if the range has more rows than fit the reply.
const ColumnPaperMore = 2

// ColumnKeyBytesMax: Maximum bytes of a row key in a packet.
const ColumnKeyBytesMax = 64

// ColumnValueBytesMax: Maximum bytes of a value in a packet.
const ColumnValueBytesMax = 1024

// ColumnNameBytesMax: Maximum bytes of a column name, `family:qualifier`.
const ColumnNameBytesMax = 32

// ColumnFlagReverse: Flag of the operation `scan`: descending order; start is then the highest key.
const ColumnFlagReverse = 1

// ColumnFlagStopInclusive: Flag of the operation `scan`: a row at the stop key is included.
const ColumnFlagStopInclusive = 2

// ColumnFlagStartExclusive: Flag of the operation `scan`: a row at the start key is excluded, to continue after the last received row.
const ColumnFlagStartExclusive = 4

// ColumnFlagAbsent: Flag of the operation `check_and_put`: put if the row is absent; without this flag, if the value is as expected.
const ColumnFlagAbsent = 8

// ColumnSourceFastpath: Source of a reply: the fast path.
const ColumnSourceFastpath = 1

// ColumnSourceHost: Source of a reply: the host.
const ColumnSourceHost = 2

// ColumnReplyMayBeStale: Flag of a reply that may be stale, because the fast path is not notified of other clients' changes.
const ColumnReplyMayBeStale = 1

// ColumnReplyMore: Flag of a reply to `scan` that ended at the limit or because the packet is full; more rows may follow.
const ColumnReplyMore = 2

// ColumnReplyNotApplied: Flag of a reply to `check_and_put`: the condition was false.
const ColumnReplyNotApplied = 4

// ColumnReplyLeftOut: Flag of a reply in which a row is left out because it is longer than a packet.
const ColumnReplyLeftOut = 8

// ColumnRowLeftOut: Bit of a row's `column`: the row's cells do not fit into a packet; this column has the longest value.
const ColumnRowLeftOut = 0x80

// ColumnRowCutKey: Bit of a row's `column`: the key has more than 255 bytes and is truncated; such rows cannot be returned.
const ColumnRowCutKey = 0x40

// ColumnNoticeMagic: First bytes of a notification between a server of the table and Lineside: "LSCN".
const ColumnNoticeMagic = 0x4c53434e

// ColumnNoticePort: Default UDP port of the coprocessor in a server of HBase, which grants leases.
const ColumnNoticePort = 7706

// ColumnNotifyPort: Default UDP port on which Lineside receives notifications of changes.
const ColumnNotifyPort = 7707

// ColumnNoticeBytesMax: Maximum bytes of a notification; longer ones could be fragmented.
const ColumnNoticeBytesMax = 1400

// ColumnNoticeTagBytes: Bytes of the tag after every notification: truncated HMAC-SHA256 over all bytes before it.
const ColumnNoticeTagBytes = 16

// ColumnNoticeKeyBytesMin: Minimum bytes of the secret key with which the tags are computed.
const ColumnNoticeKeyBytesMin = 32

// ColumnNoticePre: Kind of a notification to Lineside: a change begins; it must be acknowledged.
const ColumnNoticePre = 1

// ColumnNoticePost: Kind of a notification to Lineside: a change has ended; it is not acknowledged.
const ColumnNoticePost = 2

// ColumnNoticeAsk: Kind of a notification to the server: request for a lease.
const ColumnNoticeAsk = 3

// ColumnNoticeGrant: Kind of a notification to Lineside: grant of a lease.
const ColumnNoticeGrant = 4

// ColumnNoticeAck: Kind of a notification to the server: the fast path has invalidated the range of the change.
const ColumnNoticeAck = 5

// ColumnNoticeRange: Flag of a notification of the kind `pre`: its keys are a range [low, high); an empty high means the table's end.
const ColumnNoticeRange = 1

// ColumnNoticeOpened: Flag of a notification of the kind `pre`: a region was opened, so its table's schema may have changed.
const ColumnNoticeOpened = 2

// ColumnBlockRowsMax: Maximum number of rows in a block.
const ColumnBlockRowsMax = 8

// ColumnPageBlocks: Maximum number of blocks in a page.
const ColumnPageBlocks = 64

// ColumnPagesMax: Maximum number of pages in a column.
const ColumnPagesMax = 4096

// ColumnServersMax: Maximum number of servers whose leases the fast path checks.
const ColumnServersMax = 64

// ColumnRangesMax: Maximum number of address ranges whose changes make the fast path invalidate a block.
const ColumnRangesMax = 8

// ColumnBlockInvalid: Flag of a block in which a row may have changed since it was filled.
const ColumnBlockInvalid = 1

// ColumnBlockContinues: Flag of a block at whose end the next block in key order begins.
const ColumnBlockContinues = 2

// ColumnNoHead: Head of unused entries in tops and pages, which is above the head of every key.
const ColumnNoHead = 0x8000000000000000

// ColumnNoRowHead: Head of unused entries in a block, which is not below the head of any key.
const ColumnNoRowHead = 0x7fffffffffffffff

// ColumnNoEnd: Length of the high key of a block that extends to the table's end.
const ColumnNoEnd = 0xff

// ColumnOpGet: Operation `get` of column.
const ColumnOpGet = 1

// ColumnOpScan: Operation `scan` of column.
const ColumnOpScan = 2

// ColumnOpPut: Operation `put` of column.
const ColumnOpPut = 3

// ColumnOpDelete: Operation `delete` of column.
const ColumnOpDelete = 4

// ColumnOpIncrement: Operation `increment` of column.
const ColumnOpIncrement = 5

// ColumnOpCheckAndPut: Operation `check_and_put` of column.
const ColumnOpCheckAndPut = 6

// ColumnOpAppend: Operation `append` of column.
const ColumnOpAppend = 7

// ColumnOpOpen: Operation `open` of column.
const ColumnOpOpen = 8

// ColumnOpSwitch: Operation `switch` of column.
const ColumnOpSwitch = 9

// ColumnHeadBytes is the number of bytes of a ColumnHead.
const ColumnHeadBytes = 32

// ColumnHead: Header of every request except `open`; each part after it is zero-padded to 8 bytes.
type ColumnHead struct {
	// Flags: 1 reverse, 2 stop_inclusive, 4 start_exclusive, 8 absent
	Flags uint8
	// StartBytes: bytes of the key, or of the start key (0: from the first row)
	StartBytes uint8
	// StopBytes: `scan`: bytes of the stop key (0: to the last row); other requests: 0
	StopBytes uint8
	// Columns: number of names that follow: at least 1; exactly 1 except for `get` and `scan`
	Columns uint8
	// Limit: `scan`: maximum number of rows, 0: as many as fit; other requests: 0
	Limit uint16
	// ValueBytes: bytes of the value; 0 if there is none
	ValueBytes uint16
	// ExpectedBytes: `check_and_put`: bytes of the expected value; other requests: 0
	ExpectedBytes uint16
	// Reserved: reserved: zero
	Reserved uint16
	// Slot: changes: slot number of the session, or 0
	Slot uint32
	// Token: changes: secret token of the session; 0: without a session, for a trusted sender
	Token uint64
	// Nonce: changes: in a session, the last nonce plus 1; without a session 0, or a new number
	Nonce uint64
}

// Append appends the encoding of m to b.
func (m *ColumnHead) Append(b []byte) []byte {
	b = append(b, m.Flags)
	b = append(b, m.StartBytes)
	b = append(b, m.StopBytes)
	b = append(b, m.Columns)
	b = binary.BigEndian.AppendUint16(b, m.Limit)
	b = binary.BigEndian.AppendUint16(b, m.ValueBytes)
	b = binary.BigEndian.AppendUint16(b, m.ExpectedBytes)
	b = binary.BigEndian.AppendUint16(b, m.Reserved)
	b = binary.BigEndian.AppendUint32(b, m.Slot)
	b = binary.BigEndian.AppendUint64(b, m.Token)
	b = binary.BigEndian.AppendUint64(b, m.Nonce)
	return b
}

// Decode reads m from the first ColumnHeadBytes bytes of b.
func (m *ColumnHead) Decode(b []byte) {
	_ = b[ColumnHeadBytes-1]
	m.Flags = b[0]
	m.StartBytes = b[1]
	m.StopBytes = b[2]
	m.Columns = b[3]
	m.Limit = binary.BigEndian.Uint16(b[4:])
	m.ValueBytes = binary.BigEndian.Uint16(b[6:])
	m.ExpectedBytes = binary.BigEndian.Uint16(b[8:])
	m.Reserved = binary.BigEndian.Uint16(b[10:])
	m.Slot = binary.BigEndian.Uint32(b[12:])
	m.Token = binary.BigEndian.Uint64(b[16:])
	m.Nonce = binary.BigEndian.Uint64(b[24:])
}

// ColumnReplyBytes is the number of bytes of a ColumnReply.
const ColumnReplyBytes = 24

// ColumnReply: Header of every reply except to `open`; rows follow, then zeros.
type ColumnReply struct {
	// Source: 1: fast path, 2: host
	Source uint8
	// Flags: 1 may_be_stale, 2 more, 4 not_applied, 8 left_out
	Flags uint8
	// Rows: number of rows that follow
	Rows uint16
	// Reserved: reserved: zero
	Reserved uint32
	// VersionMs: newest timestamp of the rows in ms since 1970; 0 if there are no rows
	VersionMs uint64
	// Reserved2: reserved: zero
	Reserved2 uint64
}

// Append appends the encoding of m to b.
func (m *ColumnReply) Append(b []byte) []byte {
	b = append(b, m.Source)
	b = append(b, m.Flags)
	b = binary.BigEndian.AppendUint16(b, m.Rows)
	b = binary.BigEndian.AppendUint32(b, m.Reserved)
	b = binary.BigEndian.AppendUint64(b, m.VersionMs)
	b = binary.BigEndian.AppendUint64(b, m.Reserved2)
	return b
}

// Decode reads m from the first ColumnReplyBytes bytes of b.
func (m *ColumnReply) Decode(b []byte) {
	_ = b[ColumnReplyBytes-1]
	m.Source = b[0]
	m.Flags = b[1]
	m.Rows = binary.BigEndian.Uint16(b[2:])
	m.Reserved = binary.BigEndian.Uint32(b[4:])
	m.VersionMs = binary.BigEndian.Uint64(b[8:])
	m.Reserved2 = binary.BigEndian.Uint64(b[16:])
}

// ColumnRowBytes is the number of bytes of a ColumnRow.
const ColumnRowBytes = 4

// ColumnRow: Header of a row; key, value and padding to 8 bytes follow.
type ColumnRow struct {
	// KeyBytes: bytes of the key
	KeyBytes uint8
	// Column: index of the column in the request; bit 0x80: row left out, bit 0x40: its key is truncated
	Column uint8
	// ValueBytes: bytes of the value; row left out: 8, and the value is the length of the longest value
	ValueBytes uint16
}

// Append appends the encoding of m to b.
func (m *ColumnRow) Append(b []byte) []byte {
	b = append(b, m.KeyBytes)
	b = append(b, m.Column)
	b = binary.BigEndian.AppendUint16(b, m.ValueBytes)
	return b
}

// Decode reads m from the first ColumnRowBytes bytes of b.
func (m *ColumnRow) Decode(b []byte) {
	_ = b[ColumnRowBytes-1]
	m.KeyBytes = b[0]
	m.Column = b[1]
	m.ValueBytes = binary.BigEndian.Uint16(b[2:])
}

// ColumnSessionBytes is the number of bytes of a ColumnSession.
const ColumnSessionBytes = 40

// ColumnSession: Session that a client opens: body of the request and of the reply.
type ColumnSession struct {
	// Challenge: proof that the client receives packets at its address
	Challenge [16]byte
	// Token: reply with a session: secret token
	Token uint64
	// Slot: reply with a session: slot number
	Slot uint32
	// LeaseS: reply: seconds for which the challenge, or the session, is valid
	LeaseS uint32
	// Reserved: reserved: zero
	Reserved uint64
}

// Append appends the encoding of m to b.
func (m *ColumnSession) Append(b []byte) []byte {
	b = append(b, m.Challenge[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Token)
	b = binary.BigEndian.AppendUint32(b, m.Slot)
	b = binary.BigEndian.AppendUint32(b, m.LeaseS)
	b = binary.BigEndian.AppendUint64(b, m.Reserved)
	return b
}

// Decode reads m from the first ColumnSessionBytes bytes of b.
func (m *ColumnSession) Decode(b []byte) {
	_ = b[ColumnSessionBytes-1]
	copy(m.Challenge[:], b[0:16])
	m.Token = binary.BigEndian.Uint64(b[16:])
	m.Slot = binary.BigEndian.Uint32(b[24:])
	m.LeaseS = binary.BigEndian.Uint32(b[28:])
	m.Reserved = binary.BigEndian.Uint64(b[32:])
}

// ColumnSwitchBytes is the number of bytes of a ColumnSwitch.
const ColumnSwitchBytes = 8

// ColumnSwitch: Switches the fast path off or on; only for loopback and trusted_sources.
type ColumnSwitch struct {
	// Off: 1: the fast path is off; 0: it is on
	Off uint64
}

// Append appends the encoding of m to b.
func (m *ColumnSwitch) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Off)
	return b
}

// Decode reads m from the first ColumnSwitchBytes bytes of b.
func (m *ColumnSwitch) Decode(b []byte) {
	_ = b[ColumnSwitchBytes-1]
	m.Off = binary.BigEndian.Uint64(b[0:])
}

// ColumnNoticeBytes is the number of bytes of a ColumnNotice.
const ColumnNoticeBytes = 64

// ColumnNotice: Header of every notification; table, keys (each after its length, u8) and tag follow.
type ColumnNotice struct {
	// Magic: 0x4c53434e, "LSCN"
	Magic uint32
	// Kind: 1 pre, 2 post, 3 ask, 4 grant, 5 ack
	Kind uint8
	// Flags: `pre`: 1 the keys are a range, 2 a region was opened; other kinds: 0
	Flags uint8
	// Keys: `pre`: number of keys that follow; other kinds: 0
	Keys uint16
	// Server: hash of the server's name; `ask`: 0
	Server uint64
	// Epoch: the server's number of this subscriber and table, which increases with every start; `ask`: 0
	Epoch uint64
	// Number: `pre`, `ack`: number of the change; `grant`: number of the next change; other kinds: 0
	Number uint64
	// OldestOpen: lowest number of a change in progress, otherwise the next number; `ask`, `ack`: 0
	OldestOpen uint64
	// Token: `ask`: random number; `grant`: the number of the `ask`; other kinds: 0
	Token uint64
	// ExpiresMs: `pre`: time at which the first changed cell expires, in ms since 1970; 0: none expires
	ExpiresMs uint64
	// LeaseMs: `grant`: duration of the lease from the `ask` on; other kinds: 0
	LeaseMs uint32
	// TableBytes: bytes of the table's name, which follows
	TableBytes uint16
	// Reserved: reserved: zero
	Reserved uint16
}

// Append appends the encoding of m to b.
func (m *ColumnNotice) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, m.Magic)
	b = append(b, m.Kind)
	b = append(b, m.Flags)
	b = binary.BigEndian.AppendUint16(b, m.Keys)
	b = binary.BigEndian.AppendUint64(b, m.Server)
	b = binary.BigEndian.AppendUint64(b, m.Epoch)
	b = binary.BigEndian.AppendUint64(b, m.Number)
	b = binary.BigEndian.AppendUint64(b, m.OldestOpen)
	b = binary.BigEndian.AppendUint64(b, m.Token)
	b = binary.BigEndian.AppendUint64(b, m.ExpiresMs)
	b = binary.BigEndian.AppendUint32(b, m.LeaseMs)
	b = binary.BigEndian.AppendUint16(b, m.TableBytes)
	b = binary.BigEndian.AppendUint16(b, m.Reserved)
	return b
}

// Decode reads m from the first ColumnNoticeBytes bytes of b.
func (m *ColumnNotice) Decode(b []byte) {
	_ = b[ColumnNoticeBytes-1]
	m.Magic = binary.BigEndian.Uint32(b[0:])
	m.Kind = b[4]
	m.Flags = b[5]
	m.Keys = binary.BigEndian.Uint16(b[6:])
	m.Server = binary.BigEndian.Uint64(b[8:])
	m.Epoch = binary.BigEndian.Uint64(b[16:])
	m.Number = binary.BigEndian.Uint64(b[24:])
	m.OldestOpen = binary.BigEndian.Uint64(b[32:])
	m.Token = binary.BigEndian.Uint64(b[40:])
	m.ExpiresMs = binary.BigEndian.Uint64(b[48:])
	m.LeaseMs = binary.BigEndian.Uint32(b[56:])
	m.TableBytes = binary.BigEndian.Uint16(b[60:])
	m.Reserved = binary.BigEndian.Uint16(b[62:])
}

// HybridRequestVersion: Value of the first byte of the signed bytes: version of the format.
const HybridRequestVersion = 1

// HybridRequestVersionPaper: First byte of the paper's requests in the log of a database in the paper's mode.
const HybridRequestVersionPaper = 2

// HybridKeyBytesMax: Maximum bytes of a key. A key has at least one byte.
const HybridKeyBytesMax = 1024

// HybridValueBytesMax: Maximum bytes of a value.
const HybridValueBytesMax = 262144

// HybridRequestBytesMax: Maximum bytes of a request with its signature.
const HybridRequestBytesMax = 524288

// HybridDatagramBytesMax: Maximum bytes of a datagram with a request or an answer; longer ones need gRPC.
const HybridDatagramBytesMax = 1200

// HybridRequestKeysMax: Maximum number of keys that one request may read, and maximum number that it may write.
const HybridRequestKeysMax = 1000

// HybridMessageBytesMax: Maximum bytes of a message of the log.
const HybridMessageBytesMax = 900000

// HybridMessageRequestsMax: Maximum number of requests in a message of the log.
const HybridMessageRequestsMax = 10000

// HybridWritePut: Kind of a write that sets the key to the value that follows.
const HybridWritePut = 0

// HybridWriteDelete: Kind of a write that removes the key.
const HybridWriteDelete = 1

// HybridReadLocal: Consistency of a read that returns the state which this node has committed.
const HybridReadLocal = 0

// HybridReadLinearizable: Consistency of a read that sees every request which any node answered before the read arrived.
const HybridReadLinearizable = 1

// HybridCurveP256: Number of the curve P-256; requests signed with such a key are hashed with SHA-256.
const HybridCurveP256 = 1

// HybridCurveSecp256k1: Number of the curve secp256k1; requests signed with such a key are hashed with Keccak-256.
const HybridCurveSecp256k1 = 2

// HybridEveryone: Member number in a rule that applies to every member.
const HybridEveryone = 0

// HybridRightRead: Right to read keys with the rule's prefix.
const HybridRightRead = 1

// HybridRightWrite: Right to write keys with the rule's prefix.
const HybridRightWrite = 2

// HybridRoleUser: Role of a member that has only the rights given by rules.
const HybridRoleUser = 0

// HybridRoleAdmin: Role of a member that votes on changes (admin).
const HybridRoleAdmin = 1

// HybridVotesOpenMax: Maximum number of changes that wait for votes.
const HybridVotesOpenMax = 256

// HybridVotesPerAdminMax: Maximum number of changes requested by one admin that wait for votes.
const HybridVotesPerAdminMax = 16

// HybridKeysPerMemberMax: Maximum number of a member's keys that are not revoked.
const HybridKeysPerMemberMax = 16

// HybridChangeAddMember: Change: adds a member with its first key.
const HybridChangeAddMember = 1

// HybridChangeRevokeMember: Change: revokes a member and all its keys.
const HybridChangeRevokeMember = 2

// HybridChangeAddKey: Change that adds a key of a member. The member itself may make it, or admins by votes.
const HybridChangeAddKey = 3

// HybridChangeRevokeKey: Change that revokes a key. The member itself may make it, or admins by votes.
const HybridChangeRevokeKey = 4

// HybridChangeSetRule: Change: sets the rights of a member, or of everyone, below a prefix; 0 removes them.
const HybridChangeSetRule = 5

// HybridChangeAddNode: Change: adds a node that may order messages.
const HybridChangeAddNode = 6

// HybridChangeRevokeNode: Change: revokes a node.
const HybridChangeRevokeNode = 7

// HybridChangeSetQuorum: Change: sets the number of admins that must request a change.
const HybridChangeSetQuorum = 8

// HybridMessageBlock: Kind of a message of the log: requests, a block.
const HybridMessageBlock = 1

// HybridMessageHead: Kind of a message of the log: a signed head.
const HybridMessageHead = 2

// HybridAnswerRefused: Content of an answer by UDP that has only a code.
const HybridAnswerRefused = 0

// HybridAnswerCells: Content of an answer by UDP: cells of keys.
const HybridAnswerCells = 1

// HybridAnswerRange: Content of an answer by UDP: keys and their cells.
const HybridAnswerRange = 2

// HybridAnswerProof: Content of an answer by UDP: a proof.
const HybridAnswerProof = 3

// HybridAnswerHistory: Content of an answer by UDP: writes of a key.
const HybridAnswerHistory = 4

// HybridAnswerSignedHead: Content of an answer by UDP: a block's header with a node's signature.
const HybridAnswerSignedHead = 5

// HybridAnswerPlaced: Content of an answer by UDP: a position in the ledger.
const HybridAnswerPlaced = 6

// HybridOpGet: Operation `get` of hybrid.
const HybridOpGet = 1

// HybridOpRange: Operation `range` of hybrid.
const HybridOpRange = 2

// HybridOpProve: Operation `prove` of hybrid.
const HybridOpProve = 3

// HybridOpHistory: Operation `history` of hybrid.
const HybridOpHistory = 4

// HybridOpHead: Operation `head` of hybrid.
const HybridOpHead = 5

// HybridOpOutcome: Operation `outcome` of hybrid.
const HybridOpOutcome = 6

// HybridOpWatch: Operation `watch` of hybrid.
const HybridOpWatch = 7

// HybridOpPaperGet: Operation `paper_get` of hybrid.
const HybridOpPaperGet = 32

// HybridOpPaperSet: Operation `paper_set` of hybrid.
const HybridOpPaperSet = 33

// HybridOpPaperVerify: Operation `paper_verify` of hybrid.
const HybridOpPaperVerify = 34

// HybridOpWrite: Operation `write` of hybrid.
const HybridOpWrite = 16

// HybridOpChange: Operation `change` of hybrid.
const HybridOpChange = 17

// HybridOpAsk: Operation `ask` of hybrid.
const HybridOpAsk = 32

// RequestSignatureBytes is the number of bytes of a RequestSignature.
const RequestSignatureBytes = 64

// RequestSignature: Header of every request; s is at most half the curve's order.
type RequestSignature struct {
	// R: r of the signature, big-endian
	R [32]byte
	// S: s of the signature, big-endian
	S [32]byte
}

// Append appends the encoding of m to b.
func (m *RequestSignature) Append(b []byte) []byte {
	b = append(b, m.R[:]...)
	b = append(b, m.S[:]...)
	return b
}

// Decode reads m from the first RequestSignatureBytes bytes of b.
func (m *RequestSignature) Decode(b []byte) {
	_ = b[RequestSignatureBytes-1]
	copy(m.R[:], b[0:32])
	copy(m.S[:], b[32:64])
}

// RequestHeadBytes is the number of bytes of a RequestHead.
const RequestHeadBytes = 44

// RequestHead: Header of the signed bytes.
type RequestHead struct {
	// Version: version of the format, 1
	Version uint8
	// Op: operation
	Op uint8
	// Key: number of the member's key
	Key uint16
	// Database: the database's id: the first bytes of its genesis' hash
	Database [16]byte
	// Member: number of the member
	Member uint64
	// Nonce: lane in the upper 16 bits; counter in the lower 48, above the last counter of the lane
	Nonce uint64
	// ExpiryMs: expiry in milliseconds since 1970
	ExpiryMs uint64
}

// Append appends the encoding of m to b.
func (m *RequestHead) Append(b []byte) []byte {
	b = append(b, m.Version)
	b = append(b, m.Op)
	b = binary.BigEndian.AppendUint16(b, m.Key)
	b = append(b, m.Database[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Member)
	b = binary.BigEndian.AppendUint64(b, m.Nonce)
	b = binary.BigEndian.AppendUint64(b, m.ExpiryMs)
	return b
}

// Decode reads m from the first RequestHeadBytes bytes of b.
func (m *RequestHead) Decode(b []byte) {
	_ = b[RequestHeadBytes-1]
	m.Version = b[0]
	m.Op = b[1]
	m.Key = binary.BigEndian.Uint16(b[2:])
	copy(m.Database[:], b[4:20])
	m.Member = binary.BigEndian.Uint64(b[20:])
	m.Nonce = binary.BigEndian.Uint64(b[28:])
	m.ExpiryMs = binary.BigEndian.Uint64(b[36:])
}

// MessageHeadBytes is the number of bytes of a MessageHead.
const MessageHeadBytes = 29

// MessageHead: Header of a message of the log, after the node's signature.
type MessageHead struct {
	// Kind: 1 requests, 2 a signed head
	Kind uint8
	// Node: number of the node that sent the message to the log
	Node uint32
	// Sequence: number of the message, above the number of the node's last message
	Sequence uint64
	// TimeMs: time of the node's clock; a block's time never decreases
	TimeMs uint64
	// Reserved: reserved: zero
	Reserved uint32
	// Count: number of requests that follow; each has its length (be32) before it
	Count uint32
}

// Append appends the encoding of m to b.
func (m *MessageHead) Append(b []byte) []byte {
	b = append(b, m.Kind)
	b = binary.BigEndian.AppendUint32(b, m.Node)
	b = binary.BigEndian.AppendUint64(b, m.Sequence)
	b = binary.BigEndian.AppendUint64(b, m.TimeMs)
	b = binary.BigEndian.AppendUint32(b, m.Reserved)
	b = binary.BigEndian.AppendUint32(b, m.Count)
	return b
}

// Decode reads m from the first MessageHeadBytes bytes of b.
func (m *MessageHead) Decode(b []byte) {
	_ = b[MessageHeadBytes-1]
	m.Kind = b[0]
	m.Node = binary.BigEndian.Uint32(b[1:])
	m.Sequence = binary.BigEndian.Uint64(b[5:])
	m.TimeMs = binary.BigEndian.Uint64(b[13:])
	m.Reserved = binary.BigEndian.Uint32(b[21:])
	m.Count = binary.BigEndian.Uint32(b[25:])
}

// BlockHeaderBytes is the number of bytes of a BlockHeader.
const BlockHeaderBytes = 240

// BlockHeader: Data that a block's hash covers: Keccak-256 of `lineside/hybrid/block/1` and this.
type BlockHeader struct {
	// Database: the database's id
	Database [16]byte
	// Number: 0: genesis
	Number uint64
	// Position: position of the block's message in the log
	Position uint64
	// TimeMs: time of the block, never before the time of the previous block
	TimeMs uint64
	// Transactions: number of requests
	Transactions uint32
	// Committed: number of requests with code 0 or 1
	Committed uint32
	// Previous: hash of the previous block
	Previous [32]byte
	// TransactionsHash: Keccak-256 of the message without its signature; called TH in the paper
	TransactionsHash [32]byte
	// TransactionsRoot: root of RFC 6962's tree (SHA-256) over the requests with signatures
	TransactionsRoot [32]byte
	// CodesHash: Keccak-256 of the codes, one byte each
	CodesHash [32]byte
	// StateRoot: root of the map of all data that affects later results
	StateRoot [32]byte
	// PaperHash: Keccak-256 of the previous block's value and of TH; called BH in the paper
	PaperHash [32]byte
}

// Append appends the encoding of m to b.
func (m *BlockHeader) Append(b []byte) []byte {
	b = append(b, m.Database[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Number)
	b = binary.BigEndian.AppendUint64(b, m.Position)
	b = binary.BigEndian.AppendUint64(b, m.TimeMs)
	b = binary.BigEndian.AppendUint32(b, m.Transactions)
	b = binary.BigEndian.AppendUint32(b, m.Committed)
	b = append(b, m.Previous[:]...)
	b = append(b, m.TransactionsHash[:]...)
	b = append(b, m.TransactionsRoot[:]...)
	b = append(b, m.CodesHash[:]...)
	b = append(b, m.StateRoot[:]...)
	b = append(b, m.PaperHash[:]...)
	return b
}

// Decode reads m from the first BlockHeaderBytes bytes of b.
func (m *BlockHeader) Decode(b []byte) {
	_ = b[BlockHeaderBytes-1]
	copy(m.Database[:], b[0:16])
	m.Number = binary.BigEndian.Uint64(b[16:])
	m.Position = binary.BigEndian.Uint64(b[24:])
	m.TimeMs = binary.BigEndian.Uint64(b[32:])
	m.Transactions = binary.BigEndian.Uint32(b[40:])
	m.Committed = binary.BigEndian.Uint32(b[44:])
	copy(m.Previous[:], b[48:80])
	copy(m.TransactionsHash[:], b[80:112])
	copy(m.TransactionsRoot[:], b[112:144])
	copy(m.CodesHash[:], b[144:176])
	copy(m.StateRoot[:], b[176:208])
	copy(m.PaperHash[:], b[208:240])
}

// NodeHeadBytes is the number of bytes of a NodeHead.
const NodeHeadBytes = 116

// NodeHead: Attestation of a block by a node.
type NodeHead struct {
	// Node: number of the node
	Node uint32
	// Number: number of the block
	Number uint64
	// Reserved: reserved: zero
	Reserved uint64
	// Hash: hash of the block
	Hash [32]byte
	// R: r of the node's signature over `lineside/hybrid/head/1`, database id, node, number and hash
	R [32]byte
	// S: s of the signature, at most half the curve's order
	S [32]byte
}

// Append appends the encoding of m to b.
func (m *NodeHead) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, m.Node)
	b = binary.BigEndian.AppendUint64(b, m.Number)
	b = binary.BigEndian.AppendUint64(b, m.Reserved)
	b = append(b, m.Hash[:]...)
	b = append(b, m.R[:]...)
	b = append(b, m.S[:]...)
	return b
}

// Decode reads m from the first NodeHeadBytes bytes of b.
func (m *NodeHead) Decode(b []byte) {
	_ = b[NodeHeadBytes-1]
	m.Node = binary.BigEndian.Uint32(b[0:])
	m.Number = binary.BigEndian.Uint64(b[4:])
	m.Reserved = binary.BigEndian.Uint64(b[12:])
	copy(m.Hash[:], b[20:52])
	copy(m.R[:], b[52:84])
	copy(m.S[:], b[84:116])
}

// MemberWordBytes is the number of bytes of a MemberWord.
const MemberWordBytes = 112

// MemberWord: Attestation of a block by a member.
type MemberWord struct {
	// Member: number of the member
	Member uint64
	// Number: number of the block
	Number uint64
	// Hash: hash of the block
	Hash [32]byte
	// R: r of the member's signature over `lineside/hybrid/word/1`, database id, member, number and hash
	R [32]byte
	// S: s of the signature, at most half the curve's order
	S [32]byte
}

// Append appends the encoding of m to b.
func (m *MemberWord) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Member)
	b = binary.BigEndian.AppendUint64(b, m.Number)
	b = append(b, m.Hash[:]...)
	b = append(b, m.R[:]...)
	b = append(b, m.S[:]...)
	return b
}

// Decode reads m from the first MemberWordBytes bytes of b.
func (m *MemberWord) Decode(b []byte) {
	_ = b[MemberWordBytes-1]
	m.Member = binary.BigEndian.Uint64(b[0:])
	m.Number = binary.BigEndian.Uint64(b[8:])
	copy(m.Hash[:], b[16:48])
	copy(m.R[:], b[48:80])
	copy(m.S[:], b[80:112])
}

// AnswerHeadBytes is the number of bytes of a AnswerHead.
const AnswerHeadBytes = 3

// AnswerHead: Header of an answer by UDP, after the native header with status ok.
type AnswerHead struct {
	// Code: code of the request
	Code uint16
	// Says: content: 0 nothing, 1 cells, 2 a range, 3 a proof, 4 history, 5 a signed head, 6 a position
	Says uint8
}

// Append appends the encoding of m to b.
func (m *AnswerHead) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, m.Code)
	b = append(b, m.Says)
	return b
}

// Decode reads m from the first AnswerHeadBytes bytes of b.
func (m *AnswerHead) Decode(b []byte) {
	_ = b[AnswerHeadBytes-1]
	m.Code = binary.BigEndian.Uint16(b[0:])
	m.Says = b[2]
}
