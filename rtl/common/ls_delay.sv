// SPDX-License-Identifier: Apache-2.0
//
// Delay line: data_o is data_i of Cycles cycles ago. Without a reset, so that it fits into shift-register LUTs. With
// the style "ram", a line of RamCycles cycles or more is a ring in distributed RAM, for FPGAs without such LUTs.
// With SkipsIdle (see ls_pipeline_pkg), data_o is valid only Cycles cycles after valid_i was 1; otherwise valid_i has
// no effect. It has none with the style "ram".

module ls_delay #(
    parameter type T = logic,
    parameter int unsigned Cycles = 1,
`ifdef LS_SMALL_LUT_RAM
    parameter Style = "ram",
`else
    parameter Style = "registers",
`endif
    parameter int unsigned RamCycles = 6,  // 3 or more
    parameter bit SkipsIdle = 1'b0
) (
    input  logic clk_i,
    input  logic valid_i,
    input  T     data_i,
    output T     data_o
);

  if (Style == "ram" && Cycles >= RamCycles) begin : gen_ram
    localparam int unsigned Places = Cycles - 1;
    localparam int unsigned PlaceBits = $clog2(Places);

    (* ram_style = "distributed" *)
    T memory[Places];
    // Any value that it has at first leads to the ring, because the place after those of the ring is the first one.
    logic [PlaceBits-1:0] place_q;
    T data_q;
    logic unused_valid;

    assign unused_valid = valid_i;
    assign data_o = data_q;

    // The entry that is read is Places cycles old, and is replaced on the same clock edge.
    always_ff @(posedge clk_i) begin
      place_q <= place_q >= PlaceBits'(Places - 1) ? '0 : place_q + 1'b1;
      memory[place_q] <= data_i;
      data_q <= memory[place_q];
    end
  end else begin : gen_registers
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
  end

endmodule
