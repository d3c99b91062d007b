// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_spv_patch from its queue of answers to its output, for any pauses and any number of frames: the patches
// of a reply are one for each beat, from the second one to that with the end of the last item, in order; none is lost,
// doubled or made up. The mask of a patch names exactly the 16-bit words that belong to items; each of them is that of
// its answer; and is_end is 1 in the last patch of a frame alone. The proof follows one patch, which mark_i chooses
// freely. The answers are used in the order of the queue, each once. A patch stays until it is taken.
// The proof of the queue is ls_spv_patch_answers_proof; that of how frames take patches is ls_emit_proof.
//
// When the output was taken for three cycles, a patch is made in each cycle in which no answer is needed or the answer
// is there. A patch that was made is at the output after at most two cycles without one.
//
// Narrow: of the words of items, the lowest bit of each byte is compared. All else is at full width.
//
// The reference counts the bytes from the beginning of a beat to the end of the last item that it took: the items begin
// 56 bytes after the beginning of the payload, as in xdp/root.h, each has 72 bytes, and a beat has 64.
//
// Assumed, as ls_spv_patch_answers_proof shows: the headers of an answer's frame have one of the four lengths; and
// after an answer that is not the last one of its frame, the next one is there without a pause. The module relies on
// that: where it needs the next answer, it overwrites the one before, whether the next one is there or not.

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

    input logic mark_i,
    input logic patch_ready_i
);

  localparam int unsigned Words = BeatBytes / 2;

  logic patch_valid;
  patch_t patch;

  ls_spv_patch #(
      .Depth(4)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .item_i,
      .block_i,
      .keep_i,
      .patch_valid_o(patch_valid),
      .patch_ready_i,
      .patch_o(patch)
  );

  // ---- patches, from the answers that leave the queue ----

  typedef struct packed {
    logic is_end;
    logic [Words-1:0] mask;
    logic [BeatBytes-1:0] data;  // lowest bit of each byte
  } expected_t;

  function automatic logic [71:0] lowest(input logic [8*72-1:0] bytes);
    for (int unsigned at = 0; at < 72; at++) lowest[at] = bytes[8*at];
  endfunction

  // An answer was taken for the frame, and which was the last of them.
  logic has_item_q;
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
  assign makes_patch = u_dut.makes_patch;
  assign end_at = has_item_q ? end_q : $signed({3'd0, u_dut.answer.head});

  // The last item that was taken, and behind it the next one: bytes, and which of them are bytes of items.
  logic [143:0] bytes, is_item;
  logic [7:0] first_byte;  // of the beat
  always_comb begin
    first_byte = 8'(10'sd72 - end_at);
    bytes = {item, item_q} >> first_byte;
    is_item = {{72{!has_item_q || !is_last_q}}, {72{has_item_q}}} >> first_byte;
    expected.data = bytes[BeatBytes-1:0];
    for (int unsigned word = 0; word < Words; word++) expected.mask[word] = is_item[2*word];
    // The last item that was taken is the last one of the frame, and ends in this beat.
    expected.is_end = has_item_q && is_last_q && end_at <= 10'sd64;
  end

  // The answer that is needed begins in the beat.
  logic needs_answer;
  assign needs_answer = !has_item_q || (!is_last_q && end_q < 10'sd64);

  always_ff @(posedge clk_i) begin
    if (!rst_ni || (makes_patch && expected.is_end)) begin
      has_item_q <= 1'b0;
    end else if (makes_patch) begin
      end_q <= end_at + (takes_answer ? 10'sd72 : 10'sd0) - 10'sd64;
      if (takes_answer) begin
        has_item_q <= 1'b1;
        item_q <= item;
        is_last_q <= is_last;
      end
    end
  end

  // ---- events ----

  logic is_start_q = 1'b1;
  logic pop, was_waiting_q;
  patch_t was_patch_q;
  logic [2:0] was_ready_q;  // in the last three cycles
  logic [3:0] held_q, earlier_held_q;  // patches that were made and have not left, at most eight; one cycle ago
  logic [1:0] idle_q;  // cycles in which a patch was held and none was at the output
  assign pop = patch_valid && patch_ready_i;

  always_ff @(posedge clk_i) begin
    is_start_q <= 1'b0;
    was_waiting_q <= rst_ni && patch_valid && !patch_ready_i;
    was_patch_q <= patch;
    was_ready_q <= rst_ni ? {was_ready_q[1:0], patch_ready_i} : 3'd0;
    held_q <= rst_ni ? held_q + 4'(makes_patch) - 4'(pop) : 4'd0;
    earlier_held_q <= rst_ni ? held_q : 4'd0;
    idle_q <= !rst_ni || patch_valid || held_q == 0 ? 2'd0 : idle_q + 2'd1;
  end

  // ---- one patch ----

  // Patches in the order in which they leave: in the queue at the output, and before that.
  logic [3:0] in_queue, before_fine;
  assign in_queue = u_dut.u_patches.count_q;
  assign before_fine = in_queue + 4'(u_dut.patch_valid_q);

  logic is_marked_q;
  logic [3:0] ahead_q;  // patches ahead of the marked one
  expected_t marked_q;
  patch_t seen;  // the marked patch, where it waits
  always_comb begin
    if (ahead_q < in_queue) seen = u_dut.u_patches.memory[3'(u_dut.u_patches.read_q+ahead_q[2:0])];
    else if (ahead_q < before_fine) seen = u_dut.patch_q;
    else seen = u_dut.patch;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      is_marked_q <= 1'b0;
    end else if (makes_patch && mark_i && !is_marked_q) begin
      is_marked_q <= 1'b1;
      ahead_q <= held_q - 4'(pop);
      marked_q <= expected;
    end else if (is_marked_q && pop) begin
      if (ahead_q == 0) is_marked_q <= 1'b0;
      ahead_q <= ahead_q - 1'b1;
    end
  end

  // Returns 1 if the patch is the expected one, as far as they are compared.
  function automatic logic is_same(input patch_t one, input expected_t other);
    is_same = one.is_end == other.is_end && one.mask == other.mask;
    for (int unsigned at = 0; at < BeatBytes; at++) begin
      if (other.mask[at/2] && one.data[8*at] != other.data[at]) is_same = 1'b0;
    end
  endfunction

  always_comb begin
    assume (rst_ni == !is_start_q);
    if (!is_start_q) begin
      if (u_dut.answer_valid) assume (u_dut.answer.head inside {7'd34, 7'd38, 7'd54, 7'd58});
      if (has_item_q && !is_last_q) assume (u_dut.answer_valid);

      if (is_marked_q && ahead_q == 0 && patch_valid) assert (is_same(patch, marked_q));
      if (was_waiting_q) assert (patch_valid && patch == was_patch_q);
      // No patch that was not made; and one that was made is still there.
      if (held_q == 0) assert (!patch_valid);
      if (is_marked_q) assert (ahead_q < held_q);
      // Each answer is used once, for the patch of the beat in which it begins.
      assert (takes_answer == (makes_patch && needs_answer));
      if (makes_patch && needs_answer) assert (u_dut.answer_valid);
      // Liveness.
      if (&was_ready_q) assert (makes_patch == (!needs_answer || u_dut.answer_valid));
      assert (idle_q < 2'd3);

      // For the induction: state of the module.
      assert (u_dut.is_inside_q == has_item_q);
      if (has_item_q) begin
        assert (u_dut.current_q.is_last == is_last_q);
        assert (lowest({32'd0, u_dut.current_q.height, u_dut.current_q.hash, u_dut.current_q.root}) == item_q);
        assert (10'(u_dut.tail_q) == end_q && u_dut.tail_q < 7'd72);
        assert (u_dut.tail_q[2:0] == 3'd2 || u_dut.tail_q[2:0] == 3'd6);
        assert (u_dut.place_q == 3'd1 << ((4'd8 - u_dut.tail_q[6:3]) / 4));
      end
      assert (u_dut.needs_answer_q == needs_answer);
      // Where the patches are, and the marked one among them.
      assert (held_q == before_fine + 4'(u_dut.coarse_valid_q) && held_q <= 4'd8);
      assert (u_dut.held_q == held_q);
      assert (u_dut.has_room_q == (earlier_held_q < 4'd7));
      assert (held_q <= earlier_held_q + 4'd1);
      if (was_ready_q[0]) assert (held_q <= 4'd7 && (held_q <= earlier_held_q || held_q < 4'd4));
      if (&was_ready_q[1:0]) assert (held_q <= 4'd6);
      if (&was_ready_q) assert (earlier_held_q <= 4'd6);
      if (idle_q == 2'd1) assert (u_dut.patch_valid_q || patch_valid);
      if (idle_q == 2'd2) assert (patch_valid);
      if (is_marked_q) assert (is_same(seen, marked_q));
      // u_patches, as in the proof of ls_fifo.
      assert (in_queue <= 4'd8);
      assert (3'(u_dut.u_patches.count_q) == 3'(u_dut.u_patches.write_q - u_dut.u_patches.read_q));
      assert (u_dut.u_patches.ready_q == (in_queue != 4'd8) && u_dut.u_patches.valid_q == (in_queue != 4'd0));
    end
  end

endmodule
