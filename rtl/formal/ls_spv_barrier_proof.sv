// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_barrier in ls_spv_commands without External: a barrier completes once, with its index, not before all
// frames have passed that were accepted before it; no command is taken meanwhile. Frames that are accepted later than
// three cycles after the barrier do not delay it: it completes at most three cycles after all earlier ones have passed.
//
// Assumed: accepted_i and passed_i rise by at most one in a cycle, are 0 after a reset, and never differ by more than
// 1,000 frames; passed_i is never ahead of accepted_i.

module ls_spv_barrier_proof
  import ls_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic valid_i,
    input command_t command_i,
    input logic [15:0] accepted_i,
    input logic [15:0] passed_i
);

  logic ready;
  logic [31:0] barrier;

  ls_spv_commands #(
      .LineBits (3),
      .BlockBits(1)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .s_command_valid_i(valid_i),
      .s_command_ready_o(ready),
      .s_command_i(command_i),
      .accepted_i,
      .passed_i,
      .barrier_o(barrier),
      .line_ready_i(1'b0),
      .lines_done_i(1'b0),
      .endpoint_o(),
      .control_o(),
      .line_write_o(),
      .line_index_o(),
      .line_generation_o(),
      .line_block_o(),
      .line_txid_o(),
      .block_write_o(),
      .block_index_o(),
      .block_o()
  );

  logic is_first_q = 1'b1;
  logic was_reset_q, take;
  logic [15:0] accepted_q, passed_q;
  assign take = valid_i && ready && command_i.op == CommandBarrier;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_reset_q <= !rst_ni;
    accepted_q <= accepted_i;
    passed_q <= passed_i;
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q) begin
      if (was_reset_q) assume (accepted_i == '0 && passed_i == '0);
      else begin
        assume (accepted_i == accepted_q || accepted_i == accepted_q + 16'd1);
        assume (passed_i == passed_q || passed_i == passed_q + 16'd1);
      end
      assume (16'(accepted_i - passed_i) <= 16'd1000);
    end
  end

  // A barrier was taken and is not complete; it was taken in the last cycle, in the one before, or in that before.
  logic is_open_q, is_taken_q, is_set_q, is_late_q;
  logic [31:0] index_q, barrier_q;
  // Frames that were accepted before the barrier, or until three cycles after it, and have not passed.
  logic [15:0] ahead, ahead_q, late, late_q;
  logic [1:0] waited_q;  // cycles in which no frame of `late` was left
  logic has_passed;

  assign has_passed = passed_i != passed_q;
  assign ahead = ahead_q - 16'(has_passed && ahead_q != 0);
  assign late = is_late_q ? accepted_i - passed_i : late_q - 16'(has_passed && late_q != 0);

  always_ff @(posedge clk_i) begin
    barrier_q <= barrier;
    if (!rst_ni) begin
      is_open_q <= 1'b0;
      is_taken_q <= 1'b0;
      is_set_q <= 1'b0;
      is_late_q <= 1'b0;
      waited_q  <= '0;
    end else begin
      is_taken_q <= take;
      is_set_q <= is_taken_q;
      is_late_q <= is_set_q;
      ahead_q <= ahead;
      late_q <= late;
      if (take) begin
        is_open_q <= 1'b1;
        index_q <= command_i.index;
        ahead_q <= accepted_i - passed_i;
        waited_q <= '0;
      end else begin
        if (ready) is_open_q <= 1'b0;
        if (is_open_q && !is_taken_q && !is_set_q && late == 0) waited_q <= waited_q + 2'd1;
      end
    end
  end

  always_comb begin
    if (!is_first_q && !was_reset_q) begin
      if (!is_open_q) assert (ready);
      // The barrier output changes only when a barrier completes; then commands are taken again.
      if (is_open_q && ready) assert (ahead_q == 0 && barrier == index_q);
      else assert (barrier == barrier_q);
      assert (!is_open_q || ready || waited_q < 2'd3);
    end
  end

  // Relations that make the induction possible.
  logic [15:0] difference;
  assign difference = u_dut.u_barrier.at_q - passed_i;
  always_comb begin
    if (!is_first_q && was_reset_q) assert (!ready && barrier == '0 && !is_open_q);
    if (!is_first_q && !was_reset_q) begin
      assert (u_dut.kind_q.is_barrier == (u_dut.command_q.op == CommandBarrier));
      assert (is_taken_q == (u_dut.valid_q && u_dut.kind_q.is_barrier) && is_set_q == u_dut.select_q.barrier);
      assert (is_late_q == u_dut.u_barrier.is_set_q && (!is_late_q || u_dut.barrier_pending));
      assert (2'(u_dut.barrier_pending) + 2'(is_taken_q) + 2'(is_set_q) == 2'(is_open_q && !ready));
      if (is_open_q && !ready && !is_taken_q && !is_set_q) assert (ahead <= late && late <= 16'd1000);
      if (is_taken_q || is_set_q) assert (ahead <= accepted_i - passed_i && waited_q == 0);
      if (is_taken_q) assert (u_dut.command_q.index == index_q);
      if (!u_dut.barrier_pending) assert (!u_dut.u_barrier.has_passed_q);
      if (is_set_q) assert (u_dut.selected_q.index == index_q);
      if (u_dut.barrier_pending) assert (u_dut.u_barrier.index_q == index_q);
      if (is_late_q) assert (waited_q == 0 && !u_dut.u_barrier.has_passed_q);
      if (u_dut.barrier_pending && !is_late_q) begin
        assert (late == (difference[15] ? 16'd0 : difference));
        if (u_dut.u_barrier.has_passed_q) begin
          assert (ahead_q == 0 && late == 0 && waited_q <= 2'd2 && (difference == 0 || difference >= 16'hfffe));
        end else begin
          assert (waited_q <= 2'd1 && (difference <= 16'd1000 || difference == 16'hffff));
        end
        assert (late == 0 || waited_q == 0);
      end
    end
  end

endmodule
