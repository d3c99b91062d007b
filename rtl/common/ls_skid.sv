// SPDX-License-Identifier: Apache-2.0
//
// Skid buffer: breaks the combinational path of `ready` between two stages of a stream.
//
// Interface: ready/valid on both sides, as in ls_fifo. All outputs are registers.
// Latency: one cycle. Throughput: one entry in each cycle. Holds up to two entries.

module ls_skid #(
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

  T data_q, spare_q;
  logic valid_q, spare_valid_q;

  assign ready_o = !spare_valid_q;
  assign valid_o = valid_q;
  assign data_o  = data_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      spare_valid_q <= 1'b0;
    end else if (ready_i || !valid_q) begin
      // The output register is free: it takes the spare entry first, so that the order is kept.
      valid_q <= spare_valid_q || valid_i;
      spare_valid_q <= 1'b0;
    end else if (valid_i && !spare_valid_q) begin
      spare_valid_q <= 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (ready_i || !valid_q) data_q <= spare_valid_q ? spare_q : data_i;
    if (!spare_valid_q) spare_q <= data_i;
  end

`ifdef FORMAL
  // The proof follows one entry, as in ls_fifo.
  logic is_first_q = 1'b1;
  logic is_marked_q, was_waiting_q;
  logic [1:0] ahead_q;
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
    end else if (push && formal_mark_i && !is_marked_q) begin
      is_marked_q <= 1'b1;
      ahead_q <= 2'(valid_q) + 2'(spare_valid_q) - 2'(pop);
      marked_q <= data_i;
    end else if (is_marked_q && pop) begin
      if (ahead_q == 0) is_marked_q <= 1'b0;
      ahead_q <= ahead_q - 1'b1;
    end
  end

  always_comb begin
    assume (!is_first_q || !rst_ni);
    if (!is_first_q && rst_ni) begin
      assert (valid_q || !spare_valid_q);
      if (was_waiting_q) assert (valid_o && data_o == waiting_q);
      if (is_marked_q) begin
        assert (ahead_q < 2'(valid_q) + 2'(spare_valid_q));
        assert (ahead_q == 0 ? data_q == marked_q : spare_q == marked_q);
      end
    end
  end
`endif

endmodule
