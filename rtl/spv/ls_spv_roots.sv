// SPDX-License-Identifier: Apache-2.0
//
// Decides about a native `roots` request from the look-ups of its items: the RTL twin of spv_native_roots in
// xdp/spv_native.h. The first item that has no answer decides: the host answers a request with an item that has other
// bytes than zeros after its TXID; the request is a miss if a TXID is not in the table. Lease and epoch must hold, and
// the epoch must not change from the beginning of the first look-up to the decision.
//
// Interface: what ls_spv_lookup gives out in one cycle belongs to the item of item_i, and to the request of request_i
// if valid_i is 1. The items of a request come before it, the last one in the same cycle at the latest. A request with
// another outcome than OutcomeRoots passes unchanged. items_sum_o is the sum of the answers of the earlier items of
// the frame: of roots, block hashes and heights, and the number of these items.
// Latency: none.

module ls_spv_roots
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
(
    input logic clk_i,

    input logic [7:0] epoch_i,  // low bits

    input item_t item_i,
    input logic [15:0] root_sum_i,
    input logic [15:0] hash_sum_i,
    input logic is_hit_i,
    input logic is_open_i,
    input logic is_same_epoch_i,

    input logic valid_i,
    input request_t request_i,
    input logic is_roots_i,  // the items of the request decide

    output request_t request_o,
    output logic is_kept_o,  // the answers of the frame's items become a reply
    output logic [ItemsSumBits-1:0] items_sum_o
);

  typedef enum logic [1:0] {
    FaultNone = 2'd0,
    FaultMiss = 2'd1,
    FaultHost = 2'd2
  } fault_e;

  logic is_new;
  fault_e fault_d, fault_q;
  logic is_steady_d, is_steady_q;
  logic [7:0] epoch_q;
  logic [ItemsSumBits-1:0] sum_q;

  assign is_new = item_i.valid && item_i.is_first;
  assign items_sum_o = is_new ? '0 : sum_q;
  // The look-up of the first item compares the epochs of its beginning and of its end; from then on, each cycle does.
  assign is_steady_d = (is_new ? is_same_epoch_i : is_steady_q) && epoch_i == epoch_q;

  always_comb begin
    fault_d = is_new ? FaultNone : fault_q;
    if (item_i.valid && fault_d == FaultNone) begin
      if (!item_i.is_clean) fault_d = FaultHost;
      else if (!is_hit_i) fault_d = FaultMiss;
    end
  end

  always_ff @(posedge clk_i) begin
    epoch_q <= epoch_i;
    fault_q <= fault_d;
    is_steady_q <= is_steady_d;
    sum_q <= items_sum_o;
    if (item_i.valid) begin
      sum_q <= items_sum_o + ItemsSumBits'(root_sum_i) + ItemsSumBits'(hash_sum_i) + 1'b1;
    end
  end

  always_comb begin
    request_o = request_i;
    if (is_roots_i) begin
      if (!is_open_i) request_o.outcome = OutcomeNotLeased;
      else if (fault_d == FaultHost) request_o.outcome = OutcomeHost;
      else if (fault_d == FaultMiss) request_o.outcome = OutcomeMiss;
      else if (!is_steady_d) request_o.outcome = OutcomeNotLeased;
      else request_o.outcome = OutcomeHit;
    end
  end

  assign is_kept_o = valid_i && is_roots_i && request_o.outcome == OutcomeHit;

endmodule
