// SPDX-License-Identifier: Apache-2.0
//
// Clock in nanoseconds: adds a step in each cycle, and can be set.
//
// Interface: step_i is in units of 2^-24 ns. set_i is 1 for one cycle and sets the clock to set_ns_i two cycles later;
// it must not be 1 in two cycles in a row. now_ns_o never shows a mixture of two values.

module ls_clock (
    input logic clk_i,
    input logic rst_ni,

    input logic [31:0] step_i,
    input logic set_i,
    input logic [63:0] set_ns_i,

    output logic [63:0] now_ns_o
);

  localparam int unsigned FractionBits = 24;

  // The low half is one cycle ahead of the high half, so that a carry has a cycle of its own.
  logic [31+FractionBits:0] low_q;
  logic carry_q, is_set_q;
  logic [31:0] set_high_q, shown_q, high_q;

  assign now_ns_o = {high_q, shown_q};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      low_q <= '0;
      carry_q <= 1'b0;
      is_set_q <= 1'b0;
      shown_q <= '0;
      high_q <= '0;
    end else begin
      is_set_q <= set_i;
      if (set_i) {carry_q, low_q} <= {1'b0, set_ns_i[31:0], {FractionBits{1'b0}}};
      else {carry_q, low_q} <= (33 + FractionBits)'(low_q) + (33 + FractionBits)'(step_i);
      shown_q <= low_q[FractionBits+:32];
      high_q  <= is_set_q ? set_high_q : high_q + 32'(carry_q);
    end
  end

  always_ff @(posedge clk_i) set_high_q <= set_ns_i[63:32];

endmodule
