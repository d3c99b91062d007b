// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_reply: each request gives exactly one decision, in order, after three cycles; a hit is answered, a
// drop is dropped, all else is forwarded; one counter rises as the outcome says.
// - The payload of a reply is at its place after the headers, for each kind of headers: the root, and in the native
//   format block hash, tip hash and both heights. Exactly these words replace those of the request. Of a reply to
//   `roots`, they are the tip hash and its height; the sum of its items, and their number, count for its checksum; and
//   no other decision says that the frame is patched.
// - The hop limit of a reply is at most 64, and in the paper's format, if the root does not look like the native
//   format, less than that of the request, or 0 if that of the request is 0, so that two servers cannot answer each
//   other for ever.
// - The UDP checksum makes the sum of the reply a multiple of 65,535, and is not 0. The IPv4 header checksum of the
//   reply is right if that of the request was.
//
// One task is about requests of one TXID, the other about `roots`; a request passes the module without an effect on
// others. In the task about `roots`, all sums but that of the items have three free bits.
//
// Narrow: in the root 24 bits are free, in each hash 16; the rest is 0. Of requests in the paper's format with hop
// limit 0, ls_classify opens only those whose TXID begins as the native format does, as the XDP program does.

module ls_spv_reply_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
#(
    parameter bit Roots = 1'b0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic valid_i,
    input request_t request_i,
    input logic [23:0] root_i,
    input logic [15:0] hash_i,
    input logic [31:0] height_i,
    input logic [15:0] root_sum_i,
    input logic [15:0] hash_sum_i,
    input logic is_roots_i,
    input logic has_item_i,
    input logic [ItemsSumBits-1:0] items_sum_i,
    input logic [15:0] tip_hash_i,
    input logic [31:0] tip_height_i,
    input logic [15:0] tip_sum_i
);

  typedef struct packed {
    logic valid;
    logic is_roots;
    request_t request;
    logic [255:0] root;
    logic [255:0] hash;
    logic [255:0] tip_hash;
    logic [31:0] height;
    logic [31:0] tip_height;
    logic [21:0] sum;
  } answer_t;

  answer_t now;
  answer_t [3:1] past_q;
  block_t block;
  always_comb begin
    now.valid = rst_ni && valid_i;
    now.is_roots = is_roots_i;
    now.request = request_i;
    now.root = {root_i[23:16], 232'd0, root_i[15:0]};
    now.hash = {hash_i[15:8], 240'd0, hash_i[7:0]};
    now.tip_hash = {tip_hash_i[15:8], 240'd0, tip_hash_i[7:0]};
    now.height = height_i;
    now.tip_height = tip_height_i;
    now.sum = 22'(request_i.headers.partial_sum) + 22'(root_sum_i);
    if (request_i.is_native) begin
      now.sum = now.sum + 22'(request_i.headers.native_sum) + 22'(hash_sum_i) + 22'(tip_sum_i);
    end
    if (is_roots_i) begin
      now.sum = 22'(request_i.headers.partial_sum) + 22'(request_i.headers.native_sum) + 22'(tip_sum_i) +
                22'(items_sum_i);
      if (has_item_i) now.sum = now.sum + 22'(root_sum_i) + 22'(hash_sum_i) + 22'd1;
    end
    block = '0;
    block.height = height_i;
    block.root = now.root;
    block.root_sum = root_sum_i;
    block.hash = now.hash;
    block.hash_sum = hash_sum_i;
  end

  logic valid, counts;
  decision_t decision;
  drop_e reason;
  spv_counter_e counter;

  ls_spv_reply u_dut (
      .clk_i,
      .rst_ni,
      .valid_i,
      .request_i,
      .block_i(block),
      .is_roots_i,
      .has_item_i,
      .items_sum_i,
      .tip_hash_i(now.tip_hash),
      .tip_height_i,
      .tip_sum_i,
      .valid_o(valid),
      .decision_o(decision),
      .reason_o(reason),
      .counts_o(counts),
      .counter_o(counter)
  );

  logic is_first_q = 1'b1;
  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    past_q <= {past_q[2], past_q[1], now};
    if (!rst_ni) for (int unsigned age = 1; age <= 3; age++) past_q[age].valid <= 1'b0;
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    assume (is_roots_i == Roots);
    if (Roots) begin
      assume (request_i.is_native);
      assume ({root_sum_i[15:3], hash_sum_i[15:3], tip_sum_i[15:3]} == '0);
      assume ({request_i.headers.native_sum[15:3], request_i.headers.partial_sum[15:3]} == '0);
    end
    // 15 items have sums of 16 bits.
    assume (items_sum_i <= ItemsSumBits'(15 * (2 * 65535 + 1)));
  end

  answer_t a;
  assign a = past_q[3];

  // The reply from its first payload byte on.
  logic [1151:0] body;
  assign body = 1152'(decision.body) >> ((a.request.headers.is_vlan ? 32 : 0) + (a.request.headers.is_v6 ? 160 : 0));

  // Words of the reply that come from `body`: those after the native header, or the paper's 32 bytes.
  localparam int unsigned Words = BodyBytes / 2;
  logic [Words-1:0] mask, expected_mask;
  assign mask = decision.mask;
  always_comb begin
    expected_mask = Words'({16{1'b1}});
    if (a.request.is_native) expected_mask = Words'({{52{1'b1}}, 8'd0});
    if (a.is_roots) expected_mask = Words'({{18{1'b1}}, 8'd0});
    expected_mask = expected_mask << ((a.request.headers.is_vlan ? 2 : 0) + (a.request.headers.is_v6 ? 10 : 0));
  end

  logic [22:0] udp_total;
  // At most 37 words of 16 bits, of which 16 are 1.
  logic is_multiple;
  always_comb begin
    is_multiple = 1'b0;
    for (int unsigned n = 1; n <= 37; n++) if (udp_total == 23'(65535 * n)) is_multiple = 1'b1;
  end

  logic signed [18:0] ip_change;
  assign udp_total = 23'(a.sum) + 23'(decision.udp_check);
  assign ip_change = 19'({3'd0, decision.ip_check}) + 19'({3'd0, decision.ttl, 8'd17}) -
                     19'({3'd0, a.request.headers.ip_check}) - 19'({3'd0, a.request.headers.ttl, 8'd17});

  always_comb begin
    if (!is_first_q) begin
      assert (valid == a.valid);
      if (valid) begin
        // Patches are for a reply to `roots`, and for nothing else.
        assert (decision.is_patched == (a.is_roots && decision.verdict == VerdictReply));
        assert ((decision.verdict == VerdictReply) == (a.request.outcome == OutcomeHit));
        assert ((decision.verdict == VerdictDrop) == (a.request.outcome == OutcomeDrop));
        assert (decision.verdict inside {VerdictReply, VerdictDrop, VerdictForward});
        assert (reason == a.request.reason);
        assert (counts == (a.request.outcome inside {OutcomeHit, OutcomeMiss, OutcomeNotLeased, OutcomeHost}));
        if (a.request.outcome == OutcomeHit) assert (counter == SpvCounterHits);
        if (a.request.outcome == OutcomeMiss) assert (counter == SpvCounterMisses);
        if (a.request.outcome == OutcomeNotLeased) assert (counter == SpvCounterNotLeased);
        if (a.request.outcome == OutcomeHost) assert (counter == SpvCounterForwardedNative);
      end
      if (valid && decision.verdict == VerdictReply) begin
        assert (decision.is_native == a.request.is_native && decision.is_v6 == a.request.headers.is_v6);
        assert (decision.is_vlan == a.request.headers.is_vlan);
        if (a.is_roots) begin
          assert (body[8*16+:256] == a.tip_hash);
          for (int unsigned i = 0; i < 4; i++) assert (body[8*(48+i)+:8] == a.tip_height[8*(3-i)+:8]);
        end else if (a.request.is_native) begin
          assert (body[8*16+:256] == a.root && body[8*48+:256] == a.hash && body[8*80+:256] == a.tip_hash);
          for (int unsigned i = 0; i < 4; i++) begin
            assert (body[8*(112+i)+:8] == a.height[8*(3-i)+:8]);
            assert (body[8*(116+i)+:8] == a.tip_height[8*(3-i)+:8]);
          end
        end else assert (body[255:0] == a.root);
        assert (mask == expected_mask);
        assert (decision.ttl != '0 || (!a.request.is_native && a.request.headers.ttl <= 8'd1));
        assert (decision.ttl <= 8'd64);
        if (!a.request.is_native && a.root[15:0] != 16'h534c) begin
          if (a.request.headers.ttl == '0) assert (decision.ttl == '0);
          else assert (decision.ttl < a.request.headers.ttl);
        end
        assert (decision.udp_check != '0);
        assert (is_multiple);
        assert (ip_change inside {19'sd0, 19'sd65535, -19'sd65535});
      end
    end
  end

endmodule
