// SPDX-License-Identifier: Apache-2.0
//
// Delay line: data_o is data_i of Cycles cycles ago. Without a reset, so that it fits into shift-register LUTs.
// With SkipsIdle (see ls_pipeline_pkg), data_o is valid only Cycles cycles after valid_i was 1; otherwise valid_i has
// no effect.

module ls_delay #(
    parameter type T = logic,
    parameter int unsigned Cycles = 1,
    parameter bit SkipsIdle = 1'b0
) (
    input  logic clk_i,
    input  logic valid_i,
    input  T     data_i,
    output T     data_o
);

  // Each stage is a variable of its own: Verilator copies one array of all stages twice in each cycle.
  for (genvar stage = 0; stage < Cycles; stage++) begin : gen_stage
    logic valid_d, valid_q;  // without SkipsIdle, nothing depends on them
    T data_d, data_q;
    if (stage == 0) begin : gen_first
      assign valid_d = valid_i;
      assign data_d  = data_i;
    end else begin : gen_next
      assign valid_d = gen_stage[stage-1].valid_q;
      assign data_d  = gen_stage[stage-1].data_q;
    end
    always_ff @(posedge clk_i) begin
      valid_q <= valid_d;
      if (!SkipsIdle || valid_d) data_q <= data_d;
    end
  end

  assign data_o = gen_stage[Cycles-1].data_q;

endmodule
