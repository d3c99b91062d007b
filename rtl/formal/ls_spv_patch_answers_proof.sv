// SPDX-License-Identifier: Apache-2.0
//
// Proof of the queue of answers in ls_spv_patch, with a RAM of 4 answers: of the answers that were kept,
// none is lost, doubled, reordered or changed, and an answer that was not kept is never used. The proof follows one
// answer, which mark_i chooses freely. A kept answer is at the output of the queue after at most five cycles without
// one. After an answer that is not the last one of its frame, the next one is in the register behind the queue without a
// pause, whatever pauses there are at the output.
//
// Assumed: the RAM has a place for each answer that is stored; answers are kept only when the last one of their frame
// was stored or comes in the same cycle.
//
// Narrow: the flag and the head of an answer are compared, and the lowest bit of its height, its block hash and its
// root.

module ls_spv_patch_answers_proof
  import ls_pkg::*;
  import ls_pipeline_pkg::*;
  import ls_spv_pkg::*;
(
    input logic clk_i,
    input logic rst_ni,

    input logic mark_i,
    input item_t item_i,
    input block_t block_i,
    input logic keep_i,

    input logic patch_ready_i
);

  localparam int unsigned Depth = 4;
  localparam int unsigned CountBits = 8;
  typedef logic [CountBits-1:0] count_t;
  typedef logic [10:0] data_t;

  // Of an answer, which is packed as in the module.
  function automatic data_t lowest(input logic [8+32+512-1:0] of);
    return {of[551:544], of[512], of[256], of[0]};
  endfunction

  logic unused_patch_valid;
  patch_t unused_patch;

  ls_spv_patch #(
      .Depth(Depth)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .item_i,
      .block_i,
      .keep_i,
      .patch_valid_o(unused_patch_valid),
      .patch_ready_i,
      .patch_o(unused_patch)
  );

  // ---- reference ----

  logic is_start_q = 1'b1;
  count_t count_q;  // answers that were kept and have not left
  count_t pending_q, pending, next_pending;  // answers of a frame that is not decided
  logic is_marked_q, is_kept_q;
  count_t ahead_q;  // answers that leave before the marked one
  data_t marked_q, stored, answer;
  logic [2:0] idle_q;  // cycles in which a kept answer waited and none was at the output
  logic pop, marks, is_discarded;

  // The items begin 98 bytes after the beginning of a frame with the shortest headers; a beat has 64.
  logic [6:0] head;
  assign head = 7'd98 - 7'd64 + (item_i.is_vlan ? 7'd4 : 7'd0) + (item_i.is_v6 ? 7'd20 : 7'd0);
  assign stored = {item_i.is_last, head, block_i.height[24], block_i.hash[0], block_i.root[0]};
  assign answer = lowest(u_dut.ahead);
  assign pop = u_dut.ahead_valid && u_dut.ahead_ready;
  assign pending = item_i.valid && item_i.is_first ? '0 : pending_q;
  assign next_pending = pending + count_t'(item_i.valid);
  assign is_discarded = is_marked_q && !is_kept_q && item_i.valid && item_i.is_first;
  assign marks = item_i.valid && mark_i && (!is_marked_q || is_discarded);

  always_ff @(posedge clk_i) begin
    is_start_q <= 1'b0;
    if (!rst_ni) begin
      count_q <= '0;
      pending_q <= '0;
      is_marked_q <= 1'b0;
      is_kept_q <= 1'b0;
      idle_q <= '0;
    end else begin
      count_q <= count_q - count_t'(pop) + (keep_i ? next_pending : '0);
      pending_q <= keep_i ? '0 : next_pending;
      idle_q <= u_dut.ahead_valid || count_q == '0 ? 3'd0 : idle_q + 3'd1;
      if (marks) begin
        is_marked_q <= 1'b1;
        is_kept_q <= keep_i;
        marked_q <= stored;
        ahead_q <= count_q + pending - count_t'(pop);
      end else if (is_discarded) begin
        is_marked_q <= 1'b0;
      end else if (is_marked_q) begin
        is_kept_q <= is_kept_q || keep_i;
        if (pop && ahead_q == '0) is_marked_q <= 1'b0;
        ahead_q <= ahead_q - count_t'(pop);
      end
    end
  end

  // ---- answers without a pause ----

  // The answer that was stored last was the last one of its frame.
  logic stored_last_q;
  // The answer that was fetched last, or came last to the second register of the RAM, to the queue, to u_answer, or to
  // the patches, was not the last one of its frame.
  logic fetch_goes_on_q, ram_goes_on_q, ahead_goes_on_q, answer_goes_on_q, patch_goes_on_q;

  // Returns whether the answer at an address of the RAM is the last one of its frame.
  function automatic logic is_last_at(input logic [1:0] address);
    if (u_dut.is_written_q && u_dut.write_address_q == address) return u_dut.written_q.is_last;
    return u_dut.u_ram.memory[address][551];
  endfunction

  always_ff @(posedge clk_i) begin
    if (item_i.valid) stored_last_q <= item_i.is_last;
    if (!rst_ni) begin
      {fetch_goes_on_q, ram_goes_on_q, ahead_goes_on_q, answer_goes_on_q, patch_goes_on_q} <= '0;
    end else begin
      if (u_dut.fetch) fetch_goes_on_q <= !is_last_at(u_dut.read_q[1:0]);
      if (u_dut.fetched_q[0]) ram_goes_on_q <= !u_dut.u_ram.read_q[551];
      if (u_dut.fetched_q[1]) ahead_goes_on_q <= !u_dut.u_ram.out_q[551];
      if (pop) answer_goes_on_q <= !u_dut.ahead.is_last;
      if (u_dut.answer_valid && u_dut.answer_ready) patch_goes_on_q <= !u_dut.answer.is_last;
    end
  end

  // ---- statements ----

  count_t in_ahead, on_way, in_ram, readable, in_ram_at;
  logic [1:0] place;  // of the marked answer in the RAM
  assign in_ahead = count_t'(u_dut.u_ahead.count_o);
  assign on_way = count_t'(u_dut.fetched_q[0]) + count_t'(u_dut.fetched_q[1]);
  assign in_ram = count_t'(3'(u_dut.kept_q - u_dut.read_q));
  assign readable = count_t'(3'(u_dut.readable_q - u_dut.read_q));
  assign in_ram_at = ahead_q - in_ahead - on_way;
  assign place = 2'(u_dut.read_q + in_ram_at);

  always_comb begin
    assume (rst_ni == !is_start_q);
    if (!is_start_q) begin
      assume (!item_i.valid || in_ram + pending < count_t'(Depth));
      if (keep_i && next_pending != '0) assume (item_i.valid ? item_i.is_last : stored_last_q);

      if (count_q == '0) assert (!u_dut.ahead_valid);
      if (is_marked_q && is_kept_q && ahead_q == '0 && u_dut.ahead_valid) assert (answer == marked_q);
      if (is_marked_q && !is_kept_q && ahead_q == '0) assert (!u_dut.ahead_valid);
      assert (idle_q < 3'd5);
      if (patch_goes_on_q) assert (u_dut.answer_valid);

      // For the induction. An answer is in u_ahead, on its way there, or in the RAM.
      assert (in_ahead <= count_t'(8) && in_ram + pending_q <= count_t'(Depth));
      assert (3'(u_dut.u_ahead.count_q) == 3'(u_dut.u_ahead.write_q - u_dut.u_ahead.read_q));
      assert (u_dut.u_ahead.ready_q == (in_ahead != count_t'(8)) && u_dut.u_ahead.valid_q == (in_ahead != '0));
      assert (count_t'(u_dut.waiting_q) == in_ahead + on_way && in_ahead + on_way <= count_t'(8));
      assert (count_q == in_ahead + on_way + in_ram);
      // The RAM is never read where it is written.
      if (u_dut.is_written_q && u_dut.fetch) assert (u_dut.write_address_q != 2'(u_dut.read_q));
      assert (pending_q == count_t'(3'(u_dut.write_q - u_dut.kept_q)));
      // An answer that is on its way into the RAM is not read yet.
      assert (readable <= in_ram);
      if (u_dut.is_written_q) begin
        assert (u_dut.write_address_q == 2'(u_dut.write_q - 1'b1));
        assert (readable < in_ram + pending_q);
      end
      if (idle_q == 3'd1) assert (readable != '0 || on_way != '0 || in_ahead != '0);
      if (idle_q == 3'd2) assert (on_way != '0 || in_ahead != '0);
      if (idle_q == 3'd3) assert (u_dut.fetched_q[1] || in_ahead != '0);
      if (idle_q >= 3'd4) assert (in_ahead != '0);
      // The flags of the answers in the RAM: a frame becomes readable as a whole.
      if (pending_q != '0) assert (is_last_at(2'(u_dut.write_q - 1'b1)) == stored_last_q);
      if (in_ram != '0) assert (is_last_at(2'(u_dut.kept_q - 1'b1)));
      if (readable != '0) assert (is_last_at(2'(u_dut.readable_q - 1'b1)));
      if (fetch_goes_on_q) assert (readable != '0);
      // The flags on the way from there.
      if (u_dut.fetched_q[0]) assert (u_dut.u_ram.read_q[551] == !fetch_goes_on_q);
      else assert (ram_goes_on_q == fetch_goes_on_q);
      if (u_dut.fetched_q[1]) assert (u_dut.u_ram.out_q[551] == !ram_goes_on_q);
      else assert (ahead_goes_on_q == ram_goes_on_q);
      if (in_ahead != '0) begin
        assert (u_dut.u_ahead.memory[3'(u_dut.u_ahead.write_q-1'b1)].is_last == !ahead_goes_on_q);
      end else assert (answer_goes_on_q == ahead_goes_on_q);
      assert (u_dut.answer_valid || !u_dut.u_answer.spare_valid_q);
      if (u_dut.u_answer.spare_valid_q) assert (u_dut.u_answer.spare_q.is_last == !answer_goes_on_q);
      else if (u_dut.answer_valid) assert (u_dut.answer.is_last == !answer_goes_on_q);
      else assert (patch_goes_on_q == answer_goes_on_q);
      // A pause within a frame begins only where the queue is full, and the queue covers it.
      if (ram_goes_on_q && !u_dut.fetched_q[0]) assert (u_dut.waiting_q >= 4'd7);
      if (ahead_goes_on_q && !u_dut.fetched_q[1]) assert (u_dut.waiting_q >= 4'd6);
      if (answer_goes_on_q) assert (in_ahead != '0);
      if (is_marked_q) begin
        assert (is_kept_q ? ahead_q < count_q : ahead_q >= count_q && ahead_q < count_q + pending_q);
        if (ahead_q < in_ahead) begin
          assert (lowest(u_dut.u_ahead.memory[3'(u_dut.u_ahead.read_q+ahead_q[2:0])]) == marked_q);
        end else if (ahead_q < in_ahead + on_way) begin
          if (ahead_q == in_ahead && u_dut.fetched_q[1]) assert (lowest(u_dut.u_ram.out_q) == marked_q);
          else assert (lowest(u_dut.u_ram.read_q) == marked_q);
        end else if (u_dut.is_written_q && u_dut.write_address_q == place) begin
          assert (lowest(u_dut.written_q) == marked_q);
        end else begin
          assert (lowest(u_dut.u_ram.memory[place]) == marked_q);
        end
      end
    end
  end

endmodule
