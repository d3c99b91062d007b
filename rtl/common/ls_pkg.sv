// SPDX-License-Identifier: Apache-2.0
// Generated from spec/ by `cargo run -p lineside-spec`. Do not edit.
//
// Constants of the wire formats, counters, and the registers and commands of the RTL.

package ls_pkg;

  // Native format.
  localparam logic [15:0] NativeMagic = 16'h4c53;
  localparam logic [7:0] NativeVersion = 8'h01;
  localparam logic [7:0] NativeReplyBit = 8'h80;
  localparam int unsigned NativeHeaderBytes = 16;
  localparam int unsigned NativeHeaderMagicAt = 0;
  localparam int unsigned NativeHeaderVersionAt = 2;
  localparam int unsigned NativeHeaderOpAt = 3;
  localparam int unsigned NativeHeaderStatusAt = 4;
  localparam int unsigned NativeHeaderLengthAt = 6;
  localparam int unsigned NativeHeaderRequestIdAt = 8;

  // Returns 1 for the ports of Lineside services, from which no request is answered.
  function automatic logic is_service_port(input logic [15:0] port);
    return port inside {16'd7701, 16'd7702, 16'd7703, 16'd7704, 16'd7705};
  endfunction

  localparam int unsigned DropReasons = 6;
  // Reasons for which a packet is dropped.
  typedef enum logic [2:0] {
    // source port 0 or the port of a Lineside service (rule 8: never loop)
    DropSourcePort = 3'd0,
    // source address is multicast, broadcast or unspecified, or belongs to this machine (except on lo)
    DropSourceAddress = 3'd1,
    // a native packet with the reply bit, which is a reply and not a request
    DropReplyBit = 3'd2,
    // neither a request in a paper's format nor a native packet
    DropNotARequest = 3'd3,
    // a request in a paper's format, which the configuration does not accept
    DropPaperRefused = 3'd4,
    // a request in a paper's format whose reply would have no hop left (rule 8: never loop)
    DropHopLimit = 3'd5
  } drop_e;

  // Status codes of native replies.
  localparam logic [15:0] StatusOk = 16'd0;
  localparam logic [15:0] StatusUnknown = 16'd1;
  localparam logic [15:0] StatusBadRequest = 16'd2;
  localparam logic [15:0] StatusBusy = 16'd3;
  localparam logic [15:0] StatusUnsupportedVersion = 16'd4;
  localparam logic [15:0] StatusNoSession = 16'd5;
  localparam logic [15:0] StatusSequence = 16'd6;
  localparam logic [15:0] StatusReused = 16'd7;
  localparam logic [15:0] StatusUnauthorised = 16'd8;
  localparam logic [15:0] StatusNoRoom = 16'd9;
  localparam logic [15:0] StatusOutcomeUnknown = 16'd10;
  localparam logic [15:0] StatusUnknownFamily = 16'd11;
  localparam logic [15:0] StatusStartBehindStop = 16'd12;
  localparam logic [15:0] StatusNotANumber = 16'd13;
  localparam logic [15:0] StatusTooLong = 16'd14;
  localparam logic [15:0] StatusNotKept = 16'd15;
  localparam logic [15:0] StatusNoCommitment = 16'd16;

  // Commands of the host; spec/rtl.toml explains them.
  typedef enum logic [31:0] {
    CommandLine = 32'd1,
    CommandBlockHash = 32'd2,
    CommandBlock = 32'd3,
    CommandTip = 32'd4,
    CommandRegister = 32'd5,
    CommandBarrier = 32'd6,
    CommandTransferLast = 32'd16,
    CommandTransferRead = 32'd17,
    CommandTransferFill = 32'd18,
    CommandTransferPut = 32'd19,
    CommandTransferRemove = 32'd20,
    CommandTransferClaim = 32'd21,
    CommandTransferRelease = 32'd22,
    CommandTransferGrant = 32'd23,
    CommandTransferSession = 32'd24
  } command_e;

  // Command of the host, 64 bytes. The first field is in the low bits.
  typedef struct packed {
    logic [127:0] id;
    logic [255:0] value;
    logic [31:0] second;
    logic [31:0] first;
    logic [31:0] index;
    logic [31:0] op;
  } command_t;

  // Registers, written by the command `register`.
  // own MAC address, first byte in the low bits
  localparam int unsigned RegisterMac = 0;
  localparam int unsigned RegisterMacBits = 48;
  // 1 on the interface lo: own and loopback sources are allowed
  localparam int unsigned RegisterLoopback = 1;
  localparam int unsigned RegisterLoopbackBits = 1;
  // one bit for each `v4` register that has an own address
  localparam int unsigned RegisterV4Own = 2;
  localparam int unsigned RegisterV4OwnBits = 8;
  // one bit for each `v4` register for whose address the fast path answers
  localparam int unsigned RegisterV4Answered = 3;
  localparam int unsigned RegisterV4AnsweredBits = 8;
  // one bit for each `v6` register that has an own address
  localparam int unsigned RegisterV6Own = 4;
  localparam int unsigned RegisterV6OwnBits = 8;
  // one bit for each `v6` register for whose address the fast path answers
  localparam int unsigned RegisterV6Answered = 5;
  localparam int unsigned RegisterV6AnsweredBits = 8;
  // own IPv4 address in the low half, and the broadcast address of its subnet; first byte in the low bits
  localparam int unsigned RegisterV4 = 16;
  localparam int unsigned RegisterV4Bits = 64;
  localparam int unsigned RegisterV4Count = 8;
  // own IPv6 address, first byte in the low bits
  localparam int unsigned RegisterV6 = 24;
  localparam int unsigned RegisterV6Bits = 128;
  localparam int unsigned RegisterV6Count = 8;
  // UDP port of `spv`; 0: `spv` is off
  localparam int unsigned RegisterSpvPort = 32;
  localparam int unsigned RegisterSpvPortBits = 16;
  // end of the lease: `spv` answers only before this time
  localparam int unsigned RegisterSpvLeaseUntilNs = 33;
  localparam int unsigned RegisterSpvLeaseUntilNsBits = 64;
  // epoch; odd while the chain changes, and then all requests are forwarded
  localparam int unsigned RegisterSpvEpoch = 34;
  localparam int unsigned RegisterSpvEpochBits = 64;
  // key of the index hash: two words of NH, one odd multiplier
  localparam int unsigned RegisterSpvKey = 35;
  localparam int unsigned RegisterSpvKeyBits = 192;
  // log2 of the number of sets
  localparam int unsigned RegisterSpvSetBits = 36;
  localparam int unsigned RegisterSpvSetBitsBits = 5;
  // number of lines in a set: 1, 2 or 4
  localparam int unsigned RegisterSpvWays = 37;
  localparam int unsigned RegisterSpvWaysBits = 3;
  // number of block slots minus 1
  localparam int unsigned RegisterSpvBlockMask = 38;
  localparam int unsigned RegisterSpvBlockMaskBits = 32;
  // 1: the low bits of a TXID choose its set; 0: a keyed hash chooses it
  localparam int unsigned RegisterSpvPaperIndex = 39;
  localparam int unsigned RegisterSpvPaperIndexBits = 1;
  // 1: requests in the paper's format are answered; 0: they are dropped
  localparam int unsigned RegisterSpvPaperFormat = 40;
  localparam int unsigned RegisterSpvPaperFormatBits = 1;
  // UDP port of `transfer`; 0: `transfer` is off
  localparam int unsigned RegisterTransferPort = 48;
  localparam int unsigned RegisterTransferPortBits = 16;
  // end of the lease: `transfer` answers only before this time
  localparam int unsigned RegisterTransferLeaseUntilNs = 49;
  localparam int unsigned RegisterTransferLeaseUntilNsBits = 64;
  // key of the index hash of the accounts; constant while the table has accounts
  localparam int unsigned RegisterTransferKey = 50;
  localparam int unsigned RegisterTransferKeyBits = 192;
  // 1 durable: `transfer` only reads; 2 express: it executes; constant while the NIC processes requests
  localparam int unsigned RegisterTransferMode = 51;
  localparam int unsigned RegisterTransferModeBits = 2;
  // 1: requests in the paper's format are answered; 0: they are dropped
  localparam int unsigned RegisterTransferPaperFormat = 52;
  localparam int unsigned RegisterTransferPaperFormatBits = 1;
  // 1: unsigned writes are refused
  localparam int unsigned RegisterTransferRequireSignature = 53;
  localparam int unsigned RegisterTransferRequireSignatureBits = 1;
  // one bit for each `transfer_issuer` register that has a range
  localparam int unsigned RegisterTransferIssuers = 54;
  localparam int unsigned RegisterTransferIssuersBits = 8;
  // number of session slots of the host: a request of another slot is refused; the table may have fewer
  localparam int unsigned RegisterTransferSessions = 55;
  localparam int unsigned RegisterTransferSessionsBits = 32;
  // range of addresses that may issue (IPv4 mapped into IPv6), and its mask in the high half; first byte in low bits
  localparam int unsigned RegisterTransferIssuer = 64;
  localparam int unsigned RegisterTransferIssuerBits = 256;
  localparam int unsigned RegisterTransferIssuerCount = 8;

  // Entry of the stream `transfer_record`, 128 bytes; spec/rtl.toml explains it. First field in the low bits.
  typedef struct packed {
    logic [63:0] time_ns;
    logic [127:0] uuid;
    logic [63:0] timestamp;
    logic [63:0] sum;
    logic [63:0] session_sequence;
    logic [31:0] nonce;
    logic [31:0] place;
    logic [31:0] command;
    logic [31:0] slot;
    logic [63:0] source_balance;
    logic [63:0] destination_version;
    logic [63:0] source_version;
    logic [63:0] amount;
    logic [127:0] destination;
    logic [127:0] source;
  } transfer_record_beats_t;

  // Entry of the stream `transfer_response`, 64 bytes; spec/rtl.toml explains it. First field in the low bits.
  typedef struct packed {
    logic [31:0] last_destination;
    logic [31:0] last_reply;
    logic [31:0] last_amount;
    logic [31:0] last_id;
    logic [63:0] version;
    logic [63:0] held_in;
    logic [63:0] held_out;
    logic [63:0] balance;
    logic [63:0] records;
    logic [31:0] code;
    logic [31:0] index;
  } transfer_response_beats_t;

  // Entry of the stream `transfer_session_response`, 64 bytes; spec/rtl.toml explains it. First field in the low bits.
  typedef struct packed {
    logic [63:0] reserved_2;
    logic [63:0] amount;
    logic [63:0] sum;
    logic [63:0] session_sequence;
    logic [63:0] token;
    logic [63:0] records;
    logic [31:0] reserved;
    logic [31:0] operation_code;
    logic [31:0] code;
    logic [31:0] index;
  } transfer_session_response_beats_t;

  // AXI4-Lite window: addresses in bytes.
  localparam int unsigned AxilAddressBits = 13;
  localparam int unsigned AxilVersion = 1;
  localparam int unsigned AxilRegistersAt = 4096;
  localparam int unsigned AxilRegisterStride = 32;
  localparam logic [31:0] AxilIdentity = 32'h4c535254;
  localparam int unsigned AxilIdentityAt = 'h0;
  localparam int unsigned AxilVersionAt = 'h4;
  localparam int unsigned AxilTableAt = 'h8;
  localparam int unsigned AxilScratchAt = 'hc;
  localparam int unsigned AxilStatusAt = 'h10;
  localparam int unsigned AxilDoorbellAt = 'h14;
  localparam int unsigned AxilCommandsDoneAt = 'h18;
  localparam int unsigned AxilBarrierAt = 'h1c;
  localparam int unsigned AxilClockAt = 'h20;
  localparam int unsigned AxilClockWords = 2;
  localparam int unsigned AxilClockStepAt = 'h28;
  localparam int unsigned AxilCommandAt = 'h40;
  localparam int unsigned AxilCommandWords = 16;
  localparam int unsigned AxilCountersDropsAt = 'h100;
  localparam int unsigned AxilCountersSpvAt = 'h200;
  localparam int unsigned AxilCountersTransferAt = 'h300;
  localparam int unsigned RegisterIndexBits = 7;
  localparam int unsigned RegisterBitsMax = 256;

  // Returns the number of bits of a register; 0 if there is no such register.
  function automatic logic [8:0] register_bits(input logic [RegisterIndexBits-1:0] index);
    case (index)
      7'd0: return 9'd48;
      7'd1: return 9'd1;
      7'd2: return 9'd8;
      7'd3: return 9'd8;
      7'd4: return 9'd8;
      7'd5: return 9'd8;
      7'd16, 7'd17, 7'd18, 7'd19, 7'd20, 7'd21, 7'd22, 7'd23: return 9'd64;
      7'd24, 7'd25, 7'd26, 7'd27, 7'd28, 7'd29, 7'd30, 7'd31: return 9'd128;
      7'd32: return 9'd16;
      7'd33: return 9'd64;
      7'd34: return 9'd64;
      7'd35: return 9'd192;
      7'd36: return 9'd5;
      7'd37: return 9'd3;
      7'd38: return 9'd32;
      7'd39: return 9'd1;
      7'd40: return 9'd1;
      7'd48: return 9'd16;
      7'd49: return 9'd64;
      7'd50: return 9'd192;
      7'd51: return 9'd2;
      7'd52: return 9'd1;
      7'd53: return 9'd1;
      7'd54: return 9'd8;
      7'd55: return 9'd32;
      7'd64, 7'd65, 7'd66, 7'd67, 7'd68, 7'd69, 7'd70, 7'd71: return 9'd256;
      default: return 9'd0;
    endcase
  endfunction

  // Returns the value of a register after a reset.
  function automatic logic [31:0] register_reset(input logic [RegisterIndexBits-1:0] index);
    case (index)
      7'd34: return 32'd1;
      default: return 32'd0;
    endcase
  endfunction

  // Service `spv`.
  localparam logic [15:0] SpvPort = 16'd7701;
  localparam int unsigned SpvPaperRequestBytes = 32;
  localparam int unsigned SpvPaperReplyBytes = 32;
  localparam int unsigned SpvHeightUnknown = 32'hffffffff;
  localparam int unsigned SpvRootsMax = 16;
  localparam int unsigned SpvProofDepthMax = 14;
  localparam int unsigned SpvHeadersMax = 14;
  localparam int unsigned SpvWitnessRoomMax = 1236;
  localparam int unsigned SpvHeaderBytes = 80;
  localparam int unsigned SpvTreeHeadNodes = 3;
  localparam logic [7:0] SpvOpRoot = 8'd1;
  localparam logic [7:0] SpvOpRoots = 8'd2;
  localparam logic [7:0] SpvOpProof = 8'd3;
  localparam logic [7:0] SpvOpHeaders = 8'd4;
  localparam logic [7:0] SpvOpWitnessProof = 8'd5;
  localparam logic [7:0] SpvOpWtxidProof = 8'd6;
  localparam int unsigned SpvCounters = 4;
  // Counters of the fast path.
  typedef enum logic [1:0] {
    // requests answered by the fast path
    SpvCounterHits = 2'd0,
    // requests forwarded because the TXID, or the tree of its block, was not cached or was being written
    SpvCounterMisses = 2'd1,
    // requests forwarded because the lease had ended or the chain was changing
    SpvCounterNotLeased = 2'd2,
    // native requests forwarded because only the host can answer them
    SpvCounterForwardedNative = 2'd3
  } spv_counter_e;

  localparam int unsigned RootReplyBytes = 104;
  localparam int unsigned RootReplyRootAt = 0;
  localparam int unsigned RootReplyBlockHashAt = 32;
  localparam int unsigned RootReplyTipHashAt = 64;
  localparam int unsigned RootReplyHeightAt = 96;
  localparam int unsigned RootReplyTipHeightAt = 100;
  localparam int unsigned RootsHeadBytes = 40;
  localparam int unsigned RootsHeadTipHashAt = 0;
  localparam int unsigned RootsHeadTipHeightAt = 32;
  localparam int unsigned RootsHeadCountAt = 36;
  localparam int unsigned RootItemBytes = 72;
  localparam int unsigned RootItemRootAt = 0;
  localparam int unsigned RootItemBlockHashAt = 32;
  localparam int unsigned RootItemHeightAt = 64;
  localparam int unsigned RootItemStatusAt = 68;
  localparam int unsigned ProofReplyBytes = 136;
  localparam int unsigned ProofReplyHeaderAt = 0;
  localparam int unsigned ProofReplyHeightAt = 80;
  localparam int unsigned ProofReplyTransactionsAt = 84;
  localparam int unsigned ProofReplyIndexAt = 88;
  localparam int unsigned ProofReplyDepthAt = 92;
  localparam int unsigned ProofReplyTipHashAt = 96;
  localparam int unsigned ProofReplyTipHeightAt = 128;
  localparam int unsigned ProofReplyReservedAt = 132;
  localparam int unsigned WitnessReplyBytes = 200;
  localparam int unsigned WitnessReplyHeaderAt = 0;
  localparam int unsigned WitnessReplyHeightAt = 80;
  localparam int unsigned WitnessReplyTransactionsAt = 84;
  localparam int unsigned WitnessReplyIndexAt = 88;
  localparam int unsigned WitnessReplyDepthAt = 92;
  localparam int unsigned WitnessReplyTipHashAt = 96;
  localparam int unsigned WitnessReplyTipHeightAt = 128;
  localparam int unsigned WitnessReplyCoinbaseBytesAt = 132;
  localparam int unsigned WitnessReplyWtxidAt = 136;
  localparam int unsigned WitnessReplyWitnessReservedAt = 168;
  localparam int unsigned HeadersHeadBytes = 48;
  localparam int unsigned HeadersHeadTipHashAt = 0;
  localparam int unsigned HeadersHeadTipHeightAt = 32;
  localparam int unsigned HeadersHeadStartAt = 36;
  localparam int unsigned HeadersHeadCountAt = 40;
  localparam int unsigned HeadersHeadReservedAt = 44;

  // Service `transfer`.
  localparam logic [15:0] TransferPort = 16'd7702;
  localparam int unsigned TransferPaperBytesMin = 20;
  localparam int unsigned TransferPaperBytesMax = 22;
  localparam int unsigned TransferPaperRefused = 32'h80000000;
  localparam int unsigned TransferCommandCreate = 1;
  localparam int unsigned TransferCommandIssue = 2;
  localparam int unsigned TransferCommandTransfer = 3;
  localparam int unsigned TransferCommandRefer = 4;
  localparam int unsigned TransferCommandFreeze = 5;
  localparam int unsigned TransferCommandUnfreeze = 6;
  localparam int unsigned TransferContractPlain = 0;
  localparam int unsigned TransferContractPending = 1;
  localparam int unsigned TransferContractPost = 2;
  localparam int unsigned TransferContractVoid = 3;
  localparam int unsigned TransferFlagLinked = 1;
  localparam int unsigned TransferFlagKeyed = 2;
  localparam int unsigned TransferCurveP256 = 1;
  localparam int unsigned TransferCurveSecp256k1 = 2;
  localparam int unsigned TransferLineOperationsMax = 4;
  localparam int unsigned TransferOperationsMax = 744;
  localparam int unsigned TransferReferMax = 29;
  localparam int unsigned TransferDurable = 1;
  localparam int unsigned TransferExpress = 2;
  localparam int unsigned TransferBucketCells = 4;
  localparam int unsigned TransferCellValid = 1;
  localparam int unsigned TransferCellFrozen = 2;
  localparam int unsigned TransferCellClaimed = 4;
  localparam int unsigned TransferIssuersMax = 8;
  localparam logic [7:0] TransferOpExecute = 8'd1;
  localparam logic [7:0] TransferOpRefer = 8'd2;
  localparam logic [7:0] TransferOpOpen = 8'd3;
  localparam logic [7:0] TransferOpClose = 8'd4;
  localparam logic [7:0] TransferOpSession = 8'd5;
  localparam logic [7:0] TransferOpSigned = 8'd6;
  localparam int unsigned TransferCodeDone = 0;
  localparam int unsigned TransferCodeUnknownAccount = 1;
  localparam int unsigned TransferCodeAccountExists = 2;
  localparam int unsigned TransferCodeInsufficientFunds = 3;
  localparam int unsigned TransferCodeOverflow = 4;
  localparam int unsigned TransferCodeSameAccount = 5;
  localparam int unsigned TransferCodeStoreFull = 6;
  localparam int unsigned TransferCodeStaleId = 7;
  localparam int unsigned TransferCodeBusy = 8;
  localparam int unsigned TransferCodeFrozen = 9;
  localparam int unsigned TransferCodeBadCommand = 10;
  localparam int unsigned TransferCodeIdReused = 11;
  localparam int unsigned TransferCodeUnauthorised = 12;
  localparam int unsigned TransferCodeLinkedFailed = 13;
  localparam int unsigned TransferCodeUnknownPending = 14;
  localparam int unsigned TransferCodePendingExists = 15;
  localparam int unsigned TransferCounters = 7;
  // Counters of the fast path.
  typedef enum logic [2:0] {
    // requests answered by the fast path
    TransferCounterReplies = 3'd0,
    // requests forwarded to the host
    TransferCounterForwarded = 3'd1,
    // requests forwarded because the lease had ended
    TransferCounterNotLeased = 3'd2,
    // requests answered with a refusal: the result code, or the first one, is not 0
    TransferCounterRefusals = 3'd3,
    // repeated requests answered with the stored reply
    TransferCounterRepeats = 3'd4,
    // requests answered busy: a lock was held, or the ring was full
    TransferCounterBusy = 3'd5,
    // requests answered busy because the ring was full
    TransferCounterRingFull = 3'd6
  } transfer_counter_e;

  localparam int unsigned PaperTransferBytes = 20;
  localparam int unsigned PaperTransferCommandAt = 0;
  localparam int unsigned PaperTransferTransactionIdAt = 4;
  localparam int unsigned PaperTransferSourceAt = 8;
  localparam int unsigned PaperTransferDestinationAt = 12;
  localparam int unsigned PaperTransferAmountAt = 16;
  localparam int unsigned ExecuteHeadBytes = 24;
  localparam int unsigned ExecuteHeadTokenAt = 0;
  localparam int unsigned ExecuteHeadSequenceAt = 8;
  localparam int unsigned ExecuteHeadSlotAt = 16;
  localparam int unsigned ExecuteHeadCountAt = 20;
  localparam int unsigned ExecuteHeadDurabilityAt = 22;
  localparam int unsigned SignedHeadBytes = 104;
  localparam int unsigned SignedHeadCurveAt = 0;
  localparam int unsigned SignedHeadKeyPrefixAt = 1;
  localparam int unsigned SignedHeadReservedAt = 2;
  localparam int unsigned SignedHeadReserved2At = 4;
  localparam int unsigned SignedHeadKeyXAt = 8;
  localparam int unsigned SignedHeadRAt = 40;
  localparam int unsigned SignedHeadSAt = 72;
  localparam int unsigned OperationBytes = 88;
  localparam int unsigned OperationCommandAt = 0;
  localparam int unsigned OperationFlagsAt = 1;
  localparam int unsigned OperationCodeAt = 2;
  localparam int unsigned OperationContractAt = 4;
  localparam int unsigned OperationSourceAt = 8;
  localparam int unsigned OperationDestinationAt = 24;
  localparam int unsigned OperationAmountAt = 40;
  localparam int unsigned OperationNumberAt = 48;
  localparam int unsigned OperationTimestampAt = 56;
  localparam int unsigned OperationUuidAt = 64;
  localparam int unsigned OperationNonceAt = 80;
  localparam int unsigned OperationTimeoutSAt = 84;
  localparam int unsigned ReferHeadBytes = 8;
  localparam int unsigned ReferHeadCountAt = 0;
  localparam int unsigned ReferHeadDurabilityAt = 4;
  localparam int unsigned ReferHeadReservedAt = 6;
  localparam int unsigned BalanceItemBytes = 48;
  localparam int unsigned BalanceItemAccountAt = 0;
  localparam int unsigned BalanceItemBalanceAt = 16;
  localparam int unsigned BalanceItemHeldAt = 24;
  localparam int unsigned BalanceItemVersionAt = 32;
  localparam int unsigned BalanceItemCodeAt = 40;
  localparam int unsigned BalanceItemFrozenAt = 42;
  localparam int unsigned BalanceItemReservedAt = 44;
  localparam int unsigned SessionBodyBytes = 40;
  localparam int unsigned SessionBodyChallengeAt = 0;
  localparam int unsigned SessionBodyTokenAt = 16;
  localparam int unsigned SessionBodySequenceAt = 24;
  localparam int unsigned SessionBodySlotAt = 32;
  localparam int unsigned SessionBodyLeaseSAt = 36;

endpackage
