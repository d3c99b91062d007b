// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_patch from its queue of answers to the frames, for any pauses and any number of frames. A beat is
// given out exactly when it is taken in, with its `last` and `keep`; an output that was not taken stays. A frame that
// is no reply to a kept request passes unchanged. In a reply, each 16-bit word of an item is that of its answer, and
// every other word passes unchanged. The answers are used in the order of the queue, each once.
// The proof of the queue is ls_spv_patch_answers_proof.
//
// Narrow: of the words of items, the lowest bit of each byte is compared. All else is at full width.
//
// The reference counts the bytes from the beginning of a beat to the end of the last item that it took: the items begin
// 56 bytes after the beginning of the payload, as in xdp/root.h, each has 72 bytes, and a beat has 64.
//
// No beat passes without a decision, and the decision is taken with the last one. A frame waits for its decision, and
// each beat of a reply to a kept request, up to the end of the items, for a patch; for nothing else.
//
// Assumed: a frame that waits stays the same, and so do the decision about it and the answers; a frame has all bytes of
// its items; the headers of an answer's frame have one of the four lengths, as ls_spv_patch_answers_proof shows.

module ls_spv_patch_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input item_t item_i,
    input block_t block_i,
    input logic keep_i,

    input logic decision_valid_i,
    input logic is_roots_i,

    input logic frame_valid_i,
    input beat_t frame_i,
    input logic frame_ready_i
);

  localparam int unsigned Words = BeatBytes / 2;

  logic decision_ready, frame_ready, frame_valid;
  beat_t frame;

  ls_spv_patch #(
      .Depth(4)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .item_i,
      .block_i,
      .keep_i,
      .decision_valid_i,
      .decision_ready_o(decision_ready),
      .is_roots_i,
      .frame_valid_i,
      .frame_ready_o(frame_ready),
      .frame_i,
      .frame_valid_o(frame_valid),
      .frame_ready_i,
      .frame_o(frame)
  );

  // ---- patches, from the answers that leave the queue ----

  typedef struct packed {
    logic is_end;
    logic [4:0] beat;  // of the frame, modulo 32
    logic [Words-1:0] mask;
    logic [BeatBytes-1:0] data;  // lowest bit of each byte
  } expected_t;

  function automatic logic [71:0] lowest(input logic [8*72-1:0] bytes);
    for (int unsigned at = 0; at < 72; at++) lowest[at] = bytes[8*at];
  endfunction

  // An answer was taken for the frame, and which was the last of them; the beat that the next patch is for.
  logic has_item_q;
  logic [4:0] beat_q;
  logic is_last_q;
  logic [71:0] item_q;

  logic is_last, takes_answer, makes_patch;
  // Bytes from the beginning of the beat to the end of the last item, or of the head before the first item.
  logic signed [9:0] end_q, end_at;
  logic [71:0] item;
  expected_t expected;

  assign is_last = u_dut.answer.is_last;
  assign item = lowest({32'd0, u_dut.answer.height, u_dut.answer.hash, u_dut.answer.root});
  assign takes_answer = u_dut.answer_valid && u_dut.answer_ready;
  assign makes_patch = u_dut.coarse_valid && u_dut.coarse_ready;
  assign end_at = has_item_q ? end_q :
      $signed({3'd0, u_dut.answer.head});

  // The last item that was taken, and behind it the next one: bytes, and which of them are bytes of items.
  logic [143:0] bytes, is_item;
  logic [7:0] first_byte;  // of the beat
  always_comb begin
    first_byte = 8'(10'sd72 - end_at);
    bytes = {item, item_q} >> first_byte;
    is_item = {{72{!has_item_q || !is_last_q}}, {72{has_item_q}}} >> first_byte;
    expected.beat = beat_q;
    expected.data = bytes[BeatBytes-1:0];
    for (int unsigned word = 0; word < Words; word++) expected.mask[word] = is_item[2*word];
    // The last item that was taken is the last one of the frame, and ends in this beat.
    expected.is_end = has_item_q && is_last_q && end_at <= 10'sd64;
  end

  // The answer that is needed begins in the beat.
  logic needs_answer;
  assign needs_answer = !has_item_q || (!is_last_q && end_at < 10'sd64);

  always_ff @(posedge clk_i) begin
    if (!rst_ni || (makes_patch && expected.is_end)) begin
      has_item_q <= 1'b0;
      beat_q <= 5'd1;
    end else if (makes_patch) begin
      beat_q <= beat_q + 1'b1;
      end_q <= end_at + (takes_answer ? 10'sd72 : 10'sd0) - 10'sd64;
      if (takes_answer) begin
        has_item_q <= 1'b1;
        item_q <= item;
        is_last_q <= is_last;
      end
    end
  end

  // ---- patches on the way to the frames, at most three: two in the skid buffer, and one before it ----

  expected_t [2:0] queue_q;
  logic [1:0] waiting_q, in_skid;
  expected_t first_q;
  logic pops;
  assign pops = u_dut.patched_valid && u_dut.patched_ready;
  assign in_skid = 2'(u_dut.u_skid.valid_q) + 2'(u_dut.u_skid.spare_valid_q);
  assign first_q = queue_q[0];

  always_ff @(posedge clk_i) begin
    if (!rst_ni) waiting_q <= '0;
    else waiting_q <= waiting_q + 2'(makes_patch) - 2'(pops);
    for (int unsigned i = 0; i < 3; i++) begin
      if (makes_patch && waiting_q - 2'(pops) == 2'(i)) queue_q[i] <= expected;
      else if (pops && i < 2) queue_q[i] <= queue_q[i+1];
    end
  end

  // ---- frames ----

  logic is_start_q = 1'b1;
  logic is_begun_q, is_done_q;  // the first beat has passed; all items have
  logic [4:0] frame_beat_q;  // modulo 32
  logic was_held_q, was_open_q, was_waiting_q, was_valid_q, is_roots_q, answer_waits_q;
  beat_t was_frame_q, was_in_q;
  logic [8+32+512-1:0] was_answer_q;
  logic takes, is_patched;
  logic [4:0] next_beat;  // beat of the frame that the next patch is for

  assign takes = frame_valid && frame_ready_i;
  assign is_patched = decision_valid_i && is_roots_i && is_begun_q && !is_done_q;
  assign next_beat = is_begun_q && !is_done_q && is_roots_q ? frame_beat_q : 5'd1;

  always_ff @(posedge clk_i) begin
    is_start_q <= 1'b0;
    was_waiting_q <= rst_ni && frame_valid && !frame_ready_i && decision_valid_i;
    was_frame_q <= frame;
    was_valid_q <= rst_ni && frame_valid_i && !frame_ready;
    was_in_q <= frame_i;
    was_open_q <= rst_ni && decision_valid_i && !(takes && frame_i.last);
    is_roots_q <= is_roots_i;
    answer_waits_q <= rst_ni && u_dut.answer_valid && !u_dut.answer_ready;
    was_answer_q <= u_dut.answer;
    if (!rst_ni) begin
      is_begun_q <= 1'b0;
      is_done_q <= 1'b0;
      frame_beat_q <= '0;
    end else if (takes) begin
      is_begun_q <= !frame_i.last;
      is_done_q <= !frame_i.last && (is_done_q || (is_patched && first_q.is_end));
      frame_beat_q <= frame_i.last ? '0 : frame_beat_q + 1'b1;
    end
  end

  // The patches on the way in their order, as far as they are compared.
  expected_t [2:0] found;
  always_comb begin
    for (int unsigned at = 0; at < BeatBytes; at++) begin
      found[0].data[at] = in_skid == 2'd0 ? u_dut.patch.data[8*at] : u_dut.u_skid.data_q.data[8*at];
      found[1].data[at] = in_skid == 2'd1 ? u_dut.patch.data[8*at] : u_dut.u_skid.spare_q.data[8*at];
      found[2].data[at] = u_dut.patch.data[8*at];
    end
    found[0].mask = in_skid == 2'd0 ? u_dut.patch.mask : u_dut.u_skid.data_q.mask;
    found[1].mask = in_skid == 2'd1 ? u_dut.patch.mask : u_dut.u_skid.spare_q.mask;
    found[2].mask = u_dut.patch.mask;
    found[0].is_end = in_skid == 2'd0 ? u_dut.patch.is_end : u_dut.u_skid.data_q.is_end;
    found[1].is_end = in_skid == 2'd1 ? u_dut.patch.is_end : u_dut.u_skid.spare_q.is_end;
    found[2].is_end = u_dut.patch.is_end;
    for (int unsigned i = 0; i < 3; i++) found[i].beat = '0;
  end

  always_comb begin
    assume (rst_ni == !is_start_q);
    if (!is_start_q) begin
      if (was_valid_q) assume (frame_valid_i && frame_i == was_in_q);
      if (was_open_q) assume (decision_valid_i && is_roots_i == is_roots_q);
      if (answer_waits_q) assume (u_dut.answer_valid && u_dut.answer == was_answer_q);
      assume (u_dut.answer.head inside {7'd34, 7'd38, 7'd54, 7'd58});
      assume (!(takes && is_patched && frame_i.last) || first_q.is_end);

      assert ((frame_valid_i && frame_ready) == takes);
      assert (!frame_valid || decision_valid_i);
      assert (decision_ready == (takes && frame_i.last));
      assert (frame.last == frame_i.last && frame.keep == frame_i.keep);
      if (was_waiting_q) assert (frame_valid && frame == was_frame_q);
      for (int unsigned word = 0; word < Words; word++) begin
        if (!is_patched || !first_q.mask[word]) begin
          if (frame_valid) assert (frame.data[16*word+:16] == frame_i.data[16*word+:16]);
        end else if (frame_valid) begin
          assert ({frame.data[16*word+8], frame.data[16*word]} == first_q.data[2*word+:2]);
        end
      end
      // The first beat of a reply waits as well, so that the later ones need not.
      assert (frame_valid == (frame_valid_i && decision_valid_i && (!is_roots_i || is_done_q || in_skid != '0)));
      assert (takes_answer == (makes_patch && needs_answer));
      if (takes && is_patched) assert (waiting_q != '0 && first_q.beat == frame_beat_q);
      assert (pops == (takes && is_patched));

      // For the induction: state of the module.
      assert (u_dut.is_inside_q == has_item_q);
      if (has_item_q) begin
        assert (u_dut.current_q.is_last == is_last_q);
        assert (lowest({32'd0, u_dut.current_q.height, u_dut.current_q.hash, u_dut.current_q.root}) == item_q);
        assert (10'(u_dut.tail_q) == end_q && u_dut.tail_q < 7'd72);
        assert (u_dut.tail_q[2:0] == 3'd2 || u_dut.tail_q[2:0] == 3'd6);
      end else begin
        assert (beat_q == 5'd1);
      end
      assert (u_dut.is_first_q == !is_begun_q && u_dut.is_done_q == is_done_q);
      assert (!is_done_q || is_begun_q);
      assert (!is_begun_q || was_open_q);
      assert (is_begun_q || frame_beat_q == '0);
      assert (u_dut.needs_answer_q == needs_answer);
      assert (waiting_q == in_skid + 2'(u_dut.shifted_valid));
      assert (u_dut.u_skid.valid_q || !u_dut.u_skid.spare_valid_q);
      for (int unsigned i = 0; i < 3; i++) begin
        if (waiting_q > 2'(i)) begin
          assert (found[i].is_end == queue_q[i].is_end && found[i].mask == queue_q[i].mask);
          for (int unsigned word = 0; word < Words; word++) begin
            if (queue_q[i].mask[word]) assert (found[i].data[2*word+:2] == queue_q[i].data[2*word+:2]);
          end
          // Each patch is for the beat after that of the patch before it, or for the second beat of a frame.
          if (i == 0) assert (queue_q[0].beat == next_beat);
          else assert (queue_q[i].beat == (queue_q[i-1].is_end ? 5'd1 : 5'(queue_q[i-1].beat + 1'b1)));
        end
        if (waiting_q == 2'(i + 1)) begin
          assert (beat_q == (queue_q[i].is_end ? 5'd1 : 5'(queue_q[i].beat + 1'b1)));
        end
      end
      if (waiting_q == '0) assert (beat_q == next_beat);
    end
  end

endmodule
