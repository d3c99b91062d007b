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

  // Commands of the host; spec/rtl.toml explains them.
  typedef enum logic [31:0] {
    CommandLine = 32'd1,
    CommandBlockHash = 32'd2,
    CommandBlock = 32'd3,
    CommandTip = 32'd4,
    CommandRegister = 32'd5,
    CommandBarrier = 32'd6
  } command_e;

  // Command of the host, 64 bytes. The first field is in the low bits.
  typedef struct packed {
    logic [127:0] reserved;
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
  localparam int unsigned RegisterIndexBits = 6;
  localparam int unsigned RegisterBitsMax = 192;

  // Returns the number of bits of a register; 0 if there is no such register.
  function automatic logic [8:0] register_bits(input logic [RegisterIndexBits-1:0] index);
    case (index)
      6'd0: return 9'd48;
      6'd1: return 9'd1;
      6'd2: return 9'd8;
      6'd3: return 9'd8;
      6'd4: return 9'd8;
      6'd5: return 9'd8;
      6'd16, 6'd17, 6'd18, 6'd19, 6'd20, 6'd21, 6'd22, 6'd23: return 9'd64;
      6'd24, 6'd25, 6'd26, 6'd27, 6'd28, 6'd29, 6'd30, 6'd31: return 9'd128;
      6'd32: return 9'd16;
      6'd33: return 9'd64;
      6'd34: return 9'd64;
      6'd35: return 9'd192;
      6'd36: return 9'd5;
      6'd37: return 9'd3;
      6'd38: return 9'd32;
      6'd39: return 9'd1;
      6'd40: return 9'd1;
      default: return 9'd0;
    endcase
  endfunction

  // Returns the value of a register after a reset.
  function automatic logic [31:0] register_reset(input logic [RegisterIndexBits-1:0] index);
    case (index)
      6'd34: return 32'd1;
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

endpackage
