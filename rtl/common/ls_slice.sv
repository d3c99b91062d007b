// SPDX-License-Identifier: Apache-2.0
//
// Register slice: breaks the combinational path of the data and of `valid` between two stages of a stream, with one
// register for each bit. The path of `ready` goes through it; ls_skid breaks that path as well.
//
// Interface: ready/valid on both sides, as in ls_fifo.
// Latency: one cycle. Throughput: one entry in each cycle. Holds one entry.

module ls_slice #(
    parameter type T = logic [7:0]
) (
    input logic clk_i,
    input logic rst_ni,

`ifdef FORMAL
    input logic formal_mark_i,  // free: chooses the entry that the proof follows
`endif

    input  logic valid_i,
    output logic ready_o,
    input  T     data_i,

    output logic valid_o,
    input  logic ready_i,
    output T     data_o
);

  T data_q;
  logic valid_q;

  assign ready_o = ready_i || !valid_q;
  assign valid_o = valid_q;
  assign data_o  = data_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else if (ready_o) valid_q <= valid_i;
  end

  always_ff @(posedge clk_i) if (ready_o) data_q <= data_i;

`ifdef FORMAL
  // The proof follows one entry, as in ls_fifo: it is the next one that leaves, and unchanged.
  logic is_first_q = 1'b1;
  logic is_marked_q, was_waiting_q;
  T marked_q, waiting_q;
  logic push, pop;
  assign push = valid_i && ready_o;
  assign pop  = valid_o && ready_i;

  always_ff @(posedge clk_i) begin
    is_first_q <= 1'b0;
    was_waiting_q <= rst_ni && valid_o && !ready_i;
    waiting_q <= data_o;
    if (!rst_ni) begin
      is_marked_q <= 1'b0;
    end else if (push && formal_mark_i && (!is_marked_q || pop)) begin
      is_marked_q <= 1'b1;
      marked_q <= data_i;
    end else if (pop) begin
      is_marked_q <= 1'b0;
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q && rst_ni) begin
      if (was_waiting_q) assert (valid_o && data_o == waiting_q);
      if (is_marked_q) assert (valid_o && data_o == marked_q);
      // An entry is never taken in while another one waits.
      assert (!push || pop || !valid_o);
    end
  end
`endif

endmodule
