// SPDX-License-Identifier: Apache-2.0
//
// Proof of the flow of ls_emit, at full width; ls_emit_bytes_proof shows what the bytes are.
// - Each beat leaves exactly once, in order, by the output of its frame's verdict, with the same tlast and tkeep, and a
//   forwarded one unchanged. Of a dropped frame nothing leaves. Each frame passes exactly once, in order, with its
//   verdict. The proof follows one beat, which mark_i chooses freely.
// - A beat is taken only with a decision and, if the decision is patched and the patch with is_end was not taken yet,
//   with a patch there. Each patch is taken with exactly one beat, from the second beat of such a frame to that of the
//   patch with is_end; the first beat waits for a patch as well, but takes none. The 16-bit words that the mask of the
//   patch names come from the patch, and all others from the frame, before the decision rewrites the beat. A frame
//   whose decision is not patched takes no patch, and none of its words comes from one.
// - Both outputs are stable until they are taken.
// - When both sinks have taken beats for three cycles, no beat waits for anything but its decision and its patch. A
//   beat that was taken is at an output after at most three cycles without one, and leaves if its sink takes it.
//
// Assumed: a decision is stable until it is taken, and so is a patch; verdicts are among the three of verdict_e; only a
// decision with VerdictReply is patched.

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
    input logic patch_valid_i,
    input patch_t patch_i,
    input logic network_ready_i,
    input logic host_ready_i
);

  logic decision_ready, frame_ready, patch_ready, network_valid, host_valid, passed;
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
      .patch_valid_i,
      .patch_ready_o(patch_ready),
      .patch_i,
      .network_valid_o(network_valid),
      .network_ready_i,
      .network_o(network),
      .host_valid_o(host_valid),
      .host_ready_i,
      .host_o(host),
      .frame_passed_o(passed),
      .passed_verdict_o(passed_verdict)
  );

  // As in the module.
  typedef struct packed {
    verdict_e verdict;
    beat_t beat;
  } output_t;

  // ---- events ----

  logic is_first_q = 1'b1;
  logic take, network_pop, host_pop, drop_pop, pop;

  // A beat that will leave, or the end of a dropped frame.
  assign take = frame_ready && (decision_i.verdict != VerdictDrop || frame_i.last);
  assign network_pop = network_valid && network_ready_i;
  assign host_pop = host_valid && host_ready_i;
  assign drop_pop = passed && passed_verdict == VerdictDrop;
  assign pop = network_pop || host_pop || drop_pop;

  // The first beat of the frame was taken; so was the last patch of the frame.
  logic is_begun_q, is_done_q;
  logic needs_patch, takes_patch;
  assign needs_patch = decision_i.is_patched && !is_done_q;
  assign takes_patch = frame_ready && needs_patch && is_begun_q;

  // The beat that comes, with its patch.
  logic [BeatBits-1:0] patched_data;
  always_comb begin
    patched_data = frame_i.data;
    for (int unsigned word = 0; word < BeatBytes / 2; word++) begin
      if (takes_patch && patch_i.mask[word]) patched_data[16*word+:16] = patch_i.data[16*word+:16];
    end
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni || (frame_ready && frame_i.last)) begin
      is_begun_q <= 1'b0;
      is_done_q <= 1'b0;
    end else if (frame_ready) begin
      is_begun_q <= 1'b1;
      if (takes_patch && patch_i.is_end) is_done_q <= 1'b1;
    end
  end

  logic network_waited_q, host_waited_q, decision_waited_q, patch_waited_q;
  logic [2:0] sinks_were_ready_q;  // in the last three cycles
  beat_t network_q, host_q;
  decision_t waiting_decision_q;
  patch_t waiting_patch_q;
  logic [3:0] held_q, earlier_held_q;  // beats taken that have not left, at most eight; one cycle ago
  logic [2:0] idle_q;  // cycles in which a beat was held and none was at an output

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    network_waited_q <= rst_ni && network_valid && !network_ready_i;
    host_waited_q <= rst_ni && host_valid && !host_ready_i;
    decision_waited_q <= rst_ni && decision_valid_i && !decision_ready;
    patch_waited_q <= rst_ni && patch_valid_i && !patch_ready;
    sinks_were_ready_q <= rst_ni ? {sinks_were_ready_q[1:0], network_ready_i && host_ready_i} : 3'd0;
    network_q <= network;
    host_q <= host;
    waiting_decision_q <= decision_i;
    waiting_patch_q <= patch_i;
    held_q <= rst_ni ? held_q + 4'(take) - 4'(pop) : 4'd0;
    earlier_held_q <= rst_ni ? held_q : 4'd0;
    idle_q <= !rst_ni || u_dut.out_valid || held_q == 0 ? 3'd0 : idle_q + 3'd1;
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    assume (decision_i.verdict inside {VerdictForward, VerdictReply, VerdictDrop});
    assume (!decision_i.is_patched || decision_i.verdict == VerdictReply);
    if (!is_first_q && decision_waited_q) assume (decision_valid_i && decision_i == waiting_decision_q);
    if (!is_first_q && patch_waited_q) assume (patch_valid_i && patch_i == waiting_patch_q);
  end

  always_comb begin
    if (!is_first_q && rst_ni) begin
      if (network_waited_q) assert (network_valid && network == network_q);
      if (host_waited_q) assert (host_valid && host == host_q);
      assert (!(network_valid && host_valid));
      // A decision is taken with the last beat of a frame, and no beat without a decision.
      assert ((decision_valid_i && decision_ready) == (frame_ready && frame_i.last));
      if (frame_ready) assert (frame_valid_i && decision_valid_i);
      if (frame_ready && needs_patch) assert (patch_valid_i);
      assert (patch_ready == takes_patch);
      // Each frame passes with its last beat.
      if (network_pop) assert (passed == network.last && passed_verdict == VerdictReply);
      if (host_pop) assert (passed == host.last && passed_verdict == VerdictForward);
      if (!network_pop && !host_pop && passed) assert (passed_verdict == VerdictDrop);
      // No loss, and no beat that was not taken.
      if (held_q == 0) assert (!pop && !network_valid && !host_valid);
      // Liveness.
      if (frame_valid_i && decision_valid_i && (!needs_patch || patch_valid_i) && &sinks_were_ready_q) begin
        assert (frame_ready);
      end
      assert (idle_q < 3'd4);
      if (u_dut.out_valid && network_ready_i && host_ready_i) assert (pop);
    end
  end

  // ---- one beat ----

  // Beats in the order in which they leave: in the queue at the outputs, with their new bytes, with the bytes of their
  // patch, and before those.
  logic [3:0] in_out, before_chosen, before_joined;
  assign in_out = u_dut.u_out.count_q;
  assign before_chosen = in_out + 4'(u_dut.rewritten_valid_q);
  assign before_joined = before_chosen + 4'(u_dut.chosen_valid_q);

  logic [2:0] index_q;  // beats of this frame so far, at most 4; 0 in a dropped frame
  logic [2:0] joined_index_q;  // of the beat that was taken last, in its frame
  logic joined_last_q;
  logic is_marked_q;
  logic [3:0] ahead_q;  // beats ahead
  logic last_q;
  logic [BeatBytes-1:0] keep_q;
  logic [BeatBits-1:0] data_q;  // with the patch; then, of a reply, those that u_dut.rewritten has given it
  logic is_rewritten_q;  // data_q are those at the output
  verdict_e verdict_q;
  // The marked beat, where it waits.
  verdict_e seen_verdict;
  beat_t seen;
  always_comb begin
    if (ahead_q < in_out) begin
      seen = u_dut.u_out.memory[3'(u_dut.u_out.read_q+ahead_q[2:0])].beat;
      seen_verdict = u_dut.u_out.memory[3'(u_dut.u_out.read_q+ahead_q[2:0])].verdict;
    end else if (ahead_q < before_chosen) begin
      seen = u_dut.rewritten_q.beat;
      seen_verdict = u_dut.rewritten_q.verdict;
    end else if (ahead_q < before_joined) begin
      seen = u_dut.chosen_q.beat;
      seen_verdict = u_dut.chosen_q.verdict;
    end else begin
      seen = u_dut.chosen.beat;
      seen_verdict = u_dut.chosen.verdict;
    end
  end

  logic moves;  // the marked beat gets its new bytes
  assign moves = is_marked_q && ahead_q >= before_chosen && ahead_q < before_joined;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_marked_q <= 1'b0;
      index_q <= '0;
    end else begin
      if (frame_ready && frame_i.last) index_q <= 3'd0;
      else if (take && index_q != 3'd4) index_q <= index_q + 3'd1;
      joined_index_q <= index_q;
      joined_last_q <= frame_i.last;
      if (take && mark_i && !is_marked_q) begin
        is_marked_q <= 1'b1;
        ahead_q <= held_q - 4'(pop);
        last_q <= frame_i.last;
        keep_q <= frame_i.keep;
        data_q <= patched_data;
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
      if (ahead_q < before_chosen) assert (is_rewritten_q);
      if (ahead_q == 0 && u_dut.out_valid) begin
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
      assert (held_q == before_joined + 4'(u_dut.joined_valid_q) && held_q <= 4'd8);
      assert (u_dut.held_q == held_q);
      assert (u_dut.has_room_q == (earlier_held_q < 4'd7));
      assert (held_q <= earlier_held_q + 4'd1);
      if (sinks_were_ready_q[0]) assert (held_q <= 4'd7 && (held_q <= earlier_held_q || held_q < 4'd5));
      if (&sinks_were_ready_q[1:0]) assert (held_q <= 4'd6);
      if (&sinks_were_ready_q) assert (earlier_held_q <= 4'd6);
      // u_out, as in its own proof.
      assert (in_out <= 4'd8);
      assert (3'(u_dut.u_out.count_q) == 3'(u_dut.u_out.write_q - u_dut.u_out.read_q));
      assert (u_dut.u_out.ready_q == (in_out != 4'd8) && u_dut.u_out.valid_q == (in_out != 4'd0));
      if (idle_q == 3'd1) assert (u_dut.chosen_valid_q || u_dut.rewritten_valid_q || u_dut.out_valid);
      if (idle_q == 3'd2) assert (u_dut.rewritten_valid_q || u_dut.out_valid);
      if (idle_q == 3'd3) assert (u_dut.out_valid);
      assert (u_dut.is_first_q == !is_begun_q && u_dut.is_done_q == is_done_q);
      assert (index_q <= 3'd4);
      if (u_dut.joined_valid_q) begin
        assert (u_dut.joined_q.beat.last == joined_last_q && joined_index_q <= 3'd4);
        if (joined_last_q) assert (index_q == 3'd0);
        else assert (index_q == (joined_index_q == 3'd4 ? 3'd4 : joined_index_q + 3'd1));
      end
      // The place of a beat in its frame, by which the bytes of the decision are chosen.
      assert (u_dut.place_q == 5'd1 << (u_dut.joined_valid_q ? joined_index_q : index_q));
      for (int unsigned i = 0; i < 8; i++) begin
        if (4'(i) < in_out) assert (is_complete(u_dut.u_out.memory[3'(u_dut.u_out.read_q+i)]));
      end
      if (u_dut.rewritten_valid_q) assert (is_complete(u_dut.rewritten_q));
      if (u_dut.joined_valid_q) begin
        assert (is_complete('{u_dut.joined_q.decision.verdict, u_dut.joined_q.beat}));
        assert (u_dut.joined_q.is_reply == (u_dut.joined_q.decision.verdict == VerdictReply));
        if (!u_dut.joined_q.is_reply) assert (u_dut.joined_q.replies == '0);
      end
      if (u_dut.chosen_valid_q) begin
        assert (has_reason(
            u_dut.chosen_q.verdict,
            u_dut.chosen_q.mask,
            {u_dut.chosen_q.first, u_dut.chosen_q.second, |u_dut.chosen_q.in_header}
        ));
        if (u_dut.chosen_q.verdict == VerdictDrop) assert (u_dut.chosen_q.beat.last);
      end
    end
  end

  // Returns 1 for a valid verdict, of which a drop has only the last beat.
  function automatic logic is_complete(input output_t one);
    return one.verdict == VerdictDrop ? one.beat.last : one.verdict inside {VerdictForward, VerdictReply};
  endfunction

  // Returns 1 for a valid verdict with bytes that change only in a reply.
  function automatic logic has_reason(input verdict_e verdict, input logic [BeatBytes/2-1:0] mask,
                                      input logic [8:0] headers);
    return verdict == VerdictReply ||
           (verdict inside {VerdictForward, VerdictDrop} && mask == '0 && headers == '0);
  endfunction

endmodule
