// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_roots, at full width: a request with another outcome passes unchanged. A `roots` request is a hit
// exactly if it is open to an answer, all items since the first one of its frame have zeros after their TXIDs and are
// in the table, and the epoch was the same in each cycle from the look-up of the first item on. Otherwise the first
// item without an answer decides between host and miss, and a request that is not open is not leased whatever its items
// are. The sum is that of the earlier items of the frame, and only a hit is kept.
//
// Assumed: a `roots` request comes with its first item, or after it. The number of items of a frame is at most 16.

module ls_spv_roots_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
(
    input logic clk_i,

    input logic [7:0] epoch_i,
    input item_t item_i,
    input logic [15:0] root_sum_i,
    input logic [15:0] hash_sum_i,
    input logic is_hit_i,
    input logic is_open_i,
    input logic is_same_epoch_i,
    input logic valid_i,
    input request_t request_i
);

  request_t request;
  logic is_roots, is_kept;
  logic [ItemsSumBits-1:0] items_sum;

  assign is_roots = request_i.outcome == OutcomeRoots;

  ls_spv_roots u_dut (
      .clk_i,
      .epoch_i,
      .item_i,
      .root_sum_i,
      .hash_sum_i,
      .is_hit_i,
      .is_open_i,
      .is_same_epoch_i,
      .valid_i,
      .request_i,
      .is_roots_i(is_roots),
      .request_o(request),
      .is_kept_o(is_kept),
      .items_sum_o(items_sum)
  );

  // ---- the items since the first one of the frame ----

  logic has_first_q = 1'b0;
  logic is_new;
  logic [4:0] items_q;
  logic [15:0] clean_q, found_q;  // by item
  logic [23:0] sum_q;
  logic [7:0] epoch_q, first_epoch_q;  // of the cycle before; when the first item was looked up
  logic was_same_q, was_moved_q;  // the epoch had another value in a cycle since then

  assign is_new = item_i.valid && item_i.is_first;

  logic [4:0] items;
  logic [15:0] clean, found;
  logic was_same, is_moved;
  always_comb begin
    items = is_new ? '0 : items_q;
    clean = is_new ? '0 : clean_q;
    found = is_new ? '0 : found_q;
    if (item_i.valid) begin
      clean[items[3:0]] = item_i.is_clean;
      found[items[3:0]] = is_hit_i;
      items = items + 1'b1;
    end
    was_same = is_new ? is_same_epoch_i : was_same_q;
    is_moved = epoch_i != (is_new ? epoch_q : first_epoch_q) || (!is_new && was_moved_q);
  end

  always_ff @(posedge clk_i) begin
    has_first_q <= has_first_q || is_new;
    epoch_q <= epoch_i;
    items_q <= items;
    clean_q <= clean;
    found_q <= found;
    was_same_q <= was_same;
    was_moved_q <= is_moved;
    if (is_new) first_epoch_q <= epoch_q;
    if (item_i.valid) sum_q <= (is_new ? 24'd0 : sum_q) + 24'(root_sum_i) + 24'(hash_sum_i) + 24'd1;
  end

  // First item that has no answer.
  outcome_e expected;
  always_comb begin
    expected = OutcomeHit;
    for (int i = 15; i >= 0; i--) begin
      if (5'(i) < items && !found[i]) expected = OutcomeMiss;
      if (5'(i) < items && !clean[i]) expected = OutcomeHost;
    end
    if (expected == OutcomeHit && (!was_same || is_moved)) expected = OutcomeNotLeased;
    if (!is_open_i) expected = OutcomeNotLeased;
  end

  // The first fault among the items of before this cycle, in the words of the module.
  logic [1:0] expected_fault;
  always_comb begin
    expected_fault = 2'd0;
    for (int i = 15; i >= 0; i--) begin
      if (5'(i) < items_q && !found_q[i]) expected_fault = 2'd1;
      if (5'(i) < items_q && !clean_q[i]) expected_fault = 2'd2;
    end
  end

  request_t unchanged;
  always_comb begin
    unchanged = request;
    unchanged.outcome = request_i.outcome;
    if (!has_first_q) assume (item_i.is_first);
    assume (is_new || !item_i.valid || items_q < 5'd16);
    if (request_i.outcome == OutcomeRoots && valid_i) assume (has_first_q || is_new);
    assert (unchanged == request_i);
    assert (is_kept == (valid_i && is_roots && request.outcome == OutcomeHit));
    if (!is_roots) assert (request.outcome == request_i.outcome);
    if (is_new) assert (items_sum == '0);
    // For the induction.
    if (has_first_q) begin
      assert (items_q <= 5'd16);
      assert (u_dut.epoch_q == epoch_q && u_dut.is_steady_q == (was_same_q && !was_moved_q));
      assert (was_moved_q || first_epoch_q == epoch_q);
      assert (21'(sum_q) == u_dut.sum_q && sum_q <= 24'(items_q) * 24'd131071);
      assert (u_dut.fault_q == expected_fault);
      if (!is_new) assert (24'(items_sum) == sum_q || items_q == 5'd16);
    end
    if (has_first_q || is_new) begin
      if (is_roots) assert (request.outcome == expected);
    end
  end

endmodule
