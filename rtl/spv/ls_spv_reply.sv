// SPDX-License-Identifier: Apache-2.0
//
// Makes the decision about a request of `spv` from the outcome of its look-up: the bytes in which the reply differs,
// its time to live and checksums. The RTL twin of spv_paper, spv_native_root and spv_native_roots in xdp/ and of
// ls_reply in xdp/reply.h. Also gives the counter that rises. The items of a `roots` reply are the matter of
// ls_spv_patch.
//
// Interface: one request in each cycle, no back-pressure; exactly one decision for each, in order.
// Latency: three cycles.

module ls_spv_reply
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic valid_i,
    input request_t request_i,
    input block_t block_i,
    input logic is_roots_i,
    input logic has_item_i,  // `roots`: block_i is the answer of an item
    input logic [ItemsSumBits-1:0] items_sum_i,  // `roots`: of the answers of the other items
    input logic [255:0] tip_hash_i,
    input logic [31:0] tip_height_i,
    input logic [15:0] tip_sum_i,

    output logic valid_o,
    output decision_t decision_o,
    output drop_e reason_o,  // of a drop
    output logic counts_o,  // 1: counter_o rises
    output spv_counter_e counter_o
);

  localparam int unsigned NativeAt = 8 * NativeHeaderBytes;
  // Bytes by which the payload of a frame may lie behind BodyFirst.
  localparam int unsigned V6Shift = Ipv6Bytes - Ipv4Bytes;

  logic [2:0] valid_q;
  request_t [1:0] request_q;
  logic [1:0] is_roots_q;
  drop_e reason_q;

  // ---- stage 1: payload of the reply, and the parts of its sum ----

  logic [8*RootBytes-1:0] payload_d, payload_q;
  localparam int unsigned SumBits = ItemsSumBits + 1;
  logic [SumBits-1:0] items_part_q;
  logic [16:0] block_part_q;  // root and hash
  logic [17:0] request_part_q;  // headers, native header and tip
  logic has_answer, has_hash, is_magic_q;

  always_comb begin
    payload_d = '0;
    if (!SkipsIdle || valid_i) begin
      // The mask leaves out those bytes of `root` that the other replies do not have.
      payload_d[NativeAt+8*RootReplyRootAt+:256] = block_i.root;
      payload_d[NativeAt+8*RootReplyBlockHashAt+:256] = block_i.hash;
      payload_d[NativeAt+8*RootReplyTipHashAt+:256] = tip_hash_i;
      payload_d[NativeAt+8*RootReplyHeightAt+:32] = be32(block_i.height);
      payload_d[NativeAt+8*RootReplyTipHeightAt+:32] = be32(tip_height_i);
      if (is_roots_i) begin
        payload_d[NativeAt+8*RootsHeadTipHashAt+:256] = tip_hash_i;
        payload_d[NativeAt+8*RootsHeadTipHeightAt+:32] = be32(tip_height_i);
      end
      if (!request_i.is_native) payload_d[255:0] = block_i.root;
    end
  end

  assign has_answer = !is_roots_i || has_item_i;
  assign has_hash = has_answer && request_i.is_native;

  always_ff @(posedge clk_i) begin
    is_roots_q <= {is_roots_q[0], is_roots_i};
    if (!SkipsIdle || valid_i) begin
      request_q[0] <= request_i;
      payload_q <= payload_d;
      is_magic_q <= be16(block_i.root[15:0]) == NativeMagic;
      // The count of `roots` adds 1 for each item.
      items_part_q <= is_roots_i ? SumBits'(items_sum_i) + SumBits'(has_item_i) : '0;
      block_part_q <= 17'(has_answer ? block_i.root_sum : 16'd0) + 17'(has_hash ? block_i.hash_sum : 16'd0);
      request_part_q <= 18'(request_i.headers.partial_sum) +
                        18'(request_i.is_native ? request_i.headers.native_sum : 16'd0) +
                        18'(request_i.is_native ? tip_sum_i : 16'd0);
    end
  end

  // ---- stage 2: sum, time to live, first shift ----

  logic [8*(VlanBytes+RootBytes)-1:0] body_q;
  logic [(VlanBytes+RootBytes)/2-1:0] mask_q;
  logic [SumBits-1:0] sum_q;
  logic [7:0] ttl_d, ttl_q;
  logic [16:0] check_part_q;  // inverted header checksum without the old word
  logic [15:0] old_check;
  logic [RootBytes/2-1:0] mask;

  always_comb begin
    // The native header stays, apart from the reply bit.
    if (is_roots_q[0]) mask = (RootBytes / 2)'({RootsHeadCountAt / 2{1'b1}}) << NativeHeaderBytes / 2;
    else if (request_q[0].is_native) mask = {{RootReplyBytes / 2{1'b1}}, {NativeHeaderBytes / 2{1'b0}}};
    else mask = {{(RootBytes - SpvPaperReplyBytes) / 2{1'b0}}, {SpvPaperReplyBytes / 2{1'b1}}};
  end

  assign old_check = ~request_q[0].headers.ip_check;
  // A root whose first two bytes are those of the native format counts as native, as in ls_reply_ttl.
  assign ttl_d = reply_ttl(request_q[0].is_native || is_magic_q, request_q[0].headers.ttl);

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || valid_q[0]) begin
      request_q[1] <= request_q[0];
      sum_q <= items_part_q + SumBits'(block_part_q) + SumBits'(request_part_q);
      ttl_q <= ttl_d;
      check_part_q <= 17'(old_check) + 17'({~request_q[0].headers.ttl, 8'hff - 8'd17});
      mask_q <= request_q[0].headers.is_vlan ? {mask, {VlanBytes / 2{1'b0}}} : {{VlanBytes / 2{1'b0}}, mask};
      body_q <= request_q[0].headers.is_vlan ? {payload_q, {8 * VlanBytes{1'b0}}} : {{8 * VlanBytes{1'b0}}, payload_q};
    end
  end

  // ---- stage 3: checksums, second shift, verdict ----

  logic [15:0] ip_check_d;
  decision_t decision_d;
  logic counts_d;
  spv_counter_e counter_d;

  always_comb begin
    // Update of the header checksum (RFC 1624). The protocol, which shares the word, adds the same on both sides.
    ip_check_d = ~fold(32'(check_part_q) + 32'({ttl_q, 8'd17}));
    if (ttl_q == request_q[1].headers.ttl) ip_check_d = request_q[1].headers.ip_check;
  end

  always_comb begin
    decision_d.is_patched = is_roots_q[1] && request_q[1].outcome == OutcomeHit;
    decision_d.is_native = request_q[1].is_native;
    decision_d.is_v6 = request_q[1].headers.is_v6;
    decision_d.is_vlan = request_q[1].headers.is_vlan;
    decision_d.ttl = ttl_q;
    decision_d.ip_check = ip_check_d;
    decision_d.udp_check = ~fold(32'(sum_q));
    if (decision_d.udp_check == '0) decision_d.udp_check = '1;
    decision_d.mask = '0;
    decision_d.body = '0;
    if (SkipsIdle && !valid_q[1]) begin
      decision_d.mask = '0;
    end else if (request_q[1].headers.is_v6) begin
      decision_d.mask[V6Shift/2+:(VlanBytes+RootBytes)/2] = mask_q;
      decision_d.body[8*V6Shift+:8*(VlanBytes+RootBytes)] = body_q;
    end else begin
      decision_d.mask[(VlanBytes+RootBytes)/2-1:0] = mask_q;
      decision_d.body[8*(VlanBytes+RootBytes)-1:0] = body_q;
    end
    decision_d.verdict = VerdictForward;
    counts_d = 1'b1;
    counter_d = SpvCounterForwardedNative;
    case (request_q[1].outcome)
      OutcomeHit: begin
        decision_d.verdict = VerdictReply;
        counter_d = SpvCounterHits;
      end
      OutcomeMiss: counter_d = SpvCounterMisses;
      OutcomeNotLeased: counter_d = SpvCounterNotLeased;
      OutcomeHost: counter_d = SpvCounterForwardedNative;
      OutcomeDrop: begin
        decision_d.verdict = VerdictDrop;
        counts_d = 1'b0;
      end
      default: counts_d = 1'b0;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= '0;
    else valid_q <= {valid_q[1:0], valid_i};
  end

  always_ff @(posedge clk_i) begin
    if (!SkipsIdle || valid_q[1]) begin
      decision_o <= decision_d;
      reason_q <= request_q[1].reason;
      counts_o <= counts_d;
      counter_o <= counter_d;
    end
  end

  assign valid_o  = valid_q[2];
  assign reason_o = reason_q;

endmodule
