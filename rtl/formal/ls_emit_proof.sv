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
  logic waited_q;  // a beat was there one cycle ago, and is still
  logic [1:0] held_q;  // beats taken that have not left, at most three

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
    waited_q <= rst_ni && held_q != 2'(pop);
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
      // Each frame passes with its last beat.
      if (network_pop) assert (passed == network.last && passed_verdict == VerdictReply);
      if (host_pop) assert (passed == host.last && passed_verdict == VerdictForward);
      if (!network_pop && !host_pop && passed) assert (passed_verdict == VerdictDrop);
      // No loss, and no beat that was not taken.
      if (held_q == 0) assert (!pop && !network_valid && !host_valid);
      // Liveness.
      if (frame_valid_i && decision_valid_i && sinks_were_ready_q) assert (frame_ready);
      if (waited_q && network_ready_i && host_ready_i) assert (pop);
    end
  end

  // ---- one beat ----

  // Beats in the order in which they leave: at the output, and in the skid buffer before the bytes are put in.
  logic [1:0] at_output;
  assign at_output = 2'(u_dut.out_valid);

  logic [2:0] index_q;  // beats of this frame so far, at most 4
  logic is_marked_q;
  logic [1:0] ahead_q;  // beats ahead
  logic last_q;
  logic [BeatBytes-1:0] keep_q;
  logic [BeatBits-1:0] data_q;  // of a forwarded beat; of a reply, those that u_dut.rewritten has given it
  logic is_rewritten_q;  // data_q is known
  verdict_e verdict_q;
  // The marked beat, where it waits.
  verdict_e seen_verdict;
  beat_t seen;
  always_comb begin
    if (ahead_q < at_output) begin
      seen = u_dut.out.beat;
      seen_verdict = u_dut.out.verdict;
    end else if (ahead_q == at_output) begin
      seen = u_dut.u_chosen.data_q.beat;
      seen_verdict = u_dut.u_chosen.data_q.verdict;
    end else begin
      seen = u_dut.u_chosen.spare_q.beat;
      seen_verdict = u_dut.u_chosen.spare_q.verdict;
    end
  end

  logic moves;  // the marked beat goes to the output
  assign moves = is_marked_q && ahead_q == at_output && u_dut.rewritten_ready;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_marked_q <= 1'b0;
      index_q <= '0;
    end else begin
      if (frame_ready) index_q <= frame_i.last ? 3'd0 : (index_q == 3'd4 ? 3'd4 : index_q + 3'd1);
      if (take && mark_i && !is_marked_q) begin
        is_marked_q <= 1'b1;
        ahead_q <= held_q - 2'(pop);
        last_q <= frame_i.last;
        keep_q <= frame_i.keep;
        data_q <= frame_i.data;
        is_rewritten_q <= decision_i.verdict != VerdictReply;
        verdict_q <= decision_i.verdict;
      end else if (is_marked_q && pop) begin
        if (ahead_q == 0) is_marked_q <= 1'b0;
        ahead_q <= ahead_q - 1'b1;
      end
      if (moves && verdict_q == VerdictReply) begin
        data_q <= u_dut.rewritten.beat.data;
        is_rewritten_q <= 1'b1;
      end
    end
  end

  always_comb begin
    if (!is_first_q && rst_ni && is_marked_q) begin
      assert (ahead_q < held_q);
      assert (seen_verdict == verdict_q && seen.last == last_q && seen.keep == keep_q && seen.data == data_q);
      if (verdict_q != VerdictReply) assert (is_rewritten_q);
      if (verdict_q == VerdictDrop) assert (last_q);
      // Bytes of a beat that is no reply stay.
      if (moves && verdict_q != VerdictReply) assert (u_dut.rewritten.beat.data == data_q);
      if (ahead_q < at_output) begin
        assert (is_rewritten_q);
        assert (network_valid == (verdict_q == VerdictReply));
        assert (host_valid == (verdict_q == VerdictForward));
        if (verdict_q == VerdictDrop) assert (drop_pop);
        if (network_valid) assert (network == seen);
        if (host_valid) assert (host == seen);
      end
    end
  end

  // Relations that make the induction possible.
  always_comb begin
    if (!is_first_q && rst_ni) begin
      assert (held_q == at_output + 2'(u_dut.u_chosen.valid_q) + 2'(u_dut.u_chosen.spare_valid_q));
      assert (u_dut.u_chosen.valid_q || !u_dut.u_chosen.spare_valid_q);
      assert (index_q <= 3'd4 && u_dut.place_q == 5'd1 << index_q);
      if (waited_q) assert (u_dut.out_valid);
      // The spare place is used only if a sink has stopped.
      if (u_dut.u_chosen.spare_valid_q) assert (u_dut.out_valid && !sinks_were_ready_q);
      if (u_dut.out_valid) begin
        assert (u_dut.out.verdict inside {VerdictForward, VerdictReply, VerdictDrop});
        if (u_dut.out.verdict == VerdictDrop) assert (u_dut.out.beat.last);
      end
      if (u_dut.u_chosen.valid_q) begin
        assert (has_reason(
            u_dut.u_chosen.data_q.verdict, u_dut.u_chosen.data_q.mask,
            {u_dut.u_chosen.data_q.first, u_dut.u_chosen.data_q.second}
        ));
        if (u_dut.u_chosen.data_q.verdict == VerdictDrop) assert (u_dut.u_chosen.data_q.beat.last);
      end
      if (u_dut.u_chosen.spare_valid_q) begin
        assert (has_reason(
            u_dut.u_chosen.spare_q.verdict, u_dut.u_chosen.spare_q.mask,
            {u_dut.u_chosen.spare_q.first, u_dut.u_chosen.spare_q.second}
        ));
        if (u_dut.u_chosen.spare_q.verdict == VerdictDrop) assert (u_dut.u_chosen.spare_q.beat.last);
      end
    end
  end

  // Returns 1 for a valid verdict with bytes that change only in a reply.
  function automatic logic has_reason(input verdict_e verdict, input logic [BeatBytes/2-1:0] mask,
                                      input logic [7:0] headers);
    return verdict == VerdictReply ||
           (verdict inside {VerdictForward, VerdictDrop} && mask == '0 && headers == '0);
  endfunction

endmodule
