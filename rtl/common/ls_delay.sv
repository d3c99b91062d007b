// SPDX-License-Identifier: Apache-2.0
//
// Delay line: data_o is data_i of Cycles cycles ago. Without a reset, so that it fits into shift-register LUTs.

module ls_delay #(
    parameter type T = logic,
    parameter int unsigned Cycles = 1
) (
    input  logic clk_i,
    input  T     data_i,
    output T     data_o
);

  T [Cycles-1:0] data_q;

  always_ff @(posedge clk_i) begin
    data_q[0] <= data_i;
    for (int unsigned i = 1; i < Cycles; i++) data_q[i] <= data_q[i-1];
  end

  assign data_o = data_q[Cycles-1];

endmodule
