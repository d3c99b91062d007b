// SPDX-License-Identifier: Apache-2.0
//
// Payload rules of `spv`: the RTL twin of spv_answer, spv_native and spv_is_request in xdp/spv_fastpath.h and
// xdp/spv_native.h. The RTL looks up requests in the paper's format and native `root` and, if Roots is 1, native
// `roots`; it forwards all other native requests to the host.
//
// Interface: one datagram in each cycle, no back-pressure. Each datagram gives exactly one request, in order.
// item_txid_i is the TXID of an item of `roots` that was completed by the beat of this cycle's datagram, or by a beat
// without one. It goes on as txid_o unless the datagram has a TXID of its own.
// Latency: two cycles. The first one compares parts of the payload, the second one joins the comparisons. The outcome
// follows from the registers of the second one without another register, so the next module must have one.

module ls_spv_request
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter bit Roots = 1'b1
) (
    input logic clk_i,
    input logic rst_ni,

    input logic paper_format_i,

    input logic valid_i,
    input datagram_t datagram_i,
    input logic item_valid_i,  // has an effect only with SkipsIdle
    input logic [255:0] item_txid_i,

    output logic valid_o,
    output request_t request_o,
    output logic looks_up_o,  // txid_o is that of a request or of an item
    output logic [255:0] txid_o
);

  localparam int unsigned BodyAt = 8 * NativeHeaderBytes;
  // Long comparisons with zero are made by parts, which the second cycle joins.
  localparam int unsigned PartBits = 16;
  localparam int unsigned ZeroParts = 256 / PartBits;
  localparam int unsigned PaddingAt = BodyAt + 8 * RootReplyBlockHashAt;
  localparam int unsigned PaddingBits = 8 * (RootReplyBytes - RootReplyBlockHashAt);
  localparam int unsigned PaddingParts = (PaddingBits + PartBits - 1) / PartBits;
  localparam int unsigned ItemsBits = $clog2(SpvRootsMax + 1);
  localparam int unsigned HeadParts = 8 * RootsHeadCountAt / PartBits;

  // What is known about a datagram.
  typedef struct packed {
    headers_t headers;
    drop_e reason;
    verdict_e verdict;
    logic is_final;
    logic is_paper;
    logic is_paper_format;  // is accepted
    logic is_native;
    logic is_reply;
    logic is_right_version;
    logic is_right_status;
    logic is_right_length;
    logic is_root;
    logic is_roots_op;
  } facts_t;

  facts_t facts_d, facts_q, joined_q;
  // Comparisons with zero by parts, and whole.
  logic [ZeroParts-1:0] is_zero_part_q;  // the TXID in the paper's format
  logic [PaddingParts-1:0] is_padded_part_q;  // the bytes of the body after the TXID
  logic [HeadParts-1:0] is_head_part_q;  // the head of `roots` before the count
  logic is_zero_q, is_padded_q, is_head_padded_q;
  // `roots`: number of items for which the payload has exactly the length, or 0; low bits of the count in the payload.
  logic [ItemsBits-1:0] room_d, room_q, count_q;
  logic is_small_q, is_count_q;  // the high bits of the count are 0; the count is the number of items in the payload
  logic takes_item_d, takes_item_q;  // the TXID is that of an item
  logic valid_q, looks_up_q;
  logic [31:0] count;
  logic [8*RootBytes-1:0] payload;
  logic [PartBits*PaddingParts-1:0] padding;
  logic [BodyAt+255:0] begin_q;  // of the payload
  logic [255:0] item_txid_q, txid_d;

  // ---- comparisons ----

  assign payload = datagram_i.payload[8*RootBytes-1:0];
  assign padding = (PartBits * PaddingParts)'(payload[PaddingAt+:PaddingBits]);
  assign count = be32(payload[BodyAt+8*RootsHeadCountAt+:32]);

  always_comb begin
    if (SkipsIdle && !valid_i) begin
      facts_d = '0;
      takes_item_d = 1'b1;
    end else begin
      facts_d.headers = datagram_i.headers;
      facts_d.reason = datagram_i.reason;
      facts_d.verdict = datagram_i.verdict;
      facts_d.is_final = datagram_i.is_final;
      facts_d.is_paper = datagram_i.payload_bytes == 16'(SpvPaperRequestBytes);
      facts_d.is_paper_format = paper_format_i;
      facts_d.is_native = datagram_i.payload_bytes >= 16'(NativeHeaderBytes) &&
                          be16(payload[8*NativeHeaderMagicAt+:16]) == NativeMagic;
      facts_d.is_reply = (payload[8*NativeHeaderOpAt+:8] & NativeReplyBit) != '0;
      facts_d.is_right_version = payload[8*NativeHeaderVersionAt+:8] == NativeVersion;
      facts_d.is_right_status = payload[8*NativeHeaderStatusAt+:16] == '0;
      facts_d.is_right_length = 17'(be16(payload[8*NativeHeaderLengthAt+:16])) + 17'(NativeHeaderBytes) ==
                                17'(datagram_i.payload_bytes);
      facts_d.is_root = payload[8*NativeHeaderOpAt+:8] == SpvOpRoot && datagram_i.payload_bytes == 16'(RootBytes);
      facts_d.is_roots_op = Roots && payload[8*NativeHeaderOpAt+:8] == SpvOpRoots;
      takes_item_d = !valid_i || (!facts_d.is_paper && payload[8*NativeHeaderOpAt+:8] == SpvOpRoots);
    end
  end

  always_comb begin
    room_d = '0;
    for (int unsigned items = 1; items <= SpvRootsMax; items++) begin
      if (datagram_i.payload_bytes == 16'(NativeHeaderBytes + RootsHeadBytes + RootItemBytes * items)) begin
        room_d |= ItemsBits'(items);
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= valid_i;
  end

  always_ff @(posedge clk_i) begin
    looks_up_q <= valid_i || item_valid_i;
    if (!SkipsIdle || valid_i || item_valid_i) begin
      facts_q <= facts_d;
      takes_item_q <= takes_item_d;
      for (int unsigned i = 0; i < ZeroParts; i++) is_zero_part_q[i] <= payload[PartBits*i+:PartBits] == '0;
      for (int unsigned i = 0; i < PaddingParts; i++) is_padded_part_q[i] <= padding[PartBits*i+:PartBits] == '0;
      for (int unsigned i = 0; i < HeadParts; i++) is_head_part_q[i] <= payload[BodyAt+PartBits*i+:PartBits] == '0;
      room_q <= room_d;
      count_q <= count[ItemsBits-1:0];
      is_small_q <= count[31:ItemsBits] == '0;
      begin_q <= payload[BodyAt+255:0];
      item_txid_q <= item_txid_i;
    end
  end

  // ---- the whole ----

  always_comb begin
    txid_d = facts_q.is_paper ? begin_q[255:0] : begin_q[BodyAt+:256];
    if (takes_item_q) txid_d = item_txid_q;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_o <= 1'b0;
    else valid_o <= valid_q;
  end

  always_ff @(posedge clk_i) begin
    looks_up_o <= looks_up_q;
    if (!SkipsIdle || valid_q) begin
      joined_q <= facts_q;
      is_zero_q <= &is_zero_part_q;
      is_padded_q <= &is_padded_part_q;
      is_head_padded_q <= &is_head_part_q;
      is_count_q <= is_small_q && room_q == count_q && count_q != '0;
    end
    if (!SkipsIdle || looks_up_q) txid_o <= txid_d;
  end

  // ---- decision ----

  always_comb begin
    request_o.headers = joined_q.headers;
    request_o.is_native = !joined_q.is_paper;
    request_o.reason = joined_q.reason;
    request_o.outcome = OutcomeHit;
    if (joined_q.is_final) begin
      request_o.outcome = joined_q.verdict == VerdictDrop ? OutcomeDrop : OutcomeForward;
    end else if (joined_q.is_paper) begin
      // A TXID of zeros is the paper's reply "unknown".
      if (is_zero_q) begin
        request_o.outcome = OutcomeDrop;
        request_o.reason  = DropNotARequest;
      end else if (!joined_q.is_paper_format) begin
        request_o.outcome = OutcomeDrop;
        request_o.reason  = DropPaperRefused;
      end
    end else if (!joined_q.is_native) begin
      request_o.outcome = OutcomeDrop;
      request_o.reason  = DropNotARequest;
    end else if (joined_q.is_reply) begin
      request_o.outcome = OutcomeDrop;
      request_o.reason  = DropReplyBit;
    end else if (!joined_q.is_right_version || !joined_q.is_right_status || !joined_q.is_right_length) begin
      request_o.outcome = OutcomeHost;
    end else if (joined_q.is_roots_op && is_count_q && is_head_padded_q) begin
      request_o.outcome = OutcomeRoots;
    end else if (!joined_q.is_root || !is_padded_q) begin
      request_o.outcome = OutcomeHost;
    end
  end

endmodule
