// SPDX-License-Identifier: Apache-2.0
//
// Proof of ls_ram_fifo: no entry is lost, doubled, reordered or changed; the output is stable until it is taken; an
// entry that waits is at the output after at most four cycles without one; the RAM is never read where it is written.
// The first three follow one entry, which mark_i chooses freely, as in ls_fifo. With Slack 1, the source has a
// register: it gives an entry one cycle after it has seen ready_o.

module ls_ram_fifo_proof #(
    parameter type T = logic [3:0],
    parameter int unsigned Depth = 4,
    parameter int unsigned Slack = 0
) (
    input logic clk_i,
    input logic rst_ni,

    input logic mark_i,
    input logic valid_i,
    input T data_i,
    input logic ready_i
);

  localparam int unsigned CountBits = 8;
  typedef logic [CountBits-1:0] count_t;

  logic ready, valid;
  T data;

  ls_ram_fifo #(
      .T(T),
      .Depth(Depth),
      .Slack(Slack)
  ) u_dut (
      .clk_i,
      .rst_ni,
      .valid_i,
      .ready_o(ready),
      .data_i,
      .valid_o(valid),
      .ready_i,
      .data_o (data)
  );

  logic is_first_q = 1'b1;
  logic push, pop, is_marked_q, was_waiting_q, was_ready_q;
  count_t count_q, ahead_q;  // entries in the queue, entries ahead of the marked one
  logic [2:0] idle_q;  // cycles in which an entry waited and none was at the output
  T marked_q, waiting_q;

  assign push = valid_i && (Slack != 0 || ready);
  assign pop  = valid && ready_i;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_ready_q <= rst_ni && ready;
    was_waiting_q <= rst_ni && valid && !ready_i;
    waiting_q <= data;
    if (!rst_ni) begin
      is_marked_q <= 1'b0;
      count_q <= '0;
      idle_q <= '0;
    end else begin
      count_q <= count_q + count_t'(push) - count_t'(pop);
      idle_q  <= valid || count_q == 0 ? 3'd0 : idle_q + 3'd1;
      if (push && mark_i && !is_marked_q) begin
        is_marked_q <= 1'b1;
        ahead_q <= count_q - count_t'(pop);
        marked_q <= data_i;
      end else if (is_marked_q && pop) begin
        if (ahead_q == 0) is_marked_q <= 1'b0;
        ahead_q <= ahead_q - 1'b1;
      end
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (Slack != 0 && !is_first_q) assume (!valid_i || was_ready_q);
    if (!is_first_q && rst_ni) begin
      if (was_waiting_q) assert (valid && data == waiting_q);
      if (count_q == 0) assert (!valid);
      if (count_q < count_t'(Depth - Slack)) assert (ready);
      if (push) assert (u_dut.stored_q < ($clog2(Depth) + 1)'(Depth));
      // The queue holds at least Depth entries, and an entry waits at most three cycles for the output.
      assert (idle_q < 3'd4);
      if (is_marked_q) begin
        assert (ahead_q < count_q);
        if (ahead_q == 0 && valid) assert (data == marked_q);
        if (ahead_q == 0 && !valid) assert (count_q != 0);
      end
    end
  end

  // Relations that make the induction possible. An entry is in u_ahead, on its way there, or in the RAM.
  count_t in_ahead, on_way, in_ram, in_ram_at;
  assign in_ahead = count_t'(u_dut.u_ahead.count_o);
  assign on_way = count_t'(u_dut.fetched_q[0]) + count_t'(u_dut.fetched_q[1]);
  assign in_ram = count_t'(u_dut.stored_q);
  assign in_ram_at = ahead_q - in_ahead - on_way;

  always_comb begin
    if (!is_first_q && rst_ni) begin
      assert (in_ahead <= count_t'(8) && in_ram <= count_t'(Depth));
      assert ($clog2(Depth)'(u_dut.stored_q) == $clog2(Depth)'(u_dut.write_q - u_dut.read_q));
      assert (u_dut.ready_q == (in_ram < count_t'(Depth - Slack)));
      if (Slack != 0 && was_ready_q) assert (in_ram < count_t'(Depth));
      assert (u_dut.is_stored_q == (in_ram != 0));
      if (u_dut.push && u_dut.fetch) assert (u_dut.write_q != u_dut.read_q);
      // u_ahead, as in its own proof.
      assert ($clog2(8)'(u_dut.u_ahead.count_q) == $clog2(8)'(u_dut.u_ahead.write_q - u_dut.u_ahead.read_q));
      assert (u_dut.u_ahead.ready_q == (in_ahead != count_t'(8)));
      assert (u_dut.u_ahead.valid_q == (in_ahead != 0));
      assert (count_t'(u_dut.waiting_q) == in_ahead + on_way);
      assert (count_t'(u_dut.waiting_q) <= count_t'(8));
      assert (count_q == in_ahead + on_way + in_ram);
      // The oldest entry moves on in each cycle.
      if (idle_q == 3'd1) assert (on_way != 0 || in_ahead != 0);
      if (idle_q == 3'd2) assert (u_dut.fetched_q[1] || in_ahead != 0);
      if (idle_q >= 3'd3) assert (in_ahead != 0);
      if (is_marked_q) begin
        if (ahead_q < in_ahead) begin
          assert (u_dut.u_ahead.memory[3'(u_dut.u_ahead.read_q+ahead_q[2:0])] == marked_q);
        end else if (ahead_q < in_ahead + on_way) begin
          if (ahead_q == in_ahead && u_dut.fetched_q[1]) assert (u_dut.u_ram.out_q == marked_q);
          else assert (u_dut.u_ram.read_q == marked_q);
        end else begin
          assert (u_dut.u_ram.memory[$clog2(Depth)'(u_dut.read_q+in_ram_at)] == marked_q);
        end
      end
    end
  end

endmodule
