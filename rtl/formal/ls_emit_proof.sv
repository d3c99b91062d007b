// SPDX-License-Identifier: Apache-2.0
//
// Proof of the flow of ls_emit, at full width; ls_emit_bytes_proof shows what the bytes are.
// - Each beat leaves exactly once, in order, by the output of its frame's verdict, with the same tlast and tkeep, and a
//   forwarded one unchanged. Of a dropped frame nothing leaves. Each frame passes exactly once, in order, with its
//   verdict. The proof follows one beat, which mark_i chooses freely.
// - Both outputs are stable until they are taken.
// - While both sinks take beats, no beat waits for its acceptance, and a beat leaves in each cycle while there is one.
//
// Assumed: a decision is stable until it is taken; verdicts are among the three of verdict_e.

module ls_emit_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic mark_i,
    input logic decision_valid_i,
    input decision_t decision_i,
    input logic frame_valid_i,
    input beat_t frame_i,
    input logic network_ready_i,
    input logic host_ready_i
);

  logic decision_ready, frame_ready, network_valid, host_valid, passed;
  beat_t network, host;
  verdict_e passed_verdict;

  ls_emit u_dut (
      .clk_i,
      .rst_ni,
      .decision_valid_i,
      .decision_ready_o(decision_ready),
      .decision_i,
      .frame_valid_i,
      .frame_ready_o(frame_ready),
      .frame_i,
      .network_valid_o(network_valid),
      .network_ready_i,
      .network_o(network),
      .host_valid_o(host_valid),
      .host_ready_i,
      .host_o(host),
      .frame_passed_o(passed),
      .passed_verdict_o(passed_verdict)
  );

  // ---- events ----

  logic is_first_q = 1'b1;
  logic take, network_pop, host_pop, drop_pop, pop;

  // A beat that will leave, or the end of a dropped frame.
  assign take = frame_ready && (decision_i.verdict != VerdictDrop || frame_i.last);
  assign network_pop = network_valid && network_ready_i;
  assign host_pop = host_valid && host_ready_i;
  assign drop_pop = passed && passed_verdict == VerdictDrop;
  assign pop = network_pop || host_pop || drop_pop;

  logic network_waited_q, host_waited_q, decision_waited_q, sinks_were_ready_q;
  beat_t network_q, host_q;
  decision_t waiting_decision_q;
  logic [1:0] held_q;  // beats taken that have not left

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    network_waited_q <= rst_ni && network_valid && !network_ready_i;
    host_waited_q <= rst_ni && host_valid && !host_ready_i;
    decision_waited_q <= rst_ni && decision_valid_i && !decision_ready;
    sinks_were_ready_q <= network_ready_i && host_ready_i;
    network_q <= network;
    host_q <= host;
    waiting_decision_q <= decision_i;
    held_q <= rst_ni ? held_q + 2'(take) - 2'(pop) : 2'd0;
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    assume (decision_i.verdict inside {VerdictForward, VerdictReply, VerdictDrop});
    if (!is_first_q && decision_waited_q) assume (decision_valid_i && decision_i == waiting_decision_q);
  end

  always_comb begin
    if (!is_first_q && rst_ni) begin
      if (network_waited_q) assert (network_valid && network == network_q);
      if (host_waited_q) assert (host_valid && host == host_q);
      assert (!(network_valid && host_valid));
      // A decision is taken with the last beat of a frame, and no beat without a decision.
      assert (decision_ready == (frame_ready && frame_i.last));
      if (frame_ready) assert (frame_valid_i && decision_valid_i);
      if (take && decision_i.verdict == VerdictForward) assert (u_dut.joined.beat == frame_i);
      // Each frame passes with its last beat.
      if (network_pop) assert (passed == network.last && passed_verdict == VerdictReply);
      if (host_pop) assert (passed == host.last && passed_verdict == VerdictForward);
      if (!network_pop && !host_pop && passed) assert (passed_verdict == VerdictDrop);
      // No loss, and no beat that was not taken.
      assert (held_q != 2'd3);
      if (held_q == 0) assert (!pop && !network_valid && !host_valid);
      // Liveness.
      if (frame_valid_i && decision_valid_i && sinks_were_ready_q) assert (frame_ready);
      if (held_q != 0 && network_ready_i && host_ready_i) assert (pop);
    end
  end

  // ---- one beat ----

  logic [2:0] index_q;  // beats of this frame so far, at most 4
  logic is_marked_q;
  logic [1:0] ahead_q;  // beats ahead
  beat_t marked_q, seen;
  verdict_e verdict_q;
  assign seen = ahead_q == 0 ? u_dut.u_skid.data_q.beat : u_dut.u_skid.spare_q.beat;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_marked_q <= 1'b0;
      index_q <= '0;
    end else begin
      if (frame_ready) index_q <= frame_i.last ? 3'd0 : (index_q == 3'd4 ? 3'd4 : index_q + 3'd1);
      if (take && mark_i && !is_marked_q) begin
        is_marked_q <= 1'b1;
        ahead_q <= held_q - 2'(pop);
        marked_q <= '{last: frame_i.last, keep: frame_i.keep, data: u_dut.joined.beat.data};
        verdict_q <= decision_i.verdict;
      end else if (is_marked_q && pop) begin
        if (ahead_q == 0) is_marked_q <= 1'b0;
        ahead_q <= ahead_q - 1'b1;
      end
    end
  end

  always_comb begin
    if (!is_first_q && rst_ni && is_marked_q) begin
      assert (ahead_q < held_q && seen == marked_q);
      if (ahead_q == 0) begin
        assert (network_valid == (verdict_q == VerdictReply));
        assert (host_valid == (verdict_q == VerdictForward));
        if (verdict_q == VerdictDrop) assert (drop_pop);
        if (network_valid) assert (network == marked_q);
        if (host_valid) assert (host == marked_q);
      end
    end
  end

  // Relations that make the induction possible.
  always_comb begin
    if (!is_first_q && rst_ni) begin
      assert (held_q == 2'(u_dut.u_skid.valid_q) + 2'(u_dut.u_skid.spare_valid_q));
      assert (u_dut.u_skid.valid_q || !u_dut.u_skid.spare_valid_q);
      assert (index_q == u_dut.beat_index_q);
      if (u_dut.u_skid.valid_q) assert (u_dut.u_skid.data_q.verdict inside {VerdictForward, VerdictReply, VerdictDrop});
      if (u_dut.u_skid.valid_q && u_dut.u_skid.data_q.verdict == VerdictDrop) assert (u_dut.u_skid.data_q.beat.last);
      if (u_dut.u_skid.spare_valid_q) begin
        assert (u_dut.u_skid.spare_q.verdict inside {VerdictForward, VerdictReply, VerdictDrop});
        if (u_dut.u_skid.spare_q.verdict == VerdictDrop) assert (u_dut.u_skid.spare_q.beat.last);
      end
      if (is_marked_q) begin
        assert ((ahead_q == 0 ? u_dut.u_skid.data_q.verdict : u_dut.u_skid.spare_q.verdict) == verdict_q);
        if (verdict_q == VerdictDrop) assert (marked_q.last);
      end
    end
  end

endmodule
