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

  // Each stage is a variable of its own: Verilator copies one array of all stages twice in each cycle.
  for (genvar stage = 0; stage < Cycles; stage++) begin : gen_stage
    T data_d, data_q;
    if (stage == 0) begin : gen_first
      assign data_d = data_i;
    end else begin : gen_next
      assign data_d = gen_stage[stage-1].data_q;
    end
    always_ff @(posedge clk_i) data_q <= data_d;
  end

  assign data_o = gen_stage[Cycles-1].data_q;

endmodule
