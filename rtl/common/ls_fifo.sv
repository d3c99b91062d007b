// SPDX-License-Identifier: Apache-2.0
//
// First-in-first-out queue with asynchronous read: for queues of up to 64 entries, in distributed RAM.
//
// Interface: ready/valid on both sides. An entry is taken in when valid_i and ready_o are 1 on a clock edge, and
// given out when valid_o and ready_i are 1. data_o is stable from valid_o until the entry is given out.
// ready_o, valid_o and count_o are registers. With HasRoom, the user of the module makes sure that there is room whenever
// valid_i is 1; the entry is taken in without a look at ready_o, which would be in the path to every bit of the memory.
// With WritesIdle, data_i is also written while valid_i is 0, to the next free place, where it has no effect; the write
// enable of the memory is then a register.
// Latency: an entry is visible at the output one cycle after it was taken in. Throughput: one entry in each cycle.

module ls_fifo #(
    parameter type T = logic [7:0],
    parameter int unsigned Depth = 4,  // power of two, 2 or more
    parameter bit HasRoom = 1'b0,
    parameter bit WritesIdle = 1'b0,
    localparam int unsigned AddressBits = $clog2(Depth)
) (
    input logic clk_i,
    input logic rst_ni,

`ifdef FORMAL_FIFO
    input logic formal_mark_i,  // free: chooses the entry that the proof follows
`endif
`ifdef FORMAL
    output T [Depth-1:0] entries_o,  // oldest first, for the proof of a module that uses the queue
`endif

    input  logic valid_i,
    output logic ready_o,
    input  T     data_i,

    output logic valid_o,
    input  logic ready_i,
    output T     data_o,

    output logic [AddressBits:0] count_o  // number of entries
);

  (* ram_style = "distributed" *)
  T memory[Depth];

  logic [AddressBits-1:0] write_q, read_q;
  logic [AddressBits:0] count_q;
  logic ready_q, valid_q, push, pop;

  assign count_o = count_q;
  assign ready_o = ready_q;
  assign valid_o = valid_q;
  assign data_o = memory[read_q];
  assign push = valid_i && (HasRoom || ready_q);
  assign pop = valid_q && ready_i;

  always_ff @(posedge clk_i) begin
    if (WritesIdle ? ready_q : push) memory[write_q] <= data_i;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_q <= '0;
      read_q  <= '0;
      count_q <= '0;
      ready_q <= 1'b1;
      valid_q <= 1'b0;
    end else begin
      if (push) write_q <= write_q + 1'b1;
      if (pop) read_q <= read_q + 1'b1;
      if (push && !pop) begin
        count_q <= count_q + 1'b1;
        ready_q <= count_q != (AddressBits + 1)'(Depth - 1);
        valid_q <= 1'b1;
      end else if (pop && !push) begin
        count_q <= count_q - 1'b1;
        ready_q <= 1'b1;
        valid_q <= count_q != (AddressBits + 1)'(1);
      end
    end
  end

`ifndef SYNTHESIS
  always_ff @(posedge clk_i)
    if (rst_ni) assert (!HasRoom || !valid_i || ready_q) else $error("an entry came without room for it");
`endif

`ifdef FORMAL
  for (genvar i = 0; i < int'(Depth); i++) begin : gen_entry
    assign entries_o[i] = memory[AddressBits'(read_q+AddressBits'(i))];
  end

  always_comb begin
    if (rst_ni) begin
      assert (count_q <= (AddressBits + 1)'(Depth));
      assert (AddressBits'(count_q) == AddressBits'(write_q - read_q));
      assert (ready_q == (count_q != (AddressBits + 1)'(Depth)));
      assert (valid_q == (count_q != '0));
      assert (!HasRoom || !push || ready_q);
    end
  end
`endif

`ifdef FORMAL_FIFO
  // The proof follows one entry, which formal_mark_i chooses freely: it leaves after exactly the entries that were
  // ahead of it, and unchanged. As any entry may be chosen, none is lost, doubled, reordered or changed.
  logic is_first_q = 1'b1;
  logic is_marked_q, was_waiting_q;
  logic [AddressBits:0] ahead_q;  // entries ahead of the marked one
  T marked_q, waiting_q;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_waiting_q <= rst_ni && valid_o && !ready_i;
    waiting_q <= data_o;
    if (!rst_ni) begin
      is_marked_q <= 1'b0;
    end else if (push && formal_mark_i && !is_marked_q) begin
      is_marked_q <= 1'b1;
      ahead_q <= count_q - (AddressBits + 1)'(pop);
      marked_q <= data_i;
    end else if (is_marked_q && pop) begin
      if (ahead_q == 0) is_marked_q <= 1'b0;
      ahead_q <= ahead_q - 1'b1;
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q && rst_ni) begin
      if (was_waiting_q) assert (valid_o && data_o == waiting_q);
      if (is_marked_q) begin
        assert (ahead_q < count_q);
        assert (memory[AddressBits'(read_q+ahead_q)] == marked_q);
        if (ahead_q == 0) assert (valid_o && data_o == marked_q);
      end
    end
  end
`endif

endmodule
