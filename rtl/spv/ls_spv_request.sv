// SPDX-License-Identifier: Apache-2.0
//
// Payload rules of `spv`: the RTL twin of spv_answer, spv_native and spv_is_request in xdp/spv_fastpath.h and
// xdp/spv_native.h. The RTL looks up requests in the paper's format and native `root` and, if Roots is 1, native
// `roots`; it forwards all other native requests to the host.
//
// Interface: one datagram in each cycle, no back-pressure. Each datagram gives exactly one request, in order.
// item_txid_i is the TXID of an item of `roots` that was completed by the beat of this cycle's datagram, or by a beat
// without one. It goes on as txid_o unless the datagram has a TXID of its own.
// Latency: one cycle.

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

  logic is_paper, is_native, is_well_formed, is_root, is_padded, is_roots, is_head_padded;
  logic [31:0] count;
  logic [8*RootBytes-1:0] payload;
  logic [255:0] txid_d;
  request_t request_d;

  assign payload = datagram_i.payload[8*RootBytes-1:0];
  assign is_paper = datagram_i.payload_bytes == 16'(SpvPaperRequestBytes);
  assign is_native = datagram_i.payload_bytes >= 16'(NativeHeaderBytes) &&
                     be16(payload[8*NativeHeaderMagicAt+:16]) == NativeMagic;
  assign is_well_formed = payload[8*NativeHeaderVersionAt+:8] == NativeVersion &&
                          payload[8*NativeHeaderStatusAt+:16] == '0 &&
                          17'(be16(payload[8*NativeHeaderLengthAt+:16])) + 17'(NativeHeaderBytes) ==
                          17'(datagram_i.payload_bytes);
  assign is_root = payload[8*NativeHeaderOpAt+:8] == SpvOpRoot && datagram_i.payload_bytes == 16'(RootBytes);
  // All bytes of the body after the TXID are zero.
  assign is_padded = payload[BodyAt+8*RootReplyBlockHashAt+:8*(RootReplyBytes-RootReplyBlockHashAt)] == '0;
  assign count = be32(payload[BodyAt+8*RootsHeadCountAt+:32]);
  always_comb begin
    is_roots = 1'b0;
    for (int unsigned items = 1; items <= SpvRootsMax; items++) begin
      if (count == items &&
          datagram_i.payload_bytes == 16'(NativeHeaderBytes + RootsHeadBytes + RootItemBytes * items)) begin
        is_roots = Roots && payload[8*NativeHeaderOpAt+:8] == SpvOpRoots;
      end
    end
  end
  // All bytes of the head before the count are zero.
  assign is_head_padded = payload[BodyAt+:8*RootsHeadCountAt] == '0;

  always_comb begin
    txid_d = payload[BodyAt+8*RootReplyRootAt+:256];
    if (is_paper) txid_d = payload[255:0];
    if (!valid_i || (!is_paper && payload[8*NativeHeaderOpAt+:8] == SpvOpRoots)) txid_d = item_txid_i;
  end

  always_comb begin
    request_d.headers = datagram_i.headers;
    request_d.is_native = !is_paper;
    request_d.reason = datagram_i.reason;
    request_d.outcome = OutcomeHit;
    if (datagram_i.is_final) begin
      request_d.outcome = datagram_i.verdict == VerdictDrop ? OutcomeDrop : OutcomeForward;
    end else if (is_paper) begin
      // A TXID of zeros is the paper's reply "unknown".
      if (payload[255:0] == '0) begin
        request_d.outcome = OutcomeDrop;
        request_d.reason  = DropNotARequest;
      end else if (!paper_format_i) begin
        request_d.outcome = OutcomeDrop;
        request_d.reason  = DropPaperRefused;
      end
    end else if (!is_native) begin
      request_d.outcome = OutcomeDrop;
      request_d.reason  = DropNotARequest;
    end else if ((payload[8*NativeHeaderOpAt+:8] & NativeReplyBit) != '0) begin
      request_d.outcome = OutcomeDrop;
      request_d.reason  = DropReplyBit;
    end else if (is_well_formed && is_roots && is_head_padded) begin
      request_d.outcome = OutcomeRoots;
    end else if (!is_well_formed || !is_root || !is_padded) begin
      request_d.outcome = OutcomeHost;
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_o <= 1'b0;
    else valid_o <= valid_i;
  end

  always_ff @(posedge clk_i) begin
    looks_up_o <= valid_i || item_valid_i;
    if (!SkipsIdle || valid_i) request_o <= request_d;
    if (!SkipsIdle || valid_i || item_valid_i) txid_o <= txid_d;
  end

endmodule
