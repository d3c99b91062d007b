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
    localparam int unsigned Bits = $bits(T);
    localparam int unsigned Places = Cycles - 1;
    localparam int unsigned PlaceBits = Places > 16 ? $clog2(Places) : 4;
    localparam int unsigned SparePlaces = (1 << PlaceBits) - Places;
    // Each segment has a ring and a place register of its own, because the wires of a single register would cross much
    // of the FPGA. The rings begin at different places, so that synthesis does not merge these registers.
    localparam int unsigned SegmentBits = 256;

    logic [Bits-1:0] data, data_q;
    logic unused_valid;

    assign unused_valid = valid_i;
    assign data = data_i;
    assign data_o = T'(data_q);

    for (genvar first_bit = 0; first_bit < Bits; first_bit += SegmentBits) begin : gen_segment
      localparam int unsigned Width = Bits - first_bit < SegmentBits ? Bits - first_bit : SegmentBits;
      localparam logic [PlaceBits-1:0] First = PlaceBits'((first_bit / SegmentBits) % (SparePlaces + 1));

      (* ram_style = "distributed" *)
      logic [Width-1:0] memory[1 << PlaceBits];
      // Any value that it has at first leads to the ring.
      logic [PlaceBits-1:0] place_q;

      // The entry that is read is Places cycles old, and is replaced on the same clock edge.
      always_ff @(posedge clk_i) begin
        place_q <= place_q - First >= PlaceBits'(Places - 1) ? First : place_q + 1'b1;
        memory[place_q] <= data[first_bit+:Width];
        data_q[first_bit+:Width] <= memory[place_q];
      end
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
